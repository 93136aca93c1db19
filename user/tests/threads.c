/*
 * POSIX threads as musl makes them: creation, joining, thread-local data, mutexes, conditions,
 * barriers, semaphores, cancellation, keys; and what the kernel calls a thread.
 */
#include "harness.h"

#include <semaphore.h>

static __thread int local = 5;
static __thread char big_local[3000];

static void *sum_to(void *arg)
{
	long n = (long)(intptr_t)arg, sum = 0;

	for (long i = 0; i <= n; i++)
		sum += i;
	return (void *)(intptr_t)sum;
}

TEST(create_join, "TH create and join; results", .seconds = 30)
{
	for (long i = 0; go_on(i, 200); i++) {
		pthread_t t = start(sum_to, (void *)(intptr_t)i);
		void *r;

		CHECK_EQ(pthread_join(t, &r), 0);
		CHECK_EQ((long)(intptr_t)r, i * (i + 1) / 2);
	}
}

enum { MANY = 64 };

static void *use_local(void *arg)
{
	int me = (int)(intptr_t)arg;

	CHECK_EQ(local, 5);
	for (size_t i = 0; i < sizeof(big_local); i += 100)
		CHECK_EQ(big_local[i], 0);
	local = me;
	memset(big_local, me, sizeof(big_local));
	errno = me;
	sched_yield();
	CHECK_EQ(errno, me);
	CHECK_EQ(local, me);
	CHECK_EQ(big_local[2999], (char)me);
	return NULL;
}

TEST(tls, "TH thread-local data of many threads")
{
	pthread_t t[MANY];

	local = -1;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < MANY; i++)
			t[i] = start(use_local, (void *)(intptr_t)(i + 1));
		for (int i = 0; i < MANY; i++)
			join(t[i]);
	}
	CHECK_EQ(local, -1);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static long counter, wanted;
static volatile int inside;

static void *count_up(void *arg)
{
	long i;

	(void)arg;
	for (i = 0; go_on(i, 2000); i++) {
		pthread_mutex_lock(&mutex);
		if (inside++)
			FAIL("two threads hold the mutex");
		counter++;
		inside--;
		pthread_mutex_unlock(&mutex);
	}
	__atomic_fetch_add(&wanted, i, __ATOMIC_RELAXED);
	return NULL;
}

TEST(mutex_test, "TH a contended mutex", .seconds = 40)
{
	pthread_t t[8];

	for (int i = 0; i < 8; i++)
		t[i] = start(count_up, NULL);
	for (int i = 0; i < 8; i++)
		join(t[i]);
	CHECK_EQ(counter, wanted);
}

TEST(mutex_kinds, "TH mutex kinds: error checking, recursive, timed, robust, PI")
{
	pthread_mutexattr_t a;
	pthread_mutex_t m;
	struct timespec ts;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&m, &a);
	CHECK_EQ(pthread_mutex_lock(&m), 0);
	CHECK_EQ(pthread_mutex_lock(&m), EDEADLK);
	CHECK_EQ(pthread_mutex_unlock(&m), 0);
	CHECK_EQ(pthread_mutex_unlock(&m), EPERM);
	pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&m, &a);
	CHECK_EQ(pthread_mutex_lock(&m), 0);
	CHECK_EQ(pthread_mutex_lock(&m), 0);
	CHECK_EQ(pthread_mutex_unlock(&m), 0);
	CHECK_EQ(pthread_mutex_unlock(&m), 0);

	pthread_mutex_lock(&mutex);
	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_nsec += 20000000;
	if (ts.tv_nsec >= 1000000000)
		ts.tv_sec++, ts.tv_nsec -= 1000000000;
	CHECK_EQ(pthread_mutex_timedlock(&mutex, &ts), ETIMEDOUT);
	pthread_mutex_unlock(&mutex);
}

static void *die_holding(void *arg)
{
	pthread_mutex_lock(arg);
	return NULL;
}

TEST(robust, "TH a robust mutex whose owner died")
{
	pthread_mutexattr_t a;
	pthread_mutex_t m;

	pthread_mutexattr_init(&a);
	CHECK_EQ(pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST), 0);
	pthread_mutex_init(&m, &a);
	join(start(die_holding, &m));
	CHECK_EQ(pthread_mutex_lock(&m), EOWNERDEAD);
	CHECK_EQ(pthread_mutex_consistent(&m), 0);
	CHECK_EQ(pthread_mutex_unlock(&m), 0);
	CHECK_EQ(pthread_mutex_lock(&m), 0);
	CHECK_EQ(pthread_mutex_unlock(&m), 0);
	/* And across processes, the owner killed. */
	pthread_mutex_t *shared = map(P, RW, SHANON);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(shared, &a);
	struct door d = door();
	pid_t pid = xfork();
	if (pid == 0) {
		pthread_mutex_lock(shared);
		let(d);
		for (;;)
			pause();
	}
	pass(d);
	CHECK_EQ(pthread_mutex_trylock(shared), EBUSY);
	kill(pid, SIGKILL);
	CHECK_EQ(pthread_mutex_lock(shared), EOWNERDEAD);
	CHECK_EQ(pthread_mutex_consistent(shared), 0);
	CHECK_EQ(pthread_mutex_unlock(shared), 0);
	CHECK_KILLED(pid, SIGKILL);
}

