/*
 * Frames: descriptors, allocation and freeing. The way of an allocation:
 *
 *   order 0 on the CPU's own node → per-CPU list (pcp.c), no lock
 *   else, or list empty           → zones by distance (buddy.c), zone lock
 *   else                          → caches of all CPUs emptied, kernel caches shrunk,
 *                                   then the largest process killed (oom.c), and again
 *
 * Lock order: nothing is taken inside the zone lock.
 */
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/percpu.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "mm/bootmem.h"
#include "mm/node.h"
#include "mm/oom.h"
#include "mm/policy.h"
#include "mm/stats.h"
#include "mm/zone.h"

u64 max_pfn;
struct page *zero_page;
u64 frames_kept;

/* One bit for each 128 MB section that has descriptors; constant after boot. */
#define SECTION_SHIFT 15 /* frames: 2 MB of descriptors */
#define MAX_SECTIONS  (1UL << 17)
static u64 section_valid[MAX_SECTIONS / 64];

bool pfn_valid(pfn_t f)
{
	u64 s = f.v >> SECTION_SHIFT;

	return s < MAX_SECTIONS && (section_valid[s / 64] >> (s % 64) & 1);
}

/* ---- allocation ---- */

#ifdef DEBUG
#define POISON 0x6b6b6b6b6b6b6b6bUL

static void poison(struct page *p, unsigned order)
{
	memset(page_address(p), POISON & 0xff, PAGE_SIZE << order);
}

/* A free frame that was written to: somebody still had a pointer or a translation. */
static void check_poison(struct page *p, unsigned order)
{
	const u64 *w = page_address(p);

	for (u64 i = 0; i < (PAGE_SIZE << order) / 8; i++)
		if (w[i] != POISON)
			panic("frame %llx was written while free: word %llu is %llx",
			      (unsigned long long)page_to_pfn(p).v, (unsigned long long)i,
			      (unsigned long long)w[i]);
}
#else
static inline void poison(struct page *p, unsigned order)
{
	(void)p, (void)order;
}
static inline void check_poison(struct page *p, unsigned order)
{
	(void)p, (void)order;
}
#endif

static struct page *take_from_zones(unsigned order, int node, u64 nodes, unsigned flags)
{
	for (int i = 0; i < MAX_NODES && node_fallback[node][i] != NO_NODE; i++) {
		int n = node_fallback[node][i];
		struct zone *z = zones[n];
		struct page *p;

		if ((flags & ALLOC_THISNODE) && n != node)
			break;
		if (!(nodes >> n & 1))
			continue;
		if (READ_ONCE(z->free_frames) < 1UL << order)
			continue;
		spin_lock(&z->lock);
		p = zone_take(z, order, flags & ALLOC_NOFAIL_RESERVE);
		if (p && n == node)
			z->hit += 1UL << order;
		else if (p)
			z->miss += 1UL << order;
		spin_unlock(&z->lock);
		if (p && n != node && zones[node])
			atomic_add(&zones[node]->foreign, 1UL << order);
		if (p)
			return p;
	}
	return NULL;
}

static __noinline struct page *alloc_slow(unsigned order, int node, u64 nodes, unsigned flags)
{
	struct page *p = take_from_zones(order, node, nodes, flags);

	if (p || (flags & ALLOC_NOWAIT))
		return p;
	for (int round = 0; !p; round++) {
		if (!reclaim(round))
			return NULL;
		p = take_from_zones(order, node, nodes, flags);
	}
	return p;
}

/* A frame taken from a list or zone becomes the caller's. */
static inline struct page *prepare(struct page *p, unsigned order, unsigned flags,
				   enum page_type type)
{
	check_poison(p, order);
	stat_inc(STAT_PGALLOC);
	p->type = (u8)type;
	p->order = (u8)order;
	p->flags = 0;
	p->refs = 1;
	p->mapcount = 0;
	if (flags & ALLOC_ZERO)
		for (unsigned i = 0; i < 1u << order; i++)
			page_clear(page_address(p) + i * PAGE_SIZE);
	return p;
}

struct page *page_alloc_local(unsigned flags, enum page_type type)
{
	struct page *p;

