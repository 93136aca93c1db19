/*
 * The page cache (mapping.h): a radix tree of 64-way nodes over page indexes.
 * Readers walk it under RCU; slots are published with release stores; the tree
 * only grows taller while it has pages, and nodes are freed after a grace
 * period. A found frame may be on its way out, so lookup takes a reference only
 * if the count is not 0, then looks whether the slot still holds it.
 */
#include "mm/mapping.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/smp.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "mm/mempolicy.h"
#include "mm/slab.h"
#include "mm/vma.h"
#include "mm/zap.h"

#include <asm/errno.h>

DEFINE_LOCK_CLASS(mapping_class, "mapping", RANK_PAGE);
DEFINE_LOCK_CLASS(i_mmap_class, "i_mmap", RANK_MAPPING);

#define RADIX_SHIFT 6
#define RADIX_SLOTS (1u << RADIX_SHIFT)

struct radix_node {
	void *slot[RADIX_SLOTS]; /* nodes, or at shift 0 frames; written under mapping->lock */
	u8 shift;
	u16 used;                /* mapping->lock */
	struct rcu_head rcu;
};

static struct slab_cache *node_cache, *mapping_cache;

/* Frames in all page caches, for /proc/meminfo: per CPU, only the sum means something. */
static DEFINE_PER_CPU(s64, cache_pages);

u64 mapping_pages(void)
{
	s64 n = 0;

	for_each_cpu(cpu, &cpus_online)
		n += READ_ONCE(per_cpu(cache_pages, cpu));
	return n > 0 ? (u64)n : 0;
}

struct mapping *mapping_create(u64 size)
{
	struct mapping *m = slab_zalloc(mapping_cache);

	if (!m)
		return NULL;
	m->size = size;
	m->refs = 1;
	spin_init(&m->lock, &mapping_class);
	mutex_init(&m->i_mmap_lock, &i_mmap_class);
	list_init(&m->i_mmap);
	return m;
}

void mapping_get(struct mapping *m)
{
	atomic_add(&m->refs, 1);
}

bool mapping_tryget(struct mapping *m)
{
	u32 n = READ_ONCE(m->refs);

	while (n)
		if (atomic_try_cmpxchg(&m->refs, &n, n + 1))
			return true;
	return false;
}

static bool remove_next(struct mapping *m, u64 *index, u64 last);

/*
 * A fault that found the area under RCU just before it was unmapped may still
 * put a frame into the cache; it will not map it, but the frame is there. So
 * the cache is emptied again when all such faults are over.
 */
static void mapping_free(struct rcu_head *h)
{
	struct mapping *m = container_of(h, struct mapping, rcu);
	u64 index = 0;

	while (remove_next(m, &index, ~0UL)) /* few, and a callback may not sleep */
		;
	slab_free(mapping_cache, m);
}

void mapping_put(struct mapping *m)
{
	if (atomic_sub(&m->refs, 1))
		return;
	mapping_truncate(m, 0);
	mempolicy_put(m->policy);
	m->policy = NULL;
	call_rcu(&m->rcu, mapping_free);
}

/* ---- the tree ---- */

static void node_free_rcu(struct rcu_head *h)
{
	slab_free(node_cache, container_of(h, struct radix_node, rcu));
}

static inline u64 span_of(const struct radix_node *n)
{
	return n->shift + RADIX_SHIFT >= 64 ? ~0UL : (1UL << (n->shift + RADIX_SHIFT)) - 1;
}

/* Slot of an index, or NULL if its node does not exist. RCU or lock. */
static void **slot_find(struct mapping *m, u64 index)
{
	struct radix_node *n = rcu_dereference(m->tree);

	if (!n || index > span_of(n))
		return NULL;
	for (;;) {
		void **slot = &n->slot[(index >> n->shift) & (RADIX_SLOTS - 1)];

		if (n->shift == 0)
			return slot;
		n = rcu_dereference(*slot);
		if (!n)
			return NULL;
	}
}

struct page *mapping_find(struct mapping *m, u64 index)
{
	struct page *p = NULL;

