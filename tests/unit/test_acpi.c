/* arch/x86_64/acpi*.c: good machines, and everything firmware gets wrong. */
#include "tests/unit/unit.h"

#include <errno.h>

#include "arch/x86_64/acpi.h"
#include "tests/unit/build.h"
#include "tests/unit/phys.h"

static struct acpi_image im;
static struct acpi_info out;
static struct boot_info boot;

static const struct acpi_access access = { phys_map };

/* 2 GB of usable memory, as image_typical()'s SRAT describes it. */
static void boot_2gb(void)
{
	memset(&boot, 0, sizeof(boot));
	bootinfo_add_range(&boot, 0, 0xa0000, BOOT_MEM_USABLE);
	bootinfo_add_range(&boot, 0x100000, 0x7ff00000, BOOT_MEM_USABLE);
}

/* What must hold whatever the tables say. */
static void check_sane(void)
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

static int parse(void)
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
static void parse_again(size_t table)
{
	table_sum(&im, table);
	CHECK_EQ(parse(), 0);
}

/* A machine with only these: MADT from madt(), SRAT from srat(). */
static void build(void (*madt)(void), void (*srat)(void))
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

static void four_cpus(void)
{
	for (int i = 0; i < 4; i++)
		madt_cpu(&im, i, i, 1);
}

static void two_gb_in_node_0(void)
{
	srat_memory(&im, 0, 0x80000000, 0, 1);
}

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

/* --- MADT ------------------------------------------------------------------ */

static void no_cpus(void)
{
}

TEST(madt_without_cpus)
{
	build(no_cpus, NULL);
	parse();
	CHECK_WARNS(1, "no enabled CPU");
	CHECK_EQ(out.nr_cpus, 0);
}

static void mixed_cpus(void)
{
	madt_cpu(&im, 0, 7, 0);          /* empty socket */
	madt_cpu(&im, 1, 3, 1);
	madt_x2apic(&im, 1000, 300, 1);
	madt_cpu(&im, 2, 0xff, 0);       /* unused entry, as old firmware has */
	madt_x2apic(&im, 1001, 0xffffffff, 0);
	madt_cpu(&im, 3, 8, 2);          /* may come online later */
}

TEST(madt_enabled_cpus_come_first)
{
	build(mixed_cpus, NULL);
	parse();
	CHECK_QUIET();
	CHECK_EQ(out.nr_cpus, 4);
	CHECK_EQ(out.nr_enabled_cpus, 2);
	CHECK_EQ(out.cpus[0].apic_id, 3);
	CHECK_EQ(out.cpus[1].apic_id, 300);
	CHECK_EQ(out.cpus[1].uid, 1000);
	CHECK_EQ(out.cpus[2].apic_id, 7);
	CHECK_EQ(out.cpus[3].apic_id, 8);
}

static void duplicate_cpus(void)
{
	four_cpus();
	madt_cpu(&im, 9, 2, 1);
	madt_x2apic(&im, 10, 3, 1);
	madt_cpu(&im, 11, 1, 0); /* disabled: may repeat silently */
	madt_cpu(&im, 12, 0xff, 1);
}

TEST(madt_duplicate_and_impossible_cpus)
{
	build(duplicate_cpus, NULL);
	parse();
	CHECK(strstr(unit_warn_text(), "2 CPUs with a number already seen ignored (first: APIC 2)"));
	CHECK_WARNS(2, "1 enabled CPUs without a number");
	CHECK_EQ(out.nr_cpus, 4);
	CHECK_EQ(out.cpus[2].uid, 2);
}

static void many_cpus(void)
{
	for (u32 i = 0; i < 600; i++)
		madt_x2apic(&im, i, i * 2, 1);
	for (u32 i = 0; i < 50; i++)
		madt_x2apic(&im, i, 5000 + i, 0);
}

TEST(madt_more_cpus_than_there_is_room)
{
	build(many_cpus, NULL);
	parse();
	CHECK_WARNS(1, "88 CPUs above 512");
	CHECK_EQ(out.nr_cpus, 512);
	CHECK_EQ(out.nr_enabled_cpus, 512);
	CHECK_EQ(out.cpus[511].apic_id, 1022);
}

static void disabled_then_enabled(void)
{
	for (u32 i = 0; i < 600; i++)
		madt_x2apic(&im, i, 5000 + i, 0);
	four_cpus();
}

TEST(madt_empty_sockets_take_no_ones_place)
{
	build(disabled_then_enabled, NULL);
	parse();
	CHECK_QUIET();
	CHECK_EQ(out.nr_enabled_cpus, 4);
	CHECK_EQ(out.nr_cpus, 512);
}

