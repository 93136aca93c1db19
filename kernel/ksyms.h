/*
 * Names for kernel code addresses, for backtraces.
 *
 * The table is made by the build: the kernel is linked once with an empty
 * table, tests/ksyms.sh turns its text symbols into build/.../ksyms.S, and a
 * second link takes that in. .text lies below .rodata, so the larger table
 * moves no code; the Makefile checks that both links agree.
 *
 * Read-only after link: no locks, usable at any time, in a panic too.
 */
#ifndef KERNEL_KSYMS_H
#define KERNEL_KSYMS_H

#include "kernel/types.h"

/*
 * The function that holds `addr`, and in *offset (if not NULL) how far into it.
 * NULL if addr is not in kernel text. The string is static.
 */
const char *ksym_lookup(u64 addr, u64 *offset);

/* Address of the function called `name`, 0 if there is none. Linear, for debugging only. */
u64 ksym_address(const char *name);

#endif
