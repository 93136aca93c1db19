/*
 * Batched TLB flush (gather.h). The order of the steps is the whole point; see
 * also arch/x86_64/tlb.h for the order between a flush and a CPU that is just
 * switching to the address space.
 */
#include "mm/gather.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/tlb.h"
#include "kernel/printk.h"

/* Nothing gathered yet. */
static inline void reset(struct gather *g)
{
	g->start = ~0UL;
	g->end = 0;
	g->tables = false;
	g->shared = g->first;
	g->nr = g->nr_chunks = 0;
	g->max = GATHER_PAGES;
}

void gather_begin(struct gather *g, struct mm *mm)
{
	g->mm = mm;
	g->alone = g->unlinked = NULL;
	g->chunks = NULL;
	reset(g);
}

bool gather_full(struct gather *g)
{
	struct gather_chunk *c = NULL;

	if (g->nr_chunks < GATHER_CHUNKS)
		c = kpage_alloc(ALLOC_NOWAIT);
	if (!c)
		return true;
	c->older = g->chunks;
	g->chunks = c;
	g->nr_chunks++;
	g->shared = c->frames;
	g->nr = 0;
	g->max = ARRAY_SIZE(c->frames);
	return false;
}

void gather_table(struct gather *g, struct page *table)
{
	table->pt.rcu.next = (struct rcu_head *)g->unlinked;
	g->unlinked = table;
	g->tables = true;
}

void mm_flush(struct mm *mm, vaddr_t start, vaddr_t end)
{
	smp_mb(); /* entries changed before; look who uses them after */
	tlb_shootdown(&mm->cpus, start, end, false);
}

static void flush_tlbs(struct gather *g)
{
	if (g->start > g->end && !g->tables)
		return;
	smp_mb(); /* as above */
	racepoint("gather_flush");
	tlb_shootdown(&g->mm->cpus, g->start, g->end, g->tables);
}

static void put_all(struct page **frames, u32 n)
{
	for (u32 i = 0; i < n; i++) {
		atomic_sub((u32 *)&frames[i]->mapcount, 1);
		page_put(frames[i]);
	}
}

void gather_end(struct gather *g)
{
	flush_tlbs(g);
	put_all(g->shared, g->nr);
	while (g->chunks) {
		struct gather_chunk *c = g->chunks;

		g->chunks = c->older;
		if (g->chunks)
			put_all(g->chunks->frames, ARRAY_SIZE(c->frames));
		else
			put_all(g->first, GATHER_PAGES);
		kpage_free(c);
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
}

void gather_flush(struct gather *g)
{
	gather_end(g);
	reset(g);
}
