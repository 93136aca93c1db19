/*
 * Writes the seed corpus: usage: seed FOLDER. Well-formed inputs of each kind from
 * the builders of the unit tests, and some with one thing wrong.
 */
#include <sys/stat.h>

#include "tests/unit/build.h"

static const char *root;
static struct bytes b;
static struct acpi_image im;

static void save(const char *kind, const char *name, const void *prefix, size_t prefix_len,
		 const void *data, size_t len)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", root, kind);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/%s/%s", root, kind, name);
	f = fopen(path, "wb");
	if (!f || fwrite(prefix, 1, prefix_len, f) != prefix_len ||
	    fwrite(data, 1, len, f) != len || fclose(f)) {
		perror(path);
		exit(1);
	}
}

static void save_bytes(const char *kind, const char *name)
{
	save(kind, name, "", 0, b.data, b.len);
}

static void seed_multiboot2(void)
{
	size_t at;

	mb2_typical(&b);
	save_bytes("multiboot2", "typical");
	b.len = b.len / 2;
	save_bytes("multiboot2", "half");

	mb2_begin(&b);
	at = mb2_tag(&b, 17);
	put32(&b, 48);
	put32(&b, 1);
	for (u32 i = 0; i < 12; i++) {
		put64(&b, i);
		put64(&b, i * 0x100000);
		put64(&b, 0);
		put64(&b, 0x100);
		put64(&b, 0xf);
		put64(&b, 0);
	}
	mb2_tag_end(&b, at);
	mb2_end(&b);
	save_bytes("multiboot2", "efi");

	mb2_begin(&b);
	at = mb2_tag(&b, 6);
	put32(&b, 24);
	put32(&b, 0);
	for (u32 i = 0; i < 20; i++)
		put_memory(&b, i * 0x1800, 0x3000, i % 6);
	mb2_tag_end(&b, at);
	mb2_end(&b);
	save_bytes("multiboot2", "overlap");
}

static void seed_pvh(void)
{
	pvh_typical(&b, 0);
	save_bytes("pvh", "version0");
	pvh_typical(&b, 1);
	save_bytes("pvh", "version1");
}

/* The root pointer must be the first thing: room for it is left, then it is moved there. */
static void save_acpi(const char *name, void (*fill)(void), int width)
{
	image_begin(&im);
	put_zero(&im.b, 64);
	fill();
	image_end(&im, width);
	memcpy(im.b.data, im.b.data + im.rsdp, width == 8 ? 36 : 20);
	save("acpi", name, "\1", 1, im.b.data, im.rsdp);
}

static void acpi_two_nodes(void)
{
	size_t at;

	dsdt_add(&im, S5_AML, S5_LEN);
	fadt_add(&im);
	at = madt_begin(&im);
	for (int i = 0; i < 3; i++)
		madt_cpu(&im, i, i, 1);
	madt_x2apic(&im, 3, 3, 1);
	madt_ioapic(&im, 0, 0xfec00000, 0);
	madt_iso(&im, 0, 2, 0);
	table_end(&im, at);
	hpet_add(&im, 0, 0xfed00000);
	at = srat_begin(&im, 3);
	for (int i = 0; i < 3; i++)
		srat_cpu(&im, i, i / 2, 1);
	srat_x2apic(&im, 3, 1, 1);
	srat_memory(&im, 0, 0x40000000, 0, 1);
	srat_memory(&im, 0x40000000, 0x40000000, 1, 1);
	srat_memory(&im, 0x100000000, 0x40000000, 2, 3);
	table_end(&im, at);
	slit_add(&im, 3, (const u8 *)"\x0a\x15\x16\x15\x0a\x17\x16\x17\x0a");
}

static void acpi_small(void)
{
	size_t at = madt_begin(&im);

	madt_cpu(&im, 0, 0, 1);
	table_end(&im, at);
}

static void acpi_ssdt(void)
{
	size_t at;

	dsdt_add(&im, "", 0);
	fadt_add(&im);
	at = table_begin(&im, "SSDT", 1);
	put_raw(&im.b, "\x08\\_S5_\x12\x46\x00\x02\x0a\x05\x01", 13);
	table_end(&im, at);
}

static void seed_acpi(void)
{
	save_acpi("two-nodes-xsdt", acpi_two_nodes, 8);
	save_acpi("two-nodes-rsdt", acpi_two_nodes, 4);
	save_acpi("small", acpi_small, 4);
	save_acpi("ssdt", acpi_ssdt, 8);
}

static void seed_cpio(void)
{
	cpio_typical(&b);
	save_bytes("cpio", "typical");
	b.len = 300;
	save_bytes("cpio", "cut");
	b.len = 0;
	cpio_put(&b, 1, 0100644, 1, "/a/../b", "x", 1);
	cpio_put(&b, 1, 0100644, 1, "./c", "y", 1);
	cpio_trailer(&b);
	put_zero(&b, 8);
	cpio_put(&b, 1, 0100644, 1, "d", "\1\2", 2);
	memcpy(b.data + b.len - 116, "070702", 6);
	cpio_trailer(&b);
	save_bytes("cpio", "two-archives");
}

static void seed_elf(void)
{
	elf_typical(&b, ET_EXEC);
	save("elf", "static", "\0\0\0\0", 4, b.data, 0x400);
	elf_typical(&b, ET_DYN);
	save("elf", "pie", "\x10\0\0\0", 4, b.data, 0x200);
	elf_begin(&b, ET_DYN, 0x100);
	elf_add(&b, PT_INTERP, PF_R, 0xe8, 0xe8, 11, 11);
	elf_add(&b, PT_LOAD, PF_R | PF_X, 0, 0, 0x200, 0x300);
	elf_add(&b, PT_GNU_STACK, PF_R | PF_W | PF_X, 0, 0, 0, 0);
	put_raw(&b, "/lib/ld.so", 11);
	save("elf", "interp", "\1\0\0\0", 4, b.data, b.len);
	save("elf", "short", "\xff\xff\0\0", 4, b.data, 70);
}

static void seed_param(void)
{
	static const char *const lines[] = {
		"vm.ptl=atomic n=-5 mem=16M v run=\"pft -t 2\"",
		"\"run=a b\" n=0x10 -- n=1",
		"vm.ptl=bad n=1000 mem=9999999999T v=maybe run=12345678901234567890 =",
		"run=\"open",
	};
	char name[16];

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		snprintf(name, sizeof(name), "line%zu", i);
		save("param", name, "", 0, lines[i], strlen(lines[i]));
	}
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: seed FOLDER\n");
		return 2;
	}
	root = argv[1];
	mkdir(root, 0755);
	seed_multiboot2();
	seed_pvh();
	seed_acpi();
	seed_cpio();
	seed_elf();
	seed_param();
	return 0;
}
