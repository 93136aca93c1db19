/*
 * The end of threads and processes, and waiting for it.
 *
 * A thread gives back what it has (thread_exit), then leaves the tables under the tree lock.
 * Who empties the process turns it into a zombie: its children go to the nearest subreaper or
 * to init, its parent gets a signal, and wait4() finds the exit code and the times. Who waits
 * takes the process out of the tables (process_reap).
 *
 * Memory is allocated and freed outside of the locks: the queue entry for the
 * parent's signal is brought along, and garbage is collected on a list.
 */
#include <asm/errno.h>
#include <linux/wait.h>

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/power.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/file.h"
#include "kernel/printk.h"
#include "kernel/ptimer.h"
#include "kernel/signal_internal.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "kernel/time.h"
#include "mm/mempolicy.h"
#include "mm/mm.h"

/* What exit_notify() collects under the lock for afterwards. */
struct leftovers {
	struct list entries;   /* queue entries, prepared */
	struct list garbage;   /* queue entries to free */
	struct list reaped;    /* struct process, sibling: nobody waits for these */
};

static struct sigqueue *take_entry(struct leftovers *l)
{
	struct sigqueue *q = NULL;

	if (!list_empty(&l->entries)) {
		q = list_first(&l->entries, struct sigqueue, link);
		list_del(&q->link);
	}
	return q;
}

/* --- the family, tree lock held ------------------------------------------------------ */

/* Out of all tables. The reference of being alive is dropped by the caller, after the lock. */
static void process_reap(struct process *p)
{
	p->state = PROCESS_DEAD;
	list_del(&p->sibling);
	process_set_pgrp(p, 0);
	process_set_sid(p, 0);
	pid_set_process(p->pid, NULL);
	pid_unuse(p->pid);
	WRITE_ONCE(p->parent, NULL);
}

static void process_gone(struct process *p)
{
	signal_process_free(p);
	process_put(p);
}

static void child_info(struct process *p, siginfo_t *info)
{
	u32 code = p->exit_code;

	siginfo_kernel(info, SIGCHLD);
	info->si_pid = p->pid;
	info->si_uid = p->cred.uid;
	info->si_utime = (long)(p->gone.user_ns / NS_PER_TICK);
	info->si_stime = (long)(p->gone.system_ns / NS_PER_TICK);
	if (code & 0x7f) {
		info->si_code = code & 0x80 ? CLD_DUMPED : CLD_KILLED;
		info->si_status = (int)(code & 0x7f);
	} else {
		info->si_code = CLD_EXITED;
		info->si_status = (int)(code >> 8);
	}
}

/* A zombie tells its parent, whose child_event() is to follow. True if nobody will wait for it, and it can go at once. */
static bool tell_parent(struct process *p, struct leftovers *l)
{
	struct process *parent = p->parent;
	struct sigaction *act = &parent->sighand->action[SIGCHLD - 1];
	int sig = p->exit_signal;
	struct sigqueue *entry;
	bool alone = false;
	siginfo_t info;

	if (sig == SIGCHLD) {
		alone = act->sa_handler == SIG_IGN || (act->sa_flags & SA_NOCLDWAIT);
		if (act->sa_handler == SIG_IGN)
			sig = 0;
	}
	if (sig) {
		child_info(p, &info);
		info.si_signo = sig;
		entry = take_entry(l);
		signal_send_with(parent, NULL, sig, &info, &entry, &l->garbage);
		if (entry)
			list_add(&l->entries, &entry->link);
	}
	return alone;
}

static void is_stopped(struct process *p, void *arg)
{
	if (p->stopped)
		*(bool *)arg = true;
}

static void hang_up(struct process *p, void *arg)
{
	struct leftovers *l = arg;
	struct sigqueue *none = NULL;
	siginfo_t info;

	siginfo_kernel(&info, SIGHUP);
	signal_send_with(p, NULL, SIGHUP, &info, &none, &l->garbage);
	siginfo_kernel(&info, SIGCONT);
	signal_send_with(p, NULL, SIGCONT, &info, &none, &l->garbage);
}

/*
 * POSIX: if p's going (or its parent's) leaves a process group without anybody to
 * control it, and a member is stopped, all get SIGHUP and SIGCONT.
 */
