/*
 * futex operations: wait, wake, requeue, compare and requeue, bitsets, wake-op, time-outs on both
 * clocks, robust lists, priority inheritance locks at their simplest. What a futex is known by is
 * in futexkeys.c.
 */
#include "harness.h"

enum {
	WAIT,
	WAKE,
	FD,
	REQUEUE,
	CMP_REQUEUE,
	WAKE_OP,
	LOCK_PI,
	UNLOCK_PI,
	TRYLOCK_PI,
	WAIT_BITSET,
	WAKE_BITSET,
	PRIVATE = 128,
	REALTIME = 256,
};
#define WAITERS    0x80000000u
#define OWNER_DIED 0x40000000u

static long futex(volatile unsigned *p, int op, unsigned val, const struct timespec *ts,
		  volatile unsigned *p2, unsigned v3)
{
	return syscall(SYS_futex, p, op, val, ts, p2, v3);
}

static unsigned *word(void)
{
	return map(P, RW, SHANON);
}

static const struct timespec short_time = { 0, 20000000 }, long_time = { 8, 0 };

/* A child that waits; exit status 0 woken, 1 timed out, 2 value differed, 3 other. */
static pid_t waiter(volatile unsigned *p, unsigned val, unsigned bits)
{
	pid_t pid = xfork();

	if (pid == 0) {
		struct timespec abs;

		clock_gettime(CLOCK_MONOTONIC, &abs);
		abs.tv_sec += 8;
		long r = bits ? futex(p, WAIT_BITSET, val, &abs, NULL, bits)
			      : futex(p, WAIT, val, &long_time, NULL, 0);
		_exit(r == 0 ? 0 : errno == ETIMEDOUT ? 1 : errno == EAGAIN ? 2 : 3);
	}
	return pid;
}

static bool asleep(pid_t pid)
{
	char path[64], text[256];

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	return slurp(path, text, sizeof(text)) > 0 && strstr(text, ") S");
}

static void until_asleep(pid_t pid)
{
	for (int i = 0; i < 2000 && !asleep(pid); i++)
		sleep_ms(1);
	sleep_ms(2);
}

static int result(pid_t pid)
{
	return WEXITSTATUS(wait_raw(pid));
}

TEST(wait_wake, "FX wait and wake")
{
	unsigned *p = word();
	pid_t pid[4];

	CHECK_EQ(futex(p, WAKE, 1, NULL, NULL, 0), 0);
	CHECK_ERR(futex(p, WAIT, 1, NULL, NULL, 0), EAGAIN);
	for (int i = 0; i < 4; i++) {
		pid[i] = waiter(p, 0, 0);
		until_asleep(pid[i]);
	}
	CHECK_EQ(futex(p, WAKE, 1, NULL, NULL, 0), 1);
	CHECK_EQ(result(pid[0]), 0); /* first come, first served */
	CHECK_EQ(futex(p, WAKE, 2, NULL, NULL, 0), 2);
	CHECK_EQ(futex(p, WAKE, 100, NULL, NULL, 0), 1);
	CHECK_EQ(futex(p, WAKE, 100, NULL, NULL, 0), 0);
	for (int i = 1; i < 4; i++)
		CHECK_EQ(result(pid[i]), 0);
}

TEST(timeouts, "FX time-outs: relative, absolute, bad")
{
	unsigned *p = word();
	struct timespec ts;
	uint64_t t = now_ns();

	CHECK_ERR(futex(p, WAIT, 0, &short_time, NULL, 0), ETIMEDOUT);
	t = now_ns() - t;
	CHECK_MSG(t >= 20000000, "20 ms took %lu us", t / 1000);
	CHECK_ERR(futex(p, WAIT | PRIVATE, 0, &short_time, NULL, 0), ETIMEDOUT);
	clock_gettime(CLOCK_MONOTONIC, &ts);
	CHECK_ERR(futex(p, WAIT_BITSET, 0, &ts, NULL, ~0u), ETIMEDOUT);
	ts = (struct timespec){ 0, 1 };
	CHECK_ERR(futex(p, WAIT_BITSET, 0, &ts, NULL, ~0u), ETIMEDOUT);
	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_nsec += 20000000;
	if (ts.tv_nsec >= 1000000000)
		ts.tv_sec++, ts.tv_nsec -= 1000000000;
	CHECK_ERR(futex(p, WAIT_BITSET | REALTIME, 0, &ts, NULL, ~0u), ETIMEDOUT);
	ts = (struct timespec){ 0, 1000000000 };
	CHECK_ERR(futex(p, WAIT, 0, &ts, NULL, 0), EINVAL);
	ts = (struct timespec){ -1, 0 };
	CHECK_ERR(futex(p, WAIT, 0, &ts, NULL, 0), EINVAL);
	CHECK_ERR(futex(p, WAIT, 0, (void *)ZONE, NULL, 0), EFAULT);
	CHECK_ERR(futex(p, 100, 0, NULL, NULL, 0), ENOSYS);
}

