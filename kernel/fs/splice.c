/*
 * splice, vmsplice, tee: moving pages into, out of and between pipes.
 *
 * vmsplice() puts the user's own frames into the pipe: pinned, so that a
 * copy-on-write from then on copies for the writer, and what the pipe's reader sees is
 * what was there. A file's pages go in by reference too. The other directions copy.
 *
 * Locks, outermost first: pos_lock of a file, a pipe's reading.
 */
#include "kernel/fs/pipe.h"

#include "arch/x86_64/uaccess.h"
#include "kernel/signal.h"
#include "kernel/syscall.h"
#include "mm/mapping.h"
#include "mm/mm.h"

#define SPLICE_NONBLOCK 2U
#define SPLICE_KNOWN    0xfU /* MOVE, NONBLOCK, MORE, GIFT */

/* --- vmsplice ----------------------------------------------------------------------- */

static long give_pages(struct pipe *p, struct uio *u, bool nonblock)
{
	u64 base, len;
	long total = 0;
	int err = 0;

	while (!err && uio_piece(u, &base, &len)) {
		u32 off = base % PAGE_SIZE, n = (u32)MIN(len, PAGE_SIZE - off);
		struct pipe_buf buf = { .off = off, .len = n, .kind = PIPE_PINNED };

		buf.page = mm_pin(current->mm, base - off, false, &err);
		if (!buf.page)
			break;
		err = pipe_push(p, &buf, nonblock || total);
		if (err) {
			page_unpin(buf.page);
			break;
		}
		total += n;
		uio_skip(u, n);
	}
	return total ? total : err;
}

long sys_vmsplice(u64 fd, u64 vec, u64 count, u64 flags)
{
	struct file *f;
	struct user_iov v;
	bool nonblock = flags & SPLICE_NONBLOCK;
	long ret;

	if (flags & ~(u64)SPLICE_KNOWN)
		return -EINVAL;
	f = fd_get((int)fd);
	if (!f)
		return -EBADF;
	if (f->fmode & FMODE_PATH) {
		ret = -EBADF;
	} else {
		ret = iov_load(&v, vec, count);
		if (!ret) {
			if (!file_pipe(f))
				ret = -EBADF;
			else if (!v.u.left)
				ret = 0;
			else if (f->fmode & FMODE_WRITE)
				ret = give_pages(file_pipe(f), &v.u,
						 nonblock || (f->flags & O_NONBLOCK));
			else
				ret = file_read(f, NULL, &v.u);
			iov_free(&v);
		}
	}
	file_put(f);
	return ret;
}

/* --- pipe to pipe ---------------------------------------------------------------------- */

/* Wait until one side can give and the other take. 1, 0 (end of file), -errno. */
static int wait_both(struct pipe *in, struct pipe *out, bool nonblock)
{
	int ret = pipe_wait_readable(in, nonblock);

	if (ret <= 0)
		return ret;
	ret = pipe_wait_writable(out, nonblock);
	return ret ? ret : 1;
}

static long pipe_to_pipe(struct pipe *in, struct pipe *out, u64 len, bool nonblock)
{
	long total = 0;
	int ret = 0;

	while (len) {
		struct pipe_buf buf;

		ret = wait_both(in, out, nonblock || total);
		if (ret <= 0)
			break;
		mutex_lock(&in->reading);
		if (pipe_share(in, 0, &buf)) {
			u32 n = (u32)MIN(len, buf.len);

			buf.len = n;
			ret = pipe_push(out, &buf, true);
			if (ret) {
				pipe_buf_release(&buf);
			} else {
				pipe_consume(in, n);
				total += n;
				len -= n;
			}
		}
		mutex_unlock(&in->reading);
		if (ret < 0 && (ret != -EAGAIN || nonblock || total))
			break;
	}
	return total ? total : ret;
}

