/*
 * Leaving: see power.h. Sources: QEMU hw/misc/debugexit.c; ACPI specification 6.5,
 * 4.8.3.2 (PM1 control), 4.8.3.6 (reset register), 16.1.7 (S5).
 */
#include "arch/x86_64/power.h"

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/init.h"
#include "arch/x86_64/paging.h"
#include "arch/x86_64/smp.h"
#include "kernel/panic.h"
#include "kernel/printk.h"

#define DEBUG_EXIT 0x501

#define PM1_SLEEP_TYPE(type) ((u16)(type) << 10)
#define PM1_TYPE_MASK        (7u << 10)
#define PM1_SLEEP_ENABLE     (1u << 13)

void machine_halt(void)
{
	for (;;)
		__asm__ __volatile__("cli; hlt" ::: "memory");
}

static void wait_a_little(void)
{
	for (u32 i = 0; i < 100000; i++)
		inb(0x80); /* about a microsecond each on a PC */
}

static u16 read_io16(const struct acpi_reg *reg)
{
	return reg->address && reg->space == ACPI_SPACE_IO ? inw((u16)reg->address) : 0;
}

static void write_io16(const struct acpi_reg *reg, u16 value)
{
	if (reg->address && reg->space == ACPI_SPACE_IO)
		outw((u16)reg->address, value);
}

static void try_acpi_off(void)
{
	const struct acpi_info *a = &acpi_info;
	u16 control;

	if (!a->has_s5 || !a->pm1a_control.address)
		return;
	/* Firmware in legacy mode must hand the registers over first (SCI_EN). */
	if (a->smi_command && a->acpi_enable && !(read_io16(&a->pm1a_control) & 1)) {
		outb(a->smi_command, a->acpi_enable);
		for (u32 i = 0; i < 100000 && !(read_io16(&a->pm1a_control) & 1); i++)
			inb(0x80);
	}
	control = read_io16(&a->pm1a_control) & (u16)~PM1_TYPE_MASK;
	write_io16(&a->pm1a_control, control | PM1_SLEEP_TYPE(a->s5_type_a) | PM1_SLEEP_ENABLE);
	control = read_io16(&a->pm1b_control) & (u16)~PM1_TYPE_MASK;
	write_io16(&a->pm1b_control, control | PM1_SLEEP_TYPE(a->s5_type_b) | PM1_SLEEP_ENABLE);
	wait_a_little();
}

static void try_reset(void)
{
	const struct acpi_reg *reg = &acpi_info.reset;
	struct {
		u16 limit;
		u64 base;
	} __packed no_idt = { 0, 0 };

	if (reg->address && reg->space == ACPI_SPACE_IO) {
		outb((u16)reg->address, acpi_info.reset_value);
		wait_a_little();
	}
	outb(0xcf9, 0x06); /* PCI reset */
	wait_a_little();
	outb(0x64, 0xfe); /* keyboard controller */
	wait_a_little();
	__asm__ __volatile__("lidt %0; int3" ::"m"(no_idt)); /* triple fault */
}

void machine_reset(void)
{
	irq_disable();
	smp_stop_others();
	try_reset();
	machine_halt();
}

void machine_power_off(void)
{
	irq_disable();
	smp_stop_others();
	try_acpi_off();
	try_reset();
	machine_halt();
}

void machine_exit(u8 value)
{
	irq_disable();
	outw(DEBUG_EXIT, value);
	wait_a_little();
	machine_power_off();
}

void machine_exit_status(u32 status)
{
	machine_exit(EXIT_STATUS | (u8)MIN(status, 0x3fu));
}

/* Without the device the machine stays as it is, so that the report can be read. */
void machine_exit_panic(bool early)
{
	irq_disable();
	outw(DEBUG_EXIT, early || !params_ready ? EXIT_PANIC_EARLY : EXIT_PANIC);
	wait_a_little();
	machine_halt();
}
