/*
 * Read-copy-update for a kernel that is not preempted.
 *
 * A CPU is quiescent when it holds no reference that it got under RCU: when it switches tasks, is in
 * user mode, or idle. A grace period has a number. It starts when somebody wants one and none is in
 * progress, and is over when each CPU has been quiescent once since. What was
 * unlinked before it started can then be freed.
 *
 *   start    `need` = all online CPUs, then `started` = its number, then a look at every
 *            CPU: who is idle is taken out of `need`, who is not gets WORK_RCU
 *   a CPU    compares `started` with the last number it has answered whenever it is
 *            quiescent (one load, mostly), and takes itself out of `need`
 *   end      by whoever takes out the last one: `completed` = its number; CPUs with callbacks
 *            that waited get WORK_RCU; the next one starts if it is wanted
 *
 * Idle CPUs are never disturbed: `rcu_idle` of a CPU is set (with a full barrier after it) when it
 * goes idle and cleared (likewise) before it does anything else. The starter has made
 * a full barrier between what was unlinked and its look. If it sees the CPU idle, then that CPU's next
 * references are taken after its barrier, and see the unlinking. Otherwise
 * it sets WORK_RCU and looks again: either this second look sees the CPU idle, or the CPU, which looks at
 * work_pending after saying that it is idle, sees the bit and does not sleep.
 *
 * A CPU that is in user mode or a long loop and does not answer within POKE_NS gets an interrupt, at once if
 * somebody is waiting (rcu_synchronize, rcu_barrier). The timer for that is armed only
 * while there is something to wait for.
 *
 * Callbacks: per CPU three lists. `next`: new ones, `wait`: those that wait for grace period wait_gp, and
 * those that are due, which rcu_process() calls. call_rcu() is a dozen instructions without a lock:
 * only the list's own CPU touches it, and an exchange makes it safe against interrupts.
 * The batch in `next` moves on when it is large enough, or its CPU has nothing else to do (rcu_hurry).
 * wait_gp is started + 1 at the time of asking: the one in progress has started too early.
 *
 * Lock: rcu.lock, interrupts off, takes nothing inside.
 */
#include "kernel/rcu.h"

#include "arch/x86_64/clock.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/smp.h"
#include "arch/x86_64/trap.h"
#include "kernel/lock.h"
#include "kernel/printk.h"
#include "kernel/task.h"
#include "kernel/timer.h"
#include "kernel/wait.h"

#define POKE_NS 2000000UL

DEFINE_LOCK_CLASS(rcu_class, "rcu", RANK_LEAF);

struct rcu_latest rcu_latest;

static struct {
	/* Written under lock, read by all. */
	u64 completed; /* of the latest grace period that is over: rcu_latest.started, or one less */
	u64 wanted;    /* start them up to this number */
	u64 start_ns;  /* of the latest */

	__cacheline spinlock_t lock;
	bool poke_armed;
	u32 unanswered; /* atomic: CPUs in need, and one for the starter until it has looked at all */

	__cacheline struct cpumask need; /* CPUs that have not answered; filled by the starter before started */

	/* CPUs that have a `wait` list: each sets and clears its own bit. */
	__cacheline struct cpumask callbacks;

	__cacheline u32 impatient; /* atomic: tasks in rcu_synchronize() or rcu_barrier() */
	struct wait_queue waiters; /* for completed, and for callbacks called */
	struct timer poke;
} rcu;

/* Own CPU, but idle and the last three, which all read. */
static __cacheline DEFINE_PER_CPU(u64, rcu_answered);
static DEFINE_PER_CPU(bool, rcu_idle);
static DEFINE_PER_CPU(bool, rcu_asked); /* WORK_RCU was set for `next` */
static DEFINE_PER_CPU(struct rcu_head *, next_first);
static DEFINE_PER_CPU(struct rcu_head *, next_last);
static DEFINE_PER_CPU(struct rcu_head *, wait_first);
static DEFINE_PER_CPU(u64, wait_gp);   /* of wait_first; 0: none */
static DEFINE_PER_CPU(u64, nr_queued); /* callbacks ever */
static DEFINE_PER_CPU(u64, nr_called);
static DEFINE_PER_CPU(u32, nr_next);   /* callbacks in `next` */

