/* kernel/cpio.c: archives as cpio makes them, and broken ones. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <sys/stat.h>

#include "kernel/cpio.h"
#include "tests/unit/build.h"

static struct bytes b;
static struct cpio_reader r;
static struct cpio_entry e;
static u8 *copy;

/* Open an exact heap copy of the first len bytes, moved by `shift` from any alignment. */
static void open_part(size_t len, size_t shift)
{
	static u8 *old;

	free(old);
	old = malloc(len + shift + 1);
	copy = old + shift;
	memcpy(copy, b.data, len);
	copy = realloc(old, len + shift ? len + shift : 1);
	old = copy;
	copy += shift;
	cpio_open(&r, copy, len);
}

static void open_all(void)
{
	open_part(b.len, 0);
}

static void expect(const char *name, u32 mode, const char *data)
{
	CHECK_EQ(cpio_next(&r, &e), 1);
	CHECK_STR(e.name, name);
	CHECK_EQ(e.mode, mode);
	CHECK_EQ(e.size, strlen(data));
	CHECK(!memcmp(e.data, data, e.size));
}

static void expect_error(const char *error)
{
	CHECK_EQ(cpio_next(&r, &e), -EINVAL);
	CHECK_STR(r.error, error);
	CHECK_EQ(cpio_next(&r, &e), -EINVAL); /* and stays so */
}

TEST(typical_at_any_alignment)
{
	for (size_t shift = 0; shift < 4; shift++) {
		cpio_typical(&b);
		open_part(b.len, shift);
		expect(".", 0040755, "");
		expect("bin", 0040755, "");
		expect("bin/hello", 0100755, "hello, world\n");
		CHECK_EQ(e.uid, 1000);
		CHECK_EQ(e.gid, 100);
		CHECK_EQ(e.nlink, 1);
		CHECK_EQ(e.ino, 3);
		CHECK_EQ(e.mtime, 0x5f000000);
		CHECK_EQ(e.dev_major, 8);
		CHECK_EQ(e.dev_minor, 1);
		expect("bin/sh", 0120777, "busybox");
		expect("a", 0100644, "");
		CHECK_EQ(e.nlink, 2);
		CHECK_EQ(e.ino, 5);
		expect("b", 0100644, "shared");
		CHECK_EQ(e.nlink, 2);
		CHECK_EQ(e.ino, 5);
		expect("dev/console", 0020600, "");
		CHECK_EQ(e.rdev_major, 5);
		CHECK_EQ(e.rdev_minor, 7);
		CHECK_EQ(cpio_next(&r, &e), 0);
		CHECK_EQ(cpio_next(&r, &e), 0);
		CHECK(!r.error);
		CHECK_EQ(r.archive, 1);
		CHECK_QUIET();
	}
}

TEST(made_by_cpio)
{
	FILE *f;
	int n = 0;

	if (system("command -v cpio >/dev/null"))
		return; /* nothing to compare with */
	f = popen("d=$(mktemp -d) && cd $d && mkdir sub && echo data > sub/file && ln -s file sub/link"
		  " && ln sub/file hard && find . | LC_ALL=C sort | cpio -o -H newc 2>/dev/null;"
		  " rm -r $d", "r");
	CHECK(f);
	b.len = fread(b.data, 1, sizeof(b.data), f);
	pclose(f);
	open_all();
	while (cpio_next(&r, &e) == 1) {
		n++;
		if (!strcmp(e.name, "sub/link")) {
			CHECK(S_ISLNK(e.mode));
			CHECK_EQ(e.size, 4);
		}
		if (!strcmp(e.name, "hard"))
			CHECK_EQ(e.nlink, 2);
	}
	CHECK(!r.error);
	CHECK_EQ(n, 5);
}

TEST(empty_is_the_end)
{
	b.len = 0;
	open_all();
	CHECK_EQ(cpio_next(&r, &e), 0);
	put_zero(&b, 512);
	open_all();
	CHECK_EQ(cpio_next(&r, &e), 0);
	CHECK(!r.error);
}

