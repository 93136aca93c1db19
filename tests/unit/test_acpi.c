/* arch/x86_64/acpi.c: good machines, the root pointer and the root table. */
#include "tests/unit/acpi_machine.h"

#include <errno.h>

/* --- good machines ------------------------------------------------------- */

static void check_typical(void)
{
	CHECK(out.present && out.has_srat);
	CHECK_EQ(out.lapic_phys, 0xfee00000);
	CHECK(out.has_8259);
	CHECK_EQ(out.nr_cpus, 4);
	CHECK_EQ(out.nr_enabled_cpus, 4);
	for (u32 i = 0; i < 4; i++) {
		CHECK_EQ(out.cpus[i].apic_id, i);
		CHECK_EQ(out.cpus[i].uid, i);
		CHECK_EQ(out.cpus[i].domain, i / 2);
		CHECK_EQ(out.cpus[i].node, i / 2);
	}
	CHECK_EQ(out.nr_ioapics, 1);
	CHECK_EQ(out.ioapics[0].phys, 0xfec00000);
	CHECK_EQ(out.nr_isos, 2);
	CHECK_EQ(out.isos[0].irq, 0);
	CHECK_EQ(out.isos[0].gsi, 2);
	CHECK(!out.isos[0].level && !out.isos[0].active_low);
	CHECK_EQ(out.isos[1].irq, 9);
	CHECK(out.isos[1].level && !out.isos[1].active_low);
	CHECK_EQ(out.nr_nodes, 2);
	CHECK_EQ(out.node_domain[1], 1);
	CHECK_EQ(out.distance[0][0], 10);
	CHECK_EQ(out.distance[0][1], 21);
	CHECK_EQ(out.distance[1][0], 22);
	CHECK_EQ(out.nr_memory, 3);
	CHECK_EQ(out.memory[2].base, 0x40000000);
	CHECK_EQ(out.memory[2].node, 1);
	CHECK_EQ(out.hpet_phys, 0xfed00000);
	CHECK_EQ(out.pm_timer.address, 0x608);
	CHECK_EQ(out.pm_timer.space, ACPI_SPACE_IO);
	CHECK_EQ(out.pm_timer.bits, 32);
	CHECK(out.has_s5);
	CHECK_EQ(out.s5_type_a, 5);
	CHECK_EQ(out.s5_type_b, 5);
	CHECK_EQ(out.pm1a_control.address, 0x604);
	CHECK_EQ(out.pm1b_control.address, 0);
	CHECK_EQ(out.smi_command, 0xb2);
	CHECK_EQ(out.acpi_enable, 2);
	CHECK_EQ(out.reset.address, 0xcf9);
	CHECK_EQ(out.reset_value, 0x0f);
}

TEST(typical_found_by_search)
{
	boot_2gb();
	for (int width = 4; width <= 8; width += 4) {
		image_typical(&im, width);
			CHECK_EQ(parse(), 0);
		CHECK_QUIET();
		check_typical();
	}
}

TEST(root_pointer_as_a_copy)
{
	boot_2gb();
	for (int width = 4; width <= 8; width += 4) {
		image_typical(&im, width);
		boot.rsdp_len = width == 8 ? 36 : 20;
		memcpy(boot.rsdp, im.b.data + im.rsdp, boot.rsdp_len);
		CHECK_EQ(parse(), 0);
		CHECK_QUIET();
		check_typical();
	}
}

TEST(root_pointer_at_an_address)
{
	boot_2gb();
	for (int width = 4; width <= 8; width += 4) {
		image_typical(&im, width);
		boot.rsdp_phys = IMAGE_BASE + im.rsdp;
		CHECK_EQ(parse(), 0); /* the old form ends with the image */
		CHECK_QUIET();
		check_typical();
	}
}

