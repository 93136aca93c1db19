/*
 * Builders of what the parsers read: multiboot2 and PVH information, ACPI tables,
 * cpio archives, ELF files. Used by the tests, which then break them, and by the
 * fuzzers' seed generator.
 */
#ifndef TESTS_UNIT_BUILD_H
#define TESTS_UNIT_BUILD_H

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/types.h"

#define BUILD_MAX (256 * 1024)

/* Bytes in the making; `base`: the address that data[0] is meant for. */
struct bytes {
	u64 base;
	size_t len;
	u8 data[BUILD_MAX];
};

static inline void put_raw(struct bytes *b, const void *p, size_t n)
{
	if (n > sizeof(b->data) - b->len)
		abort();
	memcpy(b->data + b->len, p, n);
	b->len += n;
}

static inline void put_zero(struct bytes *b, size_t n)
{
	if (n > sizeof(b->data) - b->len)
		abort();
	memset(b->data + b->len, 0, n);
	b->len += n;
}

static inline void put8(struct bytes *b, u8 v)   { put_raw(b, &v, sizeof(v)); }
static inline void put16(struct bytes *b, u16 v) { put_raw(b, &v, sizeof(v)); }
static inline void put32(struct bytes *b, u32 v) { put_raw(b, &v, sizeof(v)); }
static inline void put64(struct bytes *b, u64 v) { put_raw(b, &v, sizeof(v)); }

static inline void put_align(struct bytes *b, size_t n)
{
	put_zero(b, ALIGN_UP(b->len, n) - b->len);
}

static inline void set8(struct bytes *b, size_t at, u8 v)   { b->data[at] = v; }
static inline void set16(struct bytes *b, size_t at, u16 v) { memcpy(b->data + at, &v, 2); }
static inline void set32(struct bytes *b, size_t at, u32 v) { memcpy(b->data + at, &v, 4); }
static inline void set64(struct bytes *b, size_t at, u64 v) { memcpy(b->data + at, &v, 8); }

static inline u64 here(const struct bytes *b)
{
	return b->base + b->len;
}

static inline void put_memory(struct bytes *b, u64 base, u64 len, u32 type)
{
	put64(b, base);
	put64(b, len);
	put32(b, type);
	put32(b, 0);
}

/* --- multiboot2 ---------------------------------------------------------- */

static inline void mb2_begin(struct bytes *b)
{
	b->len = 0;
	put64(b, 0);
}

/* Returns where the tag starts; close it with mb2_tag_end(). */
static inline size_t mb2_tag(struct bytes *b, u32 type)
{
	put_align(b, 8);
	put32(b, type);
	put32(b, 0);
	return b->len - 8;
}

static inline void mb2_tag_end(struct bytes *b, size_t at)
{
	set32(b, at + 4, b->len - at);
}

static inline void mb2_string(struct bytes *b, u32 type, const char *text)
{
	size_t at = mb2_tag(b, type);

	put_raw(b, text, strlen(text) + 1);
	mb2_tag_end(b, at);
}

static inline void mb2_module(struct bytes *b, u32 start, u32 end)
{
	size_t at = mb2_tag(b, 3);

	put32(b, start);
	put32(b, end);
	put_raw(b, "initramfs", 10);
	mb2_tag_end(b, at);
}

static inline void mb2_end(struct bytes *b)
{
	mb2_tag_end(b, mb2_tag(b, 0));
	set32(b, 0, b->len);
}

/* What GRUB gives on a small PC. */
static inline void mb2_typical(struct bytes *b)
{
	size_t at;

	mb2_begin(b);
	mb2_string(b, 1, "vm.ptl=mm run=\"pft -t 2\"");
	mb2_string(b, 2, "GRUB 2.06");
	mb2_module(b, 0x800000, 0x900010);
	at = mb2_tag(b, 4);
	put32(b, 640);
	put32(b, 130048);
	mb2_tag_end(b, at);
	at = mb2_tag(b, 6);
	put32(b, 24);
	put32(b, 0);
	put_memory(b, 0, 0x9fc00, 1);
	put_memory(b, 0x9fc00, 0x400, 2);
	put_memory(b, 0x100000, 0x7ee0000, 1);
	put_memory(b, 0x7fe0000, 0x20000, 3);
	mb2_tag_end(b, at);
	at = mb2_tag(b, 14);
	put_raw(b, "RSD PTR old.........", 20);
	mb2_tag_end(b, at);
	at = mb2_tag(b, 15);
	put_raw(b, "RSD PTR new.........0123456789abcdef", 36);
	mb2_tag_end(b, at);
	mb2_end(b);
}

/* --- PVH ----------------------------------------------------------------- */

