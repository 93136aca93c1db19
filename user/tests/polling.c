/*
 * Waiting for descriptors: poll and select; and socket pairs.
 */
#include "harness.h"

#include <poll.h>
#include <sys/select.h>
#include <sys/socket.h>

static int poll_one(int fd, short events, int ms, short *got)
{
	struct pollfd p = { fd, events, 0 };
	int n = poll(&p, 1, ms);

	*got = p.revents;
	return n;
}

TEST(poll_pipe, "PO poll: readable, writable, hang-up, bad descriptors")
{
	int fd[2];
	short got;

	NEED(pipe2(fd, O_NONBLOCK) == 0);
	CHECK_EQ(poll_one(fd[0], POLLIN, 0, &got), 0);
	CHECK_EQ(poll_one(fd[1], POLLOUT, 0, &got), 1);
	CHECK_EQ(got, POLLOUT);
	CHECK_EQ(write(fd[1], "x", 1), 1);
	CHECK_EQ(poll_one(fd[0], POLLIN | POLLOUT, 0, &got), 1);
	CHECK_EQ(got, POLLIN);
	static char big[65536];
	while (write(fd[1], big, sizeof(big)) > 0)
		;
	CHECK_EQ(poll_one(fd[1], POLLOUT, 0, &got), 0);
	CHECK_EQ(poll_one(-1, POLLIN, 0, &got), 0);
	CHECK_EQ(poll_one(999, POLLIN, 0, &got), 1);
	CHECK_EQ(got, POLLNVAL);
	int dup0 = dup(fd[1]);
	close(fd[1]);
	close(dup0);
	CHECK_EQ(poll_one(fd[0], POLLIN, 0, &got), 1);
	CHECK_EQ(got, POLLIN | POLLHUP);
	while (read(fd[0], big, sizeof(big)) > 0)
		;
	CHECK_EQ(poll_one(fd[0], POLLIN, 0, &got), 1);
	CHECK_EQ(got, POLLHUP);
	NEED(pipe(fd) == 0);
	close(fd[0]);
	CHECK_EQ(poll_one(fd[1], POLLOUT, 0, &got), 1);
	CHECK(got & POLLERR);
	int file = tmpfile_fd(0);
	CHECK_EQ(poll_one(file, POLLIN | POLLOUT, 0, &got), 1);
	CHECK_EQ(got, POLLIN | POLLOUT);
}

static void nothing(int sig)
{
	(void)sig;
}

TEST(poll_time, "PO poll waits, is woken, times out, is interrupted")
{
	int fd[2];
	short got;
	uint64_t t = now_ns();

	NEED(pipe(fd) == 0);
	CHECK_EQ(poll_one(fd[0], POLLIN, 30, &got), 0);
	CHECK(now_ns() - t >= 30000000);
	pid_t pid = xfork();
	if (pid == 0) {
		sleep_ms(20);
		CHECK_EQ(write(fd[1], "x", 1), 1);
		done();
	}
	CHECK_EQ(poll_one(fd[0], POLLIN, 8000, &got), 1);
	CHECK_EQ(got, POLLIN);
	join_child(pid);
	struct sigaction sa = { .sa_handler = nothing, .sa_flags = SA_RESTART };
	sigaction(SIGALRM, &sa, NULL);
	struct itimerval it = { .it_value.tv_usec = 20000 };
	char c;
	CHECK_EQ(read(fd[0], &c, 1), 1);
	setitimer(ITIMER_REAL, &it, NULL);
	CHECK_ERR(poll_one(fd[0], POLLIN, 8000, &got), EINTR);
	CHECK_EQ(poll(NULL, 0, 5), 0);
	/* Many descriptors, the last one is ready. */
	struct pollfd many[200];
	for (int i = 0; i < 200; i++)
		many[i] = (struct pollfd){ fd[0], POLLIN, 0 };
	many[199] = (struct pollfd){ fd[1], POLLOUT, 0 };
	CHECK_EQ(poll(many, 200, 1000), 1);
	CHECK_EQ(many[199].revents, POLLOUT);
	CHECK_ERR(syscall(SYS_poll, many, 1 << 30, 0), EINVAL);
}

