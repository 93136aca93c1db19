/*
 * TLB instructions and the shootdown by interprocessor interrupt. What to
 * flush and when is decided in mm/gather.c; here it is carried out.
 *
 * Order that makes it right (SDM vol. 3, 4.10.5): the caller has changed the
 * entries, then a full barrier, then reads the CPU mask. A CPU that starts to
 * use the root sets its bit in the mask with a locked instruction before it
 * loads CR3. So either the flusher sees the bit, or the CPU's walks see the
 * new entries.
 */
#ifndef ARCH_TLB_H
#define ARCH_TLB_H

#include "arch/x86_64/percpu.h"
#include "kernel/cpumask.h"
#include "kernel/types.h"

static inline void tlb_flush_page_local(vaddr_t va)
{
	__asm__ __volatile__("invlpg (%0)" ::"r"(va) : "memory");
}
void tlb_flush_all_local(void); /* non-global entries and paging-structure caches */

/*
 * Flush [start, end) (page aligned; end = ~0: everything) of whatever root the
 * CPUs in mask have loaded, on all of them, this CPU included if its bit is
 * set; returns when all are done. tables: page-table pages were unlinked, so
 * paging-structure caches must go too (full flush). One IPI per CPU a call,
 * none when only this CPU is in the mask. While waiting, this CPU answers the
 * requests of others, so two CPUs that shoot at each other both get on, with
 * interrupts on or off. Counts in the per-CPU counters tlb_ipis_sent, tlb_flushes.
 */
void tlb_shootdown(const struct cpumask *mask, vaddr_t start, vaddr_t end, bool tables);

/*
 * Every CPU forgets all translations, global entries included: after kernel_unmap_noflush().
 * No spinlock held that is taken with interrupts off.
 */
void tlb_flush_kernel(void);

/* VEC_TLB, and whoever waits for other CPUs with interrupts off: answer requests. */
void tlb_serve(void);

DECLARE_PER_CPU(u64, tlb_shootdowns); /* flushes of this CPU's that concerned others */
DECLARE_PER_CPU(u64, tlb_ipis_sent);  /* interrupts it sent for them */
DECLARE_PER_CPU(u64, tlb_flushes);    /* requests of others, and its own, that it carried out */

#endif
