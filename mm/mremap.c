/*
 * mremap(2): resize an area in place, or move its page-table entries elsewhere.
 *
 * Moving: the new area is in the map but owned, as the old one is, so no fault
 * gets at either until the old translations are flushed everywhere. A truncation of the
 * file is kept out by i_mmap_lock for as long, or it could free a frame that is
 * reachable through a stale translation of the old address.
 *
 * Lock order: mm → i_mmap_lock → leaf tables, lower address of
 * the two descriptors first (the locks are of one rank).
 */
#include "arch/x86_64/cpu.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/syscall.h"
#include "mm/gather.h"
#include "mm/mmap.h"
#include "mm/policy.h"
#include "mm/ptwalk.h"
#include "mm/zap.h"

#include <asm/errno.h>
#include <linux/mman.h>

/* Entries from the locked table `from`, indexes [i, i + n), to the locked table `to` at j. */
static void move_entries(struct page *from, unsigned i, struct page *to, unsigned j, unsigned n)
{
	pte_t *src = (pte_t *)page_address(from) + i, *dst = (pte_t *)page_address(to) + j;

	for (; n--; src++, dst++)
		if (!pte_none(*src))
			pte_set_new(to, dst, pte_take(from, src).v);
}

/* 0, or -ENOMEM with [*done] bytes moved. */
static int move_tables(struct gather *g, vaddr_t old, vaddr_t new, u64 len, u64 *done)
{
	struct mm *mm = g->mm;
	int err = 0;

	rcu_read_lock();
	for (*done = 0; *done < len;) {
		vaddr_t from_va = old + *done, to_va = new + *done;
		/* up to the next table boundary on either side */
		u64 n = MIN(HUGE_SIZE - from_va % HUGE_SIZE, HUGE_SIZE - to_va % HUGE_SIZE);
		struct page *from = pt_find(mm, from_va), *to;
		spinlock_t *l1, *l2;

		n = MIN(n, len - *done);
		if (!from) {
			*done += n;
			continue;
		}
		to = pt_make(mm, to_va);
		if (!to) {
			err = -ENOMEM;
			break;
		}
		l1 = ptpage_lockptr(mm, MIN(from, to));
		l2 = ptpage_lockptr(mm, MAX(from, to));
		spin_lock(l1);
		if (l1 != l2)
			spin_lock_nested(l2);
		ptpage_wait_setters(from);
		ptpage_wait_setters(to);
		/* `from` is not stray: only we prune, and we have not yet. `to` neither. */
		move_entries(from, pt_index(from_va, 1), to, pt_index(to_va, 1), n >> PAGE_SHIFT);
		if (l1 != l2)
			spin_unlock(l2);
		spin_unlock(l1);
		gather_flush_addr(g, from_va);
		gather_flush_addr(g, from_va + n - PAGE_SIZE);
		*done += n;
		rcu_read_unlock();
		cond_resched();
		rcu_read_lock();
	}
	rcu_read_unlock();
	return err;
}

/*
 * Move the owned area a (all of it) to new, where the owned area n was just put in. Returns new, or
 * -ENOMEM with a as it was and n gone.
 */
static long move_area(struct mm *mm, struct area *a, struct area *n, bool keep_old)
{
	vaddr_t old = a->start, new = n->start;
	u64 len = a->end - a->start, done, back;
	struct mapping *m = a->mapping;
	struct gather g;
	int err;

	if (m)
		mutex_lock(&m->i_mmap_lock);
	gather_begin(&g, mm);
	err = move_tables(&g, old, new, len, &done);
	if (err)
		move_tables(&g, new, old, done, &back); /* the tables on the old side exist: no failure */
	racepoint("mremap_flush");
	gather_flush(&g);
	if (m)
		mutex_unlock(&m->i_mmap_lock);
	if (err) {
		pt_prune(&g, new, new + len, false);
		gather_end(&g);
		area_remove(mm, n);
		area_free(n);
		area_unlock(a);
		return err;
	}
	pt_prune(&g, old, old + len, false);
	gather_end(&g);
	if (keep_old) {
		a->has_anon = false;
		area_unlock(a);
	} else {
		area_remove(mm, a);
		area_free(a);
	}
	area_unlock(area_merge(mm, n));
	return (long)new;
}