static void check_orphaned(struct process *p, struct process *parent, struct leftovers *l)
{
	bool stopped = false;

	if (!parent || parent->pgid == p->pgid || parent->sid != p->sid)
		return;
	if (!pgrp_orphaned(p->pgid, p))
		return;
	pgrp_each(p->pgid, is_stopped, &stopped);
	if (stopped)
		pgrp_each(p->pgid, hang_up, l);
}

/* Who becomes the parent of p's children. */
static struct process *reaper_of(struct process *p)
{
	for (struct process *up = p->parent; up && up != init_process; up = up->parent)
		if (up->subreaper && up->state == PROCESS_ALIVE && !up->group_exit)
			return up;
	return init_process;
}

static void give_children_away(struct process *p, struct leftovers *l)
{
	struct process *reaper = reaper_of(p);

	list_for_each_safe(child, &p->children, struct process, sibling) {
		list_del(&child->sibling);
		WRITE_ONCE(child->parent, reaper);
		list_add_tail(&reaper->children, &child->sibling);
		if (child->leader && child->leader->pdeath_signal) {
			struct sigqueue *none = NULL;
			siginfo_t info;

			siginfo_kernel(&info, child->leader->pdeath_signal);
			signal_send_with(child, NULL, info.si_signo, &info, &none, &l->garbage);
		}
		if (child->state == PROCESS_ZOMBIE) {
			child->exit_signal = SIGCHLD;
			if (tell_parent(child, l)) {
				process_reap(child);
				list_add(&l->reaped, &child->sibling);
			}
			child_event(reaper);
		} else {
			check_orphaned(child, p, l);
		}
	}
}

/* --- leaving ------------------------------------------------------------------------------ */

/* Takes no more signals; true if this is the last thread to say so. */
static bool begin_exit(struct task *t, u32 code, struct list *garbage)
{
	struct process *p = t->process;
	u64 flags = spin_lock_irqsave(&p->siglock);
	bool last;

	t->exiting = true;
	signal_thread_leaves(t, garbage);
	last = --p->live == 0;
	if (last)
		p->exit_code = p->group_exit ? p->group_code : code;
	spin_unlock_irqrestore(&p->siglock, flags);
	return last;
}

static void release_resources(struct task *t, bool last)
{
	struct process *p = t->process;
	struct mm *mm = t->mm;

	if (last) {
		tty_leader_exit(p);
		timers_exit(p);
		sem_exit(p);
	}
	if (mm) {
		u64 rss = mm_rss_peak(mm), flags;

		memory_release();
		flags = spin_lock_irqsave(&p->siglock);
		p->gone.max_rss = MAX(p->gone.max_rss, rss);
		spin_unlock_irqrestore(&p->siglock, flags);
		mm_detach();
	}
	if (t->files)
		files_put(t->files);
	t->files = NULL;
	if (t->fs)
		fs_put(t->fs);
	t->fs = NULL;
	mempolicy_put(t->mempolicy);
	t->mempolicy = NULL;
}

/* Out of the process's list; true if it is empty now. Tree lock held. */
static bool unlink_thread(struct task *t)
{
	struct process *p = t->process;
	bool all_stopped = false;
	struct usage u;

	spin_lock(&p->siglock);
	usage_of_task(t, &u);
	usage_add(&p->gone, &u);
	list_del(&t->thread_link);
	p->nr_threads--;
	if (p->leader == t)
		p->leader = NULL;
	/* A group stop that waited for this one only. */
	if (p->stop_sig && !p->stopped && p->nr_threads && p->nr_stopped == p->nr_threads) {
		p->stopped = true;
		p->stop_report = true;
		p->group_code = (u32)p->stop_sig;
		all_stopped = true;
	}
	spin_unlock(&p->siglock);
	if (all_stopped && p->parent)
		child_event(p->parent);
	if (p->group_exec)
		wake_up_all(&p->exec_wait);
	pid_set_task(t->tid, NULL);
	pid_unuse(t->tid);
	return p->nr_threads == 0;
}

