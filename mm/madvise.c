/*
 * madvise(2), and what else a program says or asks about its memory: mincore,
 * msync, the mlock family.
 */
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/file.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/syscall.h"
#include "mm/fault.h"
#include "mm/mmap.h"
#include "mm/ptwalk.h"
#include "mm/slab.h"
#include "mm/zap.h"

#include <asm/errno.h>
#include <linux/mman.h>

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

/* ---- madvise ---- */

/* Drop the pages of [start, end) inside a. mm->lock for writing. */
static int drop(struct mm *mm, struct area *a, vaddr_t start, vaddr_t end, int advice)
{
	struct gather g;

	if ((a->flags & VM_LOCKED) && advice != MADV_DONTNEED_LOCKED)
		return -EINVAL;
	if (advice == MADV_FREE && a->mapping)
		return -EINVAL;
	gather_begin(&g, mm);
	area_change_begin(a);
	zap_range(&g, a, start, end, false);
	gather_end(&g);
	area_change_end(a);
	return 0;
}

/* New flags for advice that only changes them; false: not such advice. */
static bool flag_advice(int advice, u32 *flags)
{
	switch (advice) {
	case MADV_NORMAL:       *flags &= ~(VM_RAND | VM_SEQ); return true;
	case MADV_RANDOM:       *flags = (*flags & ~VM_SEQ) | VM_RAND; return true;
	case MADV_SEQUENTIAL:   *flags = (*flags & ~VM_RAND) | VM_SEQ; return true;
	case MADV_DONTFORK:     *flags |= VM_DONTFORK; return true;
	case MADV_DOFORK:       *flags &= ~VM_DONTFORK; return true;
	case MADV_WIPEONFORK:   *flags |= VM_WIPEONFORK; return true;
	case MADV_KEEPONFORK:   *flags &= ~VM_WIPEONFORK; return true;
	case MADV_DONTDUMP:     *flags |= VM_DONTDUMP; return true;
	case MADV_DODUMP:       *flags &= ~VM_DONTDUMP; return true;
	case MADV_MERGEABLE:    *flags |= VM_MERGEABLE; return true;
	case MADV_UNMERGEABLE:  *flags &= ~VM_MERGEABLE; return true;
	case MADV_HUGEPAGE:     *flags = (*flags & ~VM_NOHUGEPAGE) | VM_HUGEPAGE; return true;
	case MADV_NOHUGEPAGE:   *flags = (*flags & ~VM_HUGEPAGE) | VM_NOHUGEPAGE; return true;
	}
	return false;
}

static int set_flags(struct mm *mm, struct area *a, vaddr_t start, vaddr_t end, u32 flags)
{
	int err;

	if (flags == a->flags)
		return 0;
	err = area_split_at(mm, start);
	if (!err)
		err = area_split_at(mm, end);
	if (err)
		return err;
	a = area_at(mm, start);
	area_change_begin(a);
	area_set_flags(mm, a, flags);
	area_change_end(a);
	area_merge(mm, a);
	return 0;
}

/* Free the file's own pages behind [start, end) of a shared area. mm->lock is dropped meanwhile. */
static int remove_pages(struct mm *mm, struct area *a, vaddr_t start, vaddr_t end)
{
	struct mapping *m = a->mapping;
	u64 from = area_pgoff(a, start) << PAGE_SHIFT, to = area_pgoff(a, end) << PAGE_SHIFT;

	if (a->flags & VM_LOCKED)
		return -EINVAL;
	if (!m || !(a->flags & VM_SHARED))
		return -EINVAL;
	if (!(a->flags & VM_MAYWRITE))
		return -EACCES;
	mapping_get(m);
	up_write(&mm->lock);
	mapping_punch(m, from, to);
	mapping_put(m);
	down_write(&mm->lock);
	return 0;
}

static int advise_area(struct mm *mm, struct area *a, vaddr_t start, vaddr_t end, int advice)
{
	u32 flags = a->flags;

	switch (advice) {
	case MADV_DONTNEED:
	case MADV_DONTNEED_LOCKED:
	case MADV_FREE:
		return drop(mm, a, start, end, advice);
	case MADV_REMOVE:
		return remove_pages(mm, a, start, end);
	case MADV_WIPEONFORK:
		if (a->mapping || (a->flags & VM_SHARED))
			return -EINVAL;
		break;
	case MADV_COLD:
	case MADV_PAGEOUT:
		return a->flags & VM_LOCKED ? -EINVAL : 0; /* nothing is ever paged out */
	case MADV_WILLNEED:
		return 0; /* all files are in memory */
	}
	if (flag_advice(advice, &flags))
		return set_flags(mm, a, start, end, flags);
	return 0;
}

