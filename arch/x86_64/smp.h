/*
 * The processors of the machine: numbering, start-up, interprocessor calls.
 * CPU numbers are dense, 0 = boot CPU.
 */
#ifndef ARCH_SMP_H
#define ARCH_SMP_H

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/percpu.h"
#include "kernel/cpumask.h"
#include "kernel/types.h"

extern u32 num_cpus;               /* CPUs present; constant after boot */
extern struct cpumask cpus_online; /* bit set by each CPU as it comes up; constant after boot */
extern u32 cpu_apic_id[MAX_CPUS];
extern s16 cpu_to_node[MAX_CPUS];

void percpu_init(void); /* allocate every CPU's area on its node; switch the boot CPU to its own */
void smp_boot(void);    /* start all others; returns when they idle; reports those that do not */

void send_ipi(u32 cpu, u8 vector);
void send_ipi_mask(const struct cpumask *mask, u8 vector); /* skips this CPU */

/* Run fn(arg) on every other online CPU in interrupt context, and wait. Interrupts on. */
void smp_call_others(void (*fn)(void *), void *arg);

/* The same on this CPU too, with interrupts off as on the others. */
static inline void smp_call_all(void (*fn)(void *), void *arg)
{
	u64 flags = irq_save();

	fn(arg);
	irq_restore(flags);
	smp_call_others(fn, arg);
}

/* Stop all other CPUs for good (panic): NMI, halt. Never waits long. */
void smp_stop_others(void);

/* VEC_CALL. */
void smp_call_serve(void);

/* For the NMI handler: this CPU is to halt. */
bool smp_stop_requested(void);

#endif
