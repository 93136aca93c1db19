/*
 * Locks whose waiters sleep: mutex, and reader/writer semaphore.
 *
 * Both keep all that the fast paths need in one word, changed by locked instructions, and a list of
 * waiters under a spinlock. A waiter lives on its task's stack. Before its task may go on and leave that stack, it is off
 * the list, and whoever took it off has done with it: `granted` is the last thing written, and the task to
 * wake has been read before (its structure outlives the wake-up: RCU, callers are not quiescent).
 *
 * Lock order: the spinlock inside is held while tasks are woken (run queue).
 */
#include "kernel/lock_internal.h"

#include <asm/errno.h>

#include "arch/x86_64/cpu.h"
#include "kernel/printk.h"
#include "kernel/rcu.h"
#include "kernel/signal.h"

struct lock_waiter {
	struct list link;
	struct task *task;
	bool writer;  /* rwsem */
	bool granted; /* rwsem: it has the semaphore; written once, by the waker */
};

/* What a mutex and a semaphore tell the statistics. */
static u64 stat_start(void)
{
	return lock_stat_on() ? lock_stat_clock() : 0;
}

static void stat_taken(const struct lock_class *class, bool contended, u64 start)
{
	if (lock_stat_on())
		lock_stat_acquired(class_number(class), 0, contended, start);
}

/* --- mutex ------------------------------------------------------------------------ */

/*
 * owner: the holder's task pointer, and two flags:
 *   WAITERS  the list is not empty: whoever unlocks wakes the first
 *   HANDOFF  the first waiter has been woken once and found the mutex taken again; the
 *            next unlock makes it the owner instead of leaving it free
 * So a mutex that is free for a moment may be taken by who is running (no switch is lost), and a waiter
 * is passed over at most once. A contender first spins as long as the owner
 * is itself running on some CPU and nobody sleeps for the mutex: most critical sections are shorter than a switch.
 */
#define MUTEX_WAITERS 1UL
#define MUTEX_HANDOFF 2UL
#define MUTEX_FLAGS   3UL

#define MUTEX_SPINS 2000

void mutex_init(struct mutex *m, struct lock_class *c)
{
	*m = (struct mutex){ .class = c };
	list_init(&m->waiters);
}

bool mutex_is_locked(const struct mutex *m)
{
	return READ_ONCE(m->owner) & ~MUTEX_FLAGS;
}

/* Take it if it is free and not promised to somebody else; flags stay. */
static bool mutex_try(struct mutex *m, u64 ignore)
{
	u64 owner = READ_ONCE(m->owner);

	while (!(owner & ~(MUTEX_WAITERS | ignore)))
		if (atomic_try_cmpxchg(&m->owner, &owner,
				       (u64)current | (owner & MUTEX_WAITERS)))
			return true;
	return false;
}

/* True if it was taken while spinning. */
static bool mutex_spin(struct mutex *m)
{
	for (int i = 0; i < MUTEX_SPINS; i++) {
		u64 owner = READ_ONCE(m->owner);
		struct task *t = (struct task *)(owner & ~MUTEX_FLAGS);

		if (mutex_try(m, 0))
			return true;
		/* The owner cannot be freed under us: we pass no quiescent state here. */
		if (owner & MUTEX_FLAGS || !t || !READ_ONCE(t->on_cpu) ||
		    this_cpu_read(work_pending) & WORK_RESCHED)
			return false;
		cpu_relax();
	}
	return false;
}

static void mutex_wait(struct mutex *m)
{
	struct lock_waiter w = { .task = current };
	bool first = false;

	spin_lock(&m->lock);
	list_add_tail(&m->waiters, &w.link);
	atomic_or(&m->owner, MUTEX_WAITERS);
	for (;;) {
		u64 owner;

		set_current_state(TASK_UNINTERRUPTIBLE);
		owner = READ_ONCE(m->owner);
		if ((owner & ~MUTEX_FLAGS) == (u64)current) /* handed to us */
			break;
		if (mutex_try(m, first ? MUTEX_HANDOFF : 0))
			break;
		if (first)
			atomic_or(&m->owner, MUTEX_HANDOFF);
		/* With WAITERS set an unlock needs m->lock, so none comes before we sleep. */
		spin_unlock(&m->lock);
		schedule();
		spin_lock(&m->lock);
		first = list_first(&m->waiters, struct lock_waiter, link) == &w;
	}
	set_current_state(TASK_RUNNING);
	list_del(&w.link);
	if (list_empty(&m->waiters))
		atomic_and(&m->owner, ~MUTEX_FLAGS);
	spin_unlock(&m->lock);
}

