/*
 * Per-CPU variables. Each CPU has its own copy of section .percpu, on its own
 * node; GS base holds the distance from the linked template to that copy, so
 * `%gs:variable` is this CPU's instance in one instruction.
 *
 * The kernel is not preemptible, so code running on a CPU stays there until it
 * sleeps. Only an interrupt handler can get in between: variables that one
 * touches are changed with a single instruction or with interrupts off.
 */
#ifndef ARCH_PERCPU_H
#define ARCH_PERCPU_H

#include "kernel/types.h"

#define DEFINE_PER_CPU(T, name)  __attribute__((section(".percpu"))) T name
#define DECLARE_PER_CPU(T, name) extern __attribute__((section(".percpu"))) T name

/* Distance from the template to the copy of each CPU; written before the CPU starts. */
extern u64 percpu_offset[MAX_CPUS];

/* This CPU's own offset and number, as per-CPU variables themselves. */
DECLARE_PER_CPU(u64, percpu_self);
DECLARE_PER_CPU(u32, cpu_number);
DECLARE_PER_CPU(u32, cpu_node);

#define this_cpu_read(var)                                                                         \
	({                                                                                         \
		__typeof__(var) v_;                                                                \
		__asm__ __volatile__("mov %%gs:%1, %0" : "=r"(v_) : "m"(var));                     \
		v_;                                                                                \
	})
#define this_cpu_write(var, val)                                                                   \
	do {                                                                                       \
		__typeof__(var) v_ = (val);                                                        \
		__asm__ __volatile__("mov %1, %%gs:%0" : "+m"(var) : "r"(v_));                     \
	} while (0)
#define this_cpu_add(var, n)                                                                       \
	do {                                                                                       \
		__typeof__(var) n_ = (__typeof__(var))(n);                                         \
		__asm__ __volatile__("add %1, %%gs:%0" : "+m"(var) : "r"(n_) : "cc");              \
	} while (0)
#define this_cpu_inc(var) this_cpu_add(var, 1)

#define this_cpu_ptr(var)     ((__typeof__(&(var)))((u64) & (var) + this_cpu_read(percpu_self)))
#define per_cpu_ptr(var, cpu) ((__typeof__(&(var)))((u64) & (var) + percpu_offset[cpu]))
#define per_cpu(var, cpu)     (*per_cpu_ptr(var, cpu))

/* Number of the CPU this runs on, 0 .. num_cpus - 1; and its NUMA node. */
static inline u32 this_cpu(void)
{
	return this_cpu_read(cpu_number);
}
static inline u32 this_node(void)
{
	return this_cpu_read(cpu_node);
}

#endif
