/* kernel/bootinfo.c: sorting and resolving memory maps. */
#include "tests/unit/unit.h"

#include <errno.h>

#include "kernel/bootinfo.h"

static struct boot_info info;

static void check_range(u32 i, u64 base, u64 end, u32 type)
{
	CHECK(i < info.nr_ranges);
	CHECK_EQ(info.ranges[i].base, base);
	CHECK_EQ(info.ranges[i].base + info.ranges[i].len, end);
	CHECK_EQ(info.ranges[i].type, type);
}

TEST(empty_map_stays_empty)
{
	bootinfo_normalise(&info);
	CHECK_EQ(info.nr_ranges, 0);
	CHECK_QUIET();
}

TEST(unsorted_ranges_are_sorted_and_merged)
{
	bootinfo_add_range(&info, 0x300000, 0x100000, 1);
	bootinfo_add_range(&info, 0, 0x9f000, 1);
	bootinfo_add_range(&info, 0x100000, 0x200000, 1);
	bootinfo_add_range(&info, 0x400000, 0x1000, 2);
	bootinfo_normalise(&info);
	CHECK_EQ(info.nr_ranges, 3);
	check_range(0, 0, 0x9f000, 1);
	check_range(1, 0x100000, 0x400000, 1);
	check_range(2, 0x400000, 0x401000, 2);
}

TEST(reserved_inside_usable_cuts_it)
{
	bootinfo_add_range(&info, 0x1000, 0x9000, 1);
	bootinfo_add_range(&info, 0x4000, 0x1000, 2);
	bootinfo_normalise(&info);
	CHECK_EQ(info.nr_ranges, 3);
	check_range(0, 0x1000, 0x4000, 1);
	check_range(1, 0x4000, 0x5000, 2);
	check_range(2, 0x5000, 0xa000, 1);
}

TEST(usable_inside_reserved_vanishes)
{
	bootinfo_add_range(&info, 0x4000, 0x1000, 1);
	bootinfo_add_range(&info, 0x1000, 0x9000, 2);
	bootinfo_normalise(&info);
	CHECK_EQ(info.nr_ranges, 1);
	check_range(0, 0x1000, 0xa000, 2);
}

TEST(strictest_type_wins_in_every_pair)
{
	static const u32 order[] = { BOOT_MEM_USABLE, BOOT_MEM_ACPI_RECLAIM, BOOT_MEM_NVS,
				     BOOT_MEM_RESERVED, BOOT_MEM_BAD };

	for (int weak = 0; weak < 5; weak++) {
		for (int strong = weak + 1; strong < 5; strong++) {
			memset(&info, 0, sizeof(info));
			bootinfo_add_range(&info, 0x2000, 0x2000, order[strong]);
			bootinfo_add_range(&info, 0x1000, 0x2000, order[weak]);
			bootinfo_normalise(&info);
			CHECK_EQ(info.nr_ranges, 2);
			check_range(0, 0x1000, 0x2000, order[weak]);
			check_range(1, 0x2000, 0x4000, order[strong]);
		}
	}
}

TEST(identical_ranges_become_one)
{
	for (int i = 0; i < 10; i++)
		bootinfo_add_range(&info, 0x1000, 0x1000, 1);
	bootinfo_normalise(&info);
	CHECK_EQ(info.nr_ranges, 1);
	check_range(0, 0x1000, 0x2000, 1);
}

TEST(odd_ranges_are_tamed_when_added)
{
	CHECK_EQ(bootinfo_add_range(&info, 0x1000, 0, 1), 0);
	CHECK_EQ(bootinfo_add_range(&info, 1ull << 52, 0x1000, 1), 0);
	CHECK_EQ(info.nr_ranges, 0);
	bootinfo_add_range(&info, UINT64_MAX, UINT64_MAX, 1);
	CHECK_EQ(info.nr_ranges, 0);
	bootinfo_add_range(&info, (1ull << 52) - 0x1000, UINT64_MAX, 1);
	check_range(0, (1ull << 52) - 0x1000, 1ull << 52, 1);
	bootinfo_add_range(&info, 0x5000, 0x1000, 77);
	check_range(1, 0x5000, 0x6000, BOOT_MEM_RESERVED);
	bootinfo_add_range(&info, 0x7000, 0x1000, 0);
	check_range(2, 0x7000, 0x8000, BOOT_MEM_RESERVED);
	CHECK_QUIET();
}