/* The structure at b->base, what it points to behind it. */
static inline void pvh_typical(struct bytes *b, u32 version)
{
	size_t map;

	b->len = 0;
	b->base = 0x1000;
	put32(b, 0x336ec578);
	put32(b, version);
	put32(b, 0);  /* flags */
	put32(b, 1);  /* modules */
	put64(b, 0);  /* 16: module list */
	put64(b, 0);  /* 24: command line */
	put64(b, 0xf5a10); /* RSDP */
	put64(b, 0);  /* 40: memory map */
	put32(b, 3);
	put32(b, 0);
	set64(b, 16, here(b));
	put64(b, 0x4000000); /* module: address, size, command line, reserved */
	put64(b, 0x12345);
	put64(b, 0);
	put64(b, 0);
	map = here(b);
	set64(b, 40, map);
	put_memory(b, 0, 0xa0000, 1);
	put_memory(b, 0xf0000, 0x10000, 2);
	put_memory(b, 0x100000, 0x7f00000, 1);
	set64(b, 24, here(b));
	put_raw(b, "run=init log=debug", 19);
	put_align(b, 4096); /* memory comes in pages */
}

/* --- ACPI ---------------------------------------------------------------- */

#define IMAGE_BASE 0xe0000 /* so that the search finds the root pointer */

struct acpi_image {
	struct bytes b;
	u64 tables[64]; /* addresses for the root table */
	u32 nr_tables;
	u64 dsdt;
	size_t rsdp, root; /* offsets in b, once image_end() has been called */
};

static inline void image_begin(struct acpi_image *im)
{
	im->b.len = 0;
	im->b.base = IMAGE_BASE;
	im->nr_tables = 0;
	im->dsdt = 0;
}

static inline size_t table_begin(struct acpi_image *im, const char *signature, u8 revision)
{
	size_t at;

	put_align(&im->b, 8);
	at = im->b.len;
	put_raw(&im->b, signature, 4);
	put32(&im->b, 0);
	put8(&im->b, revision);
	put8(&im->b, 0);
	put_raw(&im->b, "FAULTLTESTTABLE", 14);
	put_zero(&im->b, 12);
	return at;
}

static inline void table_sum(struct acpi_image *im, size_t at)
{
	u8 *p = im->b.data + at, sum = 0;
	u32 len;

	memcpy(&len, p + 4, 4);
	for (u32 i = 0; i < len && at + i < sizeof(im->b.data); i++)
		sum += p[i];
	p[9] -= sum;
}

/* Close the table with length and checksum, not listed in the root table. */
static inline u64 table_close(struct acpi_image *im, size_t at)
{
	set32(&im->b, at + 4, im->b.len - at);
	table_sum(im, at);
	return im->b.base + at;
}

static inline void table_end(struct acpi_image *im, size_t at)
{
	im->tables[im->nr_tables++] = table_close(im, at);
}

static inline size_t madt_begin(struct acpi_image *im)
{
	size_t at = table_begin(im, "APIC", 3);

	put32(&im->b, 0xfee00000);
	put32(&im->b, 1);
	return at;
}

static inline void madt_cpu(struct acpi_image *im, u8 uid, u8 apic_id, u32 flags)
{
	put8(&im->b, 0);
	put8(&im->b, 8);
	put8(&im->b, uid);
	put8(&im->b, apic_id);
	put32(&im->b, flags);
}

static inline void madt_x2apic(struct acpi_image *im, u32 uid, u32 apic_id, u32 flags)
{
	put8(&im->b, 9);
	put8(&im->b, 16);
	put16(&im->b, 0);
	put32(&im->b, apic_id);
	put32(&im->b, flags);
	put32(&im->b, uid);
}

static inline void madt_ioapic(struct acpi_image *im, u8 id, u32 phys, u32 gsi)
{
	put8(&im->b, 1);
	put8(&im->b, 12);
	put8(&im->b, id);
	put8(&im->b, 0);
	put32(&im->b, phys);
	put32(&im->b, gsi);
}

static inline void madt_iso(struct acpi_image *im, u8 irq, u32 gsi, u16 flags)
{
	put8(&im->b, 2);
	put8(&im->b, 10);
	put8(&im->b, 0);
	put8(&im->b, irq);
	put32(&im->b, gsi);
	put16(&im->b, flags);
}

static inline size_t srat_begin(struct acpi_image *im, u8 revision)
{
	size_t at = table_begin(im, "SRAT", revision);

	put32(&im->b, 1);
	put64(&im->b, 0);
	return at;
}

static inline void srat_cpu(struct acpi_image *im, u8 apic_id, u32 domain, u32 flags)
{
	put8(&im->b, 0);
	put8(&im->b, 16);
	put8(&im->b, domain);
	put8(&im->b, apic_id);
	put32(&im->b, flags);
	put8(&im->b, 0);
	put8(&im->b, domain >> 8);
	put8(&im->b, domain >> 16);
	put8(&im->b, domain >> 24);
	put32(&im->b, 0);
}

