/*
 * Runs a fuzz target over its corpus without libFuzzer, as one KTAP test per input.
 * For the program FOLDER/test_corpus_NAME that is FOLDER/corpus/NAME; the inputs kept
 * in tests/fuzz/found/NAME, if any, are run too.
 */
#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

static int number;

static uint8_t *read_file(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data;

	if (!f)
		return NULL;
	fseek(f, 0, SEEK_END);
	*size = ftell(f);
	rewind(f);
	data = malloc(*size ? *size : 1);
	if (fread(data, 1, *size, f) != *size) {
		free(data);
		data = NULL;
	}
	fclose(f);
	return data;
}

/* In a child, so that a crash is one failure. */
static bool run_file(const char *path)
{
	size_t size;
	uint8_t *data = read_file(path, &size);
	int status;

	if (!data)
		return false;
	fflush(stdout);
	if (fork() == 0) {
		dup2(STDOUT_FILENO, STDERR_FILENO);
		alarm(30);
		LLVMFuzzerTestOneInput(data, size);
		free(data);
		exit(0);
	}
	free(data);
	return wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool run_folder(const char *folder)
{
	struct dirent **names;
	bool all_ok = true;
	int n = scandir(folder, &names, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		char path[512];
		bool ok;

		if (names[i]->d_name[0] != '.') {
			snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name);
			ok = run_file(path);
			all_ok &= ok;
			printf("%s %d %s\n", ok ? "ok" : "not ok", ++number, names[i]->d_name);
		}
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return all_ok;
}

int main(int argc, char **argv)
{
	const char *name = strstr(argv[0], "test_corpus_");
	char folder[256];
	bool ok;

	if (!name)
		return 2;
	printf("KTAP version 1\n");
	snprintf(folder, sizeof(folder), "%.*scorpus/%s", (int)(name - argv[0]), argv[0],
		 name + strlen("test_corpus_"));
	name += strlen("test_corpus_");
	ok = run_folder(folder);
	snprintf(folder, sizeof(folder), "tests/fuzz/found/%s", name);
	ok &= run_folder(folder);
	printf("1..%d\n", number);
	return !ok || !number;
}
