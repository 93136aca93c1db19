/*
 * Turns and virtual time.
 *
 * Inside a region exactly one party runs: a vCPU, or QEMU's main loop, which fires the timers. It
 * holds the baton. A vCPU keeps it for one turn (a number of nanoseconds, one per instruction),
 * then hands it to the next; after the last the clock moves on by one turn's length, so every CPU
 * seems to run at 1 instruction/ns, all at once.
 *
 *     vCPU 0   |##|        |##|        |##|      each ## is one turn; a halted vCPU is passed over
 *     vCPU 1      |##|        |##|        |##|
 *     main           .           |##|            only when a timer is due or a vCPU gave it work
 *     clock    0..... 200........ 400........ 600
 *
 * What makes the interleaving repeat exactly:
 * - timers fire between two rounds, when the main loop gets the baton as the clock comes to its
 *   next deadline;
 * - a vCPU woken by an interrupt looks for interrupts when the turn of whoever woke it is over, so
 *   that it sees all that were sent in it, however fast its thread gets going;
 * - that needs a while of host time: nobody gets the baton until it has settled;
 * - when all are halted, the clock jumps to the main loop's next deadline.
 *
 * A vCPU that waits for the baton is stopped between two blocks of guest code. QEMU sometimes needs
 * all vCPUs out of their code at once (to flush translations, to stop). The baton's holder is then
 * seen to wait (pthread_cond_wait, or no progress for a while), and every waiting vCPU runs one
 * block, which takes it past QEMU's exit check.
 *
 * Lock order: QEMU's big lock, then turns.lock. Nothing is waited for while either is held.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "turns.h"

struct turns turns = {
	.lock = PTHREAD_MUTEX_INITIALIZER, .baton = NOBODY, .deadline = NEVER,
};
struct vcpu vcpus[MAX_VCPUS];

static void futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t ns)
{
	struct timespec ts = { ns / 1000000000, ns % 1000000000 };

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, ns == NEVER ? NULL : &ts, NULL, 0);
}

void look_again(struct vcpu *v)
{
	if (!atomic_exchange(&v->go, 1))
		syscall(SYS_futex, &v->go, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Who has got the baton is woken only here: it needs the lock itself. */
void unlock(void)
{
	struct vcpu *v = turns.granted;
	bool kick = turns.granted_main;

	turns.granted = NULL;
	turns.granted_main = false;
	pthread_mutex_unlock(&turns.lock);
	if (v)
		look_again(v);
	if (kick)
		host_kick_main();
}

/* splitmix64: small, full period, good from any seed. */
static uint64_t draw(void)
{
	uint64_t z = turns.random += 0x9e3779b97f4a7c15;

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

	if (turns.baton != vcpu)
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
	int64_t now, seen = turns.latest;

	if (!turns.on)
		now = host_now() - turns.lag;
	else
		now = turns.clock + (self >= 0 ? ahead(self) : 0);
	while (now > seen)
		if (atomic_compare_exchange_weak(&turns.latest, &seen, now))
			return now;
	return seen;
}

bool turns_are_on(void)
{
	return atomic_load_explicit(&turns.on, memory_order_relaxed);
}

/* ---- who is next ---- */

static void set_state(struct vcpu *v, enum state state)
{
	turns.waking += (state == WAKING) - (v->state == WAKING);
	v->state = state;
}

static void new_round(void)
{
	turns.position = 0;
	turns.rounds++;
	if (!options.seeded)
		return;
	for (int i = vcpu_count - 1; i > 0; i--) {
		int j = draw() % (i + 1), swap = turns.order[i];

		turns.order[i] = turns.order[j];
		turns.order[j] = swap;
	}
}

/*
 * Length of a vCPU's next turn in units. The mean is the same for all, so nobody is faster in the
 * long run.
 */
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
	turns.baton = vcpu;
	turns.taken++;
	if (vcpu != self)
		turns.granted = v;
	return true;
}

static void grant_main(void)
{
	turns.main_needed = false;
	turns.baton = MAIN;
	turns.taken++;
	turns.granted_main = true;
}

static bool anyone_runnable(void)
{
	for (int i = 0; i < vcpu_count; i++)
		if (vcpus[i].state == RUNNABLE)
			return true;
	return false;
}

/* The turn in which they were woken is over: they may look for interrupts. */
static void let_wake(void)
{
	for (int i = 0; i < vcpu_count; i++)
		if (vcpus[i].state == WAKING)
			look_again(&vcpus[i]);
}

void pass(void)
{
	for (;;) {
		turns.baton = NOBODY;
		if (turns.waking)
			return let_wake();	/* the last to settle comes here */
		while (turns.position < vcpu_count) {
			int vcpu = turns.order[turns.position++];

			if (vcpus[vcpu].state == RUNNABLE && grant(vcpu))
				return;
		}
		new_round();
		if (anyone_runnable()) {
			turns.clock += options.turn;
		} else if (!turns.main_needed) {
			if (turns.deadline == NEVER)
				return;	/* the guest waits for the outside world */
			if (turns.clock < turns.deadline)
				turns.clock = turns.deadline;
		}
		if (turns.main_needed || turns.clock >= turns.deadline)
			return grant_main();
	}
}

void step_all(void)
{
	for (int i = 0; i < vcpu_count; i++)
		if ((vcpus[i].stopped || vcpus[i].state == WAKING) && i != turns.baton) {
			vcpus[i].step = true;
			turns.steps += vcpus[i].stopped;
			look_again(&vcpus[i]);
		}
}

