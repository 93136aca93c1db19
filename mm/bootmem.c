/*
 * Memory before there is an allocator (bootmem.h). Two small sorted tables:
 * what there is, as reported, and what of it is still free.
 */
#include "mm/bootmem.h"
#include "arch/x86_64/paging.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "mm/node.h"

#define MAX_RANGES 512

static struct mem_range memory[MAX_RANGES], avail[MAX_RANGES];
static unsigned nr_memory, nr_avail;

static void range_insert(struct mem_range *t, unsigned *n, struct mem_range r)
{
	unsigned i = *n;

	if (*n == MAX_RANGES) {
		printk("memory: too many ranges, %llx-%llx ignored\n", (unsigned long long)r.start,
		       (unsigned long long)r.end);
		return;
	}
	while (i > 0 && t[i - 1].start > r.start) {
		t[i] = t[i - 1];
		i--;
	}
	t[i] = r;
	(*n)++;
}

void bootmem_add(u64 start, u64 end, int node)
{
	struct mem_range r = { ALIGN_UP(start, PAGE_SIZE), ALIGN_DOWN(end, PAGE_SIZE), node };

	if (r.start >= r.end)
		return;
	range_insert(memory, &nr_memory, r);
	range_insert(avail, &nr_avail, r);
}

void bootmem_reserve(u64 start, u64 end)
{
	start = ALIGN_DOWN(start, PAGE_SIZE);
	end = ALIGN_UP(end, PAGE_SIZE);
	for (unsigned i = 0; i < nr_avail; i++) {
		struct mem_range *r = &avail[i];
		struct mem_range tail = { end, r->end, r->node };

		if (end <= r->start || start >= r->end)
			continue;
		r->end = MAX(start, r->start);
		if (tail.start < tail.end)
			range_insert(avail, &nr_avail, tail);
	}
}

/* Take from the top of a range, so that low memory stays for what needs it. */
static bool take(struct mem_range *r, u64 size, u64 align, u64 limit, u64 *out)
{
	u64 end = limit && r->end > limit ? limit : r->end;
	u64 start;

	if (end < size || end <= r->start)
		return false;
	start = ALIGN_DOWN(end - size, align);
	if (start < r->start)
		return false;
	*out = start;
	return true;
}

phys_t bootmem_alloc(u64 size, u64 align, int node, u64 limit)
{
	u64 at = 0;
	struct mem_range *best = NULL;

	size = ALIGN_UP(size, PAGE_SIZE);
	align = MAX(align, PAGE_SIZE);
	for (unsigned i = nr_avail; i-- > 0;) {
		struct mem_range *r = &avail[i];
		u64 where;

		if (!take(r, size, align, limit, &where))
			continue;
		if (!best || (node != NO_NODE &&
			      node_distance[node][r->node] < node_distance[node][best->node])) {
			best = r;
			at = where;
		}
	}
	if (!best)
		panic("boot: no memory for %llu bytes", (unsigned long long)size);
	bootmem_reserve(at, at + size);
	memset(phys_to_virt(PHYS(at)), 0, size);
	return PHYS(at);
}

u64 bootmem_top(void)
{
	u64 top = 0;

	for (unsigned i = 0; i < nr_memory; i++)
		top = MAX(top, memory[i].end);
	return top;
}

const struct mem_range *bootmem_ranges(unsigned *count)
{
	*count = nr_memory;
	return memory;
}

/* What is left, for the frame allocator to take over. */
const struct mem_range *bootmem_avail(unsigned *count)
{
	*count = nr_avail;
	return avail;
}
