/*
 * Self-tests of locks: spinlocks of every kind, whatever lock.kind is, mutex, semaphore.
 *
 * They run for a time, not a number of rounds: with more CPUs than the machine below has, a
 * queued lock waits for whoever is next in line to be given a turn there.
 */
#include "kernel/lock_internal.h"

#include "arch/x86_64/clock.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/smp.h"
#include "kernel/selftest.h"
#include "kernel/timer.h"

#define RUN_NS (40 * MS)

DEFINE_LOCK_CLASS(test_class, "selftest", RANK_NONE);

/* What a lock has to protect: two counters that must move together, in separate lines. */
struct guarded {
	u64 a;
	__cacheline u64 b;
	__cacheline u32 broken; /* atomic: rounds that found a != b */
	u64 rounds;             /* atomic */
};

static void enter_and_leave(struct guarded *g)
{
	u64 a = READ_ONCE(g->a);

	if (a != READ_ONCE(g->b))
		atomic_add(&g->broken, 1);
	WRITE_ONCE(g->a, a + 1);
	for (int i = 0; i < 10; i++)
		barrier();
	WRITE_ONCE(g->b, a + 1);
}

static struct spin_test {
	spinlock_t lock;
	int kind;
	struct guarded g;
	u64 until;
} spin_test;

static void spin_worker(struct member *m)
{
	struct spin_test *t = m->arg;
	u64 rounds = 0;

	do {
		for (int i = 0; i < 20; i++, rounds++) {
			if (!lock_kind_try(&t->lock, t->kind))
				lock_kind_wait(&t->lock, t->kind, false, 0);
			enter_and_leave(&t->g);
			lock_kind_release(&t->lock, t->kind);
		}
	} while (clock_ns() < t->until);
	atomic_add(&t->g.rounds, rounds);
}

static int spin_kind(int kind)
{
	struct spin_test *t = &spin_test;

	*t = (struct spin_test){ .kind = kind, .until = clock_ns() + RUN_NS };
	SELFTEST_CHECK(!crew_run(spin_worker, t, cpus_up(), true));
	SELFTEST_CHECK(t->g.rounds > 0);
	SELFTEST_CHECK(!t->g.broken);
	SELFTEST_CHECK(t->g.a == t->g.rounds && t->g.b == t->g.rounds);
	SELFTEST_CHECK(lock_kind_try(&t->lock, kind)); /* it has been left free */
	SELFTEST_CHECK(!lock_kind_try(&t->lock, kind));
	lock_kind_release(&t->lock, kind);
	return 0;
}

SELFTEST(lock_tas)
{
	return spin_kind(LOCK_TAS);
}

SELFTEST(lock_ticket)
{
	int err;

	/* The tickets wrap: begin just before that. */
	spin_test.lock.word = 0;
	err = spin_kind(LOCK_TICKET);
	if (err)
		return err;
	spin_test.lock.word = 0xfff0fff0;
	for (int i = 0; i < 40; i++) {
		SELFTEST_CHECK(lock_kind_try(&spin_test.lock, LOCK_TICKET));
		lock_kind_release(&spin_test.lock, LOCK_TICKET);
	}
	return 0;
}

SELFTEST(lock_queued)
{
	return spin_kind(LOCK_QUEUED);
}

/*
 * Nesting: threads contend for a plain lock while timer handlers on all CPUs contend for an irqsave
 * lock, so that a CPU waits in two queues at once.
 */
static struct nest_test {
	spinlock_t plain, irq;
	struct guarded plain_g, irq_g;
	u64 until;
} nest_test;

struct nest_timer {
	struct timer timer;
	u64 fired;
};

static void nest_handler(struct timer *timer)
{
	struct nest_test *t = &nest_test;
	u64 flags = spin_lock_irqsave(&t->irq);

	enter_and_leave(&t->irq_g);
	t->irq_g.rounds++;
	spin_unlock_irqrestore(&t->irq, flags);
	if (clock_ns() < t->until)
		timer_arm(timer, clock_ns() + 50000);
}

static void nest_worker(struct member *m)
{
	struct nest_test *t = m->arg;
	struct timer timer;
	u64 rounds = 0;

	timer_init(&timer, nest_handler);
	timer_arm(&timer, clock_ns() + 50000);
	do {
		spin_lock(&t->plain);
		enter_and_leave(&t->plain_g);
		spin_unlock(&t->plain);
		rounds++;
		if (rounds % 16 == 0) {
			u64 flags = spin_lock_irqsave(&t->irq);

			enter_and_leave(&t->irq_g);
			t->irq_g.rounds++;
			spin_unlock_irqrestore(&t->irq, flags);
		}
	} while (clock_ns() < t->until || !READ_ONCE(t->irq_g.rounds));
	timer_cancel(&timer);
	atomic_add(&t->plain_g.rounds, rounds);
}

SELFTEST(lock_nested_in_interrupts)
{
	struct nest_test *t = &nest_test;

	*t = (struct nest_test){ .until = clock_ns() + RUN_NS };
	spin_init(&t->plain, &test_class);
	spin_init(&t->irq, &test_class);
	SELFTEST_CHECK(!crew_run(nest_worker, t, cpus_up(), true));
	SELFTEST_CHECK(!t->plain_g.broken && !t->irq_g.broken);
	SELFTEST_CHECK(t->plain_g.a == t->plain_g.rounds);
	SELFTEST_CHECK(t->irq_g.a == t->irq_g.rounds);
	SELFTEST_CHECK(t->irq_g.rounds > 0);
	return 0;
}

