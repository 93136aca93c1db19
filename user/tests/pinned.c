/*
 * Frames that something else than a page table holds: a pipe that was given a page, a reader in
 * another process. Whoever holds the frame keeps seeing what it was given. known-bugs: CW-10.
 */
#include "harness.h"

#include <sys/uio.h>

static bool give(int pipe_end, void *p, size_t n)
{
	struct iovec iov = { p, n };
	long got = syscall(SYS_vmsplice, pipe_end, &iov, 1, 0);

	if (got == -1 && errno == ENOSYS)
		return false;
	CHECK_EQ(got, n);
	return true;
}

static void need_vmsplice(void)
{
	int fd[2];
	char *p = map(P, RW, ANON);

	NEED(pipe(fd) == 0);
	*p = 1;
	if (!give(fd[1], p, P))
		skip("no vmsplice");
	close(fd[0]);
	close(fd[1]);
	unmap(p, P);
}

static void child_pins(bool child_exits)
{
	char *p = map(P, RW, ANON), c = 0;
	struct door ready = door(), in = door();
	int fd[2];

	need_vmsplice();
	NEED(pipe(fd) == 0);
	memset(p, 1, P);
	pid_t pid = xfork();
	if (pid == 0) {
		CHECK(give(fd[1], p, P));
		unmap(p, P);
		let(ready);
		if (child_exits)
			done();
		pass(in);
		CHECK_EQ(read(fd[0], &c, 1), 1);
		CHECK_EQ(c, 1);
		done();
	}
	pass(ready);
	if (child_exits)
		join_child(pid);
	memset(p, 2, P);
	if (child_exits) {
		CHECK_EQ(read(fd[0], &c, 1), 1);
		CHECK_EQ(c, 1);
	} else {
		let(in);
		join_child(pid);
	}
	CHECK_EQ(p[100], 2);
}

TEST(live_child, "CW-10 a page in a pipe, its giver alive, the parent writes")
{
	child_pins(false);
}
TEST(dead_child, "CW-10 a page in a pipe, its giver dead, the parent writes")
{
	child_pins(true);
}

TEST(parent_pins, "CW-10 a page in a pipe, given by the parent, the child writes")
{
	char *p = map(P, RW, ANON), c = 0;
	int fd[2];

	need_vmsplice();
	NEED(pipe(fd) == 0);
	memset(p, 1, P);
	CHECK(give(fd[1], p, P));
	pid_t pid = xfork();
	if (pid == 0) {
		memset(p, 2, P);
		CHECK_EQ(p[7], 2);
		done();
	}
	join_child(pid);
	CHECK_EQ(p[7], 1);
	unmap(p, P);
	CHECK_EQ(read(fd[0], &c, 1), 1);
	CHECK_EQ(c, 1);
}

TEST(unmapped, "CW-10 a page in a pipe outlives its mapping and every process that had it")
{
	char buf[P];
	int fd[2];

	need_vmsplice();
	NEED(pipe(fd) == 0);
	pid_t pid = xfork();
	if (pid == 0) {
		char *p = map(4 * P, RW, ANON);

		for (int i = 0; i < 4; i++)
			memset(p + i * P, 'a' + i, P);
		CHECK(give(fd[1], p, 4 * P));
		done();
	}
	join_child(pid);
	char *churn = map(64 * P, RW, ANON);
	memset(churn, 0x5a, 64 * P);
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(read(fd[0], buf, P), P);
		for (size_t k = 0; k < P; k++)
			if (buf[k] != 'a' + i) {
				FAIL("page %d byte %zu is 0x%x", i, k, buf[k]);
				break;
			}
	}
}

TEST(file_page, "CW-10 a file's page in a pipe, the file truncated")
{
	char c = 0;
	int fd[2], file = tmpfile_fd(P);

	need_vmsplice();
	NEED(pipe(fd) == 0);
	char *p = map_fd(P, RW, MAP_SHARED, file, 0);
	memset(p, 'f', P);
	CHECK(give(fd[1], p, P));
	NEED(ftruncate(file, 0) == 0);
	unmap(p, P);
	char *churn = map(64 * P, RW, ANON);
	memset(churn, 0x5a, 64 * P);
	CHECK_EQ(read(fd[0], &c, 1), 1);
	/* The tail of a truncated page may have been cleared, but it is nobody else's. */
	CHECK_MSG(c == 'f' || c == 0, "the pipe gives 0x%x", c);
}

TEST(vm_readv, "CW-10 another process reads the page while it is copied and unmapped")
{
	char *p = map(P, RW, ANON), buf[P];
	struct iovec local = { buf, P }, remote = { p, P };

	memset(p, 1, P);
	struct door in = door(), ready = door();
	pid_t pid = xfork();
	if (pid == 0) {
		let(ready);
		pass(in);
		CHECK_EQ(p[0], 1);
		done();
	}
	pass(ready);
	memset(p, 2, P);
	long n = syscall(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0);
	if (n == -1 && errno == ENOSYS) {
		let(in);
		join_child(pid);
		skip("no process_vm_readv");
	}
	CHECK_EQ(n, P);
	CHECK_EQ(buf[0], 1);
	CHECK_EQ(buf[P - 1], 1);
	/* A write from outside breaks the child's COW, not ours. */
	memset(buf, 1, P);
	CHECK_EQ(syscall(SYS_process_vm_writev, pid, &local, 1, &remote, 1, 0), P);
	CHECK_EQ(p[0], 2);
	let(in);
	join_child(pid);
}
