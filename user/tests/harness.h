/*
 * What every guest test program shares.
 *
 * A test program is one .c file linked with the files of harness/. Each TEST is a function that
 * runs in a forked child, in a process group of its own, under a time limit; its result is the
 * child's exit status. The parent prints KTAP and compares the kernel's ledger before and after
 * every test, so that a leaked frame, table or object is a failure.
 *
 *	TEST(read_cow, "UA-01 read(2) into a COW page")
 *	{
 *		CHECK_EQ(read(fd, page, 3), 3);
 *	}
 *
 * The same binary runs on Linux, which is the reference for every expectation, and on Faultline.
 *
 *	NAME [-s SCALE] [-t] [-l] [PATTERN]
 *
 *	PATTERN           run only the tests whose title contains it
 *	-l                list the tests
 *	-t                say how long each took
 *	-s SCALE          multiplies the rounds of the stress tests; 1 suits TCG
 *	FAULTLINE_SCALE   in the environment: the same
 *
 * Kernel files used where they exist (all absent on Linux), in /sys/kernel/mm/faultline:
 *
 *	ledger       "name value" lines; every value must be the same before and after
 *	racepoints   write "name milliseconds": the next thread that comes by parks there for
 *	             so long, once; 0 disarms
 *	fail_nth     write "N": the Nth following allocation of the writing task fails, once;
 *	             0 disarms; reading gives how many are still to come
 */
#ifndef FAULTLINE_TESTS_HARNESS_H
#define FAULTLINE_TESTS_HARNESS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include "../cpuset.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define P        4096UL
#define MB       (1UL << 20)
#define GB       (1UL << 30)
#define TB       (1UL << 40)
#define HUGE     (2 * MB)         /* what one page table of level 1 maps */
#define USER_END 0x7ffffffff000UL /* first address that no program can map */
/* Where mmap places nothing of its own accord: 16 TiB for a test's fixed maps. */
#define ZONE          0x200000000000UL
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define RW     (PROT_READ | PROT_WRITE)
#define ANON   (MAP_PRIVATE | MAP_ANONYMOUS)
#define SHANON (MAP_SHARED | MAP_ANONYMOUS)

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

/* ---- tests ------------------------------------------------------------------------------ */

struct test {
	const char *title; /* "UA-01 what it shows" */
	void (*run)(void);
	int line;       /* order in the source is the order of running */
	int seconds;    /* time limit; 0: the default of 30 */
	int cpus;       /* fewest CPUs that give the test a meaning; 0: 1 */
	bool no_ledger; /* what it does to the ledger is meant to last */
	struct test *next;
};

void test_register(struct test *t);

