/*
 * pft: how many page faults a second a machine takes.
 *
 * One anonymous area is mapped, each thread writes one word to every page of
 * its own contiguous part of it, and the area is unmapped again; that is one
 * repetition. Mapping, thread creation and unmapping are not timed.
 *
 *   User, System   time of the faulting threads, summed (getrusage)
 *   Wall           from their common start to the end of the last
 *   flt/cpu/s      pages / (User + System)
 *   fault/wsec     pages / Wall
 *
 * The main thread only coordinates. Right before the start and right after the
 * end it executes `xchg %r15,%r15`, which does nothing, so that a measuring
 * tool that watches the instruction stream knows what is timed.
 *
 * Runs on Linux and Faultline alike. Exit status 1 if anything fails, also if
 * a page does not hold afterwards what was written to it.
 */
#include "bench.h"

struct worker {
	int index;
	double user, system;
	long faults; /* as the kernel counted them */
	bool failed;
	pthread_t thread;
	pid_t pid;
} __attribute__((aligned(64)));

/* Shared with the workers, in a shared mapping because they may be processes. */
struct control {
	struct gate gate;
	struct worker worker[MAX_TEAM];
};

static struct {
	size_t bytes;
	int repetitions;
	bool processes, shared, bind, verbose;
} opt = { .bytes = 64UL << 20, .repetitions = 1 };

static struct control *control;
static char *area;
static size_t page_size, pages;
static int workers;

static double seconds(struct timeval t)
{
	return t.tv_sec + t.tv_usec / 1e6;
}

static void work(struct worker *me)
{
	size_t first = pages * me->index / workers;
	size_t after = pages * (me->index + 1) / workers;
	int who = opt.processes ? RUSAGE_SELF : RUSAGE_THREAD;
	struct rusage before, now;

	if (opt.bind)
		bind_to(me->index);

	gate_enter(&control->gate);
	getrusage(who, &before);
	for (size_t i = first; i < after; i++)
		*(volatile uint64_t *)(area + i * page_size) = i + 1;
	getrusage(who, &now);
	gate_leave(&control->gate);

	me->user += seconds(now.ru_utime) - seconds(before.ru_utime);
	me->system += seconds(now.ru_stime) - seconds(before.ru_stime);
	me->faults += now.ru_minflt - before.ru_minflt;

	for (size_t i = first; i < after; i++)
		if (*(volatile uint64_t *)(area + i * page_size) != i + 1)
			me->failed = true;
}

static void *thread_main(void *arg)
{
	work(arg);
	return NULL;
}

static void start_worker(struct worker *w, const pthread_attr_t *attr)
{
	pid_t pid;

	if (!opt.processes) {
		errno = pthread_create(&w->thread, attr, thread_main, w);
		if (errno)
			fail("pthread_create");
		return;
	}
	pid = fork(); /* only the parent may store it: *w is shared */
	if (pid < 0)
		fail("fork");
	if (pid == 0) {
		work(w);
		_exit(0);
	}
	w->pid = pid;
}

static void finish_worker(struct worker *w)
{
	int status;

	if (!opt.processes) {
		pthread_join(w->thread, NULL);
	} else {
		if (waitpid(w->pid, &status, 0) != w->pid)
			fail("waitpid");
		if (status != 0)
			w->failed = true;
	}
	if (w->failed) {
		fprintf(stderr, "pft: worker %d found a page without what it wrote, or died\n",
			w->index);
		exit(1);
	}
}

/* One repetition; returns its wall time. */
static double repetition(const pthread_attr_t *attr)
{
	double began, took;

	area = mmap(NULL, opt.bytes, PROT_READ | PROT_WRITE,
		    MAP_ANONYMOUS | (opt.shared ? MAP_SHARED : MAP_PRIVATE), -1, 0);
	if (area == MAP_FAILED)
		fail("mmap");

	gate_init(&control->gate, workers, !opt.processes);
	for (int i = 0; i < workers; i++)
		start_worker(&control->worker[i], attr);
	gate_all_here(&control->gate);
	marker();
	began = now();
	gate_open(&control->gate);
	gate_all_done(&control->gate);
	took = now() - began;
	marker();
	gate_release(&control->gate);

	for (int i = 0; i < workers; i++)
		finish_worker(&control->worker[i]);
	if (munmap(area, opt.bytes) != 0)
		fail("munmap");
	return took;
}

