/*
 * Clocks and sleeping: nanosleep, clock_*, gettimeofday, time, times, getrusage.
 * Interval timers are in ptimer.c.
 *
 * CLOCK_MONOTONIC, _RAW, _COARSE and BOOTTIME are one clock here (nothing slews it, nothing
 * suspends); the realtime clocks are that one plus an offset.
 */
#include "kernel/time.h"

#include <asm/errno.h>
#include <linux/resource.h>
#include <linux/time.h>
#include <linux/times.h>

#include "arch/x86_64/clock.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/signal.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "mm/mm.h"

/* --- conversions ---------------------------------------------------------------- */

int timespec_to_ns(const struct __kernel_timespec *ts, u64 *ns)
{
	if (ts->tv_sec < 0 || (u64)ts->tv_nsec >= NS_PER_SEC)
		return -EINVAL;
	if ((u64)ts->tv_sec >= NS_MAX / NS_PER_SEC)
		*ns = NS_MAX;
	else
		*ns = (u64)ts->tv_sec * NS_PER_SEC + (u64)ts->tv_nsec;
	return 0;
}

struct __kernel_timespec ns_to_timespec(u64 ns)
{
	return (struct __kernel_timespec){ .tv_sec = (s64)(ns / NS_PER_SEC),
					   .tv_nsec = (s64)(ns % NS_PER_SEC) };
}

int get_timespec(vaddr_t uts, u64 *ns)
{
	struct __kernel_timespec ts;

	if (copy_from_user(&ts, uts, sizeof(ts)))
		return -EFAULT;
	return timespec_to_ns(&ts, ns);
}

int put_timespec(vaddr_t uts, u64 ns)
{
	struct __kernel_timespec ts = ns_to_timespec(ns);

	return copy_to_user(uts, &ts, sizeof(ts)) ? -EFAULT : 0;
}

int get_timeval(vaddr_t utv, u64 *ns)
{
	s64 tv[2];
	struct __kernel_timespec ts;

	if (copy_from_user(tv, utv, sizeof(tv)))
		return -EFAULT;
	if (tv[1] < 0 || tv[1] >= 1000000)
		return -EINVAL;
	ts.tv_sec = tv[0];
	ts.tv_nsec = tv[1] * 1000;
	return timespec_to_ns(&ts, ns);
}

int put_timeval(vaddr_t utv, u64 ns)
{
	u64 tv[2] = { ns / NS_PER_SEC, ns % NS_PER_SEC / NS_PER_USEC };

	return copy_to_user(utv, tv, sizeof(tv)) ? -EFAULT : 0;
}

u64 deadline_after(u64 ns)
{
	u64 now = clock_ns();

	return ns >= NS_MAX - now ? NS_MAX : MAX(now + ns, 1UL);
}

int deadline_from_user(vaddr_t uts, u64 *deadline)
{
	u64 ns = 0;
	int err = get_timespec(uts, &ns);

	*deadline = deadline_after(ns);
	return err;
}

u64 deadline_of_clock(int clock, u64 ns)
{
	if (clock == CLOCK_REALTIME || clock == CLOCK_TAI || clock == CLOCK_REALTIME_ALARM) {
		u64 offset = clock_realtime_offset();

		ns = ns > offset ? ns - offset : 1;
	}
	return MIN(MAX(ns, 1UL), NS_MAX);
}

/* --- reading clocks --------------------------------------------------------------- */

u64 clock_realtime_ns(void)
{
	return clock_ns() + clock_realtime_offset();
}

u64 task_cpu_ns(struct task *t)
{
	struct usage u;

	usage_of_task(t, &u);
	return u.user_ns + u.system_ns;
}

u64 process_cpu_ns(struct process *p, bool user_only)
{
	struct usage u;

	process_usage(p, &u);
	return user_only ? u.user_ns : u.user_ns + u.system_ns;
}

/*
 * A negative clock number is another task's CPU clock: ~pid << 3, bit 2: a thread; the low
 * two bits say what counts (0 all of it, 1 user time, 2 scheduled time).
 */
static int cpu_clock_now(int clock, u64 *ns)
{
	int id = ~(clock >> 3), which = clock & 3;
	struct process *p;
	struct task *t;

	if (which == 3)
		return -EINVAL;
	if (clock & 4) {
		t = id ? task_by_tid(id) : NULL;
		if (id && (!t || t->process != current->process)) {
			if (t)
				task_put(t);
			return -EINVAL;
		}
		*ns = task_cpu_ns(t ? t : current);
		if (t)
			task_put(t);
		return 0;
	}
	p = id ? process_by_pid(id) : process_get(current->process);
	if (!p)
		return -EINVAL;
	*ns = process_cpu_ns(p, which == 1);
	process_put(p);
	return 0;
}

