/*
 * Other people's memory: reading and writing any address space from the kernel,
 * holding on to a frame, and what identifies a futex word.
 */
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/signal.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "mm/fault.h"
#include "mm/mmlock.h"
#include "mm/ptwalk.h"

#include <asm/errno.h>

/* The frame at addr with a reference, if the entry allows it as it is. RCU protects the walk. */
static struct page *frame_at(struct mm *mm, vaddr_t addr, bool write, bool force)
{
	struct page *table, *p = NULL;
	spinlock_t *ptl;
	pte_t e;

	rcu_read_lock();
	table = pt_find(mm, addr);
	racepoint("walk_pinned");
	if (table) {
		ptl = ptpage_lock(mm, table);
		e = ((pte_t *)page_address(table))[pt_index(addr, 1)];
		/* Once fault_in() has broken COW for a forced write, the frame is ours although read-only. */
		if (!ptpage_stray(table) && (e.v & PTE_P || (force && !pte_none(e)))) {
			p = phys_to_page(pte_phys(e));
			if (write && !(e.v & PTE_W) &&
			    !(force && !(e.v & PTE_SPECIAL) && p->type == PG_ANON && p->refs == 1))
				p = NULL;
			else
				page_get(p);
		}
		spin_unlock(ptl);
	}
	rcu_read_unlock();
	return p;
}

/* One try: the frame, or NULL with *r saying why not. */
static struct page *frame_try(struct mm *mm, vaddr_t addr, bool write, bool force,
			      enum fault_result *r)
{
	struct area *a;
	bool readable;

	rcu_read_lock();
	a = addr < USER_END ? area_at(mm, addr) : NULL;
	readable = a && ((READ_ONCE(a->flags) & VM_ACCESS) || force);
	rcu_read_unlock();
	if (readable) {
		struct page *p = frame_at(mm, addr, write, force);

		if (p)
			return p;
	}
	racepoint("access_retry");
	*r = fault_in(mm, addr, write, force);
	return NULL;
}

static struct page *frame_get(struct mm *mm, vaddr_t addr, bool write, bool force, int *err)
{
	enum fault_result r = FAULT_DONE;
	struct page *p = NULL;

	for (int tries = 0; tries < 3 && r == FAULT_DONE; tries++) {
		p = frame_try(mm, addr, write, force, &r);
		if (p)
			return p;
	}
	/* Somebody takes the page away as fast as it comes: keep him out. */
	while (r == FAULT_DONE && !p && !fatal_signal_pending(current)) {
		mm_lock_read(mm);
		r = fault_in_locked(mm, addr, write, force);
		if (r == FAULT_DONE)
			p = frame_at(mm, addr, write, force);
		mm_unlock_read(mm);
	}
	*err = r == FAULT_NOMEM ? -ENOMEM : r == FAULT_DONE ? -EINTR : -EFAULT;
	return p;
}

struct page *mm_pin(struct mm *mm, vaddr_t addr, bool write, int *err)
{
	return frame_get(mm, addr, write, false, err);
}

void page_unpin(struct page *p)
{
	page_put(p);
}

long mm_access(struct mm *mm, vaddr_t addr, void *buf, size_t len, bool write, bool force)
{
	size_t done = 0;
	int err = 0;

	while (done < len) {
		u64 off = (addr + done) % PAGE_SIZE;
		size_t chunk = MIN(len - done, PAGE_SIZE - off);
		struct page *p = frame_get(mm, addr + done, write, force, &err);

		if (!p)
			break;
		if (write)
			memcpy((char *)page_address(p) + off, (char *)buf + done, chunk);
		else
			memcpy((char *)buf + done, (char *)page_address(p) + off, chunk);
		page_put(p);
		done += chunk;
		cond_resched();
	}
	return done ? (long)done : len ? err : 0;
}

/* ---- process_vm_readv, process_vm_writev ---- */

struct iovec_user {
	u64 base, len;
};

static int iovec_get(vaddr_t uiov, u64 i, struct iovec_user *v)
{
	return copy_from_user(v, uiov + i * sizeof *v, sizeof *v) ? -EFAULT : 0;
}