static size_t bad_entry;
static u8 bad_length;

static void cpus_around_a_bad_entry(void)
{
	madt_cpu(&im, 0, 0, 1);
	bad_entry = im.b.len;
	put8(&im.b, 77);
	put8(&im.b, bad_length);
	madt_cpu(&im, 1, 1, 1);
}

TEST(madt_entry_of_length_below_two_or_too_long)
{
	static const u8 lengths[] = { 0, 1, 11, 255 };

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		bad_length = lengths[i];
		build(cpus_around_a_bad_entry, NULL);
		parse();
		CHECK_WARNS(1, "the rest is ignored"); /* once, in spite of three passes */
		CHECK_EQ(out.nr_cpus, 1);
	}
	bad_length = 2; /* unknown but well-formed */
	build(cpus_around_a_bad_entry, NULL);
	parse();
	CHECK_QUIET();
	CHECK_EQ(out.nr_cpus, 2);
	bad_length = 10; /* swallows the CPU behind it */
	build(cpus_around_a_bad_entry, NULL);
	parse();
	CHECK_QUIET();
	CHECK_EQ(out.nr_cpus, 1);
}

static void one_byte_left(void)
{
	four_cpus();
	put8(&im.b, 0);
}

TEST(madt_ends_inside_an_entry_header)
{
	build(one_byte_left, NULL);
	parse();
	CHECK_WARNS(1, "entry of 0 bytes");
	CHECK_EQ(out.nr_cpus, 4);
}

static void short_entries(void)
{
	static const u8 types[] = { 0, 1, 2, 5, 9 };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		put8(&im.b, types[i]);
		put8(&im.b, 7);
		put_raw(&im.b, "\1\1\1\1\1", 5);
	}
	madt_cpu(&im, 0, 4, 1);
}

TEST(madt_entries_shorter_than_their_type)
{
	build(short_entries, NULL);
	parse();
	CHECK_WARNS(5, "too short");
	CHECK_EQ(out.nr_cpus, 1);
	CHECK_EQ(out.nr_ioapics, 0);
	CHECK_EQ(out.nr_isos, 0);
	CHECK_EQ(out.lapic_phys, 0xfee00000);
}

static void interrupts(void)
{
	madt_cpu(&im, 0, 0, 1);
	madt_ioapic(&im, 0, 0xfec00000, 0);
	madt_ioapic(&im, 1, 0xfec01000, 24);
	madt_ioapic(&im, 2, 0xfec00000, 48); /* same address */
	madt_ioapic(&im, 3, 0, 72);          /* none */
	madt_iso(&im, 0, 2, 0);
	madt_iso(&im, 0, 3, 0);              /* again */
	madt_iso(&im, 16, 2, 0);             /* no ISA interrupt */
	madt_iso(&im, 5, 20, 0xf);
	madt_iso(&im, 10, 10, 0x5);
	put8(&im.b, 5);                      /* local APIC address override */
	put8(&im.b, 12);
	put16(&im.b, 0);
	put64(&im.b, 0x1fee00000);
}

TEST(madt_interrupt_controllers)
{
	build(interrupts, NULL);
	parse();
	CHECK_WARNS(4, "second IOAPIC");
	CHECK_EQ(out.nr_ioapics, 2);
	CHECK_EQ(out.ioapics[1].gsi_base, 24);
	CHECK_EQ(out.nr_isos, 3);
	CHECK_EQ(out.isos[0].gsi, 2);
	CHECK(out.isos[1].active_low && out.isos[1].level);
	CHECK(!out.isos[2].active_low && !out.isos[2].level);
	CHECK_EQ(out.lapic_phys, 0x1fee00000);
}

static void many_ioapics(void)
{
	madt_cpu(&im, 0, 0, 1);
	for (u32 i = 0; i < ACPI_MAX_IOAPICS + 1; i++)
		madt_ioapic(&im, i, 0xfec00000 + i * 0x1000, i * 24);
}

TEST(madt_too_many_ioapics)
{
	build(many_ioapics, NULL);
	parse();
	CHECK_WARNS(1, "only 32");
	CHECK_EQ(out.nr_ioapics, ACPI_MAX_IOAPICS);
}

TEST(madt_too_short_for_its_header)
{
	image_begin(&im);
	table_end(&im, table_begin(&im, "APIC", 1));
	image_end(&im, 8);
	parse();
	CHECK_WARNS(2, "MADT of 36 bytes");
}