TEST(bitsets, "FX bitsets")
{
	unsigned *p = word();
	pid_t a = waiter(p, 0, 1), b = waiter(p, 0, 2);

	until_asleep(a);
	until_asleep(b);
	CHECK_EQ(futex(p, WAKE_BITSET, 10, NULL, NULL, 4), 0);
	CHECK_EQ(futex(p, WAKE_BITSET, 10, NULL, NULL, 2), 1);
	CHECK_EQ(result(b), 0);
	CHECK_EQ(futex(p, WAKE, 10, NULL, NULL, 0), 1);
	CHECK_EQ(result(a), 0);
	CHECK_ERR(futex(p, WAIT_BITSET, 0, &short_time, NULL, 0), EINVAL);
	CHECK_ERR(futex(p, WAKE_BITSET, 1, NULL, NULL, 0), EINVAL);
}

TEST(requeue, "FX requeue and compare-and-requeue")
{
	unsigned *p = word(), *q = word();
	pid_t pid[5];

	for (int i = 0; i < 5; i++) {
		pid[i] = waiter(p, 0, 0);
		until_asleep(pid[i]);
	}
	CHECK_ERR(futex(p, CMP_REQUEUE, 1, (void *)10, q, 7), EAGAIN);
	CHECK_EQ(futex(p, CMP_REQUEUE, 1, (void *)2, q, 0), 3); /* one woken, two moved */
	CHECK_EQ(result(pid[0]), 0);
	CHECK_EQ(futex(q, WAKE, 10, NULL, NULL, 0), 2);
	CHECK_EQ(result(pid[1]), 0);
	CHECK_EQ(result(pid[2]), 0);
	long n = futex(p, REQUEUE, 0, (void *)10, q, 0);
	CHECK_EQ(n, 2);
	CHECK_EQ(futex(p, WAKE, 10, NULL, NULL, 0), 0);
	CHECK_EQ(futex(q, WAKE, 10, NULL, NULL, 0), 2);
	CHECK_EQ(result(pid[3]), 0);
	CHECK_EQ(result(pid[4]), 0);
}

TEST(wake_op, "FX wake-op")
{
	unsigned *p = word(), *q = word();
	pid_t a = waiter(p, 0, 0), b = waiter(q, 5, 0);

	/* b's word is not 5 yet: it returns at once. */
	CHECK_EQ(result(b), 2);
	*q = 5;
	b = waiter(q, 5, 0);
	until_asleep(a);
	until_asleep(b);
	/*
	 * *q += 3; wake one at p; and at q if the old value was greater than 4. op ADD=1, cmp GT=4
	 */
	CHECK_EQ(futex(p, WAKE_OP, 1, (void *)1, q, 1 << 28 | 4 << 24 | 3 << 12 | 4), 2);
	CHECK_EQ(*q, 8);
	CHECK_EQ(result(a), 0);
	CHECK_EQ(result(b), 0);
}

TEST(signalled, "FX a signal ends a wait")
{
	unsigned *p = word();
	pid_t pid = waiter(p, 0, 0);

	until_asleep(pid);
	kill(pid, SIGTERM);
	CHECK_KILLED(pid, SIGTERM);
	CHECK_EQ(futex(p, WAKE, 10, NULL, NULL, 0), 0);
}

/* ---- robust lists ----------------------------------------------------------------------- */

struct robust {
	struct robust *next;
	unsigned lock;
};
struct robust_head {
	struct robust *next;
	long offset;
	struct robust *pending;
};

