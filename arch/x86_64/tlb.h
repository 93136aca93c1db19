/*
 * TLB instructions and the shootdown by interprocessor interrupt. What to
 * flush and when is decided in mm/gather.c; here it is carried out.
 *
 * Order that makes it right (SDM vol. 3, 4.10.5): the caller has changed the
 * entries, then a full barrier, then looks which CPUs use the root. A CPU that starts to
 * use it says so with a locked instruction before it loads CR3. So either the flusher sees that, or the CPU's walks
 * see the new entries (tlbcpus.h).
 */
#ifndef ARCH_TLB_H
#define ARCH_TLB_H

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/percpu.h"
#include "arch/x86_64/tlbcpus.h"
#include "kernel/types.h"
#include "mm/policy.h"

static inline void tlb_flush_page_local(vaddr_t va)
{
	__asm__ __volatile__("invlpg (%0)" ::"r"(va) : "memory");
}
void tlb_flush_all_local(void); /* non-global entries and paging-structure caches */

/*
 * PCIDs (vm.pcid): the TLB tags what it caches with 12 bits of CR3, so that loading a root need not flush. See tlbcpus.h.
 */
static inline bool tlb_uses_pcid(void) /* constant once the command line has been read */
{
	/* Without global pages the kernel's own are cached under every tag, and no flush reaches them all. */
	return cpu_features.pcid && cpu_features.pge && vm_pcid == PCID_ON;
}
u64 tlb_new_id(void);     /* for a new root; not 0 */
/*
 * Load the root with that id; good: what this CPU may have cached for it is still right. Interrupts off.
 * What other roots have cached stays, if PCIDs are used.
 */
void tlb_load_root(phys_t root, u64 id, bool good);

/*
 * Flush [start, end) (page aligned; end = ~0: everything) of a root table on all CPUs that have it
 * loaded, this one included; returns when all are done. tables: page-table pages were unlinked, so
 * paging-structure caches must go too (full flush). One IPI per CPU a call,
 * none when only this CPU has it loaded. While waiting, this CPU answers the
 * requests of others, so two CPUs that shoot at each other both get on, with
 * interrupts on or off. Counts in the per-CPU counters tlb_ipis_sent, tlb_flushes.
 */
void tlb_shootdown(struct tlb_cpus *cpus, vaddr_t start, vaddr_t end, bool tables);

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
DECLARE_PER_CPU(u64, tlb_kept);       /* roots that it loaded without a flush */

#endif
