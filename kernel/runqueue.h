/*
 * Run queues: what runqueue.c, sched.c (switching), place.c (which CPU) and idle.c share.
 */
#ifndef KERNEL_RUNQUEUE_H
#define KERNEL_RUNQUEUE_H

#include "kernel/sched.h"

struct run_queue {
	spinlock_t lock;        /* guards all of this and the tasks' scheduler fields; interrupts off */
	u32 cpu;                /* constant */
	u32 nr;                 /* runnable tasks, the running one included, the idle task not */
	bool slice_armed;       /* own CPU */
	struct list queue;      /* those that do not run, in the order in which they will */
	struct task *curr;      /* the running one */
	struct task *idle;      /* constant */
	u64 min_vruntime;       /* of its tasks, never falls: where newcomers begin */
	struct task *switched_from; /* own CPU, during a switch */
	bool push;              /* ... and that task must go to another CPU */
	u64 switches;
	u64 user_ns, nice_ns, system_ns, idle_ns;
};
DECLARE_PER_CPU(struct run_queue, run_queue);

#define SLICE_NS 10000000UL

static inline struct run_queue *queue_of(u32 cpu)
{
	return per_cpu_ptr(run_queue, cpu);
}
static inline bool cpu_is_idle(const struct run_queue *q)
{
	return q->curr == q->idle;
}
static inline bool is_rt(const struct task *t)
{
	return t->rt_priority > 0;
}

/* --- runqueue.c --------------------------------------------------------------------- */

void weights_init(void);

/* How far the virtual time of a is ahead of b's, that is, how much less it has had: ns. Their values may wrap,
 * differences are small. */
s64 ahead(const struct task *a, const struct task *b);
/* Put a runnable task among the others; lock held. */
void queue_insert(struct run_queue *q, struct task *t);
/* t is about to run: nobody starts before it any more. Lock held. */
void raise_min(struct run_queue *q, const struct task *t);
/* One runnable task more or less (+1, -1); lock held. */
void count_runnable(struct run_queue *q, int change);

/* Put a runnable task on q, whose lock is held: t->cpu is its CPU. Makes the CPU look if it should. */
enum enqueue_why { ENQUEUE_WAKE, ENQUEUE_NEW, ENQUEUE_MOVE };
void enqueue(struct run_queue *q, struct task *t, enum enqueue_why why);
/* Take a task that does not run off q; lock held. */
void dequeue(struct run_queue *q, struct task *t);

/* Make the CPU of q pass schedule(). */
void resched(struct run_queue *q);

/* A task on a queue may be taken to another CPU; lock held. See sched.c, "Changing CPU". */
static inline bool may_move(const struct task *t)
{
	return t->state == TASK_RUNNING;
}

/* Lock the queue of t->cpu; interrupts are off. */
struct run_queue *lock_queue_of(const struct task *t);

/* Who waits in sched_set_affinity() for tasks that must leave; woken whenever one has. */
extern struct wait_queue leave_wait;
/* t is no longer where it must not be. Lock of its queue held; if true, wake_up_all(&leave_wait) without it. */
static inline bool take_must_leave(struct task *t)
{
	bool was = t->must_leave;

	if (unlikely(was))
		WRITE_ONCE(t->must_leave, false);
	return was;
}

/* --- place.c ------------------------------------------------------------------------ */

void place_init(void);

/* q has got its second, or lost its last but one task. Lock held. */
void mark_overloaded(struct run_queue *q, bool overloaded);
/* This CPU begins or ceases to be idle. Interrupts off. */
void mark_idle(bool idle);

/* The CPU for a task that wakes up or is new. */
u32 place(struct task *t, bool new);
/*
 * Bring a runnable task that is on no queue to a CPU. `from` is the queue of t->cpu, locked, and is let go of;
 * interrupts stay off.
 */
void send_to_cpu(struct run_queue *from, struct task *t, u32 cpu, enum enqueue_why why);
/* A task has had to queue although a CPU is idle that could run it: let that one come for it. */
void invite_idle(const struct task *t);
/* Take a task that waits elsewhere onto this CPU. True if there was one. Interrupts off. */
bool steal(void);

#endif
