/*
 * madvise, mincore, msync, MAP_POPULATE: what each does to pages that are there and to pages that
 * are not.
 */
#include "harness.h"

static bool present(void *p)
{
	return pagemap(p) & PM_PRESENT;
}

static char *pages(int n, int fill)
{
	char *p = map(n * P, RW, ANON);

	madvise(p, n * P, MADV_NOHUGEPAGE);
	if (fill)
		memset(p, fill, n * P);
	return p;
}

TEST(dontneed, "MA DONTNEED on anonymous, shared and file pages")
{
	char *p = pages(4, 7);

	CHECK_EQ(madvise(p + P, 2 * P, MADV_DONTNEED), 0);
	CHECK(present(p) && !present(p + P) && !present(p + 2 * P) && present(p + 3 * P));
	CHECK_EQ(p[0] + p[3 * P], 14);
	CHECK_EQ(p[P] + p[2 * P], 0);
	CHECK_EQ(madvise(p, 1, MADV_DONTNEED), 0); /* length is rounded up */
	CHECK_EQ(p[0] + p[P - 1], 0);
	char *s = map(2 * P, RW, SHANON);
	memset(s, 5, 2 * P);
	CHECK_EQ(madvise(s, 2 * P, MADV_DONTNEED), 0);
	CHECK_EQ(s[0], 5); /* only the mapping went */
	int fd = tmpfile_fd(P);
	char *f = map_fd(P, RW, MAP_SHARED, fd, 0);
	f[0] = 3;
	CHECK_EQ(madvise(f, P, MADV_DONTNEED), 0);
	CHECK_EQ(f[0], 3);
	/* Frames do come back; the zero frame, which the reads mapped, is nobody's. */
	CHECK_EQ(smaps_kb(p, "Rss"), 4);
	memset(p, 1, 4 * P);
	CHECK_EQ(smaps_kb(p, "Rss"), 16);
	CHECK_EQ(madvise(p, 4 * P, MADV_DONTNEED), 0);
	CHECK_EQ(smaps_kb(p, "Rss"), 0);
}

TEST(dontneed_cow, "MA DONTNEED of a page shared by fork leaves the other's")
{
	char *p = pages(1, 9);
	pid_t pid = xfork();

	if (pid == 0) {
		CHECK_EQ(madvise(p, P, MADV_DONTNEED), 0);
		CHECK_EQ(p[0], 0);
		p[0] = 1;
		done();
	}
	join_child(pid);
	CHECK_EQ(p[0], 9);
}

TEST(free_test, "MA FREE: old or zero until written, then what was written")
{
	char *p = pages(16, 6);

	if (madvise(p, 16 * P, MADV_FREE) < 0) {
		CHECK_EQ(errno, EINVAL);
		skip("no MADV_FREE");
	}
	for (int i = 0; i < 8; i++)
		p[i * P] = 50 + i;
	for (int i = 0; i < 16; i++) {
		if (i < 8)
			CHECK_EQ(p[i * P], 50 + i);
		else
			CHECK_MSG(p[i * P] == 6 || p[i * P] == 0, "page %d reads %d", i, p[i * P]);
	}
	int fd = tmpfile_fd(P);
	char *f = map_fd(P, RW, MAP_SHARED, fd, 0);
	CHECK_ERR(madvise(f, P, MADV_FREE), EINVAL);
}