TEST(too_many_ranges_one_line)
{
	for (int i = 0; i < BOOT_RANGES_MAX; i++)
		CHECK_EQ(bootinfo_add_range(&info, i * 0x2000ull, 0x1000, 1), 0);
	CHECK_QUIET();
	for (int i = 0; i < 10; i++)
		CHECK_EQ(bootinfo_add_range(&info, 0x10000000, 0x1000, 1), -ENOSPC);
	CHECK_WARNS(1, "256");
	bootinfo_normalise(&info);
	CHECK_EQ(info.nr_ranges, BOOT_RANGES_MAX);
	CHECK_QUIET();
}

TEST(overlaps_that_do_not_fit_drop_the_highest)
{
	/* One usable range, cut into 256 pieces by 255 reserved ones: 511 pieces. */
	bootinfo_add_range(&info, 0, 1ull << 40, 1);
	for (int i = 1; i < BOOT_RANGES_MAX; i++)
		bootinfo_add_range(&info, i * 0x10000ull, 0x1000, 2);
	bootinfo_normalise(&info);
	CHECK_EQ(info.nr_ranges, BOOT_RANGES_MAX);
	CHECK_WARNS(1, "overlaps");
	CHECK(info.flags & BOOT_MAP_CUT);
	for (u32 i = 0; i < info.nr_ranges; i++)
		CHECK_EQ(info.ranges[i].type, i % 2 ? 2 : 1);
}

/* Byte by byte, with a map that is small enough to check so. */
TEST(random_maps_against_a_byte_array)
{
	static const int strict[] = { 0, 1, 4, 2, 3, 5 };
	unsigned seed = 1;

	for (int round = 0; round < 2000; round++) {
		u8 want[256] = { 0 }, got[256] = { 0 };
		u64 end = 0;

		memset(&info, 0, sizeof(info));
		for (int n = rand_r(&seed) % 12; n; n--) {
			u64 base = rand_r(&seed) % 200, len = rand_r(&seed) % 56;
			u32 type = 1 + rand_r(&seed) % 5;

			bootinfo_add_range(&info, base, len, type);
			for (u64 i = base; i < base + len; i++)
				want[i] = strict[type] > strict[want[i]] ? type : want[i];
		}
		bootinfo_normalise(&info);
		for (u32 i = 0; i < info.nr_ranges; i++) {
			const struct boot_range *r = &info.ranges[i];

			CHECK(r->len > 0);
			CHECK(i == 0 || r->base >= end);
			CHECK(i == 0 || r->base > end || r->type != r[-1].type);
			end = r->base + r->len;
			memset(got + r->base, r->type, r->len);
		}
		CHECK(!memcmp(want, got, sizeof(want)));
	}
}

TEST(required_memory_is_assumed)
{
	bootinfo_add_range(&info, 0x200000, 0x1000, 2);
	bootinfo_require_memory(&info);
	CHECK_WARNS(1, "no usable memory");
	CHECK(info.flags & BOOT_MAP_FALLBACK);
	CHECK_EQ(info.nr_ranges, 3);
	check_range(0, 0x100000, 0x200000, 1);
	check_range(1, 0x200000, 0x201000, 2);
	check_range(2, 0x201000, 0x4000000, 1);
	bootinfo_require_memory(&info);
	CHECK_QUIET();
}

TEST(required_memory_with_a_full_array)
{
	for (int i = 0; i < BOOT_RANGES_MAX; i++)
		bootinfo_add_range(&info, 0x10000000 + i * 0x2000ull, 0x1000, 2);
	bootinfo_require_memory(&info);
	check_range(0, 0x100000, 0x4000000, 1);
}

TEST(long_command_line_is_cut)
{
	static char text[5000];

	memset(text, 'x', sizeof(text));
	bootinfo_set_cmdline(&info, text, BOOT_CMDLINE_MAX - 1);
	CHECK_EQ(strlen(info.cmdline), BOOT_CMDLINE_MAX - 1);
	CHECK_QUIET();
	bootinfo_set_cmdline(&info, text, sizeof(text));
	CHECK_EQ(strlen(info.cmdline), BOOT_CMDLINE_MAX - 1);
	CHECK_WARNS(1, "command line");
	CHECK(info.flags & BOOT_CMDLINE_CUT);
}

TEST(every_type_has_a_name)
{
	for (int type = BOOT_MEM_USABLE; type <= BOOT_MEM_BAD; type++)
		CHECK(strcmp(boot_mem_type_name(type), "unknown"));
	CHECK_STR(boot_mem_type_name(99), "unknown");
}
