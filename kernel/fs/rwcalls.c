/*
 * System calls that move bytes: read, write and their vector and positioned forms, lseek,
 * sendfile, copy_file_range.
 */
#include "arch/x86_64/uaccess.h"
#include "kernel/signal.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "kernel/vfs.h"
#include "mm/page.h"
#include "mm/slab.h"

/* --- one buffer ------------------------------------------------------------------ */

static long rw(u64 fd, vaddr_t buf, u64 n, u64 *pos, bool write)
{
	struct file *f = fd_get((int)fd);
	struct segment seg;
	struct uio u;
	long ret;

	if (!f)
		return -EBADF;
	if (pos && !(f->fmode & FMODE_SEEK) && !(f->fmode & FMODE_PATH))
		ret = -ESPIPE;
	else if (!(f->fmode & (write ? FMODE_WRITE : FMODE_READ)))
		ret = -EBADF;
	else if (!user_range_ok(buf, n))
		ret = -EFAULT;
	else {
		uio_init(&u, &seg, buf, MIN(n, MAX_RW), false);
		ret = write ? file_write(f, pos, &u) : file_read(f, pos, &u);
	}
	file_put(f);
	return ret;
}

long sys_read(u64 fd, u64 buf, u64 n)
{
	return rw(fd, buf, n, NULL, false);
}

long sys_write(u64 fd, u64 buf, u64 n)
{
	return rw(fd, buf, n, NULL, true);
}

long sys_pread64(u64 fd, u64 buf, u64 n, u64 pos)
{
	return (s64)pos < 0 ? -EINVAL : rw(fd, buf, n, &pos, false);
}

long sys_pwrite64(u64 fd, u64 buf, u64 n, u64 pos)
{
	return (s64)pos < 0 ? -EINVAL : rw(fd, buf, n, &pos, true);
}

/* --- vectors ------------------------------------------------------------------------ */

static long rwv(u64 fd, vaddr_t vec, u64 count, u64 *pos, bool write)
{
	struct file *f = fd_get((int)fd);
	struct user_iov v;
	long ret;

	if (!f)
		return -EBADF;
	if (pos && !(f->fmode & FMODE_SEEK) && !(f->fmode & FMODE_PATH))
		ret = -ESPIPE;
	else if (!(f->fmode & (write ? FMODE_WRITE : FMODE_READ)))
		ret = -EBADF;
	else
		ret = iov_load(&v, vec, count);
	if (!ret) {
		if (v.u.left)
			ret = write ? file_write(f, pos, &v.u) : file_read(f, pos, &v.u);
		iov_free(&v);
	}
	file_put(f);
	return ret;
}

long sys_readv(u64 fd, u64 vec, u64 count)
{
	return rwv(fd, vec, count, NULL, false);
}

long sys_writev(u64 fd, u64 vec, u64 count)
{
	return rwv(fd, vec, count, NULL, true);
}

/* The position comes as two halves for 32-bit's sake; on 64-bit the first has all of it. */
long sys_preadv(u64 fd, u64 vec, u64 count, u64 pos, u64 high)
{
	return (s64)pos < 0 ? -EINVAL : rwv(fd, vec, count, &pos, false);
}

long sys_pwritev(u64 fd, u64 vec, u64 count, u64 pos, u64 high)
{
	return (s64)pos < 0 ? -EINVAL : rwv(fd, vec, count, &pos, true);
}

/* Flags are hints here: nothing is ever on a disk. RWF_APPEND and unknown ones are not. */
#define RWF_HINTS 0xf /* HIPRI, DSYNC, SYNC, NOWAIT */

long sys_preadv2(u64 fd, u64 vec, u64 count, u64 pos, u64 high, u64 flags)
{
	if (flags & ~(u64)RWF_HINTS)
		return -EOPNOTSUPP;
	if ((s64)pos == -1)
		return rwv(fd, vec, count, NULL, false);
	return sys_preadv(fd, vec, count, pos, high);
}

long sys_pwritev2(u64 fd, u64 vec, u64 count, u64 pos, u64 high, u64 flags)
{
	if (flags & ~(u64)RWF_HINTS)
		return -EOPNOTSUPP;
	if ((s64)pos == -1)
		return rwv(fd, vec, count, NULL, true);
	return sys_pwritev(fd, vec, count, pos, high);
}

/* --- position ------------------------------------------------------------------------ */

/* Where a file without a seek of its own goes: sizes are those of the inode. */
static long plain_seek(struct file *f, s64 offset, int whence)
{
	s64 base = 0;

	if (whence == SEEK_CUR)
		base = (s64)f->pos;
	else if (whence == SEEK_END)
		base = (s64)inode_size(file_inode(f));
	else if (whence != SEEK_SET)
		return -EINVAL;
	if (__builtin_add_overflow(base, offset, &base))
		return -EINVAL;
	if (base < 0)
		return -EINVAL;
	f->pos = (u64)base;
	return base;
}

long sys_lseek(u64 fd, u64 offset, u64 whence)
{
	struct file *f = fd_get((int)fd);
	long ret;

	if (!f)
		return -EBADF;
	if (f->fmode & FMODE_PATH)
		ret = -EBADF;
	else if ((u32)whence > SEEK_HOLE)
		ret = -EINVAL;
	else if (!(f->fmode & FMODE_SEEK) && !f->ops->seek)
		ret = -ESPIPE;
	else {
		mutex_lock(&f->pos_lock);
		ret = f->ops->seek ? f->ops->seek(f, (s64)offset, (int)whence) :
				     plain_seek(f, (s64)offset, (int)whence);
		mutex_unlock(&f->pos_lock);
	}
	file_put(f);
	return ret;
}

