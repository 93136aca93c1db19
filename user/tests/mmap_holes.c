/*
 * Calls over ranges with holes, and the limit on the number of areas. known-bugs: VM-05, VM-07.
 */
#include "harness.h"

/* Three pages with 'a', 'b', 'c' in them, the middle one unmapped. */
static char *holed(void)
{
	char *p = map(3 * P, RW, ANON);

	p[0] = 'a';
	p[2 * P] = 'c';
	unmap(p + P, P);
	return p;
}

TEST(mprotect_hole, "VM-05 mprotect over a hole changes what comes before it")
{
	char *p = holed();

	CHECK_ERR(mprotect(p, 3 * P, PROT_READ), ENOMEM);
	CHECK_FAULT(stores(p, 1), SIGSEGV, SEGV_ACCERR_, p);
	CHECK_EQ(p[0], 'a');
	CHECK_RUNS(stores(p + 2 * P, 'C'));
	CHECK_FAULT(loads(p + P), SIGSEGV, SEGV_MAPERR_, p + P);
	/* Beginning in the hole nothing is changed. */
	CHECK_ERR(mprotect(p + P, 2 * P, PROT_READ), ENOMEM);
	CHECK_RUNS(stores(p + 2 * P, 'D'));
}

TEST(madvise_hole, "VM-05 madvise over a hole acts on all that is there")
{
	char *p = holed();

	CHECK_ERR(madvise(p, 3 * P, MADV_DONTNEED), ENOMEM);
	CHECK_EQ(p[0], 0);
	CHECK_EQ(p[2 * P], 0);
	p[0] = 'x';
	p[2 * P] = 'y';
	CHECK_ERR(madvise(p + P, 2 * P, MADV_DONTNEED), ENOMEM);
	CHECK_EQ(p[0], 'x');
	CHECK_EQ(p[2 * P], 0);
	CHECK_ERR(madvise(p, 3 * P, MADV_WILLNEED), ENOMEM);
	CHECK_ERR(madvise(p, 3 * P, MADV_POPULATE_WRITE), ENOMEM);
}

TEST(mlock_hole, "VM-05 mlock, munlock, mbind, msync, mincore over a hole")
{
	char *p = holed();
	unsigned long mask = 1;
	unsigned char vec[3];

	CHECK_ERR(mlock(p, 3 * P), ENOMEM);
	CHECK_ERR(munlock(p, 3 * P), ENOMEM);
	CHECK_ERR(syscall(SYS_mbind, p, 3 * P, 2 /* BIND */, &mask, 64, 0), EFAULT);
	CHECK_ERR(msync(p, 3 * P, MS_SYNC), ENOMEM);
	CHECK_ERR(syscall(SYS_mincore, p, 3 * P, vec), ENOMEM);
	CHECK_EQ(p[0], 'a');
	CHECK_EQ(p[2 * P], 'c');
}

TEST(munmap_hole, "VM-05 munmap over a hole is no error; splits and rests are exact")
{
	char *p = holed();

	CHECK_EQ(munmap(p, 3 * P), 0);
	CHECK_EQ(areas_in(p, 3 * P), 0);

	p = map(9 * P, RW, ANON);
	for (int i = 0; i < 9; i++)
		p[i * P] = i + 1;
	unmap(p + P, P);
	unmap(p + 4 * P, 2 * P);
	unmap(p + 8 * P, P);
	CHECK_EQ(areas_in(p, 9 * P), 3);
	static const char there[] = "101100110";
	for (int i = 0; i < 9; i++) {
		if (there[i] == '1')
			CHECK_EQ(p[i * P], i + 1);
		else
			CHECK_FAULT(loads(p + i * P), SIGSEGV, SEGV_MAPERR_, p + i * P);
	}
	/* Filled again alike, the areas merge and the old pages keep their bytes. */
	static const int back[] = { 1, 4, 5, 8 };
	for (size_t i = 0; i < ARRAY_SIZE(back); i++) {
		char *at = p + back[i] * P;
		NEED(raw_mmap((unsigned long)at, P, RW, ANON | MAP_FIXED, -1, 0) == (long)at);
	}
	CHECK_EQ(areas_in(p, 9 * P), 1);
	for (int i = 0; i < 9; i++)
		CHECK_EQ(p[i * P], there[i] == '1' ? i + 1 : 0);
}

