/*
 * exit_group and SIGKILL while other threads fault, copy, fork and unmap. known-bugs: EX-01.
 */
#include "harness.h"

enum { T = 8 };

static int shared_fd;
static struct meet *gate; /* shared with the parent */
static volatile char *shared_area;
static volatile int progress;

/* What the siblings do until they are killed: faults of every kind. */
static void *faulter(void *arg)
{
	int me = (int)(intptr_t)arg;
	uint32_t seed = me + 1;

	pin(me);
	for (;;) {
		char *p = map(64 * P, RW, ANON);
		char *s = map_fd(16 * P, RW, me % 2 ? MAP_SHARED : MAP_PRIVATE, shared_fd, 0);

		for (int i = 0; i < 64; i++)
			p[i * P] = me;
		for (int i = 0; i < 16; i++)
			s[(roll(&seed) % 16) * P + me] = me;
		for (int i = 0; i < 16; i++)
			shared_area[(roll(&seed) % 64) * P + me] = me;
		progress++;
		unmap(p, 64 * P);
		unmap(s, 16 * P);
	}
	return NULL;
}

static void *forker(void *arg)
{
	(void)arg;
	for (;;) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		if (pid > 0)
			waitpid(pid, NULL, 0);
		progress++;
	}
	return NULL;
}

static void start_siblings(int n, void *(*fn)(void *))
{
	catch_faults();
	for (int i = 0; i < n; i++)
		start(fn, (void *)(intptr_t)i);
}

static void setup(void)
{
	shared_fd = tmpfile_fd(16 * P);
	shared_area = map(64 * P, RW, SHANON);
	gate = map(P, RW, SHANON);
}

TEST(exit_group_test, "EX-01 exit_group while seven siblings fault", .seconds = 60)
{
	setup();
	for (long i = 0; go_on(i, 40); i++) {
		pid_t pid = xfork();

		if (pid == 0) {
			start_siblings(T - 1, faulter);
			while (progress < 3)
				sched_yield();
			for (volatile int k = 0; k < (int)(i * 777 % 20000); k++)
				;
			_exit(40 + i % 50);
		}
		int status = wait_raw(pid);
		CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 40 + i % 50,
			  "wait status 0x%x", status);
	}
}

static void *exiter(void *arg)
{
	while (progress < 3)
		sched_yield();
	_exit((int)(intptr_t)arg);
}

TEST(exit_by_thread, "EX-01 a thread that is not the first calls exit_group", .seconds = 60)
{
	setup();
	for (long i = 0; go_on(i, 30); i++) {
		pid_t pid = xfork();

		if (pid == 0) {
			start_siblings(T - 2, faulter);
			start(exiter, (void *)(intptr_t)(7 + i));
			faulter(NULL);
		}
		int status = wait_raw(pid);
		CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 7 + i % 249,
			  "wait status 0x%x", status);
	}
}

TEST(sigkill, "EX-01 SIGKILL while eight threads fault", .seconds = 60)
{
	setup();
	static const char *const points[] = { "anon_insert", "gather_flush", "file_insert",
					      "pt_link" };
	for (long i = 0; go_on(i, 40); i++) {
		struct door ready = door();
		pid_t pid = xfork();

		if (pid == 0) {
			start_siblings(T - 1, faulter);
			while (progress < 3)
				sched_yield();
			let(ready);
			faulter((void *)7);
		}
		pass(ready);
		rp_arm(points[i % ARRAY_SIZE(points)], 3);
		if (i % 2)
			sched_yield();
		kill(pid, SIGKILL);
		CHECK_KILLED(pid, SIGKILL);
		close(ready.fd[0]);
		close(ready.fd[1]);
	}
}

