/*
 * The way back to user mode, when work_pending says that there is something to do first.
 *
 * Looked at with interrupts off, so that what an interrupt asks for is seen either here or by the
 * interrupt's own return. Each round does what was seen, with interrupts on, and looks again.
 */
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/trap.h"
#include "kernel/rcu.h"
#include "kernel/task.h"

void exit_to_user(struct regs *regs)
{
	u32 work;

	while ((work = this_cpu_read(work_pending))) {
		irq_enable();
		if (work & (WORK_RCU | WORK_RESCHED))
			cond_resched();
		if (work & WORK_SIGNAL) {
			task_unnotify();
			signal_deliver(regs);
		}
		irq_disable();
	}
}
