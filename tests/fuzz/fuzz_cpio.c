/* Input: the archive as it is. */
#include "kernel/cpio.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cpio_reader reader;
	struct cpio_entry entry;
	size_t last = 0;
	int got;

	cpio_open(&reader, data, size);
	while ((got = cpio_next(&reader, &entry)) == 1) {
		size_t len = strlen(entry.name);

		MUST(len > 0 && len < CPIO_NAME_MAX && entry.name[0] != '/');
		MUST(strcmp(entry.name, "..") && strncmp(entry.name, "../", 3));
		MUST(!strstr(entry.name, "/../"));
		MUST(len < 3 || strcmp(entry.name + len - 3, "/.."));
		fuzz_touch(entry.data, entry.size);
		MUST(reader.pos > last && reader.pos <= size);
		last = reader.pos;
	}
	MUST(got == 0 ? !reader.error : reader.error != NULL);
	MUST(cpio_next(&reader, &entry) == got);
	return 0;
}
