/*
 * The processors: numbering, start-up, calls between them. See smp.h.
 *
 * Start-up: INIT to all, a pause, STARTUP to all; they come up side by side, each
 * announcing itself in its own ap_state, which it and the boot CPU settle by compare-and-swap: a
 * CPU that has been given up finds that out and stays asleep.
 *
 * Source: Intel SDM vol. 3, 10.4 (MP initialization).
 */
#include "arch/x86_64/smp.h"

#include "arch/x86_64/acpi.h"
#include "arch/x86_64/clock.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/descriptors.h"
#include "arch/x86_64/init.h"
#include "arch/x86_64/irq.h"
#include "arch/x86_64/paging.h"
#include "arch/x86_64/tlb.h"
#include "arch/x86_64/trap.h"
#include "kernel/lock.h"
#include "kernel/printk.h"
#include "kernel/sched.h"
#include "kernel/string.h"
#include "mm/mm.h"

u32 num_cpus = 1;
struct cpumask cpus_online;
u32 cpu_apic_id[MAX_CPUS];
s16 cpu_to_node[MAX_CPUS];

u64 ap_stack[MAX_CPUS]; /* for boot/trampoline.asm */

enum ap_state { AP_ABSENT, AP_ARRIVED, AP_READY, AP_GIVEN_UP };
static u32 ap_state[MAX_CPUS]; /* atomic */

static struct trampoline_page {
	u64 phys;
} trampoline;

void cpus_enumerate(void)
{
	u32 boot_id, a, b, c, d, max;

	cpuid(0, 0, &max, &b, &c, &d);
	cpuid(1, 0, &a, &b, &c, &d);
	boot_id = b >> 24;
	if (max >= 0xb) {
		cpuid(0xb, 0, &a, &b, &c, &d);
		if (b)
			boot_id = d;
	}

	/* The boot CPU is number 0, the others follow in ACPI's order. */
	num_cpus = 1;
	cpu_apic_id[0] = boot_id;
	cpu_to_node[0] = 0;
	for (u32 i = 0; i < acpi_info.nr_enabled_cpus; i++) {
		const struct acpi_cpu *cpu = &acpi_info.cpus[i];

		if (cpu->apic_id == boot_id) {
			cpu_to_node[0] = cpu->node;
		} else if (num_cpus < MAX_CPUS) {
			cpu_apic_id[num_cpus] = cpu->apic_id;
			cpu_to_node[num_cpus++] = cpu->node;
		}
	}
	cpumask_set(&cpus_online, 0);
}

/* --- start-up ---------------------------------------------------------------- */

extern char trampoline_start[], trampoline_end[];
extern u32 trampoline_efer, trampoline_gdt_base, trampoline_far;
extern char trampoline_gdt[], trampoline_long[];

u64 trampoline_reserve(void)
{
	for (u32 i = 0; i < boot_info.nr_ranges; i++) {
		const struct boot_range *r = &boot_info.ranges[i];
		/* Not page 0, and below where BIOS data and video memory may be. */
		u64 page = ALIGN_UP(MAX(r->base, 0x1000UL), PAGE_SIZE);

		if (r->type == BOOT_MEM_USABLE && page + PAGE_SIZE <= r->base + r->len &&
		    page + PAGE_SIZE <= 0x9f000) {
			trampoline.phys = page;
			return page;
		}
	}
	return 0;
}

static void trampoline_put(u32 *field, u32 value)
{
	char *page = phys_to_virt(PHYS(trampoline.phys));

	memcpy(page + ((char *)field - trampoline_start), &value, sizeof(value));
}

static void trampoline_prepare(void)
{
	u32 base = (u32)trampoline.phys;

	memcpy(phys_to_virt(PHYS(trampoline.phys)), trampoline_start,
	       (size_t)(trampoline_end - trampoline_start));
	trampoline_put(&trampoline_gdt_base, base + (u32)(trampoline_gdt - trampoline_start));
	trampoline_put(&trampoline_far, base + (u32)(trampoline_long - trampoline_start));
	trampoline_put(&trampoline_efer, 1u << 8 | (cpu_features.nx ? 1u << 11 : 0));
}

/* Called from the trampoline, on the CPU's idle stack, interrupts off. */
void ap_main(u32 cpu)
{
	u32 state = AP_ABSENT;

	if (!atomic_try_cmpxchg(&ap_state[cpu], &state, AP_ARRIVED))
		for (;;)
			__asm__ __volatile__("cli; hlt");
	cpu_init();
	descriptors_init(cpu);
	lapic_init_cpu();
	mm_cpu_init();
	sched_init_cpu();
	cpumask_set(&cpus_online, cpu);
	smp_store_release(&ap_state[cpu], AP_READY);
	cpu_idle();
}

static u32 count_state(u32 wanted)
{
	u32 n = 0;

	for (u32 cpu = 1; cpu < num_cpus; cpu++)
		n += smp_load_acquire(&ap_state[cpu]) == wanted;
	return n;
}