TEST(no_madt)
{
	image_begin(&im);
	dsdt_add(&im, S5_AML, S5_LEN);
	fadt_add(&im);
	image_end(&im, 8);
	CHECK_EQ(parse(), 0);
	CHECK_WARNS(1, "no usable MADT");
	CHECK_EQ(out.nr_enabled_cpus, 0);
	CHECK_EQ(out.lapic_phys, 0xfee00000);
}

/* --- SRAT ------------------------------------------------------------------ */

TEST(no_srat_is_one_node)
{
	boot_2gb();
	build(four_cpus, NULL);
	parse();
	CHECK_QUIET();
	CHECK(!out.has_srat);
	CHECK_EQ(out.nr_nodes, 1);
	CHECK_EQ(out.cpus[3].node, 0);
	CHECK_EQ(acpi_node_of(&out, 0x40000000), 0);
}

static void sparse_domains(void)
{
	srat_cpu(&im, 0, 0xfffffffe, 1);
	srat_cpu(&im, 1, 7, 1);
	srat_cpu(&im, 2, 0x01020304, 1);
	srat_x2apic(&im, 3, 7, 1);
	srat_memory(&im, 0x40000000, 0x40000000, 5, 1); /* no CPU in 5 */
	srat_memory(&im, 0, 0x40000000, 7, 1);
}

TEST(srat_domains_are_numbered_densely_in_order)
{
	boot_2gb();
	build(four_cpus, sparse_domains);
	parse();
	CHECK_QUIET();
	CHECK_EQ(out.nr_nodes, 4);
	CHECK_EQ(out.node_domain[0], 5);
	CHECK_EQ(out.node_domain[1], 7);
	CHECK_EQ(out.node_domain[2], 0x01020304);
	CHECK_EQ(out.node_domain[3], 0xfffffffe);
	CHECK_EQ(out.cpus[0].node, 3);
	CHECK_EQ(out.cpus[1].node, 1);
	CHECK_EQ(out.cpus[2].node, 2);
	CHECK_EQ(out.cpus[3].node, 1);
	CHECK_EQ(acpi_node_of(&out, 0), 1);
	CHECK_EQ(acpi_node_of(&out, 0x3fffffff), 1);
	CHECK_EQ(acpi_node_of(&out, 0x40000000), 0);
}

TEST(srat_revision_1_has_narrow_domains)
{
	boot_2gb();
	image_begin(&im);
	dsdt_add(&im, S5_AML, S5_LEN);
	fadt_add(&im);
	size_t at = madt_begin(&im);
	four_cpus();
	table_end(&im, at);
	at = srat_begin(&im, 1);
	for (int i = 0; i < 4; i++)
		srat_cpu(&im, i, 0xabcdef00 + i / 2, 1);
	srat_memory(&im, 0, 0x80000000, 0x55555500, 1);
	table_end(&im, at);
	image_end(&im, 4);
	parse();
	CHECK_QUIET();
	CHECK_EQ(out.nr_nodes, 2);
	CHECK_EQ(out.node_domain[0], 0);
	CHECK_EQ(out.node_domain[1], 1);
}

static void forgotten(void)
{
	srat_cpu(&im, 0, 3, 1);
	srat_cpu(&im, 1, 3, 1);
	srat_cpu(&im, 2, 9, 0); /* not enabled: says nothing */
	srat_memory(&im, 0x100000, 0x3ff00000, 3, 1);
	srat_memory(&im, 0x40000000, 0x40000000, 4, 0);
}

TEST(srat_forgets_cpus_and_memory)
{
	boot_2gb();
	build(four_cpus, forgotten);
	parse();
	CHECK(strstr(unit_warn_text(), "2 CPUs in no domain go to node 0 (first: APIC 2)"));
	CHECK_WARNS(2, "1049216 KB of memory in no domain");
	CHECK_EQ(out.nr_nodes, 1);
	CHECK_EQ(out.node_domain[0], 3);
	CHECK_EQ(out.cpus[3].domain, 3);
}

static void strangers(void)
{
	two_gb_in_node_0();
	for (int i = 0; i < 4; i++)
		srat_cpu(&im, i, 0, 1);
	srat_cpu(&im, 40, 1, 1);
	srat_x2apic(&im, 4000, 2, 1);
	srat_cpu(&im, 3, 5, 1); /* second, different */
	srat_cpu(&im, 2, 0, 1); /* second, same */
}

