/*
 * Times as system calls give them: converting, deadlines.
 *
 * Inside the kernel all times are ns in a u64; deadlines are on the monotonic clock, and 0
 * means never, so a deadline that lies in the past is 1.
 */
#ifndef KERNEL_TIME_H
#define KERNEL_TIME_H

#include <linux/time_types.h>

#include "kernel/types.h"

#define NS_PER_SEC  1000000000UL
#define NS_PER_USEC 1000UL
#define NS_PER_TICK 10000000UL /* of clock_t: 100 a second */
#define NS_MAX      0x7fffffffffffffffUL

/* ns of a timespec or timeval, cut at NS_MAX. 0; -EINVAL if it is negative or not normalised. */
int timespec_to_ns(const struct __kernel_timespec *ts, u64 *ns);
struct __kernel_timespec ns_to_timespec(u64 ns);
int get_timespec(vaddr_t uts, u64 *ns);  /* also -EFAULT */
int put_timespec(vaddr_t uts, u64 ns);
int get_timeval(vaddr_t utv, u64 *ns);
int put_timeval(vaddr_t utv, u64 ns);

/* now + ns, cut at NS_MAX, at least 1. */
u64 deadline_after(u64 ns);
/* A relative timeout in user memory as deadline. 0, -EFAULT, -EINVAL. */
int deadline_from_user(vaddr_t uts, u64 *deadline);
/* An absolute time of a clock (CLOCK_REALTIME, CLOCK_MONOTONIC, ...) as deadline. */
u64 deadline_of_clock(int clock, u64 ns);

/*
 * Now, by one of CLOCK_*, the dynamic CPU clocks of other tasks included. 0 or -EINVAL.
 */
int clock_now(int clock, u64 *ns);
u64 clock_realtime_ns(void);

/* CPU time of all threads of the current process / of the current thread, up to this moment. */
struct task;
struct process;
u64 task_cpu_ns(struct task *t);
u64 process_cpu_ns(struct process *p, bool user_only);

#endif
