/*
 * The program break, by the raw call: it returns the current break, also when it fails. known-bugs:
 * VM-11.
 */
#include "harness.h"

static unsigned long start_brk;

/* A heap of n pages, beginning at a page boundary; where it begins. */
static char *heap(int n)
{
	unsigned long b = raw_brk(0);

	start_brk = b;
	b = (b + P - 1) & ~(P - 1);
	NEED(raw_brk(b + n * P) == b + n * P);
	return (char *)b;
}

TEST(grow_shrink, "VM-11 grow, shrink, regrow")
{
	char *h = heap(4);

	CHECK_EQ(raw_brk(0), (long)h + 4 * P);
	memset(h, 7, 4 * P);
	CHECK_EQ(raw_brk((long)h + P), (long)h + P);
	CHECK_EQ(h[0], 7);
	CHECK_FAULT(loads(h + P), SIGSEGV, SEGV_MAPERR_, h + P);
	CHECK_EQ(raw_brk((long)h + 4 * P), (long)h + 4 * P);
	for (int i = 1; i < 4; i++)
		CHECK_EQ(h[i * P], 0);
	CHECK_EQ(h[0], 7);
	CHECK_FAULT(loads(h + 4 * P), SIGSEGV, SEGV_MAPERR_, h + 4 * P);
}

TEST(inside_page, "VM-11 a shrink inside a page frees nothing and keeps bytes")
{
	char *h = heap(1);

	CHECK_EQ(raw_brk((long)h + P + 100), (long)h + P + 100);
	h[P + 50] = 1;
	h[P + 95] = 2;
	h[2 * P - 1] = 3; /* the page is there as a whole */
	CHECK_EQ(raw_brk((long)h + P + 90), (long)h + P + 90);
	CHECK_EQ(h[P + 50], 1);
	CHECK_EQ(h[P + 95], 2);
	CHECK_EQ(raw_brk((long)h + P + 1), (long)h + P + 1);
	CHECK_EQ(h[2 * P - 1], 3);
	CHECK_EQ(raw_brk((long)h + P), (long)h + P);
	CHECK_FAULT(loads(h + P + 50), SIGSEGV, SEGV_MAPERR_, h + P + 50);
}

TEST(failures, "VM-11 what cannot be leaves the break alone")
{
	char *h = heap(2);
	unsigned long b = raw_brk(0);

	h[0] = 5;
	CHECK_EQ(raw_brk(0x1000), b);
	CHECK_EQ(raw_brk(start_brk - P), b);
	CHECK_EQ(raw_brk(b + (1UL << 47)), b);
	CHECK_EQ(raw_brk(-1UL), b);
	CHECK_EQ(raw_brk(-P), b);
	CHECK_EQ(raw_brk(1UL << 63), b);
	CHECK_EQ(raw_brk(0xffff888000000000), b);
	CHECK_EQ(raw_brk(0), b);
	CHECK_EQ(h[0], 5);
}

TEST(to_start, "VM-11 down to the very start and up again")
{
	char *h = heap(2);

	h[0] = 1;
	CHECK_EQ(raw_brk(start_brk), start_brk);
	CHECK_EQ(raw_brk((long)h + P), (long)h + P);
	CHECK_EQ(h[0], 0);
}

TEST(hole, "VM-11 a hole punched into the heap")
{
	char *h = heap(4);

	memset(h, 3, 4 * P);
	CHECK_EQ(munmap(h + P, P), 0);
	CHECK_FAULT(loads(h + P), SIGSEGV, SEGV_MAPERR_, h + P);
	CHECK_EQ(raw_brk((long)h + 5 * P), (long)h + 5 * P);
	CHECK_EQ(h[4 * P], 0);
	CHECK_EQ(h[2 * P], 3);
	CHECK_FAULT(loads(h + P), SIGSEGV, SEGV_MAPERR_, h + P);
	CHECK_EQ(raw_brk((long)h), (long)h);
	CHECK_FAULT(loads(h + 3 * P), SIGSEGV, SEGV_MAPERR_, h + 3 * P);
	CHECK_EQ(raw_brk((long)h + 4 * P), (long)h + 4 * P);
	CHECK_EQ(h[P], 0);
	CHECK_RUNS(stores(h + P, 1));
}

