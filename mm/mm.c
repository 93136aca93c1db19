/*
 * Address spaces: their life (mm.h). Two counts: users are threads and others
 * that look inside; at 0 everything is unmapped. refs are pointers to the
 * structure; all users together hold one.
 */
#include "mm/mm.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/smp.h"
#include "arch/x86_64/tlb.h"
#include "kernel/file.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "mm/gather.h"
#include "mm/mapping.h"
#include "mm/oom.h"
#include "mm/policy.h"
#include "mm/ptwalk.h"
#include "mm/slab.h"
#include "mm/vma.h"
#include "mm/zap.h"
#include "mm/zone.h"

DEFINE_LOCK_CLASS(mm_class, "mmap_lock", RANK_MM);
DEFINE_LOCK_CLASS(mm_ptl_class, "mm_page_table", RANK_PT);
DEFINE_LOCK_CLASS(mm_state_class, "mm_state", RANK_MM_STATE);

static struct slab_cache *mm_cache;

struct mm *mm_create(void)
{
	struct mm *mm = slab_zalloc(mm_cache);
	struct page *root;

	if (!mm)
		return NULL;
	root = ptpage_alloc(mm, PT_LEVELS);
	if (!root) {
		slab_free(mm_cache, mm);
		return NULL;
	}
	mm->root = page_to_phys(root);
	mm->tlb_id = tlb_new_id();
	mm->users = mm->refs = 1;
	rwsem_init(&mm->lock, &mm_class);
	spin_init(&mm->ptl, &mm_ptl_class);
	spin_init(&mm->state_lock, &mm_state_class);
	list_init(&mm->tasks);
	wait_init(&mm->change_wait);
	spin_init(&mm->head_lock, &area_link_class);
	mm->area_height = 1;
	mm->mmap_base = USER_END;
	return mm;
}

static void mm_free_rcu(struct rcu_head *h)
{
	slab_free(mm_cache, container_of(h, struct mm, rcu));
}

void mm_put(struct mm *mm)
{
	if (atomic_sub(&mm->refs, 1) == 0)
		call_rcu(&mm->rcu, mm_free_rcu);
}

/* ---- which root a CPU has loaded ---- */

/* Own CPU only, interrupts off. */
static DEFINE_PER_CPU(struct mm *, loaded_mm); /* NULL: the kernel's root */
DEFINE_PER_CPU(bool, mm_lazy);

/*
 * mm->cpus says that the root is loaded before it is, and that it is not after another one is: a
 * flusher that does not see it changed the entries before this CPU walks them
 * (arch/x86_64/tlbcpus.h). keep: what is cached of the old one may stay, if PCIDs are used.
 */
static void load_mm(struct mm *next, bool keep)
{
	struct mm *old = this_cpu_read(loaded_mm);
	u32 cpu = this_cpu();

	if (next == old)
		return;
	if (next) {
		bool good = tlb_cpus_load(&next->cpus, cpu);

		racepoint("mm_switch");
		tlb_load_root(next->root, next->tlb_id, good);
	} else {
		load_root(kernel_root);
	}
	this_cpu_write(loaded_mm, next);
	if (old)
		tlb_cpus_unload(&old->cpus, cpu, keep && tlb_uses_pcid());
}

/*
 * A kernel thread, idle too, needs no user memory: it keeps what is loaded (vm.lazy_tlb), as the same
 * task often comes next. It counts as loaded, so the TLB stays right; but the first flush that
 * comes by ends it (mm_flush_arrived), so that a CPU is disturbed once and not again. The root cannot go away
 * meanwhile: unmap_all() sends such a flush first.
 */
void mm_switch(struct mm *next)
{
	if (!next && vm_lazy_tlb == LAZY_TLB_ON) {
		this_cpu_write(mm_lazy, true);
		return;
	}
	this_cpu_write(mm_lazy, false);
	load_mm(next, true);
}

bool mm_flush_arrived(struct tlb_cpus *cpus)
{
	u64 flags = irq_save();
	struct mm *mm = this_cpu_read(loaded_mm);
	bool wanted = mm && &mm->cpus == cpus;

	if (!wanted) {
		tlb_cpus_forget(cpus, this_cpu()); /* it has left since the flusher looked */
	} else if (this_cpu_read(mm_lazy)) {
		load_mm(NULL, false);
		wanted = false;
	}
	irq_restore(flags);
	return wanted;
}

/* ---- users ---- */

