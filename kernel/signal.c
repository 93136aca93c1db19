/*
 * Signals: sending, queueing, and taking them on the way back to user mode.
 * The system calls are in sigcalls.c, the frames in sigframe.c; the rules in signal.h.
 *
 * Lock order: tree lock, siglock, sighand->lock, wait queues. Queue entries are
 * allocated before and freed after the siglock, as the allocator ranks outside of it.
 */
#include "kernel/signal_internal.h"

#include <asm/errno.h>
#include <asm/unistd.h>

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/smp.h"
#include "kernel/param.h"
#include "kernel/printk.h"
#include "kernel/ptimer.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "mm/slab.h"

DEFINE_LOCK_CLASS(sighand_class, "sighand", RANK_SIGNAL);

PARAM_BOOL(log_faults, "log.faults", PARAM_RUNTIME, false);

static struct slab_cache *sigqueue_cache;

/* --- memory ------------------------------------------------------------------ */

void signal_init(void)
{
	sigqueue_cache = slab_create("sigqueue", sizeof(struct sigqueue), 8);
	ASSERT(sigqueue_cache);
}

struct sighand *sighand_alloc(void)
{
	struct sighand *s = kmalloc(sizeof(*s));

	if (s) {
		memset(s, 0, sizeof(*s));
		s->refs = 1;
		spin_init(&s->lock, &sighand_class);
	}
	return s;
}

void sighand_put(struct sighand *s)
{
	if (atomic_sub(&s->refs, 1) == 0)
		kfree(s);
}

struct sigqueue *sigqueue_alloc(void)
{
	struct sigqueue *q = slab_zalloc(sigqueue_cache);

	if (q)
		list_init(&q->link);
	return q;
}

void sigqueue_free(struct sigqueue *q)
{
	if (q)
		slab_free(sigqueue_cache, q);
}

void sigqueue_free_list(struct list *entries)
{
	list_for_each_safe(q, entries, struct sigqueue, link) {
		list_del(&q->link);
		sigqueue_free(q);
	}
}

void siginfo_kernel(siginfo_t *info, int sig)
{
	memset(info, 0, sizeof(*info));
	info->si_signo = sig;
	info->si_code = SI_KERNEL;
}

void siginfo_user(siginfo_t *info, int sig, int code)
{
	memset(info, 0, sizeof(*info));
	info->si_signo = sig;
	info->si_code = code;
	info->si_pid = current->process->pid;
	info->si_uid = current->process->cred.uid;
}

/* --- small questions; siglock held -------------------------------------------- */

static __sighandler_t handler_of(struct process *p, int sig)
{
	return READ_ONCE(p->sighand->action[sig - 1].sa_handler);
}

bool signal_is_ignored(struct process *p, int sig)
{
	__sighandler_t h = handler_of(p, sig);

	if (h == SIG_DFL && p->unkillable)
		return true;
	return h == SIG_IGN || (h == SIG_DFL && (SIGMASK(sig) & SIG_DEFAULT_IGNORE));
}

static bool is_fatal(struct process *p, int sig)
{
	return handler_of(p, sig) == SIG_DFL &&
	       !(SIGMASK(sig) & (SIG_DEFAULT_IGNORE | SIG_STOPPING));
}

bool signal_pending(const struct task *t)
{
	return READ_ONCE(t->sig_wanted);
}

bool fatal_signal_pending(const struct task *t)
{
	return READ_ONCE(t->sig_wanted) && (READ_ONCE(t->sig_pending.set) & SIGMASK(SIGKILL));
}

void wake_for_signal(struct task *t, bool fatal)
{
	WRITE_ONCE(t->sig_wanted, true);
	task_notify(t, fatal ? TASK_INTERRUPTIBLE | TASK_KILLABLE : TASK_INTERRUPTIBLE);
}

void recalc_wanted(struct task *t)
{
	struct process *p = t->process;
	bool wanted = ((t->sig_pending.set | p->shared.set) & ~t->sig_blocked) ||
		      (p->stop_sig && !t->stopped) || p->cont_notify || p->group_exit ||
		      (p->group_exec && p->group_exec != t);

	WRITE_ONCE(t->sig_wanted, wanted);
	if (t != current)
		return;
	if (wanted)
		task_notify(t, 0);
	else
		task_unnotify();
}

/* Throw away pending signals; their entries go to `garbage`. */
void flush_pending(struct sig_pending *pending, u64 mask, struct list *garbage)
{
	if (!(pending->set & mask))
		return;
	pending->set &= ~mask;
	list_for_each_safe(q, &pending->queue, struct sigqueue, link) {
		if (!(SIGMASK(q->info.si_signo) & mask))
			continue;
		list_del(&q->link);
		if (q->charged)
			q->charged->nr_queued--;
		if (!q->timer)
			list_add_tail(garbage, &q->link);
	}
}

