/*
 * Quicklists: per CPU a list of zeroed page-table pages, so that fork, exec and
 * faults get one without the frame allocator and without clearing
 * (BACKGROUND: part 2).
 */
#ifndef MM_QUICKLIST_H
#define MM_QUICKLIST_H

#include "mm/page.h"

/* Two lists a CPU: zeroed tables; and root tables, zero but for the kernel's half, which is set. */
enum quicklist_kind { QUICK_TABLE, QUICK_ROOT, NR_QUICK };

/* A frame of type PG_TABLE, or NULL: list empty or vm.quicklist=off. No locks. */
struct page *quicklist_take(enum quicklist_kind kind);

/*
 * Offer a frame in the state described above that no TLB holds any more. False:
 * not taken (off; or, with vm.quicklist=node, of another node than this CPU's;
 * or the list is at its high water mark): the caller gives it to the frame allocator.
 */
bool quicklist_give(enum quicklist_kind kind, struct page *p);

#endif
