/*
 * Terminals: the line discipline (tty.c) and control (ttyctl.c), used by the serial console
 * (console.c) and by pseudo-terminals (pty.c).
 */
#ifndef KERNEL_FS_TTY_H
#define KERNEL_FS_TTY_H

#include <asm/termbits.h>

#include "kernel/vfs.h"

struct process;

#define TTY_BUF 4096 /* bytes of input kept */

struct tty_winsize {
	u16 rows, cols, xpixel, ypixel;
};

/*
 * lock guards all that changes but the wait queues. Output leaves outside it, so two
 * writers' pieces may mix, each piece whole.
 */
struct tty {
	u32 rdev;
	/* To the screen: processed bytes. Task context. */
	void (*output)(struct tty *t, const char *text, size_t len);
	bool (*output_room)(struct tty *t); /* NULL: always */
	void *data;

	spinlock_t lock;
	struct termios termios;
	struct tty_winsize winsize;
	int pgid, sid; /* foreground group, session; 0: none */
	bool hung_up;  /* the other side is gone: reads end, writes fail */

	/* Input: free-running positions in buf; [tail, ready) may be read, [ready, head) is the
	 * line being edited. mark: a line ends with this byte; eof: and the byte itself is not
	 * data. */
	u8 buf[TTY_BUF];
	u64 mark[TTY_BUF / 64], eof[TTY_BUF / 64];
	u32 head, ready, tail;
	bool literal_next;
	u32 column; /* of the cursor, for tabs and ONOCR */
	struct wait_queue read_wait, write_wait;
};

void tty_setup(struct tty *t, u32 rdev);
/* Bytes typed at the terminal. Task context. */
void tty_input(struct tty *t, const char *text, size_t len);
/* The other side is gone: SIGHUP to the session, end of file to readers. */
void tty_hangup(struct tty *t);

/* It goes away: nobody's controlling terminal any more. */
void tty_forget(struct tty *t);

extern const struct file_ops tty_ops; /* f->data is the tty */
/* Common parts of open() by device number; -ENXIO if there is none. */
int tty_open(struct file *f, u32 rdev);
/* Become the controlling terminal of a session leader without one. */
void tty_take_session(struct tty *t);
long tty_ioctl(struct tty *t, u32 cmd, u64 arg);
struct tty *console_tty(void);
int ptmx_open(struct file *f);
int pts_open(struct file *f, u32 minor);
void pty_init(void);


#endif
