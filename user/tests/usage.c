/*
 * Who used how much CPU, and where it ran: getrusage, times, clock_gettime of CPU time; affinity,
 * getcpu, yielding, preemption and balance.
 */
#include "harness.h"

#include <sys/times.h>

static uint64_t us(struct timeval t)
{
	return t.tv_sec * 1000000UL + t.tv_usec;
}

static void burn(long ms)
{
	uint64_t end = now_ns() + ms * 1000000UL;

	while (now_ns() < end)
		for (volatile int i = 0; i < 1000; i++)
			;
}

static void burn_user(long spins)
{
	for (volatile long i = 0; i < spins; i++)
		;
}

TEST(user_time, "US computing is user time")
{
	struct rusage a, b;
	long spins = 1000;
	uint64_t t = 0;

	/* As many spins as take 100 ms, so that clock reading does not matter. */
	while (t < 20000000) {
		t = now_ns();
		burn_user(spins *= 2);
		t = now_ns() - t;
	}
	CHECK_EQ(getrusage(RUSAGE_SELF, &a), 0);
	t = now_ns();
	burn_user(spins * 4);
	t = (now_ns() - t) / 1000;
	CHECK_EQ(getrusage(RUSAGE_SELF, &b), 0);
	uint64_t user = us(b.ru_utime) - us(a.ru_utime), sys = us(b.ru_stime) - us(a.ru_stime);
	CHECK_MSG(user + sys <= t + 20000, "%lu us user and %lu us system in %lu us", user, sys, t);
	CHECK_MSG(user >= 3 * sys, "%lu us user, %lu us system, for pure computing", user, sys);
	CHECK(user > 0);
}

TEST(system_time, "US system calls and faults are system time")
{
	struct rusage a, b;
	char *m = map(256 * P, RW, ANON);

	madvise(m, 256 * P, MADV_NOHUGEPAGE);
	getrusage(RUSAGE_SELF, &a);
	uint64_t end = now_ns() + 100000000;
	while (now_ns() < end) {
		for (int i = 0; i < 256; i++)
			m[i * P] = 1;
		madvise(m, 256 * P, MADV_DONTNEED);
	}
	getrusage(RUSAGE_SELF, &b);
	uint64_t user = us(b.ru_utime) - us(a.ru_utime), sys = us(b.ru_stime) - us(a.ru_stime);
	CHECK_MSG(sys > user / 2, "%lu us user, %lu us system, for faulting", user, sys);
	CHECK(b.ru_minflt - a.ru_minflt >= 256);
	CHECK_EQ(b.ru_majflt, a.ru_majflt);
}

TEST(idle_time, "US sleeping is no time; switches are counted")
{
	struct rusage a, b;

	getrusage(RUSAGE_SELF, &a);
	for (int i = 0; i < 10; i++)
		sleep_ms(10);
	getrusage(RUSAGE_SELF, &b);
	uint64_t used = us(b.ru_utime) + us(b.ru_stime) - us(a.ru_utime) - us(a.ru_stime);
	CHECK_MSG(used < 60000, "%lu us used in 100 ms of sleep", used);
	CHECK_MSG(b.ru_nvcsw - a.ru_nvcsw >= 10, "%ld voluntary switches for 10 sleeps",
		  b.ru_nvcsw - a.ru_nvcsw);
}

TEST(children_time, "US children's time is theirs until they are waited for")
{
	struct rusage before, after, ru;
	struct tms t;
	pid_t pid = xfork();

	if (pid == 0) {
		burn(60);
		done();
	}
	getrusage(RUSAGE_CHILDREN, &before);
	CHECK_EQ(us(before.ru_utime), 0);
	int status;
	CHECK_EQ(wait4(pid, &status, 0, &ru), pid);
	getrusage(RUSAGE_CHILDREN, &after);
	CHECK_EQ(us(after.ru_utime) + us(after.ru_stime), us(ru.ru_utime) + us(ru.ru_stime));
	CHECK_MSG(us(ru.ru_utime) + us(ru.ru_stime) > 5000, "the child used %lu us",
		  us(ru.ru_utime) + us(ru.ru_stime));
	CHECK(times(&t) != (clock_t)-1);
	CHECK((uint64_t)(t.tms_cutime + t.tms_cstime) <=
	      (us(ru.ru_utime) + us(ru.ru_stime)) / 10000 + 2);
	CHECK_ERR(getrusage(77, &ru), EINVAL);
}

