/*
 * Batched TLB flush (gather.h). The order of the steps is the whole point; see
 * also arch/x86_64/tlb.h for the order between a flush and a CPU that is just
 * switching to the address space.
 */
#include "mm/gather.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/tlb.h"
#include "kernel/printk.h"

void gather_begin(struct gather *g, struct mm *mm)
{
	g->mm = mm;
	g->start = ~0UL;
	g->end = 0;
	g->tables = false;
	g->nr = 0;
	g->alone = g->unlinked = NULL;
}

void gather_table(struct gather *g, struct page *table)
{
	table->pt.rcu.next = (struct rcu_head *)g->unlinked;
	g->unlinked = table;
	g->tables = true;
}

void mm_flush(struct mm *mm, vaddr_t start, vaddr_t end)
{
	smp_mb(); /* entries changed before; read the mask after */
	tlb_shootdown(&mm->active, start, end, false);
}

static void flush_tlbs(struct gather *g)
{
	if (g->start > g->end && !g->tables)
		return;
	smp_mb(); /* as above */
	racepoint("gather_flush");
	tlb_shootdown(&g->mm->active, g->start, g->end, g->tables);
}

void gather_flush(struct gather *g)
{
	flush_tlbs(g);
	for (u32 i = 0; i < g->nr; i++) {
		atomic_sub((u32 *)&g->shared[i]->mapcount, 1);
		page_put(g->shared[i]);
	}
	while (g->alone) {
		struct page *p = g->alone;

		g->alone = (struct page *)p->link.next;
		page_free(p, 0);
	}
	while (g->unlinked) {
		struct page *t = g->unlinked;

		g->unlinked = (struct page *)t->pt.rcu.next;
		mm_count(g->mm, MM_TABLES, -1);
		ptpage_free_rcu(t);
	}
	g->start = ~0UL;
	g->end = 0;
	g->nr = 0;
	g->tables = false;
}

void gather_end(struct gather *g)
{
	gather_flush(g);
}