TEST(srat_unknown_and_repeated_cpus_make_no_node)
{
	boot_2gb();
	build(four_cpus, strangers);
	parse();
	CHECK(strstr(unit_warn_text(), "2 CPUs that MADT does not have ignored (first: APIC 40)"));
	CHECK_WARNS(2, "1 CPUs in two domains");
	CHECK_EQ(out.nr_nodes, 1);
}

static void odd_memory(void)
{
	for (int i = 0; i < 4; i++)
		srat_cpu(&im, i, 0, 1);
	srat_memory(&im, 0x50000000, 0, 8, 1);              /* empty */
	srat_memory(&im, 0xfffffffffffff000, 0x2000, 9, 1); /* wraps */
	srat_memory(&im, 0x100000000, 0x100000000, 1, 3);   /* hotplug, nothing there yet */
	srat_memory(&im, 0x40000000, 0x40000000, 2, 3);     /* hotplug, but it is there */
	srat_memory(&im, 0, 0x40000000, 0, 1);
}

TEST(srat_memory_that_is_not_there)
{
	boot_2gb();
	build(four_cpus, odd_memory);
	parse();
	CHECK(strstr(unit_warn_text(), "1 empty"));
	CHECK_WARNS(2, "1 memory ranges beyond 64 bits");
	CHECK_EQ(out.nr_nodes, 2);
	CHECK_EQ(out.nr_memory, 2);
	CHECK_EQ(out.memory[1].node, 1);
}

static void overlapping(void)
{
	for (int i = 0; i < 4; i++)
		srat_cpu(&im, i, 0, 1);
	srat_memory(&im, 0x30000000, 0x20000000, 1, 1); /* overlaps the next two */
	srat_memory(&im, 0, 0x40000000, 0, 1);
	srat_memory(&im, 0x10000000, 0x10000000, 1, 1); /* wholly inside node 0 */
	srat_memory(&im, 0x48000000, 0x38000000, 1, 1); /* same domain: silent */
}

TEST(srat_overlapping_memory)
{
	boot_2gb();
	build(four_cpus, overlapping);
	parse();
	CHECK_WARNS(1, "2 memory ranges of two domains overlap");
	CHECK_EQ(out.nr_memory, 3);
	CHECK_EQ(out.memory[0].len, 0x40000000);
	CHECK_EQ(out.memory[1].base, 0x40000000);
	CHECK_EQ(out.memory[1].len, 0x10000000);
	CHECK_EQ(out.memory[2].base, 0x50000000);
	CHECK_EQ(out.memory[2].len, 0x30000000);
}

static void too_many_ranges(void)
{
	for (int i = 0; i < 4; i++)
		srat_cpu(&im, i, 0, 1);
	for (u64 i = 0; i < 300; i++)
		srat_memory(&im, i << 23, 1 << 23, i % 2, 1);
}

TEST(srat_too_many_memory_ranges)
{
	boot_2gb();
	build(four_cpus, too_many_ranges);
	parse();
	CHECK_WARNS(1, "44 memory ranges above 256"); /* those are beyond the 2 GB */
	CHECK_EQ(out.nr_memory, 256);
}

static void nodes_70(void)
{
	for (u32 i = 0; i < 70; i++)
		srat_memory(&im, (u64)i << 24, 1 << 24, i * 3, 1);
	for (int i = 0; i < 4; i++)
		srat_cpu(&im, i, 69 * 3, 1);
	srat_memory(&im, 70ull << 24, 1 << 30, 0, 1);
}

TEST(srat_more_nodes_than_there_is_room)
{
	boot_2gb();
	build(four_cpus, nodes_70);
	parse();
	CHECK(strstr(unit_warn_text(), "more than 64 nodes, domains from 192 on"));
	CHECK_EQ(out.nr_nodes, 64);
	CHECK_EQ(out.node_domain[63], 189);
	CHECK_EQ(out.cpus[0].node, 0);
	CHECK_EQ(out.memory[63].node, 63);
	CHECK_EQ(out.memory[64].node, 0);
}

static void nothing_enabled(void)
{
	srat_cpu(&im, 0, 1, 0);
	srat_memory(&im, 0, 0x1000, 2, 0);
}

TEST(srat_with_nothing_enabled)
{
	boot_2gb();
	build(four_cpus, nothing_enabled);
	parse();
	CHECK_WARNS(1, "SRAT without enabled entries");
	CHECK(!out.has_srat);
	CHECK_EQ(out.nr_nodes, 1);
}

static void only_strangers(void)
{
	srat_cpu(&im, 99, 1, 1);
}