/* ---- VM-07 ------------------------------------------------------------------------------ */

static long max_areas(void)
{
	char text[32];

	return slurp("/proc/sys/vm/max_map_count", text, sizeof(text)) > 0 ? strtol(text, NULL, 10)
									   : 65530;
}

/* Uses up all areas that the process may have, in a reservation of their own. */
static void use_up_areas(void)
{
	long n = max_areas();
	char *r = map((2 * n + 2) * P, PROT_NONE, ANON | MAP_NORESERVE);

	for (long i = 0;; i++) {
		NEED(i < n + 2);
		if (mprotect(r + (2 * i + 1) * P, P, PROT_READ) < 0) {
			CHECK_EQ(errno, ENOMEM);
			break;
		}
	}
	/* The last split may have left room for one more. */
	CHECK_OK(madvise(r, P, MADV_NORMAL));
	for (char *p; (p = mmap(NULL, P, PROT_READ, SHANON, -1, 0)) != MAP_FAILED;)
		;
	CHECK_EQ(errno, ENOMEM);
}

/*
 * The limit itself is what matters, not its size: where it can be lowered for this kernel alone, it
 * is.
 */
static void lower_limit(void)
{
	if (on_faultline())
		spit("/proc/sys/vm/max_map_count", "3000");
}

static void restore_limit(void)
{
	if (on_faultline())
		spit("/proc/sys/vm/max_map_count", "65530");
}

TEST(area_limit, "VM-07 at the limit of areas", .seconds = 60)
{
	lower_limit();
	pid_t pid = xfork();
	if (pid == 0) {
		char *p = map(3 * P, RW, ANON), *target = map(3 * P, RW, ANON | MAP_NORESERVE),
		     *source = map(P, RW, SHANON);

		memset(p, 'p', 3 * P);
		memset(target, 't', 3 * P);
		*source = 's';
		use_up_areas();
		CHECK_ERR(munmap(p + P, P), ENOMEM);
		CHECK_EQ(p[P], 'p');
		CHECK_ERR(raw_mremap((unsigned long)source, P, P, MREMAP_MAYMOVE | MREMAP_FIXED,
				     (unsigned long)target + P),
			  ENOMEM);
		CHECK_EQ(*source, 's');
		CHECK_EQ(target[P], 't');
		CHECK_ERR(mprotect(p + P, P, PROT_READ), ENOMEM);
		CHECK_RUNS(stores(p + P, 'p'));
		pid_t grandchild = xfork();
		if (grandchild == 0) {
			CHECK_EQ(p[P], 'p');
			CHECK_EQ(*source, 's');
			done();
		}
		join_child(grandchild);
		CHECK_EQ(munmap(p, 3 * P), 0);
		/* Room for one again. */
		CHECK_OK(raw_mmap(0, P, PROT_READ, SHANON, -1, 0));
		done();
	}
	join_child(pid);
	restore_limit();
}

TEST(many_holes, "VM-07 thousands of areas: lookup, split and merge", .seconds = 60)
{
	long n = rounds(1500);
	char *p = map(2 * n * P, RW, ANON);

	for (long i = 0; i < n; i++)
		NEED(mprotect(p + 2 * i * P, P, PROT_READ) == 0);
	CHECK_EQ(areas_in(p, 2 * n * P), 2 * n);
	for (long i = 0; i < n; i++)
		NEED(mprotect(p + 2 * i * P, P, RW) == 0);
	CHECK_EQ(areas_in(p, 2 * n * P), 1);
	for (long i = 0; i < n; i++)
		NEED(mprotect(p + 2 * i * P, P, PROT_READ) == 0);
	for (long i = 0; i < n; i += 7) {
		CHECK_FAULT(stores(p + 2 * i * P, 1), SIGSEGV, SEGV_ACCERR_, p + 2 * i * P);
		CHECK_RUNS(stores(p + (2 * i + 1) * P, 1));
	}
	for (long i = n - 1; i >= 0; i--)
		NEED(mprotect(p + 2 * i * P, P, RW) == 0);
	/* How many areas are left now that they were touched apart is the kernel's affair. */
	for (long i = 0; i < 2 * n; i += 11)
		CHECK_RUNS(stores(p + i * P, 1));
}
