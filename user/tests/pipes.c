/*
 * Pipes: order, ends, capacity, blocking and not, atomic small writes, SIGPIPE.
 */
#include "harness.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <termios.h>

TEST(ends, "PI end of file, EPIPE and SIGPIPE")
{
	int fd[2];
	char buf[16];

	NEED(pipe(fd) == 0);
	CHECK_EQ(write(fd[1], "hello", 5), 5);
	close(fd[1]);
	CHECK_EQ(read(fd[0], buf, 3), 3);
	CHECK_EQ(read(fd[0], buf, 16), 2);
	CHECK_EQ(read(fd[0], buf, 16), 0);
	CHECK_EQ(read(fd[0], buf, 16), 0);
	close(fd[0]);
	NEED(pipe(fd) == 0);
	close(fd[0]);
	signal(SIGPIPE, SIG_IGN);
	CHECK_ERR(write(fd[1], "x", 1), EPIPE);
	pid_t pid = xfork();
	if (pid == 0) {
		signal(SIGPIPE, SIG_DFL);
		(void)!write(fd[1], "x", 1);
		_exit(0);
	}
	CHECK_KILLED(pid, SIGPIPE);
	CHECK_ERR(read(fd[1], buf, 1), EBADF);
}

TEST(nonblock, "PI EAGAIN, capacity, zero bytes")
{
	int fd[2], n = 0;
	char page[P], c;

	memset(page, 'p', P);
	NEED(pipe2(fd, O_NONBLOCK | O_CLOEXEC) == 0);
	CHECK_ERR(pipe2(fd, 0x80000000), EINVAL);
	CHECK_EQ(fcntl(fd[0], F_GETFD), FD_CLOEXEC);
	CHECK(fcntl(fd[0], F_GETFL) & O_NONBLOCK);
	CHECK_ERR(read(fd[0], &c, 1), EAGAIN);
	CHECK_EQ(write(fd[1], page, 0), 0);
	CHECK_ERR(read(fd[0], &c, 1), EAGAIN);
	while (write(fd[1], page, P) == (ssize_t)P)
		n++;
	CHECK_EQ(errno, EAGAIN);
	CHECK_EQ(n, 16); /* 64 KiB */
	CHECK_ERR(write(fd[1], "x", 1), EAGAIN);
	int pending = 0;
	CHECK_EQ(ioctl(fd[0], FIONREAD, &pending), 0);
	CHECK_EQ(pending, 65536);
	/* Up to PIPE_BUF all or nothing. */
	CHECK_EQ(read(fd[0], page, 100), 100);
	CHECK_ERR(write(fd[1], page, P), EAGAIN);
	CHECK_EQ(read(fd[0], page, P - 100), P - 100);
	CHECK_EQ(write(fd[1], page, P), P);
	CHECK_ERR(lseek(fd[0], 0, SEEK_CUR), ESPIPE);
	CHECK_ERR(pread(fd[0], &c, 1, 0), ESPIPE);
}

TEST(partial_write, "PI a large write to a pipe that does not block is cut")
{
	int fd[2];
	static char big[100000];

	NEED(pipe2(fd, O_NONBLOCK) == 0);
	CHECK_EQ(write(fd[1], big, sizeof(big)), 65536);
}

TEST(blocking,
     "PI a blocked writer goes on when there is room, a blocked reader when there is data")
{
	int fd[2];
	static char big[300000], got[300000];

	NEED(pipe(fd) == 0);
	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = i * 7 + i / 256;
	pid_t pid = xfork();
	if (pid == 0) {
		CHECK_EQ(write(fd[1], big, sizeof(big)), sizeof(big));
		done();
	}
	close(fd[1]);
	size_t n = 0;
	uint32_t seed = 9;
	for (ssize_t r; (r = read(fd[0], got + n, 1 + roll(&seed) % 9000)) > 0; n += r)
		if (n % 5 == 0)
			sched_yield();
	CHECK_EQ(n, sizeof(big));
	CHECK(!memcmp(big, got, sizeof(big)));
	join_child(pid);
	/* The reader leaves while the writer waits. */
	NEED(pipe(fd) == 0);
	pid = xfork();
	if (pid == 0) {
		close(fd[0]);
		signal(SIGPIPE, SIG_IGN);
		ssize_t w = write(fd[1], big, sizeof(big));

		CHECK_MSG(w == 65536 || (w == -1 && errno == EPIPE), "write gave %zd", w);
		CHECK_ERR(write(fd[1], big, 1), EPIPE);
		done();
	}
	sleep_ms(20);
	close(fd[0]);
	join_child(pid);
}

