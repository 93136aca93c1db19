/* Input: a command line. */
#include "kernel/param.h"
#include "tests/fuzz/fuzz.h"

PARAM_ENUM(mode, "vm.ptl", PARAM_RUNTIME, 1, "mm", "pte", "split", "atomic");
PARAM_INT(count, "n", PARAM_RUNTIME, 0, -100, 100);
PARAM_INT(mem, "mem", PARAM_SIZE, 0, 0, INT64_MAX);
PARAM_BOOL(flag, "v", PARAM_RUNTIME, false);
PARAM_STRING(run, "run", PARAM_RUNTIME, 16, "init");

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *line = malloc(size + 1);
	char before[64], after[64];

	memcpy(line, data, size);
	line[size] = 0;
	params_parse(line);
	free(line);
	MUST(mode >= 0 && mode <= 3);
	MUST(count >= -100 && count <= 100);
	MUST(mem >= 0);
	MUST(memchr(run, 0, sizeof(run)));

	/* What is read can be written back and is then the same. */
	params_for_each(p) {
		MUST(param_format(p, before, sizeof(before)) < (int)sizeof(before));
		if (!(p->flags & PARAM_RUNTIME) || strchr(before, '\n'))
			continue;
		MUST(param_write(p->name, before) == 0);
		param_format(p, after, sizeof(after));
		MUST(!strcmp(before, after));
	}
	return 0;
}
