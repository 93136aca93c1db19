/*
 * Runs the tests of one program: see harness.h.
 *
 * The parent allocates nothing after its warm-up, so that what the ledger shows is the kernel's
 * doing. A test's processes form one process group; when the test's own process has ended the rest
 * of the group is killed, and the ledger is read only when the group is empty.
 */
#include "internal.h"

#include <sys/prctl.h>

#define DEFAULT_SECONDS 30
#define LEDGER          "/sys/kernel/mm/faultline/ledger"

static struct test *tests; /* in order of line */
static volatile sig_atomic_t timed_out;

void test_register(struct test *t)
{
	struct test **at = &tests;

	while (*at && (*at)->line < t->line)
		at = &(*at)->next;
	t->next = *at;
	*at = t;
}

/* ---- the ledger ------------------------------------------------------------------------- */

struct ledger {
	char text[4096];
	bool there;
};

static struct ledger before, after;

static void ledger_read(struct ledger *l)
{
	l->there = slurp(LEDGER, l->text, sizeof(l->text)) > 0;
}

/* True if equal; with `say_so` names every line that differs. */
static bool ledger_same(bool say_so)
{
	char *a = before.text, *b = after.text;
	bool same = true;

	while (*a || *b) {
		int la = strcspn(a, "\n"), lb = strcspn(b, "\n");

		if (la != lb || memcmp(a, b, la)) {
			same = false;
			if (say_so)
				diag("ledger: before '%.*s', after '%.*s'", la, a, lb, b);
		}
		a += la + (a[la] == '\n');
		b += lb + (b[lb] == '\n');
	}
	return same;
}

/*
 * What the last processes of a test left may still be on its way back when they have been reaped.
 */
static bool ledger_balanced(void)
{
	for (int try = 0;; try++) {
		ledger_read(&after);
		if (!before.there || ledger_same(try == 5))
			return true;
		if (try == 5)
			return false;
		sleep_ms(20);
	}
}

/* ---- running ---------------------------------------------------------------------------- */

static volatile pid_t running;

static void on_alarm(int sig)
{
	(void)sig;
	timed_out = 1;
	if (running > 0) {
		kill(-running, SIGKILL);
		kill(running, SIGKILL);
	}
}

static void set_alarm(int seconds)
{
	struct itimerval it = { .it_value.tv_sec = seconds };

	setitimer(ITIMER_REAL, &it, NULL);
}

/* Ends what is left of the test's process group; false if something does not die. */
static bool clear_group(pid_t group)
{
	for (int try = 0; try < 300; try++) {
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (kill(-group, SIGKILL) < 0 && errno == ESRCH)
			return true;
		sleep_ms(try < 100 ? 1 : 20);
	}
	return false;
}

/* Runs one test to its end. 0 passed, 1 failed, SKIPPED with the reason in buf. */
static int run_one(struct test *t, char *reason, size_t size)
{
	int fd[2], status = 0;
	pid_t got;

	if (pipe(fd) < 0)
		return 1;
	timed_out = 0;
	pid_t pid = fork();

	if (pid == 0) {
		setpgid(0, 0);
		close(fd[0]);
		skip_fd = fd[1];
		test_begun = now_ns();
		t->run();
		done();
	}
	if (pid < 0) {
		diag("fork: %s", errno_name(errno));
		return 1;
	}
	setpgid(pid, pid);
	running = pid;
	set_alarm(t->seconds ? t->seconds : DEFAULT_SECONDS);
	/*
	 * SIGKILL follows at the alarm; a process that even that does not end must not hang the
	 * whole run.
	 */
	do
		got = waitpid(pid, &status, timed_out ? WNOHANG : 0);
	while ((got < 0 && errno == EINTR) ||
	       (got == 0 && timed_out++ < 100 && (sleep_ms(20), true)));
	set_alarm(0);
	running = 0;
	bool cleared = clear_group(pid);

	rp_disarm_all();
	close(fd[1]);
	fcntl(fd[0], F_SETFL, O_NONBLOCK); /* what would not die may hold the other end */
	ssize_t n = read(fd[0], reason, size - 1);
	reason[n > 0 ? n : 0] = 0;
	close(fd[0]);

	if (got != pid) {
		diag("hang: still running after %d s, and SIGKILL does not end it",
		     t->seconds ? t->seconds : DEFAULT_SECONDS);
		return 1;
	}
	if (timed_out) {
		diag("hang: killed after %d s", t->seconds ? t->seconds : DEFAULT_SECONDS);
		return 1;
	}
	if (WIFSIGNALED(status)) {
		diag("killed by signal %d", WTERMSIG(status));
		return 1;
	}
	if (!cleared) {
		diag("processes of the test are left that SIGKILL does not end");
		return 1;
	}
	return WEXITSTATUS(status);
}

