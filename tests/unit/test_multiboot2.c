/* arch/x86_64/multiboot2.c: what GRUB gives, and what a broken loader gives. */
#include "tests/unit/unit.h"

#include <errno.h>

#include "arch/x86_64/multiboot2.h"
#include "tests/unit/build.h"

static struct bytes b;
static struct boot_info out;

/* Parse a heap copy of exactly `len` bytes of b. */
static int parse_part(size_t len)
{
	u8 *copy = malloc(len ? len : 1);
	int err;

	memcpy(copy, b.data, len);
	memset(&out, 0xee, sizeof(out));
	err = multiboot2_parse(copy, len, &out);
	memset(copy, 0xdd, len);
	free(copy);
	return err;
}

static int parse(void)
{
	return parse_part(b.len);
}

static void begin_with_map(void)
{
	size_t at;

	mb2_begin(&b);
	at = mb2_tag(&b, 6);
	put32(&b, 24);
	put32(&b, 0);
	put_memory(&b, 0x100000, 0x700000, 1);
	mb2_tag_end(&b, at);
}

static void check_fallback(void)
{
	CHECK_EQ(out.nr_ranges, 1);
	CHECK_EQ(out.ranges[0].base, 1 * MB);
	CHECK_EQ(out.ranges[0].len, 63 * MB);
	CHECK(out.flags & BOOT_MAP_FALLBACK);
}

TEST(typical)
{
	mb2_typical(&b);
	CHECK_EQ(parse(), 0);
	CHECK_QUIET();
	CHECK_STR(out.cmdline, "vm.ptl=mm run=\"pft -t 2\"");
	CHECK_STR(out.loader, "GRUB 2.06");
	CHECK_EQ(out.flags, BOOT_FROM_MULTIBOOT2);
	CHECK_EQ(out.initrd_phys, 0x800000);
	CHECK_EQ(out.initrd_len, 0x100010);
	CHECK_EQ(out.nr_ranges, 4);
	CHECK_EQ(out.ranges[2].base, 0x100000);
	CHECK_EQ(out.ranges[2].len, 0x7ee0000);
	CHECK_EQ(out.ranges[2].type, BOOT_MEM_USABLE);
	CHECK_EQ(out.ranges[3].type, BOOT_MEM_ACPI_RECLAIM);
	CHECK_EQ(out.rsdp_len, 36);
	CHECK(!memcmp(out.rsdp, "RSD PTR new", 11));
	CHECK_EQ(out.rsdp_phys, 0);
}

TEST(old_root_pointer_never_replaces_new)
{
	size_t at;

	begin_with_map();
	at = mb2_tag(&b, 15);
	put_raw(&b, "RSD PTR new.........0123456789abcdef", 36);
	mb2_tag_end(&b, at);
	at = mb2_tag(&b, 14);
	put_raw(&b, "RSD PTR old.........", 20);
	mb2_tag_end(&b, at);
	mb2_end(&b);
	CHECK_EQ(parse(), 0);
	CHECK_EQ(out.rsdp_len, 36);
	CHECK(!memcmp(out.rsdp, "RSD PTR new", 11));
}

TEST(only_old_root_pointer)
{
	size_t at;

	begin_with_map();
	at = mb2_tag(&b, 14);
	put_raw(&b, "RSD PTR old.........", 20);
	mb2_tag_end(&b, at);
	mb2_end(&b);
	parse();
	CHECK_EQ(out.rsdp_len, 20);
	CHECK_QUIET();
}

TEST(short_root_pointer_is_ignored)
{
	size_t at;

	begin_with_map();
	at = mb2_tag(&b, 15);
	put_raw(&b, "RSD PTR new.........", 20);
	mb2_tag_end(&b, at);
	mb2_end(&b);
	CHECK_EQ(parse(), 0);
	CHECK_EQ(out.rsdp_len, 0);
	CHECK_WARNS(1, "root pointer of 20 bytes");
}

TEST(structure_of_impossible_size)
{
	static const u32 sizes[] = { 0, 7, 8, 15, 0x7fffffff, 0xffffffff };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		mb2_typical(&b);
		set32(&b, 0, sizes[i]);
		CHECK_EQ(parse(), -EINVAL);
		CHECK_WARNS(2, "ignored");
		check_fallback();
		CHECK_STR(out.cmdline, "");
	}
	CHECK_EQ(parse_part(0), -EINVAL);
	CHECK_EQ(parse_part(7), -EINVAL);
	unit_warn_reset();
	CHECK_EQ(multiboot2_parse(NULL, 4096, &out), -EINVAL);
	check_fallback();
}

TEST(every_truncation_is_survived)
{
	mb2_typical(&b);
	for (size_t len = 16; len < b.len; len++) {
		set32(&b, 0, len);
		CHECK_EQ(parse_part(len), 0);
		CHECK(unit_warnings() >= 1);
		CHECK(out.nr_ranges >= 1);
		unit_warn_reset();
	}
}

