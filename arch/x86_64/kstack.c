/*
 * Kernel stacks of tasks, each in a slot of virtual memory whose lower half is
 * never mapped: who runs off the end faults (and, having no stack, double-faults
 * on a stack that works).
 *
 * The frames of a stack are given back at once when it is freed. Its slot is not used
 * again before every CPU has flushed its TLB, which is done for many slots at a time.
 *
 * Each CPU keeps the last stack that it freed, mapped as it is, for the next task.
 *
 * Lock order: kstack_lock is a leaf; frames and flushes are outside it.
 */
#include "arch/x86_64/paging.h"
#include "arch/x86_64/smp.h"
#include "arch/x86_64/task.h"
#include "arch/x86_64/tlb.h"
#include "kernel/lock.h"
#include "kernel/task.h"
#include "mm/page.h"
#include "mm/slab.h"

#define SLOTS       (KSTACKS + (1UL << 30)) /* behind the CPUs' own: percpu.c */
#define SLOT_SIZE   (2 * KSTACK_SIZE)
#define MAX_SLOTS   131072
#define STACK_PAGES (KSTACK_SIZE / PAGE_SIZE)

static spinlock_t kstack_lock; /* guards all below */
static u64 clean[MAX_SLOTS / 64];   /* bit set: free, and flushed */
static u64 dirty[MAX_SLOTS / 64];   /* free, but some TLB may still know it */
static u32 nr_clean, nr_dirty, nr_slots; /* nr_slots: ever used, the lowest ones */

static u64 slot_stack(u32 slot)
{
	return SLOTS + slot * SLOT_SIZE + KSTACK_SIZE;
}

/* Make dirty slots clean once there are enough of them. */
static void flush_slots(void)
{
	static bool flushing;    /* one at a time; kstack_lock */
	static u64 batch[MAX_SLOTS / 64]; /* flusher only */
	u32 words, moved;

	spin_lock(&kstack_lock);
	if (flushing || nr_clean || nr_dirty < MAX(64u, num_cpus)) {
		spin_unlock(&kstack_lock);
		return;
	}
	flushing = true;
	words = DIV_UP(nr_slots, 64);
	moved = nr_dirty;
	for (u32 i = 0; i < words; i++) {
		batch[i] = dirty[i];
		dirty[i] = 0;
	}
	nr_dirty = 0;
	spin_unlock(&kstack_lock);

	tlb_flush_kernel();

	spin_lock(&kstack_lock);
	for (u32 i = 0; i < words; i++)
		clean[i] |= batch[i];
	nr_clean += moved;
	flushing = false;
	spin_unlock(&kstack_lock);
}

/* A slot that no TLB knows, or MAX_SLOTS. */
static u32 slot_take(void)
{
	u32 slot = MAX_SLOTS;

	spin_lock(&kstack_lock);
	if (nr_clean) {
		u32 i = 0;

		while (!clean[i])
			i++;
		slot = i * 64 + (u32)__builtin_ctzl(clean[i]);
		clean[i] &= clean[i] - 1;
		nr_clean--;
	} else if (nr_slots < MAX_SLOTS) {
		slot = nr_slots++;
	}
	spin_unlock(&kstack_lock);
	return slot;
}

static void slot_give(u32 slot, bool known)
{
	spin_lock(&kstack_lock);
	(known ? dirty : clean)[slot / 64] |= 1UL << slot % 64;
	known ? nr_dirty++ : nr_clean++;
	spin_unlock(&kstack_lock);
}

/* The CPU's kept stack, of its own node; exchanged whole, so that it does not matter who runs where. */
static DEFINE_PER_CPU(void *, kept);

u64 kstack_kept_frames(void)
{
	u64 n = 0;

	for_each_cpu(cpu, &cpus_online)
		n += READ_ONCE(*per_cpu_ptr(kept, cpu)) ? STACK_PAGES : 0;
	return n;
}

void *kstack_alloc(int node)
{
	struct page *pages;
	void *stack;
	u32 slot;

	if (node == (int)this_node() && READ_ONCE(*this_cpu_ptr(kept))) {
		stack = atomic_xchg(this_cpu_ptr(kept), NULL);
		if (stack)
			return stack;
	}
	flush_slots();
	slot = slot_take();
	if (slot == MAX_SLOTS)
		return NULL;
	pages = page_alloc(2, node, 0, PG_KERNEL);
	static_assert(STACK_PAGES == 1 << 2, "order of a stack");
	if (pages && !kernel_map(slot_stack(slot), page_to_phys(pages), KSTACK_SIZE, KERNEL_RW))
		return (void *)slot_stack(slot);
	/* What is mapped of it so far has not been used, but might be known all the same. */
	if (pages) {
		kernel_unmap_noflush(slot_stack(slot), KSTACK_SIZE);
		page_free(pages, 2);
	}
	slot_give(slot, pages != NULL);
	return NULL;
}

void kstack_free(void *stack)
{
	u64 va = (u64)stack;
	phys_t phys = kernel_lookup(va);

	if (phys_to_page(phys)->node == this_node() && !READ_ONCE(*this_cpu_ptr(kept))) {
		stack = atomic_xchg(this_cpu_ptr(kept), stack);
		if (!stack)
			return;
		va = (u64)stack; /* an interrupt was faster */
		phys = kernel_lookup(va);
	}
	kernel_unmap_noflush(va, KSTACK_SIZE);
	page_free(phys_to_page(phys), 2);
	slot_give((va - SLOTS) / SLOT_SIZE, true);
}
