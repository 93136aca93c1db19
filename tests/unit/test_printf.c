/* kernel/printf.c against libc's snprintf. */
#include "tests/unit/unit.h"

#include <limits.h>

#include "kernel/printf.h"

#pragma GCC diagnostic ignored "-Wformat"
#pragma GCC diagnostic ignored "-Wformat-security"
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wformat-truncation"
#pragma GCC diagnostic ignored "-Wformat-overflow"
#pragma GCC diagnostic ignored "-Wformat-zero-length"
#endif

#define SAME(...) \
	do { \
		char mine_[512], libc_[512]; \
		int a_ = ksnprintf(mine_, sizeof(mine_), __VA_ARGS__); \
		int b_ = snprintf(libc_, sizeof(libc_), __VA_ARGS__); \
		CHECK_STR(mine_, libc_); \
		CHECK_EQ(a_, b_); \
	} while (0)

TEST(every_flag_width_precision_and_size)
{
	static const char *const widths[] = { "", "1", "5", "12", "30" };
	static const char *const precisions[] = { "", ".", ".0", ".1", ".4", ".25" };
	static const char *const sizes[] = { "hh", "h", "", "l", "ll", "z", "j", "t" };
	static const long long values[] = { 0, 1, -1, 7, 42, 255, 256, -129, 65535, 123456789,
					    INT_MIN, INT_MAX, LLONG_MIN, LLONG_MAX };
	int done = 0;

	for (int flags = 0; flags < 32; flags++) {
		for (size_t w = 0; w < ARRAY_SIZE(widths); w++)
		for (size_t p = 0; p < ARRAY_SIZE(precisions); p++)
		for (size_t s = 0; s < ARRAY_SIZE(sizes); s++)
		for (const char *c = "diuxXo"; *c; c++)
		for (size_t v = 0; v < ARRAY_SIZE(values); v++) {
			char fmt[32];

			snprintf(fmt, sizeof(fmt), "<%%%s%s%s%s%s%s%s%s%c>",
				 flags & 1 ? "-" : "", flags & 2 ? "0" : "",
				 flags & 4 ? " " : "", flags & 8 ? "+" : "",
				 flags & 16 ? "#" : "", widths[w], precisions[p], sizes[s], *c);
			SAME(fmt, values[v]);
			done++;
		}
	}
	CHECK_EQ(done, 32 * 5 * 6 * 8 * 6 * 14);
}

TEST(strings_and_characters)
{
	SAME("%s", "");
	SAME("%s|%10s|%-10s|%.2s|%10.2s|%-10.2s|", "abc", "abc", "abc", "abc", "abc", "abc");
	SAME("%.0s|%.10s", "abc", "abc");
	SAME("%*s|%-*s|%.*s|%*.*s", 8, "abc", 8, "abc", 2, "abc", 6, 1, "abc");
	SAME("%*s|%.*s", -8, "abc", -1, "abc");
	SAME("%c%c%c|%5c|%-5c|", 'a', 'b', 'c', 'd', 'e');
	SAME("100%% of %d", 3);
	SAME("no conversion");
	SAME("");
}

TEST(unterminated_string_with_precision)
{
	char raw[3] = { 'a', 'b', 'c' }, out[16];

	CHECK_EQ(ksnprintf(out, sizeof(out), "%.3s", raw), 3);
	CHECK_STR(out, "abc");
}

TEST(null_string_and_pointer)
{
	char out[64];

	ksnprintf(out, sizeof(out), "%s", NULL);
	CHECK_STR(out, "(null)");
	ksnprintf(out, sizeof(out), "%p %p", (void *)0xffffffff80001234, NULL);
	CHECK_STR(out, "0xffffffff80001234 0x0");
	ksnprintf(out, sizeof(out), "%20p|%-8p|", (void *)0xabc, (void *)1);
	CHECK_STR(out, "               0xabc|0x1     |");
}

TEST(cut_output_returns_full_length)
{
	for (size_t size = 0; size < 20; size++) {
		char out[21];

		memset(out, '!', sizeof(out));
		CHECK_EQ(ksnprintf(out, size, "%s-%d", "hello", 12345), 11);
		CHECK_EQ(out[size], '!');
		if (size) {
			CHECK_EQ(strlen(out), MIN(size - 1, 11ul));
			CHECK(!strncmp(out, "hello-12345", size - 1));
		}
		CHECK_EQ(kscnprintf(out, size, "%s-%d", "hello", 12345),
			 size ? MIN(size - 1, 11ul) : 0);
	}
	CHECK_EQ(ksnprintf(NULL, 0, "%100d", 1), 100);
}

TEST(unknown_conversions_stand_as_they_are)
{
	char out[64];

	ksnprintf(out, sizeof(out), "a %q b %d", 5);
	CHECK_STR(out, "a %q b 5");
	ksnprintf(out, sizeof(out), "end %");
	CHECK_STR(out, "end %");
	ksnprintf(out, sizeof(out), "end %-08l");
	CHECK_STR(out, "end %-08l");
}

TEST(huge_width_is_bounded)
{
	char out[8];

	CHECK(ksnprintf(out, sizeof(out), "%99999999999999d", 1) >= 100000);
	CHECK_STR(out, "       ");
	CHECK_EQ(ksnprintf(out, sizeof(out), "%*d|", INT_MIN / 65536, 1), 32769);
}
