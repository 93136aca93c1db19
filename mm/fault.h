/*
 * What a page fault does, in kinds (fault.c, anon.c, cow.c, file.c).
 */
#ifndef MM_FAULT_H
#define MM_FAULT_H

#include "mm/ptwalk.h"
#include "mm/vma.h"

/* One try to resolve a fault. */
struct fault {
	struct mm *mm;
	struct area *area;
	u32 seq;        /* the area's, even, read before its bounds and flags */
	vaddr_t addr;   /* page aligned */
	bool write;
	bool may_wait;  /* mm is locked for reading and the task may sleep; else RCU is held */
	bool force;     /* break COW even without VM_WRITE (/proc/PID/mem) */
	struct page *table; /* leaf table that maps addr */
	pte_t *slot;        /* its entry */
	pte_t old;          /* what the entry was when looked at */
};

enum fault_result {
	FAULT_DONE,
	FAULT_RETRY, /* something changed under us: from the start */
	FAULT_WAIT,  /* has to sleep: again, with mm's lock */
	FAULT_BUSY,  /* the area is being changed */
	FAULT_NOMEM,
	FAULT_MAPERR, /* SIGSEGV, nothing mapped there */
	FAULT_ACCERR, /* SIGSEGV, no permission */
	FAULT_SIGBUS, /* beyond the end of the file */
};

/*
 * Lock f->table and look again: true if it is not stray, the area is unchanged,
 * and the entry is still f->old; then the entry may be set. Else unlocked.
 */
static __force_inline bool fault_lock(struct fault *f, spinlock_t **ptl)
{
	*ptl = ptpage_lock(f->mm, f->table);
	if (likely(!ptpage_stray(f->table) && READ_ONCE(f->area->seq) == f->seq &&
		   f->slot->v == f->old.v))
		return true;
	spin_unlock(*ptl);
	return false;
}

/*
 * The same for setting an entry that was empty (f->old), which with vm.ptl=atomic needs no
 * lock (*ptl = NULL then). Between fault_open() and fault_close() the area and the
 * table stay as they are; fault_fill() is false if another CPU has set the entry first.
 */
static __force_inline bool fault_open(struct fault *f, spinlock_t **ptl)
{
	if (ptl_policy == PTL_ATOMIC && ptpage_set_begin(f->table)) {
		*ptl = NULL;
		if (likely(READ_ONCE(f->area->seq) == f->seq))
			return true;
		ptpage_set_end(f->table);
		return false;
	}
	return fault_lock(f, ptl);
}

static inline bool fault_fill(struct fault *f, spinlock_t *ptl, u64 v)
{
	u64 none = 0;

	if (ptl) {
		pte_set_new(f->table, f->slot, v);
		return true;
	}
	if (!atomic_try_cmpxchg(&f->slot->v, &none, v))
		return false;
	atomic_add(&f->table->pt.used, 1);
	return true;
}

static inline void fault_close(struct fault *f, spinlock_t *ptl)
{
	if (ptl)
		spin_unlock(ptl);
	else
		ptpage_set_end(f->table);
}

enum fault_result fault_anon(struct fault *f); /* nothing there, private anonymous memory */
enum fault_result fault_cow(struct fault *f);  /* write to an entry without PTE_W */
enum fault_result fault_file(struct fault *f); /* nothing there, a mapping behind the area */

/* A new private frame for f->addr, cleared if zero; NULL: out of memory (may_wait decides about sleeping). */
struct page *fault_frame(struct fault *f, bool zero);
static inline enum fault_result fault_nomem(const struct fault *f)
{
	return f->may_wait ? FAULT_NOMEM : FAULT_WAIT;
}

/* Fault addr in as if a thread of mm had touched it. No lock held. Sleeps. */
enum fault_result fault_in(struct mm *mm, vaddr_t addr, bool write, bool force);
/* The same with mm locked for reading, so that what it brings in is still there on return. No stack grows. */
enum fault_result fault_in_locked(struct mm *mm, vaddr_t addr, bool write, bool force);

/* The current thread's next fault is likely to be in a, an area of its mm, in the map and owned. */
void fault_expect(struct area *a);

/* Make the area at or above addr reach down to addr, if it is a stack and limits allow. */
bool stack_grow(struct mm *mm, vaddr_t addr);

#endif
