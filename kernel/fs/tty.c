/*
 * The line discipline: what stands between the keys somebody presses and read(2).
 *
 * Input comes byte by byte from the driver (tty_input) in task context. With ISIG some bytes
 * become signals to the foreground process group; with ICANON bytes gather in an editable line that
 * becomes readable when it ends; with ECHO they go back to the screen.
 *
 * Lock: tty->lock, rank RANK_VFS_LEAF, nothing inside. Signals, echo and wake-ups are
 * collected and done after it is dropped.
 * Source: termios(3), POSIX.1-2017 chapter 11.
 */
#include "kernel/fs/tty_internal.h"

#include <asm/signal.h>
#include <linux/poll.h>

#include "arch/x86_64/clock.h"
#include "kernel/signal.h"
#include "kernel/syscall.h"

/* --- the input ring; lock held --------------------------------------------------------- */

static void set_bit(u64 *map, u32 i, bool on)
{
	i %= TTY_BUF;
	if (on)
		map[i / 64] |= 1UL << (i % 64);
	else
		map[i / 64] &= ~(1UL << (i % 64));
}

static u8 *at(struct tty *t, u32 i)
{
	return &t->buf[i % TTY_BUF];
}

/* One place is kept for the end of a line. */
static bool put_byte(struct tty *t, u8 c, bool mark, bool eof)
{
	if (t->head - t->tail >= (u32)TTY_BUF - !mark)
		return false;
	*at(t, t->head) = c;
	set_bit(t->mark, t->head, mark);
	set_bit(t->eof, t->head, eof);
	t->head++;
	if (mark || !lflag(t, ICANON))
		t->ready = t->head;
	return true;
}

/* --- echo: collected, sent after the lock is dropped ----------------------------------- */

struct echo {
	char text[256];
	size_t len;
	int signal;    /* to the foreground group */
	bool ready;    /* something can be read now */
};

static void echo_raw(struct echo *e, const char *s)
{
	for (; *s && e->len < sizeof(e->text); s++)
		e->text[e->len++] = *s;
}

static void echo_char(struct tty *t, struct echo *e, u8 c)
{
	char s[3] = { (char)c, 0, 0 };

	if (c == '\n' && (t->termios.c_oflag & OPOST) && (t->termios.c_oflag & ONLCR)) {
		echo_raw(e, "\r\n");
		return;
	}
	if (lflag(t, ECHOCTL) && (c < 32 || c == 127) && c != '\t' && c != '\n') {
		s[0] = '^';
		s[1] = (char)(c ^ 64);
	}
	echo_raw(e, s);
}

static u32 width(const struct tty *t, u8 c)
{
	if (c < 32 || c == 127)
		return lflag(t, ECHOCTL) && c != '\t' ? 2 : c == '\t' ? 1 : 0;
	return (c & 0xc0) == 0x80 ? 0 : 1; /* continuation bytes of UTF-8 have none */
}

static void rub_out(struct tty *t, struct echo *e, u8 c)
{
	if (!lflag(t, ECHO))
		return;
	for (u32 i = width(t, c); i; i--)
		echo_raw(e, "\b \b");
}

/* --- editing --------------------------------------------------------------------------- */

static void erase_one(struct tty *t, struct echo *e)
{
	u8 c;

	do { /* a whole UTF-8 character */
		c = *at(t, --t->head);
		if (lflag(t, ECHOE))
			rub_out(t, e, c);
	} while ((c & 0xc0) == 0x80 && (t->termios.c_iflag & IUTF8) && t->head != t->ready);
	if (!lflag(t, ECHOE) && lflag(t, ECHO))
		echo_char(t, e, t->termios.c_cc[VERASE]);
}

static bool is_word(u8 c)
{
	return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' ||
	       c >= 128;
}

static void erase_word(struct tty *t, struct echo *e)
{
	while (t->head != t->ready && !is_word(*at(t, t->head - 1)))
		erase_one(t, e);
	while (t->head != t->ready && is_word(*at(t, t->head - 1)))
		erase_one(t, e);
}

static void erase_line(struct tty *t, struct echo *e)
{
	if (lflag(t, ECHOKE) && lflag(t, ECHOE)) {
		while (t->head != t->ready)
			erase_one(t, e);
		return;
	}
	t->head = t->ready;
	if (lflag(t, ECHO))
		echo_char(t, e, t->termios.c_cc[VKILL]);
	if (lflag(t, ECHOK) && lflag(t, ECHO))
		echo_char(t, e, '\n');
}

/* c is this control character, and that one is not switched off (0). */
static bool is_cc(const struct tty *t, u8 c, int which)
{
	return t->termios.c_cc[which] && t->termios.c_cc[which] == c;
}