static int queue[8], head, tail;

static void *producer(void *arg)
{
	for (int i = 1; i <= (int)(intptr_t)arg; i++) {
		pthread_mutex_lock(&mutex);
		while (head - tail == 8)
			pthread_cond_wait(&cond, &mutex);
		queue[head++ % 8] = i;
		pthread_cond_broadcast(&cond);
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

TEST(condition, "TH a bounded queue with a condition variable", .seconds = 40)
{
	int n = rounds(400);
	long sum = 0;
	pthread_t t[3];

	for (int i = 0; i < 3; i++)
		t[i] = start(producer, (void *)(intptr_t)n);
	for (int i = 0; i < 3 * n; i++) {
		pthread_mutex_lock(&mutex);
		while (head == tail)
			pthread_cond_wait(&cond, &mutex);
		sum += queue[tail++ % 8];
		pthread_cond_broadcast(&cond);
		pthread_mutex_unlock(&mutex);
	}
	for (int i = 0; i < 3; i++)
		join(t[i]);
	CHECK_EQ(sum, 3L * n * (n + 1) / 2);
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_nsec += 10000000;
	if (ts.tv_nsec >= 1000000000)
		ts.tv_sec++, ts.tv_nsec -= 1000000000;
	pthread_mutex_lock(&mutex);
	CHECK_EQ(pthread_cond_timedwait(&cond, &mutex, &ts), ETIMEDOUT);
	pthread_mutex_unlock(&mutex);
}

static pthread_barrier_t barrier;
static volatile int phase[8];

static void *phases(void *arg)
{
	int me = (int)(intptr_t)arg;

	for (int i = 1; i <= 20; i++) {
		phase[me] = i;
		pthread_barrier_wait(&barrier);
		for (int k = 0; k < 8; k++)
			if (phase[k] != i)
				FAIL("thread %d is in phase %d, not %d", k, phase[k], i);
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

TEST(barriers, "TH barriers, semaphores, once, keys")
{
	pthread_t t[8];
	sem_t sem;

	pthread_barrier_init(&barrier, NULL, 8);
	for (int i = 0; i < 8; i++)
		t[i] = start(phases, (void *)(intptr_t)i);
	for (int i = 0; i < 8; i++)
		join(t[i]);
	sem_init(&sem, 0, 1);
	CHECK_EQ(sem_wait(&sem), 0);
	CHECK_ERR(sem_trywait(&sem), EAGAIN);
	CHECK_EQ(sem_post(&sem), 0);
	CHECK_EQ(sem_wait(&sem), 0);
}

static pthread_key_t key;
static volatile int destroyed;

static void destroy(void *value)
{
	destroyed += (int)(intptr_t)value;
}

static void *with_key(void *arg)
{
	pthread_setspecific(key, arg);
	return NULL;
}

TEST(keys, "TH destructors of thread-specific data run")
{
	pthread_t t[4];

	CHECK_EQ(pthread_key_create(&key, destroy), 0);
	for (int i = 0; i < 4; i++)
		t[i] = start(with_key, (void *)(intptr_t)(i + 1));
	for (int i = 0; i < 4; i++)
		join(t[i]);
	CHECK_EQ(destroyed, 10);
}

static volatile bool cleaned, entered;

static void clean(void *arg)
{
	(void)arg;
	cleaned = true;
}

static void *cancel_me(void *arg)
{
	int kind = (int)(intptr_t)arg;
	int fd[2];

	pthread_cleanup_push(clean, NULL);
	if (kind == 2)
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	NEED(pipe(fd) == 0);
	entered = true;
	char c;
	switch (kind) {
	case 0: (void)!read(fd[0], &c, 1); break; /* a blocking call is a cancellation point */
	case 1:
		for (;;)
			pthread_testcancel();
		break;
	case 2:
		for (;;)
			pause_cpu();
		break;
	case 3:
		for (;;)
			sleep_ms(10000);
		break;
	}
	pthread_cleanup_pop(0);
	return NULL;
}

TEST(cancel, "TH cancellation in a blocking call, at a point, asynchronously, in a sleep")
{
	for (int kind = 0; kind < 4; kind++) {
		void *r = NULL;

		cleaned = entered = false;
		pthread_t t = start(cancel_me, (void *)(intptr_t)kind);
		while (!entered)
			sched_yield();
		sleep_ms(5);
		CHECK_EQ(pthread_cancel(t), 0);
		CHECK_EQ(pthread_join(t, &r), 0);
		CHECK(r == PTHREAD_CANCELED);
		CHECK(cleaned);
	}
}

static volatile pid_t tids[4];
static volatile bool may_go;

static void *identify(void *arg)
{
	int me = (int)(intptr_t)arg;

	CHECK_EQ(syscall(SYS_getpid), getpid());
	tids[me] = syscall(SYS_gettid);
	while (!may_go)
		sched_yield();
	return NULL;
}

TEST(identity, "TH thread numbers, tkill, tgkill, Threads in status")
{
	pthread_t t[4];

	CHECK_EQ(syscall(SYS_gettid), getpid());
	for (int i = 0; i < 4; i++)
		t[i] = start(identify, (void *)(intptr_t)i);
	for (int i = 0; i < 4; i++)
		while (!tids[i])
			sched_yield();
	for (int i = 0; i < 4; i++) {
		CHECK(tids[i] != getpid());
		for (int k = 0; k < i; k++)
			CHECK(tids[i] != tids[k]);
		CHECK_EQ(syscall(SYS_tkill, tids[i], 0), 0);
		CHECK_EQ(syscall(SYS_tgkill, getpid(), tids[i], 0), 0);
		CHECK_ERR(syscall(SYS_tgkill, getpid() + 100000, tids[i], 0), ESRCH);
	}
	CHECK_EQ(field("/proc/self/status", "Threads"), 5);
	may_go = true;
	for (int i = 0; i < 4; i++)
		join(t[i]);
	for (int i = 0; i < 100 && syscall(SYS_tkill, tids[0], 0) == 0; i++)
		sleep_ms(1);
	CHECK_ERR(syscall(SYS_tkill, tids[0], 0), ESRCH);
	CHECK_ERR(syscall(SYS_tkill, -1, 0), EINVAL);
	CHECK_EQ(field("/proc/self/status", "Threads"), 1);
}

static void *detached(void *arg)
{
	(void)arg;
	__atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED);
	return NULL;
}

TEST(detach, "TH detached threads free their own stacks", .seconds = 40)
{
	pthread_attr_t a;
	long n = rounds(100);

	pthread_attr_init(&a);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	counter = 0;
	for (long i = 0; i < n; i++) {
		pthread_t t;

		CHECK_EQ(pthread_create(&t, &a, detached, NULL), 0);
		if (i % 16 == 15)
			for (int k = 0; k < 1000 && counter < i - 15; k++)
				sleep_ms(1);
	}
	for (int k = 0; k < 2000 && counter < n; k++)
		sleep_ms(1);
	CHECK_EQ(counter, n);
}

TEST(clone_args, "TH clone with flags that make no sense")
{
	enum { VM = 0x100, SIGHAND_ = 0x800, THREAD_ = 0x10000, FS_ = 0x200, NEWNS = 0x20000 };

	CHECK_ERR(syscall(SYS_clone, THREAD_, 0, 0, 0, 0), EINVAL);
	CHECK_ERR(syscall(SYS_clone, SIGHAND_, 0, 0, 0, 0), EINVAL);
	CHECK_ERR(syscall(SYS_clone, THREAD_ | SIGHAND_, 0, 0, 0, 0), EINVAL);
	CHECK_ERR(syscall(SYS_clone, FS_ | NEWNS, 0, 0, 0, 0), EINVAL);
	/* Without CLONE_VM it is a fork; no exit signal: only __WALL or __WCLONE waits for it. */
	pid_t pid = syscall(SYS_clone, 0, 0, 0, 0, 0);
	if (pid == 0)
		_exit(3);
	CHECK(pid > 0);
	CHECK_ERR(waitpid(pid, NULL, 0), ECHILD);
	int status = 0;
	CHECK_EQ(waitpid(pid, &status, 0x40000000 /* __WALL */), pid);
	CHECK_EQ(WEXITSTATUS(status), 3);
}

TEST(leader_exits, "TH the first thread exits, the others go on")
{
	pid_t pid = xfork();

	if (pid == 0) {
		pthread_t t = start(sum_to, (void *)1000);

		(void)t;
		start(cancel_me, (void *)3);
		pthread_exit(NULL);
	}
	sleep_ms(20);
	CHECK_EQ(waitpid(pid, NULL, WNOHANG), 0);
	kill(pid, SIGTERM);
	CHECK_KILLED(pid, SIGTERM);
}
