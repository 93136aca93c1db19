/*
 * Time: clocks, sleeps, interval timers, POSIX timers. Bounds are wide above (an emulator is slow)
 * and exact below.
 */
#include "harness.h"

static volatile int count, last_code, last_value, overruns;

static void tick(int sig, siginfo_t *info, void *uc)
{
	(void)sig, (void)uc;
	count++;
	last_code = info->si_code;
	last_value = info->si_value.sival_int;
}

static void catch (int sig)
{
	struct sigaction sa = { .sa_sigaction = tick, .sa_flags = SA_SIGINFO };

	NEED(sigaction(sig, &sa, NULL) == 0);
	count = 0;
}

static uint64_t ns(struct timespec t)
{
	return t.tv_sec * 1000000000UL + t.tv_nsec;
}

TEST(clocks, "TM clocks go forward, on every CPU")
{
	static const clockid_t ids[] = {
		CLOCK_REALTIME,           CLOCK_MONOTONIC,         CLOCK_MONOTONIC_RAW,
		CLOCK_BOOTTIME,           CLOCK_REALTIME_COARSE,   CLOCK_MONOTONIC_COARSE,
		CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID,
	};
	struct timespec ts, res;
	struct timeval tv;

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		uint64_t last = 0;

		CHECK_EQ(clock_getres(ids[i], &res), 0);
		CHECK(res.tv_sec == 0 && res.tv_nsec > 0);
		for (int k = 0; k < 200; k++) {
			if (k % 50 == 0)
				pin(k / 50);
			CHECK_EQ(clock_gettime(ids[i], &ts), 0);
			CHECK(ts.tv_nsec >= 0 && ts.tv_nsec < 1000000000);
			if (ns(ts) < last) {
				FAIL("clock %d went back by %lu ns", ids[i], last - ns(ts));
				break;
			}
			last = ns(ts);
		}
	}
	CHECK_ERR(syscall(SYS_clock_gettime, 1000, &ts), EINVAL);
	CHECK_ERR(syscall(SYS_clock_getres, 1000, &ts), EINVAL);
	clock_gettime(CLOCK_REALTIME, &ts);
	CHECK_EQ(syscall(SYS_gettimeofday, &tv, NULL), 0);
	CHECK(labs(tv.tv_sec - ts.tv_sec) <= 1);
	CHECK(labs(time(NULL) - ts.tv_sec) <= 1);
}

static void *clock_reader(void *arg)
{
	volatile uint64_t *latest = arg;

	for (long i = 0; go_on(i, 3000); i++) {
		uint64_t seen = __atomic_load_n(latest, __ATOMIC_ACQUIRE), now = now_ns();

		if (now < seen) {
			FAIL("one CPU's clock is %lu ns behind another's", seen - now);
			break;
		}
		uint64_t old = seen;
		while (old < now &&
		       !__atomic_compare_exchange_n(latest, &old, now, false, __ATOMIC_ACQ_REL,
						    __ATOMIC_RELAXED))
			;
	}
	return NULL;
}

TEST(together, "TM all CPUs see one time", .cpus = 2)
{
	static uint64_t latest;
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		t[i] = start(clock_reader, &latest);
	for (int i = 0; i < 4; i++)
		join(t[i]);
}

