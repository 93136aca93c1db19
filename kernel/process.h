/*
 * Processes: what the threads of one program share, and the family tree.
 *
 * A process lives from fork until its parent has waited for it; its last thread may
 * be gone long before (a zombie). Numbers come from one table that holds both
 * threads and processes; a number is used again only when no thread, process,
 * process group or session has it.
 *
 * Locks, outermost first: the tree lock (tree_lock(), interrupts off), then the siglock of a
 * process (interrupts off: timers send signals), then wait and run queues.
 * Lookups by number take neither: they run under RCU and take a reference.
 */
#ifndef KERNEL_PROCESS_H
#define KERNEL_PROCESS_H

#include <linux/resource.h>

#include "kernel/list.h"
#include "kernel/lock.h"
#include "kernel/rcu.h"
#include "kernel/task.h"
#include "kernel/timer.h"
#include "kernel/wait.h"

#define PID_MAX      65536
#define PID_RESERVED 300 /* after a wrap, numbers below are not given again */
#define NGROUPS      32

struct sighand;
struct posix_timer;
struct sem_undo;
struct tty;
struct seq;

/* User and group identities. Own process writes, single words; nobody takes a lock to read. */
struct cred {
	u32 uid, euid, suid, fsuid;
	u32 gid, egid, sgid, fsgid;
	u32 groups[NGROUPS];
	u32 nr_groups;
};

/* CPU time and counts, for times(2), getrusage(2), wait4(2). */
struct usage {
	u64 user_ns, system_ns;
	u64 min_flt, maj_flt, nvcsw, nivcsw;
	u64 max_rss; /* pages; the largest, not a sum */
};

/* One of ITIMER_VIRTUAL and ITIMER_PROF; see ptimer.c. siglock. */
struct cpu_itimer {
	u64 expires, interval; /* ns of CPU time; 0 = off */
};

enum process_state {
	PROCESS_ALIVE,
	PROCESS_ZOMBIE, /* no thread left, not waited for */
	PROCESS_DEAD,   /* waited for, or nobody will */
};

struct process {
	int pid;  /* constant */
	u32 refs; /* atomic; freed by RCU at 0 */
	struct rcu_head rcu;

	/* Family: tree lock. */
	struct process *parent; /* readable under RCU */
	struct list children, sibling;
	int pgid, sid;          /* single words */
	struct list pgrp_link;
	struct list threads;    /* struct task, thread_link; written under tree lock and siglock */
	u32 nr_threads;         /* as threads */
	u32 live;               /* threads that have not begun to exit; siglock */
	struct task *leader;    /* NULL once it has exited; as threads */
	enum process_state state;
	int exit_signal;        /* to the parent: SIGCHLD, or what clone(2) said; 0 = none */
	u32 exit_code;          /* as wait(2) gives it; once a zombie */
	bool did_exec, subreaper;
	char comm[TASK_COMM];   /* of the last thread; once a zombie */
	struct tty *tty;        /* controlling terminal; ttyctl.c */

	/* Signals: siglock (signal.c). */
	spinlock_t siglock;
	struct sighand *sighand;
	struct sig_pending shared;  /* sent to the process, any thread takes them */
	u32 nr_queued;              /* queue entries charged to RLIMIT_SIGPENDING */
	bool group_exit;            /* every thread is on its way out, with group_code */
	u32 group_code;
	struct task *group_exec;    /* the thread that wants to be the only one */
	int stop_sig;               /* a group stop is in progress or done */
	u32 nr_stopped;
	bool stopped, stop_report, cont_report, cont_notify;
	bool unkillable;            /* PID 1: default actions do nothing */
	struct wait_queue stop_wait;  /* stopped threads */
	struct wait_queue child_wait; /* wait4: something happened to a child */
	u32 child_events;             /* atomic: how often; see child_event() */
	struct wait_queue exec_wait;  /* exec: another thread is gone */

	/* Limits: siglock to write; a torn pair does no harm. */
	struct rlimit64 rlim[RLIM_NLIMITS];

	/* Identity. */
	struct cred cred;
	bool no_dump;
	u32 personality;

	/* Time. */
	u64 start_ns;         /* monotonic */
	struct usage gone;    /* threads that have exited; siglock */
	struct usage reaped;  /* children waited for; siglock */
	struct mutex timer_mutex; /* setitimer and timer_*: one at a time */
	struct timer real_timer;  /* ITIMER_REAL */
	u64 real_expires, real_interval; /* siglock; monotonic ns, 0 = off */
	bool real_fired;          /* siglock; its signal is pending */
	struct cpu_itimer cpu_itimer[2]; /* VIRTUAL, PROF */
	struct timer cpu_timer;   /* drives the two, watches RLIMIT_CPU */
	struct list posix_timers; /* siglock */
	int next_timer_id;        /* siglock */

	struct list sem_undos;    /* sem.c; own threads, under sem_lock */
	int oom_score_adj;        /* single word */
};

/* The process of PID 1, once it runs. */
extern struct process *init_process;

