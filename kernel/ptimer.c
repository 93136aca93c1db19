/*
 * Interval timers: setitimer, alarm, timer_*.
 *
 * A periodic timer whose signal is still pending is not running: it starts again
 * when the signal is taken, which then tells how many intervals went by. So a
 * short interval costs a slow program signals, not interrupts.
 *
 * Timers on CPU time have no interrupt of their own. CPU time of a process passes no faster than
 * real time by the number of its threads, so the timer looks again when that could have made it
 * expire at the earliest.
 *
 * Locks: process->timer_mutex for everything that starts and stops timers; the siglock, which handlers take
 * (interrupt context), for the values. timer_cancel() waits for a handler, so it is never called
 * under the siglock; timer_arm() may be, as a handler that can still be running has left the siglock for good.
 */
#include "kernel/ptimer.h"

#include <asm/errno.h>
#include <linux/time.h>

#include "arch/x86_64/clock.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/printk.h"
#include "kernel/signal_internal.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "kernel/time.h"
#include "mm/slab.h"

#define MIN_INTERVAL  1000000UL /* between looks at CPU time, and of ignored signals */
#define MAX_OVERRUN   0x7fffffffUL
#define MAX_TIMERS    4096      /* of a process */

struct posix_timer {
	struct list link;        /* process->posix_timers; siglock */
	int id;                  /* constant, as all down to the next comment */
	int clock, notify;
	bool cpu_time;           /* on a CPU clock: expires counts CPU time */
	struct process *process; /* owner; outlives its timers */
	struct task *target;     /* SIGEV_THREAD_ID; with a reference */
	struct task *clock_task; /* CLOCK_THREAD_CPUTIME_ID; with a reference */
	/* siglock: */
	struct sigqueue *queue;
	struct timer timer;
	u64 expires, interval;   /* ns on the clock; 0 = off */
	u64 overrun;             /* intervals passed since the last signal was sent */
	u64 last_overrun;        /* timer_getoverrun() */
	bool requeue;            /* starts again when the signal is taken */
};

static struct slab_cache *timer_cache;

/* First multiple of the interval after now; *missed: how many were passed over. */
static u64 forward(u64 expires, u64 interval, u64 now, u64 *missed)
{
	u64 n = now >= expires ? (now - expires) / interval : 0;

	*missed = n;
	return expires + (n + 1) * interval;
}

/* Real time until `left` ns of CPU time can have passed at the earliest. */
static u64 cpu_deadline(struct process *p, u64 left)
{
	return deadline_after(MAX(left / MAX(p->nr_threads, 1u), MIN_INTERVAL));
}

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
	p->real_expires = forward(p->real_expires, p->real_interval, clock_ns(), &missed);
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

/* --- ITIMER_VIRTUAL, ITIMER_PROF ------------------------------------------------ */

static void cpu_timer_fire(struct timer *timer)
{
	static const int signals[2] = { SIGVTALRM, SIGPROF };
	struct process *p = container_of(timer, struct process, cpu_timer);
	u64 now[2], left = 0, flags;
	bool fired[2] = { false, false };

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
			it->expires = it->interval ? forward(it->expires, it->interval, now[i],
							     &missed) : 0;
		}
		if (it->expires && (!left || it->expires - now[i] < left))
			left = it->expires - now[i];
	}
	if (left)
		timer_arm(&p->cpu_timer, cpu_deadline(p, left));
	spin_unlock_irqrestore(&p->siglock, flags);
	for (int i = 0; i < 2; i++)
		if (fired[i])
			process_kill(p, signals[i]);
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
	if (p->cpu_itimer[0].expires || p->cpu_itimer[1].expires)
		timer_arm(&p->cpu_timer, clock_ns() + MIN_INTERVAL);
	spin_unlock_irqrestore(&p->siglock, flags);
	mutex_unlock(&p->timer_mutex);
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

/* --- POSIX timers ------------------------------------------------------------------ */

