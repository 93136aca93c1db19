/*
 * Which CPU a task runs on: where it wakes up, and who comes for it when it has to wait.
 *
 * A task wakes up on the CPU it ran on last if that is idle; else on an idle one of the same node; else on an
 * idle one of another node, nearest first; else where it was. A CPU that becomes idle takes a waiting
 * task from another, in the same order of nodes. So there is no balancing at
 * regular times: it happens when somebody has nothing to do, or too much.
 *
 * For that each node keeps two sets of its CPUs, in cache lines of its own: the idle ones, and those with
 * more than one task; and two words say which nodes have any. With nothing to find, looking costs one load.
 *
 * The sets are changed by locked instructions, and are hints, but for two things that they promise:
 *  - an idle CPU is chosen by one waker: who clears its bit has it;
 *  - no task waits while a CPU that could run it idles: a CPU says that it is idle and
 *    then looks for others' tasks; who queues a second task says so and then looks for idle CPUs
 *    (invite_idle). Full barriers between, so one of them sees the other.
 */
#include "kernel/runqueue.h"

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/smp.h"
#include "kernel/printk.h"
#include "mm/node.h"

static struct node_cpus {
	__cacheline struct cpumask idle;       /* CPUs that nobody has chosen yet */
	__cacheline struct cpumask overloaded; /* CPUs whose queue has two tasks or more */
	__cacheline struct cpumask all;        /* online or not; constant after boot */
} node_cpus[MAX_NODES];

/* Bit n: node n may have some. */
static __cacheline u64 nodes_idle;
static __cacheline u64 nodes_overloaded;

static u8 nearest[MAX_NODES][MAX_NODES]; /* all nodes, by distance from the first index; constant after boot */

void place_init(void)
{
	for (int from = 0; from < num_nodes; from++) {
		for (int i = 0; i < num_nodes; i++) {
			int at = i;

			for (; at && node_distance[from][nearest[from][at - 1]] > node_distance[from][i]; at--)
				nearest[from][at] = nearest[from][at - 1];
			nearest[from][at] = i;
		}
	}
	for (u32 cpu = 0; cpu < num_cpus; cpu++)
		cpumask_set(&node_cpus[cpu_to_node[cpu]].all, cpu);
}

static void set_bit_of(struct cpumask *set, u64 *nodes, u32 cpu, int node)
{
	cpumask_set(set, cpu);
	if (!(READ_ONCE(*nodes) & 1UL << node))
		atomic_or(nodes, 1UL << node);
}

static void node_now_empty(struct cpumask *set, u64 *nodes, int node)
{
	if (!cpumask_empty(set))
		return;
	atomic_and(nodes, ~(1UL << node));
	if (!cpumask_empty(set)) /* somebody came in between, and saw the bit still set */
		atomic_or(nodes, 1UL << node);
}

void mark_overloaded(struct run_queue *q, bool overloaded)
{
	int node = cpu_to_node[q->cpu];
	struct cpumask *set = &node_cpus[node].overloaded;

	if (overloaded) {
		set_bit_of(set, &nodes_overloaded, q->cpu, node);
	} else {
		cpumask_clear(set, q->cpu);
		node_now_empty(set, &nodes_overloaded, node);
	}
}

/* True if it was idle and chosen by nobody. */
static bool claim(u32 cpu)
{
	int node = cpu_to_node[cpu];
	struct cpumask *set = &node_cpus[node].idle;
	u64 bit = 1UL << (cpu % 64);

	if (!cpumask_test(set, cpu) ||
	    !(__atomic_fetch_and(&set->bits[cpu / 64], ~bit, __ATOMIC_SEQ_CST) & bit))
		return false;
	node_now_empty(set, &nodes_idle, node);
	return true;
}

void mark_idle(bool idle)
{
	u32 cpu = this_cpu();
	int node = this_node();

	if (idle) {
		set_bit_of(&node_cpus[node].idle, &nodes_idle, cpu, node);
		smp_mb();
	} else {
		claim(cpu);
	}
}

