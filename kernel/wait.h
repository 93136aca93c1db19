/* Wait queues: tasks waiting for a condition. Wakers may be interrupt handlers. */
#ifndef KERNEL_WAIT_H
#define KERNEL_WAIT_H

#include "kernel/list.h"
#include "kernel/lock.h"

struct task;

struct wait_queue {
	spinlock_t lock; /* guards list; taken with interrupts off */
	struct list list;
};

/* On the waiter's stack; zeroed before the first wait_prepare(). */
struct wait_entry {
	struct task *task;
	struct list link;
};

void wait_init(struct wait_queue *q);
void wake_up(struct wait_queue *q);     /* one waiter */
void wake_up_all(struct wait_queue *q);

/*
 * Put the current task on q in the given task state (TASK_*); then recheck the condition, then
 * schedule(). To be called again after each wake-up; wake-ups may come for no reason.
 */
void wait_prepare(struct wait_queue *q, struct wait_entry *e, int state);
/*
 * Off the queue, state TASK_RUNNING. True if a waker has taken the entry off: then a caller that gives up
 * without what was offered must wake_up(q) the next in its place.
 */
bool wait_finish(struct wait_queue *q, struct wait_entry *e);

/*
 * Sleep until cond is true. wait_event: not interruptible. The interruptible
 * form yields -EINTR when a signal is pending, the _until form -ETIMEDOUT when
 * monotonic time deadline_ns (0 = never) has passed; else 0.
 */
#define wait_event(q, cond)                                                                        \
	do {                                                                                       \
		struct wait_entry e_ = { 0 };                                                      \
		for (;;) {                                                                         \
			wait_prepare(q, &e_, TASK_UNINTERRUPTIBLE);                                \
			if (cond)                                                                  \
				break;                                                             \
			schedule();                                                                \
		}                                                                                  \
		wait_finish(q, &e_);                                                               \
	} while (0)
#define wait_event_interruptible(q, cond) wait_event_until(q, cond, 0)
#define wait_event_until(q, cond, deadline_ns)                                                     \
	({                                                                                         \
		struct wait_entry e_ = { 0 };                                                      \
		int ret_ = 0;                                                                      \
		for (;;) {                                                                         \
			wait_prepare(q, &e_, TASK_INTERRUPTIBLE);                                  \
			if (cond)                                                                  \
				break;                                                             \
			if (signal_pending(current)) {                                             \
				ret_ = -EINTR;                                                     \
				break;                                                             \
			}                                                                          \
			if (!schedule_until(deadline_ns)) {                                        \
				ret_ = (cond) ? 0 : -ETIMEDOUT;                                    \
				break;                                                             \
			}                                                                          \
		}                                                                                  \
		if (wait_finish(q, &e_) && ret_)                                                   \
			wake_up(q);                                                                \
		ret_;                                                                              \
	})

#endif
