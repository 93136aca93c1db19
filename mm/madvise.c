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

/*
 * Drop the pages of [start, end) inside a, which is shared (vma.h). others: with others. These may have taken a page of
 * the range out that some CPU still has in its TLB, so here all of it is flushed. Whoever comes later than the second look at
 * sharers takes out nothing that we have looked for.
 */
static int drop(struct mm *mm, struct area *a, vaddr_t start, vaddr_t end, int advice, bool others)
{
	struct gather g;

	if ((a->flags & VM_LOCKED) && advice != MADV_DONTNEED_LOCKED)
		return -EINVAL;
	if (advice == MADV_FREE && a->mapping)
		return -EINVAL;
	gather_begin(&g, mm);
	zap_range(&g, a, start, end, false);
	if (others || READ_ONCE(a->sharers) > 1) {
		gather_flush_addr(&g, start);
		gather_flush_addr(&g, end - PAGE_SIZE);
	}
	gather_end(&g);
	return 0;
}

static bool drops(int advice)
{
	return advice == MADV_DONTNEED || advice == MADV_DONTNEED_LOCKED || advice == MADV_FREE;
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

/* The part inside [start, end) of the owned area *a; *a becomes what that part has become. */
static int set_flags(struct mm *mm, struct area **a, vaddr_t start, vaddr_t end, u32 flags)
{
	int err;

	if (flags == (*a)->flags)
		return 0;
	err = area_isolate(mm, a, start, end);
	if (err)
		return err;
	area_set_flags(mm, *a, flags);
	*a = area_merge(mm, *a);
	return 0;
}

/* Free the file's own pages behind [start, end) of the shared area *a. The area is let go meanwhile: *a = NULL. */
static int remove_pages(struct area **a, vaddr_t start, vaddr_t end)
{
	struct mapping *m = (*a)->mapping;
	u64 from = area_pgoff(*a, start) << PAGE_SHIFT, to = area_pgoff(*a, end) << PAGE_SHIFT;

	if ((*a)->flags & VM_LOCKED)
		return -EINVAL;
	if (!m || !((*a)->flags & VM_SHARED))
		return -EINVAL;
	if (!((*a)->flags & VM_MAYWRITE))
		return -EACCES;
	mapping_get(m);
	area_unlock(*a);
	*a = NULL;
	mapping_punch(m, from, to);
	mapping_put(m);
	return 0;
}

static int advise_area(struct mm *mm, struct area **a, vaddr_t start, vaddr_t end, int advice)
{
	u32 flags = (*a)->flags;

	switch (advice) {
	case MADV_REMOVE:
		return remove_pages(a, start, end);
	case MADV_WIPEONFORK:
		if ((*a)->mapping || (flags & VM_SHARED))
			return -EINVAL;
		break;
	case MADV_COLD:
	case MADV_PAGEOUT:
		return flags & VM_LOCKED ? -EINVAL : 0; /* nothing is ever paged out */
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

/* MADV_POPULATE_*: area by area, up to the first that is not there (-ENOMEM) or does not allow it (-EINVAL). */
static long advise_populate(struct mm *mm, vaddr_t start, vaddr_t end, bool write)
{
	while (start < end) {
		struct area *a;
		vaddr_t stop = 0;
		long err = -ENOMEM;

		rcu_read_lock();
		a = area_at(mm, start);
		if (a) {
			stop = MIN(end, READ_ONCE(a->end));
			err = a->flags & (write ? VM_WRITE : VM_ACCESS) ? 0 : -EINVAL;
		}
		rcu_read_unlock();
		if (!err)
			err = populate(mm, start, stop, write, false);
		if (err)
			return err;
		start = stop;
	}
	return 0;
}

static long do_madvise(struct mm *mm, u64 start, u64 len, int advice)
{
	vaddr_t end, pos;
	struct area *a;
	long err = 0;
	bool hole = false, others = false;

	if (!known_advice(advice) || !IS_ALIGNED(start, PAGE_SIZE))
		return -EINVAL;
	end = start + ALIGN_UP(len, PAGE_SIZE);
	if ((len && !ALIGN_UP(len, PAGE_SIZE)) || end < start)
		return -EINVAL;
	if (end == start)
		return 0;
	if (advice == MADV_POPULATE_READ || advice == MADV_POPULATE_WRITE)
		return advise_populate(mm, start, end, advice == MADV_POPULATE_WRITE);
	if (mm_change_begin(mm))
		return -EINTR;
	for (pos = start; pos < end && !err;) {
		vaddr_t stop;

		a = drops(advice) ? area_share_next(mm, pos, end, &others) :
				    area_lock_next(mm, pos, end);
		if (!a) {
			hole = true;
			break;
		}
		if (a->start > pos) { /* skip a hole, but say so in the end */
			hole = true;
			pos = a->start;
		}
		stop = MIN(end, a->end);
		if (drops(advice)) {
			err = drop(mm, a, pos, stop, advice, others);
			area_unshare(a);
		} else {
			err = advise_area(mm, &a, pos, stop, advice);
			if (a)
				area_unlock(a);
		}
		pos = stop;
	}
	mm_change_end(mm);
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

		mm_lock_read(mm);
		a = area_at(mm, pos);
		if (a) {
			stop = MIN(stop, a->end);
			mincore_area(a, pos, stop, buf);
		} else {
			err = -ENOMEM;
		}
		mm_unlock_read(mm);
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
	mm_lock_read(mm);
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
	mm_unlock_read(mm);
	return err;
}

/* ---- mlock ---- */

/* Set and clear flags on all of [start, end); -ENOMEM at a hole, what stands before it is done. A write of mm. */
static int lock_range(struct mm *mm, vaddr_t start, vaddr_t end, u32 set)
{
	for (vaddr_t pos = start; pos < end;) {
		struct area *a = area_at(mm, pos);
		vaddr_t stop;
		int err;

		if (!a)
			return -ENOMEM;
		area_mark(a);
		stop = MIN(end, a->end);
		err = set_flags(mm, &a, pos, stop,
				(a->flags & ~(VM_LOCKED | VM_LOCKONFAULT)) | set);
		area_unlock(a);
		if (err)
			return err;
		pos = stop;
	}
	return 0;
}

/* Pages of [start, end) that are locked already: they cost nothing. A write of mm. */
static u64 locked_in(struct mm *mm, vaddr_t start, vaddr_t end)
{
	u64 n = 0;

	for (struct area *a = area_find(mm, start); a && a->start < end; a = area_next(a))
		if (a->flags & VM_LOCKED)
			n += (MIN(a->end, end) - MAX(a->start, start)) >> PAGE_SHIFT;
	return n;
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
	if (mm_lock_write_killable(mm))
		return -EINTR;
	if (!root && (u64)mm_counter(mm, MM_LOCKED) + (len >> PAGE_SHIFT) -
				     locked_in(mm, start, end) > limit)
		err = -ENOMEM;
	else
		err = lock_range(mm, start, end, set);
	mm_unlock_write(mm);
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
	if (mm_lock_write_killable(mm))
		return -EINTR;
	err = lock_range(mm, start, end, 0);
	mm_unlock_write(mm);
	return err;
}

static void lock_all(struct mm *mm, u32 set)
{
	for (struct area *a = mm->areas[0]; a; a = area_next(a)) {
		area_mark(a);
		area_set_flags(mm, a, (a->flags & ~(VM_LOCKED | VM_LOCKONFAULT)) | set);
		area_unlock(a);
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
	if (mm_lock_write_killable(mm))
		return -EINTR;
	if (!root && (flags & MCL_CURRENT) && (u64)mm_counter(mm, MM_VM) > limit) {
		mm_unlock_write(mm);
		return -ENOMEM;
	}
	mm->def_flags = flags & MCL_FUTURE ? set : 0;
	if (flags & MCL_CURRENT)
		lock_all(mm, set);
	mm_unlock_write(mm);
	if ((flags & MCL_CURRENT) && !(flags & MCL_ONFAULT))
		populate(mm, 0, USER_END, true, true);
	return 0;
}

long sys_munlockall(void)
{
	struct mm *mm = current->mm;

	if (mm_lock_write_killable(mm))
		return -EINTR;
	mm->def_flags = 0;
	lock_all(mm, 0);
	mm_unlock_write(mm);
	return 0;
}
