/*
 * fork, vfork, clone, clone3: one function makes every new thread and process.
 *
 * All that can fail comes first, and nothing of it is visible to others. Then, under the tree
 * lock and the siglock, the child appears at once in every table; only a signal that arrived
 * meanwhile can still turn it back (the call then starts over, so that a signal to a process
 * group never misses a child).
 */
#include <asm/errno.h>
#include <linux/sched.h>

#include "arch/x86_64/clock.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/task.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/file.h"
#include "kernel/printk.h"
#include "kernel/sched.h"
#include "kernel/signal_internal.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "mm/mempolicy.h"
#include "mm/mm.h"
#include "mm/slab.h"

/* What the callers ask for, in clone3's terms. */
struct clone_request {
	u64 flags;
	vaddr_t stack; /* stack pointer; 0: the parent's */
	vaddr_t parent_tid, child_tid, tls;
	int exit_signal;
};

/* A parent that waits until its child has let go of its memory. */
struct vfork_done {
	u32 refs; /* atomic: parent, child */
	bool done;
	struct wait_queue wait;
};

/* --- vfork, and what else is owed when a task leaves its memory -------------------- */

static void vfork_put(struct vfork_done *v)
{
	if (atomic_sub(&v->refs, 1) == 0)
		kfree(v);
}

/* Only a fatal signal ends the wait early. */
static void vfork_wait(struct vfork_done *v)
{
	struct wait_entry e = { 0 };

	for (;;) {
		wait_prepare(&v->wait, &e, TASK_KILLABLE);
		if (smp_load_acquire(&v->done) || fatal_signal_pending(current))
			break;
		schedule();
	}
	wait_finish(&v->wait, &e);
	vfork_put(v);
}

void memory_release(void)
{
	struct task *t = current;

	futex_exit(t);
	if (t->clear_child_tid) {
		/* Nobody is left to read it in a memory of one's own. */
		if (READ_ONCE(t->mm->users) > 1) {
			put_user_u32(t->clear_child_tid, 0);
			futex_wake_user(t->clear_child_tid);
		}
		t->clear_child_tid = 0;
	}
	if (t->vfork) {
		struct vfork_done *v = t->vfork;

		t->vfork = NULL;
		smp_store_release(&v->done, true);
		wake_up_all(&v->wait);
		vfork_put(v);
	}
}

/* --- pieces of the child --------------------------------------------------------------- */

static long check_flags(u64 flags)
{
	const u64 namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
			       CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWTIME;

	if (flags & (namespaces | CLONE_PIDFD))
		return -EINVAL; /* as a kernel without them */
	if ((flags & CLONE_THREAD) && !(flags & CLONE_SIGHAND))
		return -EINVAL;
	if ((flags & CLONE_SIGHAND) && !(flags & CLONE_VM))
		return -EINVAL;
	if ((flags & CLONE_SIGHAND) && (flags & CLONE_CLEAR_SIGHAND))
		return -EINVAL;
	if ((flags & CLONE_PARENT) && current->process == init_process)
		return -EINVAL;
	return 0;
}

/*
 * RLIMIT_NPROC: threads of the real user, and children not waited for. Root may have any
 * number, so that the counting, which looks at every process, is for few.
 */
static bool too_many(void)
{
	u64 limit = rlimit(RLIMIT_NPROC), n = 0;
	u32 uid = current->process->cred.uid;

	if (is_root() || !uid || limit == RLIM64_INFINITY)
		return false;
	for (struct process *p = process_next(1); p; p = process_after(p))
		if (p->cred.uid == uid)
			n += MAX(READ_ONCE(p->nr_threads), 1u);
	return n >= limit;
}

static struct sighand *copy_sighand(u64 flags)
{
	struct process *p = current->process;
	struct sighand *s;
	u64 irq;

	if (flags & CLONE_SIGHAND) {
		atomic_add(&p->sighand->refs, 1);
		return p->sighand;
	}
	s = sighand_alloc();
	if (!s)
		return NULL;
	irq = spin_lock_irqsave(&p->siglock);
	spin_lock_nested(&p->sighand->lock);
	memcpy(s->action, p->sighand->action, sizeof(s->action));
	spin_unlock(&p->sighand->lock);
	spin_unlock_irqrestore(&p->siglock, irq);
	if (flags & CLONE_CLEAR_SIGHAND)
		for (int i = 0; i < NSIGNALS; i++)
			if (s->action[i].sa_handler != SIG_IGN)
				memset(&s->action[i], 0, sizeof(s->action[i]));
	return s;
}

/* The child's process: the parent's for a thread. With a reference; NULL if out of memory. */
static struct process *copy_process(const struct clone_request *r)
{
	struct process *from = current->process, *p;