int clock_now(int clock, u64 *ns)
{
	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_COARSE:
	case CLOCK_TAI:
		*ns = clock_realtime_ns();
		return 0;
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_MONOTONIC_COARSE:
	case CLOCK_BOOTTIME:
		*ns = clock_ns();
		return 0;
	case CLOCK_PROCESS_CPUTIME_ID:
		*ns = process_cpu_ns(current->process, false);
		return 0;
	case CLOCK_THREAD_CPUTIME_ID:
		*ns = task_cpu_ns(current);
		return 0;
	}
	return clock < 0 ? cpu_clock_now(clock, ns) : -EINVAL;
}

long sys_clock_gettime(u64 clock, u64 uts)
{
	u64 ns;
	int err = clock_now((int)clock, &ns);

	return err ? err : put_timespec(uts, ns);
}

long sys_clock_getres(u64 clock, u64 uts)
{
	u64 ns;
	int err = clock_now((int)clock, &ns);

	if (err)
		return err;
	return uts ? put_timespec(uts, 1) : 0;
}

static long set_realtime(u64 ns)
{
	u64 now = clock_ns();

	if (!is_root())
		return -EPERM;
	if (ns < now)
		return -EINVAL; /* the offset would be negative */
	clock_set_realtime_offset(ns - now);
	return 0;
}

long sys_clock_settime(u64 clock, u64 uts)
{
	u64 ns;
	int err;

	if ((int)clock != CLOCK_REALTIME)
		return -EINVAL;
	err = get_timespec(uts, &ns);
	return err ? err : set_realtime(ns);
}

long sys_gettimeofday(u64 utv, u64 utz)
{
	u32 zone[2] = { 0, 0 };

	if (utv && put_timeval(utv, clock_realtime_ns()))
		return -EFAULT;
	if (utz && copy_to_user(utz, zone, sizeof(zone)))
		return -EFAULT;
	return 0;
}

long sys_settimeofday(u64 utv, u64 utz)
{
	u64 ns;
	int err;

	(void)utz; /* time zones are the C library's business */
	if (!utv)
		return is_root() ? 0 : -EPERM;
	err = get_timeval(utv, &ns);
	return err ? err : set_realtime(ns);
}

long sys_time(u64 ut)
{
	u64 seconds = clock_realtime_ns() / NS_PER_SEC;

	if (ut && put_user_u64(ut, seconds))
		return -EFAULT;
	return (long)seconds;
}

/* --- sleeping -------------------------------------------------------------------- */

/* 0 after the deadline, -EINTR before it. */
static int sleep_until(u64 deadline)
{
	struct wait_queue nobody;
	int ret;

	wait_init(&nobody);
	ret = wait_event_until(&nobody, false, deadline);
	return ret == -ETIMEDOUT ? 0 : ret;
}

/* The rest of a relative sleep, first or again; restart.addr: where the remainder goes. */
static long sleep_relative(struct restart *r)
{
	u64 now;

	if (!sleep_until(r->deadline_ns))
		return 0;
	now = clock_ns();
	if (r->addr && put_timespec(r->addr, r->deadline_ns > now ? r->deadline_ns - now : 0))
		return -EFAULT;
	r->func = sleep_relative;
	return -ERESTART_RESTARTBLOCK;
}

static long nanosleep_ns(u64 ns, vaddr_t urem)
{
	struct restart *r = &current->restart;

	r->deadline_ns = deadline_after(ns);
	r->addr = urem;
	return sleep_relative(r);
}

long sys_nanosleep(u64 ureq, u64 urem)
{
	u64 ns;
	int err = get_timespec(ureq, &ns);

	return err ? err : nanosleep_ns(ns, urem);
}

/*
 * Sleep on CPU time: others of the process have to use it up, so look
 * again when it can be up at the earliest.
 */
static long sleep_cpu_time(int clock, u64 until)
{
	u64 now;

	for (;;) {
		int err = clock_now(clock, &now);

		if (err)
			return err;
		if (now >= until)
			return 0;
		u32 threads = MAX(READ_ONCE(current->process->nr_threads), 1u);

		if (sleep_until(deadline_after(MAX((until - now) / threads, 1000000UL))))
			return -EINTR;
	}
}

/* Can one sleep on this clock? 0 and its time; or -errno. */
static int sleep_clock(int clock, u64 *now)
{
	switch (clock) {
	case CLOCK_THREAD_CPUTIME_ID: /* it stands still while its thread sleeps */
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_MONOTONIC_COARSE:
	case CLOCK_REALTIME_COARSE:
	case CLOCK_REALTIME_ALARM: /* there is no clock that could wake the machine */
	case CLOCK_BOOTTIME_ALARM:
		return -EOPNOTSUPP;
	}
	if (clock < 0 && (clock & 4) && (~(clock >> 3) == 0 || ~(clock >> 3) == current->tid))
		return -EINVAL;
	return clock_now(clock, now);
}

