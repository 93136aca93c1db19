/*
 * Batched unmapping: what was taken out of page tables is collected here, then
 * the TLBs are flushed once, and only then are frames and tables let go.
 *
 *   clear entries (page-table lock) → flush every CPU that has the address
 *   space loaded → free frames; free tables after an RCU grace period more
 */
#ifndef MM_GATHER_H
#define MM_GATHER_H

#include "mm/ptpage.h"

#define GATHER_PAGES 64
#define GATHER_CHUNKS 16 /* pages of more, if there is memory: 8,000 frames a flush */

struct gather_chunk {
	struct gather_chunk *older;
	struct page *frames[PAGE_SIZE / sizeof(struct page *) - 1];
};

struct gather {
	struct mm *mm;
	vaddr_t start, end; /* range to flush; start > end: nothing yet */
	bool tables;        /* tables were unlinked: paging-structure caches too */
	struct page *alone;  /* private frames nobody else has, linked through link.next */
	struct page *unlinked; /* tables, linked through pt.rcu.next */
	/* Frames that others may hold too: first[], then chunks, each full but for the newest. */
	struct page **shared; /* of the array being filled: */
	u32 nr, max;
	u32 nr_chunks;
	struct gather_chunk *chunks; /* the newest */
	struct page *first[GATHER_PAGES];
};

void gather_begin(struct gather *g, struct mm *mm);
/* An entry that mapped va is gone or lost permissions. */
static inline void gather_flush_addr(struct gather *g, vaddr_t va)
{
	if (va < g->start)
		g->start = va;
	if (va + PAGE_SIZE > g->end)
		g->end = va + PAGE_SIZE;
}
/* The array is full: take another. False: there is room again. */
bool gather_full(struct gather *g);
/*
 * Drop the reference and map count of a frame that an entry mapped, after the flush.
 * True: the batch is full; the caller unlocks and calls gather_flush().
 */
static inline bool gather_page(struct gather *g, struct page *p)
{
	/*
	 * One reference, ours: no other entry maps the frame and nobody has it pinned, and with the entry
	 * gone nobody can find it. So its descriptor's link is ours to use, and any
	 * number of them fit in one batch.
	 */
	if (p->type == PG_ANON && READ_ONCE(p->refs) == 1) {
		p->mapcount = 0;
		p->link.next = (struct list *)g->alone;
		g->alone = p;
		return false;
	}
	g->shared[g->nr++] = p;
	return unlikely(g->nr == g->max) && gather_full(g);
}
void gather_table(struct gather *g, struct page *table);
/* Flush now and let go of everything so far. No page-table lock held. */
void gather_flush(struct gather *g);
void gather_end(struct gather *g);

/* Flush a range of an mm's translations everywhere, now. May be called under a page-table lock. */
void mm_flush(struct mm *mm, vaddr_t start, vaddr_t end);

#endif
