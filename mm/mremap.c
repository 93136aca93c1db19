/*
 * mremap(2): resize an area in place, or move its page-table entries elsewhere.
 *
 * Moving: the new area is in the map but marked, as the old one is, so no fault
 * gets at either until the old translations are flushed everywhere. A truncation of the
 * file is kept out by i_mmap_lock for as long, or it could free a frame that is
 * reachable through a stale translation of the old address.
 *
 * Lock order: mm->lock (write) → i_mmap_lock → leaf tables, lower address of
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
 * Move [old, old + old_len) of area a (its own area already) to new, where nothing is mapped,
 * new_len long. Returns new or -ENOMEM with nothing changed.
 */
static long move_area(struct mm *mm, struct area *a, u64 old_len, vaddr_t new, u64 new_len,
		      u32 mflags)
{
	vaddr_t old = a->start;
	struct area *n = area_clone(mm, a, old, old + old_len);
	struct mapping *m = a->mapping;
	struct gather g;
	u64 done;
	int err;

	if (!n)
		return -ENOMEM;
	n->start = new;
	n->end = new + new_len;
	area_mark(n); /* nobody faults there yet */
	area_change_begin(a);
	area_insert(mm, n);
	if (m)
		mutex_lock(&m->i_mmap_lock);
	gather_begin(&g, mm);
	err = move_tables(&g, old, new, old_len, &done);
	racepoint("mremap_flush");
	gather_flush(&g);
	if (err) { /* take back what was moved */
		u64 back;

		move_tables(&g, new, old, done, &back); /* tables on the old side exist */
		gather_flush(&g);
	}
	if (m)
		mutex_unlock(&m->i_mmap_lock);
	if (err) {
		area_remove(mm, n);
		pt_prune(&g, new, new + new_len);
		gather_end(&g);
		area_free(n);
		area_change_end(a);
		return err;
	}
	if (!(mflags & MREMAP_DONTUNMAP))
		area_remove(mm, a);
	pt_prune(&g, old, old + old_len);
	gather_end(&g);
	if (mflags & MREMAP_DONTUNMAP) {
		a->has_anon = false;
		area_change_end(a);
	} else {
		area_free(a);
		if (mm->map_hint && old + old_len > mm->map_hint && old + old_len <= mm->mmap_base)
			mm->map_hint = old + old_len;
	}
	area_change_end(n);
	area_merge(mm, n);
	return (long)new;
}

/* All that can be wrong with growing or moving area a; 0 or -errno. */
static int check(struct mm *mm, struct area *a, vaddr_t addr, u64 old_len, u64 new_len, u32 mflags)
{
	if (!a || a->start > addr)
		return -EFAULT;
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
	    mm->locked_pages + ((new_len - old_len) >> PAGE_SHIFT) >
		    rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT)
		return -EAGAIN;
	if (!may_expand(mm, a->flags, (new_len - old_len) >> PAGE_SHIFT))
		return -ENOMEM;
	return 0;
}

static long move_to(struct mm *mm, vaddr_t addr, u64 old_len, vaddr_t new, u64 new_len, u32 mflags)
{
	struct area *a;
	int err;

	if (!old_len) { /* duplicate a shared mapping */
		a = area_at(mm, addr);
		a = area_create(mm, new, new + new_len, a->flags, a->file, a->mapping,
				area_pgoff(a, addr));
		if (!a)
			return -ENOMEM;
		area_insert(mm, a);
		return (long)new;
	}
	if (mm->nr_areas + 3 > (u32)vm_max_map_count)
		return -ENOMEM;
	err = area_split_at(mm, addr);
	if (!err)
		err = area_split_at(mm, addr + old_len);
	if (err)
		return err;
	return move_area(mm, area_at(mm, addr), old_len, new, new_len, mflags);
}

static long remap_fixed(struct mm *mm, vaddr_t addr, u64 old_len, u64 new_len, u32 mflags,
			vaddr_t new)
{
	struct area *a;
	long err;

	if (!IS_ALIGNED(new, PAGE_SIZE) || new_len > USER_END || new > USER_END - new_len)
		return -EINVAL;
	if (addr + old_len > new && new + new_len > addr)
		return -EINVAL;
	/* Up to six areas may come of it: refuse before anything is unmapped. */
	if (mm->nr_areas + 2 >= (u32)vm_max_map_count - 3)
		return -ENOMEM;
	err = check(mm, area_find(mm, addr), addr, MIN(old_len, new_len), new_len, mflags);
	if (err)
		return err;
	a = area_find(mm, addr);
	if (old_len > new_len && old_len > a->end - addr && new_len == 0)
		return -EFAULT;
	err = unmap_locked(mm, new, new + new_len);
	if (!err && old_len > new_len) {
		err = unmap_locked(mm, addr + new_len, addr + old_len);
		old_len = new_len;
	}
	return err ? err : move_to(mm, addr, old_len, new, new_len, mflags);
}

static long do_mremap(struct mm *mm, vaddr_t addr, u64 old_len, u64 new_len, u32 mflags, vaddr_t new)
{
	struct area *a;
	long err, at;

	if (mflags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) {
		if (!(mflags & MREMAP_FIXED)) {
			err = check(mm, area_find(mm, addr), addr, old_len, new_len, mflags);
			if (err)
				return err;
			at = find_free(mm, new, new_len, false);
			return at < 0 ? at : move_to(mm, addr, old_len, (vaddr_t)at, new_len, mflags);
		}
		return remap_fixed(mm, addr, old_len, new_len, mflags, new);
	}
	a = area_find(mm, addr);
	if (!a || a->start > addr)
		return -EFAULT;
	if (old_len >= new_len && old_len) {
		err = old_len > new_len ? unmap_locked(mm, addr + new_len, addr + old_len) : 0;
		return err ? err : (long)addr;
	}
	err = check(mm, a, addr, old_len, new_len, mflags);
	if (err)
		return err;
	/* Grow in place: at the area's end, with room behind it. */
	if (old_len && addr + old_len == a->end && addr <= USER_END - new_len) {
		struct area *next = area_next(a);

		if (!next || next->start >= addr + new_len) {
			area_change_begin(a);
			area_resize(mm, a, a->start, addr + new_len);
			area_change_end(a);
			area_merge(mm, a);
			return (long)addr;
		}
	}
	if (!(mflags & MREMAP_MAYMOVE))
		return -ENOMEM;
	at = find_free(mm, 0, new_len, false);
	return at < 0 ? at : move_to(mm, addr, old_len, (vaddr_t)at, new_len, mflags);
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
	if (down_write_killable(&mm->lock))
		return -EINTR;
	ret = do_mremap(mm, addr, old_len, new_len, (u32)mflags, new);
	if (ret >= 0) {
		a = area_find(mm, (vaddr_t)ret);
		locked = a && (a->flags & VM_LOCKED);
	}
	up_write(&mm->lock);
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
	down_write(&mm->lock);
	a = area_at(mm, start);
	if (a && (a->flags & VM_SHARED) && a->end >= start + size) {
		/* As Linux has done since 4.0: a mapping of its own in place of the pages. */
		struct area *n = area_create(mm, start, start + size, a->flags, a->file, a->mapping,
					     pgoff);
		ret = -ENOMEM;
		if (n) {
			ret = unmap_locked(mm, start, start + size);
			if (ret)
				area_free(n);
			else
				area_insert(mm, n);
		}
	}
	up_write(&mm->lock);
	return ret;
}
