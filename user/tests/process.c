/*
 * Processes: fork, vfork, exec, exit, wait4 in all its forms, groups and sessions, orphans, limits.
 */
#include "harness.h"

#include <sys/prctl.h>
#include <sys/resource.h>

static pid_t exits_with(int code)
{
	pid_t pid = xfork();

	if (pid == 0)
		_exit(code);
	return pid;
}

static pid_t sleeps(void)
{
	pid_t pid = xfork();

	if (pid == 0)
		for (;;)
			pause();
	return pid;
}

TEST(statuses, "PR exit codes and signals in the wait status")
{
	int status;

	for (int code = 0; code < 256; code += 51) {
		pid_t pid = exits_with(code);

		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK(WIFEXITED(status));
		CHECK_EQ(WEXITSTATUS(status), code);
	}
	const int kills[] = { SIGKILL, SIGTERM, SIGHUP,  SIGINT,  SIGPIPE,
			      SIGALRM, SIGUSR1, SIGABRT, SIGRTMIN };
	for (size_t i = 0; i < ARRAY_SIZE(kills); i++) {
		pid_t pid = xfork();

		if (pid == 0) {
			signal(SIGALRM, SIG_DFL); /* the harness's own */
			raise(kills[i]);
			for (;;)
				pause();
		}
		status = wait_raw(pid);
		CHECK_MSG(WIFSIGNALED(status) && WTERMSIG(status) == kills[i],
			  "signal %d: status 0x%x", kills[i], status);
	}
}

TEST(wait_forms, "PR wait4: any, this one, group, none, options, usage")
{
	int status;
	struct rusage ru;

	CHECK_ERR(waitpid(-1, &status, 0), ECHILD);
	CHECK_ERR(waitpid(1 << 22, &status, 0), ECHILD);
	CHECK_ERR(waitpid(-1, &status, 0x800), EINVAL);
	pid_t a = sleeps();
	CHECK_EQ(waitpid(-1, &status, WNOHANG), 0);
	CHECK_EQ(waitpid(a, &status, WNOHANG), 0);
	CHECK_ERR(waitpid(getpid(), &status, WNOHANG), ECHILD);
	pid_t b = exits_with(4);
	CHECK_EQ(waitpid(-1, &status, 0), b);
	CHECK_EQ(WEXITSTATUS(status), 4);
	CHECK_EQ(kill(a, SIGKILL), 0);
	CHECK_EQ(wait4(a, &status, 0, &ru), a);
	CHECK(WIFSIGNALED(status));
	CHECK(ru.ru_maxrss >= 0 && ru.ru_utime.tv_sec < 10);
	/* Of a group of its own. */
	a = sleeps();
	CHECK_EQ(setpgid(a, a), 0);
	CHECK_EQ(waitpid(0, &status, WNOHANG) == -1 && errno == ECHILD, 1);
	CHECK_EQ(waitpid(-a, &status, WNOHANG), 0);
	CHECK_EQ(kill(-a, SIGTERM), 0);
	CHECK_EQ(waitpid(-a, &status, 0), a);
	CHECK_ERR(kill(a, 0), ESRCH);
}

TEST(stop_continue, "PR stopped and continued children")
{
	int status;
	pid_t pid = sleeps();

	CHECK_EQ(kill(pid, SIGSTOP), 0);
	CHECK_EQ(waitpid(pid, &status, WUNTRACED), pid);
	CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	CHECK_EQ(waitpid(pid, &status, WNOHANG | WUNTRACED), 0); /* told once */
	CHECK_EQ(kill(pid, SIGCONT), 0);
	CHECK_EQ(waitpid(pid, &status, WCONTINUED), pid);
	CHECK(WIFCONTINUED(status));
	CHECK_EQ(kill(pid, SIGSTOP), 0);
	CHECK_EQ(kill(pid, SIGKILL), 0); /* ends it, stopped or not */
	CHECK_KILLED(pid, SIGKILL);
}

static volatile int shared_by_vfork;

static __attribute__((noinline)) pid_t vfork_exec(void)
{
	static char *argv[] = { "test", "--exec", "6", NULL };
	pid_t pid = vfork();

	if (pid == 0) {
		execve("/proc/self/exe", argv, NULL);
		_exit(99);
	}
	return pid;
}