	rcu_read_lock();
	for (;;) {
		void **slot = slot_find(m, index);

		p = slot ? rcu_dereference(*slot) : NULL;
		if (!p)
			break;
		if (page_tryget(p)) {
			if (rcu_dereference(*slot) == p)
				break;
			page_put(p); /* removed, perhaps reused for something else */
		}
		cpu_relax();
	}
	rcu_read_unlock();
	return p;
}

/* Insert under m->lock with up to `n` spare nodes; -EAGAIN: more nodes are needed; -EEXIST. */
static int tree_insert(struct mapping *m, u64 index, struct page *p, struct radix_node **spare,
		       unsigned *n)
{
	struct radix_node *node = m->tree;

	while (!node || index > span_of(node)) {
		struct radix_node *top;

		if (!*n)
			return -EAGAIN;
		top = spare[--*n];
		top->shift = node ? (u8)(node->shift + RADIX_SHIFT) : 0;
		top->used = 0;
		if (node) {
			top->slot[0] = node;
			top->used = 1;
		}
		rcu_assign_pointer(m->tree, top);
		node = top;
	}
	while (node->shift) {
		void **slot = &node->slot[(index >> node->shift) & (RADIX_SLOTS - 1)];

		if (!*slot) {
			struct radix_node *child;

			if (!*n)
				return -EAGAIN;
			child = spare[--*n];
			child->shift = (u8)(node->shift - RADIX_SHIFT);
			rcu_assign_pointer(*slot, child);
			node->used++;
		}
		node = *slot;
	}
	if (node->slot[index & (RADIX_SLOTS - 1)])
		return -EEXIST;
	p->mapping = m;
	p->index = index;
	rcu_assign_pointer(node->slot[index & (RADIX_SLOTS - 1)], p);
	node->used++;
	m->nr_pages++;
	this_cpu_add(cache_pages, 1);
	return 0;
}

/* Take a frame out, and nodes that become empty with it. Under m->lock. */
static void tree_remove(struct mapping *m, struct page *p)
{
	struct radix_node *path[12];
	u64 index = p->index;
	struct radix_node *n = m->tree;
	int depth = 0;

	for (;; n = n->slot[(index >> n->shift) & (RADIX_SLOTS - 1)]) {
		path[depth++] = n;
		if (n->shift == 0)
			break;
	}
	while (depth--) {
		n = path[depth];
		rcu_assign_pointer(n->slot[(index >> n->shift) & (RADIX_SLOTS - 1)], NULL);
		if (--n->used)
			break;
		if (depth == 0)
			rcu_assign_pointer(m->tree, NULL);
		call_rcu(&n->rcu, node_free_rcu);
	}
	WRITE_ONCE(p->mapping, NULL);
	m->nr_pages--;
	this_cpu_add(cache_pages, -1);
}

/* First frame at or after *index, up to last; NULL if none. Under m->lock. */
static struct page *tree_next(struct mapping *m, u64 *index, u64 last)
{
	while (*index <= last) {
		struct radix_node *n = m->tree;

		if (!n || *index > span_of(n))
			return NULL;
		for (;;) {
			void *s = n->slot[(*index >> n->shift) & (RADIX_SLOTS - 1)];

			if (!s) {
				u64 next = ((*index >> n->shift) + 1) << n->shift;
				if (next == 0 || next < *index)
					return NULL;
				*index = next;
				break;
			}
			if (n->shift == 0)
				return s;
			n = s;
		}
	}
	return NULL;
}

#define MAX_SPARE 12