TEST(sleeping, "TM nanosleep and clock_nanosleep")
{
	struct timespec ts = { 0, 30000000 }, rest = { 7, 7 };
	uint64_t t = now_ns();

	CHECK_EQ(nanosleep(&ts, &rest), 0);
	t = now_ns() - t;
	CHECK_MSG(t >= 30000000 && t < 2000000000, "30 ms took %lu us", t / 1000);
	t = now_ns();
	CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL), 0);
	CHECK(now_ns() - t >= 30000000);
	clock_gettime(CLOCK_MONOTONIC, &ts);
	uint64_t until = ns(ts) + 40000000;
	ts = (struct timespec){ until / 1000000000, until % 1000000000 };
	CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL), 0);
	CHECK(now_ns() >= until);
	CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL), 0); /* past already */
	clock_gettime(CLOCK_REALTIME, &ts);
	until = ns(ts) + 20000000;
	ts = (struct timespec){ until / 1000000000, until % 1000000000 };
	CHECK_EQ(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &ts, NULL), 0);
	clock_gettime(CLOCK_REALTIME, &ts);
	CHECK(ns(ts) >= until);
	ts = (struct timespec){ 0, 1000000000 };
	CHECK_ERR(nanosleep(&ts, NULL), EINVAL);
	ts = (struct timespec){ -1, 0 };
	CHECK_ERR(nanosleep(&ts, NULL), EINVAL);
	ts = (struct timespec){ 0, 0 };
	CHECK_EQ(nanosleep(&ts, NULL), 0);
	CHECK_EQ(clock_nanosleep(1000, 0, &ts, NULL), EINVAL);
}

static void *sleeper(void *arg)
{
	long ms = (long)(intptr_t)arg;
	uint64_t t = now_ns();

	sleep_ms(ms);
	t = now_ns() - t;
	CHECK_MSG(t >= (uint64_t)ms * 1000000, "%ld ms took %lu us", ms, t / 1000);
	return NULL;
}

TEST(many_sleepers, "TM many sleepers of different lengths")
{
	pthread_t t[32];
	uint64_t begun = now_ns();

	for (int i = 0; i < 32; i++)
		t[i] = start(sleeper, (void *)(intptr_t)(1 + i * 37 % 60));
	for (int i = 0; i < 32; i++)
		join(t[i]);
	CHECK(now_ns() - begun < 5000000000);
}

TEST(itimer_real, "TM setitimer: once, repeated, disarmed")
{
	struct itimerval it = { .it_value.tv_usec = 20000 }, old;

	catch (SIGALRM);
	CHECK_EQ(setitimer(ITIMER_REAL, &it, NULL), 0);
	CHECK_EQ(getitimer(ITIMER_REAL, &old), 0);
	CHECK(old.it_value.tv_sec == 0 && old.it_value.tv_usec > 0 &&
	      old.it_value.tv_usec <= 20000);
	while (!count)
		pause();
	sleep_ms(30);
	CHECK_EQ(count, 1);
	it.it_interval.tv_usec = 5000;
	CHECK_EQ(setitimer(ITIMER_REAL, &it, &old), 0);
	CHECK_EQ(old.it_value.tv_usec + old.it_value.tv_sec, 0);
	while (count < 5)
		pause();
	it = (struct itimerval){ 0 };
	CHECK_EQ(setitimer(ITIMER_REAL, &it, &old), 0);
	CHECK_EQ(old.it_interval.tv_usec, 5000);
	int was = count;
	sleep_ms(20);
	CHECK_EQ(count, was);
	it.it_value.tv_usec = 1000000;
	CHECK_ERR(setitimer(ITIMER_REAL, &it, NULL), EINVAL);
	CHECK_ERR(setitimer(77, &it, NULL), EINVAL);
	CHECK_EQ(alarm(100), 0);
	CHECK_EQ(alarm(0), 100);
}

TEST(itimer_cpu, "TM setitimer of CPU time counts only what runs")
{
	struct itimerval it = { .it_value.tv_usec = 30000 };

	catch (SIGVTALRM);
	if (setitimer(ITIMER_VIRTUAL, &it, NULL) < 0) {
		CHECK_EQ(errno, EINVAL);
		skip("no timers of CPU time");
	}
	sleep_ms(60);
	CHECK_EQ(count, 0);
	uint64_t end = now_ns() + 10000000000;
	while (!count && now_ns() < end)
		;
	CHECK_EQ(count, 1);
}

