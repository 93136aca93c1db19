/*
 * Turns and virtual time.
 *
 * Inside a region exactly one party runs: a vCPU, or QEMU's main loop, which fires the timers. It holds the baton.
 * A vCPU keeps it for one turn (a number of nanoseconds, one per instruction), then hands it to the next; after the last
 * the clock moves on by one turn's length, so every CPU seems to run at 1 instruction/ns, all at once.
 *
 *     vCPU 0   |##|        |##|        |##|           each ## is one turn; a halted vCPU is passed over
 *     vCPU 1      |##|        |##|        |##|
 *     main           .           |##|                 only when a timer is due or a vCPU gave it work
 *     clock    0..... 200........ 400........ 600
 *
 * What makes the interleaving repeat exactly:
 * - timers fire between two rounds, as the main loop gets the baton when the clock reaches its next deadline;
 * - a vCPU woken by an interrupt needs a while of host time to get going: nobody gets the baton until it has settled;
 * - when all are halted, the clock jumps to the main loop's next deadline.
 *
 * A vCPU that waits for the baton is stopped between two blocks of guest code. QEMU sometimes needs all vCPUs out of
 * their code at once (to flush translations, to stop). The baton's holder is then seen to wait (pthread_cond_wait, or no
 * progress for a while), and every waiting vCPU runs one block, which takes it past QEMU's exit check.
 *
 * Lock order: QEMU's big lock, then `lock`. Nothing is waited for while either is held.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "metronome.h"

#define WHOLE_RUN_START	1000000000	/* ns; the same in every run */

enum { NOBODY = -1, MAIN = -2 };	/* holders that are not a vCPU */

enum state {
	HALTED,		/* in pthread_cond_wait, or about to be; or not started */
	RUNNABLE,
	WAKING,		/* signalled or resumed; it will become one of the other two */
};

struct vcpu {
	enum state state;
	bool idle;		/* between QEMU's idle and resume callbacks */
	bool stopped;		/* waits in vcpu_turn_over() */
	bool step;		/* is asked to run one block without the baton */
	pid_t tid;		/* 0: not started */
	cpu_set_t home;		/* affinity outside the region */
	pthread_cond_t *cond;	/* what the halted thread waits on */
	int64_t debt;		/* units used beyond earlier turns */
	int64_t length;		/* of this turn, units */
	int64_t halted_at;	/* ns */
	_Atomic uint32_t go;	/* futex: look again */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* All below: under `lock`, except that `on` and the clock may be read without. */
static struct vcpu vcpus[MAX_VCPUS];
static int order[MAX_VCPUS];	/* of the vCPUs in this round */
static int position;		/* in `order`, of the next */
static int waking;
static _Atomic int baton = NOBODY;
static struct vcpu *granted;	/* has got the baton, is to be woken by unlock() */
static bool granted_main;	/* likewise */
static atomic_bool on;		/* turns are taken */
static bool arming;		/* a region begins when all vCPUs have stopped */
static bool reporting;		/* in a region */
static bool marked;		/* a region was seen */
static bool main_polls;
static bool main_needed;
static int64_t deadline = NEVER;
static _Atomic int64_t clock_ns;	/* virtual time, while `on` */
static _Atomic int64_t latest;		/* newest time given out */
static _Atomic int64_t lag;		/* of virtual time behind the host's, outside regions */
static uint64_t random_state;
static pid_t main_tid;
static cpu_set_t main_home;
static struct region region;
static _Atomic uint64_t turns;	/* the watchdog's sign of progress */
static uint64_t rounds, steps;

static void pass(void);

static void futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t ns)
{
	struct timespec ts = { ns / 1000000000, ns % 1000000000 };

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, ns == NEVER ? NULL : &ts, NULL, 0);
}