/* The last user is gone: nobody else finds the mm. */
static void unmap_all(struct mm *mm)
{
	if (!tlb_cpus_none_loaded(&mm->cpus)) /* kernel threads may have it */
		tlb_shootdown(&mm->cpus, 0, USER_END, true);
	DEBUG_ASSERT(tlb_cpus_none_loaded(&mm->cpus));
	racepoint("mm_unmap");
	/* From here on truncation does not find them either. */
	for_each_area (a, mm)
		area_unlist(a);
	zap_all(mm);
	for (struct area *a = mm->areas[0], *next; a; a = next) {
		next = a->next[0];
		area_free(a);
	}
	oom_mm_gone(mm);
	if (mm->exe)
		file_put(mm->exe);
	for (int k = 0; k <= MM_TABLES; k++)
		if (mm->counter[k])
			printk("mm: counter %d is %lld at the end of an address space\n", k,
			       (long long)mm->counter[k]);
	mm_put(mm);
}

void mm_put_user(struct mm *mm)
{
	if (atomic_sub(&mm->users, 1) == 0)
		unmap_all(mm);
}

void mm_attach(struct mm *mm, struct task *t)
{
	spin_lock(&mm->state_lock);
	t->mm = mm;
	t->area_cache = NULL;
	t->map_hint = t->map_top = 0;
	list_add_tail(&mm->tasks, &t->mm_link);
	for (int k = 0; k < NR_MM_COUNTERS; k++)
		t->mm_counter[k] = 0;
	spin_unlock(&mm->state_lock);
}

/* Current leaves: its counters go into the mm's base. */
static void leave(struct task *t)
{
	struct mm *mm = t->mm;

	spin_lock(&mm->state_lock);
	for (int k = 0; k < NR_MM_COUNTERS; k++) {
		atomic_add(&mm->counter[k], t->mm_counter[k]);
		t->mm_counter[k] = 0;
	}
	list_del(&t->mm_link);
	WRITE_ONCE(t->mm, NULL);
	spin_unlock(&mm->state_lock);
}

void mm_unattach(struct task *t)
{
	leave(t);
}

void mm_detach(void)
{
	struct task *t = current;
	struct mm *mm = t->mm;
	u64 flags;

	if (!mm)
		return;
	flags = irq_save();
	leave(t);
	load_mm(NULL, false);
	irq_restore(flags);
	mm_put_user(mm);
}

void mm_exec_switch(struct mm *mm)
{
	struct task *t = current;
	struct mm *old = t->mm;
	u64 flags = irq_save();

	if (old)
		leave(t);
	mm_attach(mm, t);
	mm_switch(mm);
	irq_restore(flags);
	if (old)
		mm_put_user(old);
}

struct mm *mm_of_task(struct task *t)
{
	struct mm *mm;

	rcu_read_lock(); /* an mm is freed by RCU, so its count may be looked at */
	mm = READ_ONCE(t->mm);
	if (mm) {
		u32 n = READ_ONCE(mm->users);

		while (n && !atomic_try_cmpxchg(&mm->users, &n, n + 1))
			;
		if (!n)
			mm = NULL;
	}
	rcu_read_unlock();
	return mm;
}

s64 mm_counter(struct mm *mm, enum mm_counter_kind kind)
{
	s64 sum;

	spin_lock(&mm->state_lock);
	sum = READ_ONCE(mm->counter[kind]);
	list_for_each(t, &mm->tasks, struct task, mm_link)
		sum += READ_ONCE(t->mm_counter[kind]);
	spin_unlock(&mm->state_lock);
	return sum;
}

u64 mm_rss(struct mm *mm)
{
	s64 n = mm_counter(mm, MM_ANON) + mm_counter(mm, MM_FILE) + mm_counter(mm, MM_SHMEM);

	if (n < 0)
		n = 0;
	if ((u64)n > READ_ONCE(mm->hiwater_rss))
		WRITE_ONCE(mm->hiwater_rss, (u64)n);
	return (u64)n;
}

u64 mm_rss_peak(struct mm *mm)
{
	s64 n = mm_counter_quick(mm, MM_ANON) + mm_counter_quick(mm, MM_FILE) +
		mm_counter_quick(mm, MM_SHMEM);

	if (n > 0 && (u64)n > READ_ONCE(mm->hiwater_rss))
		WRITE_ONCE(mm->hiwater_rss, (u64)n);
	return READ_ONCE(mm->hiwater_rss);
}

void mm_cpu_init(void)
{
	pcp_init();
	slab_cpu_init();
	quicklist_cpu_init();
}

void mm_init(void)
{
	frames_init();
	slab_init();
	quicklist_cpu_init();
	ptpage_init();
	mapping_init();
	mm_cache = slab_create("mm", sizeof(struct mm), CACHE_LINE);
}
