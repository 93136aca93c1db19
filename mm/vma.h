/*
 * Areas: pieces of an address space with one kind of memory and one set of
 * permissions, in an ordered map (a skip list, Pugh 1990).
 *
 * Who changes an area owns it: its sequence number is odd meanwhile.
 *
 *   area_lock_next()   even → odd, by compare-and-swap (a full barrier); waits for
 *                      another owner; several areas in ascending order only
 *   area_unlock()      odd → even
 *   a removed area stays odd for ever; it is freed after an RCU grace period
 *
 * Dropping pages (madvise) changes nothing of an area, so many may do it at once:
 *
 *   area_share_next()  sharers++;  full barrier;  seq even ? go : take it back, wait
 *   area_trylock()     odd first;  full barrier;  no sharers ? go : even again
 *
 * Each stores before it loads what the other stores, so one of them sees the other.
 *
 * Faults take no lock on an area. They read seq (even), bounds and permissions;
 * later, holding the lock of the page table, they read seq again and set the
 * entry only if it is the same. A change makes seq odd, then takes the lock of each page
 * table it clears. So either the fault sees the mark and starts over, or the change comes
 * after it at the table's lock and finds the entry.
 *
 * The gap behind an area, and its forward links, are guarded by its link_lock
 * (for the gap before the first area: mm->head_lock). Claiming a gap is inserting an area, or
 * growing one, under that lock; several are taken from higher to lower addresses.
 * Readers follow links under RCU alone.
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
	/* The owner writes; a start and pgoff that belong together also take mapping->i_mmap_lock. */
	vaddr_t start, end; /* page aligned, start < end */
	u32 flags;          /* VM_* */
	u32 seq;            /* odd: owned */
	u64 pgoff;          /* page index in the mapping of start; anonymous: any */
	struct mempolicy *policy; /* with a reference; NULL: the task's */

	bool has_anon;      /* may hold private frames; see area_set_anon() */
	bool dead;          /* removed; link_lock */
	u8 height;
	u32 sharers;        /* atomic */
	struct mm *mm;
	struct file *file;       /* with a reference; NULL: anonymous */
	struct mapping *mapping; /* with a reference; NULL: private anonymous */
	void *shm;               /* SysV segment it was attached from */
	struct list mapping_link; /* mapping->i_mmap; its lock */
	struct rcu_head rcu;
	spinlock_t link_lock;    /* guards next[], dead, and the gap up to next[0] */
	struct area *next[];
};

extern struct lock_class area_link_class;

/* First area with end > addr, or NULL. RCU, or mm->lock (mmlock.h). */
struct area *area_find(struct mm *mm, vaddr_t addr);
/* The one that holds addr, or NULL. */
static inline struct area *area_at(struct mm *mm, vaddr_t addr)
{
	struct area *a = area_find(mm, addr);

	return a && a->start <= addr ? a : NULL;
}
/* Last area with end <= addr, or NULL. */
struct area *area_before(struct mm *mm, vaddr_t addr);
static inline struct area *area_next(struct area *a)
{
	return rcu_dereference(a->next[0]);
}
#define for_each_area(a, mm)                                                                       \
	for (struct area *a = rcu_dereference((mm)->areas[0]); a; a = area_next(a))

/* A new area, owned, not in the map; NULL: out of memory. Takes references on file and mapping. */
struct area *area_create(struct mm *mm, vaddr_t start, vaddr_t end, u32 flags, struct file *file,
			 struct mapping *mapping, u64 pgoff);
/* One like a, for [start, end) inside it, in mm; owned, not in the map. */
struct area *area_clone(struct mm *mm, const struct area *a, vaddr_t start, vaddr_t end);
/* Never was in a map, or was removed: drop its references, free it after a grace period. */
void area_free(struct area *a);

/* ---- ownership ---- */

/*
 * First area that overlaps [start, end), owned; NULL: none. Waits while another has it.
 * Inside a change or write of mm (mmlock.h). To own more, go on behind its end.
 */
struct area *area_lock_next(struct mm *mm, vaddr_t start, vaddr_t end);
/* The same, shared. *others: there are other sharers. */
struct area *area_share_next(struct mm *mm, vaddr_t start, vaddr_t end, bool *others);
static inline void area_unshare(struct area *a)
{
	atomic_sub(&a->sharers, 1);
}
/* Without waiting: true if now owned. RCU, or something else keeps it from being freed. */
bool area_trylock(struct area *a);
static inline void area_unlock(struct area *a)
{
	smp_store_release(&a->seq, a->seq + 1);
}
/* When nobody else can own areas (write): mark only; one smp_mb() after the last. */
static inline void area_mark(struct area *a)
{
	WRITE_ONCE(a->seq, a->seq | 1);
}
static inline bool area_owned(const struct area *a)
{
	return READ_ONCE(a->seq) & 1;
}

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

/* ---- changes of the map; the areas named are owned, and stay so ---- */

/* Put a new area in. 0, or -EEXIST: something is there. */
int area_insert(struct mm *mm, struct area *a);
void area_remove(struct mm *mm, struct area *a);
/* Only off its file's list: the whole map goes, and nobody else can find it. */
void area_unlist(struct area *a);
/* Put a in behind all others of a map that nobody else knows yet (fork). */
struct area_end {
	struct area **links[AREA_MAX_HEIGHT];
};
void area_end_init(struct mm *mm, struct area_end *at); /* mm is empty */
void area_append(struct mm *mm, struct area_end *at, struct area *a);
/* Cut a at addr inside it; *tail is the upper part, owned too. 0, or -ENOMEM (also: too many areas). */
int area_split(struct mm *mm, struct area *a, vaddr_t addr, struct area **tail);
/*
 * Cut *a down to its part inside [start, end); what is cut off is not owned any more. -ENOMEM: not (wholly) done,
 * *a is still owned and begins at or before start.
 */
int area_isolate(struct mm *mm, struct area **a, vaddr_t start, vaddr_t end);
/* Claim the gap next to it; false: something is there. down: private anonymous areas only. */
bool area_grow_down(struct mm *mm, struct area *a, vaddr_t start);
bool area_grow_up(struct mm *mm, struct area *a, vaddr_t end);
/* Let go of what is outside [start, end), with nothing mapped there any more. */
void area_shrink(struct mm *mm, struct area *a, vaddr_t start, vaddr_t end);
void area_set_flags(struct mm *mm, struct area *a, u32 flags);
/*
 * Join a with the neighbours that continue it, where they are not owned by
 * others; returns what a has become, owned.
 */
struct area *area_merge(struct mm *mm, struct area *a);

/* Properties of b are those of a memory that goes on behind a. */
bool area_continues(const struct area *a, const struct area *b);
/* May the map hold n areas more? */
bool area_room(struct mm *mm, unsigned n);

static inline u64 area_pages(const struct area *a)
{
	return (a->end - a->start) >> PAGE_SHIFT;
}
/* Page index in the mapping of an address. */
static inline u64 area_pgoff(const struct area *a, vaddr_t addr)
{
	return a->pgoff + ((addr - a->start) >> PAGE_SHIFT);
}

/* Entry bits for the permissions; with the write bit only where memory is shared. */
static inline u64 area_pte_bits(u32 flags)
{
	u64 bits = PTE_P | PTE_U | PTE_A;

	if (!(flags & VM_EXEC))
		bits |= pte_nx;
	if ((flags & (VM_SHARED | VM_WRITE)) == (VM_SHARED | VM_WRITE))
		bits |= PTE_W | PTE_D;
	return bits;
}

#endif
