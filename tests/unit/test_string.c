/* kernel/string.c against libc and against the words of its header. */
#include "tests/unit/unit.h"

#include <errno.h>

void *k_memcpy(void *to, const void *from, size_t n);
void *k_memmove(void *to, const void *from, size_t n);
void *k_memset(void *to, int byte, size_t n);
int k_memcmp(const void *a, const void *b, size_t n);
size_t k_strlen(const char *s);
size_t k_strnlen(const char *s, size_t max);
int k_strcmp(const char *a, const char *b);
int k_strncmp(const char *a, const char *b, size_t n);
char *k_strchr(const char *s, int c);
char *k_strrchr(const char *s, int c);
size_t str_copy(char *to, const char *from, size_t size);
int parse_u64(const char *s, const char **end, u64 *out);

static int sign(int x)
{
	return (x > 0) - (x < 0);
}

TEST(memcpy_and_memset_touch_exactly_n)
{
	u8 from[300], to[300], want[300];

	for (int i = 0; i < 300; i++)
		from[i] = i * 7 + 1;
	for (size_t n = 0; n <= 256; n++) {
		memset(to, 0xaa, sizeof(to));
		memset(want, 0xaa, sizeof(want));
		memcpy(want + 9, from + 3, n);
		CHECK(k_memcpy(to + 9, from + 3, n) == to + 9);
		CHECK(!memcmp(to, want, sizeof(to)));
		memset(want + 5, 0x1c3, n);
		CHECK(k_memset(to + 5, 0x1c3, n) == to + 5);
		CHECK(!memcmp(to, want, sizeof(to)));
	}
}

TEST(memmove_overlapping_both_ways)
{
	for (size_t n = 0; n <= 40; n++) {
		for (size_t from = 0; from <= 20; from++) {
			for (size_t at = 0; at <= 20; at++) {
				u8 a[64], b[64];

				for (int i = 0; i < 64; i++)
					a[i] = b[i] = i;
				CHECK(k_memmove(a + at, a + from, n) == a + at);
				memmove(b + at, b + from, n);
				CHECK(!memcmp(a, b, sizeof(a)));
			}
		}
	}
}

TEST(memcmp_is_unsigned_and_bounded)
{
	CHECK_EQ(k_memcmp("a", "b", 0), 0);
	CHECK(k_memcmp("\x80", "\x7f", 1) > 0);
	CHECK(k_memcmp("abc", "abd", 3) < 0);
	CHECK_EQ(k_memcmp("abc", "abd", 2), 0);
	CHECK_EQ(k_memcmp("a\0b", "a\0b", 3), 0);
	CHECK(k_memcmp("a\0b", "a\0c", 3) < 0);
}

TEST(lengths)
{
	CHECK_EQ(k_strlen(""), 0);
	CHECK_EQ(k_strlen("hello"), 5);
	CHECK_EQ(k_strnlen("hello", 3), 3);
	CHECK_EQ(k_strnlen("hello", 5), 5);
	CHECK_EQ(k_strnlen("hello", 99), 5);
	CHECK_EQ(k_strnlen((char *)1, 0), 0);
}

TEST(comparisons_agree_with_libc)
{
	static const char *const words[] = { "", "a", "ab", "abc", "abd", "\x80", "b", "ab\xff" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(words); j++) {
			CHECK_EQ(sign(k_strcmp(words[i], words[j])),
				 sign(strcmp(words[i], words[j])));
			for (size_t n = 0; n < 5; n++)
				CHECK_EQ(sign(k_strncmp(words[i], words[j], n)),
					 sign(strncmp(words[i], words[j], n)));
		}
	}
}

TEST(searching)
{
	const char *s = "a/b/c";

	CHECK(k_strchr(s, '/') == s + 1);
	CHECK(k_strrchr(s, '/') == s + 3);
	CHECK(k_strchr(s, 'x') == NULL);
	CHECK(k_strrchr(s, 'x') == NULL);
	CHECK(k_strchr(s, 0) == s + 5);
	CHECK(k_strrchr(s, 0) == s + 5);
}

TEST(str_copy_cuts_and_closes)
{
	char to[6];

	memset(to, 'x', sizeof(to));
	CHECK_EQ(str_copy(to, "hello", 6), 5);
	CHECK_STR(to, "hello");
	CHECK_EQ(str_copy(to, "hello, world", 6), 12);
	CHECK_STR(to, "hello");
	CHECK_EQ(str_copy(to, "hello", 1), 5);
	CHECK_STR(to, "");
	to[0] = 'x';
	CHECK_EQ(str_copy(to, "hello", 0), 5);
	CHECK_EQ(to[0], 'x');
}

static void check_number(const char *s, int err, u64 want, size_t used)
{
	const char *end = s;
	u64 value = 77;

	CHECK_EQ(parse_u64(s, &end, &value), err);
	CHECK_EQ(value, err ? 77 : want);
	CHECK_EQ(end - s, err ? 0 : used);
}

TEST(parse_numbers)
{
	check_number("0", 0, 0, 1);
	check_number("42", 0, 42, 2);
	check_number("010", 0, 10, 3); /* no octal */
	check_number("12K", 0, 12, 2);
	check_number("0x1fG", 0, 0x1f, 4);
	check_number("0XdeadBEEF", 0, 0xdeadbeef, 10);
	check_number("0x", 0, 0, 1);
	check_number("0xg", 0, 0, 1);
	check_number("18446744073709551615", 0, UINT64_MAX, 20);
	check_number("18446744073709551616", -ERANGE, 0, 0);
	check_number("0xffffffffffffffff", 0, UINT64_MAX, 18);
	check_number("0x10000000000000000", -ERANGE, 0, 0);
	check_number("99999999999999999999999", -ERANGE, 0, 0);
	check_number("", -EINVAL, 0, 0);
	check_number("-1", -EINVAL, 0, 0);
	check_number(" 1", -EINVAL, 0, 0);
	check_number("abc", -EINVAL, 0, 0);
	u64 value;
	CHECK_EQ(parse_u64("5", NULL, &value), 0);
}
