/*
 * Page-table pages as objects: their life and their lock.
 *
 *   made      by ptpage_alloc(), zeroed, unlinked
 *   linked    into an entry of an upper table, by compare-and-swap (ptwalk.c)
 *   stray     used == PT_STRAY: unlinked, or its unlinking has begun; nobody adds an
 *             entry any more. Whoever locked it looks up again.
 *   freed     after every TLB that may hold it is flushed and an RCU grace period
 *             has passed, so that lock-free walkers never see a reused frame
 *
 * used counts the present entries. Level 1: changed under the table's lock.
 * Upper levels: counted up (unless stray) before an entry is linked, so a table
 * with used == 0 has no entries and nobody about to add one; compare-and-swap
 * 0 → PT_STRAY claims it for unlinking, once.
 */
#ifndef MM_PTPAGE_H
#define MM_PTPAGE_H

#include "mm/mm.h"
#include "mm/page.h"
#include "mm/policy.h"

/*
 * A zeroed table for a level (1..4) of mm; of a root (4) the kernel's half is set. From
 * the quicklist if it has one. Counts in the mm's MM_TABLES. May fail: NULL. Does not sleep.
 */
struct page *ptpage_alloc(struct mm *mm, unsigned level);

/* A table that was never linked: give it back. All zero. */
void ptpage_free_unused(struct mm *mm, struct page *table);

/* A table that was unlinked, all zero again, flushed from all TLBs: free after a grace period. */
void ptpage_free_rcu(struct page *table);
/* The same when nobody can walk there any more (the mm has no users). */
void ptpage_free_now(struct page *table);

/* vm.ptl as in force: `split` is left out below a number of CPUs. Constant after boot. */
extern int ptl_policy;

/*
 * The lock of a table's entries, by vm.ptl: decided here alone. Level 1 and 2
 * have their own; with the older policies some or all share mm->ptl.
 */
static inline spinlock_t *ptpage_lockptr(struct mm *mm, struct page *table)
{
	if (likely(ptl_policy >= PTL_SPLIT) || (ptl_policy == PTL_PTE && table->level == 1))
		return &table->pt.lock;
	return &mm->ptl;
}

/*
 * vm.ptl=atomic: empty entries of a leaf table are set by compare-and-swap, side
 * by side, without its lock; everything else excludes that (the "pte locking mode" of 2004):
 *
 *   setter:   setters++;  full barrier;  lock free?  set the entry : use the lock;  setters--
 *   locker:   lock;  full barrier;  wait until setters == 0
 *
 * Each stores before it loads what the other stores, so at least one sees the
 * other: while somebody holds the lock and has waited, nobody is setting. So whoever
 * clears, moves, copies or protects entries, or claims the table for unlinking, may go on as if there were only the lock.
 */
static inline void ptpage_wait_setters(struct page *table)
{
	if (ptl_policy == PTL_ATOMIC && table->level == 1)
		while (unlikely(READ_ONCE(table->pt.setters)))
			cpu_relax();
}

/* False: the lock is taken, or the table stray; take the lock instead. Else ptpage_set_end() must follow. */
static inline bool ptpage_set_begin(struct page *table)
{
	atomic_add(&table->pt.setters, 1);
	if (likely(!READ_ONCE(table->pt.lock.word) && READ_ONCE(table->pt.used) != PT_STRAY))
		return true;
	atomic_sub(&table->pt.setters, 1);
	return false;
}

static inline void ptpage_set_end(struct page *table)
{
	atomic_sub(&table->pt.setters, 1);
}

/* Take the lock; returns the one that was taken, to be released by spin_unlock(). */
static inline spinlock_t *ptpage_lock(struct mm *mm, struct page *table)
{
	spinlock_t *l = ptpage_lockptr(mm, table);

	spin_lock(l);
	ptpage_wait_setters(table);
	return l;
}

static inline bool ptpage_stray(const struct page *table)
{
	return READ_ONCE(table->pt.used) == PT_STRAY;
}

/* Number of zeroed tables on quicklists, of a node's memory (NO_NODE: all). */
u64 quicklist_frames(int node);
void quicklist_drain_all(void); /* every CPU's list to the frame allocator; sleeps */
void quicklist_cpu_init(void);
/* The CPU is about to halt: what it has not needed for long goes back to the frame allocator. Interrupts off. */
void quicklist_idle(void);
void quicklist_show(struct seq *s);
void ptpage_init(void);

#endif
