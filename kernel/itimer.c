/*
 * Interval timers of old: setitimer, getitimer, alarm; one of each kind a process. ptimer.h
 * says how periodic timers and those on CPU time work, and the locking. The limit of CPU time is
 * watched by the timer that drives ITIMER_VIRTUAL and ITIMER_PROF.
 */
#include <asm/errno.h>
#include <linux/time.h>

#include "arch/x86_64/clock.h"
#include "kernel/ptimer.h"
#include "kernel/signal_internal.h"
#include "kernel/syscall.h"
#include "kernel/time.h"

/* --- ITIMER_REAL ------------------------------------------------------------- */

static void real_timer_fire(struct timer *timer)
{
	struct process *p = container_of(timer, struct process, real_timer);
	struct list garbage = LIST_INIT(garbage); /* stays empty: nothing undoes SIGALRM */
	struct sigqueue *none = NULL;
	siginfo_t info;
	u64 flags;

	siginfo_kernel(&info, SIGALRM);
	flags = spin_lock_irqsave(&p->siglock);
	p->real_fired = true;
	signal_send_locked(p, NULL, SIGALRM, &info, &none, &garbage);
	spin_unlock_irqrestore(&p->siglock, flags);
}

void real_timer_taken(struct process *p)
{
	u64 missed;

	if (!p->real_fired)
		return;
	p->real_fired = false;
	if (!p->real_interval) {
		p->real_expires = 0;
		return;
	}
	p->real_expires = timer_forward(p->real_expires, p->real_interval, clock_ns(), &missed);
	timer_arm(&p->real_timer, p->real_expires);
}

static void real_timer_get(struct process *p, u64 *left, u64 *interval)
{
	u64 now = clock_ns();

	*interval = p->real_interval;
	*left = !p->real_expires ? 0 : p->real_expires > now ? p->real_expires - now : 1000;
}

static void real_timer_set(struct process *p, u64 value, u64 interval, u64 *old_value,
			   u64 *old_interval)
{
	u64 flags;

	mutex_lock(&p->timer_mutex);
	timer_cancel(&p->real_timer);
	flags = spin_lock_irqsave(&p->siglock);
	real_timer_get(p, old_value, old_interval);
	p->real_expires = value ? deadline_after(value) : 0;
	p->real_interval = interval;
	p->real_fired = false;
	if (value)
		timer_arm(&p->real_timer, p->real_expires);
	spin_unlock_irqrestore(&p->siglock, flags);
	mutex_unlock(&p->timer_mutex);
}

/* --- ITIMER_VIRTUAL, ITIMER_PROF, RLIMIT_CPU -------------------------------------- */

static u64 limit_ns(u64 seconds)
{
	return seconds < NS_MAX / NS_PER_SEC ? seconds * NS_PER_SEC : NS_MAX;
}

/*
 * RLIMIT_CPU with `now` ns used: what to send, 0 for nothing. As in Linux the soft limit goes up by
 * a second with each SIGXCPU. *left: until the next look. siglock held.
 */
static int cpu_limit_check(struct process *p, u64 now, u64 *left)
{
	struct rlimit64 *limit = &p->rlim[RLIMIT_CPU];
	u64 hard = limit_ns(limit->rlim_max), soft = limit_ns(limit->rlim_cur);
	int sig = 0;

	if (hard != NS_MAX && now >= hard)
		return SIGKILL;
	if (soft != NS_MAX && now >= soft) {
		sig = SIGXCPU;
		WRITE_ONCE(limit->rlim_cur, limit->rlim_cur + 1);
		soft = now + NS_PER_SEC;
	}
	soft = MIN(soft, hard);
	if (soft != NS_MAX && (!*left || soft - now < *left))
		*left = soft - now;
	return sig;
}

static bool has_cpu_limit(const struct process *p)
{
	const struct rlimit64 *limit = &p->rlim[RLIMIT_CPU];

	return limit_ns(MIN(limit->rlim_cur, limit->rlim_max)) != NS_MAX;
}

/* Is there anything to look at CPU time for? siglock held. */
static bool cpu_timer_wanted(const struct process *p)
{
	return p->cpu_itimer[0].expires || p->cpu_itimer[1].expires || has_cpu_limit(p);
}