TEST(archives_one_after_the_other)
{
	b.len = 0;
	put_zero(&b, 8);
	cpio_put(&b, 1, 0100644, 2, "one", "1", 1);
	cpio_trailer(&b);
	cpio_put(&b, 1, 0100644, 2, "two", "22", 2); /* directly behind */
	cpio_trailer(&b);
	put_align(&b, 1024);
	cpio_trailer(&b); /* an empty archive */
	put_zero(&b, 4);
	cpio_put(&b, 1, 0100644, 1, "three", "333", 3);
	cpio_trailer(&b);
	open_all();
	expect("one", 0100644, "1");
	CHECK_EQ(e.archive, 0);
	expect("two", 0100644, "22");
	CHECK_EQ(e.archive, 1); /* so inode 1 is another file */
	expect("three", 0100644, "333");
	CHECK_EQ(e.archive, 3);
	CHECK_EQ(cpio_next(&r, &e), 0);
	CHECK_EQ(r.archive, 4);
}

TEST(junk_behind_the_trailer)
{
	b.len = 0;
	cpio_trailer(&b);
	put_zero(&b, 4);
	put_raw(&b, "junk", 4);
	open_all();
	expect_error("no cpio header where one should be");

	b.len = 0;
	cpio_trailer(&b);
	put_zero(&b, 2);
	cpio_put(&b, 1, 0100644, 1, "x", "", 0);
	open_all();
	expect_error("padding between archives is no multiple of four");
}

TEST(missing_trailer)
{
	b.len = 0;
	cpio_put(&b, 1, 0100644, 1, "x", "data", 4);
	open_all();
	expect("x", 0100644, "data");
	expect_error("the archive ends without its trailer");
}

TEST(last_padding_may_be_missing)
{
	b.len = 0;
	cpio_trailer(&b);
	open_part(110 + 11, 0);
	/* The name's padding belongs to the header: three bytes less are too few. */
	CHECK_EQ(cpio_next(&r, &e), -EINVAL);
	b.len = 0;
	cpio_put(&b, 1, 0100644, 1, "x", "12345", 5);
	open_part(b.len - 3, 0);
	expect("x", 0100644, "12345");
}

TEST(every_truncation_is_an_error)
{
	cpio_typical(&b);
	while (b.len && !b.data[b.len - 1])
		b.len--;
	for (size_t len = 1; len < b.len; len++) {
		int got;

		open_part(len, 0);
		while ((got = cpio_next(&r, &e)) == 1)
			CHECK((const u8 *)e.data + e.size <= copy + len);
		CHECK_EQ(got, -EINVAL);
		CHECK(r.error);
	}
}