/* --- from file to file ------------------------------------------------------------------ */

#define COPY_CHUNK (4 * PAGE_SIZE)

/*
 * Copy up to n bytes through a kernel buffer. Positions: NULL stands for the file's own. What
 * was read but could not be written is given back by moving the read position.
 */
static long copy_between(struct file *in, u64 *in_pos, struct file *out, u64 *out_pos, u64 n)
{
	void *buf = kmalloc(COPY_CHUNK);
	long total = 0, ret = 0;

	if (!buf)
		return -ENOMEM;
	while (n) {
		u64 at = in_pos ? *in_pos : READ_ONCE(in->pos);
		struct segment seg;
		struct uio u;
		long got, put;

		uio_init(&u, &seg, (u64)buf, MIN(n, COPY_CHUNK), true);
		got = ret = file_read(in, &at, &u);
		if (got <= 0)
			break;
		uio_init(&u, &seg, (u64)buf, (u64)got, true);
		put = ret = file_write(out, out_pos, &u);
		if (put <= 0)
			break;
		if (in_pos)
			*in_pos += (u64)put;
		else
			WRITE_ONCE(in->pos, in->pos + (u64)put);
		total += put;
		n -= (u64)put;
		if (put < got)
			break;
		if (signal_pending(current))
			break;
		cond_resched();
	}
	kfree(buf);
	return total ? total : ret;
}

long sys_sendfile(u64 out_fd, u64 in_fd, u64 uoffset, u64 count)
{
	struct file *in = fd_get((int)in_fd), *out = fd_get((int)out_fd);
	long ret = -EBADF;
	u64 pos = 0;

	if (!in || !out || !(in->fmode & FMODE_READ) || !(out->fmode & FMODE_WRITE))
		goto out;
	ret = -EFAULT;
	if (uoffset && get_user_u64(uoffset, &pos))
		goto out;
	ret = -ESPIPE;
	if (uoffset && !(in->fmode & FMODE_SEEK))
		goto out;
	ret = -EINVAL;
	if ((s64)pos < 0 || (s64)count < 0 || (out->flags & O_APPEND))
		goto out;
	if (!(in->fmode & FMODE_SEEK) && !S_ISCHR(file_inode(in)->mode))
		goto out; /* must be something that could be mapped */
	ret = copy_between(in, uoffset ? &pos : NULL, out, NULL, MIN(count, MAX_RW));
	if (uoffset && put_user_u64(uoffset, pos))
		ret = -EFAULT;
out:
	file_put(in);
	file_put(out);
	return ret;
}

long sys_copy_file_range(u64 in_fd, u64 uin, u64 out_fd, u64 uout, u64 len, u64 flags)
{
	struct file *in = fd_get((int)in_fd), *out = fd_get((int)out_fd);
	u64 in_pos = 0, out_pos = 0, n;
	long ret = -EBADF;

	if (!in || !out)
		goto out;
	ret = -EFAULT;
	if ((uin && get_user_u64(uin, &in_pos)) || (uout && get_user_u64(uout, &out_pos)))
		goto out;
	ret = -EINVAL;
	if (flags)
		goto out;
	ret = -EISDIR;
	if (S_ISDIR(file_inode(in)->mode) || S_ISDIR(file_inode(out)->mode))
		goto out;
	ret = -EINVAL;
	if (!S_ISREG(file_inode(in)->mode) || !S_ISREG(file_inode(out)->mode))
		goto out;
	ret = -EBADF;
	if (!(in->fmode & FMODE_READ) || !(out->fmode & FMODE_WRITE) || (out->flags & O_APPEND))
		goto out;
	if (!uin)
		in_pos = in->pos;
	if (!uout)
		out_pos = out->pos;
	n = MIN(len, MAX_RW);
	ret = -EOVERFLOW;
	if (in_pos + n < in_pos || out_pos + n < out_pos)
		goto out;
	ret = -EINVAL;
	if (file_inode(in) == file_inode(out) && in_pos < out_pos + n && out_pos < in_pos + n)
		goto out;
	ret = copy_between(in, uin ? &in_pos : NULL, out, uout ? &out_pos : NULL, n);
	if (ret > 0 && uin && put_user_u64(uin, in_pos))
		ret = -EFAULT;
	if (ret > 0 && uout && put_user_u64(uout, out_pos))
		ret = -EFAULT;
out:
	file_put(in);
	file_put(out);
	return ret;
}

/* --- hints ------------------------------------------------------------------------------ */

long sys_readahead(u64 fd, u64 offset, u64 count)
{
	struct file *f = fd_get((int)fd);
	long ret = 0;

	if (!f)
		return -EBADF;
	if (!(f->fmode & FMODE_READ))
		ret = -EBADF;
	else if (!S_ISREG(file_inode(f)->mode))
		ret = -EINVAL;
	file_put(f);
	return ret;
}

long sys_fadvise64(u64 fd, u64 offset, u64 len, u64 advice)
{
	struct file *f = fd_get((int)fd);
	long ret = 0;

	if (!f)
		return -EBADF;
	if (f->fmode & FMODE_PATH)
		ret = -EBADF;
	else if (S_ISFIFO(file_inode(f)->mode))
		ret = -ESPIPE;
	else if ((s64)len < 0 || advice > 5)
		ret = -EINVAL;
	file_put(f);
	return ret;
}
