/*
 * Memory before there is an allocator: the ranges that the loader and ACPI
 * report, with their nodes, minus what is taken. Single-threaded boot only.
 */
#ifndef MM_BOOTMEM_H
#define MM_BOOTMEM_H

#include "kernel/types.h"

/* One piece of usable memory, all on one node. */
struct mem_range {
	u64 start, end; /* physical, page aligned */
	int node;
};

/*
 * Tell of usable memory [start, end) on a node (parts of pages are dropped), and take
 * [start, end) out again (kernel image, initramfs, first page, boot data).
 */
void bootmem_add(u64 start, u64 end, int node);
void bootmem_reserve(u64 start, u64 end);

/*
 * size bytes at the given alignment (powers of two >= 4096), on the node if
 * possible, else on the nearest by distance; zeroed; from memory below `limit`
 * bytes (0: anywhere in the direct map). Panics if there is none: nothing
 * can run then.
 */
phys_t bootmem_alloc(u64 size, u64 align, int node, u64 limit);

/* Highest usable physical address + 1; and the usable ranges as reported, sorted. */
u64 bootmem_top(void);
const struct mem_range *bootmem_ranges(unsigned *count);
const struct mem_range *bootmem_avail(unsigned *count); /* still free */

#endif