void flush_all(struct process *p, u64 mask, struct list *garbage)
{
	flush_pending(&p->shared, mask, garbage);
	list_for_each(t, &p->threads, struct task, thread_link)
		flush_pending(&t->sig_pending, mask, garbage);
}

/* --- sending; siglock held ------------------------------------------------------ */

/* From now on every thread of p is on its way out. */
void start_group_exit(struct process *p, u32 code)
{
	p->group_exit = true;
	p->group_code = code;
	p->stop_sig = 0;
	list_for_each(t, &p->threads, struct task, thread_link) {
		t->sig_pending.set |= SIGMASK(SIGKILL);
		wake_for_signal(t, true);
	}
	wake_up_all(&p->stop_wait);
}

static bool wants(struct task *t, int sig)
{
	if (t->exiting || (t->sig_blocked & SIGMASK(sig)))
		return false;
	return sig == SIGKILL || !t->stopped;
}

/* Somebody has to take the signal that was just made pending: choose and wake. */
static void wake_taker(struct process *p, struct task *t, int sig)
{
	struct task *taker = NULL;

	if (t) {
		taker = wants(t, sig) ? t : NULL;
	} else if (p->leader && wants(p->leader, sig)) {
		taker = p->leader;
	} else {
		list_for_each(other, &p->threads, struct task, thread_link) {
			if (!wants(other, sig))
				continue;
			if (!taker || (taker->sig_wanted && !other->sig_wanted))
				taker = other;
		}
	}
	if (!taker)
		return;
	if (is_fatal(p, sig) && !(taker->sig_awaited & SIGMASK(sig)) && !p->group_exit) {
		start_group_exit(p, (u32)sig);
		return;
	}
	wake_for_signal(taker, sig == SIGKILL);
}

/* Stop and continue undo each other when sent. */
static void stop_and_continue(struct process *p, int sig, struct list *garbage)
{
	if (SIGMASK(sig) & SIG_STOPPING) {
		flush_all(p, SIGMASK(SIGCONT), garbage);
	} else if (sig == SIGCONT) {
		flush_all(p, SIG_STOPPING, garbage);
		if (p->stopped) {
			p->stopped = false;
			p->stop_report = false;
			p->cont_report = true;
			p->cont_notify = true; /* one of the threads tells the parent */
			list_for_each(t, &p->threads, struct task, thread_link)
				WRITE_ONCE(t->sig_wanted, true);
		}
		p->stop_sig = 0;
		wake_up_all(&p->stop_wait);
	}
}

/* Without a queue entry the signal is pending as one bit that reads as sent by the kernel. */
int signal_send_locked(struct process *p, struct task *t, int sig, const siginfo_t *info,
		       struct sigqueue **entry, struct list *garbage)
{
	struct sig_pending *pending = t ? &t->sig_pending : &p->shared;
	struct task *judge = t ? t : p->leader;
	bool held = judge && ((judge->sig_blocked | judge->sig_awaited) & SIGMASK(sig));

	lock_assert_held(&p->siglock);
	if (p->group_exit || list_empty(&p->threads))
		return 0;
	stop_and_continue(p, sig, garbage);
	if (signal_is_ignored(p, sig) && (!held || (p->unkillable && sig == SIGKILL)))
		return 0;
	if (sig < SIG_FIRST_RT && (pending->set & SIGMASK(sig)))
		return 0;
	if (info->si_code != SI_KERNEL && sig != SIGKILL) {
		bool room = p->nr_queued < rlimit_of(p, RLIMIT_SIGPENDING);

		if (*entry && (room || (sig < SIG_FIRST_RT && info->si_code >= 0))) {
			struct sigqueue *q = *entry;

			*entry = NULL;
			q->info = *info;
			q->charged = p;
			p->nr_queued++;
			list_add_tail(&pending->queue, &q->link);
		} else if (sig >= SIG_FIRST_RT && info->si_code != SI_USER) {
			return -EAGAIN;
		}
	}
	pending->set |= SIGMASK(sig);
	wake_taker(p, t, sig);
	return 0;
}

int signal_send_with(struct process *p, struct task *t, int sig, const siginfo_t *info,
		     struct sigqueue **entry, struct list *garbage)
{
	u64 flags = spin_lock_irqsave(&p->siglock);
	int ret = signal_send_locked(p, t, sig, info, entry, garbage);

	spin_unlock_irqrestore(&p->siglock, flags);
	return ret;
}

int signal_send(struct process *p, struct task *t, int sig, const siginfo_t *info)
{
	struct sigqueue *entry = info->si_code == SI_KERNEL ? NULL : sigqueue_alloc();
	struct list garbage = LIST_INIT(garbage);
	int ret = signal_send_with(p, t, sig, info, &entry, &garbage);

	sigqueue_free(entry);
	sigqueue_free_list(&garbage);
	return ret;
}