void mutex_lock(struct mutex *m)
{
	u64 free = 0, start;

	lock_check_sleep(m, m->class);
	if (likely(atomic_try_cmpxchg(&m->owner, &free, (u64)current))) {
		stat_taken(m->class, false, 0);
	} else {
		start = stat_start();
		if (!mutex_spin(m))
			mutex_wait(m);
		stat_taken(m->class, true, start);
	}
	m->since = stat_start();
	lock_check_sleep_taken(m, m->class);
}

bool mutex_trylock(struct mutex *m)
{
	if (!mutex_try(m, 0))
		return false;
	stat_taken(m->class, false, 0);
	m->since = stat_start();
	lock_check_sleep_taken(m, m->class);
	return true;
}

static void mutex_unlock_slow(struct mutex *m)
{
	struct lock_waiter *first;
	u64 owner, new;

	spin_lock(&m->lock);
	first = list_empty(&m->waiters) ? NULL : list_first(&m->waiters, struct lock_waiter, link);
	owner = READ_ONCE(m->owner);
	do {
		new = first ? MUTEX_WAITERS : 0;
		if (first && owner & MUTEX_HANDOFF)
			new |= (u64)first->task;
	} while (!atomic_try_cmpxchg(&m->owner, &owner, new));
	if (first)
		wake_task(first->task);
	spin_unlock(&m->lock);
}

void mutex_unlock(struct mutex *m)
{
	u64 owner = (u64)current;

	DEBUG_ASSERT((READ_ONCE(m->owner) & ~MUTEX_FLAGS) == owner);
	lock_check_sleep_released(m);
	if (lock_stat_on())
		lock_stat_released(class_number(m->class), m->since);
	if (unlikely(!atomic_try_cmpxchg(&m->owner, &owner, 0)))
		mutex_unlock_slow(m);
}

/* --- reader/writer semaphore ------------------------------------------------------- */

/*
 * count: bit 0 a writer has it, bit 1 somebody waits, from bit 8 the number of readers.
 *
 * First come, first served. A reader adds itself and looks whether a writer or a waiter was there
 * before; then it takes its addition back and queues, so a waiting writer stops new readers. A writer needs the
 * word to be 0. When the semaphore becomes free it is granted to the first waiter, or, if that is a
 * reader, to all readers before the next writer; who is granted it has it when it wakes up.
 *
 * While the list is not empty, WAITING is set; it changes under the spinlock only. So the fast
 * paths let nobody in, and grants are made under the lock by whoever finds
 * that nobody active is left: the last to release, or a reader who takes its addition back, or who has just queued.
 */
#define RW_WRITER  1UL
#define RW_WAITING 2UL
#define RW_READER  256UL
#define RW_ACTIVE  (~RW_WAITING) /* any of these bits: somebody has it, or thinks so for a moment */

void rwsem_init(struct rwsem *s, struct lock_class *c)
{
	*s = (struct rwsem){ .class = c };
	list_init(&s->waiters);
}

static void grant(struct rwsem *s, struct lock_waiter *w)
{
	struct task *t = w->task;

	list_del(&w->link);
	task_get(t); /* once granted, w and even t may go */
	smp_store_release(&w->granted, true);
	wake_task(t);
	task_put(t);
}

/* Give the semaphore to the first waiters if nobody has it. s->lock held. */
static void grant_waiters(struct rwsem *s)
{
	u64 count = READ_ONCE(s->count), take = 0;
	struct lock_waiter *w;

	if (list_empty(&s->waiters)) {
		atomic_and(&s->count, ~RW_WAITING);
		return;
	}
	w = list_first(&s->waiters, struct lock_waiter, link);
	if (w->writer) {
		/* A reader that takes its addition back right now will come here after us. */
		do {
			if (count & RW_ACTIVE)
				return;
		} while (!atomic_try_cmpxchg(&s->count, &count, RW_WRITER | RW_WAITING));
		grant(s, w);
	} else {
		if (count & RW_WRITER)
			return;
		list_for_each(r, &s->waiters, struct lock_waiter, link) {
			if (r->writer)
				break;
			take += RW_READER;
		}
		/* WAITING is set, so no writer can have come in since we looked. */
		atomic_add(&s->count, take);
		while (take) {
			grant(s, list_first(&s->waiters, struct lock_waiter, link));
			take -= RW_READER;
		}
	}
	if (list_empty(&s->waiters))
		atomic_and(&s->count, ~RW_WAITING);
}

