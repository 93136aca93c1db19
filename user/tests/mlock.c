/*
 * The mlock family. known-bugs: LK-01.
 */
#include "harness.h"

static long locked_kb(void)
{
	return field("/proc/self/status", "VmLck");
}

static bool present(void *p)
{
	return pagemap(p) & PM_PRESENT;
}

TEST(kinds, "LK-01 what may be locked")
{
	char *w = map(P, PROT_WRITE, ANON), *r = map(P, PROT_READ, ANON),
	     *none = map(P, PROT_NONE, ANON);
	char *hole = map(3 * P, RW, ANON);

	CHECK_EQ(mlock(w, P), 0);
	CHECK(present(w));
	CHECK_EQ(mlock(r, P), 0);
	CHECK_ERR(mlock(none, P), ENOMEM);
	CHECK_ERR(mlock((void *)ZONE, P), ENOMEM);
	unmap(hole + P, P);
	CHECK_ERR(mlock(hole, 3 * P), ENOMEM);
	CHECK_ERR(munlock(hole, 3 * P), ENOMEM);
	CHECK_ERR(syscall(SYS_mlock, w, -P), EINVAL);
	CHECK_EQ(syscall(SYS_mlock, w, 0), 0);
}

TEST(populated, "LK-01 locked is present, counted, and faults no more")
{
	char *p = map(32 * P, RW, ANON);

	madvise(p, 32 * P, MADV_NOHUGEPAGE);
	CHECK_EQ(mlock(p, 32 * P), 0);
	for (int i = 0; i < 32; i++)
		CHECK(present(p + i * P));
	CHECK_EQ(locked_kb(), 128);
	CHECK_EQ(smaps_kb(p, "Rss"), 128);
	CHECK_EQ(smaps_kb(p, "Locked"), 128);
	long n = thread_faults();
	n = thread_faults();
	for (int i = 0; i < 32; i++)
		p[i * P] = 1;
	CHECK_EQ(thread_faults() - n, 0);
	CHECK_EQ(munlock(p + 8 * P, 8 * P), 0);
	CHECK_EQ(locked_kb(), 96);
	CHECK_EQ(areas_in(p, 32 * P), 3);
	CHECK_EQ(mlock(p + 8 * P, 8 * P), 0);
	CHECK_EQ(areas_in(p, 32 * P), 1);
	unmap(p, 16 * P);
	CHECK_EQ(locked_kb(), 64);
	CHECK_EQ(munlock(p + 16 * P, 16 * P), 0);
	CHECK_EQ(locked_kb(), 0);
	CHECK_EQ(p[31 * P], 1);
}

TEST(dontneed, "LK-01 DONTNEED is refused on locked pages")
{
	char *p = map(2 * P, RW, ANON);

	*p = 5;
	CHECK_EQ(mlock(p, P), 0);
	CHECK_ERR(madvise(p, P, MADV_DONTNEED), EINVAL);
	CHECK_EQ(*p, 5);
	CHECK_ERR(madvise(p, P, MADV_FREE), EINVAL);
	CHECK_EQ(munlock(p, P), 0);
	CHECK_EQ(madvise(p, P, MADV_DONTNEED), 0);
	CHECK_EQ(*p, 0);
}

TEST(over_fork, "LK-01 a child inherits no locks")
{
	char *p = map(8 * P, RW, ANON);

	CHECK_EQ(mlock(p, 8 * P), 0);
	pid_t pid = xfork();
	if (pid == 0) {
		CHECK_EQ(locked_kb(), 0);
		CHECK_EQ(madvise(p, P, MADV_DONTNEED), 0);
		done();
	}
	join_child(pid);
	CHECK_EQ(locked_kb(), 32);
	CHECK(present(p));
}

TEST(all, "LK-01 mlockall: current, future, and its end")
{
	char *before = map(4 * P, RW, ANON);

	CHECK_ERR(syscall(SYS_mlockall, 0), EINVAL);
	CHECK_ERR(syscall(SYS_mlockall, 0x80), EINVAL);
	if (syscall(SYS_mlockall, MCL_CURRENT) < 0 && errno == ENOSYS)
		skip("no mlockall");
	CHECK(present(before + 3 * P));
	CHECK(locked_kb() >= 16);
	char *between = map(4 * P, RW, ANON);
	CHECK(!present(between));
	CHECK_EQ(syscall(SYS_mlockall, MCL_FUTURE), 0);
	char *after = map(4 * P, RW, ANON);
	CHECK(present(after + 3 * P));
	CHECK_EQ(syscall(SYS_munlockall), 0);
	CHECK_EQ(locked_kb(), 0);
	CHECK(present(after));
	char *last = map(P, RW, ANON);
	CHECK(!present(last));
}

