/*
 * Taking signals: on the way back to user mode, or out of an interrupted system
 * call. Default actions happen here: ending the process, stopping it.
 *
 * Lock order: tree lock, siglock, sighand->lock. Queue entries are freed after
 * the siglock is let go.
 */
#include <asm/errno.h>
#include <asm/unistd.h>

#include "arch/x86_64/cpu.h"
#include "kernel/printk.h"
#include "kernel/ptimer.h"
#include "kernel/signal_internal.h"
#include "kernel/string.h"
#include "kernel/syscall.h"

/* --- taking -------------------------------------------------------------------- */

static int next_signal(u64 set)
{
	if (!set)
		return 0;
	if (set & SIG_SYNCHRONOUS)
		set &= SIG_SYNCHRONOUS;
	return __builtin_ctzl(set) + 1;
}

/* Take `sig` off a list: fills info. Entries without an owner go to garbage. */
static void collect(struct sig_pending *pending, int sig, siginfo_t *info, struct list *garbage)
{
	struct sigqueue *first = NULL;
	bool more = false;

	list_for_each(q, &pending->queue, struct sigqueue, link) {
		if (q->info.si_signo != sig)
			continue;
		if (first) {
			more = true;
			break;
		}
		first = q;
	}
	if (!more)
		pending->set &= ~SIGMASK(sig);
	if (!first) {
		siginfo_kernel(info, sig);
		return;
	}
	list_del(&first->link);
	*info = first->info;
	if (first->charged)
		first->charged->nr_queued--;
	if (first->timer)
		posix_timer_taken(first->timer, info);
	else
		list_add_tail(garbage, &first->link);
}

int signal_dequeue(u64 wanted, siginfo_t *info, struct list *garbage)
{
	struct task *t = current;
	struct process *p = t->process;
	int sig = next_signal(t->sig_pending.set & wanted);

	lock_assert_held(&p->siglock);
	if (sig) {
		collect(&t->sig_pending, sig, info, garbage);
	} else {
		sig = next_signal(p->shared.set & wanted);
		if (sig)
			collect(&p->shared, sig, info, garbage);
	}
	if (sig == SIGALRM)
		real_timer_taken(p);
	recalc_wanted(t);
	return sig;
}

void signal_notify_stop(struct process *p, int code)
{
	struct sigqueue *entry = sigqueue_alloc();
	struct list garbage = LIST_INIT(garbage);
	struct usage u;
	siginfo_t info;

	process_usage(p, &u);
	siginfo_kernel(&info, SIGCHLD);
	info.si_code = code;
	info.si_pid = p->pid;
	info.si_uid = p->cred.uid;
	info.si_status = code == CLD_CONTINUED ? SIGCONT : (int)p->group_code;
	info.si_utime = (long)(u.user_ns / 10000000);
	info.si_stime = (long)(u.system_ns / 10000000);

	u64 flags = tree_lock();
	struct process *parent = p->parent;

	if (parent) {
		struct sigaction *act = &parent->sighand->action[SIGCHLD - 1];

		if (act->sa_handler != SIG_IGN && !(act->sa_flags & SA_NOCLDSTOP))
			signal_send_with(parent, NULL, SIGCHLD, &info, &entry, &garbage);
		child_event(parent);
	}
	tree_unlock(flags);
	sigqueue_free(entry);
	sigqueue_free_list(&garbage);
}

/*
 * Take part in the group stop that is on: with the siglock held on entry, not on
 * return. The last one to stop tells the parent. Ends with SIGCONT or SIGKILL.
 */
static void stop_here(struct process *p, u64 flags)
{
	struct task *t = current;
	bool last;

	t->stopped = true;
	p->nr_stopped++;
	last = p->nr_stopped == p->nr_threads && !p->stopped;
	if (last) {
		p->stopped = true;
		p->stop_report = true;
		p->cont_report = false;
		p->group_code = (u32)p->stop_sig;
	}
	spin_unlock_irqrestore(&p->siglock, flags);
	if (last)
		signal_notify_stop(p, CLD_STOPPED);
	wait_event(&p->stop_wait, !READ_ONCE(p->stop_sig) || fatal_signal_pending(t));

	flags = spin_lock_irqsave(&p->siglock);
	t->stopped = false;
	if (p->nr_stopped)
		p->nr_stopped--;
	recalc_wanted(t);
	spin_unlock_irqrestore(&p->siglock, flags);
}

