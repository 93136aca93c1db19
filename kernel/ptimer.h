/*
 * Interval timers of a process: itimer.c (setitimer, alarm) and ptimer.c (timer_*).
 *
 * A periodic timer whose signal is still pending is not running: it starts again when the
 * signal is taken, which then tells how many intervals went by. So a short interval costs a
 * slow program signals, not interrupts.
 *
 * Timers on CPU time have no interrupt of their own. CPU time of a process passes no faster
 * than real time by the number of its threads, so the timer looks again when that could have
 * made it expire at the earliest.
 *
 * Locks: process->timer_mutex for everything that starts and stops timers; the siglock, which
 * handlers take (interrupt context), for the values. timer_cancel() waits for a handler, so it
 * is never called under the siglock; timer_arm() may be, as a handler that can still be running
 * has left the siglock for good: it takes it once, and says under it that the signal is sent.
 */
#ifndef KERNEL_PTIMER_H
#define KERNEL_PTIMER_H

#include "kernel/signal.h"

#define TIMER_MIN_INTERVAL 1000000UL /* ns between looks at CPU time, and of ignored signals */

struct posix_timer;

/* First multiple of the interval after now; *missed: how many were passed over. */
u64 timer_forward(u64 expires, u64 interval, u64 now, u64 *missed);
/* When `left` ns of CPU time can have passed at the earliest: a deadline. */
u64 timer_cpu_deadline(struct process *p, u64 left);

/* The timer's signal is taken: fill in the overrun, start the next interval. siglock held. */
void posix_timer_taken(struct posix_timer *pt, siginfo_t *info);
/* SIGALRM is being taken: ITIMER_REAL starts its next interval. siglock held. */
void real_timer_taken(struct process *p);
/* A new process's timers, all off; and off again when its last thread leaves. */
void timers_init(struct process *p);
void itimers_exit(struct process *p);
void ptimer_init(void);

#endif