static bool known_advice(int advice)
{
	u32 flags = 0;

	switch (advice) {
	case MADV_DONTNEED: case MADV_DONTNEED_LOCKED: case MADV_FREE: case MADV_REMOVE:
	case MADV_COLD: case MADV_PAGEOUT: case MADV_WILLNEED:
	case MADV_POPULATE_READ: case MADV_POPULATE_WRITE:
		return true;
	}
	return flag_advice(advice, &flags);
}

/* MADV_POPULATE_*: the whole range or an error. */
static long advise_populate(struct mm *mm, vaddr_t start, vaddr_t end, bool write)
{
	down_read(&mm->lock);
	for (vaddr_t va = start; va < end;) {
		struct area *a = area_at(mm, va);
		long err = !a ? -ENOMEM : !(a->flags & (write ? VM_WRITE : VM_ACCESS)) ? -EINVAL : 0;

		if (err) {
			up_read(&mm->lock);
			return err;
		}
		va = a->end;
	}
	up_read(&mm->lock);
	return populate(mm, start, end, write, false);
}

static long do_madvise(struct mm *mm, u64 start, u64 len, int advice)
{
	vaddr_t end, pos;
	long err = 0;
	bool hole = false;

	if (!known_advice(advice) || !IS_ALIGNED(start, PAGE_SIZE))
		return -EINVAL;
	end = start + ALIGN_UP(len, PAGE_SIZE);
	if ((len && !ALIGN_UP(len, PAGE_SIZE)) || end < start)
		return -EINVAL;
	if (end == start)
		return 0;
	if (advice == MADV_POPULATE_READ || advice == MADV_POPULATE_WRITE)
		return advise_populate(mm, start, end, advice == MADV_POPULATE_WRITE);
	if (down_write_killable(&mm->lock))
		return -EINTR;
	for (pos = start; pos < end && !err;) {
		struct area *a = area_find(mm, pos);
		vaddr_t stop;

		if (!a || a->start >= end) {
			hole = true;
			break;
		}
		if (a->start > pos) { /* skip a hole, but say so in the end */
			hole = true;
			pos = a->start;
		}
		stop = MIN(end, a->end);
		err = advise_area(mm, a, pos, stop, advice);
		pos = stop;
	}
	up_write(&mm->lock);
	return err ? err : hole ? -ENOMEM : 0;
}

long sys_madvise(u64 start, u64 len, u64 advice)
{
	return do_madvise(current->mm, start, len, (int)advice);
}

/* ---- mincore, msync ---- */

static void mincore_area(struct area *a, vaddr_t start, vaddr_t end, u8 *out)
{
	for (vaddr_t va = start; va < end; va += PAGE_SIZE, out++) {
		struct page *table, *p;

		rcu_read_lock();
		table = pt_find(a->mm, va);
		*out = table && !pte_none(((pte_t *)page_address(table))[pt_index(va, 1)]);
		rcu_read_unlock();
		if (*out || !a->mapping)
			continue;
		p = mapping_find(a->mapping, area_pgoff(a, va));
		*out = p != NULL;
		if (p)
			page_put(p);
	}
}

long sys_mincore(u64 start, u64 len, u64 vec)
{
	struct mm *mm = current->mm;
	vaddr_t end = start + ALIGN_UP(len, PAGE_SIZE);
	u8 *buf;
	long err = 0;

	if (!IS_ALIGNED(start, PAGE_SIZE))
		return -EINVAL;
	if (start > USER_END || end < start || end > USER_END || (len && end == start))
		return -ENOMEM;
	if (!user_range_ok(vec, (end - start) >> PAGE_SHIFT))
		return -EFAULT;
	buf = kpage_alloc(0);
	if (!buf)
		return -EAGAIN;
	for (vaddr_t pos = start; pos < end && !err;) {
		vaddr_t stop = MIN(end, pos + PAGE_SIZE * PAGE_SIZE);
		struct area *a;

		down_read(&mm->lock);
		a = area_at(mm, pos);
		if (a) {
			stop = MIN(stop, a->end);
			mincore_area(a, pos, stop, buf);
		} else {
			err = -ENOMEM;
		}
		up_read(&mm->lock);
		if (!err && copy_to_user(vec, buf, (stop - pos) >> PAGE_SHIFT))
			err = -EFAULT;
		vec += (stop - pos) >> PAGE_SHIFT;
		pos = stop;
		cond_resched();
	}
	kpage_free(buf);
	return err;
}