u64 tree_lock(void); /* returns the flags for tree_unlock() */
void tree_unlock(u64 flags);

/* References. */
struct process *process_get(struct process *p);
void process_put(struct process *p);

/*
 * By number, with a reference, or NULL. process_by_pid() finds zombies too; what was waited
 * for is gone.
 */
struct process *process_by_pid(int pid);
struct task *task_by_tid(int tid);

/*
 * Iteration in order of pid, each with a reference (put it): the first process with number >=
 * pid, or NULL. for (p = process_next(1); p; p = process_after(p)) - process_after() puts its
 * argument.
 */
struct process *process_next(int pid);
struct process *process_after(struct process *p);
/* Threads of one process in the same way: the first with tid >= tid. Both take the siglock only. */
struct task *process_next_task(struct process *p, int tid);
/* Some live thread, preferably the leader, with a reference; NULL for a zombie. */
struct task *process_task(struct process *p);

/*
 * A number nobody has, held by one use: returns with the tree lock taken, and *flags for tree_unlock().
 * -EAGAIN if there is none, -ENOMEM: the lock is not taken. Sleeps.
 */
int pid_alloc(u64 *flags);
/* One more use, and one less; tree lock held. */
void pid_use(int pid);
void pid_unuse(int pid);
/* Enter into and take out of the table; tree lock held. */
void pid_set_task(int tid, struct task *t);
void pid_set_process(int pid, struct process *p);
/* Process groups: move p to group pgid (0 = leave only); tree lock held. */
void process_set_pgrp(struct process *p, int pgid);
void process_set_sid(struct process *p, int sid);
/* Call fn for each member of the group; tree lock held. Returns the number. */
unsigned pgrp_each(int pgid, void (*fn)(struct process *p, void *arg), void *arg);
/* True if no member has a parent in another group of the same session; tree lock held. */
bool pgrp_orphaned(int pgid, struct process *ignored);

/*
 * A child of p has become a zombie, or has stopped or gone on: whoever waits looks again. What is to be seen has
 * been stored before. With a reference on p, or inside rcu_read_lock(); any context.
 */
void child_event(struct process *p);

/* New process structure with all that needs no parent set up; NULL if out of memory. */
struct process *process_alloc(void);

/* Kill it: OOM, or anything in the kernel that has to. Takes the siglock, allocates nothing. */
void process_kill(struct process *p, int sig);

/* Sums over all threads, live and gone. */
void process_usage(struct process *p, struct usage *out);
void usage_add(struct usage *to, const struct usage *from);
void usage_of_task(struct task *t, struct usage *out);
/* To the user's struct rusage. 0 or -EFAULT. */
int usage_to_user(const struct usage *u, vaddr_t rusage);

static inline u64 rlimit_of(const struct process *p, unsigned which)
{
	return READ_ONCE(p->rlim[which].rlim_cur);
}
/* Soft limit of the current process; RLIM64_INFINITY for kernel threads. */
u64 rlimit(unsigned which);

static inline bool is_root(void)
{
	return !current->process || current->process->cred.euid == 0;
}

/* exit.c */
void thread_exit(u32 code) __noreturn; /* code as wait(2) gives it */
void process_exit(u32 code) __noreturn; /* all threads */

/*
 * exec.c: replace the current program by the one at `path` with kernel strings; init only. 0
 * or -errno.
 */
int exec_kernel(const char *path, const char *const *argv, const char *const *envp);

/* clone.c: the current task is about to leave its mm (exec, exit): tells whoever waits for that. */
void memory_release(void);

/* futex.c: what a leaving thread owes to others; before its memory goes. */
void futex_exit(struct task *t);
void futex_wake_user(vaddr_t uaddr); /* one waiter, whatever process it is in */
void futex_init(void);

/* ptimer.c */
void timers_exec(struct process *p); /* posix timers do not survive exec */
/* itimer.c: RLIMIT_CPU has been set; a new process may have inherited one. Both sleep. */
void cpu_limit_changed(struct process *p);
void cpu_limit_start(struct process *p);
void timers_exit(struct process *p); /* the last thread leaves */

/* sem.c: SEM_UNDO */
void sem_exit(struct process *p);

/* sysmisc.c: cryptographically strong random bytes; any context but interrupts. */
void random_bytes(void *buf, size_t n);

/*
 * procinfo.c: text of /proc/PID/{stat,status,cmdline,environ,limits,auxv}; t may be NULL
 * (zombie).
 */
void process_show_stat(struct process *p, struct task *t, struct seq *s);
void process_show_status(struct process *p, struct task *t, struct seq *s);
void process_show_cmdline(struct process *p, struct seq *s);
void process_show_environ(struct process *p, struct seq *s);
void process_show_limits(struct process *p, struct seq *s);
void process_show_auxv(struct process *p, struct seq *s);
/* Letter of the state: R S D T Z X. */
char process_state_letter(struct process *p, struct task *t);

/* init.c: start PID 1 from /init with the arguments { "/init", run }. */
void init_start(const char *run);

/* Boot: caches and tables of this room. */
void process_init(void);

#endif
