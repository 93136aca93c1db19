/*
 * The system calls about signals. What they mean: signal(7). Every one takes
 * sigset sizes of 8 bytes only, as Linux does.
 */
#include <asm/errno.h>
#include <linux/time_types.h>

#include "arch/x86_64/clock.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/signal_internal.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "kernel/time.h"

#define SIGSET_SIZE 8

/* Flags that a program may see again; others are dropped, which tells it that they are unknown. */
#define SA_KNOWN                                                                                   \
	(SA_NOCLDSTOP | SA_NOCLDWAIT | SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_NODEFER |         \
	 SA_RESETHAND | 0x00000800 | SA_RESTORER)

#define MIN_ALTSTACK 2048 /* MINSIGSTKSZ */

long sys_rt_sigaction(u64 signum, u64 act, u64 oact, u64 size)
{
	struct process *p = current->process;
	struct sigaction new, old;
	int sig = (int)signum;
	u64 flags;

	if (size != SIGSET_SIZE)
		return -EINVAL;
	if (act && copy_from_user(&new, act, sizeof(new)))
		return -EFAULT;
	if (sig < 1 || sig > NSIGNALS || (act && (SIGMASK(sig) & SIG_UNBLOCKABLE)))
		return -EINVAL;
	flags = spin_lock_irqsave(&p->siglock);
	spin_lock_nested(&p->sighand->lock);
	old = p->sighand->action[sig - 1];
	if (act) {
		new.sa_mask &= ~SIG_UNBLOCKABLE;
		new.sa_flags &= SA_KNOWN;
		p->sighand->action[sig - 1] = new;
	}
	spin_unlock(&p->sighand->lock);
	spin_unlock_irqrestore(&p->siglock, flags);
	if (act && (new.sa_handler == SIG_IGN || new.sa_handler == SIG_DFL))
		signal_flush_ignored(p, sig);
	if (oact && copy_to_user(oact, &old, sizeof(old)))
		return -EFAULT;
	return 0;
}

long sys_rt_sigprocmask(u64 how, u64 set, u64 oset, u64 size)
{
	u64 old = current->sig_blocked, mask;

	if (size != SIGSET_SIZE)
		return -EINVAL;
	if (set) {
		if (get_user_u64(set, &mask))
			return -EFAULT;
		switch ((int)how) {
		case SIG_BLOCK:
			mask |= old;
			break;
		case SIG_UNBLOCK:
			mask = old & ~mask;
			break;
		case SIG_SETMASK:
			break;
		default:
			return -EINVAL;
		}
		signal_set_blocked(mask);
	}
	if (oset && put_user_u64(oset, old))
		return -EFAULT;
	return 0;
}

long sys_rt_sigpending(u64 set, u64 size)
{
	struct task *t = current;
	u64 pending;

	if (size > SIGSET_SIZE)
		return -EINVAL;
	pending = (READ_ONCE(t->sig_pending.set) | READ_ONCE(t->process->shared.set)) &
		  t->sig_blocked;
	return copy_to_user(set, &pending, size) ? -EFAULT : 0;
}

int signal_set_user_mask(vaddr_t umask, size_t size)
{
	u64 mask;

	if (!umask)
		return 0;
	if (size != SIGSET_SIZE)
		return -EINVAL;
	if (get_user_u64(umask, &mask))
		return -EFAULT;
	current->sig_saved_mask = current->sig_blocked;
	current->sig_restore_mask = true;
	signal_set_blocked(mask);
	return 0;
}

/* Sleep until a signal is there to be taken. */
static void wait_for_signal(void)
{
	struct wait_queue nobody;

	wait_init(&nobody);
	wait_event_interruptible(&nobody, false);
}

long sys_rt_sigsuspend(u64 umask, u64 size)
{
	u64 mask;

	if (size != SIGSET_SIZE)
		return -EINVAL;
	if (get_user_u64(umask, &mask))
		return -EFAULT;
	current->sig_saved_mask = current->sig_blocked;
	signal_set_blocked(mask);
	wait_for_signal();
	current->sig_restore_mask = true;
	return -ERESTARTNOHAND;
}

long sys_pause(void)
{
	wait_for_signal();
	return -ERESTARTNOHAND;
}

/* --- sending ------------------------------------------------------------------- */