	if (r->flags & CLONE_THREAD)
		return process_get(from);
	p = process_alloc();
	if (!p)
		return NULL;
	p->sighand = copy_sighand(r->flags);
	if (!p->sighand) {
		process_put(p);
		return NULL;
	}
	memcpy(p->rlim, from->rlim, sizeof(p->rlim));
	p->cred = from->cred;
	p->no_dump = from->no_dump;
	p->personality = from->personality;
	p->oom_score_adj = from->oom_score_adj;
	p->exit_signal = r->flags & CLONE_PARENT ? from->exit_signal : r->exit_signal;
	return p;
}

static int copy_memory(struct task *child, u64 flags)
{
	struct mm *mm = current->mm;

	if (flags & CLONE_VM) {
		mm_get_user(mm);
	} else {
		mm = mm_fork(mm);
		if (!mm)
			return -ENOMEM;
	}
	mm_attach(mm, child);
	return 0;
}

static int copy_files(struct task *child, u64 flags)
{
	child->files = flags & CLONE_FILES ? files_share(current->files) :
					     files_copy(current->files);
	child->fs = flags & CLONE_FS ? fs_share(current->fs) : fs_copy(current->fs);
	return child->files && child->fs ? 0 : -ENOMEM;
}

/* Plain fields, and what the child inherits of scheduling. */
static void copy_fields(struct task *child, const struct clone_request *r)
{
	struct task *t = current;

	*child->user_regs = *t->user_regs;
	child->user_regs->rax = 0;
	if (r->stack)
		child->user_regs->rsp = r->stack;
	arch_copy_bases(child);
	if (r->flags & CLONE_SETTLS)
		child->fs_base = r->tls;
	if (r->flags & CLONE_CHILD_SETTID)
		child->set_child_tid = r->child_tid;
	if (r->flags & CLONE_CHILD_CLEARTID)
		child->clear_child_tid = r->child_tid;

	child->sig_blocked = t->sig_blocked;
	child->sas_flags = SS_DISABLE;
	if (!(r->flags & CLONE_VM) || (r->flags & CLONE_VFORK)) {
		child->sas_sp = t->sas_sp;
		child->sas_size = t->sas_size;
		child->sas_flags = t->sas_flags;
	}
	child->no_new_privs = t->no_new_privs;
	child->oom_score_adj = t->oom_score_adj;
	child->affinity = t->affinity;
	child->mempolicy = mempolicy_get(t->mempolicy);
	child->il_next = t->il_next;
	child->start_ns = clock_ns();
	if (t->nice)
		sched_set_nice(child, t->nice);
	if (t->policy)
		sched_set_policy(child, t->policy, t->rt_priority);
}

/* The child's first steps, on its own stack. */
static void child_main(void *arg)
{
	struct task *t = arg;

	sched_finish_switch();
	if (t->set_child_tid)
		put_user_u32(t->set_child_tid, (u32)t->tid);
	arch_return_to_user(t->user_regs);
}

/*
 * Take back a child that never was. Its mm goes by mm_put_user() after it has been taken off
 * the mm's list of tasks, which mm_detach() would do only for the current task.
 */
static void child_discard(struct task *child)
{
	struct mm *mm = child->mm;

	if (mm) {
		mm_unattach(child);
		mm_put_user(mm);
	}
	if (child->files)
		files_put(child->files);
	if (child->fs)
		fs_put(child->fs);
	mempolicy_put(child->mempolicy);
	task_put(child); /* with its process */
}

/* --- the child appears ---------------------------------------------------------------------- */

/* Tree lock and siglock of the process held. */
static void link_thread(struct task *child, struct process *p)
{
	list_add_tail(&p->threads, &child->thread_link);
	p->nr_threads++;
	p->live++;
	pid_set_task(child->tid, child);
}

static void link_process(struct task *child, const struct clone_request *r)
{
	struct process *p = child->process, *self = current->process;
	struct process *parent = r->flags & CLONE_PARENT ? self->parent : self;

	p->pid = child->tid;
	p->leader = child;
	p->parent = parent;
	list_add_tail(&parent->children, &p->sibling);
	process_set_pgrp(p, self->pgid);
	process_set_sid(p, self->sid);
	p->tty = self->tty;
	pid_use(p->pid);
	/* The reference of being alive: until it is waited for. */
	pid_set_process(p->pid, process_get(p));
}

/* It gets its number and can be found. 0, -EAGAIN or -ENOMEM: no number, -ERESTARTNOINTR: a signal came first. */
static int child_publish(struct task *child, const struct clone_request *r)
{
	struct process *self = current->process;
	u64 flags;
	int tid = pid_alloc(&flags), err = 0;

	if (tid < 0)
		return tid;
	child->tid = tid;
	spin_lock(&self->siglock);
	if (current->sig_wanted)
		err = -ERESTARTNOINTR;
	else if (r->flags & CLONE_THREAD)
		link_thread(child, self);
	spin_unlock(&self->siglock);
	if (!err && !(r->flags & CLONE_THREAD)) {
		link_process(child, r);
		spin_lock(&child->process->siglock);
		link_thread(child, child->process);
		spin_unlock(&child->process->siglock);
	}
	if (err)
		pid_unuse(tid);
	tree_unlock(flags);
	return err;
}

