/*
 * Directories that exist only when somebody looks: /proc/PID, /sys/devices/system/cpu/cpuN.
 * What is in them is said by tables; an entry that is looked up gets an inode that lives as
 * long as somebody holds it.
 */
#ifndef KERNEL_FS_GEN_H
#define KERNEL_FS_GEN_H

#include "kernel/seq.h"
#include "kernel/vfs.h"

struct process;
struct task;
struct gen_entry;

/* What an inode of such a directory is about; inode->data. */
struct gen_node {
	struct pseudo pseudo; /* first: pseudo_fops finds it here; its arg is the node */
	const struct gen_entry *entry;
	u64 id;                  /* descriptor, CPU, ...: what the table's user wants */
	struct process *process; /* references; NULL in /sys */
	struct task *task;       /* of /proc/PID/task/TID, else NULL */
};

struct gen_entry {
	const char *name;  /* NULL ends a table */
	u32 mode;          /* S_IFREG, S_IFDIR or S_IFLNK, and permissions */
	/* Files; arg is the struct gen_node. As in pseudo_file(). */
	void (*show)(struct seq *s, void *arg);
	long (*write)(const char *text, size_t n, void *arg);
	const struct file_ops *fops; /* files that are no text: instead of the two */
	/* Directories: a table, or operations of their own. */
	const struct gen_entry *table;
	const struct inode_ops *ops;
	/* Links: as in struct inode_ops. */
	long (*readlink)(struct dentry *d, char *buf, size_t size);
	struct dentry *(*jump)(struct dentry *d, int *err);
};

static inline struct gen_node *dentry_node(const struct dentry *d)
{
	return d->inode->data;
}

/* The inode's node, for files with fops of their own. */
static inline struct gen_node *file_node(const struct file *f)
{
	return file_inode(f)->data;
}

/*
 * An entry of a generated directory: a new dentry below dir. like: what the node is about (entry
 * and pseudo are filled here; references are taken). NULL: out of memory.
 */
struct dentry *gen_dentry(struct dentry *dir, const char *name, size_t len,
			  const struct gen_entry *e, const struct gen_node *like, u64 ino);

/* Operations of directories whose entry has a table. */
struct dentry *gen_lookup(struct dentry *dir, const char *name, size_t len);
int gen_readdir(struct dentry *dir, u64 *pos, fill_fn fill, void *ctx);
/* "." and ".."; false if full. For readdir functions, whose own entries start at position 2. */
bool gen_dots(struct dentry *dir, u64 *pos, fill_fn fill, void *ctx);
/* What the tree has in dir, at positions below `base`, where what is generated follows; false
 * if full. */
bool gen_tree_entries(struct dentry *dir, u64 *pos, u64 base, fill_fn fill, void *ctx);
/* A decimal number without leading zeros, as names of processes and descriptors are; -1 if it
 * is none. */
long parse_number(const char *name, size_t len);

/* A set of numbers as "0-3,8\n" (list) or "00000000,0000010f\n" (map). */
struct cpumask;
void seq_cpulist(struct seq *s, const struct cpumask *m);
void seq_cpumap(struct seq *s, const struct cpumask *m);

/* The parts of /proc beside proc.c. */
void procpid_init(void);
void kpage_files_init(void);

/* Add names to a directory of the tree that lookup finds behind those registered there. */
void gen_extend(const char *path, const struct inode_ops *ops);

#endif
