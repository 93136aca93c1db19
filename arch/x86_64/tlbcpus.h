/*
 * Which CPUs' TLBs may hold translations of a root table: two bits for each CPU.
 *
 *	LOADED	the root is in CR3, or is about to be
 *	KEPT	it is not, but what was cached is still there, tagged with a PCID (SDM vol. 3, 4.10.1)
 *
 *	        load: LOADED up, then KEPT down ──→
 *	(KEPT)                                      (LOADED)
 *	        ←── unload: both bits at once
 *
 * A CPU changes only its own bits; a flusher takes KEPT down, for any CPU. So each CPU is in one word for itself, and what a
 * flusher reads is true at one instant, which is after its changes to the entries. At that instant a CPU is
 *	LOADED	it is sent the flush; if it has left since, it takes its own KEPT down instead
 *	KEPT	the flusher takes that down: the CPU flushes when it loads the root again
 *	neither	it cached nothing that it may still use, and its next walks see the new entries
 * A CPU that loads the root reads KEPT in the instruction that sets LOADED. So either the flusher took KEPT down before, and the
 * CPU flushes, or the flusher sees LOADED.
 *
 * All operations are atomic, and full barriers where they change something; the others only look.
 */
#ifndef ARCH_TLBCPUS_H
#define ARCH_TLBCPUS_H

#include "kernel/types.h"

#define CPUS_PER_WORD 32

struct tlb_cpus {
	u64 word[MAX_CPUS / CPUS_PER_WORD]; /* CPU n: bits 2n (LOADED) and 2n + 1 (KEPT) */
};

#define ALL_LOADED 0x5555555555555555UL
#define ALL_KEPT   (ALL_LOADED << 1)

static inline u64 *tlb_cpus_word(struct tlb_cpus *c, u32 cpu)
{
	return &c->word[cpu / CPUS_PER_WORD];
}
static inline u64 tlb_cpus_bit(u32 cpu)
{
	return 1UL << cpu % CPUS_PER_WORD * 2;
}

/* This CPU, which does not have the root loaded, is about to load it. True: what it had cached is still good. Interrupts off until CR3 is written. */
static inline bool tlb_cpus_load(struct tlb_cpus *c, u32 cpu)
{
	u64 bit = tlb_cpus_bit(cpu);
	/* The bit is down, so adding sets it; and one instruction gives the old word, which OR cannot. */
	u64 old = __atomic_fetch_add(tlb_cpus_word(c, cpu), bit, __ATOMIC_SEQ_CST);

	if (!(old & bit << 1))
		return false;
	__atomic_fetch_and(tlb_cpus_word(c, cpu), ~(bit << 1), __ATOMIC_SEQ_CST);
	return true;
}

/* It has loaded another. keep: what is cached stays, and is good. */
static inline void tlb_cpus_unload(struct tlb_cpus *c, u32 cpu, bool keep)
{
	u64 bit = tlb_cpus_bit(cpu);

	__atomic_fetch_xor(tlb_cpus_word(c, cpu), keep ? bit | bit << 1 : bit, __ATOMIC_SEQ_CST);
}

/* What this CPU has cached is not good any more. */
static inline void tlb_cpus_forget(struct tlb_cpus *c, u32 cpu)
{
	u64 kept = tlb_cpus_bit(cpu) << 1;

	if (__atomic_load_n(tlb_cpus_word(c, cpu), __ATOMIC_RELAXED) & kept)
		__atomic_fetch_and(tlb_cpus_word(c, cpu), ~kept, __ATOMIC_SEQ_CST);
}

/*
 * For a flusher, after a full barrier: the LOADED bits of word w; those that are KEPT forget. With nothing KEPT, as
 * always without PCIDs, it only reads.
 */
static inline u64 tlb_cpus_take(struct tlb_cpus *c, u32 w)
{
	u64 now = __atomic_load_n(&c->word[w], __ATOMIC_RELAXED);

	while ((now & ALL_KEPT) &&
	       !__atomic_compare_exchange_n(&c->word[w], &now, now & ~ALL_KEPT, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED))
		;
	return now & ALL_LOADED;
}

/*
 * The tags (PCIDs) of one CPU. A root gets the next in turn. Nothing but its id says whose a tag is: an id is never used again, so
 * an address space may go away without a word.
 */
#define TLB_TAGS 6 /* 1 to 6; 0 is the kernel's own root */

struct tlb_tags {
	u64 owner[TLB_TAGS]; /* id of the root that tag n + 1 was given to; 0: none */
	u32 next;
};

/* The tag of the root with that id. *good, that what is cached for the root is right: false if the tag was another's. */
static inline u32 tlb_tag_for(struct tlb_tags *t, u64 id, bool *good)
{
	u32 i = 0;

	while (i < TLB_TAGS && t->owner[i] != id)
		i++;
	if (i == TLB_TAGS) {
		i = t->next;
		t->next = (i + 1) % TLB_TAGS;
		t->owner[i] = id;
		*good = false;
	}
	return i + 1;
}

static inline bool tlb_cpus_none_loaded(const struct tlb_cpus *c)
{
	for (u32 w = 0; w < MAX_CPUS / CPUS_PER_WORD; w++)
		if (__atomic_load_n(&c->word[w], __ATOMIC_RELAXED) & ALL_LOADED)
			return false;
	return true;
}

#endif
