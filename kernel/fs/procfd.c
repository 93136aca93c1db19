/*
 * /proc/PID/fd and fdinfo: a process's descriptors, as links to what they are open on, and in
 * numbers.
 */
#include "kernel/fs/procpid.h"
#include "kernel/printf.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "mm/page.h"

long read_jump(struct dentry *d, char *buf, size_t size)
{
	int err = 0;
	struct dentry *target = dentry_node(d)->entry->jump(d, &err);
	struct dentry *root;
	char *page, *start;
	long n = -ENOMEM;

	if (!target)
		return err;
	page = kpage_alloc(0);
	root = fs_root(current->fs);
	start = page ? dentry_path(target, root, page, PAGE_SIZE) : NULL;
	if (start) {
		n = (long)MIN((size_t)(page + PAGE_SIZE - 1 - start), size);
		memcpy(buf, start, (size_t)n);
	} else if (page) {
		n = -ENAMETOOLONG;
	}
	kpage_free(page);
	dentry_put(root);
	dentry_put(target);
	return n;
}

static struct file *node_file(const struct gen_node *n)
{
	struct files *files = node_files(n);
	struct file *f = NULL;

	if (files) {
		f = files_get(files, (int)n->id);
		files_put(files);
	}
	return f;
}

static struct dentry *jump_fd(struct dentry *d, int *err)
{
	struct file *f = node_file(dentry_node(d));
	struct dentry *target;

	*err = -ENOENT;
	if (!f)
		return NULL;
	target = dentry_get(f->dentry);
	file_put(f);
	return target;
}

static void show_fdinfo(struct seq *s, void *arg)
{
	struct gen_node *n = arg;
	struct files *files = node_files(n);
	struct file *f = files ? files_get(files, (int)n->id) : NULL;

	if (f) {
		u32 flags = f->flags | (files_cloexec(files, (int)n->id) ? O_CLOEXEC : 0);

		seq_printf(s, "pos:\t%ld\nflags:\t0%o\nmnt_id:\t1\nino:\t%lu\n", (long)f->pos,
			   flags, file_ino(f));
		file_put(f);
	}
	files_put(files);
}

static const struct gen_entry fd_link = { "", S_IFLNK | 0700, .readlink = read_jump,
					  .jump = jump_fd };
static const struct gen_entry fdinfo_file = { "", S_IFREG | 0444, .show = show_fdinfo };

static struct dentry *fd_find(struct dentry *dir, const char *name, size_t len,
			      const struct gen_entry *e)
{
	struct gen_node like = *dentry_node(dir);
	struct dentry *d;
	struct file *f;
	long fd = parse_number(name, len);

	if (fd < 0)
		return NULL;
	like.id = (u64)fd;
	f = node_file(&like);
	if (!f)
		return NULL;
	d = gen_dentry(dir, name, len, e, &like, dir->inode->ino * 64 + (u64)fd + 1);
	if (d && S_ISLNK(e->mode))
		d->inode->mode = S_IFLNK | 0100 | (f->fmode & FMODE_READ ? 0400 : 0) |
				 (f->fmode & FMODE_WRITE ? 0200 : 0);
	file_put(f);
	return d;
}

static struct dentry *fd_lookup(struct dentry *dir, const char *name, size_t len)
{
	return fd_find(dir, name, len, &fd_link);
}

static struct dentry *fdinfo_lookup(struct dentry *dir, const char *name, size_t len)
{
	return fd_find(dir, name, len, &fdinfo_file);
}

bool fill_number(fill_fn fill, void *ctx, u64 number, u64 ino, u32 type, u64 next)
{
	char name[24];
	int len = ksnprintf(name, sizeof(name), "%lu", number);

	return fill(ctx, name, (size_t)len, ino, type, next);
}

static int fd_list(struct dentry *dir, u64 *pos, fill_fn fill, void *ctx, u32 type)
{
	struct files *files;

	if (!gen_dots(dir, pos, fill, ctx))
		return 0;
	files = node_files(dentry_node(dir));
	if (!files)
		return 0;
	for (int fd = (int)(*pos - 2); (fd = files_next(files, fd)) >= 0; fd++) {
		if (!fill_number(fill, ctx, (u64)fd, dir->inode->ino * 64 + (u64)fd + 1, type,
				 (u64)fd + 3))
			break;
		*pos = (u64)fd + 3;
	}
	files_put(files);
	return 0;
}

static int fd_readdir(struct dentry *dir, u64 *pos, fill_fn fill, void *ctx)
{
	return fd_list(dir, pos, fill, ctx, S_IFLNK);
}

static int fdinfo_readdir(struct dentry *dir, u64 *pos, fill_fn fill, void *ctx)
{
	return fd_list(dir, pos, fill, ctx, S_IFREG);
}

const struct inode_ops procfd_ops = { .lookup = fd_lookup, .readdir = fd_readdir };
const struct inode_ops procfdinfo_ops = { .lookup = fdinfo_lookup, .readdir = fdinfo_readdir };