/* All that can be wrong with growing or moving the area a; 0 or -errno. */
static int check(struct mm *mm, struct area *a, vaddr_t addr, u64 old_len, u64 new_len, u32 mflags)
{
	/* A size of 0 makes a second mapping of the same shared memory. */
	if (!old_len && !(a->flags & (VM_SHARED | VM_MAYSHARE)))
		return -EINVAL;
	if ((mflags & MREMAP_DONTUNMAP) && (a->flags & VM_SHARED) && !a->mapping)
		return -EINVAL;
	if (old_len > a->end - addr)
		return -EFAULT;
	if (new_len <= old_len)
		return 0;
	if (area_pgoff(a, addr) + (new_len >> PAGE_SHIFT) < area_pgoff(a, addr))
		return -EINVAL;
	if ((a->flags & VM_LOCKED) && !is_root() &&
	    (u64)mm_counter(mm, MM_LOCKED) + ((new_len - old_len) >> PAGE_SHIFT) >
		    rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT)
		return -EAGAIN;
	if (!may_expand(mm, a->flags, (new_len - old_len) >> PAGE_SHIFT))
		return -ENOMEM;
	return 0;
}

/*
 * [addr, addr + old_len) of the owned area a goes to `new`, or where there is room
 * (new == 0). In the end a is not owned any more. The new address, or -errno.
 */
static long move_to(struct mm *mm, struct area *a, vaddr_t addr, u64 old_len, vaddr_t new,
		    u64 new_len, u32 mflags)
{
	struct area *n;
	long at = (long)new;
	int err;

	/* Both ends cut off, and the new area: refuse before anything is changed. */
	err = area_room(mm, 3) ? 0 : -ENOMEM;
	if (!err && old_len)
		err = area_isolate(mm, &a, addr, addr + old_len);
	if (err) {
		area_unlock(a);
		return err;
	}
	n = area_clone(mm, a, addr, addr + PAGE_SIZE);
	err = n ? -EEXIST : -ENOMEM;
	while (err == -EEXIST) { /* another thread may claim the same gap */
		if (!new)
			at = find_free(mm, 0, new_len, false);
		err = at < 0 ? (int)at : 0;
		if (err)
			break;
		n->start = (vaddr_t)at;
		n->end = (vaddr_t)at + new_len;
		err = area_insert(mm, n);
		if (new)
			break;
	}
	if (err) {
		if (n)
			area_free(n);
		area_unlock(a);
		return err;
	}
	if (old_len)
		return move_area(mm, a, n, mflags & MREMAP_DONTUNMAP);
	area_unlock(a); /* only a second mapping */
	area_unlock(n);
	return at;
}

/* In a write of mm. */
static long remap_fixed(struct mm *mm, vaddr_t addr, u64 old_len, u64 new_len, u32 mflags,
			vaddr_t new)
{
	struct area *a = area_at(mm, addr);
	long err;

	if (!IS_ALIGNED(new, PAGE_SIZE) || new_len > USER_END || new > USER_END - new_len)
		return -EINVAL;
	if (addr + old_len > new && new + new_len > addr)
		return -EINVAL;
	/* Up to six areas may come of it: refuse before anything is unmapped. */
	if (!area_room(mm, 6))
		return -ENOMEM;
	if (!a)
		return -EFAULT;
	err = check(mm, a, addr, MIN(old_len, new_len), new_len, mflags);
	if (!err)
		err = unmap_range(mm, new, new + new_len);
	if (!err && old_len > new_len) {
		err = unmap_range(mm, addr + new_len, addr + old_len);
		old_len = new_len;
	}
	if (err)
		return err;
	a = area_lock_next(mm, addr, addr + 1);
	return a ? move_to(mm, a, addr, old_len, new, new_len, mflags) : -EFAULT;
}