static long vm_rw(u64 pid, u64 lvec, u64 nl, u64 rvec, u64 nr, u64 flags, bool write)
{
	struct iovec_user l = { 0 }, r = { 0 };
	u64 li = 0, ri = 0;
	struct task *t;
	struct mm *mm;
	void *buf;
	long done = 0, err = 0;

	if (flags || nl > 1024 || nr > 1024)
		return -EINVAL;
	t = task_by_tid((int)pid);
	if (!t)
		return -ESRCH;
	mm = mm_of_task(t);
	task_put(t);
	if (!mm)
		return -ESRCH;
	buf = kpage_alloc(0);
	if (!buf)
		err = -ENOMEM;
	while (!err) {
		size_t n;
		long got;

		while (!l.len && li < nl && !err) {
			err = iovec_get(lvec, li++, &l);
			if (!err && (s64)l.len < 0)
				err = -EINVAL;
		}
		while (!r.len && ri < nr && !err)
			err = iovec_get(rvec, ri++, &r);
		if (err || !l.len || !r.len)
			break;
		n = MIN(MIN(l.len, r.len), PAGE_SIZE);
		if (write && copy_from_user(buf, l.base, n)) {
			err = -EFAULT;
			break;
		}
		got = mm_access(mm, r.base, buf, n, write, false);
		if (got < 0) {
			err = got;
			break;
		}
		if (!write && copy_to_user(l.base, buf, (size_t)got)) {
			err = -EFAULT;
			break;
		}
		done += got;
		l.base += (u64)got, l.len -= (u64)got;
		r.base += (u64)got, r.len -= (u64)got;
		if ((size_t)got < n)
			break;
	}
	if (buf)
		kpage_free(buf);
	mm_put_user(mm);
	return done ? done : err;
}

long sys_process_vm_readv(u64 pid, u64 lvec, u64 nl, u64 rvec, u64 nr, u64 flags)
{
	return vm_rw(pid, lvec, nl, rvec, nr, flags, false);
}

long sys_process_vm_writev(u64 pid, u64 lvec, u64 nl, u64 rvec, u64 nr, u64 flags)
{
	return vm_rw(pid, lvec, nl, rvec, nr, flags, true);
}

/* ---- futex keys ---- */

/* The key of a word in area a: 0, -EFAULT, or -EAGAIN if the mapping is on its way out. */
static int area_futex_key(struct area *a, vaddr_t addr, bool write, struct futex_key *key)
{
	u32 flags = READ_ONCE(a->flags);

	if (!(flags & VM_SHARED))
		return flags & VM_WRITE ? 0 : -EFAULT;
	if (write && !(flags & VM_WRITE))
		return -EFAULT;
	if (!mapping_tryget(a->mapping))
		return -EAGAIN;
	key->object = a->mapping;
	key->word = (area_pgoff(a, addr) << PAGE_SHIFT) + addr % PAGE_SIZE;
	key->shared = true;
	return 0;
}

int mm_futex_key(vaddr_t addr, bool shared, bool write, struct futex_key *key)
{
	struct mm *mm = current->mm;
	struct area *a;
	u32 word, seq;
	bool stale;
	int err;

	if (addr % 4)
		return -EINVAL;
	if (!user_range_ok(addr, 4))
		return -EFAULT;
	*key = (struct futex_key){ .word = addr, .object = mm };
	if (!shared)
		return 0;
	/* As Linux: a shared key wants a page that can be written, or read if that is all the area gives. */
	err = get_user_u32(addr, &word);
	if (err)
		return err;

	/* Like a fault: without a lock, if the area is the same before and after. */
	rcu_read_lock();
	a = area_at(mm, addr);
	seq = a ? smp_load_acquire(&a->seq) : 1;
	err = seq & 1 ? -EAGAIN : area_futex_key(a, addr, write, key);
	stale = err != -EAGAIN && READ_ONCE(a->seq) != seq;
	rcu_read_unlock();
	if (likely(err != -EAGAIN && !stale))
		return err;

	futex_key_put(key);
	*key = (struct futex_key){ .word = addr, .object = mm };
	mm_lock_read(mm);
	a = area_at(mm, addr);
	err = a ? area_futex_key(a, addr, write, key) : -EFAULT;
	mm_unlock_read(mm);
	return err;
}

void futex_key_put(struct futex_key *key)
{
	if (key->shared)
		mapping_put(key->object);
	key->shared = false;
}
