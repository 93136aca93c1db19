/*
 * The arguments of the mmap family: lengths that overflow or are zero, offsets that overflow, hints
 * and fixed addresses. All calls are raw: libc would round or refuse. known-bugs: VM-01, VM-02,
 * VM-03.
 */
#include "harness.h"

/* ---- VM-01 ------------------------------------------------------------------------------ */

TEST(mmap_lengths, "VM-01 mmap lengths and flags")
{
	CHECK_ERR(raw_mmap(0, 0, RW, ANON, -1, 0), EINVAL);
	CHECK_ERR(raw_mmap(0, -1UL, RW, ANON, -1, 0), ENOMEM);
	CHECK_ERR(raw_mmap(0, -P, RW, ANON, -1, 0), ENOMEM);
	CHECK_ERR(raw_mmap(0, 1UL << 47, RW, ANON, -1, 0), ENOMEM);
	CHECK_ERR(raw_mmap(0, 1UL << 63, RW, ANON, -1, 0), ENOMEM);
	CHECK_ERR(raw_mmap(0, USER_END, PROT_NONE, ANON | MAP_NORESERVE, -1, 0), ENOMEM);
	CHECK_ERR(raw_mmap(0, P, RW, MAP_ANONYMOUS, -1, 0), EINVAL);
	CHECK_ERR(raw_mmap(0, P, RW, MAP_ANONYMOUS | MAP_FIXED, -1, 0), EINVAL);

	/* One byte is one page. */
	char *p = (char *)NEED_OK(raw_mmap(0, 1, RW, ANON, -1, 0));
	CHECK_RUNS(stores(p + P - 1, 1));
	CHECK_EQ(raw_munmap((unsigned long)p, 1), 0);
	CHECK_FAULT(loads(p + P - 1), SIGSEGV, SEGV_MAPERR_, p + P - 1);
}

TEST(mmap_files, "VM-01 mmap of files that cannot be mapped so")
{
	int fd = tmpfile_fd(P), pipes[2];
	const char *path = scratch("ro");

	CHECK_ERR(raw_mmap(0, P, PROT_READ, MAP_SHARED, -1, 0), EBADF);
	CHECK_ERR(raw_mmap(0, P, PROT_READ, MAP_SHARED, 1000, 0), EBADF);
	CHECK_ERR(raw_mmap(0, 0, PROT_READ, MAP_SHARED, fd, 0), EINVAL);
	CHECK_ERR(raw_mmap(0, P, PROT_READ, 0, fd, 0), EINVAL);
	NEED(pipe(pipes) == 0);
	CHECK_ERR(raw_mmap(0, P, PROT_READ, MAP_PRIVATE, pipes[0], 0), ENODEV);
	CHECK_ERR(raw_mmap(0, P, PROT_READ, MAP_SHARED, NEED_OK(open("/", O_RDONLY)), 0), ENODEV);

	close(NEED_OK(creat(path, 0600)));
	NEED(truncate(path, P) == 0);
	int ro = NEED_OK(open(path, O_RDONLY)), wo = NEED_OK(open(path, O_WRONLY));
	unlink(path);
	CHECK_ERR(raw_mmap(0, P, RW, MAP_SHARED, ro, 0), EACCES);
	CHECK_ERR(raw_mmap(0, P, PROT_WRITE, MAP_SHARED, ro, 0), EACCES);
	CHECK_ERR(raw_mmap(0, P, PROT_READ, MAP_SHARED, wo, 0), EACCES);
	CHECK_ERR(raw_mmap(0, P, PROT_READ, MAP_PRIVATE, wo, 0), EACCES);
	CHECK_ERR(raw_mmap(0, P, PROT_NONE, MAP_PRIVATE, wo, 0), EACCES);
	char *p = (char *)NEED_OK(raw_mmap(0, P, RW, MAP_PRIVATE, ro, 0));
	CHECK_RUNS(stores(p, 1));
	p = (char *)NEED_OK(raw_mmap(0, P, PROT_READ, MAP_SHARED, ro, 0));
	CHECK_ERR(raw_mprotect((unsigned long)p, P, RW), EACCES);
	CHECK_FAULT(stores(p, 1), SIGSEGV, SEGV_ACCERR_, p);

	/* The mapping outlives the descriptor. */
	p = map_fd(P, RW, MAP_SHARED, fd, 0);
	close(fd);
	CHECK_RUNS(stores(p, 1));
}