/* ---- what vCPU threads tell ---- */

void vcpu_started(unsigned int vcpu)
{
	struct vcpu *v = &vcpus[vcpu];

	pthread_mutex_lock(&turns.lock);
	v->tid = gettid();
	for (int i = 0; i < vcpu_count; i++)
		if (i != (int)vcpu && vcpus[i].tid == v->tid) {
			fprintf(stderr,
				"metronome: each vCPU needs a thread: -accel tcg,thread=multi\n");
			_exit(BAD_USE);
		}
	sched_getaffinity(v->tid, sizeof(v->home), &v->home);
	set_state(v, RUNNABLE);
	if (turns.on) {
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
	if (turns.on && turns.baton == NOBODY && !turns.waking)
		pass();
	else if (turns.arming)
		begin_if_armed();
}

void vcpu_halted(unsigned int vcpu)
{
	struct vcpu *v = &vcpus[vcpu];

	pthread_mutex_lock(&turns.lock);
	v->idle = true;
	v->halted_at = turns.clock + ahead((int)vcpu);
	v->debt = 0;
	if (turns.on && turns.baton == (int)vcpu) {
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

	pthread_mutex_lock(&turns.lock);
	v->idle = false;
	region_idle((int)vcpu, turns.clock);
	if (v->tid)
		score_of(vcpu)->used = turns.on || turns.arming ? TURN_OVER : 0;
	/*
	 * It may halt again without having run anything: it has settled when it comes to a block.
	 */
	set_state(v, turns.on ? WAKING : RUNNABLE);
	unlock();
}

/* Called at the start of the first block after the turn has been used up. */
void vcpu_turn_over(unsigned int vcpu)
{
	struct vcpu *v = &vcpus[vcpu];
	struct score *score = score_of(vcpu);

	pthread_mutex_lock(&turns.lock);
	if (!turns.on && !turns.arming) {
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
	else if (turns.arming)
		begin_if_armed();
	else if (turns.baton == (int)vcpu)
		pass();
	while ((turns.on || turns.arming) && turns.baton != (int)vcpu && !v->step) {
		int64_t patience = turns.arming ? 20000000 : NEVER;

		unlock();
		futex_wait(&v->go, 0, patience);
		pthread_mutex_lock(&turns.lock);
		if (turns.arming && !atomic_exchange(&v->go, 0)) {
			stop_all();
			if (!others_come((int)vcpu))
				break;	/* somebody needs us to get on: run a block, come back */
		}
		atomic_store(&v->go, 0);
	}
	v->stopped = false;
	if (!turns.on && !turns.arming)
		score->used = 0;
	if (turns.on)
		host_trap_tsc();
	unlock();
}

/* ---- what host.c tells ---- */

void waits_on(pthread_cond_t *cond)
{
	pthread_mutex_lock(&turns.lock);
	if (self >= 0 && vcpus[self].idle) {
		vcpus[self].cond = cond;
		vcpus[self].step = false;
		if (vcpus[self].state == WAKING)
			settle(&vcpus[self], HALTED);
	} else if (turns.on && (self >= 0 ? turns.baton == self : turns.baton == MAIN)) {
		step_all();
	}
	unlock();
}

void wait_for_waker(pthread_mutex_t *mutex)
{
	struct vcpu *v = self >= 0 ? &vcpus[self] : NULL;

	for (;;) {
		bool held;

		pthread_mutex_lock(&turns.lock);
		held = turns.on && v && v->idle && v->state == WAKING && turns.baton != NOBODY &&
		       !v->step;
		if (v)
			atomic_store(&v->go, 0);
		unlock();
		if (!held)
			return;
		pthread_mutex_unlock(mutex);
		futex_wait(&v->go, 0, NEVER);
		pthread_mutex_lock(mutex);
	}
}

void wakes(pthread_cond_t *cond)
{
	pthread_mutex_lock(&turns.lock);
	for (int i = 0; i < vcpu_count; i++)
		if (vcpus[i].cond == cond && vcpus[i].state == HALTED)
			set_state(&vcpus[i], WAKING);
	unlock();
}

void main_is_needed(void)
{
	pthread_mutex_lock(&turns.lock);
	turns.main_needed = true;
	unlock();
}

void main_enters_poll(int64_t next)
{
	pthread_mutex_lock(&turns.lock);
	turns.deadline = next;
	turns.main_polls = true;
	if (turns.arming)
		begin_if_armed();
	else if (turns.on && (turns.baton == MAIN || (turns.baton == NOBODY && !turns.waking)))
		pass();
	unlock();
}

bool main_may_leave_poll(bool ready, bool due)
{
	bool may;

	pthread_mutex_lock(&turns.lock);
	if (ready && turns.on && turns.baton != MAIN) {
		turns.main_needed = true;
		if (turns.baton == NOBODY && !turns.waking)
			pass();
	}
	may = turns.on ? turns.baton == MAIN : ready || due;
	if (may)
		turns.main_polls = false;
	if (may && !turns.on)
		turns.main_needed = false;
	unlock();
	return may;
}

void turns_start(void)
{
	turns.main_tid = getpid();
	sched_getaffinity(turns.main_tid, sizeof(turns.main_home), &turns.main_home);
	if (options.whole_run) {
		turns.baton = MAIN;
		begin_turns();
		host_trap_tsc();
	}
	watchdog_start();
}
