/*
 * The scheduler: who runs on this CPU next, and the switch.
 *
 * A run queue per CPU. The kernel is not preempted: a task loses the CPU in
 * schedule(), in cond_resched(), or on its way to user mode (entry.c). Real-time tasks (SCHED_FIFO, SCHED_RR) come
 * first, by priority; then the rest by virtual run time, CPU time divided by weight, so that everybody gets a
 * share according to nice. A task runs for a slice (SLICE_NS) if another waits; the timer for it is
 * armed only then, so a CPU with one task takes no interrupt.
 *
 * Sleeping. The sleeper:                     The waker:
 *     set_current_state(SLEEPING)                make the condition true
 *     (full barrier)                             (full barrier)
 *     if the condition is true: do not sleep     wake_task(): if state is SLEEPING,
 *     schedule()                                     lock its queue; state = RUNNING; queue it
 *
 * One of the two sees the other's store. schedule() looks at the state under the lock of the
 * run queue, and the waker changes it under the same lock: the task is either still on the queue
 * (it has not got to schedule() yet, and finds itself RUNNING there), or it is off, and the waker queues it.
 *
 * Off the queue means off the CPU: the lock is held from taking the task off, over the switch of stacks, until the
 * next task lets go of it (sched_finish_switch). So a waker that has the lock and finds the task off the queue can
 * send it to another CPU at once, which will find all registers saved.
 *
 * Changing CPU. t->cpu names the queue whose lock guards t. It changes under that lock, while t is on no
 * queue; then t->state is RUNNING, so no other waker touches it, until the one who moves it has the lock of the
 * new queue (send_to_cpu). A task that was preempted between setting its state and schedule() stays where it is
 * (may_move).
 *
 * Locks: one run queue at a time (RANK_RUNQUEUE), interrupts off.
 */
#include "kernel/runqueue.h"

#include <asm/errno.h>
#include <linux/sched.h>

#include "arch/x86_64/clock.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/smp.h"
#include "arch/x86_64/task.h"
#include "kernel/printk.h"
#include "kernel/rcu.h"
#include "kernel/signal.h"
#include "kernel/string.h"
#include "mm/mm.h"

DEFINE_LOCK_CLASS(runqueue_class, "runqueue", RANK_RUNQUEUE);
struct wait_queue leave_wait;

DEFINE_PER_CPU(struct task *, current_task);
DEFINE_PER_CPU(u32, work_pending);
static DEFINE_PER_CPU(struct task, idle_task);

/* --- time --------------------------------------------------------------------------- */

/* Charge the running task until now. Lock held. */
static void charge(struct run_queue *q, u64 now)
{
	struct task *t = q->curr;
	u64 ns = now - t->last_switch_ns, user = t->user_ns, system = t->system_ns;

	account_switch(t, ns);
	WRITE_ONCE(t->last_switch_ns, now);
	if (t == q->idle) {
		q->idle_ns += ns;
		return;
	}
	if (t->nice > 0)
		q->nice_ns += t->user_ns - user;
	else
		q->user_ns += t->user_ns - user;
	q->system_ns += t->system_ns - system;
	t->vruntime += t->weight == 1024 ? ns : ns * 1024 / t->weight;
}

void task_times(const struct task *t, u64 *user_ns, u64 *system_ns)
{
	u64 extra = 0, flags;

	if (t == current) {
		struct run_queue *q;

		flags = irq_save();
		q = this_cpu_ptr(run_queue);
		spin_lock(&q->lock);
		charge(q, clock_ns());
		spin_unlock_irqrestore(&q->lock, flags);
	} else if (READ_ONCE(t->on_cpu)) {
		/* Only its own CPU knows how this divides: call it the user's. */
		u64 since = READ_ONCE(t->last_switch_ns), now = clock_ns();

		extra = READ_ONCE(t->on_cpu) && now > since ? now - since : 0;
	}
	*user_ns = t->user_ns + extra;
	*system_ns = t->system_ns;
}

/* --- the switch ----------------------------------------------------------------------- */

/* May go on a slice, if others wait. Lock held, own CPU. */
static void set_slice(struct run_queue *q, u64 now)
{
	bool wanted = q->nr >= 2;

	if (wanted || q->slice_armed)
		timer_set_slice(wanted ? now + SLICE_NS : 0);
	q->slice_armed = wanted;
}

/* work_pending says what the task that runs has to look at. Lock held: task_notify() takes it too. */
static void set_signal_work(const struct task *t)
{
	u32 want = READ_ONCE(t->work), have = this_cpu_read(work_pending) & WORK_SIGNAL;

	if (want == have)
		return;
	if (want)
		work_set(WORK_SIGNAL);
	else
		work_clear(WORK_SIGNAL);
}

