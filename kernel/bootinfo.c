/*
 * The memory map of struct boot_info: collecting ranges and making them sorted
 * and disjoint. Firmware maps overlap more often than one would like.
 */
#include "kernel/bootinfo.h"

#include <asm/errno.h>

#include "kernel/string.h"

/* Physical addresses have at most 52 bits (Intel SDM vol. 3A, 4.1.4). */
#define PHYS_END (1ull << 52)

const char *boot_mem_type_name(enum boot_mem_type type)
{
	switch (type) {
	case BOOT_MEM_USABLE: return "usable";
	case BOOT_MEM_RESERVED: return "reserved";
	case BOOT_MEM_ACPI_RECLAIM: return "ACPI tables";
	case BOOT_MEM_NVS: return "ACPI NVS";
	case BOOT_MEM_BAD: return "bad";
	}
	return "unknown";
}

int bootinfo_add_range(struct boot_info *info, u64 base, u64 len, u32 type)
{
	if (len == 0 || base >= PHYS_END)
		return 0;
	len = MIN(len, PHYS_END - base);
	if (type < BOOT_MEM_USABLE || type > BOOT_MEM_BAD)
		type = BOOT_MEM_RESERVED;
	if (info->nr_ranges >= BOOT_RANGES_MAX) {
		if (!(info->flags & BOOT_MAP_CUT))
			boot_warn("memory map: more than %d ranges, the rest is not used",
				  BOOT_RANGES_MAX);
		info->flags |= BOOT_MAP_CUT;
		return -ENOSPC;
	}
	info->ranges[info->nr_ranges++] = (struct boot_range){ base, len, type };
	return 0;
}

/* Where ranges overlap, the larger number wins. */
static int strictness(enum boot_mem_type type)
{
	switch (type) {
	case BOOT_MEM_USABLE: return 1;
	case BOOT_MEM_ACPI_RECLAIM: return 2;
	case BOOT_MEM_NVS: return 3;
	case BOOT_MEM_RESERVED: return 4;
	case BOOT_MEM_BAD: return 5;
	}
	return 0;
}

static void sort_u64(u64 *v, u32 n)
{
	for (u32 i = 1; i < n; i++) {
		u64 x = v[i];
		u32 j = i;

		for (; j > 0 && v[j - 1] > x; j--)
			v[j] = v[j - 1];
		v[j] = x;
	}
}

/* Too large for the boot stack. */
static struct boot_range old_ranges[BOOT_RANGES_MAX];
static u64 borders[2 * BOOT_RANGES_MAX];

/* The strictest type that covers [start, end), which no border divides; 0: none. */
static u32 type_between(u32 nr_old, u64 start, u64 end)
{
	u32 type = 0;

	for (u32 i = 0; i < nr_old; i++) {
		const struct boot_range *r = &old_ranges[i];

		if (r->base <= start && end <= r->base + r->len &&
		    strictness(r->type) > strictness(type))
			type = r->type;
	}
	return type;
}

void bootinfo_normalise(struct boot_info *info)
{
	u32 nr_old = 0, nr_borders, n = 0;

	for (u32 i = 0; i < info->nr_ranges && i < BOOT_RANGES_MAX; i++) {
		struct boot_range r = info->ranges[i];

		if (r.len == 0 || r.base >= PHYS_END)
			continue;
		r.len = MIN(r.len, PHYS_END - r.base);
		borders[2 * nr_old] = r.base;
		borders[2 * nr_old + 1] = r.base + r.len;
		old_ranges[nr_old++] = r;
	}
	nr_borders = 2 * nr_old;
	sort_u64(borders, nr_borders);

	for (u32 i = 0; i + 1 < nr_borders; i++) {
		u64 start = borders[i], end = borders[i + 1];
		struct boot_range *last = n ? &info->ranges[n - 1] : NULL;
		u32 type = start < end ? type_between(nr_old, start, end) : 0;

		if (!type)
			continue;
		if (last && last->type == type && last->base + last->len == start) {
			last->len += end - start;
		} else if (n < BOOT_RANGES_MAX) {
			info->ranges[n++] = (struct boot_range){ start, end - start, type };
		} else {
			boot_warn("memory map: overlaps give more than %d ranges, nothing above"
				  " %#lx is used", BOOT_RANGES_MAX, start);
			info->flags |= BOOT_MAP_CUT;
			break;
		}
	}
	info->nr_ranges = n;
}

void bootinfo_require_memory(struct boot_info *info)
{
	for (u32 i = 0; i < info->nr_ranges; i++) {
		if (info->ranges[i].type == BOOT_MEM_USABLE)
			return;
	}
	boot_warn("memory map: the loader gave no usable memory; assuming 1 to 64 MB");
	info->flags |= BOOT_MAP_FALLBACK;
	info->nr_ranges = MIN(info->nr_ranges, BOOT_RANGES_MAX - 1u);
	bootinfo_add_range(info, 1 * MB, 63 * MB, BOOT_MEM_USABLE);
	bootinfo_normalise(info);
}

void bootinfo_set_cmdline(struct boot_info *info, const char *text, size_t len)
{
	if (len >= sizeof(info->cmdline)) {
		boot_warn("command line: longer than %zu characters, the rest is ignored",
			  sizeof(info->cmdline) - 1);
		info->flags |= BOOT_CMDLINE_CUT;
		len = sizeof(info->cmdline) - 1;
	}
	memcpy(info->cmdline, text, len);
	info->cmdline[len] = 0;
}