TEST(vfork_test, "PR vfork: the child runs in the parent's memory, the parent waits")
{
	pid_t pid = vfork();

	if (pid == 0) {
		shared_by_vfork = 17;
		usleep(20000);
		shared_by_vfork = 18;
		_exit(5);
	}
	CHECK_EQ(shared_by_vfork, 18);
	int status = wait_raw(pid);
	CHECK_EQ(WEXITSTATUS(status), 5);
	for (int i = 0; i < 20; i++)
		CHECK_EQ(WEXITSTATUS(wait_raw(vfork_exec())), 6);
	/* Killed before it releases the parent: the parent goes on all the same. */
	struct door d = door();
	pid_t killer = xfork();
	if (killer == 0) {
		pid_t victim;

		NEED(read(d.fd[0], &victim, sizeof(victim)) == sizeof(victim));
		kill(victim, SIGKILL);
		done();
	}
	pid = vfork();
	if (pid == 0) {
		pid_t me = syscall(SYS_getpid);

		(void)!write(d.fd[1], &me, sizeof(me));
		for (;;)
			pause();
	}
	CHECK_KILLED(pid, SIGKILL);
	join_child(killer);
}

TEST(inherit, "PR what a child has from its parent")
{
	char cwd[256];
	mode_t mask = umask(027);
	int fd = tmpfile_fd(0);
	const char *dir = scratch("cwd");

	NEED(mkdir(dir, 0700) == 0);
	NEED(chdir(dir) == 0);
	NEED(write(fd, "0123456789", 10) == 10);
	NEED(lseek(fd, 4, SEEK_SET) == 4);
	pid_t parent = getpid(), pid = xfork();
	if (pid == 0) {
		char c;

		CHECK_EQ(getppid(), parent);
		CHECK(getpid() != parent);
		CHECK_EQ(getpgrp(), getpgid(parent));
		CHECK_EQ(umask(0), 027);
		CHECK(getcwd(cwd, sizeof(cwd)) && !strcmp(cwd, dir));
		CHECK_EQ(read(fd, &c, 1), 1); /* one file offset for both */
		CHECK_EQ(c, '4');
		struct itimerval it;
		CHECK_EQ(getitimer(ITIMER_REAL, &it), 0);
		CHECK_EQ(it.it_value.tv_sec, 0); /* timers are not inherited */
		close(fd);
		done();
	}
	join_child(pid);
	CHECK_EQ(lseek(fd, 0, SEEK_CUR), 5);
	umask(mask);
	CHECK_EQ(chdir("/"), 0);
	CHECK_EQ(rmdir(dir), 0);
}

TEST(orphans, "PR an orphan gets a new parent, and is reaped")
{
	int fd[2];
	pid_t ids[2] = { 0 };

	NEED(pipe(fd) == 0);
	pid_t pid = xfork();
	if (pid == 0) {
		pid_t middle = getpid();

		if (xfork() == 0) {
			while (getppid() == middle)
				sleep_ms(1);
			ids[0] = getppid();
			ids[1] = middle;
			(void)!write(fd[1], ids, sizeof(ids));
		}
		_exit(0);
	}
	join_child(pid);
	CHECK_EQ(read(fd[0], ids, sizeof(ids)), sizeof(ids));
	CHECK(ids[0] > 0 && ids[0] != ids[1]);
}