TEST(atomic, "PI writes up to PIPE_BUF do not mix", .seconds = 40)
{
	enum { WRITERS = 4, LEN = 500 };
	int fd[2];
	pid_t pid[WRITERS];
	char buf[LEN];
	long n = rounds(60), seen[WRITERS] = { 0 };

	NEED(pipe(fd) == 0);
	for (int i = 0; i < WRITERS; i++)
		if ((pid[i] = xfork()) == 0) {
			memset(buf, 'a' + i, LEN);
			for (long k = 0; k < n; k++)
				CHECK_EQ(write(fd[1], buf, LEN), LEN);
			done();
		}
	close(fd[1]);
	for (;;) {
		size_t have = 0;
		ssize_t r = 0;

		while (have < LEN && (r = read(fd[0], buf + have, LEN - have)) > 0)
			have += r;
		if (!have)
			break;
		CHECK_EQ(have, LEN);
		for (int i = 1; i < LEN; i++)
			if (buf[i] != buf[0]) {
				FAIL("a message is mixed: '%c' and '%c'", buf[0], buf[i]);
				break;
			}
		if (buf[0] >= 'a' && buf[0] < 'a' + WRITERS)
			seen[buf[0] - 'a']++;
	}
	for (int i = 0; i < WRITERS; i++) {
		CHECK_EQ(seen[i], n);
		join_child(pid[i]);
	}
}

static struct door shared;
static const char *line; /* what is written, and read, at a time */
static volatile bool over;

static void *line_reader(void *arg)
{
	ssize_t len = strlen(line);
	char c[8];

	pin((int)(intptr_t)arg);
	while (!over) {
		ssize_t n = read(shared.fd[0], c, len);

		CHECK_MSG(n == len, "read gave %zd %s, though the other end is open", n,
			  n < 0 ? errno_name(errno) : "");
		if (n != len)
			break;
	}
	return NULL;
}

/* Four threads wait at shared.fd[0] for what comes at shared.fd[1]. */
static void four_readers(const char *what)
{
	ssize_t len = strlen(what);
	pthread_t t[4];

	line = what;
	for (int i = 0; i < 4; i++)
		t[i] = start(line_reader, (void *)(intptr_t)(i + 1));
	pin(0);
	for (long i = 0; go_on(i, 500); i++) {
		NEED(write(shared.fd[1], line, len) == len);
		NEED(write(shared.fd[1], line, len) == len);
		if (i % 4 == 0)
			nanosleep(&(struct timespec){ 0, 20000 }, NULL);
		else if (i % 4 == 1)
			sched_yield();
	}
	over = true;
	for (int i = 0; i < 4; i++)
		NEED(write(shared.fd[1], line, len) == len);
	for (int i = 0; i < 4; i++)
		join(t[i]);
}

TEST(readers, "PI readers that wait for the same byte: no end of file for the slower", .cpus = 2)
{
	shared = door();
	four_readers("x");
}

/* A new pseudo-terminal's master; its slave's name. */
static int terminal(char name[32])
{
	int number = 0, unlocked = 0, fd = open("/dev/ptmx", O_RDWR | O_NOCTTY);

	if (fd < 0)
		skip("no /dev/ptmx");
	NEED(ioctl(fd, TIOCSPTLCK, &unlocked) == 0);
	NEED(ioctl(fd, TIOCGPTN, &number) == 0);
	snprintf(name, 32, "/dev/pts/%d", number);
	return fd;
}

TEST(terminal_readers, "PI the same of a terminal's lines", .cpus = 2)
{
	char name[32];

	shared.fd[1] = terminal(name);
	shared.fd[0] = NEED_OK(open(name, O_RDWR | O_NOCTTY));
	struct termios set;
	NEED(tcgetattr(shared.fd[0], &set) == 0);
	set.c_lflag &= ~ECHO;
	NEED(tcsetattr(shared.fd[0], TCSANOW, &set) == 0);
	four_readers("x\n");
}