/* So many callbacks are worth a grace period; fewer wait until the CPU idles, or somebody is impatient. */
#define RCU_BATCH 32

/* What is to be done once rcu.lock is free. */
struct after {
	bool wake, arm;
	bool poke;
	struct cpumask cpus; /* to be poked */
};

u64 rcu_completed(void)
{
	return READ_ONCE(rcu.completed);
}

/* --- grace periods ------------------------------------------------------------------- */

static bool is_idle(u32 cpu)
{
	return READ_ONCE(per_cpu(rcu_idle, cpu));
}

static void ask(u32 cpu)
{
	atomic_or(per_cpu_ptr(work_pending, cpu), WORK_RCU);
}

/* Take a CPU out of need; true if it was the last to answer. */
static bool answer(u32 cpu)
{
	u64 bit = 1UL << (cpu % 64);

	return (__atomic_fetch_and(&rcu.need.bits[cpu / 64], ~bit, __ATOMIC_SEQ_CST) & bit) &&
	       atomic_sub(&rcu.unanswered, 1) == 0;
}

static void poke_later(struct after *after, const struct cpumask *cpus)
{
	after->poke = true;
	for (int i = 0; i < CPUMASK_WORDS; i++)
		after->cpus.bits[i] |= READ_ONCE(cpus->bits[i]);
}

/* True if it is over already: every CPU was idle. Lock held, none in progress. */
static bool start(struct after *after)
{
	struct cpumask online = cpus_online;

	rcu.start_ns = clock_ns();
	/* In this order: a CPU on its way out of report() may answer as soon as its bit is there. */
	WRITE_ONCE(rcu.unanswered, cpumask_count(&online) + 1);
	barrier();
	rcu.need = online;
	(void)atomic_xchg(&rcu_latest.started, rcu_latest.started + 1); /* need is seen before; what was unlinked, too */

	for_each_cpu(cpu, &online) {
		if (is_idle(cpu)) {
			answer(cpu);
			continue;
		}
		ask(cpu);
		if (is_idle(cpu))
			answer(cpu);
	}
	if (READ_ONCE(rcu.impatient))
		poke_later(after, &rcu.need);
	return atomic_sub(&rcu.unanswered, 1) == 0;
}

static void complete(struct after *after)
{
	smp_store_release(&rcu.completed, rcu_latest.started);
	smp_mb(); /* against rcu_process(): either it sees completed, or we its bit */
	for_each_cpu(cpu, &rcu.callbacks)
		ask(cpu);
	if (READ_ONCE(rcu.impatient)) {
		poke_later(after, &rcu.callbacks);
		after->wake = true;
	}
}

/* Start and complete whatever can be. Lock held. */
static void advance(struct after *after, bool over)
{
	for (;;) {
		if (over)
			complete(after);
		if (rcu_latest.started != rcu.completed || rcu_latest.started >= rcu.wanted)
			break;
		over = start(after);
	}
	if (!rcu.poke_armed && (rcu_latest.started != rcu.completed || !cpumask_empty(&rcu.callbacks))) {
		rcu.poke_armed = true;
		after->arm = true;
	}
}

static void finish(const struct after *after)
{
	if (after->arm)
		timer_arm(&rcu.poke, clock_ns() + POKE_NS);
	if (after->poke)
		send_ipi_mask(&after->cpus, VEC_RESCHEDULE);
	if (after->wake)
		wake_up_all(&rcu.waiters);
}

static void __noinline grace_period_over(void)
{
	struct after after = { 0 };
	u64 flags = spin_lock_irqsave(&rcu.lock);

	advance(&after, true);
	spin_unlock_irqrestore(&rcu.lock, flags);
	finish(&after);
}

static void __noinline report(u64 started)
{
	this_cpu_write(rcu_answered, started);
	if (answer(this_cpu()))
		grace_period_over();
}

/*
 * Should another grace period start just after the load, we may clear our bit of that one. That is right
 * all the same: we hold no reference now, after it has started.
 */
