/*
 * thp_memscale and thp_memscale_hugetlbfs: every thread touches its own block of one address space.
 * They differ only in where the memory comes from.
 *
 *   -c N      threads (default 1)         -b SIZE  bytes per thread, with k, m or g (default 16m)
 *   -r N      repetitions (default 1)     -B       bind each thread to a CPU of its own
 *   -n        ask for no hugepages (thp_memscale only)
 */
#include "bench.h"

#define HUGE	(2ul << 20)

static char *area;
static size_t block = 16 << 20;
static struct team team = { .threads = 1 };

static void touch(int index)
{
	char *mine = area + (size_t)index * block;

	for (size_t at = 0; at < block; at += 4096)
		*(volatile uint64_t *)(mine + at) = at + (size_t)index;
}

static void check(void)
{
	for (size_t i = 0; i < (size_t)team.threads; i++)
		for (size_t at = 0; at < block; at += 4096)
			if (*(volatile uint64_t *)(area + i * block + at) != at + i)
				wrong_page(i * block + at);
}

static long minor_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

/* `map` gives memory for all blocks, aligned to a hugepage. */
static int memscale(int argc, char **argv, char *(*map)(size_t size, bool huge))
{
	int c, repetitions = 1;
	bool huge = true;

	team.work = touch;
	while ((c = getopt(argc, argv, "c:b:r:Bn")) != -1) {
		switch (c) {
		case 'c': team.threads = (int)size_of(optarg, 1); break;
		case 'b': block = size_of(optarg, 4096); break;
		case 'r': repetitions = (int)size_of(optarg, 1); break;
		case 'B': team.bind = true; break;
		case 'n': huge = false; break;
		default: optind = argc + 1; break;
		}
	}
	if (optind != argc || block % 4096 || team.threads > MAX_TEAM)
		usage("[-c threads] [-b bytes per thread] [-r N] [-B] [-n]");
	printf("%7s %12s %10s %11s\n", "Threads", "Bytes each", "Seconds", "Page faults");
	while (repetitions--) {
		size_t size = ((size_t)team.threads * block + HUGE - 1) & ~(HUGE - 1);
		long faults;
		double took;

		area = map(size, huge);
		faults = minor_faults();
		took = team_run(&team);
		faults = minor_faults() - faults;
		check();
		munmap(area, size);
		printf("%7d %12zu %10.6f %11ld\n", team.threads, block, took, faults);
		fflush(stdout);
	}
	return 0;
}
