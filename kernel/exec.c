/*
 * execve: a new program in an old process.
 *
 * Everything that can fail is done beside the running program: the file is looked at (scripts
 * lead to their interpreter), strings are copied, the new address space is built and its stack
 * filled. Only then comes the point of no return: the other threads go, and the current one
 * changes over.
 */
#include <asm/errno.h>
#include <linux/fcntl.h>
#include <linux/limits.h>

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/task.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/exec.h"
#include "kernel/printf.h"
#include "kernel/signal_internal.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "mm/mapping.h"
#include "mm/mm.h"
#include "mm/slab.h"

/* --- the point of no return -------------------- */

/*
 * All other threads go; the current one becomes the leader. 0, or -EAGAIN: the process is
 * being killed.
 */
static int become_only_thread(void)
{
	struct task *t = current;
	struct process *p = t->process;
	struct wait_entry e = { 0 };
	u64 flags = spin_lock_irqsave(&p->siglock);

	if (p->group_exit || p->group_exec) {
		spin_unlock_irqrestore(&p->siglock, flags);
		return -EAGAIN;
	}
	if (p->nr_threads == 1 && t == p->leader) {
		spin_unlock_irqrestore(&p->siglock, flags);
		return 0;
	}
	p->group_exec = t;
	signal_kill_others(p);
	spin_unlock_irqrestore(&p->siglock, flags);

	for (;;) {
		wait_prepare(&p->exec_wait, &e, TASK_KILLABLE);
		if (READ_ONCE(p->nr_threads) == 1 || fatal_signal_pending(t))
			break;
		schedule();
	}
	wait_finish(&p->exec_wait, &e);

	flags = tree_lock();
	spin_lock(&p->siglock);
	p->group_exec = NULL;
	if (p->nr_threads == 1 && !p->leader) {
		pid_set_task(t->tid, NULL);
		pid_unuse(t->tid);
		t->tid = p->pid;
		pid_use(t->tid);
		pid_set_task(t->tid, t);
		p->leader = t;
		t->process->exit_signal = SIGCHLD;
	}
	bool alone = p->nr_threads == 1 && !p->group_exit;

	spin_unlock(&p->siglock);
	tree_unlock(flags);
	return alone ? 0 : -EAGAIN;
}

/* A process that shared its handlers with another one gets its own. */
static int own_sighand(struct process *p)
{
	struct sighand *own, *old = p->sighand;
	u64 flags;

	if (READ_ONCE(old->refs) == 1)
		return 0;
	own = sighand_alloc();
	if (!own)
		return -ENOMEM;
	flags = tree_lock();
	spin_lock(&p->siglock);
	memcpy(own->action, old->action, sizeof(own->action));
	p->sighand = own;
	spin_unlock(&p->siglock);
	tree_unlock(flags);
	sighand_put(old);
	return 0;
}

static void switch_over(struct exec *x)
{
	struct task *t = current;
	struct process *p = t->process;

	if (t->mm) {
		u64 rss = mm_rss_peak(t->mm);

		p->gone.max_rss = MAX(p->gone.max_rss, rss);
		memory_release();
	}
	mm_exec_switch(x->mm);
	x->mm = NULL;
	timers_exec(p);
	signal_exec(t);
	files_close_on_exec();
	memcpy(t->comm, x->comm, sizeof(t->comm));
	t->set_child_tid = 0;
	t->sig_restore_mask = false;
	t->restart.func = NULL;
	p->did_exec = true;
	p->no_dump = false;
	fpu_reset();
	arch_set_fs(0);
	arch_set_gs(0);
	regs_init_user(t->user_regs, x->entry, x->stack_pointer);
}

/* --- the whole -------------------- */

static void exec_free(struct exec *x)
{
	if (x->file)
		file_put(x->file);
	if (x->loader)
		file_put(x->loader);
	kfree(x->image);
	kfree(x->loader_image);
	for (u32 i = 0; i < x->nr_prefix; i++)
		kfree(x->prefix[i]);
	kfree(x->name);
	strings_free(&x->args);
	strings_free(&x->envs);
	strings_free(&x->execfn);
	if (x->mm)
		mm_put_user(x->mm);
	kfree(x);
}

/* The program's short name: the last part of its path. */
static void set_comm(struct exec *x)
{
	const char *slash = strrchr(x->name, '/');

	str_copy(x->comm, slash ? slash + 1 : x->name, sizeof(x->comm));
}

/* x->file, name and argument sources are set. Consumes x. */
static int exec_run(struct exec *x)
{
	int err = find_program(x);

	if (!err)
		err = gather_strings(x);
	if (!err)
		err = build_memory(x);
	if (!err)
		err = files_unshare();
	if (!err)
		err = own_sighand(current->process);
	if (!err)
		err = become_only_thread();
	if (!err) {
		set_comm(x);
		switch_over(x);
	}
	exec_free(x);
	return err;
}

int exec_kernel(const char *path, const char *const *argv, const char *const *envp)
{
	struct exec *x = kzalloc(sizeof(*x));
	int err;

	if (!x)
		return -ENOMEM;
	x->kargv = argv;
	x->kenvp = envp;
	x->name = copy_string(path, strlen(path));
	err = x->name ? open_program(path, &x->file) : -ENOMEM;
	if (!err)
		return exec_run(x);
	exec_free(x);
	return err;
}

/*
 * The path for execveat(): as given, or by way of the descriptor it is relative to. 1: an
 * empty path, the descriptor is the program.
 */
static int path_from_user(struct exec *x, int dirfd, vaddr_t upath, u32 flags)
{
	char *path = kmalloc(PATH_MAX);
	long len;
	int err = 0;

	if (!path)
		return -ENOMEM;
	len = strncpy_from_user(path, upath, PATH_MAX);
	if (len < 0) {
		err = (int)len;
	} else if (!len && !(flags & AT_EMPTY_PATH)) {
		err = -ENOENT;
	} else if (dirfd == AT_FDCWD || path[0] == '/') {
		x->name = copy_string(path, (size_t)len);
	} else {
		struct file *dir = fd_get(dirfd);

		if (dir)
			file_put(dir);
		else
			err = -EBADF;
		x->name = kmalloc(32 + (size_t)len);
		if (x->name)
			ksnprintf(x->name, 32 + (size_t)len, len ? "/proc/self/fd/%d/%s" :
				  "/dev/fd/%d%s", dirfd, path);
	}
	kfree(path);
	if (!err && !x->name)
		err = -ENOMEM;
	return err ? err : len == 0;
}

long sys_execveat(u64 dirfd, u64 upath, u64 uargv, u64 uenvp, u64 flags)
{
	struct exec *x;
	int err;

	if (flags & ~(u64)(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW))
		return -EINVAL;
	x = kzalloc(sizeof(*x));
	if (!x)
		return -ENOMEM;
	x->uargv = uargv;
	x->uenvp = uenvp;
	err = path_from_user(x, (int)dirfd, upath, (u32)flags);
	if (err == 1) {
		x->file = fd_get((int)dirfd);
		err = !x->file ? -EBADF :
		      file_executable(x->file) && file_mapping(x->file) ? 0 : -EACCES;
	} else if (!err) {
		err = open_program(x->name, &x->file);
	}
	if (!err)
		return exec_run(x);
	exec_free(x);
	return err;
}

long sys_execve(u64 upath, u64 uargv, u64 uenvp)
{
	return sys_execveat((u64)AT_FDCWD, upath, uargv, uenvp, 0);
}
