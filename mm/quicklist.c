/*
 * Quicklists (quicklist.h). A list is linked through the first word of its
 * frames; that word is cleared again when a frame is taken, so what is handed
 * out is all zero.
 *
 * With `node` only frames of the CPU's own node are listed. With `any`, as in
 * 2005, whatever is freed here stays here, even another node's memory.
 *
 * High water: the lists of all CPUs of a node together hold at most 1/16 of the
 * node's memory, so their sum is bounded for any number of CPUs. Low water: what a CPU
 * keeps that has been idle for IDLE_NS; the rest it gives back. Frames come and go in batches: an empty list gets
 * REFILL tables at once, one that is at its high water gives an eighth of that back.
 *
 * Owner: the CPU itself, from tasks; emptied from outside as in pcp.c.
 */
#include "mm/quicklist.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/smp.h"
#include "arch/x86_64/clock.h"
#include "kernel/printk.h"
#include "kernel/seq.h"
#include "kernel/string.h"
#include "kernel/timer.h"
#include "mm/node.h"
#include "mm/policy.h"
#include "mm/ptpage.h"

#define IDLE_NS 2000000000UL
#define REFILL  4 /* tables; with more, what a short-lived CPU-bound program leaves unused costs more than it saves */

struct quicklist {
	struct page *head[NR_QUICK]; /* the next one's descriptor is in the frame's first word */
	u32 count, low, high;        /* of all lists together */
	u32 foreign;                 /* of count: memory of other nodes */
	u32 busy;
	bool missed;
	struct page *outbox[NR_QUICK];
	u64 hits, misses, returned; /* since boot: taken; list empty; not taken, or given back at high water */
	struct timer idle;  /* armed while the CPU idles with more than `low`; on fire, idle_over */
	u64 hits_at_idle;
	bool idle_over;
} __cacheline;

static DEFINE_PER_CPU(struct quicklist, quicklist);

static inline struct page **link_of(struct page *p)
{
	return page_address(p);
}

/* Take the first off a list that has one; its first word is still the link. */
static inline struct page *pop(struct quicklist *q, int kind)
{
	struct page *p = q->head[kind];

	q->head[kind] = *link_of(p);
	q->count--;
	q->foreign -= p->node != this_node();
	return p;
}

/* Give back from any list until only `left` are there. */
static __noinline void drain(struct quicklist *q, u32 left)
{
	q->busy = 1;
	barrier();
	for (int k = 0; k < NR_QUICK; k++)
		while (q->count > left && q->head[k])
			page_free(pop(q, k), 0);
	barrier();
	q->busy = 0;
}

static struct page *make(enum quicklist_kind kind)
{
	struct page *p = page_alloc(0, NO_NODE, ALLOC_ZERO | ALLOC_NOWAIT, PG_TABLE);

	if (p && kind == QUICK_ROOT)
		paging_init_root(page_address(p));
	return p;
}

/* One for the caller, and others for the list, if that may have them. */
static __noinline struct page *refill(struct quicklist *q, enum quicklist_kind kind)
{
	struct page *p = make(kind), *more;

	q->misses++;
	if (!p || kind == QUICK_ROOT || vm_quicklist == QUICKLIST_OFF)
		return p;
	for (int n = 1; n < REFILL && q->count < q->high && (more = make(kind)); n++)
		if (!quicklist_give(kind, more)) {
			page_free(more, 0);
			break;
		}
	return p;
}

struct page *quicklist_take(enum quicklist_kind kind)
{
	struct quicklist *q = this_cpu_ptr(quicklist);
	struct page *p = NULL;

	q->busy = 1;
	barrier();
	if (likely(q->head[kind])) {
		p = pop(q, kind);
		*link_of(p) = NULL;
		q->hits++;
		p->refs = 1;
	}
	barrier();
	q->busy = 0;
	return likely(p) ? p : refill(q, kind);
}

