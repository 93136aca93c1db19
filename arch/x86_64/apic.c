/*
 * Local and I/O APICs: see irq.h.
 *
 * Lock order: none. The I/O APICs are touched by the boot CPU while it boots; a
 * local APIC by its own CPU. On xAPIC an IPI is two writes to ICR that an
 * interrupt handler's IPI must not come between, so interrupts are off there.
 */
#include "arch/x86_64/irq.h"

#include "arch/x86_64/acpi.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/init.h"
#include "arch/x86_64/paging.h"
#include "arch/x86_64/percpu.h"
#include "arch/x86_64/smp.h"
#include "arch/x86_64/trap.h"
#include "kernel/param.h"
#include "kernel/printk.h"

#define MSR_APIC_BASE   0x1b
#define APIC_BASE_X2    (1u << 10)
#define APIC_BASE_ON    (1u << 11)
#define MSR_X2APIC      0x800 /* + register offset / 16 */

enum lapic_reg {
	LAPIC_ID = 0x20,
	LAPIC_TPR = 0x80,
	LAPIC_EOI = 0xb0,
	LAPIC_SVR = 0xf0,
	LAPIC_ESR = 0x280,
	LAPIC_LVT_CMCI = 0x2f0,
	LAPIC_ICR = 0x300,
	LAPIC_ICR_HIGH = 0x310,
	LAPIC_LVT_TIMER = 0x320,
	LAPIC_LVT_LINT0 = 0x350,
	LAPIC_LVT_LINT1 = 0x360,
	LAPIC_LVT_ERROR = 0x370,
	LAPIC_TIMER_INITIAL = 0x380,
	LAPIC_TIMER_CURRENT = 0x390,
	LAPIC_TIMER_DIVIDE = 0x3e0,
};

#define LVT_MASKED     (1u << 16)
#define ICR_BUSY       (1u << 12)
#define ICR_ASSERT     (1u << 14)
#define ICR_NMI        (4u << 8)
#define ICR_INIT       (5u << 8)
#define ICR_STARTUP    (6u << 8)
#define SVR_ENABLE     (1u << 8)

static bool x2apic;              /* constant after irq_init() */
static volatile u32 *lapic_mmio; /* likewise; NULL with x2APIC */

PARAM_ENUM(apic_mode, "apic", 0, 0, "auto", "xapic", "x2apic");

static u32 lapic_read(enum lapic_reg reg)
{
	if (x2apic)
		return (u32)rdmsr(MSR_X2APIC + reg / 16);
	return lapic_mmio[reg / 4];
}

static void lapic_write(enum lapic_reg reg, u32 value)
{
	if (x2apic)
		wrmsr(MSR_X2APIC + reg / 16, value);
	else
		lapic_mmio[reg / 4] = value;
}

void lapic_init_cpu(void)
{
	u64 base = rdmsr(MSR_APIC_BASE);

	/* x2APIC is reached through xAPIC only: SDM vol. 3, 12.12.5. */
	wrmsr(MSR_APIC_BASE, base | APIC_BASE_ON);
	if (x2apic)
		wrmsr(MSR_APIC_BASE, base | APIC_BASE_ON | APIC_BASE_X2);
	lapic_write(LAPIC_TPR, 0);
	lapic_write(LAPIC_LVT_TIMER, LVT_MASKED | VEC_TIMER);
	lapic_write(LAPIC_LVT_LINT0, LVT_MASKED);
	lapic_write(LAPIC_LVT_LINT1, LVT_MASKED);
	lapic_write(LAPIC_LVT_ERROR, LVT_MASKED);
	lapic_write(LAPIC_TIMER_DIVIDE, 0xb); /* by 1 */
	lapic_write(LAPIC_SVR, SVR_ENABLE | VEC_SPURIOUS);
}

u32 lapic_id(void)
{
	u32 id = lapic_read(LAPIC_ID);

	return x2apic ? id : id >> 24;
}

void lapic_eoi(void)
{
	lapic_write(LAPIC_EOI, 0);
}

void lapic_timer_start(u32 count)
{
	if (count)
		lapic_write(LAPIC_LVT_TIMER, VEC_TIMER);
	lapic_write(LAPIC_TIMER_INITIAL, count);
}

u32 lapic_timer_left(void)
{
	return lapic_read(LAPIC_TIMER_CURRENT);
}

