/*
 * The page-table walker (ptwalk.h): descent, making and unlinking of tables.
 */
#include "mm/ptwalk.h"
#include "kernel/printk.h"
#include "mm/gather.h"

/* Bits of an entry that points to a table: all permissions; the leaf decides. */
#define TABLE_BITS (PTE_P | PTE_W | PTE_U | PTE_A)

static inline pte_t *entries(const struct page *table)
{
	return page_address(table);
}

static inline pte_t entry_read(pte_t *e)
{
	return (pte_t){ READ_ONCE(e->v) };
}

static inline struct page *entry_table(pte_t e)
{
	return phys_to_page(pte_phys(e));
}

/*
 * Link a new table of level - 1 into entry e of `upper`. First the upper's used
 * count goes up, unless it is stray: after that nobody can unlink it, so the
 * entry we set stays reachable. Then compare-and-swap: the loser of a race frees its table and
 * takes the winner's. The new table is complete (zeroed, lock made) before the
 * locked instruction publishes it. 0, -1: upper is stray, -2: no memory.
 */
static __noinline int link_table(struct mm *mm, struct page *upper, pte_t *e, unsigned level)
{
	u32 used = READ_ONCE(upper->pt.used);
	struct page *table;
	u64 none = 0;

	table = ptpage_alloc(mm, level - 1);
	if (!table)
		return -2;
	racepoint("pt_link");
	do {
		if (used == PT_STRAY) {
			ptpage_free_unused(mm, table);
			return -1;
		}
	} while (!atomic_try_cmpxchg(&upper->pt.used, &used, used + 1));
	if (!atomic_try_cmpxchg(&e->v, &none, page_to_phys(table).v | TABLE_BITS)) {
		atomic_sub(&upper->pt.used, 1);
		ptpage_free_unused(mm, table);
	}
	return 0;
}

static __noinline struct page *make_missing(struct mm *mm, vaddr_t addr)
{
	pte_t *t = phys_to_virt(mm->root);

	for (unsigned level = 4;; level--) {
		pte_t *slot = &t[pt_index(addr, level)];
		pte_t e = entry_read(slot);

		if (unlikely(!pte_is_table(e))) {
			int err = link_table(mm, virt_to_page(t), slot, level);

			if (err == -2)
				return NULL;
			e = entry_read(slot);
			if (err == -1 || !pte_is_table(e)) { /* unlinked meanwhile: from the top */
				t = phys_to_virt(mm->root);
				level = 5;
				continue;
			}
		}
		if (level == 2)
			return entry_table(e);
		t = phys_to_virt(pte_phys(e));
	}
}

struct page *pt_make(struct mm *mm, vaddr_t addr)
{
	struct page *table = pt_find(mm, addr);

	return likely(table != NULL) ? table : make_missing(mm, addr);
}

struct page *pt_lock_addr(struct mm *mm, vaddr_t addr, pte_t **entry, spinlock_t **ptl)
{
	for (;;) {
		struct page *table = pt_make(mm, addr);

		if (!table)
			return NULL;
		*ptl = ptpage_lock(mm, table);
		if (likely(!ptpage_stray(table))) {
			*entry = &entries(table)[pt_index(addr, 1)];
			return table;
		}
		spin_unlock(*ptl);
		cpu_relax();
	}
}

/* ---- the cursor ---- */

void ptwalk_open(struct ptwalk *w, struct mm *mm, vaddr_t start, vaddr_t end,
		 enum walk_intent intent)
{
	*w = (struct ptwalk){ .mm = mm, .pos = start, .end = end, .intent = intent };
}

/* First address behind the one that the entry for pos at this level spans. */
static inline vaddr_t step(vaddr_t pos, unsigned level)
{
	return ALIGN_DOWN(pos, 1UL << pt_shift(level)) + (1UL << pt_shift(level));
}

/* The next existing leaf table at or after w->pos; moves w->pos there. */
static struct page *next_existing(struct ptwalk *w)
{
	struct page *table = pt_find(w->mm, w->pos);

	if (likely(table != NULL))
		return table;
	while (w->pos < w->end) {
		pte_t *t = phys_to_virt(w->mm->root);

		for (unsigned level = 4;; level--) {
			unsigned i = pt_index(w->pos, level);
			pte_t e = entry_read(&t[i]);

			/* Skip empty entries of this table without starting over. */
			while (!pte_is_table(e)) {
				w->pos = step(w->pos, level);
				if (w->pos >= w->end)
					return NULL;
				if (++i == PT_ENTRIES)
					break;
				e = entry_read(&t[i]);
			}
			if (i == PT_ENTRIES)
				break; /* over the edge of the table: descend anew */
			if (level == 2)
				return entry_table(e);
			t = phys_to_virt(pte_phys(e));
		}
	}
	return NULL;
}

bool ptwalk_next(struct ptwalk *w)
{
	vaddr_t last;

	if (w->pos >= w->end)
		return false;
	if (w->intent == WALK_FILL) {
		w->table = pt_make(w->mm, w->pos);
		w->failed = !w->table;
	} else {
		w->table = next_existing(w);
	}
	if (!w->table)
		return false;
	w->base = ALIGN_DOWN(w->pos, HUGE_SIZE);
	last = MIN(w->end, w->base + HUGE_SIZE) - 1;
	w->entry = entries(w->table);
	w->first = pt_index(w->pos, 1);
	w->last = pt_index(last, 1);
	w->pos = last + 1;
	return true;
}

