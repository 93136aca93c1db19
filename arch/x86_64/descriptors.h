/*
 * Descriptor tables and the stacks that the hardware switches to.
 */
#ifndef ARCH_DESCRIPTORS_H
#define ARCH_DESCRIPTORS_H

#include "arch/x86_64/percpu.h"
#include "kernel/types.h"

/* Stacks of their own for what may come at any instruction. */
enum { IST_DOUBLE_FAULT, IST_NMI, IST_MACHINE_CHECK, NR_IST };

/* Upper end of such a stack of a CPU (percpu.c). */
u64 ist_stack_top(u32 cpu, int ist);

/* Upper end of the stack that a CPU starts on: its idle task's (percpu.c). */
u64 idle_stack_top(u32 cpu);

/* Where this CPU's entries from user mode start; 16-byte aligned. Interrupts off. */
void set_kernel_stack(u64 top);
DECLARE_PER_CPU(u64, kernel_stack_top);

#endif
