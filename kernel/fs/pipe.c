/*
 * Pipes and fifos.
 *
 * write() copies from the user into a page first, without any lock, and then puts the page into the
 * ring, or its bytes behind those of the last page if they fit there: so a
 * write of up to PIPE_BUF bytes is in the pipe entirely or not at all, also
 * when the user's memory cannot be read. See pipe.h for the locks.
 */
#include "kernel/fs/pipe.h"

#include <asm/ioctls.h>
#include <linux/poll.h>
#include <asm/signal.h>

#include "arch/x86_64/uaccess.h"
#include "kernel/printf.h"
#include "kernel/process.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "mm/mm.h"
#include "mm/slab.h"

DEFINE_LOCK_CLASS(pipe_class, "pipe", RANK_VFS_LEAF);
DEFINE_LOCK_CLASS(pipe_reading_class, "pipe_reading", RANK_VFS);

static struct pipe *pipe_create(void)
{
	struct pipe *p = kzalloc(sizeof(*p));

	if (!p)
		return NULL;
	p->slots = PIPE_SLOTS;
	p->ring = kzalloc(p->slots * sizeof(p->ring[0]));
	if (!p->ring) {
		kfree(p);
		return NULL;
	}
	spin_init(&p->lock, &pipe_class);
	mutex_init(&p->reading, &pipe_reading_class);
	wait_init(&p->read_wait);
	wait_init(&p->write_wait);
	return p;
}

void pipe_buf_release(struct pipe_buf *buf)
{
	if (buf->kind == PIPE_PINNED)
		page_unpin(buf->page);
	else
		page_put(buf->page);
}

/* No ends open any more, so nobody else is here. */
static void pipe_empty(struct pipe *p)
{
	while (p->tail != p->head)
		pipe_buf_release(&p->ring[p->tail++ & (p->slots - 1)]);
	if (p->spare)
		page_put(p->spare);
	p->spare = NULL;
}

static void pipe_destroy(struct inode *inode)
{
	struct pipe *p = inode->pipe;

	if (!p)
		return;
	pipe_empty(p);
	kfree(p->ring);
	kfree(p);
}

/* --- the ring ---------------------------------------------------------------------- */

static struct pipe_buf *slot(struct pipe *p, u32 i)
{
	return &p->ring[i & (p->slots - 1)];
}

/* Own bytes that fit behind those of the last page go there. lock held. */
static bool can_merge(struct pipe *p, const struct pipe_buf *buf)
{
	struct pipe_buf *last = slot(p, p->head - 1);

	return buf->kind == PIPE_OWN && p->head != p->tail && last->kind == PIPE_OWN &&
	       last->off + last->len + buf->len <= PAGE_SIZE;
}

/* lock held. */
static bool has_room(struct pipe *p, const struct pipe_buf *buf)
{
	return p->head - p->tail < p->slots || can_merge(p, buf);
}

/* True if buf was taken; *left is a page that was copied from and is free now. */
static bool try_push(struct pipe *p, struct pipe_buf *buf, struct page **left)
{
	bool done = false;

	*left = NULL;
	spin_lock(&p->lock);
	if (can_merge(p, buf)) {
		struct pipe_buf *last = slot(p, p->head - 1);

		memcpy((char *)page_address(last->page) + last->off + last->len,
		       (char *)page_address(buf->page) + buf->off, buf->len);
		last->len += buf->len;
		*left = buf->page;
		done = true;
	} else if (p->head - p->tail < p->slots) {
		*slot(p, p->head++) = *buf;
		done = true;
	}
	if (*left && !p->spare) {
		p->spare = *left;
		*left = NULL;
	}
	spin_unlock(&p->lock);
	return done;
}

static bool no_readers(struct pipe *p)
{
	return !READ_ONCE(p->readers);
}

static bool room_or_error(struct pipe *p, const struct pipe_buf *buf)
{
	bool ok;

	spin_lock(&p->lock);
	ok = has_room(p, buf) || !p->readers;
	spin_unlock(&p->lock);
	return ok;
}

int pipe_push(struct pipe *p, struct pipe_buf *buf, bool nonblock)
{
	struct page *left;

	for (;;) {
		if (no_readers(p)) {
			signal_self(SIGPIPE);
			return -EPIPE;
		}
		if (try_push(p, buf, &left))
			break;
		if (nonblock)
			return -EAGAIN;
		if (wait_event_interruptible(&p->write_wait, room_or_error(p, buf)))
			return -ERESTARTSYS;
	}
	if (left)
		page_put(left);
	wake_up_all(&p->read_wait);
	return 0;
}

