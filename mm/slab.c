/*
 * Object caches (slab.h). A cache cuts frames into objects of one size. Each
 * CPU has a magazine of free objects a cache; only when it is empty or full are
 * objects moved from or to the slabs, in a batch, under the cache's lock.
 *
 * Owner of a magazine: its CPU, from tasks only, never from interrupt handlers;
 * emptied from outside like the frame lists in pcp.c (busy, outbox). Slabs, their free
 * lists and counts: cache->lock. Lock order: cache lock → zone lock.
 *
 * Debug builds put a red zone behind each object and poison free ones.
 */
#include "mm/slab.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/smp.h"
#include "kernel/printk.h"
#include "kernel/seq.h"
#include "kernel/string.h"
#include "mm/page.h"

DEFINE_LOCK_CLASS(slab_class, "slab", RANK_SLAB);

#define MAX_CACHES    64
#define MAGAZINE_SIZE 16

#ifdef DEBUG
#define RED_ZONE 16
#else
#define RED_ZONE 0
#endif
#define RED_BYTE  0xbb
#define FREE_BYTE 0x6b

struct slab_cache {
	const char *name;
	size_t size;   /* asked for */
	size_t stride; /* with red zone and alignment */
	u32 per_slab;
	u16 id;
	u8 order;
	spinlock_t lock;     /* guards all below, and page->freelist, inuse, slab_link of its slabs */
	struct list partial; /* slabs with free objects, some used */
	struct page *empty;  /* one slab without used objects is kept */
	u64 slabs;
};

struct magazine {
	u32 count;
	u32 busy;
	s64 inuse; /* objects allocated minus freed on this CPU */
	void *object[MAGAZINE_SIZE];
};

static struct slab_cache caches[MAX_CACHES];
static u32 nr_caches; /* boot only */
static DEFINE_PER_CPU(struct magazine, magazines[MAX_CACHES]);

struct slab_cache *slab_create(const char *name, size_t size, size_t align)
{
	struct slab_cache *c = &caches[nr_caches];

	ASSERT(nr_caches < MAX_CACHES && size <= 2048);
	c->name = name;
	c->id = (u16)nr_caches++;
	c->size = size;
	c->stride = ALIGN_UP(MAX(size, sizeof(void *)) + RED_ZONE, MAX(align, 8UL));
	c->order = c->stride > 1024 ? 2 : c->stride > 256 ? 1 : 0;
	c->per_slab = (u32)((PAGE_SIZE << c->order) / c->stride);
	spin_init(&c->lock, &slab_class);
	list_init(&c->partial);
	return c;
}

#ifdef DEBUG
static void object_freed(struct slab_cache *c, void *o)
{
	u8 *red = (u8 *)o + c->size;

	for (size_t i = 0; i < RED_ZONE; i++)
		if (red[i] != RED_BYTE)
			panic("slab %s: object %p was written behind its end", c->name, o);
	memset(o, FREE_BYTE, c->size);
}
static void object_taken(struct slab_cache *c, void *o)
{
	const u8 *b = o;

	/* The first word links free objects inside a slab. */
	for (size_t i = sizeof(void *); i < c->size; i++)
		if (b[i] != FREE_BYTE)
			panic("slab %s: object %p was written while free", c->name, o);
	memset((u8 *)o + c->size, RED_BYTE, RED_ZONE);
}
#else
static inline void object_freed(struct slab_cache *c, void *o)
{
	(void)c, (void)o;
}
static inline void object_taken(struct slab_cache *c, void *o)
{
	(void)c, (void)o;
}
#endif

static struct page *slab_new(struct slab_cache *c)
{
	struct page *p = page_alloc(c->order, NO_NODE, ALLOC_NOWAIT, PG_SLAB);
	u8 *base;

	if (!p)
		return NULL;
	for (unsigned i = 1; i < 1u << c->order; i++) {
		p[i].type = PG_SLAB;
		p[i].cache = NULL; /* tail: the head is found through the order alignment */
	}
	base = page_address(p);
#ifdef DEBUG
	memset(base, FREE_BYTE, PAGE_SIZE << c->order);
#endif
	p->cache = c;
	p->freelist = NULL;
	p->inuse = 0;
	for (u32 i = c->per_slab; i-- > 0;) {
		void **o = (void **)(base + i * c->stride);
		*o = p->freelist;
		p->freelist = o;
	}
	c->slabs++;
	return p;
}

static void slab_release(struct slab_cache *c, struct page *p)
{
	for (unsigned i = 1; i < 1u << c->order; i++)
		p[i].type = PG_KERNEL;
	p->type = PG_KERNEL;
	c->slabs--;
	page_free(p, c->order);
}

