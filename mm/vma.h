/*
 * Areas: pieces of an address space with one kind of memory and one set of
 * permissions, in an ordered map (a skip list, Pugh 1990).
 *
 * Reading: under RCU, without any lock, or under mm->lock. Changing: mm->lock
 * for writing. An area that is being changed or removed is marked first
 * (area_change_begin), and the mark is a full barrier:
 *
 *   a fault reads seq (even), bounds and permissions; later, holding the lock of
 *   the page table, it reads seq again and sets the entry only if it is the same;
 *   a change makes seq odd, then takes the lock of each page table it clears.
 *
 * So either the fault sees the mark and starts over, or the change comes after
 * it at the table's lock and finds the entry. No reference on the area, no shared
 * line written by the fault.
 */
#ifndef MM_VMA_H
#define MM_VMA_H

#include "mm/mapping.h"
#include "mm/mm.h"

#define VM_READ      0x1u
#define VM_WRITE     0x2u
#define VM_EXEC      0x4u
#define VM_SHARED    0x8u
#define VM_MAYREAD   0x10u
#define VM_MAYWRITE  0x20u
#define VM_MAYEXEC   0x40u
#define VM_MAYSHARE  0x80u
#define VM_GROWSDOWN 0x100u
#define VM_LOCKED    0x200u
#define VM_LOCKONFAULT 0x400u
#define VM_NORESERVE 0x800u
#define VM_DONTFORK  0x1000u
#define VM_WIPEONFORK 0x2000u
#define VM_DONTDUMP  0x4000u
#define VM_HUGEPAGE  0x8000u
#define VM_NOHUGEPAGE 0x10000u
#define VM_STACK     0x20000u
#define VM_MERGEABLE 0x40000u
#define VM_RAND      0x80000u
#define VM_SEQ       0x100000u
#define VM_ACCESS    (VM_READ | VM_WRITE | VM_EXEC)

struct area {
	vaddr_t start, end; /* page aligned, start < end */
	u32 flags;          /* VM_*; changed between change_begin and change_end */
	u32 seq;            /* odd: being changed; stays odd for a removed area */
	bool has_anon;      /* may hold private frames; only ever set, until the area is gone */
	u8 height;
	struct mm *mm;
	struct file *file;       /* with a reference; NULL: anonymous */
	struct mapping *mapping; /* with a reference; NULL: private anonymous */
	u64 pgoff;               /* page index in the mapping of start; anonymous: start / 4096 at creation */
	struct mempolicy *policy; /* with a reference; NULL: the task's */
	void *shm;               /* SysV segment it was attached from */
	struct list mapping_link; /* mapping->i_mmap; its lock */
	struct rcu_head rcu;
	struct area *next[];     /* skip list: written under mm->lock, read under RCU */
};

/*
 * Before a private frame is put into the area's tables; the caller takes the
 * table's lock afterwards (a full barrier) and only then looks at seq. fork
 * marks the area, then looks at has_anon. So fork sees this, or the fault sees the mark.
 */
static inline void area_set_anon(struct area *a)
{
	if (unlikely(!READ_ONCE(a->has_anon)))
		WRITE_ONCE(a->has_anon, true);
}

/* First area with end > addr, or NULL. RCU or mm->lock. */
struct area *area_find(struct mm *mm, vaddr_t addr);
/* The one that holds addr, or NULL. */
static inline struct area *area_at(struct mm *mm, vaddr_t addr)
{
	struct area *a = area_find(mm, addr);

	return a && a->start <= addr ? a : NULL;
}
/* Last area with end <= addr, or NULL. mm->lock. */
struct area *area_before(struct mm *mm, vaddr_t addr);
static inline struct area *area_next(struct area *a)
{
	return rcu_dereference(a->next[0]);
}
#define for_each_area(a, mm)                                                                       \
	for (struct area *a = rcu_dereference((mm)->areas[0]); a; a = area_next(a))

/* A new area, not in the map; NULL: out of memory. Takes references on file and mapping. */
struct area *area_create(struct mm *mm, vaddr_t start, vaddr_t end, u32 flags, struct file *file,
			 struct mapping *mapping, u64 pgoff);
/* One like a, for [start, end) inside it, in mm; not in the map. */
struct area *area_clone(struct mm *mm, const struct area *a, vaddr_t start, vaddr_t end);
/* Never was in a map, or was removed: drop its references, free it after a grace period. */
void area_free(struct area *a);

/* mm->lock for writing. Insert: there is no overlap. Remove: change_begin was done. */
void area_insert(struct mm *mm, struct area *a);
void area_remove(struct mm *mm, struct area *a);

/* Mark only: the caller marks several and issues one smp_mb() itself. */
static inline void area_mark(struct area *a)
{
	WRITE_ONCE(a->seq, a->seq | 1);
}
static inline void area_change_begin(struct area *a)
{
	area_mark(a);
	smp_mb(); /* before the change takes the first page-table lock: see the top */
}
static inline void area_change_end(struct area *a)
{
	smp_store_release(&a->seq, a->seq + 1);
}

/*
 * Make addr a boundary: if an area spans it, split it in two. 0, -ENOMEM
 * (also at the map-count limit). mm->lock for writing.
 */
int area_split_at(struct mm *mm, vaddr_t addr);
/* Join a with its neighbours where they continue each other; returns the result. mm->lock for writing. */
struct area *area_merge(struct mm *mm, struct area *a);
/* Could an area of these properties at [start, ...) continue a? */
bool area_can_extend(const struct area *a, vaddr_t start, u32 flags, const struct file *file,
		     const struct mapping *mapping, u64 pgoff);

/* Resize or change flags in place, keeping the order of the map. Between change_begin and change_end. */
void area_resize(struct mm *mm, struct area *a, vaddr_t start, vaddr_t end);
void area_set_flags(struct mm *mm, struct area *a, u32 flags);
static inline u64 area_pages(const struct area *a)
{
	return (a->end - a->start) >> PAGE_SHIFT;
}
/* Page index in the mapping of an address. */
static inline u64 area_pgoff(const struct area *a, vaddr_t addr)
{
	return a->pgoff + ((addr - a->start) >> PAGE_SHIFT);
}

/* Page-table entry bits for the area's permissions; writable only if it is shared or `write` is said. */
u64 area_pte_bits(u32 flags);

#endif
