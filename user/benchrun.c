/*
 * benchrun FILE: runs a list of benchmarks in one boot, and tells the host where each begins and
 * ends.
 *
 * A line of the list is empty, a comment (#), or one of
 *     set PATH VALUE         write VALUE to a file of /proc or /sys
 *     run KEY PROGRAM ...    run a program from /bin, and wait for it
 *     count KEY PROGRAM ...  the same, and count CPU migrations by a software event:
 *                            counting costs time, so this is for the run before the measured ones
 * Words are separated by blanks; there are no quotes. Printed are lines that begin with @:
 *     @set PATH VALUE ok|ERROR
 *     @begin KEY
 *     @end KEY status S task_us T switches N faults N migrations N|-
 */
#include <linux/perf_event.h>
#include <signal.h>

#include "bench.h"

#define MAX_WORDS	64

static void set(const char *path, const char *value)
{
	const char *result = "ok";
	FILE *f = fopen(path, "w");

	if (!f || fputs(value, f) < 0 || fflush(f))
		result = strerror(errno);
	if (f)
		fclose(f);
	printf("@set %s %s %s\n", path, value, result);
}

/*
 * A region without a user instruction parts the regions of one program, however many they are, from
 * those of the next.
 */
static void separator(void)
{
	__asm__ __volatile__("xchg %%r15,%%r15; xchg %%r15,%%r15" ::: "memory");
}

/*
 * An event that counts the migrations of the process and its children from its next exec on; -1:
 * there is none.
 */
static int migrations_of(pid_t pid)
{
	struct perf_event_attr event = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(event),
		.config = PERF_COUNT_SW_CPU_MIGRATIONS,
		.disabled = 1, .inherit = 1, .enable_on_exec = 1,
	};

	return (int)syscall(SYS_perf_event_open, &event, pid, -1, -1, 0);
}

static void run(const char *key, char **words, bool count)
{
	struct rusage usage = { 0 };
	uint64_t migrations;
	int status, event = -1, go[2];
	char path[256], byte;
	pid_t pid;

	printf("@begin %s\n", key);
	fflush(stdout);
	if (pipe(go))
		fail("pipe");
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (pid == 0) {
		close(go[1]);
		if (read(go[0], &byte, 1) < 0)		/* until the event is there: end of file */
			_exit(126);
		close(go[0]);
		snprintf(path, sizeof(path), "/bin/%s", words[0]);
		execv(path, words);
		fprintf(stderr, "benchrun: %s: %s\n", path, strerror(errno));
		_exit(127);
	}
	if (count)
		event = migrations_of(pid);
	close(go[1]);
	close(go[0]);
	if (wait4(pid, &status, 0, &usage) != pid)
		fail("wait4");
	separator();
	printf("@end %s status %d task_us %ld switches %ld faults %ld migrations ", key,
	       WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
	       (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000l + usage.ru_utime.tv_usec +
		       usage.ru_stime.tv_usec,
	       usage.ru_nvcsw + usage.ru_nivcsw, usage.ru_minflt + usage.ru_majflt);
	if (event >= 0 && read(event, &migrations, sizeof(migrations)) == sizeof(migrations))
		printf("%lu\n", migrations);
	else
		printf("-\n");
	if (event >= 0)
		close(event);
}

static void obey(char *line)
{
	static const char blanks[] = " \t\n";
	char *words[MAX_WORDS + 1] = { NULL };
	int n = 0;

	for (char *word = strtok(line, blanks); word && n < MAX_WORDS; word = strtok(NULL, blanks))
		words[n++] = word;
	if (!n || words[0][0] == '#')
		return;
	if (n == 3 && !strcmp(words[0], "set"))
		set(words[1], words[2]);
	else if (n >= 3 && (!strcmp(words[0], "run") || !strcmp(words[0], "count")))
		run(words[1], words + 2, words[0][0] == 'c');
	else
		printf("@bad %s\n", words[0]);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char line[1024];
	FILE *list;

	bench_name = "benchrun";
	if (argc != 2)
		usage("FILE");
	list = fopen(argv[1], "r");
	if (!list)
		fail(argv[1]);
	while (fgets(line, sizeof(line), list))
		obey(line);
	printf("@done\n");
	return 0;
}