static int signal_of(const struct tty *t, u8 c)
{
	if (!lflag(t, ISIG))
		return 0;
	return is_cc(t, c, VINTR) ? SIGINT : is_cc(t, c, VQUIT) ? SIGQUIT :
	       is_cc(t, c, VSUSP) ? SIGTSTP : 0;
}

/* The line-editing bytes of canonical mode; true if c was one. */
static bool edit(struct tty *t, struct echo *e, u8 c)
{
	bool extended = lflag(t, IEXTEN);

	if (is_cc(t, c, VERASE)) {
		if (t->head != t->ready)
			erase_one(t, e);
	} else if (is_cc(t, c, VKILL)) {
		erase_line(t, e);
	} else if (extended && is_cc(t, c, VWERASE)) {
		erase_word(t, e);
	} else if (extended && is_cc(t, c, VLNEXT)) {
		t->literal_next = true;
		if (lflag(t, ECHO) && lflag(t, ECHOCTL))
			echo_raw(e, "^\b");
	} else if (extended && is_cc(t, c, VREPRINT)) {
		echo_char(t, e, c);
		echo_char(t, e, '\n');
		for (u32 i = t->ready; i != t->head; i++)
			echo_char(t, e, *at(t, i));
	} else if (is_cc(t, c, VEOF)) {
		e->ready = put_byte(t, 0, true, true);
	} else if (c == '\n' || is_cc(t, c, VEOL) || (extended && is_cc(t, c, VEOL2))) {
		if (lflag(t, ECHO) || (c == '\n' && lflag(t, ECHONL)))
			echo_char(t, e, c);
		e->ready = put_byte(t, c, true, false);
	} else {
		return false;
	}
	return true;
}

/* lock held. */
static void input_byte(struct tty *t, struct echo *e, u8 c)
{
	u32 iflag = t->termios.c_iflag;
	bool literal = t->literal_next;
	int sig;

	if (iflag & ISTRIP)
		c &= 127;
	t->literal_next = false;
	if (!literal) {
		if (c == '\r') {
			if (iflag & IGNCR)
				return;
			if (iflag & ICRNL)
				c = '\n';
		} else if (c == '\n' && (iflag & INLCR)) {
			c = '\r';
		}
		if ((iflag & IXON) && (is_cc(t, c, VSTART) || is_cc(t, c, VSTOP)))
			return; /* output is never held back */
		sig = signal_of(t, c);
		if (sig) {
			if (!lflag(t, NOFLSH))
				flush_input(t);
			if (lflag(t, ECHO))
				echo_char(t, e, c);
			e->signal = sig;
			return;
		}
		if (lflag(t, ICANON) && edit(t, e, c))
			return;
	}
	if (!put_byte(t, c, false, false)) {
		if (iflag & IMAXBEL)
			echo_raw(e, "\a");
		return;
	}
	if (!lflag(t, ICANON))
		e->ready = true;
	if (lflag(t, ECHO))
		echo_char(t, e, c);
}

void tty_input(struct tty *t, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		struct echo e = { .len = 0 };
		int pgid;

		spin_lock(&t->lock);
		input_byte(t, &e, (u8)text[i]);
		pgid = t->pgid;
		spin_unlock(&t->lock);
		if (e.len)
			t->output(t, e.text, e.len);
		if (e.signal && pgid)
			signal_pgrp(pgid, e.signal);
		if (e.ready || e.signal)
			wake_up_all(&t->read_wait);
	}
}

/* --- read ------------------------------------------------------------------------------ */

static bool readable(struct tty *t)
{
	return READ_ONCE(t->ready) != READ_ONCE(t->tail) || READ_ONCE(t->hung_up);
}

/* Take up to max bytes, of one line in canonical mode. lock held. *end: the line ended. */
static u32 take(struct tty *t, u8 *out, u32 max, bool *end)
{
	bool canonical = lflag(t, ICANON);
	u32 n = 0;

	*end = false;
	while (n < max && t->tail != t->ready && !*end) {
		u32 i = t->tail++;

		*end = canonical && bit(t->mark, i);
		if (!(*end && bit(t->eof, i)))
			out[n++] = *at(t, i);
	}
	/* The end-of-file byte right behind what was asked for belongs to this line. */
	if (canonical && n == max && !*end && t->tail != t->ready && bit(t->eof, t->tail)) {
		t->tail++;
		*end = true;
	}
	return n;
}

/* Put back what the user's memory did not take: the bytes are still in the ring. */
static void untake(struct tty *t, u32 old_tail, u32 n)
{
	spin_lock(&t->lock);
	if (t->tail - old_tail <= TTY_BUF && t->tail != old_tail)
		t->tail = old_tail + n;
	spin_unlock(&t->lock);
}