TEST(populate, "MA POPULATE_READ and POPULATE_WRITE")
{
	char *p = pages(8, 0);

	CHECK_EQ(madvise(p, 4 * P, MADV_POPULATE_READ), 0);
	CHECK(present(p) && present(p + 3 * P) && !present(p + 4 * P));
	CHECK_EQ(p[0], 0);
	CHECK_EQ(madvise(p, 8 * P, MADV_POPULATE_WRITE), 0);
	CHECK(present(p + 7 * P));
	long n = thread_faults();
	n = thread_faults();
	for (int i = 0; i < 8; i++)
		p[i * P] = 1;
	CHECK_EQ(thread_faults() - n, 0);
	CHECK_EQ(madvise(p, 8 * P, MADV_POPULATE_WRITE), 0);
	CHECK_EQ(p[0], 1); /* what is there stays */
	char *r = map(2 * P, PROT_READ, ANON);
	CHECK_ERR(madvise(r, 2 * P, MADV_POPULATE_WRITE), EINVAL);
	CHECK_EQ(madvise(r, 2 * P, MADV_POPULATE_READ), 0);
	char *none = map(2 * P, PROT_NONE, ANON);
	CHECK_ERR(madvise(none, 2 * P, MADV_POPULATE_READ), EINVAL);
	int fd = tmpfile_fd(P);
	char *f = map_fd(2 * P, RW, MAP_SHARED, fd, 0);
	CHECK_ERR(madvise(f, 2 * P, MADV_POPULATE_WRITE), EFAULT);
	CHECK(present(f));
	char *hole = pages(3, 0);
	unmap(hole + P, P);
	CHECK_ERR(madvise(hole, 3 * P, MADV_POPULATE_WRITE), ENOMEM);
	CHECK(present(hole));
}

