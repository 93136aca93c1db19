/*
 * Tasks: a thread each. What threads of one process share hangs off it by
 * pointer and count: address space, open files, directory and umask, signal
 * handlers, and the process itself.
 */
#ifndef KERNEL_TASK_H
#define KERNEL_TASK_H

#include "arch/x86_64/percpu.h"
#include "arch/x86_64/trap.h"
#include "kernel/cpumask.h"
#include "kernel/list.h"
#include "kernel/lock.h"
#include "kernel/rcu.h"
#include "kernel/timer.h"
#include "kernel/wait.h"

struct mm;
struct files;   /* kernel/file.h: open-file table */
struct fs;      /* kernel/file.h: cwd, umask */
struct process; /* below */
struct mempolicy;

/* One bit each, so that a waker can name several. */
enum task_state {
	TASK_RUNNING = 0,         /* running or on a run queue */
	TASK_INTERRUPTIBLE = 1,   /* wakes on a signal */
	TASK_UNINTERRUPTIBLE = 2,
	TASK_KILLABLE = 4,        /* wakes on a fatal signal */
	TASK_DEAD = 8,            /* will not run again; waiting to be reaped or freed */
};
#define TASK_SLEEPING (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE | TASK_KILLABLE)

/* Counters of an mm that each thread keeps for itself; the sum is exact when read (mm_counter()). */
enum mm_counter_kind {
	MM_ANON, MM_FILE, MM_SHMEM,             /* frames mapped, by kind */
	MM_TABLES,                              /* page-table pages */
	MM_VM, MM_LOCKED, MM_DATA, MM_STACK,    /* pages of address space, by kind */
	MM_AREAS,
	NR_MM_COUNTERS
};

#define KSTACK_SIZE (4 * 4096UL)
#define TASK_COMM   16

struct task {
	/* Scheduler: guarded by the lock of run queue `cpu`, but state (see sched.c). */
	u64 kernel_rsp; /* saved stack pointer while not running */
	volatile int state;
	u32 cpu;              /* whose run queue it is on or was last on */
	bool on_cpu, on_rq;   /* on_rq: runnable and on that queue, the running task included */
	bool must_leave;      /* on that queue against its affinity, and somebody waits until it is not */
	struct list run_link;
	struct task *wake_next; /* on a wake list; atomic: see wake_list_add() */
	struct cpumask affinity;
	u64 vruntime;         /* CPU time weighted by nice, ns; what the queue is ordered by */
	u32 weight;           /* of its nice value; nice 0 = 1024 */
	int nice, policy, rt_priority; /* set by sched_set_*() */
	u32 work;             /* atomic; WORK_SIGNAL: what work_pending gets whenever it runs */
	u64 last_switch_ns, user_ns, system_ns; /* CPU time until then; own CPU writes */
	u64 nvcsw, nivcsw;
	void (*kthread_fn)(void *); /* constant */
	void *kthread_arg;
	void *kstack;         /* lowest usable byte */
	void *fpu;            /* XSAVE area, 64-byte aligned; arch/x86_64/fpu.c */
	u64 fs_base, gs_base; /* user segment bases while not running */
	struct regs *user_regs; /* of the system call or trap from user mode in progress */

	/* Identity: constant while the task lives, unless said. */
	int tid;
	struct process *process;
	struct list thread_link; /* process->threads; tasklist lock */
	char comm[TASK_COMM];    /* own task writes */
	bool kthread;
	vaddr_t clear_child_tid, set_child_tid, robust_list;

	/* Memory: own task only, but for what is said in mm/mm.h. */
	struct mm *mm;         /* NULL for kernel threads and after exit_mm */
	struct list mm_link;   /* mm->tasks; mm->state_lock */
	s64 mm_counter[NR_MM_COUNTERS]; /* own task writes, anybody reads */
	u64 min_flt, maj_flt;
	struct area *area_cache;     /* of the last fault, while rcu_started() == area_cache_gp */
	u64 area_cache_gp;
	u32 mm_changing;             /* inside a change of areas: see mm/mmlock.h */
	vaddr_t map_hint, map_top;   /* address selection: below hint, in the stretch that ends at top */
	struct mempolicy *mempolicy; /* task policy, set_mempolicy(2) */
	u64 il_next;                 /* interleave position */
	int oom_score_adj;

	/* Files. */
	struct files *files;
	struct fs *fs;

	/* Signals: kernel/signal.h; process->siglock guards pending and blocked is own task's. */
	u64 sig_blocked, sig_saved_mask;
	u64 sig_awaited;  /* by sigtimedwait: taken whatever their action; siglock */
	bool sig_restore_mask;
	struct sig_pending {
		u64 set;
		struct list queue;
	} sig_pending;
	vaddr_t sas_sp;
	size_t sas_size;
	u32 sas_flags;
	bool sig_wanted;  /* signal_pending(); set under siglock */
	bool exiting;     /* takes no more signals; siglock */
	bool stopped;     /* in a group stop; siglock */
	int pdeath_signal;
	u64 fault_addr, fault_error; /* of the last fault, for the signal frame */
	u32 fault_trap;
	struct restart {  /* how restart_syscall(2) goes on; own task */
		long (*func)(struct restart *);
		u64 deadline_ns, val;
		vaddr_t addr;
		u32 flags, bitset;
		int clock;
	} restart;
	bool no_new_privs;
	u64 start_ns;     /* monotonic */

