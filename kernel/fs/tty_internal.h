/* Between the line discipline (tty.c) and control (ttyctl.c). For everybody else: tty.h. */
#ifndef KERNEL_FS_TTY_INTERNAL_H
#define KERNEL_FS_TTY_INTERNAL_H

#include "kernel/fs/tty.h"

static inline bool lflag(const struct tty *t, u32 flag)
{
	return t->termios.c_lflag & flag;
}

/* Of mark or eof, at position i of the input. lock held. */
static inline bool bit(const u64 *map, u32 i)
{
	i %= TTY_BUF;
	return map[i / 64] >> (i % 64) & 1;
}

/* lock held. */
static inline void flush_input(struct tty *t)
{
	t->head = t->ready = t->tail;
	t->literal_next = false;
}

/* A process in the background uses the terminal: 0 if it may, else it is stopped by sig. */
long background(struct tty *t, int sig);

#endif
