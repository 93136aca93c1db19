/*
 * Timers: per CPU, ordered by expiry, driven by the CPU's one-shot interrupt,
 * so that a CPU with nothing due takes none. Times are absolute, monotonic, ns.
 */
#ifndef KERNEL_TIMER_H
#define KERNEL_TIMER_H

#include "kernel/list.h"
#include "kernel/types.h"

struct timer {
	/* Guarded by the lock of queue `cpu`. */
	u64 expires;
	struct timer *child, *next, *prev; /* pairing heap, see timer.c */
	u32 cpu;
	bool armed;
	void (*func)(struct timer *); /* interrupt context, on the CPU that armed it */
};

void timer_init(struct timer *t, void (*func)(struct timer *));
/* Arm on this CPU, re-arm if armed; waits for a handler running elsewhere. A handler may arm its own timer. Any context. */
void timer_arm(struct timer *t, u64 expires_ns);
/*
 * Disarm; waits until a running handler is done, so the caller holds no lock that
 * the handler takes. True if it was still pending. The memory of a timer may
 * only go after this, never inside its handler.
 */
bool timer_cancel(struct timer *t);

/* The scheduler's own deadline on this CPU: when the slice ends; 0 = none. Interrupts off. */
void timer_set_slice(u64 deadline_ns);

/* Timer interrupts that a CPU has taken. */
u64 timer_interrupts(u32 cpu);

/* From VEC_TIMER: run what is due, preempt the running task, arm the next. Interrupts off. */
void timer_interrupt(bool user);

#endif