TEST(munmap_lengths, "VM-01 munmap")
{
	unsigned long p = (unsigned long)map(4 * P, RW, ANON);

	CHECK_ERR(raw_munmap(p, 0), EINVAL);
	CHECK_ERR(raw_munmap(p + 1, P), EINVAL);
	CHECK_ERR(raw_munmap(p + 0x800, P), EINVAL);
	CHECK_ERR(raw_munmap(p, -P), EINVAL);
	CHECK_ERR(raw_munmap(p, -1UL), EINVAL);
	CHECK_ERR(raw_munmap(p, 1UL << 47), EINVAL);
	CHECK_ERR(raw_munmap(USER_END, P), EINVAL);
	CHECK_ERR(raw_munmap(USER_END - P, 2 * P), EINVAL);
	CHECK_ERR(raw_munmap(0xffff888000000000, P), EINVAL);
	CHECK_RUNS(loads((char *)p));
	CHECK_EQ(raw_munmap(p + P, 2 * P), 0);
	CHECK_EQ(raw_munmap(p + P, 2 * P), 0); /* nothing is there: not an error */
	CHECK_EQ(raw_munmap(p, 4 * P), 0);     /* only its ends are */
	CHECK_FAULT(loads((char *)p), SIGSEGV, SEGV_MAPERR_, p);
	CHECK_FAULT(loads((char *)p + 3 * P), SIGSEGV, SEGV_MAPERR_, p + 3 * P);
}

TEST(mprotect_lengths, "VM-01 mprotect")
{
	unsigned long p = (unsigned long)map(2 * P, RW, ANON);

	CHECK_EQ(raw_mprotect(p, 0, PROT_READ), 0);
	CHECK_ERR(raw_mprotect(p + 1, P, PROT_READ), EINVAL);
	CHECK_ERR(raw_mprotect(p + 1, 0, PROT_READ), EINVAL);
	CHECK_ERR(raw_mprotect(p, -P, PROT_READ), ENOMEM);
	CHECK_ERR(raw_mprotect(p, -1UL, PROT_READ), ENOMEM);
	CHECK_ERR(raw_mprotect(p, P, 0x80), EINVAL);
	CHECK_ERR(raw_mprotect(p, P, 1UL << 40 | PROT_READ), EINVAL);
	CHECK_ERR(raw_mprotect(ZONE, P, PROT_READ), ENOMEM);
	CHECK_ERR(raw_mprotect(0xffff888000000000, P, PROT_READ), ENOMEM);
	CHECK_ERR(raw_mprotect(USER_END, P, PROT_READ), ENOMEM);
	CHECK_RUNS(stores((char *)p, 1));
	/* Length is rounded up. */
	CHECK_EQ(raw_mprotect(p, P + 1, PROT_READ), 0);
	CHECK_FAULT(stores((char *)p + P, 1), SIGSEGV, SEGV_ACCERR_, p + P);
}

TEST(madvise_lengths, "VM-01 madvise")
{
	unsigned long p = (unsigned long)map(2 * P, RW, ANON);

	CHECK_ERR(raw_madvise(p + 1, P, MADV_DONTNEED), EINVAL);
	CHECK_ERR(raw_madvise(p + 1, 0, MADV_DONTNEED), EINVAL);
	CHECK_EQ(raw_madvise(p, 0, MADV_DONTNEED), 0);
	CHECK_ERR(raw_madvise(p, -P, MADV_DONTNEED), EINVAL);
	CHECK_ERR(raw_madvise(p, -1UL, MADV_DONTNEED), EINVAL);
	CHECK_ERR(raw_madvise(p, P, 1000), EINVAL);
	CHECK_ERR(raw_madvise(p, P, -1), EINVAL);
	CHECK_ERR(raw_madvise(p, 0, 1000), EINVAL);
	CHECK_ERR(raw_madvise(ZONE, P, MADV_DONTNEED), ENOMEM);
	CHECK_ERR(raw_madvise(0xffff888000000000, P, MADV_DONTNEED), ENOMEM);
	CHECK_EQ(raw_madvise(p, P, MADV_NORMAL), 0);
	CHECK_EQ(raw_madvise(p, P, MADV_RANDOM), 0);
	CHECK_EQ(raw_madvise(p, P, MADV_SEQUENTIAL), 0);
}

