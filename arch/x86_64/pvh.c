/*
 * PVH start information to struct boot_info, see pvh.h.
 *
 *	offset 0 u32 magic      16 u64 module list    40 u64 memory map (version 1)
 *	       4 u32 version    24 u64 command line   48 u32 entries in it
 *	       8 u32 flags      32 u64 RSDP           52 u32 reserved
 *	      12 u32 modules
 */
#include "arch/x86_64/pvh.h"

#include <asm/errno.h>

#include "kernel/string.h"
#include "kernel/unaligned.h"

typedef const void *(*map_fn)(u64 phys, size_t len);

#define V0_BYTES      40
#define V1_BYTES      56
#define MODULE_BYTES  32 /* u64 phys, u64 size, u64 command line, u64 reserved */
#define MAX_ENTRIES   1024
#define MEMMAP_BYTES  24 /* u64 phys, u64 size, u32 type, u32 reserved */

/*
 * The string may end anywhere and the memory behind it may be unreadable, so map
 * no further than the next page border at a time.
 */
static void read_cmdline(struct boot_info *out, u64 phys, map_fn map)
{
	size_t len = 0;

	if (!phys)
		return;
	while (len < sizeof(out->cmdline)) {
		size_t piece = MIN(4096 - phys % 4096, sizeof(out->cmdline) - len);
		const char *text = map(phys, piece);
		size_t n;

		if (!text) {
			boot_warn("PVH: command line at %#lx is not readable", phys);
			break;
		}
		n = strnlen(text, piece);
		memcpy(out->cmdline + len, text, n);
		len += n;
		phys += n;
		if (n < piece)
			break;
	}
	if (len >= sizeof(out->cmdline)) {
		len = sizeof(out->cmdline) - 1;
		out->flags |= BOOT_CMDLINE_CUT;
		boot_warn("command line: longer than %zu characters, the rest is ignored", len);
	}
	out->cmdline[len] = 0;
}

static void read_modules(struct boot_info *out, u64 phys, u32 nr, map_fn map)
{
	const u8 *module;
	u64 start, len;

	if (!nr)
		return;
	if (nr > 1)
		boot_warn("PVH: %u modules, only the first is used", nr);
	module = map(phys, MODULE_BYTES);
	if (!module) {
		boot_warn("PVH: module list at %#lx is not readable", phys);
		return;
	}
	start = get_u64(module);
	len = get_u64(module + 8);
	if (start + len < start) {
		boot_warn("PVH: initramfs of %#lx bytes at %#lx ignored", len, start);
		return;
	}
	out->initrd_phys = start;
	out->initrd_len = len;
}

static void read_memmap(struct boot_info *out, u64 phys, u32 nr, map_fn map)
{
	if (nr > MAX_ENTRIES) {
		boot_warn("PVH: memory map of %u entries, reading %u", nr, MAX_ENTRIES);
		nr = MAX_ENTRIES;
	}
	for (u32 i = 0; i < nr; i++) {
		u64 at = phys + (u64)i * MEMMAP_BYTES;
		const u8 *entry = at >= phys ? map(at, MEMMAP_BYTES) : NULL;

		if (!entry) {
			boot_warn("PVH: entry %u of %u of the memory map is not readable", i, nr);
			return;
		}
		if (bootinfo_add_range(out, get_u64(entry), get_u64(entry + 8),
				       get_u32(entry + 16)))
			return;
	}
}

int pvh_parse(u64 start_info, map_fn map, struct boot_info *out)
{
	u8 start[V1_BYTES] = { 0 };
	const u8 *p;
	u32 version;

	memset(out, 0, sizeof(*out));
	out->flags = BOOT_FROM_PVH;
	str_copy(out->loader, "PVH", sizeof(out->loader));

	p = map(start_info, V0_BYTES);
	if (!p || get_u32(p) != PVH_MAGIC) {
		boot_warn("PVH: no start information at %#lx", start_info);
		bootinfo_require_memory(out);
		return -EINVAL;
	}
	memcpy(start, p, V0_BYTES);
	version = get_u32(start + 4);
	if (version >= 1) {
		p = map(start_info, V1_BYTES);
		if (p)
			memcpy(start, p, V1_BYTES);
		else
			boot_warn("PVH: version %u, but its memory map is not readable", version);
	}

	read_cmdline(out, get_u64(start + 24), map);
	read_modules(out, get_u64(start + 16), get_u32(start + 12), map);
	out->rsdp_phys = get_u64(start + 32);
	read_memmap(out, get_u64(start + 40), get_u32(start + 48), map);
	bootinfo_normalise(out);
	bootinfo_require_memory(out);
	return 0;
}
