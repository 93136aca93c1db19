/*
 * The kernel touching user memory: copies that must break COW, that must fail with EFAULT and never
 * with a signal or a panic, and that fault while the kernel holds what the fault needs. known-bugs:
 * UA-01..UA-04.
 */
#include "harness.h"

#include <poll.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <sys/utsname.h>

/* ---- UA-01 ------------------------------------------------------------------------------ */

static void read_into_cow(char *page, char old)
{
	int fd[2];

	NEED(pipe(fd) == 0);
	NEED(write(fd[1], "abc", 3) == 3);
	pid_t pid = xfork();
	if (pid == 0) {
		CHECK_EQ(read(fd[0], page + 5, 3), 3);
		CHECK(!memcmp(page + 5, "abc", 3));
		CHECK_EQ(page[4], old);
		CHECK_EQ(page[8], old);
		done();
	}
	join_child(pid);
	for (size_t i = 0; i < P; i++)
		if (page[i] != old) {
			FAIL("the parent's byte %zu became %d, was %d", i, page[i], old);
			break;
		}
}

TEST(cow_page, "UA-01 read into a COW page")
{
	char *page = map(P, RW, ANON);

	memset(page, 'A', P);
	read_into_cow(page, 'A');
}

TEST(zero_page, "UA-01 read into a page that maps the zero frame")
{
	char *page = map(2 * P, RW, ANON);

	CHECK_EQ(*(volatile char *)page, 0);
	read_into_cow(page, 0);
	/* The zero frame itself is still zero for everybody. */
	char *other = map(P, RW, ANON);
	for (size_t i = 0; i < P; i++)
		if (other[i]) {
			FAIL("a fresh page is not zero at %zu", i);
			break;
		}
}

TEST(absent_page, "UA-01 read into a page that was never touched")
{
	read_into_cow(map(P, RW, ANON), 0);
}

TEST(private_file_page, "UA-01 read into a page of a private file mapping")
{
	int fd = tmpfile_fd(P), in[2];
	char back[P];

	memset(back, 'F', P);
	NEED(pwrite(fd, back, P, 0) == (ssize_t)P);
	char *page = map_fd(P, RW, MAP_PRIVATE, fd, 0);
	CHECK_EQ(page[0], 'F');
	NEED(pipe(in) == 0 && write(in[1], "abc", 3) == 3);
	CHECK_EQ(read(in[0], page + 5, 3), 3);
	CHECK(!memcmp(page + 4, "FabcF", 5));
	NEED(pread(fd, back, P, 0) == (ssize_t)P);
	CHECK(!memcmp(back + 4, "FFFFF", 5));
}

TEST(other_copies, "UA-01 other calls that store into a COW page")
{
	char *page = map(P, RW, ANON);

	memset(page, 'A', P);
	pid_t pid = xfork();
	if (pid == 0) {
		struct timespec *ts = (struct timespec *)(page + 64);

		CHECK_EQ(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, ts), 0);
		CHECK(ts->tv_nsec >= 0 && ts->tv_nsec < 1000000000);
		pid_t grandchild = xfork();
		if (grandchild == 0)
			_exit(7);
		int *status = (int *)(page + 128);
		CHECK_EQ(waitpid(grandchild, status, 0), grandchild);
		CHECK(WIFEXITED(*status) && WEXITSTATUS(*status) == 7);
		int fd[2] = { 0 };
		CHECK_EQ(syscall(SYS_pipe, page + 256), 0);
		memcpy(fd, page + 256, sizeof(fd));
		CHECK(fd[0] > 2 && fd[1] > 2 && fd[0] != fd[1]);
		CHECK_EQ(syscall(SYS_uname, page + 1024), 0);
		CHECK(memchr(page + 1024, 0, 65) != NULL);
		done();
	}
	join_child(pid);
	for (size_t i = 0; i < P; i++)
		if (page[i] != 'A') {
			FAIL("the parent's byte %zu became %d", i, page[i]);
			break;
		}
}

/* Place for UA-01 with a transparent hugepage and with the huge zero page. */

/* ---- UA-02 ------------------------------------------------------------------------------ */

static int lowest_fd(void)
{
	int fd = dup(0);

	if (fd < 0)
		fd = dup(1);
	NEED(fd >= 0);
	close(fd);
	return fd;
}