/* On the stack of the task that now runs; the lock of this CPU's queue is still held from its predecessor. */
static void finish_switch(void)
{
	struct run_queue *q = this_cpu_ptr(run_queue);
	struct task *prev = q->switched_from;
	bool push = q->push, dead = prev->state == TASK_DEAD, left;

	smp_store_release(&prev->on_cpu, false);
	q->push = false;
	if (push) {
		prev->vruntime -= q->min_vruntime;
		send_to_cpu(q, prev, place(prev, false), ENQUEUE_MOVE);
	} else {
		left = !prev->on_rq && take_must_leave(prev);
		spin_unlock(&q->lock);
		if (unlikely(left))
			wake_up_all(&leave_wait);
	}
	if (dead)
		task_put(prev); /* the reference of sched_start() */
}

void sched_finish_switch(void)
{
	finish_switch();
	irq_enable();
}

/* The running task stops running: back to the queue, to another CPU, or to sleep. */
static void put_prev(struct run_queue *q, struct task *prev, bool preempted)
{
	int state = prev->state;

	if (state != TASK_RUNNING && !preempted) {
		if (!(state == TASK_INTERRUPTIBLE && READ_ONCE(prev->work)) &&
		    !(state == TASK_KILLABLE && fatal_signal_pending(prev))) {
			prev->on_rq = false;
			prev->nvcsw++;
			count_runnable(q, -1);
			return;
		}
		prev->state = TASK_RUNNING;
	}
	if (unlikely(!cpumask_test(&prev->affinity, q->cpu)) && may_move(prev)) {
		prev->on_rq = false;
		count_runnable(q, -1);
		q->push = true;
		return;
	}
	queue_insert(q, prev);
}

static void switch_tasks(bool preempted)
{
	struct run_queue *q;
	struct task *prev = current, *next;
	u64 flags, now;

	lock_assert_none();
	rcu_assert_none();
	flags = irq_save();
	rcu_quiescent();
	q = this_cpu_ptr(run_queue);
	spin_lock(&q->lock);
	work_clear(WORK_RESCHED);
	now = clock_ns();
	charge(q, now);

	if (prev != q->idle)
		put_prev(q, prev, preempted);
	else if (prev->state != TASK_RUNNING)
		panic("the idle task wants to sleep");
	if (list_empty(&q->queue)) {
		next = q->idle;
	} else {
		next = list_first(&q->queue, struct task, run_link);
		list_del(&next->run_link);
		raise_min(q, next);
	}
	set_slice(q, now);
	if (next == prev) {
		spin_unlock_irqrestore(&q->lock, flags);
		return;
	}

	if (prev->on_rq)
		prev->nivcsw++;
	q->switches++;
	q->curr = next;
	q->switched_from = prev;
	WRITE_ONCE(next->on_cpu, true);
	next->last_switch_ns = now;
	set_signal_work(next);
	if (unlikely(next->must_leave))
		work_set(WORK_RESCHED); /* it was preempted on its way to sleep: see may_move() */
	if (prev->mm != next->mm)
		mm_switch(next->mm);
	arch_switch_to(prev, next);
	/* Much later, perhaps on another CPU. */
	finish_switch();
	irq_restore(flags);
}

void schedule(void)
{
	switch_tasks(false);
}

void cond_resched(void)
{
	u32 work = this_cpu_read(work_pending);

	if (likely(!(work & (WORK_RESCHED | WORK_RCU))))
		return;
	if (work & WORK_RCU)
		rcu_process();
	if (work & WORK_RESCHED)
		switch_tasks(true);
}

void sched_yield(void)
{
	struct run_queue *q;
	u64 flags = irq_save();

	q = this_cpu_ptr(run_queue);
	spin_lock(&q->lock);
	if (!list_empty(&q->queue) && !is_rt(current)) {
		struct task *last = list_last(&q->queue, struct task, run_link);

		if (!is_rt(last) && ahead(last, current) < 0)
			; /* we are behind all of them already */
		else if (!is_rt(last))
			current->vruntime = last->vruntime;
	}
	spin_unlock_irqrestore(&q->lock, flags);
	switch_tasks(true);
}

struct sleep_timer {
	struct timer timer;
	struct task *task;
	bool fired;
};

static void sleep_over(struct timer *t)
{
	struct sleep_timer *s = container_of(t, struct sleep_timer, timer);

	WRITE_ONCE(s->fired, true);
	wake_task(s->task);
}

bool schedule_until(u64 deadline_ns)
{
	struct sleep_timer s = { .task = current };

	if (!deadline_ns) {
		schedule();
		return true;
	}
	if (clock_ns() >= deadline_ns) {
		set_current_state(TASK_RUNNING);
		return false;
	}
	timer_init(&s.timer, sleep_over);
	timer_arm(&s.timer, deadline_ns);
	schedule();
	timer_cancel(&s.timer);
	return !s.fired;
}

