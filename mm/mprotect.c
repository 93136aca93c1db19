/*
 * mprotect(2): change the permissions of areas and of the entries that are
 * there. One flush for the whole call, after all entries are changed.
 *
 * An entry is never cleared on the way: each goes from old to new in one
 * compare-and-swap, so that nobody sees a page missing and the bits the CPU sets are kept.
 */
#include "arch/x86_64/cpu.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/syscall.h"
#include "mm/gather.h"
#include "mm/mmap.h"
#include "mm/ptwalk.h"

#include <asm/errno.h>
#include <linux/mman.h>

/* New value of an entry. Private frames get their write bit at the next write fault (cow.c decides). */
static u64 entry_for(u64 e, u32 flags)
{
	u64 keep = PTE_ADDR | PTE_A | PTE_D | PTE_SPECIAL;

	if (!(flags & VM_ACCESS))
		return (e & keep) | PTE_PROTNONE;
	if ((flags & (VM_SHARED | VM_WRITE)) == VM_WRITE)
		keep |= PTE_W;
	return (e & keep) | (area_pte_bits(flags) & ~PTE_D);
}

static void protect_range(struct gather *g, struct area *a, vaddr_t start, vaddr_t end)
{
	struct ptwalk w;

	rcu_read_lock();
	ptwalk_open(&w, g->mm, start, end, WALK_OWN);
	while (ptwalk_next(&w)) {
		if (!ptwalk_lock(&w))
			continue;
		ptwalk_each (&w, i) {
			u64 e = READ_ONCE(w.entry[i].v);

			if (!e)
				continue;
			while (!atomic_try_cmpxchg(&w.entry[i].v, &e, entry_for(e, a->flags)))
				;
			gather_flush_addr(g, ptwalk_addr(&w, i));
		}
		ptwalk_unlock(&w);
		rcu_read_unlock();
		cond_resched();
		rcu_read_lock();
	}
	rcu_read_unlock();
}

/* One area, from start (where it may have to be split) up to end; 0 or -errno. */
static int protect_area(struct gather *g, struct area *a, vaddr_t start, vaddr_t end, u32 access)
{
	struct mm *mm = g->mm;
	u32 flags = (a->flags & ~VM_ACCESS) | access;
	int err;

	/* VM_MAY* stand four bits above VM_*. */
	if (access & ~(a->flags >> 4) & VM_ACCESS)
		return -EACCES;
	if (flags == a->flags)
		return 0;
	if ((flags & (VM_SHARED | VM_WRITE)) == VM_WRITE && !(a->flags & VM_WRITE) &&
	    !may_expand(mm, flags, 0))
		return -ENOMEM;
	err = area_split_at(mm, start);
	if (!err)
		err = area_split_at(mm, end);
	if (err)
		return err;
	a = area_at(mm, start);
	area_change_begin(a);
	area_set_flags(mm, a, flags);
	protect_range(g, a, a->start, a->end);
	return 0;
}

static long do_mprotect(u64 start, u64 len, u64 prot)
{
	struct mm *mm = current->mm;
	struct gather g;
	struct area *a;
	vaddr_t end, pos;
	long err = 0;

	if ((prot & (PROT_GROWSDOWN | PROT_GROWSUP)) == (PROT_GROWSDOWN | PROT_GROWSUP))
		return -EINVAL;
	if (!IS_ALIGNED(start, PAGE_SIZE))
		return -EINVAL;
	if (!len)
		return 0;
	len = ALIGN_UP(len, PAGE_SIZE);
	end = start + len;
	if (end <= start)
		return -ENOMEM;
	if (prot & ~(u64)(PROT_READ | PROT_WRITE | PROT_EXEC | PROT_SEM | PROT_GROWSDOWN |
			  PROT_GROWSUP))
		return -EINVAL;
	if (down_write_killable(&mm->lock))
		return -EINTR;
	gather_begin(&g, mm);
	a = area_find(mm, start);
	if (!a || a->start >= end) {
		err = -ENOMEM;
		goto out;
	}
	if (prot & PROT_GROWSDOWN) {
		if (!(a->flags & VM_GROWSDOWN)) {
			err = -EINVAL;
			goto out;
		}
		start = a->start;
	} else if (a->start > start) {
		err = -ENOMEM;
		goto out;
	}
	for (pos = start; pos < end && !err;) {
		vaddr_t stop;

		a = area_find(mm, pos);
		if (!a || a->start > pos) {
			err = -ENOMEM; /* what stands before the hole stays changed, as on Linux */
			break;
		}
		stop = MIN(end, a->end);
		err = protect_area(&g, a, pos, stop, prot_flags(prot));
		pos = stop;
	}
out:
	gather_end(&g); /* flush while the marks still keep faults out */
	for (a = area_find(mm, start); a && a->start < end; a = area_next(a)) {
		if (!(a->seq & 1))
			continue;
		area_change_end(a);
		a = area_merge(mm, a);
	}
	up_write(&mm->lock);
	return err;
}

long sys_mprotect(u64 start, u64 len, u64 prot)
{
	return do_mprotect(start, len, prot);
}

long sys_pkey_mprotect(u64 start, u64 len, u64 prot, u64 pkey)
{
	return (int)pkey == -1 ? do_mprotect(start, len, prot) : -EINVAL;
}

/* No protection keys on this machine: what Linux answers there. */
long sys_pkey_alloc(u64 flags, u64 rights)
{
	return flags || rights & ~3UL ? -EINVAL : -ENOSPC;
}

long sys_pkey_free(u64 pkey)
{
	return -EINVAL;
}