#define BAD_POINTERS 11
static void *bad_pointer(int i)
{
	static char *none;

	if (!none)
		none = map(P, PROT_NONE, ANON);
	switch (i) {
	case 0: return NULL;
	case 1: return (void *)0x1000;
	case 2: return none;
	case 3: return (void *)ZONE; /* mmap does not choose it */
	case 4: return (void *)0x7ffffffff000;
	case 5: return (void *)0x800000000000;
	case 6: return (void *)(1UL << 63);
	case 7: return (void *)0xffff888000000000;
	case 8: return (void *)0xffffffff80000000;
	case 9: return (void *)0xffffffff81000008;
	default: return (void *)-8UL;
	}
}

TEST(bad_io, "UA-02 read and write with bad pointers")
{
	int fd[2];
	char x = 'x', got[64];

	NEED(pipe2(fd, O_NONBLOCK) == 0);
	for (int i = 0; i < BAD_POINTERS; i++) {
		char *p = bad_pointer(i);

		if (!CHECK_ERR(write(fd[1], p, 16), EFAULT))
			diag("with pointer %p", p);
		if (!CHECK_ERR(read(fd[0], got, sizeof(got)), EAGAIN))
			diag("bytes came through from pointer %p", p);
		NEED(write(fd[1], "0123456789abcdef", 16) == 16);
		if (!CHECK_ERR(read(fd[0], p, 16), EFAULT))
			diag("with pointer %p", p);
		while (read(fd[0], got, sizeof(got)) > 0)
			;
		struct iovec iov = { p, 16 };
		CHECK_ERR(writev(fd[1], &iov, 1), EFAULT);
		CHECK_ERR(writev(fd[1], (struct iovec *)p, 1), EFAULT);
	}
	CHECK_ERR(write(fd[1], &x, (size_t)-1), EFAULT);
	CHECK_ERR(read(fd[0], got, sizeof(got)), EAGAIN);
}

TEST(bad_each, "UA-02 every kind of call with bad pointers")
{
	for (int i = 0; i < BAD_POINTERS; i++) {
		void *p = bad_pointer(i);
		int first = lowest_fd();

		CHECK_ERR(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, p), EFAULT);
		CHECK_ERR(syscall(SYS_pipe, p), EFAULT);
		CHECK_ERR(syscall(SYS_pipe2, p, 0), EFAULT);
		CHECK_EQ(lowest_fd(), first);
		CHECK_ERR(syscall(SYS_futex, p, 0 /* WAIT */, 0, NULL, NULL, 0), EFAULT);
		CHECK_ERR(syscall(SYS_futex, p, 128 /* WAIT_PRIVATE */, 0, NULL, NULL, 0), EFAULT);
		CHECK_ERR(syscall(SYS_uname, p), EFAULT);
		CHECK_ERR(syscall(SYS_nanosleep, p, NULL), EFAULT);
		CHECK_ERR(syscall(SYS_open, p, O_RDONLY), EFAULT);
		CHECK_ERR(syscall(SYS_stat, "/", p), EFAULT);
		CHECK_ERR(syscall(SYS_stat, p, p), EFAULT);
		CHECK_ERR(syscall(SYS_fstat, 1, p), EFAULT);
		CHECK_ERR(syscall(SYS_getcwd, p, 4096), EFAULT);
		CHECK_ERR(syscall(SYS_getrusage, 0, p), EFAULT);
		CHECK_ERR(syscall(SYS_sysinfo, p), EFAULT);
		CHECK_ERR(syscall(SYS_execve, p, NULL, NULL), EFAULT);
		CHECK_ERR(syscall(SYS_getrandom, p, 16, 0), EFAULT);
		CHECK_ERR(syscall(SYS_sched_getaffinity, 0, 128, p), EFAULT);
		CHECK_ERR(syscall(SYS_poll, p, 1, 0), EFAULT);
		CHECK_ERR(syscall(SYS_readlink, "/proc/self/exe", p, 16), EFAULT);
		CHECK_ERR(syscall(SYS_mincore, map(P, RW, ANON), P, p), EFAULT);
		if (p) { /* NULL is allowed here */
			CHECK_ERR(syscall(SYS_rt_sigprocmask, SIG_BLOCK, p, NULL, 8), EFAULT);
			CHECK_ERR(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, p, 8), EFAULT);
			CHECK_ERR(syscall(SYS_rt_sigaction, SIGUSR1, p, NULL, 8), EFAULT);
			CHECK_ERR(syscall(SYS_rt_sigaction, SIGUSR1, NULL, p, 8), EFAULT);
			CHECK_ERR(syscall(SYS_sigaltstack, p, NULL), EFAULT);
			CHECK_ERR(syscall(SYS_select, 1, p, NULL, NULL, NULL), EFAULT);
			CHECK_ERR(syscall(SYS_setitimer, ITIMER_REAL, p, NULL), EFAULT);
			CHECK_ERR(syscall(SYS_mbind, map(P, RW, ANON), P, 2 /* BIND */, p, 64, 0),
				  EFAULT);
			CHECK_ERR(syscall(SYS_set_mempolicy, 2, p, 64), EFAULT);
			CHECK_ERR(syscall(SYS_get_mempolicy, p, NULL, 0, NULL, 0), EFAULT);
			CHECK_ERR(syscall(SYS_sched_setaffinity, 0, 8, p), EFAULT);
		}
		if (test_failed) {
			diag("with pointer %p", p);
			break;
		}
	}
}

