/*
 * Who may do what to an address space at one time (vm.mmap_lock). Three kinds:
 *
 *   write   everything: fork, mlockall, a MAP_FIXED over something ...
 *   read    look at areas that do not change: slow faults, populate, /proc
 *   change  alter areas within some addresses: mmap, munmap, mprotect, mremap
 *
 *             | write  read  change
 *   ----------+----------------------
 *   write     |  -      -      -
 *   read      |  -      yes    -
 *   change    |  -      -      rwsem, vma: -      range: yes
 *
 * With vm.mmap_lock=range, changes run side by side; each takes the areas it
 * alters (area_lock), in ascending order, and gaps are claimed under the lock of the link before
 * them (vma.c). Entering a change then writes only the thread's own struct:
 *
 *   change:        t->mm_changing = 1;  full barrier;  mm->exclusive == 0 ? go : back off, sleep
 *   read, write:   mm->lock;  mm->exclusive++;  full barrier;  wait until no thread is changing
 *
 * Each stores before it loads what the other stores, so at least one sees the other.
 * Faults take none of these, unless they have to (fault.c).
 */
#ifndef MM_MMLOCK_H
#define MM_MMLOCK_H

#include "mm/mm.h"

void mm_lock_read(struct mm *mm);
void mm_unlock_read(struct mm *mm);
void mm_lock_write(struct mm *mm);
int mm_lock_write_killable(struct mm *mm); /* 0 or -EINTR */
void mm_unlock_write(struct mm *mm);

/* Current must be a thread of mm (else it is a write). 0 or -EINTR. May sleep inside. */
int mm_change_begin(struct mm *mm);
void mm_change_end(struct mm *mm);

#endif
