/*
 * init: the first program. Runs what `run=` says and ends with how that went.
 *
 *   run="pft -t 1,2; sh -c 'echo done'"
 *
 * Commands are separated by ';', words by blanks; single and double quotes
 * hold a word together. Programs are looked for in /bin and /tests. Each runs
 * as the foreground job of the console. All are run, and the status is 0 if
 * all succeeded, else that of the first that did not (128 + signal if it was
 * killed, 127 if there is no such program).
 *
 * Faultline hands the string over as argv[1] and passes PID 1's exit status
 * on to whoever started the machine. The same initramfs boots Linux too: then
 * the string is taken from /proc/cmdline, the usual file systems are mounted
 * first, and the status leaves by QEMU's isa-debug-exit device.
 *
 * As an ordinary process it does the same without touching the machine.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define MAX_WORDS 128
#define EXIT_PORT 0x501 /* isa-debug-exit; the kernel's own values are in tests/qemu.sh */

static char *const environment[] = {
	"PATH=/bin:/tests", "HOME=/root", "TERM=linux", "USER=root", "SHELL=/bin/sh", NULL,
};

/* The console is this session's terminal. (A session for each program would not do: when its leader ends,
 * Linux throws away what the terminal has not sent yet.) */
static bool has_terminal;

static bool on_faultline(void)
{
	struct utsname u;

	return uname(&u) == 0 && (strcasestr(u.sysname, "faultline") ||
				  strcasestr(u.release, "faultline") ||
				  strcasestr(u.version, "faultline"));
}

static void mount_if_missing(const char *type, const char *dir, const char *probe)
{
	struct stat st;

	if (stat(probe, &st) == 0)
		return;
	mkdir(dir, 0755);
	if (mount(type, dir, type, 0, NULL) != 0 && errno != EBUSY)
		fprintf(stderr, "init: cannot mount %s: %s\n", dir, strerror(errno));
}

static void open_console(void)
{
	int fd;

	if (fcntl(0, F_GETFD) >= 0)
		return;
	fd = open("/dev/console", O_RDWR);
	for (int i = 0; fd >= 0 && i < 3; i++)
		if (fd != i)
			dup2(fd, i);
}

