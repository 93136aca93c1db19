/*
 * /proc/PID and /proc/PID/task/TID: one table of files for both, shown by the rooms that know
 * (mm_show_*, process_show_*), and the links and raw files that need more.
 *
 * A node holds references on its process and, below task/, its thread, so a number that
 * is used again never shows through an old directory. After the process
 * has been waited for nothing is found in it any more.
 */
#include "arch/x86_64/paging.h"
#include "kernel/fs/procpid.h"
#include "kernel/printf.h"
#include "kernel/process.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "mm/mm.h"
#include "mm/page.h"
#include "mm/slab.h"

#define PID_BASE (1UL << 40) /* positions of processes in /proc, behind its files */

/* --- from a node to what it is about ------------------------------------------------- */

static bool is_gone(const struct gen_node *n)
{
	if (READ_ONCE(n->process->state) == PROCESS_DEAD)
		return true;
	return n->task && READ_ONCE(n->task->state) == TASK_DEAD;
}

/* The thread, or any of the process; a reference or NULL. */
static struct task *node_task(const struct gen_node *n)
{
	if (is_gone(n))
		return NULL;
	if (n->task) {
		task_get(n->task);
		return n->task;
	}
	return process_task(n->process);
}

static struct mm *node_mm(const struct gen_node *n)
{
	struct task *t = node_task(n);
	struct mm *mm;

	if (!t)
		return NULL;
	mm = mm_of_task(t);
	task_put(t);
	return mm;
}

struct files *node_files(const struct gen_node *n)
{
	struct task *t = node_task(n);
	struct files *files;

	if (!t)
		return NULL;
	files = files_of_task(t);
	task_put(t);
	return files;
}

/* --- memory --------------------------------------------------------------------------------- */

#define SHOW_MM(name, fn)                                                                          \
	static void name(struct seq *s, void *arg)                                                 \
	{                                                                                          \
		struct mm *mm = node_mm(arg);                                                      \
                                                                                                   \
		if (mm) {                                                                          \
			fn(mm, s);                                                                 \
			mm_put_user(mm);                                                           \
		} else if (is_gone(arg)) {                                                         \
			s->error = -ESRCH;                                                         \
		}                                                                                  \
	}
SHOW_MM(show_maps, mm_show_maps)
SHOW_MM(show_smaps, mm_show_smaps)
SHOW_MM(show_smaps_rollup, mm_show_smaps_rollup)
SHOW_MM(show_numa_maps, mm_show_numa_maps)

static void show_statm(struct seq *s, void *arg)
{
	struct mm *mm = node_mm(arg);

	if (mm) {
		mm_show_statm(mm, s);
		mm_put_user(mm);
	} else {
		seq_puts(s, "0 0 0 0 0 0 0\n");
	}
}

/*
 * /proc/PID/mem: the position is the address. Through a kernel page, because the other side's
 * memory and the caller's may both fault.
 */
static long mem_rw(struct file *f, u64 *pos, struct uio *u, bool write)
{
	struct mm *mm = node_mm(file_node(f));
	char *buf;
	long total = 0, err = 0;

	if (!mm)
		return 0;
	buf = kpage_alloc(0);
	if (!buf)
		err = -ENOMEM;
	while (!err && u->left) {
		size_t n = MIN(u->left, PAGE_SIZE - *pos % PAGE_SIZE);
		long done;

		if (write && uio_get(u, buf, n) < n) {
			err = -EFAULT;
			break;
		}
		done = mm_access(mm, *pos, buf, n, write, true);
		if (done <= 0) {
			err = -EIO;
			break;
		}
		if (!write && uio_put(u, buf, (size_t)done) < (size_t)done) {
			err = -EFAULT;
			break;
		}
		*pos += (u64)done;
		total += done;
		if ((size_t)done < n)
			break;
		if (signal_pending(current))
			break;
	}
	kpage_free(buf);
	mm_put_user(mm);
	return total ? total : err;
}

static long mem_read(struct file *f, u64 *pos, struct uio *u)
{
	return mem_rw(f, pos, u, false);
}

static long mem_write(struct file *f, u64 *pos, struct uio *u)
{
	return mem_rw(f, pos, u, true);
}

static long mem_seek(struct file *f, s64 offset, int whence)
{
	if (whence == SEEK_CUR)
		offset += (s64)f->pos;
	else if (whence != SEEK_SET)
		return -EINVAL;
	return (long)(f->pos = (u64)offset);
}

static const struct file_ops mem_fops = {
	.read = mem_read,
	.write = mem_write,
	.seek = mem_seek,
	.unsigned_pos = true,
};