static void exit_notify(struct task *t)
{
	struct process *p = t->process, *parent = NULL;
	struct leftovers l;
	u64 flags;

	list_init(&l.entries);
	list_init(&l.garbage);
	list_init(&l.reaped);
	/* One for the parent, some for a reaper that is told of zombies. */
	for (int i = 0; i < (list_empty(&p->children) ? 1 : 4); i++) {
		struct sigqueue *q = sigqueue_alloc();

		if (q)
			list_add(&l.entries, &q->link);
	}

	rcu_read_lock(); /* for the parent, once the lock is let go of */
	flags = tree_lock();
	if (unlink_thread(t)) {
		parent = p->parent;
		memcpy(p->comm, t->comm, sizeof(p->comm));
		give_children_away(p, &l);
		check_orphaned(p, p->parent, &l);
		p->state = PROCESS_ZOMBIE;
		if (tell_parent(p, &l)) {
			process_reap(p);
			list_add(&l.reaped, &p->sibling);
		}
	}
	tree_unlock(flags);
	if (parent)
		child_event(parent);
	rcu_read_unlock();

	sigqueue_free_list(&l.entries);
	sigqueue_free_list(&l.garbage);
	list_for_each_safe(gone, &l.reaped, struct process, sibling) {
		list_del(&gone->sibling);
		process_gone(gone);
	}
}

void thread_exit(u32 code)
{
	struct task *t = current;
	struct process *p = t->process;
	struct list garbage = LIST_INIT(garbage);
	bool last = begin_exit(t, code, &garbage);

	sigqueue_free_list(&garbage);
	t->exit_code = code;
	if (last && p == init_process) {
		u32 how = p->exit_code;

		machine_exit_status(how & 0x7f ? 128 + (how & 0x7f) : how >> 8);
	}
	release_resources(t, last);
	exit_notify(t);
	task_put(t); /* the process's reference; the scheduler still has its own */
	set_current_state(TASK_DEAD);
	schedule();
	panic("a dead task runs");
}

void process_exit(u32 code)
{
	struct process *p = current->process;

	if (!signal_start_group_exit(p, code))
		code = p->group_exit ? p->group_code : code;
	thread_exit(code);
}

long sys_exit(u64 status)
{
	thread_exit((u32)(status & 0xff) << 8);
}

long sys_exit_group(u64 status)
{
	process_exit((u32)(status & 0xff) << 8);
}

/* --- waiting ------------------------------------------------------------------------------- */

struct wait_request {
	int kind;      /* P_ALL, P_PID, P_PGID */
	int id;
	u32 options;   /* W* */
	/* Result: */
	int pid;       /* 0: nothing to report yet */
	u32 uid;
	u32 status;    /* as wait4() gives it */
	int code;      /* CLD_* */
	struct usage usage;
	struct process *reaped;
};

static bool is_meant(const struct wait_request *r, const struct process *p)
{
	bool is_clone = p->exit_signal != SIGCHLD;

	if (r->kind == P_PID && p->pid != r->id)
		return false;
	if (r->kind == P_PGID && p->pgid != r->id)
		return false;
	return (r->options & __WALL) || is_clone == !!(r->options & __WCLONE);
}

static void report(struct wait_request *r, struct process *p, u32 status, int code)
{
	r->pid = p->pid;
	r->uid = p->cred.uid;
	r->status = status;
	r->code = code;
}

static void take_zombie(struct wait_request *r, struct process *p)
{
	struct process *self = current->process;
	u32 code = p->exit_code;

	report(r, p, code, code & 0x7f ? CLD_KILLED : CLD_EXITED);
	r->usage = p->gone;
	usage_add(&r->usage, &p->reaped);
	if (r->options & WNOWAIT)
		return;
	spin_lock(&self->siglock);
	usage_add(&self->reaped, &r->usage);
	spin_unlock(&self->siglock);
	process_reap(p);
	r->reaped = p;
}

/*
 * Look at all children once: true if the wait is over (r->pid, or r->pid = 0 and no child
 * that is meant).
 */
static bool look(struct wait_request *r, bool *any)
{
	struct process *self = current->process;
	u64 flags = tree_lock();

	*any = false;
	r->pid = 0;
	list_for_each_safe(p, &self->children, struct process, sibling) {
		if (!is_meant(r, p))
			continue;
		*any = true;
		if (p->state == PROCESS_ZOMBIE) {
			if (!(r->options & WEXITED))
				continue;
			take_zombie(r, p);
			break;
		}
		if ((r->options & WSTOPPED) && p->stop_report) {
			if (!(r->options & WNOWAIT))
				p->stop_report = false;
			report(r, p, p->group_code << 8 | 0x7f, CLD_STOPPED);
			break;
		}
		if ((r->options & WCONTINUED) && p->cont_report) {
			if (!(r->options & WNOWAIT))
				p->cont_report = false;
			report(r, p, 0xffff, CLD_CONTINUED);
			break;
		}
	}
	tree_unlock(flags);
	return r->pid || !*any;
}