/* Wait until all are ready, or nobody has become so for `patience`; true if all are. */
static bool wait_ready(u64 patience_ns)
{
	u32 seen = count_state(AP_READY);
	u64 deadline = clock_ns() + patience_ns;

	while (seen < num_cpus - 1 && clock_ns() < deadline) {
		u32 now;

		clock_delay_us(20);
		now = count_state(AP_READY);
		if (now != seen)
			deadline = clock_ns() + patience_ns;
		seen = now;
	}
	return seen == num_cpus - 1;
}

static void start_missing(void)
{
	for (u32 cpu = 1; cpu < num_cpus; cpu++)
		if (READ_ONCE(ap_state[cpu]) == AP_ABSENT)
			lapic_send_startup(cpu_apic_id[cpu], (u8)(trampoline.phys >> PAGE_SHIFT));
}

/* Those that did not come are left out; one line. One that comes later still needs its way up. */
static void give_up_missing(void)
{
	u32 missing = 0, first = 0;

	for (u32 cpu = 1; cpu < num_cpus; cpu++) {
		u32 state = AP_ABSENT;

		if (!atomic_try_cmpxchg(&ap_state[cpu], &state, AP_GIVEN_UP))
			continue;
		if (!missing++)
			first = cpu;
	}
	/* Whoever has arrived finishes on its own; it must be waited for. */
	while (count_state(AP_ARRIVED))
		cpu_relax();
	if (missing)
		printk("smp: %u of %u CPUs did not start, the first is CPU %u (APIC id %u)\n",
		       missing, num_cpus, first, cpu_apic_id[first]);
}

void smp_boot(void)
{
	if (num_cpus == 1) {
		boot_tables_retire();
		return;
	}
	if (!trampoline.phys) {
		printk("smp: no free page below 640 KiB, staying with one CPU\n");
		return;
	}
	trampoline_prepare();
	for (u32 cpu = 1; cpu < num_cpus; cpu++)
		ap_stack[cpu] = idle_stack_top(cpu);

	for (u32 cpu = 1; cpu < num_cpus; cpu++)
		lapic_send_init(cpu_apic_id[cpu]);
	clock_delay_us(100); /* enough for every 64-bit processor */
	start_missing();
	if (!wait_ready(20 * 1000000)) {
		/* The second STARTUP of the manual, for those that missed the first. */
		start_missing();
		if (!wait_ready(5000 * 1000000UL)) {
			give_up_missing();
			return;
		}
	}
	boot_tables_retire();
}

/* --- interprocessor interrupts ------------------------------------------------ */

void send_ipi(u32 cpu, u8 vector)
{
	lapic_send_fixed(cpu_apic_id[cpu], vector);
}

void send_ipi_mask(const struct cpumask *mask, u8 vector)
{
	for_each_cpu(cpu, mask)
		if (cpu != this_cpu() && cpumask_test(&cpus_online, cpu))
			send_ipi(cpu, vector);
}

static u32 call_owner; /* 0 = free, else CPU + 1: who fills the fields below; atomic */
static void (*call_fn)(void *);
static void *call_arg;
static u32 call_pending; /* atomic: CPUs that have not finished */
static DEFINE_PER_CPU(u32, call_wanted);

void smp_call_serve(void)
{
	if (!this_cpu_read(call_wanted))
		return;
	this_cpu_write(call_wanted, 0);
	call_fn(call_arg);
	atomic_sub(&call_pending, 1);
}

void smp_call_others(void (*fn)(void *), void *arg)
{
	u32 self = this_cpu(), nobody = 0, count = 0;

	/* Whoever has the turn may be waiting for this CPU: interrupts are on. */
	while (!atomic_try_cmpxchg(&call_owner, &nobody, self + 1)) {
		nobody = 0;
		cpu_relax();
	}
	call_fn = fn;
	call_arg = arg;
	for_each_cpu(cpu, &cpus_online)
		count += cpu != self;
	__atomic_store_n(&call_pending, count, __ATOMIC_SEQ_CST);
	for_each_cpu(cpu, &cpus_online) {
		if (cpu == self)
			continue;
		WRITE_ONCE(per_cpu(call_wanted, cpu), 1);
		send_ipi(cpu, VEC_CALL);
	}
	while (__atomic_load_n(&call_pending, __ATOMIC_ACQUIRE)) {
		tlb_serve();
		if (panicking())
			break;
		cpu_relax();
	}
	smp_store_release(&call_owner, 0);
}

static u32 stop_wanted; /* once set, an NMI means halt */

bool smp_stop_requested(void)
{
	return READ_ONCE(stop_wanted);
}

void smp_stop_others(void)
{
	__atomic_store_n(&stop_wanted, 1, __ATOMIC_SEQ_CST);
	for_each_cpu(cpu, &cpus_online)
		if (cpu != this_cpu())
			lapic_send_nmi(cpu_apic_id[cpu]);
}
