/*
 * Changing the tree: making, linking, removing and renaming names.
 *
 * Each call walks to the parent of the name without locks, allocates what it needs, then
 * takes ns_lock for writing, looks at the name again and does the change in one
 * step. Whoever loses a race gets the errno of having come later.
 */
#include <linux/fs.h>

#include "kernel/string.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "kernel/vfs.h"
#include "mm/page.h"
#include "mm/slab.h"

/* A new inode's text for a symbolic link. */
static int set_target(struct inode *inode, const char *target)
{
	size_t n = strlen(target) + 1;

	inode->target = kmalloc(n);
	if (!inode->target)
		return -ENOMEM;
	memcpy(inode->target, target, n);
	return 0;
}

/* Where w ends a new name is to be made: may it? ns_lock not needed. */
static int check_new(struct walk *w, bool is_dir)
{
	if (w->last_type != WALK_NAME)
		return -EEXIST;
	if (w->must_be_dir && !is_dir)
		return -ENOENT;
	if (w->last_len > NAME_MAX)
		return -ENAMETOOLONG;
	return 0;
}

static bool is_removed(const struct dentry *dir)
{
	return dir->unlinked;
}

int make_node(struct walk *w, u32 mode, u32 rdev, const char *target, struct dentry **out)
{
	struct inode *inode;
	struct dentry *d, *old;
	int err = check_new(w, S_ISDIR(mode));

	if (err)
		return err;
	/* An existing name wins over everything else that may be wrong. */
	old = lookup_one(w->dir, w->last, w->last_len, &err);
	if (old) {
		dentry_put(old);
		return -EEXIST;
	}
	if (err != -ENOENT)
		return err;
	if (w->dir->inode->vol->fixed)
		return w->dir->inode->vol == &vol_proc ? -ENOENT : S_ISREG(mode) ? -EACCES : -EPERM;
	inode = tmpfs_inode(w->dir->inode->vol, mode, rdev);
	if (!inode)
		return -ENOMEM;
	if (target && set_target(inode, target)) {
		inode_put(inode);
		return -ENOMEM;
	}
	d = dentry_create(w->dir, w->last, w->last_len, inode);
	if (!d)
		return -ENOMEM;
	down_write(&ns_lock);
	if (is_removed(w->dir))
		err = -ENOENT;
	else if (dir_find(w->dir, w->last, w->last_len))
		err = -EEXIST;
	else
		err = 0;
	if (!err) {
		if (out)
			*out = dentry_get(d);
		dir_insert(w->dir, d);
	}
	up_write(&ns_lock);
	if (err)
		dentry_put(d);
	return err;
}

/* --- removing ------------------------------------------------------------------- */

/* ns_lock held for writing: take d out; its inode loses a name. */
static void remove_entry(struct dentry *d)
{
	struct inode *inode = d->inode;

	if (S_ISDIR(inode->mode))
		inode->nlink = 0;
	else
		inode->nlink--;
	inode->ctime = now_real_ns();
	dir_remove(d);
}

static int may_remove(struct dentry *d, bool dir)
{
	if (dir && !S_ISDIR(d->inode->mode))
		return -ENOTDIR;
	if (!dir && S_ISDIR(d->inode->mode))
		return -EISDIR;
	if (d->volume_root || d == root_dentry)
		return -EBUSY;
	if (d->inode->vol->fixed)
		return -EPERM;
	if (dir && d->inode->nr_entries)
		return -ENOTEMPTY;
	return 0;
}

static int do_remove(struct walk *w, bool dir)
{
	struct dentry *d, *held = NULL;
	int err = 0;

	if (dir && w->last_type == WALK_DOT)
		return -EINVAL;
	if (dir && w->last_type == WALK_DOTDOT)
		return -ENOTEMPTY;
	if (w->last_type != WALK_NAME)
		return dir ? -EBUSY : -EISDIR;
	if (w->dir->inode->vol->fixed) {
		d = lookup_one(w->dir, w->last, w->last_len, &err);
		if (d)
			err = may_remove(d, dir);
		dentry_put(d);
		return err;
	}
	down_write(&ns_lock);
	d = dir_find(w->dir, w->last, w->last_len);
	if (!d)
		err = w->last_len > NAME_MAX ? -ENAMETOOLONG : -ENOENT;
	else if (!dir && w->must_be_dir)
		err = S_ISDIR(d->inode->mode) ? -EISDIR : -ENOTDIR;
	else
		err = may_remove(d, dir);
	if (!err) {
		held = dentry_get(d);
		remove_entry(d);
	}
	up_write(&ns_lock);
	dentry_put(held); /* contents may be freed now, outside the lock */
	return err;
}

typedef int (*walk_fn)(struct walk *w, void *arg);

