/*
 * epoll: a set of files to wait for, kept between waits.
 *
 * Each epoll_wait() looks at all files of the set, as poll(2) does: level-triggered. EPOLLET is accepted and behaves
 * like level-triggered, which every program that drains its files bears. EPOLLONESHOT works.
 *
 * An entry holds no reference on its file: when the file's last descriptor goes, file_put() takes
 * the entry out (epoll_forget). All sets are guarded by one spinlock; a waiter takes references
 * of all files of its set under it.
 */
#include <linux/eventpoll.h>
#include <linux/poll.h>

#include "arch/x86_64/clock.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/fs/poll.h"
#include "kernel/signal.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "mm/slab.h"

DEFINE_LOCK_CLASS(epoll_class, "epoll", RANK_VFS_LEAF);

struct epoll;

struct epoll_item {
	struct list set_link; /* epoll->items */
	struct list all_link; /* all_items */
	struct epoll *set;
	struct file *file;    /* no reference */
	int fd;
	u32 events;           /* EPOLL*; without EPOLLONESHOT's when disarmed */
	bool disarmed;
	u64 data;
};

struct epoll {
	struct list items;
	u32 nr;
	struct wait_queue changed; /* an entry was added or changed */
};

static spinlock_t epoll_lock; /* guards all of the above */
static struct list all_items = LIST_INIT(all_items);

#define EVENT_MASK (~(EPOLLET | EPOLLONESHOT | EPOLLWAKEUP | EPOLLEXCLUSIVE))

static void item_remove(struct epoll_item *item)
{
	list_del(&item->set_link);
	list_del(&item->all_link);
	item->set->nr--;
}

void epoll_forget(struct file *f)
{
	struct list dead = LIST_INIT(dead);

	spin_lock(&epoll_lock);
	list_for_each_safe (item, &all_items, struct epoll_item, all_link) {
		if (item->file == f) {
			item_remove(item);
			list_add(&dead, &item->set_link);
		}
	}
	spin_unlock(&epoll_lock);
	list_for_each_safe (item, &dead, struct epoll_item, set_link)
		kfree(item);
}

static void epoll_release(struct file *f)
{
	struct epoll *set = f->data;
	struct list dead = LIST_INIT(dead);

	spin_lock(&epoll_lock);
	list_for_each_safe (item, &set->items, struct epoll_item, set_link) {
		item_remove(item);
		list_add(&dead, &item->set_link);
	}
	spin_unlock(&epoll_lock);
	list_for_each_safe (item, &dead, struct epoll_item, set_link)
		kfree(item);
	kfree(set);
}

/* --- looking --------------------------------------------------------------------------- */

struct looked {
	struct file *file; /* a reference */
	struct epoll_item *item; /* for comparison only */
	u32 events, got;
	u64 data;
};

/* A picture of the set, with references. Number, or -ENOMEM. */
static long take_picture(struct epoll *set, struct looked **out)
{
	u32 max, n = 0;

	for (;;) {
		max = READ_ONCE(set->nr);
		*out = kmalloc(max * sizeof(**out) + 1);
		if (!*out)
			return -ENOMEM;
		spin_lock(&epoll_lock);
		if (set->nr <= max)
			break;
		spin_unlock(&epoll_lock);
		kfree(*out);
	}
	list_for_each (item, &set->items, struct epoll_item, set_link) {
		if (!item->disarmed && file_tryget(item->file))
			(*out)[n++] = (struct looked){ item->file, item, item->events, 0, item->data };
	}
	spin_unlock(&epoll_lock);
	return n;
}

static void drop_picture(struct looked *all, u32 n)
{
	for (u32 i = 0; i < n; i++)
		file_put(all[i].file);
	kfree(all);
}

/* Ready files of the picture; registers with t if it is armed. */
static u32 look(struct looked *all, u32 n, struct poll_table *t)
{
	u32 ready = 0;

	for (u32 i = 0; i < n; i++) {
		all[i].got = file_poll(all[i].file, all[i].events & EVENT_MASK, t);
		if (all[i].got) {
			ready++;
			t->armed = false;
		}
	}
	return ready;
}

static void disarm(struct epoll *set, struct epoll_item *which)
{
	spin_lock(&epoll_lock);
	list_for_each (item, &set->items, struct epoll_item, set_link) {
		if (item == which)
			item->disarmed = true;
	}
	spin_unlock(&epoll_lock);
}

/* Copy ready ones to the user. Number or -EFAULT. */
static long report(struct epoll *set, struct looked *all, u32 n, vaddr_t uevents, u32 max)
{
	u32 done = 0;

	for (u32 i = 0; i < n && done < max; i++) {
		struct epoll_event e = { all[i].got, all[i].data };

		if (!all[i].got)
			continue;
		if (copy_to_user(uevents + done * sizeof(e), &e, sizeof(e)))
			return done ? (long)done : -EFAULT;
		if (all[i].events & EPOLLONESHOT)
			disarm(set, all[i].item);
		done++;
	}
	return done;
}

