/*
 * Open files: opening, reading and writing at a position, closing.
 *
 * The position of a regular file or directory is moved under pos_lock, so that two threads
 * reading from one descriptor get different parts, as POSIX wants. It is
 * the outermost lock; a page fault takes neither it nor an inode's write_lock,
 * so both may be held while user memory is touched.
 */
#include "arch/x86_64/cpu.h"
#include "kernel/process.h"
#include "kernel/signal.h"
#include "kernel/string.h"
#include "kernel/vfs.h"
#include "mm/mapping.h"
#include "mm/slab.h"

DEFINE_LOCK_CLASS(pos_class, "file_pos", RANK_FILE);

static struct file *file_create(struct dentry *d, u32 flags)
{
	struct file *f = kzalloc(sizeof(*f));

	if (!f)
		return NULL;
	f->refs = 1;
	f->flags = flags & ~(u32)(O_CREAT | O_EXCL | O_TRUNC | O_CLOEXEC);
	if (flags & O_PATH)
		f->fmode = FMODE_PATH;
	else
		f->fmode = ((flags & O_ACCMODE) != O_WRONLY ? FMODE_READ : 0) |
			   ((flags & O_ACCMODE) != O_RDONLY ? FMODE_WRITE : 0);
	f->dentry = d;
	f->ops = d->inode->fops;
	mutex_init(&f->pos_lock, &pos_class);
	return f;
}

static void file_free(struct rcu_head *head)
{
	kfree(container_of(head, struct file, rcu));
}

struct file *file_get(struct file *f)
{
	atomic_add(&f->refs, 1);
	return f;
}

/* Go from `count` in a direction, unless the other side is there. */
static int count_use(struct inode *inode, s32 step)
{
	s32 n = READ_ONCE(inode->writers);

	do {
		if (step > 0 ? n < 0 : n > 0)
			return -ETXTBSY;
	} while (!atomic_try_cmpxchg(&inode->writers, &n, n + step));
	return 0;
}

int file_count_writer(struct file *f)
{
	int err = count_use(file_inode(f), 1);

	if (!err)
		f->fmode |= FMODE_WRITER;
	return err;
}

int file_deny_write(struct file *f)
{
	int err = f->fmode & FMODE_EXEC ? 0 : count_use(file_inode(f), -1);

	if (!err)
		f->fmode |= FMODE_EXEC;
	return err;
}

void file_put(struct file *f)
{
	if (!f || atomic_sub(&f->refs, 1))
		return;
	if (f->fmode & FMODE_WRITER)
		atomic_sub(&file_inode(f)->writers, 1);
	if (f->fmode & FMODE_EXEC)
		atomic_add(&file_inode(f)->writers, 1);
	locks_release(f);
	if (f->ops->release && !(f->fmode & FMODE_PATH))
		f->ops->release(f);
	dentry_put(f->dentry);
	call_rcu(&f->rcu, file_free);
}

static const struct file_ops path_ops = { 0 };

struct file *dentry_open(struct dentry *d, u32 flags, int *err)
{
	struct file *f = file_create(d, flags);

	*err = 0;
	if (!f) {
		dentry_put(d);
		*err = -ENOMEM;
		return NULL;
	}
	if (f->fmode & FMODE_PATH) {
		f->ops = &path_ops;
		f->flags = flags & (O_PATH | O_DIRECTORY | O_NOFOLLOW);
		return f;
	}
	if (S_ISDIR(d->inode->mode) && (f->fmode & FMODE_WRITE))
		*err = -EISDIR;
	else if (S_ISLNK(d->inode->mode))
		*err = -ELOOP;
	else if (S_ISSOCK(d->inode->mode) || !f->ops)
		*err = -ENXIO;
	else if (f->ops->open)
		*err = f->ops->open(f);
	else if (S_ISREG(d->inode->mode) && (f->fmode & FMODE_WRITE))
		*err = file_count_writer(f);
	if (*err) {
		dentry_put(d);
		kfree(f);
		return NULL;
	}
	f->flags &= ~(u32)O_NOCTTY; /* a terminal has looked at it */
	if (S_ISREG(d->inode->mode) || S_ISDIR(d->inode->mode))
		f->fmode |= FMODE_SEEK | FMODE_POS_LOCK;
	return f;
}