/* An idle CPU out of `allowed`, near `node`; claimed. Or MAX_CPUS. */
static u32 claim_near(int node, const struct cpumask *allowed)
{
	u64 nodes = READ_ONCE(nodes_idle);

	for (int i = 0; nodes && i < num_nodes; i++) {
		int n = nearest[node][i];

		if (!(nodes & 1UL << n))
			continue;
		nodes &= ~(1UL << n);
		for (u32 w = 0; w * 64 < num_cpus; w++) {
			u64 bits = READ_ONCE(node_cpus[n].idle.bits[w]) & allowed->bits[w];

			for (; bits; bits &= bits - 1) {
				u32 cpu = w * 64 + (u32)__builtin_ctzl(bits);

				if (claim(cpu))
					return cpu;
			}
		}
	}
	return MAX_CPUS;
}

/* The online CPU of a set with the fewest tasks, or MAX_CPUS. */
static u32 least_loaded(const struct cpumask *set, const struct cpumask *allowed)
{
	u32 best = MAX_CPUS, best_nr = ~0u;

	for_each_cpu(cpu, allowed) {
		u32 nr;

		if (!cpumask_test(set, cpu) || !cpumask_test(&cpus_online, cpu))
			continue;
		nr = READ_ONCE(queue_of(cpu)->nr);
		if (nr < best_nr) {
			best = cpu;
			best_nr = nr;
		}
	}
	return best;
}

u32 place(struct task *t, bool new)
{
	u32 cpu = t->cpu, found;

	if (cpumask_test(&t->affinity, cpu) && !new && claim(cpu))
		return cpu;
	found = claim_near(cpu_to_node[cpu], &t->affinity);
	if (found < MAX_CPUS)
		return found;
	if (cpumask_test(&t->affinity, cpu) && !new)
		return cpu;
	/* Nobody idles: on the same node if that is allowed, else anywhere. */
	found = least_loaded(&node_cpus[cpu_to_node[cpu]].all, &t->affinity);
	if (found == MAX_CPUS)
		found = least_loaded(&cpus_online, &t->affinity);
	ASSERT(found < MAX_CPUS);
	return found;
}

void send_to_cpu(struct run_queue *from, struct task *t, u32 cpu, enum enqueue_why why)
{
	struct run_queue *q = from;
	bool left;

	for (;;) {
		if (q->cpu != cpu) {
			WRITE_ONCE(t->cpu, cpu); /* from here on guarded by that queue's lock */
			spin_unlock(&q->lock);
			q = queue_of(cpu);
			spin_lock(&q->lock);
		}
		if (likely(cpumask_test(&t->affinity, cpu)))
			break;
		cpu = place(t, false); /* forbidden meanwhile */
	}
	t->vruntime += q->min_vruntime; /* the sender has made it relative */
	enqueue(q, t, why);
	left = take_must_leave(t);
	spin_unlock(&q->lock);
	if (unlikely(left))
		wake_up_all(&leave_wait);
}

void invite_idle(const struct task *t)
{
	u32 cpu = claim_near(cpu_to_node[t->cpu], &t->affinity);

	if (cpu < MAX_CPUS)
		resched(queue_of(cpu));
}

/* Take the first task off q that may run here. Its lock is held. */
static struct task *take_from(struct run_queue *q, u32 cpu)
{
	list_for_each(t, &q->queue, struct task, run_link) {
		if (cpumask_test(&t->affinity, cpu) && may_move(t)) {
			dequeue(q, t);
			t->vruntime -= q->min_vruntime;
			return t;
		}
	}
	return NULL;
}

static bool steal_from_node(int node)
{
	for_each_cpu(cpu, &node_cpus[node].overloaded) {
		struct run_queue *q = queue_of(cpu);
		struct task *t;

		if (cpu == this_cpu())
			continue;
		spin_lock(&q->lock);
		t = q->nr >= 2 ? take_from(q, this_cpu()) : NULL;
		if (t) {
			send_to_cpu(q, t, this_cpu(), ENQUEUE_MOVE);
			return true;
		}
		spin_unlock(&q->lock);
	}
	return false;
}

bool steal(void)
{
	u64 nodes = READ_ONCE(nodes_overloaded);

	for (int i = 0; nodes && i < num_nodes; i++) {
		int node = nearest[this_node()][i];

		if (!(nodes & 1UL << node))
			continue;
		nodes &= ~(1UL << node);
		if (steal_from_node(node))
			return true;
	}
	return false;
}
