/* Generated directories, see gen.h. */
#include "kernel/fs/gen.h"

#include "arch/x86_64/smp.h"
#include "kernel/process.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "mm/slab.h"

static void gen_destroy(struct inode *inode)
{
	struct gen_node *n = inode->data;

	if (n->process)
		process_put(n->process);
	if (n->task)
		task_put(n->task);
	kfree(n);
}

static long gen_readlink(struct dentry *d, char *buf, size_t size)
{
	return dentry_node(d)->entry->readlink(d, buf, size);
}

static struct dentry *gen_jump(struct dentry *d, int *err)
{
	return dentry_node(d)->entry->jump(d, err);
}

static struct dentry *lookup(struct dentry *dir, const char *name, size_t len)
{
	const struct inode_ops *ops = dentry_node(dir)->entry->ops;

	return ops ? ops->lookup(dir, name, len) : gen_lookup(dir, name, len);
}

static int readdir(struct dentry *dir, u64 *pos, fill_fn fill, void *ctx)
{
	const struct inode_ops *ops = dentry_node(dir)->entry->ops;

	return ops ? ops->readdir(dir, pos, fill, ctx) : gen_readdir(dir, pos, fill, ctx);
}

static const struct inode_ops file_inode_ops = { .destroy = gen_destroy };
static const struct inode_ops link_ops = { .destroy = gen_destroy, .readlink = gen_readlink };
static const struct inode_ops jump_ops = { .destroy = gen_destroy, .readlink = gen_readlink,
					   .jump = gen_jump };
static const struct inode_ops dir_ops = { .destroy = gen_destroy, .lookup = lookup,
					  .readdir = readdir };

struct dentry *gen_dentry(struct dentry *dir, const char *name, size_t len,
			  const struct gen_entry *e, const struct gen_node *like, u64 ino)
{
	struct gen_node *n = kzalloc(sizeof(*n));
	const struct inode_ops *ops = &file_inode_ops;
	const struct file_ops *fops = e->fops ? e->fops : &pseudo_fops;
	struct inode *inode;

	if (S_ISDIR(e->mode)) {
		ops = &dir_ops;
		fops = &dir_fops;
	} else if (S_ISLNK(e->mode)) {
		ops = e->jump ? &jump_ops : &link_ops;
		fops = NULL;
	}
	inode = n ? inode_create(dir->inode->vol, e->mode, ops, fops) : NULL;
	if (!inode) {
		kfree(n);
		return NULL;
	}
	*n = *like;
	n->pseudo = (struct pseudo){ e->show, e->write, n };
	n->entry = e;
	if (n->process)
		process_get(n->process);
	if (n->task)
		task_get(n->task);
	inode->data = n;
	inode->ino = ino;
	return dentry_create(dir, name, len, inode);
}

/* Numbers below a directory follow its own. */
static u64 ino_below(const struct dentry *dir, u64 i)
{
	return dir->inode->ino * 64 + i + 1;
}

struct dentry *gen_lookup(struct dentry *dir, const char *name, size_t len)
{
	const struct gen_entry *e = dentry_node(dir)->entry->table;

	for (u64 i = 0; e->name; e++, i++) {
		if (strlen(e->name) == len && !memcmp(e->name, name, len))
			return gen_dentry(dir, name, len, e, dentry_node(dir), ino_below(dir, i));
	}
	return NULL;
}

bool gen_dots(struct dentry *dir, u64 *pos, fill_fn fill, void *ctx)
{
	if (*pos == 0) {
		if (!fill(ctx, ".", 1, dir->inode->ino, S_IFDIR, 1))
			return false;
		*pos = 1;
	}
	if (*pos == 1) {
		if (!fill(ctx, "..", 2, dir->parent->inode->ino, S_IFDIR, 2))
			return false;
		*pos = 2;
	}
	return true;
}

int gen_readdir(struct dentry *dir, u64 *pos, fill_fn fill, void *ctx)
{
	const struct gen_entry *e = dentry_node(dir)->entry->table;

	if (!gen_dots(dir, pos, fill, ctx))
		return 0;
	for (u64 i = 0; e->name; e++, i++) {
		if (i + 2 < *pos)
			continue;
		if (!fill(ctx, e->name, strlen(e->name), ino_below(dir, i), e->mode & S_IFMT,
			  i + 3))
			return 0;
		*pos = i + 3;
	}
	return 0;
}

struct counted {
	fill_fn fill;
	void *ctx;
	bool full;
};

static bool counted_fill(void *ctx, const char *name, size_t len, u64 ino, u32 type, u64 next)
{
	struct counted *c = ctx;

	c->full = !c->fill(c->ctx, name, len, ino, type, next);
	return !c->full;
}

bool gen_tree_entries(struct dentry *dir, u64 *pos, u64 base, fill_fn fill, void *ctx)
{
	struct counted c = { fill, ctx, false };

	dir_readdir(dir, pos, counted_fill, &c);
	if (!c.full)
		*pos = base;
	return !c.full;
}

long parse_number(const char *name, size_t len)
{
	long v = 0;

	if (!len || len > 9 || (*name == '0' && len > 1))
		return -1;
	for (size_t i = 0; i < len; i++) {
		if (name[i] < '0' || name[i] > '9')
			return -1;
		v = v * 10 + (name[i] - '0');
	}
	return v;
}

void gen_extend(const char *path, const struct inode_ops *ops)
{
	tree_mkdir(path)->inode->ops = ops;
}

/* --- sets of CPUs ---------------------------------------------------------------- */

void seq_cpulist(struct seq *s, const struct cpumask *m)
{
	const char *comma = "";

	for (u32 first = cpumask_next(m, 0); first < MAX_CPUS;) {
		u32 last = first;

		while (last + 1 < MAX_CPUS && cpumask_test(m, last + 1))
			last++;
		if (last > first)
			seq_printf(s, "%s%u-%u", comma, first, last);
		else
			seq_printf(s, "%s%u", comma, first);
		comma = ",";
		first = cpumask_next(m, last + 1);
	}
	seq_puts(s, "\n");
}

/* As wide as the machine has CPUs, in words of 32. */
void seq_cpumap(struct seq *s, const struct cpumask *m)
{
	u32 words = DIV_UP(num_cpus, 32);

	for (u32 i = words; i-- > 0;) {
		u32 word = (u32)(m->bits[i / 2] >> (i % 2 * 32));
		u32 bits = i == words - 1 ? num_cpus - i * 32 : 32;

		seq_printf(s, "%0*x%s", (int)DIV_UP(bits, 4), word, i ? "," : "");
	}
	seq_puts(s, "\n");
}
