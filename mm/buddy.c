/*
 * Buddy allocator, one per node. Free memory is kept in blocks of 2^order
 * frames, aligned to their size; two free buddies of the same order are joined.
 * A free block's first descriptor has type PG_FREE and the block's order, so
 * the buddy is found by looking at its descriptor alone. (Knuth, TAOCP vol. 1, 2.5.)
 *
 * All under zone->lock. Descriptors of a whole 128 MB section exist if one of
 * its frames is memory, and blocks are smaller, so a buddy always has one.
 */
#include "kernel/printk.h"
#include "mm/zone.h"

DEFINE_LOCK_CLASS(zone_class, "zone", RANK_ZONE);

struct zone *zones[MAX_NODES];

void zone_init(struct zone *z, int node)
{
	spin_init(&z->lock, &zone_class);
	for (unsigned o = 0; o <= MAX_ORDER; o++)
		list_init(&z->free[o]);
	z->node = node;
}

static void block_add(struct zone *z, struct page *p, unsigned order)
{
	p->type = PG_FREE;
	p->order = (u8)order;
	list_add(&z->free[order], &p->link);
	z->nr_free[order]++;
}

static void block_del(struct zone *z, struct page *p, unsigned order)
{
	list_del(&p->link);
	p->type = PG_RESERVED;
	z->nr_free[order]--;
}

struct page *zone_take(struct zone *z, unsigned order, bool reserve)
{
	unsigned o = order;
	struct page *p;

	if (z->free_frames < (1UL << order) + (reserve ? 0 : z->reserve))
		return NULL;
	while (o <= MAX_ORDER && list_empty(&z->free[o]))
		o++;
	if (o > MAX_ORDER)
		return NULL;
	p = list_first(&z->free[o], struct page, link);
	block_del(z, p, o);
	while (o > order) {
		o--;
		block_add(z, p + (1UL << o), o);
	}
	z->free_frames -= 1UL << order;
	p->order = (u8)order;
	return p;
}

void zone_give(struct zone *z, struct page *p, unsigned order)
{
	u64 pfn = page_to_pfn(p).v;

	DEBUG_ASSERT(p->type != PG_FREE);
	z->free_frames += 1UL << order;
	while (order < MAX_ORDER) {
		struct page *buddy = pfn_to_page(PFN(pfn ^ (1UL << order)));

		if (buddy->type != PG_FREE || buddy->order != order || buddy->node != p->node)
			break;
		block_del(z, buddy, order);
		pfn &= ~(1UL << order);
		order++;
	}
	block_add(z, pfn_to_page(PFN(pfn)), order);
}
