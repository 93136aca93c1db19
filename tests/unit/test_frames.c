/* Buddy allocator, per-CPU lists and object caches. */
#include "arch/x86_64/smp.h"
#include "mm/node.h"
#include "mm/policy.h"
#include "mm/slab.h"
#include "mm/zone.h"
#include "tests/unit/mm_host.h"
#include "tests/unit/unit.h"

TEST(all_memory_comes_and_goes)
{
	static struct page *got[20000];
	u64 before, n = 0;

	host_mm_init(32, 0);
	before = frames_free(NO_NODE);
	CHECK(before > 28 * MB / PAGE_SIZE);
	while ((got[n] = page_alloc(0, NO_NODE, ALLOC_NOWAIT, PG_KERNEL)))
		n++;
	CHECK_EQ(n + zones[0]->reserve, before);
	CHECK(!page_alloc(0, NO_NODE, ALLOC_NOWAIT, PG_KERNEL));
	CHECK(page_alloc(0, NO_NODE, ALLOC_NOWAIT | ALLOC_NOFAIL_RESERVE, PG_KERNEL) != NULL);
	while (n--)
		page_put(got[n]);
	CHECK_EQ(frames_free(NO_NODE), before - 1);
}

static void clear_one(int how)
{
	struct page *p;
	u8 *bytes;

	vm_clear = how;
	cpu_features.erms = true;
	host_mm_init(16, 0);
	p = page_alloc(2, NO_NODE, 0, PG_KERNEL);
	bytes = page_address(p);
	memset(bytes, 0x5a, 4 * PAGE_SIZE);
	page_clear(bytes + PAGE_SIZE);
	for (u64 i = 0; i < 4 * PAGE_SIZE; i++)
		CHECK_EQ(bytes[i], i / PAGE_SIZE == 1 ? 0 : 0x5a);
}

TEST(a_page_is_cleared_by_eight_bytes)
{
	clear_one(CLEAR_STOSQ);
}

TEST(a_page_is_cleared_by_bytes)
{
	clear_one(CLEAR_STOSB);
}

TEST(a_page_is_cleared_the_fastest_way)
{
	clear_one(CLEAR_FASTEST);
}

TEST(no_frame_twice)
{
	static u8 seen[64 * MB / PAGE_SIZE];
	struct page *p;

	host_mm_init(16, 0);
	for (unsigned i = 0; (p = page_alloc(i % 4, NO_NODE, ALLOC_NOWAIT, PG_KERNEL)); i++) {
		u64 pfn = page_to_pfn(p).v;

		CHECK(IS_ALIGNED(pfn, 1UL << (i % 4)));
		for (unsigned k = 0; k < 1u << (i % 4); k++)
			CHECK(!seen[pfn + k]++);
	}
}

TEST(buddies_join)
{
	struct page *p[1024];
	u64 largest;

	host_mm_init(16, 0);
	vm_pcp = PCP_OFF;
	largest = zones[0]->nr_free[MAX_ORDER];
	CHECK(largest > 0);
	for (unsigned i = 0; i < 1024; i++)
		p[i] = page_alloc(0, NO_NODE, 0, PG_KERNEL);
	CHECK(zones[0]->nr_free[MAX_ORDER] < largest);
	for (unsigned i = 0; i < 1024; i += 2)
		page_free(p[i], 0);
	for (unsigned i = 1; i < 1024; i += 2)
		page_free(p[i], 0);
	CHECK_EQ(zones[0]->nr_free[MAX_ORDER], largest);
}

TEST(zeroed_on_request)
{
	struct page *p;

	host_mm_init(16, 0);
	p = page_alloc(2, NO_NODE, ALLOC_ZERO, PG_KERNEL);
	for (u64 i = 0; i < 4 * PAGE_SIZE; i++)
		CHECK_EQ(((char *)page_address(p))[i], 0);
}

TEST(nodes_help_out)
{
	struct page *p;
	bool from1 = false;

	host_mm_init(16, 16);
	p = page_alloc(0, 1, 0, PG_KERNEL);
	CHECK_EQ(p->node, 1);
	while ((p = page_alloc(0, 0, ALLOC_NOWAIT | ALLOC_THISNODE, PG_KERNEL)))
		CHECK_EQ(p->node, 0);
	while ((p = page_alloc(0, 0, ALLOC_NOWAIT, PG_KERNEL)))
		from1 |= p->node == 1;
	CHECK(from1);
}

TEST(off_node_frames_go_to_their_zone)
{
	struct page *p;
	u64 free;

	host_mm_init(16, 16);
	free = zones[1]->free_frames;
	p = page_alloc(0, 1, 0, PG_KERNEL);
	CHECK_EQ(zones[1]->free_frames, free - 1);
	page_put(p);
	CHECK_EQ(zones[1]->free_frames, free);
	CHECK_EQ(pcp_frames(1), 0);
}

TEST(per_cpu_list_drains)
{
	struct page *p;

	host_mm_init(16, 0);
	p = page_alloc(0, NO_NODE, 0, PG_KERNEL);
	page_put(p);
	CHECK(pcp_frames(NO_NODE) > 0);
	pcp_drain_all();
	CHECK_EQ(pcp_frames(NO_NODE), 0);
}

TEST(objects)
{
	static void *o[3000];
	struct slab_cache *c;
	u64 before;

	host_mm_init(16, 0);
	c = slab_create("test", 72, 8);
	before = host_free_frames();
	for (unsigned i = 0; i < 3000; i++) {
		o[i] = slab_alloc(c);
		memset(o[i], (int)i, 72);
	}
	for (unsigned i = 0; i < 3000; i++)
		for (unsigned k = 0; k < 72; k++)
			CHECK_EQ(((u8 *)o[i])[k], (u8)i);
	CHECK_EQ(slab_objects(), 3000);
	for (unsigned i = 0; i < 3000; i++)
		slab_free(c, o[i]);
	CHECK_EQ(slab_objects(), 0);
	CHECK_EQ(host_free_frames(), before);
	CHECK_EQ(slab_frames(), 0);
}

TEST(kmalloc_sizes)
{
	u64 before;

	host_mm_init(16, 0);
	before = host_free_frames();
	for (size_t n = 1; n < 100000; n += n / 3 + 1) {
		void *p = kmalloc(n);

		CHECK(p && ksize(p) >= n);
		memset(p, 0x55, n);
		kfree(p);
	}
	kfree(NULL);
	CHECK_EQ(host_free_frames(), before);
}
