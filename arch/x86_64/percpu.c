/*
 * Per-CPU areas, and the stacks that each CPU owns: all on the CPU's own node.
 *
 * Made before the frame allocator starts, so that everything after can have state
 * per CPU from its first moment. The boot CPU moves from the linked template to its
 * own copy here; nobody may have taken the address of its instance before.
 *
 * The stacks of CPU n lie in KSTACKS + n * STACKS_STRIDE, upwards, each with an
 * unmapped page below:
 *	guard, idle (KSTACK_SIZE), guard, IST 1, guard, IST 2, guard, IST 3
 */
#include "arch/x86_64/percpu.h"

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/descriptors.h"
#include "arch/x86_64/init.h"
#include "arch/x86_64/paging.h"
#include "arch/x86_64/smp.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "mm/bootmem.h"

#define IST_SIZE      (2 * PAGE_SIZE)
#define STACKS_STRIDE (16 * PAGE_SIZE)

static_assert(PAGE_SIZE + KSTACK_SIZE + NR_IST * (PAGE_SIZE + IST_SIZE) <= STACKS_STRIDE,
	      "stacks of one CPU");

#define MSR_GS_BASE 0xc0000101

u64 percpu_offset[MAX_CPUS]; /* 0 for CPUs that are not there: the template */

DEFINE_PER_CPU(u64, percpu_self);
DEFINE_PER_CPU(u32, cpu_number);
DEFINE_PER_CPU(u32, cpu_node);

u64 idle_stack_top(u32 cpu)
{
	return KSTACKS + cpu * STACKS_STRIDE + PAGE_SIZE + KSTACK_SIZE;
}

u64 ist_stack_top(u32 cpu, int ist)
{
	return idle_stack_top(cpu) + (ist + 1) * (PAGE_SIZE + IST_SIZE);
}

static void map_stack(u64 top, u64 size, int node)
{
	phys_t memory = bootmem_alloc(size, PAGE_SIZE, node, 0);

	kernel_map(top - size, memory, size, KERNEL_RW);
}

static void make_area(u32 cpu)
{
	u64 size = (u64)(__percpu_end - __percpu_start);
	int node = cpu_to_node[cpu];
	char *area = phys_to_virt(bootmem_alloc(ALIGN_UP(size, PAGE_SIZE), PAGE_SIZE, node, 0));

	memcpy(area, __percpu_start, size);
	percpu_offset[cpu] = (u64)area - (u64)__percpu_start;
	per_cpu(percpu_self, cpu) = percpu_offset[cpu];
	per_cpu(cpu_number, cpu) = cpu;
	per_cpu(cpu_node, cpu) = (u32)node;

	map_stack(idle_stack_top(cpu), KSTACK_SIZE, node);
	for (int i = 0; i < NR_IST; i++)
		map_stack(ist_stack_top(cpu, i), IST_SIZE, node);
}

void percpu_init(void)
{
	for (u32 cpu = 0; cpu < num_cpus; cpu++)
		make_area(cpu);
	wrmsr(MSR_GS_BASE, percpu_offset[0]);
}