/* --- waking ---------------------------------------------------------------------------- */

bool wake_task_state(struct task *t, int states)
{
	struct run_queue *q;
	u64 flags;
	bool woken = false;

	smp_mb(); /* the condition before the state: see above */
	if (!(READ_ONCE(t->state) & states))
		return false;
	flags = irq_save();
	q = lock_queue_of(t);
	if (t->state & states) {
		woken = true;
		t->state = TASK_RUNNING;
		if (!t->on_rq) {
			u32 cpu = place(t, false);

			if (cpu == q->cpu) {
				enqueue(q, t, ENQUEUE_WAKE);
			} else {
				t->vruntime -= q->min_vruntime;
				send_to_cpu(q, t, cpu, ENQUEUE_WAKE);
				irq_restore(flags);
				return true;
			}
		}
	}
	spin_unlock_irqrestore(&q->lock, flags);
	return woken;
}

void wake_task(struct task *t)
{
	wake_task_state(t, TASK_SLEEPING);
}

#define WAKE_LAST ((struct task *)1) /* ends a wake list: NULL means on none */

/*
 * A task is on one list at a time. Who finds it on another's has made its condition true before the
 * failed exchange; the other one takes it off before it wakes it, and wake_task() looks at the state after a
 * full barrier: so that wake-up serves both.
 */
void wake_list_add(struct wake_list *l, struct task *t)
{
	struct task *none = NULL;

	if (!atomic_try_cmpxchg(&t->wake_next, &none, WAKE_LAST))
		return;
	*l->end = t;
	l->end = &t->wake_next;
}

void wake_list_run(struct wake_list *l)
{
	struct task *t = l->first, *next;

	for (; t && t != WAKE_LAST; t = next) {
		next = t->wake_next;
		WRITE_ONCE(t->wake_next, NULL);
		wake_task(t);
	}
}

void sched_start(struct task *t)
{
	struct run_queue *q;
	u64 flags;

	task_get(t);
	flags = irq_save();
	t->state = TASK_RUNNING;
	t->cpu = this_cpu();
	t->vruntime = 0; /* = where its queue begins */
	q = lock_queue_of(t);
	send_to_cpu(q, t, place(t, true), ENQUEUE_NEW);
	irq_restore(flags);
}

void task_notify(struct task *t, int states)
{
	struct run_queue *q;
	u64 flags;

	atomic_or(&t->work, WORK_SIGNAL);
	/* It may have been on its way to sleep, and go on without: so look at the CPU in any case. */
	wake_task_state(t, states);
	flags = irq_save();
	q = lock_queue_of(t);
	if (q->curr == t) {
		atomic_or(per_cpu_ptr(work_pending, q->cpu), WORK_SIGNAL);
		if (q->cpu != this_cpu())
			send_ipi(q->cpu, VEC_RESCHEDULE);
	}
	spin_unlock_irqrestore(&q->lock, flags);
}

void task_unnotify(void)
{
	atomic_and(&current->work, ~WORK_SIGNAL);
	work_clear(WORK_SIGNAL);
}

/* --- from interrupts --------------------------------------------------------------------- */

void sched_slice_over(void)
{
	struct run_queue *q = this_cpu_ptr(run_queue);

	q->slice_armed = false;
	if (READ_ONCE(q->nr) >= 2)
		work_set(WORK_RESCHED);
}

void sched_interrupt(bool user)
{
	struct run_queue *q = this_cpu_ptr(run_queue);

	/* What was asked for stands in work_pending already; but only this CPU can set its timer. */
	spin_lock(&q->lock);
	if (q->nr >= 2 && !q->slice_armed && !cpu_is_idle(q))
		set_slice(q, clock_ns());
	spin_unlock(&q->lock);
	if (user)
		rcu_quiescent();
}

/* --- boot ------------------------------------------------------------------------------------- */

static void init_cpu(void)
{
	struct run_queue *q = this_cpu_ptr(run_queue);
	struct task *idle = this_cpu_ptr(idle_task);

	spin_init(&q->lock, &runqueue_class);
	list_init(&q->queue);
	q->cpu = this_cpu();
	q->idle = q->curr = idle;
	list_init(&idle->run_link);
	idle->cpu = q->cpu;
	idle->on_cpu = true;
	idle->kthread = true;
	idle->weight = 1024;
	idle->refs = 1;
	idle->last_switch_ns = clock_ns();
	cpumask_set(&idle->affinity, q->cpu);
	str_copy(idle->comm, "idle", sizeof(idle->comm));
	this_cpu_write(current_task, idle);
}

void sched_init(void)
{
	weights_init();
	wait_init(&leave_wait);
	place_init();
	init_cpu();
}

bool task_is_idle(const struct task *t)
{
	return t == queue_of(t->cpu)->idle;
}

void sched_init_cpu(void)
{
	init_cpu();
}