/* Has anything been told of a child since *seen? That is read before each look, so nothing that is told is missed. */
static bool has_news(struct process *self, u32 *seen)
{
	u32 now = __atomic_load_n(&self->child_events, __ATOMIC_SEQ_CST), old = *seen;

	*seen = now;
	return now != old;
}

/* 1: reported; 0: WNOHANG and nothing; -ECHILD, -ERESTARTSYS. */
static long wait_for(struct wait_request *r)
{
	struct process *self = current->process;
	u32 seen = __atomic_load_n(&self->child_events, __ATOMIC_SEQ_CST);
	bool any;
	int err = 0;

	if (!look(r, &any)) {
		if (r->options & WNOHANG)
			return 0;
		err = wait_event_interruptible(&self->child_wait, has_news(self, &seen) && look(r, &any));
	}
	if (err && look(r, &any)) /* SIGCHLD is sent under the tree lock: what it tells of is there by now */
		err = 0;
	if (r->reaped)
		process_gone(r->reaped);
	if (err)
		return -ERESTARTSYS;
	return r->pid ? 1 : -ECHILD;
}

long sys_wait4(u64 pid_, u64 ustatus, u64 options, u64 rusage)
{
	struct wait_request r = { .options = (u32)options | WEXITED };
	int pid = (int)pid_;
	long ret;

	if ((u32)options & ~(u32)(WNOHANG | WUNTRACED | WCONTINUED | __WNOTHREAD | __WCLONE |
				  __WALL))
		return -EINVAL;
	if (pid == (int)0x80000000)
		return -ESRCH;
	if (pid == -1) {
		r.kind = P_ALL;
	} else if (pid > 0) {
		r.kind = P_PID;
		r.id = pid;
	} else {
		r.kind = P_PGID;
		r.id = pid ? -pid : current->process->pgid;
	}
	ret = wait_for(&r);
	if (ret <= 0)
		return ret;
	/* As on Linux the child is gone even if the answer cannot be told. */
	if (ustatus && put_user_u32(ustatus, r.status))
		return -EFAULT;
	if (rusage && usage_to_user(&r.usage, rusage))
		return -EFAULT;
	return r.pid;
}

long sys_waitid(u64 which, u64 id, u64 uinfo, u64 options, u64 rusage)
{
	struct wait_request r = { .kind = (int)which, .id = (int)id, .options = (u32)options };
	siginfo_t info;
	long ret;

	if ((u32)options & ~(u32)(WNOHANG | WNOWAIT | WEXITED | WSTOPPED | WCONTINUED |
				  __WNOTHREAD | __WCLONE | __WALL))
		return -EINVAL;
	if (!(options & (WEXITED | WSTOPPED | WCONTINUED)))
		return -EINVAL;
	if (which > P_PGID)
		return which == P_PIDFD && r.id >= 0 ? -EBADF : -EINVAL;
	if ((which == P_PID && r.id <= 0) || (which == P_PGID && r.id < 0))
		return -EINVAL;
	if (which == P_PGID && !r.id)
		r.id = current->process->pgid;
	ret = wait_for(&r);
	if (ret < 0)
		return ret;
	if (ret && rusage && usage_to_user(&r.usage, rusage))
		return -EFAULT;
	if (uinfo) {
		memset(&info, 0, sizeof(info));
		if (ret) {
			info.si_signo = SIGCHLD;
			info.si_code = r.code;
			info.si_pid = r.pid;
			info.si_uid = r.uid;
			info.si_status = r.code == CLD_EXITED	 ? (int)(r.status >> 8 & 0xff) :
					 r.code == CLD_KILLED	 ? (int)(r.status & 0x7f) :
					 r.code == CLD_CONTINUED ? SIGCONT :
								   (int)(r.status >> 8 & 0xff);
		}
		/* Linux writes these fields only: 12 bytes, and 12 more behind the padding. */
		if (copy_to_user(uinfo, &info, 12) ||
		    copy_to_user(uinfo + 16, (char *)&info + 16, 12))
			return -EFAULT;
	}
	return 0;
}
