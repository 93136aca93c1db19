/*
 * Self-tests of RCU.
 */
#include "kernel/rcu.h"

#include "arch/x86_64/clock.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/smp.h"
#include "kernel/selftest.h"
#include "mm/slab.h"

#define ALIVE 0x600d600d600d600dUL
#define FREED 0xdeadbeefdeadbeefUL

struct thing {
	u64 magic;
	u64 number;
	struct rcu_head rcu;
};

static struct {
	struct thing *now;
	bool stop;
	u64 looks, freed; /* atomic */
	u32 wrong;        /* atomic: a reader saw a freed one, or an older one than before */
} test;

static void thing_free(struct rcu_head *head)
{
	struct thing *t = container_of(head, struct thing, rcu);

	t->magic = FREED;
	kfree(t);
	atomic_add(&test.freed, 1);
}

static void reader(struct member *m)
{
	u64 last = 0, looks = 0;

	while (!READ_ONCE(test.stop)) {
		struct thing *t;

		rcu_read_lock();
		t = rcu_dereference(test.now);
		for (int i = 0; i < 50; i++) {
			if (READ_ONCE(t->magic) != ALIVE || READ_ONCE(t->number) < last)
				atomic_add(&test.wrong, 1);
			cpu_relax();
		}
		last = t->number;
		rcu_read_unlock();
		looks++;
		if (looks % 64 == 0)
			cond_resched();
		else if (looks % 1000 == 999)
			sleep_ns(50000); /* idle now and then */
	}
	atomic_add(&test.looks, looks);
}

#define UPDATES 1000

SELFTEST(rcu_readers_never_see_freed)
{
	struct thing *t = kzalloc(sizeof(*t));

	SELFTEST_CHECK(t);
	t->magic = ALIVE;
	test.now = t;
	test.stop = false;
	test.looks = test.freed = test.wrong = 0;
	SELFTEST_CHECK(!crew_start(reader, NULL, cpus_up(), true));
	for (u64 i = 1; i <= UPDATES; i++) {
		struct thing *old = test.now, *new = kzalloc(sizeof(*new));

		if (!new)
			break;
		new->magic = ALIVE;
		new->number = i;
		rcu_assign_pointer(test.now, new);
		if (i % 50 == 0) {
			rcu_synchronize();
			old->magic = FREED; /* at once: nobody looks any more */
			kfree(old);
			atomic_add(&test.freed, 1);
		} else {
			call_rcu(&old->rcu, thing_free);
		}
		if (i % 100 == 0)
			sleep_ns(100000); /* on one CPU, readers need it */
		else if (i % 8 == 0)
			cond_resched();
	}
	WRITE_ONCE(test.stop, true);
	crew_wait();
	rcu_barrier();
	SELFTEST_CHECK(test.now->number == UPDATES);
	kfree(test.now);
	SELFTEST_CHECK(test.freed == UPDATES);
	SELFTEST_CHECK(test.looks > 0);
	SELFTEST_CHECK(!test.wrong);
	return 0;
}

/* Callbacks come in order, and a barrier waits for all of them, on all CPUs. */
#define QUEUED 200

struct numbered {
	struct rcu_head rcu;
	u32 cpu, number;
};

static u32 next_number[MAX_CPUS];
static u32 out_of_order, called; /* atomic */

static void numbered_called(struct rcu_head *head)
{
	struct numbered *n = container_of(head, struct numbered, rcu);

	if (n->number != next_number[n->cpu] || n->cpu != this_cpu())
		atomic_add(&out_of_order, 1);
	next_number[n->cpu]++;
	atomic_add(&called, 1);
	kfree(n);
}

static void queuer(struct member *m)
{
	u32 *queued = m->arg;

	for (u32 i = 0; i < QUEUED; i++) {
		struct numbered *n = kmalloc(sizeof(*n));

		if (!n)
			return;
		n->cpu = this_cpu();
		n->number = i;
		call_rcu(&n->rcu, numbered_called);
		atomic_add(queued, 1);
		if (i % 32 == 0)
			cond_resched();
	}
}

SELFTEST(rcu_barrier_waits_for_all)
{
	static u32 queued;

	queued = called = out_of_order = 0;
	for (int i = 0; i < MAX_CPUS; i++)
		next_number[i] = 0;
	SELFTEST_CHECK(!crew_run(queuer, &queued, cpus_up(), true));
	rcu_barrier();
	SELFTEST_CHECK(queued == QUEUED * cpus_up());
	SELFTEST_CHECK(called == queued);
	SELFTEST_CHECK(!out_of_order);
	return 0;
}

/* A grace period needs no help from idle CPUs, and comes although one CPU is in a long loop with breaks. */
static void spinner(struct member *m)
{
	bool *stop = m->arg;

	while (!READ_ONCE(*stop)) {
		for (int i = 0; i < 100; i++)
			cpu_relax();
		cond_resched();
	}
}

SELFTEST(rcu_grace_periods_are_quick)
{
	static bool stop;
	u64 begin, took;

	stop = false;
	SELFTEST_CHECK(!crew_start(spinner, &stop, cpus_up(), true));
	begin = clock_ns();
	for (int i = 0; i < 5; i++)
		rcu_synchronize();
	took = clock_ns() - begin;
	WRITE_ONCE(stop, true);
	crew_wait();
	SELFTEST_CHECK(took < 10000 * MS);
	return 0;
}