bool pipe_peek(struct pipe *p, u32 i, struct pipe_buf *buf)
{
	bool there;

	spin_lock(&p->lock);
	there = i < p->head - p->tail;
	if (there)
		*buf = *slot(p, p->tail + i);
	spin_unlock(&p->lock);
	return there;
}

bool pipe_share(struct pipe *p, u32 i, struct pipe_buf *buf)
{
	bool there;

	spin_lock(&p->lock);
	there = i < p->head - p->tail;
	if (there) {
		struct pipe_buf *b = slot(p, p->tail + i);

		if (b->kind == PIPE_OWN)
			b->kind = PIPE_CACHE;
		*buf = *b;
		buf->kind = PIPE_CACHE;
		page_get(buf->page);
	}
	spin_unlock(&p->lock);
	return there;
}

int pipe_wait_writable(struct pipe *p, bool nonblock)
{
	static const struct pipe_buf full = { .kind = PIPE_CACHE, .len = PAGE_SIZE };

	if (room_or_error(p, &full))
		return 0;
	if (nonblock)
		return -EAGAIN;
	return wait_event_interruptible(&p->write_wait, room_or_error(p, &full)) ? -ERESTARTSYS : 0;
}

void pipe_consume(struct pipe *p, u32 n)
{
	struct pipe_buf done = { .page = NULL }, *b;

	spin_lock(&p->lock);
	b = slot(p, p->tail);
	b->off += n;
	b->len -= n;
	if (!b->len) {
		p->tail++;
		if (b->kind == PIPE_OWN && !p->spare)
			p->spare = b->page;
		else
			done = *b;
	}
	spin_unlock(&p->lock);
	if (done.page)
		pipe_buf_release(&done);
	wake_up_all(&p->write_wait);
}

static bool is_empty(struct pipe *p)
{
	return READ_ONCE(p->head) == READ_ONCE(p->tail);
}

int pipe_wait_readable(struct pipe *p, bool nonblock)
{
	for (;;) {
		if (!is_empty(p))
			return 1;
		if (!READ_ONCE(p->writers))
			return !is_empty(p);
		if (nonblock)
			return -EAGAIN;
		/* What wakes us may be gone to another reader already: look again. */
		if (wait_event_interruptible(&p->read_wait,
					     !is_empty(p) || !READ_ONCE(p->writers)))
			return -ERESTARTSYS;
	}
}

/* --- read and write -------------------------------------------------------------------- */

static long pipe_read(struct file *f, u64 *pos, struct uio *u)
{
	struct pipe *p = file_inode(f)->pipe;
	long total = 0;

	if (!u->left)
		return 0;
	for (;;) {
		struct pipe_buf buf;
		int ret;

		mutex_lock(&p->reading);
		while (u->left && pipe_peek(p, 0, &buf)) {
			size_t want = MIN(u->left, buf.len);
			size_t n = uio_put(u, (char *)page_address(buf.page) + buf.off, want);

			total += (long)n;
			if (n)
				pipe_consume(p, (u32)n);
			if (n < want) {
				mutex_unlock(&p->reading);
				return total ? total : -EFAULT;
			}
		}
		mutex_unlock(&p->reading);
		if (total)
			return total;
		ret = pipe_wait_readable(p, f->flags & O_NONBLOCK);
		if (ret <= 0)
			return ret;
	}
}

static struct page *get_page(struct pipe *p)
{
	struct page *page;

	spin_lock(&p->lock);
	page = p->spare;
	p->spare = NULL;
	spin_unlock(&p->lock);
	return page ? page : page_alloc(0, NO_NODE, 0, PG_KERNEL);
}

static void put_page(struct pipe *p, struct page *page)
{
	spin_lock(&p->lock);
	if (!p->spare) {
		p->spare = page;
		page = NULL;
	}
	spin_unlock(&p->lock);
	if (page)
		page_put(page);
}

static long pipe_write(struct file *f, u64 *pos, struct uio *u)
{
	struct pipe *p = file_inode(f)->pipe;
	long total = 0;
	int err = 0;

	while (u->left && !err) {
		struct pipe_buf buf = { .kind = PIPE_OWN };
		size_t want = MIN(u->left, PAGE_SIZE);

		buf.page = get_page(p);
		if (!buf.page) {
			err = -ENOMEM;
			break;
		}
		buf.len = (u32)uio_get(u, page_address(buf.page), want);
		if (buf.len < want && (!total || !buf.len)) { /* a first piece goes whole or not */
			put_page(p, buf.page);
			err = -EFAULT;
			break;
		}
		err = pipe_push(p, &buf, f->flags & O_NONBLOCK);
		if (err)
			put_page(p, buf.page);
		else
			total += buf.len;
		if (buf.len < want)
			err = -EFAULT;
	}
	return total ? total : err;
}

