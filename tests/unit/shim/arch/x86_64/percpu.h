/* One CPU: its per-CPU variables are plain ones. */
#ifndef ARCH_PERCPU_H
#define ARCH_PERCPU_H

#include "kernel/types.h"

#define DEFINE_PER_CPU(T, name)  T name
#define DECLARE_PER_CPU(T, name) extern T name

extern u32 cpu_number, cpu_node;

#define this_cpu_read(var)       (var)
#define this_cpu_write(var, val) ((var) = (val))
#define this_cpu_add(var, n)     ((var) += (n))
#define this_cpu_inc(var)        ((var)++)
#define this_cpu_ptr(var)        (&(var))
#define per_cpu_ptr(var, cpu)    ((void)(cpu), &(var))
#define per_cpu(var, cpu)        (*per_cpu_ptr(var, cpu))

static inline u32 this_cpu(void)
{
	return cpu_number;
}
static inline u32 this_node(void)
{
	return cpu_node;
}

#endif