/* Like pipe_to_pipe, but what is read stays. */
static long tee_pipes(struct pipe *in, struct pipe *out, u64 len, bool nonblock)
{
	long total = 0;
	int ret = wait_both(in, out, nonblock);

	if (ret <= 0)
		return ret;
	mutex_lock(&in->reading);
	ret = 0;
	for (u32 i = 0; len; i++) {
		struct pipe_buf buf;

		if (!pipe_share(in, i, &buf))
			break;
		buf.len = (u32)MIN(len, buf.len);
		ret = pipe_push(out, &buf, true);
		if (ret) {
			pipe_buf_release(&buf);
			break;
		}
		total += buf.len;
		len -= buf.len;
	}
	mutex_unlock(&in->reading);
	return total ? total : ret;
}

long sys_tee(u64 in_fd, u64 out_fd, u64 len, u64 flags)
{
	struct file *in, *out;
	long ret = -EBADF;

	if (flags & ~(u64)SPLICE_KNOWN)
		return -EINVAL;
	if (!len)
		return 0;
	in = fd_get((int)in_fd);
	out = fd_get((int)out_fd);
	if (in && out && (in->fmode & FMODE_READ) && (out->fmode & FMODE_WRITE)) {
		struct pipe *a = file_pipe(in), *b = file_pipe(out);
		bool nonblock = (flags & SPLICE_NONBLOCK) || (in->flags & O_NONBLOCK) ||
				(out->flags & O_NONBLOCK);

		ret = a && b && a != b ? tee_pipes(a, b, MIN(len, MAX_RW), nonblock) : -EINVAL;
	}
	file_put(in);
	file_put(out);
	return ret;
}

/* --- file to pipe --------------------------------------------------------------------------- */

/* A buffer of up to n bytes of the page cache at pos; false at the end of the file. */
static bool cache_buf(struct mapping *m, u64 pos, u64 n, struct pipe_buf *buf)
{
	u64 size = READ_ONCE(m->size);

	if (pos >= size)
		return false;
	buf->kind = PIPE_CACHE;
	buf->off = pos % PAGE_SIZE;
	buf->len = (u32)MIN(MIN(n, size - pos), PAGE_SIZE - buf->off);
	buf->page = mapping_find(m, pos >> PAGE_SHIFT);
	if (!buf->page) { /* a hole */
		buf->page = zero_page;
		page_get(zero_page);
	}
	return true;
}

/* The same by reading into a page of our own. Bytes, 0 at the end, -errno. */
static long read_buf(struct file *f, u64 *pos, u64 n, struct pipe_buf *buf)
{
	struct segment seg;
	struct uio u;
	long got;

	buf->page = page_alloc(0, NO_NODE, 0, PG_KERNEL);
	if (!buf->page)
		return -ENOMEM;
	buf->kind = PIPE_OWN;
	buf->off = 0;
	uio_init(&u, &seg, (u64)page_address(buf->page), MIN(n, PAGE_SIZE), true);
	got = f->ops->read ? f->ops->read(f, pos, &u) : -EINVAL;
	if (got <= 0)
		page_put(buf->page);
	else
		buf->len = (u32)got;
	return got;
}

static long file_to_pipe(struct file *in, u64 *pos, struct pipe *out, u64 len, bool nonblock)
{
	struct mapping *m = file_mapping(in);
	long total = 0, ret = 0;

	while (len) {
		struct pipe_buf buf;

		ret = pipe_wait_writable(out, nonblock || total);
		if (ret)
			break;
		if (m) {
			if (!cache_buf(m, *pos, len, &buf))
				break;
		} else {
			u64 at = *pos;

			ret = read_buf(in, &at, len, &buf);
			if (ret <= 0)
				break;
		}
		ret = pipe_push(out, &buf, nonblock || total);
		if (ret) {
			pipe_buf_release(&buf);
			break;
		}
		*pos += buf.len;
		total += buf.len;
		len -= buf.len;
		if (!m && buf.len < PAGE_SIZE)
			break;
	}
	return total ? total : ret;
}

/* --- pipe to file
 * ------------------------------------------------------------------------------ */

