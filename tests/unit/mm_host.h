/*
 * Memory management on the host: an arena stands for physical memory, one CPU,
 * spinlocks that check their use, RCU callbacks that run when told to.
 */
#ifndef TESTS_UNIT_MM_HOST_H
#define TESTS_UNIT_MM_HOST_H

#include "kernel/types.h"

#define HOST_PHYS_BASE (16 * MB) /* where the arena's physical addresses start */

/* Two nodes of `mb` megabytes each (node 1: 0 for none), and all of mm's boot. */
void host_mm_init(unsigned mb0, unsigned mb1);
/* Run RCU callbacks. */
void host_rcu_run(void);
/* Free frames everywhere: zones, per-CPU lists, quicklist, slab memory counted as free. */
u64 host_free_frames(void);

extern unsigned host_flushes, host_locks_held;

#endif
