/*
 * Read-copy-update. The kernel is not preemptible, so a reader needs no
 * instruction: a CPU that switches tasks, idles or returns to user mode holds
 * no reference, and when every CPU has done so once, a grace period is over.
 * A reader must not sleep. A CPU that stays in user mode or in a long loop is
 * poked by an IPI; idle CPUs are not woken.
 */
#ifndef KERNEL_RCU_H
#define KERNEL_RCU_H

#include "arch/x86_64/cpu.h"
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

/*
 * Call func(head) after a grace period, on the CPU that queued it, with interrupts on and no spinlock held, on its
 * way to user mode or to idle (cond_resched() counts as well). func must not sleep. Any context but NMI.
 */
void call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *));

/* Wait for a grace period. Sleeps. */
void rcu_synchronize(void);

/* Wait until all callbacks queued before, on any CPU, have run. Sleeps. */
void rcu_barrier(void);

void rcu_init(void);

/*
 * Hooks. rcu_quiescent: this CPU holds no reference just now (scheduler, exit_to_user, interrupts
 * from user mode); interrupts off. rcu_process: the same, and run callbacks that are due; interrupts on, no lock
 * held; called when WORK_RCU is set.
 */
void rcu_quiescent(void);
void rcu_process(void);
void rcu_hurry(void); /* start on this CPU's callbacks although they are few; interrupts off, or on the way there */

/*
 * An idle CPU counts as quiescent without being asked. The idle loop says when it is idle (interrupts
 * off); an interrupt handler that may have come out of the idle loop stands between irq_enter and irq_exit.
 */
void rcu_idle_enter(void);
void rcu_idle_exit(void);
bool rcu_irq_enter(void);     /* true: it was idle; give this to rcu_irq_exit(). May be nested. */
void rcu_irq_exit(bool idle);

#ifdef DEBUG
bool rcu_reading(void);     /* inside a read section */
void rcu_assert_none(void); /* panics if so: before giving up the CPU */
#else
static inline void rcu_assert_none(void)
{
}
#endif

/* Grace periods since boot; for /proc and tests. */
u64 rcu_completed(void);
/*
 * To keep a pointer beyond a read section: take rcu_started() before looking it
 * up. In a later read section it may be used if rcu_started() is still the same.
 */
struct rcu_latest {
	u64 started; /* number of the latest grace period; rcu.lock to write; alone in its line: every fault reads it */
} __cacheline;
extern struct rcu_latest rcu_latest;
static inline u64 rcu_started(void)
{
	return smp_load_acquire(&rcu_latest.started);
}

#endif
