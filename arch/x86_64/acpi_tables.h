/*
 * Between the parts of the ACPI reader: acpi.c finds and checks tables,
 * acpi_madt.c, acpi_srat.c and acpi_fadt.c read one each. Not for others.
 */
#ifndef ARCH_ACPI_TABLES_H
#define ARCH_ACPI_TABLES_H

#include "arch/x86_64/acpi.h"

#define SDT_HEADER 36 /* signature, length, revision, checksum, names */

/* Entries {u8 type, u8 length, ...} that fill a table from `pos` to its end. */
struct acpi_entries {
	const char *name; /* of the table, for complaints */
	const u8 *table;
	u32 len, pos;
};

/*
 * The next entry, or NULL at the end; all p[1] bytes of it are inside the table.
 * An entry shorter than its own header or reaching out of the table gives one
 * line and ends the walk; it->len is then where the good entries end.
 */
const u8 *acpi_next_entry(struct acpi_entries *it);

/* Is the entry at least that long? Otherwise one line. */
bool acpi_entry_fits(const struct acpi_entries *it, const u8 *entry, u8 least);

/* Each takes a whole table whose length and checksum are right. */
void acpi_read_madt(struct acpi_info *out, const u8 *table, u32 len);
void acpi_read_srat(struct acpi_info *out, const struct boot_info *boot, const u8 *table, u32 len);
void acpi_read_slit(struct acpi_info *out, const u8 *table, u32 len);
void acpi_read_fadt(struct acpi_info *out, const u8 *table, u32 len);
void acpi_read_hpet(struct acpi_info *out, const u8 *table, u32 len);

/* Look for the \_S5 package in a DSDT or SSDT; true if found and good. */
bool acpi_read_s5(struct acpi_info *out, const u8 *table, u32 len);

/* A generic address structure (12 bytes): memory or I/O, not at zero. Else false. */
bool acpi_read_gas(const u8 *gas, struct acpi_reg *out);

/* After MADT and SRAT: number the nodes and give every CPU and range its own. */
void acpi_number_nodes(struct acpi_info *out);

#endif