void rcu_quiescent(void)
{
	u64 started = READ_ONCE(rcu_latest.started);

	if (unlikely(this_cpu_read(rcu_answered) != started))
		report(started);
}

/*
 * Ask for a grace period that starts after now, and return its number. A full barrier lies
 * between what the caller has unlinked and this. Whoever is impatient pokes the CPUs at once.
 */
static u64 request(bool impatient)
{
	struct after after = { 0 };
	u64 gp = READ_ONCE(rcu_latest.started) + 1;
	u64 flags;

	if (!impatient && READ_ONCE(rcu.wanted) >= gp)
		return gp; /* it will start by itself */
	flags = spin_lock_irqsave(&rcu.lock);
	gp = rcu_latest.started + 1;
	rcu.wanted = MAX(rcu.wanted, gp);
	if (impatient && rcu_latest.started != rcu.completed)
		poke_later(&after, &rcu.need);
	advance(&after, false);
	spin_unlock_irqrestore(&rcu.lock, flags);
	finish(&after);
	return gp;
}

/* Time to remind those who keep others waiting. Interrupt context. */
static void poke(struct timer *t)
{
	struct after after = { 0 };
	u64 flags = spin_lock_irqsave(&rcu.lock), now = clock_ns(), next = now + POKE_NS;
	bool over = false;

	rcu.poke_armed = false;
	if (rcu_latest.started != rcu.completed) {
		if (now >= rcu.start_ns + POKE_NS) {
			for_each_cpu(cpu, &rcu.need) {
				ask(cpu);
				if (is_idle(cpu) && answer(cpu))
					over = true;
			}
			poke_later(&after, &rcu.need);
		} else {
			next = rcu.start_ns + POKE_NS;
		}
	}
	for_each_cpu(cpu, &rcu.callbacks) {
		if (READ_ONCE(per_cpu(wait_gp, cpu)) <= rcu.completed) {
			ask(cpu);
			cpumask_set(&after.cpus, cpu);
			after.poke = true;
		}
	}
	advance(&after, over);
	spin_unlock_irqrestore(&rcu.lock, flags);
	if (after.arm) {
		timer_arm(&rcu.poke, next);
		after.arm = false;
	}
	finish(&after);
}

/* --- idle --------------------------------------------------------------------------- */

void rcu_idle_enter(void)
{
	rcu_quiescent();
	(void)atomic_xchg(this_cpu_ptr(rcu_idle), true);
}

void rcu_idle_exit(void)
{
	(void)atomic_xchg(this_cpu_ptr(rcu_idle), false);
}

bool rcu_irq_enter(void)
{
	if (likely(!this_cpu_read(rcu_idle)))
		return false;
	rcu_idle_exit();
	return true;
}

void rcu_irq_exit(bool idle)
{
	if (idle)
		rcu_idle_enter();
}

/* --- callbacks -------------------------------------------------------------------------- */

void rcu_hurry(void)
{
	if (this_cpu_read(nr_next) && !this_cpu_read(rcu_asked)) {
		this_cpu_write(rcu_asked, true);
		work_set(WORK_RCU);
	}
}

void call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *))
{
	struct rcu_head *last = head;

	head->func = func;
	head->next = NULL;
	/* An interrupt between the two finds the list cut, but adds at its end only. */
	__asm__ __volatile__("xchg %0, %%gs:%1" : "+r"(last), "+m"(next_last)::"memory");
	if (last)
		WRITE_ONCE(last->next, head);
	else
		this_cpu_write(next_first, head);
	this_cpu_inc(nr_queued);
	this_cpu_inc(nr_next);
	if (unlikely(this_cpu_read(nr_next) >= RCU_BATCH || READ_ONCE(rcu.impatient)))
		rcu_hurry();
}

/* The callbacks that are due, taken off; moves on new ones. Interrupts off. */
static struct rcu_head *take_due(void)
{
	struct rcu_head *due = NULL;
	u32 cpu = this_cpu();
	u64 gp;

