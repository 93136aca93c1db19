/*
 * mmap(2), munmap(2), brk(2): areas come and go.
 *
 * All under mm->lock for writing. A change that fails leaves everything as it
 * was: what can fail (splitting, allocating) is done before what cannot.
 */
#include "mm/mmap.h"
#include "arch/x86_64/cpu.h"
#include "kernel/file.h"
#include "kernel/ipc.h"
#include "kernel/process.h"
#include "kernel/signal.h"
#include "kernel/printk.h"
#include "kernel/syscall.h"
#include "mm/fault.h"
#include "mm/policy.h"
#include "mm/ptwalk.h"
#include "mm/zap.h"

#include <asm/errno.h>
#include <linux/mman.h>
#include <linux/fcntl.h>

u32 prot_flags(u64 prot)
{
	return (prot & PROT_READ ? VM_READ : 0) | (prot & PROT_WRITE ? VM_WRITE : 0) |
	       (prot & PROT_EXEC ? VM_EXEC : 0);
}

bool may_expand(struct mm *mm, u32 flags, u64 pages)
{
	if (mm->total_pages + pages > rlimit(RLIMIT_AS) >> PAGE_SHIFT)
		return false;
	if ((flags & (VM_WRITE | VM_SHARED | VM_GROWSDOWN | VM_STACK)) == VM_WRITE &&
	    mm->data_pages + pages > rlimit(RLIMIT_DATA) >> PAGE_SHIFT)
		return false;
	/* As Linux's heuristic: refuse what can never be there, unless told that it need not. */
	if ((flags & (VM_WRITE | VM_SHARED | VM_NORESERVE)) == VM_WRITE &&
	    pages > frames_total(NO_NODE))
		return false;
	return true;
}

/* ---- address selection ---- */

/* Lowest address that must stay free below an area: stacks keep room to grow. */
static vaddr_t guarded_start(const struct area *a)
{
	if (!(a->flags & VM_GROWSDOWN))
		return a->start;
	return a->start > STACK_GUARD_GAP ? a->start - STACK_GUARD_GAP : 0;
}

/* Highest free stretch of len bytes in [low, high): 0 if none. Each step is one lookup. */
static vaddr_t free_below(struct mm *mm, u64 len, vaddr_t low, vaddr_t high)
{
	while (high >= low && high - low >= len) {
		struct area *a = area_find(mm, high - len);

		if (!a || guarded_start(a) >= high)
			return high - len;
		high = MIN(high - 1, guarded_start(a)) & PAGE_MASK;
	}
	return 0;
}

long find_free(struct mm *mm, vaddr_t hint, u64 len, bool below_2g)
{
	vaddr_t at;

	if (len > USER_END)
		return -ENOMEM;
	hint &= PAGE_MASK;
	if (hint) {
		hint = MAX(hint, MMAP_MIN_ADDR);
		if (hint <= USER_END - len) {
			struct area *a = area_find(mm, hint);

			if (!a || guarded_start(a) >= hint + len)
				return (long)hint;
		}
	}
	if (below_2g) {
		at = free_below(mm, len, 0x40000000, 0x80000000);
		return at ? (long)at : -ENOMEM;
	}
	/* Below what was chosen last there is most likely room; then anywhere. */
	at = mm->map_hint ? free_below(mm, len, MMAP_MIN_ADDR, mm->map_hint) : 0;
	if (!at)
		at = free_below(mm, len, MMAP_MIN_ADDR, mm->mmap_base);
	if (!at) /* above the base, where stacks are */
		at = free_below(mm, len, mm->mmap_base, USER_END);
	if (!at)
		return -ENOMEM;
	mm->map_hint = at;
	return (long)at;
}

/* ---- unmap ---- */

