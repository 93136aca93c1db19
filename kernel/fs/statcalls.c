/*
 * System calls about what a file is: stat and its relatives, access, mode, owner, times, links'
 * text, and the file system as a whole.
 */
#include <asm/stat.h>
#include <asm/statfs.h>

#include "arch/x86_64/uaccess.h"
#include "kernel/process.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "kernel/vfs.h"
#include "mm/mapping.h"

#define NS 1000000000UL

/* --- stat ------------------------------------------------------------------------ */

static u64 inode_blocks(const struct inode *inode)
{
	return inode->fops == &tmpfs_file_ops ? READ_ONCE(inode->mapping->nr_pages) * 8 : 0;
}

static bool has_rdev(const struct inode *inode)
{
	return S_ISCHR(inode->mode) || S_ISBLK(inode->mode);
}

static long put_stat(struct inode *inode, vaddr_t ubuf)
{
	struct stat st = {
		.st_dev = inode->vol->dev,
		.st_ino = inode->ino,
		.st_nlink = inode->nlink,
		.st_mode = inode->mode,
		.st_uid = inode->uid,
		.st_gid = inode->gid,
		.st_rdev = has_rdev(inode) ? inode->rdev : 0,
		.st_size = (s64)inode_size(inode),
		.st_blksize = inode->vol == &vol_proc ? 1024 : 4096,
		.st_blocks = (s64)inode_blocks(inode),
		.st_atime = inode->atime / NS,
		.st_atime_nsec = inode->atime % NS,
		.st_mtime = inode->mtime / NS,
		.st_mtime_nsec = inode->mtime % NS,
		.st_ctime = inode->ctime / NS,
		.st_ctime_nsec = inode->ctime % NS,
	};

	return copy_to_user(ubuf, &st, sizeof(st)) ? -EFAULT : 0;
}

static long stat_at(int dirfd, vaddr_t path, unsigned flags, vaddr_t ubuf)
{
	int err;
	struct dentry *d = path_lookup(dirfd, path, flags, &err);
	long ret;

	if (!d)
		return err;
	ret = put_stat(d->inode, ubuf);
	dentry_put(d);
	return ret;
}

static unsigned walk_flags(u64 at_flags)
{
	return (at_flags & AT_SYMLINK_NOFOLLOW ? 0 : WALK_FOLLOW) |
	       (at_flags & AT_EMPTY_PATH ? WALK_EMPTY : 0);
}

long sys_stat(u64 path, u64 buf)
{
	return stat_at(AT_FDCWD, path, WALK_FOLLOW, buf);
}

long sys_lstat(u64 path, u64 buf)
{
	return stat_at(AT_FDCWD, path, 0, buf);
}

long sys_fstat(u64 fd, u64 buf)
{
	struct file *f = fd_get((int)fd);
	long ret;

	if (!f)
		return -EBADF;
	ret = put_stat(file_inode(f), buf);
	file_put(f);
	return ret;
}

long sys_newfstatat(u64 dirfd, u64 path, u64 buf, u64 flags)
{
	if (flags & ~(u64)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT))
		return -EINVAL;
	return stat_at((int)dirfd, path, walk_flags(flags), buf);
}

static struct statx_timestamp stamp(u64 ns)
{
	return (struct statx_timestamp){ .tv_sec = (s64)(ns / NS), .tv_nsec = (u32)(ns % NS) };
}

long sys_statx(u64 dirfd, u64 path, u64 flags, u64 mask, u64 ubuf)
{
	struct statx sx = { 0 };
	struct inode *inode;
	struct dentry *d;
	int err;

	if (flags & ~(u64)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT |
			   AT_STATX_SYNC_TYPE))
		return -EINVAL;
	if ((flags & AT_STATX_SYNC_TYPE) == AT_STATX_SYNC_TYPE || (mask & STATX__RESERVED))
		return -EINVAL;
	d = path_lookup((int)dirfd, path, walk_flags(flags), &err);
	if (!d)
		return err;
	inode = d->inode;
	sx.stx_mask = STATX_BASIC_STATS | STATX_BTIME;
	sx.stx_blksize = 4096;
	sx.stx_nlink = inode->nlink;
	sx.stx_uid = inode->uid;
	sx.stx_gid = inode->gid;
	sx.stx_mode = (u16)inode->mode;
	sx.stx_ino = inode->ino;
	sx.stx_size = inode_size(inode);
	sx.stx_blocks = inode_blocks(inode);
	sx.stx_atime = stamp(inode->atime);
	sx.stx_btime = stamp(inode->btime);
	sx.stx_ctime = stamp(inode->ctime);
	sx.stx_mtime = stamp(inode->mtime);
	if (has_rdev(inode)) {
		sx.stx_rdev_major = DEV_MAJOR(inode->rdev);
		sx.stx_rdev_minor = DEV_MINOR(inode->rdev);
	}
	sx.stx_dev_major = DEV_MAJOR(inode->vol->dev);
	sx.stx_dev_minor = DEV_MINOR(inode->vol->dev);
	dentry_put(d);
	return copy_to_user(ubuf, &sx, sizeof(sx)) ? -EFAULT : 0;
}

