/*
 * Quicklists: per CPU a list of zeroed page-table pages, so that fork, exec and
 * faults get one without the frame allocator and without clearing
 * (BACKGROUND: part 2).
 */
#ifndef MM_QUICKLIST_H
#define MM_QUICKLIST_H

#include "mm/page.h"

/* A zeroed frame of type PG_TABLE, or NULL: list empty or vm.quicklist=off. No locks. */
struct page *quicklist_take(void);

/*
 * Offer a zeroed frame that no TLB holds any more. False: not taken (off; or, with
 * vm.quicklist=node, of another node than this CPU's; or the list is at its high water mark),
 * the caller gives it to the frame allocator.
 */
bool quicklist_give(struct page *p);

#endif