TEST(onfault, "LK-01 mlock2 with MLOCK_ONFAULT")
{
	char *p = map(4 * P, RW, ANON);

	CHECK_ERR(syscall(SYS_mlock2, p, P, 0x80), EINVAL);
	if (syscall(SYS_mlock2, p, 4 * P, 1) < 0) {
		CHECK_EQ(errno, ENOSYS);
		skip("no mlock2");
	}
	CHECK(!present(p));
	CHECK_EQ(locked_kb(), 16);
	*p = 1;
	CHECK_ERR(madvise(p, P, MADV_DONTNEED), EINVAL);
	CHECK_EQ(syscall(SYS_mlock2, p, 4 * P, 0), 0);
	CHECK(present(p + 3 * P));
}

TEST(map_locked, "LK-01 MAP_LOCKED and MAP_POPULATE")
{
	char *p = map(8 * P, RW, ANON | MAP_LOCKED);

	CHECK(present(p + 7 * P));
	CHECK_EQ(locked_kb(), 32);
	char *q = map(8 * P, RW, ANON | MAP_POPULATE);
	CHECK(present(q));
	CHECK(present(q + 7 * P));
	CHECK_EQ(locked_kb(), 32);
	char *r = map(8 * P, PROT_READ, ANON | MAP_POPULATE);
	CHECK(present(r + 7 * P));
	int fd = tmpfile_fd(8 * P);
	char *f = map_fd(8 * P, RW, MAP_SHARED | MAP_POPULATE, fd, 0);
	CHECK(present(f + 7 * P));
	/* Beyond the end of the file there is nothing to populate; that is no error. */
	f = map_fd(16 * P, RW, MAP_SHARED | MAP_POPULATE, fd, 0);
	CHECK(present(f));
	CHECK_FAULT(loads(f + 9 * P), SIGBUS, BUS_ADRERR_, f + 9 * P);
}

TEST(limit, "LK-01 RLIMIT_MEMLOCK, as another user")
{
	if (syscall(SYS_setuid, 0) < 0 && errno == ENOSYS)
		skip("no users");
	pid_t pid = xfork();
	if (pid == 0) {
		struct rlimit rl = { 4 * P, 4 * P };
		char *p = map(8 * P, RW, ANON);

		NEED(setrlimit(RLIMIT_MEMLOCK, &rl) == 0);
		NEED(syscall(SYS_setuid, 12345) == 0);
		CHECK_ERR(mlock(p, 8 * P), ENOMEM);
		CHECK_EQ(mlock(p, 4 * P), 0);
		CHECK_ERR(mlock(p + 4 * P, P), ENOMEM);
		CHECK_EQ(mlock(p, 2 * P), 0); /* already locked: costs nothing */
		CHECK_ERR(raw_mmap(0, P, RW, ANON | MAP_LOCKED, -1, 0), EAGAIN);
		done();
	}
	join_child(pid);
}

static char *contested;
static volatile bool stop;

static void *locker(void *arg)
{
	(void)arg;
	pin(1);
	while (!stop) {
		if (mlock(contested, 8 * P) < 0)
			CHECK_EQ(errno, ENOMEM);
		munlock(contested, 8 * P);
	}
	return NULL;
}

TEST(race, "LK-01 mlock against munmap", .cpus = 2, .seconds = 40)
{
	contested = (char *)ZONE;
	pthread_t t = start(locker, NULL);
	pin(0);
	for (long i = 0; go_on(i, 400); i++) {
		NEED(raw_mmap(ZONE, 8 * P, RW, ANON | MAP_FIXED, -1, 0) == (long)ZONE);
		contested[3 * P] = 1;
		unmap(contested + 2 * P, 3 * P);
		unmap(contested, 8 * P);
	}
	stop = true;
	join(t);
	CHECK_EQ(locked_kb(), 0);
}