	if (likely(vm_pcp == PCP_ON) && !fault_inject() &&
	    likely(p = pcp_take(flags & ALLOC_NOFAIL_RESERVE))) {
		stat_inc(STAT_LOCAL);
		return prepare(p, 0, flags, type);
	}
	return page_alloc_nodes(0, NO_NODE, ~0UL, flags, type);
}

struct page *page_alloc_nodes(unsigned order, int node, u64 nodes, unsigned flags,
			      enum page_type type)
{
	struct page *p = NULL;

	if (node == NO_NODE)
		node = (int)this_node();
	if (fault_inject())
		return NULL;
	if (order == 0 && node == (int)this_node() && vm_pcp == PCP_ON &&
	    (nodes >> pcp_node() & 1) &&
	    (!(flags & ALLOC_THISNODE) || pcp_node() == node))
		p = pcp_take(flags & ALLOC_NOFAIL_RESERVE);
	if (p)
		stat_inc(STAT_LOCAL);
	else
		p = alloc_slow(order, node, nodes, flags);
	return p ? prepare(p, order, flags, type) : NULL;
}

struct page *page_alloc(unsigned order, int node, unsigned flags, enum page_type type)
{
	if (order == 0 && node == NO_NODE)
		return page_alloc_local(flags, type);
	return page_alloc_nodes(order, node, ~0UL, flags, type);
}

void page_free(struct page *p, unsigned order)
{
	struct zone *z = zones[p->node];

	DEBUG_ASSERT(p->type != PG_FREE && p->type != PG_PCP && p->order == order);
	if (unlikely(p->mapcount != 0))
		panic("frame %llx freed with map count %d", (unsigned long long)page_to_pfn(p).v,
		      p->mapcount);
	poison(p, order);
	stat_inc(STAT_PGFREE);
	p->refs = 0;
	if (order == 0 && vm_pcp == PCP_ON && pcp_give(p))
		return;
	p->type = PG_RESERVED;
	spin_lock(&z->lock);
	zone_give(z, p, order);
	spin_unlock(&z->lock);
}

static void free_file_page(struct rcu_head *h)
{
	page_free(container_of(h, struct page, rcu), 0);
}

void page_put(struct page *p)
{
	DEBUG_ASSERT((s32)p->refs > 0);
	/*
	 * Frames of the page cache: a lookup may be about to try for a reference (page_tryget), so
	 * the count is only changed atomically, and the frame is not used for anything else before all such lookups are over.
	 */
	if (p->type == PG_FILE) {
		if (atomic_sub(&p->refs, 1) == 0)
			call_rcu(&p->rcu, free_file_page);
		return;
	}
	/* Others: alone, nobody else can take a reference any more, so no atomic is needed. */
	if (READ_ONCE(p->refs) == 1 || atomic_sub(&p->refs, 1) == 0)
		page_free(p, p->order);
}

bool page_tryget(struct page *p)
{
	u32 n = READ_ONCE(p->refs);

	while (n)
		if (atomic_try_cmpxchg(&p->refs, &n, n + 1))
			return true;
	return false;
}

void *kpage_alloc(unsigned flags)
{
	struct page *p = page_alloc(0, NO_NODE, flags, PG_KERNEL);

	return p ? page_address(p) : NULL;
}

void kpage_free(void *v)
{
	page_free(virt_to_page(v), 0);
}

/* ---- contents ---- */

static bool clear_by_bytes; /* constant after boot */

void page_clear(void *addr)
{
	u64 n = PAGE_SIZE;

	if (clear_by_bytes) {
		__asm__ __volatile__("rep stosb" : "+D"(addr), "+c"(n) : "a"(0) : "memory");
		return;
	}
	n /= 8;
	__asm__ __volatile__("rep stosq" : "+D"(addr), "+c"(n) : "a"(0UL) : "memory");
}

/* Time-stamp counts to clear a page, the best of some. */
static u64 time_to_clear(void *page, bool by_bytes)
{
	u64 best = ~0UL;

	clear_by_bytes = by_bytes;
	for (int i = 0; i < 8; i++) {
		u64 start = rdtsc();

		page_clear(page);
		best = MIN(best, rdtsc() - start);
	}
	return best;
}

