/*
 * Pseudo-terminals: opening /dev/ptmx makes a terminal whose other side is that open file (the
 * master); programs open it as /dev/pts/N (the slave).
 *
 * A pty lives while one of its sides is open. Table and counts are guarded by pty_lock (a
 * mutex); the bytes on the way to the master by the tty's lock.
 */
#include "kernel/fs/tty.h"

#include <asm/ioctls.h>
#include <linux/poll.h>

#include "arch/x86_64/uaccess.h"
#include "kernel/printf.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "mm/slab.h"

DEFINE_LOCK_CLASS(pty_class, "pty_table", RANK_PROCESS);

#define MAX_PTYS 64
#define OUT_SIZE 8192

struct pty {
	struct tty tty;       /* the slave */
	u32 number;
	bool master_open, locked;
	u32 slaves;
	bool was_opened;
	char out[OUT_SIZE];   /* written by the slave; tty.lock; free-running positions */
	u32 out_head, out_tail;
	struct wait_queue master_wait;
	struct rcu_head rcu;
};

static struct mutex pty_lock;
static struct pty *ptys[MAX_PTYS];

static struct pty *pty_of(struct tty *t)
{
	return container_of(t, struct pty, tty);
}

/* --- slave to master ------------------------------------------------------------------ */

static void pty_output(struct tty *t, const char *text, size_t len)
{
	struct pty *p = pty_of(t);

	spin_lock(&t->lock);
	for (size_t i = 0; i < len && p->out_head - p->out_tail < OUT_SIZE; i++)
		p->out[p->out_head++ % OUT_SIZE] = text[i];
	spin_unlock(&t->lock);
	wake_up_all(&p->master_wait);
}

/* Room for what one piece of output may grow to. */
static bool pty_room(struct tty *t)
{
	struct pty *p = pty_of(t);

	return OUT_SIZE - (READ_ONCE(p->out_head) - READ_ONCE(p->out_tail)) >= 1024;
}

static bool master_readable(struct pty *p)
{
	return READ_ONCE(p->out_head) != READ_ONCE(p->out_tail);
}

/* All slaves were opened and closed again. */
static bool slaves_gone(struct pty *p)
{
	return !READ_ONCE(p->slaves) && READ_ONCE(p->was_opened);
}

static long master_read(struct file *f, u64 *pos, struct uio *u)
{
	struct pty *p = f->data;
	char chunk[256];
	long total = 0;

	if (!u->left)
		return 0;
	while (!master_readable(p)) {
		if (slaves_gone(p))
			return -EIO;
		if (f->flags & O_NONBLOCK)
			return -EAGAIN;
		if (wait_event_interruptible(&p->master_wait, master_readable(p) || slaves_gone(p)))
			return -ERESTARTSYS;
	}
	while (u->left && master_readable(p)) {
		size_t n = 0, done;
		u32 old;

		spin_lock(&p->tty.lock);
		old = p->out_tail;
		while (n < MIN(u->left, sizeof(chunk)) && old + n != p->out_head) {
			chunk[n] = p->out[(old + n) % OUT_SIZE];
			n++;
		}
		p->out_tail = old + (u32)n;
		spin_unlock(&p->tty.lock);
		done = uio_put(u, chunk, n);
		total += (long)done;
		if (done < n) { /* nothing is lost: the bytes are still in the ring */
			spin_lock(&p->tty.lock);
			p->out_tail = old + (u32)done;
			spin_unlock(&p->tty.lock);
			if (!total)
				total = -EFAULT;
			break;
		}
	}
	wake_up_all(&p->tty.write_wait);
	return total;
}

static long master_write(struct file *f, u64 *pos, struct uio *u)
{
	struct pty *p = f->data;
	char chunk[256];
	long total = 0;

	while (u->left) {
		size_t want = MIN(u->left, sizeof(chunk)), n = uio_get(u, chunk, want);

		tty_input(&p->tty, chunk, n);
		total += (long)n;
		if (n < want)
			return total ? total : -EFAULT;
	}
	return total;
}

static u32 master_poll(struct file *f, struct poll_table *t)
{
	struct pty *p = f->data;

	poll_wait(t, &p->master_wait);
	return POLLOUT | POLLWRNORM | (master_readable(p) ? POLLIN | POLLRDNORM : 0) |
	       (slaves_gone(p) ? POLLHUP : 0);
}

