/*
 * Read-copy-update. The kernel is not preemptible, so a reader needs no
 * instruction: a CPU that switches tasks, idles or returns to user mode holds
 * no reference, and when every CPU has done so once, a grace period is over.
 * A reader must not sleep. A CPU that stays in user mode or in a long loop is
 * poked by an IPI; idle CPUs are not woken.
 */
#ifndef KERNEL_RCU_H
#define KERNEL_RCU_H

#include "kernel/types.h"

struct rcu_head {
	struct rcu_head *next;
	void (*func)(struct rcu_head *);
};

#ifdef DEBUG
void rcu_read_lock(void); /* counts, so that sleeping inside is caught */
void rcu_read_unlock(void);
#else
static inline void rcu_read_lock(void)
{
	barrier();
}
static inline void rcu_read_unlock(void)
{
	barrier();
}
#endif

#define rcu_dereference(p)        READ_ONCE(p)
#define rcu_assign_pointer(p, v)  __atomic_store_n(&(p), (v), __ATOMIC_RELEASE)

/* Call func(head) after a grace period, in task context (a kernel thread or softirq-like place
 * with interrupts on, no locks held), on the CPU that queued it if possible. Any context. */
void call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *));

/* Wait for a grace period. Sleeps. */
void rcu_synchronize(void);

/* Wait until all callbacks queued before, on any CPU, have run. Sleeps. */
void rcu_barrier(void);

void rcu_init(void);

/* Hooks: called by the scheduler, idle loop and exit_to_user when this CPU is quiescent. */
void rcu_quiescent(void);

#endif
