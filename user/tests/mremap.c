/*
 * mremap: special sizes, ranges that it refuses, moves onto other areas, and that the contents go
 * along. known-bugs: VM-09.
 */
#include "harness.h"

TEST(old_zero, "VM-09 old size zero")
{
	char *p = map(P, RW, ANON), *s = map(P, RW, SHANON);

	CHECK_ERR(raw_mremap((unsigned long)p, 0, P, MREMAP_MAYMOVE, 0), EINVAL);
	CHECK_ERR(raw_mremap((unsigned long)s, 0, P, 0, 0), ENOMEM);
	*s = 42;
	char *twin = (char *)NEED_OK(raw_mremap((unsigned long)s, 0, P, MREMAP_MAYMOVE, 0));
	CHECK(twin != s);
	CHECK_EQ(*twin, 42);
	*twin = 43;
	CHECK_EQ(*s, 43);
	unmap(s, P);
	CHECK_EQ(*twin, 43);
}

TEST(refused, "VM-09 ranges that are refused")
{
	unsigned long p = (unsigned long)map(3 * P, RW, ANON);
	unsigned long room = (unsigned long)map(8 * P, PROT_NONE, ANON);

	memset((char *)p, 1, 3 * P);
	CHECK_ERR(raw_mremap(p, 2 * P, 2 * P, MREMAP_MAYMOVE | MREMAP_FIXED, p + P), EINVAL);
	CHECK_ERR(raw_mremap(p + P, 2 * P, 2 * P, MREMAP_MAYMOVE | MREMAP_FIXED, p), EINVAL);
	CHECK_ERR(raw_mremap(p, P, P, MREMAP_FIXED, room), EINVAL);
	CHECK_ERR(raw_mremap(p, P, P, MREMAP_MAYMOVE | MREMAP_FIXED, room + 1), EINVAL);
	CHECK_ERR(raw_mremap(p, P, P, MREMAP_MAYMOVE | MREMAP_FIXED, 0xffff888000000000), EINVAL);
	CHECK_ERR(raw_mremap(p, P, P, MREMAP_MAYMOVE | MREMAP_FIXED, USER_END), EINVAL);
	CHECK_ERR(raw_mremap(ZONE, P, 2 * P, MREMAP_MAYMOVE, 0), EFAULT);
	CHECK_ERR(raw_mremap(0xffff888000000000, P, 2 * P, MREMAP_MAYMOVE, 0), EFAULT);

	/* Two areas, and a hole, while growing. */
	NEED(mprotect((char *)p + P, P, PROT_READ) == 0);
	CHECK_ERR(raw_mremap(p, 2 * P, 4 * P, MREMAP_MAYMOVE, 0), EFAULT);
	unmap((char *)p + P, P);
	CHECK_ERR(raw_mremap(p, 3 * P, 5 * P, MREMAP_MAYMOVE, 0), EFAULT);
	CHECK_EQ(*(char *)p, 1);
	CHECK_EQ(*(char *)(p + 2 * P), 1);
	CHECK_EQ(areas_in((char *)room, 8 * P), 1);
}

TEST(in_place, "VM-09 grow and shrink in place")
{
	char *p = map(8 * P, RW, ANON);

	memset(p, 6, 8 * P);
	CHECK_EQ(raw_mremap((unsigned long)p, 8 * P, 2 * P, 0, 0), (long)p);
	CHECK_FAULT(loads(p + 2 * P), SIGSEGV, SEGV_MAPERR_, p + 2 * P);
	CHECK_EQ(raw_mremap((unsigned long)p, 2 * P, 5 * P, 0, 0), (long)p);
	CHECK_EQ(p[2 * P - 1], 6);
	CHECK_EQ(p[2 * P], 0);
	CHECK_EQ(p[5 * P - 1], 0);
	/* Something in the way: without MAYMOVE it cannot, and changes nothing. */
	NEED(raw_mmap((unsigned long)p + 6 * P, P, RW, SHANON | MAP_FIXED, -1, 0) ==
	     (long)p + 6 * (long)P);
	p[6 * P] = 9;
	CHECK_ERR(raw_mremap((unsigned long)p, 5 * P, 8 * P, 0, 0), ENOMEM);
	CHECK_EQ(p[0], 6);
	char *q = (char *)NEED_OK(raw_mremap((unsigned long)p, 5 * P, 8 * P, MREMAP_MAYMOVE, 0));
	CHECK(q != p);
	CHECK_EQ(q[0], 6);
	CHECK_EQ(q[2 * P - 1], 6);
	CHECK_EQ(q[8 * P - 1], 0);
	CHECK_EQ(p[6 * P], 9);
	CHECK_FAULT(loads(p), SIGSEGV, SEGV_MAPERR_, p);
	/* The same size is a no-op. */
	CHECK_EQ(raw_mremap((unsigned long)q, 8 * P, 8 * P, 0, 0), (long)q);
}