bool signal_allowed(struct process *p, int sig)
{
	struct cred *mine = &current->process->cred, *its = &p->cred;

	if (mine->euid == 0 || mine->euid == its->suid || mine->euid == its->uid ||
	    mine->uid == its->suid || mine->uid == its->uid)
		return true;
	return sig == SIGCONT && p->sid == current->process->sid;
}

static long send_checked(struct process *p, struct task *t, int sig, const siginfo_t *info)
{
	if (sig < 0 || sig > NSIGNALS)
		return -EINVAL;
	if (!signal_allowed(p, sig))
		return -EPERM;
	return sig ? signal_send(p, t, sig, info) : 0;
}

/* The process that a number means to kill(2): also by one of its threads. */
static struct process *process_by_any(int id)
{
	struct process *p = process_by_pid(id);
	struct task *t;

	if (p)
		return p;
	t = task_by_tid(id);
	if (!t)
		return NULL;
	p = process_get(t->process);
	task_put(t);
	return p;
}

/* kill(-1): everybody but init and the caller. */
static long send_to_all(int sig, const siginfo_t *info)
{
	long ret = -ESRCH;

	if (sig < 0 || sig > NSIGNALS)
		return -EINVAL;
	for (struct process *p = process_next(2); p; p = process_after(p)) {
		if (p == current->process)
			continue;
		long one = send_checked(p, NULL, sig, info);

		if (one != -EPERM)
			ret = one;
	}
	return ret;
}

long sys_kill(u64 pid_, u64 sig_)
{
	int pid = (int)pid_, sig = (int)sig_;
	struct process *p;
	siginfo_t info;
	long ret;

	siginfo_user(&info, sig, SI_USER);
	if (pid == (int)0x80000000)
		return -ESRCH;
	if (pid == -1)
		return send_to_all(sig, &info);
	if (pid <= 0) {
		if (sig < 0 || sig > NSIGNALS)
			return -EINVAL;
		return signal_group(pid ? -pid : current->process->pgid, sig, &info, true);
	}
	p = process_by_any(pid);
	if (!p)
		return -ESRCH;
	ret = send_checked(p, NULL, sig, &info);
	process_put(p);
	return ret;
}

/* To one thread. tgid 0: whatever process it is in. */
static long send_to_thread(int tgid, int tid, int sig, const siginfo_t *info)
{
	struct task *t = task_by_tid(tid);
	long ret = -ESRCH;

	if (!t)
		return ret;
	if (!tgid || t->process->pid == tgid)
		ret = send_checked(t->process, t, sig, info);
	task_put(t);
	return ret;
}

long sys_tkill(u64 tid, u64 sig)
{
	siginfo_t info;

	if ((int)tid <= 0)
		return -EINVAL;
	siginfo_user(&info, (int)sig, SI_TKILL);
	return send_to_thread(0, (int)tid, (int)sig, &info);
}

long sys_tgkill(u64 tgid, u64 tid, u64 sig)
{
	siginfo_t info;

	if ((int)tid <= 0 || (int)tgid <= 0)
		return -EINVAL;
	siginfo_user(&info, (int)sig, SI_TKILL);
	return send_to_thread((int)tgid, (int)tid, (int)sig, &info);
}

/* Nobody may pretend to be the kernel, or kill(2), to another. */
static long info_from_user(siginfo_t *info, vaddr_t uinfo, int sig, int target_pid)
{
	if (copy_from_user(info, uinfo, sizeof(*info)))
		return -EFAULT;
	info->si_signo = sig;
	if ((info->si_code >= 0 || info->si_code == SI_TKILL) &&
	    target_pid != current->process->pid)
		return -EPERM;
	/*
	 * SI_KERNEL means "no payload" inside; as a lie to oneself it is not worth a queue
	 * entry.
	 */
	return 0;
}

long sys_rt_sigqueueinfo(u64 pid, u64 sig, u64 uinfo)
{
	struct process *p;
	siginfo_t info;
	long ret = info_from_user(&info, uinfo, (int)sig, (int)pid);

	if (ret)
		return ret;
	p = process_by_any((int)pid);
	if (!p)
		return -ESRCH;
	ret = send_checked(p, NULL, (int)sig, &info);
	process_put(p);
	return ret;
}

long sys_rt_tgsigqueueinfo(u64 tgid, u64 tid, u64 sig, u64 uinfo)
{
	siginfo_t info;
	long ret;

	if ((int)tid <= 0 || (int)tgid <= 0)
		return -EINVAL;
	ret = info_from_user(&info, uinfo, (int)sig, (int)tgid);
	if (ret)
		return ret;
	return send_to_thread((int)tgid, (int)tid, (int)sig, &info);
}