struct page *mapping_make_page(struct mapping *m, u64 index, unsigned flags)
{
	for (;;) {
		struct page *p = mapping_find(m, index), *fresh;
		struct radix_node *spare[MAX_SPARE];
		unsigned n = 0, want;
		int err;

		if (p)
			return p;
		fresh = mempolicy_alloc_policy(m->policy, index, flags, PG_FILE);
		if (!fresh)
			return NULL;
		fresh->mapping = NULL;
		/* Usually one leaf node at most is missing; the whole path only seldom. */
		for (want = 1;; want = MAX_SPARE) {
			while (n < want) {
				spare[n] = slab_zalloc(node_cache);
				if (!spare[n])
					break;
				n++;
			}
			spin_lock(&m->lock);
			fresh->refs = 2; /* the cache's and the caller's */
			err = tree_insert(m, index, fresh, spare, &n);
			spin_unlock(&m->lock);
			if (err != -EAGAIN || want == MAX_SPARE)
				break;
		}
		while (n)
			slab_free(node_cache, spare[--n]);
		if (!err)
			return fresh;
		page_free(fresh, 0);
		if (err == -EAGAIN)
			return NULL; /* no memory for nodes */
	}
}

struct page *mapping_get_page(struct mapping *m, u64 index, bool overwrite)
{
	return mapping_make_page(m, index, overwrite ? 0 : ALLOC_ZERO);
}

/* ---- truncation ---- */

/* Remove the first frame with index in [*index, last], unmapped already; false: there is none. */
static bool remove_next(struct mapping *m, u64 *index, u64 last)
{
	struct page *p;

	spin_lock(&m->lock);
	p = tree_next(m, index, last);
	if (p)
		tree_remove(m, p);
	spin_unlock(&m->lock);
	if (p)
		page_put(p);
	return p != NULL;
}

static void remove_range(struct mapping *m, u64 first, u64 last)
{
	while (remove_next(m, &first, last))
		cond_resched();
}

static void zap_all_areas(struct mapping *m, u64 first, u64 last, bool even_private)
{
	mutex_lock(&m->i_mmap_lock);
	list_for_each(a, &m->i_mmap, struct area, mapping_link)
		zap_mapping_range(a, first, last, even_private);
	mutex_unlock(&m->i_mmap_lock);
}

/* Clear bytes [from, to) of the page at index, if it is there. */
static void clear_part(struct mapping *m, u64 index, u64 from, u64 to)
{
	struct page *p = mapping_find(m, index);

	if (!p)
		return;
	memset((char *)page_address(p) + from, 0, to - from);
	page_put(p);
}

void mapping_truncate(struct mapping *m, u64 new_size)
{
	u64 first = DIV_UP(new_size, PAGE_SIZE), old;

	spin_lock(&m->lock);
	old = m->size;
	WRITE_ONCE(m->size, new_size);
	spin_unlock(&m->lock);
	if (new_size >= old && old)
		return;
	smp_mb(); /* size before zapping: see mapping.h */
	racepoint("truncate");
	/* Frames past the end may exist after a write into a mapped hole: always look at all. */
	if (!list_empty(&m->i_mmap))
		zap_all_areas(m, first, ~0UL, true);
	remove_range(m, first, ~0UL);
	if (new_size % PAGE_SIZE)
		clear_part(m, new_size / PAGE_SIZE, new_size % PAGE_SIZE, PAGE_SIZE);
}

void mapping_punch(struct mapping *m, u64 start, u64 end)
{
	u64 first = DIV_UP(start, PAGE_SIZE), last = end / PAGE_SIZE;

	if (first > last) { /* inside one page */
		clear_part(m, start / PAGE_SIZE, start % PAGE_SIZE, end % PAGE_SIZE);
		return;
	}
	if (start % PAGE_SIZE)
		clear_part(m, start / PAGE_SIZE, start % PAGE_SIZE, PAGE_SIZE);
	if (end % PAGE_SIZE)
		clear_part(m, last, 0, end % PAGE_SIZE);
	if (first == last)
		return;
	/*
	 * A fault may map a frame again between zap and removal; so zap what the
	 * removal left mapped once more: after it page->mapping is NULL and faults refuse it.
	 */
	zap_all_areas(m, first, last - 1, false);
	remove_range(m, first, last - 1);
	zap_all_areas(m, first, last - 1, false);
}

/* ---- read and write ---- */