TEST(kill_fork, "EX-01 SIGKILL in the middle of fork", .seconds = 60)
{
	setup();
	char *big = map(2048 * P, RW, ANON);
	for (int i = 0; i < 2048; i += 3)
		big[i * P] = i;
	for (long i = 0; go_on(i, 30); i++) {
		struct door ready = door();
		pid_t pid = xfork();

		if (pid == 0) {
			let(ready);
			forker(NULL);
		}
		pass(ready);
		rp_arm(i % 2 ? "fork_table" : "fork_flush", 5);
		for (volatile int k = 0; k < (int)(i * 1777 % 60000); k++)
			;
		kill(pid, SIGKILL);
		CHECK_KILLED(pid, SIGKILL);
		for (int k = 0; k < 2048; k += 3)
			if (big[k * P] != (char)k) {
				FAIL("the parent's page %d holds %d", k, big[k * P]);
				break;
			}
		close(ready.fd[0]);
		close(ready.fd[1]);
	}
}

TEST(fork_threads, "EX-01 fork from one thread while others fault, unmap and are killed",
     .seconds = 60)
{
	setup();
	for (long i = 0; go_on(i, 10); i++) {
		pid_t pid = xfork();

		if (pid == 0) {
			start_siblings(3, faulter);
			start(forker, NULL);
			sleep_ms(5 + i % 10);
			_exit(3);
		}
		int status = wait_raw(pid);
		CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 3, "wait status 0x%x",
			  status);
	}
}

TEST(exec_threads, "EX-01 execve while siblings fault", .seconds = 60)
{
	setup();
	for (long i = 0; go_on(i, 20); i++) {
		pid_t pid = xfork();

		if (pid == 0) {
			start_siblings(4, faulter);
			while (progress < 3)
				sched_yield();
			self_exec("9", NULL);
			done();
		}
		int status = wait_raw(pid);
		CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 9, "wait status 0x%x",
			  status);
	}
}

static void *execer(void *arg)
{
	(void)arg;
	while (progress < 3)
		sched_yield();
	self_exec("11", NULL);
	return NULL;
}

TEST(exec_by_thread, "EX-01 execve by a thread that is not the first", .seconds = 60)
{
	setup();
	for (long i = 0; go_on(i, 10); i++) {
		pid_t pid = xfork();

		if (pid == 0) {
			start_siblings(2, faulter);
			start(execer, NULL);
			faulter((void *)3);
		}
		/* The new program has the process's number: the parent notices nothing. */
		int status = wait_raw(pid);
		CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 11, "wait status 0x%x",
			  status);
	}
}

TEST(crash_threads, "EX-01 one thread crashes: all end, by that signal", .seconds = 60)
{
	setup();
	for (long i = 0; go_on(i, 15); i++) {
		pid_t pid = xfork();

		if (pid == 0) {
			for (int k = 0; k < 4; k++)
				start(faulter, (void *)(intptr_t)k);
			while (progress < 3)
				sched_yield();
			signal(SIGSEGV, SIG_DFL);
			crash();
		}
		CHECK_KILLED(pid, SIGSEGV);
	}
}

TEST(late_write, "EX-01 a killed process writes no frame that has a new owner", .seconds = 60)
{
	setup();
	for (long i = 0; go_on(i, 15); i++) {
		struct door ready = door();
		pid_t pid = xfork();

		if (pid == 0) {
			start_siblings(T - 1, faulter);
			while (progress < 3)
				sched_yield();
			let(ready);
			for (;;)
				pause();
		}
		pass(ready);
		kill(pid, SIGKILL);
		CHECK_KILLED(pid, SIGKILL);
		unsigned char *m = map(256 * P, RW, ANON);
		for (int k = 0; k < 256; k++) {
			if (m[k * P + 3])
				FAIL("a fresh page holds 0x%x", m[k * P + 3]);
			memset(m + k * P, 0xc3, 64);
		}
		sched_yield();
		for (int k = 0; k < 256; k++)
			for (int b = 0; b < 64; b++)
				if (m[k * P + b] != 0xc3) {
					FAIL("page %d was written: 0x%x", k, m[k * P + b]);
					break;
				}
		unmap(m, 256 * P);
		close(ready.fd[0]);
		close(ready.fd[1]);
	}
}
