/* arch/x86_64/acpi_fadt.c: HPET, FADT and \_S5. */
#include "tests/unit/acpi_machine.h"

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
