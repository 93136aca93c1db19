/*
 * What the benchmark programs share. The measured part of each lies between two markers, `xchg
 * %r15,%r15`, which do nothing, so that the metronome (docs/metronome.md) knows what to time. All
 * run on Linux and Faultline alike.
 */
#ifndef USER_BENCH_H
#define USER_BENCH_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cpuset.h"
#include "gate.h"

#define BENCH_UNSUPPORTED	77	/* exit status: the kernel lacks what is to be measured */
#define BENCH_STACK		(64 * 1024)

static const char *bench_name;		/* of the program, for messages */

static inline void marker(void)
{
	__asm__ __volatile__("xchg %%r15,%%r15" ::: "memory");
}

__attribute__((unused, noreturn))
static void fail(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", bench_name, what, strerror(errno));
	exit(1);
}

/* Ends the program, which was called in a wrong way. */
__attribute__((unused, noreturn))
static void usage(const char *arguments)
{
	fprintf(stderr, "usage: %s %s\n", bench_name, arguments);
	exit(2);
}

/* Ends the program: a page lost its contents, or had some that are not its own. */
__attribute__((unused, noreturn))
static void wrong_page(size_t offset)
{
	fprintf(stderr, "%s: the page at %#zx does not hold what it should\n", bench_name, offset);
	exit(1);
}

/* Ends the program, as this kernel has not got `what`. */
__attribute__((unused, noreturn))
static void unsupported(const char *what)
{
	printf("%s: not supported: %s\n", bench_name, what);
	exit(BENCH_UNSUPPORTED);
}

__attribute__((unused))
static double now(void)
{
	struct timespec t;

	if (clock_gettime(CLOCK_MONOTONIC, &t))
		fail("clock_gettime");
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/*
 * A whole number of at least `least`, with k, m or g for binary thousands; else the program ends
 * with status 2.
 */
__attribute__((unused))
static size_t size_of(const char *text, size_t least)
{
	char *end;
	unsigned long long n = strtoull(text, &end, 10);
	const char *units = "kmg", *unit = *end ? strchr(units, *end | 32) : NULL;

	if (unit) {
		n <<= 10 * (unit - units + 1);
		end++;
	}
	if (end == text || *end || *text == '-' || n < least) {
		fprintf(stderr, "%s: not a number of at least %zu: %s\n", bench_name, least, text);
		exit(2);
	}
	return n;
}

static cpu_set_t bench_cpus;		/* that the program may use; by count_cpus() */

/* How many CPUs the program may use. To be called before it binds a thread, and by one thread first. */
__attribute__((unused))
static int count_cpus(void)
{
	static int count;

	if (!count) {
		if (sched_getaffinity(0, sizeof(bench_cpus), &bench_cpus))
			fail("sched_getaffinity");
		count = CPU_COUNT(&bench_cpus);
	}
	return count;
}

/* Binds the caller to the CPU that is n-th among those that the program may use, in turn. */
__attribute__((unused))
static void bind_to(int n)
{
	cpu_set_t one;

	n %= count_cpus();
	for (int cpu = 0; cpu < CPUS_IN_SET; cpu++) {
		if (!CPU_ISSET(cpu, &bench_cpus) || n-- > 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		if (sched_setaffinity(0, sizeof(one), &one))
			fail("sched_setaffinity");
		return;
	}
	errno = ENOENT;
	fail("a CPU of the set that is not in it");
}

/* The field `name` of a file of "name: number kB" lines, or -1. */
__attribute__((unused))
static long field_of(const char *file, const char *name)
{
	char line[256];
	long value = -1;
	FILE *f = fopen(file, "r");

	while (f && value < 0 && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':')
			value = atol(line + strlen(name) + 1);
	if (f)
		fclose(f);
	return value;
}

/* ---- a team of threads that start together and are timed together ---- */

struct team {
	int threads;
	bool bind;			/* each to a CPU of its own, in turn */
	void (*work)(int index);
	struct gate gate;
	pthread_t thread[MAX_TEAM];
};

struct member {
	struct team *team;
	int index;
};

static void *team_member(void *arg)
{
	struct member me = *(struct member *)arg;

	free(arg);
	if (me.team->bind)
		bind_to(me.index);
	gate_enter(&me.team->gate);
	me.team->work(me.index);
	gate_leave(&me.team->gate);
	return NULL;
}

/* Runs the team's work between two markers; returns the seconds that it took. */
__attribute__((unused))
static double team_run(struct team *team)
{
	pthread_attr_t attr;
	double began, took;

	gate_init(&team->gate, team->threads, true);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, BENCH_STACK);
	if (team->bind)
		bind_to(0);		/* also reads the set before a thread does */
	for (int i = 0; i < team->threads; i++) {
		struct member *member = malloc(sizeof(*member));

		*member = (struct member){ team, i };
		errno = pthread_create(&team->thread[i], &attr, team_member, member);
		if (errno)
			fail("pthread_create");
	}
	gate_all_here(&team->gate);
	marker();
	began = now();
	gate_open(&team->gate);
	gate_all_done(&team->gate);
	took = now() - began;
	marker();
	gate_release(&team->gate);
	for (int i = 0; i < team->threads; i++)
		pthread_join(team->thread[i], NULL);
	return took;
}

#endif
