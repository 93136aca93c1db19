/*
 * Regions: what the guest has marked to be measured.
 *
 * At its first marker all vCPUs are stopped (`arming`): each comes to vcpu_turn_over() at its next
 * block, as its time is set to the turn's end, or is halted. When the last has come, turns begin,
 * and the report. With region=all turns are taken from power-on, and the markers only open and
 * close reports.
 */
#define _GNU_SOURCE
#include <string.h>

#include "turns.h"

#define WHOLE_RUN_START	1000000000	/* ns; the same in every run */

/* Under turns.lock. */
static struct region region;
static bool reporting;			/* in a region */
static bool marked;			/* a region was seen */

void region_idle(int vcpu, int64_t until)
{
	/* It may have begun in the same turn, later than the turn itself. */
	if (reporting && until > vcpus[vcpu].halted_at)
		region.idle[vcpu] += until - vcpus[vcpu].halted_at;
}

void pin(bool pinned)
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
	sched_setaffinity(turns.main_tid, sizeof(set), pinned ? &set : &turns.main_home);
}

static void open_report(void)
{
	if (marked && options.reseed)
		turns.random = ++options.seed;
	marked = reporting = true;
	memset(&region, 0, sizeof(region));
	for (int i = 0; i < vcpu_count; i++) {
		region.before[i] = *score_of(i);
		vcpus[i].halted_at = turns.clock;
	}
	region.rounds = turns.rounds;
	region.turns = turns.taken;
	region.steps = turns.steps;
	region.host_start = host_now();
	profile_reset();
	fault_cost_reset();
	region.start = virtual_now();
}

static void close_report(void)
{
	region.end = virtual_now();
	region.host_end = host_now();
	region.rounds = turns.rounds - region.rounds;
	region.turns = turns.taken - region.turns;
	region.steps = turns.steps - region.steps;
	for (int i = 0; i < vcpu_count; i++)
		if (vcpus[i].idle)
			region_idle(i, region.end);
	reporting = false;
	report_region(&region);
}

void begin_turns(void)
{
	turns.arming = false;
	turns.random = options.seed;
	for (int i = 0; i < vcpu_count; i++) {
		turns.order[i] = i;
		vcpus[i].debt = 0;
	}
	turns.position = 0;
	host_tsc_begins();
	turns.clock = options.whole_run ? WHOLE_RUN_START : virtual_now();
	turns.latest = turns.clock;
	turns.on = true;
	host_kick_main();
	pin(true);
}

static void end_turns(void)
{
	turns.lag = host_now() - virtual_now();
	turns.on = false;
	turns.baton = NOBODY;
	pin(false);
	for (int i = 0; i < vcpu_count; i++) {
		score_of(i)->used = 0;
		if (vcpus[i].stopped || vcpus[i].state == WAKING)
			look_again(&vcpus[i]);
	}
	host_kick_main();
}

void begin_if_armed(void)
{
	if (!turns.arming || turns.waking || !turns.main_polls)
		return;
	for (int i = 0; i < vcpu_count; i++)
		if (vcpus[i].state == RUNNABLE && !vcpus[i].stopped)
			return;
	begin_turns();
	open_report();
	pass();
}

/* One that adds to its time just now loses this: call it again. */
void stop_all(void)
{
	for (int i = 0; i < vcpu_count; i++)
		if (!vcpus[i].stopped)
			score_of((unsigned int)i)->used = TURN_OVER;
}

bool others_come(int vcpu)
{
	for (int i = 0; i < vcpu_count; i++)
		if (i != vcpu && !vcpus[i].stopped && vcpus[i].state != HALTED &&
		    thread_runs(vcpus[i].tid))
			return true;
	return !turns.main_polls && thread_runs(turns.main_tid);
}

bool region_toggle(void)
{
	bool begins = false;

	pthread_mutex_lock(&turns.lock);
	if (reporting) {
		close_report();
		if (!options.whole_run)
			end_turns();
	} else if (turns.arming) {
		/* The guest ran on without being stopped: say so by an empty region. */
		turns.arming = false;
		end_turns();
		open_report();
		region.unfinished = true;
		close_report();
	} else if (turns.on) {
		open_report();
	} else {
		begins = turns.arming = true;
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
	if (reporting && pthread_mutex_trylock(&turns.lock) == 0) {
		region.unfinished = true;
		close_report();
		unlock();
	}
}
