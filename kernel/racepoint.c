/*
 * Race points and fault injection (debug builds), and the files of this room.
 *
 * A race point is a named place between two steps that another CPU might get in between of. A test
 * arms a name with a time; the next thread that comes by stays there that long, once, so that the other side of the
 * race surely comes. It sleeps where it may, and spins where it may not.
 *
 *   /sys/kernel/mm/faultline/racepoints   read: a line "name hits [armed ms]" for each that was passed or armed;
 *                                         write "name ms"; 0 disarms
 *   /sys/kernel/mm/faultline/fail_nth     write N: the Nth next allocation of the writing task fails; read:
 *                                         how many are still to come, 0 if it has failed
 *
 * The table only grows. An entry is complete before the count that makes it visible is raised, under the lock; looking it
 * up takes none.
 */
#include "kernel/lock.h"
#include "kernel/printk.h"
#include "kernel/seq.h"

#ifdef DEBUG

#include <asm/errno.h>

#include "arch/x86_64/clock.h"
#include "arch/x86_64/cpu.h"
#include "kernel/lock_internal.h"
#include "kernel/param.h"
#include "kernel/rcu.h"
#include "kernel/sched.h"
#include "kernel/string.h"

#define MAX_POINTS 128
#define NAME_MAX   48
#define MS_MAX     10000

struct point {
	char name[NAME_MAX];
	u32 ms;   /* atomic: not 0 = armed; who exchanges it for 0 parks */
	u64 hits; /* atomic */
};

static struct point points[MAX_POINTS];
static u32 nr_points; /* grows under points_lock */
static spinlock_t points_lock;

static struct point *find(const char *name)
{
	u32 n = smp_load_acquire(&nr_points);

	for (u32 i = 0; i < n; i++)
		if (!strcmp(points[i].name, name))
			return &points[i];
	return NULL;
}

/* Entry of a name, made if there is none. NULL: too many, or too long. */
static struct point *find_or_add(const char *name)
{
	struct point *p = find(name);
	u64 flags;

	if (p || strlen(name) >= NAME_MAX)
		return p;
	flags = spin_lock_irqsave(&points_lock);
	p = find(name);
	if (!p && nr_points < MAX_POINTS) {
		p = &points[nr_points];
		str_copy(p->name, name, NAME_MAX);
		smp_store_release(&nr_points, nr_points + 1);
	}
	spin_unlock_irqrestore(&points_lock, flags);
	return p;
}

static bool may_sleep(void)
{
	struct task *t = current;

	return t && irqs_enabled() && lock_none_held() && !rcu_reading() &&
	       t->state == TASK_RUNNING && !task_is_idle(t);
}

static void park(u32 ms)
{
	u64 until = clock_ns() + ms * 1000000UL;

	if (may_sleep()) {
		do {
			set_current_state(TASK_UNINTERRUPTIBLE);
		} while (schedule_until(until));
		return;
	}
	while (clock_ns() < until)
		cpu_relax();
}

void racepoint(const char *name)
{
	struct point *p = find_or_add(name);
	u32 ms;

	if (!p)
		return;
	atomic_add(&p->hits, 1);
	if (likely(!READ_ONCE(p->ms)))
		return;
	ms = atomic_xchg(&p->ms, 0);
	if (ms)
		park(ms);
}

static void racepoints_show(struct seq *s, void *arg)
{
	u32 n = smp_load_acquire(&nr_points);

	for (u32 i = 0; i < n; i++) {
		u32 ms = READ_ONCE(points[i].ms);

		seq_printf(s, "%s %lu", points[i].name, READ_ONCE(points[i].hits));
		if (ms)
			seq_printf(s, " armed %u", ms);
		seq_puts(s, "\n");
	}
}

static long racepoints_write(const char *text, size_t n, void *arg)
{
	char name[NAME_MAX];
	struct point *p;
	const char *end;
	size_t len = 0;
	u64 ms;

	while (text[len] && text[len] != ' ')
		len++;
	if (!len || len >= NAME_MAX || !text[len])
		return -EINVAL;
	memcpy(name, text, len);
	name[len] = 0;
	if (parse_u64(text + len + 1, &end, &ms) || (*end && strcmp(end, "\n")) || ms > MS_MAX)
		return -EINVAL;
	p = find_or_add(name);
	if (!p)
		return -ENOSPC;
	(void)atomic_xchg(&p->ms, (u32)ms);
	return (long)n;
}

/* --- fault injection --------------------------------------------------------------------- */

/* Interrupt handlers' allocations, if there were any, would count as the interrupted task's. */
bool fault_inject(void)
{
	struct task *t = current;

	return t && unlikely(t->fail_nth) && --t->fail_nth == 0;
}

static void fail_nth_show(struct seq *s, void *arg)
{
	seq_printf(s, "%u\n", current->fail_nth);
}

static long fail_nth_write(const char *text, size_t n, void *arg)
{
	const char *end;
	u64 nth;

	if (parse_u64(text, &end, &nth) || (*end && strcmp(end, "\n")) || nth > 1000000)
		return -EINVAL;
	current->fail_nth = (u32)nth;
	return (long)n;
}

#endif

static void show_lock_stat(struct seq *s, void *arg)
{
	lock_stat_show(s);
}

static long clear_lock_stat(const char *text, size_t n, void *arg)
{
	lock_stat_clear();
	return (long)n;
}

void debug_files_init(void)
{
	pseudo_file("/proc/lock_stat", show_lock_stat, clear_lock_stat, NULL);
#ifdef DEBUG
	pseudo_file("/sys/kernel/mm/faultline/racepoints", racepoints_show, racepoints_write, NULL);
	pseudo_file("/sys/kernel/mm/faultline/fail_nth", fail_nth_show, fail_nth_write, NULL);
#endif
}