static void measure(int count)
{
	double user = 0, system = 0, wall = 0, faults = (double)pages * opt.repetitions;
	pthread_attr_t attr;
	long counted = 0;

	workers = count;
	memset(control, 0, sizeof(*control));
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, BENCH_STACK);
	for (int i = 0; i < workers; i++)
		control->worker[i].index = i;

	for (int r = 0; r < opt.repetitions; r++)
		wall += repetition(&attr);

	for (int i = 0; i < workers; i++) {
		struct worker *w = &control->worker[i];

		user += w->user;
		system += w->system;
		counted += w->faults;
		if (opt.verbose)
			printf("# worker %d: user %.6f system %.6f faults %ld\n", i, w->user,
			       w->system, w->faults);
	}
	if (opt.verbose)
		printf("# pages %.0f, faults counted by the kernel %ld\n", faults, counted);

	printf("%5.4g %3d %7d %9.3fs %9.3fs %8.3fs %13.3f %13.3f\n",
	       opt.bytes / (double)(1UL << 30), opt.repetitions, workers, user, system, wall,
	       user + system > 0 ? faults / (user + system) : 0, wall > 0 ? faults / wall : 0);
	fflush(stdout);
}

static void help(FILE *to)
{
	fprintf(to, "usage: pft [-t N[,N...]] [-g GB | -m MB] [-r N] [-p] [-s] [-b] [-v]\n"
		    "  -t  threads; a list gives one line of the table for each (default 1)\n"
		    "  -g  gigabytes, -m megabytes to fault in, all threads together (default 64 MB)\n"
		    "  -r  repetitions (default 1)\n"
		    "  -p  processes instead of threads\n"
		    "  -s  shared memory (MAP_SHARED) instead of private\n"
		    "  -b  bind each thread to a CPU of its own, in turn\n"
		    "  -v  what each thread did\n");
}

/* A whole number of at least 1, or exit. */
static long number(const char *text, const char **end)
{
	char *stop;
	long n = strtol(text, &stop, 10);

	if (stop == text || n < 1 || (!end && *stop)) {
		fprintf(stderr, "pft: not a number of at least 1: %s\n", text);
		exit(2);
	}
	if (end)
		*end = stop;
	return n;
}

int main(int argc, char **argv)
{
	const char *list = "1", *p;
	int c;

	bench_name = "pft";
	while ((c = getopt(argc, argv, "t:g:m:r:psbvh")) != -1) {
		switch (c) {
		case 't': list = optarg; break;
		case 'g': opt.bytes = (size_t)number(optarg, NULL) << 30; break;
		case 'm': opt.bytes = (size_t)number(optarg, NULL) << 20; break;
		case 'r': opt.repetitions = number(optarg, NULL); break;
		case 'p': opt.processes = true; break;
		case 's': opt.shared = true; break;
		case 'b': opt.bind = true; break;
		case 'v': opt.verbose = true; break;
		case 'h': help(stdout); return 0;
		default: help(stderr); return 2;
		}
	}
	if (optind != argc) {
		help(stderr);
		return 2;
	}
	for (p = list;; p++) { /* complain before anything is measured */
		long n = number(p, &p);

		if (n > MAX_TEAM || (*p && *p != ',')) {
			fprintf(stderr, "pft: bad thread list: %s\n", list);
			return 2;
		}
		if (!*p)
			break;
	}

	page_size = sysconf(_SC_PAGESIZE);
	pages = opt.bytes / page_size;
	count_cpus();
	control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (control == MAP_FAILED)
		fail("mmap");

	printf("%5s %3s %7s %10s %10s %9s %13s %13s\n", "Gb", "Rep", "Threads", "User", "System",
	       "Wall", "flt/cpu/s", "fault/wsec");
	fflush(stdout);
	for (p = list;; p++) {
		measure(number(p, &p));
		if (!*p)
			return 0;
	}
}