TEST(map_populate, "MA MAP_POPULATE of all kinds")
{
	char *p = map(8 * P, RW, ANON | MAP_POPULATE);
	int fd = tmpfile_fd(4 * P);

	for (int i = 0; i < 8; i++)
		CHECK(present(p + i * P));
	long n = thread_faults();
	n = thread_faults();
	for (int i = 0; i < 8; i++)
		p[i * P] = 1;
	CHECK_EQ(thread_faults() - n, 0);
	char *s = map(4 * P, RW, SHANON | MAP_POPULATE);
	CHECK(present(s) && present(s + 3 * P));
	NEED(pwrite(fd, "abc", 3, P) == 3);
	char *f = map_fd(4 * P, RW, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	CHECK(present(f) && present(f + 3 * P));
	CHECK(!memcmp(f + P, "abc", 3));
	f[P] = 'X';
	char c;
	CHECK_EQ(pread(fd, &c, 1, P), 1);
	CHECK_EQ(c, 'a');
	char *none = map(2 * P, PROT_NONE, ANON | MAP_POPULATE);
	CHECK(!present(none));
}

TEST(residence, "MA mincore")
{
	char *p = pages(8, 0);
	unsigned char vec[9];

	vec[8] = 0x55;
	p[P] = p[4 * P] = 1;
	CHECK_EQ(mincore(p, 8 * P, vec), 0);
	for (int i = 0; i < 8; i++)
		CHECK_EQ(vec[i] & 1, i == 1 || i == 4);
	CHECK_EQ(vec[8], 0x55);
	/* A file's page is in memory whether this process maps it or not. */
	int fd = tmpfile_fd(4 * P);
	NEED(pwrite(fd, "x", 1, 2 * P) == 1);
	char *f = map_fd(4 * P, RW, MAP_SHARED, fd, 0);
	CHECK_EQ(mincore(f, 4 * P, vec), 0);
	CHECK_EQ(vec[0] & 1, 0);
	CHECK_EQ(vec[2] & 1, 1);
	/* A long range, over table edges. */
	static unsigned char many[2048];
	char *r = reserve(2048 * P, HUGE);
	NEED(mprotect(r, 2048 * P, RW) == 0);
	madvise(r, 2048 * P, MADV_NOHUGEPAGE);
	for (int i = 0; i < 2048; i += 341)
		r[i * P] = 1;
	CHECK_EQ(mincore(r, 2048 * P, many), 0);
	for (int i = 0; i < 2048; i++)
		if ((many[i] & 1) != (i % 341 == 0))
			FAIL("page %d: %d", i, many[i]);
}

TEST(synchronous, "MA msync")
{
	int fd = tmpfile_fd(2 * P);
	char *f = map_fd(2 * P, RW, MAP_SHARED, fd, 0), c;

	f[5] = 9;
	CHECK_EQ(msync(f, 2 * P, MS_SYNC), 0);
	CHECK_EQ(msync(f, 2 * P, MS_ASYNC), 0);
	CHECK_EQ(msync(f, 2 * P, MS_SYNC | MS_INVALIDATE), 0);
	CHECK_EQ(pread(fd, &c, 1, 5), 1);
	CHECK_EQ(c, 9);
	NEED(mlock(f, P) == 0);
	CHECK_ERR(msync(f, P, MS_INVALIDATE), EBUSY);
}

TEST(others, "MA advice about fork; advice that changes nothing to see")
{
	char *p = pages(4, 3);

	CHECK_EQ(madvise(p, 4 * P, MADV_WILLNEED), 0);
	CHECK_EQ(madvise(p, 4 * P, MADV_RANDOM), 0);
	CHECK_EQ(madvise(p, 4 * P, MADV_SEQUENTIAL), 0);
	CHECK_EQ(madvise(p, 4 * P, MADV_NORMAL), 0);
	CHECK_EQ(p[0], 3);
	if (madvise(p, P, MADV_DONTFORK) < 0 && errno == EINVAL)
		skip("no MADV_DONTFORK");
	CHECK_EQ(madvise(p + P, P, MADV_WIPEONFORK), 0);
	pid_t pid = xfork();
	if (pid == 0) {
		CHECK_FAULT(loads(p), SIGSEGV, SEGV_MAPERR_, p);
		CHECK_EQ(p[P], 0);
		CHECK_EQ(p[2 * P], 3);
		done();
	}
	join_child(pid);
	CHECK_EQ(p[0] + p[P], 6);
	CHECK_EQ(madvise(p, P, MADV_DOFORK), 0);
	CHECK_EQ(madvise(p + P, P, MADV_KEEPONFORK), 0);
	pid = xfork();
	if (pid == 0) {
		CHECK_EQ(p[0] + p[P], 6);
		done();
	}
	join_child(pid);
	CHECK_EQ(areas_in(p, 4 * P), 1);
}

TEST(remove_test, "MA REMOVE and hole punching give a file's pages back")
{
	int fd = tmpfile_fd(4 * P);
	char *f = map_fd(4 * P, RW, MAP_SHARED, fd, 0), *q = map_fd(4 * P, RW, MAP_PRIVATE, fd, 0);

	memset(f, 8, 4 * P);
	q[2 * P] = 4;
	if (madvise(f + P, P, MADV_REMOVE) < 0) {
		CHECK(errno == EINVAL || errno == EOPNOTSUPP);
		skip("no MADV_REMOVE");
	}
	CHECK_EQ(f[P], 0);
	CHECK_EQ(q[P], 0);
	CHECK_EQ(f[0] + f[2 * P], 16);
	CHECK_EQ(syscall(SYS_fallocate, fd, 3 /* PUNCH_HOLE|KEEP_SIZE */, 2 * P, 2 * P), 0);
	CHECK_EQ(f[2 * P] + f[3 * P], 0);
	CHECK_EQ(q[2 * P], 4); /* a private copy stays */
	struct stat st;
	CHECK_EQ(fstat(fd, &st), 0);
	CHECK_EQ(st.st_size, 4 * P);
	CHECK_ERR(madvise(pages(1, 1), P, MADV_REMOVE), EINVAL);
}

static char *area;
static volatile bool stop;

static void *drops(void *arg)
{
	(void)arg;
	pin(1);
	while (!stop)
		CHECK_EQ(madvise(area, 32 * P, MADV_DONTNEED), 0);
	return NULL;
}

TEST(race, "MA DONTNEED against stores: every page reads zero or what was stored last", .cpus = 2,
     .seconds = 40)
{
	area = pages(32, 0);
	pthread_t t = start(drops, NULL);
	pin(0);
	for (long i = 1; go_on(i, 600); i++)
		for (int k = 0; k < 32; k++) {
			volatile long *w = (long *)(area + k * P);

			*w = i;
			long got = *w;
			if (got != i && got != 0)
				FAIL("page %d holds %ld in round %ld", k, got, i);
		}
	stop = true;
	join(t);
}