	if (this_cpu_read(wait_gp)) {
		if (this_cpu_read(wait_gp) > smp_load_acquire(&rcu.completed))
			return NULL;
		due = this_cpu_read(wait_first);
		this_cpu_write(wait_gp, 0);
		cpumask_clear(&rcu.callbacks, cpu);
	}
	if (this_cpu_read(next_first)) {
		this_cpu_write(wait_first, this_cpu_read(next_first));
		this_cpu_write(next_first, NULL);
		this_cpu_write(next_last, NULL);
		this_cpu_write(nr_next, 0);
		cpumask_set(&rcu.callbacks, cpu); /* a full barrier, too */
		gp = request(false);
		this_cpu_write(wait_gp, gp);
		smp_mb(); /* against complete() */
		if (READ_ONCE(rcu.completed) >= gp)
			work_set(WORK_RCU);
	}
	return due;
}

void rcu_process(void)
{
	struct rcu_head *due, *next;
	u64 called = 0;

	irq_disable();
	work_clear(WORK_RCU);
	rcu_quiescent();
	due = take_due();
	/* While some wait, complete() will ask; new ones need not. */
	this_cpu_write(rcu_asked, this_cpu_read(wait_gp) != 0);
	rcu_quiescent(); /* take_due() may have started one */
	irq_enable();
	if (!due)
		return;
	for (; due; due = next) {
		next = due->next; /* due may be freed */
		due->func(due);
		called++;
	}
	this_cpu_add(nr_called, called);
	smp_mb();
	if (READ_ONCE(rcu.impatient))
		wake_up_all(&rcu.waiters);
}

/* --- waiting ----------------------------------------------------------------------------- */

void rcu_synchronize(void)
{
	u64 gp;

	DEBUG_ASSERT(irqs_enabled());
	if (cpumask_count(&cpus_online) <= 1)
		return; /* nobody else, and we hold nothing */
	atomic_add(&rcu.impatient, 1); /* the barrier that request() needs */
	gp = request(true);
	wait_event(&rcu.waiters, smp_load_acquire(&rcu.completed) >= gp);
	atomic_sub(&rcu.impatient, 1);
}

DEFINE_LOCK_CLASS(rcu_barrier_class, "rcu_barrier", RANK_NONE);
static struct mutex barrier_mutex;     /* one barrier at a time: guards the next */
static u64 barrier_target[MAX_CPUS];   /* nr_called to wait for */

static bool all_called(void)
{
	for_each_cpu(cpu, &cpus_online)
		if (READ_ONCE(per_cpu(nr_called, cpu)) < barrier_target[cpu])
			return false;
	return true;
}

void rcu_barrier(void)
{
	struct cpumask busy = { 0 };

	mutex_lock(&barrier_mutex);
	atomic_add(&rcu.impatient, 1);
	for_each_cpu(cpu, &cpus_online) {
		barrier_target[cpu] = READ_ONCE(per_cpu(nr_queued, cpu));
		if (READ_ONCE(per_cpu(nr_called, cpu)) < barrier_target[cpu]) {
			ask(cpu);
			cpumask_set(&busy, cpu);
		}
	}
	send_ipi_mask(&busy, VEC_RESCHEDULE);
	while (!all_called()) {
		rcu_process(); /* this CPU may have nobody else to do it */
		wait_event(&rcu.waiters, all_called() || this_cpu_read(work_pending) & WORK_RCU);
	}
	atomic_sub(&rcu.impatient, 1);
	mutex_unlock(&barrier_mutex);
}

void rcu_init(void)
{
	spin_init(&rcu.lock, &rcu_class);
	wait_init(&rcu.waiters);
	timer_init(&rcu.poke, poke);
	mutex_init(&barrier_mutex, &rcu_barrier_class);
}

#ifdef DEBUG
static DEFINE_PER_CPU(u32, read_depth); /* own CPU */

void rcu_read_lock(void)
{
	this_cpu_inc(read_depth);
}

void rcu_read_unlock(void)
{
	DEBUG_ASSERT(this_cpu_read(read_depth) > 0);
	this_cpu_add(read_depth, -1);
}

bool rcu_reading(void)
{
	return this_cpu_read(read_depth) != 0;
}

void rcu_assert_none(void)
{
	if (rcu_reading() && !panicking())
		panic("an RCU reader gives up the CPU");
}
#endif
