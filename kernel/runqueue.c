/*
 * The run queue of a CPU: its order, who comes and goes, and what tasks may set about it (nice, policy,
 * affinity). Switching is in sched.c, the choice of a CPU in place.c.
 *
 * Order: real-time tasks by priority, first come first served; then the rest by virtual run time. A newcomer starts
 * where the queue is; who wakes up gets a little credit, so that a task that sleeps much need not wait for those that
 * compute; nobody can save up more.
 */
#include "kernel/runqueue.h"

#include <asm/errno.h>

#include "arch/x86_64/clock.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/smp.h"

#define WAKE_CREDIT_NS 5000000UL /* a sleeper may be this much ahead of the others */
#define WAKE_MARGIN_NS 1000000UL /* ... and takes the CPU if by more than this */

__cacheline DEFINE_PER_CPU(struct run_queue, run_queue);

/* Weight of each nice value: a step is a quarter more, or a fifth less, CPU time. Constant after boot. */
static u32 weights[40];

void weights_init(void)
{
	weights[20] = 1024;
	for (int i = 20; i > 0; i--)
		weights[i - 1] = weights[i] * 5 / 4;
	for (int i = 20; i < 39; i++)
		weights[i + 1] = MAX(weights[i] * 4 / 5, 1u);
}

s64 ahead(const struct task *a, const struct task *b)
{
	return (s64)(b->vruntime - a->vruntime);
}

/* Must a run before b? */
static bool before(const struct task *a, const struct task *b)
{
	if (a->rt_priority != b->rt_priority)
		return a->rt_priority > b->rt_priority;
	return !is_rt(a) && ahead(a, b) > 0;
}

/* Behind all that are not after it. Who has just run goes far back, who wakes up far to the front. */
void queue_insert(struct run_queue *q, struct task *t)
{
	struct list *at = &q->queue;

	if (list_empty(&q->queue) || before(t, list_first(&q->queue, struct task, run_link))) {
		list_add(&q->queue, &t->run_link);
		return;
	}
	while (before(t, list_entry(at->prev, struct task, run_link)))
		at = at->prev;
	list_add_tail(at, &t->run_link);
}

void raise_min(struct run_queue *q, const struct task *t)
{
	if (!is_rt(t) && (s64)(t->vruntime - q->min_vruntime) > 0)
		q->min_vruntime = t->vruntime;
}

void count_runnable(struct run_queue *q, int change)
{
	q->nr += change;
	if (q->nr == (change > 0 ? 2 : 1))
		mark_overloaded(q, change > 0);
}

void enqueue(struct run_queue *q, struct task *t, enum enqueue_why why)
{
	u64 least = q->min_vruntime - (why == ENQUEUE_WAKE ? WAKE_CREDIT_NS : 0);
	struct task *curr = q->curr;

	if ((s64)(t->vruntime - least) < 0)
		t->vruntime = least;
	t->on_rq = true;
	queue_insert(q, t);
	count_runnable(q, 1);

	if (cpu_is_idle(q)) {
		resched(q);
		return;
	}
	if (t->rt_priority > curr->rt_priority ||
	    (!is_rt(curr) && ahead(t, curr) > (s64)WAKE_MARGIN_NS)) {
		resched(q);
		invite_idle(curr);
		return;
	}
	invite_idle(t);
	if (!q->slice_armed) {
		if (q->cpu == this_cpu()) {
			q->slice_armed = true;
			timer_set_slice(clock_ns() + SLICE_NS);
		} else {
			send_ipi(q->cpu, VEC_RESCHEDULE);
		}
	}
}

void dequeue(struct run_queue *q, struct task *t)
{
	list_del(&t->run_link);
	t->on_rq = false;
	count_runnable(q, -1);
}

void resched(struct run_queue *q)
{
	u32 *work = per_cpu_ptr(work_pending, q->cpu);
	u32 old = __atomic_fetch_or(work, WORK_RESCHED, __ATOMIC_SEQ_CST);

	/* Who set the bit has sent the interrupt, or is that CPU itself and will look. */
	if (!(old & WORK_RESCHED) && q->cpu != this_cpu())
		send_ipi(q->cpu, VEC_RESCHEDULE);
}

struct run_queue *lock_queue_of(const struct task *t)
{
	for (;;) {
		u32 cpu = READ_ONCE(t->cpu);
		struct run_queue *q = queue_of(cpu);

		spin_lock(&q->lock);
		if (likely(t->cpu == cpu))
			return q;
		spin_unlock(&q->lock);
	}
}

/* --- what tasks may set --------------------------------------------------------------- */

void sched_set_nice(struct task *t, int nice)
{
	u64 flags = irq_save();
	struct run_queue *q = lock_queue_of(t);

	t->nice = nice;
	t->weight = weights[nice + 20];
	spin_unlock_irqrestore(&q->lock, flags);
}

void sched_set_policy(struct task *t, int policy, int rt_priority)
{
	u64 flags = irq_save();
	struct run_queue *q = lock_queue_of(t);

	t->policy = policy;
	t->rt_priority = rt_priority;
	if (t->on_rq) {
		if (q->curr != t) {
			list_del(&t->run_link);
			queue_insert(q, t);
		}
		if (!cpu_is_idle(q))
			resched(q);
	}
	spin_unlock_irqrestore(&q->lock, flags);
}

int sched_set_affinity(struct task *t, const struct cpumask *mask)
{
	struct cpumask allowed = *mask;
	struct run_queue *q;
	bool may_stay, settled = false;
	u64 flags;

	for (int i = 0; i < CPUMASK_WORDS; i++)
		allowed.bits[i] &= cpus_online.bits[i];
	if (cpumask_empty(&allowed))
		return -EINVAL;

	flags = irq_save();
	q = lock_queue_of(t);
	t->affinity = allowed;
	may_stay = !t->on_rq || cpumask_test(&allowed, q->cpu);
	if (!may_stay && q->curr != t && may_move(t)) {
		dequeue(q, t);
		t->vruntime -= q->min_vruntime;
		send_to_cpu(q, t, place(t, false), ENQUEUE_MOVE);
		irq_restore(flags);
		return 0;
	}
	if (!may_stay && q->curr == t)
		resched(q); /* put_prev() sends it on */
	if (may_stay && t->on_rq && q->curr != t)
		invite_idle(t); /* it waits here, and may now run elsewhere */
	if (may_stay)
		settled = take_must_leave(t);
	else if (t != current)
		t->must_leave = true;
	spin_unlock_irqrestore(&q->lock, flags);
	if (settled)
		wake_up_all(&leave_wait);
	if (t == current)
		cond_resched();
	else if (!may_stay)
		wait_event(&leave_wait, !READ_ONCE(t->must_leave));
	return 0;
}