TEST(tag_of_size_zero_ends_the_walk)
{
	mb2_begin(&b);
	mb2_string(&b, 1, "good");
	mb2_tag_end(&b, mb2_tag(&b, 99));
	mb2_end(&b);
	set32(&b, 8 + 16 + 4, 0);
	CHECK_EQ(parse(), 0);
	CHECK_WARNS(2, "breaks the list"); /* and no memory */
	CHECK_STR(out.cmdline, "good");
}

TEST(tag_larger_than_the_rest)
{
	begin_with_map();
	mb2_string(&b, 1, "lost");
	mb2_end(&b);
	set32(&b, 8 + 40 + 4, 0xfffffff8);
	CHECK_EQ(parse(), 0);
	CHECK_WARNS(1, "breaks the list");
	CHECK_STR(out.cmdline, "");
	CHECK_EQ(out.nr_ranges, 1);
}

TEST(no_end_tag)
{
	begin_with_map();
	set32(&b, 0, b.len);
	CHECK_EQ(parse(), 0);
	CHECK_WARNS(1, "no end tag");
	CHECK_EQ(out.ranges[0].len, 0x700000);
}

TEST(unknown_tags_are_skipped_silently)
{
	size_t at;

	begin_with_map();
	at = mb2_tag(&b, 0x12345678);
	put_raw(&b, "odd", 3);
	mb2_tag_end(&b, at);
	mb2_string(&b, 1, "after");
	mb2_end(&b);
	parse();
	CHECK_QUIET();
	CHECK_STR(out.cmdline, "after");
}

TEST(strings_without_end)
{
	size_t at;

	begin_with_map();
	at = mb2_tag(&b, 1);
	put_raw(&b, "abcdefgh", 8);
	mb2_tag_end(&b, at);
	at = mb2_tag(&b, 2);
	put_raw(&b, "loader", 6);
	mb2_tag_end(&b, at);
	mb2_end(&b);
	parse();
	CHECK_STR(out.cmdline, "abcdefgh");
	CHECK_STR(out.loader, "loader");
	CHECK_WARNS(2, "without closing zero");
}

TEST(empty_strings)
{
	begin_with_map();
	mb2_string(&b, 1, "");
	mb2_tag_end(&b, mb2_tag(&b, 2)); /* not even a zero byte */
	mb2_end(&b);
	CHECK_EQ(parse(), 0);
	CHECK_STR(out.cmdline, "");
	CHECK_WARNS(1, "loader name without");
}

TEST(long_strings_are_cut)
{
	static char text[6000];

	memset(text, 'x', sizeof(text) - 1);
	begin_with_map();
	mb2_string(&b, 1, text);
	mb2_string(&b, 2, text);
	mb2_end(&b);
	parse();
	CHECK_EQ(strlen(out.cmdline), BOOT_CMDLINE_MAX - 1);
	CHECK_EQ(strlen(out.loader), BOOT_LOADER_MAX - 1);
	CHECK_WARNS(1, "command line");
	CHECK(out.flags & BOOT_CMDLINE_CUT);
}

TEST(only_the_first_module_counts)
{
	begin_with_map();
	mb2_module(&b, 0x1000, 0x2000);
	mb2_module(&b, 0x3000, 0x5000);
	mb2_end(&b);
	parse();
	CHECK_WARNS(1, "module 2 ignored");
	CHECK_EQ(out.initrd_phys, 0x1000);
	CHECK_EQ(out.initrd_len, 0x1000);
}

TEST(bad_modules)
{
	size_t at;

	begin_with_map();
	mb2_module(&b, 0x2000, 0x1000);
	mb2_end(&b);
	parse();
	CHECK_WARNS(1, "initramfs from");
	CHECK_EQ(out.initrd_len, 0);

	begin_with_map();
	at = mb2_tag(&b, 3);
	put32(&b, 0x1000);
	mb2_tag_end(&b, at);
	mb2_end(&b);
	parse();
	CHECK_WARNS(1, "module tag of 12 bytes");
	CHECK_EQ(out.initrd_len, 0);
}

TEST(larger_map_entries_are_understood)
{
	size_t at;

	mb2_begin(&b);
	at = mb2_tag(&b, 6);
	put32(&b, 32);
	put32(&b, 1);
	put_memory(&b, 0x100000, 0x100000, 1);
	put64(&b, 0x4141414141414141);
	put_memory(&b, 0x400000, 0x100000, 5);
	put64(&b, 0x4141414141414141);
	put32(&b, 7); /* a piece of an entry: ignored */
	mb2_tag_end(&b, at);
	mb2_end(&b);
	parse();
	CHECK_QUIET();
	CHECK_EQ(out.nr_ranges, 2);
	CHECK_EQ(out.ranges[1].base, 0x400000);
	CHECK_EQ(out.ranges[1].type, BOOT_MEM_BAD);
}

TEST(map_entries_too_small_fall_back_to_sizes)
{
	static const u32 sizes[] = { 0, 1, 23 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t at;

		mb2_begin(&b);
		at = mb2_tag(&b, 6);
		put32(&b, sizes[i]);
		put32(&b, 0);
		put_memory(&b, 0x100000, 0x100000, 1);
		mb2_tag_end(&b, at);
		at = mb2_tag(&b, 4);
		put32(&b, 640);
		put32(&b, 31744);
		mb2_tag_end(&b, at);
		mb2_end(&b);
		parse();
		CHECK_WARNS(2, "basic sizes");
		CHECK_EQ(out.nr_ranges, 2);
		CHECK_EQ(out.ranges[0].len, 640 * KB);
		CHECK_EQ(out.ranges[1].base, 1 * MB);
		CHECK_EQ(out.ranges[1].len, 31 * MB);
	}
}

