/*
 * First touch of memory that a mapping stands behind: a file, or shared
 * anonymous memory. Shared areas and private reads map the cache's frame itself;
 * a private write gets a copy.
 */
#include "mm/fault.h"
#include "kernel/printk.h"
#include "mm/mapping.h"

/* The frame is still the mapping's at that index, and inside the file: see mapping.h. Table locked. */
static bool still_cached(const struct mapping *m, const struct page *p, u64 index)
{
	return READ_ONCE(p->mapping) == m && index < DIV_UP(READ_ONCE(m->size), PAGE_SIZE);
}

enum fault_result fault_file(struct fault *f)
{
	struct area *a = f->area;
	struct mapping *m = a->mapping;
	u64 index = area_pgoff(a, f->addr);
	bool private = !(a->flags & VM_SHARED);
	bool copy = private && f->write;
	struct page *p, *cached;
	bool done = false;
	spinlock_t *ptl;
	u64 bits = area_pte_bits(a->flags);

	if (index >= DIV_UP(READ_ONCE(m->size), PAGE_SIZE))
		return FAULT_SIGBUS;
	if (f->write && !private && !(a->flags & VM_WRITE))
		return FAULT_ACCERR; /* forced writes never reach the file */
	cached = mapping_make_page(m, index, ALLOC_ZERO | (f->may_wait ? 0 : ALLOC_NOWAIT));
	if (!cached)
		return fault_nomem(f);
	p = cached;
	if (copy) {
		p = fault_frame(f, false);
		if (!p) {
			page_put(cached);
			return fault_nomem(f);
		}
		page_copy(page_address(p), page_address(cached));
		area_set_anon(a);
		if (a->flags & VM_WRITE)
			bits |= PTE_W | PTE_D;
	}
	racepoint("file_insert");
	/* before anybody can find it through the entry */
	if (copy)
		p->mapcount = 1;
	else
		atomic_add((u32 *)&p->mapcount, 1);
	if (fault_open(f, &ptl)) {
		done = still_cached(m, cached, index) &&
		       fault_fill(f, ptl, page_to_phys(p).v | bits);
		fault_close(f, ptl);
	}
	if (done)
		mm_count(f->mm, copy ? MM_ANON : a->file ? MM_FILE : MM_SHMEM, 1);
	else
		atomic_sub((u32 *)&p->mapcount, 1);
	if (!done && copy)
		page_put(p);
	if (!done || copy) /* else the entry has taken over the reference */
		page_put(cached);
	return done ? FAULT_DONE : FAULT_RETRY;
}