int unmap_locked(struct mm *mm, vaddr_t start, vaddr_t end)
{
	struct area *a = area_find(mm, start), *gone = NULL, *next;
	struct gather g;
	int err;

	if (!a || a->start >= end)
		return 0;
	/* Cutting a hole makes one more area. */
	if (a->start < start && a->end > end && mm->nr_areas >= (u32)vm_max_map_count)
		return -ENOMEM;
	err = area_split_at(mm, start);
	if (!err)
		err = area_split_at(mm, end);
	if (err)
		return err;

	for (a = area_find(mm, start); a && a->start < end; a = area_next(a))
		area_mark(a);
	smp_mb(); /* marks before the first page-table lock: see vma.h */
	gather_begin(&g, mm);
	for (a = area_find(mm, start); a && a->start < end; a = next) {
		next = area_next(a);
		zap_range(&g, a, a->start, a->end, false);
		area_remove(mm, a);
		/* kept on a chain through its own dead link field until the flush is done */
		a->rcu.next = (struct rcu_head *)gone;
		gone = a;
	}
	pt_prune(&g, start, end);
	gather_end(&g);
	while (gone) {
		a = gone;
		gone = (struct area *)a->rcu.next;
		area_free(a);
	}
	if (mm->map_hint && end > mm->map_hint && end <= mm->mmap_base)
		mm->map_hint = end;
	return 0;
}

int mm_unmap(struct mm *mm, vaddr_t addr, u64 len)
{
	int err;

	if (!IS_ALIGNED(addr, PAGE_SIZE) || addr > USER_END || len > USER_END - addr)
		return -EINVAL;
	len = ALIGN_UP(len, PAGE_SIZE);
	if (!len)
		return -EINVAL;
	if (down_write_killable(&mm->lock))
		return -EINTR;
	err = unmap_locked(mm, addr, addr + len);
	up_write(&mm->lock);
	return err;
}

long sys_munmap(u64 addr, u64 len)
{
	return mm_unmap(current->mm, addr, len);
}

/* ---- map ---- */

/* What is to be mapped: filled in by the callers below. */
struct request {
	u32 flags; /* VM_* */
	struct file *file;
	struct mapping *mapping;
	u64 pgoff;
	void *shm;
};

/* Put a new area at [addr, addr + len), replacing what is there. mm->lock for writing. */
static long map_at(struct mm *mm, vaddr_t addr, u64 len, const struct request *r)
{
	struct area *prev, *a;
	u64 pgoff = r->mapping ? r->pgoff : addr >> PAGE_SHIFT;
	u64 replaced = 0;
	int err;

	for (a = area_find(mm, addr); a && a->start < addr + len; a = area_next(a))
		replaced += (MIN(a->end, addr + len) - MAX(a->start, addr)) >> PAGE_SHIFT;
	if (!may_expand(mm, r->flags, (len >> PAGE_SHIFT) - replaced))
		return -ENOMEM;
	if (mm->nr_areas > (u32)vm_max_map_count)
		return -ENOMEM;
	err = replaced ? unmap_locked(mm, addr, addr + len) : 0;
	if (err)
		return err;

	/* Most often it just continues the area below. */
	prev = r->shm ? NULL : area_before(mm, addr);
	if (prev && !prev->policy &&
	    area_can_extend(prev, addr, r->flags, r->file, r->mapping, pgoff)) {
		area_change_begin(prev);
		area_resize(mm, prev, prev->start, addr + len);
		area_change_end(prev);
		area_merge(mm, prev);
		return (long)addr;
	}
	a = area_create(mm, addr, addr + len, r->flags, r->file, r->mapping, pgoff);
	if (!a)
		return -ENOMEM;
	a->shm = r->shm;
	if (a->shm)
		shm_area_opened(a->shm);
	area_insert(mm, a);
	if (!r->shm)
		area_merge(mm, a);
	return (long)addr;
}

/* Choose the address as the MAP_* flags say, then map. mm->lock for writing. */
static long map_somewhere(struct mm *mm, vaddr_t addr, u64 len, u32 mflags, const struct request *r)
{
	if (mflags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) {
		if (len > USER_END || addr > USER_END - len)
			return -ENOMEM;
		if (!IS_ALIGNED(addr, PAGE_SIZE))
			return -EINVAL;
		if (mflags & MAP_FIXED_NOREPLACE) {
			struct area *a = area_find(mm, addr);

			if (a && a->start < addr + len)
				return -EEXIST;
		}
	} else {
		long at = find_free(mm, addr, len, mflags & MAP_32BIT);

		if (at < 0)
			return at;
		addr = (vaddr_t)at;
	}
	return map_at(mm, addr, len, r);
}