TEST(posix, "TM POSIX timers: signals, values, intervals, overruns, absolute")
{
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL,
			       .sigev_signo = SIGUSR1,
			       .sigev_value.sival_int = 99 };
	struct itimerspec it = { .it_value.tv_nsec = 20000000 }, got;
	timer_t id, other;

	catch (SIGUSR1);
	CHECK_EQ(timer_create(CLOCK_MONOTONIC, &ev, &id), 0);
	CHECK_EQ(timer_settime(id, 0, &it, NULL), 0);
	CHECK_EQ(timer_gettime(id, &got), 0);
	CHECK(got.it_value.tv_nsec > 0 && got.it_value.tv_nsec <= 20000000);
	while (!count)
		pause();
	CHECK_EQ(last_code, SI_TIMER);
	CHECK_EQ(last_value, 99);
	it.it_interval.tv_nsec = 3000000;
	CHECK_EQ(timer_settime(id, 0, &it, NULL), 0);
	while (count < 5)
		pause();
	/* Blocked, its ticks become overruns. */
	sigset_t block;
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	sigprocmask(SIG_BLOCK, &block, NULL);
	sleep_ms(40);
	siginfo_t info;
	struct timespec zero = { 0, 0 };
	CHECK_EQ(sigtimedwait(&block, &info, &zero), SIGUSR1);
	CHECK_MSG(timer_getoverrun(id) >= 5, "%d overruns in 40 ms of 3 ms ticks",
		  timer_getoverrun(id));
	it = (struct itimerspec){ 0 };
	CHECK_EQ(timer_settime(id, 0, &it, &got), 0);
	CHECK_EQ(got.it_interval.tv_nsec, 3000000);
	while (sigtimedwait(&block, &info, &zero) > 0)
		;
	clock_gettime(CLOCK_MONOTONIC, &it.it_value);
	it.it_value.tv_nsec += 20000000;
	if (it.it_value.tv_nsec >= 1000000000)
		it.it_value.tv_sec++, it.it_value.tv_nsec -= 1000000000;
	CHECK_EQ(timer_settime(id, TIMER_ABSTIME, &it, NULL), 0);
	struct timespec five = { 5, 0 };
	CHECK_EQ(sigtimedwait(&block, &info, &five), SIGUSR1);
	CHECK(now_ns() >= ns(it.it_value));
	ev.sigev_notify = SIGEV_NONE;
	CHECK_EQ(timer_create(CLOCK_REALTIME, &ev, &other), 0);
	CHECK(other != id);
	CHECK_EQ(timer_delete(other), 0);
	CHECK_ERR(timer_gettime(other, &got), EINVAL);
	CHECK_EQ(timer_delete(id), 0);
	CHECK_ERR(syscall(SYS_timer_delete, id), EINVAL);
	CHECK_ERR(syscall(SYS_timer_create, 1000, &ev, &other), EINVAL);
	/* Left armed at exit: it goes with the process. */
	ev.sigev_notify = SIGEV_SIGNAL;
	CHECK_EQ(timer_create(CLOCK_MONOTONIC, &ev, &id), 0);
	it = (struct itimerspec){ .it_value.tv_nsec = 1000000, .it_interval.tv_nsec = 1000000 };
	CHECK_EQ(timer_settime(id, 0, &it, NULL), 0);
}

TEST(exec_timer,
     "TM an interval timer survives exec, a POSIX timer does not; neither survives fork")
{
	struct itimerval it = { .it_value.tv_sec = 100 }, got;

	NEED(setitimer(ITIMER_REAL, &it, NULL) == 0);
	pid_t pid = xfork();
	if (pid == 0) {
		CHECK_EQ(getitimer(ITIMER_REAL, &got), 0);
		CHECK_EQ(got.it_value.tv_sec, 0);
		NEED(setitimer(ITIMER_REAL, &it, NULL) == 0);
		self_exec("left", NULL);
		done();
	}
	join_child(pid);
}

int exec_main(int argc, char **argv)
{
	struct itimerval got;

	(void)argc, (void)argv;
	return getitimer(ITIMER_REAL, &got) != 0 || got.it_value.tv_sec < 50;
}
