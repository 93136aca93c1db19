/*
 * The system-call table and the way through it.
 *
 * The entry code calls syscall_handle() with the user's registers on the kernel stack.
 * Restarting a call that a signal interrupted is decided here and nowhere else: a call that
 * returned an ERESTART code has its signals delivered right here, before exit_to_user() sees
 * the registers.
 */
#include "kernel/syscall.h"

#include <asm/errno.h>
#include <asm/unistd.h>

#include "arch/x86_64/cpu.h"
#include "kernel/printk.h"
#include "kernel/signal.h"
#include "kernel/task.h"

/*
 * All six argument registers are passed to each call: in the SysV calling
 * convention a function does not notice arguments that it does not have.
 */
typedef long (*syscall_fn)(u64, u64, u64, u64, u64, u64);

#define NR_SYSCALLS 462

#define SYS_ENTRY(name, n) [__NR_##name] = (syscall_fn)(void *)sys_##name,
static const syscall_fn syscall_table[NR_SYSCALLS] = { SYSCALLS(SYS_ENTRY) };

/* One bit per number that was logged. Atomic. */
static u64 unknown_logged[DIV_UP(NR_SYSCALLS, 64) + 1];

static long unknown_call(u64 nr)
{
	u64 bit = MIN(nr, NR_SYSCALLS);
	u64 mask = 1UL << (bit % 64);

	if (!(__atomic_fetch_or(&unknown_logged[bit / 64], mask, __ATOMIC_RELAXED) & mask))
		printk("syscall: %s[%d] asked for %ld, which is not there\n", current->comm,
		       current->tid, (long)nr);
	return -ENOSYS;
}

long sys_restart_syscall(void)
{
	struct restart *r = &current->restart;

	return r->func ? r->func(r) : -EINTR;
}

/* A call gave up because of a signal, or says that it did. */
static bool wants_restart(u64 result)
{
	long error = -(long)result;

	return error == ERESTARTSYS || error == ERESTARTNOINTR || error == ERESTARTNOHAND ||
	       error == ERESTART_RESTARTBLOCK;
}

void syscall_handle(struct regs *regs)
{
	struct task *t = current;
	u64 vector = regs->vector;
	u32 nr = (u32)vector; /* the upper half of RAX means nothing, as on Linux */

	t->user_regs = regs;
	irq_enable();
	if (likely(nr < NR_SYSCALLS && syscall_table[nr]))
		regs->rax = (u64)syscall_table[nr](regs->rdi, regs->rsi, regs->rdx, regs->r10,
						   regs->r8, regs->r9);
	else
		regs->rax = (u64)unknown_call((u64)(s32)nr);
	/* rt_sigreturn puts back registers of long ago: what is in them is not its result. */
	if (unlikely(wants_restart(regs->rax)) && regs->vector == vector)
		signal_deliver_syscall(regs);
	/*
	 * pselect and ppoll: signal_deliver() puts the mask back. And a call that has seen a
	 * signal must not return before it is taken, though its sender may not have come to
	 * tell this CPU yet.
	 */
	else if (unlikely(t->sig_wanted | t->sig_restore_mask))
		task_notify(t, 0);
}
