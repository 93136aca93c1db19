/*
 * The ordered map of areas (vma.h): a skip list with one forward link a level.
 * A level-l link skips about 4^l areas, so a lookup among n areas takes about
 * log4(n) steps of about two nodes each. Readers follow links under RCU while
 * the one writer (mm->lock) changes them:
 *
 *   insert   the new node's own links first, then its predecessors', bottom up;
 *   remove   predecessors' links, top down; the removed node's own links stay, so a reader
 *            standing on it goes on to its successors.
 *
 * The key is `end`. Resizing an area never changes the order of ends, so it
 * may happen under the readers' eyes; a reader may then miss or see a little too much, which the
 * area's seq tells it.
 */
#include "mm/vma.h"
#include "kernel/file.h"
#include "kernel/ipc.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "mm/mempolicy.h"
#include "mm/policy.h"
#include "mm/slab.h"

#include <asm/errno.h>

/* Links that lead to what comes at or after addr: out[l] is the array whose [l] is the first node with end > addr. */
static void find_links(struct mm *mm, vaddr_t addr, struct area **out[AREA_MAX_HEIGHT])
{
	struct area **links = mm->areas;

	for (int l = AREA_MAX_HEIGHT - 1; l >= 0; l--) {
		while (links[l] && links[l]->end <= addr)
			links = links[l]->next;
		out[l] = links;
	}
}

struct area *area_find(struct mm *mm, vaddr_t addr)
{
	struct area *const *links = mm->areas;
	struct area *n = NULL;

	for (int l = (int)READ_ONCE(mm->area_height) - 1; l >= 0; l--)
		while ((n = rcu_dereference(links[l])) && READ_ONCE(n->end) <= addr)
			links = n->next;
	return n;
}

struct area *area_before(struct mm *mm, vaddr_t addr)
{
	struct area **links = mm->areas;

	for (int l = AREA_MAX_HEIGHT - 1; l >= 0; l--)
		while (links[l] && links[l]->end <= addr)
			links = links[l]->next;
	return links == mm->areas ? NULL : container_of(links, struct area, next);
}

/* Heights with probability 1/4 a level; xorshift (Marsaglia 2003), one state an mm, under its lock. */
static u8 random_height(struct mm *mm)
{
	u32 x = mm->area_seed, h = 1;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	mm->area_seed = x;
	while (h < AREA_MAX_HEIGHT && (x & 3) == 0) {
		h++;
		x >>= 2;
	}
	return (u8)h;
}

static struct area *area_new(struct mm *mm)
{
	u8 h = random_height(mm);
	struct area *a = kzalloc(sizeof *a + h * sizeof(struct area *));

	if (!a)
		return NULL;
	a->height = h;
	a->mm = mm;
	list_init(&a->mapping_link);
	return a;
}

struct area *area_create(struct mm *mm, vaddr_t start, vaddr_t end, u32 flags, struct file *file,
			 struct mapping *mapping, u64 pgoff)
{
	struct area *a = area_new(mm);

	if (!a)
		return NULL;
	a->start = start;
	a->end = end;
	a->flags = flags;
	a->pgoff = pgoff;
	a->file = file ? file_get(file) : NULL;
	a->mapping = mapping;
	if (mapping)
		mapping_get(mapping);
	return a;
}

struct area *area_clone(struct mm *mm, const struct area *old, vaddr_t start, vaddr_t end)
{
	struct area *a = area_create(mm, start, end, old->flags, old->file, old->mapping,
				     area_pgoff(old, start));

	if (!a)
		return NULL;
	a->has_anon = old->has_anon;
	a->shm = old->shm;
	if (a->shm)
		shm_area_opened(a->shm);
	a->policy = mempolicy_get(old->policy);
	return a;
}

static void area_free_rcu(struct rcu_head *h)
{
	struct area *a = container_of(h, struct area, rcu);

	mempolicy_put(a->policy);
	kfree(a);
}

void area_free(struct area *a)
{
	DEBUG_ASSERT(list_empty(&a->mapping_link));
	if (a->shm)
		shm_area_closed(a->shm);
	if (a->mapping)
		mapping_put(a->mapping);
	if (a->file)
		file_put(a->file);
	call_rcu(&a->rcu, area_free_rcu);
}

/* ---- the file's list of its areas ---- */

static void mapping_link(struct area *a)
{
	if (!a->mapping)
		return;
	mutex_lock(&a->mapping->i_mmap_lock);
	list_add_tail(&a->mapping->i_mmap, &a->mapping_link);
	if ((a->flags & (VM_SHARED | VM_MAYWRITE)) == (VM_SHARED | VM_MAYWRITE))
		a->mapping->writable_maps++;
	mutex_unlock(&a->mapping->i_mmap_lock);
}

static void mapping_unlink(struct area *a)
{
	if (!a->mapping)
		return;
	mutex_lock(&a->mapping->i_mmap_lock);
	list_del(&a->mapping_link);
	if ((a->flags & (VM_SHARED | VM_MAYWRITE)) == (VM_SHARED | VM_MAYWRITE))
		a->mapping->writable_maps--;
	mutex_unlock(&a->mapping->i_mmap_lock);
}