/* Permissions that the file allows, into r->flags; what is mapped, into r->mapping (with a reference). */
static int request_file(struct request *r, struct file *file, u32 mflags, u64 len, u64 off)
{
	bool shared = r->flags & VM_SHARED;

	if (off >> PAGE_SHIFT > (0x7fffffffffffffffUL - len) >> PAGE_SHIFT)
		return -EOVERFLOW;
	if (shared && (r->flags & VM_WRITE) && !file_writable(file))
		return -EACCES;
	if (!file_readable(file))
		return -EACCES;
	switch (file_mmap_kind(file)) {
	case FILE_MMAP_NONE:
		return -ENODEV;
	case FILE_MMAP_ZERO:
		return 0;
	case FILE_MMAP_CACHE:
		break;
	}
	if (shared && !file_writable(file))
		r->flags &= ~VM_MAYWRITE;
	r->file = file;
	r->mapping = file_mapping(file);
	if (shared && (r->mapping->seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))) {
		if (r->flags & VM_WRITE)
			return -EPERM;
		r->flags &= ~VM_MAYWRITE;
	}
	mapping_get(r->mapping);
	r->pgoff = off >> PAGE_SHIFT;
	return 0;
}

/* RLIMIT_MEMLOCK for `pages` more locked pages: 0, -EPERM (may not lock at all), -EAGAIN. */
static int may_lock(struct mm *mm, u64 pages)
{
	u64 limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;

	if (is_root())
		return 0;
	if (!limit)
		return -EPERM;
	return mm->locked_pages + pages > limit ? -EAGAIN : 0;
}

long mm_map(struct mm *mm, vaddr_t addr, u64 len, u32 prot, u32 mflags, struct file *file, u64 off)
{
	struct request r = { .flags = prot_flags(prot) | VM_MAYREAD | VM_MAYWRITE | VM_MAYEXEC };
	u32 type = mflags & MAP_TYPE;
	bool fill;
	long ret;

	if (!len)
		return -EINVAL;
	len = ALIGN_UP(len, PAGE_SIZE);
	if (!len || len > USER_END)
		return -ENOMEM;
	if ((off >> PAGE_SHIFT) + (len >> PAGE_SHIFT) < off >> PAGE_SHIFT)
		return -EOVERFLOW;
	if (type == MAP_SHARED || type == MAP_SHARED_VALIDATE)
		r.flags |= VM_SHARED | VM_MAYSHARE;
	else if (type != MAP_PRIVATE)
		return -EINVAL;
	if (mflags & MAP_GROWSDOWN) {
		if ((r.flags & VM_SHARED) || file)
			return -EINVAL;
		r.flags |= VM_GROWSDOWN;
	}
	if (mflags & MAP_NORESERVE)
		r.flags |= VM_NORESERVE;
	r.flags |= mm->def_flags;
	if (mflags & MAP_LOCKED) {
		ret = may_lock(mm, len >> PAGE_SHIFT);
		if (ret)
			return ret;
		r.flags |= VM_LOCKED;
	}
	if (file) {
		ret = request_file(&r, file, mflags, len, off);
		if (ret)
			return ret;
	}
	if ((r.flags & VM_SHARED) && !r.mapping) {
		r.mapping = mapping_create(len);
		if (!r.mapping)
			return -ENOMEM;
	}
	if (down_write_killable(&mm->lock)) {
		ret = -EINTR;
	} else {
		ret = map_somewhere(mm, addr, len, mflags, &r);
		up_write(&mm->lock);
	}
	if (r.mapping)
		mapping_put(r.mapping);
	fill = (mflags & MAP_POPULATE && !(mflags & MAP_NONBLOCK)) ||
	       (r.flags & (VM_LOCKED | VM_LOCKONFAULT)) == VM_LOCKED;
	if (ret >= 0 && fill)
		populate(mm, (vaddr_t)ret, (vaddr_t)ret + len, prot & PROT_WRITE, true);
	return ret;
}

long mm_map_shared(struct mm *mm, vaddr_t addr, u64 len, u32 prot, u32 mflags, struct mapping *m,
		   void *shm_cookie)
{
	struct request r = {
		.flags = prot_flags(prot) | VM_MAYREAD | VM_MAYEXEC | VM_SHARED | VM_MAYSHARE |
			 (prot & PROT_WRITE ? VM_MAYWRITE : 0),
		.mapping = m,
		.shm = shm_cookie,
	};
	long ret;

	len = ALIGN_UP(len, PAGE_SIZE);
	if (!len)
		return -EINVAL;
	if (down_write_killable(&mm->lock))
		return -EINTR;
	ret = map_somewhere(mm, addr, len, mflags, &r);
	up_write(&mm->lock);
	return ret;
}

