/* arch/x86_64/acpi_srat.c: nodes, their memory and CPUs (SRAT), distances (SLIT). */
#include "tests/unit/acpi_machine.h"

static void two_gb_in_node_0(void)
{
	srat_memory(&im, 0, 0x80000000, 0, 1);
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
