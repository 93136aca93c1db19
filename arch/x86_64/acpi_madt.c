/*
 * MADT: CPUs and interrupt controllers. ACPI 6.5, 5.2.12.
 */
#include "arch/x86_64/acpi_tables.h"
#include "kernel/string.h"
#include "kernel/unaligned.h"

#define MADT_HEADER 44 /* SDT header, u32 local APIC address, u32 flags */
#define MADT_PCAT   1u /* flags: there are two 8259 as well */

enum entry_type {
	ENTRY_LAPIC = 0,
	ENTRY_IOAPIC = 1,
	ENTRY_ISO = 2,
	ENTRY_LAPIC_ADDRESS = 5,
	ENTRY_X2APIC = 9,
};

/* What went wrong how often, so that each gives one line and not 512. */
struct troubles {
	u32 duplicate, first_duplicate;
	u32 too_many;
	u32 no_id;
};

static void add_cpu(struct acpi_info *out, u32 apic_id, u32 uid, bool enabled,
		    struct troubles *bad)
{
	for (u32 i = 0; i < out->nr_cpus; i++) {
		if (out->cpus[i].apic_id != apic_id)
			continue;
		/* An empty socket may share its number with anything. */
		if (enabled && !bad->duplicate++)
			bad->first_duplicate = apic_id;
		return;
	}
	if (out->nr_cpus >= ACPI_MAX_CPUS) {
		bad->too_many += enabled;
		return;
	}
	out->cpus[out->nr_cpus++] = (struct acpi_cpu){
		.apic_id = apic_id, .uid = uid, .enabled = enabled, .node = 0,
	};
	out->nr_enabled_cpus += enabled;
}

/* Flags bit 0: enabled. The entries of both passes: enabled ones, then the others. */
static void read_cpus(struct acpi_info *out, const u8 *table, u32 len, bool enabled,
		      struct troubles *bad)
{
	struct acpi_entries it = { "MADT", table, len, MADT_HEADER };
	const u8 *p;

	while ((p = acpi_next_entry(&it))) {
		u32 id, uid, flags, none;

		if (p[0] == ENTRY_LAPIC && p[1] >= 8) {
			uid = p[2];
			id = p[3];
			flags = get_u32(p + 4);
			none = 0xff;
		} else if (p[0] == ENTRY_X2APIC && p[1] >= 16) {
			id = get_u32(p + 4);
			flags = get_u32(p + 8);
			uid = get_u32(p + 12);
			none = 0xffffffff;
		} else {
			continue;
		}
		if ((flags & 1) != enabled)
			continue;
		if (id == none) /* broadcast: no CPU can have it */
			bad->no_id += enabled;
		else
			add_cpu(out, id, uid, enabled, bad);
	}
}

static void add_ioapic(struct acpi_info *out, const u8 *p)
{
	u64 phys = get_u32(p + 4);

	if (!phys) {
		boot_warn("ACPI: MADT: IOAPIC %u without an address ignored", p[2]);
		return;
	}
	for (u32 i = 0; i < out->nr_ioapics; i++) {
		if (out->ioapics[i].phys == phys) {
			boot_warn("ACPI: MADT: second IOAPIC at %#lx ignored", phys);
			return;
		}
	}
	if (out->nr_ioapics >= ACPI_MAX_IOAPICS) {
		boot_warn("ACPI: MADT: IOAPIC %u ignored, only %u are used", p[2],
			  ACPI_MAX_IOAPICS);
		return;
	}
	out->ioapics[out->nr_ioapics++] = (struct acpi_ioapic){
		.id = p[2], .phys = phys, .gsi_base = get_u32(p + 8),
	};
}

/* Flags: bits 0-1 polarity, 2-3 trigger; 0 is what the ISA bus has: active high, edge. */
static void add_iso(struct acpi_info *out, const u8 *p)
{
	u16 flags = get_u16(p + 8);

	if (p[2] != 0 || p[3] > 15) {
		boot_warn("ACPI: MADT: override of bus %u interrupt %u ignored", p[2], p[3]);
		return;
	}
	for (u32 i = 0; i < out->nr_isos; i++) {
		if (out->isos[i].irq == p[3]) {
			boot_warn("ACPI: MADT: second override of interrupt %u ignored", p[3]);
			return;
		}
	}
	if (out->nr_isos >= ACPI_MAX_ISOS)
		return;
	out->isos[out->nr_isos++] = (struct acpi_iso){
		.irq = p[3],
		.gsi = get_u32(p + 4),
		.active_low = (flags & 3) == 3,
		.level = (flags >> 2 & 3) == 3,
	};
}

/* All but the CPUs. Returns where the good entries end. */
static u32 read_others(struct acpi_info *out, const u8 *table, u32 len)
{
	struct acpi_entries it = { "MADT", table, len, MADT_HEADER };
	const u8 *p;

	while ((p = acpi_next_entry(&it))) {
		switch (p[0]) {
		case ENTRY_LAPIC:
			acpi_entry_fits(&it, p, 8);
			break;
		case ENTRY_X2APIC:
			acpi_entry_fits(&it, p, 16);
			break;
		case ENTRY_IOAPIC:
			if (acpi_entry_fits(&it, p, 12))
				add_ioapic(out, p);
			break;
		case ENTRY_ISO:
			if (acpi_entry_fits(&it, p, 10))
				add_iso(out, p);
			break;
		case ENTRY_LAPIC_ADDRESS:
			if (acpi_entry_fits(&it, p, 12) && get_u64(p + 4))
				out->lapic_phys = get_u64(p + 4);
			break;
		}
	}
	return it.len;
}

void acpi_read_madt(struct acpi_info *out, const u8 *table, u32 len)
{
	struct troubles bad = { 0 };

	if (len < MADT_HEADER) {
		boot_warn("ACPI: MADT of %u bytes ignored", len);
		return;
	}
	if (get_u32(table + SDT_HEADER))
		out->lapic_phys = get_u32(table + SDT_HEADER);
	out->has_8259 = get_u32(table + SDT_HEADER + 4) & MADT_PCAT;
	len = read_others(out, table, len);
	read_cpus(out, table, len, true, &bad);
	read_cpus(out, table, len, false, &bad);

	if (bad.duplicate)
		boot_warn("ACPI: MADT: %u CPUs with a number already seen ignored (first: APIC %u)",
			  bad.duplicate, bad.first_duplicate);
	if (bad.no_id)
		boot_warn("ACPI: MADT: %u enabled CPUs without a number ignored", bad.no_id);
	if (bad.too_many)
		boot_warn("ACPI: MADT: %u CPUs above %u ignored", bad.too_many, ACPI_MAX_CPUS);
	if (!out->nr_enabled_cpus)
		boot_warn("ACPI: MADT: no enabled CPU: only the boot CPU is used");
}
