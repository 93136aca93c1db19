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
	bool done;

	if (!fault_open(f, &ptl))
		return FAULT_RETRY;
	done = fault_fill(f, ptl, page_to_phys(zero_page).v | bits);
	fault_close(f, ptl);
	return done ? FAULT_DONE : FAULT_RETRY;
}

enum fault_result fault_anon(struct fault *f)
{
	struct area *a = f->area;
	bool done = false;
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
	p->mapcount = 1; /* before anybody can find it */
	if (likely(fault_open(f, &ptl))) {
		done = fault_fill(f, ptl, page_to_phys(p).v | bits);
		fault_close(f, ptl);
	}
	if (unlikely(!done)) {
		p->mapcount = 0;
		page_put(p);
		return FAULT_RETRY;
	}
	mm_count(f->mm, MM_ANON, 1);
	return FAULT_DONE;
}
