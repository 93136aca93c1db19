/*
 * Timers: one queue per CPU, a pairing heap by expiry.
 *
 * A node's `child` is its first child, `next` the next sibling, `prev` the sibling before it, or the parent for
 * a first child; the root has neither. So any node can be cut out in place. Adding costs one
 * comparison, removing log n on average (Fredman, Sedgewick, Sleator, Tarjan, "The pairing heap", 1986).
 *
 * The hardware timer of a CPU is set to the earliest of: the first of its queue, and the end of the running task's
 * slice (timer_set_slice). It is only ever moved to an earlier time; a deadline that has been called
 * off costs at most one interrupt for nothing, which is cheaper than writing the hardware at each switch.
 *
 * Locks: the queue's own, interrupts off, RANK_TIMER; handlers run without it. timer->cpu says whose queue
 * (and lock) a timer belongs to, armed or not; it changes under the old queue's lock. So
 * whoever holds the lock of queue `cpu` and finds timer->cpu still the same, owns the timer.
 */
#include "kernel/timer.h"

#include "arch/x86_64/clock.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/percpu.h"
#include "kernel/lock.h"
#include "kernel/printk.h"
#include "kernel/rcu.h"
#include "kernel/sched.h"

DEFINE_LOCK_CLASS(timer_class, "timer", RANK_TIMER);

struct timer_queue {
	spinlock_t lock; /* guards root, running and the timers */
	bool ready;      /* lock has its class; own CPU */
	struct timer *root;
	struct timer *running; /* its handler is being called */

	/* Own CPU, interrupts off. */
	u64 slice;      /* 0 = none */
	u64 programmed; /* what the hardware is set to; 0 = off */
	u64 interrupts;
};

static __cacheline DEFINE_PER_CPU(struct timer_queue, timer_queue);

/* --- the heap ----------------------------------------------------------------------- */

/* Both are roots (or NULL); the later becomes the first child of the earlier. */
static struct timer *meld(struct timer *a, struct timer *b)
{
	if (!a)
		return b;
	if (!b)
		return a;
	if (b->expires < a->expires) {
		struct timer *t = a;

		a = b;
		b = t;
	}
	b->prev = a;
	b->next = a->child;
	if (a->child)
		a->child->prev = b;
	a->child = b;
	a->next = a->prev = NULL;
	return a;
}

/* Siblings to one tree: pairs from the left, then together from the right. */
static struct timer *meld_siblings(struct timer *first)
{
	struct timer *pairs = NULL, *result = NULL;

	while (first) {
		struct timer *a = first, *b = a->next;

		first = b ? b->next : NULL;
		a->next = a->prev = NULL;
		if (b)
			b->next = b->prev = NULL;
		a = meld(a, b);
		a->next = pairs; /* a stack of pairs */
		pairs = a;
	}
	while (pairs) {
		struct timer *a = pairs;

		pairs = a->next;
		a->next = NULL;
		result = meld(result, a);
	}
	return result;
}

static void heap_insert(struct timer_queue *q, struct timer *t)
{
	t->child = t->next = t->prev = NULL;
	q->root = meld(q->root, t);
	t->armed = true;
}

static void heap_remove(struct timer_queue *q, struct timer *t)
{
	struct timer *children = meld_siblings(t->child);

	if (t == q->root) {
		q->root = children;
	} else {
		if (t->prev->child == t)
			t->prev->child = t->next;
		else
			t->prev->next = t->next;
		if (t->next)
			t->next->prev = t->prev;
		q->root = meld(q->root, children);
	}
	t->child = t->next = t->prev = NULL;
	t->armed = false;
}

/* --- the hardware ----------------------------------------------------------------------- */

/* On the queue's own CPU, with its lock. */
static void program(struct timer_queue *q)
{
	struct timer *first = q->root;
	u64 next = q->slice;

	if (first) {
		u64 expires = MAX(first->expires, 1UL);

		next = next ? MIN(next, expires) : expires;
	}
	if (next && (!q->programmed || next < q->programmed)) {
		q->programmed = next;
		clock_set_next(next);
	}
}

void timer_set_slice(u64 deadline_ns)
{
	struct timer_queue *q = this_cpu_ptr(timer_queue);

	q->slice = deadline_ns;
	if (deadline_ns && (!q->programmed || deadline_ns < q->programmed)) {
		q->programmed = deadline_ns;
		clock_set_next(deadline_ns);
	}
}

/* --- arming and disarming ------------------------------------------------------------- */

void timer_init(struct timer *t, void (*func)(struct timer *))
{
	*t = (struct timer){ .func = func, .cpu = this_cpu() };
}

/* Lock the queue that the timer belongs to; interrupts are off. */
static struct timer_queue *lock_queue_of(const struct timer *t)
{
	for (;;) {
		u32 cpu = READ_ONCE(t->cpu);
		struct timer_queue *q = per_cpu_ptr(timer_queue, cpu);

		spin_lock(&q->lock);
		if (t->cpu == cpu)
			return q;
		spin_unlock(&q->lock);
	}
}

/* Its handler is running, and not as our own caller. */
static bool running_elsewhere(const struct timer_queue *q, const struct timer *t)
{
	return q->running == t && q != this_cpu_ptr(timer_queue);
}

void timer_arm(struct timer *t, u64 expires_ns)
{
	struct timer_queue *mine, *q;
	u64 flags;

again:
	flags = irq_save();
	mine = this_cpu_ptr(timer_queue);
	if (unlikely(!mine->ready)) {
		spin_init(&mine->lock, &timer_class);
		mine->ready = true;
	}
	for (;;) {
		q = lock_queue_of(t);
		if (running_elsewhere(q, t)) {
			spin_unlock(&q->lock);
			irq_restore(flags);
			cpu_relax();
			goto again;
		}
		if (t->armed)
			heap_remove(q, t);
		if (q == mine)
			break;
		WRITE_ONCE(t->cpu, this_cpu());
		spin_unlock(&q->lock);
	}
	t->expires = expires_ns;
	heap_insert(q, t);
	if (q->root == t && !q->running) /* else timer_interrupt() does it at its end */
		program(q);
	spin_unlock(&q->lock);
	irq_restore(flags);
}

bool timer_cancel(struct timer *t)
{
	bool was_armed = false, running;

	do {
		u64 flags = irq_save();
		struct timer_queue *q = lock_queue_of(t);

		if (t->armed) {
			heap_remove(q, t);
			was_armed = true;
		}
		running = running_elsewhere(q, t);
		spin_unlock(&q->lock);
		irq_restore(flags);
		if (running)
			cpu_relax();
	} while (running);
	return was_armed;
}

void timer_interrupt(bool user)
{
	struct timer_queue *q = this_cpu_ptr(timer_queue);
	bool idle = rcu_irq_enter();
	u64 now;

	q->interrupts++;
	q->programmed = 0;
	now = clock_ns();
	spin_lock(&q->lock);
	while (q->root && q->root->expires <= now) {
		struct timer *t = q->root;

		heap_remove(q, t);
		q->running = t;
		spin_unlock(&q->lock);
		t->func(t);
		spin_lock(&q->lock);
		q->running = NULL; /* t may be gone as soon as the lock is free */
	}
	if (q->slice && q->slice <= now) {
		q->slice = 0;
		sched_slice_over();
	}
	program(q);
	spin_unlock(&q->lock);

	if (user)
		rcu_quiescent();
	rcu_irq_exit(idle);
}

u64 timer_interrupts(u32 cpu)
{
	return READ_ONCE(per_cpu(timer_queue, cpu).interrupts);
}
