/*
 * Advisory locks: fcntl record locks, which belong to a process (its table of descriptors, as
 * long as it shares it with nobody else: F_SETLK) or to an open file (F_OFD_SETLK), and flock,
 * which belongs to an open file.
 *
 * All locks of all files are guarded by one spinlock; they are rare. A locker that must wait
 * sleeps on one queue and looks again after each release.
 */
#include "arch/x86_64/uaccess.h"
#include "kernel/process.h"
#include "kernel/signal.h"
#include "kernel/syscall.h"
#include "kernel/vfs.h"
#include "mm/slab.h"

DEFINE_LOCK_CLASS(file_locks_class, "file_locks", RANK_VFS_LEAF);

struct file_lock {
	struct list link;   /* inode->file_locks */
	const void *owner;  /* struct files or struct file */
	bool flock;         /* made by flock(2): does not meet the others */
	bool exclusive;
	u64 start, end;     /* bytes, inclusive */
	int pid;            /* for F_GETLK; -1: an open file's */
};

static spinlock_t locks_lock; /* a zeroed lock is a valid one */
static struct wait_queue locks_wait;
static bool locks_ready;

static void locks_setup(void)
{
	if (!__atomic_exchange_n(&locks_ready, true, __ATOMIC_SEQ_CST)) {
		spin_init(&locks_lock, &file_locks_class);
		wait_init(&locks_wait);
	}
}

static bool overlaps(const struct file_lock *a, const struct file_lock *b)
{
	return a->start <= b->end && b->start <= a->end;
}

/* First lock that stands in the way of `want`. */
static struct file_lock *conflict(struct inode *inode, const struct file_lock *want)
{
	list_for_each (l, &inode->file_locks, struct file_lock, link) {
		if (l->flock == want->flock && l->owner != want->owner && overlaps(l, want) &&
		    (l->exclusive || want->exclusive))
			return l;
	}
	return NULL;
}

/*
 * Take [start, end] out of all that the owner has there, cutting locks in pieces. `spare`
 * becomes the second piece of one that is cut in the middle, and is then set to NULL. True if
 * anything went.
 */
static bool cut(struct inode *inode, const struct file_lock *range, struct file_lock **spare,
		struct list *dead)
{
	bool any = false;

	list_for_each_safe (l, &inode->file_locks, struct file_lock, link) {
		if (l->flock != range->flock || l->owner != range->owner || !overlaps(l, range))
			continue;
		any = true;
		if (l->start < range->start && l->end > range->end) {
			struct file_lock *tail = *spare;

			*spare = NULL;
			*tail = *l;
			tail->start = range->end + 1;
			l->end = range->start - 1;
			list_add(&l->link, &tail->link);
			break;
		}
		if (l->start < range->start) {
			l->end = range->start - 1;
		} else if (l->end > range->end) {
			l->start = range->end + 1;
		} else {
			list_del(&l->link);
			list_add(dead, &l->link);
		}
	}
	return any;
}

static void free_all(struct list *dead)
{
	list_for_each_safe (l, dead, struct file_lock, link)
		kfree(l);
}

/* Join with neighbours of the same kind. */
static void merge(struct inode *inode, struct file_lock *new, struct list *dead)
{
	list_for_each_safe (l, &inode->file_locks, struct file_lock, link) {
		if (l == new || l->flock != new->flock || l->owner != new->owner ||
		    l->exclusive != new->exclusive)
			continue;
		if ((l->end != ~0UL && l->end + 1 == new->start) ||
		    (new->end != ~0UL && new->end + 1 == l->start)) {
			new->start = MIN(new->start, l->start);
			new->end = MAX(new->end, l->end);
			list_del(&l->link);
			list_add(dead, &l->link);
		}
	}
}