TEST(mlock_lengths, "VM-01 mlock and munlock")
{
	unsigned long p = (unsigned long)map(2 * P, RW, ANON);

	CHECK_ERR(syscall(SYS_mlock, p, -P), EINVAL);
	CHECK_ERR(syscall(SYS_munlock, p, -P), EINVAL);
	CHECK_EQ(syscall(SYS_mlock, p, 0), 0);
	CHECK_EQ(syscall(SYS_munlock, p, 0), 0);
	CHECK_EQ(syscall(SYS_mlock, p + 5, 1), 0); /* rounded out to the page */
	CHECK_EQ(syscall(SYS_munlock, p + 5, 1), 0);
	CHECK_ERR(syscall(SYS_mlock, ZONE, P), ENOMEM);
}

TEST(mremap_lengths, "VM-01 mremap")
{
	unsigned long p = (unsigned long)map(2 * P, RW, ANON);

	CHECK_ERR(raw_mremap(p, P, 0, MREMAP_MAYMOVE, 0), EINVAL);
	CHECK_ERR(raw_mremap(p + 1, P, P, MREMAP_MAYMOVE, 0), EINVAL);
	CHECK_ERR(raw_mremap(p, P, 1UL << 63, MREMAP_MAYMOVE, 0), EINVAL);
	CHECK_ERR(raw_mremap(p, P, -P, MREMAP_MAYMOVE, 0), EINVAL);
	CHECK_ERR(raw_mremap(p, P, P, 0x80, 0), EINVAL);
	CHECK_RUNS(stores((char *)p, 1));
}

TEST(mincore_lengths, "VM-01 mincore and msync")
{
	unsigned long p = (unsigned long)map(2 * P, RW, ANON);
	unsigned char vec[2];

	CHECK_ERR(syscall(SYS_mincore, p + 1, P, vec), EINVAL);
	CHECK_EQ(syscall(SYS_mincore, p, 0, vec), 0);
	CHECK_ERR(syscall(SYS_mincore, ZONE, P, vec), ENOMEM);
	CHECK_ERR(syscall(SYS_mincore, p, -P, vec), ENOMEM);
	CHECK_ERR(syscall(SYS_msync, p + 1, P, MS_SYNC), EINVAL);
	CHECK_ERR(syscall(SYS_msync, p, P, MS_SYNC | MS_ASYNC), EINVAL);
	CHECK_ERR(syscall(SYS_msync, p, P, 0x80), EINVAL);
	CHECK_EQ(syscall(SYS_msync, p, 0, MS_SYNC), 0);
	CHECK_EQ(syscall(SYS_msync, p, P, MS_ASYNC), 0);
	CHECK_ERR(syscall(SYS_msync, p, -P, MS_SYNC), ENOMEM);
	CHECK_ERR(syscall(SYS_msync, ZONE, P, MS_SYNC), ENOMEM);
}

/* ---- VM-02 ------------------------------------------------------------------------------ */