/* --- access ------------------------------------------------------------------------- */

/*
 * May a process of this identity? Root may all but execute what has no x bit.
 * want: 4 read, 2 write, 1 execute.
 */
static bool allowed(const struct inode *inode, u32 uid, u32 gid, u32 want)
{
	u32 bits = inode->mode & 7;

	if (uid == 0)
		return !(want & 1) || S_ISDIR(inode->mode) || (inode->mode & 0111);
	if (uid == inode->uid)
		bits = inode->mode >> 6 & 7;
	else if (gid == inode->gid)
		bits = inode->mode >> 3 & 7;
	return (bits & want) == want;
}

static long do_access(int dirfd, vaddr_t path, u32 want, u64 flags)
{
	const struct cred *cred = &current->process->cred;
	struct dentry *d;
	bool ok;
	int err;

	if (want & ~7u)
		return -EINVAL;
	if (flags & ~(u64)(AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	d = path_lookup(dirfd, path, walk_flags(flags), &err);
	if (!d)
		return err;
	ok = allowed(d->inode, flags & AT_EACCESS ? cred->euid : cred->uid,
		     flags & AT_EACCESS ? cred->egid : cred->gid, want);
	dentry_put(d);
	return ok ? 0 : -EACCES;
}

long sys_access(u64 path, u64 mode)
{
	return do_access(AT_FDCWD, path, (u32)mode, 0);
}

long sys_faccessat(u64 dirfd, u64 path, u64 mode)
{
	return do_access((int)dirfd, path, (u32)mode, 0);
}

long sys_faccessat2(u64 dirfd, u64 path, u64 mode, u64 flags)
{
	return do_access((int)dirfd, path, (u32)mode, flags);
}

/* --- changing what stat shows ---------------------------------------------------------- */

static bool is_owner(const struct inode *inode)
{
	return is_root() || current->process->cred.fsuid == inode->uid;
}

static long set_mode(struct inode *inode, u32 mode)
{
	if (!is_owner(inode))
		return -EPERM;
	if (S_ISLNK(inode->mode))
		return -EOPNOTSUPP;
	WRITE_ONCE(inode->mode, (inode->mode & S_IFMT) | (mode & 07777));
	inode->ctime = now_real_ns();
	return 0;
}

static long set_owner(struct inode *inode, u32 uid, u32 gid)
{
	if (!is_root() && (uid != ~0u || gid != ~0u))
		return -EPERM;
	if (uid != ~0u)
		inode->uid = uid;
	if (gid != ~0u)
		inode->gid = gid;
	if (S_ISREG(inode->mode) && (inode->mode & 0111))
		inode->mode &= ~06000u;
	inode->ctime = now_real_ns();
	return 0;
}

long sys_fchmodat(u64 dirfd, u64 path, u64 mode)
{
	int err;
	struct dentry *d = path_lookup((int)dirfd, path, WALK_FOLLOW, &err);
	long ret;

	if (!d)
		return err;
	ret = set_mode(d->inode, (u32)mode);
	dentry_put(d);
	return ret;
}

long sys_chmod(u64 path, u64 mode)
{
	return sys_fchmodat((u64)AT_FDCWD, path, mode);
}

long sys_fchmod(u64 fd, u64 mode)
{
	struct file *f = fd_get((int)fd);
	long ret;

	if (!f)
		return -EBADF;
	ret = f->fmode & FMODE_PATH ? -EBADF : set_mode(file_inode(f), (u32)mode);
	file_put(f);
	return ret;
}

long sys_fchownat(u64 dirfd, u64 path, u64 uid, u64 gid, u64 flags)
{
	struct dentry *d;
	long ret;
	int err;

	if (flags & ~(u64)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	d = path_lookup((int)dirfd, path, walk_flags(flags), &err);
	if (!d)
		return err;
	ret = set_owner(d->inode, (u32)uid, (u32)gid);
	dentry_put(d);
	return ret;
}

long sys_chown(u64 path, u64 uid, u64 gid)
{
	return sys_fchownat((u64)AT_FDCWD, path, uid, gid, 0);
}

long sys_lchown(u64 path, u64 uid, u64 gid)
{
	return sys_fchownat((u64)AT_FDCWD, path, uid, gid, AT_SYMLINK_NOFOLLOW);
}

long sys_fchown(u64 fd, u64 uid, u64 gid)
{
	struct file *f = fd_get((int)fd);
	long ret;

	if (!f)
		return -EBADF;
	ret = f->fmode & FMODE_PATH ? -EBADF : set_owner(file_inode(f), (u32)uid, (u32)gid);
	file_put(f);
	return ret;
}

/* --- times -------------------------------------------------------------------------------- */

#define UTIME_NOW_  0x3fffffff
#define UTIME_OMIT_ 0x3ffffffe

/* Two (seconds, nanoseconds) pairs; nanoseconds may be UTIME_NOW_ or UTIME_OMIT_. */
static long set_times(int dirfd, vaddr_t path, u64 flags, const s64 t[4])
{
	struct dentry *d = NULL;
	struct file *f;
	u64 now;
	int err;

	for (int i = 1; i < 4; i += 2) {
		if (t[i] != UTIME_NOW_ && t[i] != UTIME_OMIT_ && (t[i] < 0 || t[i] >= (s64)NS))
			return -EINVAL;
	}
	if (t[1] == UTIME_OMIT_ && t[3] == UTIME_OMIT_)
		return 0;
	if (flags & ~(u64)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	if (path) {
		d = path_lookup(dirfd, path, walk_flags(flags), &err);
		if (!d)
			return err;
	} else {
		f = dirfd == AT_FDCWD ? NULL : fd_get(dirfd);
		if (dirfd == AT_FDCWD)
			return -EFAULT;
		if (!f)
			return -EBADF;
		d = dentry_get(f->dentry);
		file_put(f);
	}
	now = now_real_ns();
	if (t[1] != UTIME_OMIT_)
		d->inode->atime = t[1] == UTIME_NOW_ ? now : (u64)t[0] * NS + (u64)t[1];
	if (t[3] != UTIME_OMIT_)
		d->inode->mtime = t[3] == UTIME_NOW_ ? now : (u64)t[2] * NS + (u64)t[3];
	d->inode->ctime = now;
	dentry_put(d);
	return 0;
}

long sys_utimensat(u64 dirfd, u64 path, u64 utimes, u64 flags)
{
	s64 t[4] = { 0, UTIME_NOW_, 0, UTIME_NOW_ };

	if (utimes && copy_from_user(t, utimes, sizeof(t)))
		return -EFAULT;
	return set_times((int)dirfd, path, flags, t);
}

long sys_futimesat(u64 dirfd, u64 path, u64 utimes)
{
	s64 t[4] = { 0, UTIME_NOW_, 0, UTIME_NOW_ };

	if (utimes) {
		if (copy_from_user(t, utimes, sizeof(t)))
			return -EFAULT;
		if (t[1] < 0 || t[1] >= 1000000 || t[3] < 0 || t[3] >= 1000000)
			return -EINVAL;
		t[1] *= 1000;
		t[3] *= 1000;
	}
	return set_times((int)dirfd, path, 0, t);
}

long sys_utimes(u64 path, u64 utimes)
{
	return sys_futimesat((u64)AT_FDCWD, path, utimes);
}

long sys_utime(u64 path, u64 utimes)
{
	s64 t[4] = { 0, UTIME_NOW_, 0, UTIME_NOW_ }, seconds[2];

	if (utimes) {
		if (copy_from_user(seconds, utimes, sizeof(seconds)))
			return -EFAULT;
		t[0] = seconds[0];
		t[2] = seconds[1];
		t[1] = t[3] = 0;
	}
	return set_times(AT_FDCWD, path, 0, t);
}

/* --- links' text ------------------------------------------------------------------------------ */

long sys_readlinkat(u64 dirfd, u64 path, u64 ubuf, u64 size)
{
	struct dentry *d;
	char *buf;
	long n;
	int err;

	if ((s32)size <= 0)
		return -EINVAL;
	d = path_lookup((int)dirfd, path, WALK_EMPTY, &err);
	if (!d)
		return err;
	if (!S_ISLNK(d->inode->mode)) {
		u8 first = 1;

		get_user_u8(path, &first);
		dentry_put(d);
		return first ? -EINVAL : -ENOENT;
	}
	buf = kpage_alloc(0);
	n = buf ? inode_readlink(d, buf, PATH_MAX) : -ENOMEM;
	dentry_put(d);
	n = MIN(n, (s32)size);
	if (n > 0 && copy_to_user(ubuf, buf, (size_t)n))
		n = -EFAULT;
	kpage_free(buf);
	return n;
}

long sys_readlink(u64 path, u64 buf, u64 size)
{
	return sys_readlinkat((u64)AT_FDCWD, path, buf, size);
}

/* --- file systems
 * -------------------------------------------------------------------------------- */

static long put_statfs(const struct volume *vol, vaddr_t ubuf)
{
	struct statfs st = {
		.f_type = vol->magic,
		.f_bsize = 4096,
		.f_namelen = NAME_MAX,
		.f_frsize = 4096,
		.f_flags = 0x20, /* ST_VALID */
	};

	st.f_fsid.val[0] = (int)vol->dev;
	if (!vol->fixed) {
		u64 used = mapping_pages();

		st.f_blocks = (s64)(frames_total(NO_NODE) / 2); /* tmpfs.c, growth_limit() */
		st.f_bfree = st.f_bavail = st.f_blocks - (s64)MIN(used, (u64)st.f_blocks);
		st.f_files = st.f_blocks;
		st.f_ffree = st.f_files - (s64)vol->nr_inodes;
	}
	return copy_to_user(ubuf, &st, sizeof(st)) ? -EFAULT : 0;
}

long sys_statfs(u64 path, u64 buf)
{
	int err;
	struct dentry *d = path_lookup(AT_FDCWD, path, WALK_FOLLOW, &err);
	const struct volume *vol;

	if (!d)
		return err;
	vol = d->inode->vol;
	dentry_put(d);
	return put_statfs(vol, buf);
}

long sys_fstatfs(u64 fd, u64 buf)
{
	struct file *f = fd_get((int)fd);
	const struct volume *vol;

	if (!f)
		return -EBADF;
	vol = file_inode(f)->vol;
	file_put(f);
	return put_statfs(vol, buf);
}

/*
 * The volumes are where they are for good. Mounting one of them where it is gives
 * EBUSY as on Linux; a tmpfs on any directory is accepted and changes nothing, since that
 * directory is memory already.
 */
long sys_mount(u64 source, u64 target, u64 utype, u64 flags, u64 data)
{
	struct dentry *d;
	char *type;
	bool top;
	int err;

	if (!is_root())
		return -EPERM;
	d = path_lookup(AT_FDCWD, target, WALK_FOLLOW, &err);
	if (!d)
		return err;
	top = d->volume_root;
	if (!S_ISDIR(d->inode->mode)) {
		dentry_put(d);
		return -ENOTDIR;
	}
	if (!utype) {
		dentry_put(d);
		return flags & (MS_REMOUNT | MS_PRIVATE | MS_SHARED | MS_SLAVE) ? 0 : -EINVAL;
	}
	err = user_path(utype, &type);
	if (err) {
		dentry_put(d);
		return err;
	}
	if (flags & (MS_REMOUNT | MS_PRIVATE | MS_SHARED | MS_SLAVE))
		err = 0;
	else if (!strcmp(type, "tmpfs") || !strcmp(type, "ramfs") || !strcmp(type, "devpts") ||
		 !strcmp(type, "mqueue"))
		err = 0;
	else if (!strcmp(type, d->inode->vol->type))
		err = top ? -EBUSY : 0;
	else
		err = -ENODEV;
	dentry_put(d);
	kpage_free(type);
	return err;
}

long sys_umount2(u64 target, u64 flags)
{
	struct dentry *d;
	int err;

	if (!is_root())
		return -EPERM;
	d = path_lookup(AT_FDCWD, target, WALK_FOLLOW, &err);
	if (!d)
		return err;
	err = d->volume_root ? -EBUSY : -EINVAL;
	dentry_put(d);
	return err;
}