static long master_ioctl(struct file *f, u32 cmd, u64 arg)
{
	struct pty *p = f->data;
	u32 v;

	switch (cmd) {
	case TIOCGPTN:
		return put_user_u32(arg, p->number);
	case TIOCSPTLCK:
		if (get_user_u32(arg, &v))
			return -EFAULT;
		p->locked = v;
		return 0;
	case TIOCGPTLCK:
		return put_user_u32(arg, p->locked);
	case FIONREAD:
		return put_user_u32(arg, READ_ONCE(p->out_head) - READ_ONCE(p->out_tail));
	}
	return tty_ioctl(&p->tty, cmd, arg);
}

/* --- life --------------------------------------------------------------------------------- */

static char *node_path(u32 number, char *buf, size_t size)
{
	ksnprintf(buf, size, "/dev/pts/%u", number);
	return buf;
}

static void pty_free(struct rcu_head *head)
{
	kfree(container_of(head, struct pty, rcu));
}

/* pty_lock held: is anybody left? */
static void maybe_free(struct pty *p)
{
	if (p->master_open || p->slaves)
		return;
	ptys[p->number] = NULL;
	tty_forget(&p->tty);
	call_rcu(&p->rcu, pty_free);
}

static void master_release(struct file *f)
{
	struct pty *p = f->data;
	char path[32];
	struct dentry *d;
	int err;

	tty_hangup(&p->tty);
	d = path_lookup_kernel(node_path(p->number, path, sizeof(path)), &err);
	if (d) {
		down_write(&ns_lock);
		if (!d->unlinked) {
			d->inode->nlink = 0;
			dir_remove(d);
		}
		up_write(&ns_lock);
		dentry_put(d);
	}
	mutex_lock(&pty_lock);
	p->master_open = false;
	maybe_free(p);
	mutex_unlock(&pty_lock);
}

static const struct file_ops master_ops = {
	.read = master_read,
	.write = master_write,
	.poll = master_poll,
	.ioctl = master_ioctl,
	.release = master_release,
};

int ptmx_open(struct file *f)
{
	struct pty *p = kzalloc(sizeof(*p));
	struct inode *inode;
	char path[32];
	u32 n;

	if (!p)
		return -ENOMEM;
	mutex_lock(&pty_lock);
	for (n = 0; n < MAX_PTYS && ptys[n]; n++)
		;
	if (n == MAX_PTYS) {
		mutex_unlock(&pty_lock);
		kfree(p);
		return -ENOSPC;
	}
	p->number = n;
	p->master_open = true;
	p->locked = true;
	tty_setup(&p->tty, DEV(136, n));
	p->tty.termios.c_cflag &= ~HUPCL;
	p->tty.output = pty_output;
	p->tty.output_room = pty_room;
	wait_init(&p->master_wait);
	ptys[n] = p;
	mutex_unlock(&pty_lock);
	f->ops = &master_ops;
	f->data = p;
	inode = tmpfs_inode(&vol_dev, S_IFCHR | 0620, DEV(136, n));
	if (!inode) {
		master_release(f);
		return -ENOMEM;
	}
	tree_add(node_path(n, path, sizeof(path)), inode);
	return 0;
}

static void slave_release(struct file *f)
{
	struct pty *p = pty_of(f->data);

	mutex_lock(&pty_lock);
	p->slaves--;
	wake_up_all(&p->master_wait);
	maybe_free(p);
	mutex_unlock(&pty_lock);
}

static struct file_ops slave_ops; /* tty_ops and a release of its own; filled once */

int pts_open(struct file *f, u32 minor)
{
	struct pty *p;
	int err = 0;

	mutex_lock(&pty_lock);
	p = minor < MAX_PTYS ? ptys[minor] : NULL;
	if (!p || !p->master_open) {
		err = -EIO;
	} else if (p->locked) {
		err = -EIO;
	} else {
		p->slaves++;
		p->was_opened = true;
		f->ops = &slave_ops;
		f->data = &p->tty;
	}
	mutex_unlock(&pty_lock);
	if (!err && !(f->flags & O_NOCTTY) && file_inode(f)->rdev == p->tty.rdev)
		tty_take_session(&p->tty);
	return err;
}

void pty_init(void)
{
	mutex_init(&pty_lock, &pty_class);
	slave_ops = tty_ops;
	slave_ops.release = slave_release;
}
