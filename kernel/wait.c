/*
 * Wait queues, see wait.h.
 *
 * The order that loses no wake-up: the waiter is on the list and its state says that it sleeps before it looks
 * at the condition; the waker makes the condition true before it looks at the list. Both are
 * separated by full barriers (the list's lock, set_current_state()), so one of them sees the other.
 *
 * An entry lives on its waiter's stack. It leaves the list under the lock, by the waiter (wait_finish) or by the
 * waker, who has then read entry->task and goes on to wake that task while still holding the lock: wait_finish()
 * cannot get past it, so the task cannot end meanwhile.
 */
#include "kernel/wait.h"

#include "kernel/task.h"

DEFINE_LOCK_CLASS(wait_class, "wait", RANK_WAIT);

void wait_init(struct wait_queue *q)
{
	spin_init(&q->lock, &wait_class);
	list_init(&q->list);
}

static void wake(struct wait_queue *q, bool all)
{
	u64 flags = spin_lock_irqsave(&q->lock);

	while (!list_empty(&q->list)) {
		struct wait_entry *e = list_first(&q->list, struct wait_entry, link);

		list_del(&e->link);
		wake_task(e->task);
		if (!all)
			break;
	}
	spin_unlock_irqrestore(&q->lock, flags);
}

void wake_up(struct wait_queue *q)
{
	wake(q, false);
}

void wake_up_all(struct wait_queue *q)
{
	wake(q, true);
}

void wait_prepare(struct wait_queue *q, struct wait_entry *e, int state)
{
	u64 flags = spin_lock_irqsave(&q->lock);

	if (!e->task || list_empty(&e->link)) {
		e->task = current;
		list_add_tail(&q->list, &e->link);
	}
	set_current_state(state);
	spin_unlock_irqrestore(&q->lock, flags);
}

bool wait_finish(struct wait_queue *q, struct wait_entry *e)
{
	bool taken;
	u64 flags;

	set_current_state(TASK_RUNNING);
	flags = spin_lock_irqsave(&q->lock);
	taken = list_empty(&e->link);
	list_del(&e->link);
	spin_unlock_irqrestore(&q->lock, flags);
	return taken;
}
