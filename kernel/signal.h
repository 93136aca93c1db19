/*
 * Signals: sending, queueing, taking.
 *
 * A signal is pending on a thread or on a process; which thread of a process takes it is
 * decided when it is sent (who does not block it, the main thread first) and again when it is
 * taken. Everything pending is guarded by process->siglock, taken with interrupts off,
 * because timers send signals. task->sig_wanted says that the thread should look; it is what
 * signal_pending() tests, is set under the siglock and only ever errs towards true.
 *
 * A fatal signal becomes SIGKILL for every thread at once. SIGKILL wakes a
 * thread from any sleep; a wait that must not be cut short just goes on waiting.
 *
 * Source: signal(7), sigaction(2), rt_sigqueueinfo(2); POSIX.1-2017, 2.4.
 */
#ifndef KERNEL_SIGNAL_H
#define KERNEL_SIGNAL_H

#include <linux/signal.h>

#include "kernel/process.h"

/* Kernel's own count: the uapi _NSIG is what libc is told. */
#define NSIGNALS 64

#define SIGMASK(sig)   (1UL << ((sig)-1))
#define SIG_UNBLOCKABLE (SIGMASK(SIGKILL) | SIGMASK(SIGSTOP))

/* The actions of a process; shared by several with CLONE_SIGHAND. */
struct sighand {
	u32 refs;        /* atomic */
	spinlock_t lock; /* guards action; inside siglock */
	struct sigaction action[NSIGNALS];
};

/* One queued signal. */
struct sigqueue {
	struct list link;           /* siglock of the target; empty: not queued */
	struct process *charged;    /* whose nr_queued counts it; NULL: preallocated */
	struct posix_timer *timer;  /* came from a timer, which keeps the entry */
	siginfo_t info;
};

struct sighand *sighand_alloc(void);
void sighand_put(struct sighand *s);

/*
 * What a signal with nothing to say looks like: from the kernel, or from the current task
 * (kill).
 */
void siginfo_kernel(siginfo_t *info, int sig);
void siginfo_user(siginfo_t *info, int sig, int code);

/*
 * Send to a process (t NULL) or to one of its threads. sig 1..64. Returns 0; -EAGAIN: queue
 * full (real-time signals with a payload only). Takes the siglock; allocates, so not in
 * interrupts, but for SI_KERNEL and a signal that neither stops nor continues.
 * The caller holds a reference on p (and t).
 */
int signal_send(struct process *p, struct task *t, int sig, const siginfo_t *info);
/* Every member of a process group, as the terminal does it: SI_KERNEL. Takes the tree lock. */
void signal_pgrp(int pgid, int sig);
/*
 * An entry that the caller owns (timers). siglock held. Returns 0 queued, 1 ignored, -EBUSY
 * it is pending already.
 */
int signal_send_queue(struct process *p, struct task *t, struct sigqueue *q);

/*
 * A fault of the current task: cannot be blocked or ignored. trap number and error code are
 * what the signal frame shows. Interrupts on or off. The signal is taken on the way back to
 * user mode.
 */
void send_fault_signal(int signo, int code, u64 addr, u32 trapno, u64 error);
/* The same without an address: SI_KERNEL. */
void force_signal(int signo);

/* SIGKILL is pending: give up. Reads two words, takes no lock. */
bool fatal_signal_pending(const struct task *t);

/*
 * signal_deliver(), declared in task.h, takes what is pending for the current task: runs default
 * actions (the thread may end here, or stop and go on later), sets up handlers' frames
 * in regs. Interrupts on, no lock held. This one is for a system call that
 * returned -ERESTART...: decides between restart and -EINTR first.
 */
void signal_deliver_syscall(struct regs *regs);

/* Set the blocked mask of the current task. */
void signal_set_blocked(u64 mask);
/*
 * For ppoll, pselect, sigsuspend: block `mask` until the call is over; then the old mask is put
 * back, after any handler's frame has been made if the call ended with -ERESTARTNOHAND or -EINTR.
 */
int signal_set_user_mask(vaddr_t umask, size_t size);
void signal_restore_mask(bool interrupted);

/* Life. */
void signal_exec(struct task *t);  /* handlers to default, altstack off */
void signal_process_free(struct process *p);
/* Tell the parent that a child stopped or went on; and wake its waits. */
void signal_notify_stop(struct process *p, int code);
void signal_init(void);

/* sigframe.c: build the frame for a signal and point regs at the handler. 0 or -EFAULT. */
int sigframe_setup(struct regs *regs, int sig, const struct sigaction *action,
		   const siginfo_t *info, u64 saved_mask);

/* siglock of the process that sig concerns is held: */
bool signal_is_ignored(struct process *p, int sig);

#endif