static u64 timer_now(struct posix_timer *pt)
{
	if (!pt->cpu_time)
		return clock_ns();
	return pt->clock_task ? task_cpu_ns(pt->clock_task) : process_cpu_ns(pt->process, false);
}

/* Run until expires. now: timer_now(). siglock held. */
static void timer_start(struct posix_timer *pt, u64 now)
{
	u64 left = pt->expires > now ? pt->expires - now : 0;

	timer_arm(&pt->timer, pt->cpu_time ? cpu_deadline(pt->process, left) : pt->expires);
}

static void posix_timer_fire(struct timer *timer)
{
	struct posix_timer *pt = container_of(timer, struct posix_timer, timer);
	struct process *p = pt->process;
	u64 now = timer_now(pt), flags = spin_lock_irqsave(&p->siglock), missed;

	if (pt->cpu_time && now < pt->expires) {
		timer_start(pt, now);
		goto out;
	}
	switch (signal_send_queue(p, pt->target, pt->queue)) {
	case 0:
		pt->requeue = pt->interval != 0;
		if (!pt->interval)
			pt->expires = 0;
		break;
	case -EBUSY: /* set anew while the signal of before is pending */
		pt->overrun++;
		/* fall through */
	default: /* ignored: keep time, but leisurely */
		if (!pt->interval) {
			pt->expires = 0;
			break;
		}
		pt->expires = forward(pt->expires, pt->interval, MAX(now, now + MIN_INTERVAL),
				      &missed);
		timer_start(pt, now);
	}
out:
	spin_unlock_irqrestore(&p->siglock, flags);
}

void posix_timer_taken(struct posix_timer *pt, siginfo_t *info)
{
	u64 missed = 0, now;

	lock_assert_held(&pt->process->siglock);
	if (pt->requeue) {
		pt->requeue = false;
		/* CPU time cannot be summed up under the siglock: the next look at it will. */
		now = pt->cpu_time ? pt->expires : clock_ns();
		pt->expires = forward(pt->expires, pt->interval, now, &missed);
		timer_start(pt, now);
	}
	pt->last_overrun = MIN(pt->overrun + missed, MAX_OVERRUN);
	pt->overrun = 0;
	info->si_overrun = (int)pt->last_overrun;
}

static struct posix_timer *timer_find(struct process *p, int id)
{
	list_for_each(pt, &p->posix_timers, struct posix_timer, link)
		if (pt->id == id)
			return pt;
	return NULL;
}

/* Off the list already, timer_mutex held or nobody else left. */
static void timer_destroy(struct posix_timer *pt)
{
	struct process *p = pt->process;
	u64 flags;

	timer_cancel(&pt->timer);
	flags = spin_lock_irqsave(&p->siglock);
	if (!list_empty(&pt->queue->link)) {
		pt->queue->timer = NULL; /* whoever takes it frees it */
		pt->queue = NULL;
	}
	spin_unlock_irqrestore(&p->siglock, flags);
	sigqueue_free(pt->queue);
	if (pt->target)
		task_put(pt->target);
	if (pt->clock_task)
		task_put(pt->clock_task);
	slab_free(timer_cache, pt);
}

/* struct sigevent as the ABI has it. */
struct user_sigevent {
	u64 value;
	s32 signo, notify, tid;
	s32 pad[11];
};

#define SIGEV_THREAD_ID_BIT 4

static int timer_set_clock(struct posix_timer *pt, int clock)
{
	pt->clock = clock;
	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_MONOTONIC:
	case CLOCK_BOOTTIME:
	case CLOCK_TAI:
		return 0;
	case CLOCK_THREAD_CPUTIME_ID:
		pt->clock_task = current;
		task_get(current);
		/* fall through */
	case CLOCK_PROCESS_CPUTIME_ID:
		pt->cpu_time = true;
		return 0;
	case CLOCK_REALTIME_ALARM:
	case CLOCK_BOOTTIME_ALARM:
		return -EOPNOTSUPP;
	}
	return -EINVAL;
}

