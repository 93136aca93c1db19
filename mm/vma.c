/*
 * The ordered map of areas (vma.h): a skip list with one forward link a level.
 * A level-l link skips about 4^l areas, so a lookup among n areas takes about
 * log4(n) steps of two nodes each.
 *
 * Changing it is optimistic (Herlihy, Lev, Luchangco, Shavit 2007): find the
 * predecessors without a lock, lock them, and look whether they still are; else
 * start over. Threads that work in different places lock different nodes.
 *
 *   insert   the new node's own links first, then its predecessors', bottom up;
 *   remove   predecessors' links, top down; the removed node's own links stay, so a
 *            reader standing on it goes on to its successors.
 *
 * The key is `end`. It only ever changes without changing the order, so areas
 * are resized under the readers' eyes; a reader may then miss or see a little too much,
 * which the area's seq tells it.
 *
 * Lock order: i_mmap_lock → link locks, from higher to lower addresses.
 */
#include "mm/vma.h"
#include "arch/x86_64/cpu.h"
#include "kernel/file.h"
#include "kernel/ipc.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "mm/mempolicy.h"
#include "mm/policy.h"
#include "mm/slab.h"

#include <asm/errno.h>

DEFINE_LOCK_CLASS(area_link_class, "area_link", RANK_AREA);

/* ---- reading ---- */

/* The links of the last node with end <= addr (or the head's); *next: where the lowest of them leads. */
static inline struct area *const *descend(struct mm *mm, vaddr_t addr, struct area **next)
{
	struct area *const *links = mm->areas;
	struct area *n = NULL;

	for (int l = (int)READ_ONCE(mm->area_height) - 1; l >= 0; l--)
		while ((n = rcu_dereference(links[l])) && READ_ONCE(n->end) <= addr)
			links = n->next;
	*next = n;
	return links;
}

struct area *area_find(struct mm *mm, vaddr_t addr)
{
	struct area *next;

	descend(mm, addr, &next);
	return next;
}

/* A place in the map: at each level the links that lead there, and where they lead. */
struct place {
	struct area **prev[AREA_MAX_HEIGHT]; /* array of links of the last node with end <= addr */
	struct area *next[AREA_MAX_HEIGHT];
};

/* Fills in at least the lowest `levels`. */
static void locate(struct mm *mm, vaddr_t addr, struct place *p, unsigned levels)
{
	struct area **links = mm->areas, *n;

	for (int l = (int)MAX(READ_ONCE(mm->area_height), levels) - 1; l >= 0; l--) {
		while ((n = rcu_dereference(links[l])) && READ_ONCE(n->end) <= addr)
			links = n->next;
		p->prev[l] = links;
		p->next[l] = n;
	}
}

/* The area whose links these are; NULL: the head's. */
static inline struct area *node_of(struct mm *mm, struct area *const *links)
{
	return links == mm->areas ? NULL : container_of(links, struct area, next);
}

struct area *area_before(struct mm *mm, vaddr_t addr)
{
	struct area *next;

	return node_of(mm, descend(mm, addr, &next));
}

/* ---- life ---- */

static DEFINE_PER_CPU(u32, height_seed);

/*
 * Heights with probability 1/4 a level; xorshift (Marsaglia 2003). But no higher than log4 of the number of areas and one: a
 * single tall one would make every lookup begin up there.
 */
static u8 random_height(struct mm *mm)
{
	u32 areas = (u32)MAX(mm_counter_quick(mm, MM_AREAS), 0) + 1;
	u32 most = MIN(AREA_MAX_HEIGHT, 2 + (31 - (u32)__builtin_clz(areas)) / 2);
	u32 x = this_cpu_read(height_seed), h = 1;

	if (!x)
		x = 0x9e3779b9u + this_cpu();
	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	this_cpu_write(height_seed, x);
	while (h < most && (x & 3) == 0) {
		h++;
		x >>= 2;
	}
	return (u8)h;
}

