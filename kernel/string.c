/*
 * String functions. Copies and fills use the string instructions: one guest
 * instruction for any length is the cheapest thing there is under emulation,
 * and real CPUs with ERMS run it at full width.
 *
 * The loops hide their pointer from the optimiser, which would otherwise
 * recognise the loop and replace it by a call of the function it is in.
 */
#include "kernel/string.h"

#include <asm/errno.h>

#define HIDE(p) __asm__("" : "+r"(p))

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
	void *d = to;

	__asm__ volatile("rep movsb" : "+D"(d), "+S"(from), "+c"(n) : : "memory");
	return to;
}

void *memmove(void *to, const void *from, size_t n)
{
	/* As unsigned distance: true also when `to` lies below `from`. */
	if ((uintptr_t)to - (uintptr_t)from >= n)
		return memcpy(to, from, n);

	u8 *d = (u8 *)to + n - 1;
	const u8 *s = (const u8 *)from + n - 1;

	__asm__ volatile("std; rep movsb; cld" : "+D"(d), "+S"(s), "+c"(n) : : "memory", "cc");
	return to;
}

void *memset(void *to, int byte, size_t n)
{
	void *d = to;

	__asm__ volatile("rep stosb" : "+D"(d), "+c"(n) : "a"(byte) : "memory");
	return to;
}

int memcmp(const void *a, const void *b, size_t n)
{
	const u8 *x = a, *y = b;

	for (; n; n--, x++, y++) {
		HIDE(x);
		if (*x != *y)
			return *x - *y;
	}
	return 0;
}

size_t strlen(const char *s)
{
	const char *p = s;

	while (*p) {
		p++;
		HIDE(p);
	}
	return p - s;
}

size_t strnlen(const char *s, size_t max)
{
	size_t n = 0;

	while (n < max && s[n])
		n++;
	return n;
}

int strcmp(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return (u8)*a - (u8)*b;
}

int strncmp(const char *a, const char *b, size_t n)
{
	for (; n; n--, a++, b++) {
		if (*a != *b || !*a)
			return (u8)*a - (u8)*b;
	}
	return 0;
}

char *strchr(const char *s, int c)
{
	for (;; s++) {
		HIDE(s);
		if (*s == (char)c)
			return (char *)s;
		if (!*s)
			return NULL;
	}
}

char *strrchr(const char *s, int c)
{
	const char *last = NULL;

	for (;; s++) {
		if (*s == (char)c)
			last = s;
		if (!*s)
			return (char *)last;
	}
}

size_t str_copy(char *to, const char *from, size_t size)
{
	size_t len = strlen(from);

	if (size) {
		size_t n = MIN(len, size - 1);

		memcpy(to, from, n);
		to[n] = 0;
	}
	return len;
}

static int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return 16;
}

int parse_u64(const char *s, const char **end, u64 *out)
{
	int base = 10;
	u64 value = 0;

	if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X') && digit_value(s[2]) < 16) {
		base = 16;
		s += 2;
	}
	if (digit_value(*s) >= base)
		return -EINVAL;
	for (; digit_value(*s) < base; s++) {
		if (__builtin_mul_overflow(value, (u64)base, &value) ||
		    __builtin_add_overflow(value, (u64)digit_value(*s), &value))
			return -ERANGE;
	}
	if (end)
		*end = s;
	*out = value;
	return 0;
}
