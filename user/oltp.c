/*
 * oltp: processes that share one large area, as a database's do its buffer cache.
 *
 * Each of P processes does random operations on random pages of the area: most read a few words of
 * a row, some change it. Every process takes a fault of its own for every page that it meets,
 * unless the kernel shares page tables.
 *
 *   -p N     processes (default 4)          -m SIZE  of the area, with k, m or g (default 64m)
 *   -o N     operations each (default 20000) -w N    percent of operations that write (default 20)
 *   -H       from the hugepage pool         -s N     seed of the access pattern (default 1)
 *   -b       bind each process to a CPU     -r N     repetitions (default 1)
 *
 * Printed are operations a second, faults of all processes in the measured part, and the page
 * tables in use at its end, as the kernel counts them: of the whole machine (/proc/meminfo), and
 * the sum over the processes (VmPTE).
 */
#include "bench.h"

#define PLACE	((void *)(16ul << 40))	/* aligned to 1 GB, so that every level can be shared */
#define ROW	128

struct result {
	long faults, table_kb;
	uint64_t writes;
};

struct control {
	pthread_barrier_t start, done, leave;
	struct result results[];
};

static size_t size = 64 << 20, operations = 20000;
static unsigned int writes_of_100 = 20, seed = 1;
static int processes = 4;
static bool huge, bind;
static char *area;
static struct control *control;

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static uint64_t operate(uint64_t *random)
{
	uint64_t where = next_random(random), sum = 0;
	uint64_t *row = (uint64_t *)(area + where % (size / ROW) * ROW);
	bool write = next_random(random) % 100 < writes_of_100;

	for (int i = 1; i < ROW / 8; i++)
		sum += *(volatile uint64_t *)&row[i];
	if (write)
		__atomic_fetch_add(row, 1, __ATOMIC_RELAXED);
	__asm__ volatile("" ::"r"(sum));
	return write;
}

static void process(int index)
{
	uint64_t random = seed * 0x9e3779b97f4a7c15 + (uint64_t)index * 0xd1342543de82ef95 + 1;
	struct result *mine = &control->results[index];
	struct rusage before, after;
	uint64_t writes = 0;		/* not counted in shared memory while it is measured */

	if (bind)
		bind_to(index);
	for (int i = 0; i < 16; i++)
		next_random(&random);
	getrusage(RUSAGE_SELF, &before);
	pthread_barrier_wait(&control->start);
	for (size_t i = 0; i < operations; i++)
		writes += operate(&random);
	pthread_barrier_wait(&control->done);
	getrusage(RUSAGE_SELF, &after);
	mine->writes = writes;
	mine->faults = after.ru_minflt - before.ru_minflt;
	mine->table_kb = field_of("/proc/self/status", "VmPTE");
	pthread_barrier_wait(&control->leave);
	_exit(0);
}

static void make_barriers(void)
{
	unsigned int all = (unsigned int)processes + 1;
	pthread_barrierattr_t shared;

	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&control->start, &shared, all);
	pthread_barrier_init(&control->done, &shared, all);
	pthread_barrier_init(&control->leave, &shared, all);
	memset(control->results, 0, (size_t)processes * sizeof(struct result));
}

/* The writes counted by the processes must all be in the area. */
static void check(uint64_t writes)
{
	uint64_t sum = 0;

	for (size_t at = 0; at < size; at += ROW)
		sum += *(uint64_t *)(area + at);
	if (sum != writes) {
		fprintf(stderr, "oltp: %lu writes were done, %lu are in the area\n", writes, sum);
		exit(1);
	}
}

static void repetition(void)
{
	long faults = 0, own_tables = 0, tables;
	uint64_t writes = 0;
	double began, took;

	area = mmap(PLACE, size, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS | (huge ? MAP_HUGETLB : 0), -1, 0);
	if (area == MAP_FAILED && huge)
		unsupported("not enough pages in the hugepage pool");
	if (area == MAP_FAILED)
		fail("mmap");
	make_barriers();
	for (int i = 0; i < processes; i++) {
		pid_t pid = fork();

		if (pid < 0)
			fail("fork");
		if (pid == 0)
			process(i);
	}
	marker();
	began = now();
	pthread_barrier_wait(&control->start);
	pthread_barrier_wait(&control->done);
	took = now() - began;
	marker();
	tables = field_of("/proc/meminfo", "PageTables");
	pthread_barrier_wait(&control->leave);
	for (int i = 0; i < processes; i++) {
		int status;

		if (wait(&status) < 0 || status) {
			fprintf(stderr, "oltp: a process died\n");
			exit(1);
		}
	}
	for (int i = 0; i < processes; i++) {
		faults += control->results[i].faults;
		own_tables += control->results[i].table_kb;
		writes += control->results[i].writes;
	}
	check(writes);
	munmap(area, size);
	printf("%9d %9zu %10zu %10.6f %12.0f %9ld %13ld %10ld\n", processes, size >> 10,
	       operations * (size_t)processes, took, (double)operations * processes / took, faults,
	       tables, own_tables);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int c, repetitions = 1;

	bench_name = "oltp";
	while ((c = getopt(argc, argv, "p:m:o:w:s:r:Hb")) != -1) {
		switch (c) {
		case 'p': processes = (int)size_of(optarg, 1); break;
		case 'm': size = size_of(optarg, 4096); break;
		case 'o': operations = size_of(optarg, 1); break;
		case 'w': writes_of_100 = (unsigned int)size_of(optarg, 0); break;
		case 's': seed = (unsigned int)size_of(optarg, 0); break;
		case 'r': repetitions = (int)size_of(optarg, 1); break;
		case 'H': huge = true; break;
		case 'b': bind = true; break;
		default: optind = argc + 1; break;
		}
	}
	if (optind != argc || size % 4096 || writes_of_100 > 100)
		usage("[-p N] [-m SIZE] [-o N] [-w PERCENT] [-s SEED] [-r N] [-H] [-b]");
	control = mmap(NULL, sizeof(*control) + (size_t)processes * sizeof(struct result),
		       PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (control == MAP_FAILED)
		fail("mmap");
	printf("%9s %9s %10s %10s %12s %9s %13s %10s\n", "Processes", "KB", "Ops", "Seconds",
	       "ops/s", "Faults", "PageTables KB", "VmPTE KB");
	while (repetitions--)
		repetition();
	return 0;
}
