/*
 * thp_memscale: blocks of ordinary anonymous memory, which may become transparent hugepages; see
 * memscale.h.
 */
#include "memscale.h"

static char *map(size_t size, bool huge)
{
	char *p = mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE,
		       -1, 0);
	char *aligned = (char *)(((uintptr_t)p + HUGE - 1) & ~(HUGE - 1));

	/* The advice may be taken without there being any. */
	if (huge && access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK))
		unsupported("transparent hugepages");
	if (p == MAP_FAILED)
		fail("mmap");
	if (aligned > p)
		munmap(p, (size_t)(aligned - p));
	munmap(aligned + size, (size_t)(p + HUGE - aligned));
	if (madvise(aligned, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) && huge)
		unsupported("madvise(MADV_HUGEPAGE)");
	return aligned;
}

int main(int argc, char **argv)
{
	bench_name = "thp_memscale";
	return memscale(argc, argv, map);
}