TEST(root_pointer_in_the_ebda)
{
	static u8 low[0xa0000];

	boot_2gb();
	image_typical(&im, 8);
	memcpy(low + 0x80000, im.b.data, im.b.len);
	/* The tables are linked for IMAGE_BASE: shift the image there, keep the pointer low. */
	static u8 all[0x100000];
	memcpy(all + IMAGE_BASE, im.b.data, im.rsdp);
	memcpy(all + 0x9fc00 + 32, im.b.data + im.rsdp, 36);
	all[0x40e] = 0xc0;
	all[0x40f] = 0x9f;
	phys_set(0, all, sizeof(all));
	CHECK_EQ(acpi_parse(&boot, &access, &out), 0);
	phys_done();
	CHECK_QUIET();
	check_typical();
}

TEST(no_tables_at_all)
{
	boot_2gb();
	im.b.len = 0;
	im.b.base = IMAGE_BASE;
	CHECK_EQ(parse(), -ENOENT);
	CHECK_WARNS(1, "no root pointer");
	CHECK(!out.present);
	CHECK_EQ(out.nr_nodes, 1);
	CHECK_EQ(out.nr_cpus, 0);
	CHECK_EQ(acpi_node_of(&out, 0x1234567), 0);
}

/* --- root pointer and root table ------------------------------------------ */

TEST(bad_copy_falls_back_to_the_search)
{
	boot_2gb();
	image_typical(&im, 8);
	boot.rsdp_len = 36;
	memcpy(boot.rsdp, "garbage", 8);
	CHECK_EQ(parse(), 0);
	CHECK_WARNS(1, "copy of the root pointer is bad");
	check_typical();
	boot.rsdp_len = 0;
	boot.rsdp_phys = 0x5000;
	CHECK_EQ(parse(), 0);
	CHECK_WARNS(1, "where the loader says");
	check_typical();
}

TEST(root_pointer_with_bad_checksum)
{
	boot_2gb();
	image_typical(&im, 8);
	im.b.data[im.rsdp + 9]++;
	CHECK_EQ(parse(), -ENOENT);
	CHECK_WARNS(2, "bad checksum");
}

TEST(extended_part_broken_uses_rsdt)
{
	size_t rsdt;

	boot_2gb();
	image_typical(&im, 8);
	/* An RSDT as well, and its address in the old half. */
	rsdt = table_begin(&im, "RSDT", 1);
	for (u32 i = 0; i < im.nr_tables; i++)
		put32(&im.b, im.tables[i]);
	table_close(&im, rsdt);
	boot.rsdp_len = 36;
	memcpy(boot.rsdp, im.b.data + im.rsdp, 36);
	memset(boot.rsdp + 16, 0, 4);
	boot.rsdp[16] = (IMAGE_BASE + rsdt) & 0xff;
	boot.rsdp[17] = (IMAGE_BASE + rsdt) >> 8 & 0xff;
	boot.rsdp[18] = (IMAGE_BASE + rsdt) >> 16;
	boot.rsdp[8] -= bytes_sum(boot.rsdp, 20);
	boot.rsdp[33] ^= 0x55; /* the extended checksum is now wrong */
	CHECK_EQ(parse(), 0);
	CHECK_WARNS(1, "using the old half");
	check_typical();

	/* Extended part right, but the XSDT broken. */
	boot.rsdp[33] ^= 0x55;
	boot.rsdp[32] -= bytes_sum(boot.rsdp, 36);
	im.b.data[im.root + 20]++;
	CHECK_EQ(parse(), 0);
	CHECK_WARNS(1, "XSDT");
	check_typical();
}

TEST(root_table_unusable)
{
	boot_2gb();
	image_typical(&im, 8);
	set32(&im.b, im.root + 4, 35);
	CHECK_EQ(parse(), -ENOENT);
	CHECK_WARNS(2, "of 35 bytes ignored");
	set32(&im.b, im.root + 4, 0xffffffff);
	CHECK_EQ(parse(), -ENOENT);
	CHECK_WARNS(2, "ignored");
	set32(&im.b, im.root + 4, 0x100000);
	CHECK_EQ(parse(), -ENOENT);
	CHECK_WARNS(2, "not all readable");
	memcpy(im.b.data + im.root, "X\1\2T", 4);
	CHECK_EQ(parse(), -ENOENT);
	CHECK_WARNS(2, "signature \"X??T\"");
}

