/*
 * /dev: memory devices, and which driver a device number means.
 */
#include <linux/fs.h>

#include "arch/x86_64/uaccess.h"
#include "kernel/printf.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/string.h"
#include "kernel/fs/tty.h"
#include "kernel/vfs.h"
#include "mm/slab.h"

/* --- null, zero, full ------------------------------------------------------------- */

static long swallow(struct file *f, u64 *pos, struct uio *u)
{
	u64 base, len;
	long total = 0;

	while (uio_piece(u, &base, &len)) {
		uio_skip(u, len);
		total += (long)len;
	}
	return total;
}

static long read_nothing(struct file *f, u64 *pos, struct uio *u)
{
	return 0;
}

/* Zeros for ever; a signal may cut a long read short. */
static long read_zeros(struct file *f, u64 *pos, struct uio *u)
{
	long total = 0;

	while (u->left) {
		size_t want = MIN(u->left, 64 * KB);
		size_t n = uio_zero(u, want);

		total += (long)n;
		if (n < want)
			return total ? total : -EFAULT;
		if (signal_pending(current))
			break;
		cond_resched();
	}
	return total;
}

static long write_full(struct file *f, u64 *pos, struct uio *u)
{
	return -ENOSPC;
}

static long seek_nowhere(struct file *f, s64 offset, int whence)
{
	return f->pos = 0;
}

/* --- random -------------------------------------------------------------------------- */

static long read_random(struct file *f, u64 *pos, struct uio *u)
{
	u8 buf[256];
	long total = 0;

	while (u->left) {
		size_t want = MIN(u->left, sizeof(buf)), n;

		random_bytes(buf, want);
		n = uio_put(u, buf, want);
		total += (long)n;
		if (n < want)
			return total ? total : -EFAULT;
		if (signal_pending(current))
			break;
		cond_resched();
	}
	return total;
}

/* --- kmsg ------------------------------------------------------------------------------ */

#define KMSG_MAX 992

static long write_kmsg(struct file *f, u64 *pos, struct uio *u)
{
	size_t n = u->left, total = n;
	char *text, *line;

	if (n > KMSG_MAX)
		return -EINVAL;
	text = kmalloc(n + 1);
	if (!text)
		return -ENOMEM;
	if (uio_get(u, text, n) < n) {
		kfree(text);
		return -EFAULT;
	}
	text[n] = 0;
	line = text;
	if (*line == '<') { /* a level in front, <N> */
		char *end = strchr(line, '>');

		if (end && end - line < 5)
			line = end + 1;
	}
	n = strlen(line);
	if (n && line[n - 1] == '\n')
		line[n - 1] = 0;
	printk("%s\n", line);
	kfree(text);
	return (long)total;
}

/* One line of the log a read, as "priority,number,microseconds,-;text". The position is in the
 * log. */
static long read_kmsg(struct file *f, u64 *pos, struct uio *u)
{
	char line[512], *text;
	u64 at = (u64)f->data;
	size_t n = printk_ring_read(&at, line, sizeof(line) - 1);
	long ret;
	char *end;

	if (!n) /* nobody wakes us for new lines, so a reader is at the end */
		return f->flags & O_NONBLOCK ? -EAGAIN : 0;
	line[n] = 0;
	end = strchr(line, '\n');
	if (end) {
		at -= n - (size_t)(end + 1 - line);
		end[1] = 0;
	}
	text = kmalloc(sizeof(line) + 32);
	if (!text)
		return -ENOMEM;
	n = (size_t)ksnprintf(text, sizeof(line) + 32, "6,%lu,0,-;%s", at, line);
	if (n > u->left)
		ret = -EINVAL;
	else
		ret = uio_put(u, text, n) < n ? -EFAULT : (long)n;
	kfree(text);
	if (ret > 0)
		f->data = (void *)at;
	return ret;
}

/* --- numbers ----------------------------------------------------------------------------- */

static const struct file_ops null_ops = { .read = read_nothing, .write = swallow,
					  .seek = seek_nowhere };
static const struct file_ops zero_ops = { .read = read_zeros, .write = swallow,
					  .seek = seek_nowhere, .mmap = FILE_MMAP_ZERO };
static const struct file_ops full_ops = { .read = read_zeros, .write = write_full,
					  .seek = seek_nowhere };
static const struct file_ops random_ops = { .read = read_random, .write = swallow,
					    .seek = seek_nowhere };
static const struct file_ops kmsg_ops = { .read = read_kmsg, .write = write_kmsg };

static const struct mem_device {
	const char *name;
	u32 minor, mode;
	const struct file_ops *ops;
} mem_devices[] = {
	{ "null", 3, 0666, &null_ops },       { "zero", 5, 0666, &zero_ops },
	{ "full", 7, 0666, &full_ops },       { "random", 8, 0666, &random_ops },
	{ "urandom", 9, 0666, &random_ops },  { "kmsg", 11, 0644, &kmsg_ops },
};

static int chardev_open(struct file *f)
{
	struct inode *inode = file_inode(f);

	if (!S_ISCHR(inode->mode))
		return -ENXIO;
	for (size_t i = 0; i < ARRAY_SIZE(mem_devices); i++) {
		if (inode->rdev == DEV(1, mem_devices[i].minor)) {
			f->ops = mem_devices[i].ops;
			if (f->ops->seek)
				f->fmode |= FMODE_SEEK;
			return 0;
		}
	}
	return tty_open(f, inode->rdev);
}

const struct file_ops chardev_fops = {
	.open = chardev_open,
};

static void add_node(const char *name, u32 mode, u32 rdev)
{
	char path[64] = "/dev/";
	struct inode *inode = tmpfs_inode(&vol_dev, S_IFCHR | mode, rdev);

	str_copy(path + 5, name, sizeof(path) - 5);
	tree_add(path, inode);
}

static void add_link(const char *path, const char *target)
{
	struct inode *inode = tmpfs_inode(&vol_dev, S_IFLNK | 0777, 0);

	if (inode) {
		inode->target = kmalloc(strlen(target) + 1);
		if (inode->target)
			memcpy(inode->target, target, strlen(target) + 1);
	}
	if (!inode || !inode->target)
		panic("no memory for %s", path);
	tree_add(path, inode);
}

void dev_init(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(mem_devices); i++)
		add_node(mem_devices[i].name, mem_devices[i].mode, DEV(1, mem_devices[i].minor));
	add_node("tty", 0666, DEV(5, 0));
	add_node("console", 0600, DEV(5, 1));
	add_node("ptmx", 0666, DEV(5, 2));
	add_node("ttyS0", 0620, DEV(4, 64));
	tree_mkdir("/dev/shm")->inode->mode = S_IFDIR | 01777;
	tree_mkdir("/dev/pts");
	add_link("/dev/fd", "/proc/self/fd");
	add_link("/dev/stdin", "/proc/self/fd/0");
	add_link("/dev/stdout", "/proc/self/fd/1");
	add_link("/dev/stderr", "/proc/self/fd/2");
}
