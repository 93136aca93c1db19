/* Event counters: per CPU, summed when read (/proc/vmstat). */
#ifndef MM_STATS_H
#define MM_STATS_H

#include "arch/x86_64/percpu.h"

enum stat_event {
	STAT_PGFAULT,
	STAT_PGMAJFAULT,
	STAT_PGALLOC,
	STAT_PGFREE,
	STAT_LOCAL, /* frames from this CPU's own list */
	STAT_COW_REUSE,
	STAT_COW_COPY,
	STAT_FAULT_RETRY,
	STAT_FAULT_SLOW,
	STAT_OOM_KILL,
	NR_STATS,
};
DECLARE_PER_CPU(u64, stat_counter[NR_STATS]);

static inline void stat_inc(enum stat_event e)
{
	this_cpu_inc(stat_counter[e]);
}
u64 stat_sum(enum stat_event e);
u64 stat_sum_node(enum stat_event e, int node); /* of the CPUs whose lists hold that node's frames */

#endif