static struct page *slab_of(const void *o)
{
	struct page *p = virt_to_page(o);

	if (!p->cache) /* a tail; blocks are aligned to their size, the head has the order */
		for (unsigned order = 1;; order++) {
			struct page *h = pfn_to_page(PFN(page_to_pfn(p).v & ~((1UL << order) - 1)));
			if (h->cache && h->order >= order)
				return h;
		}
	return p;
}

static __noinline void refill(struct slab_cache *c, struct magazine *m)
{
	spin_lock(&c->lock);
	while (m->count < MAGAZINE_SIZE / 2) {
		struct page *p;

		if (!list_empty(&c->partial)) {
			p = list_first(&c->partial, struct page, slab_link);
		} else {
			p = c->empty ? c->empty : slab_new(c);
			if (!p)
				break;
			c->empty = NULL;
			list_add(&c->partial, &p->slab_link);
		}
		while (p->freelist && m->count < MAGAZINE_SIZE / 2) {
			void *o = p->freelist;
			p->freelist = *(void **)o;
			p->inuse++;
			m->object[m->count++] = o;
		}
		if (!p->freelist)
			list_del(&p->slab_link);
	}
	spin_unlock(&c->lock);
}

/* Give the last n objects of a magazine back to their slabs. */
static __noinline void flush(struct slab_cache *c, void **object, u32 n)
{
	spin_lock(&c->lock);
	while (n--) {
		void *o = object[n];
		struct page *p = slab_of(o);

		if (!p->freelist)
			list_add(&c->partial, &p->slab_link);
		*(void **)o = p->freelist;
		p->freelist = o;
		if (--p->inuse == 0) {
			list_del(&p->slab_link);
			if (!c->empty)
				c->empty = p;
			else
				slab_release(c, p);
		}
	}
	spin_unlock(&c->lock);
}

void *slab_alloc(struct slab_cache *c)
{
	struct magazine *m = this_cpu_ptr(magazines[c->id]);
	void *o = NULL;

	if (fault_inject())
		return NULL;
	m->busy = 1;
	barrier();
	if (unlikely(!m->count))
		refill(c, m);
	if (likely(m->count)) {
		o = m->object[--m->count];
		m->inuse++;
		object_taken(c, o);
	}
	barrier();
	m->busy = 0;
	return o;
}

void *slab_zalloc(struct slab_cache *c)
{
	void *o = slab_alloc(c);

	if (o)
		memset(o, 0, c->size);
	return o;
}

void slab_free(struct slab_cache *c, void *o)
{
	struct magazine *m = this_cpu_ptr(magazines[c->id]);

	object_freed(c, o);
	m->busy = 1;
	barrier();
	if (unlikely(m->count == MAGAZINE_SIZE)) {
		m->count -= MAGAZINE_SIZE / 2;
		flush(c, &m->object[m->count], MAGAZINE_SIZE / 2);
	}
	m->object[m->count++] = o;
	m->inuse--;
	barrier();
	m->busy = 0;
}

/* ---- kmalloc: caches of the usual sizes, whole frames above ---- */

static const u16 sizes[] = { 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048 };
static struct slab_cache *kmalloc_cache[ARRAY_SIZE(sizes)];
static u8 size_index[2048 / 16 + 1]; /* by size rounded up to 16 */

void *kmalloc(size_t size)
{
	unsigned order = 0;
	struct page *p;

	if (likely(size <= 2048))
		return slab_alloc(kmalloc_cache[size_index[(size + 15) / 16]]);
	if (size > PAGE_SIZE << MAX_ORDER)
		return NULL;
	while (PAGE_SIZE << order < size)
		order++;
	p = page_alloc(order, NO_NODE, ALLOC_NOWAIT, PG_KERNEL);
	return p ? page_address(p) : NULL;
}

void *kzalloc(size_t size)
{
	void *p = kmalloc(size);

	if (p)
		memset(p, 0, size);
	return p;
}

void kfree(void *v)
{
	struct page *p;

	if (!v)
		return;
	p = virt_to_page(v);
	if (p->type == PG_SLAB)
		slab_free(slab_of(v)->cache, v);
	else
		page_free(p, p->order);
}

size_t ksize(const void *v)
{
	struct page *p = virt_to_page(v);

	return p->type == PG_SLAB ? slab_of(v)->cache->size : PAGE_SIZE << p->order;
}

/* ---- emptying, counting ---- */

static bool shrink_missed[MAX_CPUS]; /* written by each CPU's handler, read after it is done */