/* ---- changes ---- */

static void account(struct mm *mm, const struct area *a, s64 sign)
{
	s64 pages = (s64)area_pages(a) * sign;

	mm->total_pages += (u64)pages;
	if (a->flags & VM_LOCKED)
		mm->locked_pages += (u64)pages;
	if (a->flags & (VM_STACK | VM_GROWSDOWN))
		mm->stack_pages += (u64)pages;
	else if ((a->flags & (VM_WRITE | VM_SHARED)) == VM_WRITE)
		mm->data_pages += (u64)pages;
	mm->hiwater_vm = MAX(mm->hiwater_vm, mm->total_pages);
}

static void link_into_map(struct mm *mm, struct area *a)
{
	struct area **links[AREA_MAX_HEIGHT];

	find_links(mm, a->start, links);
	for (int l = 0; l < a->height; l++)
		a->next[l] = links[l][l];
	if (a->height > mm->area_height)
		WRITE_ONCE(mm->area_height, a->height); /* the heads above are NULL: harmless early */
	for (int l = 0; l < a->height; l++)
		rcu_assign_pointer(links[l][l], a);
	mm->nr_areas++;
}

void area_insert(struct mm *mm, struct area *a)
{
	link_into_map(mm, a);
	account(mm, a, 1);
	mapping_link(a);
}

void area_remove(struct mm *mm, struct area *a)
{
	struct area **links[AREA_MAX_HEIGHT];

	DEBUG_ASSERT(a->seq & 1);
	find_links(mm, a->start, links);
	for (int l = a->height - 1; l >= 0; l--) {
		DEBUG_ASSERT(links[l][l] == a);
		rcu_assign_pointer(links[l][l], a->next[l]);
	}
	mm->nr_areas--;
	account(mm, a, -1);
	mapping_unlink(a);
}

void area_resize(struct mm *mm, struct area *a, vaddr_t start, vaddr_t end)
{
	DEBUG_ASSERT(a->seq & 1);
	account(mm, a, -1);
	/* truncation looks at start and pgoff together, under i_mmap_lock */
	if (a->mapping)
		mutex_lock(&a->mapping->i_mmap_lock);
	a->pgoff += (u64)((s64)(start - a->start) >> PAGE_SHIFT);
	WRITE_ONCE(a->start, start);
	WRITE_ONCE(a->end, end);
	if (a->mapping)
		mutex_unlock(&a->mapping->i_mmap_lock);
	account(mm, a, 1);
}

void area_set_flags(struct mm *mm, struct area *a, u32 flags)
{
	DEBUG_ASSERT(a->seq & 1);
	account(mm, a, -1);
	a->flags = flags;
	account(mm, a, 1);
}

int area_split_at(struct mm *mm, vaddr_t addr)
{
	struct area *a = area_at(mm, addr), *tail;

	if (!a || a->start == addr)
		return 0;
	if (mm->nr_areas >= (u32)vm_max_map_count)
		return -ENOMEM;
	tail = area_clone(mm, a, addr, a->end);
	if (!tail)
		return -ENOMEM;
	area_change_begin(a);
	area_resize(mm, a, a->start, addr);
	area_insert(mm, tail);
	area_change_end(a);
	return 0;
}

bool area_can_extend(const struct area *a, vaddr_t start, u32 flags, const struct file *file,
		     const struct mapping *mapping, u64 pgoff)
{
	if (a->end != start || a->flags != flags || a->file != file || a->mapping != mapping ||
	    a->shm)
		return false;
	if (flags & (VM_STACK | VM_GROWSDOWN))
		return false;
	return !mapping || area_pgoff(a, start) == pgoff;
}

static bool can_join(const struct area *a, const struct area *b)
{
	return area_can_extend(a, b->start, b->flags, b->file, b->mapping, b->pgoff) && !b->shm &&
	       mempolicy_equal(a->policy, b->policy);
}

/* b follows a directly and continues it: a takes over b's addresses. */
static struct area *join(struct mm *mm, struct area *a, struct area *b)
{
	vaddr_t end = b->end;

	area_change_begin(a);
	area_change_begin(b);
	area_remove(mm, b);
	a->has_anon |= b->has_anon;
	area_resize(mm, a, a->start, end);
	area_change_end(a);
	area_free(b);
	return a;
}

struct area *area_merge(struct mm *mm, struct area *a)
{
	struct area *prev = area_before(mm, a->start), *next;

	if (prev && can_join(prev, a))
		a = join(mm, prev, a);
	next = a->next[0];
	if (next && can_join(a, next))
		a = join(mm, a, next);
	return a;
}

u64 area_pte_bits(u32 flags)
{
	u64 bits = PTE_P | PTE_U | PTE_A;

	if (!(flags & VM_EXEC))
		bits |= pte_nx;
	if ((flags & (VM_SHARED | VM_WRITE)) == (VM_SHARED | VM_WRITE))
		bits |= PTE_W | PTE_D;
	return bits;
}
