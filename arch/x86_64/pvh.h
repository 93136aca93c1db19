/*
 * What a PVH loader (qemu -kernel) hands over: the physical address of a
 * struct hvm_start_info in EBX, 32-bit protected mode, paging off.
 * Source: Xen, docs/misc/pvh and public/arch-x86/hvm/start_info.h.
 */
#ifndef ARCH_PVH_H
#define ARCH_PVH_H

#include "kernel/bootinfo.h"

#define PVH_MAGIC 0x336ec578u /* first word of the structure */

/*
 * Copy what is useful into *out: command line, first module as initramfs, memory
 * map (version 1), ACPI root pointer. The ranges come out normalised and at least
 * one is usable.
 *
 * map(phys, len) gives a pointer to that memory, good until the next call, or
 * NULL if it may not be read.
 * Always fills *out. Returns 0; -EINVAL if the structure itself is unusable (then
 * *out is the fallback). Anything else malformed gives one line (boot_warn).
 */
int pvh_parse(u64 start_info, const void *(*map)(u64 phys, size_t len), struct boot_info *out);

#endif
