/*
 * TLB shootdown: see tlb.h.
 *
 * Each CPU has one request of its own to fill, and a set of the CPUs that want something
 * from it:
 *
 *	initiator                           target (VEC_TLB, or while it waits itself)
 *	fill own request, pending = count
 *	set own bit in each target's set ─→ take a word of the set, for each bit in it:
 *	send an interrupt to those whose        read that CPU's request, flush,
 *	    word was empty                      pending--
 *	flush here
 *	wait for pending == 0, serving
 *	    one's own set meanwhile
 *
 * The bit in the target's set is a locked operation, after the request is filled and before it
 * is read. If the word was not empty, somebody has sent an interrupt for it that has not been
 * acted on yet: taking the word happens after, and finds our bit too. Nothing is allocated and no
 * lock is taken, so any number of CPUs can shoot at each other.
 *
 * A CPU that spins for a lock with interrupts off does not answer. So nobody may shoot
 * while holding a lock that is taken with interrupts off.
 */
#include "arch/x86_64/tlb.h"

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/irq.h"
#include "arch/x86_64/paging.h"
#include "arch/x86_64/smp.h"
#include "arch/x86_64/trap.h"
#include "kernel/printk.h"
#include "mm/mm.h"

/* From so many pages on, reloading CR3 is cheaper than one INVLPG each. */
#define MAX_SINGLE_PAGES 33

#define EVERYTHING (~0UL)

enum flush_kind { FLUSH_RANGE, FLUSH_ALL, FLUSH_KERNEL };

struct tlb_request {
	vaddr_t start, end;
	struct tlb_cpus *cpus; /* NULL: FLUSH_KERNEL */
	u32 kind;    /* enum flush_kind */
	u32 pending; /* atomic: targets that have not answered */
};

/* Own CPU fills, others read while pending. */
static DEFINE_PER_CPU(struct tlb_request, tlb_request) __cacheline;
/* Who wants something from this CPU; atomic. */
static DEFINE_PER_CPU(struct cpumask, tlb_wanted) __cacheline;

DEFINE_PER_CPU(u64, tlb_shootdowns);
DEFINE_PER_CPU(u64, tlb_ipis_sent);
DEFINE_PER_CPU(u64, tlb_flushes);
DEFINE_PER_CPU(u64, tlb_kept);

/* ---- PCIDs ---- */

#define CR3_NO_FLUSH (1UL << 63)

static DEFINE_PER_CPU(struct tlb_tags, tlb_tags); /* own CPU, interrupts off */
static DEFINE_PER_CPU(u64, tlb_ids);              /* given out here; own CPU, tasks only */

u64 tlb_new_id(void)
{
	return ++*this_cpu_ptr(tlb_ids) * MAX_CPUS + this_cpu();
}

void tlb_load_root(phys_t root, u64 id, bool good)
{
	u32 tag;

	if (!tlb_uses_pcid()) {
		load_root(root);
		return;
	}
	tag = tlb_tag_for(this_cpu_ptr(tlb_tags), id, &good);
	if (good)
		this_cpu_inc(tlb_kept);
	load_root((phys_t){ root.v | tag | (good ? CR3_NO_FLUSH : 0) });
}

/* ---- flushing ---- */

void tlb_flush_all_local(void)
{
	u64 root;

	__asm__ __volatile__("mov %%cr3, %0; mov %0, %%cr3" : "=r"(root)::"memory");
}

/* Global entries, and those of all PCIDs, go too when CR4.PGE changes: SDM vol. 3, 4.10.4.1. */
static void flush_kernel_local(void)
{
	u64 flags = irq_save(), cr4;

	if (!cpu_features.pge) {
		tlb_flush_all_local();
	} else {
		__asm__ __volatile__("mov %%cr4, %0" : "=r"(cr4));
		__asm__ __volatile__("mov %0, %%cr4" ::"r"(cr4 & ~(1UL << 7)) : "memory");
		__asm__ __volatile__("mov %0, %%cr4" ::"r"(cr4) : "memory");
	}
	irq_restore(flags);
}

static void flush_local(const struct tlb_request *r)
{
	this_cpu_inc(tlb_flushes);
	switch (r->kind) {
	case FLUSH_RANGE:
		for (vaddr_t va = r->start; va < r->end; va += PAGE_SIZE)
			tlb_flush_page_local(va);
		break;
	case FLUSH_ALL:
		tlb_flush_all_local();
		break;
	case FLUSH_KERNEL:
		flush_kernel_local();
		break;
	}
}