int signal_send_queue(struct process *p, struct task *t, struct sigqueue *q)
{
	struct sig_pending *pending = t ? &t->sig_pending : &p->shared;
	struct task *judge = t ? t : p->leader;
	int sig = q->info.si_signo;

	lock_assert_held(&p->siglock);
	if (p->group_exit || list_empty(&p->threads) || (t && t->exiting))
		return 1;
	if (!list_empty(&q->link))
		return -EBUSY;
	if (signal_is_ignored(p, sig) &&
	    !(judge && ((judge->sig_blocked | judge->sig_awaited) & SIGMASK(sig))))
		return 1;
	list_add_tail(&pending->queue, &q->link);
	pending->set |= SIGMASK(sig);
	wake_taker(p, t, sig);
	return 0;
}

void process_kill(struct process *p, int sig)
{
	siginfo_t info;

	siginfo_kernel(&info, sig);
	signal_send(p, NULL, sig, &info);
}

struct group_signal {
	siginfo_t info;
	struct list entries; /* prepared, one a member */
	struct list garbage;
	int sig, sent, refused;
	bool check;
};

static void send_to_member(struct process *p, void *arg)
{
	struct group_signal *g = arg;
	struct sigqueue *entry = NULL;

	if (g->check && !signal_allowed(p, g->sig)) {
		g->refused++;
		return;
	}
	g->sent++;
	if (!g->sig)
		return;
	if (!list_empty(&g->entries)) {
		entry = list_first(&g->entries, struct sigqueue, link);
		list_del(&entry->link);
	}
	signal_send_with(p, NULL, g->sig, &g->info, &entry, &g->garbage);
	if (entry)
		list_add(&g->entries, &entry->link);
}

static void count_member(struct process *p, void *arg)
{
	(void)p;
	(void)arg;
}

/*
 * The tree lock is held over the whole group, so that a fork is either in the group or sees
 * the signal and starts over.
 */
int signal_group(int pgid, int sig, const siginfo_t *info, bool check)
{
	struct group_signal g = { .info = *info, .sig = sig, .check = check };
	u64 flags;

	list_init(&g.entries);
	list_init(&g.garbage);
	if (info->si_code != SI_KERNEL) {
		flags = tree_lock();
		unsigned n = pgrp_each(pgid, count_member, NULL) + 4;
		tree_unlock(flags);

		while (n--) {
			struct sigqueue *q = sigqueue_alloc();

			if (!q)
				break;
			list_add(&g.entries, &q->link);
		}
	}
	flags = tree_lock();
	pgrp_each(pgid, send_to_member, &g);
	tree_unlock(flags);
	sigqueue_free_list(&g.entries);
	sigqueue_free_list(&g.garbage);
	if (g.sent)
		return 0;
	return g.refused ? -EPERM : -ESRCH;
}

void signal_pgrp(int pgid, int sig)
{
	siginfo_t info;

	siginfo_kernel(&info, sig);
	signal_group(pgid, sig, &info, false);
}

/* --- faults ------------------------------------------------------------------- */

static void force_info(const siginfo_t *info)
{
	struct task *t = current;
	struct process *p = t->process;
	struct sigqueue *q = sigqueue_alloc();
	struct list garbage = LIST_INIT(garbage);
	int sig = info->si_signo;
	u64 flags = spin_lock_irqsave(&p->siglock);
	struct sigaction *act = &p->sighand->action[sig - 1];
	bool blocked = t->sig_blocked & SIGMASK(sig);

	if (blocked || act->sa_handler == SIG_IGN) {
		spin_lock_nested(&p->sighand->lock);
		act->sa_handler = SIG_DFL;
		spin_unlock(&p->sighand->lock);
		t->sig_blocked &= ~SIGMASK(sig);
	}
	if (act->sa_handler == SIG_DFL)
		p->unkillable = false;
	if (q && !(t->sig_pending.set & SIGMASK(sig)) && !p->group_exit) {
		q->info = *info;
		q->charged = p;
		p->nr_queued++;
		list_add_tail(&t->sig_pending.queue, &q->link);
		q = NULL;
	}
	t->sig_pending.set |= SIGMASK(sig);
	wake_for_signal(t, false);
	spin_unlock_irqrestore(&p->siglock, flags);
	sigqueue_free(q);
	sigqueue_free_list(&garbage);
}

void send_fault_signal(int signo, int code, u64 addr, u32 trapno, u64 error)
{
	siginfo_t info;

	siginfo_kernel(&info, signo);
	info.si_code = code;
	info.si_addr = (void *)addr;
	current->fault_addr = addr;
	current->fault_trap = trapno;
	current->fault_error = error;
	if (log_faults && handler_of(current->process, signo) == SIG_DFL)
		printk("%s[%d]: signal %d code %d at %lx ip %lx sp %lx error %lx\n", current->comm,
		       current->tid, signo, code, addr, current->user_regs->rip,
		       current->user_regs->rsp, error);
	force_info(&info);
}

void force_signal(int signo)
{
	siginfo_t info;

	siginfo_kernel(&info, signo);
	force_info(&info);
}

