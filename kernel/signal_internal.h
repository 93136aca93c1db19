/*
 * Between signal.c (sending), sigtake.c (taking), sigcalls.c (system calls) and
 * exit.c. For everybody else: signal.h.
 */
#ifndef KERNEL_SIGNAL_INTERNAL_H
#define KERNEL_SIGNAL_INTERNAL_H

#include "kernel/signal.h"

#define SIG_FIRST_RT 32 /* the kernel's: libc keeps the first two or three for itself */
#define SIG_SYNCHRONOUS                                                                            \
	(SIGMASK(SIGSEGV) | SIGMASK(SIGBUS) | SIGMASK(SIGILL) | SIGMASK(SIGTRAP) |                 \
	 SIGMASK(SIGFPE) | SIGMASK(SIGSYS))
#define SIG_DEFAULT_IGNORE                                                                         \
	(SIGMASK(SIGCONT) | SIGMASK(SIGCHLD) | SIGMASK(SIGWINCH) | SIGMASK(SIGURG))
#define SIG_STOPPING                                                                               \
	(SIGMASK(SIGSTOP) | SIGMASK(SIGTSTP) | SIGMASK(SIGTTIN) | SIGMASK(SIGTTOU))

struct sigqueue *sigqueue_alloc(void); /* NULL if out of memory; sleeps */
void sigqueue_free(struct sigqueue *q);
void sigqueue_free_list(struct list *entries); /* and empty the list; no lock held */

/* May the current task send sig to p? */
bool signal_allowed(struct process *p, int sig);

/*
 * As signal_send(), under locks: *entry, if not NULL, is used for the payload and set
 * to NULL if it was; what is to be freed afterwards is added to garbage.
 */
int signal_send_with(struct process *p, struct task *t, int sig, const siginfo_t *info,
		     struct sigqueue **entry, struct list *garbage);

/* The same with the siglock held already. */
int signal_send_locked(struct process *p, struct task *t, int sig, const siginfo_t *info,
		       struct sigqueue **entry, struct list *garbage);

/* To all of a process group. check: only where signal_allowed(). 0, -ESRCH, -EPERM. */
int signal_group(int pgid, int sig, const siginfo_t *info, bool check);

/* The current task's alternate stack (sigaltstack(2)); sp: its stack pointer now. */
bool on_altstack(const struct task *t, vaddr_t sp);
u32 altstack_state(const struct task *t, vaddr_t sp); /* SS_DISABLE, SS_ONSTACK or 0 */
int altstack_set(const stack_t *new, vaddr_t sp);     /* 0, -EPERM, -EINVAL, -ENOMEM */
void altstack_get(stack_t *out, vaddr_t sp);

/* The rest: with the siglock held. */

/* Make t look at its signals; fatal: out of any sleep. */
void wake_for_signal(struct task *t, bool fatal);
/* Recompute sig_wanted of the current task, or of one that is not running. */
void recalc_wanted(struct task *t);
/* Take the current task's next signal in `wanted`: its number and *info, or 0. */
int signal_dequeue(u64 wanted, siginfo_t *info, struct list *garbage);
/* Throw away what is pending of mask. */
void flush_pending(struct sig_pending *pending, u64 mask, struct list *garbage);
void flush_all(struct process *p, u64 mask, struct list *garbage);
/* All threads are to leave with a code as wait(2) gives it. */
void start_group_exit(struct process *p, u32 code);
/* exec: all threads but the current one are to leave. */
void signal_kill_others(struct process *p);
/* A thread that is leaving (exiting is set) gives up its signals. */
void signal_thread_leaves(struct task *t, struct list *garbage);

/* Takes the siglock. False if a group exit or an exec is on already. */
bool signal_start_group_exit(struct process *p, u32 code);
/* A new action may make pending signals void. Takes the siglock. */
void signal_flush_ignored(struct process *p, int sig);

#endif
