/*
 * Self-tests of the scheduler, wait queues and timers.
 */
#include <asm/errno.h>

#include "arch/x86_64/clock.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/smp.h"
#include "kernel/runqueue.h"
#include "kernel/selftest.h"
#include "kernel/string.h"
#include "kernel/timer.h"
#include "kernel/wait.h"

/* --- scheduler --------------------------------------------------------------------------- */

static u64 progress[2 * MAX_CPUS];
static bool stop;

static void runner(struct member *m)
{
	while (!READ_ONCE(stop)) {
		progress[m->index]++;
		for (int i = 0; i < 50; i++)
			cpu_relax();
		cond_resched();
	}
}

/*
 * Two tasks a CPU that never sleep: all get on, and go on getting on.
 */
static bool all_advance(u32 n)
{
	static u64 before[2 * MAX_CPUS];
	u64 give_up = clock_ns() + 20000 * MS;

	memcpy(before, progress, sizeof(before));
	for (u32 i = 0; i < n; i++) {
		while (READ_ONCE(progress[i]) == before[i]) {
			if (clock_ns() >= give_up)
				return false;
			sleep_ns(5 * MS);
		}
	}
	return true;
}

SELFTEST(sched_all_make_progress)
{
	u32 n = 2 * cpus_up();
	bool ok;

	memset(progress, 0, sizeof(progress));
	stop = false;
	SELFTEST_CHECK(!crew_start(runner, NULL, n, true));
	ok = all_advance(n) && all_advance(n) && all_advance(n);
	WRITE_ONCE(stop, true);
	crew_wait();
	SELFTEST_CHECK(ok);
	return 0;
}

static void affinity_member(struct member *m)
{
	u32 *wrong = m->arg;
	struct cpumask one;

	/* Around all CPUs, each time moved while running. */
	for_each_cpu(cpu, &cpus_online) {
		one = (struct cpumask){ 0 };
		cpumask_set(&one, cpu);
		if (sched_set_affinity(current, &one) || this_cpu() != cpu)
			atomic_add(wrong, 1);
		sched_yield();
		if (this_cpu() != cpu)
			atomic_add(wrong, 1);
		sleep_ns(10000);
		if (this_cpu() != cpu)
			atomic_add(wrong, 1);
	}
}

SELFTEST(sched_affinity_of_oneself)
{
	static u32 wrong;
	struct cpumask none = { 0 };

	wrong = 0;
	SELFTEST_CHECK(!crew_run(affinity_member, &wrong, MIN(cpus_up(), 16u), false));
	SELFTEST_CHECK(!wrong);
	SELFTEST_CHECK(sched_set_affinity(current, &none) == -EINVAL);
	return 0;
}

/* Which CPU each member is on, as it sees it. */
static u32 where[2 * MAX_CPUS];

static void reporter(struct member *m)
{
	while (!READ_ONCE(stop)) {
		WRITE_ONCE(where[m->index], this_cpu());
		progress[m->index]++;
		for (int i = 0; i < 20; i++)
			cpu_relax();
		cond_resched();
	}
}

static bool arrived(u32 index, u32 cpu)
{
	for (u64 give_up = clock_ns() + 2000 * MS; clock_ns() < give_up; sleep_ns(1 * MS))
		if (READ_ONCE(where[index]) == cpu)
			return true;
	return false;
}

/* Others' affinity: a running task leaves its CPU, and stays away. */
SELFTEST(sched_affinity_of_another)
{
	bool ok = true;

	stop = false;
	where[0] = MAX_CPUS;
	SELFTEST_CHECK(!crew_start(reporter, NULL, 1, true));
	for_each_cpu(cpu, &cpus_online) {
		struct cpumask one = { 0 };
		u64 before;

		cpumask_set(&one, cpu);
		ok &= !sched_set_affinity(crew_member(0)->task, &one) &&
		      READ_ONCE(crew_member(0)->task->cpu) == cpu && arrived(0, cpu);
		before = READ_ONCE(progress[0]);
		sleep_ns(1 * MS);
		for (u64 end = clock_ns() + 500 * MS; progress[0] == before && clock_ns() < end;)
			sleep_ns(1 * MS);
		ok &= READ_ONCE(progress[0]) > before && READ_ONCE(where[0]) == cpu;
	}
	WRITE_ONCE(stop, true);
	crew_wait();
	SELFTEST_CHECK(ok);
	return 0;
}

/* All on one CPU; then they may go: idle CPUs come for them, each to one. */
SELFTEST(sched_idle_cpus_steal)
{
	u32 n = cpus_up(), spread = 0;
	struct cpumask first = { 0 }, seen;

	stop = false;
	cpumask_set(&first, cpumask_next(&cpus_online, 0));
	memset(where, 0xff, sizeof(where));
	SELFTEST_CHECK(!crew_start(reporter, NULL, n, false));
	for (u32 i = 0; i < n; i++)
		sched_set_affinity(crew_member(i)->task, &first);
	sleep_ns(5 * MS);
	for (u32 i = 0; i < n; i++)
		sched_set_affinity(crew_member(i)->task, &cpus_online);
	for (u64 give_up = clock_ns() + 2000 * MS; spread < n && clock_ns() < give_up;) {
		sleep_ns(5 * MS);
		seen = (struct cpumask){ 0 };
		for (u32 i = 0; i < n; i++)
			if (READ_ONCE(where[i]) < MAX_CPUS)
				cpumask_set(&seen, READ_ONCE(where[i]));
		spread = cpumask_count(&seen);
	}
	WRITE_ONCE(stop, true);
	crew_wait();
	/* This thread needs a CPU itself from time to time, so two may meet on one. */
	SELFTEST_CHECK(spread >= n - (n > 1));
	return 0;
}

