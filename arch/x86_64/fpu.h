/*
 * FPU, SSE and AVX registers. The kernel itself never uses them (it is compiled
 * without), so they hold the state of the user task that last ran on the CPU, and change
 * hands at task switches. Tasks: see task.h.
 *
 * Source: Intel SDM vol. 1, chapter 13 (XSAVE).
 */
#ifndef ARCH_FPU_H
#define ARCH_FPU_H

#include "kernel/types.h"

extern u32 fpu_size; /* bytes of a state area; constant after fpu_features_init() */

void fpu_features_init(void); /* boot CPU */
void fpu_init_cpu(void);      /* each CPU: enable what is used */
void fpu_init(void);          /* boot, after the slab allocator runs */

/* Registers to and from a 64-byte aligned area. */
void fpu_save(void *area);
void fpu_load(const void *area);

#endif
