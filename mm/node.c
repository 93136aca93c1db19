/*
 * NUMA nodes: who is near to whom. All constant after boot.
 */
#include "mm/node.h"
#include "arch/x86_64/smp.h"

int num_nodes = 1;
u8 node_distance[MAX_NODES][MAX_NODES];
s16 node_fallback[MAX_NODES][MAX_NODES];
u64 node_memory_mask, node_cpu_mask;

void nodes_init(int count, const u8 *distances)
{
	num_nodes = count;
	for (int a = 0; a < count; a++)
		for (int b = 0; b < count; b++)
			node_distance[a][b] = distances ? distances[a * count + b] : a == b ? 10 : 20;
}

/*
 * Order in which the nodes with memory serve each node: by distance, ties by
 * number counted upward from the node itself, so that the neighbours of
 * different nodes are not all the same one.
 */
void nodes_order(void)
{
	for (int n = 0; n < num_nodes; n++) {
		u64 left = node_memory_mask;
		int k = 0;

		while (left) {
			int best = NO_NODE;
			for (int i = 0; i < num_nodes; i++) {
				int m = (n + i) % num_nodes;
				if (!(left >> m & 1))
					continue;
				if (best == NO_NODE || node_distance[n][m] < node_distance[n][best])
					best = m;
			}
			node_fallback[n][k++] = (s16)best;
			left &= ~(1UL << best);
		}
		if (k < MAX_NODES)
			node_fallback[n][k] = NO_NODE;
	}
}

u32 cpus_of_node(int node)
{
	u32 n = 0;

	for (u32 cpu = 0; cpu < num_cpus; cpu++)
		n += cpu_to_node[cpu] == node;
	return MAX(n, 1u);
}