TEST(srat_with_unknown_cpus_only)
{
	boot_2gb();
	build(four_cpus, only_strangers);
	parse();
	CHECK_WARNS(3, "does not have");
	CHECK_EQ(out.nr_nodes, 1);
	CHECK_EQ(out.node_domain[0], 0);
}

static void zero_length_entry(void)
{
	two_gb_in_node_0();
	for (int i = 0; i < 4; i++)
		srat_cpu(&im, i, 0, 1);
	put16(&im.b, 1); /* memory, length 0 */
	srat_cpu(&im, 0, 1, 1);
}

TEST(srat_entry_of_length_zero)
{
	boot_2gb();
	build(four_cpus, zero_length_entry);
	parse();
	CHECK_WARNS(1, "SRAT: entry of 0 bytes");
	CHECK_EQ(out.nr_nodes, 1);
}

static void memory_cut_short(void)
{
	two_gb_in_node_0();
	for (int i = 0; i < 4; i++)
		srat_cpu(&im, i, 0, 1);
	put8(&im.b, 1);
	put8(&im.b, 39);
	put_zero(&im.b, 37);
	put8(&im.b, 2);
	put8(&im.b, 23);
	put_zero(&im.b, 21);
	put8(&im.b, 0);
	put8(&im.b, 15);
	put_zero(&im.b, 13);
}

TEST(srat_entries_too_short)
{
	boot_2gb();
	build(four_cpus, memory_cut_short);
	parse();
	CHECK_WARNS(3, "too short");
	CHECK_EQ(out.nr_nodes, 1);
}

TEST(srat_too_short_for_its_header)
{
	image_begin(&im);
	size_t at = madt_begin(&im);
	four_cpus();
	table_end(&im, at);
	at = table_begin(&im, "SRAT", 3);
	put32(&im.b, 1);
	table_end(&im, at);
	image_end(&im, 8);
	parse();
	CHECK_WARNS(2, "SRAT of 40 bytes");
	CHECK_EQ(out.nr_nodes, 1);
}

/* --- SLIT ------------------------------------------------------------------ */

static void three_nodes(void)
{
	srat_cpu(&im, 0, 0, 1);
	srat_cpu(&im, 1, 2, 1);
	srat_cpu(&im, 2, 2, 1);
	srat_cpu(&im, 3, 0, 1);
	srat_memory(&im, 0, 0x80000000, 0, 1);
}

/* The machine of three_nodes() (domains 0 and 2) with this SLIT. */
static size_t build_slit(u64 n, const u8 *matrix, u64 bytes)
{
	size_t at;

	image_begin(&im);
	dsdt_add(&im, S5_AML, S5_LEN);
	fadt_add(&im);
	at = madt_begin(&im);
	four_cpus();
	table_end(&im, at);
	at = srat_begin(&im, 3);
	three_nodes();
	table_end(&im, at);
	at = table_begin(&im, "SLIT", 1);
	put64(&im.b, n);
	put_raw(&im.b, matrix, bytes);
	table_end(&im, at);
	image_end(&im, 8);
	return at;
}

static void check_default_distances(void)
{
	CHECK_EQ(out.nr_nodes, 2);
	CHECK_EQ(out.distance[0][1], 20);
	CHECK_EQ(out.distance[1][0], 20);
}

TEST(slit_goes_by_domain_not_by_node)
{
	boot_2gb();
	build_slit(3, (const u8 *)"\x0a\x0b\x0c" "\x0d\x0a\x0e" "\x0f\x10\x0a", 9);
	parse();
	CHECK_QUIET();
	CHECK_EQ(out.distance[0][1], 12);
	CHECK_EQ(out.distance[1][0], 15);
}

TEST(slit_with_wrong_diagonal_or_too_near)
{
	boot_2gb();
	build_slit(3, (const u8 *)"\x0a\x14\x14" "\x14\x0b\x14" "\x14\x14\x0a", 9);
	parse();
	CHECK_WARNS(1, "distance 11 from domain 1 to 1");
	check_default_distances();
	build_slit(3, (const u8 *)"\x0a\x14\x0a" "\x14\x0a\x14" "\x14\x14\x0a", 9);
	parse();
	CHECK_WARNS(1, "distance 10 from domain 0 to 2");
	check_default_distances();
}

TEST(slit_of_wrong_size)
{
	static const u64 counts[] = { 0, 2, 4, 0x100000003, 0x8000000000000000, UINT64_MAX };

	boot_2gb();
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		build_slit(counts[i], (const u8 *)"\x0a\x14\x14" "\x14\x0a\x14" "\x14\x14\x0a", 9);
		parse();
		CHECK_WARNS(1, "SLIT of 53 bytes");
		check_default_distances();
	}
}

