/*
 * Copying an address space for fork(2). Areas are cloned; page tables are
 * copied only where private frames may be (everything else the child faults in
 * again), entry by entry, and writable private entries lose their write bit on
 * both sides: copy-on-write (cow.c).
 *
 * The child must be a snapshot of one moment: faults of the parent's other
 * threads are kept out by marking the areas first (vma.h), and writes through
 * stale translations end with one flush before fork returns; until then
 * they go to frames that both still share.
 *
 * Lock order: parent's mm->lock (write) → its leaf table → the child's.
 */
#include "arch/x86_64/cpu.h"
#include "kernel/file.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "mm/gather.h"
#include "mm/mmlock.h"
#include "mm/ptwalk.h"
#include "mm/vma.h"

#include <asm/errno.h>

/* Copy the entries of one leaf table, both locked. Returns true if the parent lost write bits. */
static bool copy_table(struct ptwalk *w, struct page *to, struct mm *child, const struct area *a)
{
	pte_t *dst = page_address(to);
	s64 count[NR_MM_COUNTERS] = { 0 };
	bool protected = false;

	ptwalk_each (w, i) {
		pte_t *src = &w->entry[i], e = *src;
		struct page *p;

		if (pte_none(e))
			continue;
		if (!(e.v & PTE_SPECIAL)) {
			p = phys_to_page(pte_phys(e));
			page_get(p);
			atomic_add((u32 *)&p->mapcount, 1);
			count[p->type == PG_ANON ? MM_ANON : a->file ? MM_FILE : MM_SHMEM]++;
			if (e.v & PTE_W) {
				/* one locked instruction: the CPU may be setting A or D */
				atomic_and(&src->v, ~PTE_W);
				e.v &= ~PTE_W;
				protected = true;
			}
		}
		pte_set_new(to, &dst[i], e.v);
	}
	for (int k = 0; k < NR_MM_COUNTERS; k++)
		if (count[k])
			atomic_add(&child->counter[k], count[k]);
	return protected;
}

static int copy_area(struct mm *child, struct mm *parent, struct area *a, struct gather *g)
{
	struct ptwalk w;
	int err = 0;

	rcu_read_lock();
	ptwalk_open(&w, parent, a->start, a->end, WALK_OWN);
	while (ptwalk_next(&w)) {
		struct page *to = pt_make(child, w.base);
		spinlock_t *ptl;

		if (!to) {
			err = -ENOMEM;
			break;
		}
		if (!ptwalk_lock(&w))
			continue;
		ptl = ptpage_lockptr(child, to);
		spin_lock_nested(ptl);
		ptpage_wait_setters(to);
		if (copy_table(&w, to, child, a)) {
			gather_flush_addr(g, ptwalk_addr(&w, w.first));
			gather_flush_addr(g, ptwalk_addr(&w, w.last));
		}
		spin_unlock(ptl);
		ptwalk_unlock(&w);
		rcu_read_unlock();
		racepoint("fork_table");
		cond_resched();
		rcu_read_lock();
	}
	rcu_read_unlock();
	return err;
}

static inline bool must_copy(const struct area *a)
{
	return a->has_anon && !(a->flags & (VM_SHARED | VM_DONTFORK | VM_WIPEONFORK));
}

static void copy_layout(struct mm *to, const struct mm *from)
{
	to->mmap_base = from->mmap_base;
	to->brk_start = from->brk_start;
	to->brk = from->brk;
	to->arg_start = from->arg_start;
	to->arg_end = from->arg_end;
	to->env_start = from->env_start;
	to->env_end = from->env_end;
	to->stack_start = from->stack_start;
	to->code_start = from->code_start;
	to->code_end = from->code_end;
	to->data_start = from->data_start;
	to->data_end = from->data_end;
	memcpy(to->saved_auxv, from->saved_auxv, sizeof to->saved_auxv);
	to->exe = from->exe ? file_get(from->exe) : NULL;
}

struct mm *mm_fork(struct mm *parent)
{
	struct mm *child = mm_create();
	struct area_end end;
	struct gather g; /* only for the parent's range to flush */
	int err = 0;

	if (!child)
		return NULL;
	area_end_init(child, &end);
	gather_begin(&g, parent);
	mm_lock_write(parent);
	copy_layout(child, parent);
	for_each_area (a, parent)
		if (!(a->flags & VM_SHARED))
			area_mark(a);
	smp_mb(); /* marks before has_anon is read and the first table locked: see vma.h */
	for_each_area (a, parent) {
		struct area *n;

		if (a->flags & VM_DONTFORK)
			continue;
		n = area_clone(child, a, a->start, a->end);
		if (!n) {
			err = -ENOMEM;
			break;
		}
		n->flags &= ~(VM_LOCKED | VM_LOCKONFAULT);
		if (a->flags & VM_WIPEONFORK)
			n->has_anon = false;
		area_append(child, &end, n);
		area_unlock(n);
		if (must_copy(a) && (err = copy_area(child, parent, a, &g)))
			break;
	}
	racepoint("fork_flush");
	gather_end(&g);
	for_each_area (a, parent)
		if (area_owned(a))
			area_unlock(a);
	mm_unlock_write(parent);
	if (err) {
		mm_put_user(child);
		return NULL;
	}
	return child;
}
