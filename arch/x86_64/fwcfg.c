/*
 * QEMU's firmware configuration device, for one file: more command line. By the old
 * port interface, which every QEMU has. Boot CPU only.
 *
 * Source: QEMU, docs/specs/fw_cfg.rst.
 */
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/init.h"
#include "kernel/string.h"

#define FWCFG_SELECT 0x510
#define FWCFG_DATA   0x511

#define KEY_SIGNATURE 0x00
#define KEY_DIRECTORY 0x19
#define MAX_FILES     1024

#define CMDLINE_FILE "opt/faultline/cmdline"

/* An entry of the directory; numbers are big-endian. */
struct fwcfg_file {
	u8 size[4], select[2], reserved[2];
	char name[56];
};

static void fwcfg_select(u16 key)
{
	outw(FWCFG_SELECT, key);
}

static void fwcfg_read(void *to, size_t len)
{
	u8 *p = to;

	while (len--)
		*p++ = inb(FWCFG_DATA);
}

static u32 big32(const u8 *p)
{
	return (u32)p[0] << 24 | (u32)p[1] << 16 | (u32)p[2] << 8 | p[3];
}

size_t fwcfg_cmdline(char *buf, size_t size)
{
	struct fwcfg_file file;
	u8 count[4];
	char signature[4];
	size_t len;

	fwcfg_select(KEY_SIGNATURE);
	fwcfg_read(signature, sizeof(signature));
	if (memcmp(signature, "QEMU", 4))
		return 0;

	fwcfg_select(KEY_DIRECTORY);
	fwcfg_read(count, sizeof(count));
	for (u32 n = MIN(big32(count), (u32)MAX_FILES); n; n--) {
		fwcfg_read(&file, sizeof(file));
		if (strncmp(file.name, CMDLINE_FILE, sizeof(file.name)))
			continue;
		len = big32(file.size);
		if (len >= size) {
			boot_warn("fw_cfg: %s has %zu characters, room is for %zu", CMDLINE_FILE,
				  len, size - 1);
			len = size - 1;
		}
		fwcfg_select((u16)(file.select[0] << 8 | file.select[1]));
		fwcfg_read(buf, len);
		buf[len] = 0;
		return strlen(buf);
	}
	return 0;
}