TEST(sigchld, "PR SIGCHLD: ignored children leave no zombies")
{
	signal(SIGCHLD, SIG_IGN);
	pid_t pid = exits_with(0);
	CHECK_ERR(waitpid(pid, NULL, 0), ECHILD); /* waits until it is gone */
	for (int i = 0; i < 10; i++)
		exits_with(0);
	CHECK_ERR(waitpid(-1, NULL, 0), ECHILD);
	signal(SIGCHLD, SIG_DFL);
	pid = exits_with(1);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

TEST(groups, "PR process groups and sessions")
{
	pid_t pid = sleeps();

	CHECK_EQ(getpgid(0), getpgrp());
	CHECK_EQ(getpgid(pid), getpgrp());
	CHECK_ERR(setpgid(pid, -1), EINVAL);
	CHECK_ERR(setpgid(1 << 22, 0), ESRCH);
	CHECK_EQ(setpgid(pid, 0), 0);
	CHECK_EQ(getpgid(pid), pid);
	CHECK_EQ(kill(-pid, SIGKILL), 0);
	CHECK_KILLED(pid, SIGKILL);
	pid = xfork();
	if (pid == 0) {
		CHECK_EQ(setsid(), getpid());
		CHECK_EQ(getsid(0), getpid());
		CHECK_EQ(getpgrp(), getpid());
		CHECK_ERR(setsid(), EPERM);
		done();
	}
	join_child(pid);
	CHECK_ERR(kill(1 << 22, 0), ESRCH);
	CHECK_ERR(kill(getpid(), 65), EINVAL);
	CHECK_ERR(kill(getpid(), -1), EINVAL);
}

TEST(limits, "PR resource limits")
{
	struct rlimit old, rl;

	CHECK_EQ(getrlimit(RLIMIT_STACK, &old), 0);
	CHECK(old.rlim_cur >= MB);
	CHECK_ERR(getrlimit(99, &rl), EINVAL);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
	CHECK(old.rlim_cur >= 64);
	pid_t pid = xfork();
	if (pid == 0) {
		rl = (struct rlimit){ 20, 30 };
		CHECK_EQ(setrlimit(RLIMIT_NOFILE, &rl), 0);
		CHECK_ERR(fcntl(0, F_DUPFD, 25), EINVAL);
		CHECK_ERR(dup2(0, 20), EBADF);
		for (int i = 0; i < 40; i++)
			if (dup(0) < 0) {
				CHECK_EQ(errno, EMFILE);
				break;
			}
		CHECK_ERR(open("/dev/null", O_RDONLY), EMFILE);
		int fd[2];
		CHECK_ERR(pipe(fd), EMFILE);
		rl.rlim_cur = 40;
		CHECK_ERR(setrlimit(RLIMIT_NOFILE, &rl), EINVAL); /* soft over hard */
		done();
	}
	join_child(pid);
	pid = xfork();
	if (pid == 0) {
		int fd = tmpfile_fd(0);

		rl = (struct rlimit){ 1000, 1000 };
		CHECK_EQ(setrlimit(RLIMIT_FSIZE, &rl), 0);
		signal(SIGXFSZ, SIG_IGN);
		CHECK_EQ(pwrite(fd, "0123456789", 10, 995), 5);
		CHECK_ERR(pwrite(fd, "x", 1, 1000), EFBIG);
		CHECK_ERR(ftruncate(fd, 2000), EFBIG);
		done();
	}
	join_child(pid);
}

static volatile sig_atomic_t xcpu;
static clockid_t xcpu_clock = CLOCK_PROCESS_CPUTIME_ID;
static long xcpu_at[8]; /* its ms at each SIGXCPU */

static void on_xcpu(int sig)
{
	struct timespec ts;

	(void)sig;
	clock_gettime(xcpu_clock, &ts);
	if (xcpu < 8)
		xcpu_at[xcpu] = ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
	xcpu++;
}

/* How many signals came while the limit was in force is told through `seen`. */
static void burn_to_death(volatile int *seen, struct rlimit rl)
{
	struct timespec ts;
	long begin = 0;

	/* Linux may count in ticks for this, which a virtual machine makes more than the CPU clock says. */
	if (!on_faultline()) {
		xcpu_clock = CLOCK_MONOTONIC;
		clock_gettime(xcpu_clock, &ts);
		begin = ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
	}
	signal(SIGXCPU, on_xcpu);
	NEED(setrlimit(RLIMIT_CPU, &rl) == 0);
	for (;;) {
		*seen = xcpu;
		for (int i = 0; i < xcpu && i < 8; i++)
			if (xcpu_at[i] - begin < 1000 * (i + 1) - (begin ? 100 : 0))
				FAIL("SIGXCPU %d after %ld ms", i, xcpu_at[i] - begin);
		if (test_failed)
			done();
	}
}

TEST(cpu_limit, "PR RLIMIT_CPU: SIGXCPU at the soft limit and each second after, SIGKILL at the hard one",
     .seconds = 120)
{
	volatile int *seen = map(P, RW, SHANON);
	struct rlimit rl = { 1, 3 }, now;
	pid_t pid = xfork();

	if (pid == 0)
		burn_to_death(seen, rl);
	CHECK_KILLED(pid, SIGKILL);
	CHECK_EQ(*seen, 2);

	/* Without a handler the first one ends it; the limit is inherited, the time used is not. */
	pid = xfork();
	if (pid == 0) {
		rl = (struct rlimit){ 1, RLIM_INFINITY };
		NEED(setrlimit(RLIMIT_CPU, &rl) == 0);
		pid = xfork();
		if (pid == 0)
			for (;;)
				;
		CHECK_KILLED(pid, SIGXCPU);
		NEED(getrlimit(RLIMIT_CPU, &now) == 0);
		CHECK_EQ(now.rlim_cur, 1);
		done();
	}
	join_child(pid);

	/* One set by another process, for a process that runs already. */
	pid = xfork();
	if (pid == 0)
		for (;;)
			;
	rl = (struct rlimit){ 1, 1 };
	CHECK_EQ(prlimit(pid, RLIMIT_CPU, &rl, NULL), 0);
	CHECK_KILLED(pid, SIGKILL);
}

TEST(names, "PR prctl names, and /proc/self/stat shows them")
{
	char name[32] = "", text[512];

	CHECK_EQ(prctl(PR_SET_NAME, "fifteen chars..and more"), 0);
	CHECK_EQ(prctl(PR_GET_NAME, name), 0);
	CHECK(!strcmp(name, "fifteen chars.."));
	CHECK(slurp("/proc/self/stat", text, sizeof(text)) > 0);
	CHECK(strstr(text, "(fifteen chars..)") != NULL);
	CHECK_ERR(prctl(99999), EINVAL);
}

TEST(storm, "PR fork, exec and exit, many at a time", .seconds = 60)
{
	enum { N = 8 };
	pid_t pid[N];

	for (long i = 0; go_on(i, 15); i++) {
		for (int k = 0; k < N; k++) {
			pid[k] = xfork();
			if (pid[k] == 0) {
				if (k % 2) {
					char code[8];

					snprintf(code, sizeof(code), "%d", k);
					self_exec(code, NULL);
				}
				_exit(k);
			}
		}
		for (int k = N - 1; k >= 0; k--) {
			int status = wait_raw(pid[k]);

			CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == k,
				  "child %d: status 0x%x", k, status);
		}
	}
}

