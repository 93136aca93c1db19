/*
 * Segment descriptors, task state segment and interrupt vectors. Each CPU has its
 * own GDT (for its TSS) in its per-CPU area; the IDT is one for all, written once.
 *
 * Source: Intel SDM vol. 3, 3.4.5 (descriptors), 7.14 (IDT, IST), 8.7 (TSS).
 */
#include "arch/x86_64/descriptors.h"

#include "arch/x86_64/init.h"
#include "arch/x86_64/percpu.h"
#include "arch/x86_64/trap.h"
#include "kernel/task.h"

struct tss {
	u32 reserved0;
	u64 rsp[3];
	u64 reserved1;
	u64 ist[7]; /* [0] is IST 1 */
	u64 reserved2;
	u16 reserved3, iomap;
} __packed;

struct gate {
	u16 offset_low, selector;
	u8 ist, type;
	u16 offset_mid;
	u32 offset_high, reserved;
};

struct table_pointer {
	u16 limit;
	u64 base;
} __packed;

#define GDT_TSS      6
#define TSS_SELECTOR (GDT_TSS * 8)

#define GATE_INTERRUPT 0x8e /* present, DPL 0, interrupts off on entry */
#define GATE_DPL3      0x60

static DEFINE_PER_CPU(struct tss, cpu_tss);
static DEFINE_PER_CPU(u64, cpu_gdt[GDT_TSS + 2]);
DEFINE_PER_CPU(u64, kernel_stack_top);

static struct gate idt[256] __attribute__((aligned(4096))); /* constant after the boot CPU's init */
extern const u64 entry_table[256];

static void build_idt(void)
{
	for (int v = 0; v < 256; v++) {
		u64 entry = entry_table[v];
		struct gate *g = &idt[v];

		g->offset_low = (u16)entry;
		g->offset_mid = (u16)(entry >> 16);
		g->offset_high = (u32)(entry >> 32);
		g->selector = KERNEL_CS;
		g->type = GATE_INTERRUPT;
	}
	idt[TRAP_BP].type |= GATE_DPL3;
	idt[TRAP_OF].type |= GATE_DPL3;
	idt[TRAP_DF].ist = IST_DOUBLE_FAULT + 1;
	idt[TRAP_NMI].ist = IST_NMI + 1;
	idt[TRAP_MC].ist = IST_MACHINE_CHECK + 1;
}

void descriptors_init(u32 cpu)
{
	struct tss *tss = per_cpu_ptr(cpu_tss, cpu);
	u64 *gdt = *per_cpu_ptr(cpu_gdt, cpu);
	struct table_pointer gdt_pointer = { sizeof(cpu_gdt) - 1, (u64)gdt };
	struct table_pointer idt_pointer = { sizeof(idt) - 1, (u64)idt };
	u64 base = (u64)tss;

	if (cpu == 0)
		build_idt();

	gdt[KERNEL_CS / 8] = 0x00af9b000000ffff;
	gdt[KERNEL_DS / 8] = 0x00cf93000000ffff;
	gdt[USER_DS / 8] = 0x00cff3000000ffff;
	gdt[USER_CS / 8] = 0x00affb000000ffff;
	/* The slot below USER_DS would be 32-bit user code for SYSRET: none. */

	tss->iomap = sizeof(*tss); /* no I/O permission map */
	for (int i = 0; i < NR_IST; i++)
		tss->ist[i] = ist_stack_top(cpu, i);
	gdt[GDT_TSS] = (sizeof(*tss) - 1) | (base & 0xffffff) << 16 | 0x89UL << 40 |
		       (base >> 24 & 0xff) << 56;
	gdt[GDT_TSS + 1] = base >> 32;

	__asm__ __volatile__("lgdt %0" ::"m"(gdt_pointer));
	__asm__ __volatile__("lidt %0" ::"m"(idt_pointer));
	__asm__ __volatile__("ltr %w0" ::"r"(TSS_SELECTOR));
	/* Reload CS by a far return; SS is the kernel's for the sake of IRETQ within it. */
	__asm__ __volatile__("pushq %0; leaq 1f(%%rip), %%rax; pushq %%rax; lretq; 1:\n\t"
			     "mov %1, %%ss"
			     :
			     : "i"(KERNEL_CS), "r"(KERNEL_DS)
			     : "rax", "memory");
}

void set_kernel_stack(u64 top)
{
	this_cpu_write(kernel_stack_top, top);
	/* The TSS wants its 8 bytes at an odd place: no atomicity is needed. */
	this_cpu_ptr(cpu_tss)->rsp[0] = top;
}
