/*
 * Names for kernel code addresses: see kernel/ksyms.h.
 *
 * ksyms_offset[i] is the distance of symbol i from __text_start, ascending;
 * ksyms_name[i] is where its NUL-terminated name starts in ksyms_names.
 */
#include "kernel/ksyms.h"

extern const u32 ksyms_count;
extern const u32 ksyms_offset[];
extern const u32 ksyms_name[];
extern const char ksyms_names[];
extern const char __text_start[], __text_end[];

const char *ksym_lookup(u64 addr, u64 *offset)
{
	u64 start = (u64)__text_start;
	u32 low = 0, high = ksyms_count; /* offset[low] <= target < offset[high] */

	if (addr < start || addr >= (u64)__text_end)
		return NULL;
	if (ksyms_count == 0 || addr - start < ksyms_offset[0])
		return NULL;

	while (high - low > 1) {
		u32 mid = low + (high - low) / 2;

		if (ksyms_offset[mid] <= addr - start)
			low = mid;
		else
			high = mid;
	}
	if (offset)
		*offset = addr - start - ksyms_offset[low];
	return ksyms_names + ksyms_name[low];
}

static bool same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

u64 ksym_address(const char *name)
{
	for (u32 i = 0; i < ksyms_count; i++)
		if (same(ksyms_names + ksyms_name[i], name))
			return (u64)__text_start + ksyms_offset[i];
	return 0;
}