struct file *anon_file(struct inode *inode, const char *name, u32 flags,
		       const struct file_ops *ops, void *data, int *err)
{
	struct dentry *d = inode ? dentry_create(NULL, name, strlen(name), inode) : NULL;
	struct file *f = d ? file_create(d, flags) : NULL;

	*err = f ? 0 : -ENOMEM;
	if (!f) {
		dentry_put(d);
		return NULL;
	}
	f->ops = ops;
	f->data = data;
	return f;
}

/* --- open(2) ------------------------------------------------------------------- */

static int check_existing(struct dentry *d, u32 flags)
{
	u32 mode = d->inode->mode;

	if ((flags & O_DIRECTORY) && !S_ISDIR(mode))
		return -ENOTDIR;
	if (S_ISLNK(mode) && !(flags & O_PATH))
		return -ELOOP;
	if ((flags & O_CREAT) && S_ISDIR(mode))
		return -EISDIR;
	return 0;
}

/* The entry that O_CREAT means: there already, or made now. */
static struct dentry *open_create(struct walk *w, u32 flags, u32 mode, bool *made, int *err)
{
	for (;;) {
		struct dentry *d, *jump = NULL;

		if (w->last_type != WALK_NAME || w->must_be_dir) {
			*err = -EISDIR;
			return NULL;
		}
		d = lookup_one(w->dir, w->last, w->last_len, err);
		if (!d && *err != -ENOENT)
			return NULL;
		if (!d) {
			*err = make_node(w, S_IFREG | (mode & 07777 & ~current_umask()), 0, NULL,
					 &d);
			*made = !*err;
			if (*err == -EEXIST && !(flags & O_EXCL))
				continue;
			return *err ? NULL : d;
		}
		if (flags & O_EXCL) {
			dentry_put(d);
			*err = -EEXIST;
			return NULL;
		}
		if (!S_ISLNK(d->inode->mode) || (flags & O_NOFOLLOW))
			return d;
		*err = walk_into_link(w, d, &jump);
		dentry_put(d);
		if (*err < 0)
			return NULL;
		if (*err == 1) {
			*err = 0;
			return jump;
		}
		*err = walk_resume(w);
		if (*err)
			return NULL;
	}
}

static int open_truncate(struct dentry *d)
{
	struct inode *inode = d->inode;
	int err = 0;

	if (!S_ISREG(inode->mode) || !inode->fops || !inode->fops->truncate)
		return 0;
	if (READ_ONCE(inode->writers) < 0)
		return -ETXTBSY;
	err = inode->fops->truncate(inode, 0);
	return err;
}

static struct file *open_walk(struct walk *w, u32 flags, u32 mode, int *err)
{
	struct dentry *d;
	bool made = false;

	if (flags & O_PATH)
		flags &= O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	if ((flags & __O_TMPFILE) && !(flags & O_PATH)) {
		struct inode *inode;

		d = walk_last(w, true, err);
		if (!d)
			return NULL;
		if (!S_ISDIR(d->inode->mode))
			*err = -ENOTDIR;
		else if (d->inode->vol->fixed)
			*err = -EOPNOTSUPP;
		if (*err) {
			dentry_put(d);
			return NULL;
		}
		inode = tmpfs_inode(d->inode->vol, S_IFREG | (mode & 07777 & ~current_umask()), 0);
		dentry_put(d);
		d = NULL;
		if (inode) {
			inode->nlink = 0;
			d = dentry_create(root_dentry, "#tmpfile", 8, inode);
		}
		if (!d) {
			*err = -ENOMEM;
			return NULL;
		}
		d->unlinked = true;
		return dentry_open(d, flags & ~(u32)O_TMPFILE, err);
	}
	if (flags & O_CREAT) {
		d = open_create(w, flags, mode, &made, err);
	} else {
		d = walk_last(w, !(flags & O_NOFOLLOW), err);
	}
	if (!d)
		return NULL;
	if (!made)
		*err = check_existing(d, flags);
	if (!*err && (flags & O_TRUNC) && !made) {
		if (S_ISDIR(d->inode->mode))
			*err = -EISDIR;
		else
			*err = open_truncate(d);
	}
	if (*err) {
		dentry_put(d);
		return NULL;
	}
	return dentry_open(d, flags, err);
}

