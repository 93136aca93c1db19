/* The first files: a cpio archive into the root tmpfs. */
#include "kernel/cpio.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "kernel/vfs.h"
#include "mm/mapping.h"
#include "mm/slab.h"

/* Hard links of the archive being read: later names of an inode find it here. */
struct seen {
	struct seen *next;
	u32 archive, dev_major, dev_minor, ino;
	struct inode *inode; /* a reference */
};

static struct inode *find_seen(struct seen *list, const struct cpio_entry *e)
{
	for (; list; list = list->next) {
		if (list->archive == e->archive && list->ino == e->ino &&
		    list->dev_major == e->dev_major && list->dev_minor == e->dev_minor)
			return list->inode;
	}
	return NULL;
}

static int fill(struct inode *inode, const struct cpio_entry *e)
{
	if (S_ISREG(e->mode) && e->size) {
		long n = mapping_write_kernel(inode->mapping, 0, e->data, e->size);

		return n == (long)e->size ? 0 : -ENOMEM;
	}
	if (S_ISLNK(e->mode)) {
		inode->target = kmalloc(e->size + 1);
		if (!inode->target)
			return -ENOMEM;
		memcpy(inode->target, e->data, e->size);
		inode->target[e->size] = 0;
	}
	return 0;
}

static void set_attributes(struct inode *inode, const struct cpio_entry *e)
{
	inode->mode = (inode->mode & S_IFMT) | (e->mode & 07777);
	inode->uid = e->uid;
	inode->gid = e->gid;
	inode->mtime = e->mtime * 1000000000UL;
}

static struct inode *new_inode(struct dentry *dir, const struct cpio_entry *e, struct seen **seen)
{
	struct inode *inode = e->nlink > 1 && S_ISREG(e->mode) ? find_seen(*seen, e) : NULL;
	struct seen *s;
	int err;

	if (inode) {
		inode_get(inode);
		inode->nlink++;
		if (e->size)
			err = fill(inode, e);
		else
			err = 0;
	} else {
		inode = tmpfs_inode(dir->inode->vol, e->mode & (S_IFMT | 07777),
				    DEV(e->rdev_major, e->rdev_minor));
		err = inode ? fill(inode, e) : -ENOMEM;
		if (!err && e->nlink > 1 && S_ISREG(e->mode)) {
			s = kmalloc(sizeof(*s));
			if (s) {
				*s = (struct seen){ *seen, e->archive, e->dev_major, e->dev_minor,
						    e->ino, inode_get(inode) };
				*seen = s;
			}
		}
	}
	if (err) {
		if (inode)
			inode_put(inode);
		return NULL;
	}
	set_attributes(inode, e);
	return inode;
}

/* One entry of the archive into the tree; what was there gives way unless both are directories. */
static int unpack_entry(const struct cpio_entry *e, struct seen **seen)
{
	struct walk *w = kmalloc(sizeof(*w));
	struct dentry *old, *d;
	struct inode *inode;
	int err = w ? walk_begin_kernel(w, e->name) : -ENOMEM;

	if (err)
		goto free;
	if (w->last_type != WALK_NAME) { /* "." */
		if (S_ISDIR(e->mode))
			set_attributes(w->dir->inode, e);
		goto end;
	}
	old = lookup_one(w->dir, w->last, w->last_len, &err);
	if (old && S_ISDIR(old->inode->mode)) {
		if (S_ISDIR(e->mode) && !old->volume_root)
			set_attributes(old->inode, e);
		dentry_put(old);
		err = S_ISDIR(e->mode) ? 0 : -EISDIR;
		goto end;
	}
	if (old) {
		down_write(&ns_lock);
		old->inode->nlink--;
		dir_remove(old);
		up_write(&ns_lock);
		dentry_put(old);
	}
	inode = new_inode(w->dir, e, seen);
	d = inode ? dentry_create(w->dir, w->last, w->last_len, inode) : NULL;
	if (d) {
		down_write(&ns_lock);
		dir_insert(w->dir, d);
		up_write(&ns_lock);
	}
	err = d ? 0 : -ENOMEM;
end:
	walk_end(w);
free:
	kfree(w);
	return err;
}

int initramfs_unpack(const void *archive, size_t len)
{
	struct cpio_reader *reader = kmalloc(sizeof(*reader));
	struct cpio_entry e;
	struct seen *seen = NULL;
	int count = 0, err = 0, ret;

	if (!reader)
		return -ENOMEM;
	cpio_open(reader, archive, len);
	while ((ret = cpio_next(reader, &e)) > 0) {
		err = unpack_entry(&e, &seen);
		if (err == -ENOMEM)
			break;
		if (err)
			printk("initramfs: cannot make %s: error %d\n", e.name, -err);
		else
			count++;
	}
	if (ret < 0)
		printk("initramfs: malformed at byte %lu of %lu: %s; %d files were read\n",
		       reader->pos, len, reader->error, count);
	while (seen) {
		struct seen *next = seen->next;

		inode_put(seen->inode);
		kfree(seen);
		seen = next;
	}
	kfree(reader);
	if (err == -ENOMEM) {
		printk("initramfs: out of memory after %d files\n", count);
		return err;
	}
	return ret < 0 && !count ? ret : count;
}
