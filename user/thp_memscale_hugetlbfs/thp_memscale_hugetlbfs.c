/* thp_memscale_hugetlbfs: blocks of memory from the hugepage pool; see memscale.h. */
#include "memscale.h"

static char *map(size_t size, bool huge)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_ANONYMOUS | MAP_PRIVATE | (huge ? MAP_HUGETLB : 0), -1, 0);

	if (p == MAP_FAILED && (errno == ENOMEM || errno == EINVAL || errno == ENODEV))
		unsupported("not enough pages in the hugepage pool");
	if (p == MAP_FAILED)
		fail("mmap");
	return p;
}

int main(int argc, char **argv)
{
	bench_name = "thp_memscale_hugetlbfs";
	return memscale(argc, argv, map);
}
