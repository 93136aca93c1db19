/*
 * Timers: per CPU, ordered by expiry, driven by the CPU's one-shot interrupt,
 * so that a CPU with nothing due takes none. Times are absolute, monotonic, ns.
 */
#ifndef KERNEL_TIMER_H
#define KERNEL_TIMER_H

#include "kernel/list.h"
#include "kernel/types.h"

struct timer {
	u64 expires;
	void (*func)(struct timer *); /* interrupt context, on the CPU that armed it */
	struct timer *heap_or_link[3]; /* the queue's own */
	u32 cpu;
	bool armed; /* guarded by the queue lock of that CPU */
};

void timer_init(struct timer *t, void (*func)(struct timer *));
void timer_arm(struct timer *t, u64 expires_ns); /* re-arms if armed */
/* Disarm; waits until a running handler is done. True if it was still pending. */
bool timer_cancel(struct timer *t);

void timer_interrupt(void); /* from VEC_TIMER: run what is due, preempt the running task, arm the next */

#endif