/* A CPU with one runnable task takes no timer interrupts. */
SELFTEST(sched_tickless)
{
	u32 cpu = cpumask_next(&cpus_online, 1);
	u64 before, after;

	if (cpu == MAX_CPUS)
		return 0; /* this thread's own sleeps interrupt the only one */
	stop = false;
	memset(where, 0xff, sizeof(where));
	SELFTEST_CHECK(!crew_start(reporter, NULL, 2, true)); /* 0 beside us, 1 alone */
	SELFTEST_CHECK(arrived(1, cpu));
	sleep_ns(30 * MS); /* what was armed before has fired */
	before = timer_interrupts(cpu);
	sleep_ns(100 * MS);
	after = timer_interrupts(cpu);
	WRITE_ONCE(stop, true);
	crew_wait();
	if (after - before > 1)
		printk("# %lu timer interrupts\n", after - before);
	SELFTEST_CHECK(after - before <= 1); /* a grace period may remind it once */
	return 0;
}

static u64 cpu_time(u32 member)
{
	u64 user, system;

	task_times(crew_member(member)->task, &user, &system);
	return user + system;
}

/*
 * Shares of a CPU follow nice: 5 steps are a factor of about 3. On a busy machine a slice may be much longer than it
 * should, so wait for the sums to show it.
 */
SELFTEST(sched_nice)
{
	u64 give_up = clock_ns() + 8000 * MS, high, low;
	u32 last = cpus_up(); /* beside member 0 */
	bool right;

	stop = false;
	memset(progress, 0, sizeof(progress));
	SELFTEST_CHECK(!crew_start(reporter, NULL, last + 1, true));
	sched_set_nice(crew_member(last)->task, 5);
	do {
		sleep_ns(200 * MS);
		high = cpu_time(0);
		low = cpu_time(last);
		right = low > 10 * MS && high > 2 * low && high < 5 * low;
	} while (!right && clock_ns() < give_up);
	WRITE_ONCE(stop, true);
	crew_wait();
	if (!right)
		printk("# %lu and %lu us\n", high / 1000, low / 1000);
	SELFTEST_CHECK(right);
	return 0;
}

/* --- wait queues --------------------------------------------------------------------------- */

static struct {
	struct wait_queue q;
	u32 turn;
	bool over;
	u32 served; /* atomic */
} waits;

/* Members take turns; each wake-up must arrive, or all stand still. */
static void turn_taker(struct member *m)
{
	u64 until = clock_ns() + 50 * MS;

	while (!READ_ONCE(waits.over)) {
		wait_event(&waits.q, READ_ONCE(waits.turn) % 2 == m->index || READ_ONCE(waits.over));
		if (clock_ns() >= until && READ_ONCE(waits.turn) >= 20)
			WRITE_ONCE(waits.over, true);
		WRITE_ONCE(waits.turn, waits.turn + 1);
		wake_up_all(&waits.q);
	}
}

static int take_turns(bool pinned)
{
	wait_init(&waits.q);
	waits.turn = 0;
	waits.over = false;
	SELFTEST_CHECK(!crew_run(turn_taker, NULL, 2, pinned));
	SELFTEST_CHECK(waits.turn >= 20);
	SELFTEST_CHECK(list_empty(&waits.q.list));
	return 0;
}

SELFTEST(wait_no_lost_wakeup)
{
	return take_turns(false) || take_turns(true);
}

/* wake_up() wakes one waiter for each call. */
static bool take_one(u32 *tokens)
{
	u32 n = READ_ONCE(*tokens);

	while (n)
		if (atomic_try_cmpxchg(tokens, &n, n - 1))
			return true;
	return false;
}

static void token_taker(struct member *m)
{
	wait_event(&waits.q, take_one(&waits.turn));
	atomic_add(&waits.served, 1);
}

SELFTEST(wait_one_each)
{
	u32 n = MIN(2 * cpus_up(), 64u);

	wait_init(&waits.q);
	waits.turn = waits.served = 0;
	SELFTEST_CHECK(!crew_start(token_taker, NULL, n, false));
	sleep_ns(2 * MS);
	for (u32 i = 0; i < n; i++) {
		atomic_add(&waits.turn, 1);
		wake_up(&waits.q);
	}
	crew_wait();
	SELFTEST_CHECK(waits.served == n && waits.turn == 0);
	return 0;
}

