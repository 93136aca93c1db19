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

/*
 * A frame of type PG_TABLE, off this CPU's list, or of the frame allocator if that is empty. (With vm.quicklist=off
 * nothing is added to it.) NULL: no memory (nothing is reclaimed). Takes the zone lock at most. Tasks only.
 */
struct page *quicklist_take(enum quicklist_kind kind);

/*
 * Offer a frame in the state described above that no TLB holds any more. False:
 * not taken (off; or, with vm.quicklist=node, of another node than this CPU's): the caller gives it to the
 * frame allocator. A list at its high water mark gives others back.
 */
bool quicklist_give(enum quicklist_kind kind, struct page *p);

#endif
