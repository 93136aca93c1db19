/*
 * The lock of an address space (mmlock.h). This file is the only one that looks
 * at vm.mmap_lock to decide who excludes whom.
 */
#include "mm/mmlock.h"
#include "arch/x86_64/cpu.h"
#include "kernel/printk.h"
#include "kernel/signal.h"
#include "mm/policy.h"

#include <asm/errno.h>

/* Any thread but current inside a change? */
static bool anybody_changing(struct mm *mm)
{
	bool found = false;

	spin_lock(&mm->state_lock);
	list_for_each(t, &mm->tasks, struct task, mm_link)
		found |= t != current && READ_ONCE(t->mm_changing);
	spin_unlock(&mm->state_lock);
	return found;
}

/* With mm->lock held: keep changes out, wait for those inside. */
static void exclude_changes(struct mm *mm)
{
	if (vm_mmap_lock != MMAP_LOCK_RANGE)
		return;
	atomic_add(&mm->exclusive, 1); /* a full barrier: see mmlock.h */
	wait_event(&mm->change_wait, !anybody_changing(mm));
}

static void admit_changes(struct mm *mm)
{
	if (vm_mmap_lock != MMAP_LOCK_RANGE)
		return;
	if (atomic_sub(&mm->exclusive, 1) == 0)
		wake_up_all(&mm->change_wait);
}

void mm_lock_read(struct mm *mm)
{
	down_read(&mm->lock);
	exclude_changes(mm);
}

void mm_unlock_read(struct mm *mm)
{
	admit_changes(mm);
	up_read(&mm->lock);
}

void mm_lock_write(struct mm *mm)
{
	down_write(&mm->lock);
	exclude_changes(mm);
}

int mm_lock_write_killable(struct mm *mm)
{
	int err = down_write_killable(&mm->lock);

	if (!err)
		exclude_changes(mm);
	return err;
}

void mm_unlock_write(struct mm *mm)
{
	admit_changes(mm);
	up_write(&mm->lock);
}

int mm_change_begin(struct mm *mm)
{
	struct task *t = current;

	if (vm_mmap_lock != MMAP_LOCK_RANGE || t->mm != mm)
		return mm_lock_write_killable(mm);
	for (;;) {
		WRITE_ONCE(t->mm_changing, 1);
		smp_mb(); /* see mmlock.h */
		if (likely(!READ_ONCE(mm->exclusive)))
			return 0;
		WRITE_ONCE(t->mm_changing, 0);
		wake_up_all(&mm->change_wait); /* whoever excludes us may wait for just this */
		if (fatal_signal_pending(t))
			return -EINTR;
		wait_event(&mm->change_wait, !READ_ONCE(mm->exclusive));
	}
}

void mm_change_end(struct mm *mm)
{
	struct task *t = current;

	if (vm_mmap_lock != MMAP_LOCK_RANGE || t->mm != mm) {
		mm_unlock_write(mm);
		return;
	}
	WRITE_ONCE(t->mm_changing, 0);
	smp_mb(); /* the flag before we look whether somebody waits for it */
	if (unlikely(READ_ONCE(mm->exclusive)))
		wake_up_all(&mm->change_wait);
}
