/*
 * What the ACPI tables say about the machine: CPUs, nodes, memory, clocks,
 * interrupt controllers, power-off. Read once at boot into one static structure;
 * no table is looked at again.
 *
 * The reader trusts nothing: each table's length and checksum are checked, each
 * entry stays inside its table, and whatever is malformed or missing gives one
 * line (boot_warn) and a fallback with which the machine still boots.
 *
 * Source: ACPI specification 6.5, chapter 5.
 */
#ifndef ARCH_ACPI_H
#define ARCH_ACPI_H

#include "kernel/bootinfo.h"
#include "kernel/types.h"

#define ACPI_MAX_CPUS    MAX_CPUS
#define ACPI_MAX_IOAPICS 32
#define ACPI_MAX_ISOS    32
#define ACPI_MAX_MEMORY  256

/*
 * How the reader gets at physical memory. map() gives a pointer to the len bytes
 * at phys, good at least until the next call, or NULL if that is not memory that
 * may be read. phys + len may be anything, also beyond 64 bits' end.
 */
struct acpi_access {
	const void *(*map)(u64 phys, size_t len);
};

struct acpi_cpu {
	u32 apic_id;
	u32 uid;     /* ACPI processor UID */
	u32 domain;  /* proximity domain as SRAT numbers it; 0 without SRAT */
	s16 node;    /* dense node number */
	bool enabled; /* false: present as an empty socket only */
};

struct acpi_ioapic {
	u32 id;
	u32 gsi_base; /* first global interrupt it serves */
	u64 phys;
};

/* Interrupt source override: the ISA interrupt `irq` arrives as `gsi`. */
struct acpi_iso {
	u8 irq;
	bool active_low;
	bool level;
	u32 gsi;
};

/* Memory of one node; sorted by base, disjoint. */
struct acpi_memory {
	u64 base, len;
	u32 domain;
	s16 node;
};

/* A register in memory or I/O space. address 0: there is none. */
struct acpi_reg {
	u64 address;
	u8 space; /* ACPI_SPACE_* */
	u8 bits;
};

#define ACPI_SPACE_MEMORY 0
#define ACPI_SPACE_IO     1

struct acpi_info {
	bool present; /* a root table was found */

	u64 lapic_phys; /* xAPIC registers; 0xfee00000 unless overridden */
	bool has_8259;  /* legacy interrupt controllers to be masked */
	u32 nr_cpus;    /* entries in cpus[]; enabled ones first, in MADT order */
	u32 nr_enabled_cpus; /* at least 1 if there is a MADT with a CPU; 0: ask CPUID */
	struct acpi_cpu cpus[ACPI_MAX_CPUS];
	u32 nr_ioapics;
	struct acpi_ioapic ioapics[ACPI_MAX_IOAPICS];
	u32 nr_isos;
	struct acpi_iso isos[ACPI_MAX_ISOS];

	bool has_srat;
	u32 nr_nodes; /* at least 1; numbered in order of their proximity domain */
	u32 node_domain[MAX_NODES];
	u8 distance[MAX_NODES][MAX_NODES]; /* 10 = local; as SLIT, or 10/20 */
	u32 nr_memory;
	struct acpi_memory memory[ACPI_MAX_MEMORY];

	u64 hpet_phys; /* 0: none */

	struct acpi_reg pm_timer; /* address 0: none; bits 24 or 32: width of the count */

	/* Power-off: write (type << 10 | 1 << 13) to PM1a control, then the same for b. */
	bool has_s5;
	u8 s5_type_a, s5_type_b;
	struct acpi_reg pm1a_control, pm1b_control; /* address 0: none */
	u16 smi_command; /* port; 0: ACPI mode is always on */
	u8 acpi_enable;  /* write it there to switch ACPI mode on */
	struct acpi_reg reset; /* address 0: none */
	u8 reset_value;
};

/*
 * Read all tables. boot gives the root pointer (a copy, an address, or neither:
 * then the BIOS areas are searched) and the memory ranges that the affinities
 * are checked against. Always fills *out with something usable: without any
 * table one node and no CPU list. Returns 0; -ENOENT if there is no root table.
 */
int acpi_parse(const struct boot_info *boot, const struct acpi_access *access,
	       struct acpi_info *out);

/* Node of a physical address by the affinity ranges; node 0 if it is in none. */
int acpi_node_of(const struct acpi_info *info, u64 phys);

/*
 * Cut the usable ranges of boot (normalised) at the borders of the affinity
 * ranges. Writes up to max pieces, sorted by address, and returns their number
 * (if that is max, some may be missing). Memory in no affinity range is node 0's.
 */
size_t acpi_usable_memory(const struct acpi_info *info, const struct boot_info *boot,
			  struct acpi_memory *out, size_t max);

/*
 * Is this a sane HPET main-counter period, in femtoseconds? (HPET specification
 * 1.0a, 2.3.4: not zero, at most 100 ns; below 0.1 ns nobody builds.)
 */
static inline bool acpi_hpet_period_ok(u32 femtoseconds)
{
	return femtoseconds >= 100000 && femtoseconds <= 100000000;
}

#endif