TEST(wait_bad, "UA-02 wait4 with a bad status pointer still reaps")
{
	for (int i = 1; i < BAD_POINTERS; i++) {
		pid_t pid = xfork();

		if (pid == 0)
			_exit(0);
		CHECK_ERR(syscall(SYS_wait4, pid, bad_pointer(i), 0, NULL), EFAULT);
		CHECK_ERR(syscall(SYS_wait4, pid, NULL, 0, NULL), ECHILD);
	}
}

TEST(partial, "UA-02 copies that run into a hole after some bytes")
{
	char *p = map(2 * P, RW, ANON), buf[16];
	int fd = tmpfile_fd(0), pipes[2];

	unmap(p + P, P);
	memset(p, 'q', P);
	CHECK_EQ(write(fd, p + P - 4, 8), 4);
	CHECK_EQ(lseek(fd, 0, SEEK_END), 4);
	NEED(pwrite(fd, "12345678", 8, 0) == 8);
	CHECK_EQ(pread(fd, p + P - 4, 8, 0), 4);
	CHECK(!memcmp(p + P - 4, "1234", 4));
	NEED(pipe2(pipes, O_NONBLOCK) == 0);
	long n = write(pipes[1], p + P - 4, 8);
	CHECK_MSG(n == 4 || (n == -1 && errno == EFAULT), "write gave %ld", n);
	n = read(pipes[0], buf, sizeof(buf));
	CHECK_MSG(n <= 4, "%ld bytes came through", n);
	/* A path whose end lies in the hole. */
	memset(p, 'a', P);
	CHECK_ERR(syscall(SYS_open, p + P - 4, O_RDONLY), EFAULT);
	/* A path that ends with the last byte before it. */
	memcpy(p + P - 2, "/", 2);
	int dir = open(p + P - 2, O_RDONLY);
	CHECK(dir >= 0);
}

TEST(kernel_range, "UA-02 ranges that begin in user space and end in the kernel")
{
	int fd[2];

	NEED(pipe2(fd, O_NONBLOCK) == 0);
	NEED(write(fd[1], "0123456789", 10) == 10);
	CHECK_ERR(write(fd[1], (void *)(USER_END - 8), 1UL << 62), EFAULT);
	CHECK_ERR(read(fd[0], (void *)(USER_END - 8 + P), 16), EFAULT);
	CHECK_ERR(syscall(SYS_clock_gettime, 1, USER_END - 8), EFAULT);
	CHECK_ERR(syscall(SYS_getrandom, USER_END - 8, 1UL << 40, 0), EFAULT);
}

/* ---- UA-03 ------------------------------------------------------------------------------ */

TEST(beyond_eof, "UA-03 a copy from beyond the end of a mapped file")
{
	int fd = tmpfile_fd(P), out[2];
	char *m = map_fd(3 * P, RW, MAP_SHARED, fd, 0);

	NEED(pipe2(out, O_NONBLOCK) == 0);
	CHECK_ERR(write(out[1], m + P, 8), EFAULT);
	CHECK_ERR(write(out[1], m + P + 123, 8), EFAULT);
	NEED(write(out[1], "12345678", 8) == 8);
	CHECK_ERR(read(out[0], m + P, 8), EFAULT);
	CHECK_ERR(syscall(SYS_clock_gettime, 1, m + 2 * P), EFAULT);
	CHECK_ERR(syscall(SYS_open, m + P, O_RDONLY), EFAULT);
	CHECK_FAULT(loads(m + P + 123), SIGBUS, BUS_ADRERR_, m + P + 123);
	CHECK_FAULT(stores(m + 2 * P + 7, 1), SIGBUS, BUS_ADRERR_, m + 2 * P + 7);
}

