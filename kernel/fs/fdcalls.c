/*
 * System calls on descriptors: open, close, dup, fcntl, ioctl, and what is done to an open
 * file as a whole (truncate, allocate, sync).
 */
#include <asm/ioctls.h>

#include "arch/x86_64/uaccess.h"
#include "kernel/process.h"
#include "kernel/syscall.h"
#include "kernel/vfs.h"
#include "mm/mapping.h"

/* --- open and close --------------------------------------------------------------- */

#define OPEN_KNOWN                                                                                 \
	(O_ACCMODE | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_APPEND | O_NONBLOCK | O_SYNC |      \
	 FASYNC | O_DIRECT | O_LARGEFILE | O_DIRECTORY | O_NOFOLLOW | O_NOATIME | O_CLOEXEC |      \
	 O_PATH | __O_TMPFILE)

long sys_openat(u64 dirfd, u64 path, u64 uflags, u64 mode)
{
	u32 flags = ((u32)uflags & OPEN_KNOWN) | O_LARGEFILE;
	struct file *f;
	int err, fd = fd_reserve(0, flags & O_CLOEXEC);

	if (fd < 0)
		return fd;
	f = open_path((int)dirfd, path, flags, (u32)mode, &err);
	if (!f) {
		fd_unreserve(fd);
		return err;
	}
	fd_install(fd, f);
	return fd;
}

long sys_open(u64 path, u64 flags, u64 mode)
{
	return sys_openat((u64)AT_FDCWD, path, flags, mode);
}