/* --- poll, ioctl, size --------------------------------------------------------------------- */

static u32 pipe_poll(struct file *f, struct poll_table *t)
{
	struct pipe *p = file_inode(f)->pipe;
	u32 events = 0;

	if (f->fmode & FMODE_READ)
		poll_wait(t, &p->read_wait);
	if (f->fmode & FMODE_WRITE)
		poll_wait(t, &p->write_wait);
	spin_lock(&p->lock);
	if (f->fmode & FMODE_READ) {
		if (p->head != p->tail)
			events |= POLLIN | POLLRDNORM;
		if (!p->writers && (u64)f->data != p->writer_opens)
			events |= POLLHUP;
	}
	if (f->fmode & FMODE_WRITE) {
		if (p->head - p->tail < p->slots)
			events |= POLLOUT | POLLWRNORM;
		if (!p->readers)
			events |= POLLERR;
	}
	spin_unlock(&p->lock);
	return events;
}

static long pipe_ioctl(struct file *f, u32 cmd, u64 arg)
{
	struct pipe *p = file_inode(f)->pipe;
	u32 n = 0;

	if (cmd != FIONREAD)
		return -ENOTTY;
	spin_lock(&p->lock);
	for (u32 i = p->tail; i != p->head; i++)
		n += slot(p, i)->len;
	spin_unlock(&p->lock);
	return put_user_u32(arg, n);
}

struct pipe *file_pipe(struct file *f)
{
	if (!S_ISFIFO(file_inode(f)->mode) || (f->fmode & FMODE_PATH))
		return NULL;
	return file_inode(f)->pipe;
}

long pipe_get_size(struct file *f)
{
	struct pipe *p = file_pipe(f);

	return p ? (long)(p->slots * PAGE_SIZE) : -EBADF;
}

long pipe_set_size(struct file *f, u64 size)
{
	struct pipe *p = file_pipe(f);
	struct pipe_buf *ring, *old;
	u32 slots = 1, used;

	if (!p)
		return -EBADF;
	size = (u32)size;
	if (size > 1u << 31)
		return -EINVAL;
	while (slots * PAGE_SIZE < size)
		slots *= 2;
	if (slots > p->slots && slots * PAGE_SIZE > MB && !is_root())
		return -EPERM;
	ring = kzalloc(slots * sizeof(*ring));
	if (!ring)
		return -ENOMEM;
	spin_lock(&p->lock);
	used = p->head - p->tail;
	if (used > slots) {
		spin_unlock(&p->lock);
		kfree(ring);
		return -EBUSY;
	}
	for (u32 i = 0; i < used; i++)
		ring[i] = *slot(p, p->tail + i);
	old = p->ring;
	p->ring = ring;
	p->slots = slots;
	p->tail = 0;
	p->head = used;
	spin_unlock(&p->lock);
	kfree(old);
	wake_up_all(&p->write_wait);
	return (long)(slots * PAGE_SIZE);
}

/* --- ends ------------------------------------------------------------------------------------ */

static void pipe_release(struct file *f)
{
	struct pipe *p = file_inode(f)->pipe;
	bool last;

	spin_lock(&p->lock);
	if (f->fmode & FMODE_READ)
		p->readers--;
	if (f->fmode & FMODE_WRITE)
		p->writers--;
	last = !p->readers && !p->writers;
	spin_unlock(&p->lock);
	if (last && S_ISFIFO(file_inode(f)->mode) && !f->dentry->anon) {
		/* What is in a fifo goes with its last user; a new one may be opening it. */
		mutex_lock(&p->reading);
		for (struct pipe_buf buf; pipe_peek(p, 0, &buf) && !READ_ONCE(p->readers);)
			pipe_consume(p, buf.len);
		mutex_unlock(&p->reading);
	}
	wake_up_all(&p->read_wait);
	wake_up_all(&p->write_wait);
}

static const struct file_ops pipe_ops;

/* A fifo's pipe comes to be with the first open. */
static int fifo_pipe(struct inode *inode)
{
	struct pipe *p;

	mutex_lock(&inode->write_lock);
	if (!inode->pipe) {
		p = pipe_create();
		__atomic_store_n(&inode->pipe, p, __ATOMIC_RELEASE);
	}
	mutex_unlock(&inode->write_lock);
	return inode->pipe ? 0 : -ENOMEM;
}

