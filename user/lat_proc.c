/*
 * lat_proc fork|exec|shell: the time to create a process, in the manner of lmbench.
 *
 *   fork    fork a child that exits at once
 *   exec    fork a child that executes a small program
 *   shell   fork a child that has /bin/sh run the small program
 *
 *   -n N    processes one after the other (default 100)   -N N  repetitions (default 1)
 *   -P N    that many at once, each bound to a CPU of its own (default 1)
 *   -m SIZE of memory that the parent has touched (default 0)
 */
#include "bench.h"

static size_t count = 100, memory;

static void child_fork(void)
{
	_exit(0);
}

static void child_exec(void)
{
	execl("/bin/lat_proc", "lat_proc", "hello", (char *)NULL);
	_exit(127);
}

static void child_shell(void)
{
	execl("/bin/sh", "sh", "-c", "/bin/lat_proc hello", (char *)NULL);
	_exit(127);
}

static const struct kind {
	const char *name, *title;
	void (*child)(void);
} kinds[] = {
	{ "fork", "fork+exit", child_fork },
	{ "exec", "fork+execve", child_exec },
	{ "shell", "fork+/bin/sh -c", child_shell },
};

static void create_all(const struct kind *kind)
{
	for (size_t i = 0; i < count; i++) {
		unsigned int status;
		pid_t pid = fork();

		if (pid == 0)
			kind->child();
		if (pid < 0)
			fail("fork");
		if (waitpid(pid, (int *)&status, 0) != pid)
			fail("waitpid");
		if (status) {
			fprintf(stderr, "lat_proc: a child ended with status %#x\n", status);
			exit(1);
		}
	}
}

/* Processes, not threads: each parent has its own address space, as in lmbench. */
static double run(const struct kind *kind, int parallel)
{
	pthread_barrier_t *start = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
					MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t shared;
	double began, took;
	bool good = true;

	if (start == MAP_FAILED)
		fail("mmap");
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(start, &shared, (unsigned int)parallel);
	for (int i = 1; i < parallel; i++) {
		pid_t pid = fork();

		if (pid < 0)
			fail("fork");
		if (pid == 0) {
			bind_to(i);
			pthread_barrier_wait(start);
			create_all(kind);
			_exit(0);
		}
	}
	bind_to(0);
	pthread_barrier_wait(start);
	marker();
	began = now();
	create_all(kind);
	for (int i = 1; i < parallel; i++) {
		int status;

		if (waitpid(-1, &status, 0) < 0 || status)
			good = false;
	}
	took = now() - began;
	marker();
	munmap(start, 4096);
	if (!good) {
		fprintf(stderr, "lat_proc: one of the processes failed\n");
		exit(1);
	}
	return took;
}

static void touch_memory(void)
{
	char *p = mmap(NULL, memory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		fail("mmap");
	for (size_t at = 0; at < memory; at += 4096)
		*(volatile char *)(p + at) = 1;
}

int main(int argc, char **argv)
{
	int c, repetitions = 1, parallel = 1;
	const struct kind *kind = NULL;

	if (argc == 2 && !strcmp(argv[1], "hello"))
		return 0;		/* the small program */
	bench_name = "lat_proc";
	while ((c = getopt(argc, argv, "n:N:P:m:")) != -1) {
		switch (c) {
		case 'n': count = size_of(optarg, 1); break;
		case 'N': repetitions = (int)size_of(optarg, 1); break;
		case 'P': parallel = (int)size_of(optarg, 1); break;
		case 'm': memory = size_of(optarg, 0); break;
		default: optind = argc + 1; break;
		}
	}
	for (size_t i = 0; optind == argc - 1 && i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(argv[optind], kinds[i].name))
			kind = &kinds[i];
	if (!kind)
		usage("[-n N] [-N REPETITIONS] [-P N] [-m SIZE] fork|exec|shell");
	if (memory)
		touch_memory();
	while (repetitions--)
		printf("Process %s: %.4f microseconds\n", kind->title,
		       run(kind, parallel) * 1e6 / (double)count);
	return 0;
}