TEST(robust_list, "FX a robust list at exit, at SIGKILL, and a broken one")
{
	struct {
		struct robust_head head;
		struct robust a, b, c;
	} *s = map(P, RW, SHANON);
	size_t size = 0;
	void *got = NULL;

	CHECK_ERR(syscall(SYS_set_robust_list, &s->head, 1), EINVAL);
	if (syscall(SYS_set_robust_list, &s->head, sizeof(s->head)) == -1) {
		CHECK_EQ(errno, ENOSYS);
		skip("no robust lists");
	}
	CHECK_EQ(syscall(SYS_get_robust_list, 0, &got, &size), 0);
	CHECK(got == &s->head && size == sizeof(s->head));
	syscall(SYS_set_robust_list, NULL, sizeof(s->head));
	for (int way = 0; way < 3; way++) {
		struct door ready = door();
		pid_t pid = xfork();

		if (pid == 0) {
			unsigned me = syscall(SYS_gettid);

			s->head.offset = offsetof(struct robust, lock);
			s->head.next = &s->a;
			s->a.next = &s->b;
			s->b.next = (struct robust *)&s->head;
			s->head.pending = &s->c;
			s->a.lock = me | WAITERS;
			s->b.lock = me + 1; /* somebody else's */
			s->c.lock = me;
			if (way == 2)
				s->a.next = (struct robust *)0x10; /* a list that leads nowhere */
			syscall(SYS_set_robust_list, &s->head, sizeof(s->head));
			let(ready);
			if (way == 1)
				for (;;)
					pause();
			sleep_ms(30);
			_exit(0);
		}
		pass(ready);
		unsigned before = s->a.lock;
		pid_t w = waiter(&s->a.lock, before, 0);
		until_asleep(w);
		if (way == 1)
			kill(pid, SIGKILL);
		wait_raw(pid);
		CHECK_EQ(result(w), 0);
		CHECK(s->a.lock & OWNER_DIED);
		CHECK_EQ(s->a.lock & 0x3fffffff, 0);
		CHECK(!(s->b.lock & OWNER_DIED));
		if (way != 2)
			CHECK(s->c.lock & OWNER_DIED);
	}
}

/* ---- priority inheritance --------------------------------------------------------------- */

static unsigned *pi;
static volatile int holders, turns;
static long total, wanted;

static void *pi_user(void *arg)
{
	unsigned me = syscall(SYS_gettid), zero;

	(void)arg;
	for (long i = 0; go_on(i, 200); i++) {
		zero = 0;
		if (!__atomic_compare_exchange_n(pi, &zero, me, false, __ATOMIC_ACQUIRE,
						 __ATOMIC_RELAXED))
			if (futex(pi, LOCK_PI, 0, NULL, NULL, 0) != 0) {
				FAIL("LOCK_PI: %s", errno_name(errno));
				return NULL;
			}
		if (holders++)
			FAIL("two hold the lock");
		CHECK_EQ(*pi & 0x3fffffff, me);
		turns++;
		__atomic_fetch_add(&total, 1, __ATOMIC_RELAXED);
		holders--;
		unsigned mine = me;
		if (!__atomic_compare_exchange_n(pi, &mine, 0, false, __ATOMIC_RELEASE,
						 __ATOMIC_RELAXED))
			if (futex(pi, UNLOCK_PI, 0, NULL, NULL, 0) != 0) {
				FAIL("UNLOCK_PI: %s", errno_name(errno));
				return NULL;
			}
	}
	return NULL;
}

TEST(pi_basic, "FX PI locks: owner, dead lock, not the owner, contention", .seconds = 40)
{
	unsigned me = syscall(SYS_gettid);
	pthread_t t[4];

	pi = word();
	if (futex(pi, LOCK_PI, 0, NULL, NULL, 0) == -1) {
		CHECK_EQ(errno, ENOSYS);
		skip("no PI futexes");
	}
	CHECK_EQ(*pi & 0x3fffffff, me);
	CHECK_ERR(futex(pi, LOCK_PI, 0, NULL, NULL, 0), EDEADLK);
	CHECK_ERR(futex(pi, TRYLOCK_PI, 0, NULL, NULL, 0), EDEADLK);
	CHECK_EQ(futex(pi, UNLOCK_PI, 0, NULL, NULL, 0), 0);
	CHECK_EQ(*pi, 0);
	CHECK_ERR(futex(pi, UNLOCK_PI, 0, NULL, NULL, 0), EPERM);
	*pi = 0x3ffffff0; /* nobody has this number */
	CHECK_ERR(futex(pi, LOCK_PI, 0, NULL, NULL, 0), ESRCH);
	*pi = 0;
	for (int i = 0; i < 4; i++)
		t[i] = start(pi_user, NULL);
	for (int i = 0; i < 4; i++)
		join(t[i]);
	CHECK_EQ(turns, total);
	CHECK_EQ(*pi, 0);
}

/* ---- contention ------------------------------------------------------------------------- */

static volatile unsigned lock;

/* Drepper's second mutex: 0 free, 1 taken, 2 taken with waiters. */
static void *three_state(void *arg)
{
	long i;

	(void)arg;
	for (i = 0; go_on(i, 1500); i++) {
		unsigned c = 0;

		if (!__atomic_compare_exchange_n(&lock, &c, 1, false, __ATOMIC_ACQUIRE,
						 __ATOMIC_RELAXED)) {
			if (c != 2)
				c = __atomic_exchange_n(&lock, 2, __ATOMIC_ACQUIRE);
			while (c) {
				futex(&lock, WAIT | PRIVATE, 2, NULL, NULL, 0);
				c = __atomic_exchange_n(&lock, 2, __ATOMIC_ACQUIRE);
			}
		}
		total++;
		if (__atomic_exchange_n(&lock, 0, __ATOMIC_RELEASE) == 2)
			futex(&lock, WAKE | PRIVATE, 1, NULL, NULL, 0);
	}
	__atomic_fetch_add(&wanted, i, __ATOMIC_RELAXED);
	return NULL;
}

