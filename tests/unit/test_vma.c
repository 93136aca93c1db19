/* The ordered map of areas, against a plain array. */
#include "mm/policy.h"
#include "mm/vma.h"
#include "tests/unit/mm_host.h"
#include "tests/unit/unit.h"

#define BASE 0x100000UL
#define N    512

static struct mm *mm;
static u8 model[N]; /* per page: 0 = nothing, else the protection + 1 */

static void setup(void)
{
	host_mm_init(64, 0);
	mm = mm_create();
	CHECK(mm != NULL);
}

static u32 count(void)
{
	return (u32)mm_counter(mm, MM_AREAS);
}

static struct area *add(u64 page, u64 pages, u32 flags)
{
	struct area *a = area_create(mm, BASE + page * PAGE_SIZE, BASE + (page + pages) * PAGE_SIZE,
				     flags, NULL, NULL, page);

	CHECK(a != NULL);
	CHECK_EQ(area_insert(mm, a), 0);
	a = area_merge(mm, a);
	area_unlock(a);
	return a;
}

static void del(u64 page, u64 pages)
{
	vaddr_t start = BASE + page * PAGE_SIZE, end = start + pages * PAGE_SIZE;
	struct area *a;

	while ((a = area_lock_next(mm, start, end))) {
		CHECK_EQ(area_isolate(mm, &a, start, end), 0);
		area_remove(mm, a);
		area_free(a);
	}
}

static void check_all(void)
{
	vaddr_t last = 0;
	u32 n = 0;

	for_each_area (a, mm) {
		CHECK(a->start >= last && a->start < a->end);
		last = a->end;
		n++;
	}
	CHECK_EQ(n, count());
	for (u64 i = 0; i < N; i++) {
		struct area *a = area_at(mm, BASE + i * PAGE_SIZE);

		CHECK_EQ(a ? (a->flags & VM_ACCESS) + 1 : 0, model[i]);
	}
}

TEST(find_before_next)
{
	struct area *a, *b;

	setup();
	CHECK(!area_find(mm, 0));
	a = add(10, 5, VM_READ);
	b = add(20, 5, VM_READ);
	CHECK(area_find(mm, 0) == a);
	CHECK(area_find(mm, BASE + 14 * PAGE_SIZE) == a);
	CHECK(area_find(mm, BASE + 15 * PAGE_SIZE) == b);
	CHECK(!area_find(mm, BASE + 25 * PAGE_SIZE));
	CHECK(area_before(mm, BASE + 20 * PAGE_SIZE) == a);
	CHECK(!area_before(mm, BASE + 10 * PAGE_SIZE));
	CHECK(area_next(a) == b && !area_next(b));
	CHECK(!area_at(mm, BASE + 9 * PAGE_SIZE));
}

TEST(neighbours_merge)
{
	setup();
	add(0, 4, VM_READ);
	add(8, 4, VM_READ);
	CHECK_EQ(count(), 2);
	add(4, 4, VM_READ);
	CHECK_EQ(count(), 1);
	add(12, 4, VM_READ | VM_WRITE);
	CHECK_EQ(count(), 2);
	CHECK_EQ(mm_counter(mm, MM_VM), 16);
}

TEST(no_overlap)
{
	struct area *a;

	setup();
	add(4, 4, VM_READ);
	for (u64 page = 1; page < 8; page++) {
		a = area_create(mm, BASE + page * PAGE_SIZE, BASE + (page + 4) * PAGE_SIZE, VM_READ,
				NULL, NULL, 0);
		CHECK_EQ(area_insert(mm, a), -17); /* EEXIST */
		area_free(a);
	}
	CHECK_EQ(count(), 1);
}

TEST(growing_claims_the_gap)
{
	struct area *a, *b;

	setup();
	a = add(0, 2, VM_READ);
	b = add(8, 2, VM_READ);
	CHECK(area_trylock(a) && area_trylock(b));
	CHECK(!area_trylock(a));
	CHECK(area_grow_up(mm, a, BASE + 5 * PAGE_SIZE));
	CHECK(!area_grow_down(mm, b, BASE + 4 * PAGE_SIZE));
	CHECK(area_grow_down(mm, b, BASE + 5 * PAGE_SIZE));
	CHECK(!area_grow_up(mm, a, BASE + 6 * PAGE_SIZE));
	CHECK_EQ(mm_counter(mm, MM_VM), 10);
	area_shrink(mm, b, BASE + 6 * PAGE_SIZE, b->end);
	CHECK(area_grow_up(mm, a, BASE + 6 * PAGE_SIZE));
	a = area_merge(mm, a); /* b is owned: left alone */
	CHECK_EQ(count(), 2);
	area_unlock(b);
	a = area_merge(mm, a);
	CHECK_EQ(count(), 1);
	CHECK(a == b && a->start == BASE && a->end == BASE + 10 * PAGE_SIZE);
}

TEST(split_keeps_offsets)
{
	static struct mapping m;
	struct area *a, *tail;

	setup();
	a = area_create(mm, BASE, BASE + 10 * PAGE_SIZE, VM_READ | VM_SHARED, NULL, &m, 100);
	list_init(&m.i_mmap);
	CHECK_EQ(area_insert(mm, a), 0);
	CHECK_EQ(area_split(mm, a, BASE + 3 * PAGE_SIZE, &tail), 0);
	CHECK(area_at(mm, BASE) == a && area_at(mm, BASE + 3 * PAGE_SIZE) == tail);
	CHECK_EQ(a->pgoff, 100);
	CHECK_EQ(tail->pgoff, 103);
	CHECK_EQ(m.refs, 2);
	area_unlock(tail);
	CHECK(area_merge(mm, a) == tail);
	CHECK_EQ(tail->pgoff, 100);
	CHECK_EQ(m.refs, 1);
}

TEST(map_count_limit)
{
	struct area *a, *tail;

	setup();
	vm_max_map_count = 2;
	a = add(0, 10, VM_READ);
	CHECK(area_trylock(a));
	CHECK_EQ(area_split(mm, a, BASE + 5 * PAGE_SIZE, &tail), 0);
	CHECK_EQ(area_split(mm, a, BASE + 2 * PAGE_SIZE, &tail), -12); /* ENOMEM */
	CHECK_EQ(count(), 2);
}

TEST(random_against_array)
{
	u32 x = 1;

	setup();
	for (int round = 0; round < 4000; round++) {
		u64 page, pages;
		u32 flags;

		x = x * 1103515245 + 12345;
		page = x >> 8 & (N - 1);
		pages = MIN(1 + (x >> 20 & 15), N - page);
		flags = x >> 28 & VM_ACCESS;
		del(page, pages);
		memset(model + page, 0, pages);
		if (x >> 27 & 1) {
			add(page, pages, flags);
			memset(model + page, (int)flags + 1, pages);
		}
		if (round % 100 == 0)
			check_all();
	}
	check_all();
	del(0, N);
	CHECK_EQ(count(), 0);
	CHECK_EQ(mm_counter(mm, MM_VM), 0);
}

TEST(seq_tells_of_changes)
{
	struct area *a;
	u32 seq;

	setup();
	a = add(0, 8, VM_READ);
	seq = a->seq;
	CHECK_EQ(seq & 1, 0);
	CHECK(area_lock_next(mm, BASE, BASE + 1) == a);
	CHECK(a->seq & 1);
	area_unlock(a);
	CHECK(a->seq != seq && !(a->seq & 1));
	CHECK(area_lock_next(mm, BASE, BASE + 1) == a);
	area_remove(mm, a);
	CHECK(a->seq & 1); /* for ever */
	area_free(a);
}
