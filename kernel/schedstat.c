/*
 * What /proc shows of the scheduler: switches, CPU times, load.
 */
#include "kernel/runqueue.h"

#include "arch/x86_64/clock.h"
#include "arch/x86_64/smp.h"

u64 sched_switches(void)
{
	u64 n = 0;

	for_each_cpu(cpu, &cpus_online)
		n += READ_ONCE(queue_of(cpu)->switches);
	return n;
}

u32 sched_nr_running(void)
{
	u32 n = 0;

	for_each_cpu(cpu, &cpus_online)
		n += READ_ONCE(queue_of(cpu)->nr);
	return n;
}

void sched_cpu_times(u32 cpu, u64 *user, u64 *nice, u64 *system, u64 *idle)
{
	struct run_queue *q = queue_of(cpu);
	u64 flags = spin_lock_irqsave(&q->lock), now = clock_ns();
	u64 since = now - MIN(now, q->curr->last_switch_ns);

	*user = q->user_ns;
	*nice = q->nice_ns;
	*system = q->system_ns;
	*idle = q->idle_ns;
	/* The stretch in progress: how it divides only that CPU knows. */
	if (cpu_is_idle(q))
		*idle += since;
	else if (q->curr->kthread)
		*system += since;
	else
		*user += since;
	spin_unlock_irqrestore(&q->lock, flags);
}

/*
 * Load averages: how many CPUs were busy, with the weight of the past falling to 1/e in 1, 5 and 15 minutes. Nothing
 * ticks here: each look takes the mean since the last one, by the queues' times, and
 * ages in steps of five seconds, as the tools that read it expect.
 */
#define LOAD_STEP_NS 5000000000UL
#define LOAD_ONE     2048UL

DEFINE_LOCK_CLASS(load_class, "loadavg", RANK_NONE);
static struct {
	struct mutex lock; /* guards the rest */
	u64 last_ns, last_busy_ns;
	u64 load[3];
} load_state = { .lock = MUTEX_INIT(load_state.lock, &load_class) };

static u64 busy_ns(void)
{
	u64 sum = 0;

	for_each_cpu(cpu, &cpus_online) {
		u64 user, nice, system, idle;

		sched_cpu_times(cpu, &user, &nice, &system, &idle);
		sum += user + nice + system;
	}
	return sum;
}

void sched_loadavg(u64 load[3])
{
	/* e to the power of -5/60, -5/300, -5/900; in units of 1/2048 (as everybody computes them). */
	static const u64 keep[3] = { 1884, 2014, 2037 };
	u64 now, busy, mean, steps;

	mutex_lock(&load_state.lock);
	now = clock_ns();
	steps = (now - load_state.last_ns) / LOAD_STEP_NS;
	if (steps) {
		busy = busy_ns();
		mean = (busy - load_state.last_busy_ns) * LOAD_ONE / (now - load_state.last_ns);
		for (int i = 0; i < 3; i++) {
			u64 v = load_state.load[i];

			for (u64 n = MIN(steps, 2000UL); n; n--)
				v = (v * keep[i] + mean * (LOAD_ONE - keep[i])) / LOAD_ONE;
			load_state.load[i] = v;
		}
		load_state.last_ns = now;
		load_state.last_busy_ns = busy;
	}
	for (int i = 0; i < 3; i++)
		load[i] = load_state.load[i];
	mutex_unlock(&load_state.lock);
}
