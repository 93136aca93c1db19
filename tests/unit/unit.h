/*
 * The host test harness. A test file is
 *
 *	#include "tests/unit/unit.h"
 *	TEST(split_keeps_length)
 *	{
 *		CHECK_EQ(a + b, 3);
 *	}
 *
 * and one line in unit.mk that names the kernel sources it is linked with. Each
 * test runs in a process of its own: it starts with fresh static data, and a
 * crash, a sanitizer report or a hang fails that one test only.
 *
 * A failed CHECK prints where and what, and ends the test.
 */
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/types.h"

struct unit_test {
	const char *name;
	void (*run)(void);
	struct unit_test *next;
};

void unit_register(struct unit_test *test);

#define TEST(name_) \
	static void test_##name_(void); \
	static struct unit_test unit_##name_ = { #name_, test_##name_, NULL }; \
	__attribute__((constructor)) static void register_##name_(void) \
	{ \
		unit_register(&unit_##name_); \
	} \
	static void test_##name_(void)

/* Print one line and end the test as failed. */
void unit_fail(const char *file, int line, const char *fmt, ...) __noreturn __printf(3, 4);

#define CHECK(cond) \
	do { \
		if (!(cond)) \
			unit_fail(__FILE__, __LINE__, "%s", #cond); \
	} while (0)

/* Two integers of any kind. */
#define CHECK_EQ(a, b) \
	do { \
		long long unit_a_ = (long long)(a), unit_b_ = (long long)(b); \
		if (unit_a_ != unit_b_) \
			unit_fail(__FILE__, __LINE__, "%s is %lld (%#llx), not %lld (%#llx)", #a, \
				  unit_a_, unit_a_, unit_b_, unit_b_); \
	} while (0)

#define CHECK_STR(a, b) \
	do { \
		const char *unit_a_ = (a), *unit_b_ = (b); \
		if (strcmp(unit_a_, unit_b_)) \
			unit_fail(__FILE__, __LINE__, "%s is \"%s\", not \"%s\"", #a, unit_a_, \
				  unit_b_); \
	} while (0)

/*
 * boot_warn() of the host: keeps count and text. CHECK_WARNS(n, part): exactly n
 * lines since the last CHECK_WARNS or CHECK_QUIET, one of them containing part.
 */
unsigned unit_warnings(void);
const char *unit_warn_text(void);
void unit_warn_reset(void);

#define CHECK_WARNS(n, part) \
	do { \
		if (unit_warnings() != (n) || !strstr(unit_warn_text(), (part))) \
			unit_fail(__FILE__, __LINE__, "wanted %u warnings with \"%s\", got %u:\n%s", \
				  (unsigned)(n), (part), unit_warnings(), unit_warn_text()); \
		unit_warn_reset(); \
	} while (0)

#define CHECK_QUIET() CHECK_WARNS(0, "")

#endif
