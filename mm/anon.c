/*
 * First touch of private anonymous memory. A read maps the one frame of zeros, a
 * write gets a frame of its own.
 */
#include "mm/fault.h"
#include "kernel/printk.h"
#include "mm/mempolicy.h"

struct page *fault_frame(struct fault *f, bool zero)
{
	unsigned flags = (zero ? ALLOC_ZERO : 0) | (f->may_wait ? 0 : ALLOC_NOWAIT);

	/* Nearly always there is no policy. */
	if (likely(!READ_ONCE(f->area->policy) && !current->mempolicy))
		return page_alloc_local(flags, PG_ANON);
	return mempolicy_alloc(f->area, f->addr, flags, PG_ANON);
}

static enum fault_result map_zero_page(struct fault *f)
{
	u64 bits = area_pte_bits(f->area->flags & ~VM_WRITE) | PTE_SPECIAL;
	spinlock_t *ptl;

	if (!fault_lock(f, &ptl))
		return FAULT_RETRY;
	pte_set_new(f->table, f->slot, page_to_phys(zero_page).v | bits);
	spin_unlock(ptl);
	return FAULT_DONE;
}

enum fault_result fault_anon(struct fault *f)
{
	struct area *a = f->area;
	spinlock_t *ptl;
	struct page *p;
	u64 bits;

	if (!f->write)
		return map_zero_page(f);
	p = fault_frame(f, true);
	if (unlikely(!p))
		return fault_nomem(f);
	bits = area_pte_bits(a->flags);
	if (a->flags & VM_WRITE)
		bits |= PTE_W | PTE_D;
	area_set_anon(a);
	racepoint("anon_insert");
	if (unlikely(!fault_lock(f, &ptl))) {
		page_put(p);
		return FAULT_RETRY;
	}
	p->mapcount = 1;
	pte_set_new(f->table, f->slot, page_to_phys(p).v | bits);
	spin_unlock(ptl);
	mm_count(f->mm, MM_ANON, 1);
	return FAULT_DONE;
}
