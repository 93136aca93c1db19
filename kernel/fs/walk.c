/*
 * From a path to an entry.
 *
 * A walk keeps its place in w->dir (a reference) and what is left of the path in w->pos. A
 * symbolic link puts its text in place of the path; what was left of that waits on a stack. The
 * walk stops in front of the last component of all, because open, mkdir, rename, ... differ in
 * what they do with it.
 *
 * No lock is held between components; each lookup in a directory of the tree reads ns_lock,
 * those in /proc/PID take what they need.
 */
#include "arch/x86_64/uaccess.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "kernel/vfs.h"
#include "mm/page.h"
#include "mm/slab.h"

struct dentry *fs_root(struct fs *fs)
{
	struct dentry *d;

	spin_lock(&fs->lock);
	d = dentry_get(fs->root);
	spin_unlock(&fs->lock);
	return d;
}

struct dentry *fs_cwd(struct fs *fs)
{
	struct dentry *d;

	spin_lock(&fs->lock);
	d = dentry_get(fs->cwd);
	spin_unlock(&fs->lock);
	return d;
}

long inode_readlink(struct dentry *d, char *buf, size_t size)
{
	const char *text = d->inode->target;
	size_t len;

	if (d->inode->ops && d->inode->ops->readlink)
		return d->inode->ops->readlink(d, buf, size);
	len = MIN(strlen(text), size);
	memcpy(buf, text, len);
	return (long)len;
}

struct dentry *lookup_one(struct dentry *dir, const char *name, size_t len, int *err)
{
	struct dentry *d;

	*err = 0;
	if (!S_ISDIR(dir->inode->mode))
		*err = -ENOTDIR;
	else if (len > NAME_MAX)
		*err = -ENAMETOOLONG;
	if (*err)
		return NULL;
	if (dir->inode->ops && dir->inode->ops->lookup)
		d = dir->inode->ops->lookup(dir, name, len);
	else
		d = dir_lookup(dir, name, len);
	if (!d)
		*err = -ENOENT;
	return d;
}

/* Parent of d as seen in the walk: never above its root. */
static struct dentry *parent_of(struct walk *w, struct dentry *d)
{
	struct dentry *parent;

	if (d == w->root)
		return dentry_get(d);
	down_read(&ns_lock);
	parent = dentry_get(d->parent);
	up_read(&ns_lock);
	return parent;
}

static void set_dir(struct walk *w, struct dentry *d)
{
	dentry_put(w->dir);
	w->dir = d;
}

static size_t component_len(const char *p)
{
	size_t n = 0;

	while (p[n] && p[n] != '/')
		n++;
	return n;
}

/* Is there nothing but slashes left? What waits on the stack always has a component to come. */
static bool at_end(const struct walk *w, const char *p)
{
	while (*p == '/')
		p++;
	return !*p && !w->depth;
}

/*
 * The link d has been met: continue in its text. -errno; 1 if it is a jump, whose target goes to
 * *jump (or straight to w->dir if jump is NULL).
 */
int walk_into_link(struct walk *w, struct dentry *d, struct dentry **jump)
{
	const struct inode_ops *ops = d->inode->ops;
	int err = 0;
	char *text;
	long n;

	if (++w->links > MAX_LINKS)
		return -ELOOP;
	if (ops && ops->jump) {
		struct dentry *target = ops->jump(d, &err);

		if (!target)
			return err;
		if (jump)
			*jump = target;
		else
			set_dir(w, target);
		return 1;
	}
	text = kpage_alloc(0);
	if (!text)
		return -ENOMEM;
	n = inode_readlink(d, text, PATH_MAX - 1);
	if (n <= 0) {
		kpage_free(text);
		return n ? (int)n : -ENOENT;
	}
	text[n] = 0;
	if (at_end(w, w->pos)) { /* nothing to come back to */
		kpage_free(w->path);
	} else {
		w->stack[w->depth].path = w->path;
		w->stack[w->depth++].pos = w->pos;
	}
	w->path = text;
	w->pos = text;
	if (*text == '/')
		set_dir(w, dentry_get(w->root));
	return 0;
}

int walk_resume(struct walk *w)
{
	w->last = NULL;
	w->last_type = WALK_ROOT;
	for (;;) {
		const char *name;
		struct dentry *d;
		size_t len;
		bool last;
		int err;

		while (*w->pos == '/')
			w->pos++;
		if (!*w->pos) {
			if (!w->depth)
				return 0;
			kpage_free(w->path);
			w->path = w->stack[--w->depth].path;
			w->pos = w->stack[w->depth].pos;
			continue;
		}
		name = w->pos;
		len = component_len(name);
		w->pos += len;
		last = at_end(w, w->pos);
		if (last) {
			w->must_be_dir |= *w->pos == '/';
			w->last = name;
			w->last_len = len;
			w->last_type = len == 1 && name[0] == '.'			? WALK_DOT :
				       len == 2 && name[0] == '.' && name[1] == '.' ? WALK_DOTDOT :
										      WALK_NAME;
			return S_ISDIR(w->dir->inode->mode) ? 0 : -ENOTDIR;
		}
		if (!S_ISDIR(w->dir->inode->mode))
			return -ENOTDIR;
		if (len == 1 && name[0] == '.')
			continue;
		if (len == 2 && name[0] == '.' && name[1] == '.') {
			set_dir(w, parent_of(w, w->dir));
			continue;
		}
		d = lookup_one(w->dir, name, len, &err);
		if (!d)
			return err;
		if (!S_ISLNK(d->inode->mode)) {
			set_dir(w, d);
			continue;
		}
		err = walk_into_link(w, d, NULL);
		dentry_put(d);
		if (err < 0)
			return err;
	}
}

