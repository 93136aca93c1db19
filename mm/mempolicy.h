/*
 * NUMA memory policy: from which node a page comes. A policy is immutable and
 * counted; to change one, a new object is put in its place, so nobody ever sees
 * half of a change. Areas hold theirs under mm->lock (freed by RCU with the area's change),
 * tasks their own.
 */
#ifndef MM_MEMPOLICY_H
#define MM_MEMPOLICY_H

#include "mm/page.h"

struct area;
struct mempolicy {
	u32 refs; /* atomic */
	u16 mode;  /* MPOL_* without flags */
	u16 flags; /* MPOL_F_STATIC_NODES, MPOL_F_RELATIVE_NODES, MPOL_F_NUMA_BALANCING */
	u64 nodes; /* as in force: nodes with memory, for INTERLEAVE */
	u64 user_nodes; /* as asked for */
	struct rcu_head rcu;
};

struct mempolicy *mempolicy_get(struct mempolicy *p); /* NULL is the default policy */
void mempolicy_put(struct mempolicy *p);
bool mempolicy_equal(const struct mempolicy *a, const struct mempolicy *b);

/*
 * A frame for addr of an area by the area's or the current task's policy;
 * flags as page_alloc(). NULL: out of memory on the nodes allowed.
 */
struct page *mempolicy_alloc(const struct area *a, vaddr_t addr, unsigned flags,
			     enum page_type type);
/* The same for a page of a mapping by index. */
struct page *mempolicy_alloc_policy(struct mempolicy *p, u64 index, unsigned flags,
				    enum page_type type);
/* "default", "bind:0-1" ... as numa_maps shows it; returns buf. */
char *mempolicy_format(const struct mempolicy *p, char *buf, size_t n);

#endif