/* A stop signal's default action begins: all others are to join. */
static void start_group_stop(struct process *p, int sig)
{
	p->stop_sig = sig;
	p->stopped = false;
	list_for_each(t, &p->threads, struct task, thread_link)
		if (t != current && !t->stopped)
			wake_for_signal(t, false);
}

/*
 * True if the signal's default action goes ahead: POSIX spares orphaned groups from the
 * terminal's stops.
 */
static bool may_stop(struct process *p, int sig)
{
	bool orphaned;
	u64 flags;

	if (sig == SIGSTOP)
		return true;
	flags = tree_lock();
	orphaned = pgrp_orphaned(p->pgid, NULL);
	tree_unlock(flags);
	return !orphaned;
}

/*
 * The next signal that has a handler: its number, with *action and *info; or 0. Default actions
 * are carried out on the way; may not return.
 */
static int take(struct sigaction *action, siginfo_t *info)
{
	struct task *t = current;
	struct process *p = t->process;

	for (;;) {
		struct list garbage = LIST_INIT(garbage);
		u64 flags = spin_lock_irqsave(&p->siglock);
		int sig;

		if (p->group_exit || (p->group_exec && p->group_exec != t)) {
			u32 code = p->group_exit ? p->group_code : 0;

			spin_unlock_irqrestore(&p->siglock, flags);
			thread_exit(code);
		}
		if (p->cont_notify) {
			p->cont_notify = false;
			spin_unlock_irqrestore(&p->siglock, flags);
			signal_notify_stop(p, CLD_CONTINUED);
			continue;
		}
		if (p->stop_sig) {
			stop_here(p, flags);
			continue;
		}
		sig = signal_dequeue(~t->sig_blocked, info, &garbage);
		if (sig) {
			spin_lock_nested(&p->sighand->lock);
			*action = p->sighand->action[sig - 1];
			if ((action->sa_flags & SA_RESETHAND) && action->sa_handler != SIG_IGN)
				p->sighand->action[sig - 1].sa_handler = SIG_DFL;
			spin_unlock(&p->sighand->lock);
		}
		bool unkillable = p->unkillable;

		spin_unlock_irqrestore(&p->siglock, flags);
		sigqueue_free_list(&garbage);

		if (!sig)
			return 0;
		if (action->sa_handler == SIG_IGN)
			continue;
		if (action->sa_handler != SIG_DFL)
			return sig;
		if ((SIGMASK(sig) & SIG_DEFAULT_IGNORE) || unkillable)
			continue;
		if (SIGMASK(sig) & SIG_STOPPING) {
			if (may_stop(p, sig)) {
				flags = spin_lock_irqsave(&p->siglock);
				if (!p->group_exit)
					start_group_stop(p, sig);
				spin_unlock_irqrestore(&p->siglock, flags);
			}
			continue;
		}
		process_exit((u32)sig);
	}
}

/* Set up the frame for a handler and block what it wants blocked. */
static void call_handler(struct regs *regs, int sig, struct sigaction *action, siginfo_t *info)
{
	struct task *t = current;
	u64 saved = t->sig_restore_mask ? t->sig_saved_mask : t->sig_blocked;
	u64 blocked = t->sig_blocked | action->sa_mask;

	if (sigframe_setup(regs, sig, action, info, saved)) {
		if (sig == SIGSEGV) {
			u64 flags = spin_lock_irqsave(&t->process->siglock);

			t->process->sighand->action[SIGSEGV - 1].sa_handler = SIG_DFL;
			spin_unlock_irqrestore(&t->process->siglock, flags);
		}
		force_signal(SIGSEGV);
		return;
	}
	t->sig_restore_mask = false;
	if (!(action->sa_flags & SA_NODEFER))
		blocked |= SIGMASK(sig);
	signal_set_blocked(blocked);
}

void signal_deliver(struct regs *regs)
{
	struct sigaction action;
	siginfo_t info;
	int sig;

	/* A frame that does not fit makes another signal of it: again, but a handler ends it. */
	while (signal_pending(current)) {
		sig = take(&action, &info);
		if (!sig)
			break;
		call_handler(regs, sig, &action, &info);
	}
	signal_restore_mask(false);
}

