/*
 * What any loader tells us, copied out of the loader's memory. GRUB (multiboot2)
 * and QEMU's direct boot (PVH) each fill one; nothing behind it knows which.
 *
 * Plain data of fixed size, no pointers: the loader's own memory may be reused
 * as soon as the parser returns. Written once by the boot CPU before any other
 * CPU runs, read-only afterwards.
 */
#ifndef KERNEL_BOOTINFO_H
#define KERNEL_BOOTINFO_H

#include "kernel/types.h"

#define BOOT_CMDLINE_MAX 4096
#define BOOT_RANGES_MAX  256
#define BOOT_LOADER_MAX  64
#define BOOT_RSDP_MAX    36

/* The numbers are those of the firmware's memory map (E820). */
enum boot_mem_type {
	BOOT_MEM_USABLE = 1,
	BOOT_MEM_RESERVED = 2,
	BOOT_MEM_ACPI_RECLAIM = 3, /* ACPI tables: usable once they are read */
	BOOT_MEM_NVS = 4,          /* firmware's own: never touch */
	BOOT_MEM_BAD = 5,
};

struct boot_range {
	u64 base; /* physical address, any alignment */
	u64 len;  /* bytes */
	enum boot_mem_type type;
};

#define BOOT_FROM_MULTIBOOT2 (1u << 0)
#define BOOT_FROM_PVH        (1u << 1)
#define BOOT_EFI             (1u << 2) /* the loader came from UEFI */
#define BOOT_MAP_FALLBACK    (1u << 3) /* no memory map given: ranges are a guess */
#define BOOT_CMDLINE_CUT     (1u << 4) /* the command line was too long */
#define BOOT_MAP_CUT         (1u << 5) /* the memory map did not fit */

struct boot_info {
	char cmdline[BOOT_CMDLINE_MAX]; /* zero-terminated */
	char loader[BOOT_LOADER_MAX];   /* name and version, zero-terminated */
	u32 flags;                      /* BOOT_* */
	u32 nr_ranges;
	struct boot_range ranges[BOOT_RANGES_MAX];
	u64 initrd_phys, initrd_len;    /* length 0: none */
	u64 rsdp_phys;                  /* 0: not told */
	u32 rsdp_len;                   /* 0, 20 or 36: bytes in rsdp[] */
	u8 rsdp[BOOT_RSDP_MAX];         /* copy made by the loader */
};

/*
 * One line for the log about something malformed that the caller works around.
 * No newline at the end. Supplied by the early console; by the test on a host.
 */
void boot_warn(const char *fmt, ...) __printf(1, 2);

/* Short name of a type: "usable", "reserved", ... */
const char *boot_mem_type_name(enum boot_mem_type type);

/*
 * Add one range as the firmware gives it. Empty ranges are dropped, ranges that
 * leave the 52-bit physical address space are cut, an unknown type counts as
 * reserved. Returns 0, or -ENOSPC if the array is full (with one line, once).
 */
int bootinfo_add_range(struct boot_info *info, u64 base, u64 len, u32 type);

/*
 * Sort the ranges, make them disjoint and merge neighbours of one type. Where
 * ranges overlap the most restrictive type wins: bad, reserved, NVS, ACPI, usable.
 * If the result does not fit, the highest pieces are dropped with one line:
 * what is not listed is not used. Boot CPU only (static scratch space).
 */
void bootinfo_normalise(struct boot_info *info);

/* For the parsers: if no range is usable, say so and assume a small machine. */
void bootinfo_require_memory(struct boot_info *info);

/* For the parsers: copy a command line of len characters, cut to size with one line. */
void bootinfo_set_cmdline(struct boot_info *info, const char *text, size_t len);

#endif
