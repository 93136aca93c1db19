/*
 * What the files of arch/ and kernel/main.c share while the machine boots.
 */
#ifndef ARCH_INIT_H
#define ARCH_INIT_H

#include "arch/x86_64/acpi.h"
#include "kernel/bootinfo.h"
#include "kernel/types.h"

/* Filled by kernel_main() on the boot CPU, read-only afterwards. */
extern struct boot_info boot_info;
extern struct acpi_info acpi_info;

/* The command line has been read: a panic from now on is no early one. */
extern bool params_ready;

/* The kernel image (linker.ld). */
extern char __boot_start[], __boot_end[], __kernel_start[], __kernel_end[], __text_start[],
	__text_end[], __rodata_start[], __rodata_end[], __data_start[], __data_end[],
	__percpu_start[], __percpu_end[], __bss_start[], __bss_end[];

static inline u64 image_phys(const void *symbol)
{
	return (u64)symbol - 0xffffffff80000000UL;
}

/*
 * Boot, before paging_init(): physical memory in the first 4 GiB, by the first
 * page tables. NULL if [phys, phys + len) does not lie there.
 */
const void *early_map(u64 phys, size_t len);

/* Uncached mapping of a device's registers, for good; NULL if out of memory. */
volatile void *map_device(u64 phys, u64 size);

/*
 * Features: cpu_features_init() reads them once; cpu_init() switches them on for
 * the CPU that runs it (control registers, syscall MSRs).
 */
void cpu_features_init(void);
void cpu_init(void);

/* Replace the instructions that depend on features; kernel text is still writable. */
void patch_init(void);

/* Descriptor tables of one CPU, in its per-CPU area; loads them. */
void descriptors_init(u32 cpu);

/* Command line of QEMU's fw_cfg file opt/faultline/cmdline into buf; length, 0 if there is none. */
size_t fwcfg_cmdline(char *buf, size_t size);

/* Number the CPUs and nodes by ACPI: num_cpus, cpu_apic_id, cpu_to_node. Boot CPU first. */
void cpus_enumerate(void);

/* Stop using the first page tables; application processors need them no more. */
void boot_tables_retire(void);

/*
 * A page of usable memory below 640 KiB for the start of other CPUs, 0 if there is
 * none. Nobody else may use it.
 */
u64 trampoline_reserve(void);

#endif
