/*
 * Control of a terminal, beside the bytes that go through it (tty.c): its life, job control (whose
 * controlling terminal it is, and which process group is in the foreground), and ioctl(2).
 *
 * Lock: tty->lock, as in tty.c; signals and wake-ups come after it is dropped.
 * Source: POSIX.1-2017 chapter 11, termios(3), ioctl_tty(2), credentials(7).
 */
#include "kernel/fs/tty_internal.h"

#include <asm/ioctls.h>
#include <asm/signal.h>

#include "arch/x86_64/uaccess.h"
#include "kernel/process.h"
#include "kernel/signal.h"
#include "kernel/string.h"
#include "kernel/syscall.h"

DEFINE_LOCK_CLASS(tty_class, "tty", RANK_VFS_LEAF);

static const struct termios default_termios = {
	.c_iflag = ICRNL | IXON,
	.c_oflag = OPOST | ONLCR,
	.c_cflag = B38400 | CS8 | CREAD | HUPCL,
	.c_lflag = ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN,
	/* INTR QUIT ERASE KILL EOF TIME MIN SWTC START STOP SUSP EOL REPRINT DISCARD WERASE
	 * LNEXT EOL2 */
	.c_cc = { 3, 28, 127, 21, 4, 0, 1, 0, 17, 19, 26, 0, 18, 15, 23, 22, 0 },
};

void tty_setup(struct tty *t, u32 rdev)
{
	t->rdev = rdev;
	t->termios = default_termios;
	spin_init(&t->lock, &tty_class);
	wait_init(&t->read_wait);
	wait_init(&t->write_wait);
}

int tty_open(struct file *f, u32 rdev)
{
	struct tty *t = console_tty();

	if (rdev == DEV(5, 0)) {
		t = current->process ? current->process->tty : NULL;
		if (!t)
			return -ENXIO;
		if (DEV_MAJOR(t->rdev) == 136)
			return pts_open(f, DEV_MINOR(t->rdev));
	} else if (rdev == DEV(5, 2)) {
		return ptmx_open(f);
	} else if (DEV_MAJOR(rdev) == 136) {
		return pts_open(f, DEV_MINOR(rdev));
	} else if (rdev != DEV(5, 1) && rdev != t->rdev) {
		return -ENXIO;
	}
	f->ops = &tty_ops;
	f->data = t;
	if (rdev == t->rdev && !(f->flags & O_NOCTTY) && current->process)
		tty_take_session(t);
	return 0;
}

void tty_hangup(struct tty *t)
{
	int sid;

	spin_lock(&t->lock);
	t->hung_up = true;
	sid = t->sid;
	spin_unlock(&t->lock);
	if (sid) {
		struct process *leader = process_by_pid(sid);
		siginfo_t info;

		if (leader) {
			siginfo_kernel(&info, SIGHUP);
			signal_send(leader, NULL, SIGHUP, &info);
			siginfo_kernel(&info, SIGCONT);
			signal_send(leader, NULL, SIGCONT, &info);
			process_put(leader);
		}
	}
	wake_up_all(&t->read_wait);
	wake_up_all(&t->write_wait);
}

/* --- job control ----------------------------------------------------------------------- */

long background(struct tty *t, int sig)
{
	struct process *p = current->process;
	bool ignored, orphaned;
	u64 flags;

	if (!p || p->tty != t || !t->pgid || p->pgid == t->pgid)
		return 0;
	flags = tree_lock();
	orphaned = pgrp_orphaned(p->pgid, NULL);
	tree_unlock(flags);
	flags = spin_lock_irqsave(&p->siglock);
	ignored = signal_is_ignored(p, sig) || (current->sig_blocked & SIGMASK(sig));
	spin_unlock_irqrestore(&p->siglock, flags);
	if (ignored)
		return sig == SIGTTIN ? -EIO : 0;
	if (orphaned)
		return -EIO;
	signal_pgrp(p->pgid, sig);
	return -ERESTARTSYS;
}

void tty_take_session(struct tty *t)
{
	struct process *p = current->process;

	spin_lock(&t->lock);
	if (p->sid == p->pid && !p->tty && !t->sid) {
		t->sid = p->sid;
		t->pgid = p->pgid;
		p->tty = t;
	}
	spin_unlock(&t->lock);
}

static long set_session(struct tty *t, bool steal)
{
	struct process *p = current->process;
	long ret = -EPERM;

	spin_lock(&t->lock);
	if (p->sid == p->pid && t->sid == p->sid && p->tty == t) {
		ret = 0;
	} else if (p->sid == p->pid && !p->tty &&
		   (!t->sid || steal)) {
		t->sid = p->sid;
		t->pgid = p->pgid;
		p->tty = t;
		ret = 0;
	}
	spin_unlock(&t->lock);
	return ret;
}

/* Nobody of the session has it any more. */
static void drop_from_all(struct tty *t)
{
	for (struct process *p = process_next(1); p; p = process_after(p)) {
		if (READ_ONCE(p->tty) == t)
			WRITE_ONCE(p->tty, NULL);
	}
}

void tty_forget(struct tty *t)
{
	if (t->sid)
		drop_from_all(t);
}