/* --- waiting ------------------------------------------------------------------- */

/* Take one of `set`; 0 if none is pending. */
static int take_now(u64 set, siginfo_t *info)
{
	struct process *p = current->process;
	struct list garbage = LIST_INIT(garbage);
	u64 flags = spin_lock_irqsave(&p->siglock);
	int sig = signal_dequeue(set, info, &garbage);

	spin_unlock_irqrestore(&p->siglock, flags);
	sigqueue_free_list(&garbage);
	return sig;
}

/* Announce what is awaited, so that senders neither ignore it nor let it kill; 0 ends it. */
static u64 set_awaited(u64 set, u64 blocked)
{
	struct task *t = current;
	u64 flags = spin_lock_irqsave(&t->process->siglock);
	u64 old = t->sig_blocked;

	t->sig_awaited = set;
	t->sig_blocked = blocked;
	recalc_wanted(t);
	spin_unlock_irqrestore(&t->process->siglock, flags);
	return old;
}

long sys_rt_sigtimedwait(u64 uset, u64 uinfo, u64 utimeout, u64 size)
{
	struct wait_queue nobody;
	siginfo_t info;
	u64 set, deadline = 0, old;
	long ret;
	int sig;

	if (size != SIGSET_SIZE)
		return -EINVAL;
	if (get_user_u64(uset, &set))
		return -EFAULT;
	set &= ~SIG_UNBLOCKABLE;
	if (utimeout) {
		ret = deadline_from_user(utimeout, &deadline);
		if (ret)
			return ret;
	}
	sig = take_now(set, &info);
	if (!sig && (!utimeout || deadline > clock_ns())) {
		wait_init(&nobody);
		old = set_awaited(set, current->sig_blocked & ~set);
		ret = wait_event_until(&nobody, false, deadline);
		set_awaited(0, old);
		sig = take_now(set, &info);
		if (!sig)
			return ret == -ETIMEDOUT ? -EAGAIN : -EINTR;
	}
	if (!sig)
		return -EAGAIN;
	if (uinfo && copy_to_user(uinfo, &info, sizeof(info)))
		return -EFAULT;
	return sig;
}

/* --- alternate stack --------------------------------------------------------------- */

#define SS_AUTODISARM_BIT (1U << 31)

bool on_altstack(const struct task *t, vaddr_t sp)
{
	if (t->sas_flags & SS_AUTODISARM_BIT)
		return false;
	return sp > t->sas_sp && sp - t->sas_sp <= t->sas_size;
}

u32 altstack_state(const struct task *t, vaddr_t sp)
{
	if (!t->sas_size)
		return SS_DISABLE;
	return on_altstack(t, sp) ? SS_ONSTACK : 0;
}

int altstack_set(const stack_t *new, vaddr_t sp)
{
	struct task *t = current;
	u32 mode = (u32)new->ss_flags & ~SS_AUTODISARM_BIT;

	if (on_altstack(t, sp))
		return -EPERM;
	if (mode != SS_DISABLE && mode != SS_ONSTACK && mode != 0)
		return -EINVAL;
	if (mode == SS_DISABLE) {
		t->sas_sp = 0;
		t->sas_size = 0;
	} else {
		if (new->ss_size < MIN_ALTSTACK)
			return -ENOMEM;
		t->sas_sp = (vaddr_t)new->ss_sp;
		t->sas_size = new->ss_size;
	}
	t->sas_flags = (u32)new->ss_flags;
	return 0;
}

void altstack_get(stack_t *out, vaddr_t sp)
{
	struct task *t = current;

	memset(out, 0, sizeof(*out));
	out->ss_sp = (void *)t->sas_sp;
	out->ss_size = t->sas_size;
	out->ss_flags = (int)(altstack_state(t, sp) | (t->sas_flags & SS_AUTODISARM_BIT));
}

long sys_sigaltstack(u64 uss, u64 uoss)
{
	vaddr_t sp = current->user_regs->rsp;
	stack_t new, old;
	int ret;

	if (uss && copy_from_user(&new, uss, sizeof(new)))
		return -EFAULT;
	altstack_get(&old, sp);
	if (uss) {
		ret = altstack_set(&new, sp);
		if (ret)
			return ret;
	}
	if (uoss && copy_to_user(uoss, &old, sizeof(old)))
		return -EFAULT;
	return 0;
}
