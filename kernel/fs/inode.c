/*
 * Inodes and directory entries: their lives, the tree, and path names.
 *
 * Life: an entry in the tree is held by the tree; an open file, a working directory or a
 * walk holds entries too. The last reference frees the entry (by RCU, so that
 * dentry_path() may look at it without locks), then its inode and its parent.
 * That never needs ns_lock, because an entry without references is out of the
 * tree already; so files may be closed under any lock.
 *
 * Names: a rename replaces (parent, name) inside rename_seq; readers retry.
 */
#include "kernel/vfs.h"

#include <linux/magic.h>

#include "arch/x86_64/clock.h"
#include "arch/x86_64/cpu.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "mm/mapping.h"
#include "mm/slab.h"

DEFINE_LOCK_CLASS(ns_class, "vfs_namespace", RANK_VFS);
DEFINE_LOCK_CLASS(inode_write_class, "inode_write", RANK_VFS);

struct volume vol_root = { .type = "tmpfs", .where = "/", .dev = 0x15, .magic = TMPFS_MAGIC };
struct volume vol_dev = { .type = "devtmpfs", .where = "/dev", .dev = 0x5, .magic = TMPFS_MAGIC };
struct volume vol_proc = { .type = "proc", .where = "/proc", .dev = 0x16,
			   .magic = PROC_SUPER_MAGIC, .fixed = true };
struct volume vol_sys = { .type = "sysfs", .where = "/sys", .dev = 0x17, .magic = SYSFS_MAGIC,
			  .fixed = true };
struct volume vol_anon = { .type = "anon_inodefs", .where = "", .dev = 0xe,
			   .magic = ANON_INODE_FS_MAGIC };

struct rwsem ns_lock;
struct dentry *root_dentry;

/* Odd while a rename changes names; written under ns_lock. */
static u64 rename_seq;

/* Entries by (parent, name); ns_lock. */
#define NR_HASH 4096
static struct list name_hash[NR_HASH];

static struct slab_cache *inode_cache, *dentry_cache;

u64 now_real_ns(void)
{
	return clock_ns() + clock_realtime_offset();
}

/* --- inodes ---------------------------------------------------------------- */

struct inode *inode_create(struct volume *vol, u32 mode, const struct inode_ops *ops,
			   const struct file_ops *fops)
{
	struct inode *inode = slab_zalloc(inode_cache);

	if (!inode)
		return NULL;
	inode->refs = 1;
	inode->mode = mode;
	inode->nlink = S_ISDIR(mode) ? 2 : 1;
	inode->ino = atomic_add(&vol->next_ino, 1);
	inode->vol = vol;
	inode->ops = ops;
	inode->fops = fops;
	inode->atime = inode->mtime = inode->ctime = inode->btime = now_real_ns();
	mutex_init(&inode->write_lock, &inode_write_class);
	list_init(&inode->file_locks);
	if (S_ISDIR(mode)) {
		list_init(&inode->entries);
		inode->next_cookie = 3; /* 1 and 2 follow "." and ".." */
	}
	atomic_add(&vol->nr_inodes, 1);
	return inode;
}

struct inode *inode_get(struct inode *inode)
{
	atomic_add(&inode->refs, 1);
	return inode;
}

void inode_put(struct inode *inode)
{
	if (!inode || atomic_sub(&inode->refs, 1))
		return;
	if (inode->ops && inode->ops->destroy)
		inode->ops->destroy(inode);
	atomic_sub(&inode->vol->nr_inodes, 1);
	slab_free(inode_cache, inode);
}

u64 inode_size(const struct inode *inode)
{
	if (S_ISREG(inode->mode) && inode->fops == &tmpfs_file_ops)
		return READ_ONCE(inode->mapping->size);
	if (S_ISLNK(inode->mode) && inode->target && !(inode->ops && inode->ops->readlink))
		return strlen(inode->target);
	if (S_ISDIR(inode->mode) && !inode->vol->fixed)
		return (READ_ONCE(inode->nr_entries) + 2) * 20;
	if (S_ISREG(inode->mode) && inode->vol == &vol_sys)
		return 4096;
	return 0;
}

/* --- entries ---------------------------------------------------------------- */

struct dname *dname_create(const char *name, size_t len)
{
	struct dname *n = kmalloc(sizeof(*n) + len + 1);

	if (!n)
		return NULL;
	n->len = len;
	memcpy(n->text, name, len);
	n->text[len] = 0;
	return n;
}

static void dname_free(struct rcu_head *head)
{
	kfree(container_of(head, struct dname, rcu));
}

struct dentry *dentry_create(struct dentry *parent, const char *name, size_t len,
			     struct inode *inode)
{
	struct dentry *d = slab_zalloc(dentry_cache);
	struct dname *n = dname_create(name, len);

