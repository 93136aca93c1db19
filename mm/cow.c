/*
 * A write to a page whose entry is read-only although the area may be written.
 *
 * When may a frame be written in place? When its one reference is the one of
 * this entry. References are taken by entries (fork, under the lock of
 * the table that holds ours), by the page cache, and by pins (which find the frame
 * through an entry, under its table's lock). So, with our table locked, a count of 1
 * cannot grow, and we are alone: the count is read once, here, and decides. A frame of
 * the cache always has the cache's reference. Anything else is copied.
 *
 * The copy replaces the entry in three steps: clear it, flush it everywhere, set the new one.
 * If the new one came first, one CPU could write the copy while another
 * still reads the old frame through its TLB.
 */
#include "mm/fault.h"
#include "kernel/printk.h"
#include "mm/gather.h"
#include "mm/stats.h"
#include "arch/x86_64/tlb.h"

/* The table is locked and unchanged: allow writing. */
static void make_writable(struct fault *f)
{
	WRITE_ONCE(f->slot->v, f->old.v | PTE_W | PTE_D | PTE_A);
}

enum fault_result fault_cow(struct fault *f)
{
	struct area *a = f->area;
	bool special = f->old.v & PTE_SPECIAL;
	bool grant = a->flags & VM_WRITE; /* else: forced, the new page stays read-only */
	struct page *old = special ? NULL : phys_to_page(pte_phys(f->old)), *new;
	bool old_anon;
	spinlock_t *ptl;

	racepoint("cow");
	if (!fault_lock(f, &ptl))
		return FAULT_RETRY;
	if (a->flags & VM_SHARED) {
		if (!grant) {
			spin_unlock(ptl);
			return FAULT_ACCERR;
		}
		make_writable(f);
		spin_unlock(ptl);
		tlb_flush_page_local(f->addr);
		return FAULT_DONE;
	}
	if (old && old->type == PG_ANON && READ_ONCE(old->refs) == 1) {
		if (grant)
			make_writable(f);
		spin_unlock(ptl);
		stat_inc(STAT_COW_REUSE);
		if (grant)
			tlb_flush_page_local(f->addr);
		return FAULT_DONE;
	}
	if (old)
		page_get(old); /* so that it is still the same frame when we come back */
	spin_unlock(ptl);

	new = fault_frame(f, special);
	if (!new) {
		if (old)
			page_put(old);
		return fault_nomem(f);
	}
	if (old)
		page_copy(page_address(new), page_address(old));
	area_set_anon(a);
	racepoint("cow_copied");
	if (!fault_lock(f, &ptl)) {
		page_put(new);
		if (old)
			page_put(old);
		return FAULT_RETRY;
	}
	/* f->old was compared as a whole; a dirty or accessed bit set since shows as a change there. */
	atomic_xchg(&f->slot->v, 0);
	mm_flush(f->mm, f->addr, f->addr + PAGE_SIZE);
	new->mapcount = 1;
	WRITE_ONCE(f->slot->v, page_to_phys(new).v | area_pte_bits(a->flags) |
				       (grant ? PTE_W | PTE_D : 0));
	spin_unlock(ptl);
	stat_inc(STAT_COW_COPY);

	old_anon = old && old->type == PG_ANON;
	if (!old_anon)
		mm_count(f->mm, MM_ANON, 1);
	if (old) {
		if (!old_anon)
			mm_count(f->mm, a->file ? MM_FILE : MM_SHMEM, -1);
		atomic_sub((u32 *)&old->mapcount, 1);
		page_put(old); /* the entry's */
		page_put(old); /* ours */
	}
	return FAULT_DONE;
}
