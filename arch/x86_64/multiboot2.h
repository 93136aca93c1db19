/*
 * What a multiboot2 loader (GRUB) hands over.
 * Source: Multiboot2 Specification 2.0, section 3.6.
 */
#ifndef ARCH_MULTIBOOT2_H
#define ARCH_MULTIBOOT2_H

#include "kernel/bootinfo.h"

#define MULTIBOOT2_MAGIC 0x36d76289u /* in EAX at the entry point */

/*
 * Copy what is useful from the information structure at `info` into *out: the
 * command line, the first module as initramfs, the memory map (else the EFI map,
 * else the two sizes), the ACPI root pointer, the loader's name. The ranges come
 * out normalised and at least one is usable.
 *
 * max_len: how many bytes at info may be read at most.
 * Always fills *out. Returns 0; -EINVAL if the structure itself is unusable (then
 * *out is the fallback). Anything else malformed gives one line (boot_warn).
 */
int multiboot2_parse(const void *info, size_t max_len, struct boot_info *out);

#endif
