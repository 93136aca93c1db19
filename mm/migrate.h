/* Moving a page to another node. */
#ifndef MM_MIGRATE_H
#define MM_MIGRATE_H

#include "mm/vma.h"

/* Node of the frame that va maps, or -1 (nothing there, or the zero page). mm->lock or RCU. */
int page_node_at(struct mm *mm, vaddr_t va);

/*
 * Move the page at va of area a to a node: a new frame, the contents, the entry. Private frames that only this entry
 * maps; with `all` also frames that others map are counted as misplaced, not moved.
 * Returns 0; -EBUSY: shared or pinned, left alone; -ENOMEM; -ENOENT: nothing there. mm->lock for writing.
 */
int migrate_page(struct area *a, vaddr_t va, int node, bool all);

#endif