TEST(read_only, "VM-11 mprotect inside the heap, then grow")
{
	char *h = heap(3);

	h[P] = 4;
	CHECK_EQ(mprotect(h + P, P, PROT_READ), 0);
	CHECK_EQ(raw_brk((long)h + 6 * P), (long)h + 6 * P);
	CHECK_FAULT(stores(h + P, 1), SIGSEGV, SEGV_ACCERR_, h + P);
	CHECK_EQ(h[P], 4);
	CHECK_RUNS(stores(h + 2 * P, 1));
	CHECK_RUNS(stores(h + 5 * P, 1));
	CHECK_EQ(raw_brk((long)h), (long)h);
	CHECK_EQ(raw_brk((long)h + 3 * P), (long)h + 3 * P);
	CHECK_RUNS(stores(h + P, 1)); /* the new page is writable again */
}

TEST(neighbour, "VM-11 another mapping in the way")
{
	char *h = heap(1);
	char *other = (char *)raw_mmap((unsigned long)h + 4 * P, P, RW, ANON | MAP_FIXED_NOREPLACE,
				       -1, 0);

	NEED(other == h + 4 * P);
	*other = 42;
	unsigned long b = raw_brk(0);
	CHECK_EQ(raw_brk((long)h + 6 * P), b);
	CHECK_EQ(*other, 42);
	/* Right up to it, or short of it by a guard, as the kernel likes; never over it. */
	unsigned long got = raw_brk((long)h + 4 * P);
	CHECK_MSG(got == (unsigned long)h + 4 * P || got == b, "brk to the neighbour gave 0x%lx",
		  got);
	CHECK_EQ(*other, 42);
}

TEST(limit, "VM-11 RLIMIT_DATA")
{
	char *h = heap(1);
	struct rlimit rl = { 64 * P, 64 * P };

	NEED(setrlimit(RLIMIT_DATA, &rl) == 0);
	unsigned long b = raw_brk(0);
	CHECK_EQ(raw_brk((long)h + 1024 * P), b);
	CHECK_EQ(raw_brk(0), b);
}

TEST(over_fork, "VM-11 fork and exec")
{
	char *h = heap(2);

	h[0] = 1;
	pid_t pid = xfork();
	if (pid == 0) {
		CHECK_EQ(raw_brk(0), (long)h + 2 * P);
		CHECK_EQ(raw_brk((long)h + 8 * P), (long)h + 8 * P);
		h[0] = 2;
		h[7 * P] = 2;
		done();
	}
	join_child(pid);
	CHECK_EQ(raw_brk(0), (long)h + 2 * P);
	CHECK_EQ(h[0], 1);
	CHECK_FAULT(loads(h + 7 * P), SIGSEGV, SEGV_MAPERR_, h + 7 * P);

	struct area a;
	CHECK(area_of(h, &a));
	CHECK_MSG(!strcmp(a.name, "[heap]"), "the heap is called '%s' in maps", a.name);
}

TEST(sweep, "VM-11 up and down by odd amounts, all bytes accounted for")
{
	char *h = heap(0);
	unsigned long b = (unsigned long)h, high = b;
	uint32_t seed = 3;

	for (long i = 0; go_on(i, 600); i++) {
		unsigned long to = (unsigned long)h + roll(&seed) % (64 * P);

		NEED(raw_brk(to) == to);
		if (to > b) {
			/* What lies in pages that were not part of the heap before is zero. */
			unsigned long fresh = (b + P - 1) & ~(P - 1);

			for (unsigned long a = fresh; a < to; a += 512)
				if (*(char *)a) {
					FAIL("regrown byte at +%lu is %d", a - (unsigned long)h,
					     *(char *)a);
					return;
				}
			memset((char *)fresh, 1, to > fresh ? to - fresh : 0);
		}
		b = to;
		if (b > high)
			high = b;
	}
}