static int timer_set_event(struct posix_timer *pt, const struct user_sigevent *ev)
{
	siginfo_t *info = &pt->queue->info;
	int kind = ev->notify & ~SIGEV_THREAD_ID_BIT;

	pt->notify = kind;
	if (ev->notify != SIGEV_NONE && ev->notify != SIGEV_SIGNAL && ev->notify != SIGEV_THREAD &&
	    ev->notify != (SIGEV_SIGNAL | SIGEV_THREAD_ID_BIT))
		return -EINVAL;
	if (ev->notify & SIGEV_THREAD_ID_BIT) {
		pt->target = task_by_tid(ev->tid);
		if (!pt->target || pt->target->process != current->process)
			return -EINVAL;
	}
	if (kind != SIGEV_NONE && (ev->signo < 1 || ev->signo > NSIGNALS))
		return -EINVAL;
	info->si_signo = ev->signo;
	info->si_code = SI_TIMER;
	info->si_tid = pt->id;
	info->si_ptr = (void *)ev->value;
	return 0;
}

/* A number for the timer, and onto the list. */
static int timer_enlist(struct process *p, struct posix_timer *pt)
{
	u64 flags = spin_lock_irqsave(&p->siglock);
	int tries = 0;

	while (timer_find(p, p->next_timer_id) && tries++ < MAX_TIMERS)
		p->next_timer_id = (p->next_timer_id + 1) % MAX_TIMERS;
	pt->id = p->next_timer_id;
	if (tries <= MAX_TIMERS) {
		p->next_timer_id = (p->next_timer_id + 1) % MAX_TIMERS;
		list_add(&p->posix_timers, &pt->link);
	}
	spin_unlock_irqrestore(&p->siglock, flags);
	return tries <= MAX_TIMERS ? 0 : -EAGAIN;
}

static void timer_delist(struct process *p, struct posix_timer *pt)
{
	u64 flags = spin_lock_irqsave(&p->siglock);

	list_del(&pt->link);
	spin_unlock_irqrestore(&p->siglock, flags);
}

long sys_timer_create(u64 clock, u64 uevent, u64 uid)
{
	struct process *p = current->process;
	struct user_sigevent ev;
	struct posix_timer *pt;
	int err;

	pt = slab_zalloc(timer_cache);
	if (!pt)
		return -EAGAIN;
	list_init(&pt->link);
	pt->process = p;
	timer_init(&pt->timer, posix_timer_fire);
	pt->queue = sigqueue_alloc();
	if (!pt->queue) {
		slab_free(timer_cache, pt);
		return -EAGAIN;
	}
	pt->queue->timer = pt;
	mutex_lock(&p->timer_mutex);
	err = timer_set_clock(pt, (int)clock);
	if (!err)
		err = timer_enlist(p, pt);
	if (!err) {
		memset(&ev, 0, sizeof(ev));
		ev.signo = SIGALRM;
		ev.value = (u64)(u32)pt->id;
		if (uevent && copy_from_user(&ev, uevent, sizeof(ev)))
			err = -EFAULT;
		if (!err)
			err = timer_set_event(pt, &ev);
		if (!err && put_user_u32(uid, (u32)pt->id))
			err = -EFAULT;
		if (err)
			timer_delist(p, pt);
	}
	if (err)
		timer_destroy(pt);
	mutex_unlock(&p->timer_mutex);
	return err;
}

/* What is left and the interval. siglock held. */
static void timer_get(struct posix_timer *pt, u64 now, u64 *left, u64 *interval)
{
	u64 missed, expires = pt->expires;

	*interval = pt->interval;
	if (expires && expires <= now && pt->interval)
		expires = forward(expires, pt->interval, now, &missed);
	if (pt->notify == SIGEV_NONE && !pt->interval && expires <= now)
		expires = 0;
	*left = !expires ? 0 : expires > now ? expires - now : 1;
}

static int put_itimerspec(vaddr_t user, u64 left, u64 interval)
{
	if (put_timespec(user, interval) || put_timespec(user + 16, left))
		return -EFAULT;
	return 0;
}