/* Eight bytes for each page of the address space. */
static long pagemap_read(struct file *f, u64 *pos, struct uio *u)
{
	struct mm *mm;
	u64 end = USER_END / PAGE_SIZE * 8, *buf;
	long total = 0, err = 0;

	if (*pos % 8 || u->left % 8)
		return -EINVAL;
	mm = node_mm(file_node(f));
	if (!mm)
		return 0;
	buf = kpage_alloc(0);
	if (!buf)
		err = -ENOMEM;
	while (!err && u->left && *pos < end) {
		u64 n = MIN(MIN(u->left, PAGE_SIZE), end - *pos) / 8;
		long got = mm_pagemap(mm, *pos / 8, buf, n);

		if (got <= 0) {
			err = (int)got;
			break;
		}
		if (uio_put(u, buf, (size_t)got * 8) < (size_t)got * 8) {
			err = -EFAULT;
			break;
		}
		*pos += (u64)got * 8;
		total += got * 8;
		if (signal_pending(current))
			break;
		cond_resched();
	}
	kpage_free(buf);
	mm_put_user(mm);
	return total ? total : err;
}

static const struct file_ops pagemap_fops = {
	.read = pagemap_read,
	.seek = mem_seek,
};

/* --- the process
 * -------------------------------------------------------------------------------- */

#define SHOW_TASK(name, fn)                                                                        \
	static void name(struct seq *s, void *arg)                                                 \
	{                                                                                          \
		struct gen_node *n = arg;                                                          \
		struct task *t = node_task(n);                                                     \
                                                                                                   \
		if (!is_gone(n))                                                                   \
			fn(n->process, t, s);                                                      \
		else                                                                               \
			s->error = -ESRCH;                                                         \
		if (t)                                                                             \
			task_put(t);                                                               \
	}
SHOW_TASK(show_stat, process_show_stat)
SHOW_TASK(show_status, process_show_status)

#define SHOW_PROCESS(name, fn)                                                                     \
	static void name(struct seq *s, void *arg)                                                 \
	{                                                                                          \
		struct gen_node *n = arg;                                                          \
                                                                                                   \
		if (!is_gone(n))                                                                   \
			fn(n->process, s);                                                         \
		else                                                                               \
			s->error = -ESRCH;                                                         \
	}
SHOW_PROCESS(show_cmdline, process_show_cmdline)
SHOW_PROCESS(show_environ, process_show_environ)
SHOW_PROCESS(show_limits, process_show_limits)
SHOW_PROCESS(show_auxv, process_show_auxv)

static void show_comm(struct seq *s, void *arg)
{
	struct task *t = node_task(arg);

	if (!t) {
		s->error = -ESRCH;
		return;
	}
	seq_printf(s, "%.*s\n", TASK_COMM - 1, t->comm);
	task_put(t);
}

static long write_comm(const char *text, size_t len, void *arg)
{
	struct task *t = node_task(arg);
	size_t n = MIN(len, TASK_COMM - 1);

	if (!t)
		return -ESRCH;
	if (t->process != current->process) {
		task_put(t);
		return -EINVAL;
	}
	memcpy(t->comm, text, n);
	memset(t->comm + n, 0, TASK_COMM - n);
	task_put(t);
	return (long)len;
}

static void show_oom_adj(struct seq *s, void *arg)
{
	seq_printf(s, "%d\n", READ_ONCE(((struct gen_node *)arg)->process->oom_score_adj));
}

static long write_oom_adj(const char *text, size_t len, void *arg)
{
	bool minus;
	u64 v;

	while (*text == ' ')
		text++;
	minus = *text == '-';
	if (parse_u64(text + minus, &text, &v) || (*text && *text != '\n') || v > 1000)
		return -EINVAL;
	WRITE_ONCE(((struct gen_node *)arg)->process->oom_score_adj, minus ? -(int)v : (int)v);
	return (long)len;
}

/* Thousandths of memory that it has, and what the adjustment adds. */
static void show_oom_score(struct seq *s, void *arg)
{
	struct gen_node *n = arg;
	struct mm *mm = node_mm(n);
	long score = 0;

	if (mm) {
		score = (long)(mm_rss(mm) * 1000 / MAX(frames_total(NO_NODE), 1)) +
			n->process->oom_score_adj;
		mm_put_user(mm);
	}
	seq_printf(s, "%ld\n", MAX(score, 0));
}

static void show_wchan(struct seq *s, void *arg)
{
	seq_puts(s, "0");
}

static void show_personality(struct seq *s, void *arg)
{
	seq_printf(s, "%08x\n", ((struct gen_node *)arg)->process->personality);
}

static void show_coredump_filter(struct seq *s, void *arg)
{
	seq_puts(s, "00000033\n");
}

static long write_ignored(const char *text, size_t len, void *arg)
{
	return (long)len;
}

