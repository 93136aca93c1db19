/*
 * Generated files: the text is made when an open file is read at position 0 and kept until
 * it is read there again or closed, so a reader that takes it in pieces sees one moment.
 * pos_lock of the open file guards that text; show() runs under no other lock.
 */
#include "kernel/printk.h"
#include "kernel/seq.h"
#include "kernel/string.h"
#include "kernel/vfs.h"
#include "mm/slab.h"

#define WRITE_MAX 65536

static int pseudo_open(struct file *f)
{
	const struct pseudo *p = file_inode(f)->data;

	if ((f->fmode & FMODE_WRITE) && !p->write && file_inode(f)->vol == &vol_sys)
		return -EACCES;
	f->fmode |= FMODE_SERIAL;
	f->data = NULL;
	return 0;
}

static void free_text(struct file *f)
{
	struct seq *s = f->data;

	if (s)
		kfree(s->buf);
	kfree(s);
	f->data = NULL;
}

static int make_text(struct file *f)
{
	const struct pseudo *p = file_inode(f)->data;
	struct seq *s = kzalloc(sizeof(*s));

	if (!s)
		return -ENOMEM;
	if (p->show)
		p->show(s, p->arg);
	if (s->failed || s->error) {
		int err = s->error ? s->error : -ENOMEM;

		kfree(s->buf);
		kfree(s);
		return err;
	}
	free_text(f);
	f->data = s;
	return 0;
}

static long pseudo_read(struct file *f, u64 *pos, struct uio *u)
{
	struct seq *s;
	size_t n, want;

	if (!f->data || !*pos) {
		int err = make_text(f);

		if (err)
			return err;
	}
	s = f->data;
	if (*pos >= s->len)
		return 0;
	want = MIN(s->len - *pos, u->left);
	n = uio_put(u, s->buf + *pos, want);
	if (!n && want)
		return -EFAULT;
	*pos += n;
	return (long)n;
}

static long pseudo_write(struct file *f, u64 *pos, struct uio *u)
{
	const struct pseudo *p = file_inode(f)->data;
	size_t n = MIN(u->left, WRITE_MAX);
	char *text;
	long ret;

	if (!p->write)
		return -EIO;
	text = kmalloc(n + 1);
	if (!text)
		return -ENOMEM;
	if (uio_get(u, text, n) < n) {
		kfree(text);
		return -EFAULT;
	}
	text[n] = 0;
	ret = p->write(text, n, p->arg);
	if (ret > 0)
		*pos += (u64)ret;
	kfree(text);
	return ret;
}

static long pseudo_seek(struct file *f, s64 offset, int whence)
{
	struct seq *s = f->data;

	if (whence == SEEK_CUR)
		offset += (s64)f->pos;
	else if (whence == SEEK_END)
		offset += s ? (s64)s->len : 0;
	else if (whence != SEEK_SET)
		return -EINVAL;
	if (offset < 0)
		return -EINVAL;
	f->pos = (u64)offset;
	return offset;
}

/* Whoever writes starts anew anyway. */
static int pseudo_truncate(struct inode *inode, u64 size)
{
	return 0;
}

const struct file_ops pseudo_fops = {
	.open = pseudo_open,
	.read = pseudo_read,
	.write = pseudo_write,
	.seek = pseudo_seek,
	.truncate = pseudo_truncate,
	.release = free_text,
};

/* --- registration ---------------------------------------------------------------- */

/* Asked for before there was a tree. Boot CPU only. */
static struct early {
	const char *path;
	struct pseudo p;
} early[64];
static unsigned nr_early;

static struct volume *volume_of(const char *path)
{
	return !strncmp(path, "/proc/", 6) ? &vol_proc : !strncmp(path, "/sys/", 5) ? &vol_sys :
										       &vol_root;
}

void pseudo_file(const char *path, void (*show)(struct seq *, void *arg),
		 long (*write)(const char *text, size_t n, void *arg), void *arg)
{
	struct pseudo *p;
	struct inode *inode;

	if (!root_dentry) {
		ASSERT(nr_early < ARRAY_SIZE(early));
		early[nr_early++] = (struct early){ path, { show, write, arg } };
		return;
	}
	p = kmalloc(sizeof(*p));
	inode = inode_create(volume_of(path), S_IFREG | (show ? 0444 : 0) | (write ? 0200 : 0),
			     NULL, &pseudo_fops);
	if (!p || !inode)
		panic("no memory for %s", path);
	*p = (struct pseudo){ show, write, arg };
	inode->data = p;
	tree_add(path, inode);
}

void pseudo_flush_early(void)
{
	for (unsigned i = 0; i < nr_early; i++)
		pseudo_file(early[i].path, early[i].p.show, early[i].p.write, early[i].p.arg);
	nr_early = 0;
}
