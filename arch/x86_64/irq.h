/*
 * Interrupt controllers: each CPU's local APIC (xAPIC by memory or x2APIC by
 * MSR), the I/O APICs, the 8259 pair. Source: Intel SDM vol. 3, chapter 12;
 * Intel 82093AA data sheet.
 */
#ifndef ARCH_IRQ_H
#define ARCH_IRQ_H

#include "kernel/types.h"

/*
 * Boot CPU, once: choose between xAPIC and x2APIC, mask the 8259s and all I/O
 * APIC inputs. Needs ACPI and page tables.
 */
void irq_init(void);

/* Each CPU for itself, interrupts off: switch its local APIC on. */
void lapic_init_cpu(void);

/* Local APIC id of this CPU, as the APIC tells it. */
u32 lapic_id(void);

/* End of interrupt: every handler of an external interrupt or IPI, before it returns. */
void lapic_eoi(void);

/*
 * The local timer, one-shot, in its own ticks (bus clock / 1). count 0 stops it.
 * Masked until the first lapic_timer_start().
 */
void lapic_timer_start(u32 count);
u32 lapic_timer_left(void);

/* Raw interprocessor interrupts by APIC id. Never block but on the xAPIC's busy bit. */
void lapic_send_fixed(u32 apic_id, u8 vector);
void lapic_send_nmi(u32 apic_id);
void lapic_send_init(u32 apic_id);
void lapic_send_startup(u32 apic_id, u8 page); /* start in real mode at page * 4096 */

/*
 * Deliver ISA interrupt `irq` to the boot CPU as `vector`, by ACPI's overrides
 * for its input, polarity and trigger. One line if no I/O APIC serves it.
 */
void irq_route_isa(u8 irq, u8 vector);

#endif
