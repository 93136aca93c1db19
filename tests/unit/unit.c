/*
 * Runs every registered test in a child process and reports in KTAP. Exits with
 * 1 if one failed. Arguments: names of the tests to run (default: all).
 */
#include "tests/unit/unit.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel/bootinfo.h"

#define TIMEOUT_SECONDS 120

static struct unit_test *tests, **last = &tests;

void unit_register(struct unit_test *test)
{
	*last = test;
	last = &test->next;
}

void unit_fail(const char *file, int line, const char *fmt, ...)
{
	char text[4096];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	printf("# %s:%d: ", file, line);
	for (const char *p = text; *p; p++)
		printf(*p == '\n' && p[1] ? "\n# " : "%c", *p);
	printf("\n");
	fflush(stdout);
	_exit(1);
}

/* --- boot_warn ----------------------------------------------------------- */

static unsigned nr_warnings;
static char warn_text[16384];

void boot_warn(const char *fmt, ...)
{
	char line[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	nr_warnings++;
	if (strlen(warn_text) + strlen(line) + 2 > sizeof(warn_text))
		return; /* many: the first ones tell enough */
	strcat(warn_text, line);
	strcat(warn_text, "\n");
}

unsigned unit_warnings(void)
{
	return nr_warnings;
}

const char *unit_warn_text(void)
{
	return warn_text;
}

void unit_warn_reset(void)
{
	nr_warnings = 0;
	warn_text[0] = 0;
}

/* ------------------------------------------------------------------------- */

static bool wanted(const struct unit_test *test, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], test->name))
			return true;
	}
	return argc < 2;
}

/* True if it passed. */
static bool run_one(const struct unit_test *test)
{
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child < 0) {
		perror("# fork");
		return false;
	}
	if (child == 0) {
		dup2(STDOUT_FILENO, STDERR_FILENO);
		alarm(TIMEOUT_SECONDS);
		test->run();
		fflush(stdout);
		exit(0); /* not _exit: the leak checker runs at exit */
	}
	if (waitpid(child, &status, 0) < 0)
		return false;
	if (WIFSIGNALED(status))
		printf("# %s: killed by signal %d%s\n", test->name, WTERMSIG(status),
		       WTERMSIG(status) == SIGALRM ? " (too slow)" : "");
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv)
{
	int n = 0, failed = 0;

	for (struct unit_test *t = tests; t; t = t->next)
		n += wanted(t, argc, argv);
	printf("KTAP version 1\n1..%d\n", n);
	n = 0;
	for (struct unit_test *t = tests; t; t = t->next) {
		bool ok;

		if (!wanted(t, argc, argv))
			continue;
		ok = run_one(t);
		failed += !ok;
		printf("%s %d %s\n", ok ? "ok" : "not ok", ++n, t->name);
	}
	return failed || !n;
}