static long clone(const struct clone_request *r)
{
	struct vfork_done *vfork = NULL;
	struct task *child;
	long ret = check_flags(r->flags);
	int tid;

	if (!ret && too_many())
		ret = -EAGAIN;
	if (ret)
		return ret;
	child = task_alloc(current->comm, this_node());
	if (!child)
		return -ENOMEM;
	arch_task_init(child, child_main, child);
	child->process = copy_process(r);
	ret = -ENOMEM;
	if (!child->process)
		goto fail;
	copy_fields(child, r);
	if (fpu_copy(child) || copy_files(child, r->flags) || copy_memory(child, r->flags))
		goto fail;
	if (r->flags & CLONE_VFORK) {
		vfork = kzalloc(sizeof(*vfork));
		if (!vfork)
			goto fail;
		vfork->refs = 2;
		wait_init(&vfork->wait);
		child->vfork = vfork;
	}
	ret = child_publish(child, r);
	if (ret)
		goto fail;
	tid = child->tid; /* it may be gone before we return */
	if (r->flags & CLONE_PARENT_SETTID)
		put_user_u32(r->parent_tid, (u32)tid);
	if (!(r->flags & CLONE_THREAD))
		cpu_limit_start(child->process);
	sched_start(child);
	if (vfork)
		vfork_wait(vfork);
	return tid;
fail:
	child->vfork = NULL;
	kfree(vfork);
	child_discard(child);
	return ret;
}

/* --- the calls -------------------------------------------------------------------------------- */

long sys_fork(void)
{
	return clone(&(struct clone_request){ .exit_signal = SIGCHLD });
}

long sys_vfork(void)
{
	return clone(&(struct clone_request){ .flags = CLONE_VFORK | CLONE_VM,
					      .exit_signal = SIGCHLD });
}

long sys_clone(u64 flags, u64 stack, u64 parent_tid, u64 child_tid, u64 tls)
{
	struct clone_request r = {
		.flags = (u32)flags & ~(u64)CSIGNAL, .stack = stack, .parent_tid = parent_tid,
		.child_tid = child_tid, .tls = tls, .exit_signal = (int)(flags & CSIGNAL),
	};

	if ((r.flags & CLONE_SETTLS) && tls >= USER_END)
		return -EPERM;
	return clone(&r);
}

#define CLONE3_KNOWN (0xffffffffUL & ~(u64)CSIGNAL & ~(u64)CLONE_DETACHED)

/* struct clone_args has grown twice; what a program passes beyond what is known must be 0. */
static long clone_args_from_user(struct clone_args *args, vaddr_t user, u64 size)
{
	u8 extra;

	if (size < CLONE_ARGS_SIZE_VER0)
		return -EINVAL;
	if (size > PAGE_SIZE)
		return -E2BIG;
	memset(args, 0, sizeof(*args));
	if (copy_from_user(args, user, MIN(size, sizeof(*args))))
		return -EFAULT;
	for (u64 at = sizeof(*args); at < size; at++) {
		if (get_user_u8(user + at, &extra))
			return -EFAULT;
		if (extra)
			return -E2BIG;
	}
	return 0;
}

long sys_clone3(u64 uargs, u64 size)
{
	struct clone_args args;
	struct clone_request r;
	long err = clone_args_from_user(&args, uargs, size);

	if (err)
		return err;
	if ((args.flags & ~(CLONE3_KNOWN | CLONE_CLEAR_SIGHAND | CLONE_NEWTIME)) ||
	    args.set_tid_size || (args.flags & CLONE_INTO_CGROUP))
		return -EINVAL;
	if (args.exit_signal > NSIGNALS)
		return -EINVAL;
	if ((args.flags & (CLONE_THREAD | CLONE_PARENT)) && args.exit_signal)
		return -EINVAL;
	if (!args.stack != !args.stack_size || !user_range_ok(args.stack, args.stack_size))
		return -EINVAL;
	r = (struct clone_request){
		.flags = args.flags, .stack = args.stack + args.stack_size,
		.parent_tid = args.parent_tid, .child_tid = args.child_tid, .tls = args.tls,
		.exit_signal = (int)args.exit_signal,
	};
	if ((r.flags & CLONE_SETTLS) && r.tls >= USER_END)
		return -EPERM;
	return clone(&r);
}

long sys_set_tid_address(u64 address)
{
	current->clear_child_tid = address;
	return current->tid;
}