/* Is what the request is about loaded here? */
static inline bool concerns_us(const struct tlb_request *r)
{
	return !r->cpus || mm_flush_arrived(r->cpus);
}

void tlb_serve(void)
{
	struct cpumask *wanted = this_cpu_ptr(tlb_wanted);

	for (u32 i = 0; i <= (num_cpus - 1) / 64; i++) {
		u64 word;

		if (!READ_ONCE(wanted->bits[i]))
			continue;
		for (word = atomic_xchg(&wanted->bits[i], 0); word; word &= word - 1) {
			u32 cpu = i * 64 + (u32)__builtin_ctzl(word);
			struct tlb_request *r = per_cpu_ptr(tlb_request, cpu);

			if (concerns_us(r))
				flush_local(r);
			atomic_sub(&r->pending, 1);
		}
	}
}

/* Other CPUs: how many they are, and their words, laid out as in struct tlb_cpus. */
static __noinline void ask_others(const u64 *others, u32 count, struct tlb_request *r)
{
	u32 self = this_cpu();

	this_cpu_inc(tlb_shootdowns);
	__atomic_store_n(&r->pending, count, __ATOMIC_SEQ_CST);
	for (u32 i = 0; i <= (num_cpus - 1) / CPUS_PER_WORD; i++) {
		for (u64 w = others[i]; w; w &= w - 1) {
			u32 cpu = i * CPUS_PER_WORD + (u32)__builtin_ctzl(w) / 2;
			u64 *word = &per_cpu_ptr(tlb_wanted, cpu)->bits[self / 64];

			if (__atomic_fetch_or(word, 1UL << self % 64, __ATOMIC_SEQ_CST))
				continue;
			send_ipi(cpu, VEC_TLB);
			this_cpu_inc(tlb_ipis_sent);
		}
	}
}

static __noinline void await_answers(struct tlb_request *r)
{
	while (__atomic_load_n(&r->pending, __ATOMIC_ACQUIRE)) {
		tlb_serve();
		/* CPUs that a panic has stopped will not answer. */
		if (unlikely(panicking()))
			break;
		cpu_relax();
	}
}

/* Carry out this CPU's request on the CPUs that have the root loaded; the others forget it. */
static __force_inline void shoot(struct tlb_cpus *cpus, struct tlb_request *r)
{
	u64 others[MAX_CPUS / CPUS_PER_WORD], own = tlb_cpus_bit(this_cpu());
	u32 own_word = this_cpu() / CPUS_PER_WORD, count = 0;
	bool here = false;

	for (u32 i = 0; i <= (num_cpus - 1) / CPUS_PER_WORD; i++) {
		others[i] = tlb_cpus_take(cpus, i);
		if (i == own_word) {
			here = others[i] & own;
			others[i] &= ~own;
		}
		if (others[i])
			count += (u32)__builtin_popcountl(others[i]);
	}
	if (count)
		ask_others(others, count, r);
	if (here && (!this_cpu_read(mm_lazy) || concerns_us(r)))
		flush_local(r);
	if (count)
		await_answers(r);
}

void tlb_shootdown(struct tlb_cpus *cpus, vaddr_t start, vaddr_t end, bool tables)
{
	struct tlb_request *r = this_cpu_ptr(tlb_request);

	/* The caller's changes to the entries come before the look at who uses them. */
	smp_mb();
	r->start = start;
	r->end = end;
	r->cpus = cpus;
	r->kind = FLUSH_RANGE;
	if (tables || end == EVERYTHING || end - start > MAX_SINGLE_PAGES * PAGE_SIZE)
		r->kind = FLUSH_ALL;
	shoot(cpus, r);
}

void tlb_flush_kernel(void)
{
	struct tlb_request *r = this_cpu_ptr(tlb_request);
	struct tlb_cpus online = { 0 };

	smp_mb();
	r->start = 0;
	r->end = EVERYTHING;
	r->cpus = NULL;
	r->kind = FLUSH_KERNEL;
	if (!cpumask_test(&cpus_online, this_cpu())) {
		flush_local(r);
		return;
	}
	for_each_cpu(cpu, &cpus_online)
		tlb_cpus_load(&online, cpu);
	shoot(&online, r);
}
