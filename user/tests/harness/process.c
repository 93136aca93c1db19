/* Processes and threads: started, waited for, bound to CPUs, and kept in step. */
#include "internal.h"

cpu_set_t all_cpus;
int cpu_count;

pid_t xfork(void)
{
	pid_t pid = fork();

	NEED(pid >= 0);
	if (pid == 0)
		test_failed = 0;
	return pid;
}

int wait_raw(pid_t pid)
{
	int status;
	pid_t got;

	do
		got = waitpid(pid, &status, 0);
	while (got < 0 && errno == EINTR);
	if (got != pid) {
		FAIL("waitpid(%d) gave %d %s", pid, got, errno_name(errno));
		return -1;
	}
	return status;
}

void join_child_at(const char *file, int line, pid_t pid)
{
	int status = wait_raw(pid);

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return;
	if (WIFSIGNALED(status))
		fail_at(file, line, "child killed by signal %d", WTERMSIG(status));
	else
		fail_at(file, line, "child failed (wait status 0x%x)", status);
}

void self_exec(const char *arg, ...)
{
	char *argv[32] = { "test", "--exec", (char *)arg };
	va_list ap;
	int n = 3;

	va_start(ap, arg);
	while (n < 31 && argv[n - 1] && (argv[n] = va_arg(ap, char *)))
		n++;
	va_end(ap);
	execve("/proc/self/exe", argv, environ);
}

pthread_t start(void *(*fn)(void *), void *arg)
{
	pthread_t t;
	int e = pthread_create(&t, NULL, fn, arg);

	if (e) {
		FAIL("pthread_create: %s", errno_name(e));
		done();
	}
	return t;
}

void join(pthread_t t)
{
	int e = pthread_join(t, NULL);

	if (e)
		FAIL("pthread_join: %s", errno_name(e));
}

int ncpus(void)
{
	return cpu_count;
}

void pin(int nth)
{
	int n = ncpus();

	nth %= n;
	for (int cpu = 0; cpu < CPUS_IN_SET; cpu++) {
		if (!CPU_ISSET(cpu, &all_cpus) || nth--)
			continue;
		cpu_set_t one;

		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		NEED(sched_setaffinity(0, sizeof(one), &one) == 0);
		return;
	}
}

void unpin(void)
{
	NEED(sched_setaffinity(0, sizeof(all_cpus), &all_cpus) == 0);
}

struct door door(void)
{
	struct door d;

	NEED(pipe(d.fd) == 0);
	return d;
}

void let(struct door d)
{
	NEED(write(d.fd[1], "x", 1) == 1);
}

void pass(struct door d)
{
	char c;
	ssize_t n;

	do
		n = read(d.fd[0], &c, 1);
	while (n < 0 && errno == EINTR);
	NEED(n == 1);
}

void meet(struct meet *m)
{
	int round = __atomic_load_n(&m->round, __ATOMIC_ACQUIRE);

	if (__atomic_add_fetch(&m->here, 1, __ATOMIC_ACQ_REL) == m->n) {
		__atomic_store_n(&m->here, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&m->round, round + 1, __ATOMIC_RELEASE);
		return;
	}
	for (int spins = 0; __atomic_load_n(&m->round, __ATOMIC_ACQUIRE) == round; spins++) {
		/*
		 * A CPU that spins for long may be what keeps an emulator from running the one it
		 * waits for.
		 */
		if (spins < 500 && ncpus() > 1)
			pause_cpu();
		else if (spins < 600)
			sched_yield();
		else
			nanosleep(&(struct timespec){ 0, 50000 }, NULL);
	}
}

bool lead(struct meet *m, bool more)
{
	m->over[(m->round + 1) & 1] = !more;
	meet(m);
	return more;
}

bool follow(struct meet *m)
{
	int next = m->round + 1;

	meet(m);
	return !m->over[next & 1];
}