TEST(slit_smaller_than_the_domains)
{
	boot_2gb();
	build_slit(2, (const u8 *)"\x0a\x1e\x1e\x0a", 4);
	parse();
	CHECK_WARNS(1, "SRAT a domain 2");
	check_default_distances();
}

TEST(slit_too_short_for_its_header)
{
	boot_2gb();
	size_t at = build_slit(0, (const u8 *)"", 0);
	set32(&im.b, at + 4, 40);
	parse_again(at);
	CHECK_WARNS(1, "SLIT of 40 bytes");
	check_default_distances();
}

TEST(slit_without_srat_is_silent)
{
	boot_2gb();
	build(four_cpus, NULL);
	image_begin(&im);
	dsdt_add(&im, S5_AML, S5_LEN);
	fadt_add(&im);
	size_t at = madt_begin(&im);
	four_cpus();
	table_end(&im, at);
	slit_add(&im, 2, (const u8 *)"\x0a\x15\x15\x0a");
	image_end(&im, 8);
	parse();
	CHECK_QUIET();
	CHECK_EQ(out.nr_nodes, 1);
}

/* --- HPET, FADT, \_S5 --------------------------------------------------------- */

TEST(hpet_that_cannot_be)
{
	boot_2gb();
	for (int i = 0; i < 3; i++) {
		image_begin(&im);
		dsdt_add(&im, S5_AML, S5_LEN);
		fadt_add(&im);
		size_t at = madt_begin(&im);
		four_cpus();
		table_end(&im, at);
		hpet_add(&im, i == 0 ? 1 : 0, i == 0 ? 0x70 : i == 1 ? 0 : 0xfed00004);
		image_end(&im, 8);
		parse();
		CHECK_WARNS(1, "HPET at");
		CHECK_EQ(out.hpet_phys, 0);
	}
}

TEST(hpet_table_too_short)
{
	image_typical(&im, 8);
	boot_2gb();
	size_t at = im.tables[2] - IMAGE_BASE;
	set32(&im.b, at + 4, 55);
	parse_again(at);
	CHECK_WARNS(1, "HPET table of 55 bytes");
	CHECK_EQ(out.hpet_phys, 0);
}

TEST(hpet_period)
{
	CHECK(acpi_hpet_period_ok(10000000));  /* 100 MHz, QEMU */
	CHECK(acpi_hpet_period_ok(69841279));  /* 14.318 MHz, PCs */
	CHECK(acpi_hpet_period_ok(100000000));
	CHECK(!acpi_hpet_period_ok(100000001));
	CHECK(!acpi_hpet_period_ok(0));
	CHECK(!acpi_hpet_period_ok(0xffffffff));
}

/* A FADT of its own, broken by the caller; then parse_again(). */
static size_t build_fadt(const void *aml, size_t len)
{
	size_t fadt, at;

	boot_2gb();
	image_begin(&im);
	dsdt_add(&im, aml, len);
	fadt = fadt_add(&im);
	at = madt_begin(&im);
	four_cpus();
	table_end(&im, at);
	image_end(&im, 8);
	return fadt;
}

TEST(no_fadt)
{
	boot_2gb();
	image_begin(&im);
	size_t at = madt_begin(&im);
	four_cpus();
	table_end(&im, at);
	image_end(&im, 8);
	parse();
	CHECK_WARNS(1, "no FADT");
	CHECK(!out.has_s5);
	CHECK_EQ(out.pm_timer.address, 0);
}

TEST(fadt_of_acpi_1)
{
	size_t at = build_fadt(S5_AML, S5_LEN);

	set32(&im.b, at + 4, 116);
	set32(&im.b, at + 112, 1u << 10); /* claims a reset register beyond its end */
	parse_again(at);
	CHECK_QUIET();
	CHECK_EQ(out.pm_timer.address, 0x608);
	CHECK_EQ(out.pm_timer.bits, 24);
	CHECK_EQ(out.pm1a_control.address, 0x604);
	CHECK_EQ(out.reset.address, 0);
	CHECK(out.has_s5);
}

TEST(fadt_too_short)
{
	size_t at = build_fadt(S5_AML, S5_LEN);

	set32(&im.b, at + 4, 115);
	parse_again(at);
	CHECK_WARNS(1, "FADT of 115 bytes");
	CHECK_EQ(out.pm_timer.address, 0);
}

