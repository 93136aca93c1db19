/*
 * mmap(2), munmap(2), brk(2): areas come and go.
 *
 * A change that fails leaves everything as it was: what can fail (splitting,
 * allocating) is done before what cannot. Locking: mmlock.h, and vma.h for the
 * areas themselves. MAP_FIXED replaces what is there at one moment, so it is a write;
 * everything else is a change, which lets others go on elsewhere.
 */
#include "mm/mmap.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/smp.h"
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
	u64 space = rlimit(RLIMIT_AS), data = rlimit(RLIMIT_DATA);

	if (space != RLIM64_INFINITY && (u64)mm_counter(mm, MM_VM) + pages > space >> PAGE_SHIFT)
		return false;
	if (data != RLIM64_INFINITY &&
	    (flags & (VM_WRITE | VM_SHARED | VM_GROWSDOWN | VM_STACK)) == VM_WRITE &&
	    (u64)mm_counter(mm, MM_DATA) + pages > data >> PAGE_SHIFT)
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

/*
 * Each thread has a stretch of its own to choose from, by the CPU it runs on when
 * it first asks: threads that map and unmap then meet neither in an area nor in a page
 * table, up to the root. A process with one thread uses the top, as usual.
 */
static u64 stretch_size(void)
{
	u64 size = 1UL << pt_shift(4);

	while (size * num_cpus > USER_END / 2)
		size /= 2;
	return size;
}

static void choose_stretch(struct mm *mm, struct task *t)
{
	t->map_top = mm->mmap_base;
	if (vm_mmap_lock == MMAP_LOCK_RANGE && READ_ONCE(mm->users) > 1)
		t->map_top = MIN(t->map_top, ALIGN_DOWN(t->map_top, stretch_size()) -
						     this_cpu() * stretch_size());
	t->map_hint = t->map_top;
}

long find_free(struct mm *mm, vaddr_t hint, u64 len, bool below_2g)
{
	struct task *t = current;
	vaddr_t at = 0;

	if (len > USER_END)
		return -ENOMEM;
	hint &= PAGE_MASK;
	rcu_read_lock();
	if (hint) {
		hint = MAX(hint, MMAP_MIN_ADDR);
		if (hint <= USER_END - len) {
			struct area *a = area_find(mm, hint);

			if (!a || guarded_start(a) >= hint + len) {
				at = hint;
				goto out;
			}
		}
	}
	if (below_2g) {
		at = free_below(mm, len, 0x40000000, 0x80000000);
		goto out;
	}
	if (t->mm == mm) {
		if (!t->map_top)
			choose_stretch(mm, t);
		/* Below what was chosen last there is most likely room. */
		at = free_below(mm, len, MMAP_MIN_ADDR, t->map_hint);
		if (!at)
			at = free_below(mm, len, MMAP_MIN_ADDR, t->map_top);
		if (at)
			t->map_hint = at;
	}
	if (!at)
		at = free_below(mm, len, MMAP_MIN_ADDR, mm->mmap_base);
	if (!at) /* above the base, where stacks are */
		at = free_below(mm, len, mm->mmap_base, USER_END);
out:
	rcu_read_unlock();
	return at ? (long)at : -ENOMEM;
}

/*
 * Upper tables in a thread's own stretch are kept: it will map there again, and neither it nor its
 * neighbours write the tables above. What is left of them goes at exit.
 */
static bool will_be_back(struct mm *mm, vaddr_t start, vaddr_t end)
{
	struct task *t = current;

	return t->mm == mm && READ_ONCE(mm->users) > 1 && end <= t->map_top &&
	       start >= t->map_top - MIN(stretch_size(), t->map_top);
}

/* What is free again is chosen first, so that addresses and tables are used again. */
static void hint_freed(struct mm *mm, vaddr_t end)
{
	struct task *t = current;

	if (t->mm == mm && end > t->map_hint && end <= t->map_top)
		t->map_hint = end;
}

/* ---- unmap ---- */

/* Owned areas are chained through their RCU link, which is not in use before they are freed. */
static inline struct area *chained(const struct area *a)
{
	return (struct area *)a->rcu.next;
}

/* Own all areas of [start, end); the first is in *chain, in ascending order, the last is returned. */
static struct area *own_range(struct mm *mm, vaddr_t start, vaddr_t end, struct area **chain)
{
	struct area *a, *last = NULL;

	*chain = NULL;
	while (start < end && (a = area_lock_next(mm, start, end))) {
		a->rcu.next = NULL;
		if (last)
			last->rcu.next = (struct rcu_head *)a;
		else
			*chain = a;
		last = a;
		start = a->end;
	}
	return last;
}

/*
 * Cut off what the first and the last area of the chain have outside [start, end), and let it go. Only a hole has to be cut
 * (on one side), which can fail. But where other threads may want the rest, it is not kept from them while pages are
 * dropped and TLBs flushed.
 */