	if (!d || !n) {
		if (d)
			slab_free(dentry_cache, d);
		kfree(n);
		inode_put(inode);
		return NULL;
	}
	d->refs = 1;
	d->name = n;
	d->inode = inode;
	d->anon = !parent;
	d->parent = parent ? dentry_get(parent) : d;
	list_init(&d->link);
	list_init(&d->hash_link);
	return d;
}

struct dentry *dentry_get(struct dentry *d)
{
	atomic_add(&d->refs, 1);
	return d;
}

static void dentry_free(struct rcu_head *head)
{
	struct dentry *d = container_of(head, struct dentry, rcu);

	kfree(d->name);
	slab_free(dentry_cache, d);
}

void dentry_put(struct dentry *d)
{
	while (d && !atomic_sub(&d->refs, 1)) {
		struct dentry *parent = d->parent == d ? NULL : d->parent;

		inode_put(d->inode);
		call_rcu(&d->rcu, dentry_free);
		d = parent;
	}
}

static struct list *hash_of(const struct dentry *dir, const char *name, size_t len)
{
	u64 h = (u64)dir >> 6;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (u8)name[i]) * 0x100000001b3UL;
	return &name_hash[(h ^ h >> 32) % NR_HASH];
}

static bool name_is(const struct dentry *d, const char *name, size_t len)
{
	return d->name->len == len && !memcmp(d->name->text, name, len);
}

struct dentry *dir_find(struct dentry *dir, const char *name, size_t len)
{
	list_for_each (d, hash_of(dir, name, len), struct dentry, hash_link) {
		if (d->parent == dir && name_is(d, name, len))
			return d;
	}
	return NULL;
}

static void touch_dir(struct inode *dir)
{
	dir->mtime = dir->ctime = now_real_ns();
}

static void dir_link(struct dentry *dir, struct dentry *d)
{
	list_add(hash_of(dir, d->name->text, d->name->len), &d->hash_link);
	list_add_tail(&dir->inode->entries, &d->link);
	d->cookie = dir->inode->next_cookie++;
	dir->inode->nr_entries++;
	if (S_ISDIR(d->inode->mode)) {
		dir->inode->nr_subdirs++;
		dir->inode->nlink++;
	}
	touch_dir(dir->inode);
}

static void dir_unlink(struct dentry *dir, struct dentry *d)
{
	list_del(&d->hash_link);
	list_del(&d->link);
	dir->inode->nr_entries--;
	if (S_ISDIR(d->inode->mode)) {
		dir->inode->nr_subdirs--;
		dir->inode->nlink--;
	}
	touch_dir(dir->inode);
}

void dir_insert(struct dentry *dir, struct dentry *d)
{
	DEBUG_ASSERT(d->parent == dir);
	dir_link(dir, d);
}

void dir_remove(struct dentry *d)
{
	dir_unlink(d->parent, d);
	WRITE_ONCE(d->unlinked, true);
	dentry_put(d);
}

void dir_move(struct dentry *d, struct dentry *dir, struct dname *new_name)
{
	struct dentry *old_dir = d->parent;
	struct dname *old_name = d->name;

	dir_unlink(old_dir, d);
	WRITE_ONCE(rename_seq, rename_seq + 1);
	barrier(); /* stores stay in order on x86 */
	WRITE_ONCE(d->parent, dentry_get(dir));
	WRITE_ONCE(d->name, new_name);
	barrier();
	WRITE_ONCE(rename_seq, rename_seq + 1);
	dir_link(dir, d);
	d->inode->ctime = now_real_ns();
	dentry_put(old_dir);
	call_rcu(&old_name->rcu, dname_free);
}

bool dir_is_ancestor(struct dentry *a, struct dentry *d)
{
	for (;; d = d->parent) {
		if (d == a)
			return true;
		if (d == d->parent)
			return false;
	}
}

/* --- path names ---------------------------------------------------------------- */

/* Put n bytes in front of *start; false if there is no room. */
static bool prepend(char *buf, char **start, const char *text, size_t n)
{
	if ((size_t)(*start - buf) < n)
		return false;
	*start -= n;
	memcpy(*start, text, n);
	return true;
}

static char *build_path(struct dentry *d, struct dentry *root, char *buf, size_t size)
{
	char *start = buf + size;
	bool ok = prepend(buf, &start, "", 1);

	if (d->anon) {
		static const char memfd[] = "/memfd:";

		if (!strncmp(d->name->text, memfd, sizeof(memfd) - 1))
			ok = ok && prepend(buf, &start, " (deleted)", 10);
		ok = ok && prepend(buf, &start, d->name->text, d->name->len);
		return ok ? start : NULL;
	}
	if (READ_ONCE(d->unlinked))
		ok = ok && prepend(buf, &start, " (deleted)", 10);
	if (d == root || d == root_dentry)
		ok = ok && prepend(buf, &start, "/", 1);
	while (ok && d != root && d != root_dentry) {
		struct dentry *parent = READ_ONCE(d->parent);
		struct dname *name = READ_ONCE(d->name);

		ok = prepend(buf, &start, name->text, name->len) &&
		     prepend(buf, &start, "/", 1);
		if (parent == d)
			break;
		d = parent;
	}
	if (ok && root && d != root)
		ok = prepend(buf, &start, "(unreachable)", 13);
	return ok ? start : NULL;
}

