/*
 * The buddy allocator of one node, under the per-CPU lists. Only page.c and
 * pcp.c use it.
 */
#ifndef MM_ZONE_H
#define MM_ZONE_H

#include "mm/page.h"

struct zone {
	spinlock_t lock;                 /* guards all below */
	struct list free[MAX_ORDER + 1]; /* blocks by order, through page->link */
	u64 nr_free[MAX_ORDER + 1];
	u64 free_frames;                 /* readers without the lock: READ_ONCE */
	u64 total_frames;                /* given to the allocator; constant after boot */
	u64 reserve;                     /* frames only ALLOC_NOFAIL_RESERVE may take; constant */
	u64 hit, miss, foreign;          /* numastat, besides what per-CPU lists gave; foreign: atomic */
	int node;
} __cacheline;

extern struct zone *zones[MAX_NODES]; /* each on its own node; NULL: a node without memory */

void zone_init(struct zone *z, int node);
/* Take / give 2^order frames. The caller holds z->lock. */
struct page *zone_take(struct zone *z, unsigned order, bool reserve);
void zone_give(struct zone *z, struct page *p, unsigned order);

/* Per-CPU lists (pcp.c): a frame of this CPU's nearest node, or NULL; and back: false if not taken. */
struct page *pcp_take(bool reserve);
bool pcp_give(struct page *p);
int pcp_node(void);
u64 pcp_frames(int node);
struct seq;
void pcp_show(struct seq *s, int node); /* the pagesets of /proc/zoneinfo */
void pcp_init(void);

#endif