TEST(offsets, "VM-02 offsets that overflow")
{
	int fd = tmpfile_fd(P);

	CHECK_ERR(raw_mmap(0, 2 * P, RW, MAP_SHARED, fd, 0x7ffffffffffff000), EOVERFLOW);
	CHECK_ERR(raw_mmap(0, 2 * P, RW, MAP_SHARED, fd, -P), EOVERFLOW);
	CHECK_ERR(raw_mmap(0, 2 * P, RW, MAP_SHARED, fd, 1UL << 63), EOVERFLOW);
	CHECK_ERR(raw_mmap(0, 2 * P, RW, MAP_PRIVATE, fd, -P), EOVERFLOW);
	CHECK_ERR(raw_mmap(0, P, RW, MAP_SHARED, fd, 0x7ffffffffffff000), EOVERFLOW);
	CHECK_ERR(raw_mmap(0, P, RW, MAP_SHARED, fd, 1), EINVAL);
	CHECK_ERR(raw_mmap(0, P, RW, MAP_PRIVATE, fd, 4095), EINVAL);
	CHECK_ERR(raw_mmap(0, P, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 1), EINVAL);

	/* An anonymous mapping ignores its offset. */
	char *p = (char *)NEED_OK(raw_mmap(0, 2 * P, RW, ANON, -1, 1UL << 63));
	CHECK_RUNS(stores(p + P, 1));
	p = (char *)NEED_OK(raw_mmap(0, 2 * P, RW, ANON, -1, 0x7ffffffffffff000));
	CHECK_RUNS(stores(p + P, 1));
	p = (char *)NEED_OK(raw_mmap(0, 2 * P, RW, SHANON, -1, P));
	CHECK_RUNS(stores(p + P, 1));
}

TEST(far_offset, "VM-02 a mapping far beyond any file size")
{
	int fd = tmpfile_fd(P);
	char *p = (char *)NEED_OK(raw_mmap(0, P, RW, MAP_SHARED, fd, 0x7fffffffffffe000));

	CHECK_FAULT(loads(p), SIGBUS, BUS_ADRERR_, p);
	/* The page offset has 52 bits: it does not wrap, and the kernel has to cope. */
	char *q = (char *)NEED_OK(raw_mremap((unsigned long)p, P, TB, MREMAP_MAYMOVE, 0));
	CHECK_FAULT(loads(q), SIGBUS, BUS_ADRERR_, q);
	CHECK_FAULT(stores(q + 17 * P, 1), SIGBUS, BUS_ADRERR_, q + 17 * P);
	CHECK_FAULT(stores(q + TB - 1, 1), SIGBUS, BUS_ADRERR_, q + TB - 1);
	CHECK_EQ(raw_munmap((unsigned long)q, TB), 0);
}

/* Place for the hugetlb half of VM-02. */

/* ---- VM-03 ------------------------------------------------------------------------------ */

TEST(hints, "VM-03 hints")
{
	char *p = (char *)NEED_OK(raw_mmap(0xffff888000001001, P, RW, ANON, -1, 0));

	CHECK_RUNS(stores(p, 1));
	p = (char *)NEED_OK(raw_mmap(1UL << 63, P, RW, ANON, -1, 0));
	CHECK_RUNS(stores(p, 1));
	p = (char *)NEED_OK(raw_mmap(USER_END - P, 8 * P, RW, ANON, -1, 0));
	CHECK_RUNS(stores(p + 7 * P, 1));
	/* A hint with room is followed, rounded down or up to a page. */
	unsigned long want = ZONE;
	CHECK_EQ(raw_mmap(want, P, RW, ANON, -1, 0), want);
	unsigned long got = raw_mmap(want + 16 * P + 5, P, RW, ANON, -1, 0);
	CHECK_MSG(got == want + 16 * P || got == want + 17 * P, "hint 0x%lx gave 0x%lx",
		  want + 16 * P + 5, got);
	/* One where something is already goes elsewhere and harms nothing. */
	*(char *)want = 77;
	got = NEED_OK(raw_mmap(want, P, RW, ANON, -1, 0));
	CHECK(got != want);
	CHECK_EQ(*(char *)want, 77);
	/* A hint below what may be mapped is no error. */
	CHECK_OK(raw_mmap(1, P, RW, ANON, -1, 0));
}

