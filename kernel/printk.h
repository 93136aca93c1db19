/* Kernel messages, panic, assertions, self-tests, race points. */
#ifndef KERNEL_PRINTK_H
#define KERNEL_PRINTK_H

#include "kernel/types.h"

/*
 * To the serial console and the log, in whole lines, each with the time before it; usable in any
 * context, from the very start. A missing newline at the end is added. Up to 500 characters.
 */
void printk(const char *fmt, ...) __printf(1, 2);
/* The same without the time: KTAP, and what programs read. */
void printk_raw(const char *fmt, ...) __printf(1, 2);
/* Bytes of a terminal to the console, not mixed with the kernel's lines and not logged. */
void console_write(const char *text, size_t len);

/*
 * Read the log from position *pos (bytes since boot; what has been overwritten is skipped) and
 * move it on. Returns bytes, 0 at the end.
 */
size_t printk_ring_read(u64 *pos, char *buf, size_t size);
u64 printk_ring_end(void);

/* Once per place. */
#define printk_once(...)                                                                           \
	do {                                                                                       \
		static bool said_;                                                                 \
		if (!__atomic_exchange_n(&said_, true, __ATOMIC_RELAXED))                          \
			printk(__VA_ARGS__);                                                       \
	} while (0)

/*
 * Stop the machine: other CPUs halted, registers and a backtrace with names
 * printed, leave through isa-debug-exit. A second panic inside it ends at once.
 */
void panic(const char *fmt, ...) __printf(1, 2) __noreturn;
/* The same from a trap: shows the registers and the stack of what was interrupted. */
struct regs;
void panic_regs(const struct regs *regs, const char *fmt, ...) __printf(2, 3) __noreturn;
/* True once a panic has begun: whoever waits for other CPUs gives up. */
bool panicking(void);
/* Return addresses of the callers, innermost first, without the first `skip`; 0 behind the last. */
void backtrace_save(u64 *addresses, unsigned max, unsigned skip);
void backtrace_print(const u64 *addresses, unsigned max);

/* Cheap check, kept in release builds; and one for debug builds only. */
#define ASSERT(c)                                                                                  \
	do {                                                                                       \
		if (unlikely(!(c)))                                                                \
			panic("%s:%d: assertion failed: %s", __FILE__, __LINE__, #c);              \
	} while (0)
#ifdef DEBUG
#define DEBUG_ASSERT(c) ASSERT(c)
#else
#define DEBUG_ASSERT(c)                                                                            \
	do {                                                                                       \
		if (0)                                                                             \
			(void)(c);                                                                 \
	} while (0)
#endif

/*
 * Self-tests, run inside the kernel by selftest=all or selftest=name before
 * init starts, reported as KTAP. Returns 0 for ok, else prints why and returns non-zero.
 */
struct selftest {
	const char *name;
	int (*run)(void);
};
#define SELFTEST(ident)                                                                            \
	static int ident(void);                                                                    \
	__attribute__((section(".selftests"), used, aligned(16))) static const struct selftest     \
		selftest_##ident = { #ident, ident };                                              \
	static int ident(void)
/* In a task of its own, when the machine is up: run what selftest= asks for. With selftest_exit it does not return. */
void selftest_run(void);

/* Files of this kind under /proc and /sys: lock_stat, racepoints, fail_nth. After vfs_init(). */
void debug_files_init(void);

#define SELFTEST_CHECK(c)                                                                          \
	do {                                                                                       \
		if (!(c)) {                                                                        \
			printk("# %s:%d: %s\n", __FILE__, __LINE__, #c);                           \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

/*
 * Race points: named places in the kernel's path where a debug build can park
 * a thread for some milliseconds, once, when a test has armed the name
 * (/sys/kernel/mm/faultline/racepoints). Nothing in a release build.
 */
#ifdef DEBUG
void racepoint(const char *name);
#else
#define racepoint(name)                                                                            \
	do {                                                                                       \
	} while (0)
#endif
/* Fault injection (debug): true if this allocation is to fail (.../fail_nth). */
#ifdef DEBUG
bool fault_inject(void);
#else
static inline bool fault_inject(void)
{
	return false;
}
#endif

#endif