static inline void srat_memory(struct acpi_image *im, u64 base, u64 len, u32 domain, u32 flags)
{
	put8(&im->b, 1);
	put8(&im->b, 40);
	put32(&im->b, domain);
	put16(&im->b, 0);
	put64(&im->b, base);
	put64(&im->b, len);
	put32(&im->b, 0);
	put32(&im->b, flags);
	put64(&im->b, 0);
}

static inline void srat_x2apic(struct acpi_image *im, u32 apic_id, u32 domain, u32 flags)
{
	put8(&im->b, 2);
	put8(&im->b, 24);
	put16(&im->b, 0);
	put32(&im->b, domain);
	put32(&im->b, apic_id);
	put32(&im->b, flags);
	put32(&im->b, 0);
	put32(&im->b, 0);
}

static inline void slit_add(struct acpi_image *im, u64 n, const u8 *matrix)
{
	size_t at = table_begin(im, "SLIT", 1);

	put64(&im->b, n);
	put_raw(&im->b, matrix, n * n);
	table_end(im, at);
}

static inline void put_gas(struct bytes *b, u8 space, u8 bits, u64 address)
{
	put8(b, space);
	put8(b, bits);
	put16(b, 0);
	put64(b, address);
}

static inline void hpet_add(struct acpi_image *im, u8 space, u64 address)
{
	size_t at = table_begin(im, "HPET", 1);

	put32(&im->b, 0x8086a201);
	put_gas(&im->b, space, 0, address);
	put32(&im->b, 0);
	table_end(im, at);
}

/* Name (_S5, Package (4) { 5, 5, 0, 0 }) */
#define S5_AML "\x08_S5_\x12\x08\x04\x0a\x05\x0a\x05\x00\x00"
#define S5_LEN (sizeof(S5_AML) - 1)

/* A DSDT with this AML in it; empty: none. Sets im->dsdt. */
static inline void dsdt_add(struct acpi_image *im, const void *aml, size_t len)
{
	size_t at = table_begin(im, "DSDT", 2);

	put_raw(&im->b, "\x10\x05_SB_\x5b\x80", 8);
	put_raw(&im->b, aml, len);
	im->dsdt = table_close(im, at);
}

/* As QEMU's q35 has it: ports only, length 244. Returns the offset. */
static inline size_t fadt_add(struct acpi_image *im)
{
	struct bytes *b = &im->b;
	size_t at = table_begin(im, "FACP", 3);

	put_zero(b, 244 - 36);
	set32(b, at + 40, im->dsdt);
	set32(b, at + 48, 0xb2);
	set8(b, at + 52, 2);
	set32(b, at + 64, 0x604);  /* PM1a control */
	set32(b, at + 76, 0x608);  /* PM timer */
	set8(b, at + 89, 2);
	set8(b, at + 91, 4);
	set32(b, at + 112, 1u << 10 | 1u << 8);
	set8(b, at + 116, 1);      /* reset register: I/O, 8 bits, port 0xcf9 */
	set8(b, at + 117, 8);
	set64(b, at + 120, 0xcf9);
	set8(b, at + 128, 0x0f);
	table_end(im, at);
	return at;
}

/* XSDT (width 8) or RSDT (width 4), then the root pointer. */
static inline void image_end(struct acpi_image *im, int width)
{
	struct bytes *b = &im->b;
	u8 *p;

	im->root = table_begin(im, width == 8 ? "XSDT" : "RSDT", 1);
	for (u32 i = 0; i < im->nr_tables; i++) {
		if (width == 8)
			put64(b, im->tables[i]);
		else
			put32(b, im->tables[i]);
	}
	table_close(im, im->root);

	put_align(b, 16);
	im->rsdp = b->len;
	put_raw(b, "RSD PTR ", 8);
	put8(b, 0);
	put_raw(b, "FAULTL", 6);
	put8(b, width == 8 ? 2 : 0);
	put32(b, width == 8 ? 0 : b->base + im->root);
	p = b->data + im->rsdp;
	for (int i = 0; i < 20; i++)
		p[8] -= i == 8 ? 0 : p[i];
	if (width == 8) {
		put32(b, 36);
		put64(b, b->base + im->root);
		put32(b, 0);
		for (int i = 0; i < 36; i++)
			p[32] -= i == 32 ? 0 : p[i];
	}
}