static long do_wait(struct epoll *set, vaddr_t uevents, u32 max, u64 deadline)
{
	for (;;) {
		struct poll_table t;
		struct looked *all;
		long n = take_picture(set, &all), ret = 0;
		int err = 0;

		if (n < 0)
			return n;
		poll_begin(&t);
		t.armed = deadline != 1;
		poll_wait(&t, &set->changed);
		if (look(all, (u32)n, &t)) {
			poll_end(&t);
			ret = report(set, all, (u32)n, uevents, max);
		} else if (deadline != 1 && !t.error) {
			err = poll_sleep(&t, deadline);
			poll_end(&t);
		} else {
			ret = t.error;
			poll_end(&t);
		}
		drop_picture(all, (u32)n);
		if (ret || deadline == 1)
			return ret;
		if (err == -EINTR)
			return -EINTR;
		if (err == -ETIMEDOUT)
			deadline = 1;
	}
}

static u32 epoll_poll(struct file *f, struct poll_table *t)
{
	struct poll_table none = { .armed = false };
	struct epoll *set = f->data;
	struct looked *all;
	long n = take_picture(set, &all);
	u32 ready;

	if (n < 0)
		return 0;
	/* Our own waiters register on the files' queues: those stay valid only while referenced, so
	 * a poll of an epoll looks, and is woken by changes of the set only. */
	poll_wait(t, &set->changed);
	ready = look(all, (u32)n, &none);
	drop_picture(all, (u32)n);
	return ready ? POLLIN | POLLRDNORM : 0;
}

static const struct file_ops epoll_ops = {
	.poll = epoll_poll,
	.release = epoll_release,
};

/* --- the calls ------------------------------------------------------------------------------ */

long sys_epoll_create1(u64 flags)
{
	struct epoll *set;
	struct file *f;
	int err;

	if (flags & ~(u64)EPOLL_CLOEXEC)
		return -EINVAL;
	set = kzalloc(sizeof(*set));
	if (!set)
		return -ENOMEM;
	list_init(&set->items);
	wait_init(&set->changed);
	f = anon_file(inode_create(&vol_anon, 0600, NULL, NULL), "anon_inode:[eventpoll]", O_RDWR,
		      &epoll_ops, set, &err);
	if (!f) {
		kfree(set);
		return err;
	}
	return fd_add(f, flags & EPOLL_CLOEXEC);
}

static int change(struct epoll *set, struct file *f, int fd, u32 op, const struct epoll_event *e)
{
	struct epoll_item *item = NULL, *new = NULL;
	int err = 0;

	if (op == EPOLL_CTL_ADD) {
		new = kzalloc(sizeof(*new));
		if (!new)
			return -ENOMEM;
	}
	spin_lock(&epoll_lock);
	list_for_each (each, &set->items, struct epoll_item, set_link) {
		if (each->file == f && each->fd == fd)
			item = each;
	}
	if (op == EPOLL_CTL_ADD && item) {
		err = -EEXIST;
	} else if (op == EPOLL_CTL_ADD) {
		*new = (struct epoll_item){ .set = set, .file = f, .fd = fd, .events = e->events,
					    .data = e->data };
		list_add_tail(&set->items, &new->set_link);
		list_add_tail(&all_items, &new->all_link);
		set->nr++;
		f->in_epoll = true;
		new = NULL;
	} else if (!item) {
		err = -ENOENT;
	} else if (op == EPOLL_CTL_MOD) {
		item->events = e->events;
		item->data = e->data;
		item->disarmed = false;
	} else {
		item_remove(item);
		new = item;
	}
	spin_unlock(&epoll_lock);
	kfree(new);
	if (!err)
		wake_up_all(&set->changed);
	return err;
}

long sys_epoll_ctl(u64 epfd, u64 op, u64 fd, u64 uevent)
{
	struct epoll_event e = { 0 };
	struct file *ef, *f;
	long ret = -EBADF;

	if (op != EPOLL_CTL_DEL && copy_from_user(&e, uevent, sizeof(e)))
		return -EFAULT;
	ef = fd_get((int)epfd);
	f = fd_get((int)fd);
	if (ef && f) {
		if (ef->ops != &epoll_ops || f == ef)
			ret = -EINVAL;
		else if (!f->ops->poll)
			ret = -EPERM;
		else if (op != EPOLL_CTL_ADD && op != EPOLL_CTL_MOD && op != EPOLL_CTL_DEL)
			ret = -EINVAL;
		else
			ret = change(ef->data, f, (int)fd, (u32)op, &e);
	}
	file_put(ef);
	file_put(f);
	return ret;
}

static long wait_call(u64 epfd, vaddr_t uevents, s32 max, s32 ms)
{
	struct file *f;
	long ret;

	if (max <= 0 || max > 0x7fffffff / (s32)sizeof(struct epoll_event))
		return -EINVAL;
	f = fd_get((int)epfd);
	if (!f)
		return -EBADF;
	if (f->ops != &epoll_ops)
		ret = -EINVAL;
	else
		ret = do_wait(f->data, uevents, (u32)max,
			      ms < 0 ? 0 : ms == 0 ? 1 : clock_ns() + (u64)ms * 1000000);
	file_put(f);
	return ret;
}

long sys_epoll_wait(u64 epfd, u64 uevents, u64 max, u64 timeout)
{
	return wait_call(epfd, uevents, (s32)max, (s32)timeout);
}

long sys_epoll_pwait(u64 epfd, u64 uevents, u64 max, u64 timeout, u64 umask, u64 size)
{
	long ret = umask ? signal_set_user_mask(umask, size) : 0;

	if (ret)
		return ret;
	ret = wait_call(epfd, uevents, (s32)max, (s32)timeout);
	if (umask)
		signal_restore_mask(ret == -EINTR);
	return ret;
}