SELFTEST(wait_times_out)
{
	u64 begin = clock_ns();

	wait_init(&waits.q);
	SELFTEST_CHECK(wait_event_until(&waits.q, false, begin + 3 * MS) == -ETIMEDOUT);
	SELFTEST_CHECK(clock_ns() >= begin + 3 * MS);
	SELFTEST_CHECK(list_empty(&waits.q.list));
	SELFTEST_CHECK(wait_event_until(&waits.q, true, begin) == 0);
	return 0;
}

/* --- timers ---------------------------------------------------------------------------------- */

#define TIMERS 64

static struct shot {
	struct timer timer;
	u64 due, fired;
	u32 place; /* in the order of firing, from 1 */
} shots[TIMERS];
static u32 shots_fired; /* atomic */

static void shoot(struct timer *t)
{
	struct shot *s = container_of(t, struct shot, timer);

	s->fired = clock_ns();
	s->place = atomic_add(&shots_fired, 1);
}

static bool called_off[TIMERS];

/*
 * Arm all, the first of them due in `lead` ns, move some forward, call some off. True if that was
 * done before any could fire, as far as the clock says.
 */
static bool arm_shots(u64 lead)
{
	u64 base = clock_ns() + lead;
	u32 x = 12345;
	bool in_time;

	shots_fired = 0;
	memset(called_off, 0, sizeof(called_off));
	for (int i = 0; i < TIMERS; i++) {
		struct shot *s = &shots[i];

		*s = (struct shot){ 0 };
		x = x * 1103515245 + 12345;
		s->due = base + x % 10000 * 1000;
		timer_init(&s->timer, shoot);
		timer_arm(&s->timer, s->due + (i % 3 == 0 ? 3600000 * MS : 0));
	}
	for (int i = 0; i < TIMERS; i += 3)
		timer_arm(&shots[i].timer, shots[i].due); /* moved forward */
	in_time = clock_ns() < base;
	for (int i = 0; i < TIMERS; i += 4)
		called_off[i] = timer_cancel(&shots[i].timer);
	return in_time;
}

/* All that were not called off have fired, and nothing else; how late does not matter. */
static int check_shots(bool in_order)
{
	u32 expected = 0;

	for (int i = 0; i < TIMERS; i++)
		expected += !called_off[i];
	for (u64 give_up = clock_ns() + 60000 * MS; READ_ONCE(shots_fired) < expected;) {
		SELFTEST_CHECK(clock_ns() < give_up);
		sleep_ns(1 * MS);
	}
	for (int i = 0; i < TIMERS; i++) {
		struct shot *s = &shots[i];

		SELFTEST_CHECK(!timer_cancel(&s->timer)); /* waits for a handler that still runs */
		SELFTEST_CHECK((s->place == 0) == called_off[i]);
		SELFTEST_CHECK(!s->place || s->fired >= s->due);
	}
	SELFTEST_CHECK(shots_fired == expected);
	for (int i = 0; in_order && i < TIMERS; i++) {
		for (int j = 0; j < TIMERS; j++) {
			struct shot *a = &shots[i], *b = &shots[j];

			if (a->place && b->place && a->timer.cpu == b->timer.cpu && a->due < b->due)
				SELFTEST_CHECK(a->place < b->place);
		}
	}
	return 0;
}

/*
 * Timers fire once, those of one CPU in order, none before its time; those called off do not. A
 * busy machine may let any of them fire before we get to call it off: then cancel says so, and the
 * order proves nothing; so give more time, until once all were armed before the first was due.
 */
SELFTEST(timer_order)
{
	bool in_time = false;

	for (u64 lead = 20 * MS; !in_time && lead <= 20000 * MS; lead *= 10) {
		in_time = arm_shots(lead);
		SELFTEST_CHECK(!check_shots(in_time));
	}
	SELFTEST_CHECK(in_time);
	return 0;
}

/* A cancel that returns means that the handler is not running: the memory may go. */
static void racer(struct member *m)
{
	u32 *wrong = m->arg;

	for (int i = 0; i < 200; i++) {
		struct shot s = { 0 };
		u32 place;

		timer_init(&s.timer, shoot);
		timer_arm(&s.timer, clock_ns() + (i % 10) * 10000);
		if (i % 4 == 0)
			sched_yield();
		for (int j = 0; j < i; j++)
			cpu_relax();
		if (timer_cancel(&s.timer) == (s.place != 0))
			atomic_add(wrong, 1);
		place = READ_ONCE(s.place);
		for (int j = 0; j < 20; j++)
			cpu_relax();
		if (READ_ONCE(s.place) != place)
			atomic_add(wrong, 1);
	}
}

SELFTEST(timer_cancel_races)
{
	static u32 wrong;

	wrong = 0;
	SELFTEST_CHECK(!crew_run(racer, &wrong, cpus_up() + 1, false));
	SELFTEST_CHECK(!wrong);
	return 0;
}

/* A sleep lasts at least as long as it should, and not for ever. */
SELFTEST(timer_sleep)
{
	for (u64 ns = 1000; ns <= 10 * MS; ns *= 10) {
		u64 begin = clock_ns();

		sleep_ns(ns);
		SELFTEST_CHECK(clock_ns() - begin >= ns);
		SELFTEST_CHECK(clock_ns() - begin < ns + 1000 * MS);
	}
	return 0;
}
