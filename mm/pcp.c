/*
 * Per-CPU lists of free frames (vm.pcp): most allocations and frees touch only
 * this CPU's cache lines and take no lock. A list holds frames of the CPU's own
 * node only (for a node without memory: of the nearest one), linked through
 * link.next; frames of other nodes go straight to their zone.
 *
 * Owner: only the CPU itself touches its list, from tasks, never from interrupt
 * handlers. To empty the list of another CPU, an IPI handler there moves the
 * chain to `outbox`; if it interrupted the owner in the middle (busy), it leaves
 * the list alone and says so, and the asker asks again. So the fast path needs
 * neither lock nor disabled interrupts.
 *
 * Frames come and go in batches. A CPU that has to wait for the zone's lock doubles its batch, so that it
 * comes half as often; one that has not for some time halves it again.
 */
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/smp.h"
#include "kernel/printk.h"
#include "kernel/seq.h"
#include "kernel/string.h"
#include "mm/node.h"
#include "mm/policy.h"
#include "mm/zone.h"

#define MIN_ORDER 5 /* of a batch */
#define MAX_ORDER_OF_BATCH 8
#define HIGH      (6u << MIN_ORDER) /* frames on a list; with large batches two of them */
#define QUIET     16 /* batches without waiting */

struct pcp {
	struct page *head; /* through link.next */
	u32 count;
	u32 busy; /* set while the owner changes the list; read by the handler on the same CPU */
	struct page *outbox;
	bool missed;
	s32 node;
	u8 order, max_order; /* of a batch */
	u8 quiet;
} __cacheline;

static DEFINE_PER_CPU(struct pcp, pcp);

static struct page *pop(struct pcp *l)
{
	struct page *p = l->head;

	l->head = (struct page *)p->link.next;
	l->count--;
	return p;
}

static void push(struct pcp *l, struct page *p)
{
	p->type = PG_PCP;
	p->order = 0;
	p->link.next = (struct list *)l->head;
	l->head = p;
	l->count++;
}

static void lock_zone(struct pcp *l, struct zone *z)
{
	if (likely(spin_trylock(&z->lock))) {
		if (unlikely(l->order > MIN_ORDER && ++l->quiet == QUIET)) {
			l->order--;
			l->quiet = 0;
		}
		return;
	}
	if (l->order < l->max_order)
		l->order++;
	l->quiet = 0;
	spin_lock(&z->lock);
}

/* A whole block at once if there is one: one look at the free lists for a batch. */
static __noinline void refill(struct pcp *l, bool reserve)
{
	struct zone *z = zones[l->node];
	unsigned order;
	struct page *p;

	lock_zone(l, z);
	order = l->order;
	while (!(p = zone_take(z, order, reserve && !order)) && order)
		order--;
	spin_unlock(&z->lock);
	if (p)
		for (unsigned i = 1u << order; i-- > 0;)
			push(l, p + i);
}

static __noinline void drain(struct pcp *l)
{
	struct zone *z = zones[l->node];

	if (l->count <= 2u << l->order)
		return;
	lock_zone(l, z);
	for (unsigned n = 1u << l->order; n-- && l->head;) {
		struct page *p = pop(l);
		p->type = PG_RESERVED;
		zone_give(z, p, 0);
	}
	spin_unlock(&z->lock);
}

int pcp_node(void)
{
	return this_cpu_ptr(pcp)->node;
}

struct page *pcp_take(bool reserve)
{
	struct pcp *l = this_cpu_ptr(pcp);
	struct page *p = NULL;

	l->busy = 1;
	barrier();
	if (unlikely(!l->head))
		refill(l, reserve);
	if (likely(l->head))
		p = pop(l);
	barrier();
	l->busy = 0;
	return p;
}

bool pcp_give(struct page *p)
{
	struct pcp *l = this_cpu_ptr(pcp);

	if (p->node != l->node)
		return false;
	l->busy = 1;
	barrier();
	push(l, p);
	if (unlikely(l->count > HIGH))
		drain(l);
	barrier();
	l->busy = 0;
	return true;
}

/* In interrupt context on the CPU whose list it is. */
static void collect(void *unused)
{
	struct pcp *l = this_cpu_ptr(pcp);

	l->missed = l->busy;
	if (l->busy || l->outbox)
		return;
	l->outbox = l->head;
	l->head = NULL;
	l->count = 0;
}

void pcp_drain_all(void)
{
	static struct mutex drain_lock = { .waiters = LIST_INIT(drain_lock.waiters) };
	bool again = true;

	mutex_lock(&drain_lock);
	while (again) {
		smp_call_all(collect, NULL);
		again = false;
		for_each_cpu(cpu, &cpus_online) {
			struct pcp *l = per_cpu_ptr(pcp, cpu);
			struct page *chain = atomic_xchg(&l->outbox, NULL);

			again |= l->missed;
			while (chain) {
				struct page *p = chain;
				struct zone *z = zones[p->node];

				chain = (struct page *)p->link.next;
				p->type = PG_RESERVED;
				spin_lock(&z->lock);
				zone_give(z, p, 0);
				spin_unlock(&z->lock);
			}
		}
	}
	mutex_unlock(&drain_lock);
}

u64 pcp_frames(int node)
{
	u64 n = 0;

	for_each_cpu(cpu, &cpus_online) {
		struct pcp *l = per_cpu_ptr(pcp, cpu);
		if (node == NO_NODE || l->node == node)
			n += READ_ONCE(l->count);
	}
	return n;
}

void pcp_show(struct seq *s, int node)
{
	for_each_cpu(cpu, &cpus_online) {
		struct pcp *l = per_cpu_ptr(pcp, cpu);

		if (l->node == node)
			seq_printf(s, "    cpu: %u\n              count: %u\n              high:  %u\n"
				      "              batch: %u\n",
				   cpu, READ_ONCE(l->count), MAX(HIGH, 2u << l->order), 1u << l->order);
	}
}

/* Each CPU as it starts, with cpu_node set; its area may hold a copy of another CPU's list. */
void pcp_init(void)
{
	struct pcp *l = this_cpu_ptr(pcp);
	u64 share;

	memset(l, 0, sizeof *l);
	l->node = node_fallback[this_node()][0];
	/* All lists of a node together at most 1/16 of its memory. */
	share = frames_total(l->node) / 16 / cpus_of_node(this_node());
	l->order = l->max_order = MIN_ORDER;
	while (l->max_order < MAX_ORDER_OF_BATCH && 4ul << l->max_order <= share)
		l->max_order++;
}