static void *burner(void *arg)
{
	struct timespec ts;
	struct rusage ru;

	pin((int)(intptr_t)arg);
	burn(50);
	CHECK_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts), 0);
	CHECK_EQ(getrusage(RUSAGE_THREAD, &ru), 0);
	uint64_t a = ts.tv_sec * 1000000UL + ts.tv_nsec / 1000,
		 b = us(ru.ru_utime) + us(ru.ru_stime);
	CHECK_MSG(a > 1000 && a < 2000000, "the thread used %lu us", a);
	CHECK_MSG(b + 50000 > a && a + 50000 > b, "clock says %lu us, getrusage %lu us", a, b);
	return NULL;
}

TEST(threads_time, "US threads' time adds up to the process's")
{
	pthread_t t[4];
	struct rusage self;
	struct timespec ts;

	for (int i = 0; i < 4; i++)
		t[i] = start(burner, (void *)(intptr_t)i);
	for (int i = 0; i < 4; i++)
		join(t[i]);
	getrusage(RUSAGE_SELF, &self);
	CHECK_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts), 0);
	uint64_t p = ts.tv_sec * 1000000UL + ts.tv_nsec / 1000,
		 r = us(self.ru_utime) + us(self.ru_stime);
	CHECK_MSG(p > 4000, "the process used %lu us", p);
	CHECK_MSG(r + 100000 > p && p + 100000 > r, "clock says %lu us, getrusage %lu us", p, r);
}

/* ---- where it runs ---------------------------------------------------------------------- */

static int here(void)
{
	unsigned cpu = 9999, node = 9999;

	CHECK_EQ(syscall(SYS_getcpu, &cpu, &node, NULL), 0);
	CHECK(node < 64);
	return cpu;
}

TEST(affinity, "US affinity: set, get, obeyed, refused")
{
	cpu_set_t set, got;
	int n = ncpus();

	sched_getaffinity(0, sizeof(set), &set);
	for (int nth = 0; nth < n && nth < 16; nth++) {
		pin(nth);
		CHECK_EQ(sched_getaffinity(0, sizeof(got), &got), 0);
		CHECK_EQ(CPU_COUNT(&got), 1);
		for (int i = 0; i < 20; i++) {
			CHECK(CPU_ISSET(here(), &got));
			CHECK_EQ(sched_getcpu(), here());
			sched_yield();
		}
	}
	unpin();
	CPU_ZERO(&set);
	CHECK_ERR(sched_setaffinity(0, sizeof(set), &set), EINVAL);
	CHECK_ERR(syscall(SYS_sched_getaffinity, 0, 1, &set), EINVAL);
	CHECK_ERR(syscall(SYS_sched_getaffinity, 0, 9, &set), EINVAL);
	CHECK_ERR(sched_setaffinity(1 << 22, sizeof(set), &set), ESRCH);
	long bytes = syscall(SYS_sched_getaffinity, 0, sizeof(set), &set);
	CHECK(bytes > 0 && bytes % 8 == 0);
	/* Inherited by children and threads; set on another process. */
	pin(0);
	pid_t pid = xfork();
	if (pid == 0) {
		sched_getaffinity(0, sizeof(got), &got);
		CHECK_EQ(CPU_COUNT(&got), 1);
		sleep_ms(1000);
		done();
	}
	sched_getaffinity(0, sizeof(set), &set);
	sched_getaffinity(pid, sizeof(got), &got);
	CHECK(CPU_EQUAL(&set, &got));
	CHECK_EQ(sched_setaffinity(pid, sizeof(set), &set), 0);
	kill(pid, SIGKILL);
	wait_raw(pid);
}

