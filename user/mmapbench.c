/*
 * mmapbench: threads of one process map memory, touch some of it and unmap it again, each for
 * itself.
 *
 *   -t N     threads (default 1)                -n N  rounds of each thread (default 100)
 *   -k KB    size of the mapping (default 64)   -p N  pages of it touched (default 4)
 *   -b       bind each thread to a CPU of its own
 *   -r N     repetitions (default 1)
 *
 * Printed is the mean time of a round as one thread sees it, and rounds a second of all.
 */
#include "bench.h"

static struct team team = { .threads = 1 };
static size_t size = 64 << 10, pages = 4, rounds = 100;

static void work(int index)
{
	for (size_t i = 0; i < rounds; i++) {
		char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE,
			       -1, 0);

		if (p == MAP_FAILED)
			fail("mmap");
		for (size_t k = 0; k < pages; k++) {
			volatile uint64_t *word = (volatile uint64_t *)(p + k * 4096);

			word[0] = (uint64_t)index + 1; /* first, so that the page costs one fault */
			if (word[1])
				wrong_page(k * 4096);
		}
		if (munmap(p, size))
			fail("munmap");
	}
}

int main(int argc, char **argv)
{
	int c, repetitions = 1;

	bench_name = "mmapbench";
	team.work = work;
	while ((c = getopt(argc, argv, "t:n:k:p:r:b")) != -1) {
		switch (c) {
		case 't': team.threads = (int)size_of(optarg, 1); break;
		case 'n': rounds = size_of(optarg, 1); break;
		case 'k': size = size_of(optarg, 4) << 10; break;
		case 'p': pages = size_of(optarg, 0); break;
		case 'r': repetitions = (int)size_of(optarg, 1); break;
		case 'b': team.bind = true; break;
		default: optind = argc + 1; break;
		}
	}
	if (optind != argc || pages * 4096 > size || team.threads > MAX_TEAM)
		usage("[-t N] [-n ROUNDS] [-k KB] [-p PAGES] [-r N] [-b]");
	printf("%7s %7s %6s %6s %10s %12s %12s\n", "Threads", "Rounds", "KB", "Pages", "Seconds",
	       "ns/round", "rounds/s");
	while (repetitions--) {
		double took = team_run(&team);

		printf("%7d %7zu %6zu %6zu %10.6f %12.0f %12.0f\n", team.threads, rounds,
		       size >> 10, pages, took, took * 1e9 / (double)rounds,
		       (double)rounds * team.threads / took);
		fflush(stdout);
	}
	return 0;
}