long sys_msync(u64 start, u64 len, u64 flags)
{
	struct mm *mm = current->mm;
	vaddr_t end = start + ALIGN_UP(len, PAGE_SIZE);
	long err = 0;

	if (flags & ~(u64)(MS_ASYNC | MS_INVALIDATE | MS_SYNC) || !IS_ALIGNED(start, PAGE_SIZE) ||
	    (flags & (MS_ASYNC | MS_SYNC)) == (MS_ASYNC | MS_SYNC))
		return -EINVAL;
	if (end < start)
		return -ENOMEM;
	/* Files live in memory: there is nothing to write, only to check. */
	down_read(&mm->lock);
	for (vaddr_t pos = start; pos < end;) {
		struct area *a = area_find(mm, pos);

		if (!a) {
			err = -ENOMEM;
			break;
		}
		if (a->start > pos)
			err = -ENOMEM;
		if ((flags & MS_INVALIDATE) && (a->flags & VM_LOCKED) && a->start < end) {
			err = -EBUSY;
			break;
		}
		pos = a->end;
	}
	up_read(&mm->lock);
	return err;
}

/* ---- mlock ---- */

/* Set and clear flags on all of [start, end); -ENOMEM at a hole, what stands before it is done. mm->lock write. */
static int lock_range(struct mm *mm, vaddr_t start, vaddr_t end, u32 set)
{
	for (vaddr_t pos = start; pos < end;) {
		struct area *a = area_at(mm, pos);
		vaddr_t stop;
		int err;

		if (!a)
			return -ENOMEM;
		stop = MIN(end, a->end);
		err = set_flags(mm, a, pos, stop,
				(a->flags & ~(VM_LOCKED | VM_LOCKONFAULT)) | set);
		if (err)
			return err;
		pos = stop;
	}
	return 0;
}

static long do_mlock(u64 start, u64 len, u32 set)
{
	struct mm *mm = current->mm;
	u64 limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	bool root = is_root();
	vaddr_t end;
	long err;

	if (!root && !limit)
		return -EPERM;
	len = ALIGN_UP(len + (start & ~PAGE_MASK), PAGE_SIZE);
	start &= PAGE_MASK;
	end = start + len;
	if (end < start)
		return -EINVAL;
	if (end == start)
		return 0;
	if (down_write_killable(&mm->lock))
		return -EINTR;
	if (!root && mm->locked_pages + (len >> PAGE_SHIFT) > limit)
		err = -ENOMEM;
	else
		err = lock_range(mm, start, end, set);
	up_write(&mm->lock);
	if (err || (set & VM_LOCKONFAULT))
		return err;
	/* A page that cannot be there (PROT_NONE, end of file) makes it fail, as on Linux. */
	err = populate(mm, start, end, true, false);
	return err == -EFAULT ? -ENOMEM : err;
}

long sys_mlock(u64 start, u64 len)
{
	return do_mlock(start, len, VM_LOCKED);
}

long sys_mlock2(u64 start, u64 len, u64 flags)
{
	if (flags & ~(u64)MLOCK_ONFAULT)
		return -EINVAL;
	return do_mlock(start, len, VM_LOCKED | (flags ? VM_LOCKONFAULT : 0));
}

long sys_munlock(u64 start, u64 len)
{
	struct mm *mm = current->mm;
	vaddr_t end;
	long err;

	len = ALIGN_UP(len + (start & ~PAGE_MASK), PAGE_SIZE);
	start &= PAGE_MASK;
	end = start + len;
	if (end < start)
		return -EINVAL;
	if (end == start)
		return 0;
	if (down_write_killable(&mm->lock))
		return -EINTR;
	err = lock_range(mm, start, end, 0);
	up_write(&mm->lock);
	return err;
}

static void lock_all(struct mm *mm, u32 set)
{
	for (struct area *a = mm->areas[0]; a; a = area_next(a)) {
		area_change_begin(a);
		area_set_flags(mm, a, (a->flags & ~(VM_LOCKED | VM_LOCKONFAULT)) | set);
		area_change_end(a);
	}
}

long sys_mlockall(u64 flags)
{
	struct mm *mm = current->mm;
	u32 set = VM_LOCKED | (flags & MCL_ONFAULT ? VM_LOCKONFAULT : 0);
	u64 limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	bool root = is_root();

	if (!flags || flags & ~(u64)(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) || flags == MCL_ONFAULT)
		return -EINVAL;
	if (!root && !limit)
		return -EPERM;
	if (down_write_killable(&mm->lock))
		return -EINTR;
	if (!root && (flags & MCL_CURRENT) && mm->total_pages > limit) {
		up_write(&mm->lock);
		return -ENOMEM;
	}
	mm->def_flags = flags & MCL_FUTURE ? set : 0;
	if (flags & MCL_CURRENT)
		lock_all(mm, set);
	up_write(&mm->lock);
	if ((flags & MCL_CURRENT) && !(flags & MCL_ONFAULT))
		populate(mm, 0, USER_END, true, true);
	return 0;
}

long sys_munlockall(void)
{
	struct mm *mm = current->mm;

	if (down_write_killable(&mm->lock))
		return -EINTR;
	mm->def_flags = 0;
	lock_all(mm, 0);
	up_write(&mm->lock);
	return 0;
}
