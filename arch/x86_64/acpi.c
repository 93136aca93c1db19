/*
 * The ACPI reader's frame: root pointer, root table, and every other table by
 * its signature. First all tables are only located; then they are read in an
 * order of our own (CPUs before their affinity), whatever order they come in.
 *
 * A mapped pointer is good until the next map(), so nothing here holds one
 * across another.
 */
#include "arch/x86_64/acpi.h"

#include <asm/errno.h>

#include "arch/x86_64/acpi_tables.h"
#include "kernel/string.h"
#include "kernel/unaligned.h"

#define TABLE_MAX_BYTES (16 * MB)
#define MAX_TABLES      1024 /* entries of the root table */
#define MAX_SSDTS       32

/* Physical addresses of the tables that interest us. */
struct located {
	u64 madt, srat, slit, fadt, hpet, dsdt;
	u64 ssdt[MAX_SSDTS];
	u32 nr_ssdts;
};

static u8 byte_sum(const u8 *p, size_t n)
{
	u8 sum = 0;

	while (n--)
		sum += *p++;
	return sum;
}

/* A signature as text for a message: whatever is no printable character becomes '?'. */
static const char *printable(const u8 *signature)
{
	static char text[5]; /* boot CPU only */

	for (int i = 0; i < 4; i++)
		text[i] = signature[i] >= ' ' && signature[i] < 127 ? signature[i] : '?';
	return text;
}

/*
 * Map a whole table and check it. want: the signature, or NULL for any. Returns
 * NULL with one line if there is anything wrong with it.
 */
static const u8 *map_table(const struct acpi_access *access, u64 phys, const char *want, u32 *len)
{
	const u8 *p = access->map(phys, SDT_HEADER);

	if (!p) {
		boot_warn("ACPI: table %s at %#lx is not readable", want ? want : "", phys);
		return NULL;
	}
	if (want && memcmp(p, want, 4)) {
		boot_warn("ACPI: table %s at %#lx has the signature \"%s\"", want, phys,
			  printable(p));
		return NULL;
	}
	*len = get_u32(p + 4);
	if (*len < SDT_HEADER || *len > TABLE_MAX_BYTES) {
		boot_warn("ACPI: table %s at %#lx of %u bytes ignored", printable(p), phys, *len);
		return NULL;
	}
	p = access->map(phys, *len);
	if (!p) {
		boot_warn("ACPI: table %s at %#lx: its %u bytes are not all readable",
			  want ? want : "", phys, *len);
		return NULL;
	}
	if (byte_sum(p, *len)) {
		boot_warn("ACPI: table %s at %#lx ignored: bad checksum", printable(p), phys);
		return NULL;
	}
	return p;
}

/* --- entries of a table -------------------------------------------------- */

const u8 *acpi_next_entry(struct acpi_entries *it)
{
	const u8 *p = it->table + it->pos;
	u32 left = it->len - it->pos;

	if (it->pos >= it->len)
		return NULL;
	if (left < 2 || p[1] < 2 || p[1] > left) {
		boot_warn("ACPI: %s: entry of %u bytes at %u of %u; the rest is ignored", it->name,
			  left < 2 ? 0 : p[1], it->pos, it->len);
		it->len = it->pos;
		return NULL;
	}
	it->pos += p[1];
	return p;
}

bool acpi_entry_fits(const struct acpi_entries *it, const u8 *entry, u8 least)
{
	if (entry[1] >= least)
		return true;
	boot_warn("ACPI: %s: entry of type %u and %u bytes ignored: too short", it->name, entry[0],
		  entry[1]);
	return false;
}

/* --- root pointer -------------------------------------------------------- */

struct root {
	u64 rsdt, xsdt; /* 0: none */
};

/*
 * ACPI 6.5, 5.2.5.3. p has len bytes, at least 20. False if that is no root
 * pointer; says so only if it looked like one.
 */
static bool read_rsdp(const u8 *p, u32 len, struct root *root)
{
	if (memcmp(p, "RSD PTR ", 8))
		return false;
	if (byte_sum(p, 20)) {
		boot_warn("ACPI: root pointer with a bad checksum ignored");
		return false;
	}
	root->rsdt = get_u32(p + 16);
	root->xsdt = 0;
	if (p[15] >= 2 && len >= 36) {
		if (get_u32(p + 20) >= 36 && get_u32(p + 20) <= len &&
		    !byte_sum(p, get_u32(p + 20)))
			root->xsdt = get_u64(p + 24);
		else
			boot_warn("ACPI: extended root pointer is bad, using the old half");
	}
	return root->rsdt || root->xsdt;
}

static bool map_rsdp(const struct acpi_access *access, u64 phys, struct root *root)
{
	const u8 *p = access->map(phys, 36);

	if (p)
		return read_rsdp(p, 36, root);
	p = access->map(phys, 20);
	return p && read_rsdp(p, 20, root);
}

/* ACPI 6.5, 5.2.5.1: at a multiple of 16 in the range. */
static bool search_rsdp(const struct acpi_access *access, u64 start, u32 len, struct root *root)
{
	const u8 *p = access->map(start, len);

	for (u32 at = 0; p && at + 20 <= len; at += 16) {
		if (read_rsdp(p + at, MIN(len - at, 36u), root))
			return true;
	}
	return false;
}

static bool find_root(const struct boot_info *boot, const struct acpi_access *access,
		      struct root *root)
{
	const u8 *ebda;

