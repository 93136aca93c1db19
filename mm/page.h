/*
 * Frames. Each 4 KB frame of memory has a descriptor, struct page, on its own
 * node; the descriptors are one array in virtual memory (VMEMMAP), indexed by
 * frame number, with holes where there is no memory.
 *
 * Who owns a frame is its type. A frame is freed when its reference count
 * falls to 0; the map count says how many page-table entries map it (each of
 * those holds a reference too).
 */
#ifndef MM_PAGE_H
#define MM_PAGE_H

#include "arch/x86_64/paging.h"
#include "kernel/list.h"
#include "kernel/lock.h"
#include "kernel/rcu.h"
#include "kernel/types.h"

struct mm;
struct mapping;

enum page_type {
	PG_RESERVED, /* not given to the allocator: kernel image, holes */
	PG_FREE,     /* head of a free block in the buddy allocator */
	PG_PCP,      /* on a per-CPU list */
	PG_KERNEL,   /* allocated, for the kernel itself */
	PG_SLAB,
	PG_TABLE,    /* page-table page: struct ptpage below */
	PG_ANON,     /* private memory of processes */
	PG_FILE,     /* in the page cache of a mapping */
	PG_HUGETLB,
	NR_PAGE_TYPES,
};

/* Flags, in page->flags; changed by atomic operations once the frame is shared. */
#define PAGE_DIRTY    1
#define PAGE_LOCKED   2 /* mlock */
#define PAGE_PINNED   4

#define MAX_ORDER 10 /* largest block: 4 MB; orders 0..10 */

/*
 * A page-table page as an object; lives in the descriptor of its frame.
 * used: present entries. Level 1: changed under the lock. Levels 2-4: atomic, see
 * ptpage.c. A table whose used count is PT_STRAY is unlinked or about to be: nobody may
 * add an entry, and whoever has locked one looks it up again.
 * shares: how many upper entries point here; its own count, never derived from refs.
 */
struct ptpage {
	spinlock_t lock; /* guards the entries, per vm.ptl */
	u32 used;
	u32 shares;
	u32 setters;     /* atomic; vm.ptl=atomic: who is setting empty entries without the lock */
	struct mm *mm;   /* owner; NULL once shared by several */
	struct rcu_head rcu;
};
#define PT_STRAY 0xffffffffu

struct page {
	u8 type;   /* enum page_type; owner writes */
	u8 order;  /* of a block's first frame */
	u8 node;   /* constant */
	u8 level;  /* of a page-table page, 1..4 */
	u32 flags;
	u32 refs;     /* atomic */
	s32 mapcount; /* atomic; number of entries that map it */
	union {
		struct list link; /* free and pcp lists, slab lists */
		struct {          /* PG_FILE */
			struct mapping *mapping; /* NULL once removed from the cache; mapping->lock */
			u64 index;
		};
		struct { /* PG_SLAB */
			struct list slab_link;
			struct slab_cache *cache;
			void *freelist;
			u32 inuse;
		};
		struct ptpage pt; /* PG_TABLE */
		struct rcu_head rcu; /* PG_FILE without references */
	};
} __cacheline;
static_assert(sizeof(struct page) == 64, "one cache line a frame");

#ifndef HOST_TEST
#define vmemmap ((struct page *)VMEMMAP)
#else
extern struct page *vmemmap;
#endif

static inline struct page *pfn_to_page(pfn_t f)
{
	return &vmemmap[f.v];
}
static inline pfn_t page_to_pfn(const struct page *p)
{
	return PFN((u64)(p - vmemmap));
}
static inline phys_t page_to_phys(const struct page *p)
{
	return PHYS(page_to_pfn(p).v << PAGE_SHIFT);
}
static inline struct page *phys_to_page(phys_t a)
{
	return pfn_to_page(PFN(a.v >> PAGE_SHIFT));
}
/* The frame's bytes, through the direct map. */
static inline void *page_address(const struct page *p)
{
	return phys_to_virt(page_to_phys(p));
}
static inline struct page *virt_to_page(const void *v)
{
	return phys_to_page(virt_to_phys(v));
}
/* True if there is a descriptor for the frame (memory, not a hole). */
bool pfn_valid(pfn_t f);
extern u64 max_pfn; /* one above the highest frame */

/* How to allocate. */
#define ALLOC_ZERO     1 /* cleared */
#define ALLOC_THISNODE 2 /* only from that node */
#define ALLOC_NOWAIT   4 /* no reclaim, no OOM kill: fail at once */
#define ALLOC_NOFAIL_RESERVE 8 /* may dip into the emergency reserve (freeing memory needs it) */

/*
 * 2^order frames in a row, with one reference; from the node, else by distance (unless
 * ALLOC_THISNODE); node NO_NODE: this CPU's. May reclaim, which may sleep
 * unless ALLOC_NOWAIT. Returns the first descriptor or NULL. Takes the zone lock at most.
 */
struct page *page_alloc(unsigned order, int node, unsigned flags, enum page_type type);
/* One frame, from here: the short way for page_alloc(0, NO_NODE, ...). */
struct page *page_alloc_local(unsigned flags, enum page_type type);
/* From a set of nodes (bit mask), nearest to `node` first. */
struct page *page_alloc_nodes(unsigned order, int node, u64 nodes, unsigned flags,
			      enum page_type type);
/* Give back at once, reference count is not looked at (debug: must be <= 1, mapcount 0). */
void page_free(struct page *p, unsigned order);

static inline void page_get(struct page *p)
{
	__atomic_fetch_add(&p->refs, 1, __ATOMIC_RELAXED);
}
/* Drop a reference; frees the frame with the last one. Any context that may take the zone lock. */
void page_put(struct page *p);
/* Take a reference unless the count is 0 already (lookups under RCU). */
bool page_tryget(struct page *p);

/* Clear or copy a frame with the best instruction the CPU has. */
void page_clear(void *addr);
void page_copy(void *dst, const void *src);

/* A page of the kernel's own by address; NULL on failure. */
void *kpage_alloc(unsigned flags);
void kpage_free(void *p);

extern struct page *zero_page; /* one frame of zeros, mapped read-only wherever unwritten memory is read */

/* What /proc/meminfo and the ledger count. */
u64 frames_total(int node); /* NO_NODE = all nodes */
u64 frames_free(int node);  /* buddy and per-CPU lists */
extern u64 frames_kept; /* atomic: frames of the kernel's own tables whose number depends on what has been, not
                            on what there is (kernel stack slots, process numbers); the ledger leaves them out */
void pcp_drain_all(void);   /* every CPU's lists go back to the buddy allocator; sleeps */

/* Boot: node descriptors, vmemmap, buddy; takes over all bootmem. */
void frames_init(void);
/* Boot data that is not needed any more (the initramfs): give its whole frames to the allocator. */
void frames_release(u64 start, u64 end);

#endif
