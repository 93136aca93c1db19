/*
 * Multiboot2 information to struct boot_info, see multiboot2.h. The structure is
 * a list of tags {u32 type, u32 size, ...}, each at a multiple of eight bytes.
 * Every tag is handled with a pointer to it and its size, both checked.
 */
#include "arch/x86_64/multiboot2.h"

#include <asm/errno.h>

#include "kernel/string.h"
#include "kernel/unaligned.h"

enum tag_type {
	TAG_END = 0,
	TAG_CMDLINE = 1,
	TAG_LOADER = 2,
	TAG_MODULE = 3,
	TAG_MEMINFO = 4,
	TAG_MMAP = 6,
	TAG_EFI32 = 11,
	TAG_EFI64 = 12,
	TAG_RSDP_OLD = 14,
	TAG_RSDP_NEW = 15,
	TAG_EFI_MMAP = 17,
};

/* Tags whose handling must wait until all are seen. */
struct seen {
	const u8 *mmap, *efi_mmap, *meminfo;
	u32 mmap_size, efi_mmap_size;
	u32 modules;
};

#define TAG_HEADER 8

/* Length of the string at offset `at` of a tag; complains if it is not closed. */
static size_t string_len(const u8 *tag, u32 size, u32 at, const char *what)
{
	size_t len = strnlen((const char *)tag + at, size - at);

	if (len == size - at)
		boot_warn("multiboot2: %s without closing zero byte", what);
	return len;
}

static void read_loader(struct boot_info *out, const u8 *tag, u32 size)
{
	size_t len = string_len(tag, size, TAG_HEADER, "loader name");

	len = MIN(len, sizeof(out->loader) - 1);
	memcpy(out->loader, tag + TAG_HEADER, len);
	out->loader[len] = 0;
}

/* u32 start, u32 end, string. The first one is the initramfs. */
static void read_module(struct boot_info *out, const u8 *tag, u32 size, u32 nr)
{
	u64 start, end;

	if (size < 16) {
		boot_warn("multiboot2: module tag of %u bytes ignored", size);
		return;
	}
	if (nr > 0) {
		boot_warn("multiboot2: module %u ignored, only the first is used", nr + 1);
		return;
	}
	start = get_u32(tag + 8);
	end = get_u32(tag + 12);
	if (end < start) {
		boot_warn("multiboot2: initramfs from %#lx to %#lx ignored", start, end);
		return;
	}
	out->initrd_phys = start;
	out->initrd_len = end - start;
}

static void read_rsdp(struct boot_info *out, const u8 *tag, u32 size, u32 want)
{
	if (size - TAG_HEADER < want) {
		boot_warn("multiboot2: ACPI root pointer of %u bytes ignored", size - TAG_HEADER);
		return;
	}
	if (want < out->rsdp_len) /* the new form wins over the old */
		return;
	memcpy(out->rsdp, tag + TAG_HEADER, want);
	out->rsdp_len = want;
}

/* u32 entry size, u32 version, then {u64 base, u64 len, u32 type, u32 0}. */
static void read_mmap(struct boot_info *out, const u8 *tag, u32 size)
{
	u32 entry_size = get_u32(tag + 8);

	if (entry_size < 24) {
		boot_warn("multiboot2: memory map with entries of %u bytes ignored", entry_size);
		return;
	}
	for (u32 at = 16; size - at >= entry_size; at += entry_size) {
		u32 type = get_u32(tag + at + 16);

		if (bootinfo_add_range(out, get_u64(tag + at), get_u64(tag + at + 8), type))
			return;
	}
}

/* UEFI specification 2.10, table 7.10: what may be used once the firmware's services are left. */
static enum boot_mem_type efi_type(u32 type)
{
	switch (type) {
	case 1: /* loader code */
	case 2: /* loader data */
	case 3: /* boot services code */
	case 4: /* boot services data */
	case 7: /* conventional */
		return BOOT_MEM_USABLE;
	case 8:
		return BOOT_MEM_BAD;
	case 9:
		return BOOT_MEM_ACPI_RECLAIM;
	case 10:
		return BOOT_MEM_NVS;
	}
	return BOOT_MEM_RESERVED;
}