struct area *area_create(struct mm *mm, vaddr_t start, vaddr_t end, u32 flags, struct file *file,
			 struct mapping *mapping, u64 pgoff)
{
	u8 h = random_height(mm);
	struct area *a = kzalloc(sizeof *a + h * sizeof(struct area *));

	if (!a)
		return NULL;
	a->start = start;
	a->end = end;
	a->flags = flags;
	a->seq = 1;
	a->pgoff = pgoff;
	a->height = h;
	a->mm = mm;
	a->file = file ? file_get(file) : NULL;
	a->mapping = mapping;
	if (mapping)
		mapping_get(mapping);
	list_init(&a->mapping_link);
	spin_init(&a->link_lock, &area_link_class);
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

/* ---- ownership ---- */

bool area_trylock(struct area *a)
{
	u32 seq = READ_ONCE(a->seq);

	if ((seq & 1) || !atomic_try_cmpxchg(&a->seq, &seq, seq | 1))
		return false;
	if (likely(!READ_ONCE(a->sharers)))
		return true;
	area_unlock(a);
	return false;
}

/* sharers is up, which is a full barrier: go if there is no owner. */
static bool area_tryshare(struct area *a, bool *others)
{
	*others = atomic_add(&a->sharers, 1) > 1;
	if (likely(!area_owned(a)))
		return true;
	area_unshare(a);
	return false;
}

/* First area that overlaps [start, end), owned or shared; waits for it. */
static inline struct area *get_next(struct mm *mm, vaddr_t start, vaddr_t end, bool share,
				    bool *others)
{
	for (;;) {
		struct area *a;

		rcu_read_lock();
		a = area_find(mm, start);
		if (!a || READ_ONCE(a->start) >= end) {
			rcu_read_unlock();
			return NULL;
		}
		if (share ? area_tryshare(a, others) : area_trylock(a)) {
			rcu_read_unlock(); /* it cannot be removed */
			if (likely(a->end > start && a->start < end))
				return a;
			share ? area_unshare(a) : area_unlock(a); /* it was resized before */
			continue;
		}
		rcu_read_unlock();
		cpu_relax();
		cond_resched();
	}
}

struct area *area_lock_next(struct mm *mm, vaddr_t start, vaddr_t end)
{
	return get_next(mm, start, end, false, NULL);
}

struct area *area_share_next(struct mm *mm, vaddr_t start, vaddr_t end, bool *others)
{
	return get_next(mm, start, end, true, others);
}

/* ---- the file's list of its areas ---- */

static bool counts_as_writer(const struct area *a)
{
	return (a->flags & (VM_SHARED | VM_MAYWRITE)) == (VM_SHARED | VM_MAYWRITE);
}

static void mapping_link(struct area *a)
{
	if (!a->mapping)
		return;
	mutex_lock(&a->mapping->i_mmap_lock);
	list_add_tail(&a->mapping->i_mmap, &a->mapping_link);
	a->mapping->writable_maps += counts_as_writer(a);
	mutex_unlock(&a->mapping->i_mmap_lock);
}

static void mapping_unlink(struct area *a)
{
	if (!a->mapping)
		return;
	mutex_lock(&a->mapping->i_mmap_lock);
	list_del(&a->mapping_link);
	a->mapping->writable_maps -= counts_as_writer(a);
	mutex_unlock(&a->mapping->i_mmap_lock);
}

/* ---- counting ---- */

static void account(struct mm *mm, u32 flags, s64 pages)
{
	mm_count(mm, MM_VM, pages);
	if (flags & VM_LOCKED)
		mm_count(mm, MM_LOCKED, pages);
	if (flags & (VM_STACK | VM_GROWSDOWN))
		mm_count(mm, MM_STACK, pages);
	else if ((flags & (VM_WRITE | VM_SHARED)) == VM_WRITE)
		mm_count(mm, MM_DATA, pages);
	if (pages < 0) {
		u64 was = (u64)(mm_counter_quick(mm, MM_VM) - pages);

		if (was > READ_ONCE(mm->hiwater_vm))
			WRITE_ONCE(mm->hiwater_vm, was);
	}
}

bool area_room(struct mm *mm, unsigned n)
{
	s64 limit = vm_max_map_count, have = mm_counter_quick(mm, MM_AREAS);

	/* Other threads have at most some areas not in the base yet; near the limit count exactly. */
	if (have + (s64)n > limit / 2)
		have = mm_counter(mm, MM_AREAS);
	return have + (s64)n <= limit;
}

static void count_areas(struct mm *mm, s64 n)
{
	struct task *t = current;

	mm_count(mm, MM_AREAS, n);
	/* Fold now and then, so that area_room()'s quick view is not far off. */
	if (t->mm == mm && (t->mm_counter[MM_AREAS] > 64 || t->mm_counter[MM_AREAS] < -64)) {
		n = t->mm_counter[MM_AREAS];
		t->mm_counter[MM_AREAS] = 0;
		atomic_add(&mm->counter[MM_AREAS], n);
	}
}

/* ---- links ---- */

/* Of the links of a node; NULL: the head's. */
static inline spinlock_t *lock_of(struct mm *mm, struct area *node)
{
	return node ? &node->link_lock : &mm->head_lock;
}

static __force_inline void unlock_place(struct mm *mm, struct place *p, unsigned height)
{
	for (unsigned l = 0; l < height; l++)
		if (l == 0 || p->prev[l] != p->prev[l - 1])
			spin_unlock(lock_of(mm, node_of(mm, p->prev[l])));
}

/*
 * Lock the predecessors of the lowest `height` levels, the nearest (highest address)
 * first, and see whether the place is still as it was found. Else unlocked again: false.
 */
static __force_inline bool lock_place(struct mm *mm, struct place *p, unsigned height)
{
	bool ok = true;

	for (unsigned l = 0; l < height; l++) {
		if (l == 0 || p->prev[l] != p->prev[l - 1]) {
			struct area *prev = node_of(mm, p->prev[l]);

			spin_lock_nested(lock_of(mm, prev));
			ok &= !prev || !prev->dead;
		}
		ok &= p->prev[l][l] == p->next[l];
	}
	if (!ok)
		unlock_place(mm, p, height);
	return ok;
}

static void raise_height(struct mm *mm, u32 height)
{
	u32 old = READ_ONCE(mm->area_height);

	/* The heads above are NULL: harmless for readers that see it early. */
	while (old < height && !atomic_try_cmpxchg(&mm->area_height, &old, height))
		;
}

/* The place is locked up to a's height. */
static void link_at(struct mm *mm, struct place *p, struct area *a)
{
	for (unsigned l = 0; l < a->height; l++)
		a->next[l] = p->next[l];
	raise_height(mm, a->height);
	for (unsigned l = 0; l < a->height; l++)
		rcu_assign_pointer(p->prev[l][l], a);
}

/* ---- changes ---- */

int area_insert(struct mm *mm, struct area *a)
{
	struct place p;
	int err = 0;

	/* On the file's list before it can be found and faulted in. */
	mapping_link(a);
	rcu_read_lock();
	for (;;) {
		struct area *prev;

		locate(mm, a->start, &p, a->height);
		if (p.next[0] && READ_ONCE(p.next[0]->start) < a->end) {
			err = -EEXIST;
			break;
		}
		if (!lock_place(mm, &p, a->height))
			continue;
		/* The gap is ours now to look at: neighbours grow under this same lock. */
		prev = node_of(mm, p.prev[0]);
		if ((prev && prev->end > a->start) || (p.next[0] && p.next[0]->start < a->end))
			err = -EEXIST;
		else
			link_at(mm, &p, a);
		unlock_place(mm, &p, a->height);
		break;
	}
	rcu_read_unlock();
	if (err) {
		mapping_unlink(a);
		return err;
	}
	count_areas(mm, 1);
	account(mm, a->flags, (s64)area_pages(a));
	return 0;
}

/* Take it out of the links; the pages it stood for are the caller's to count. */
static void unlink(struct mm *mm, struct area *a)
{
	struct place p;
	bool done = false;

	DEBUG_ASSERT(area_owned(a) && !a->dead);
	rcu_read_lock();
	while (!done) {
		locate(mm, a->start, &p, a->height);
		spin_lock(&a->link_lock); /* nobody links behind it any more */
		if (lock_place(mm, &p, a->height)) {
			done = true;
			for (unsigned l = 0; l < a->height; l++)
				done &= p.next[l] == a;
			if (done) {
				a->dead = true;
				for (unsigned l = a->height; l-- > 0;)
					rcu_assign_pointer(p.prev[l][l], a->next[l]);
			}
			unlock_place(mm, &p, a->height);
		}
		spin_unlock(&a->link_lock);
	}
	rcu_read_unlock();
	count_areas(mm, -1);
	mapping_unlink(a);
}

void area_remove(struct mm *mm, struct area *a)
{
	account(mm, a->flags, -(s64)area_pages(a));
	unlink(mm, a);
}

void area_unlist(struct area *a)
{
	mapping_unlink(a);
}

void area_end_init(struct mm *mm, struct area_end *at)
{
	for (int l = 0; l < AREA_MAX_HEIGHT; l++)
		at->links[l] = mm->areas;
}

void area_append(struct mm *mm, struct area_end *at, struct area *a)
{
	mapping_link(a);
	raise_height(mm, a->height);
	for (unsigned l = 0; l < a->height; l++) {
		rcu_assign_pointer(at->links[l][l], a);
		at->links[l] = a->next;
	}
	count_areas(mm, 1);
	account(mm, a->flags, (s64)area_pages(a));
}

int area_split(struct mm *mm, struct area *a, vaddr_t addr, struct area **tail)
{
	struct place p;
	struct area *t;

	DEBUG_ASSERT(area_owned(a) && addr > a->start && addr < a->end);
	if (!area_room(mm, 1))
		return -ENOMEM;
	t = area_clone(mm, a, addr, a->end);
	if (!t)
		return -ENOMEM;
	mapping_link(t); /* truncation sees the upper part twice for a moment, never not at all */
	rcu_read_lock();
	do
		locate(mm, a->end, &p, t->height); /* the place behind a: a itself is the nearest predecessor */
	while (!lock_place(mm, &p, t->height));
	DEBUG_ASSERT(node_of(mm, p.prev[0]) == a);
	link_at(mm, &p, t);
	WRITE_ONCE(a->end, addr); /* under its link_lock: the gap behind a stays empty */
	unlock_place(mm, &p, t->height);
	rcu_read_unlock();
	count_areas(mm, 1);
	*tail = t;
	return 0;
}

int area_isolate(struct mm *mm, struct area **a, vaddr_t start, vaddr_t end)
{
	struct area *tail;
	int err;

	if ((*a)->end > end) {
		err = area_split(mm, *a, end, &tail);
		if (err)
			return err;
		area_unlock(tail);
	}
	if ((*a)->start < start) {
		err = area_split(mm, *a, start, &tail);
		if (err)
			return err;
		area_unlock(*a);
		*a = tail;
	}
	return 0;
}

bool area_grow_down(struct mm *mm, struct area *a, vaddr_t start)
{
	struct place p;
	struct area *prev;
	bool ok;

	DEBUG_ASSERT(area_owned(a) && !a->mapping && start < a->start);
	rcu_read_lock();
	do
		locate(mm, a->start, &p, 1);
	while (p.next[0] != a || !lock_place(mm, &p, 1));
	prev = node_of(mm, p.prev[0]);
	ok = !prev || prev->end <= start;
	if (ok) {
		account(mm, a->flags, (s64)((a->start - start) >> PAGE_SHIFT));
		WRITE_ONCE(a->start, start);
	}
	unlock_place(mm, &p, 1);
	rcu_read_unlock();
	return ok;
}

bool area_grow_up(struct mm *mm, struct area *a, vaddr_t end)
{
	struct area *next;
	bool ok;

	DEBUG_ASSERT(area_owned(a) && end > a->end);
	spin_lock(&a->link_lock);
	next = a->next[0];
	ok = !next || READ_ONCE(next->start) >= end;
	if (ok) {
		account(mm, a->flags, (s64)((end - a->end) >> PAGE_SHIFT));
		WRITE_ONCE(a->end, end);
	}
	spin_unlock(&a->link_lock);
	return ok;
}

/* Move the start, and the offset with it: truncation reads both under i_mmap_lock. */
static void set_start(struct area *a, vaddr_t start)
{
	if (a->mapping)
		mutex_lock(&a->mapping->i_mmap_lock);
	a->pgoff += (u64)((s64)(start - a->start) >> PAGE_SHIFT);
	WRITE_ONCE(a->start, start);
	if (a->mapping)
		mutex_unlock(&a->mapping->i_mmap_lock);
}

void area_shrink(struct mm *mm, struct area *a, vaddr_t start, vaddr_t end)
{
	DEBUG_ASSERT(area_owned(a) && start >= a->start && end <= a->end && start < end);
	account(mm, a->flags, (s64)((end - start) >> PAGE_SHIFT) - (s64)area_pages(a));
	/* A gap becomes larger: whoever looks at it meanwhile only sees it too small. */
	if (start != a->start)
		set_start(a, start);
	WRITE_ONCE(a->end, end);
}

void area_set_flags(struct mm *mm, struct area *a, u32 flags)
{
	DEBUG_ASSERT(area_owned(a));
	account(mm, a->flags, -(s64)area_pages(a));
	a->flags = flags;
	account(mm, flags, (s64)area_pages(a));
}

bool area_continues(const struct area *a, const struct area *b)
{
	if (a->flags != b->flags || a->file != b->file || a->mapping != b->mapping || a->shm ||
	    b->shm || (a->flags & (VM_STACK | VM_GROWSDOWN)))
		return false;
	if (a->mapping && area_pgoff(a, b->start) != b->pgoff)
		return false;
	return mempolicy_equal(a->policy, b->policy);
}

/*
 * Both owned, b directly behind a: b takes over a's addresses. In this direction
 * no gap opens for a moment: b grows over a first, then a goes.
 */
static void absorb(struct mm *mm, struct area *b, struct area *a)
{
	b->has_anon |= a->has_anon;
	set_start(b, a->start);
	unlink(mm, a);
	area_free(a);
}

struct area *area_merge(struct mm *mm, struct area *a)
{
	struct area *prev, *next;

	rcu_read_lock(); /* until a neighbour is owned */
	prev = area_before(mm, a->start);
	if (prev && (READ_ONCE(prev->end) != a->start || !area_continues(prev, a) ||
		     !area_trylock(prev)))
		prev = NULL;
	rcu_read_unlock();
	if (prev) {
		if (prev->end == a->start && area_continues(prev, a))
			absorb(mm, a, prev);
		else
			area_unlock(prev);
	}
	rcu_read_lock();
	next = area_next(a);
	if (next && (READ_ONCE(next->start) != a->end || !area_continues(a, next) ||
		     !area_trylock(next)))
		next = NULL;
	rcu_read_unlock();
	if (!next)
		return a;
	if (next->start != a->end || !area_continues(a, next)) {
		area_unlock(next);
		return a;
	}
	absorb(mm, next, a);
	return next;
}