/* The value of run= in the kernel's command line, or NULL. */
static char *run_from_cmdline(void)
{
	static char line[8192];
	int fd = open("/proc/cmdline", O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return NULL;
	line[n] = 0;
	for (char *p = line; *p;) {
		char *start = p;
		bool quoted = false;

		for (; *p && (quoted || !isspace(*p)); p++)
			if (*p == '"')
				quoted = !quoted;
		if (*p)
			*p++ = 0;
		if (*start == '"') { /* as Linux shows it: "run=a b" */
			start++;
			start[strcspn(start, "\"")] = 0;
		}
		if (strncmp(start, "run=", 4) == 0) {
			start += 4;
			if (*start == '"') {
				start++;
				start[strcspn(start, "\"")] = 0;
			}
			return start;
		}
	}
	return NULL;
}

/*
 * Cut the next command off *text into words, in place; the end of the list is
 * NULL. Returns the number of words, 0 for an empty command, -1 at the end of
 * the text, -2 for an open quote or too many words.
 */
static int next_command(char **text, char *words[MAX_WORDS])
{
	char *in = *text, *out = in;
	int count = 0;

	if (!*in)
		return -1;
	for (;;) {
		while (isspace(*in))
			in++;
		if (!*in || *in == ';')
			break;
		if (count == MAX_WORDS - 1)
			return -2;
		words[count++] = out;
		while (*in && *in != ';' && !isspace(*in)) {
			char quote = *in;

			if (quote != '\'' && quote != '"') {
				*out++ = *in++;
				continue;
			}
			for (in++; *in != quote; in++) {
				if (!*in)
					return -2;
				*out++ = *in;
			}
			in++;
		}
		if (!*in || *in == ';')
			break;
		in++;
		*out++ = 0;
	}
	*text = *in ? in + 1 : in;
	*out = 0;
	words[count] = NULL;
	return count;
}

/* Make `child` (0: the caller) a process group of its own, the one that the terminal belongs to. */
static void give_terminal(pid_t child)
{
	if (!has_terminal)
		return;
	setpgid(child, child);
	tcsetpgrp(0, child ? child : getpid());
}

static void execute(char **words)
{
	static const char *const path[] = { "/bin/", "/tests/" };
	char file[512];
	int error = ENOENT;

	give_terminal(0);
	signal(SIGTTOU, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	if (strchr(words[0], '/')) {
		execve(words[0], words, environment);
		error = errno;
	} else {
		for (int i = 0; i < 2; i++) {
			snprintf(file, sizeof(file), "%s%s", path[i], words[0]);
			execve(file, words, environment);
			if (errno != ENOENT)
				error = errno;
		}
	}
	fprintf(stderr, "init: %s: %s\n", words[0], strerror(error));
	_exit(error == ENOENT ? 127 : 126);
}

/* Run one program and wait for it, and for whatever else ends meanwhile. */
static int run(char **words)
{
	int status, result;
	pid_t child, ended;

	child = fork();
	if (child < 0) {
		printf("init: %s: fork: %s\n", words[0], strerror(errno));
		return 126;
	}
	if (child == 0)
		execute(words);
	give_terminal(child);

	do {
		ended = waitpid(-1, &status, 0);
		if (ended < 0 && errno != EINTR) {
			printf("init: %s: wait: %s\n", words[0], strerror(errno));
			return 126;
		}
	} while (ended != child);
	if (has_terminal)
		tcsetpgrp(0, getpgrp());

	if (WIFSIGNALED(status)) {
		result = 128 + WTERMSIG(status);
		printf("init: %s: killed by signal %d (%s)\n", words[0], WTERMSIG(status),
		       strsignal(WTERMSIG(status)));
	} else {
		result = WEXITSTATUS(status);
		printf("init: %s: exit status %d\n", words[0], result);
	}
	fflush(stdout);
	return result;
}

static int run_all(char *text)
{
	char *words[MAX_WORDS];
	int count, first_bad = 0;

	while ((count = next_command(&text, words)) != -1) {
		int status;

		if (count == -2) {
			printf("init: run=: a quote is not closed, or a command has over %d words\n",
			       MAX_WORDS - 1);
			return first_bad ? first_bad : 2;
		}
		if (count == 0)
			continue;
		status = run(words);
		if (first_bad == 0)
			first_bad = status;
	}
	return first_bad;
}

static void end_linux(int status)
{
	sync();
	if (ioperm(EXIT_PORT, 2, 1) == 0)
		outw(0x40 | (status < 0x3f ? status : 0x3f), EXIT_PORT);
	reboot(RB_POWER_OFF);
}

int main(int argc, char **argv)
{
	bool first = getpid() == 1, faultline = on_faultline();
	char standard[] = "pft -t 1,2,4", shell[] = "sh";
	char *text = NULL;
	int status;

	if (first) {
		signal(SIGINT, SIG_IGN);
		signal(SIGTTOU, SIG_IGN);
		mount_if_missing("proc", "/proc", "/proc/self");
		mount_if_missing("sysfs", "/sys", "/sys/devices");
		mount_if_missing("devtmpfs", "/dev", "/dev/null");
		open_console();
		setsid();
		has_terminal = ioctl(0, TIOCSCTTY, 0) == 0;
		if (!faultline) /* whose argv[1] is any word that Linux does not know */
			text = run_from_cmdline();
	}
	if (!text && argc > 1)
		text = argv[1];
	if (!text || !*text)
		text = isatty(0) ? shell : standard;

	status = run_all(text);
	printf("init: status %d\n", status);
	fflush(stdout);
	tcdrain(1);
	if (first && !faultline)
		end_linux(status);
	return status;
}