static struct mutex_test {
	struct mutex mutex;
	struct guarded g;
	u64 until;
	bool inside;
	u32 overlaps; /* atomic */
} mutex_test;

/* Every few rounds somebody gives up the CPU inside. */
static void mutex_worker(struct member *m)
{
	struct mutex_test *t = m->arg;
	u64 rounds = 0;

	do {
		if (rounds % 5 == 4 && mutex_trylock(&t->mutex))
			; /* fine, too */
		else
			mutex_lock(&t->mutex);
		if (t->inside)
			atomic_add(&t->overlaps, 1);
		t->inside = true;
		enter_and_leave(&t->g);
		if (rounds % 8 == 7)
			sched_yield();
		if (rounds % 64 == 63)
			sleep_ns(100000);
		t->inside = false;
		mutex_unlock(&t->mutex);
		rounds++;
	} while (clock_ns() < t->until);
	atomic_add(&t->g.rounds, rounds);
}

SELFTEST(mutex_exclusion)
{
	struct mutex_test *t = &mutex_test;

	*t = (struct mutex_test){ .until = clock_ns() + RUN_NS };
	mutex_init(&t->mutex, &test_class);
	SELFTEST_CHECK(!crew_run(mutex_worker, t, 2 * cpus_up() + 1, false));
	SELFTEST_CHECK(!t->g.broken && !t->overlaps);
	SELFTEST_CHECK(t->g.a == t->g.rounds && t->g.rounds > 0);
	SELFTEST_CHECK(!mutex_is_locked(&t->mutex) && t->mutex.owner == 0);
	SELFTEST_CHECK(list_empty(&t->mutex.waiters));
	return 0;
}

static struct rwsem_test {
	struct rwsem sem;
	struct guarded g;
	u64 until;
	u32 readers, writers; /* atomic: inside now */
	u32 wrong;            /* atomic */
	u64 reads, most_readers;
} rwsem_test;

static void rwsem_write(struct rwsem_test *t, u64 round)
{
	if (round % 4 == 3 && down_write_trylock(&t->sem))
		;
	else
		down_write(&t->sem);
	if (atomic_add(&t->writers, 1) != 1 || READ_ONCE(t->readers))
		atomic_add(&t->wrong, 1);
	enter_and_leave(&t->g);
	t->g.rounds++;
	if (round % 8 == 0)
		sched_yield();
	atomic_sub(&t->writers, 1);
	if (round % 2) {
		downgrade_write(&t->sem);
		if (READ_ONCE(t->writers))
			atomic_add(&t->wrong, 1);
		up_read(&t->sem);
	} else {
		up_write(&t->sem);
	}
}

static void rwsem_read(struct rwsem_test *t, u64 round)
{
	u32 now;

	if (round % 4 == 3 && down_read_trylock(&t->sem))
		;
	else
		down_read(&t->sem);
	now = atomic_add(&t->readers, 1);
	if (now > t->most_readers)
		t->most_readers = now;
	if (READ_ONCE(t->writers) || READ_ONCE(t->g.a) != READ_ONCE(t->g.b))
		atomic_add(&t->wrong, 1);
	if (round % 8 == 0)
		sched_yield(); /* with the semaphore: others come in beside us */
	atomic_sub(&t->readers, 1);
	up_read(&t->sem);
	atomic_add(&t->reads, 1);
}

static void rwsem_worker(struct member *m)
{
	struct rwsem_test *t = m->arg;

	/* On a busy machine a switch takes long: until there is something to see. */
	for (u64 round = m->index;
	     clock_ns() < t->until ||
	     ((READ_ONCE(t->reads) < 100 || READ_ONCE(t->most_readers) < 2) &&
	      clock_ns() < t->until + 5000 * MS);
	     round++) {
		if (round % 7 == 0)
			rwsem_write(t, round / 7);
		else
			rwsem_read(t, round);
	}
}

SELFTEST(rwsem_exclusion)
{
	struct rwsem_test *t = &rwsem_test;

	*t = (struct rwsem_test){ .until = clock_ns() + RUN_NS };
	rwsem_init(&t->sem, &test_class);
	SELFTEST_CHECK(!crew_run(rwsem_worker, t, 2 * cpus_up() + 1, false));
	SELFTEST_CHECK(!t->wrong && !t->g.broken);
	SELFTEST_CHECK(t->g.a == t->g.rounds && t->g.rounds > 0);
	SELFTEST_CHECK(t->reads > 0 && t->most_readers > 1);
	SELFTEST_CHECK(t->sem.count == 0 && list_empty(&t->sem.waiters));
	return 0;
}

/* Readers that always overlap must let a writer in. */
static void rwsem_fair_worker(struct member *m)
{
	struct rwsem_test *t = m->arg;

	if (m->index == 0) {
		sleep_ns(2 * MS);
		down_write(&t->sem);
		t->g.rounds = 1;
		up_write(&t->sem);
		return;
	}
	while (!READ_ONCE(t->g.rounds) && clock_ns() < t->until) {
		down_read(&t->sem);
		sleep_ns(1 * MS + m->index * 300000);
		up_read(&t->sem);
	}
	atomic_add(&t->reads, 1);
}

SELFTEST(rwsem_writer_gets_in)
{
	struct rwsem_test *t = &rwsem_test;
	u64 begin = clock_ns();

	*t = (struct rwsem_test){ .until = begin + 5000 * MS };
	rwsem_init(&t->sem, &test_class);
	SELFTEST_CHECK(!crew_run(rwsem_fair_worker, t, 4, false));
	SELFTEST_CHECK(t->g.rounds == 1);
	SELFTEST_CHECK(clock_ns() - begin < 2000 * MS);
	return 0;
}