TEST(moved, "US a running thread is moved by another's call", .cpus = 2)
{
	volatile int *at = map(P, RW, SHANON);
	pid_t pid = xfork();

	if (pid == 0)
		for (;;)
			*at = here() + 1;
	for (int i = 0; i < 20; i++) {
		cpu_set_t one, all;
		int want = -1, n = i % ncpus();

		pin(n);
		sched_getaffinity(0, sizeof(one), &one);
		unpin();
		sched_getaffinity(0, sizeof(all), &all);
		for (int c = 0; c < CPUS_IN_SET; c++)
			if (CPU_ISSET(c, &one))
				want = c;
		CHECK_EQ(sched_setaffinity(pid, sizeof(one), &one), 0);
		for (int k = 0; k < 1000 && *at != want + 1; k++)
			sleep_ms(1);
		CHECK_EQ(*at, want + 1);
		for (int k = 0; k < 100; k++)
			if (*at != want + 1) {
				FAIL("it ran on %d, bound to %d", *at - 1, want);
				break;
			}
	}
	kill(pid, SIGKILL);
	CHECK_KILLED(pid, SIGKILL);
}

/* The CPU of a process by /proc. */
static int cpu_of(pid_t pid)
{
	char path[64], text[1024], *at;
	int cpu = -1;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	NEED(slurp(path, text, sizeof(text)) > 0);
	at = strrchr(text, ')');
	for (int field = 2; at && field < 39; field++)
		at = strchr(at + 1, ' ');
	NEED(at && sscanf(at, "%d", &cpu) == 1);
	return cpu;
}

TEST(left, "US when sched_setaffinity returns, the other thread has left the forbidden CPU", .cpus = 2)
{
	volatile bool *runs = map(P, RW, SHANON);
	pid_t pid = xfork();

	if (pid == 0)
		for (;;)
			*runs = true;
	while (!*runs)
		sleep_ms(1);
	for (int i = 0; i < 100; i++) {
		cpu_set_t one;

		pin(i % ncpus()); /* what this thread may use, the other may */
		sched_getaffinity(0, sizeof(one), &one);
		unpin();
		CHECK_EQ(sched_setaffinity(pid, sizeof(one), &one), 0);
		int at = cpu_of(pid);
		if (!CPU_ISSET(at, &one)) {
			FAIL("round %d: still on CPU %d", i, at);
			break;
		}
	}
	kill(pid, SIGKILL);
	CHECK_KILLED(pid, SIGKILL);
}

static volatile bool stop;
static volatile unsigned long progress[16];

static void *spinner(void *arg)
{
	int me = (int)(intptr_t)arg;

	pin(0);
	while (!stop)
		progress[me]++;
	return NULL;
}

TEST(preempt, "US threads on one CPU share it without yielding")
{
	pthread_t t[4];
	unsigned long least = ~0UL, most = 0;

	for (int i = 0; i < 4; i++)
		t[i] = start(spinner, (void *)(intptr_t)i);
	pin(ncpus() - 1);
	sleep_ms(600);
	stop = true;
	for (int i = 0; i < 4; i++) {
		join(t[i]);
		least = progress[i] < least ? progress[i] : least;
		most = progress[i] > most ? progress[i] : most;
	}
	CHECK_MSG(least > 0, "a thread never ran");
	CHECK_MSG(most < 8 * least, "shares differ: %lu and %lu", least, most);
}

static void *wandering(void *arg)
{
	(void)arg;
	while (!stop)
		progress[here() % 16] = 1;
	return NULL;
}

TEST(balance, "US runnable threads spread over the CPUs", .cpus = 2)
{
	pthread_t t[16];
	int n = ncpus() < 8 ? ncpus() : 8, used = 0;

	unpin();
	for (int i = 0; i < n; i++)
		t[i] = start(wandering, NULL);
	sleep_ms(500);
	stop = true;
	for (int i = 0; i < n; i++)
		join(t[i]);
	for (int i = 0; i < 16; i++)
		used += progress[i] != 0;
	CHECK_MSG(used >= (n + 1) / 2, "%d threads used only %d CPUs", n, used);
}

TEST(sched_calls, "US scheduling calls")
{
	CHECK_EQ(sched_get_priority_max(SCHED_FIFO), 99);
	CHECK_EQ(sched_get_priority_min(SCHED_FIFO), 1);
	CHECK_EQ(sched_get_priority_max(SCHED_OTHER), 0);
	CHECK_ERR(sched_get_priority_max(77), EINVAL);
	CHECK_EQ(sched_yield(), 0);
	struct {
		int prio;
	} p = { 0 };
	CHECK_EQ(syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &p), 0);
	p.prio = 5;
	CHECK_ERR(syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &p), EINVAL);
	CHECK_ERR(syscall(SYS_sched_setscheduler, 0, 77, &p), EINVAL);
}