TEST(fadt_wide_addresses_win)
{
	size_t at = build_fadt(S5_AML, S5_LEN);

	set8(&im.b, at + 208, 0); /* PM timer in memory */
	set64(&im.b, at + 212, 0xfed80808);
	set8(&im.b, at + 172, 1); /* PM1a control */
	set64(&im.b, at + 176, 0x1804);
	set8(&im.b, at + 184, 7); /* PM1b control in a space that nobody knows */
	set64(&im.b, at + 188, 0x1234);
	set32(&im.b, at + 68, 0x1808);
	set32(&im.b, at + 40, 0xdead0000); /* the old DSDT address is then not used */
	set64(&im.b, at + 140, im.dsdt);
	parse_again(at);
	CHECK_QUIET();
	CHECK_EQ(out.pm_timer.address, 0xfed80808);
	CHECK_EQ(out.pm_timer.space, ACPI_SPACE_MEMORY);
	CHECK_EQ(out.pm_timer.bits, 32);
	CHECK_EQ(out.pm1a_control.address, 0x1804);
	CHECK_EQ(out.pm1b_control.address, 0x1808);
	CHECK(out.has_s5);
}

TEST(fadt_port_beyond_64k)
{
	size_t at = build_fadt(S5_AML, S5_LEN);

	set32(&im.b, at + 64, 0x10604);
	set32(&im.b, at + 76, 0xffffffff);
	set32(&im.b, at + 48, 0x123456);
	set64(&im.b, at + 120, 0x10cf9);
	parse_again(at);
	CHECK_EQ(out.pm1a_control.address, 0);
	CHECK_EQ(out.pm_timer.address, 0);
	CHECK_EQ(out.smi_command, 0);
	CHECK_EQ(out.reset.address, 0);
}

TEST(fadt_without_or_with_odd_timer)
{
	size_t at = build_fadt(S5_AML, S5_LEN);

	set8(&im.b, at + 91, 0);
	parse_again(at);
	CHECK_QUIET();
	CHECK_EQ(out.pm_timer.address, 0);
	set8(&im.b, at + 91, 3);
	parse_again(at);
	CHECK_WARNS(1, "PM timer of 3 bytes");
	CHECK_EQ(out.pm_timer.address, 0);
}

TEST(no_dsdt)
{
	size_t at = build_fadt(S5_AML, S5_LEN);

	set32(&im.b, at + 40, 0);
	parse_again(at);
	CHECK_WARNS(1, "no \\_S5");
	set32(&im.b, at + 40, 0x7000);
	parse_again(at);
	CHECK_WARNS(2, "DSDT at 0x7000 is not readable");
	CHECK_EQ(out.pm1a_control.address, 0x604);
}

static void check_s5(const char *aml, size_t len, int a, int b)
{
	build_fadt(aml, len);
	parse();
	CHECK_EQ(out.has_s5, a >= 0);
	if (a >= 0) {
		CHECK_QUIET();
		CHECK_EQ(out.s5_type_a, a);
		CHECK_EQ(out.s5_type_b, b);
	} else {
		CHECK(unit_warnings() > 0);
		CHECK(strstr(unit_warn_text(), "_S5"));
		unit_warn_reset();
	}
}

#define S5(text, a, b) check_s5(text, sizeof(text) - 1, a, b)

TEST(s5_in_all_its_shapes)
{
	S5("\x08_S5_\x12\x07\x04\x0a\x05\x0a\x06", -1, -1); /* one byte less than it says */
	S5("\x08_S5_\x12\x06\x04\x0a\x05\x0a\x06", 5, 6);   /* four elements promised, two there */
	S5("\x08_S5_\x12\x06\x04\x0a\x05\x0a\x06\x00", 5, 6);
	S5("\x08\\_S5_\x12\x06\x04\x00\x00\x00\x00", 0, 0);
	S5("\x08_S5_\x12\x05\x02\x01\x0a\x07", 1, 7);
	S5("\x08_S5_\x12\x46\x00\x02\x0a\x05\x01", 5, 1);   /* length in two bytes */
	S5("\x08_S5_\x12\x08\x02\x0b\x05\x00\x0b\x03\x00", 5, 3);
	S5("\x08_S5_\x12\x08\x02\x0c\x05\x00\x00\x00\x01", 5, 1);
	S5("\x08_S5_\x12\x04\x01\x0a\x05", 5, 5);           /* one element: for both */
}