TEST(selecting, "PO select")
{
	int fd[2];
	fd_set r, w, e;
	struct timeval tv = { 0, 20000 };

	NEED(pipe(fd) == 0);
	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_ZERO(&e);
	FD_SET(fd[0], &r);
	CHECK_EQ(select(fd[1] + 1, &r, NULL, NULL, &tv), 0);
	CHECK(!FD_ISSET(fd[0], &r));
	CHECK_EQ(write(fd[1], "x", 1), 1);
	FD_SET(fd[0], &r);
	FD_SET(fd[1], &w);
	FD_SET(fd[0], &e);
	CHECK_EQ(select(fd[1] + 1, &r, &w, &e, NULL), 2);
	CHECK(FD_ISSET(fd[0], &r) && FD_ISSET(fd[1], &w) && !FD_ISSET(fd[0], &e));
	FD_ZERO(&r);
	FD_SET(50, &r);
	CHECK_ERR(select(51, &r, NULL, NULL, &tv), EBADF);
	CHECK_ERR(syscall(SYS_select, -1, NULL, NULL, NULL, NULL), EINVAL);
	/* What is beyond the first argument is not looked at. */
	FD_ZERO(&r);
	FD_SET(fd[0], &r);
	tv = (struct timeval){ 0, 0 };
	CHECK_EQ(select(fd[0], &r, NULL, NULL, &tv), 0);
	uint64_t t = now_ns();
	tv = (struct timeval){ 0, 25000 };
	CHECK_EQ(select(0, NULL, NULL, NULL, &tv), 0);
	CHECK(now_ns() - t >= 25000000);
}

TEST(pairs, "PO socket pairs")
{
	int fd[2];
	char buf[32] = "";

	CHECK_ERR(socketpair(AF_UNIX, 77, 0, fd), EINVAL);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) < 0) {
		CHECK_EQ(errno, ENOSYS);
		skip("no sockets");
	}
	CHECK_EQ(write(fd[0], "ping", 4), 4);
	CHECK_EQ(write(fd[1], "pong!", 5), 5);
	CHECK_EQ(read(fd[1], buf, 32), 4);
	CHECK(!memcmp(buf, "ping", 4));
	CHECK_EQ(read(fd[0], buf, 32), 5);
	CHECK(!memcmp(buf, "pong!", 5));
	struct stat st;
	CHECK_EQ(fstat(fd[0], &st), 0);
	CHECK(S_ISSOCK(st.st_mode));
	short got;
	CHECK_EQ(poll_one(fd[0], POLLIN | POLLOUT, 0, &got), 1);
	CHECK_EQ(got, POLLOUT);
	pid_t pid = xfork();
	if (pid == 0) {
		close(fd[0]);
		while (read(fd[1], buf, 1) == 1)
			CHECK_EQ(write(fd[1], buf, 1), 1);
		done();
	}
	close(fd[1]);
	for (int i = 0; i < 100; i++) {
		char c = i;

		CHECK_EQ(write(fd[0], &c, 1), 1);
		CHECK_EQ(read(fd[0], buf, 1), 1);
		CHECK_EQ(buf[0], c);
	}
	close(fd[0]);
	join_child(pid);
	NEED(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) == 0);
	CHECK_EQ(fcntl(fd[0], F_GETFD), FD_CLOEXEC);
	CHECK_ERR(read(fd[0], buf, 1), EAGAIN);
	close(fd[1]);
	CHECK_EQ(read(fd[0], buf, 1), 0);
	signal(SIGPIPE, SIG_IGN);
	CHECK_ERR(write(fd[0], "x", 1), EPIPE);
}