bool ptwalk_lock(struct ptwalk *w)
{
	w->ptl = ptpage_lock(w->mm, w->table);
	if (likely(!ptpage_stray(w->table)))
		return true;
	spin_unlock(w->ptl);
	w->pos = w->base + ((vaddr_t)w->first << PAGE_SHIFT);
	return false;
}

void ptwalk_unlock(struct ptwalk *w)
{
	spin_unlock(w->ptl);
}

/* ---- unlinking ---- */

/*
 * Claim an empty table: used 0 → PT_STRAY. For a leaf the caller holds its lock, so
 * that a fault that got it earlier has set its entry, and one that gets it later sees the mark.
 */
static bool claim(struct page *table)
{
	u32 zero = 0;

	return !READ_ONCE(table->pt.used) && atomic_try_cmpxchg(&table->pt.used, &zero, PT_STRAY);
}

/* Table `table` in slot e of `upper` is stray: take it out. */
static void unlink(struct gather *g, struct page *upper, pte_t *e, struct page *table)
{
	atomic_xchg(&e->v, 0);
	atomic_sub(&upper->pt.used, 1);
	gather_table(g, table);
}

/* Take out the leaf table that maps addr, if it is empty. */
static void prune_leaf(struct gather *g, struct page *upper, pte_t *e, struct page *leaf)
{
	spinlock_t *ptl;

	if (READ_ONCE(leaf->pt.used))
		return;
	ptl = ptpage_lock(g->mm, leaf);
	if (claim(leaf))
		unlink(g, upper, e, leaf);
	spin_unlock(ptl);
}

void pt_prune(struct gather *g, vaddr_t start, vaddr_t end, bool keep_upper)
{
	struct page *path[PT_LEVELS + 1]; /* by level */
	pte_t *slot[PT_LEVELS + 1];       /* in path[level] */
	unsigned level;

	path[PT_LEVELS] = phys_to_page(g->mm->root);
	rcu_read_lock();
	for (vaddr_t pos = start; pos < end; pos = step(pos, level)) {
		for (level = PT_LEVELS;; level--) {
			pte_t e;

			slot[level] = &entries(path[level])[pt_index(pos, level)];
			e = entry_read(slot[level]);
			if (!pte_is_table(e))
				break;
			if (level == 2) {
				prune_leaf(g, path[2], slot[2], entry_table(e));
				break;
			}
			path[level - 1] = entry_table(e);
		}
		for (unsigned l = level; l < PT_LEVELS && !keep_upper && claim(path[l]); l++)
			unlink(g, path[l + 1], slot[l + 1], path[l]);
	}
	rcu_read_unlock();
}

/* ---- the sweep ---- */

/* Leave the last table of the path, which goes if it is empty. */
static void ascend(struct pt_sweep *s)
{
	struct page *table = s->table[s->level], *upper = s->table[++s->level];

	if (table->pt.used)
		return;
	entries(upper)[pt_index(s->at, s->level)].v = 0;
	upper->pt.used--;
	ptpage_free_unused(s->mm, table);
}

/* Up to a table that maps pos. */
static inline void ascend_to(struct pt_sweep *s, vaddr_t pos)
{
	while (s->level < PT_LEVELS && (pos ^ s->at) >> pt_shift(s->level + 1))
		ascend(s);
}

void pt_sweep_begin(struct pt_sweep *s, struct mm *mm)
{
	s->mm = mm;
	s->at = 0;
	s->level = PT_LEVELS;
	s->table[PT_LEVELS] = phys_to_page(mm->root);
}

struct page *pt_sweep_next(struct pt_sweep *s, vaddr_t *pos, vaddr_t end)
{
	ascend_to(s, *pos);
	while (*pos < end && s->level > 1) {
		pte_t e = entries(s->table[s->level])[pt_index(*pos, s->level)];

		if (pte_is_table(e)) {
			s->at = *pos;
			s->table[--s->level] = entry_table(e);
		} else {
			*pos = step(*pos, s->level);
			ascend_to(s, *pos);
		}
	}
	return *pos < end ? s->table[1] : NULL;
}

/* Tables without leaf entries, where no area is any more: see pt_prune(). */
static void destroy(struct mm *mm, struct page *table)
{
	for (unsigned i = 0; table->pt.used; i++) {
		pte_t *slot = &entries(table)[i];
		struct page *child;

		if (!pte_is_table(*slot))
			continue;
		child = entry_table(*slot);
		if (table->level > 2)
			destroy(mm, child);
		DEBUG_ASSERT(child->pt.used == 0);
		slot->v = 0;
		table->pt.used--;
		ptpage_free_unused(mm, child);
	}
}

void pt_sweep_end(struct pt_sweep *s)
{
	while (s->level < PT_LEVELS)
		ascend(s);
	destroy(s->mm, s->table[PT_LEVELS]);
	ptpage_free_unused(s->mm, s->table[PT_LEVELS]);
}