static void look_again(struct vcpu *v)
{
	if (!atomic_exchange(&v->go, 1))
		syscall(SYS_futex, &v->go, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Wakes who has got the baton under the lock only now: it needs the lock itself. */
static void unlock(void)
{
	struct vcpu *v = granted;
	bool kick = granted_main;

	granted = NULL;
	granted_main = false;
	pthread_mutex_unlock(&lock);
	if (v)
		look_again(v);
	if (kick)
		host_kick_main();
}

/* splitmix64: small, full period, good from any seed. */
static uint64_t draw(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* ---- time ---- */

/* How far the vCPU of this thread is ahead of the round's start, ns. */
static int64_t ahead(int vcpu)
{
	struct vcpu *v = &vcpus[vcpu];
	int64_t left, units;

	if (baton != vcpu)
		return 0;
	left = (int64_t)(TURN_OVER - score_of(vcpu)->used);
	units = options.turn * UNITS - left;
	if (v->length && options.seeded)	/* turns differ: scale to the round's length */
		units = (v->length - left) * (options.turn * UNITS) / v->length;
	if (units < 0)
		return 0;
	return units / UNITS < options.turn ? units / UNITS : options.turn;
}

int64_t virtual_now(void)
{
	int64_t now, seen = atomic_load(&latest);

	if (!atomic_load(&on))
		now = host_now() - atomic_load(&lag);
	else
		now = atomic_load(&clock_ns) + (self >= 0 ? ahead(self) : 0);
	while (now > seen)
		if (atomic_compare_exchange_weak(&latest, &seen, now))
			return now;
	return seen;
}

bool turns_are_on(void)
{
	return atomic_load_explicit(&on, memory_order_relaxed);
}

/* ---- who is next ---- */

static void set_state(struct vcpu *v, enum state state)
{
	waking += (state == WAKING) - (v->state == WAKING);
	v->state = state;
}

static void new_round(void)
{
	position = 0;
	rounds++;
	if (!options.seeded)
		return;
	for (int i = vcpu_count - 1; i > 0; i--) {
		int j = draw() % (i + 1), swap = order[i];

		order[i] = order[j];
		order[j] = swap;
	}
}

/* Length of a vCPU's next turn in units. The mean is the same for all, so nobody is faster in the long run. */
static int64_t turn_length(void)
{
	int64_t turn = options.turn * UNITS;

	if (!options.seeded)
		return turn;
	if (!options.wide)
		return turn / 2 + (int64_t)(draw() % (uint64_t)turn);
	switch (draw() % 8) {		/* wide: mostly hardly moving, now and then far ahead */
	case 0:
		return turn * 4;
	case 1:
		return turn + (int64_t)(draw() % (uint64_t)turn);
	default:
		return turn / 32 + (int64_t)(draw() % (uint64_t)(turn / 4));
	}
}

/* Gives the vCPU its turn, unless all of it goes to pay a debt. */
static bool grant(int vcpu)
{
	struct vcpu *v = &vcpus[vcpu];
	int64_t length = turn_length();

	if (v->debt >= length) {
		v->debt -= length;
		return false;
	}
	v->length = length;
	score_of(vcpu)->used = TURN_OVER - (uint64_t)(length - v->debt);
	v->debt = 0;
	baton = vcpu;
	atomic_fetch_add_explicit(&turns, 1, memory_order_relaxed);
	if (vcpu != self)
		granted = v;
	return true;
}

static void grant_main(void)
{
	main_needed = false;
	baton = MAIN;
	atomic_fetch_add_explicit(&turns, 1, memory_order_relaxed);
	granted_main = true;
}

static bool anyone_runnable(void)
{
	for (int i = 0; i < vcpu_count; i++)
		if (vcpus[i].state == RUNNABLE)
			return true;
	return false;
}

/* The holder gives the baton up: find the next. */
static void pass(void)
{
	for (;;) {
		baton = NOBODY;
		if (waking)
			return;		/* the last to settle comes here */
		while (position < vcpu_count) {
			int vcpu = order[position++];

			if (vcpus[vcpu].state == RUNNABLE && grant(vcpu))
				return;
		}
		new_round();
		if (anyone_runnable()) {
			atomic_fetch_add(&clock_ns, options.turn);
		} else if (!main_needed) {
			if (deadline == NEVER)
				return;	/* the guest waits for the outside world */
			if (atomic_load(&clock_ns) < deadline)
				atomic_store(&clock_ns, deadline);
		}
		if (main_needed || atomic_load(&clock_ns) >= deadline)
			return grant_main();
	}
}

/* Every waiting vCPU runs one block, to get to QEMU's exit check. */
static void step_all(void)
{
	for (int i = 0; i < vcpu_count; i++)
		if (vcpus[i].stopped && i != baton) {
			vcpus[i].step = true;
			steps++;
			look_again(&vcpus[i]);
		}
}

/* Runs, or would if it had a host CPU. */
static bool thread_runs(pid_t tid)
{
	char path[64], line[256], *state;
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	f = fopen(path, "r");
	if (f) {
		n = fread(line, 1, sizeof(line) - 1, f);
		fclose(f);
	}
	line[n] = 0;
	state = strrchr(line, ')');
	return state && state[1] && state[2] == 'R';
}

/* ---- regions ---- */

/* A halted vCPU's sleep ends, at a time that may be in the same turn as its begin. */
static void add_idle(int vcpu, int64_t until)
{
	if (until > vcpus[vcpu].halted_at)
		region.idle[vcpu] += until - vcpus[vcpu].halted_at;
}

static void pin(bool pinned)
{
	cpu_set_t set;

	if (options.cpu == -2)
		return;
	CPU_ZERO(&set);
	CPU_SET(options.cpu >= 0 ? options.cpu : sched_getcpu(), &set);
	for (int i = 0; i < vcpu_count; i++)
		if (vcpus[i].tid)
			sched_setaffinity(vcpus[i].tid, sizeof(set),
					  pinned ? &set : &vcpus[i].home);
	sched_setaffinity(main_tid, sizeof(set), pinned ? &set : &main_home);
}

static void open_report(void)
{
	marked = reporting = true;
	memset(&region, 0, sizeof(region));
	for (int i = 0; i < vcpu_count; i++) {
		region.before[i] = *score_of(i);
		vcpus[i].halted_at = atomic_load(&clock_ns);
	}
	region.rounds = rounds;
	region.turns = atomic_load(&turns);
	region.steps = steps;
	region.host_start = host_now();
	profile_reset();
	fault_cost_reset();
	region.start = virtual_now();
}

static void close_report(void)
{
	region.end = virtual_now();
	region.host_end = host_now();
	region.rounds = rounds - region.rounds;
	region.turns = atomic_load(&turns) - region.turns;
	region.steps = steps - region.steps;
	for (int i = 0; i < vcpu_count; i++)
		if (vcpus[i].idle)
			add_idle(i, region.end);
	reporting = false;
	report_region(&region);
}

static void begin_turns(void)
{
	arming = false;
	random_state = options.seed;
	for (int i = 0; i < vcpu_count; i++) {
		order[i] = i;
		vcpus[i].debt = 0;
	}
	position = 0;
	main_needed = false;
	host_tsc_begins();
	atomic_store(&clock_ns, options.whole_run ? WHOLE_RUN_START : virtual_now());
	atomic_store(&latest, clock_ns);
	atomic_store(&on, true);
	host_kick_main();
	pin(true);
}

static void end_turns(void)
{
	atomic_store(&lag, host_now() - virtual_now());
	atomic_store(&on, false);
	baton = NOBODY;
	pin(false);
	for (int i = 0; i < vcpu_count; i++) {
		score_of(i)->used = 0;
		if (vcpus[i].stopped)
			look_again(&vcpus[i]);
	}
	host_kick_main();
}

/* Begins the region when every vCPU is stopped or halted, and the main loop polls. */
static void begin_if_armed(void)
{
	if (!arming || waking || !main_polls)
		return;
	for (int i = 0; i < vcpu_count; i++)
		if (vcpus[i].state == RUNNABLE && !vcpus[i].stopped)
			return;
	begin_turns();
	open_report();
	pass();
}

/* Makes every vCPU come to vcpu_turn_over(). One that adds to its time just now loses this: call it again. */
static void stop_all(void)
{
	for (int i = 0; i < vcpu_count; i++)
		if (!vcpus[i].stopped)
			score_of((unsigned int)i)->used = TURN_OVER;
}

/* While arming: will all others stop by themselves, or does one of them wait for something that we hold up? */
static bool others_come(int vcpu)
{
	for (int i = 0; i < vcpu_count; i++)
		if (i != vcpu && !vcpus[i].stopped && vcpus[i].state != HALTED && thread_runs(vcpus[i].tid))
			return true;
	return !main_polls && thread_runs(main_tid);
}

bool region_toggle(void)
{
	bool begins = false;

	pthread_mutex_lock(&lock);
	if (reporting) {
		close_report();
		if (!options.whole_run)
			end_turns();
	} else if (arming) {
		/* The guest ran on without being stopped: say so by an empty region. */
		arming = false;
		end_turns();
		open_report();
		region.unfinished = true;
		close_report();
	} else if (atomic_load(&on)) {
		open_report();
	} else {
		begins = arming = true;
		stop_all();
		host_kick_main();
	}
	unlock();
	return begins;
}

bool region_was_marked(void)
{
	return marked;
}

void region_abandon(void)
{
	/* The process ends; another thread that holds the lock may not come back. */
	if (reporting && pthread_mutex_trylock(&lock) == 0) {
		region.unfinished = true;
		close_report();
		unlock();
	}
}

/* ---- what vCPU threads tell ---- */

void vcpu_started(unsigned int vcpu)
{
	struct vcpu *v = &vcpus[vcpu];

	pthread_mutex_lock(&lock);
	v->tid = gettid();
	for (int i = 0; i < vcpu_count; i++)
		if (i != (int)vcpu && vcpus[i].tid == v->tid) {
			fprintf(stderr, "metronome: each vCPU needs a thread: -accel tcg,thread=multi\n");
			_exit(BAD_USE);
		}
	sched_getaffinity(v->tid, sizeof(v->home), &v->home);
	set_state(v, RUNNABLE);
	if (atomic_load(&on)) {
		score_of(vcpu)->used = TURN_OVER;
		pin(true);
		host_trap_tsc();
	}
	unlock();
}

/* A vCPU is where it can be given the baton, or has halted. */
static void settle(struct vcpu *v, enum state state)
{
	set_state(v, state);
	if (atomic_load(&on) && baton == NOBODY && !waking)
		pass();
	else if (arming)
		begin_if_armed();
}

void vcpu_halted(unsigned int vcpu)
{
	struct vcpu *v = &vcpus[vcpu];

	pthread_mutex_lock(&lock);
	v->idle = true;
	v->halted_at = atomic_load(&clock_ns) + ahead((int)vcpu);
	v->debt = 0;
	if (atomic_load(&on) && baton == (int)vcpu) {
		set_state(v, HALTED);
		pass();
	} else {
		settle(v, HALTED);
	}
	unlock();
}

void vcpu_resumed(unsigned int vcpu)
{
	struct vcpu *v = &vcpus[vcpu];

	pthread_mutex_lock(&lock);
	v->idle = false;
	if (reporting)
		add_idle((int)vcpu, atomic_load(&clock_ns));
	if (v->tid)
		score_of(vcpu)->used = atomic_load(&on) || arming ? TURN_OVER : 0;
	/* It may halt again without having run anything: it has settled when it comes to a block. */
	set_state(v, atomic_load(&on) ? WAKING : RUNNABLE);
	unlock();
}

/* Called at the start of the first block after the turn has been used up. */
void vcpu_turn_over(unsigned int vcpu)
{
	struct vcpu *v = &vcpus[vcpu];
	struct score *score = score_of(vcpu);

	pthread_mutex_lock(&lock);
	if (!atomic_load(&on) && !arming) {
		score->used = 0;
		unlock();
		return;
	}
	v->debt += (int64_t)(score->used - TURN_OVER);
	score->used = TURN_OVER;
	atomic_store(&v->go, 0);
	v->step = false;
	v->stopped = true;
	if (v->state != RUNNABLE)
		settle(v, RUNNABLE);	/* which may give it the baton */
	else if (arming)
		begin_if_armed();
	else if (baton == (int)vcpu)
		pass();
	while ((atomic_load(&on) || arming) && baton != (int)vcpu && !v->step) {
		int64_t patience = arming ? 20000000 : NEVER;

		unlock();
		futex_wait(&v->go, 0, patience);
		pthread_mutex_lock(&lock);
		if (arming && !atomic_exchange(&v->go, 0)) {
			stop_all();
			if (!others_come((int)vcpu))
				break;	/* somebody needs this vCPU to get on: run a block, come back */
		}
		atomic_store(&v->go, 0);
	}
	v->stopped = false;
	if (!atomic_load(&on) && !arming)
		score->used = 0;
	if (atomic_load(&on))
		host_trap_tsc();
	unlock();
}

/* ---- what host.c tells ---- */

void waits_on(pthread_cond_t *cond)
{
	pthread_mutex_lock(&lock);
	if (self >= 0 && vcpus[self].idle) {
		vcpus[self].cond = cond;
		if (vcpus[self].state == WAKING)
			settle(&vcpus[self], HALTED);
	} else if (atomic_load(&on) && (self >= 0 ? baton == self : baton == MAIN)) {
		step_all();
	}
	unlock();
}

void wakes(pthread_cond_t *cond)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < vcpu_count; i++)
		if (vcpus[i].cond == cond && vcpus[i].state == HALTED)
			set_state(&vcpus[i], WAKING);
	unlock();
}

void main_is_needed(void)
{
	pthread_mutex_lock(&lock);
	main_needed = true;
	unlock();
}

void main_enters_poll(int64_t next)
{
	pthread_mutex_lock(&lock);
	deadline = next;
	main_polls = true;
	if (arming)
		begin_if_armed();
	else if (atomic_load(&on) && (baton == MAIN || (baton == NOBODY && !waking)))
		pass();
	unlock();
}

bool main_may_leave_poll(bool ready, bool due)
{
	bool may;

	pthread_mutex_lock(&lock);
	if (ready && atomic_load(&on) && baton != MAIN) {
		main_needed = true;
		if (baton == NOBODY && !waking)
			pass();
	}
	may = atomic_load(&on) ? baton == MAIN : ready || due;
	if (may)
		main_polls = false;
	unlock();
	return may;
}

/* ---- the watchdog ---- */

/*
 * If the baton's holder sleeps for three checks in a row and nobody else moves, it waits for something that a waiting vCPU
 * has to do. A holder that merely lost its host CPU to other load is in state R, and is left alone.
 */
static void *watchdog(void *unused)
{
	struct timespec pause = { 0, 4000000 };
	uint64_t seen = 0;
	int quiet = 0;

	for (;;) {
		bool runs;

		nanosleep(&pause, NULL);
		pthread_mutex_lock(&lock);
		if (!atomic_load(&on) || seen != atomic_load(&turns)) {
			seen = atomic_load(&turns);
			quiet = 0;
			unlock();
			continue;
		}
		runs = false;
		for (int i = 0; i < vcpu_count && !runs; i++)
			if (baton == i || vcpus[i].state == WAKING)
				runs = thread_runs(vcpus[i].tid);
		runs |= baton == MAIN && thread_runs(main_tid);
		quiet = runs ? 0 : quiet + 1;
		if (quiet >= 3) {
			step_all();
			quiet = 0;
		}
		unlock();
	}
	return unused;
}

void turns_start(void)
{
	pthread_t thread;

	main_tid = getpid();
	sched_getaffinity(main_tid, sizeof(main_home), &main_home);
	if (options.whole_run) {
		baton = MAIN;
		begin_turns();
		host_trap_tsc();
	}
	if (pthread_create(&thread, NULL, watchdog, NULL)) {
		fprintf(stderr, "metronome: cannot start the watchdog thread\n");
		exit(1);
	}
}