TEST(root_entries_that_point_nowhere)
{
	boot_2gb();
	image_typical(&im, 8);
	image_begin(&im);
	dsdt_add(&im, S5_AML, S5_LEN);
	fadt_add(&im);
	size_t at = madt_begin(&im);
	four_cpus();
	table_end(&im, at);
	im.tables[im.nr_tables++] = 0;
	im.tables[im.nr_tables++] = 0xdeadbeef000;
	im.tables[im.nr_tables++] = UINT64_MAX - 1;
	image_end(&im, 8);
	CHECK_EQ(parse(), 0);
	CHECK_WARNS(2, "not readable");
	CHECK_EQ(out.nr_cpus, 4);
}

TEST(root_table_with_too_many_entries)
{
	image_begin(&im);
	size_t root = table_begin(&im, "RSDT", 1);
	for (int i = 0; i < 2000; i++)
		put32(&im.b, 0);
	table_close(&im, root);
	boot.rsdp_len = 20;
	memcpy(boot.rsdp, "RSD PTR \0FAULTL\0", 16);
	u32 at = IMAGE_BASE + root;
	memcpy(boot.rsdp + 16, &at, 4);
	boot.rsdp[8] -= bytes_sum(boot.rsdp, 20);
	CHECK_EQ(parse(), 0);
	CHECK_WARNS(3, "2000 tables, looking at 1024");
}

TEST(second_table_of_a_kind_is_ignored)
{
	boot_2gb();
	image_begin(&im);
	dsdt_add(&im, S5_AML, S5_LEN);
	fadt_add(&im);
	for (int i = 0; i < 2; i++) {
		size_t at = madt_begin(&im);

		madt_cpu(&im, 0, 10 + i, 1);
		table_end(&im, at);
	}
	image_end(&im, 8);
	parse();
	CHECK_WARNS(1, "second table APIC");
	CHECK_EQ(out.nr_cpus, 1);
	CHECK_EQ(out.cpus[0].apic_id, 10);
}

TEST(every_table_with_a_bad_checksum)
{
	static const struct {
		int table;
		const char *name;
	} all[] = { { 0, "FACP" }, { 1, "APIC" }, { 2, "HPET" }, { 3, "SRAT" }, { 4, "SLIT" } };

	boot_2gb();
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		image_typical(&im, 8);
		im.b.data[im.tables[all[i].table] - IMAGE_BASE + 30] ^= 1;
		CHECK_EQ(parse(), 0);
		CHECK(strstr(unit_warn_text(), all[i].name));
		CHECK(strstr(unit_warn_text(), "bad checksum"));
		unit_warn_reset();
		CHECK_EQ(out.pm_timer.address, i == 0 ? 0 : 0x608);
		CHECK_EQ(out.nr_cpus, i == 1 ? 0 : 4);
		CHECK_EQ(out.hpet_phys, i == 2 ? 0 : 0xfed00000);
		CHECK_EQ(out.has_srat, i != 3);
		CHECK_EQ(out.nr_nodes, i == 3 ? 1 : 2);
		CHECK_EQ(out.distance[0][1], i == 3 || i == 4 ? 20 : 21);
	}
}

TEST(every_byte_broken_is_survived)
{
	boot_2gb();
	image_typical(&im, 8);
	for (size_t at = 0; at < im.b.len; at++) {
		u8 old = im.b.data[at];

		for (int bit = 0; bit < 8; bit += 7) {
			im.b.data[at] = old ^ (1 << bit);
			parse();
		}
		im.b.data[at] = old;
	}
	unit_warn_reset();
	CHECK_EQ(parse(), 0);
	check_typical();
}