TEST(huge_sizes_do_not_overflow)
{
	size_t at;

	mb2_begin(&b);
	at = mb2_tag(&b, 4);
	put32(&b, 0xffffffff);
	put32(&b, 0xffffffff);
	mb2_tag_end(&b, at);
	mb2_end(&b);
	parse();
	CHECK_WARNS(1, "basic sizes");
	CHECK_EQ(out.ranges[0].len, 640 * KB);
	CHECK_EQ(out.ranges[1].len, 0xffffffffull * 1024);
}

static void put_efi(u32 type, u64 base, u64 pages)
{
	put32(&b, type);
	put32(&b, 0);
	put64(&b, base);
	put64(&b, 0);
	put64(&b, pages);
	put64(&b, 0xf);
	put64(&b, 0); /* entries of 48 bytes, as OVMF has them */
}

TEST(efi_map_when_there_is_no_other)
{
	size_t at;

	mb2_begin(&b);
	at = mb2_tag(&b, 17);
	put32(&b, 48);
	put32(&b, 1);
	put_efi(7, 0x100000, 0x100);
	put_efi(3, 0x200000, 0x10);
	put_efi(4, 0x210000, 0x10);
	put_efi(5, 0x220000, 0x10);  /* runtime services code */
	put_efi(9, 0x230000, 0x10);
	put_efi(10, 0x240000, 0x10);
	put_efi(8, 0x250000, 0x10);
	put_efi(7, 0x300000, UINT64_MAX / 4096 + 5); /* overflows as bytes */
	mb2_tag_end(&b, at);
	mb2_end(&b);
	parse();
	CHECK_QUIET();
	CHECK(out.flags & BOOT_EFI);
	CHECK_EQ(out.nr_ranges, 6);
	CHECK_EQ(out.ranges[0].base, 0x100000);
	CHECK_EQ(out.ranges[0].len, 0x120000);
	CHECK_EQ(out.ranges[1].type, BOOT_MEM_RESERVED);
	CHECK_EQ(out.ranges[2].type, BOOT_MEM_ACPI_RECLAIM);
	CHECK_EQ(out.ranges[3].type, BOOT_MEM_NVS);
	CHECK_EQ(out.ranges[4].type, BOOT_MEM_BAD);
	CHECK_EQ(out.ranges[5].base + out.ranges[5].len, 1ull << 52);
}

TEST(efi_map_with_many_neighbours_fits)
{
	size_t at;

	mb2_begin(&b);
	at = mb2_tag(&b, 17);
	put32(&b, 48);
	put32(&b, 1);
	for (int i = 0; i < 1000; i++)
		put_efi(3 + i % 2, 0x100000 + i * 0x1000, 1);
	mb2_tag_end(&b, at);
	mb2_end(&b);
	parse();
	CHECK_QUIET();
	CHECK_EQ(out.nr_ranges, 1);
	CHECK_EQ(out.ranges[0].len, 1000 * 0x1000);
}

TEST(efi_map_entries_too_small)
{
	size_t at;

	mb2_begin(&b);
	at = mb2_tag(&b, 17);
	put32(&b, 39);
	put32(&b, 1);
	put_efi(7, 0x100000, 0x100);
	mb2_tag_end(&b, at);
	mb2_end(&b);
	parse();
	CHECK_WARNS(2, "EFI memory map");
	check_fallback();
}

TEST(bios_map_wins_over_efi_map)
{
	size_t at;

	begin_with_map();
	at = mb2_tag(&b, 17);
	put32(&b, 48);
	put32(&b, 1);
	put_efi(7, 0x900000, 0x100);
	mb2_tag_end(&b, at);
	mb2_end(&b);
	parse();
	CHECK_EQ(out.nr_ranges, 1);
	CHECK_EQ(out.ranges[0].base, 0x100000);
}

TEST(tags_too_small_for_their_kind)
{
	static const u32 types[] = { 4, 6, 17 };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		mb2_begin(&b);
		mb2_tag_end(&b, mb2_tag(&b, types[i]));
		mb2_end(&b);
		parse();
		CHECK_WARNS(2, "too small");
		check_fallback();
	}
}

TEST(map_without_usable_memory)
{
	size_t at;

	mb2_begin(&b);
	at = mb2_tag(&b, 6);
	put32(&b, 24);
	put32(&b, 0);
	put_memory(&b, 0x100000, 0x100000, 2);
	mb2_tag_end(&b, at);
	mb2_end(&b);
	parse();
	CHECK_WARNS(1, "no usable memory");
	CHECK_EQ(out.ranges[0].type, BOOT_MEM_RESERVED);
	CHECK_EQ(out.ranges[1].type, BOOT_MEM_USABLE);
}
