/* Input: the information structure as it is. */
#include "arch/x86_64/multiboot2.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct boot_info out;

	multiboot2_parse(data, size, &out);
	fuzz_check_boot_info(&out);
	return 0;
}
