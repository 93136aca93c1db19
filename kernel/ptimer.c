/*
 * POSIX timers: timer_create, timer_settime, ... How periodic timers and those on CPU time
 * work, and the locking, is said in ptimer.h.
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

u64 timer_forward(u64 expires, u64 interval, u64 now, u64 *missed)
{
	u64 n = now >= expires ? (now - expires) / interval : 0;

	*missed = n;
	return expires + (n + 1) * interval;
}

u64 timer_cpu_deadline(struct process *p, u64 left)
{
	return deadline_after(MAX(left / MAX(p->nr_threads, 1u), TIMER_MIN_INTERVAL));
}

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

	timer_arm(&pt->timer, pt->cpu_time ? timer_cpu_deadline(pt->process, left) : pt->expires);
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
		pt->expires = timer_forward(pt->expires, pt->interval, MAX(now, now + TIMER_MIN_INTERVAL),
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
		pt->expires = timer_forward(pt->expires, pt->interval, now, &missed);
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
	/* CPU clocks of the caller by their dynamic numbers: see cpu_clock_now(). */
	if (clock < 0 && (clock & 3) != 3) {
		int id = ~(clock >> 3);

		if (id && id != (clock & 4 ? current->tid : current->process->pid))
			return -EINVAL;
		clock = clock & 4 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_PROCESS_CPUTIME_ID;
	}
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
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_MONOTONIC_COARSE:
	case CLOCK_REALTIME_COARSE:
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
		expires = timer_forward(expires, pt->interval, now, &missed);
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

/* --- life -------------------- */

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
	itimers_exit(p);
	if (!list_empty(&p->posix_timers))
		timers_exec(p);
}

void ptimer_init(void)
{
	timer_cache = slab_create("posix_timer", sizeof(struct posix_timer), 8);
	ASSERT(timer_cache);
}
