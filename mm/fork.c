/*
 * Copying an address space for fork(2). Areas are cloned; page tables are
 * copied only where private frames may be (everything else the child faults in
 * again), entry by entry, and writable private entries lose their write bit on
 * both sides: copy-on-write (cow.c).
 *
 * Some pages are looked ahead to (vm.fork_ahead): those of the stack and of the thread pointer, which
 * both sides write as soon as they run, are copied at once, and the code around the instruction
 * pointer is mapped. Each saves a fault on one side or on both.
 *
 * The child must be a snapshot of one moment: faults of the parent's other
 * threads are kept out by marking the areas first (vma.h), and writes through
 * stale translations end with one flush before fork returns; until then
 * they go to frames that both still share.
 *
 * Lock order: parent's mm->lock (write) → its leaf table → the child's.
 */
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/trap.h"
#include "kernel/file.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "mm/fault.h"
#include "mm/gather.h"
#include "mm/mmlock.h"
#include "mm/policy.h"
#include "mm/ptwalk.h"
#include "mm/vma.h"

#include <asm/errno.h>

/* Copy the entries of one leaf table, both locked. Returns true if the parent lost write bits. */
static bool copy_table(struct ptwalk *w, struct page *to, struct mm *child, const struct area *a)
{
	pte_t *dst = page_address(to);
	s64 count[MM_SHMEM + 1] = { 0 };
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
	for (int k = 0; k <= MM_SHMEM; k++)
		if (count[k])
			atomic_add(&child->counter[k], count[k]);
	return protected;
}

/* The entries of [start, end), inside a. */
static int copy_range(struct mm *child, struct mm *parent, const struct area *a, vaddr_t start,
		      vaddr_t end, struct gather *g)
{
	struct ptwalk w;
	int err = 0;

	rcu_read_lock();
	ptwalk_open(&w, parent, start, end, WALK_OWN);
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

/* ---- ahead ---- */

#define AROUND (8 * PAGE_SIZE) /* code mapped on either side of the instruction pointer */

/*
 * Give the child a copy of the page at addr, and the parent its write bit back. For what has just been
 * copied, by a parent of one thread: nobody writes to the page meanwhile.
 */
static void copy_page_ahead(struct mm *child, struct mm *parent, vaddr_t addr)
{
	struct fault f = { .mm = child, .addr = addr & PAGE_MASK };
	spinlock_t *ptl, *child_ptl;
	struct page *table, *old, *new;
	pte_t *slot;

	rcu_read_lock();
	f.area = area_at(child, f.addr);
	if (!f.area || (f.area->flags & (VM_WRITE | VM_SHARED)) != VM_WRITE || !f.area->has_anon ||
	    !(f.table = pt_find(child, f.addr)) || !(table = pt_find(parent, f.addr)) ||
	    !(new = fault_frame(&f, false)))
		goto out;
	slot = (pte_t *)page_address(table) + pt_index(f.addr, 1);
	f.slot = (pte_t *)page_address(f.table) + pt_index(f.addr, 1);
	/* Truncation of a file below may be at work on both: the entries decide, looked at under the locks. */
	ptl = ptpage_lock(parent, table);
	child_ptl = ptpage_lockptr(child, f.table);
	spin_lock_nested(child_ptl);
	old = pte_none(*slot) || (slot->v & PTE_SPECIAL) ? NULL : phys_to_page(pte_phys(*slot));
	if (old && old->type == PG_ANON && READ_ONCE(old->refs) == 2 &&
	    pte_phys(*f.slot).v == pte_phys(*slot).v) {
		page_copy(page_address(new), page_address(old));
		new->mapcount = 1;
		f.slot->v = page_to_phys(new).v | area_pte_bits(f.area->flags) | PTE_W | PTE_D;
		WRITE_ONCE(slot->v, slot->v | PTE_W | PTE_D); /* the parent is here, so its CPU sets no bit */
		old->mapcount = 1;
		old->refs = 1;
		new = NULL;
	}
	spin_unlock(child_ptl);
	spin_unlock(ptl);
	if (new)
		page_put(new);
out:
	rcu_read_unlock();
}

/* What cannot be had is left to faults. */
static void look_ahead(struct mm *child, struct mm *parent, struct gather *g)
{
	const struct regs *r = current->user_regs;
	struct area *code = area_at(parent, r->rip & PAGE_MASK);

	if (!vm_fork_ahead || parent != current->mm || READ_ONCE(parent->users) != 1)
		return;
	copy_page_ahead(child, parent, r->rsp);
	if ((r->rsp ^ current->fs_base) & PAGE_MASK)
		copy_page_ahead(child, parent, current->fs_base);
	if (!code || !code->mapping || must_copy(code) || (code->flags & (VM_DONTFORK | VM_SHARED)))
		return;
	copy_range(child, parent, code, MAX(code->start, (r->rip & PAGE_MASK) - AROUND),
		   MIN(code->end, (r->rip & PAGE_MASK) + AROUND), g);
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
		if (must_copy(a) && (err = copy_range(child, parent, a, a->start, a->end, &g)))
			break;
	}
	if (!err)
		look_ahead(child, parent, &g);
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
