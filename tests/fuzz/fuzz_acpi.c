/*
 * Input: one byte of options, then physical memory from 0xe0000. Option bit 0:
 * make every table's checksum right, without which nearly nothing gets through.
 */
#include "arch/x86_64/acpi.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/phys.h"

static void check_cpus(const struct acpi_info *info)
{
	MUST(info->nr_enabled_cpus <= info->nr_cpus && info->nr_cpus <= ACPI_MAX_CPUS);
	for (u32 i = 0; i < info->nr_cpus; i++) {
		MUST(info->cpus[i].node >= 0 && info->cpus[i].node < (int)info->nr_nodes);
		MUST(info->cpus[i].enabled == (i < info->nr_enabled_cpus));
		for (u32 j = 0; j < i; j++)
			MUST(info->cpus[i].apic_id != info->cpus[j].apic_id);
	}
}

static void check_nodes(const struct acpi_info *info)
{
	u64 end = 0;

	MUST(info->nr_nodes >= 1 && info->nr_nodes <= MAX_NODES);
	for (u32 i = 0; i < info->nr_nodes; i++) {
		MUST(i == 0 || info->node_domain[i] > info->node_domain[i - 1]);
		for (u32 j = 0; j < info->nr_nodes; j++)
			MUST(i == j ? info->distance[i][j] == 10 : info->distance[i][j] > 10);
	}
	MUST(info->nr_memory <= ACPI_MAX_MEMORY);
	for (u32 i = 0; i < info->nr_memory; i++) {
		MUST(info->memory[i].len && info->memory[i].base >= end);
		MUST(info->memory[i].node >= 0 && info->memory[i].node < (int)info->nr_nodes);
		end = info->memory[i].base + info->memory[i].len;
	}
}

/* Every usable byte is handed out exactly once, to the right node. */
static void check_usable(const struct acpi_info *info, const struct boot_info *boot)
{
	static struct acpi_memory piece[1024];
	size_t n = acpi_usable_memory(info, boot, piece, ARRAY_SIZE(piece));
	u64 usable = 0, given = 0;

	for (size_t i = 0; i < n; i++) {
		MUST(piece[i].len);
		MUST(i == 0 || piece[i].base >= piece[i - 1].base + piece[i - 1].len);
		MUST(piece[i].node == acpi_node_of(info, piece[i].base));
		MUST(piece[i].node == acpi_node_of(info, piece[i].base + piece[i].len - 1));
		given += piece[i].len;
	}
	for (u32 i = 0; i < boot->nr_ranges; i++)
		usable += boot->ranges[i].type == BOOT_MEM_USABLE ? boot->ranges[i].len : 0;
	MUST(given == usable);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct acpi_access access = { phys_map };
	static struct acpi_info info;
	static struct boot_info boot;

	if (size < 1)
		return 0;
	memset(&boot, 0, sizeof(boot));
	bootinfo_add_range(&boot, 0, 0xa0000, BOOT_MEM_USABLE);
	bootinfo_add_range(&boot, 0x100000, 0x7ff00000, BOOT_MEM_USABLE);
	bootinfo_add_range(&boot, 0xe0000000, 0x10000000, BOOT_MEM_RESERVED);
	bootinfo_add_range(&boot, 0x100000000, 0x80000000, BOOT_MEM_USABLE);
	boot.rsdp_phys = 0xe0000; /* the search would want all of 0xe0000 to 0xfffff */

	phys.fix_checksums = data[0] & 1;
	phys_set(0xe0000, data + 1, size - 1);
	acpi_parse(&boot, &access, &info);
	phys_done();

	check_cpus(&info);
	check_nodes(&info);
	check_usable(&info, &boot);
	MUST(info.nr_ioapics <= ACPI_MAX_IOAPICS && info.nr_isos <= ACPI_MAX_ISOS);
	MUST(!info.has_s5 || (info.s5_type_a <= 7 && info.s5_type_b <= 7));
	return 0;
}