long sys_timer_gettime(u64 id, u64 user)
{
	struct process *p = current->process;
	struct posix_timer *pt;
	u64 left = 0, interval = 0, now, flags;

	mutex_lock(&p->timer_mutex);
	pt = timer_find(p, (int)id);
	if (pt) {
		now = timer_now(pt);
		flags = spin_lock_irqsave(&p->siglock);
		timer_get(pt, now, &left, &interval);
		spin_unlock_irqrestore(&p->siglock, flags);
	}
	mutex_unlock(&p->timer_mutex);
	return pt ? put_itimerspec(user, left, interval) : -EINVAL;
}

long sys_timer_settime(u64 id, u64 tflags, u64 new, u64 old)
{
	struct process *p = current->process;
	struct posix_timer *pt;
	u64 value, interval, left = 0, old_interval = 0, now, flags;
	int err;

	if (!new)
		return -EINVAL;
	err = get_timespec(new, &interval);
	if (!err)
		err = get_timespec(new + 16, &value);
	if (err)
		return err;
	mutex_lock(&p->timer_mutex);
	pt = timer_find(p, (int)id);
	if (pt) {
		timer_cancel(&pt->timer);
		now = timer_now(pt);
		flags = spin_lock_irqsave(&p->siglock);
		timer_get(pt, now, &left, &old_interval);
		pt->requeue = false;
		pt->overrun = 0;
		pt->last_overrun = 0;
		pt->interval = interval;
		if (!value)
			pt->expires = 0;
		else if (!(tflags & TIMER_ABSTIME))
			pt->expires = value >= NS_MAX - now ? NS_MAX : now + value;
		else
			pt->expires = pt->cpu_time ? value : deadline_of_clock(pt->clock, value);
		if (pt->expires && pt->notify != SIGEV_NONE)
			timer_start(pt, now);
		spin_unlock_irqrestore(&p->siglock, flags);
	}
	mutex_unlock(&p->timer_mutex);
	if (!pt)
		return -EINVAL;
	return old ? put_itimerspec(old, left, old_interval) : 0;
}

long sys_timer_getoverrun(u64 id)
{
	struct process *p = current->process;
	struct posix_timer *pt;
	long ret = -EINVAL;
	u64 flags = spin_lock_irqsave(&p->siglock);

	pt = timer_find(p, (int)id);
	if (pt)
		ret = (long)pt->last_overrun;
	spin_unlock_irqrestore(&p->siglock, flags);
	return ret;
}

long sys_timer_delete(u64 id)
{
	struct process *p = current->process;
	struct posix_timer *pt;

	mutex_lock(&p->timer_mutex);
	pt = timer_find(p, (int)id);
	if (pt) {
		timer_delist(p, pt);
		timer_destroy(pt);
	}
	mutex_unlock(&p->timer_mutex);
	return pt ? 0 : -EINVAL;
}

/* --- life --------------------------------------------------------------------------- */

void timers_init(struct process *p)
{
	timer_init(&p->real_timer, real_timer_fire);
	timer_init(&p->cpu_timer, cpu_timer_fire);
}

void timers_exec(struct process *p)
{
	mutex_lock(&p->timer_mutex);
	while (!list_empty(&p->posix_timers)) {
		struct posix_timer *pt = list_first(&p->posix_timers, struct posix_timer, link);

		timer_delist(p, pt);
		timer_destroy(pt);
	}
	mutex_unlock(&p->timer_mutex);
}

void timers_exit(struct process *p)
{
	u64 value, interval;

	if (p->real_expires)
		real_timer_set(p, 0, 0, &value, &interval);
	if (p->cpu_itimer[0].expires || p->cpu_itimer[1].expires) {
		cpu_timer_set(p, 0, 0, 0, &value, &interval);
		cpu_timer_set(p, 1, 0, 0, &value, &interval);
	}
	if (!list_empty(&p->posix_timers))
		timers_exec(p);
}

void ptimer_init(void)
{
	timer_cache = slab_create("posix_timer", sizeof(struct posix_timer), 8);
	ASSERT(timer_cache);
}