/* Wait for a grant. A reader's addition is in count and is taken back. 0 or -EINTR. */
static int rwsem_wait(struct rwsem *s, bool writer, int state)
{
	struct lock_waiter w = { .task = current, .writer = writer };
	int err = 0;

	spin_lock(&s->lock);
	list_add_tail(&s->waiters, &w.link);
	atomic_or(&s->count, RW_WAITING);
	if (!writer)
		atomic_sub(&s->count, RW_READER);
	grant_waiters(s); /* perhaps it has become free meanwhile */
	spin_unlock(&s->lock);

	for (;;) {
		set_current_state(state);
		if (smp_load_acquire(&w.granted))
			break;
		if (state == TASK_KILLABLE && fatal_signal_pending(current)) {
			spin_lock(&s->lock);
			if (!w.granted) {
				list_del(&w.link);
				grant_waiters(s); /* those behind us may have waited for us only */
				err = -EINTR;
			}
			spin_unlock(&s->lock);
			break;
		}
		schedule();
	}
	set_current_state(TASK_RUNNING);
	return err;
}

static int read_lock(struct rwsem *s, int state)
{
	u64 before, start;
	int err;

	lock_check_sleep(s, s->class);
	before = atomic_fetch_add(&s->count, RW_READER);
	if (likely(!(before & (RW_WRITER | RW_WAITING)))) {
		stat_taken(s->class, false, 0);
	} else {
		start = stat_start();
		err = rwsem_wait(s, false, state);
		if (err)
			return err;
		stat_taken(s->class, true, start);
	}
	lock_check_sleep_taken(s, s->class);
	return 0;
}

void down_read(struct rwsem *s)
{
	read_lock(s, TASK_UNINTERRUPTIBLE);
}

int down_read_killable(struct rwsem *s)
{
	return read_lock(s, TASK_KILLABLE);
}

bool down_read_trylock(struct rwsem *s)
{
	u64 count = READ_ONCE(s->count);

	do {
		if (count & (RW_WRITER | RW_WAITING))
			return false;
	} while (!atomic_try_cmpxchg(&s->count, &count, count + RW_READER));
	stat_taken(s->class, false, 0);
	lock_check_sleep_taken(s, s->class);
	return true;
}

static void rwsem_wake(struct rwsem *s)
{
	spin_lock(&s->lock);
	grant_waiters(s);
	spin_unlock(&s->lock);
}

void up_read(struct rwsem *s)
{
	u64 count;

	lock_check_sleep_released(s);
	count = atomic_sub(&s->count, RW_READER);
	if (unlikely(count == RW_WAITING))
		rwsem_wake(s);
}

static int write_lock(struct rwsem *s, int state)
{
	u64 free = 0, start;
	int err;

	lock_check_sleep(s, s->class);
	if (likely(atomic_try_cmpxchg(&s->count, &free, RW_WRITER))) {
		stat_taken(s->class, false, 0);
	} else {
		start = stat_start();
		err = rwsem_wait(s, true, state);
		if (err)
			return err;
		stat_taken(s->class, true, start);
	}
	s->since = stat_start();
	lock_check_sleep_taken(s, s->class);
	return 0;
}

void down_write(struct rwsem *s)
{
	write_lock(s, TASK_UNINTERRUPTIBLE);
}

int down_write_killable(struct rwsem *s)
{
	return write_lock(s, TASK_KILLABLE);
}

bool down_write_trylock(struct rwsem *s)
{
	u64 free = 0;

	if (!atomic_try_cmpxchg(&s->count, &free, RW_WRITER))
		return false;
	stat_taken(s->class, false, 0);
	s->since = stat_start();
	lock_check_sleep_taken(s, s->class);
	return true;
}

void up_write(struct rwsem *s)
{
	DEBUG_ASSERT(READ_ONCE(s->count) & RW_WRITER);
	lock_check_sleep_released(s);
	if (lock_stat_on())
		lock_stat_released(class_number(s->class), s->since);
	if (unlikely(atomic_sub(&s->count, RW_WRITER) == RW_WAITING))
		rwsem_wake(s);
}

void downgrade_write(struct rwsem *s)
{
	if (lock_stat_on())
		lock_stat_released(class_number(s->class), s->since);
	atomic_add(&s->count, RW_READER - RW_WRITER);
	if (READ_ONCE(s->count) & RW_WAITING)
		rwsem_wake(s); /* readers may come in beside us */
}