static void show_mounts(struct seq *s, void *arg)
{
	static const struct volume *const all[] = { &vol_root, &vol_dev, &vol_proc, &vol_sys };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		seq_printf(s, "%s %s %s rw,relatime 0 0\n", all[i]->type, all[i]->where,
			   all[i]->type);
}

static void show_mountinfo(struct seq *s, void *arg)
{
	static const struct volume *const all[] = { &vol_root, &vol_dev, &vol_proc, &vol_sys };

	for (u32 i = 0; i < ARRAY_SIZE(all); i++)
		seq_printf(s, "%u %u %u:%u / %s rw,relatime - %s %s rw\n", i + 1, i ? 1 : 0,
			   DEV_MAJOR(all[i]->dev), DEV_MINOR(all[i]->dev), all[i]->where,
			   all[i]->type, all[i]->type);
}

static void show_schedstat(struct seq *s, void *arg)
{
	struct task *t = node_task(arg);

	if (!t)
		return;
	seq_printf(s, "%lu 0 %lu\n", t->user_ns + t->system_ns, t->nvcsw + t->nivcsw);
	task_put(t);
}

/* --- links ------------------------------------------------------------------------- */

static struct dentry *jump_place(struct dentry *d, bool root, int *err)
{
	struct task *t = node_task(dentry_node(d));
	struct fs *fs = t ? fs_of_task(t) : NULL;
	struct dentry *target = NULL;

	*err = -ENOENT;
	if (fs) {
		target = root ? fs_root(fs) : fs_cwd(fs);
		fs_put(fs);
	}
	if (t)
		task_put(t);
	return target;
}

static struct dentry *jump_cwd(struct dentry *d, int *err)
{
	return jump_place(d, false, err);
}

static struct dentry *jump_root(struct dentry *d, int *err)
{
	return jump_place(d, true, err);
}

static struct dentry *jump_exe(struct dentry *d, int *err)
{
	struct mm *mm = node_mm(dentry_node(d));
	struct dentry *target = NULL;

	*err = -ENOENT;
	if (!mm)
		return NULL;
	down_read(&mm->lock);
	if (mm->exe)
		target = dentry_get(mm->exe->dentry);
	up_read(&mm->lock);
	mm_put_user(mm);
	return target;
}

/* --- the tables
 * ------------------------------------------------------------------------------------------ */

static const struct inode_ops task_ops;

#define COMMON_ENTRIES                                                                             \
	{ "fd", S_IFDIR | 0500, .ops = &procfd_ops },                                                  \
	{ "fdinfo", S_IFDIR | 0555, .ops = &procfdinfo_ops },                                          \
	{ "environ", S_IFREG | 0400, .show = show_environ },                                       \
	{ "auxv", S_IFREG | 0400, .show = show_auxv },                                             \
	{ "status", S_IFREG | 0444, .show = show_status },                                         \
	{ "personality", S_IFREG | 0400, .show = show_personality },                               \
	{ "limits", S_IFREG | 0444, .show = show_limits },                                         \
	{ "comm", S_IFREG | 0644, .show = show_comm, .write = write_comm },                        \
	{ "cmdline", S_IFREG | 0444, .show = show_cmdline },                                       \
	{ "stat", S_IFREG | 0444, .show = show_stat },                                             \
	{ "statm", S_IFREG | 0444, .show = show_statm },                                           \
	{ "maps", S_IFREG | 0444, .show = show_maps },                                             \
	{ "numa_maps", S_IFREG | 0444, .show = show_numa_maps },                                   \
	{ "mem", S_IFREG | 0600, .fops = &mem_fops },                                              \
	{ "cwd", S_IFLNK | 0777, .readlink = read_jump, .jump = jump_cwd },                        \
	{ "root", S_IFLNK | 0777, .readlink = read_jump, .jump = jump_root },                      \
	{ "exe", S_IFLNK | 0777, .readlink = read_jump, .jump = jump_exe },                        \
	{ "mounts", S_IFREG | 0444, .show = show_mounts },                                         \
	{ "mountinfo", S_IFREG | 0444, .show = show_mountinfo },                                   \
	{ "smaps", S_IFREG | 0444, .show = show_smaps },                                           \
	{ "smaps_rollup", S_IFREG | 0444, .show = show_smaps_rollup },                             \
	{ "pagemap", S_IFREG | 0400, .fops = &pagemap_fops },                                      \
	{ "wchan", S_IFREG | 0444, .show = show_wchan },                                           \
	{ "schedstat", S_IFREG | 0444, .show = show_schedstat },                                   \
	{ "oom_score", S_IFREG | 0444, .show = show_oom_score },                                   \
	{ "oom_score_adj", S_IFREG | 0644, .show = show_oom_adj, .write = write_oom_adj }

