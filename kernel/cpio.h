/*
 * Reading a cpio archive in the "newc" format: the initramfs. An iterator over
 * memory that holds the whole archive; it copies nothing.
 *
 * As Linux does it: several archives may follow one another, with zero bytes
 * between and behind them; "070701" and "070702" (with checksum) are read; hard
 * links are entries with the same (dev, ino) and nlink >= 2 within one archive,
 * of which usually only the last carries the data.
 *
 * Source: Linux Documentation/driver-api/early-userspace/buffer-format.rst.
 */
#ifndef KERNEL_CPIO_H
#define KERNEL_CPIO_H

#include "kernel/types.h"

#define CPIO_NAME_MAX 4096 /* zero byte included */

struct cpio_reader {
	const u8 *data;
	size_t len;
	size_t pos;          /* of the next header; of the bad one after an error */
	bool in_archive;     /* a trailer is still to come */
	u32 archive;         /* archives finished so far */
	u32 refused;         /* entries left out because of their name */
	const char *error;   /* what was wrong, after -EINVAL */
};

struct cpio_entry {
	const char *name; /* zero-terminated, relative, never "" ("." is the root), no ".." part */
	u32 mode;         /* as st_mode: type and permissions */
	u32 uid, gid;
	u32 nlink;
	u32 ino;
	u32 dev_major, dev_minor;   /* with ino: who is a hard link of whom */
	u32 rdev_major, rdev_minor; /* of a device node */
	u64 mtime;        /* seconds since 1970 */
	u32 archive;      /* number of the archive: (dev, ino) mean something only within one */
	size_t size;
	const void *data; /* `size` bytes: contents, or a symlink's target (not zero-terminated) */
};

/* Start reading the len bytes at data, which stay where they are while the reader is used. */
void cpio_open(struct cpio_reader *reader, const void *data, size_t len);

/*
 * The next entry. Returns 1 and fills *entry; 0 at the end; -EINVAL if the
 * archive is broken here (reader->error says how, reader->pos where, and every
 * further call says the same). Entries read before the break are good.
 *
 * A leading "/" or "./" is cut off the name. An entry whose name has a ".." part
 * or is longer than CPIO_NAME_MAX is left out with one line (boot_warn).
 */
int cpio_next(struct cpio_reader *reader, struct cpio_entry *entry);

#endif