void walk_end(struct walk *w)
{
	while (w->depth)
		kpage_free(w->stack[--w->depth].path);
	kpage_free(w->path);
	dentry_put(w->dir);
	dentry_put(w->root);
}

/* w->path is filled: find where to start and go. */
static int walk_start(struct walk *w, int dirfd)
{
	int err = 0;

	w->pos = w->path;
	w->root = current->fs ? fs_root(current->fs) : dentry_get(root_dentry);
	if (*w->path == '/') {
		w->dir = dentry_get(w->root);
	} else if (dirfd == AT_FDCWD) {
		w->dir = current->fs ? fs_cwd(current->fs) : dentry_get(root_dentry);
	} else {
		struct file *f = fd_get(dirfd);

		if (f) {
			w->dir = dentry_get(f->dentry);
			file_put(f);
		} else {
			err = -EBADF;
		}
	}
	if (!err && !*w->path)
		err = -ENOENT;
	if (!err)
		err = walk_resume(w);
	if (err)
		walk_end(w);
	return err;
}

int user_path(vaddr_t path, char **out)
{
	long n;

	*out = kpage_alloc(0);
	if (!*out)
		return -ENOMEM;
	n = strncpy_from_user(*out, path, PATH_MAX);
	if (n >= 0)
		return 0;
	kpage_free(*out);
	return (int)n;
}

static int walk_prepare(struct walk *w)
{
	w->dir = w->root = NULL;
	w->depth = w->links = 0;
	w->must_be_dir = false;
	w->path = kpage_alloc(0);
	return w->path ? 0 : -ENOMEM;
}

int walk_begin(struct walk *w, int dirfd, vaddr_t path)
{
	int err = walk_prepare(w);
	long n;

	if (err)
		return err;
	n = strncpy_from_user(w->path, path, PATH_MAX);
	if (n < 0) {
		kpage_free(w->path);
		return (int)n;
	}
	return walk_start(w, dirfd);
}

int walk_begin_kernel(struct walk *w, const char *path)
{
	int err = walk_prepare(w);

	if (err)
		return err;
	if (str_copy(w->path, path, PATH_MAX) >= PATH_MAX) {
		kpage_free(w->path);
		return -ENAMETOOLONG;
	}
	return walk_start(w, AT_FDCWD);
}

struct dentry *walk_last(struct walk *w, bool follow, int *err)
{
	for (;;) {
		struct dentry *d, *jump = NULL;

		*err = 0;
		if (w->last_type == WALK_ROOT || w->last_type == WALK_DOT)
			d = dentry_get(w->dir);
		else if (w->last_type == WALK_DOTDOT)
			d = parent_of(w, w->dir);
		else
			d = lookup_one(w->dir, w->last, w->last_len, err);
		if (!d)
			return NULL;
		if (S_ISLNK(d->inode->mode) && (follow || w->must_be_dir)) {
			*err = walk_into_link(w, d, &jump);
			dentry_put(d);
			if (*err < 0)
				return NULL;
			d = jump;
			if (!*err) {
				*err = walk_resume(w);
				if (*err)
					return NULL;
				continue;
			}
			*err = 0;
		}
		if (w->must_be_dir && !S_ISDIR(d->inode->mode)) {
			dentry_put(d);
			*err = -ENOTDIR;
			return NULL;
		}
		return d;
	}
}

/* A walk is large: it lives on the heap. */
struct dentry *path_lookup(int dirfd, vaddr_t path, unsigned flags, int *err)
{
	struct dentry *d = NULL;
	struct walk *w;
	u8 first;

	if (flags & WALK_EMPTY) {
		*err = get_user_u8(path, &first);
		if (*err)
			return NULL;
		if (!first) {
			struct file *f;

			if (dirfd == AT_FDCWD)
				return fs_cwd(current->fs);
			f = fd_get(dirfd);
			if (!f) {
				*err = -EBADF;
				return NULL;
			}
			d = dentry_get(f->dentry);
			file_put(f);
			return d;
		}
	}
	w = kmalloc(sizeof(*w));
	if (!w) {
		*err = -ENOMEM;
		return NULL;
	}
	*err = walk_begin(w, dirfd, path);
	if (!*err) {
		d = walk_last(w, flags & WALK_FOLLOW, err);
		walk_end(w);
	}
	kfree(w);
	return d;
}

struct dentry *path_lookup_kernel(const char *path, int *err)
{
	struct walk *w = kmalloc(sizeof(*w));
	struct dentry *d = NULL;

	*err = w ? walk_begin_kernel(w, path) : -ENOMEM;
	if (!*err) {
		d = walk_last(w, true, err);
		walk_end(w);
	}
	kfree(w);
	return d;
}