/* u32 entry size, u32 version, then {u32 type, u32, u64 phys, u64 virt, u64 pages, u64 attr}. */
static void read_efi_mmap(struct boot_info *out, const u8 *tag, u32 size)
{
	u32 entry_size = get_u32(tag + 8);

	if (entry_size < 40) {
		boot_warn("multiboot2: EFI memory map with entries of %u bytes ignored", entry_size);
		return;
	}
	for (u32 at = 16; size - at >= entry_size; at += entry_size) {
		u64 pages = get_u64(tag + at + 24);
		u64 len = pages > UINT64_MAX / 4096 ? UINT64_MAX : pages * 4096;
		u64 base = get_u64(tag + at + 8);
		enum boot_mem_type type = efi_type(get_u32(tag + at));
		struct boot_range *last = out->nr_ranges ? &out->ranges[out->nr_ranges - 1] : NULL;

		/* EFI maps have many small neighbours of one kind: they must not fill the array. */
		if (last && last->type == type && last->base + last->len == base &&
		    len < (1ull << 52) - base)
			last->len += len;
		else if (bootinfo_add_range(out, base, len, type))
			return;
	}
}

/* Two sizes in KB: of the memory from 0, and of that from 1 MB to the first hole. */
static void read_meminfo(struct boot_info *out, const u8 *tag)
{
	boot_warn("multiboot2: no memory map, using the basic sizes");
	out->flags |= BOOT_MAP_FALLBACK;
	bootinfo_add_range(out, 0, MIN(get_u32(tag + 8), 640u) * KB, BOOT_MEM_USABLE);
	bootinfo_add_range(out, 1 * MB, get_u32(tag + 12) * KB, BOOT_MEM_USABLE);
}

/* A tag that says too little to be what it claims. */
static bool too_small(u32 type, u32 size, u32 least)
{
	if (size >= least)
		return false;
	boot_warn("multiboot2: tag %u of %u bytes is too small", type, size);
	return true;
}

static void read_tag(struct boot_info *out, struct seen *seen, const u8 *tag, u32 type, u32 size)
{
	switch (type) {
	case TAG_CMDLINE:
		bootinfo_set_cmdline(out, (const char *)tag + TAG_HEADER,
				     string_len(tag, size, TAG_HEADER, "command line"));
		break;
	case TAG_LOADER:
		read_loader(out, tag, size);
		break;
	case TAG_MODULE:
		read_module(out, tag, size, seen->modules++);
		break;
	case TAG_MEMINFO:
		if (!too_small(type, size, 16))
			seen->meminfo = tag;
		break;
	case TAG_MMAP:
		if (!too_small(type, size, 16)) {
			seen->mmap = tag;
			seen->mmap_size = size;
		}
		break;
	case TAG_EFI_MMAP:
		if (!too_small(type, size, 16)) {
			out->flags |= BOOT_EFI;
			seen->efi_mmap = tag;
			seen->efi_mmap_size = size;
		}
		break;
	case TAG_EFI32:
	case TAG_EFI64:
		out->flags |= BOOT_EFI;
		break;
	case TAG_RSDP_OLD:
		read_rsdp(out, tag, size, 20);
		break;
	case TAG_RSDP_NEW:
		read_rsdp(out, tag, size, 36);
		break;
	}
}

/* Walk all tags; if the list breaks off, those before it count. */
static void read_tags(const u8 *info, u32 total, struct boot_info *out, struct seen *seen)
{
	u32 at = 8;

	while (total - at >= TAG_HEADER) {
		u32 type = get_u32(info + at);
		u32 size = get_u32(info + at + 4);

		if (type == TAG_END)
			return;
		if (size < TAG_HEADER || size > total - at) {
			boot_warn("multiboot2: tag %u of %u bytes at %u breaks the list of %u bytes",
				  type, size, at, total);
			return;
		}
		read_tag(out, seen, info + at, type, size);
		/* The padding of the last tag may be missing. */
		at += MIN((u64)ALIGN_UP((u64)size, 8), (u64)(total - at));
	}
	boot_warn("multiboot2: no end tag in %u bytes", total);
}

int multiboot2_parse(const void *info, size_t max_len, struct boot_info *out)
{
	struct seen seen = { 0 };
	u32 total;
	int err = 0;

	memset(out, 0, sizeof(*out));
	out->flags = BOOT_FROM_MULTIBOOT2;
	str_copy(out->loader, "multiboot2", sizeof(out->loader));

	total = info && max_len >= 8 ? get_u32(info) : 0;
	if (total < 16 || total > max_len) {
		boot_warn("multiboot2: information of %u bytes (of at most %zu) ignored", total,
			  max_len);
		err = -EINVAL;
	} else {
		read_tags(info, total, out, &seen);
	}

	if (seen.mmap)
		read_mmap(out, seen.mmap, seen.mmap_size);
	if (!out->nr_ranges && seen.efi_mmap)
		read_efi_mmap(out, seen.efi_mmap, seen.efi_mmap_size);
	if (!out->nr_ranges && seen.meminfo)
		read_meminfo(out, seen.meminfo);
	bootinfo_normalise(out);
	bootinfo_require_memory(out);
	return err;
}
