/* Changing the layout of an address space; used among the system calls of mm/. */
#ifndef MM_MMAP_H
#define MM_MMAP_H

#include "mm/mmlock.h"
#include "mm/vma.h"

#define MMAP_MIN_ADDR 0x10000UL
#define STACK_GUARD_GAP (256 * PAGE_SIZE)

/* PROT_* to VM_*. */
u32 prot_flags(u64 prot);

/*
 * Remove [start, end), page aligned. Inside a change or write of mm; owns what it changes itself.
 * 0, or -ENOMEM with nothing changed.
 */
int unmap_range(struct mm *mm, vaddr_t start, vaddr_t end);

/*
 * A free stretch of len bytes for a new area, near hint if that is free; or -ENOMEM. With
 * changes running side by side, it may be taken before it is claimed.
 */
long find_free(struct mm *mm, vaddr_t hint, u64 len, bool below_2g);

/* Would `pages` more break RLIMIT_AS or (data) RLIMIT_DATA? */
bool may_expand(struct mm *mm, u32 flags, u64 pages);

/*
 * Fault in [start, end), for MAP_POPULATE, mlock, MADV_POPULATE_*; for writing where
 * that is allowed. No lock held. 0, -ENOMEM (hole, out of memory), -EFAULT (cannot be faulted
 * in), -EINTR when killed; with ignore_errors only the last.
 */
int populate(struct mm *mm, vaddr_t start, vaddr_t end, bool write, bool ignore_errors);

#endif