#define TEST(fn, title_, ...)                                               \
	static void fn(void);                                               \
	static struct test fn##_test = {                                    \
		.title = title_, .run = fn, .line = __LINE__, ##__VA_ARGS__ \
	};                                                                  \
	__attribute__((constructor)) static void fn##_register(void)        \
	{                                                                   \
		test_register(&fn##_test);                                  \
	}                                                                   \
	static void fn(void)

/*
 * What a program does when a test executes it again with "--exec" as its first argument (see
 * self_exec): gets what follows. Programs that need no such thing leave it out; then "--exec N"
 * exits with status N.
 */
int exec_main(int argc, char **argv) __attribute__((weak));
/* execve() of this very program as "NAME --exec args..."; returns only on failure. */
void self_exec(const char *arg, ...) __attribute__((sentinel));

/* ---- results, to be used inside a test and the processes and threads that it starts ----- */

extern volatile int test_failed;

/* One "# ..." line to standard output, written at once. */
void diag(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* diag() that also fails the test. */
void fail_at(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * Ends the test as skipped. Only from the test's own process, and only where the feature cannot
 * exist.
 */
void skip(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Ends this process with what its checks found. */
void done(void) __attribute__((noreturn));

const char *errno_name(int e);

#define FAIL(...) fail_at(__FILE__, __LINE__, __VA_ARGS__)

#define CHECK(cond)                                \
	({                                         \
		bool ok_ = !!(cond);               \
		if (!ok_) {                        \
			FAIL("not so: %s", #cond); \
		}                                  \
		ok_;                               \
	})

#define CHECK_MSG(cond, ...)               \
	({                                 \
		bool ok_ = !!(cond);       \
		if (!ok_) {                \
			FAIL(__VA_ARGS__); \
		}                          \
		ok_;                       \
	})

/* Two numbers are equal. */
#define CHECK_EQ(expr, want)                                                                     \
	({                                                                                       \
		long got_ = (long)(expr);                                                        \
		int e_ = errno;                                                                  \
		long want_ = (long)(want);                                                       \
		if (got_ != want_)                                                               \
			FAIL("%s: got %ld (0x%lx)%s%s, expected %ld (0x%lx)", #expr, got_, got_, \
			     got_ == -1 ? " " : "", got_ == -1 ? errno_name(e_) : "", want_,     \
			     want_);                                                             \
		got_ == want_;                                                                   \
	})

/* A system call returns -1 with this errno. */
#define CHECK_ERR(expr, err)                                                     \
	({                                                                       \
		errno = 0;                                                       \
		long got_ = (long)(expr);                                        \
		int e_ = errno;                                                  \
		bool ok_ = got_ == -1 && e_ == (err);                            \
		if (!ok_)                                                        \
			FAIL("%s: got %ld %s, expected %s", #expr, got_,         \
			     got_ == -1 ? errno_name(e_) : "", errno_name(err)); \
		ok_;                                                             \
	})

/* A system call does not return -1; the value is its result. */
#define CHECK_OK(expr)                                         \
	({                                                     \
		long got_ = (long)(expr);                      \
		int e_ = errno;                                \
		if (got_ == -1) {                              \
			FAIL("%s: %s", #expr, errno_name(e_)); \
		}                                              \
		got_;                                          \
	})

/* As CHECK and CHECK_OK, where going on makes no sense: ends this process. */
#define NEED(cond)                                                         \
	do {                                                               \
		if (!(cond)) {                                             \
			FAIL("needed: %s (%s)", #cond, errno_name(errno)); \
			done();                                            \
		}                                                          \
	} while (0)
#define NEED_OK(expr)                                                     \
	({                                                                \
		long got_ = (long)(expr);                                 \
		if (got_ == -1) {                                         \
			FAIL("needed: %s: %s", #expr, errno_name(errno)); \
			done();                                           \
		}                                                         \
		got_;                                                     \
	})

/* ---- processes and threads -------------------------------------------------------------- */

/*
 * fork() that ends the test where it fails; the child starts with a clean result and must end with
 * done().
 */
pid_t xfork(void);
/* Waits for the child; its raw wait status, or -1. */
int wait_raw(pid_t pid);
/* Waits for the child and fails this process too if the child failed. */
#define join_child(pid) join_child_at(__FILE__, __LINE__, pid)
void join_child_at(const char *file, int line, pid_t pid);
/* Waits for the child, which must have been killed by this signal. */
#define CHECK_KILLED(pid, sig)                                               \
	({                                                                   \
		int st_ = wait_raw(pid);                                     \
		CHECK_MSG(WIFSIGNALED(st_) && WTERMSIG(st_) == (sig),        \
			  "wait status 0x%x, expected signal %d", st_, sig); \
	})

/* pthread_create() that ends the test where it fails. */
pthread_t start(void *(*fn)(void *), void *arg);
void join(pthread_t t);

/*
 * How many CPUs this process may use, and binding the calling thread to the nth of them (modulo
 * their number).
 */
int ncpus(void);
static inline int few_cpus(int most)
{
	return ncpus() < most ? ncpus() : most;
}
void pin(int nth);
void unpin(void);

/* A door between processes: pass() waits until somebody let() one through. */
struct door {
	int fd[2];
};
struct door door(void);
void let(struct door d);
void pass(struct door d);

/*
 * A meeting point of n threads or processes (must then lie in shared memory). Spins, then yields,
 * then naps.
 */
struct meet {
	volatile int here, round;
	int n;
	volatile bool over[2]; /* by the parity of the round: the leader may be one ahead */
};
void meet(struct meet *m);
/*
 * The same as the condition of a loop that all run in step: one leads, and says whether there is
 * another round.
 */
bool lead(struct meet *m, bool more);
bool follow(struct meet *m);

/* ---- memory ----------------------------------------------------------------------------- */

/* mmap() that ends the test where it fails. */
void *map(size_t len, int prot, int flags);
void *map_fd(size_t len, int prot, int flags, int fd, off_t off);
/* A range of the address space aligned to align, reserved PROT_NONE. */
void *reserve(size_t len, size_t align);
/* Takes `len` bytes out of the address space. */
void unmap(void *p, size_t len);
/* An unlinked file of this many bytes on tmpfs (memfd where there is one). */
int tmpfile_fd(off_t size);
/*
 * A path for a file of this test, in a directory that can be written; the text is overwritten by
 * the next call.
 */
const char *scratch(const char *name);

/* Raw calls, for arguments that libc would round or refuse. */
long raw_mmap(unsigned long addr, unsigned long len, int prot, int flags, int fd,
	      unsigned long off);
long raw_munmap(unsigned long addr, unsigned long len);
long raw_mprotect(unsigned long addr, unsigned long len, unsigned long prot);
long raw_madvise(unsigned long addr, unsigned long len, int advice);
long raw_mremap(unsigned long old, unsigned long oldlen, unsigned long len, int flags,
		unsigned long to);
unsigned long raw_brk(unsigned long to);

/* ---- faults ----------------------------------------------------------------------------- */

/* The last signal that loads(), stores() or jumps() caught in this thread. */
struct hit {
	int sig, code;
	uintptr_t addr;
};
extern __thread struct hit hit;
/*
 * Handlers for SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGTRAP that return to the innermost TRY of the
 * thread.
 */
extern __thread sigjmp_buf *volatile try_here;
void catch_faults(void);

#define barrier() __asm__ volatile("" ::: "memory")

/* Runs the statements; true if it ran to its end, false if a signal, now in `hit`, stopped it. */
#define TRY(...)                                  \
	({                                        \
		sigjmp_buf env_, *up_ = try_here; \
		volatile bool ok_ = false;        \
		catch_faults();                   \
		hit = (struct hit){ 0 };          \
		if (!sigsetjmp(env_, 0)) {        \
			try_here = &env_;         \
			barrier();                \
			__VA_ARGS__;              \
			barrier();                \
			ok_ = true;               \
		}                                 \
		try_here = up_;                   \
		ok_;                              \
	})

bool loads(const volatile void *p);      /* one byte is read */
bool stores(volatile void *p, int byte); /* one byte is written */
bool jumps(const volatile void *p);      /* it is called as a function */

#define CHECK_FAULT(try, sig_, code_, addr_)                                                      \
	({                                                                                        \
		bool ran_ = (try);                                                                \
		bool ok_ = !ran_ && hit.sig == (sig_) && hit.code == (code_) &&                   \
			   hit.addr == (uintptr_t)(addr_);                                        \
		if (ran_)                                                                         \
			FAIL("%s: no signal, expected %d/%d at 0x%lx", #try, (int)(sig_),         \
			     (int)(code_), (unsigned long)(uintptr_t)(addr_));                    \
		else if (!ok_)                                                                    \
			FAIL("%s: got signal %d code %d at 0x%lx, expected %d/%d at 0x%lx", #try, \
			     hit.sig, hit.code, hit.addr, (int)(sig_), (int)(code_),              \
			     (unsigned long)(uintptr_t)(addr_));                                  \
		ok_;                                                                              \
	})
#define CHECK_RUNS(try)                                                                            \
	({                                                                                         \
		bool ok_ = (try);                                                                  \
		if (!ok_) {                                                                        \
			FAIL("%s: signal %d code %d at 0x%lx", #try, hit.sig, hit.code, hit.addr); \
		}                                                                                  \
		ok_;                                                                               \
	})

/* Takes a SIGSEGV, SEGV_MAPERR at address 8. */
void crash(void);

#define SEGV_MAPERR_ 1
#define SEGV_ACCERR_ 2
#define BUS_ADRERR_  2
#define SI_KERNEL_   128

/* ---- what the kernel says about memory -------------------------------------------------- */

/* Whole file into buf, ended by a NUL; length or -1. */
long slurp(const char *path, char *buf, size_t size);
/* Writes text to an existing file; false if it could not be. */
bool spit(const char *path, const char *text);
/* The number after "name:" in a file of such lines (kB for most), or -1. */
long field(const char *path, const char *name);
/*
 * Of the area of /proc/self/smaps that holds p: the number of the line "name:", in kB; -1 if none.
 */
long smaps_kb(const void *p, const char *name);
/* The line of /proc/self/maps that holds p, or false. */
struct area {
	unsigned long start, end, off;
	char prot[5], name[128];
};
bool area_of(const void *p, struct area *a);
/* Areas that intersect [p, p + len). */
int areas_in(const void *p, size_t len);
/* Entry of /proc/self/pagemap, ~0 on error. Bit 63: present. */
uint64_t pagemap(const void *p);
#define PM_PRESENT (1ULL << 63)
#define PM_PFN(e)  ((e) & ((1ULL << 55) - 1))
bool resident(const void *p); /* by mincore() */

/* Minor faults that the calling thread or process had so far. */
long thread_faults(void);

/* ---- time, size of runs, the kernel's debugging files ----------------------------------- */

uint64_t now_ns(void);
void sleep_ms(long ms);
/* `n` rounds at scale 1, at least 3 unless n is less. */
long rounds(long n);
/*
 * Is there to be a round i of rounds(n)? Not if the test has failed, or has used up its second and
 * more at scale 1: on a slow emulator a race is run less often rather than longer.
 */
bool go_on(long i, long n);
/* A small, fast random number; the state is the caller's. */
uint32_t roll(uint32_t *state);
bool on_faultline(void);
/*
 * Makes the next thread that passes the race point wait there, once; false where there is none. Off
 * after the test.
 */
bool rp_arm(const char *name, int ms);
/* The nth allocation of this task from now on fails; false where there is no injection. */
bool fail_alloc(long nth);
/* How many allocations are still to come before the armed one; 0: it has failed. */
long fail_alloc_left(void);

static inline void pause_cpu(void)
{
	__builtin_ia32_pause();
}
/* Spin until another thread sets the flag. */
static inline void until(volatile bool *flag)
{
	for (int spins = 0; !*flag; spins++) {
		if (spins % 256 == 255)
			sched_yield();
		pause_cpu();
	}
}

#endif
