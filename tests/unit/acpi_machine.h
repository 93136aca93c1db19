/*
 * What the tests of arch/x86_64/acpi*.c share: an image of tables in the making (build.h), its
 * parsing, and what must hold of every result.
 */
#ifndef TESTS_UNIT_ACPI_MACHINE_H
#define TESTS_UNIT_ACPI_MACHINE_H

#include "arch/x86_64/acpi.h"
#include "tests/unit/build.h"
#include "tests/unit/phys.h"
#include "tests/unit/unit.h"

static struct acpi_image im;
static struct acpi_info out;
static struct boot_info boot;

static const struct acpi_access access = { phys_map };

/* 2 GB of usable memory, as image_typical()'s SRAT describes it. */
static inline void boot_2gb(void)
{
	memset(&boot, 0, sizeof(boot));
	bootinfo_add_range(&boot, 0, 0xa0000, BOOT_MEM_USABLE);
	bootinfo_add_range(&boot, 0x100000, 0x7ff00000, BOOT_MEM_USABLE);
}

/* What must hold whatever the tables say. */
static inline void check_sane(void)
{
	u64 end = 0;

	CHECK(out.nr_nodes >= 1 && out.nr_nodes <= MAX_NODES);
	CHECK(out.nr_cpus <= ACPI_MAX_CPUS && out.nr_enabled_cpus <= out.nr_cpus);
	for (u32 i = 0; i < out.nr_cpus; i++) {
		CHECK(out.cpus[i].node >= 0 && out.cpus[i].node < (int)out.nr_nodes);
		CHECK_EQ(out.cpus[i].enabled, i < out.nr_enabled_cpus);
	}
	for (u32 i = 0; i < out.nr_memory; i++) {
		CHECK(out.memory[i].len > 0 && out.memory[i].base >= end);
		CHECK(out.memory[i].node >= 0 && out.memory[i].node < (int)out.nr_nodes);
		end = out.memory[i].base + out.memory[i].len;
	}
	for (u32 i = 0; i < out.nr_nodes; i++) {
		for (u32 j = 0; j < out.nr_nodes; j++)
			CHECK(i == j ? out.distance[i][j] == 10 : out.distance[i][j] > 10);
	}
}

static inline int parse(void)
{
	int err;

	/* The BIOS area is there as a whole; each table is still mapped exactly. */
	memset(im.b.data + im.b.len, 0, sizeof(im.b.data) - im.b.len);
	phys_set(im.b.base, im.b.data, MAX(im.b.len, 0x20000ul));
	memset(&out, 0xee, sizeof(out));
	err = acpi_parse(&boot, &access, &out);
	phys_done();
	check_sane();
	return err;
}

/* The last table of the root table, whose checksum is made right again. */
static inline void parse_again(size_t table)
{
	table_sum(&im, table);
	CHECK_EQ(parse(), 0);
}

/* A machine with only these: MADT from madt(), SRAT from srat(). */
static inline void build(void (*madt)(void), void (*srat)(void))
{
	size_t at;

	image_begin(&im);
	dsdt_add(&im, S5_AML, S5_LEN);
	fadt_add(&im);
	at = madt_begin(&im);
	madt();
	table_end(&im, at);
	if (srat) {
		at = srat_begin(&im, 3);
		srat();
		table_end(&im, at);
	}
	image_end(&im, 8);
}

static inline void four_cpus(void)
{
	for (int i = 0; i < 4; i++)
		madt_cpu(&im, i, i, 1);
}

#endif