TEST(fixed, "VM-03 fixed addresses")
{
	unsigned long p = (unsigned long)map(3 * P, RW, ANON);

	memset((char *)p, 5, 3 * P);
	CHECK_ERR(raw_mmap(p + 1, P, RW, ANON | MAP_FIXED, -1, 0), EINVAL);
	CHECK_ERR(raw_mmap(p + 0x800, P, RW, ANON | MAP_FIXED, -1, 0), EINVAL);
	CHECK_ERR(raw_mmap(USER_END, P, RW, ANON | MAP_FIXED, -1, 0), ENOMEM);
	CHECK_ERR(raw_mmap(0x800000000000, P, RW, ANON | MAP_FIXED, -1, 0), ENOMEM);
	CHECK_ERR(raw_mmap(0xffff888000000000, P, RW, ANON | MAP_FIXED, -1, 0), ENOMEM);
	CHECK_ERR(raw_mmap(0xffffffffff600000, P, RW, ANON | MAP_FIXED, -1, 0), ENOMEM);
	CHECK_ERR(raw_mmap(p, 1UL << 47, RW, ANON | MAP_FIXED, -1, 0), ENOMEM);
	CHECK_ERR(raw_mmap(p, P, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0), EEXIST);
	CHECK_ERR(raw_mmap(p - P, 2 * P, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0), EEXIST);
	CHECK_ERR(raw_mmap(p + 2 * P, P, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0), EEXIST);
	CHECK_EQ(*(char *)p + *(char *)(p + P) + *(char *)(p + 2 * P), 15);
	CHECK_EQ(raw_mmap(p + P, P, RW, ANON | MAP_FIXED, -1, 0), p + P);
	CHECK_EQ(*(char *)p * 100 + *(char *)(p + P) * 10 + *(char *)(p + 2 * P), 505);
	CHECK_EQ(raw_mmap(ZONE, P, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0), ZONE);
}

TEST(fixed_fail, "VM-03 a failing fixed mapping leaves what was there")
{
	int fd = tmpfile_fd(P);
	char *p = map(P, RW, ANON);

	*p = 9;
	CHECK_ERR(raw_mmap((unsigned long)p, P, RW, MAP_SHARED | MAP_FIXED, fd, 1), EINVAL);
	CHECK_ERR(raw_mmap((unsigned long)p, P, RW, MAP_SHARED | MAP_FIXED, 999, 0), EBADF);
	CHECK_ERR(raw_mmap((unsigned long)p, P, RW, MAP_SHARED | MAP_FIXED, fd, -P), EOVERFLOW);
	CHECK_EQ(*p, 9);
}

TEST(null_page, "VM-03 address zero")
{
	/* A privileged program may map it; another gets EPERM. Not mapped, it is not there. */
	CHECK_FAULT(loads(NULL), SIGSEGV, SEGV_MAPERR_, 0);
	long p = raw_mmap(0, P, RW, ANON | MAP_FIXED, -1, 0);
	if (p == 0) {
		CHECK_RUNS(stores(NULL, 1));
		CHECK_EQ(raw_munmap(0, P), 0);
	} else {
		CHECK_EQ(errno, EPERM);
	}
	CHECK_FAULT(loads(NULL), SIGSEGV, SEGV_MAPERR_, 0);
}

TEST(placing, "VM-03 many mappings at once do not overlap, and freed room is used again")
{
	enum { N = 200 };
	static char *at[N];
	static size_t lens[N];
	uint32_t seed = 7;

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < N; i++) {
			size_t len = (1 + roll(&seed) % 5) * P;

			if (at[i])
				continue;
			lens[i] = len;
			at[i] = map(len + P, RW, ANON);
			unmap(at[i] + len, P); /* so that neighbours do not merge */
			for (size_t k = 0; k < len; k += P) {
				if (at[i][k])
					FAIL("mapping %d page %zu is not fresh", i, k / P);
				at[i][k] = i + 1;
			}
		}
		for (int i = 0; i < N; i++)
			if (at[i][0] != (char)(i + 1))
				FAIL("mapping %d holds %d", i, at[i][0]);
		for (int i = 0; i < N; i++)
			if (roll(&seed) % 2) {
				unmap(at[i], lens[i]);
				at[i] = NULL;
			}
	}
}