/*
 * REP STOSB is the fastest where the processor says so (ERMS: Optimization Manual, 3.7.6). An
 * emulator may say so and then store byte by byte: so `fastest` tries.
 */
static void choose_clearing(void *page)
{
	if (vm_clear == CLEAR_FASTEST)
		clear_by_bytes = cpu_features.erms && time_to_clear(page, true) < time_to_clear(page, false);
	else
		clear_by_bytes = vm_clear == CLEAR_STOSB;
}

void page_copy(void *dst, const void *src)
{
	u64 n = PAGE_SIZE / 8;

	__asm__ __volatile__("rep movsq" : "+D"(dst), "+S"(src), "+c"(n)::"memory");
}

/* ---- counts ---- */

static u64 all_frames; /* atomic; constant after boot */

u64 frames_total(int node)
{
	if (node == NO_NODE)
		return all_frames;
	return zones[node] ? zones[node]->total_frames : 0;
}

u64 frames_free(int node)
{
	u64 n = pcp_frames(node);

	for (int i = 0; i < num_nodes; i++)
		if (zones[i] && (node == NO_NODE || node == i))
			n += READ_ONCE(zones[i]->free_frames);
	return n;
}

/* ---- boot ---- */

static void section_make(u64 section, int node)
{
	u64 va = VMEMMAP + (section << SECTION_SHIFT) * sizeof(struct page);
	phys_t pa;

	if (section >= MAX_SECTIONS || (section_valid[section / 64] >> (section % 64) & 1))
		return;
	pa = bootmem_alloc(HUGE_SIZE, HUGE_SIZE, node, 0);
	if (kernel_map(va, pa, HUGE_SIZE, KERNEL_RW))
		panic("boot: no memory for frame descriptors");
	section_valid[section / 64] |= 1UL << (section % 64);
}

/* Give [start, end) of physical memory to the allocator: at boot, and what boot data leaves. */
void frames_release(u64 start, u64 end)
{
	u64 pfn = ALIGN_UP(start, PAGE_SIZE) >> PAGE_SHIFT;
	u64 last = end >> PAGE_SHIFT;

	while (pfn < last) {
		struct page *p = pfn_to_page(PFN(pfn));
		struct zone *z = zones[p->node];
		unsigned order = MAX_ORDER;

		while (order && ((pfn & ((1UL << order) - 1)) || pfn + (1UL << order) > last))
			order--;
		poison(p, order);
		spin_lock(&z->lock);
		z->total_frames += 1UL << order;
		atomic_add(&all_frames, 1UL << order);
		zone_give(z, p, order);
		spin_unlock(&z->lock);
		pfn += 1UL << order;
	}
}

void frames_init(void)
{
	unsigned n;
	const struct mem_range *r = bootmem_ranges(&n);

	for (unsigned i = 0; i < n; i++) {
		node_memory_mask |= 1UL << r[i].node;
		max_pfn = MAX(max_pfn, r[i].end >> PAGE_SHIFT);
	}
	nodes_order();
	for (unsigned i = 0; i < n; i++) {
		int node = r[i].node;

		for (u64 s = r[i].start >> PAGE_SHIFT >> SECTION_SHIFT;
		     s <= (r[i].end - 1) >> PAGE_SHIFT >> SECTION_SHIFT; s++)
			section_make(s, node);
		if (!zones[node]) {
			zones[node] = phys_to_virt(bootmem_alloc(sizeof(struct zone), 0, node, 0));
			zone_init(zones[node], node);
		}
	}
	for (unsigned i = 0; i < n; i++)
		for (u64 f = r[i].start >> PAGE_SHIFT; f < r[i].end >> PAGE_SHIFT; f++)
			pfn_to_page(PFN(f))->node = (u8)r[i].node;

	r = bootmem_avail(&n);
	for (unsigned i = 0; i < n; i++)
		if (r[i].start < r[i].end)
			frames_release(r[i].start, r[i].end);
	for (int i = 0; i < num_nodes; i++)
		if (zones[i])
			zones[i]->reserve = MIN(zones[i]->total_frames / 256, 256UL);
	pcp_init();
	zero_page = page_alloc(0, NO_NODE, ALLOC_ZERO, PG_RESERVED);
	ASSERT(zero_page);
	choose_clearing(page_address(zero_page));
}
