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

/* The part of the owned area *a inside [start, end), which *a becomes; 0 or -errno. */
static int protect_area(struct gather *g, struct area **a, vaddr_t start, vaddr_t end, u32 access)
{
	struct mm *mm = g->mm;
	u32 old = (*a)->flags, flags = (old & ~VM_ACCESS) | access;
	int err;

	/* VM_MAY* stand four bits above VM_*. */
	if (access & ~(old >> 4) & VM_ACCESS)
		return -EACCES;
	if (flags == old)
		return 0;
	if ((flags & (VM_SHARED | VM_WRITE)) == VM_WRITE && !(old & VM_WRITE) &&
	    !may_expand(mm, flags & ~VM_NORESERVE & VM_ACCESS, 0))
		return -ENOMEM;
	err = area_isolate(mm, a, start, end);
	if (err)
		return err;
	area_set_flags(mm, *a, flags);
	protect_range(g, *a, (*a)->start, (*a)->end);
	return 0;
}

/* Own and protect all of [start, end); the areas are chained through their RCU link. */
static long protect_all(struct gather *g, vaddr_t start, vaddr_t end, u64 prot, struct area **chain)
{
	struct mm *mm = g->mm;
	struct area *a = area_lock_next(mm, start, end);
	struct area **link = chain;
	long err = 0;

	if (a && (prot & PROT_GROWSDOWN)) {
		if (!(a->flags & VM_GROWSDOWN))
			err = -EINVAL;
		start = a->start;
	} else if (a && (prot & PROT_GROWSUP)) {
		err = -EINVAL; /* no stack grows upwards on this machine */
	}
	while (a && !err && a->start <= start) {
		err = protect_area(g, &a, start, end, prot_flags(prot));
		start = MIN(end, a->end);
		a->rcu.next = NULL;
		*link = a;
		link = (struct area **)&a->rcu.next;
		a = start < end && !err ? area_lock_next(mm, start, end) : NULL;
	}
	if (a)
		area_unlock(a);
	/* A hole: what stands before it stays changed, as on Linux. */
	return err ? err : start < end ? -ENOMEM : 0;
}

static long do_mprotect(u64 start, u64 len, u64 prot)
{
	struct area *chain = NULL, *next;
	struct mm *mm = current->mm;
	struct gather g;
	vaddr_t end;
	long err;

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
	if (mm_change_begin(mm))
		return -EINTR;
	gather_begin(&g, mm);
	err = protect_all(&g, start, end, prot, &chain);
	gather_end(&g); /* flush while the areas are still owned and faults kept out */
	for (struct area *a = chain; a; a = next) {
		next = (struct area *)a->rcu.next;
		area_unlock(area_merge(mm, a));
	}
	mm_change_end(mm);
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
