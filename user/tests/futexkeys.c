/*
 * What a futex is known by: the frame and offset where it is shared, the address space and address
 * where it is private; COW, the zero frame and read-only pages. known-bugs: CW-16.
 */
#include "harness.h"

#define WAIT    0
#define WAKE    1
#define PRIVATE 128

static long futex(void *p, int op, unsigned val, long timeout_ms)
{
	struct timespec ts = { timeout_ms / 1000, timeout_ms % 1000 * 1000000 };

	return syscall(SYS_futex, p, op, val, timeout_ms >= 0 ? &ts : NULL, NULL, 0);
}

/* Wakes until somebody was woken, or for this long. */
static long wake_soon(void *p, int op, long ms)
{
	uint64_t end = now_ns() + ms * 1000000UL;
	long n;

	while ((n = futex(p, op, 1, -1)) == 0 && now_ns() < end)
		sleep_ms(1);
	return n;
}

TEST(zero_word, "CW-16 a wait on a word never touched")
{
	for (int kind = 0; kind < 2; kind++) {
		int op = kind ? WAIT | PRIVATE : WAIT;
		int *p = map(P, RW, ANON), *q = map(P, RW, ANON);

		CHECK_ERR(futex(p, op, 1, 10), EAGAIN);
		CHECK_ERR(futex(q, op, 0, 10), ETIMEDOUT);
		CHECK_EQ(*(volatile int *)p + *(volatile int *)q, 0);
		CHECK_ERR(futex(p, op, 0, 10), ETIMEDOUT);
		int *s = map(P, RW, SHANON);
		CHECK_ERR(futex(s, op, 0, 10), ETIMEDOUT);
		CHECK_ERR(futex(s, op, 1, 10), EAGAIN);
	}
}

TEST(bad_words, "CW-16 read-only, unaligned, unmapped words")
{
	int *p = map(P, RW, ANON);
	char *c = (char *)p;

	CHECK_ERR(futex(c + 1, WAIT, 0, 10), EINVAL);
	CHECK_ERR(futex(c + 2, WAIT | PRIVATE, 0, 10), EINVAL);
	CHECK_ERR(futex(c + 1, WAKE, 1, -1), EINVAL);
	*p = 0;
	NEED(mprotect(p, P, PROT_READ) == 0);
	CHECK_ERR(futex(p, WAIT, 0, 10), EFAULT); /* private page, shared key: must be writable */
	CHECK_ERR(futex(p, WAIT | PRIVATE, 0, 10), ETIMEDOUT);
	CHECK_EQ(futex(p, WAKE | PRIVATE, 1, -1), 0);
	NEED(mprotect(p, P, PROT_NONE) == 0);
	CHECK_ERR(futex(p, WAIT, 0, 10), EFAULT);
	CHECK_ERR(futex(p, WAIT | PRIVATE, 0, 10), EFAULT);
	unmap(p, P);
	CHECK_ERR(futex(p, WAIT, 0, 10), EFAULT);
	CHECK_ERR(futex(p, WAKE, 1, -1), EFAULT);
	CHECK_EQ(futex(p, WAKE | PRIVATE, 1, -1), 0); /* a private key needs no page */
}

TEST(across_fork, "CW-16 a private page after fork is another futex")
{
	int *p = map(P, RW, ANON);
	struct door ready = door();

	*p = 0;
	pid_t pid = xfork();
	if (pid == 0) {
		let(ready);
		CHECK_ERR(futex(p, WAIT, 0, 150), ETIMEDOUT);
		done();
	}
	pass(ready);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(futex(p, WAKE, 10, -1), 0);
		sleep_ms(2);
	}
	join_child(pid);
}