char *dentry_path(struct dentry *d, struct dentry *root, char *buf, size_t size)
{
	char *start;

	for (;;) {
		u64 seq = smp_load_acquire(&rename_seq);

		rcu_read_lock();
		start = build_path(d, root, buf, size);
		rcu_read_unlock();
		barrier(); /* loads stay in order on x86 */
		if (!(seq & 1) && READ_ONCE(rename_seq) == seq)
			return start;
		cpu_relax();
	}
}

/* --- directories of the tree --------------------------------------------------- */

struct dentry *dir_lookup(struct dentry *dir, const char *name, size_t len)
{
	struct dentry *d;

	down_read(&ns_lock);
	d = dir_find(dir, name, len);
	if (d)
		dentry_get(d);
	up_read(&ns_lock);
	return d;
}

int dir_readdir(struct dentry *dir, u64 *pos, fill_fn fill, void *ctx)
{
	struct dentry *parent;

	if (*pos == 0) {
		if (!fill(ctx, ".", 1, dir->inode->ino, S_IFDIR, 1))
			return 0;
		*pos = 1;
	}
	down_read(&ns_lock);
	parent = dir->parent;
	if (*pos == 1) {
		if (!fill(ctx, "..", 2, parent->inode->ino, S_IFDIR, 3))
			goto out;
		*pos = 3;
	}
	list_for_each (d, &dir->inode->entries, struct dentry, link) {
		if (d->cookie < *pos)
			continue;
		if (!fill(ctx, d->name->text, d->name->len, d->inode->ino, d->inode->mode & S_IFMT,
			  d->cookie + 1))
			break;
		*pos = d->cookie + 1;
	}
out:
	up_read(&ns_lock);
	return 0;
}

/* --- boot ------------------------------------------------------------------------- */

struct dentry *tree_mkdir(const char *path)
{
	struct dentry *dir = root_dentry;

	down_write(&ns_lock);
	for (;;) {
		size_t len = 0;
		struct dentry *d;
		struct inode *inode;

		while (*path == '/')
			path++;
		while (path[len] && path[len] != '/')
			len++;
		if (!len)
			break;
		d = dir_find(dir, path, len);
		if (!d) {
			inode = tmpfs_inode(dir->inode->vol, S_IFDIR | 0755, 0);
			if (inode && inode->vol->fixed)
				inode->mode = S_IFDIR | 0555;
			d = inode ? dentry_create(dir, path, len, inode) : NULL;
			if (!d)
				panic("no memory for the first directories");
			dir_insert(dir, d);
		}
		dir = d;
		path += len;
	}
	up_write(&ns_lock);
	return dir;
}

struct dentry *tree_add(const char *path, struct inode *inode)
{
	const char *name = strrchr(path, '/') + 1;
	char dir_path[256];
	struct dentry *dir, *d;

	ASSERT((size_t)(name - path) < sizeof(dir_path));
	memcpy(dir_path, path, (size_t)(name - path));
	dir_path[name - path] = 0;
	dir = tree_mkdir(dir_path);
	down_write(&ns_lock);
	d = dir_find(dir, name, strlen(name));
	if (d) { /* registered again: the newer one counts */
		d->inode->nlink = 0;
		dir_remove(d);
	}
	d = inode ? dentry_create(dir, name, strlen(name), inode) : NULL;
	if (!d)
		panic("no memory for %s", path);
	dir_insert(dir, d);
	up_write(&ns_lock);
	return d;
}

/* A volume's top directory in the place where it is mounted for good. */
static void add_volume(struct volume *vol)
{
	struct dentry *d = tree_add(vol->where, tmpfs_inode(vol, S_IFDIR | 0755, 0));

	if (vol->fixed)
		d->inode->mode = S_IFDIR | 0555;
	d->volume_root = true;
}

void vfs_init(void)
{
	struct inode *inode;

	inode_cache = slab_create("inode", sizeof(struct inode), 64);
	dentry_cache = slab_create("dentry", sizeof(struct dentry), 64);
	rwsem_init(&ns_lock, &ns_class);
	for (int i = 0; i < NR_HASH; i++)
		list_init(&name_hash[i]);
	tmpfs_init();
	inode = tmpfs_inode(&vol_root, S_IFDIR | 0755, 0);
	root_dentry = inode ? dentry_create(NULL, "", 0, inode) : NULL;
	if (!root_dentry)
		panic("no memory for the root directory");
	root_dentry->anon = false;
	root_dentry->volume_root = true;
	add_volume(&vol_dev);
	add_volume(&vol_proc);
	add_volume(&vol_sys);
	tree_mkdir("/tmp")->inode->mode = S_IFDIR | 01777;
	pseudo_flush_early();
	dev_init();
	tty_init();
	proc_init();
	sysfs_init();
}
