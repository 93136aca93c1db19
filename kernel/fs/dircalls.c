/* System calls on directories: reading them, and where a process is. */
#include <linux/fs.h>

#include "arch/x86_64/uaccess.h"
#include "kernel/process.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "kernel/vfs.h"
#include "mm/page.h"
#include "mm/slab.h"

/* --- getdents --------------------------------------------------------------------- */

/* Entries are built in a kernel buffer, because readdir holds locks, and copied out afterwards. */
struct dents {
	char *buf;
	size_t len, size;
	bool old;        /* struct linux_dirent: the type at the end */
	bool too_small;  /* not even one entry fitted */
};

/* struct linux_dirent64: ino, off, reclen, type, name. struct linux_dirent: ino, off, reclen,
 * name, type. */
#define DIRENT64_NAME 19
#define DIRENT_NAME   18

static bool dents_fill(void *ctx, const char *name, size_t len, u64 ino, u32 type, u64 next)
{
	struct dents *d = ctx;
	size_t head = d->old ? DIRENT_NAME : DIRENT64_NAME;
	size_t reclen = ALIGN_UP(head + len + 1 + d->old, 8);
	char *p = d->buf + d->len;
	u16 len16 = (u16)reclen;
	u8 dtype = (u8)(type >> 12);

	if (d->len + reclen > d->size) {
		d->too_small = !d->len;
		return false;
	}
	memset(p, 0, reclen);
	memcpy(p, &ino, 8);
	memcpy(p + 8, &next, 8);
	memcpy(p + 16, &len16, 2);
	memcpy(p + head, name, len);
	if (d->old)
		p[reclen - 1] = (char)dtype;
	else
		p[18] = (char)dtype;
	d->len += reclen;
	return true;
}

#define DENTS_MAX 32768

static int list_dir(struct dentry *dir, u64 *pos, fill_fn fill, void *ctx)
{
	if (dir->unlinked)
		return -ENOENT;
	if (dir->inode->ops && dir->inode->ops->readdir)
		return dir->inode->ops->readdir(dir, pos, fill, ctx);
	return dir_readdir(dir, pos, fill, ctx);
}

static long do_getdents(u64 fd, vaddr_t ubuf, u64 count, bool old)
{
	struct file *f = fd_get((int)fd);
	struct dents d = { .size = MIN((u32)count, DENTS_MAX), .old = old };
	long ret;
	u64 pos;

	if (!f)
		return -EBADF;
	if (f->fmode & FMODE_PATH)
		ret = -EBADF;
	else if (!S_ISDIR(file_inode(f)->mode))
		ret = -ENOTDIR;
	else if (!(d.buf = kmalloc(MAX(d.size, 1))))
		ret = -ENOMEM;
	else {
		mutex_lock(&f->pos_lock);
		pos = f->pos;
		ret = list_dir(f->dentry, &pos, dents_fill, &d);
		if (!ret && d.too_small)
			ret = -EINVAL;
		else if (!ret && copy_to_user(ubuf, d.buf, d.len))
			ret = -EFAULT;
		if (!ret) {
			f->pos = pos;
			ret = (long)d.len;
		}
		mutex_unlock(&f->pos_lock);
		kfree(d.buf);
	}
	file_put(f);
	return ret;
}

long sys_getdents64(u64 fd, u64 buf, u64 count)
{
	return do_getdents(fd, buf, count, false);
}

long sys_getdents(u64 fd, u64 buf, u64 count)
{
	return do_getdents(fd, buf, count, true);
}

static long dir_seek(struct file *f, s64 offset, int whence)
{
	if (whence == SEEK_CUR)
		offset += (s64)f->pos;
	else if (whence != SEEK_SET)
		return -EINVAL;
	if (offset < 0)
		return -EINVAL;
	f->pos = (u64)offset;
	return offset;
}

const struct file_ops dir_fops = {
	.seek = dir_seek,
};

/* --- where a process is ------------------------------------------------------------- */

/* Takes over the reference. */
static long set_place(struct dentry **place, struct dentry *d)
{
	struct fs *fs = current->fs;
	struct dentry *old;

	if (!S_ISDIR(d->inode->mode)) {
		dentry_put(d);
		return -ENOTDIR;
	}
	spin_lock(&fs->lock);
	old = *place;
	*place = d;
	spin_unlock(&fs->lock);
	dentry_put(old);
	return 0;
}

long sys_chdir(u64 path)
{
	int err;
	struct dentry *d = path_lookup(AT_FDCWD, path, WALK_FOLLOW, &err);

	return d ? set_place(&current->fs->cwd, d) : err;
}

long sys_fchdir(u64 fd)
{
	struct file *f = fd_get((int)fd);
	struct dentry *d;

	if (!f)
		return -EBADF;
	d = dentry_get(f->dentry);
	file_put(f);
	return set_place(&current->fs->cwd, d);
}

long sys_chroot(u64 path)
{
	int err;
	struct dentry *d = path_lookup(AT_FDCWD, path, WALK_FOLLOW, &err);

	if (!d)
		return err;
	if (!S_ISDIR(d->inode->mode)) {
		dentry_put(d);
		return -ENOTDIR;
	}
	if (!is_root()) {
		dentry_put(d);
		return -EPERM;
	}
	return set_place(&current->fs->root, d);
}

long sys_getcwd(u64 ubuf, u64 size)
{
	struct dentry *cwd = fs_cwd(current->fs), *root = fs_root(current->fs);
	char *buf = kpage_alloc(0), *start = NULL;
	long ret = -ENOMEM;
	size_t n;

	if (cwd->unlinked)
		ret = -ENOENT;
	else if (buf)
		start = dentry_path(cwd, root, buf, PAGE_SIZE);
	if (start) {
		n = (size_t)(buf + PAGE_SIZE - start);
		if (n > size)
			ret = -ERANGE;
		else
			ret = copy_to_user(ubuf, start, n) ? -EFAULT : (long)n;
	} else if (buf && ret == -ENOMEM) {
		ret = -ENAMETOOLONG;
	}
	kpage_free(buf);
	dentry_put(cwd);
	dentry_put(root);
	return ret;
}