	struct vfork_done *vfork; /* parent to wake at exec or exit */
	u32 exit_code;
	u32 refs; /* atomic; freed by RCU at 0 */
	struct rcu_head rcu;
	u32 fail_nth; /* debug: this many allocations from now one fails; own task */
#ifdef DEBUG
	u32 nr_held;  /* sleeping locks held: lock_check.c; own task */
	struct held_lock held[MAX_HELD_SLEEPING];
#endif
};

DECLARE_PER_CPU(struct task *, current_task);
#define current this_cpu_read(current_task)

/*
 * Not 0: exit_to_user() has something to do. Other CPUs set WORK_RCU in it, so every change is one
 * locked instruction: work_set(), work_clear().
 */
DECLARE_PER_CPU(u32, work_pending);
#define WORK_RESCHED 1
#define WORK_SIGNAL  2 /* follows current->work at each switch */
#define WORK_RCU     4

static inline void work_set(u32 bits)
{
	__asm__ __volatile__("lock orl %1, %%gs:%0" : "+m"(work_pending) : "r"(bits) : "cc", "memory");
}
static inline void work_clear(u32 bits)
{
	__asm__ __volatile__("lock andl %1, %%gs:%0"
			     : "+m"(work_pending) : "r"(~bits) : "cc", "memory");
}

/* Life of a task structure (kernel/taskmem.c). */

/*
 * A new task: zeroed, with a kernel stack (near node), no FPU area, refs = 1, all CPUs allowed, state
 * TASK_UNINTERRUPTIBLE, not on any queue. NULL if out of memory. The caller fills it, lets
 * arch_task_init() prepare its first run, and calls sched_start(). The function that the first run
 * enters calls sched_finish_switch() before all else.
 */
struct task *task_alloc(const char *comm, int node);
void task_get(struct task *t);
/* Drop a reference; with the last one the structure goes after an RCU grace period. Any context. */
void task_put(struct task *t);
/* Scheduler (kernel/sched.c; more for arch/ and /proc in kernel/sched.h). */
void schedule(void);                      /* give up the CPU; returns when picked again */
bool schedule_until(u64 deadline_ns);     /* schedule(), false if the deadline (0 = none) passed without a wake-up */
/* Make it runnable if it sleeps; any context. Wake-ups may come late, when the task
 * has long gone on: whoever sleeps looks at what it waits for again. */
void wake_task(struct task *t);
bool wake_task_state(struct task *t, int states); /* only if it sleeps in one of these; true if so */

/*
 * Tasks to wake when a lock has been let go of, in the order in which they were added: on the stack of who
 * wakes them. From the first wake_list_add() to the end of wake_list_run() the caller is inside
 * rcu_read_lock(), which keeps the tasks; they may have woken, and exited, meanwhile.
 */
struct wake_list {
	struct task *first, **end;
};
static inline void wake_list_init(struct wake_list *l)
{
	l->first = NULL;
	l->end = &l->first;
}
void wake_list_add(struct wake_list *l, struct task *t); /* nothing if it is on anybody's list already */
void wake_list_run(struct wake_list *l);
void sched_start(struct task *t);         /* first time on a run queue; the queue takes a reference of its own */
void cond_resched(void);                  /* in long loops: schedule if asked to; no lock held */
void sched_yield(void);                   /* let everybody else on this CPU run first */
/* -EINVAL if no online CPU is in the mask; else 0, once the task has left a forbidden CPU: running in user
 * mode it does so at once, in the kernel at its next switch. Sleeps until then. */
int sched_set_affinity(struct task *t, const struct cpumask *mask);
void sched_set_nice(struct task *t, int nice); /* -20 .. 19 */
/* SCHED_* as in Linux; rt_priority 1..99 for SCHED_FIFO and SCHED_RR, else 0. Caller has checked. */
void sched_set_policy(struct task *t, int policy, int rt_priority);

/* A running kernel thread; it ends when fn returns. The pointer is good while it lives. NULL: out of memory. */
struct task *kthread_create(const char *name, void (*fn)(void *), void *arg, int cpu /* -1 = any */);
/* The same, not started: the caller has the one reference and calls sched_start(). */
struct task *kthread_prepare(const char *name, void (*fn)(void *), void *arg, int cpu);

/*
 * Signals have come or gone. task_notify: t has something to look at: wake it if it sleeps in one of
 * `states`, or make its CPU pass exit_to_user(), which then calls signal_deliver(). Any context.
 * task_unnotify: the current task has nothing to look at any more.
 */
void task_notify(struct task *t, int states);
void task_unnotify(void);
/* Process: kernel/signal.c. signal_deliver acts on all pending and unblocked signals; before it
 * is called task_unnotify() has been. */
void signal_deliver(struct regs *regs);

/* Set the current task's state before it looks at what it waits for: see sched.c, "Sleeping". */
static inline void set_current_state(int state)
{
	__atomic_store_n(&current->state, state, __ATOMIC_SEQ_CST);
}

/* CPU time of a task until now, ns. */
void task_times(const struct task *t, u64 *user_ns, u64 *system_ns);

bool signal_pending(const struct task *t);

#endif
