/*
 * The kernel half of the address space: see paging.h.
 *
 * Every root entry of the kernel half that will ever be used is made in
 * paging_init(), so that address spaces copy them once and never look again. Tables
 * below, once there, stay.
 *
 * Lock order: paging_lock is a leaf of its own (frames are allocated before it is
 * taken); flushes happen outside it.
 *
 * Source: Intel SDM vol. 3, 5.5 (4-level paging), 5.10 (TLBs).
 */
#include "arch/x86_64/paging.h"

#include <asm/errno.h>

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/init.h"
#include "arch/x86_64/tlb.h"
#include "kernel/lock.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "mm/bootmem.h"
#include "mm/page.h"

#define KERNEL_HALF 256 /* first root entry of the upper half */
#define GIANT_SHIFT 30
#define GIANT_SIZE  (1UL << GIANT_SHIFT)

/* Devices' registers lie here, one after the other; nothing is ever given back. */
#define DEVICES     (KSTACKS + (1UL << 38))
#define DEVICES_END (DEVICES + (1UL << 30))

phys_t kernel_root;
extern char boot_pml4[]; /* boot/entry.asm; its linked address is physical */

static spinlock_t paging_lock; /* guards all tables below kernel_root, and next_device */
static u64 next_device = DEVICES;
static bool from_bootmem = true;

const void *early_map(u64 phys, size_t len)
{
	if (phys >= 4 * GB || len > 4 * GB - phys)
		return NULL;
	return phys_to_virt(PHYS(phys));
}

void paging_use_frames(void)
{
	from_bootmem = false;
}

/* A cleared table, or NULL. Bootmem lies where the first page tables reach, below 4 GiB. */
static pte_t *table_alloc(void)
{
	struct page *page;

	if (from_bootmem)
		return phys_to_virt(bootmem_alloc(PAGE_SIZE, PAGE_SIZE, 0, 4 * GB));
	page = page_alloc(0, NO_NODE, ALLOC_ZERO, PG_KERNEL);
	if (!page)
		return NULL;
	atomic_add(&frames_kept, 1);
	return page_address(page);
}

static void table_free(pte_t *table)
{
	if (from_bootmem)
		return;
	atomic_sub(&frames_kept, 1);
	page_free(virt_to_page(table), 0);
}

static pte_t *entry_table(pte_t entry)
{
	return phys_to_virt(PHYS(entry.v & PTE_ADDR));
}

/*
 * The entry of va at `level`, with the tables above it made as needed; NULL: out of memory.
 * paging_lock is held and let go of while a table is allocated.
 */
static pte_t *entry_of(u64 va, unsigned level)
{
	pte_t *table = phys_to_virt(kernel_root);

	for (unsigned l = PT_LEVELS; l > level; l--) {
		pte_t *e = &table[pt_index(va, l)];

		if (!(e->v & PTE_P)) {
			pte_t *made;

			spin_unlock(&paging_lock);
			made = table_alloc();
			spin_lock(&paging_lock);
			if (e->v & PTE_P) {
				if (made)
					table_free(made);
			} else if (!made) {
				return NULL;
			} else {
				/* Access is decided by the last entry alone. */
				WRITE_ONCE(e->v, virt_to_phys(made).v | PTE_P | PTE_W | PTE_A);
			}
		}
		ASSERT(!(e->v & PTE_HUGE));
		table = entry_table(*e);
	}
	return &table[pt_index(va, level)];
}

int kernel_map(u64 va, phys_t pa, u64 size, u64 bits)
{
	u64 end = va + size;
	int err = 0;

	ASSERT(IS_ALIGNED(va | pa.v | size, PAGE_SIZE) && va >= DIRECT_MAP);
	spin_lock(&paging_lock);
	while (va != end) {
		unsigned level = 1;
		pte_t *e;

		if (IS_ALIGNED(va | pa.v, HUGE_SIZE) && end - va >= HUGE_SIZE)
			level = 2;
		e = entry_of(va, level);
		if (!e) {
			err = -ENOMEM;
			break;
		}
		ASSERT(!(e->v & PTE_P));
		WRITE_ONCE(e->v, pa.v | bits | (level > 1 ? PTE_HUGE : 0));
		va += 1UL << pt_shift(level);
		pa.v += 1UL << pt_shift(level);
	}
	spin_unlock(&paging_lock);
	return err;
}

void kernel_unmap_noflush(u64 va, u64 size)
{
	u64 end = va + size;

	spin_lock(&paging_lock);
	while (va < end) {
		pte_t *table = phys_to_virt(kernel_root);
		unsigned level = PT_LEVELS;
		pte_t *e = &table[pt_index(va, level)];

		while (level > 1 && e->v & PTE_P && !(e->v & PTE_HUGE)) {
			level--;
			e = &entry_table(*e)[pt_index(va, level)];
		}
		/* A large page goes as a whole, as it came. */
		if (e->v & PTE_P) {
			ASSERT(IS_ALIGNED(va, 1UL << pt_shift(level)) &&
			       end - va >= 1UL << pt_shift(level));
			WRITE_ONCE(e->v, 0);
		}
		va = ALIGN_DOWN(va, 1UL << pt_shift(level)) + (1UL << pt_shift(level));
	}
	spin_unlock(&paging_lock);
}