long sys_mmap(u64 addr, u64 len, u64 prot, u64 mflags, u64 fd, u64 off)
{
	struct file *file = NULL;
	long ret;

	if (!IS_ALIGNED(off, PAGE_SIZE))
		return -EINVAL;
	if (!(mflags & MAP_ANONYMOUS)) {
		file = fd_get((int)fd);
		if (!file)
			return -EBADF;
	} else if (mflags & MAP_HUGETLB) {
		return -ENOMEM; /* the pool of hugepages is empty */
	}
	ret = mm_map(current->mm, addr, len, (u32)prot, (u32)mflags, file, file ? off : 0);
	if (file)
		file_put(file);
	return ret;
}

int mm_map_stack(struct mm *mm, vaddr_t top, u64 size, bool executable)
{
	struct request r = {
		.flags = VM_READ | VM_WRITE | (executable ? VM_EXEC : 0) | VM_MAYREAD | VM_MAYWRITE |
			 VM_MAYEXEC | VM_GROWSDOWN | VM_STACK,
	};
	u64 room = MIN(MAX(rlimit(RLIMIT_STACK), 128 * MB), USER_END / 6 * 5);
	long ret;

	down_write(&mm->lock);
	ret = map_at(mm, top - size, size, &r);
	mm->stack_start = top;
	mm->mmap_base = ALIGN_DOWN(top - room - STACK_GUARD_GAP, PAGE_SIZE);
	up_write(&mm->lock);
	return ret < 0 ? (int)ret : 0;
}

/* ---- brk ---- */

void mm_set_brk(struct mm *mm, vaddr_t start)
{
	down_write(&mm->lock);
	mm->brk_start = mm->brk = start;
	up_write(&mm->lock);
}

long sys_brk(u64 addr)
{
	struct mm *mm = current->mm;
	struct request r = {
		.flags = VM_READ | VM_WRITE | VM_MAYREAD | VM_MAYWRITE | VM_MAYEXEC | mm->def_flags,
	};
	vaddr_t old_end, new_end, ret;
	struct area *a;

	if (down_write_killable(&mm->lock))
		return (long)mm->brk;
	old_end = ALIGN_UP(mm->brk, PAGE_SIZE);
	new_end = ALIGN_UP(addr, PAGE_SIZE);
	if (addr < mm->brk_start || addr > USER_END)
		goto out;
	if (rlimit(RLIMIT_DATA) < addr - mm->brk_start + (mm->data_end - mm->data_start))
		goto out;
	if (new_end < old_end) {
		if (unmap_locked(mm, new_end, old_end))
			goto out;
	} else if (new_end > old_end) {
		a = area_find(mm, old_end);
		if (a && guarded_start(a) < new_end + PAGE_SIZE)
			goto out;
		if (map_at(mm, old_end, new_end - old_end, &r) < 0)
			goto out;
	}
	mm->brk = addr;
out:
	ret = mm->brk;
	up_write(&mm->lock);
	if (ret == addr && new_end > old_end && (r.flags & VM_LOCKED))
		populate(mm, old_end, new_end, true, true);
	return (long)ret;
}

/* ---- populate ---- */

int populate(struct mm *mm, vaddr_t start, vaddr_t end, bool write, bool ignore_errors)
{
	int err = 0;

	for (vaddr_t va = start; va < end && !err;) {
		struct area *a;

		if (fatal_signal_pending(current))
			return -EINTR;
		down_read(&mm->lock);
		a = area_find(mm, va);
		if (!a || a->start > va) {
			err = -ENOMEM;
			if (ignore_errors) {
				err = 0;
				va = a ? MIN(a->start, end) : end;
			}
			up_read(&mm->lock);
			continue;
		}
		/* A stretch at a time, so that writers of mm->lock get in. */
		for (unsigned n = 0; va < MIN(end, a->end) && n < 64; n++, va += PAGE_SIZE) {
			bool w = write && (a->flags & VM_WRITE);
			enum fault_result r = fault_in_locked(mm, a, va, w);

			if (r == FAULT_DONE)
				continue;
			err = r == FAULT_NOMEM ? -ENOMEM : -EFAULT;
			if (ignore_errors) {
				err = 0;
				va = MIN(end, a->end);
			}
			break;
		}
		up_read(&mm->lock);
		cond_resched();
	}
	return err;
}
