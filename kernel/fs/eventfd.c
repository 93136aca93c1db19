/* eventfd(2): a counter that can be waited for. */
#include <linux/poll.h>

#include "kernel/syscall.h"
#include "kernel/task.h"
#include "kernel/vfs.h"
#include "mm/slab.h"

DEFINE_LOCK_CLASS(eventfd_class, "eventfd", RANK_VFS_LEAF);

#define EFD_SEMAPHORE_ 1

struct eventfd {
	spinlock_t lock; /* guards count */
	u64 count;
	bool semaphore;
	struct wait_queue read_wait, write_wait;
};

static u64 take(struct eventfd *e)
{
	u64 v;

	spin_lock(&e->lock);
	v = e->semaphore ? MIN(e->count, 1) : e->count;
	e->count -= v;
	spin_unlock(&e->lock);
	return v;
}

static bool give(struct eventfd *e, u64 v)
{
	bool ok;

	spin_lock(&e->lock);
	ok = e->count + v >= e->count && e->count + v != ~0UL;
	if (ok)
		e->count += v;
	spin_unlock(&e->lock);
	return ok;
}

static long eventfd_read(struct file *f, u64 *pos, struct uio *u)
{
	struct eventfd *e = f->data;
	u64 v;

	if (u->left < 8)
		return -EINVAL;
	while (!(v = take(e))) {
		if (f->flags & O_NONBLOCK)
			return -EAGAIN;
		if (wait_event_interruptible(&e->read_wait, READ_ONCE(e->count)))
			return -ERESTARTSYS;
	}
	wake_up_all(&e->write_wait);
	if (uio_put(u, &v, 8) < 8) {
		give(e, v); /* nothing is lost */
		return -EFAULT;
	}
	return 8;
}

static long eventfd_write(struct file *f, u64 *pos, struct uio *u)
{
	struct eventfd *e = f->data;
	u64 v;

	if (u->left < 8)
		return -EINVAL;
	if (uio_get(u, &v, 8) < 8)
		return -EFAULT;
	if (v == ~0UL)
		return -EINVAL;
	while (!give(e, v)) {
		if (f->flags & O_NONBLOCK)
			return -EAGAIN;
		if (wait_event_interruptible(&e->write_wait, READ_ONCE(e->count) < ~0UL - v))
			return -ERESTARTSYS;
	}
	wake_up_all(&e->read_wait);
	return 8;
}

static u32 eventfd_poll(struct file *f, struct poll_table *t)
{
	struct eventfd *e = f->data;
	u64 count;

	poll_wait(t, &e->read_wait);
	poll_wait(t, &e->write_wait);
	count = READ_ONCE(e->count);
	return (count ? POLLIN | POLLRDNORM : 0) | (count < ~0UL - 1 ? POLLOUT | POLLWRNORM : 0);
}

static void eventfd_release(struct file *f)
{
	kfree(f->data);
}

static const struct file_ops eventfd_ops = {
	.read = eventfd_read,
	.write = eventfd_write,
	.poll = eventfd_poll,
	.release = eventfd_release,
};

long sys_eventfd2(u64 init, u64 flags)
{
	struct eventfd *e;
	struct file *f;
	int err;

	if (flags & ~(u64)(EFD_SEMAPHORE_ | O_CLOEXEC | O_NONBLOCK))
		return -EINVAL;
	e = kzalloc(sizeof(*e));
	if (!e)
		return -ENOMEM;
	spin_init(&e->lock, &eventfd_class);
	wait_init(&e->read_wait);
	wait_init(&e->write_wait);
	e->count = (u32)init;
	e->semaphore = flags & EFD_SEMAPHORE_;
	f = anon_file(inode_create(&vol_anon, 0600, NULL, NULL), "anon_inode:[eventfd]",
		      O_RDWR | (flags & O_NONBLOCK), &eventfd_ops, e, &err);
	if (!f) {
		kfree(e);
		return err;
	}
	return fd_add(f, flags & O_CLOEXEC);
}

long sys_eventfd(u64 init)
{
	return sys_eventfd2(init, 0);
}
