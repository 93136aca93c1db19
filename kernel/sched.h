/*
 * The scheduler's doors to arch/ (boot, interrupts, context switch) and to /proc.
 * What everybody uses is in kernel/task.h.
 */
#ifndef KERNEL_SCHED_H
#define KERNEL_SCHED_H

#include "kernel/task.h"

/*
 * Boot CPU, after mm_init() and percpu_init(): the context that calls it becomes
 * the idle task of CPU 0, and cannot sleep; so do little and start a kernel thread
 * for the rest, then call cpu_idle().
 */
void sched_init(void);
/* Every other CPU, interrupts off: the context that calls it becomes its idle task. Then cpu_idle(). */
void sched_init_cpu(void);
/* One of the two above: it must not sleep. */
bool task_is_idle(const struct task *t);
/* The idle loop. */
void cpu_idle(void) __noreturn;

/* VEC_RESCHEDULE, interrupts off: look at the run queue, pass a quiescent state if RCU waits.
 * user: the interrupt came from user mode. */
void sched_interrupt(bool user);

/*
 * The first thing a task does, interrupts off: the lock of its run queue is still held by the switch. Lets
 * go of it and switches interrupts on.
 */
void sched_finish_switch(void);

/* From the timer interrupt: the slice set by timer_set_slice() is over. */
void sched_slice_over(void);

/* For /proc: */
u64 sched_switches(void);     /* context switches so far, all CPUs */
u32 sched_nr_running(void);   /* runnable tasks, all CPUs */
void sched_cpu_times(u32 cpu, u64 *user, u64 *nice, u64 *system, u64 *idle); /* ns */
void sched_loadavg(u64 load[3]); /* 1, 5, 15 minutes; units of 1/2048 */

#endif
