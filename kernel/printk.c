/*
 * Kernel messages: whole lines to the serial console and into the log.
 *
 * A message is formatted on the caller's stack and then written in one go under
 * the console lock, so lines of different CPUs never mix. The lock is the
 * last in the order and must work everywhere, also where nothing else does (early boot, NMI, in the
 * middle of a panic), so it is not a spinlock_t but one word that names its holder:
 *
 *  - taken with interrupts off; a waiter has them as it came;
 *  - if the holder is this very CPU, we are an NMI or a fault inside printk:
 *    go ahead without the lock. A mixed line is better than none;
 *  - during a panic, the CPU that panics takes the lock over from a holder that has been stopped, and all
 *    others are silent.
 *
 * The log keeps the last LOG_SIZE bytes; positions count bytes since boot and
 * never wrap, so a reader that was too slow sees that it was.
 */
#include "kernel/printk.h"

#include "arch/x86_64/clock.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/percpu.h"
#include "arch/x86_64/serial.h"
#include "kernel/bootinfo.h"
#include "kernel/panic.h"
#include "kernel/printf.h"
#include "kernel/string.h"

#define LINE_MAX 512 /* the longest message, its newline and closing zero included */
#define LOG_SIZE (64 * KB)
#define TAKEOVER_SPINS 1000000 /* in a panic: this long for the holder to finish */

static u32 console_owner; /* 0 = free, else CPU + 1; atomic */

static char log_text[LOG_SIZE]; /* console lock */
static u64 log_end;             /* written under the console lock, read at any time */

enum console_lock { CONSOLE_TAKEN, CONSOLE_NESTED, CONSOLE_SILENT };

static enum console_lock console_lock(u64 *flags)
{
	u32 me = this_cpu() + 1;
	u32 spins = 0;

	for (;;) {
		u32 owner = 0;

		*flags = irq_save();
		if (panic_elsewhere())
			return CONSOLE_SILENT;
		if (atomic_try_cmpxchg(&console_owner, &owner, me))
			return CONSOLE_TAKEN;
		if (owner == me)
			return CONSOLE_NESTED;
		if (panicking() && ++spins > TAKEOVER_SPINS) {
			__atomic_store_n(&console_owner, me, __ATOMIC_SEQ_CST);
			return CONSOLE_TAKEN;
		}
		irq_restore(*flags);
		cpu_relax();
	}
}

static void console_unlock(enum console_lock how, u64 flags)
{
	if (how == CONSOLE_TAKEN)
		smp_store_release(&console_owner, 0);
	irq_restore(flags);
}

static void log_append(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		log_text[(log_end + i) % LOG_SIZE] = text[i];
	smp_store_release(&log_end, log_end + len);
}

static void emit(const char *text, size_t len)
{
	serial_write(text, len);
	log_append(text, len);
}

/* Write a text of one or more lines, each with the time before it if `stamp` is set. */
static void write_lines(const char *text, size_t len, bool stamp)
{
	char time[24];
	int time_len = 0;
	enum console_lock how;
	u64 flags;

	if (stamp) {
		u64 ms = clock_ns() / 1000000;

		time_len = kscnprintf(time, sizeof(time), "[%5lu.%03lu] ", ms / 1000, ms % 1000);
	}
	how = console_lock(&flags);
	while (len && how != CONSOLE_SILENT) {
		const char *end = strchr(text, '\n');
		size_t n = end ? (size_t)(end - text) + 1 : len;

		emit(time, time_len);
		emit(text, n);
		text += n;
		len -= n;
	}
	console_unlock(how, flags);
}

/* Room is left for a newline that is missing. */
static void print(bool stamp, const char *before, const char *fmt, va_list args)
{
	char text[LINE_MAX];
	int n = kscnprintf(text, sizeof(text) - 1, "%s", before), room = (int)sizeof(text) - 2 - n, len;

	len = kvsnprintf(text + n, room + 1, fmt, args);
	n += MIN(len, room);
	if (n == 0 || text[n - 1] != '\n') {
		text[n++] = '\n';
		text[n] = 0;
	}
	write_lines(text, n, stamp);
}

void printk(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	print(true, "", fmt, args);
	va_end(args);
}

void printk_raw(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	print(false, "", fmt, args);
	va_end(args);
}

void boot_warn(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	print(true, "warning: ", fmt, args);
	va_end(args);
}

void console_write(const char *text, size_t len)
{
	/* In pieces, so that others' lines do not wait for a long write. */
	while (len) {
		size_t n = MIN(len, (size_t)LINE_MAX);
		u64 flags;
		enum console_lock how = console_lock(&flags);

		for (size_t i = 0; i < n && how != CONSOLE_SILENT; i++)
			serial_putc(text[i]); /* the terminal has put carriage returns where it wants them */
		console_unlock(how, flags);
		text += n;
		len -= n;
	}
}

u64 printk_ring_end(void)
{
	return smp_load_acquire(&log_end);
}

size_t printk_ring_read(u64 *pos, char *buf, size_t size)
{
	enum console_lock how;
	size_t n;
	u64 flags;

	how = console_lock(&flags);
	if (log_end - *pos > LOG_SIZE) /* overwritten, or a position from the future */
		*pos = *pos > log_end ? log_end : log_end - LOG_SIZE;
	n = MIN(size, (size_t)(log_end - *pos));
	for (size_t i = 0; i < n; i++)
		buf[i] = log_text[(*pos + i) % LOG_SIZE];
	*pos += n;
	console_unlock(how, flags);
	return n;
}
