/*
 * The functions of the C library that are replaced inside QEMU, as this object is also in
 * LD_PRELOAD.
 *
 *   clock_gettime     CLOCK_MONOTONIC is virtual time: HPET, ACPI timer, APIC timers follow it
 *   ppoll             the main loop sleeps until virtual time has come to its deadline and it
 *                     holds the baton
 *   pthread_cond_*    tells which halted vCPU is being woken, and who waits
 *   write             a vCPU that writes to an event descriptor gives the main loop work
 *   RDTSC             in vCPU threads is trapped: the guest's counter follows virtual time too
 *
 * Everything else keeps the host's time.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "metronome.h"

#define NS_PER_S 1000000000

static bool active;			/* QEMU has loaded the plugin */
static int kick_fd = -1;
static uint64_t tsc_at_start;		/* the guest's counter when it began to follow, */
static int64_t ns_at_start;		/* and virtual time then */
static double tsc_per_ns;		/* 0: it does not yet */
static double host_tsc_per_ns;

static int (*next_ppoll)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
static int (*next_cond_wait)(pthread_cond_t *, pthread_mutex_t *);
static int (*next_cond_broadcast)(pthread_cond_t *);
static int (*next_cond_signal)(pthread_cond_t *);

/*
 * Also called before main(), by constructors of other libraries: finds the originals at first use.
 */
static void find_originals(void)
{
	next_cond_wait = dlvsym(RTLD_NEXT, "pthread_cond_wait", "GLIBC_2.3.2");
	next_cond_broadcast = dlvsym(RTLD_NEXT, "pthread_cond_broadcast", "GLIBC_2.3.2");
	next_cond_signal = dlvsym(RTLD_NEXT, "pthread_cond_signal", "GLIBC_2.3.2");
	next_ppoll = dlsym(RTLD_NEXT, "ppoll");
}

int64_t host_now(void)
{
	struct timespec ts;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * (int64_t)NS_PER_S + ts.tv_nsec;
}

EXPORT int clock_gettime(clockid_t id, struct timespec *ts)
{
	int64_t now;

	if (!active || id != CLOCK_MONOTONIC)
		return syscall(SYS_clock_gettime, id, ts);
	now = virtual_now();
	ts->tv_sec = now / NS_PER_S;
	ts->tv_nsec = now % NS_PER_S;
	return 0;
}

void host_kick_main(void)
{
	uint64_t one = 1;

	syscall(SYS_write, kick_fd, &one, sizeof(one));
}

EXPORT ssize_t write(int fd, const void *data, size_t n)
{
	ssize_t written = syscall(SYS_write, fd, data, n);

	/*
	 * Told after the fact: while turns are off the main loop may take the event at once, and then
	 * is asked once more for nothing. Told before, it could be asleep with the event unseen when
	 * turns begin, and keep its old deadline.
	 */
	if (active && self >= 0 && written == sizeof(uint64_t))
		main_is_needed();
	return written;
}

EXPORT int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	int error;

	if (!next_cond_wait)
		find_originals();
	if (!active)
		return next_cond_wait(cond, mutex);
	waits_on(cond);
	error = next_cond_wait(cond, mutex);
	wait_for_waker(mutex);
	return error;
}

EXPORT int pthread_cond_broadcast(pthread_cond_t *cond)
{
	if (!next_cond_broadcast)
		find_originals();
	if (active)
		wakes(cond);
	return next_cond_broadcast(cond);
}

EXPORT int pthread_cond_signal(pthread_cond_t *cond)
{
	if (!next_cond_signal)
		find_originals();
	if (active)
		wakes(cond);
	return next_cond_signal(cond);
}

/* The main loop's sleep, in virtual time. `fds` has room for one more. */
static int poll_in_virtual_time(struct pollfd *fds, nfds_t n, int64_t deadline,
				const sigset_t *mask)
{
	struct timespec none = { 0, 0 };
	bool ready = false;
	int now = turns_are_on() ? next_ppoll(fds, n, &none, mask) : 0;

	/* With turns on, what is ready already belongs to this turn of the main loop. */
	if (now > 0)
		return now;
	main_enters_poll(deadline);
	for (;;) {
		bool on = turns_are_on();
		int64_t left = deadline == NEVER || on ? NEVER : deadline - virtual_now();
		bool due = left <= 0;
		struct timespec ts = { left / NS_PER_S, left % NS_PER_S };
		nfds_t first = on && ready ? n : 0;	/* do not spin on what is ready already */
		int got;

		if (main_may_leave_poll(ready, due))
			return next_ppoll(fds, n, &none, mask);
		got = next_ppoll(fds + first, n + 1 - first, left == NEVER ? NULL : &ts, mask);
		if (got < 0 && errno == EINTR && !on)
			ready = true;
		if (got <= 0)
			continue;
		if (fds[n].revents) {
			uint64_t kicks;

			syscall(SYS_read, kick_fd, &kicks, sizeof(kicks));
			got--;
		}
		ready |= got > 0;
	}
}

EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *ts, const sigset_t *mask)
{
	struct pollfd *all;
	int64_t deadline = NEVER;
	int got;

	if (!next_ppoll)
		find_originals();
	if (!active || gettid() != getpid() || (ts && !ts->tv_sec && !ts->tv_nsec))
		return next_ppoll(fds, n, ts, mask);
	if (ts)
		deadline = virtual_now() + ts->tv_sec * (int64_t)NS_PER_S + ts->tv_nsec;
	all = alloca((n + 1) * sizeof(*all));
	memcpy(all, fds, n * sizeof(*all));
	all[n] = (struct pollfd){ .fd = kick_fd, .events = POLLIN };
	got = poll_in_virtual_time(all, n, deadline, mask);
	memcpy(fds, all, n * sizeof(*all));
	return got;
}

/* ---- RDTSC ---- */

static uint64_t read_tsc(void)
{
	uint32_t low, high;

	asm volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

/*
 * RDTSC in a trapped thread. Only QEMU's helper for the guest's RDTSC uses it there: all our clock
 * reads are calls.
 */
static void on_segv(int signal, siginfo_t *info, void *context)
{
	static const uint8_t rdtsc[] = { 0x0f, 0x31 }, rdtscp[] = { 0x0f, 0x01, 0xf9 };
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	const void *code = (const void *)regs[REG_RIP];
	uint64_t tsc;

	if (info->si_code == SI_KERNEL && !memcmp(code, rdtsc, sizeof(rdtsc))) {
		regs[REG_RIP] += sizeof(rdtsc);
	} else if (info->si_code == SI_KERNEL && !memcmp(code, rdtscp, sizeof(rdtscp))) {
		regs[REG_RIP] += sizeof(rdtscp);
		regs[REG_RCX] = 0;
	} else {
		struct sigaction fatal = { .sa_handler = SIG_DFL };

		sigaction(signal, &fatal, NULL);	/* comes again at once, and ends QEMU */
		return;
	}
	tsc = tsc_at_start + (uint64_t)((double)(virtual_now() - ns_at_start) * tsc_per_ns);
	regs[REG_RAX] = (uint32_t)tsc;
	regs[REG_RDX] = (greg_t)(tsc >> 32);
}

/*
 * From the first region on the guest's counter is the host's of that moment plus virtual time at
 * the host's rate, as the guest may have measured it. With turns from power-on it starts at zero,
 * at 1 a nanosecond, to be the same in every run.
 */
void host_tsc_begins(void)
{
	if (tsc_per_ns != 0)
		return;
	if (options.whole_run) {
		tsc_per_ns = 1;
	} else {
		ns_at_start = virtual_now();
		tsc_at_start = read_tsc();
		tsc_per_ns = host_tsc_per_ns;
	}
}

void host_trap_tsc(void)
{
	static __thread bool trapped;

	if (!trapped)
		prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
	trapped = true;
}

static void calibrate_tsc(void)
{
	struct timespec a_while = { 0, 20000000 };
	int64_t ns = host_now();
	uint64_t tsc = read_tsc();
	double rate;

	nanosleep(&a_while, NULL);
	rate = (double)(read_tsc() - tsc) / (double)(host_now() - ns);
	host_tsc_per_ns = (double)(int)(rate * 1000 + 0.5) / 1000;
}

void host_start(void)
{
	struct sigaction segv = { .sa_sigaction = on_segv, .sa_flags = SA_SIGINFO | SA_NODEFER };

	if (dlsym(RTLD_DEFAULT, "clock_gettime") != (void *)clock_gettime) {
		fprintf(stderr,
			"metronome: the plugin must be in LD_PRELOAD too, to keep QEMU's time\n");
		_exit(BAD_USE);
	}
	find_originals();
	kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (kick_fd < 0) {
		perror("metronome: eventfd");
		_exit(BAD_USE);
	}
	calibrate_tsc();
	sigaction(SIGSEGV, &segv, NULL);
	active = true;
}
