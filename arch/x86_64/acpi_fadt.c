/*
 * FADT, the \_S5 package and HPET: clocks and power-off.
 * ACPI 6.5, 5.2.9 (FADT), 7.4.2 (sleep states), 20.2 (AML encoding);
 * IA-PC HPET specification 1.0a, 3.2.4.
 */
#include "arch/x86_64/acpi_tables.h"
#include "kernel/string.h"
#include "kernel/unaligned.h"

#define FADT_MIN_BYTES   116 /* ACPI 1.0 */
#define FADT_WIDE_TIMER  (1u << 8)
#define FADT_HAS_RESET   (1u << 10)

bool acpi_read_gas(const u8 *gas, struct acpi_reg *out)
{
	u64 address = get_u64(gas + 4);

	if (!address || (gas[0] != ACPI_SPACE_MEMORY && gas[0] != ACPI_SPACE_IO))
		return false;
	if (gas[0] == ACPI_SPACE_IO && address > 0xffff)
		return false;
	*out = (struct acpi_reg){ .address = address, .space = gas[0], .bits = gas[1] };
	return true;
}

/*
 * A register block that the FADT gives twice: as a 64-bit generic address (if
 * the table is long enough) and as the I/O port of ACPI 1.0.
 */
static void read_block(const u8 *table, u32 len, u32 gas_at, u32 port_at, u8 bits,
		       struct acpi_reg *out)
{
	u32 port = get_u32(table + port_at);

	if (len >= gas_at + 12 && acpi_read_gas(table + gas_at, out))
		out->bits = bits;
	else if (port && port <= 0xffff)
		*out = (struct acpi_reg){ .address = port, .space = ACPI_SPACE_IO, .bits = bits };
}

void acpi_read_fadt(struct acpi_info *out, const u8 *table, u32 len)
{
	u32 flags;

	if (len < FADT_MIN_BYTES) {
		boot_warn("ACPI: FADT of %u bytes ignored: no PM timer, no power-off", len);
		return;
	}
	flags = get_u32(table + 112);
	out->smi_command = get_u32(table + 48) <= 0xffff ? get_u32(table + 48) : 0;
	out->acpi_enable = table[52];

	/* PM_TMR_LEN is 4, or 0 for no timer. */
	if (table[91] == 4)
		read_block(table, len, 208, 76, flags & FADT_WIDE_TIMER ? 32 : 24, &out->pm_timer);
	else if (table[91])
		boot_warn("ACPI: FADT: PM timer of %u bytes ignored", table[91]);
	/* PM1_CNT_LEN */
	if (table[89] >= 2) {
		read_block(table, len, 172, 64, 16, &out->pm1a_control);
		read_block(table, len, 184, 68, 16, &out->pm1b_control);
	}
	if ((flags & FADT_HAS_RESET) && len >= 129 && acpi_read_gas(table + 116, &out->reset))
		out->reset_value = table[128];
}

void acpi_read_hpet(struct acpi_info *out, const u8 *table, u32 len)
{
	struct acpi_reg reg;

	if (len < 56) {
		boot_warn("ACPI: HPET table of %u bytes ignored", len);
		return;
	}
	if (!acpi_read_gas(table + 40, &reg) || reg.space != ACPI_SPACE_MEMORY ||
	    reg.address % 8) {
		boot_warn("ACPI: HPET at %#lx in space %u ignored", get_u64(table + 44), table[40]);
		return;
	}
	out->hpet_phys = reg.address;
}

/* --- \_S5: AML, of which only one shape is understood ---------------------- */

enum aml {
	AML_ZERO = 0x00,
	AML_ONE = 0x01,
	AML_NAME = 0x08,
	AML_BYTE = 0x0a,
	AML_WORD = 0x0b,
	AML_DWORD = 0x0c,
	AML_PACKAGE = 0x12,
};

/* The bytes from `at` to `end` that may be read. */
struct aml_reader {
	const u8 *p;
	u32 at, end;
};

static bool aml_byte(struct aml_reader *r, u8 *out)
{
	if (r->at >= r->end)
		return false;
	*out = r->p[r->at++];
	return true;
}

/*
 * PkgLength, 20.2.4: the two high bits of the first byte say how many bytes
 * follow. It counts from its own first byte; narrows r->end to the package.
 */
static bool aml_package(struct aml_reader *r)
{
	u32 start = r->at, length;
	u8 lead, byte;

	if (!aml_byte(r, &lead))
		return false;
	length = lead >> 6 ? lead & 0x0f : lead & 0x3f;
	for (int i = 0; i < lead >> 6; i++) {
		if (!aml_byte(r, &byte))
			return false;
		length |= (u32)byte << (4 + 8 * i);
	}
	if (length > r->end - start || start + length < r->at)
		return false;
	r->end = start + length;
	return true;
}

static bool aml_integer(struct aml_reader *r, u32 *out)
{
	u8 op, byte;
	int n;

	if (!aml_byte(r, &op))
		return false;
	switch (op) {
	case AML_ZERO:
	case AML_ONE:
		*out = op;
		return true;
	case AML_BYTE: n = 1; break;
	case AML_WORD: n = 2; break;
	case AML_DWORD: n = 4; break;
	default: return false;
	}
	*out = 0;
	for (int i = 0; i < n; i++) {
		if (!aml_byte(r, &byte))
			return false;
		*out |= (u32)byte << (8 * i);
	}
	return true;
}

/* Package () { type for PM1a, type for PM1b, ... }; r stands behind the name. */
static bool read_s5_package(struct acpi_info *out, struct aml_reader r)
{
	u32 a, b;
	u8 op, count;

	if (!aml_byte(&r, &op) || op != AML_PACKAGE || !aml_package(&r))
		return false;
	if (!aml_byte(&r, &count) || count < 1 || !aml_integer(&r, &a))
		return false;
	if (count < 2)
		b = a;
	else if (!aml_integer(&r, &b))
		return false;
	if (a > 7 || b > 7) /* SLP_TYP has three bits */
		return false;
	out->has_s5 = true;
	out->s5_type_a = a;
	out->s5_type_b = b;
	return true;
}

bool acpi_read_s5(struct acpi_info *out, const u8 *table, u32 len)
{
	for (u32 at = SDT_HEADER + 1; at + 4 <= len; at++) {
		const u8 *p = table + at;

		if (memcmp(p, "_S5_", 4))
			continue;
		/* Name (_S5, ...) or Name (\_S5, ...) */
		if (p[-1] != AML_NAME && !(p[-1] == '\\' && p[-2] == AML_NAME))
			continue;
		if (read_s5_package(out, (struct aml_reader){ table, at + 4, len }))
			return true;
		boot_warn("ACPI: \\_S5 at %u is not a package of sleep types", at);
	}
	return false;
}
