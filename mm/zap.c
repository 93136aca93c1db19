/*
 * Unmapping (zap.h). One pass over the leaf tables that exist; each table's
 * lock is held while its entries are cleared, nothing is freed before the
 * gather has flushed.
 */
#include "mm/zap.h"
#include "kernel/printk.h"
#include "kernel/task.h"
#include "mm/ptwalk.h"

static inline enum mm_counter_kind counter_of(const struct area *a, const struct page *p)
{
	return p->type == PG_ANON ? MM_ANON : a->file ? MM_FILE : MM_SHMEM;
}

static inline void count_gone(struct mm *mm, const s64 gone[])
{
	for (int k = 0; k <= MM_SHMEM; k++)
		if (gone[k])
			mm_count(mm, k, -gone[k]);
}

/* Entries w->first..last of a locked table. Returns false if the batch filled up; w->first is where to go on. */
static bool zap_table(struct gather *g, struct area *a, struct ptwalk *w, bool only_file)
{
	s64 gone[MM_SHMEM + 1] = { 0 };
	bool room = true;
	unsigned i;

	for (i = w->first; i <= w->last && room && w->table->pt.used; i++) {
		pte_t *slot = &w->entry[i], e = *slot;
		struct page *p;

		if (pte_none(e))
			continue;
		p = e.v & PTE_SPECIAL ? NULL : phys_to_page(pte_phys(e));
		if (only_file && p && p->type == PG_ANON)
			continue;
		e = pte_take(w->table, slot);
		gather_flush_addr(g, ptwalk_addr(w, i));
		if (!p)
			continue;
		gone[counter_of(a, p)]++;
		room = !gather_page(g, p);
	}
	w->first = i;
	count_gone(g->mm, gone);
	return room || i > w->last;
}

void zap_range(struct gather *g, struct area *a, vaddr_t start, vaddr_t end, bool only_file)
{
	struct ptwalk w;

	rcu_read_lock();
	ptwalk_open(&w, g->mm, start, end, WALK_OWN);
	while (ptwalk_next(&w)) {
		bool done;

		if (!ptwalk_lock(&w))
			continue;
		done = zap_table(g, a, &w, only_file);
		ptwalk_unlock(&w);
		if (!done || g->nr == g->max) {
			if (!done)
				w.pos = ptwalk_addr(&w, w.first);
			rcu_read_unlock();
			gather_flush(g);
			cond_resched();
			rcu_read_lock();
		}
	}
	rcu_read_unlock();
	cond_resched();
}

void zap_all(struct mm *mm)
{
	s64 gone[MM_SHMEM + 1] = { 0 };
	struct pt_sweep s;
	struct gather g;

	gather_begin(&g, mm);
	pt_sweep_begin(&s, mm);
	for_each_area (a, mm) {
		for (vaddr_t pos = a->start, end; pos < a->end; pos = end) {
			struct page *table = pt_sweep_next(&s, &pos, a->end);
			pte_t *e;

			if (!table)
				break;
			end = MIN(a->end, ALIGN_DOWN(pos, HUGE_SIZE) + HUGE_SIZE);
			e = (pte_t *)page_address(table) + pt_index(pos, 1);
			for (; pos < end && table->pt.used; pos += PAGE_SIZE, e++) {
				struct page *p;

				if (pte_none(*e))
					continue;
				p = e->v & PTE_SPECIAL ? NULL : phys_to_page(pte_phys(*e));
				e->v = 0;
				table->pt.used--;
				if (!p)
					continue;
				gone[counter_of(a, p)]++;
				if (gather_page(&g, p))
					gather_flush(&g);
			}
			cond_resched();
		}
	}
	pt_sweep_end(&s);
	count_gone(mm, gone);
	gather_end(&g);
}

void zap_mapping_range(struct area *a, u64 first, u64 last, bool even_private)
{
	u64 a_first = a->pgoff, a_last = a->pgoff + area_pages(a) - 1;
	struct gather g;

	first = MAX(first, a_first);
	last = MIN(last, a_last);
	if (first > last)
		return;
	gather_begin(&g, a->mm);
	zap_range(&g, a, a->start + ((first - a_first) << PAGE_SHIFT),
		  a->start + ((last - a_first + 1) << PAGE_SHIFT), !even_private);
	gather_end(&g);
}