TEST(move, "VM-09 a move takes the pages along")
{
	char *p = map(64 * P, RW, ANON), *room = map(66 * P, PROT_NONE, ANON);

	for (int i = 0; i < 64; i += 3)
		p[i * P] = i + 1;
	uint64_t frame = PM_PFN(pagemap(p));
	CHECK_EQ(raw_mremap((unsigned long)p, 64 * P, 64 * P, MREMAP_MAYMOVE | MREMAP_FIXED,
			    (unsigned long)room + P),
		 (long)room + P);
	CHECK_EQ(PM_PFN(pagemap(room + P)), frame);
	for (int i = 0; i < 64; i++) {
		CHECK_EQ(!!(pagemap(room + P + i * P) & PM_PRESENT), i % 3 == 0);
		CHECK_EQ(room[P + i * P], i % 3 == 0 ? i + 1 : 0);
		CHECK_FAULT(loads(p + i * P), SIGSEGV, SEGV_MAPERR_, p + i * P);
	}
	CHECK_FAULT(loads(room), SIGSEGV, SEGV_ACCERR_, room);
	CHECK_FAULT(loads(room + 65 * P), SIGSEGV, SEGV_ACCERR_, room + 65 * P);
}

TEST(move_grow_shrink, "VM-09 move with another size, onto areas in use")
{
	char *p = map(4 * P, RW, ANON), *room = map(16 * P, RW, ANON);

	memset(p, 4, 4 * P);
	memset(room, 9, 16 * P);
	CHECK_EQ(raw_mremap((unsigned long)p, 4 * P, 6 * P, MREMAP_MAYMOVE | MREMAP_FIXED,
			    (unsigned long)room + P),
		 (long)room + P);
	CHECK_EQ(room[0], 9);
	CHECK_EQ(room[P], 4);
	CHECK_EQ(room[5 * P - 1], 4);
	CHECK_EQ(room[5 * P], 0);
	CHECK_EQ(room[7 * P - 1], 0);
	CHECK_EQ(room[7 * P], 9);
	CHECK_EQ(raw_mremap((unsigned long)room + P, 6 * P, 2 * P, MREMAP_MAYMOVE | MREMAP_FIXED,
			    (unsigned long)room + 10 * P),
		 (long)room + 10 * P);
	CHECK_EQ(room[10 * P], 4);
	CHECK_EQ(room[12 * P - 1], 4);
	CHECK_EQ(room[12 * P], 9);
	for (int i = 1; i < 7; i++)
		CHECK_FAULT(loads(room + i * P), SIGSEGV, SEGV_MAPERR_, room + i * P);
}

TEST(file_middle,
     "VM-09 the middle of a file mapping out and back: every page shows its own offset")
{
	int fd = tmpfile_fd(3 * P);
	char *p = map_fd(3 * P, RW, MAP_SHARED, fd, 0), *room = map(P, PROT_NONE, ANON);

	for (int i = 0; i < 3; i++)
		p[i * P] = i + 1;
	CHECK_EQ(raw_mremap((unsigned long)p + P, P, P, MREMAP_MAYMOVE | MREMAP_FIXED,
			    (unsigned long)room),
		 (long)room);
	CHECK_EQ(room[0], 2);
	CHECK_EQ(areas_in(p, 3 * P), 2);
	CHECK_EQ(raw_mremap((unsigned long)room, P, P, MREMAP_MAYMOVE | MREMAP_FIXED,
			    (unsigned long)p + P),
		 (long)p + P);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(p[i * P], i + 1);
	CHECK_EQ(areas_in(p, 3 * P), 1);
	/* Dropped and faulted anew the offsets still hold. */
	madvise(p, 3 * P, MADV_DONTNEED);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(p[i * P], i + 1);
	/* Two swapped pages do not merge. */
	char *two = map_fd(2 * P, RW, MAP_SHARED, fd, 0), *side = map(P, PROT_NONE, ANON);
	NEED(raw_mremap((unsigned long)two, P, P, MREMAP_MAYMOVE | MREMAP_FIXED,
			(unsigned long)side) == (long)side);
	NEED(raw_mremap((unsigned long)two + P, P, P, MREMAP_MAYMOVE | MREMAP_FIXED,
			(unsigned long)two) == (long)two);
	NEED(raw_mremap((unsigned long)side, P, P, MREMAP_MAYMOVE | MREMAP_FIXED,
			(unsigned long)two + P) == (long)two + (long)P);
	CHECK_EQ(two[0], 2);
	CHECK_EQ(two[P], 1);
	CHECK_EQ(areas_in(two, 2 * P), 2);
}