static const struct gen_entry tid_table[] = { COMMON_ENTRIES, { NULL } };
static const struct gen_entry pid_table[] = {
	{ "task", S_IFDIR | 0555, .ops = &task_ops },
	COMMON_ENTRIES,
	{ "coredump_filter", S_IFREG | 0644, .show = show_coredump_filter, .write = write_ignored },
	{ NULL },
};

static const struct gen_entry tid_dir = { "", S_IFDIR | 0555, .table = tid_table };
static const struct gen_entry pid_dir = { "", S_IFDIR | 0555, .table = pid_table };

static void set_owner(struct dentry *d, const struct process *p)
{
	d->inode->uid = p->cred.euid;
	d->inode->gid = p->cred.egid;
}

static struct dentry *task_lookup(struct dentry *dir, const char *name, size_t len)
{
	struct gen_node like = *dentry_node(dir);
	long tid = parse_number(name, len);
	struct task *t = tid > 0 ? task_by_tid((int)tid) : NULL;
	struct dentry *d = NULL;

	if (t && t->process == like.process && !is_gone(&like)) {
		like.task = t;
		d = gen_dentry(dir, name, len, &tid_dir, &like, (u64)tid << 20 | 1 << 16);
		if (d)
			set_owner(d, like.process);
	}
	if (t)
		task_put(t);
	return d;
}

static int task_readdir(struct dentry *dir, u64 *pos, fill_fn fill, void *ctx)
{
	struct process *p = dentry_node(dir)->process;
	struct task *t;

	if (!gen_dots(dir, pos, fill, ctx))
		return 0;
	while ((t = process_next_task(p, (int)*pos - 1))) {
		u64 tid = (u64)t->tid;
		bool ok = fill_number(fill, ctx, tid, tid << 20 | 1 << 16, S_IFDIR, tid + 2);

		task_put(t);
		if (!ok)
			break;
		*pos = tid + 2;
	}
	return 0;
}

static const struct inode_ops task_ops = { .lookup = task_lookup, .readdir = task_readdir };

/* --- /proc itself
 * ---------------------------------------------------------------------------------------- */

static struct dentry *root_lookup(struct dentry *dir, const char *name, size_t len)
{
	struct dentry *d = dir_lookup(dir, name, len);
	struct gen_node like = { .id = 0 };
	long pid;

	if (d)
		return d;
	pid = parse_number(name, len);
	if (pid <= 0)
		return NULL;
	like.process = process_by_pid((int)pid);
	if (!like.process) { /* a thread's number works too, though it is not listed */
		struct task *t = task_by_tid((int)pid);

		if (t && t->process)
			like.process = process_get(t->process);
		if (t)
			task_put(t);
	}
	if (!like.process)
		return NULL;
	if (!is_gone(&like))
		d = gen_dentry(dir, name, len, &pid_dir, &like, (u64)pid << 20);
	if (d)
		set_owner(d, like.process);
	process_put(like.process);
	return d;
}

static int root_readdir(struct dentry *dir, u64 *pos, fill_fn fill, void *ctx)
{
	struct process *p;

	if (*pos < PID_BASE && !gen_tree_entries(dir, pos, PID_BASE, fill, ctx))
		return 0;
	for (p = process_next((int)(*pos - PID_BASE)); p; p = process_after(p)) {
		u64 pid = (u64)p->pid;

		if (!fill_number(fill, ctx, pid, pid << 20, S_IFDIR, PID_BASE + pid + 1)) {
			process_put(p);
			break;
		}
		*pos = PID_BASE + pid + 1;
	}
	return 0;
}

static const struct inode_ops root_ops = { .lookup = root_lookup, .readdir = root_readdir };

static long read_self(struct dentry *d, char *buf, size_t size)
{
	if (!current->process)
		return -ENOENT;
	return kscnprintf(buf, size, "%d", current->process->pid);
}

static long read_thread_self(struct dentry *d, char *buf, size_t size)
{
	if (!current->process)
		return -ENOENT;
	return kscnprintf(buf, size, "%d/task/%d", current->process->pid, current->tid);
}

static const struct inode_ops self_ops = { .readlink = read_self };
static const struct inode_ops thread_self_ops = { .readlink = read_thread_self };

static void add_link(const char *path, const struct inode_ops *ops)
{
	tree_add(path, inode_create(&vol_proc, S_IFLNK | 0777, ops, NULL));
}

static long read_mounts(struct dentry *d, char *buf, size_t size)
{
	static const char target[] = "self/mounts";
	size_t n = MIN(sizeof(target) - 1, size);

	memcpy(buf, target, n);
	return (long)n;
}

static const struct inode_ops mounts_ops = { .readlink = read_mounts };

void procpid_init(void)
{
	gen_extend("/proc", &root_ops);
	add_link("/proc/self", &self_ops);
	add_link("/proc/thread-self", &thread_self_ops);
	add_link("/proc/mounts", &mounts_ops);
}
