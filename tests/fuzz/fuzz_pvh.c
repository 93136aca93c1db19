/* Input: physical memory from 0x1000, the start information first. */
#include "arch/x86_64/pvh.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/phys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct boot_info out;

	phys_set(0x1000, data, size);
	pvh_parse(0x1000, phys_map, &out);
	phys_done();
	fuzz_check_boot_info(&out);
	return 0;
}