TEST(shared_fork, "CW-16 a shared page after fork is the same futex")
{
	int *p = map(P, RW, SHANON);

	for (int kind = 0; kind < 2; kind++) {
		pid_t pid = xfork();

		if (pid == 0) {
			CHECK_EQ(futex(p + 4, WAIT, 0, 5000), 0);
			done();
		}
		CHECK_EQ(futex(p + 5, WAKE, 10, -1), 0); /* another word */
		CHECK_EQ(wake_soon(p + 4, WAKE, 5000), 1);
		join_child(pid);
	}
}

TEST(two_mappings, "CW-16 one file mapped at different places is the same futex")
{
	int fd = tmpfile_fd(2 * P);
	struct door ready = door();

	pid_t pid = xfork();
	if (pid == 0) {
		int *p = map_fd(P, RW, MAP_SHARED, fd, P);

		let(ready);
		CHECK_EQ(futex(p + 8, WAIT, 0, 5000), 0);
		done();
	}
	int *q = map_fd(2 * P, RW, MAP_SHARED, fd, 0);
	pass(ready);
	CHECK_EQ(futex(q + 8, WAKE, 10, -1), 0); /* the other page */
	CHECK_EQ(wake_soon(q + P / 4 + 8, WAKE, 5000), 1);
	join_child(pid);
	/* A mapping that is only read will do for a shared key. */
	int *ro = map_fd(P, PROT_READ, MAP_SHARED, fd, 0);
	CHECK_ERR(futex(ro, WAIT, 0, 10), ETIMEDOUT);
}

static struct {
	int *p;
	int op;
	volatile bool going;
	long result;
	int err;
} w;

static void *waiter(void *arg)
{
	(void)arg;
	w.going = true;
	errno = 0;
	w.result = futex(w.p, w.op, 0, 5000);
	w.err = errno;
	return NULL;
}

static void wait_then_cow(int op, int wake_op, bool write_in_child)
{
	w.p = map(P, RW, ANON);
	*w.p = 0;
	w.op = op;
	w.going = false;
	pthread_t t = start(waiter, NULL);
	while (!w.going)
		sched_yield();
	sleep_ms(20);
	struct door in = door();
	pid_t pid = xfork();
	if (pid == 0) {
		if (write_in_child)
			w.p[1] = 7;
		pass(in);
		done();
	}
	w.p[1] = 5; /* COW: the parent may now have another frame */
	CHECK_EQ(wake_soon(w.p, wake_op, 3000), 1);
	join(t);
	CHECK_EQ(w.result, 0);
	let(in);
	join_child(pid);
}

TEST(cow_waiter, "CW-16 a waiter's page is copied by fork and a write")
{
	wait_then_cow(WAIT | PRIVATE, WAKE | PRIVATE, false);
	wait_then_cow(WAIT | PRIVATE, WAKE | PRIVATE, true);
	wait_then_cow(WAIT, WAKE, false);
	wait_then_cow(WAIT, WAKE, true);
}

TEST(moved_waiter, "CW-16 a waiter's page is dropped and unmapped; the wait ends all the same")
{
	w.p = map(P, RW, SHANON);
	w.op = WAIT;
	w.going = false;
	pthread_t t = start(waiter, NULL);
	while (!w.going)
		sched_yield();
	sleep_ms(10);
	int *twin = (int *)NEED_OK(raw_mremap((unsigned long)w.p, 0, P, MREMAP_MAYMOVE, 0));
	unmap(w.p, P);
	CHECK_EQ(wake_soon(twin, WAKE, 3000), 1);
	join(t);
	CHECK_EQ(w.result, 0);
}

TEST(truncated, "CW-16 a futex in a file page that was truncated away")
{
	int fd = tmpfile_fd(P);
	int *p = map_fd(P, RW, MAP_SHARED, fd, 0);

	*p = 0;
	NEED(ftruncate(fd, 0) == 0);
	CHECK_ERR(futex(p, WAIT, 0, 10), EFAULT);
	CHECK_ERR(futex(p, WAKE, 1, -1), EFAULT);
}

/* Place for CW-16 (b), subpages of a hugetlb page. */
