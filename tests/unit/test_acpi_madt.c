/* arch/x86_64/acpi_madt.c: CPUs and interrupt controllers. */
#include "tests/unit/acpi_machine.h"

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