TEST(controlling_terminal, "PI a session leader takes a terminal that it opens, but not with O_NOCTTY")
{
	char name[32];
	int master = terminal(name);
	pid_t pid = xfork();

	if (pid == 0) {
		NEED(setsid() > 0);
		int fd = NEED_OK(open(name, O_RDWR | O_NOCTTY));
		CHECK_EQ(fcntl(fd, F_GETFL) & O_NOCTTY, 0);
		CHECK_ERR(open("/dev/tty", O_RDWR), ENXIO);
		NEED_OK(open(name, O_RDWR));
		NEED_OK(open("/dev/tty", O_RDWR));
		done();
	}
	join_child(pid);
	close(master);
}

TEST(hung_up, "PI a terminal whose other side is gone")
{
	char name[32], c;
	int master = terminal(name), fd = NEED_OK(open(name, O_RDWR | O_NOCTTY));
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT };

	CHECK_EQ(poll(&p, 1, 0), 1);
	CHECK_EQ(p.revents, POLLOUT);
	close(master);
	CHECK_EQ(poll(&p, 1, 0), 1);
	CHECK_EQ(p.revents, POLLIN | POLLOUT | POLLERR | POLLHUP);
	CHECK_EQ(read(fd, &c, 1), 0);
	CHECK_ERR(write(fd, &c, 1), EIO);
}

TEST(vectors, "PI readv and writev")
{
	int fd[2];
	char a[4] = "", b[8] = "", c[16] = "";
	struct iovec out[3] = { { "abc", 3 }, { NULL, 0 }, { "defghij", 7 } },
		     in[3] = { { a, 3 }, { b, 4 }, { c, 10 } };

	NEED(pipe(fd) == 0);
	CHECK_EQ(writev(fd[1], out, 3), 10);
	CHECK_EQ(readv(fd[0], in, 3), 10);
	CHECK(!strcmp(a, "abc") && !strcmp(b, "defg") && !strcmp(c, "hij"));
	CHECK_ERR(writev(fd[1], out, -1), EINVAL);
	CHECK_ERR(writev(fd[1], out, 1025), EINVAL);
	CHECK_EQ(writev(fd[1], out, 0), 0);
	out[1].iov_len = -1;
	CHECK_ERR(writev(fd[1], out, 3), EINVAL);
}

TEST(many, "PI many pipes at once, and their descriptors go")
{
	enum { N = 100 };
	int fd[N][2];
	char c;

	for (int i = 0; i < N; i++) {
		NEED(pipe(fd[i]) == 0);
		c = i;
		CHECK_EQ(write(fd[i][1], &c, 1), 1);
	}
	for (int i = N - 1; i >= 0; i--) {
		CHECK_EQ(read(fd[i][0], &c, 1), 1);
		CHECK_EQ(c, (char)i);
		close(fd[i][0]);
		close(fd[i][1]);
	}
	/* Bytes left in a pipe go with it: the ledger sees. */
	NEED(pipe(fd[0]) == 0);
	static char big[60000];
	CHECK_EQ(write(fd[0][1], big, sizeof(big)), sizeof(big));
}

TEST(relay, "PI a ring of processes", .seconds = 40)
{
	enum { N = 8 };
	int fd[N][2];
	pid_t pid[N];
	long n = rounds(40), token = 0;

	for (int i = 0; i < N; i++)
		NEED(pipe(fd[i]) == 0);
	for (int i = 1; i < N; i++)
		if ((pid[i] = xfork()) == 0) {
			for (long k = 0; k < n; k++) {
				CHECK_EQ(read(fd[i - 1][0], &token, sizeof(token)), sizeof(token));
				token++;
				CHECK_EQ(write(fd[i][1], &token, sizeof(token)), sizeof(token));
			}
			done();
		}
	for (long k = 0; k < n; k++) {
		token++;
		CHECK_EQ(write(fd[0][1], &token, sizeof(token)), sizeof(token));
		CHECK_EQ(read(fd[N - 1][0], &token, sizeof(token)), sizeof(token));
	}
	CHECK_EQ(token, N * n);
	for (int i = 1; i < N; i++)
		join_child(pid[i]);
}
