/*
 * Physical memory for the parsers' map() accessor: one image at some address.
 * Each map() gives a heap copy of exactly the bytes asked for and frees the one
 * before, so the sanitizer sees reading too far and holding a pointer too long.
 */
#ifndef TESTS_UNIT_PHYS_H
#define TESTS_UNIT_PHYS_H

#include <stdlib.h>
#include <string.h>

#include "kernel/types.h"

static struct {
	u64 base;
	const u8 *data;
	size_t len;
	void *copy;
	/* For fuzzing: make the checksum of what looks like a whole ACPI table right. */
	bool fix_checksums;
} phys;

static inline void phys_set(u64 base, const void *data, size_t len)
{
	phys.base = base;
	phys.data = data;
	phys.len = len;
}

static inline void phys_done(void)
{
	free(phys.copy);
	phys.copy = NULL;
}

static inline u8 bytes_sum(const u8 *p, size_t n)
{
	u8 sum = 0;

	while (n--)
		sum += *p++;
	return sum;
}

static inline void phys_fix(u8 *p, size_t len)
{
	if (len >= 36 && !memcmp(p, "RSD PTR ", 8)) {
		p[8] -= bytes_sum(p, 20);
		p[32] -= bytes_sum(p, 36);
	} else if (len > 36) {
		p[9] -= bytes_sum(p, len);
	}
}

static inline const void *phys_map(u64 at, size_t len)
{
	phys_done();
	if (at < phys.base || at - phys.base > phys.len || len > phys.len - (at - phys.base))
		return NULL;
	phys.copy = malloc(len ? len : 1);
	memcpy(phys.copy, phys.data + (at - phys.base), len);
	if (phys.fix_checksums && len < 0x20000)
		phys_fix(phys.copy, len);
	return phys.copy;
}

#endif