TEST(move_private_file, "VM-09 a moved private file mapping keeps its changed pages and its offset")
{
	int fd = tmpfile_fd(4 * P);
	char byte[] = "0123";

	for (int i = 0; i < 4; i++)
		NEED(pwrite(fd, byte + i, 1, i * P) == 1);
	char *p = map_fd(3 * P, RW, MAP_PRIVATE, fd, P);
	p[P] = 'X';
	char *q = (char *)NEED_OK(raw_mremap((unsigned long)p, 3 * P, 4 * P, MREMAP_MAYMOVE, 0));
	CHECK_EQ(q[0], '1');
	CHECK_EQ(q[P], 'X');
	CHECK_EQ(q[2 * P], '3');
	CHECK_FAULT(loads(q + 3 * P), SIGBUS, BUS_ADRERR_, q + 3 * P);
	madvise(q + P, P, MADV_DONTNEED);
	CHECK_EQ(q[P], '2');
}

TEST(dontunmap, "VM-09 MREMAP_DONTUNMAP leaves an empty mapping behind")
{
	char *p = map(4 * P, RW, ANON);

	memset(p, 8, 4 * P);
	CHECK_ERR(raw_mremap((unsigned long)p, 4 * P, 5 * P, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0),
		  EINVAL);
	CHECK_ERR(raw_mremap((unsigned long)p, 4 * P, 4 * P, MREMAP_DONTUNMAP, 0), EINVAL);
	char *q = (char *)NEED_OK(
		raw_mremap((unsigned long)p, 4 * P, 4 * P, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0));
	CHECK(q != p);
	CHECK_EQ(q[3 * P], 8);
	CHECK_EQ(p[3 * P], 0);
	CHECK_RUNS(stores(p, 1));
	CHECK_EQ(q[0], 8);
}

TEST(table_edges, "VM-09 moves between all alignments within a page table")
{
	char *from = reserve(3 * HUGE, HUGE), *to = reserve(3 * HUGE, HUGE);
	static const size_t starts[] = { 0, P, 511 * P, HUGE, HUGE - 3 * P };
	static const size_t lens[] = { P, 5 * P, HUGE, HUGE + 2 * P };

	for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
		for (size_t j = 0; j < ARRAY_SIZE(starts); j++)
			for (size_t k = 0; k < ARRAY_SIZE(lens); k++) {
				char *a = from + starts[i], *b = to + starts[j];
				size_t len = lens[k];

				NEED(raw_mmap((unsigned long)a, len, RW, ANON | MAP_FIXED, -1, 0) ==
				     (long)a);
				for (size_t off = 0; off < len; off += 37 * P)
					a[off] = off / P % 100 + 1;
				a[len - P] = 101;
				NEED(raw_mremap((unsigned long)a, len, len,
						MREMAP_MAYMOVE | MREMAP_FIXED,
						(unsigned long)b) == (long)b);
				for (size_t off = 0; off < len - P; off += 37 * P)
					if (b[off] != (char)(off / P % 100 + 1))
						FAIL("%zu/%zu/%zu: page %zu holds %d", i, j, k,
						     off / P, b[off]);
				CHECK_EQ(b[len - P], 101);
				CHECK_FAULT(loads(a), SIGSEGV, SEGV_MAPERR_, a);
				CHECK_FAULT(loads(a + len - P), SIGSEGV, SEGV_MAPERR_, a + len - P);
				unmap(b, len);
			}
}

TEST(locked, "VM-09 growing a locked mapping against RLIMIT_MEMLOCK; RLIMIT_AS")
{
	char *p = map(4 * P, RW, ANON);
	pid_t pid = xfork();

	if (pid == 0) {
		struct rlimit rl = { 16 * MB, 16 * MB };

		NEED(setrlimit(RLIMIT_AS, &rl) == 0);
		CHECK_ERR(raw_mremap((unsigned long)p, 4 * P, 64 * MB, MREMAP_MAYMOVE, 0), ENOMEM);
		CHECK_ERR(raw_mmap(0, 64 * MB, RW, ANON, -1, 0), ENOMEM);
		CHECK_RUNS(stores(p, 1));
		done();
	}
	join_child(pid);
	NEED(mlock(p, 4 * P) == 0);
	char *q = (char *)NEED_OK(raw_mremap((unsigned long)p, 4 * P, 8 * P, MREMAP_MAYMOVE, 0));
	for (int i = 0; i < 8; i++)
		CHECK(pagemap(q + i * P) & PM_PRESENT);
}