static int check_flags(u32 flags)
{
	if (flags & O_PATH)
		return 0;
	if ((flags & __O_TMPFILE)) {
		if ((flags & O_TMPFILE) != O_TMPFILE || (flags & O_CREAT) ||
		    (flags & O_ACCMODE) == O_RDONLY)
			return -EINVAL;
	} else if ((flags & O_DIRECTORY) && (flags & O_CREAT)) {
		return -EINVAL;
	}
	return 0;
}

struct file *open_path(int dirfd, vaddr_t path, u32 flags, u32 mode, int *err)
{
	struct file *f = NULL;
	struct walk *w;

	*err = check_flags(flags);
	if (*err)
		return NULL;
	w = kmalloc(sizeof(*w));
	*err = w ? walk_begin(w, dirfd, path) : -ENOMEM;
	if (!*err) {
		f = open_walk(w, flags, mode, err);
		walk_end(w);
	}
	kfree(w);
	return f;
}

struct file *file_open(const char *path, int flags, int mode, int *err)
{
	struct file *f = NULL;
	struct walk *w = kmalloc(sizeof(*w));

	*err = w ? walk_begin_kernel(w, path) : -ENOMEM;
	if (!*err) {
		f = open_walk(w, (u32)flags, (u32)mode, err);
		walk_end(w);
	}
	kfree(w);
	return f;
}

/* --- reading and writing ----------------------------------------------------------- */

typedef long (*io_fn)(struct file *f, u64 *pos, struct uio *u);

static long do_io(struct file *f, u64 *pos, struct uio *u, io_fn fn)
{
	u64 at;
	long n;

	if (pos && !(f->fmode & FMODE_SERIAL))
		return fn(f, pos, u);
	if (pos) {
		mutex_lock(&f->pos_lock);
		n = fn(f, pos, u);
		mutex_unlock(&f->pos_lock);
		return n;
	}
	if (f->fmode & FMODE_POS_LOCK) {
		mutex_lock(&f->pos_lock);
		n = fn(f, &f->pos, u);
		mutex_unlock(&f->pos_lock);
		return n;
	}
	at = READ_ONCE(f->pos);
	n = fn(f, &at, u);
	if (n > 0)
		WRITE_ONCE(f->pos, at);
	return n;
}

/* What is moved must not end beyond the largest position. */
static bool position_ok(const struct file *f, const u64 *pos, const struct uio *u)
{
	u64 at = pos ? *pos : READ_ONCE(f->pos);

	return f->ops->unsigned_pos || (s64)(at + u->left) >= 0;
}

long file_read(struct file *f, u64 *pos, struct uio *u)
{
	if (!(f->fmode & FMODE_READ))
		return -EBADF;
	if (S_ISDIR(file_inode(f)->mode))
		return -EISDIR;
	if (!f->ops->read || !position_ok(f, pos, u))
		return -EINVAL;
	return do_io(f, pos, u, f->ops->read);
}

long file_write(struct file *f, u64 *pos, struct uio *u)
{
	if (!(f->fmode & FMODE_WRITE))
		return -EBADF;
	if (!f->ops->write || !position_ok(f, pos, u))
		return -EINVAL;
	return do_io(f, pos, u, f->ops->write);
}

/* --- what others want to know ---------------------------------------------------------- */

enum file_mmap_kind file_mmap_kind(const struct file *f)
{
	return f->ops->mmap;
}

struct mapping *file_mapping(const struct file *f)
{
	return f->ops->mmap == FILE_MMAP_CACHE ? file_inode(f)->mapping : NULL;
}

bool file_readable(const struct file *f)
{
	return f->fmode & FMODE_READ;
}

bool file_writable(const struct file *f)
{
	return f->fmode & FMODE_WRITE;
}

bool file_executable(const struct file *f)
{
	return !S_ISDIR(file_inode(f)->mode) && (file_inode(f)->mode & 0111);
}

char *file_path(const struct file *f, char *buf, size_t size)
{
	char *start = dentry_path(f->dentry, NULL, buf, size);

	if (!start) {
		str_copy(buf, "(too long)", size);
		return buf;
	}
	return memmove(buf, start, (size_t)(buf + size - start));
}

u64 file_ino(const struct file *f)
{
	return file_inode(f)->ino;
}

u32 file_dev(const struct file *f)
{
	return file_inode(f)->vol->dev;
}

u32 file_mode(const struct file *f)
{
	return file_inode(f)->mode;
}

void signal_self(int signo)
{
	siginfo_t info;

	siginfo_kernel(&info, signo);
	signal_send(current->process, current, signo, &info);
}
