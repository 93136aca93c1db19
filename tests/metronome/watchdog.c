/*
 * The watchdog: helps if the holder of the baton waits for what another vCPU would have to do.
 *
 * A holder that waits on a condition variable is seen at once (waits_on()); this is for all other
 * cases. A holder that merely lost its host CPU to other load is in state R, and is left alone.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "turns.h"

bool thread_runs(pid_t tid)
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

/* Three checks in a row without a turn, and the holder asleep: everybody takes a step. */
static void *watchdog(void *unused)
{
	struct timespec pause = { 0, 4000000 };
	uint64_t seen = 0;
	int quiet = 0;

	for (;;) {
		bool runs;

		nanosleep(&pause, NULL);
		pthread_mutex_lock(&turns.lock);
		if (!turns.on || seen != turns.taken) {
			seen = turns.taken;
			quiet = 0;
			unlock();
			continue;
		}
		runs = false;
		for (int i = 0; i < vcpu_count && !runs; i++)
			if (turns.baton == i || vcpus[i].state == WAKING)
				runs = thread_runs(vcpus[i].tid);
		runs |= turns.baton == MAIN && thread_runs(turns.main_tid);
		quiet = runs ? 0 : quiet + 1;
		if (quiet >= 3) {
			step_all();
			quiet = 0;
		}
		unlock();
	}
	return unused;
}

void watchdog_start(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, watchdog, NULL)) {
		fprintf(stderr, "metronome: cannot start the watchdog thread\n");
		exit(BAD_USE);
	}
}