bool quicklist_give(enum quicklist_kind kind, struct page *p)
{
	struct quicklist *q = this_cpu_ptr(quicklist);

	if (vm_quicklist == QUICKLIST_OFF ||
	    (vm_quicklist == QUICKLIST_NODE && p->node != this_node()) || !q->high) {
		q->returned++;
		return false;
	}
	if (unlikely(q->count >= q->high)) {
		u32 batch = (q->high + 7) / 8;

		q->returned += batch;
		drain(q, q->high - batch);
	}
	q->busy = 1;
	barrier();
	*link_of(p) = q->head[kind];
	q->head[kind] = p;
	q->count++;
	q->foreign += p->node != this_node();
	barrier();
	q->busy = 0;
	return true;
}

static void on_idle_timer(struct timer *t)
{
	struct quicklist *q = container_of(t, struct quicklist, idle);

	q->idle_over = q->hits == q->hits_at_idle;
}

void quicklist_idle(void)
{
	struct quicklist *q = this_cpu_ptr(quicklist);

	if (likely(q->count <= q->low))
		return;
	if (q->idle_over) {
		drain(q, q->low);
	} else if (!q->idle.armed) {
		q->hits_at_idle = q->hits;
		timer_arm(&q->idle, clock_ns() + IDLE_NS);
	}
	q->idle_over = false;
}

/* In interrupt context on the CPU whose list it is. */
static void collect(void *unused)
{
	struct quicklist *q = this_cpu_ptr(quicklist);

	q->missed = q->busy;
	if (q->busy || q->outbox[QUICK_TABLE] || q->outbox[QUICK_ROOT])
		return;
	for (int k = 0; k < NR_QUICK; k++) {
		q->outbox[k] = q->head[k];
		q->head[k] = NULL;
	}
	q->count = q->foreign = 0;
}

void quicklist_drain_all(void)
{
	static struct mutex lock = { .waiters = LIST_INIT(lock.waiters) };
	bool again = true;

	mutex_lock(&lock);
	while (again) {
		smp_call_all(collect, NULL);
		again = false;
		for_each_cpu(cpu, &cpus_online) {
			struct quicklist *q = per_cpu_ptr(quicklist, cpu);

			again |= q->missed;
			for (int k = 0; k < NR_QUICK; k++) {
				struct page *p = atomic_xchg(&q->outbox[k], NULL), *next;

				for (; p; p = next) {
					next = *link_of(p);
					page_free(p, 0);
				}
			}
		}
	}
	mutex_unlock(&lock);
}

/* Frames on all lists whose memory is of a node. Walks only counts for the sum over all nodes. */
u64 quicklist_frames(int node)
{
	u64 n = 0;

	for_each_cpu(cpu, &cpus_online)
		if (node == NO_NODE || cpu_to_node[cpu] == node)
			n += READ_ONCE(per_cpu_ptr(quicklist, cpu)->count);
	return n;
}

static void show_list(struct seq *s, const struct quicklist *q)
{
	seq_printf(s, "%u %u %u %llu %llu %llu %u\n", q->count, q->foreign, q->high,
		   (unsigned long long)q->hits, (unsigned long long)q->misses,
		   (unsigned long long)q->returned, q->low);
}

void quicklist_show(struct seq *s)
{
	seq_printf(s, "# cpu node count foreign high hits misses returned low\n");
	for_each_cpu(cpu, &cpus_online) {
		seq_printf(s, "%u %d ", cpu, cpu_to_node[cpu]);
		show_list(s, per_cpu_ptr(quicklist, cpu));
	}
	for (int n = 0; n < num_nodes; n++) {
		struct quicklist sum = { 0 };

		for_each_cpu(cpu, &cpus_online) {
			const struct quicklist *q = per_cpu_ptr(quicklist, cpu);

			if (cpu_to_node[cpu] != n)
				continue;
			sum.count += q->count;
			sum.foreign += q->foreign;
			sum.low += q->low;
			sum.high += q->high;
			sum.hits += q->hits;
			sum.misses += q->misses;
			sum.returned += q->returned;
		}
		seq_printf(s, "node %d ", n);
		show_list(s, &sum);
	}
}

void quicklist_cpu_init(void)
{
	struct quicklist *q = this_cpu_ptr(quicklist);
	u32 node = this_node();
	u64 memory;

	memset(q, 0, sizeof *q);
	memory = frames_total(node_fallback[node][0]);
	q->high = (u32)MIN(memory / 16 / cpus_of_node((int)node), 512UL);
	q->low = q->high / 16;
	timer_init(&q->idle, on_idle_timer);
}