long sys_clock_nanosleep(u64 clock_, u64 flags, u64 ureq, u64 urem)
{
	int clock = (int)clock_;
	bool absolute = flags & TIMER_ABSTIME;
	u64 ns, now;
	int err;

	err = sleep_clock(clock, &now);
	if (err)
		return err;
	err = get_timespec(ureq, &ns);
	if (err)
		return err;
	if (clock < 0 || clock == CLOCK_PROCESS_CPUTIME_ID)
		return sleep_cpu_time(clock, absolute ? ns : now + ns);
	if (!absolute)
		return nanosleep_ns(ns, urem);
	return sleep_until(deadline_of_clock(clock, ns)) ? -ERESTARTNOHAND : 0;
}

/* --- accounting ------------------------------------------------------------------- */

void usage_add(struct usage *to, const struct usage *from)
{
	to->user_ns += from->user_ns;
	to->system_ns += from->system_ns;
	to->min_flt += from->min_flt;
	to->maj_flt += from->maj_flt;
	to->nvcsw += from->nvcsw;
	to->nivcsw += from->nivcsw;
	to->max_rss = MAX(to->max_rss, from->max_rss);
}

void usage_of_task(struct task *t, struct usage *out)
{
	memset(out, 0, sizeof(*out));
	task_times(t, &out->user_ns, &out->system_ns);
	out->min_flt = READ_ONCE(t->min_flt);
	out->maj_flt = READ_ONCE(t->maj_flt);
	out->nvcsw = READ_ONCE(t->nvcsw);
	out->nivcsw = READ_ONCE(t->nivcsw);
}

void process_usage(struct process *p, struct usage *out)
{
	struct usage one;
	u64 flags = spin_lock_irqsave(&p->siglock);

	*out = p->gone;
	list_for_each(t, &p->threads, struct task, thread_link) {
		usage_of_task(t, &one);
		usage_add(out, &one);
	}
	spin_unlock_irqrestore(&p->siglock, flags);
}

int usage_to_user(const struct usage *u, vaddr_t rusage)
{
	struct rusage r;

	memset(&r, 0, sizeof(r));
	r.ru_utime.tv_sec = (long)(u->user_ns / NS_PER_SEC);
	r.ru_utime.tv_usec = (long)(u->user_ns % NS_PER_SEC / NS_PER_USEC);
	r.ru_stime.tv_sec = (long)(u->system_ns / NS_PER_SEC);
	r.ru_stime.tv_usec = (long)(u->system_ns % NS_PER_SEC / NS_PER_USEC);
	r.ru_maxrss = (long)(u->max_rss * (PAGE_SIZE / 1024));
	r.ru_minflt = (long)u->min_flt;
	r.ru_majflt = (long)u->maj_flt;
	r.ru_nvcsw = (long)u->nvcsw;
	r.ru_nivcsw = (long)u->nivcsw;
	return copy_to_user(rusage, &r, sizeof(r)) ? -EFAULT : 0;
}

long sys_getrusage(u64 who, u64 rusage)
{
	struct process *p = current->process;
	struct usage u;
	u64 flags;

	switch ((int)who) {
	case RUSAGE_SELF:
		process_usage(p, &u);
		break;
	case RUSAGE_THREAD:
		usage_of_task(current, &u);
		break;
	case RUSAGE_CHILDREN:
		flags = spin_lock_irqsave(&p->siglock);
		u = p->reaped;
		spin_unlock_irqrestore(&p->siglock, flags);
		return usage_to_user(&u, rusage);
	default:
		return -EINVAL;
	}
	u.max_rss = MAX(u.max_rss, mm_rss_peak(current->mm));
	return usage_to_user(&u, rusage);
}

long sys_times(u64 utms)
{
	struct process *p = current->process;
	struct usage own, reaped;
	u64 flags;

	process_usage(p, &own);
	flags = spin_lock_irqsave(&p->siglock);
	reaped = p->reaped;
	spin_unlock_irqrestore(&p->siglock, flags);
	if (utms) {
		u64 tms[4] = { own.user_ns / NS_PER_TICK, own.system_ns / NS_PER_TICK,
			       reaped.user_ns / NS_PER_TICK, reaped.system_ns / NS_PER_TICK };

		if (copy_to_user(utms, tms, sizeof(tms)))
			return -EFAULT;
	}
	return (long)(clock_ns() / NS_PER_TICK);
}
