/*
 * Running out of memory (oom.h). In rounds: what only is cached is given back;
 * then the process with most memory is killed, with one line, and the
 * allocation waits for it to go, at most a while before the next is chosen.
 */
#include "mm/oom.h"
#include "arch/x86_64/clock.h"
#include "arch/x86_64/cpu.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/signal.h"
#include "mm/mm.h"
#include "mm/ptpage.h"
#include "mm/slab.h"
#include "mm/stats.h"
#include "mm/zone.h"

#include <asm/signal.h>

static struct mutex oom_lock = { .waiters = LIST_INIT(oom_lock.waiters) }; /* one killer at a time */

static bool killable(const struct process *p)
{
	return p != init_process && p->oom_score_adj > -1000;
}

/* Pages a process would free, as Linux weighs it; 0: not to be killed. */
static s64 badness(struct process *p, struct task *t)
{
	struct mm *mm;
	s64 points;

	if (!killable(p))
		return 0;
	mm = mm_of_task(t);
	if (!mm)
		return 0;
	points = (s64)mm_rss(mm) + mm_counter(mm, MM_TABLES);
	mm_put_user(mm);
	points += (s64)frames_total(NO_NODE) * p->oom_score_adj / 1000;
	return MAX(points, (s64)1);
}

/*
 * The address space of the last victim, until all its frames are free: its process is out of it long
 * before, and somebody who takes them as fast as they come must not make the next one a victim. Only
 * compared, never followed. Set under oom_lock, cleared by whoever unmaps.
 */
static struct mm *dying_mm;

void oom_mm_gone(struct mm *mm)
{
	if (unlikely(READ_ONCE(dying_mm) == mm))
		WRITE_ONCE(dying_mm, NULL);
}

/* SIGKILL to all processes in the victim's address space: not before the last is out it gives back anything. */
static void kill_all_in(struct mm *mm)
{
	bool all = true;

	WRITE_ONCE(dying_mm, mm);
	for (struct process *p = process_next(1); p; p = process_after(p)) {
		struct task *t = process_task(p);

		if (t && READ_ONCE(t->mm) == mm) {
			if (killable(p))
				process_kill(p, SIGKILL);
			else
				all = false;
		}
		if (t)
			task_put(t);
	}
	if (!all) /* nobody can tell when */
		oom_mm_gone(mm);
}

static void kill_victim(struct process *victim)
{
	struct task *t = process_task(victim);
	struct mm *mm = t ? mm_of_task(t) : NULL;

	if (mm) {
		kill_all_in(mm);
		mm_put_user(mm);
	}
	if (t)
		task_put(t);
}

/* True if somebody was killed, or one killed before is still on its way out. */
static bool kill_largest(void)
{
	struct process *victim = NULL;
	s64 most = 0;
	bool dying = READ_ONCE(dying_mm) != NULL;

	for (struct process *p = process_next(1); p; p = process_after(p)) {
		struct task *t = process_task(p);
		s64 points;

		if (!t)
			continue;
		if (t->mm && p->group_exit) {
			dying = true;
		} else if ((points = badness(p, t)) > most) {
			if (victim)
				process_put(victim);
			victim = process_get(p);
			most = points;
		}
		task_put(t);
	}
	if (victim && !dying) {
		printk("Out of memory: killed process %d, %lld kB; %llu kB free\n", victim->pid,
		       (long long)most * 4, (unsigned long long)frames_free(NO_NODE) * 4);
		stat_inc(STAT_OOM_KILL);
		kill_victim(victim);
		dying = true;
	}
	if (victim)
		process_put(victim);
	return dying;
}

bool reclaim(int round)
{
	struct task *t = current;

	if (!irqs_enabled() || !t)
		return false;
	lock_assert_none();
	if (round == 0) {
		rcu_barrier();
		quicklist_drain_all();
		pcp_drain_all();
		slab_shrink();
		return true;
	}
	if (t->kthread || fatal_signal_pending(t))
		return false; /* make way: the caller fails, or its signal ends it */
	mutex_lock(&oom_lock);
	if (round % 64 == 1 && !kill_largest()) {
		mutex_unlock(&oom_lock);
		return false;
	}
	mutex_unlock(&oom_lock);
	if (fatal_signal_pending(t))
		return false;
	/* Give the victim time to run and die. */
	set_current_state(TASK_KILLABLE);
	schedule_until(clock_ns() + 2000000);
	if (round % 8 == 0) {
		rcu_barrier();
		pcp_drain_all();
		quicklist_drain_all();
	}
	return round < 4096;
}