static __noinline int cut_off(struct mm *mm, struct area **chain, struct area *last, vaddr_t start,
			      vaddr_t end)
{
	bool others = vm_mmap_lock == MMAP_LOCK_RANGE && READ_ONCE(mm->users) > 1;
	struct area *first = *chain, *tail;

	if (last->end > end && (others || last->start < start)) {
		int err = area_split(mm, last, end, &tail);

		if (!err)
			area_unlock(tail);
		else if (last->start < start)
			return err;
	}
	if (first->start < start && others && !area_split(mm, first, start, &tail)) {
		tail->rcu.next = first->rcu.next;
		*chain = tail;
		area_unlock(first);
	}
	return 0;
}

int unmap_range(struct mm *mm, vaddr_t start, vaddr_t end)
{
	struct area *chain, *last = own_range(mm, start, end, &chain), *next;
	struct gather g;

	if (!last)
		return 0;
	if (chain->start < start || last->end > end) {
		int err = cut_off(mm, &chain, last, start, end);

		if (err) { /* a hole, so there is one area */
			area_unlock(last);
			return err;
		}
	}
	gather_begin(&g, mm);
	for (struct area *a = chain; a; a = chained(a))
		zap_range(&g, a, MAX(start, a->start), MIN(end, a->end), false);
	pt_prune(&g, start, end, will_be_back(mm, start, end));
	gather_end(&g);
	/* Nothing is mapped there any more, in no TLB either: now the addresses may be used again. */
	for (struct area *a = chain; a; a = next) {
		next = chained(a);
		if (a->start < start)
			area_shrink(mm, a, a->start, start);
		else if (a->end > end)
			area_shrink(mm, a, end, a->end);
		else {
			area_remove(mm, a);
			area_free(a);
			continue;
		}
		area_unlock(a);
	}
	hint_freed(mm, end);
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
	if (mm_change_begin(mm))
		return -EINTR;
	err = unmap_range(mm, addr, addr + len);
	mm_change_end(mm);
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

/*
 * Most often new memory just continues what is beside it: let that area grow over
 * [addr, addr + len). NULL if it cannot. The result is owned.
 */
static struct area *grow_neighbour(struct mm *mm, vaddr_t addr, u64 len, const struct area *like)
{
	struct area *prev, *next;

	if (like->mapping)
		return NULL;
	rcu_read_lock();
	prev = area_before(mm, addr);
	next = prev ? area_next(prev) : rcu_dereference(mm->areas[0]);
	if (next && READ_ONCE(next->start) == addr + len && area_continues(like, next) &&
	    area_trylock(next)) {
		rcu_read_unlock();
		if (next->start == addr + len && area_continues(like, next) &&
		    area_grow_down(mm, next, addr))
			return next;
		area_unlock(next);
		return NULL;
	}
	if (prev && READ_ONCE(prev->end) == addr && area_continues(prev, like) &&
	    area_trylock(prev)) {
		rcu_read_unlock();
		if (prev->end == addr && area_continues(prev, like) &&
		    area_grow_up(mm, prev, addr + len))
			return prev;
		area_unlock(prev);
		return NULL;
	}
	rcu_read_unlock();
	return NULL;
}

/* Put new memory at [addr, addr + len). addr, -EEXIST (something is there), or -ENOMEM. */
static long map_at(struct mm *mm, vaddr_t addr, u64 len, const struct request *r)
{
	struct area like = {
		.flags = r->flags, .file = r->file, .mapping = r->mapping, .shm = r->shm,
	};
	struct area *a = grow_neighbour(mm, addr, len, &like);
	int err;

	if (a) {
		a = area_merge(mm, a); /* the neighbour on the other side may continue it too */
	} else {
		if (!area_room(mm, 1))
			return -ENOMEM;
		a = area_create(mm, addr, addr + len, r->flags, r->file, r->mapping, r->pgoff);
		if (!a)
			return -ENOMEM;
		a->shm = r->shm;
		if (a->shm)
			shm_area_opened(a->shm);
		err = area_insert(mm, a);
		if (err) {
			area_free(a);
			return err;
		}
		if (r->mapping && !r->shm) /* which grow_neighbour() leaves alone */
			a = area_merge(mm, a);
	}
	if (current->mm == mm)
		fault_expect(a);
	area_unlock(a);
	return (long)addr;
}

/* The same in place of whatever is there. In a write of mm. */
static long map_over(struct mm *mm, vaddr_t addr, u64 len, const struct request *r)
{
	u64 replaced = 0;
	int err;

	for (struct area *a = area_find(mm, addr); a && a->start < addr + len; a = area_next(a))
		replaced += (MIN(a->end, addr + len) - MAX(a->start, addr)) >> PAGE_SHIFT;
	if (!may_expand(mm, r->flags, (len >> PAGE_SHIFT) - replaced) || !area_room(mm, 1))
		return -ENOMEM;
	err = replaced ? unmap_range(mm, addr, addr + len) : 0;
	return err ? err : map_at(mm, addr, len, r);
}

/* Choose the address as the MAP_* flags say, then map. Takes mm's lock. */
static long map_somewhere(struct mm *mm, vaddr_t addr, u64 len, u32 mflags, const struct request *r)
{
	bool noreplace = mflags & MAP_FIXED_NOREPLACE;
	bool fixed = (mflags & MAP_FIXED) && !noreplace;
	long ret;

	if (fixed || noreplace) {
		if (len > USER_END || addr > USER_END - len)
			return -ENOMEM;
		if (!IS_ALIGNED(addr, PAGE_SIZE))
			return -EINVAL;
	}
	if (fixed) {
		if (mm_lock_write_killable(mm))
			return -EINTR;
		ret = map_over(mm, addr, len, r);
		mm_unlock_write(mm);
		return ret;
	}
	if (mm_change_begin(mm))
		return -EINTR;
	if (!may_expand(mm, r->flags, len >> PAGE_SHIFT)) {
		ret = -ENOMEM;
	} else if (noreplace) {
		ret = map_at(mm, addr, len, r);
	} else {
		do { /* another thread may claim the same gap */
			ret = find_free(mm, addr, len, mflags & MAP_32BIT);
			if (ret > 0)
				ret = map_at(mm, (vaddr_t)ret, len, r);
		} while (ret == -EEXIST);
	}
	mm_change_end(mm);
	return ret;
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
	return (u64)mm_counter(mm, MM_LOCKED) + pages > limit ? -EAGAIN : 0;
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
	ret = map_somewhere(mm, addr, len, mflags, &r);
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

	len = ALIGN_UP(len, PAGE_SIZE);
	if (!len)
		return -EINVAL;
	return map_somewhere(mm, addr, len, mflags, &r);
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

	mm_lock_write(mm);
	ret = map_at(mm, top - size, size, &r);
	mm->stack_start = top;
	mm->mmap_base = ALIGN_DOWN(top - room - STACK_GUARD_GAP, PAGE_SIZE);
	mm_unlock_write(mm);
	return ret < 0 ? (int)ret : 0;
}

/* ---- brk ---- */

void mm_set_brk(struct mm *mm, vaddr_t start)
{
	mm_lock_write(mm);
	mm->brk_start = mm->brk = start;
	mm_unlock_write(mm);
}

long sys_brk(u64 addr)
{
	struct mm *mm = current->mm;
	struct request r = {
		.flags = VM_READ | VM_WRITE | VM_MAYREAD | VM_MAYWRITE | VM_MAYEXEC | mm->def_flags,
	};
	vaddr_t old_end, new_end, ret;
	struct area *a;

	if (mm_lock_write_killable(mm))
		return (long)mm->brk;
	old_end = ALIGN_UP(mm->brk, PAGE_SIZE);
	new_end = ALIGN_UP(addr, PAGE_SIZE);
	if (addr < mm->brk_start || addr > USER_END)
		goto out;
	if (rlimit(RLIMIT_DATA) < addr - mm->brk_start + (mm->data_end - mm->data_start))
		goto out;
	if (new_end < old_end) {
		if (unmap_range(mm, new_end, old_end))
			goto out;
	} else if (new_end > old_end) {
		a = area_find(mm, old_end);
		if (a && guarded_start(a) < new_end + PAGE_SIZE)
			goto out;
		if (!may_expand(mm, r.flags, (new_end - old_end) >> PAGE_SHIFT) ||
		    map_at(mm, old_end, new_end - old_end, &r) < 0)
			goto out;
	}
	mm->brk = addr;
out:
	ret = mm->brk;
	mm_unlock_write(mm);
	if (ret == addr && new_end > old_end && (r.flags & VM_LOCKED))
		populate(mm, old_end, new_end, true, true);
	return (long)ret;
}

/* ---- populate ---- */

int populate(struct mm *mm, vaddr_t start, vaddr_t end, bool write, bool ignore_errors)
{
	for (vaddr_t va = start; va < end; va += PAGE_SIZE) {
		enum fault_result r = fault_in(mm, va, write, false);
		struct area *a;

		if (r == FAULT_ACCERR && write) /* there are read-only areas in between */
			r = fault_in(mm, va, false, false);
		if (r != FAULT_DONE && !ignore_errors)
			return r == FAULT_MAPERR || r == FAULT_NOMEM ? -ENOMEM : -EFAULT;
		if (r == FAULT_NOMEM)
			return 0;
		if (r == FAULT_MAPERR) { /* go on at the next area */
			rcu_read_lock();
			a = area_find(mm, va);
			va = a ? MAX(READ_ONCE(a->start), va + PAGE_SIZE) - PAGE_SIZE : end - PAGE_SIZE;
			rcu_read_unlock();
		}
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}