TEST(s5_malformed)
{
	S5("", -1, -1);
	S5("_S5_\x12\x06\x04\x0a\x05\x00\x00\x00", -1, -1);         /* no NameOp */
	S5("\x08_S5_", -1, -1);                                     /* cut at every place */
	S5("\x08_S5_\x12", -1, -1);
	S5("\x08_S5_\x12\x06", -1, -1);
	S5("\x08_S5_\x12\x06\x04", -1, -1);
	S5("\x08_S5_\x12\x06\x04\x0a", -1, -1);
	S5("\x08_S5_\x12\xc6\x00", -1, -1);
	S5("\x08_S5_\x12\xff\xff\xff\xff\x04\x05\x05", -1, -1);     /* 256 MB package */
	S5("\x08_S5_\x12\x00\x02\x0a\x05\x0a\x05", -1, -1);         /* package of nothing */
	S5("\x08_S5_\x12\x01\x02\x0a\x05\x0a\x05", -1, -1);
	S5("\x08_S5_\x12\x03\x02\x0a\x05\x0a\x05", -1, -1);         /* ends inside an element */
	S5("\x08_S5_\x12\x06\x00\x0a\x05\x0a\x05", -1, -1);         /* no elements */
	S5("\x08_S5_\x12\x06\x02\x0a\x08\x0a\x05", -1, -1);         /* type of four bits */
	S5("\x08_S5_\x12\x06\x02\x0a\x05\x0a\x09", -1, -1);
	S5("\x08_S5_\x12\x06\x02\x0d\x05\x0a\x05", -1, -1);         /* a string */
	S5("\x08_S5_\x14\x06\x02\x0a\x05\x0a\x05", -1, -1);         /* a method */
}

TEST(s5_in_an_ssdt)
{
	boot_2gb();
	image_begin(&im);
	dsdt_add(&im, "nothing", 7);
	fadt_add(&im);
	size_t at = madt_begin(&im);
	four_cpus();
	table_end(&im, at);
	for (int i = 0; i < 3; i++) {
		at = table_begin(&im, "SSDT", 1);
		if (i == 2)
			put_raw(&im.b, "\x08_S5_\x12\x05\x02\x0a\x03\x01", 11);
		table_end(&im, at);
	}
	image_end(&im, 8);
	parse();
	CHECK_QUIET();
	CHECK(out.has_s5);
	CHECK_EQ(out.s5_type_a, 3);
}

/* --- questions ------------------------------------------------------------- */

static void check_piece(const struct acpi_memory *p, u64 base, u64 end, int node)
{
	CHECK_EQ(p->base, base);
	CHECK_EQ(p->base + p->len, end);
	CHECK_EQ(p->node, node);
}

TEST(usable_memory_is_cut_at_node_borders)
{
	struct acpi_memory piece[16];

	boot_2gb();
	image_typical(&im, 8);
	parse();
	CHECK_EQ(acpi_usable_memory(&out, &boot, piece, 16), 3);
	check_piece(&piece[0], 0, 0xa0000, 0);
	check_piece(&piece[1], 0x100000, 0x40000000, 0);
	check_piece(&piece[2], 0x40000000, 0x80000000, 1);

	/* Gaps before, between and behind affinity ranges belong to node 0. */
	memset(&boot, 0, sizeof(boot));
	bootinfo_add_range(&boot, 0x90000, 0x100000, BOOT_MEM_USABLE);
	bootinfo_add_range(&boot, 0x7f000000, 0x2000000, BOOT_MEM_USABLE);
	bootinfo_add_range(&boot, 0x90000000, 0x1000, BOOT_MEM_RESERVED);
	bootinfo_add_range(&boot, 0xa0000000, 0x1000, BOOT_MEM_USABLE);
	CHECK_EQ(acpi_usable_memory(&out, &boot, piece, 16), 6);
	check_piece(&piece[0], 0x90000, 0xa0000, 0);
	check_piece(&piece[1], 0xa0000, 0x100000, 0);
	check_piece(&piece[2], 0x100000, 0x190000, 0);
	check_piece(&piece[3], 0x7f000000, 0x80000000, 1);
	check_piece(&piece[4], 0x80000000, 0x81000000, 0);
	check_piece(&piece[5], 0xa0000000, 0xa0001000, 0);
	CHECK_EQ(acpi_usable_memory(&out, &boot, piece, 2), 2);
}

TEST(usable_memory_without_srat)
{
	struct acpi_memory piece[4];

	boot_2gb();
	build(four_cpus, NULL);
	parse();
	CHECK_EQ(acpi_usable_memory(&out, &boot, piece, 4), 2);
	check_piece(&piece[1], 0x100000, 0x80000000, 0);
}