	if (boot->rsdp_len >= 20 && boot->rsdp_len <= BOOT_RSDP_MAX) {
		if (read_rsdp(boot->rsdp, boot->rsdp_len, root))
			return true;
		boot_warn("ACPI: the loader's copy of the root pointer is bad");
	}
	if (boot->rsdp_phys) {
		if (map_rsdp(access, boot->rsdp_phys, root))
			return true;
		boot_warn("ACPI: no root pointer at %#lx where the loader says", boot->rsdp_phys);
	}
	/* The word at 0x40e is the segment of the extended BIOS data area. */
	ebda = access->map(0x40e, 2);
	if (ebda) {
		u64 start = (u64)get_u16(ebda) << 4;

		if (start >= 0x400 && start < 0xa0000 && search_rsdp(access, start, 1024, root))
			return true;
	}
	return search_rsdp(access, 0xe0000, 0x20000, root);
}

/* --- root table ---------------------------------------------------------- */

static void note_table(struct located *at, const u8 *signature, u64 phys)
{
	const struct {
		const char *signature;
		u64 *where;
	} known[] = {
		{ "APIC", &at->madt }, { "SRAT", &at->srat }, { "SLIT", &at->slit },
		{ "FACP", &at->fadt }, { "HPET", &at->hpet },
	};

	for (u32 i = 0; i < ARRAY_SIZE(known); i++) {
		if (memcmp(signature, known[i].signature, 4))
			continue;
		if (*known[i].where)
			boot_warn("ACPI: second table %s at %#lx ignored", known[i].signature,
				  phys);
		else
			*known[i].where = phys;
	}
	if (!memcmp(signature, "SSDT", 4) && at->nr_ssdts < MAX_SSDTS)
		at->ssdt[at->nr_ssdts++] = phys;
}

/* Go through RSDT (width 4) or XSDT (width 8). False if that table is bad. */
static bool locate_tables(const struct acpi_access *access, u64 root, u32 width,
			  struct located *at)
{
	u32 len, nr;

	if (!root || !map_table(access, root, width == 8 ? "XSDT" : "RSDT", &len))
		return false;
	nr = (len - SDT_HEADER) / width;
	if (nr > MAX_TABLES) {
		boot_warn("ACPI: %u tables, looking at %u", nr, MAX_TABLES);
		nr = MAX_TABLES;
	}
	for (u32 i = 0; i < nr; i++) {
		const u8 *p = access->map(root + SDT_HEADER + i * width, width);
		u64 phys = !p ? 0 : width == 8 ? get_u64(p) : get_u32(p);

		if (!phys)
			continue;
		p = access->map(phys, SDT_HEADER);
		if (p)
			note_table(at, p, phys);
		else
			boot_warn("ACPI: table %u at %#lx is not readable", i, phys);
	}
	return true;
}

/* --- all together -------------------------------------------------------- */

static void set_defaults(struct acpi_info *out)
{
	memset(out, 0, sizeof(*out));
	out->lapic_phys = 0xfee00000;
	out->has_8259 = true;
	out->nr_nodes = 1;
	for (int i = 0; i < MAX_NODES; i++) {
		for (int j = 0; j < MAX_NODES; j++)
			out->distance[i][j] = i == j ? 10 : 20;
	}
}

/* FADT, then the DSDT it names and the SSDTs, for the sleep package. */
static void read_power(struct acpi_info *out, const struct acpi_access *access,
		       struct located *at)
{
	const u8 *p;
	u32 len;

	p = map_table(access, at->fadt, "FACP", &len);
	if (!p)
		return;
	acpi_read_fadt(out, p, len);
	if (len >= 148)
		at->dsdt = get_u64(p + 140);
	if (!at->dsdt && len >= 44)
		at->dsdt = get_u32(p + 40);

	p = at->dsdt ? map_table(access, at->dsdt, "DSDT", &len) : NULL;
	if (p && acpi_read_s5(out, p, len))
		return;
	for (u32 i = 0; i < at->nr_ssdts; i++) {
		p = map_table(access, at->ssdt[i], "SSDT", &len);
		if (p && acpi_read_s5(out, p, len))
			return;
	}
	boot_warn("ACPI: no \\_S5 package: power-off by other means only");
}

int acpi_parse(const struct boot_info *boot, const struct acpi_access *access,
	       struct acpi_info *out)
{
	struct located at = { 0 };
	struct root root;
	const u8 *p;
	u32 len;

	set_defaults(out);
	if (!find_root(boot, access, &root)) {
		boot_warn("ACPI: no root pointer: one node, one CPU, no power-off");
		return -ENOENT;
	}
	if (!locate_tables(access, root.xsdt, 8, &at) && !locate_tables(access, root.rsdt, 4, &at)) {
		boot_warn("ACPI: no root table: one node, one CPU, no power-off");
		return -ENOENT;
	}
	out->present = true;

	p = at.madt ? map_table(access, at.madt, "APIC", &len) : NULL;
	if (p)
		acpi_read_madt(out, p, len);
	else
		boot_warn("ACPI: no usable MADT: only the boot CPU is used");

	p = at.srat ? map_table(access, at.srat, "SRAT", &len) : NULL;
	if (p)
		acpi_read_srat(out, boot, p, len);
	acpi_number_nodes(out);

	p = at.slit ? map_table(access, at.slit, "SLIT", &len) : NULL;
	if (p)
		acpi_read_slit(out, p, len);

	p = at.hpet ? map_table(access, at.hpet, "HPET", &len) : NULL;
	if (p)
		acpi_read_hpet(out, p, len);

	if (at.fadt)
		read_power(out, access, &at);
	else
		boot_warn("ACPI: no FADT: no PM timer, no power-off");
	return 0;
}
