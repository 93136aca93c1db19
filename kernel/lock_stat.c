/*
 * Lock statistics, per class, with lock.stat=1 or 2: /proc/lock_stat.
 *
 * Each CPU counts for itself with single instructions, so neither interrupts nor other CPUs
 * disturb; the reader adds up, and what is counted meanwhile may or may not be in it.
 *
 * How long a spinlock is held is measured on a per-CPU stack of the locks held: a spinlock is
 * released on the CPU that took it, even that of a run queue, which the next task
 * releases. An interrupt handler's entries are gone before it returns.
 */
#include "kernel/lock_internal.h"

#include "arch/x86_64/clock.h"
#include "arch/x86_64/percpu.h"
#include "arch/x86_64/smp.h"
#include "kernel/seq.h"

struct stat {
	u64 acquisitions, contended, spins, wait_ns, hold_ns;
};

struct holding {
	const spinlock_t *lock;
	u64 since;
};
#define MAX_HOLDING 16

static DEFINE_PER_CPU(struct stat, stats[MAX_LOCK_CLASSES + 1]);
static DEFINE_PER_CPU(struct holding, holding[MAX_HOLDING]);
static DEFINE_PER_CPU(u32, nr_holding); /* may exceed MAX_HOLDING: then the rest is not measured */

u64 lock_stat_clock(void)
{
	return lock_stat == STAT_COUNTS ? 0 : clock_ns();
}

void lock_stat_acquired(u32 class, u64 spins, bool contended, u64 wait_start)
{
	this_cpu_inc(stats[class].acquisitions);
	if (!contended)
		return;
	this_cpu_inc(stats[class].contended);
	this_cpu_add(stats[class].spins, spins);
	if (wait_start)
		this_cpu_add(stats[class].wait_ns, clock_ns() - wait_start);
}

void lock_stat_released(u32 class, u64 since)
{
	if (since)
		this_cpu_add(stats[class].hold_ns, clock_ns() - since);
}

void lock_stat_push(const spinlock_t *l)
{
	u32 i = this_cpu_read(nr_holding);

	this_cpu_inc(nr_holding); /* first: an interrupt from here on uses the next entry */
	if (i < MAX_HOLDING)
		(*this_cpu_ptr(holding))[i] = (struct holding){ l, lock_stat_clock() };
}

void lock_stat_pop(const spinlock_t *l)
{
	struct holding *h = *this_cpu_ptr(holding);
	u32 n = MIN(this_cpu_read(nr_holding), (u32)MAX_HOLDING), i;

	for (i = n; i > 0 && h[i - 1].lock != l; i--)
		;
	if (i) {
		lock_stat_released(l->class_id, h[i - 1].since);
		for (; i < n; i++)
			h[i - 1] = h[i];
	}
	this_cpu_add(nr_holding, -1);
}

void lock_stat_clear(void)
{
	for_each_cpu(cpu, &cpus_online)
		for (u32 i = 0; i <= MAX_LOCK_CLASSES; i++)
			per_cpu(stats, cpu)[i] = (struct stat){ 0 };
}

void lock_stat_show(struct seq *s)
{
	static const char *const kinds[] = { "tas", "ticket", "queued" };
	extern int lock_kind;

	seq_printf(s, "lock.kind %s, lock.stat %ld%s\n", kinds[lock_kind], lock_stat,
		   lock_stat ? "" : " (boot with lock.stat=1 to count)");
	seq_printf(s, "%-20s %14s %14s %16s %16s %16s\n", "class", "acquisitions", "contended", "spins",
		   "wait_ns", "hold_ns");
	for (u32 i = 0; i <= (u32)(__lock_classes_end - __lock_classes_start); i++) {
		struct lock_class *c = class_of_number(i);
		struct stat sum = { 0 };

		for_each_cpu(cpu, &cpus_online) {
			struct stat *p = &per_cpu(stats, cpu)[i];

			sum.acquisitions += READ_ONCE(p->acquisitions);
			sum.contended += READ_ONCE(p->contended);
			sum.spins += READ_ONCE(p->spins);
			sum.wait_ns += READ_ONCE(p->wait_ns);
			sum.hold_ns += READ_ONCE(p->hold_ns);
		}
		if (c || sum.acquisitions)
			seq_printf(s, "%-20s %14lu %14lu %16lu %16lu %16lu\n", c ? c->name : "(other)",
				   sum.acquisitions, sum.contended, sum.spins, sum.wait_ns, sum.hold_ns);
	}
}