static long pipe_to_file(struct pipe *in, struct file *out, u64 *pos, u64 len, bool nonblock)
{
	long total = 0, ret = 0;

	while (len) {
		struct pipe_buf buf;
		struct segment seg;
		struct uio u;

		ret = pipe_wait_readable(in, nonblock || total);
		if (ret <= 0)
			break;
		mutex_lock(&in->reading);
		if (pipe_peek(in, 0, &buf)) {
			uio_init(&u, &seg, (u64)page_address(buf.page) + buf.off, MIN(len, buf.len),
				 true);
			ret = out->ops->write ? out->ops->write(out, pos, &u) : -EINVAL;
			if (ret > 0) {
				pipe_consume(in, (u32)ret);
				total += ret;
				len -= (u64)ret;
			}
		}
		mutex_unlock(&in->reading);
		if (ret <= 0)
			break;
	}
	return total ? total : ret;
}

/* --- splice(2)
 * ------------------------------------------------------------------------------------ */

/* The user's offset, or the file's own position with its lock held. -errno, or 0. */
static long begin_pos(struct file *f, vaddr_t uoff, u64 *own, u64 **pos)
{
	*pos = own;
	if (uoff) {
		if (!(f->fmode & FMODE_SEEK))
			return -ESPIPE;
		if (get_user_u64(uoff, own))
			return -EFAULT;
		return (s64)*own < 0 ? -EINVAL : 0;
	}
	if (f->fmode & FMODE_POS_LOCK) {
		mutex_lock(&f->pos_lock);
		*pos = &f->pos;
	} else {
		*own = f->pos;
	}
	return 0;
}

static long end_pos(struct file *f, vaddr_t uoff, u64 own, long ret)
{
	if (uoff)
		return put_user_u64(uoff, own) ? -EFAULT : ret;
	if (f->fmode & FMODE_POS_LOCK)
		mutex_unlock(&f->pos_lock);
	return ret;
}

static long do_splice(struct file *in, vaddr_t uin, struct file *out, vaddr_t uout, u64 len,
		      bool nonblock)
{
	struct pipe *a = file_pipe(in), *b = file_pipe(out);
	u64 own, *pos;
	long ret;

	if (!(in->fmode & FMODE_READ) || !(out->fmode & FMODE_WRITE))
		return -EBADF;
	if ((a && uin) || (b && uout))
		return -ESPIPE;
	if (a && b)
		return a == b ? -EINVAL : pipe_to_pipe(a, b, len, nonblock);
	if (a) {
		if (out->flags & O_APPEND)
			return -EINVAL;
		ret = begin_pos(out, uout, &own, &pos);
		if (ret)
			return ret;
		return end_pos(out, uout, own, pipe_to_file(a, out, pos, len, nonblock));
	}
	if (b) {
		if (S_ISDIR(file_inode(in)->mode))
			return -EINVAL;
		ret = begin_pos(in, uin, &own, &pos);
		if (ret)
			return ret;
		return end_pos(in, uin, own, file_to_pipe(in, pos, b, len, nonblock));
	}
	return -EINVAL;
}

long sys_splice(u64 in_fd, u64 uin, u64 out_fd, u64 uout, u64 len, u64 flags)
{
	struct file *in, *out;
	long ret = -EBADF;

	if (!len)
		return 0;
	if (flags & ~(u64)SPLICE_KNOWN)
		return -EINVAL;
	in = fd_get((int)in_fd);
	out = fd_get((int)out_fd);
	if (in && out) {
		bool nonblock = flags & SPLICE_NONBLOCK;

		if (file_pipe(in) && (in->flags & O_NONBLOCK))
			nonblock = true;
		if (file_pipe(out) && (out->flags & O_NONBLOCK))
			nonblock = true;
		ret = do_splice(in, uin, out, uout, MIN(len, MAX_RW), nonblock);
	}
	file_put(in);
	file_put(out);
	return ret;
}
