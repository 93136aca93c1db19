/* Kernel messages, panic, assertions, self-tests, race points. */
#ifndef KERNEL_PRINTK_H
#define KERNEL_PRINTK_H

#include "kernel/types.h"

/* To the serial console, in whole lines; usable in any context, from the very start. */
void printk(const char *fmt, ...) __printf(1, 2);

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
