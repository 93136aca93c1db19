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

static struct area *add(u64 page, u64 pages, u32 flags)
{
	struct area *a = area_create(mm, BASE + page * PAGE_SIZE, BASE + (page + pages) * PAGE_SIZE,
				     flags, NULL, NULL, page);

	CHECK(a != NULL);
	area_insert(mm, a);
	return area_merge(mm, a);
}

static void del(u64 page, u64 pages)
{
	vaddr_t start = BASE + page * PAGE_SIZE, end = start + pages * PAGE_SIZE;

	CHECK_EQ(area_split_at(mm, start), 0);
	CHECK_EQ(area_split_at(mm, end), 0);
	for (struct area *a = area_find(mm, start), *next; a && a->start < end; a = next) {
		next = area_next(a);
		area_change_begin(a);
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
	CHECK_EQ(n, mm->nr_areas);
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
	CHECK_EQ(mm->nr_areas, 2);
	add(4, 4, VM_READ);
	CHECK_EQ(mm->nr_areas, 1);
	add(12, 4, VM_READ | VM_WRITE);
	CHECK_EQ(mm->nr_areas, 2);
	CHECK_EQ(mm->total_pages, 16);
}

TEST(split_keeps_offsets)
{
	static struct mapping m;
	struct area *a;

	setup();
	a = area_create(mm, BASE, BASE + 10 * PAGE_SIZE, VM_READ | VM_SHARED, NULL, &m, 100);
	list_init(&m.i_mmap);
	area_insert(mm, a);
	CHECK_EQ(area_split_at(mm, BASE + 3 * PAGE_SIZE), 0);
	CHECK_EQ(area_at(mm, BASE)->pgoff, 100);
	CHECK_EQ(area_at(mm, BASE + 3 * PAGE_SIZE)->pgoff, 103);
	CHECK_EQ(area_split_at(mm, BASE + 3 * PAGE_SIZE), 0);
	CHECK_EQ(mm->nr_areas, 2);
	CHECK_EQ(m.refs, 2);
}

TEST(map_count_limit)
{
	setup();
	vm_max_map_count = 2;
	add(0, 10, VM_READ);
	CHECK_EQ(area_split_at(mm, BASE + 5 * PAGE_SIZE), 0);
	CHECK_EQ(area_split_at(mm, BASE + 2 * PAGE_SIZE), -12); /* ENOMEM */
	CHECK_EQ(mm->nr_areas, 2);
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
	CHECK_EQ(mm->nr_areas, 0);
	CHECK_EQ(mm->total_pages, 0);
}

TEST(seq_marks_changes)
{
	struct area *a;
	u32 seq;

	setup();
	a = add(0, 8, VM_READ);
	seq = a->seq;
	CHECK_EQ(seq & 1, 0);
	CHECK_EQ(area_split_at(mm, BASE + 4 * PAGE_SIZE), 0);
	CHECK(a->seq != seq && !(a->seq & 1));
}
