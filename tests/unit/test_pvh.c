/* arch/x86_64/pvh.c: what qemu -kernel gives, and broken variants. */
#include "tests/unit/unit.h"

#include <errno.h>

#include "arch/x86_64/pvh.h"
#include "tests/unit/build.h"
#include "tests/unit/phys.h"

static struct bytes b;
static struct boot_info out;

static int parse(void)
{
	int err;

	phys_set(b.base, b.data, b.len);
	memset(&out, 0xee, sizeof(out));
	err = pvh_parse(0x1000, phys_map, &out);
	phys_done();
	return err;
}

TEST(typical)
{
	pvh_typical(&b, 1);
	CHECK_EQ(parse(), 0);
	CHECK_QUIET();
	CHECK_STR(out.cmdline, "run=init log=debug");
	CHECK_STR(out.loader, "PVH");
	CHECK_EQ(out.flags, BOOT_FROM_PVH);
	CHECK_EQ(out.initrd_phys, 0x4000000);
	CHECK_EQ(out.initrd_len, 0x12345);
	CHECK_EQ(out.rsdp_phys, 0xf5a10);
	CHECK_EQ(out.rsdp_len, 0);
	CHECK_EQ(out.nr_ranges, 3);
	CHECK_EQ(out.ranges[1].type, BOOT_MEM_RESERVED);
	CHECK_EQ(out.ranges[2].base, 0x100000);
	CHECK_EQ(out.ranges[2].len, 0x7f00000);
}

TEST(version_0_has_no_map)
{
	pvh_typical(&b, 0);
	CHECK_EQ(parse(), 0);
	CHECK_WARNS(1, "no usable memory");
	CHECK_STR(out.cmdline, "run=init log=debug");
	CHECK_EQ(out.ranges[0].base, 1 * MB);
	CHECK(out.flags & BOOT_MAP_FALLBACK);
}

TEST(later_versions_are_read_as_1)
{
	pvh_typical(&b, 9);
	CHECK_EQ(parse(), 0);
	CHECK_QUIET();
	CHECK_EQ(out.nr_ranges, 3);
}

TEST(wrong_magic)
{
	pvh_typical(&b, 1);
	set32(&b, 0, 0x12345678);
	CHECK_EQ(parse(), -EINVAL);
	CHECK_WARNS(2, "no start information");
	CHECK_STR(out.cmdline, "");
	CHECK_EQ(out.nr_ranges, 1);
}

TEST(start_not_readable)
{
	pvh_typical(&b, 1);
	phys_set(b.base, b.data, b.len);
	CHECK_EQ(pvh_parse(0x999999, phys_map, &out), -EINVAL);
	CHECK_EQ(pvh_parse(UINT64_MAX - 3, phys_map, &out), -EINVAL);
	b.len = 39;
	CHECK_EQ(parse(), -EINVAL);
	phys_done();
}

TEST(version_1_cut_behind_version_0)
{
	pvh_typical(&b, 1);
	set64(&b, 24, 0);
	set32(&b, 12, 0);
	b.len = 48;
	CHECK_EQ(parse(), 0);
	CHECK_WARNS(2, "memory map is not readable");
	CHECK_EQ(out.rsdp_phys, 0xf5a10);
}

TEST(no_command_line)
{
	pvh_typical(&b, 1);
	set64(&b, 24, 0);
	parse();
	CHECK_QUIET();
	CHECK_STR(out.cmdline, "");
	set64(&b, 24, 0xdeadbeef000);
	parse();
	CHECK_WARNS(1, "not readable");
	CHECK_STR(out.cmdline, "");
	CHECK_EQ(out.nr_ranges, 3);
}

TEST(command_line_across_pages)
{
	pvh_typical(&b, 1);
	put_zero(&b, 0x1ff0 - b.len);
	set64(&b, 24, here(&b));
	for (int i = 0; i < 0x2000 - 0x1ff0 + 0xfff; i++)
		put8(&b, 'a' + i % 26);
	/* 0x100f characters: longer than the buffer */
	put8(&b, 0);
	CHECK_EQ(b.len, 0x3000);
	parse();
	CHECK_EQ(strlen(out.cmdline), BOOT_CMDLINE_MAX - 1);
	CHECK(out.flags & BOOT_CMDLINE_CUT);
	CHECK_WARNS(1, "longer");

	set64(&b, 24, 0x3f00); /* to the last readable byte */
	parse();
	CHECK_QUIET();
	CHECK_EQ(strlen(out.cmdline), 0xff);

	set8(&b, 0x2100, 0);
	set64(&b, 24, 0x2ff0);
	parse();
	CHECK_QUIET();
	CHECK_EQ(strlen(out.cmdline), 0x110);
	CHECK(!memcmp(out.cmdline, b.data + 0x1ff0, 0x111));
}

TEST(command_line_of_full_length_fits)
{
	pvh_typical(&b, 1);
	put_zero(&b, 0x1000 - b.len);
	set64(&b, 24, here(&b));
	for (int i = 0; i < BOOT_CMDLINE_MAX - 1; i++)
		put8(&b, 'x');
	put8(&b, 0);
	parse();
	CHECK_QUIET();
	CHECK_EQ(strlen(out.cmdline), BOOT_CMDLINE_MAX - 1);
}

TEST(modules)
{
	pvh_typical(&b, 1);
	set32(&b, 12, 0);
	parse();
	CHECK_QUIET();
	CHECK_EQ(out.initrd_len, 0);

	set32(&b, 12, 3);
	parse();
	CHECK_WARNS(1, "3 modules");
	CHECK_EQ(out.initrd_len, 0x12345);

	set64(&b, 16, 0xabcdef0000);
	set32(&b, 12, 1);
	parse();
	CHECK_WARNS(1, "module list");
	CHECK_EQ(out.initrd_len, 0);
}

TEST(module_that_wraps)
{
	pvh_typical(&b, 1);
	set64(&b, 56, UINT64_MAX - 5);
	parse();
	CHECK_WARNS(1, "initramfs");
	CHECK_EQ(out.initrd_len, 0);
}

TEST(map_partly_readable)
{
	pvh_typical(&b, 1);
	set32(&b, 48, 500);
	parse();
	CHECK_WARNS(1, "of the memory map is not readable");
	CHECK(out.nr_ranges >= 3);
	pvh_typical(&b, 1);
	set64(&b, 40, UINT64_MAX - 8);
	parse();
	CHECK_WARNS(2, "entry 0 of 3");
}

TEST(map_of_absurd_length)
{
	pvh_typical(&b, 1);
	put_zero(&b, 1500 * 24);
	set64(&b, 40, here(&b) - 1500 * 24);
	set32(&b, 48, 0xffffffff);
	parse();
	CHECK_WARNS(2, "reading 1024");
}

TEST(every_truncation_is_survived)
{
	pvh_typical(&b, 1);
	for (size_t len = b.len; len-- > 0;) {
		b.len = len;
		parse();
		CHECK(out.nr_ranges >= 1);
		CHECK(unit_warnings() > 0);
		unit_warn_reset();
	}
}
