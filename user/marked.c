/*
 * marked PROGRAM ARGUMENTS...: runs a program, from /bin or /tests, between two markers, so that
 * all of it is a region of the metronome. Ends with the program's status, or 128 + the signal that
 * killed it.
 */
#include "bench.h"

int main(int argc, char **argv)
{
	int status;
	pid_t pid;

	bench_name = "marked";
	if (argc < 2)
		usage("PROGRAM ARGUMENTS...");
	setenv("PATH", "/bin:/tests", 0);
	marker();
	pid = fork();
	if (pid == 0) {
		execvp(argv[1], argv + 1);
		fprintf(stderr, "marked: %s: %s\n", argv[1], strerror(errno));
		_exit(127);
	}
	if (pid < 0)
		fail("fork");
	if (waitpid(pid, &status, 0) != pid)
		fail("waitpid");
	marker();
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
