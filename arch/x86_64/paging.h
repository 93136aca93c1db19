/*
 * Page-table entries of x86-64, four levels, and where things lie in the
 * address space. Source: Intel SDM vol. 3, chapter 4.
 *
 *   level 4  root (PML4)   512 GB an entry      level 2  PMD   2 MB an entry
 *   level 3  PUD             1 GB an entry      level 1  PTE   4 KB an entry
 */
#ifndef ARCH_PAGING_H
#define ARCH_PAGING_H

#include "kernel/types.h"

#define PAGE_SHIFT 12
#define PAGE_SIZE  4096UL
#define PAGE_MASK  (~(PAGE_SIZE - 1))
#define HUGE_SHIFT 21
#define HUGE_SIZE  (1UL << HUGE_SHIFT)
#define PT_ENTRIES 512
#define PT_LEVELS  4

/* One page-table entry of any level. */
typedef struct {
	u64 v;
} pte_t;

#define PTE_P      (1UL << 0)
#define PTE_W      (1UL << 1)
#define PTE_U      (1UL << 2)
#define PTE_PWT    (1UL << 3)
#define PTE_PCD    (1UL << 4)
#define PTE_A      (1UL << 5)
#define PTE_D      (1UL << 6)
#define PTE_HUGE   (1UL << 7) /* in a PMD or PUD entry: maps memory, not a table */
#define PTE_G      (1UL << 8)
#define PTE_NX     (1UL << 63)
#define PTE_ADDR   0x000ffffffffff000UL
/* Bits 9-11 and 52-58 are the kernel's own. */
#define PTE_SPECIAL  (1UL << 9)  /* the shared zero frame: neither counted nor freed */
#define PTE_PROTNONE (1UL << 10) /* maps a frame, but P is clear: PROT_NONE */

/* Is there something in the entry at all? Not-present ones with bits are PTE_PROTNONE. */
static inline bool pte_none(pte_t e)
{
	return e.v == 0;
}
static inline phys_t pte_phys(pte_t e)
{
	return PHYS(e.v & PTE_ADDR);
}
/* An upper entry that points to a table (else empty or a huge page). */
static inline bool pte_is_table(pte_t e)
{
	return (e.v & (PTE_P | PTE_HUGE)) == PTE_P;
}

/* NX where the CPU has it, else 0; set once at boot. */
extern u64 pte_nx;

/* Page-fault error code, SDM vol. 3, 4.7. */
#define PF_PRESENT 1
#define PF_WRITE   2
#define PF_USER    4
#define PF_RSVD    8
#define PF_FETCH   16

/* Span of one entry at a level (1..4), in bytes, as a shift. */
static inline unsigned pt_shift(unsigned level)
{
	return PAGE_SHIFT + 9 * (level - 1);
}
static inline unsigned pt_index(vaddr_t va, unsigned level)
{
	return (va >> pt_shift(level)) & (PT_ENTRIES - 1);
}

/*
 * User space ends one page below the 47-bit limit, as on Linux, so that no
 * SYSCALL instruction can have a non-canonical return address.
 */
#define USER_END 0x7ffffffff000UL

#define DIRECT_MAP 0xffff888000000000UL /* all physical memory, at this offset */
#define VMEMMAP    0xffffea0000000000UL /* array of frame descriptors, indexed by frame number */
#define KSTACKS    0xffffc90000000000UL /* kernel stacks with guard pages; other dynamic maps */
#define KERNEL_VMA 0xffffffff80000000UL /* the kernel image */

#ifndef HOST_TEST
static inline void *phys_to_virt(phys_t p)
{
	return (void *)(p.v + DIRECT_MAP);
}
/* Only for addresses inside the direct map. */
static inline phys_t virt_to_phys(const void *v)
{
	return PHYS((u64)v - DIRECT_MAP);
}
#else
extern u64 host_direct_map;
#define phys_to_virt(p) ((void *)((p).v + host_direct_map))
#define virt_to_phys(v) PHYS((u64)(v)-host_direct_map)
#endif

#define KERNEL_RW (PTE_P | PTE_W | PTE_A | PTE_D | PTE_G | pte_nx)

/*
 * Build the kernel's final page tables: direct map of all memory in 1 GB or
 * 2 MB pages (no execute), kernel text read-only, rodata and data not
 * executable; all kernel root entries are present from here on and never
 * change, so each address space copies them once. Boot CPU, before mm starts.
 */
void paging_init(void);

/*
 * Map [va, va + size) of the kernel half to consecutive physical memory at pa
 * with the given entry bits, in 2 MB pages where both are aligned to it, else
 * 4 KB. Tables come from bootmem at boot, later from the frame allocator.
 * Returns 0 or -ENOMEM. Takes its own lock.
 */
int kernel_map(u64 va, phys_t pa, u64 size, u64 bits);

/* Undo kernel_map; flushes all CPUs. Tables stay. */
void kernel_unmap(u64 va, u64 size);

/* The same without the flush: the range is not used again before a tlb_flush_kernel(). */
void kernel_unmap_noflush(u64 va, u64 size);

/* The entry that maps a kernel address, or the empty one where the walk ends; for checks. */
pte_t kernel_entry(u64 va);

/* Physical address that a mapped kernel address (by kernel_map()) stands for. */
phys_t kernel_lookup(u64 va);

/* Boot: from now on tables come from the frame allocator; right after mm_init(). */
void paging_use_frames(void);

/* Root table of the kernel alone: what idle CPUs run on. */
extern phys_t kernel_root;

/* Set the kernel half of a new root table (virtual address of its frame). */
void paging_init_root(pte_t *root);

/* Load a root table into CR3 (a full flush of non-global entries). */
static inline void load_root(phys_t root)
{
	__asm__ __volatile__("mov %0, %%cr3" ::"r"(root.v) : "memory");
}

#endif
