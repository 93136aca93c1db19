/*
 * Help for self-tests: crews of threads. What a self-test is, is in printk.h.
 */
#ifndef KERNEL_SELFTEST_H
#define KERNEL_SELFTEST_H

#include "kernel/printk.h"
#include "kernel/task.h"

#define MS 1000000UL

/* What a member of a crew is told. */
struct member {
	void (*fn)(struct member *);
	void *arg;  /* the crew's */
	u32 index;  /* 0 .. size - 1 */
	struct task *task; /* good until crew_wait() returns */
};

/*
 * Start `count` threads that run fn, thread i pinned to the i-th online CPU (modulo their number) if
 * `pinned`, else free; and wait until all have returned. One crew at a time. Returns 0, or -ENOMEM when
 * not all could be started; those that were are waited for all the same.
 */
int crew_start(void (*fn)(struct member *), void *arg, u32 count, bool pinned);
void crew_wait(void);
struct member *crew_member(u32 index);
int crew_run(void (*fn)(struct member *), void *arg, u32 count, bool pinned);

u32 cpus_up(void);
/* Sleep, not interruptible. */
void sleep_ns(u64 ns);

#endif