void signal_deliver_syscall(struct regs *regs)
{
	long ret = -(long)regs->rax;
	struct sigaction action;
	siginfo_t info;
	int sig = take(&action, &info);
	bool again = true;

	if (sig && (ret == ERESTARTNOHAND || ret == ERESTART_RESTARTBLOCK ||
		    (ret == ERESTARTSYS && !(action.sa_flags & SA_RESTART))))
		again = false;
	if (again) {
		/* Back onto the two bytes of the SYSCALL instruction. */
		regs->rip -= 2;
		regs->rax = ret == ERESTART_RESTARTBLOCK ? __NR_restart_syscall : regs->vector;
	} else {
		regs->rax = (u64)-EINTR;
	}
	regs->vector = (u64)-1;
	if (sig)
		call_handler(regs, sig, &action, &info);
	else
		signal_restore_mask(false);
}

/* --- masks ------------------------------------------------------------------------ */

/* What this task blocks from now on, somebody else may have to take. */
static void hand_over(struct task *t, u64 newly_blocked)
{
	struct process *p = t->process;
	u64 set = p->shared.set & newly_blocked;

	if (!set || p->nr_threads == 1)
		return;
	list_for_each(other, &p->threads, struct task, thread_link)
		if (other != t && !other->exiting && (set & ~other->sig_blocked))
			wake_for_signal(other, false);
}

void signal_set_blocked(u64 mask)
{
	struct task *t = current;
	u64 flags = spin_lock_irqsave(&t->process->siglock);

	mask &= ~SIG_UNBLOCKABLE;
	hand_over(t, mask & ~t->sig_blocked);
	t->sig_blocked = mask;
	recalc_wanted(t);
	spin_unlock_irqrestore(&t->process->siglock, flags);
}

void signal_restore_mask(bool interrupted)
{
	struct task *t = current;

	if (interrupted || !t->sig_restore_mask)
		return;
	t->sig_restore_mask = false;
	signal_set_blocked(t->sig_saved_mask);
}

/* --- life ------------------------------------------------------------------------- */

void signal_kill_others(struct process *p)
{
	lock_assert_held(&p->siglock);
	list_for_each(t, &p->threads, struct task, thread_link) {
		if (t == current)
			continue;
		t->sig_pending.set |= SIGMASK(SIGKILL);
		wake_for_signal(t, true);
	}
	p->stop_sig = 0;
	wake_up_all(&p->stop_wait);
}

bool signal_start_group_exit(struct process *p, u32 code)
{
	u64 flags = spin_lock_irqsave(&p->siglock);
	bool first = !p->group_exit && !p->group_exec;

	if (first)
		start_group_exit(p, code);
	spin_unlock_irqrestore(&p->siglock, flags);
	return first;
}

/* Handlers cannot outlive the program they are in. What is ignored stays so. */
void signal_exec(struct task *t)
{
	struct sighand *s = t->process->sighand;
	u64 flags = spin_lock_irqsave(&t->process->siglock);

	spin_lock_nested(&s->lock);
	for (int i = 0; i < NSIGNALS; i++) {
		if (s->action[i].sa_handler != SIG_IGN)
			s->action[i].sa_handler = SIG_DFL;
		s->action[i].sa_flags = 0;
		s->action[i].sa_mask = 0;
		s->action[i].sa_restorer = NULL;
	}
	spin_unlock(&s->lock);
	spin_unlock_irqrestore(&t->process->siglock, flags);
	t->sas_sp = 0;
	t->sas_size = 0;
	t->sas_flags = SS_DISABLE;
}

void signal_flush_ignored(struct process *p, int sig)
{
	struct list garbage = LIST_INIT(garbage);
	u64 flags = spin_lock_irqsave(&p->siglock);

	if (signal_is_ignored(p, sig))
		flush_all(p, SIGMASK(sig), &garbage);
	spin_unlock_irqrestore(&p->siglock, flags);
	sigqueue_free_list(&garbage);
}

/* Called with the siglock held by exit, after t->exiting is set; garbage is freed by the caller. */
void signal_thread_leaves(struct task *t, struct list *garbage)
{
	flush_pending(&t->sig_pending, ~0UL, garbage);
	hand_over(t, ~t->sig_blocked);
}

void signal_process_free(struct process *p)
{
	struct list garbage = LIST_INIT(garbage);
	u64 flags = spin_lock_irqsave(&p->siglock);

	flush_pending(&p->shared, ~0UL, &garbage);
	spin_unlock_irqrestore(&p->siglock, flags);
	sigqueue_free_list(&garbage);
}