/*
 * In interrupt context: take the objects of a cache out of this CPU's
 * magazine. They go through arg, an array of one slot a CPU.
 */
struct outbox {
	u32 count;
	void *object[MAGAZINE_SIZE];
};
struct collect_arg {
	struct slab_cache *cache;
	struct outbox *out;
};
static void collect(void *a)
{
	struct collect_arg *arg = a;
	struct magazine *m = this_cpu_ptr(magazines[arg->cache->id]);
	struct outbox *o = &arg->out[this_cpu()];

	shrink_missed[this_cpu()] = m->busy;
	if (m->busy || o->count)
		return;
	memcpy(o->object, m->object, m->count * sizeof(void *));
	o->count = m->count;
	m->count = 0;
}

u64 slab_shrink(void)
{
	static struct mutex lock = { .waiters = LIST_INIT(lock.waiters) };
	u64 before = slab_frames();
	struct outbox *out;
	unsigned order = 0;
	struct page *mem;

	while (PAGE_SIZE << order < num_cpus * sizeof(struct outbox))
		order++;
	mem = page_alloc(order, NO_NODE, ALLOC_NOWAIT | ALLOC_NOFAIL_RESERVE, PG_KERNEL);
	if (!mem)
		return 0;
	out = page_address(mem);
	mutex_lock(&lock);
	for (u32 i = 0; i < nr_caches; i++) {
		struct slab_cache *c = &caches[i];
		struct collect_arg arg = { c, out };

		for (u32 cpu = 0; cpu < num_cpus; cpu++)
			out[cpu].count = 0;
		smp_call_all(collect, &arg);
		for (u32 cpu = 0; cpu < num_cpus; cpu++)
			flush(c, out[cpu].object, out[cpu].count);
		spin_lock(&c->lock);
		if (c->empty) {
			struct page *p = c->empty;
			c->empty = NULL;
			slab_release(c, p);
		}
		spin_unlock(&c->lock);
	}
	mutex_unlock(&lock);
	page_free(mem, order);
	return before - MIN(before, slab_frames());
}

u64 slab_frames(void)
{
	u64 n = 0;

	for (u32 i = 0; i < nr_caches; i++)
		n += READ_ONCE(caches[i].slabs) << caches[i].order;
	return n;
}

static s64 objects_used(const struct slab_cache *c)
{
	s64 n = 0;

	for_each_cpu(cpu, &cpus_online)
		n += READ_ONCE(per_cpu_ptr(magazines[c->id], cpu)->inuse);
	return n;
}

u64 slab_objects(void)
{
	s64 n = 0;

	for (u32 i = 0; i < nr_caches; i++)
		n += objects_used(&caches[i]);
	return (u64)n;
}

void slab_show(struct seq *s)
{
	seq_printf(s, "slabinfo - version: 2.1\n# name            <active_objs> <num_objs> <objsize> "
		      "<objperslab> <pagesperslab> : tunables <limit> <batchcount> <sharedfactor> "
		      ": slabdata <active_slabs> <num_slabs> <sharedavail>\n");
	for (u32 i = 0; i < nr_caches; i++) {
		struct slab_cache *c = &caches[i];
		unsigned long slabs = READ_ONCE(c->slabs);

		seq_printf(s, "%-17s %6ld %6lu %6zu %4u %4u : tunables %4u %4u %4u : slabdata %6lu %6lu 0\n",
			   c->name, (long)objects_used(c), slabs * c->per_slab, c->stride, c->per_slab,
			   1u << c->order, MAGAZINE_SIZE, MAGAZINE_SIZE / 2, 0, slabs, slabs);
	}
}

/* Each CPU as it starts; its area may hold a copy of another CPU's magazines. */
void slab_cpu_init(void)
{
	memset(this_cpu_ptr(magazines[0]), 0, sizeof magazines);
}

void slab_init(void)
{
	static const char *const names[] = { "kmalloc-16",  "kmalloc-32",  "kmalloc-64",
					     "kmalloc-96",  "kmalloc-128", "kmalloc-192",
					     "kmalloc-256", "kmalloc-384", "kmalloc-512",
					     "kmalloc-768", "kmalloc-1k",  "kmalloc-2k" };
	u32 k = 0;

	for (u32 i = 0; i < ARRAY_SIZE(sizes); i++)
		kmalloc_cache[i] = slab_create(names[i], sizes[i], sizes[i] >= 64 ? 64 : 16);
	for (u32 i = 0; i < ARRAY_SIZE(size_index); i++) {
		while (sizes[k] < i * 16)
			k++;
		size_index[i] = (u8)k;
	}
}
