/*
 * Task structures: made, counted, freed; and kernel threads.
 *
 * References: one for who made the task (the process that will reap it; for a kernel thread, nobody), one for the
 * scheduler from sched_start() until the task has left the CPU for the last time, and whoever took one. With the
 * last one the structure and its stack go after a grace period, so that a lookup
 * under RCU may always look at it.
 */
#include "arch/x86_64/smp.h"
#include "arch/x86_64/task.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/rcu.h"
#include "kernel/sched.h"
#include "kernel/string.h"
#include "mm/slab.h"

static struct slab_cache *task_cache; /* made by the first task_alloc(), during boot */

struct task *task_alloc(const char *comm, int node)
{
	struct task *t;

	if (!task_cache)
		task_cache = slab_create("task", sizeof(struct task), CACHE_LINE);
	if (!task_cache)
		return NULL;
	t = slab_zalloc(task_cache);
	if (!t)
		return NULL;
	t->kstack = kstack_alloc(node);
	if (!t->kstack) {
		slab_free(task_cache, t);
		return NULL;
	}
	str_copy(t->comm, comm, sizeof(t->comm));
	t->refs = 1;
	t->state = TASK_UNINTERRUPTIBLE;
	t->weight = 1024;
	t->cpu = this_cpu();
	cpumask_fill(&t->affinity, num_cpus);
	list_init(&t->run_link);
	list_init(&t->thread_link);
	list_init(&t->mm_link);
	list_init(&t->sig_pending.queue);
	return t;
}

static void task_free(struct rcu_head *head)
{
	struct task *t = container_of(head, struct task, rcu);

	if (t->process)
		process_put(t->process);
	fpu_free(t);
	kstack_free(t->kstack);
	slab_free(task_cache, t);
}

void task_get(struct task *t)
{
	__atomic_fetch_add(&t->refs, 1, __ATOMIC_RELAXED);
}

void task_put(struct task *t)
{
	u32 left = __atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL);

	DEBUG_ASSERT(left + 1 != 0);
	if (!left)
		call_rcu(&t->rcu, task_free);
}

static void kthread_main(void *arg)
{
	struct task *t = arg;

	sched_finish_switch();
	t->kthread_fn(t->kthread_arg);
	t->state = TASK_DEAD; /* nobody wakes that up */
	schedule();
	panic("a dead task runs");
}

struct task *kthread_prepare(const char *name, void (*fn)(void *), void *arg, int cpu)
{
	struct task *t = task_alloc(name, cpu < 0 ? (int)this_node() : cpu_to_node[cpu]);

	if (!t)
		return NULL;
	t->kthread = true;
	t->kthread_fn = fn;
	t->kthread_arg = arg;
	if (cpu >= 0) {
		t->affinity = (struct cpumask){ 0 };
		cpumask_set(&t->affinity, cpu);
	}
	arch_task_init(t, kthread_main, t);
	return t;
}

struct task *kthread_create(const char *name, void (*fn)(void *), void *arg, int cpu)
{
	struct task *t = kthread_prepare(name, fn, arg, cpu);

	if (t) {
		sched_start(t);
		task_put(t); /* from here on only the scheduler holds it */
	}
	return t;
}