/* Makes the kernel create what it creates once: caches, per-CPU lists, the tmpfs directories. */
static void *warm_thread(void *arg)
{
	pin((int)(intptr_t)arg);
	memset(map(64 * P, RW, ANON), 1, 64 * P);
	return NULL;
}

static void warm_up(void)
{
	int fd = tmpfile_fd(8 * P), pipes[2];
	char *m = map_fd(8 * P, RW, MAP_SHARED, fd, 0);
	int n = ncpus() < 16 ? ncpus() : 16;
	pthread_t t[16];

	memset(m, 1, 8 * P);
	for (int i = 0; i < n; i++)
		t[i] = start(warm_thread, (void *)(intptr_t)i);
	for (int i = 0; i < n; i++)
		join(t[i]);
	loads(NULL);
	NEED(pipe(pipes) == 0 && write(pipes[1], m, P) == (ssize_t)P);
	pid_t pid = xfork();

	if (pid == 0) {
		m[0] = 2;
		done();
	}
	join_child(pid);
	sleep_ms(1);
}

static struct test warm_up_test = { .title = "warm-up", .run = warm_up };

int main(int argc, char **argv)
{
	const char *pattern = "", *env = getenv("FAULTLINE_SCALE");
	char reason[256];
	int opt, count = 0, number = 0, failed = 0;
	bool list = false, show_time = false;

	if (argc > 1 && !strcmp(argv[1], "--exec"))
		return exec_main ? exec_main(argc - 2, argv + 2) : argc > 2 ? atoi(argv[2]) : 0;
	if (getenv("FAULTLINE_ARGC")) /* executed without arguments, by a test of just that */
		return argc;
	if (env)
		scale = strtod(env, NULL);
	while ((opt = getopt(argc, argv, "s:lt")) != -1) {
		if (opt == 's')
			scale = strtod(optarg, NULL);
		else if (opt == 'l')
			list = true;
		else if (opt == 't')
			show_time = true;
		else
			return 2;
	}
	if (optind < argc)
		pattern = argv[optind];
	if (scale <= 0)
		scale = 1;
	if (sched_getaffinity(0, sizeof(all_cpus), &all_cpus) < 0 ||
	    (cpu_count = CPU_COUNT(&all_cpus)) == 0) {
		say("Bail out! sched_getaffinity: %s\n", errno_name(errno));
		return 2;
	}
	for (struct test *t = tests; t; t = t->next) {
		count += strstr(t->title, pattern) != NULL;
		if (list)
			say("%s\n", t->title);
	}
	if (list)
		return 0;

	struct sigaction sa = { .sa_handler = on_alarm };

	sigaction(SIGALRM, &sa, NULL);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	say("KTAP version 1\n1..%d\n", count);
	if (run_one(&warm_up_test, reason, sizeof(reason)) != 0)
		diag("the warm-up failed");
	/* The buffers are touched before anything counts. */
	ledger_read(&before);
	ledger_read(&after);

	for (struct test *t = tests; t; t = t->next) {
		int result;

		if (!strstr(t->title, pattern))
			continue;
		number++;
		if (t->cpus > ncpus()) {
			say("ok %d %s # SKIP needs %d CPUs\n", number, t->title, t->cpus);
			continue;
		}
		ledger_read(&before);
		uint64_t begun = now_ns();
		result = run_one(t, reason, sizeof(reason));
		if (show_time)
			diag("%lu ms", (now_ns() - begun) / 1000000);
		if (!t->no_ledger && !ledger_balanced())
			result = 1;
		if (result == SKIPPED)
			say("ok %d %s # SKIP %s\n", number, t->title, reason);
		else
			say("%sok %d %s\n", result ? "not " : "", number, t->title);
		failed += result != 0 && result != SKIPPED;
	}
	return failed != 0;
}
