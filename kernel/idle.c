/*
 * What a CPU does when it has nothing to do: run RCU callbacks that are due, come for a task that waits
 * elsewhere, halt until an interrupt.
 *
 * No wake-up is lost: whoever gives this CPU something to do sets a bit in its work_pending and then sends an
 * interrupt. The bit is looked at with interrupts off, after this CPU has said in every
 * way that it is idle; STI lets none in before the following HLT has begun (SDM vol. 2, STI), so
 * an interrupt after the look ends the HLT.
 */
#include "kernel/runqueue.h"

#include "arch/x86_64/cpu.h"
#include "kernel/rcu.h"
#include "mm/ptpage.h"

/* Interrupts off on entry and return. */
static void halt_if_nothing(void)
{
	rcu_idle_enter();
	if (this_cpu_read(work_pending) & (WORK_RESCHED | WORK_RCU))
		;
	else
		__asm__ __volatile__("sti; hlt; cli" ::: "memory");
	rcu_idle_exit();
}

void cpu_idle(void)
{
	struct run_queue *q = this_cpu_ptr(run_queue);

	for (;;) {
		irq_disable();
		rcu_hurry(); /* there is time for the few callbacks, too */
		quicklist_idle();
		if (this_cpu_read(work_pending) & WORK_RCU) {
			rcu_process();
			continue;
		}
		if (!READ_ONCE(q->nr)) {
			work_clear(WORK_RESCHED); /* it has brought us here */
			mark_idle(true);
			/* A task that was queued before the clearing is seen by this look, one after it sets the bit again. */
			if (!READ_ONCE(q->nr) && !steal())
				halt_if_nothing();
			mark_idle(false);
		}
		irq_enable();
		if (READ_ONCE(q->nr))
			schedule();
	}
}