static void cpu_timer_fire(struct timer *timer)
{
	static const int signals[2] = { SIGVTALRM, SIGPROF };
	struct process *p = container_of(timer, struct process, cpu_timer);
	u64 now[2], left = 0, flags;
	bool fired[2] = { false, false };
	int limit_signal;

	now[0] = process_cpu_ns(p, true);
	now[1] = process_cpu_ns(p, false);
	flags = spin_lock_irqsave(&p->siglock);
	for (int i = 0; i < 2; i++) {
		struct cpu_itimer *it = &p->cpu_itimer[i];
		u64 missed;

		if (!it->expires)
			continue;
		if (now[i] >= it->expires) {
			fired[i] = true;
			it->expires = it->interval ? timer_forward(it->expires, it->interval, now[i],
							     &missed) : 0;
		}
		if (it->expires && (!left || it->expires - now[i] < left))
			left = it->expires - now[i];
	}
	limit_signal = cpu_limit_check(p, now[1], &left);
	if (left && p->live)
		timer_arm(&p->cpu_timer, timer_cpu_deadline(p, left));
	spin_unlock_irqrestore(&p->siglock, flags);
	for (int i = 0; i < 2; i++)
		if (fired[i])
			process_kill(p, signals[i]);
	if (limit_signal)
		process_kill(p, limit_signal);
}

static void cpu_timer_get(struct process *p, int which, u64 now, u64 *left, u64 *interval)
{
	struct cpu_itimer *it = &p->cpu_itimer[which];

	*interval = it->interval;
	*left = !it->expires ? 0 : it->expires > now ? it->expires - now : 1000;
}

static void cpu_timer_set(struct process *p, int which, u64 value, u64 interval, u64 *old_value,
			  u64 *old_interval)
{
	struct cpu_itimer *it = &p->cpu_itimer[which];
	u64 now = process_cpu_ns(p, which == 0), flags;

	mutex_lock(&p->timer_mutex);
	timer_cancel(&p->cpu_timer);
	flags = spin_lock_irqsave(&p->siglock);
	cpu_timer_get(p, which, now, old_value, old_interval);
	it->expires = value ? now + value : 0;
	it->interval = interval;
	if (cpu_timer_wanted(p))
		timer_arm(&p->cpu_timer, clock_ns() + TIMER_MIN_INTERVAL);
	spin_unlock_irqrestore(&p->siglock, flags);
	mutex_unlock(&p->timer_mutex);
}

void cpu_limit_changed(struct process *p)
{
	u64 flags;

	mutex_lock(&p->timer_mutex);
	timer_cancel(&p->cpu_timer);
	flags = spin_lock_irqsave(&p->siglock);
	if (p->live && cpu_timer_wanted(p))
		timer_arm(&p->cpu_timer, clock_ns() + TIMER_MIN_INTERVAL);
	spin_unlock_irqrestore(&p->siglock, flags);
	mutex_unlock(&p->timer_mutex);
}

void cpu_limit_start(struct process *p)
{
	if (has_cpu_limit(p))
		cpu_limit_changed(p);
}

/* --- the calls ------------------------------------------------------------------ */

static int put_itimer(vaddr_t user, u64 left, u64 interval)
{
	if (put_timeval(user, interval) || put_timeval(user + 16, left))
		return -EFAULT;
	return 0;
}

long sys_getitimer(u64 which, u64 user)
{
	struct process *p = current->process;
	u64 left, interval, flags, now;

	if (which > ITIMER_PROF)
		return -EINVAL;
	now = which ? process_cpu_ns(p, which == ITIMER_VIRTUAL) : 0;
	flags = spin_lock_irqsave(&p->siglock);
	if (which == ITIMER_REAL)
		real_timer_get(p, &left, &interval);
	else
		cpu_timer_get(p, (int)which - 1, now, &left, &interval);
	spin_unlock_irqrestore(&p->siglock, flags);
	return put_itimer(user, left, interval);
}

long sys_setitimer(u64 which, u64 user, u64 old)
{
	struct process *p = current->process;
	u64 value = 0, interval = 0, old_value, old_interval;
	int err;

	if (user) {
		err = get_timeval(user, &interval);
		if (!err)
			err = get_timeval(user + 16, &value);
		if (err)
			return err;
	}
	if (which > ITIMER_PROF)
		return -EINVAL;
	if (which == ITIMER_REAL)
		real_timer_set(p, value, interval, &old_value, &old_interval);
	else
		cpu_timer_set(p, (int)which - 1, value, interval, &old_value, &old_interval);
	return old ? put_itimer(old, old_value, old_interval) : 0;
}

long sys_alarm(u64 seconds)
{
	u64 old, interval;

	real_timer_set(current->process, (u32)seconds * NS_PER_SEC, 0, &old, &interval);
	/* Rounded to the nearest, but never to "none". */
	return old && old < NS_PER_SEC ? 1 : (long)((old + NS_PER_SEC / 2) / NS_PER_SEC);
}

/* --- life -------------------- */

void timers_init(struct process *p)
{
	timer_init(&p->real_timer, real_timer_fire);
	timer_init(&p->cpu_timer, cpu_timer_fire);
}

void itimers_exit(struct process *p)
{
	u64 value, interval;

	if (p->real_expires)
		real_timer_set(p, 0, 0, &value, &interval);
	if (cpu_timer_wanted(p))
		cpu_limit_changed(p); /* nobody lives: off */
}