TEST(uts, "PR uname, sysinfo, ids")
{
	char buf[6][65];
	struct {
		long uptime;
		unsigned long loads[3], total, free, shared, buffer, total_swap, free_swap;
		unsigned short procs, pad;
		unsigned long total_high, free_high;
		unsigned unit;
		char rest[64];
	} si;

	CHECK_EQ(syscall(SYS_uname, buf), 0);
	for (int i = 0; i < 5; i++)
		CHECK(buf[i][0] && memchr(buf[i], 0, 65));
	CHECK(!strcmp(buf[4], "x86_64"));
	CHECK_EQ(syscall(SYS_sysinfo, &si), 0);
	CHECK(si.total >= si.free && si.free > 0 && si.unit >= 1);
	CHECK(si.procs >= 1);
	CHECK_EQ(getuid(), 0);
	CHECK_EQ(getuid() + getgid() + geteuid() + getegid(), 0);
}

static void on_sigchld(int sig)
{
	(void)sig;
}

TEST(wait_sigchld, "PR wait4 finds the child whose SIGCHLD ends its sleep", .cpus = 2, .seconds = 60)
{
	struct sigaction handle = { .sa_handler = on_sigchld }; /* without SA_RESTART */
	long early = 0;

	sigaction(SIGCHLD, &handle, NULL);
	for (long n = 0; n < rounds(1000); n++) {
		pid_t pid = fork();

		if (pid == 0) {
			for (volatile int spin = 0; spin < (n % 16) * 300; spin++)
				;
			_exit(0);
		}
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			early++;
	}
	CHECK_EQ(early, 0);
	signal(SIGCHLD, SIG_DFL);
}