/* Do something with the last place of a user's path. */
static long with_walk(int dirfd, vaddr_t path, walk_fn fn, void *arg)
{
	struct walk *w = kmalloc(sizeof(*w));
	int err = w ? walk_begin(w, dirfd, path) : -ENOMEM;

	if (!err) {
		err = fn(w, arg);
		walk_end(w);
	}
	kfree(w);
	return err;
}

static int remove_fn(struct walk *w, void *arg)
{
	return do_remove(w, *(bool *)arg);
}

static long do_unlinkat(int dirfd, vaddr_t path, bool dir)
{
	return with_walk(dirfd, path, remove_fn, &dir);
}

long sys_unlink(u64 path)
{
	return do_unlinkat(AT_FDCWD, path, false);
}

long sys_rmdir(u64 path)
{
	return do_unlinkat(AT_FDCWD, path, true);
}

long sys_unlinkat(u64 dirfd, u64 path, u64 flags)
{
	if (flags & ~(u64)AT_REMOVEDIR)
		return -EINVAL;
	return do_unlinkat((int)dirfd, path, flags & AT_REMOVEDIR);
}

/* --- making ------------------------------------------------------------------------ */

struct node {
	u32 mode, rdev;
	const char *target;
};

static int make_fn(struct walk *w, void *arg)
{
	const struct node *n = arg;

	return make_node(w, n->mode, n->rdev, n->target, NULL);
}

long sys_mkdirat(u64 dirfd, u64 path, u64 mode)
{
	struct node n = { S_IFDIR | ((u32)mode & 01777 & ~current_umask()), 0, NULL };

	return with_walk((int)dirfd, path, make_fn, &n);
}

long sys_mkdir(u64 path, u64 mode)
{
	return sys_mkdirat((u64)AT_FDCWD, path, mode);
}

/* dev_t as user programs pack it, to 12:20 bits as kept in rdev. */
long sys_mknodat(u64 dirfd, u64 path, u64 mode, u64 dev)
{
	struct node n = { (u32)mode & (S_IFMT | 07777), (u32)dev, NULL };

	switch (mode & S_IFMT) {
	case 0:
		n.mode |= S_IFREG;
		/* fallthrough */
	case S_IFREG:
	case S_IFIFO:
	case S_IFSOCK:
		n.rdev = 0;
		break;
	case S_IFCHR:
	case S_IFBLK:
		break;
	case S_IFDIR:
		return -EPERM;
	default:
		return -EINVAL;
	}
	n.mode &= ~current_umask();
	return with_walk((int)dirfd, path, make_fn, &n);
}

long sys_mknod(u64 path, u64 mode, u64 dev)
{
	return sys_mknodat((u64)AT_FDCWD, path, mode, dev);
}

long sys_symlinkat(u64 target, u64 dirfd, u64 path)
{
	struct node n = { S_IFLNK | 0777, 0, NULL };
	char *text;
	long err = user_path(target, &text);

	if (err)
		return err;
	n.target = text;
	err = *text ? with_walk((int)dirfd, path, make_fn, &n) : -ENOENT;
	kpage_free(text);
	return err;
}

long sys_symlink(u64 target, u64 path)
{
	return sys_symlinkat(target, (u64)AT_FDCWD, path);
}

static int link_fn(struct walk *w, void *arg)
{
	struct dentry *old = arg, *d;
	int err = check_new(w, false);

	if (err)
		return err;
	d = lookup_one(w->dir, w->last, w->last_len, &err);
	if (d) {
		dentry_put(d);
		return -EEXIST;
	}
	if (err != -ENOENT)
		return err;
	if (w->dir->inode->vol == &vol_proc)
		return -ENOENT;
	if (w->dir->inode->vol != old->inode->vol)
		return -EXDEV;
	if (S_ISDIR(old->inode->mode) || w->dir->inode->vol->fixed)
		return -EPERM;
	d = dentry_create(w->dir, w->last, w->last_len, inode_get(old->inode));
	if (!d)
		return -ENOMEM;
	err = 0;
	down_write(&ns_lock);
	if (is_removed(w->dir) || (!old->inode->nlink && strcmp(old->name->text, "#tmpfile")))
		err = -ENOENT;
	else if (dir_find(w->dir, w->last, w->last_len))
		err = -EEXIST;
	if (!err) {
		old->inode->nlink++;
		old->inode->ctime = now_real_ns();
		dir_insert(w->dir, d);
	}
	up_write(&ns_lock);
	if (err)
		dentry_put(d);
	return err;
}