/* Two nodes with two CPUs each, everything there. */
static inline void image_typical(struct acpi_image *im, int width)
{
	size_t at;

	image_begin(im);
	dsdt_add(im, S5_AML, S5_LEN);
	fadt_add(im);
	at = madt_begin(im);
	for (int i = 0; i < 4; i++)
		madt_cpu(im, i, i, 1);
	madt_ioapic(im, 0, 0xfec00000, 0);
	madt_iso(im, 0, 2, 0);
	madt_iso(im, 9, 9, 0xd);
	table_end(im, at);
	hpet_add(im, 0, 0xfed00000);
	at = srat_begin(im, 3);
	for (int i = 0; i < 4; i++)
		srat_cpu(im, i, i / 2, 1);
	srat_memory(im, 0, 0xa0000, 0, 1);
	srat_memory(im, 0x100000, 0x3ff00000, 0, 1);
	srat_memory(im, 0x40000000, 0x40000000, 1, 1);
	table_end(im, at);
	slit_add(im, 2, (const u8 *)"\x0a\x15\x16\x0a");
	image_end(im, width);
}

/* --- cpio ---------------------------------------------------------------- */

static inline void cpio_put(struct bytes *b, u32 ino, u32 mode, u32 nlink, const char *name,
			    const void *data, size_t size)
{
	char header[111];

	snprintf(header, sizeof(header), "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
		 ino, mode, 1000, 100, nlink, 0x5f000000, (u32)size, 8, 1, 5, 7,
		 (u32)strlen(name) + 1, 0);
	put_raw(b, header, 110);
	put_raw(b, name, strlen(name) + 1);
	put_align(b, 4);
	put_raw(b, data, size);
	put_align(b, 4);
}

static inline void cpio_trailer(struct bytes *b)
{
	cpio_put(b, 0, 0, 1, "TRAILER!!!", "", 0);
}

static inline void cpio_typical(struct bytes *b)
{
	b->len = 0;
	cpio_put(b, 1, 0040755, 2, ".", "", 0);
	cpio_put(b, 2, 0040755, 2, "bin", "", 0);
	cpio_put(b, 3, 0100755, 1, "bin/hello", "hello, world\n", 13);
	cpio_put(b, 4, 0120777, 1, "bin/sh", "busybox", 7);
	cpio_put(b, 5, 0100644, 2, "a", "", 0);
	cpio_put(b, 5, 0100644, 2, "b", "shared", 6);
	cpio_put(b, 6, 0020600, 1, "dev/console", "", 0);
	cpio_trailer(b);
	put_align(b, 512);
}

/* --- ELF ----------------------------------------------------------------- */

static inline Elf64_Ehdr *elf_header(struct bytes *b)
{
	return (Elf64_Ehdr *)b->data;
}

static inline Elf64_Phdr *elf_phdr(struct bytes *b, int i)
{
	return (Elf64_Phdr *)(b->data + sizeof(Elf64_Ehdr)) + i;
}

static inline Elf64_Phdr *elf_add(struct bytes *b, u32 type, u32 flags, u64 offset, u64 vaddr,
				  u64 filesz, u64 memsz)
{
	Elf64_Phdr ph = { .p_type = type, .p_flags = flags, .p_offset = offset, .p_vaddr = vaddr,
			  .p_filesz = filesz, .p_memsz = memsz, .p_align = 0x1000 };

	put_raw(b, &ph, sizeof(ph));
	elf_header(b)->e_phnum++;
	return elf_phdr(b, elf_header(b)->e_phnum - 1);
}

static inline void elf_begin(struct bytes *b, u16 type, u64 entry)
{
	Elf64_Ehdr eh = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			  .e_type = type, .e_machine = EM_X86_64, .e_version = EV_CURRENT,
			  .e_entry = entry, .e_phoff = sizeof(Elf64_Ehdr),
			  .e_ehsize = sizeof(Elf64_Ehdr), .e_phentsize = sizeof(Elf64_Phdr) };

	b->len = 0;
	put_raw(b, &eh, sizeof(eh));
}

/* As musl-gcc -static makes them: text, rodata, data with bss. */
static inline void elf_typical(struct bytes *b, u16 type)
{
	u64 at = type == ET_EXEC ? 0x400000 : 0;

	elf_begin(b, type, at + 0x1010);
	elf_add(b, PT_LOAD, PF_R, 0, at, 0x1c8, 0x1c8);
	elf_add(b, PT_LOAD, PF_R | PF_X, 0x1000, at + 0x1000, 0x800, 0x800);
	elf_add(b, PT_LOAD, PF_R | PF_W, 0x1fe0, at + 0x3fe0, 0x120, 0x900);
	elf_add(b, PT_TLS, PF_R, 0x1fe0, at + 0x3fe0, 0x10, 0x20);
	elf_add(b, PT_GNU_STACK, PF_R | PF_W, 0, 0, 0, 0);
	put_zero(b, 0x2100 - b->len);
}

#endif