/* In a change of mm. */
static long remap(struct mm *mm, vaddr_t addr, u64 old_len, u64 new_len, u32 mflags)
{
	struct area *a = area_lock_next(mm, addr, addr + 1);
	long err;

	if (!a)
		return -EFAULT;
	if (!(mflags & MREMAP_DONTUNMAP) && old_len >= new_len && old_len) {
		area_unlock(a);
		err = old_len > new_len ? unmap_range(mm, addr + new_len, addr + old_len) : 0;
		return err ? err : (long)addr;
	}
	err = check(mm, a, addr, old_len, new_len, mflags);
	if (err)
		goto out;
	/* Grow in place: at the area's end, with room behind it. */
	if (!(mflags & MREMAP_DONTUNMAP) && old_len && addr + old_len == a->end &&
	    addr <= USER_END - new_len && area_grow_up(mm, a, addr + new_len)) {
		area_unlock(area_merge(mm, a));
		return (long)addr;
	}
	if (mflags & MREMAP_MAYMOVE)
		return move_to(mm, a, addr, old_len, 0, new_len, mflags);
	err = -ENOMEM;
out:
	area_unlock(a);
	return err;
}

long sys_mremap(u64 addr, u64 old_len, u64 new_len, u64 mflags, u64 new)
{
	struct mm *mm = current->mm;
	struct area *a;
	bool locked = false;
	long ret;

	if (mflags & ~(u64)(MREMAP_FIXED | MREMAP_MAYMOVE | MREMAP_DONTUNMAP))
		return -EINVAL;
	if ((mflags & MREMAP_FIXED) && !(mflags & MREMAP_MAYMOVE))
		return -EINVAL;
	if ((mflags & MREMAP_DONTUNMAP) && (!(mflags & MREMAP_MAYMOVE) || old_len != new_len))
		return -EINVAL;
	if (!IS_ALIGNED(addr, PAGE_SIZE))
		return -EINVAL;
	old_len = ALIGN_UP(old_len, PAGE_SIZE);
	new_len = ALIGN_UP(new_len, PAGE_SIZE);
	if (!new_len || new_len > USER_END)
		return -EINVAL;
	if (addr >= USER_END || old_len > USER_END - addr)
		return -EFAULT;
	if (mflags & MREMAP_FIXED) {
		if (mm_lock_write_killable(mm))
			return -EINTR;
		ret = remap_fixed(mm, addr, old_len, new_len, (u32)mflags, new);
		mm_unlock_write(mm);
	} else {
		if (mm_change_begin(mm))
			return -EINTR;
		ret = remap(mm, addr, old_len, new_len, (u32)mflags);
		mm_change_end(mm);
	}
	if (ret >= 0) {
		rcu_read_lock();
		a = area_find(mm, (vaddr_t)ret);
		locked = a && (a->flags & VM_LOCKED);
		rcu_read_unlock();
	}
	if (locked && new_len > old_len)
		populate(mm, (vaddr_t)ret + old_len, (vaddr_t)ret + new_len, true, true);
	return ret;
}

long sys_remap_file_pages(u64 start, u64 size, u64 prot, u64 pgoff, u64 flags)
{
	struct mm *mm = current->mm;
	struct area *a;
	long ret = -EINVAL;

	start &= PAGE_MASK;
	size &= PAGE_MASK;
	if (prot || !size || start + size <= start ||
	    pgoff + (size >> PAGE_SHIFT) < pgoff)
		return -EINVAL;
	mm_lock_write(mm);
	a = area_at(mm, start);
	if (a && (a->flags & VM_SHARED) && a->end >= start + size) {
		/* As Linux has done since 4.0: a mapping of its own in place of the pages. */
		struct area *n = area_create(mm, start, start + size, a->flags, a->file, a->mapping,
					     pgoff);
		ret = -ENOMEM;
		if (n) {
			ret = unmap_range(mm, start, start + size);
			if (!ret)
				ret = area_insert(mm, n);
			if (ret)
				area_free(n);
			else
				area_unlock(n);
		}
	}
	mm_unlock_write(mm);
	return ret;
}
