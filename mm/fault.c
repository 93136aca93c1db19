/*
 * The way of a page fault.
 *
 *   page_fault()            from the exception entry, interrupts on
 *     fault_fast()          RCU only: area lookup without a lock, no shared line written
 *     fault_slow()          mm locked for reading: when memory is short, an area stays
 *                           owned by a change, a stack has to grow, or vm.mmap_lock=rwsem
 *       fault_area()        permissions; what kind of fault
 *         fault_anon()      nothing there:  new frame, cleared           (anon.c)
 *         fault_file()      nothing there:  frame of the page cache      (file.c)
 *         fault_cow()       no write bit:   reuse or copy                (cow.c)
 *
 *              entry:     empty          read-only             writable
 *   read                  anon / file    spurious              spurious
 *   write                 anon / file    cow                   spurious
 *
 * Lock order: mm->lock → page table → zone. Frames are allocated and filled
 * before the page-table lock is taken; under it the entry, the table and the
 * area are looked at again (fault_lock), and any change means: from the start.
 */
#include "mm/fault.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/tlb.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "mm/mmap.h"
#include "mm/oom.h"
#include "mm/policy.h"
#include "mm/stats.h"

#include <asm/errno.h>
#include <asm/signal.h>
#include <linux/resource.h>

#define SEGV_MAPERR 1
#define SEGV_ACCERR 2
#define BUS_ADRERR  2

static inline bool permitted(const struct fault *f, u32 flags, bool exec)
{
	if (f->write)
		return (flags & VM_WRITE) || (f->force && (flags & VM_MAYWRITE));
	if (exec)
		return flags & VM_EXEC;
	return (flags & VM_ACCESS) || f->force;
}

/* The entry is there and allows it: another CPU was first, or a stale translation was used. */
static enum fault_result spurious(struct fault *f)
{
	tlb_flush_page_local(f->addr);
	return FAULT_DONE;
}

/* One try, with area and seq set. RCU or mm->lock held. */
static inline enum fault_result fault_area(struct fault *f, bool exec)
{
	if (!permitted(f, READ_ONCE(f->area->flags), exec))
		return FAULT_ACCERR;
	f->table = pt_make(f->mm, f->addr);
	if (unlikely(!f->table))
		return fault_nomem(f);
	f->slot = (pte_t *)page_address(f->table) + pt_index(f->addr, 1);
	f->old.v = READ_ONCE(f->slot->v);
	if (likely(pte_none(f->old)))
		return f->area->mapping ? fault_file(f) : fault_anon(f);
	if (unlikely(f->old.v & PTE_PROTNONE)) { /* forced, or mprotect is at work */
		if (f->force)
			return f->write ? FAULT_ACCERR : FAULT_DONE;
		return f->may_wait ? spurious(f) : FAULT_WAIT;
	}
	if (f->write && !(f->old.v & PTE_W))
		return fault_cow(f);
	return spurious(f);
}

static inline void remember_area(struct area *a, u64 gp)
{
	current->area_cache = a;
	current->area_cache_gp = gp;
}

void fault_expect(struct area *a)
{
	remember_area(a, rcu_started());
}

/*
 * Most faults are in the area of the thread's last one. It was reachable when the grace period
 * area_cache_gp was the last to have started. If that is still so, the one that could free it has yet to
 * start, and will wait for this read section. (That none is over yet would not do: this CPU may have answered it already.)
 * Whether the area is still alive and holds the address, its seq and bounds tell, as for any other.
 */
static inline struct area *find_area(struct fault *f)
{
	struct task *t = current;
	struct area *a = t->area_cache;
	u64 gp;

	if (likely(a && f->mm == t->mm && rcu_started() == t->area_cache_gp &&
		   f->addr >= READ_ONCE(a->start) && f->addr < READ_ONCE(a->end) && !area_owned(a)))
		return a;
	gp = rcu_started();
	a = area_find(f->mm, f->addr);
	if (f->mm == t->mm)
		remember_area(a, gp);
	return a;
}

/* Without any lock; what is not FAULT_DONE or FAULT_RETRY is for fault_slow() to decide. */
static inline enum fault_result fault_fast(struct fault *f, bool exec)
{
	enum fault_result r;

	rcu_read_lock();
	f->area = find_area(f);
	if (unlikely(!f->area)) {
		r = FAULT_MAPERR;
	} else {
		f->seq = smp_load_acquire(&f->area->seq);
		if (unlikely(f->seq & 1))
			r = FAULT_BUSY;
		else if (unlikely(READ_ONCE(f->area->start) > f->addr ||
				  READ_ONCE(f->area->end) <= f->addr))
			r = FAULT_MAPERR;
		else
			r = fault_area(f, exec);
	}
	rcu_read_unlock();
	return r;
}

static enum fault_result fault_slow(struct fault *f, bool exec)
{
	enum fault_result r;
	int round = 0;

