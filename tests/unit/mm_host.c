#include "tests/unit/mm_host.h"

#include <sys/mman.h>

#include "arch/x86_64/smp.h"
#include "arch/x86_64/tlb.h"
#include "kernel/file.h"
#include "kernel/ipc.h"
#include "kernel/lock.h"
#include "kernel/timer.h"
#include "kernel/printk.h"
#include "kernel/task.h"
#include "mm/bootmem.h"
#include "mm/mapping.h"
#include "mm/mempolicy.h"
#include "mm/node.h"
#include "mm/ptpage.h"
#include "mm/slab.h"
#include "mm/stats.h"
#include "mm/zone.h"
#include "tests/unit/unit.h"

u64 host_direct_map;
struct page *vmemmap;
u64 pte_nx = PTE_NX;
phys_t kernel_root;
u32 num_cpus = 1, cpu_number, cpu_node;
struct cpumask cpus_online = { { 1 } };
s16 cpu_to_node[MAX_CPUS];
static struct task host_task;
struct task *current_task = &host_task;
unsigned host_flushes, host_locks_held;
u64 stat_counter[NR_STATS];

/* ---- locks: single-threaded, so each must be free when taken and held when released ---- */

void spin_init(spinlock_t *l, struct lock_class *c)
{
	l->word = 0;
}
void spin_lock(spinlock_t *l)
{
	CHECK_EQ(l->word, 0);
	l->word = 1;
	host_locks_held++;
}
bool spin_trylock(spinlock_t *l)
{
	spin_lock(l);
	return true;
}

void spin_lock_nested(spinlock_t *l)
{
	spin_lock(l);
}
void spin_unlock(spinlock_t *l)
{
	CHECK_EQ(l->word, 1);
	l->word = 0;
	host_locks_held--;
}
void mutex_init(struct mutex *m, struct lock_class *c)
{
	list_init(&m->waiters);
}
void mutex_lock(struct mutex *m)
{
	CHECK_EQ(m->owner, 0);
	CHECK_EQ(host_locks_held, 0);
	m->owner = 1;
}
void mutex_unlock(struct mutex *m)
{
	CHECK_EQ(m->owner, 1);
	m->owner = 0;
}
void wait_init(struct wait_queue *q)
{
}
void rwsem_init(struct rwsem *s, struct lock_class *c)
{
	s->count = 0;
}

/* ---- RCU ---- */

static struct rcu_head *callbacks;

void call_rcu(struct rcu_head *h, void (*func)(struct rcu_head *))
{
	h->func = func;
	h->next = callbacks;
	callbacks = h;
}

#ifdef DEBUG
void rcu_read_lock(void)
{
}
void rcu_read_unlock(void)
{
}
#endif

void host_rcu_run(void)
{
	while (callbacks) {
		struct rcu_head *h = callbacks;

		callbacks = h->next;
		h->func(h);
	}
}

/* ---- the rest of the kernel, as far as mm asks for it ---- */

void printk(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
}

void panic(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	unit_fail(__FILE__, __LINE__, "panic");
}

#ifdef DEBUG
void racepoint(const char *name)
{
}
bool fault_inject(void)
{
	return false;
}
void lock_assert_none(void)
{
}

void lock_assert_held(const spinlock_t *l)
{
	CHECK_EQ(l->word, 1);
}
#endif

struct cpu_features cpu_features;

u64 tlb_new_id(void)
{
	return 1;
}
void tlb_load_root(phys_t root, u64 id, bool good)
{
}
void tlb_shootdown(struct tlb_cpus *cpus, vaddr_t start, vaddr_t end, bool tables)
{
	host_flushes++;
}
void smp_call_others(void (*fn)(void *), void *arg)
{
}
void cond_resched(void)
{
}
bool reclaim(int round)
{
	return false;
}
void oom_mm_gone(struct mm *mm)
{
}
int kernel_map(u64 va, phys_t pa, u64 size, u64 bits)
{
	return 0;
}
void paging_init_root(pte_t *root)
{
	root[511].v = 0x1003;
}
struct file *file_get(struct file *f)
{
	return f;
}
void file_put(struct file *f)
{
}
void mapping_get(struct mapping *m)
{
	m->refs++;
}
void mapping_put(struct mapping *m)
{
	m->refs--;
}
void mapping_init(void)
{
}
struct mempolicy *mempolicy_get(struct mempolicy *p)
{
	return p;
}
void mempolicy_put(struct mempolicy *p)
{
}
bool mempolicy_equal(const struct mempolicy *a, const struct mempolicy *b)
{
	return a == b;
}
void shm_area_opened(void *seg)
{
}
void shm_area_closed(void *seg)
{
}
void seq_printf(struct seq *s, const char *fmt, ...)
{
}

/* ---- set-up ---- */

void host_mm_init(unsigned mb0, unsigned mb1)
{
	u64 size = (u64)(mb0 + mb1) * MB, first = HOST_PHYS_BASE;
	char *arena = mmap(NULL, size + 4 * MB, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(arena != MAP_FAILED);
	arena = (char *)ALIGN_UP((u64)arena, 4 * MB);
	host_direct_map = (u64)arena - HOST_PHYS_BASE;
	vmemmap = mmap(NULL, 32 * MB, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	nodes_init(mb1 ? 2 : 1, NULL);
	bootmem_add(first, first + mb0 * MB, 0);
	if (mb1)
		bootmem_add(first + mb0 * MB, first + size, 1);
	mm_init();
}

u64 host_free_frames(void)
{
	host_rcu_run();
	slab_shrink();
	return frames_free(NO_NODE) + quicklist_frames(NO_NODE) + slab_frames();
}

/* No CPU idles here. */
u64 clock_ns(void)
{
	return 0;
}

void timer_init(struct timer *t, void (*func)(struct timer *))
{
	t->func = func;
}

void timer_arm(struct timer *t, u64 expires_ns)
{
	(void)t, (void)expires_ns;
}
