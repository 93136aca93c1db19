/*
 * The serial console as a terminal. Its bytes come in by interrupt, into a small ring; a kernel
 * thread takes them from there to the line discipline, which needs task context.
 */
#include "kernel/fs/tty.h"
#include "kernel/printk.h"
#include "kernel/task.h"

#define RAW_SIZE 1024

DEFINE_LOCK_CLASS(console_raw_class, "console_raw", RANK_LEAF);

static struct tty console;

/* Bytes from the interrupt handler: raw_lock, interrupts off. Free-running positions. */
static spinlock_t raw_lock;
static char raw[RAW_SIZE];
static u32 raw_head, raw_tail;
static struct wait_queue raw_wait;
static bool ready; /* initialised */

void console_input(char c)
{
	u64 flags;

	if (!READ_ONCE(ready))
		return;
	flags = spin_lock_irqsave(&raw_lock);
	if (raw_head - raw_tail < RAW_SIZE)
		raw[raw_head++ % RAW_SIZE] = c;
	spin_unlock_irqrestore(&raw_lock, flags);
	wake_up(&raw_wait);
}

static size_t take_raw(char *buf, size_t max)
{
	size_t n = 0;
	u64 flags = spin_lock_irqsave(&raw_lock);

	while (n < max && raw_tail != raw_head)
		buf[n++] = raw[raw_tail++ % RAW_SIZE];
	spin_unlock_irqrestore(&raw_lock, flags);
	return n;
}

static void console_thread(void *arg)
{
	char buf[64];

	for (;;) {
		size_t n;

		wait_event(&raw_wait, READ_ONCE(raw_head) != READ_ONCE(raw_tail));
		n = take_raw(buf, sizeof(buf));
		tty_input(&console, buf, n);
	}
}

static void console_output(struct tty *t, const char *text, size_t len)
{
	console_write(text, len);
}

struct tty *console_tty(void)
{
	static bool started;

	if (!__atomic_exchange_n(&started, true, __ATOMIC_SEQ_CST))
		kthread_create("console", console_thread, NULL, -1);
	return &console;
}

void tty_init(void)
{
	tty_setup(&console, DEV(4, 64));
	console.output = console_output;
	spin_init(&raw_lock, &console_raw_class);
	wait_init(&raw_wait);
	pty_init();
	WRITE_ONCE(ready, true);
}