TEST(names_are_made_relative)
{
	static const char *const names[][2] = {
		{ "/etc/passwd", "etc/passwd" }, { "./etc", "etc" }, { "///etc", "etc" },
		{ "././/./etc", "etc" }, { "/", "." }, { "./", "." }, { ".", "." },
		{ "", "." }, { "...", "..." }, { "..a/b..", "..a/b.." }, { ".hidden", ".hidden" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		b.len = 0;
		cpio_put(&b, 1, 0100644, 1, names[i][0], "", 0);
		cpio_trailer(&b);
		open_all();
		expect(names[i][1], 0100644, "");
		CHECK_EQ(cpio_next(&r, &e), 0);
		CHECK_QUIET();
	}
}

TEST(names_that_leave_the_root_are_left_out)
{
	static const char *const names[] = { "..", "../x", "a/../../x", "a/..", "/..", "./../x",
					     "a//../b" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		b.len = 0;
		cpio_put(&b, 1, 0100644, 1, names[i], "evil", 4);
		cpio_put(&b, 2, 0100644, 1, "good", "fine", 4);
		cpio_trailer(&b);
		open_all();
		expect("good", 0100644, "fine");
		CHECK_EQ(cpio_next(&r, &e), 0);
		CHECK_EQ(r.refused, 1);
		CHECK_WARNS(1, "leaves the root");
	}
}

TEST(name_sizes)
{
	static char name[CPIO_NAME_MAX + 1];

	memset(name, 'n', sizeof(name) - 1);
	b.len = 0;
	cpio_put(&b, 1, 0100644, 1, name, "x", 1); /* one too long */
	cpio_put(&b, 1, 0100644, 1, name + 1, "y", 1);
	cpio_trailer(&b);
	open_all();
	expect(name + 1, 0100644, "y");
	CHECK_EQ(cpio_next(&r, &e), 0);
	CHECK_WARNS(1, "4097 bytes left out");

	b.len = 0;
	cpio_put(&b, 1, 0100644, 1, "ab", "", 0);
	cpio_trailer(&b);
	memcpy(b.data + 94, "00000000", 8); /* name of no bytes */
	open_all();
	CHECK_EQ(cpio_next(&r, &e), -EINVAL); /* the name's bytes are then where a header should be */
	CHECK_WARNS(1, "name of 0 bytes");

	b.len = 0;
	cpio_put(&b, 1, 0100644, 1, "ab", "", 0);
	memcpy(b.data + 94, "00000002", 8);
	open_all();
	expect_error("a name has no closing zero byte");
}

static void break_field(int field, const char *digits, const char *error)
{
	b.len = 0;
	cpio_put(&b, 1, 0100644, 1, "x", "1234", 4);
	cpio_trailer(&b);
	memcpy(b.data + 6 + 8 * field, digits, 8);
	open_all();
	expect_error(error);
}

TEST(bad_fields)
{
	for (int field = 0; field < 13; field++) {
		break_field(field, "0000000g", "a header field is not hexadecimal");
		break_field(field, "0x000000", "a header field is not hexadecimal");
		break_field(field, "      10", "a header field is not hexadecimal");
	}
	break_field(6, "FFFFFFFF", "truncated in a file's data");
	break_field(6, "7fffffff", "truncated in a file's data");
	break_field(11, "FFFFFFFF", "truncated in a name");
	break_field(11, "fffffffc", "truncated in a name");
}

TEST(lower_case_digits)
{
	b.len = 0;
	cpio_put(&b, 0xabcdef, 0100644, 1, "x", "", 0);
	cpio_trailer(&b);
	for (int i = 6; i < 110; i++)
		b.data[i] |= b.data[i] >= 'A' ? 0x20 : 0;
	open_all();
	CHECK_EQ(cpio_next(&r, &e), 1);
	CHECK_EQ(e.ino, 0xabcdef);
}

TEST(other_formats_are_named)
{
	static const struct {
		const char *start, *error;
	} kinds[] = {
		{ "070707000000", "old cpio format: make it with cpio -H newc" },
		{ "\xc7\x71\x01\x02", "binary cpio format: make it with cpio -H newc" },
		{ "\x1f\x8b\x08\x01", "compressed archive: give it uncompressed" },
		{ "\xfd" "7zXZ", "compressed archive: give it uncompressed" },
		{ "BZh91AY", "compressed archive: give it uncompressed" },
		{ "\x28\xb5\x2f\xfd", "compressed archive: give it uncompressed" },
		{ "garbage", "no cpio header where one should be" },
		{ "0", "no cpio header where one should be" },
		{ "070703", "no cpio header where one should be" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		b.len = 0;
		put_raw(&b, kinds[i].start, strlen(kinds[i].start));
		open_all();
		expect_error(kinds[i].error);
	}
}

TEST(checksums)
{
	for (int good = 0; good < 2; good++) {
		b.len = 0;
		cpio_put(&b, 1, 0100644, 1, "x", "\x01\x02\xff", 3);
		cpio_trailer(&b);
		b.data[5] = '2';
		memcpy(b.data + 102, good ? "00000102" : "00000101", 8);
		open_all();
		if (good)
			expect("x", 0100644, "\x01\x02\xff");
		else
			expect_error("bad data checksum");
	}
}

TEST(error_position_is_the_bad_header)
{
	b.len = 0;
	cpio_put(&b, 1, 0100644, 1, "x", "1234", 4);
	size_t at = b.len;
	put_raw(&b, "rubbish.", 8);
	open_all();
	expect("x", 0100644, "1234");
	expect_error("no cpio header where one should be");
	CHECK_EQ(r.pos, at);
}