long mapping_read(struct mapping *m, u64 *pos, vaddr_t ubuf, size_t n)
{
	size_t done = 0;

	while (done < n) {
		u64 size = READ_ONCE(m->size), off = *pos % PAGE_SIZE;
		size_t chunk = MIN(n - done, PAGE_SIZE - off), left;
		struct page *p;

		if (*pos >= size)
			break;
		chunk = MIN(chunk, size - *pos);
		p = mapping_find(m, *pos / PAGE_SIZE);
		racepoint("file_copy");
		if (p) {
			left = copy_to_user(ubuf + done, (char *)page_address(p) + off, chunk);
			page_put(p);
		} else {
			left = clear_user(ubuf + done, chunk);
		}
		done += chunk - left;
		*pos += chunk - left;
		if (left)
			return done ? (long)done : -EFAULT;
		cond_resched();
	}
	return (long)done;
}

static void extend(struct mapping *m, u64 pos)
{
	if (pos <= READ_ONCE(m->size))
		return;
	spin_lock(&m->lock);
	if (pos > m->size)
		WRITE_ONCE(m->size, pos);
	spin_unlock(&m->lock);
}

long mapping_write(struct mapping *m, u64 *pos, vaddr_t ubuf, size_t n)
{
	size_t done = 0;
	long err = 0;

	while (done < n) {
		u64 off = *pos % PAGE_SIZE;
		size_t chunk = MIN(n - done, PAGE_SIZE - off), left;
		struct page *p;

		if (*pos >= MAX_FILE_SIZE) {
			err = -EFBIG;
			break;
		}
		p = mapping_get_page(m, *pos / PAGE_SIZE, false);
		if (!p) {
			err = -ENOMEM;
			break;
		}
		racepoint("file_copy");
		left = copy_from_user((char *)page_address(p) + off, ubuf + done, chunk);
		page_put(p);
		done += chunk - left;
		*pos += chunk - left;
		extend(m, *pos);
		if (left) {
			err = -EFAULT;
			break;
		}
		cond_resched();
	}
	/* Pages made beyond the end of file by a failed copy. */
	if (err && !done)
		mapping_trim(m);
	return done ? (long)done : err;
}

/* Drop frames beyond the end of file. */
void mapping_trim(struct mapping *m)
{
	u64 first = DIV_UP(READ_ONCE(m->size), PAGE_SIZE);

	remove_range(m, first, ~0UL);
}

long mapping_read_kernel(struct mapping *m, u64 pos, void *buf, size_t n)
{
	u64 size = READ_ONCE(m->size);
	size_t done = 0;

	if (pos >= size)
		return 0;
	n = MIN(n, size - pos);
	while (done < n) {
		u64 at = pos + done, off = at % PAGE_SIZE;
		size_t chunk = MIN(n - done, PAGE_SIZE - off);
		struct page *p = mapping_find(m, at / PAGE_SIZE);

		if (p) {
			memcpy((char *)buf + done, (char *)page_address(p) + off, chunk);
			page_put(p);
		} else {
			memset((char *)buf + done, 0, chunk);
		}
		done += chunk;
	}
	return (long)done;
}

long mapping_write_kernel(struct mapping *m, u64 pos, const void *buf, size_t n)
{
	size_t done = 0;

	if (pos > MAX_FILE_SIZE - n)
		return -EFBIG;
	while (done < n) {
		u64 at = pos + done, off = at % PAGE_SIZE;
		size_t chunk = MIN(n - done, PAGE_SIZE - off);
		struct page *p = mapping_get_page(m, at / PAGE_SIZE, chunk == PAGE_SIZE);

		if (!p)
			return done ? (long)done : -ENOMEM;
		memcpy((char *)page_address(p) + off, (const char *)buf + done, chunk);
		page_put(p);
		done += chunk;
		extend(m, pos + done);
	}
	return (long)done;
}

void mapping_init(void)
{
	node_cache = slab_create("radix_node", sizeof(struct radix_node), 8);
	mapping_cache = slab_create("mapping", sizeof(struct mapping), CACHE_LINE);
}
