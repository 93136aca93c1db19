/*
 * What can be seen of memory, machine-wide: /proc/{meminfo,vmstat,buddyinfo,
 * zoneinfo,slabinfo}, /sys/devices/system/node/nodeN, and this kernel's own files
 * in /sys/kernel/mm/faultline. Formats as Linux has them (man 5 proc).
 */
#include "mm/stats.h"
#include "arch/x86_64/paging.h"
#include "arch/x86_64/smp.h"
#include "arch/x86_64/task.h"
#include "arch/x86_64/tlb.h"
#include "kernel/printf.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/seq.h"
#include "mm/mapping.h"
#include "mm/mm.h"
#include "mm/node.h"
#include "mm/ptpage.h"
#include "mm/slab.h"
#include "mm/zone.h"

DEFINE_PER_CPU(u64, stat_counter[NR_STATS]);

u64 stat_sum(enum stat_event e)
{
	u64 n = 0;

	for_each_cpu(cpu, &cpus_online)
		n += READ_ONCE(per_cpu(stat_counter[e], cpu));
	return n;
}

u64 stat_sum_node(enum stat_event e, int node)
{
	u64 n = 0;

	for_each_cpu(cpu, &cpus_online)
		if (node_fallback[cpu_to_node[cpu]][0] == node)
			n += READ_ONCE(per_cpu(stat_counter[e], cpu));
	return n;
}

/* ---- sums over all address spaces ---- */

struct usage_sum {
	s64 counter[NR_MM_COUNTERS];
};

/* Each mm once, although several processes may share one (vfork): by its first process. */
static void sum_all(struct usage_sum *u)
{
	*u = (struct usage_sum){ 0 };
	for (struct process *p = process_next(1); p; p = process_after(p)) {
		struct task *t = process_task(p);
		struct mm *mm = t ? mm_of_task(t) : NULL;

		if (mm) {
			for (int k = 0; k < NR_MM_COUNTERS; k++)
				u->counter[k] += mm_counter(mm, k);
			mm_put_user(mm);
		}
		if (t)
			task_put(t);
	}
}

#define K(pages) ((unsigned long)(pages) * (PAGE_SIZE / 1024))

static void show_meminfo(struct seq *s, void *arg)
{
	u64 total = frames_total(NO_NODE), free = frames_free(NO_NODE);
	u64 quick = quicklist_frames(NO_NODE), cached = mapping_pages();
	struct usage_sum u;

	sum_all(&u);
	seq_printf(s, "MemTotal:       %8lu kB\n", K(total));
	seq_printf(s, "MemFree:        %8lu kB\n", K(free));
	seq_printf(s, "MemAvailable:   %8lu kB\n", K(free + quick));
	seq_printf(s, "Buffers:        %8lu kB\n", 0UL);
	seq_printf(s, "Cached:         %8lu kB\n", K(cached));
	seq_printf(s, "SwapCached:     %8lu kB\n", 0UL);
	seq_printf(s, "Active:         %8lu kB\n", K(u.counter[MM_ANON]));
	seq_printf(s, "Inactive:       %8lu kB\n", K(cached));
	seq_printf(s, "Unevictable:    %8lu kB\n", K(u.counter[MM_LOCKED]));
	seq_printf(s, "Mlocked:        %8lu kB\n", K(u.counter[MM_LOCKED]));
	seq_printf(s, "SwapTotal:      %8lu kB\n", 0UL);
	seq_printf(s, "SwapFree:       %8lu kB\n", 0UL);
	seq_printf(s, "Dirty:          %8lu kB\n", 0UL);
	seq_printf(s, "Writeback:      %8lu kB\n", 0UL);
	seq_printf(s, "AnonPages:      %8lu kB\n", K(u.counter[MM_ANON]));
	seq_printf(s, "Mapped:         %8lu kB\n", K(u.counter[MM_FILE] + u.counter[MM_SHMEM]));
	seq_printf(s, "Shmem:          %8lu kB\n", K(cached));
	seq_printf(s, "Slab:           %8lu kB\n", K(slab_frames()));
	seq_printf(s, "SReclaimable:   %8lu kB\n", 0UL);
	seq_printf(s, "SUnreclaim:     %8lu kB\n", K(slab_frames()));
	seq_printf(s, "PageTables:     %8lu kB\n", K(u.counter[MM_TABLES]));
	seq_printf(s, "Quicklists:     %8lu kB\n", K(quick));
	seq_printf(s, "CommitLimit:    %8lu kB\n", K(total));
	seq_printf(s, "AnonHugePages:  %8lu kB\n", 0UL);
	seq_printf(s, "HugePages_Total:   %5lu\n", 0UL);
	seq_printf(s, "HugePages_Free:    %5lu\n", 0UL);
	seq_printf(s, "HugePages_Rsvd:    %5lu\n", 0UL);
	seq_printf(s, "HugePages_Surp:    %5lu\n", 0UL);
	seq_printf(s, "Hugepagesize:   %8lu kB\n", HUGE_SIZE / 1024);
}