static void send(u32 apic_id, u32 command)
{
	u64 flags;

	if (x2apic) {
		/* WRMSR to x2APIC registers is not serializing: what the IPI is about must be
		 * visible first (SDM vol. 3, 12.12.3). */
		smp_mb();
		wrmsr(MSR_X2APIC + LAPIC_ICR / 16, (u64)apic_id << 32 | command);
		return;
	}
	flags = irq_save();
	while (lapic_read(LAPIC_ICR) & ICR_BUSY)
		cpu_relax();
	lapic_write(LAPIC_ICR_HIGH, apic_id << 24);
	lapic_write(LAPIC_ICR, command);
	irq_restore(flags);
}

void lapic_send_fixed(u32 apic_id, u8 vector)
{
	send(apic_id, ICR_ASSERT | vector);
}

void lapic_send_nmi(u32 apic_id)
{
	send(apic_id, ICR_ASSERT | ICR_NMI);
}

void lapic_send_init(u32 apic_id)
{
	send(apic_id, ICR_ASSERT | ICR_INIT);
}

void lapic_send_startup(u32 apic_id, u8 page)
{
	send(apic_id, ICR_ASSERT | ICR_STARTUP | page);
}

/* --- I/O APICs ------------------------------------------------------------ */

#define IOAPIC_VERSION 1
#define IOAPIC_ENTRY   0x10 /* + 2 * input: low word, high word */
#define ENTRY_MASKED   (1u << 16)
#define ENTRY_LEVEL    (1u << 15)
#define ENTRY_LOW      (1u << 13)

static volatile u32 *ioapic_mmio[ACPI_MAX_IOAPICS]; /* constant after irq_init() */
static u32 ioapic_inputs[ACPI_MAX_IOAPICS];

static u32 ioapic_read(u32 n, u32 reg)
{
	ioapic_mmio[n][0] = reg;
	return ioapic_mmio[n][4];
}

static void ioapic_write(u32 n, u32 reg, u32 value)
{
	ioapic_mmio[n][0] = reg;
	ioapic_mmio[n][4] = value;
}

void irq_route_isa(u8 irq, u8 vector)
{
	u32 gsi = irq, flags = 0;

	for (u32 i = 0; i < acpi_info.nr_isos; i++) {
		const struct acpi_iso *iso = &acpi_info.isos[i];

		if (iso->irq != irq)
			continue;
		gsi = iso->gsi;
		flags = (iso->active_low ? ENTRY_LOW : 0) | (iso->level ? ENTRY_LEVEL : 0);
	}
	for (u32 i = 0; i < acpi_info.nr_ioapics; i++) {
		u32 base = acpi_info.ioapics[i].gsi_base;
		/* Destinations of I/O APICs have 8 bits; the boot CPU's id is always low. */
		u32 dest = cpu_apic_id[0];

		if (!ioapic_mmio[i] || gsi < base || gsi - base >= ioapic_inputs[i])
			continue;
		if (dest > 0xff)
			break;
		ioapic_write(i, IOAPIC_ENTRY + 2 * (gsi - base) + 1, dest << 24);
		ioapic_write(i, IOAPIC_ENTRY + 2 * (gsi - base), flags | vector);
		return;
	}
	printk("irq: no I/O APIC input for ISA interrupt %u\n", irq);
}

static void ioapics_init(void)
{
	for (u32 i = 0; i < acpi_info.nr_ioapics; i++) {
		ioapic_mmio[i] = map_device(acpi_info.ioapics[i].phys, 0x1000);
		if (!ioapic_mmio[i])
			continue;
		ioapic_inputs[i] = (ioapic_read(i, IOAPIC_VERSION) >> 16 & 0xff) + 1;
		for (u32 n = 0; n < ioapic_inputs[i]; n++)
			ioapic_write(i, IOAPIC_ENTRY + 2 * n, ENTRY_MASKED);
	}
}

/* Give the old controllers vectors out of the way and mask them. */
static void mask_8259(void)
{
	outb(0x20, 0x11);
	outb(0xa0, 0x11);
	outb(0x21, 0x20);
	outb(0xa1, 0x28);
	outb(0x21, 4);
	outb(0xa1, 2);
	outb(0x21, 1);
	outb(0xa1, 1);
	outb(0x21, 0xff);
	outb(0xa1, 0xff);
}

void irq_init(void)
{
	bool is_on = rdmsr(MSR_APIC_BASE) & APIC_BASE_X2;

	/* Once on it can only be left through a reset of the APIC: keep it. */
	x2apic = is_on || (cpu_features.x2apic && apic_mode != 1);
	if (!x2apic) {
		if (apic_mode == 2)
			printk("irq: this CPU has no x2APIC\n");
		lapic_mmio = map_device(acpi_info.lapic_phys, 0x1000);
		if (!lapic_mmio)
			panic("irq: cannot map the local APIC at %#lx", acpi_info.lapic_phys);
	}
	mask_8259();
	ioapics_init();
	lapic_init_cpu();
}
