/* Page-table pages and the walker. */
#include "mm/gather.h"
#include "mm/ptwalk.h"
#include "mm/zap.h"
#include "tests/unit/mm_host.h"
#include "tests/unit/unit.h"

static struct mm *mm;

static void setup(void)
{
	host_mm_init(64, 0);
	mm = mm_create();
}

/* A private frame at va. */
static struct page *map(vaddr_t va)
{
	spinlock_t *ptl;
	pte_t *e;
	struct page *table = pt_lock_addr(mm, va, &e, &ptl), *p;

	CHECK(table != NULL);
	p = page_alloc(0, NO_NODE, 0, PG_ANON);
	p->mapcount = 1;
	pte_set_new(table, e, page_to_phys(p).v | PTE_P | PTE_U | PTE_W);
	spin_unlock(ptl);
	return p;
}

static pte_t *entry_at(vaddr_t va)
{
	struct page *t = pt_find(mm, va);

	return t ? (pte_t *)page_address(t) + pt_index(va, 1) : NULL;
}

static s64 tables(void)
{
	return mm->counter[MM_TABLES];
}

TEST(make_and_find)
{
	struct page *t;

	setup();
	CHECK_EQ(tables(), 1);
	CHECK(!pt_find(mm, 0x400000));
	t = pt_make(mm, 0x400000);
	CHECK_EQ(tables(), 4);
	CHECK(pt_find(mm, 0x400000) == t && pt_find(mm, 0x5ff000) == t);
	CHECK(!pt_find(mm, 0x600000));
	CHECK(pt_make(mm, 0x401000) == t);
	CHECK_EQ(tables(), 4);
	pt_make(mm, 1UL << 30);  /* another PUD entry: two more */
	CHECK_EQ(tables(), 6);
	pt_make(mm, 1UL << 39);  /* another root entry: three more */
	CHECK_EQ(tables(), 9);
	CHECK_EQ(t->pt.used, 0);
}

TEST(walk_visits_each_entry_once)
{
	static const vaddr_t at[] = { 0x1000,          0x1ff000,         0x200000,       0x3fe000,
				      1UL << 30,       (1UL << 30) - PAGE_SIZE,          1UL << 39,
				      0x7fffffffe000UL };
	struct ptwalk w;
	unsigned seen = 0;

	setup();
	for (unsigned i = 0; i < ARRAY_SIZE(at); i++)
		map(at[i]);
	ptwalk_open(&w, mm, 0, USER_END, WALK_READ);
	while (ptwalk_next(&w)) {
		CHECK(ptwalk_lock(&w));
		ptwalk_each (&w, i) {
			bool known = false;

			if (pte_none(w.entry[i]))
				continue;
			for (unsigned k = 0; k < ARRAY_SIZE(at); k++)
				known |= at[k] == ptwalk_addr(&w, i);
			CHECK(known);
			seen++;
		}
		ptwalk_unlock(&w);
	}
	CHECK_EQ(seen, ARRAY_SIZE(at));
}

TEST(walk_keeps_to_its_range)
{
	struct ptwalk w;
	unsigned seen = 0;

	setup();
	for (vaddr_t va = 0x1f0000; va < 0x210000; va += PAGE_SIZE)
		map(va);
	ptwalk_open(&w, mm, 0x1ff000, 0x202000, WALK_READ);
	while (ptwalk_next(&w)) {
		CHECK(ptwalk_lock(&w));
		ptwalk_each (&w, i) {
			CHECK(ptwalk_addr(&w, i) >= 0x1ff000 && ptwalk_addr(&w, i) < 0x202000);
			seen++;
		}
		ptwalk_unlock(&w);
	}
	CHECK_EQ(seen, 3);
}

TEST(zap_and_prune)
{
	struct area a = { .start = 0x200000, .end = 0x600000, .mm = NULL };
	struct gather g;
	u64 before;

	setup();
	a.mm = mm;
	pt_make(mm, 0x100000); /* so that the upper tables stay */
	map(0x100000);
	before = host_free_frames();
	for (vaddr_t va = a.start; va < a.end; va += 3 * PAGE_SIZE)
		map(va);
	CHECK_EQ(tables(), 6);
	gather_begin(&g, mm);
	zap_range(&g, &a, a.start, a.end, false);
	CHECK_EQ(tables(), 6);
	pt_prune(&g, a.start, a.end, true);
	host_flushes = 0;
	gather_end(&g);
	CHECK_EQ(host_flushes, 1); /* one for the whole range */
	CHECK_EQ(tables(), 4);
	CHECK(!pt_find(mm, 0x200000) && pt_find(mm, 0x100000));
	CHECK_EQ(host_free_frames(), before);
}

TEST(prune_leaves_used_tables)
{
	struct gather g;

	setup();
	map(0x200000);
	gather_begin(&g, mm);
	pt_prune(&g, 0, USER_END, false);
	gather_end(&g);
	CHECK(entry_at(0x200000) && !pte_none(*entry_at(0x200000)));
	CHECK_EQ(tables(), 4);
}

TEST(stray_table_is_left)
{
	struct page *t;
	struct gather g;
	struct ptwalk w;

	setup();
	t = pt_make(mm, 0x200000);
	ptwalk_open(&w, mm, 0x200000, 0x400000, WALK_READ);
	CHECK(ptwalk_next(&w) && w.table == t);
	gather_begin(&g, mm);
	pt_prune(&g, 0, USER_END, false);
	CHECK(ptpage_stray(t));
	CHECK(!ptwalk_lock(&w));  /* found before it was unlinked: look again */
	CHECK(!ptwalk_next(&w));
	CHECK(pt_make(mm, 0x200000) != t);
	gather_end(&g);
}

TEST(destroy_frees_all_levels)
{
	static const vaddr_t at[] = { 0x400000, 1UL << 30, 1UL << 39, 127UL << 40 };
	u64 before;

	host_mm_init(64, 0);
	mm = mm_create();
	mm_put_user(mm); /* warm: slabs and quicklist */
	before = host_free_frames();
	mm = mm_create();
	for (unsigned i = 0; i < ARRAY_SIZE(at); i++) {
		struct area *a = area_create(mm, at[i], at[i] + PAGE_SIZE, VM_READ | VM_WRITE, NULL,
					     NULL, 0);
		area_insert(mm, a);
		area_unlock(a);
		map(at[i]);
		mm->counter[MM_ANON]++;
	}
	mm_put_user(mm);
	CHECK_EQ(host_free_frames(), before);
}