/* Place for UA-03 with an empty hugetlb pool. */

/* ---- UA-04 ------------------------------------------------------------------------------ */

TEST(write_self, "UA-04 write to a file from its own untouched mapping", .seconds = 10)
{
	int fd = tmpfile_fd(2 * P);

	NEED(pwrite(fd, "first", 5, 0) == 5 && pwrite(fd, "second", 6, P) == 6);
	char *m = map_fd(2 * P, RW, MAP_SHARED, fd, 0);
	CHECK_EQ(pwrite(fd, m, P, 0), P); /* a page from itself */
	unmap(m, 2 * P);
	m = map_fd(2 * P, RW, MAP_SHARED, fd, 0);
	CHECK_EQ(pwrite(fd, m, P, P), P); /* the second page from the first */
	CHECK(!strcmp(m + P, "first"));
	unmap(m, 2 * P);
	m = map_fd(2 * P, RW, MAP_SHARED, fd, 0);
	CHECK_EQ(pread(fd, m + P, P, 0), P); /* into the mapping from the file */
	unmap(m, 2 * P);
	m = map_fd(2 * P, RW, MAP_SHARED, fd, 0);
	CHECK_EQ(pread(fd, m, P, 0), P);
	CHECK(!strcmp(m, "first"));
}

TEST(append_self, "UA-04 a file grows by a write from its own mapping, over its end", .seconds = 10)
{
	int fd = tmpfile_fd(P);
	char *m = map_fd(4 * P, RW, MAP_SHARED, fd, 0);

	memset(m, 's', P);
	/*
	 * The source's second page exists only once this very write has put it there: 4096 bytes,
	 * then what there is.
	 */
	long n = pwrite(fd, m, 2 * P, P);
	CHECK_MSG(n == (long)P || n == 2 * (long)P, "write gave %ld %s", n,
		  n < 0 ? errno_name(errno) : "");
	CHECK_EQ(m[P], 's');
}

struct crossing {
	int fd_to;
	char *from;
	struct meet *m;
	bool leads;
};

static void *cross(void *arg)
{
	struct crossing *c = arg;

	for (long i = 0; c->leads ? lead(c->m, go_on(i, 300)) : follow(c->m); i++) {
		if (i % 4 == 0)
			rp_arm("file_copy", 2);
		if (pwrite(c->fd_to, c->from, P, 0) != (ssize_t)P) {
			FAIL("round %ld: %s", i, errno_name(errno));
			break;
		}
		/* The mapping must fault again next time. */
		if (madvise(c->from, P, MADV_DONTNEED) < 0)
			FAIL("madvise: %s", errno_name(errno));
	}
	return NULL;
}

TEST(write_crossing, "UA-04 two threads write each to the other's mapped file", .seconds = 20)
{
	int a = tmpfile_fd(P), b = tmpfile_fd(P);
	struct meet m = { .n = 2 };
	struct crossing ca = { a, map_fd(P, RW, MAP_SHARED, b, 0), &m, true };
	struct crossing cb = { b, map_fd(P, RW, MAP_SHARED, a, 0), &m, false };

	pthread_t t = start(cross, &ca);
	cross(&cb);
	join(t);
}

TEST(pipe_from_mapping, "UA-04 pipe writes and reads with untouched file mappings", .seconds = 10)
{
	int fd = tmpfile_fd(P), p[2];

	NEED(pwrite(fd, "content", 7, 0) == 7);
	char *m = map_fd(P, RW, MAP_SHARED, fd, 0), buf[8] = "";
	NEED(pipe(p) == 0);
	CHECK_EQ(write(p[1], m, 7), 7);
	unmap(m, P);
	m = map_fd(P, RW, MAP_SHARED, fd, 0);
	CHECK_EQ(read(p[0], m + 100, 7), 7);
	CHECK_EQ(pread(fd, buf, 7, 100), 7);
	CHECK(!strcmp(buf, "content"));
}