/* Set (unlock = false) or remove. 0, -EAGAIN, -ENOMEM. */
static int apply(struct inode *inode, const struct file_lock *want, bool unlock)
{
	struct file_lock *spare = kmalloc(sizeof(*spare)), *new = kmalloc(sizeof(*new));
	struct list dead = LIST_INIT(dead);
	bool freed = false;
	int err = 0;

	if (!spare || !new) {
		kfree(spare);
		kfree(new);
		return -ENOMEM;
	}
	*new = *want;
	spin_lock(&locks_lock);
	if (!unlock && conflict(inode, want)) {
		err = -EAGAIN;
	} else {
		freed = cut(inode, want, &spare, &dead);
		if (!unlock) {
			list_add_tail(&inode->file_locks, &new->link);
			merge(inode, new, &dead);
			new = NULL;
		}
	}
	spin_unlock(&locks_lock);
	free_all(&dead);
	kfree(spare);
	kfree(new);
	if (freed)
		wake_up_all(&locks_wait);
	return err;
}

static bool is_free(struct inode *inode, const struct file_lock *want)
{
	bool ok;

	spin_lock(&locks_lock);
	ok = !conflict(inode, want);
	spin_unlock(&locks_lock);
	return ok;
}

/*
 * A waits for B that waits for A: EDEADLK. Followed for POSIX locks only: who waits for what is
 * kept here. locks_lock.
 */
static struct list waiting = LIST_INIT(waiting);
struct waiter {
	struct list link;
	struct inode *inode;
	const struct file_lock *want;
};

static bool would_deadlock(struct inode *inode, const struct file_lock *want)
{
	const void *me = want->owner;

	for (int depth = 0; depth < 10; depth++) {
		struct file_lock *l = conflict(inode, want);
		bool found = false;

		if (!l)
			return false;
		if (l->owner == me)
			return true;
		list_for_each (w, &waiting, struct waiter, link) {
			if (w->want->owner == l->owner) {
				struct file_lock *next = conflict(w->inode, w->want);

				if (next && next->owner == me)
					return true;
				inode = w->inode;
				want = w->want;
				found = true;
				break;
			}
		}
		if (!found)
			return false;
	}
	return false;
}

static int apply_waiting(struct inode *inode, const struct file_lock *want, bool posix)
{
	for (;;) {
		struct waiter w = { .inode = inode, .want = want };
		int err = apply(inode, want, false);

		if (err != -EAGAIN)
			return err;
		spin_lock(&locks_lock);
		if (posix && would_deadlock(inode, want)) {
			spin_unlock(&locks_lock);
			return -EDEADLK;
		}
		list_add_tail(&waiting, &w.link);
		spin_unlock(&locks_lock);
		err = wait_event_interruptible(&locks_wait, is_free(inode, want));
		spin_lock(&locks_lock);
		list_del(&w.link);
		spin_unlock(&locks_lock);
		if (err)
			return -ERESTARTSYS;
	}
}

/* --- fcntl ------------------------------------------------------------------------- */

static int read_range(struct file *f, const struct flock *fl, struct file_lock *out)
{
	s64 base = 0, start, end;

	if (fl->l_whence == SEEK_CUR)
		base = (s64)f->pos;
	else if (fl->l_whence == SEEK_END)
		base = (s64)inode_size(file_inode(f));
	else if (fl->l_whence != SEEK_SET)
		return -EINVAL;
	if (__builtin_add_overflow(base, fl->l_start, &start))
		return -EOVERFLOW;
	if (start < 0)
		return -EINVAL;
	if (fl->l_len > 0) {
		if (__builtin_add_overflow(start, fl->l_len - 1, &end))
			return -EOVERFLOW;
	} else if (fl->l_len < 0) {
		if (start + fl->l_len < 0)
			return -EINVAL;
		end = start - 1;
		start += fl->l_len;
	} else {
		end = 0x7fffffffffffffff;
	}
	out->start = (u64)start;
	out->end = (u64)end;
	return 0;
}

static long get_lock(struct file *f, struct flock *fl, const struct file_lock *want, vaddr_t ulock)
{
	struct file_lock *l;

	spin_lock(&locks_lock);
	l = conflict(file_inode(f), want);
	if (l) {
		fl->l_type = l->exclusive ? F_WRLCK : F_RDLCK;
		fl->l_whence = SEEK_SET;
		fl->l_start = (s64)l->start;
		fl->l_len = l->end == 0x7fffffffffffffff ? 0 : (s64)(l->end - l->start + 1);
		fl->l_pid = l->pid;
	} else {
		fl->l_type = F_UNLCK;
	}
	spin_unlock(&locks_lock);
	return copy_to_user(ulock, fl, sizeof(*fl)) ? -EFAULT : 0;
}