TEST(no_lost_wakeup, "FX no wake-up is lost under contention", .seconds = 60)
{
	pthread_t t[6];

	for (int i = 0; i < 6; i++)
		t[i] = start(three_state, NULL);
	for (int i = 0; i < 6; i++)
		join(t[i]);
	CHECK_EQ(total, wanted);
}

static volatile unsigned ping;

static void *pong(void *arg)
{
	unsigned me = arg != NULL, seen;

	pin(me);
	for (long i = 0; i < rounds(300); i++) {
		while ((seen = ping) % 2 != me) /* read once: what was checked is what is waited for */
			futex(&ping, WAIT | PRIVATE, seen, NULL, NULL, 0);
		ping++;
		futex(&ping, WAKE | PRIVATE, 1, NULL, NULL, 0);
	}
	return NULL;
}

TEST(ping_pong, "FX ping-pong", .seconds = 60)
{
	pthread_t a = start(pong, NULL), b = start(pong, (void *)1);

	join(a);
	join(b);
	CHECK_EQ(ping, 2 * rounds(300));
}

/* ---- one who waits for two, and is woken by both at once ---- */

struct waitv {
	unsigned long val, uaddr;
	unsigned flags, reserved;
};
#define WAITV_32     2u
#define SYS_WAITV    449

static volatile unsigned asked[2], answered[2];
static volatile bool asked_enough;

static void *asker(void *arg)
{
	unsigned me = arg != NULL;

	for (long i = 0; i < rounds(300); i++) {
		asked[me]++;
		futex(&asked[me], WAKE | PRIVATE, 1, NULL, NULL, 0);
		for (unsigned seen; (seen = answered[me]) != asked[me] && !test_failed;)
			futex(&answered[me], WAIT | PRIVATE, seen, NULL, NULL, 0);
	}
	return NULL;
}

static void *answerer(void *arg)
{
	for (;;) {
		struct waitv v[2];

		for (int i = 0; i < 2; i++) {
			unsigned seen = asked[i];

			answered[i] = seen;
			futex(&answered[i], WAKE | PRIVATE, 1, NULL, NULL, 0);
			v[i] = (struct waitv){ seen, (unsigned long)&asked[i], WAITV_32 | PRIVATE, 0 };
		}
		if (asked_enough) /* looked at after what is waited for: the last change of that comes after it */
			return NULL;
		long r = syscall(SYS_WAITV, v, 2, 0, NULL, CLOCK_MONOTONIC);
		if (r < 0 && errno != EAGAIN && errno != EINTR)
			FAIL("waitv: %s", strerror(errno));
	}
	return NULL;
}

TEST(two_wakers, "FX one who waits for two words is woken for each", .seconds = 60)
{
	if (syscall(SYS_WAITV, NULL, 0, 0, NULL, 0) < 0 && errno == ENOSYS)
		skip("no futex_waitv");
	pthread_t t = start(answerer, NULL), a = start(asker, NULL), b = start(asker, (void *)1);

	join(a);
	join(b);
	asked_enough = true;
	asked[0]++;
	futex(&asked[0], WAKE | PRIVATE, 1, NULL, NULL, 0);
	join(t);
	CHECK_EQ(answered[1], rounds(300));
}

/* ---- threads that end as soon as they are woken ---- */

static volatile unsigned let_go, came;

static void *leaver(void *arg)
{
	__atomic_fetch_add(&came, 1, __ATOMIC_SEQ_CST);
	while (!let_go)
		futex(&let_go, WAIT | PRIVATE, 0, NULL, NULL, 0);
	return NULL;
}

TEST(woken_exit, "FX threads that exit as soon as they are woken", .seconds = 60)
{
	pthread_t t[8];

	for (long r = 0; r < rounds(40); r++) {
		let_go = came = 0;
		for (int i = 0; i < 8; i++)
			t[i] = start(leaver, NULL);
		while (came < 8)
			sched_yield();
		for (int spin = 0; spin < (r % 4) * 20; spin++)
			sched_yield();
		let_go = 1;
		futex(&let_go, WAKE | PRIVATE, INT_MAX, NULL, NULL, 0);
		for (int i = 0; i < 8; i++)
			join(t[i]);
	}
}