/* The entry that maps va, and at what level. */
static pte_t lookup(u64 va, unsigned *level)
{
	const pte_t *table = phys_to_virt(kernel_root);
	pte_t e = table[pt_index(va, PT_LEVELS)];

	*level = PT_LEVELS;
	while (*level > 1 && e.v & PTE_P && !(e.v & PTE_HUGE))
		e = entry_table(e)[pt_index(va, --*level)];
	return e;
}

pte_t kernel_entry(u64 va)
{
	unsigned level;

	return lookup(va, &level);
}

phys_t kernel_lookup(u64 va)
{
	unsigned level;
	pte_t e = lookup(va, &level);
	u64 offset = va & ((1UL << pt_shift(level)) - 1);

	ASSERT(e.v & PTE_P);
	return PHYS((e.v & PTE_ADDR & ~((1UL << pt_shift(level)) - 1)) + offset);
}

void kernel_unmap(u64 va, u64 size)
{
	kernel_unmap_noflush(va, size);
	tlb_flush_kernel();
}

volatile void *map_device(u64 phys, u64 size)
{
	u64 start = ALIGN_DOWN(phys, PAGE_SIZE);
	u64 bytes = ALIGN_UP(phys + size, PAGE_SIZE) - start;
	u64 va;

	spin_lock(&paging_lock);
	va = next_device;
	if (va + bytes > DEVICES_END)
		va = 0;
	else
		next_device += bytes + PAGE_SIZE;
	spin_unlock(&paging_lock);
	if (!va || kernel_map(va, PHYS(start), bytes, KERNEL_RW | PTE_PCD | PTE_PWT))
		return NULL;
	return (volatile void *)(va + phys - start);
}

void paging_init_root(pte_t *root)
{
	const pte_t *kernel = phys_to_virt(kernel_root);

	memcpy(root + KERNEL_HALF, kernel + KERNEL_HALF, KERNEL_HALF * sizeof(pte_t));
}

/* --- boot ------------------------------------------------------------------------ */

/* Direct map of [start, end), grown to whole 2 MiB pages; parts that are there already stay. */
static void map_direct(u64 start, u64 end)
{
	u64 pa = ALIGN_DOWN(start, HUGE_SIZE);

	end = ALIGN_UP(end, HUGE_SIZE);
	spin_lock(&paging_lock);
	while (pa < end) {
		u64 va = DIRECT_MAP + pa;
		pte_t *e = entry_of(va, 3);

		if (e->v & PTE_HUGE) {
			pa = ALIGN_DOWN(pa, GIANT_SIZE) + GIANT_SIZE;
			continue;
		}
		if (!(e->v & PTE_P) && cpu_features.pdpe1gb && IS_ALIGNED(pa, GIANT_SIZE) &&
		    end - pa >= GIANT_SIZE) {
			e->v = pa | KERNEL_RW | PTE_HUGE;
			pa += GIANT_SIZE;
			continue;
		}
		e = entry_of(va, 2);
		e->v = pa | KERNEL_RW | PTE_HUGE;
		pa += HUGE_SIZE;
	}
	spin_unlock(&paging_lock);
}

static void map_image(const char *start, const char *end, u64 bits)
{
	u64 va = (u64)start;

	kernel_map(va, PHYS(image_phys(start)), (u64)end - va, bits);
}

void paging_init(void)
{
	pte_t *root = table_alloc();
	u64 frames;

	kernel_root = virt_to_phys(root);

	/* The root entries: as much of the direct map and of VMEMMAP as the memory needs. */
	frames = ALIGN_UP(bootmem_top(), HUGE_SIZE) >> PAGE_SHIFT;
	spin_lock(&paging_lock);
	for (u64 va = DIRECT_MAP; va < DIRECT_MAP + (frames << PAGE_SHIFT); va += 1UL << 39)
		entry_of(va, 3);
	for (u64 va = VMEMMAP; va < VMEMMAP + frames * sizeof(struct page); va += 1UL << 39)
		entry_of(va, 3);
	entry_of(KSTACKS, 3);
	entry_of(KERNEL_VMA, 3);
	spin_unlock(&paging_lock);

	/* Memory, and what the firmware keeps in memory: its tables are read from there. */
	for (u32 i = 0; i < boot_info.nr_ranges; i++) {
		const struct boot_range *r = &boot_info.ranges[i];

		if (r->type == BOOT_MEM_USABLE || r->type == BOOT_MEM_ACPI_RECLAIM ||
		    r->type == BOOT_MEM_NVS)
			map_direct(r->base, r->base + r->len);
	}
	map_image(__text_start, __text_end, PTE_P | PTE_A | PTE_D | PTE_G);
	map_image(__rodata_start, __rodata_end, PTE_P | PTE_A | PTE_D | PTE_G | pte_nx);
	map_image(__data_start, __kernel_end, KERNEL_RW);

	load_root(kernel_root);
	/* The first page tables had no global entries, so nothing of them is left cached. */
}

void boot_tables_retire(void)
{
	pte_t *root = phys_to_virt(PHYS((u64)boot_pml4));

	memset(root, 0, PAGE_SIZE);
}
