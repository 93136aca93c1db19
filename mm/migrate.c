/*
 * Moving pages between nodes: the frame behind an entry is exchanged. Only
 * private frames with no other reference are moved; the area is marked
 * meanwhile, so faults that come wait, and a writer through an old translation is
 * stopped by the flush before the contents are copied: no store is lost.
 */
#include "mm/migrate.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/syscall.h"
#include "mm/gather.h"
#include "mm/node.h"
#include "mm/mmlock.h"
#include "mm/ptwalk.h"

#include <asm/errno.h>
#include <linux/mempolicy.h>

int page_node_at(struct mm *mm, vaddr_t va)
{
	struct page *table;
	int node = -1;

	rcu_read_lock();
	table = pt_find(mm, va);
	if (table) {
		pte_t e = { READ_ONCE(((pte_t *)page_address(table))[pt_index(va, 1)].v) };

		if (!pte_none(e) && !(e.v & PTE_SPECIAL))
			node = phys_to_page(pte_phys(e))->node;
	}
	rcu_read_unlock();
	return node;
}

int migrate_page(struct area *a, vaddr_t va, int node, bool all)
{
	struct page *new = page_alloc(0, node, ALLOC_THISNODE | ALLOC_NOWAIT, PG_ANON), *table, *old;
	spinlock_t *ptl;
	pte_t *slot, e;
	int err = -ENOENT;

	if (!new)
		return -ENOMEM;
	area_mark(a);
	smp_mb(); /* before the table is locked: see vma.h */
	rcu_read_lock();
	table = pt_find(a->mm, va);
	if (!table)
		goto out_rcu;
	ptl = ptpage_lock(a->mm, table);
	slot = (pte_t *)page_address(table) + pt_index(va, 1);
	e = *slot;
	if (pte_none(e) || (e.v & PTE_SPECIAL))
		goto out;
	old = phys_to_page(pte_phys(e));
	err = -EBUSY;
	if (old->type != PG_ANON || old->refs != 1)
		goto out;
	e.v = atomic_xchg(&slot->v, 0);
	mm_flush(a->mm, va, va + PAGE_SIZE);
	page_copy(page_address(new), page_address(old));
	new->mapcount = 1;
	WRITE_ONCE(slot->v, (e.v & ~PTE_ADDR) | page_to_phys(new).v);
	old->mapcount = 0;
	new = old; /* to be freed */
	err = 0;
out:
	spin_unlock(ptl);
out_rcu:
	rcu_read_unlock();
	area_unlock(a);
	page_put(new);
	return err;
}

static struct mm *mm_of_pid(u64 pid, int *err)
{
	struct task *t;
	struct mm *mm;

	if (!pid) {
		mm_get_user(current->mm);
		return current->mm;
	}
	t = task_by_tid((int)pid);
	*err = -ESRCH;
	if (!t)
		return NULL;
	mm = mm_of_task(t);
	task_put(t);
	*err = -EINVAL;
	return mm;
}

/* One page of move_pages(2): its status. */
static int move_one(struct mm *mm, vaddr_t va, bool query, int node, bool all)
{
	struct area *a;
	int at, err;

	va &= PAGE_MASK;
	if (!query && (node < 0 || node >= num_nodes))
		return -ENODEV;
	mm_lock_write(mm);
	a = area_at(mm, va);
	at = a ? page_node_at(mm, va) : -1;
	if (!a)
		err = -EFAULT;
	else if (at < 0)
		err = -ENOENT;
	else if (query || at == node)
		err = at;
	else if (!(node_memory_mask >> node & 1))
		err = -ENODEV;
	else
		err = migrate_page(a, va, node, all) ?: node;
	mm_unlock_write(mm);
	return err;
}

long sys_move_pages(u64 pid, u64 count, u64 pages, u64 nodes, u64 status, u64 flags)
{
	struct mm *mm;
	int err = 0;

	if (flags & ~(u64)(MPOL_MF_MOVE | MPOL_MF_MOVE_ALL))
		return -EINVAL;
	mm = mm_of_pid(pid, &err);
	if (!mm)
		return err;
	err = 0;
	for (u64 i = 0; i < count && !err; i++) {
		u32 node = 0;
		u64 va;
		int st;

		if (get_user_u64(pages + i * 8, &va) || (nodes && get_user_u32(nodes + i * 4, &node))) {
			err = -EFAULT;
			break;
		}
		if (nodes && (int)node >= 0 && (int)node < num_nodes && !(node_memory_mask >> node & 1))
			err = -ENODEV;
		else if (nodes && ((int)node < 0 || (int)node >= num_nodes))
			err = -ENODEV;
		if (err)
			break;
		st = move_one(mm, va, !nodes, (int)node, flags & MPOL_MF_MOVE_ALL);
		if (status && put_user_u32(status + i * 4, (u32)st))
			err = -EFAULT;
	}
	mm_put_user(mm);
	return err;
}

/* Every private page of the process on a node of `from` goes to the node of `to` of the same rank. */
long sys_migrate_pages(u64 pid, u64 maxnode, u64 from_ptr, u64 to_ptr)
{
	u64 from, to, left = 0;
	struct mm *mm;
	int err = 0;

	if (get_user_u64(from_ptr, &from) || get_user_u64(to_ptr, &to))
		return -EFAULT;
	if (maxnode > 1 && maxnode <= 64) {
		from &= (1UL << (maxnode - 1)) - 1;
		to &= (1UL << (maxnode - 1)) - 1;
	}
	to &= node_memory_mask;
	if (!to)
		return -EINVAL;
	mm = mm_of_pid(pid, &err);
	if (!mm)
		return err;
	mm_lock_write(mm);
	for_each_area (a, mm) {
		for (vaddr_t va = a->start; va < a->end && a->has_anon; va += PAGE_SIZE) {
			int at = page_node_at(mm, va), rank;

			if (at < 0 || !(from >> at & 1))
				continue;
			rank = __builtin_popcountl(from & ((1UL << at) - 1)) % __builtin_popcountl(to);
			for (u64 t = to;; t &= t - 1)
				if (!rank--) {
					left += migrate_page(a, va, __builtin_ctzl(t), false) != 0;
					break;
				}
		}
	}
	mm_unlock_write(mm);
	mm_put_user(mm);
	return (long)left;
}
