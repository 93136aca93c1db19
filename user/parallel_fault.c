/*
 * parallel_fault <threads> <size in KB> <page size in KB>: how fast a program gets much hugepage
 * memory.
 *
 * One area of the given size is mapped from hugepages of the given size (2048 or 1048576; 4 means
 * ordinary pages), and each thread writes one word to every threads-th page of it, so that they
 * walk through it side by side. Printed is the time from their common start to the end of the last.
 * The pool must be filled before (/proc/sys/vm/nr_hugepages).
 *
 *   -b  bind each thread to a CPU of its own   -s  shared mapping, not private   -r N  repetitions
 */
#include "bench.h"

static char *area;
static size_t size, page;
static struct team team;

static void touch(int index)
{
	for (size_t at = (size_t)index * page; at < size; at += (size_t)team.threads * page)
		*(volatile uint64_t *)(area + at) = at + 1;
}

static int log2_of(size_t n)
{
	return 63 - __builtin_clzl(n);
}

static void repetition(bool shared)
{
	int flags = MAP_ANONYMOUS | (shared ? MAP_SHARED : MAP_PRIVATE);
	double took;

	if (page > 4096)
		flags |= MAP_HUGETLB | log2_of(page) << 26;	/* MAP_HUGE_SHIFT */
	area = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (area == MAP_FAILED && page > 4096 &&
	    (errno == ENOMEM || errno == EINVAL || errno == ENODEV))
		unsupported("no pool, or not enough pages in it, for hugepages of that size");
	if (area == MAP_FAILED)
		fail("mmap");
	took = team_run(&team);
	for (size_t at = 0; at < size; at += page)
		if (*(volatile uint64_t *)(area + at) != at + 1)
			wrong_page(at);
	munmap(area, size);
	printf("%7d %10zu %8zu %10.6f %13.1f\n", team.threads, size >> 10, page >> 10, took,
	       (double)(size / page) / took);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int c, repetitions = 1;
	bool shared = false;

	bench_name = "parallel_fault";
	team.work = touch;
	while ((c = getopt(argc, argv, "bsr:")) != -1) {
		switch (c) {
		case 'b': team.bind = true; break;
		case 's': shared = true; break;
		case 'r': repetitions = (int)size_of(optarg, 1); break;
		default: optind = argc + 1; break;
		}
	}
	if (argc - optind != 3)
		usage("[-b] [-s] [-r N] <threads> <size in KB> <page size in KB>");
	team.threads = (int)size_of(argv[optind], 1);
	page = size_of(argv[optind + 2], 4) << 10;
	size = (size_of(argv[optind + 1], 1) << 10) / page * page;
	if (!size || page & (page - 1) || team.threads > MAX_TEAM)
		usage("<threads> <size of at least one page> <page size, a power of two>");
	printf("%7s %10s %8s %10s %13s\n", "Threads", "KB", "Page KB", "Seconds", "fault/wsec");
	while (repetitions--)
		repetition(shared);
	return 0;
}