long sys_linkat(u64 olddir, u64 oldpath, u64 newdir, u64 newpath, u64 flags)
{
	struct dentry *old;
	long ret;
	int err;

	if (flags & ~(u64)(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	old = path_lookup((int)olddir, oldpath,
			  (flags & AT_SYMLINK_FOLLOW ? WALK_FOLLOW : 0) |
				  (flags & AT_EMPTY_PATH ? WALK_EMPTY : 0), &err);
	if (!old)
		return err;
	ret = with_walk((int)newdir, newpath, link_fn, old);
	dentry_put(old);
	return ret;
}

long sys_link(u64 oldpath, u64 newpath)
{
	return sys_linkat((u64)AT_FDCWD, oldpath, (u64)AT_FDCWD, newpath, 0);
}

/* --- renaming ------------------------------------------------------------------------ */

/* ns_lock held for writing; both last components are names. *gone: entry to put afterwards. */
static int rename_locked(struct walk *from, struct walk *to, u32 flags, struct dname **names,
			 struct dentry **gone)
{
	struct dentry *old = dir_find(from->dir, from->last, from->last_len);
	struct dentry *new = dir_find(to->dir, to->last, to->last_len);
	bool is_dir;

	if (!old)
		return -ENOENT;
	if (new && (flags & RENAME_NOREPLACE))
		return -EEXIST;
	if (!new && (flags & RENAME_EXCHANGE))
		return -ENOENT;
	is_dir = S_ISDIR(old->inode->mode);
	if (!is_dir && (from->must_be_dir || (to->must_be_dir && !(flags & RENAME_EXCHANGE))))
		return -ENOTDIR;
	if ((flags & RENAME_EXCHANGE) && to->must_be_dir && !S_ISDIR(new->inode->mode))
		return -ENOTDIR;
	if (is_dir && dir_is_ancestor(old, to->dir))
		return -EINVAL;
	if (new && S_ISDIR(new->inode->mode) && dir_is_ancestor(new, from->dir))
		return flags & RENAME_EXCHANGE ? -EINVAL : -ENOTEMPTY;
	if (is_removed(to->dir))
		return -ENOENT;
	if (new && old->inode == new->inode)
		return 0;
	if (old->volume_root || (new && new->volume_root))
		return -EBUSY;
	if (new && !(flags & RENAME_EXCHANGE)) {
		if (is_dir && !S_ISDIR(new->inode->mode))
			return -ENOTDIR;
		if (!is_dir && S_ISDIR(new->inode->mode))
			return -EISDIR;
		if (is_dir && new->inode->nr_entries)
			return -ENOTEMPTY;
		*gone = dentry_get(new);
		remove_entry(new);
	}
	dir_move(old, to->dir, names[0]);
	names[0] = NULL;
	if (flags & RENAME_EXCHANGE) {
		dir_move(new, from->dir, names[1]);
		names[1] = NULL;
	}
	return 0;
}

static int do_rename(struct walk *from, struct walk *to, u32 flags)
{
	struct dname *names[2] = { NULL, NULL };
	struct dentry *gone = NULL;
	int err;

	if (from->dir->inode->vol != to->dir->inode->vol)
		return -EXDEV;
	if (from->last_type != WALK_NAME)
		return -EBUSY;
	if (to->last_type != WALK_NAME)
		return flags & RENAME_NOREPLACE ? -EEXIST : -EBUSY;
	if (from->last_len > NAME_MAX || to->last_len > NAME_MAX)
		return -ENAMETOOLONG;
	if (from->dir->inode->vol->fixed)
		return -EPERM;
	names[0] = dname_create(to->last, to->last_len);
	names[1] = dname_create(from->last, from->last_len);
	if (names[0] && names[1]) {
		down_write(&ns_lock);
		err = rename_locked(from, to, flags, names, &gone);
		up_write(&ns_lock);
	} else {
		err = -ENOMEM;
	}
	dentry_put(gone);
	kfree(names[0]);
	kfree(names[1]);
	return err;
}

long sys_renameat2(u64 olddir, u64 oldpath, u64 newdir, u64 newpath, u64 uflags)
{
	u32 flags = (u32)uflags;
	struct walk *from, *to;
	int err;

	if (flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE))
		return -EINVAL;
	if ((flags & RENAME_NOREPLACE) && (flags & RENAME_EXCHANGE))
		return -EINVAL;
	from = kmalloc(sizeof(*from));
	to = kmalloc(sizeof(*to));
	err = from && to ? walk_begin(from, (int)olddir, oldpath) : -ENOMEM;
	if (!err) {
		err = walk_begin(to, (int)newdir, newpath);
		if (!err) {
			err = do_rename(from, to, flags);
			walk_end(to);
		}
		walk_end(from);
	}
	kfree(from);
	kfree(to);
	return err;
}

long sys_renameat(u64 olddir, u64 oldpath, u64 newdir, u64 newpath)
{
	return sys_renameat2(olddir, oldpath, newdir, newpath, 0);
}

long sys_rename(u64 oldpath, u64 newpath)
{
	return sys_renameat2((u64)AT_FDCWD, oldpath, (u64)AT_FDCWD, newpath, 0);
}
