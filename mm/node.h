/*
 * NUMA nodes: distances and the order in which others help out. Constant
 * after boot.
 */
#ifndef MM_NODE_H
#define MM_NODE_H

#include "kernel/types.h"

extern int num_nodes;                            /* dense ids 0 .. num_nodes - 1 */
extern u8 node_distance[MAX_NODES][MAX_NODES];   /* SLIT; 10 = itself */
extern s16 node_fallback[MAX_NODES][MAX_NODES];  /* nodes with memory, nearest first; -1 ends */
extern u64 node_memory_mask;                     /* bit n: node n has memory */
extern u64 node_cpu_mask;                        /* bit n: node n has CPUs */

/* Boot: number of nodes and distances (NULL: 10 and 20), before mm_init(). */
void nodes_init(int count, const u8 *distances /* count x count, or NULL */);

/* Of all CPUs that will run, at least 1. Constant after smp discovery. */
u32 cpus_of_node(int node);

void nodes_order(void); /* frames_init(): fill node_fallback */

#endif