long fcntl_lock(struct file *f, u32 cmd, vaddr_t ulock)
{
	bool ofd = cmd == F_OFD_GETLK || cmd == F_OFD_SETLK || cmd == F_OFD_SETLKW;
	bool get = cmd == F_GETLK || cmd == F_OFD_GETLK;
	bool wait = cmd == F_SETLKW || cmd == F_OFD_SETLKW;
	struct file_lock want = { .owner = ofd ? (void *)f : (void *)current->files,
				  .pid = ofd ? -1 : current->process->pid };
	struct flock fl;
	int err;

	locks_setup();
	if (copy_from_user(&fl, ulock, sizeof(fl)))
		return -EFAULT;
	if (fl.l_type != F_RDLCK && fl.l_type != F_WRLCK && (get || fl.l_type != F_UNLCK))
		return -EINVAL;
	if (ofd && fl.l_pid)
		return -EINVAL;
	err = read_range(f, &fl, &want);
	if (err)
		return err;
	want.exclusive = fl.l_type == F_WRLCK;
	if (get)
		return get_lock(f, &fl, &want, ulock);
	if (fl.l_type == F_UNLCK)
		return apply(file_inode(f), &want, true);
	if (!(f->fmode & (want.exclusive ? FMODE_WRITE : FMODE_READ)))
		return -EBADF;
	if (wait)
		return apply_waiting(file_inode(f), &want, !ofd);
	return apply(file_inode(f), &want, false);
}

/* --- flock -------------------------------------------------------------------------- */

#define LOCK_SH_ 1
#define LOCK_EX_ 2
#define LOCK_NB_ 4
#define LOCK_UN_ 8
#define LOCK_MAND_ 32

long sys_flock(u64 fd, u64 ucmd)
{
	u32 cmd = (u32)ucmd & ~LOCK_NB_;
	struct file *f;
	struct file_lock want = { .flock = true, .end = ~0UL, .exclusive = cmd == LOCK_EX_ };
	int err;

	locks_setup();
	if (cmd & LOCK_MAND_) /* mandatory locks are gone; asking is no error */
		return 0;
	if (cmd != LOCK_SH_ && cmd != LOCK_EX_ && cmd != LOCK_UN_)
		return -EINVAL;
	f = fd_get((int)fd);
	if (!f)
		return -EBADF;
	want.owner = f;
	want.pid = current->process->pid;
	if (f->fmode & FMODE_PATH)
		err = -EBADF;
	else if (cmd == LOCK_UN_)
		err = apply(file_inode(f), &want, true);
	else if (ucmd & LOCK_NB_)
		err = apply(file_inode(f), &want, false);
	else
		err = apply_waiting(file_inode(f), &want, false);
	file_put(f);
	return err;
}

/* --- going away ------------------------------------------------------------------------ */

static void drop_owner(struct inode *inode, const void *owner)
{
	struct list dead = LIST_INIT(dead);

	if (list_empty(&inode->file_locks)) /* an own lock would be seen: nobody else sets ours */
		return;
	spin_lock(&locks_lock);
	list_for_each_safe (l, &inode->file_locks, struct file_lock, link) {
		if (l->owner == owner) {
			list_del(&l->link);
			list_add(&dead, &l->link);
		}
	}
	spin_unlock(&locks_lock);
	if (!list_empty(&dead)) {
		free_all(&dead);
		wake_up_all(&locks_wait);
	}
}

/* Closing any descriptor of a file ends all of the process's record locks on it (POSIX). */
void locks_close(struct file *f, struct files *owner)
{
	drop_owner(file_inode(f), owner);
}

void locks_release(struct file *f)
{
	drop_owner(file_inode(f), f);
}