struct numa_counts {
	u64 hit, miss, foreign;
};

static struct numa_counts numa_counts(int n)
{
	struct numa_counts c = { 0 };

	if (zones[n]) {
		c.hit = READ_ONCE(zones[n]->hit) + stat_sum_node(STAT_LOCAL, n);
		c.miss = READ_ONCE(zones[n]->miss);
		c.foreign = READ_ONCE(zones[n]->foreign);
	}
	return c;
}

static const char *const event_name[NR_STATS] = {
	[STAT_PGFAULT] = "pgfault",
	[STAT_PGMAJFAULT] = "pgmajfault",
	[STAT_PGALLOC] = "pgalloc_normal",
	[STAT_PGFREE] = "pgfree",
	[STAT_COW_REUSE] = "cow_reuse",
	[STAT_COW_COPY] = "cow_copy",
	[STAT_FAULT_RETRY] = "fault_retry",
	[STAT_FAULT_SLOW] = "fault_slow",
	[STAT_OOM_KILL] = "oom_kill",
};

static void show_vmstat(struct seq *s, void *arg)
{
	struct numa_counts numa = { 0 };
	struct usage_sum u;
	u64 shootdowns = 0, ipis = 0, flushes = 0, kept = 0;

	sum_all(&u);
	seq_printf(s, "nr_free_pages %lu\n", (unsigned long)frames_free(NO_NODE));
	seq_printf(s, "nr_anon_pages %ld\n", (long)u.counter[MM_ANON]);
	seq_printf(s, "nr_mapped %ld\n", (long)(u.counter[MM_FILE] + u.counter[MM_SHMEM]));
	seq_printf(s, "nr_file_pages %lu\n", (unsigned long)mapping_pages());
	seq_printf(s, "nr_shmem %lu\n", (unsigned long)mapping_pages());
	seq_printf(s, "nr_mlock %lu\n", (unsigned long)u.counter[MM_LOCKED]);
	seq_printf(s, "nr_page_table_pages %ld\n", (long)u.counter[MM_TABLES]);
	seq_printf(s, "nr_slab %lu\n", (unsigned long)slab_frames());
	for (int n = 0; n < num_nodes; n++) {
		struct numa_counts c = numa_counts(n);

		numa.hit += c.hit;
		numa.miss += c.miss;
		numa.foreign += c.foreign;
	}
	seq_printf(s, "numa_hit %lu\nnuma_miss %lu\nnuma_foreign %lu\n", (unsigned long)numa.hit,
		   (unsigned long)numa.miss, (unsigned long)numa.foreign);
	for (int e = 0; e < NR_STATS; e++)
		if (event_name[e])
			seq_printf(s, "%s %lu\n", event_name[e], (unsigned long)stat_sum(e));
	for_each_cpu(cpu, &cpus_online) {
		shootdowns += READ_ONCE(per_cpu(tlb_shootdowns, cpu));
		ipis += READ_ONCE(per_cpu(tlb_ipis_sent, cpu));
		flushes += READ_ONCE(per_cpu(tlb_flushes, cpu));
		kept += READ_ONCE(per_cpu(tlb_kept, cpu));
	}
	seq_printf(s, "nr_tlb_remote_flush %lu\ntlb_ipis %lu\ntlb_flushes %lu\ntlb_kept %lu\n",
		   (unsigned long)shootdowns, (unsigned long)ipis, (unsigned long)flushes,
		   (unsigned long)kept);
}

static void show_buddyinfo(struct seq *s, void *arg)
{
	for (int n = 0; n < num_nodes; n++) {
		if (!zones[n])
			continue;
		seq_printf(s, "Node %d, zone   Normal ", n);
		for (unsigned o = 0; o <= MAX_ORDER; o++)
			seq_printf(s, "%6lu ", (unsigned long)READ_ONCE(zones[n]->nr_free[o]));
		seq_puts(s, "\n");
	}
}