static int fifo_open(struct file *f)
{
	struct pipe *p;
	u64 seen;
	int err = fifo_pipe(file_inode(f));

	if (err)
		return err;
	p = file_inode(f)->pipe;
	f->ops = &pipe_ops;
	spin_lock(&p->lock);
	if (f->fmode == FMODE_WRITE && (f->flags & O_NONBLOCK) && !p->readers) {
		spin_unlock(&p->lock);
		return -ENXIO;
	}
	if (f->fmode & FMODE_READ) {
		p->readers++;
		p->reader_opens++;
	}
	if (f->fmode & FMODE_WRITE) {
		p->writers++;
		p->writer_opens++;
	}
	seen = f->fmode == FMODE_READ ? p->writer_opens : p->reader_opens;
	/* A reader that never saw a writer gets no POLLHUP for want of one. */
	f->data = (void *)(p->writers ? 0UL : p->writer_opens);
	spin_unlock(&p->lock);
	wake_up_all(&p->read_wait);
	wake_up_all(&p->write_wait);
	if (f->fmode == FMODE_READ && !(f->flags & O_NONBLOCK))
		err = wait_event_interruptible(&p->read_wait, READ_ONCE(p->writers) ||
					       READ_ONCE(p->writer_opens) != seen);
	else if (f->fmode == FMODE_WRITE)
		err = wait_event_interruptible(&p->write_wait, READ_ONCE(p->readers) ||
					       READ_ONCE(p->reader_opens) != seen);
	if (err) {
		pipe_release(f);
		return -ERESTARTSYS;
	}
	return 0;
}

static const struct file_ops pipe_ops = {
	.read = pipe_read,
	.write = pipe_write,
	.poll = pipe_poll,
	.ioctl = pipe_ioctl,
	.release = pipe_release,
	.open = fifo_open,
};

const struct file_ops fifo_fops = {
	.open = fifo_open,
};

void inode_free_pipe(struct inode *inode)
{
	pipe_destroy(inode);
}

/* --- pipe(2)
 * ------------------------------------------------------------------------------------ */

static struct volume vol_pipe = { .type = "pipefs", .where = "", .dev = 0xd, .magic = 0x50495045 };

static const struct inode_ops pipe_inode_ops = {
	.destroy = pipe_destroy,
};

static int create_ends(struct file *end[2], u32 flags)
{
	struct inode *inode = inode_create(&vol_pipe, S_IFIFO | 0600, &pipe_inode_ops, &pipe_ops);
	char name[32];
	int err = -ENOMEM;

	if (!inode)
		return -ENOMEM;
	inode->pipe = pipe_create();
	if (!inode->pipe) {
		inode_put(inode);
		return -ENOMEM;
	}
	inode->pipe->readers = inode->pipe->writers = 1;
	inode->pipe->reader_opens = inode->pipe->writer_opens = 1;
	ksnprintf(name, sizeof(name), "pipe:[%lu]", inode->ino);
	end[0] = anon_file(inode_get(inode), name, O_RDONLY | (flags & O_NONBLOCK), &pipe_ops, NULL,
			   &err);
	end[1] = NULL;
	if (end[0])
		end[1] = anon_file(inode_get(inode), name,
				   O_WRONLY | (flags & (O_NONBLOCK | O_DIRECT)), &pipe_ops, NULL,
				   &err);
	if (!end[1])
		file_put(end[0]);
	inode_put(inode);
	return end[1] ? 0 : err;
}

/* Give two files descriptors and write their numbers to the user; takes over both, undoes all
 * on errors. */
int fd_add_pair(struct file *a, struct file *b, bool cloexec, vaddr_t ufds)
{
	int fds[2], err;

	fds[0] = fd_reserve(0, cloexec);
	if (fds[0] < 0) {
		err = fds[0];
		goto put;
	}
	fds[1] = fd_reserve(0, cloexec);
	if (fds[1] < 0) {
		err = fds[1];
		fd_unreserve(fds[0]);
		goto put;
	}
	if (copy_to_user(ufds, fds, sizeof(fds))) {
		err = -EFAULT;
		fd_unreserve(fds[0]);
		fd_unreserve(fds[1]);
		goto put;
	}
	fd_install(fds[0], a);
	fd_install(fds[1], b);
	return 0;
put:
	file_put(a);
	file_put(b);
	return err;
}

long sys_pipe2(u64 ufds, u64 flags)
{
	struct file *end[2];
	int err;

	if (flags & ~(u64)(O_CLOEXEC | O_NONBLOCK | O_DIRECT))
		return -EINVAL;
	err = create_ends(end, (u32)flags);
	if (err)
		return err;
	return fd_add_pair(end[0], end[1], flags & O_CLOEXEC, ufds);
}

long sys_pipe(u64 ufds)
{
	return sys_pipe2(ufds, 0);
}