long sys_creat(u64 path, u64 mode)
{
	return sys_openat((u64)AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

long sys_close(u64 fd)
{
	return fd_close((int)fd);
}

#define CLOSE_RANGE_UNSHARE_ 2
#define CLOSE_RANGE_CLOEXEC_ 4

long sys_close_range(u64 first, u64 last, u64 flags)
{
	int err = 0;

	if (flags & ~(u64)(CLOSE_RANGE_UNSHARE_ | CLOSE_RANGE_CLOEXEC_))
		return -EINVAL;
	if ((u32)first > (u32)last)
		return -EINVAL;
	if (flags & CLOSE_RANGE_UNSHARE_)
		err = files_unshare();
	if (err)
		return err;
	return fd_close_range((u32)first, MIN((u32)last, ~0u - 1), flags & CLOSE_RANGE_CLOEXEC_);
}

/* --- dup ---------------------------------------------------------------------------- */

long sys_dup(u64 fd)
{
	struct file *f = fd_get((int)fd);

	return f ? fd_add(f, false) : -EBADF;
}

long sys_dup3(u64 fd, u64 newfd, u64 flags)
{
	struct file *f;

	if (flags & ~(u64)O_CLOEXEC)
		return -EINVAL;
	if ((int)fd == (int)newfd)
		return -EINVAL;
	f = fd_get((int)fd);
	return f ? fd_replace((int)newfd, f, flags & O_CLOEXEC) : -EBADF;
}

long sys_dup2(u64 fd, u64 newfd)
{
	struct file *f = fd_get((int)fd);

	if (!f)
		return -EBADF;
	if ((int)fd == (int)newfd) {
		file_put(f);
		return (int)newfd;
	}
	return fd_replace((int)newfd, f, false);
}

/* --- fcntl ------------------------------------------------------------------------------ */

#define SETTABLE (O_APPEND | O_NONBLOCK | O_DIRECT | O_NOATIME | FASYNC)

static long dup_from(struct file *f, u64 from, bool cloexec)
{
	int fd;

	if ((s64)from < 0 || from >= rlimit(RLIMIT_NOFILE))
		return -EINVAL;
	fd = fd_reserve((int)from, cloexec);
	if (fd >= 0)
		fd_install(fd, file_get(f));
	return fd;
}

static long do_fcntl(int fd, struct file *f, u32 cmd, u64 arg)
{
	switch (cmd) {
	case F_DUPFD:
		return dup_from(f, arg, false);
	case F_DUPFD_CLOEXEC:
		return dup_from(f, arg, true);
	case F_GETFD:
		return fd_get_cloexec(fd);
	case F_SETFD:
		return fd_set_cloexec(fd, arg & FD_CLOEXEC);
	case F_GETFL:
		return f->flags;
	}
	if (f->fmode & FMODE_PATH)
		return -EBADF;
	switch (cmd) {
	case F_SETFL:
		WRITE_ONCE(f->flags, (f->flags & ~(u32)SETTABLE) | ((u32)arg & SETTABLE));
		return 0;
	case F_GETLK:
	case F_SETLK:
	case F_SETLKW:
	case F_OFD_GETLK:
	case F_OFD_SETLK:
	case F_OFD_SETLKW:
		return fcntl_lock(f, cmd, arg);
	case F_ADD_SEALS:
		return memfd_add_seals(f, (u32)arg);
	case F_GET_SEALS:
		return memfd_get_seals(f);
	case F_SETPIPE_SZ:
		return pipe_set_size(f, arg);
	case F_GETPIPE_SZ:
		return pipe_get_size(f);
	case F_GETOWN:
	case F_GETSIG:
	case F_SETOWN: /* no SIGIO: accepted, without effect */
	case F_SETSIG:
		return 0;
	case F_GETLEASE:
		return F_UNLCK;
	}
	return -EINVAL;
}

long sys_fcntl(u64 fd, u64 cmd, u64 arg)
{
	struct file *f = fd_get((int)fd);
	long ret;

	if (!f)
		return -EBADF;
	ret = do_fcntl((int)fd, f, (u32)cmd, arg);
	file_put(f);
	return ret;
}

/* --- ioctl -------------------------------------------------------------------------------- */

static long set_nonblock(struct file *f, u64 arg)
{
	u32 on;

	if (get_user_u32(arg, &on))
		return -EFAULT;
	WRITE_ONCE(f->flags, on ? f->flags | O_NONBLOCK : f->flags & ~(u32)O_NONBLOCK);
	return 0;
}

long sys_ioctl(u64 ufd, u64 ucmd, u64 arg)
{
	int fd = (int)ufd;
	u32 cmd = (u32)ucmd;
	struct file *f = fd_get(fd);
	long ret;

	if (!f)
		return -EBADF;
	if (f->fmode & FMODE_PATH)
		ret = -EBADF;
	else if (cmd == FIOCLEX || cmd == FIONCLEX)
		ret = fd_set_cloexec(fd, cmd == FIOCLEX);
	else if (cmd == FIONBIO)
		ret = set_nonblock(f, arg);
	else if (cmd == FIONREAD && S_ISREG(file_inode(f)->mode))
		ret = put_user_u32(arg, (u32)(inode_size(file_inode(f)) - f->pos));
	else if (f->ops->ioctl)
		ret = f->ops->ioctl(f, cmd, arg);
	else
		ret = -ENOTTY;
	file_put(f);
	return ret;
}

/* --- size ----------------------------------------------------------------------------------- */

static long truncate_inode(struct inode *inode, s64 size)
{
	if (size < 0)
		return -EINVAL;
	if (S_ISDIR(inode->mode))
		return -EISDIR;
	if (!S_ISREG(inode->mode) || !inode->fops->truncate)
		return -EINVAL;
	return inode->fops->truncate(inode, (u64)size);
}

long sys_truncate(u64 path, u64 size)
{
	struct dentry *d;
	long ret;
	int err;

	if ((s64)size < 0)
		return -EINVAL;
	d = path_lookup(AT_FDCWD, path, WALK_FOLLOW, &err);
	if (!d)
		return err;
	ret = READ_ONCE(d->inode->writers) < 0 ? -ETXTBSY : truncate_inode(d->inode, (s64)size);
	dentry_put(d);
	return ret;
}

long sys_ftruncate(u64 fd, u64 size)
{
	struct file *f;
	long ret;

	if ((s64)size < 0)
		return -EINVAL;
	f = fd_get((int)fd);
	if (!f)
		return -EBADF;
	if (f->fmode & FMODE_PATH)
		ret = -EBADF;
	else if (!S_ISREG(file_inode(f)->mode) || !(f->fmode & FMODE_WRITE))
		ret = -EINVAL;
	else
		ret = truncate_inode(file_inode(f), (s64)size);
	file_put(f);
	return ret;
}

static long do_fallocate(struct file *f, u32 mode, u64 offset, u64 len)
{
	if (mode & ~0x7fu)
		return -EOPNOTSUPP;
	if ((mode & 0x03) == 0x02) /* PUNCH_HOLE wants KEEP_SIZE */
		return -EOPNOTSUPP;
	if (!(f->fmode & FMODE_WRITE))
		return -EBADF;
	if (S_ISFIFO(file_inode(f)->mode))
		return -ESPIPE;
	if (S_ISDIR(file_inode(f)->mode))
		return -EISDIR;
	if (!S_ISREG(file_inode(f)->mode))
		return -ENODEV;
	if (offset + len > MAX_FILE_SIZE)
		return -EFBIG;
	if (!f->ops->fallocate)
		return -EOPNOTSUPP;
	return f->ops->fallocate(f, (int)mode, offset, len);
}

long sys_fallocate(u64 fd, u64 mode, u64 offset, u64 len)
{
	struct file *f = fd_get((int)fd);
	long ret;

	if (!f)
		return -EBADF;
	if ((s64)offset < 0 || (s64)len <= 0)
		ret = -EINVAL;
	else
		ret = do_fallocate(f, (u32)mode, offset, len);
	file_put(f);
	return ret;
}

/* --- sync: nothing is ever behind
 * -------------------------------------------------------------- */

long sys_fsync(u64 fd)
{
	struct file *f = fd_get((int)fd);
	long ret = 0;

	if (!f)
		return -EBADF;
	if (f->fmode & FMODE_PATH)
		ret = -EBADF;
	else if (!S_ISREG(file_inode(f)->mode) && !S_ISDIR(file_inode(f)->mode))
		ret = -EINVAL;
	file_put(f);
	return ret;
}

long sys_fdatasync(u64 fd)
{
	return sys_fsync(fd);
}

long sys_sync(void)
{
	return 0;
}

long sys_syncfs(u64 fd)
{
	struct file *f = fd_get((int)fd);

	if (!f)
		return -EBADF;
	file_put(f);
	return 0;
}

long sys_sync_file_range(u64 fd, u64 offset, u64 len, u64 flags)
{
	struct file *f = fd_get((int)fd);
	long ret = 0;

	if (!f)
		return -EBADF;
	if ((flags & ~7UL) || (s64)offset < 0 || (s64)(offset + len) < 0)
		ret = -EINVAL;
	else if (!S_ISREG(file_inode(f)->mode) && !S_ISDIR(file_inode(f)->mode))
		ret = -ESPIPE;
	file_put(f);
	return ret;
}

long sys_umask(u64 mask)
{
	struct fs *fs = current->fs;
	u32 old = fs->umask;

	WRITE_ONCE(fs->umask, (u32)mask & 0777);
	return old;
}

long sys_vhangup(void)
{
	return 0;
}
