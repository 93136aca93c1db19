/* Taking mappings out of page tables. */
#ifndef MM_ZAP_H
#define MM_ZAP_H

#include "mm/gather.h"
#include "mm/vma.h"

/*
 * Clear all entries of [start, end) inside area a; their frames go to the gather. only_file:
 * leave private copies alone. The caller marked the area (change_begin), or
 * excludes faults otherwise; or zaps for a truncation (mapping.h). Yields the CPU in between.
 */
void zap_range(struct gather *g, struct area *a, vaddr_t start, vaddr_t end, bool only_file);

/*
 * All of an mm that has no users, and whose areas no mapping lists, so that nobody else can get at its tables: these
 * go too, in the same sweep. No flush: no TLB can hold anything. Yields the CPU in between.
 */
void zap_all(struct mm *mm);

/* Truncation: pages first..last of a's mapping, flushed on return. even_private: private copies too. */
void zap_mapping_range(struct area *a, u64 first, u64 last, bool even_private);

#endif
