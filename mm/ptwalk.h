/*
 * The one page-table walker. It is a cursor over the leaf tables (level 1) of a range:
 *
 *   struct ptwalk w;
 *   ptwalk_open(&w, mm, start, end, INTENT);
 *   while (ptwalk_next(&w)) {               // next leaf table with entries in range
 *           if (!ptwalk_lock(&w))           // it went stray: look again
 *                   continue;
 *           ptwalk_each(&w, e, va) { ... }  // entries w.entry[w.first .. w.last]
 *           ptwalk_unlock(&w);
 *   }
 *
 * Intents:
 *   WALK_READ  look, never change
 *   WALK_FILL  set entries in a way that is right for every process that may
 *              share the table; missing tables are made
 *   WALK_OWN   change what this process alone sees; a shared table in the range is
 *              replaced by an own copy before it is handed out
 *
 * Protocol. Descending takes no lock: upper entries are read once each, under RCU,
 * and tables are freed only after a grace period. New tables are linked by
 * compare-and-swap. Entries of a leaf table are changed under its lock
 * (ptpage_lock), after looking whether it is stray.
 */
#ifndef MM_PTWALK_H
#define MM_PTWALK_H

#include "mm/ptpage.h"
#include "mm/vma.h"

enum walk_intent { WALK_READ, WALK_FILL, WALK_OWN };

struct ptwalk {
	struct mm *mm;
	vaddr_t pos, end; /* what is left to be visited */
	enum walk_intent intent;
	bool failed;      /* WALK_FILL: out of memory for a table */

	struct page *table; /* current leaf table */
	pte_t *entry;       /* its entries: index 0 */
	unsigned first, last; /* indexes in range */
	vaddr_t base;       /* address that entry[0] maps */
	spinlock_t *ptl;
};

void ptwalk_open(struct ptwalk *w, struct mm *mm, vaddr_t start, vaddr_t end,
		 enum walk_intent intent);
/* Advance to the next leaf table that exists (FILL: make it). False: done, or w->failed. */
bool ptwalk_next(struct ptwalk *w);
/* Lock it; false if it is stray: then ptwalk_next() visits the same addresses again. */
bool ptwalk_lock(struct ptwalk *w);
void ptwalk_unlock(struct ptwalk *w);

#define ptwalk_each(w, i) for (unsigned i = (w)->first; i <= (w)->last; i++)
static inline vaddr_t ptwalk_addr(const struct ptwalk *w, unsigned i)
{
	return w->base + ((vaddr_t)i << PAGE_SHIFT);
}

/* The table below, on the way to addr; NULL: there is none. */
static inline pte_t *pt_down(const pte_t *t, vaddr_t addr, unsigned level)
{
	pte_t e = { READ_ONCE(t[pt_index(addr, level)].v) };

	return likely(pte_is_table(e)) ? phys_to_virt(pte_phys(e)) : NULL;
}

/*
 * Single address. pt_find: the leaf table, or NULL. RCU held. pt_make: the same, making what is
 * missing; NULL: out of memory. Neither locks.
 */
static inline struct page *pt_find(struct mm *mm, vaddr_t addr)
{
	pte_t *t = phys_to_virt(mm->root);

	static_assert(PT_LEVELS == 4, "one step a level");
	if (likely((t = pt_down(t, addr, 4)) && (t = pt_down(t, addr, 3)) && (t = pt_down(t, addr, 2))))
		return virt_to_page(t);
	return NULL;
}
struct page *pt_make(struct mm *mm, vaddr_t addr);

/*
 * The locked leaf table of addr, made if missing; *entry is the entry's address.
 * NULL: out of memory. RCU held. Unlock with spin_unlock(*ptl).
 */
struct page *pt_lock_addr(struct mm *mm, vaddr_t addr, pte_t **entry, spinlock_t **ptl);

/*
 * Unlink tables without entries that [start, end) touches; keep_upper: leaf tables only. They
 * go to the gather, which frees them after the flush. Faults, and prunes elsewhere, may go on.
 */
struct gather;
void pt_prune(struct gather *g, vaddr_t start, vaddr_t end, bool keep_upper);

/*
 * The end of an address space that nobody uses or can find any more: one sweep in ascending order, without
 * locks, that frees each table as it leaves it.
 *
 *   pt_sweep_begin(&s, mm);
 *   leaf = pt_sweep_next(&s, &pos, end);    // the next leaf table that exists, at pos or above; NULL: none below end
 *   pt_sweep_end(&s);                       // all leaf entries are gone: the root too
 */
struct pt_sweep {
	struct mm *mm;
	vaddr_t at;      /* where the path leads */
	unsigned level;  /* of its last table */
	struct page *table[PT_LEVELS + 1]; /* the path, [PT_LEVELS] is the root; by level */
};
void pt_sweep_begin(struct pt_sweep *s, struct mm *mm);
struct page *pt_sweep_next(struct pt_sweep *s, vaddr_t *pos, vaddr_t end);
void pt_sweep_end(struct pt_sweep *s);

/* Entries of leaf tables, each written under the lock of the table that holds it. */
static inline void pte_set_new(struct page *table, pte_t *e, u64 v)
{
	lock_assert_held(ptpage_lockptr(table->pt.mm, table));
	table->pt.used++;
	WRITE_ONCE(e->v, v);
}
/* Take an entry out, with the accessed and dirty bits that the CPU set up to now. */
static inline pte_t pte_take(struct page *table, pte_t *e)
{
	lock_assert_held(ptpage_lockptr(table->pt.mm, table));
	table->pt.used--;
	return (pte_t){ atomic_xchg(&e->v, 0) };
}

#endif
