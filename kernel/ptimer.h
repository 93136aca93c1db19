/* Interval timers of a process: ptimer.c. */
#ifndef KERNEL_PTIMER_H
#define KERNEL_PTIMER_H

#include "kernel/signal.h"

struct posix_timer;

/* The timer's signal is being taken: fill in the overrun, start the next interval. siglock held. */
void posix_timer_taken(struct posix_timer *pt, siginfo_t *info);
/* SIGALRM is being taken: ITIMER_REAL starts its next interval. siglock held. */
void real_timer_taken(struct process *p);
/* A new process's timers, all off. */
void timers_init(struct process *p);
void ptimer_init(void);

#endif