static void show_zoneinfo(struct seq *s, void *arg)
{
	for (int n = 0; n < num_nodes; n++) {
		struct zone *z = zones[n];

		if (!z)
			continue;
		seq_printf(s, "Node %d, zone   Normal\n  pages free     %lu\n        min      %lu\n"
			      "        managed  %lu\n  pagesets\n",
			   n, (unsigned long)frames_free(n), (unsigned long)z->reserve,
			   (unsigned long)z->total_frames);
		pcp_show(s, n);
	}
}

static void show_slabinfo(struct seq *s, void *arg)
{
	slab_show(s);
}

static void show_node_meminfo(struct seq *s, void *arg)
{
	int n = (int)(long)arg;
	unsigned long total = K(frames_total(n)), free = K(frames_free(n));

	seq_printf(s, "Node %d MemTotal:       %8lu kB\n", n, total);
	seq_printf(s, "Node %d MemFree:        %8lu kB\n", n, free);
	seq_printf(s, "Node %d MemUsed:        %8lu kB\n", n, total - free);
	seq_printf(s, "Node %d HugePages_Total: %5u\n", n, 0);
	seq_printf(s, "Node %d HugePages_Free:  %5u\n", n, 0);
	seq_printf(s, "Node %d HugePages_Surp:  %5u\n", n, 0);
}

static void show_numastat(struct seq *s, void *arg)
{
	struct numa_counts c = numa_counts((int)(long)arg);

	seq_printf(s, "numa_hit %lu\nnuma_miss %lu\nnuma_foreign %lu\ninterleave_hit 0\n"
		      "local_node %lu\nother_node %lu\n",
		   (unsigned long)c.hit, (unsigned long)c.miss, (unsigned long)c.foreign,
		   (unsigned long)c.hit, (unsigned long)c.miss);
}

static void show_node_vmstat(struct seq *s, void *arg)
{
	seq_printf(s, "nr_free_pages %lu\n", (unsigned long)frames_free((int)(long)arg));
}

/*
 * The ledger: what must be the same before and after a test. Settled first: grace
 * periods over, free objects and slabs given back. Frames on per-CPU lists and
 * quicklists, and those of slabs count as free (objects are counted themselves), and so do frames_kept.
 */
static void show_ledger(struct seq *s, void *arg)
{
	struct usage_sum u;

	rcu_barrier();
	slab_shrink();
	sum_all(&u);
	seq_printf(s, "free_frames %lu\n", (unsigned long)(frames_free(NO_NODE) + slab_frames() +
							   quicklist_frames(NO_NODE) + frames_kept +
							   kstack_kept_frames()));
	seq_printf(s, "page_tables %ld\n", (long)u.counter[MM_TABLES]);
	seq_printf(s, "anon_pages %ld\n", (long)u.counter[MM_ANON]);
	seq_printf(s, "cache_pages %lu\n", (unsigned long)mapping_pages());
	seq_printf(s, "slab_objects %lu\n", (unsigned long)slab_objects());
}

static void show_quicklists(struct seq *s, void *arg)
{
	quicklist_show(s);
}

void mm_stats_init(void)
{
	char path[80];

	pseudo_file("/proc/meminfo", show_meminfo, NULL, NULL);
	pseudo_file("/proc/vmstat", show_vmstat, NULL, NULL);
	pseudo_file("/proc/buddyinfo", show_buddyinfo, NULL, NULL);
	pseudo_file("/proc/zoneinfo", show_zoneinfo, NULL, NULL);
	pseudo_file("/proc/slabinfo", show_slabinfo, NULL, NULL);
	pseudo_file("/sys/kernel/mm/faultline/ledger", show_ledger, NULL, NULL);
	pseudo_file("/sys/kernel/mm/faultline/quicklists", show_quicklists, NULL, NULL);
	for (long n = 0; n < num_nodes; n++) {
		ksnprintf(path, sizeof path, "/sys/devices/system/node/node%ld/meminfo", n);
		pseudo_file(path, show_node_meminfo, NULL, (void *)n);
		ksnprintf(path, sizeof path, "/sys/devices/system/node/node%ld/vmstat", n);
		pseudo_file(path, show_node_vmstat, NULL, (void *)n);
		ksnprintf(path, sizeof path, "/sys/devices/system/node/node%ld/numastat", n);
		pseudo_file(path, show_numastat, NULL, (void *)n);
	}
}