	f->may_wait = true;
	do {
		mm_lock_read(f->mm);
		f->area = area_find(f->mm, f->addr);
		if (!f->area || f->area->start > f->addr) {
			bool stack = f->area && (f->area->flags & VM_GROWSDOWN);

			mm_unlock_read(f->mm);
			if (!stack || !stack_grow(f->mm, f->addr))
				return FAULT_MAPERR;
			r = FAULT_RETRY;
			continue;
		}
		f->seq = f->area->seq;
		r = fault_area(f, exec);
		mm_unlock_read(f->mm);
		if (r == FAULT_NOMEM && reclaim(round++)) /* a page table is got without waiting */
			r = FAULT_RETRY;
	} while (r == FAULT_RETRY || r == FAULT_WAIT);
	return r;
}

static enum fault_result resolve(struct fault *f, bool exec)
{
	enum fault_result r;

	if (likely(vm_mmap_lock != MMAP_LOCK_RWSEM)) {
		/* An area that another thread changes is free again soon; if not, sleep. */
		for (unsigned tries = 0; tries < 100; tries++) {
			r = fault_fast(f, exec);
			if (likely(r != FAULT_RETRY && r != FAULT_BUSY))
				break;
			stat_inc(STAT_FAULT_RETRY);
			cpu_relax();
		}
		/* Everything but a clear success is said with the lock held. */
		if (likely(r == FAULT_DONE))
			return r;
	}
	stat_inc(STAT_FAULT_SLOW);
	return fault_slow(f, exec);
}

int page_fault(struct regs *regs, u64 addr, u32 error, struct fault_signal *sig)
{
	struct task *t = current;
	enum fault_result r = FAULT_MAPERR;
	struct fault f; /* the rest is for resolve() to find out; clearing it all would take as long as a lookup */

	f.mm = t->mm;
	f.addr = addr & PAGE_MASK;
	f.write = error & PF_WRITE;
	f.may_wait = f.force = false;

	stat_inc(STAT_PGFAULT);
	if (unlikely(error & PF_RSVD))
		panic("page table of %d has reserved bits at %llx", t->tid, (unsigned long long)addr);
	if (likely(addr < USER_END && f.mm && ((error & PF_USER) || ex_table_lookup(regs->rip)))) {
		t->min_flt++;
		r = resolve(&f, error & PF_FETCH);
	}
	if (likely(r == FAULT_DONE))
		return 0;
	sig->addr = addr;
	switch (r) {
	case FAULT_NOMEM:
		sig->signo = SIGKILL;
		sig->code = 0;
		break;
	case FAULT_SIGBUS:
		sig->signo = SIGBUS;
		sig->code = BUS_ADRERR;
		break;
	default:
		sig->signo = SIGSEGV;
		sig->code = r == FAULT_ACCERR ? SEGV_ACCERR : SEGV_MAPERR;
	}
	return -EFAULT;
}

enum fault_result fault_in(struct mm *mm, vaddr_t addr, bool write, bool force)
{
	struct fault f = { .mm = mm, .addr = addr & PAGE_MASK, .write = write, .force = force };

	return addr < USER_END ? resolve(&f, false) : FAULT_MAPERR;
}

enum fault_result fault_in_locked(struct mm *mm, vaddr_t addr, bool write, bool force)
{
	struct fault f = { .mm = mm, .addr = addr & PAGE_MASK, .write = write, .force = force,
			   .may_wait = true };
	enum fault_result r = FAULT_MAPERR;

	f.area = addr < USER_END ? area_at(mm, addr) : NULL;
	while (f.area) {
		f.seq = f.area->seq;
		r = fault_area(&f, false);
		if (r != FAULT_RETRY)
			break;
	}
	return r;
}

/* ---- stacks ---- */

bool stack_grow(struct mm *mm, vaddr_t addr)
{
	u64 limit = rlimit(RLIMIT_STACK);
	struct area *a, *below;
	bool ok = false;

	addr &= PAGE_MASK;
	mm_lock_write(mm);
	a = area_find(mm, addr);
	if (a && a->start <= addr) {
		ok = true; /* somebody else was here */
	} else if (a && (a->flags & VM_GROWSDOWN)) {
		below = area_before(mm, a->start);
		ok = a->end - addr <= limit && addr >= STACK_GUARD_GAP &&
		     may_expand(mm, a->flags, (a->start - addr) >> PAGE_SHIFT);
		/* Keep a gap to what lies below, unless it may not be touched anyway. */
		if (below && (below->flags & VM_ACCESS) && !(below->flags & VM_GROWSDOWN) &&
		    addr - below->end < STACK_GUARD_GAP)
			ok = false;
		if (below && addr < below->end)
			ok = false;
		if (ok) {
			area_mark(a);
			ok = area_grow_down(mm, a, addr);
			area_unlock(a);
		}
	}
	mm_unlock_write(mm);
	return ok;
}