static long read_some(struct tty *t, struct uio *u, bool *end)
{
	u8 chunk[256];
	u32 old, n;
	size_t done;

	spin_lock(&t->lock);
	old = t->tail;
	n = take(t, chunk, (u32)MIN(u->left, sizeof(chunk)), end);
	spin_unlock(&t->lock);
	if (!n)
		return 0;
	done = uio_put(u, chunk, n);
	if (done < n) {
		untake(t, old, (u32)done);
		*end = true;
		return done ? (long)done : -EFAULT;
	}
	return n;
}

static long read_canonical(struct tty *t, struct uio *u, bool nonblock)
{
	long total = 0;
	bool end = false;

	/* Another reader may take what we have waited for: then wait again. */
	do {
		if (!readable(t)) {
			if (nonblock)
				return -EAGAIN;
			if (wait_event_interruptible(&t->read_wait, readable(t)))
				return -ERESTARTSYS;
		}
		while (u->left && !end && t->ready != t->tail) {
			long n = read_some(t, u, &end);

			if (n < 0)
				return total ? total : n;
			total += n;
		}
	} while (!total && !end && !t->hung_up);
	return total;
}

/* MIN bytes, or TIME tenths of a second: termios(3), "Canonical and noncanonical mode". */
static long read_raw(struct tty *t, struct uio *u, bool nonblock)
{
	u32 min = t->termios.c_cc[VMIN], tenths = t->termios.c_cc[VTIME];
	u64 deadline = 0, time = tenths * 100000000UL;
	long total = 0;
	bool end;

	if (time && !min)
		deadline = clock_ns() + time;
	min = (u32)MIN(min, u->left);
	for (;;) {
		long n = u->left ? read_some(t, u, &end) : 0;
		int ret;

		if (n < 0)
			return total ? total : n;
		total += n;
		if (n)
			continue;
		if (!u->left || total >= (long)MAX(min, 1) || (!min && !time) || t->hung_up)
			return total;
		if (nonblock)
			return total ? total : -EAGAIN;
		if (total && time && min)
			deadline = clock_ns() + time; /* between bytes */
		ret = wait_event_until(&t->read_wait, readable(t), deadline);
		if (ret == -ETIMEDOUT)
			return total;
		if (ret)
			return total ? total : -ERESTARTSYS;
	}
}

static long tty_read(struct file *f, u64 *pos, struct uio *u)
{
	struct tty *t = f->data;
	long err = background(t, SIGTTIN);
	bool nonblock = f->flags & O_NONBLOCK;

	if (err || !u->left)
		return err;
	if (t->hung_up && t->ready == t->tail)
		return 0;
	return lflag(t, ICANON) ? read_canonical(t, u, nonblock) : read_raw(t, u, nonblock);
}

/* --- write ----------------------------------------------------------------------------- */

/* Output processing; out has room for twice n. */
static size_t cook(struct tty *t, const char *in, size_t n, char *out)
{
	u32 oflag = t->termios.c_oflag;
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		char c = in[i];

		if (oflag & OPOST) {
			if (c == '\n' && (oflag & ONLCR))
				out[len++] = '\r';
			else if (c == '\r' && (oflag & OCRNL))
				c = '\n';
		}
		out[len++] = c;
	}
	return len;
}

static bool writable(struct tty *t)
{
	return !t->output_room || t->output_room(t) || READ_ONCE(t->hung_up);
}

static long tty_write(struct file *f, u64 *pos, struct uio *u)
{
	struct tty *t = f->data;
	char in[256], out[512];
	long total = 0, err = 0;

	if (lflag(t, TOSTOP))
		err = background(t, SIGTTOU);
	while (u->left && !err) {
		size_t want = MIN(u->left, sizeof(in)), n;

		if (!writable(t)) {
			if (f->flags & O_NONBLOCK)
				err = -EAGAIN;
			else if (wait_event_interruptible(&t->write_wait, writable(t)))
				err = -ERESTARTSYS;
			if (err)
				break;
		}
		if (t->hung_up) {
			err = -EIO;
			break;
		}
		n = uio_get(u, in, want);
		if (n)
			t->output(t, out, cook(t, in, n, out));
		total += (long)n;
		if (n < want)
			err = -EFAULT;
	}
	return total ? total : err;
}

/* --- poll, operations ------------------------------------------------------------------ */

static u32 tty_poll(struct file *f, struct poll_table *p)
{
	struct tty *t = f->data;
	u32 events = 0;

	poll_wait(p, &t->read_wait);
	poll_wait(p, &t->write_wait);
	if (readable(t))
		events |= POLLIN | POLLRDNORM;
	if (writable(t))
		events |= POLLOUT | POLLWRNORM;
	if (t->hung_up)
		events |= POLLHUP | POLLERR;
	return events;
}

static long tty_file_ioctl(struct file *f, u32 cmd, u64 arg)
{
	return tty_ioctl(f->data, cmd, arg);
}

const struct file_ops tty_ops = {
	.read = tty_read,
	.write = tty_write,
	.poll = tty_poll,
	.ioctl = tty_file_ioctl,
};
