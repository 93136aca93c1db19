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

enum task_state {
	TASK_RUNNING,         /* running or on a run queue */
	TASK_INTERRUPTIBLE,   /* wakes on a signal */
	TASK_UNINTERRUPTIBLE,
	TASK_DEAD,            /* waiting to be reaped or freed */
};

/* Counters of an mm that each thread keeps for itself; the sum is exact when read (mm_counter()). */
enum mm_counter_kind { MM_ANON, MM_FILE, MM_SHMEM, MM_TABLES, NR_MM_COUNTERS };

#define KSTACK_SIZE (4 * 4096UL)
#define TASK_COMM   16

struct task {
	/* Scheduler: guarded by the lock of run queue `cpu`, but state (see sched.c). */
	u64 kernel_rsp; /* saved stack pointer while not running */
	volatile int state;
	u32 cpu;              /* whose run queue it is on or was last on */
	bool on_cpu, on_rq;
	struct list run_link;
	struct cpumask affinity;
	u64 slice_end;
	int nice, policy, rt_priority;
	u64 last_switch_ns, user_ns, system_ns; /* CPU time; own CPU writes */
	u64 nvcsw, nivcsw;
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
	struct mempolicy *mempolicy; /* task policy, set_mempolicy(2) */
	u64 il_next;                 /* interleave position */
	int oom_score_adj;
	bool oom_victim;

	/* Files. */
	struct files *files;
	struct fs *fs;

	/* Signals: kernel/signal.h; process->siglock guards pending and blocked is own task's. */
	u64 sig_blocked, sig_saved_mask;
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

	/* futex.c: what the task waits on. */
	struct futex_wait *futex;
	struct vfork_done *vfork; /* parent to wake at exec or exit */
	u32 exit_code;
	u32 refs; /* atomic; freed by RCU at 0 */
	struct rcu_head rcu;
	u32 rcu_depth; /* debug */
};

DECLARE_PER_CPU(struct task *, current_task);
#define current this_cpu_read(current_task)

/* Not 0: exit_to_user() has something to do. Set by timer, IPI handlers, signals. */
DECLARE_PER_CPU(u32, work_pending);
#define WORK_RESCHED 1
#define WORK_SIGNAL  2
#define WORK_RCU     4

/* Scheduler (kernel/sched.c). */
void sched_init(void);
void schedule(void);                      /* give up the CPU; returns when picked again */
bool schedule_until(u64 deadline_ns);     /* schedule(), false if the deadline (0 = none) passed without a wake-up */
void wake_task(struct task *t);           /* make it runnable if it sleeps; any context */
bool wake_task_state(struct task *t, int mask_state); /* only if in that state */
void sched_start(struct task *t);         /* first time on a run queue */
void cond_resched(void);                  /* in long loops: schedule if asked to; no lock held */
int sched_set_affinity(struct task *t, const struct cpumask *mask);
struct task *kthread_create(const char *name, void (*fn)(void *), void *arg, int cpu /* -1 = any */);
void cpu_idle(void) __noreturn;

/* User/system time: called at each entry to and return from the kernel. */
bool signal_pending(const struct task *t);

#endif