/* The session loses the terminal: its leader said so, or is gone. */
static void end_session(struct tty *t)
{
	int pgid;

	spin_lock(&t->lock);
	pgid = t->pgid;
	t->sid = t->pgid = 0;
	spin_unlock(&t->lock);
	if (pgid) {
		signal_pgrp(pgid, SIGHUP);
		signal_pgrp(pgid, SIGCONT);
	}
	drop_from_all(t);
}

static long give_up_session(struct tty *t)
{
	struct process *p = current->process;

	if (p->tty != t)
		return -ENOTTY;
	if (p->pid == p->sid)
		end_session(t);
	p->tty = NULL;
	return 0;
}

u32 tty_of_process(struct process *p, int *pgid)
{
	struct tty *t;
	u32 dev = 0;

	*pgid = -1;
	rcu_read_lock(); /* ptys are freed by RCU */
	t = READ_ONCE(p->tty);
	if (t) {
		dev = t->rdev;
		*pgid = t->pgid ? t->pgid : -1;
	}
	rcu_read_unlock();
	return dev;
}

void tty_leader_exit(struct process *p)
{
	struct tty *t = p->tty;

	if (t && p->pid == p->sid && t->sid == p->sid)
		end_session(t);
}

static int group_session(int pgid)
{
	int sid = 0;
	struct process *p;

	for (p = process_next(1); p; p = process_after(p)) {
		if (p->pgid == pgid) {
			sid = p->sid;
			process_put(p);
			break;
		}
	}
	return sid;
}

static long set_foreground(struct tty *t, u64 arg)
{
	struct process *p = current->process;
	u32 pgid;
	int sid;
	long err;

	if (p->tty != t || t->sid != p->sid)
		return -ENOTTY;
	err = background(t, SIGTTOU);
	if (err)
		return err;
	if (get_user_u32(arg, &pgid))
		return -EFAULT;
	if ((int)pgid < 0)
		return -EINVAL;
	sid = group_session((int)pgid);
	if (!sid)
		return -ESRCH;
	if (sid != p->sid)
		return -EPERM;
	WRITE_ONCE(t->pgid, (int)pgid);
	return 0;
}

/* --- ioctl ----------------------------------------------------------------------------- */

static long set_termios(struct tty *t, u64 arg, bool flush)
{
	struct termios new;
	long err = background(t, SIGTTOU);

	if (err)
		return err;
	if (copy_from_user(&new, arg, sizeof(new)))
		return -EFAULT;
	spin_lock(&t->lock);
	if (flush)
		flush_input(t);
	t->termios = new;
	if (!lflag(t, ICANON)) /* a line being typed can be read now */
		t->ready = t->head;
	spin_unlock(&t->lock);
	wake_up_all(&t->read_wait);
	return 0;
}

static u32 input_bytes(struct tty *t)
{
	u32 n = 0;

	spin_lock(&t->lock);
	for (u32 i = t->tail; i != t->ready; i++) {
		if (!(lflag(t, ICANON) && bit(t->eof, i)))
			n++;
	}
	spin_unlock(&t->lock);
	return n;
}

static long set_winsize(struct tty *t, u64 arg)
{
	struct tty_winsize new;
	bool changed;

	if (copy_from_user(&new, arg, sizeof(new)))
		return -EFAULT;
	spin_lock(&t->lock);
	changed = memcmp(&new, &t->winsize, sizeof(new));
	t->winsize = new;
	spin_unlock(&t->lock);
	if (changed && t->pgid)
		signal_pgrp(t->pgid, SIGWINCH);
	return 0;
}

static long put_bytes(u64 arg, const void *data, size_t n)
{
	return copy_to_user(arg, data, n) ? -EFAULT : 0;
}

long tty_ioctl(struct tty *t, u32 cmd, u64 arg)
{
	struct process *p = current->process;
	struct termios copy;

	switch (cmd) {
	case TCGETS:
		copy = t->termios;
		return put_bytes(arg, &copy, sizeof(copy));
	case TCSETS:
	case TCSETSW:
		return set_termios(t, arg, false);
	case TCSETSF:
		return set_termios(t, arg, true);
	case TIOCGWINSZ:
		return put_bytes(arg, &t->winsize, sizeof(t->winsize));
	case TIOCSWINSZ:
		return set_winsize(t, arg);
	case TIOCGPGRP:
		return p->tty == t ? put_user_u32(arg, (u32)t->pgid) : -ENOTTY;
	case TIOCSPGRP:
		return set_foreground(t, arg);
	case TIOCGSID:
		return p->tty == t ? put_user_u32(arg, (u32)t->sid) : -ENOTTY;
	case TIOCSCTTY:
		return set_session(t, arg == 1);
	case TIOCNOTTY:
		return give_up_session(t);
	case FIONREAD: /* TIOCINQ */
		return put_user_u32(arg, input_bytes(t));
	case TIOCOUTQ:
		return put_user_u32(arg, 0);
	case TCFLSH:
		if (arg > 2)
			return -EINVAL;
		if (arg != 1) { /* not output alone */
			spin_lock(&t->lock);
			flush_input(t);
			spin_unlock(&t->lock);
		}
		return 0;
	case TCSBRK:
	case TCSBRKP:
	case TCXONC:
	case TIOCEXCL:
	case TIOCNXCL:
		return 0;
	}
	return -ENOTTY;
}
