/*
 * offnode: processes fill page tables on one node, move to another, and exit there, which was the
 * end of many kernels' memory (the quicklists of 2005).
 *
 *   -n N   such processes, one after the other (default 20)
 *   -t N   tables that each fills (default 64): one page every 2 MB
 *   -r N   repetitions (default 1)
 *
 * The first CPU that the program may use is on the one node, the last on the other. Then shown, if the
 * kernel tells: tables on the lists of the other node's CPUs, and how many of them are not its own.
 */
#include "bench.h"

#define LISTS	"/sys/kernel/mm/faultline/quicklists"
#define REACH	(2ul << 20)

static size_t count = 20, tables = 64;
static int last_cpu;

static void wander(void)
{
	char *p;

	bind_to(0);
	p = mmap(NULL, tables * REACH, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		fail("mmap");
	for (size_t i = 0; i < tables; i++)
		p[i * REACH] = 1;
	bind_to(last_cpu);
	_exit(0);
}

static double run(void)
{
	double began;
	int status;

	marker();
	began = now();
	for (size_t i = 0; i < count; i++) {
		pid_t pid = fork();

		if (pid == 0)
			wander();
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			fail("fork");
		if (status)
			exit(1);
	}
	began = now() - began;
	marker();
	return began;
}

/* What the lists of the node of the last CPU hold. */
static void show_lists(void)
{
	long held = 0, foreign = 0;
	FILE *f = fopen(LISTS, "r");
	unsigned int node;
	char line[256];

	if (!f || syscall(SYS_getcpu, NULL, &node, NULL))
		return;
	while (fgets(line, sizeof(line), f)) {
		long cpu, of, n, others;

		if (sscanf(line, "%ld %ld %ld %ld", &cpu, &of, &n, &others) == 4 && of == (long)node) {
			held += n;
			foreign += others;
		}
	}
	fclose(f);
	printf("@note tables on the lists of node %u: %ld, of other nodes' memory: %ld\n", node, held,
	       foreign);
}

int main(int argc, char **argv)
{
	int c, repetitions = 1;

	bench_name = "offnode";
	while ((c = getopt(argc, argv, "n:t:r:")) != -1) {
		switch (c) {
		case 'n': count = size_of(optarg, 1); break;
		case 't': tables = size_of(optarg, 1); break;
		case 'r': repetitions = (int)size_of(optarg, 1); break;
		default: optind = argc + 1; break;
		}
	}
	if (optind != argc)
		usage("[-n PROCESSES] [-t TABLES] [-r REPETITIONS]");
	last_cpu = count_cpus() - 1;
	while (repetitions--)
		printf("offnode: %.2f microseconds a process\n", run() * 1e6 / (double)count);
	bind_to(last_cpu);
	show_lists();
	return 0;
}
