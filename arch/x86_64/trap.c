/*
 * What an exception or interrupt means. entry.asm has stored the registers and calls
 * here with interrupts off.
 *
 * Exceptions from user mode become signals, with the codes that Linux gives them.
 * Exceptions from the kernel continue at their fixup (user memory that cannot be had) or are the
 * end. A fault on user memory is tried to be resolved first, with interrupts as they were.
 *
 * Source: Intel SDM vol. 3, chapter 7; Linux, sigaction(2).
 */
#include "arch/x86_64/trap.h"

#include <asm/siginfo.h>
#include <asm/signal.h>

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/irq.h"
#include "arch/x86_64/paging.h"
#include "arch/x86_64/serial.h"
#include "arch/x86_64/smp.h"
#include "arch/x86_64/tlb.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/printk.h"
#include "kernel/rcu.h"
#include "kernel/sched.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "kernel/timer.h"

struct ex_entry {
	u64 instruction, fixup;
};
extern const struct ex_entry __ex_table_start[], __ex_table_end[];

u64 ex_table_lookup(u64 rip)
{
	for (const struct ex_entry *e = __ex_table_start; e < __ex_table_end; e++)
		if (e->instruction == rip)
			return e->fixup;
	return 0;
}

static const char *const trap_names[32] = {
	"divide error", "debug", "NMI", "breakpoint", "overflow", "bound range", "invalid opcode",
	"no FPU", "double fault", "coprocessor overrun", "invalid TSS", "segment not present",
	"stack fault", "general protection fault", "page fault", "15", "x87 error",
	"alignment check", "machine check", "SIMD error", "virtualization", "control protection",
};

static void __noreturn die(struct regs *regs)
{
	const char *name = regs->vector < 32 ? trap_names[regs->vector] : NULL;

	panic_regs(regs, "%s in the kernel, error code %#lx", name ? name : "trap", regs->error);
}

/* --- page faults ---------------------------------------------------------------- */

/* From the kernel at addr: user memory, by one of the instructions that may, or a bug. */
void trap_kernel_fault(struct regs *regs, u64 addr)
{
	u64 fixup = ex_table_lookup(regs->rip);
	struct task *t = current;
	struct fault_signal sig;

	if (!fixup) {
		if (t && t->kstack && (u64)t->kstack - addr <= PAGE_SIZE)
			panic_regs(regs, "kernel stack overflow");
		panic_regs(regs, "page fault in the kernel at %#lx, error code %#lx", addr,
			   regs->error);
	}
	if (!t || !t->mm) {
		regs->rip = fixup;
		return;
	}
	if (regs->rflags & RFLAGS_IF)
		irq_enable();
	if (addr >= USER_END || page_fault(regs, addr, (u32)regs->error, &sig))
		regs->rip = fixup;
}

/* From user mode, and not to be resolved. */
void trap_user_signal(struct regs *regs, const struct fault_signal *sig)
{
	send_fault_signal(sig->signo, sig->code, sig->addr, VEC_PAGE_FAULT, regs->error);
}

/* --- other exceptions -------------------------------------------------------------- */

/* Which of the unmasked x87 or SSE exceptions it was: status bits, SDM vol. 1, 8.1.3. */
static int fpe_code(u32 status)
{
	if (status & 0x01)
		return FPE_FLTINV;
	if (status & 0x04)
		return FPE_FLTDIV;
	if (status & 0x08)
		return FPE_FLTOVF;
	if (status & 0x12) /* underflow, denormal */
		return FPE_FLTUND;
	if (status & 0x20)
		return FPE_FLTRES;
	return FPE_FLTINV;
}

static int x87_code(void)
{
	u16 control, status;

	__asm__ __volatile__("fnstcw %0; fnstsw %1" : "=m"(control), "=m"(status));
	return fpe_code(status & ~control & 0x3f);
}

static int simd_code(void)
{
	u32 mxcsr;

	__asm__ __volatile__("stmxcsr %0" : "=m"(mxcsr));
	return fpe_code(mxcsr & ~(mxcsr >> 7) & 0x3f);
}

/* #DB: clear the cause, which the hardware never does. */
static void debug_clear(void)
{
	__asm__ __volatile__("mov %0, %%dr6" ::"r"(0xffff0ff0UL));
}

static void user_exception(struct regs *r)
{
	int signo = SIGSEGV, code = SI_KERNEL;
	u64 addr = 0;

	switch (r->vector) {
	case TRAP_DE: signo = SIGFPE, code = FPE_INTDIV, addr = r->rip; break;
	case TRAP_DB: debug_clear(), signo = SIGTRAP, code = TRAP_TRACE, addr = r->rip; break;
	case TRAP_BP: signo = SIGTRAP; break;
	case TRAP_UD: signo = SIGILL, code = ILL_ILLOPN, addr = r->rip; break;
	case TRAP_NP: signo = SIGBUS; break;
	case TRAP_SS: signo = SIGBUS; break;
	case TRAP_MF: signo = SIGFPE, code = x87_code(), addr = r->rip; break;
	case TRAP_XM: signo = SIGFPE, code = simd_code(), addr = r->rip; break;
	case TRAP_AC: signo = SIGBUS, code = BUS_ADRALN; break;
	}
	irq_enable();
	send_fault_signal(signo, code, addr, (u32)r->vector, r->error);
}

static void kernel_exception(struct regs *r)
{
	u64 fixup;

	if (r->vector == TRAP_DB) {
		debug_clear();
		r->rflags &= ~(u64)RFLAGS_TF;
		return;
	}
	fixup = ex_table_lookup(r->rip);
	if (!fixup)
		die(r);
	r->rip = fixup;
}

/* Stacks of their own, GS already sorted out; from any context. */
static void ist_exception(struct regs *r)
{
	if (r->vector == TRAP_NMI) {
		if (smp_stop_requested())
			for (;;)
				__asm__ __volatile__("cli; hlt");
		printk("CPU %u: NMI nobody asked for, at %#lx\n", this_cpu(), r->rip);
		return;
	}
	if (r->vector == TRAP_DF && !regs_user(r)) {
		struct task *t = current;

		if (t && t->kstack && r->rsp - ((u64)t->kstack - PAGE_SIZE) < PAGE_SIZE + 256)
			panic_regs(r, "kernel stack overflow");
	}
	die(r);
}

/* --- interrupts --------------------------------------------------------------------- */

static void interrupt(struct regs *r)
{
	bool user = regs_user(r);
	bool idle;

	if (r->vector == VEC_SPURIOUS) /* has no end of interrupt */
		return;
	if (r->vector == VEC_TLB) {
		/* Touches nothing that RCU protects; the most frequent by far. */
		lapic_eoi();
		tlb_serve();
		return;
	}
	idle = rcu_irq_enter();
	lapic_eoi();
	switch (r->vector) {
	case VEC_TIMER: timer_interrupt(user); break;
	case VEC_RESCHEDULE: sched_interrupt(user); break;
	case VEC_CALL: smp_call_serve(); break;
	case VEC_SERIAL: serial_interrupt(); break;
	default: printk_once("CPU %u: unexpected interrupt %lu\n", this_cpu(), r->vector);
	}
	rcu_irq_exit(idle);
}

void trap_handle(struct regs *r)
{
	if (r->vector >= 32)
		interrupt(r);
	else if (r->vector == TRAP_NMI || r->vector == TRAP_DF || r->vector == TRAP_MC)
		ist_exception(r);
	else if (regs_user(r))
		user_exception(r);
	else
		kernel_exception(r);
}

/* --- the way back to user mode ---------------------------------------------------------- */

static bool canonical(u64 va)
{
	return (u64)((s64)va << 16 >> 16) == va;
}

/*
 * Registers that a program can be sent on with. Hardware would refuse the others with a fault in
 * the kernel, or, in an emulator, not at all. Flags that are not the user's are
 * dropped without a word, as on Linux. False: a signal has been sent instead.
 */
static bool regs_acceptable(struct regs *r)
{
	r->rflags = (r->rflags & RFLAGS_USER) | RFLAGS_IF | RFLAGS_ONE;
	if (r->cs == USER_CS && r->ss == USER_DS && canonical(r->rip) && canonical(r->rsp))
		return true;
	irq_enable();
	if (r->cs == USER_CS && r->ss == USER_DS && canonical(r->rip)) {
		/* The first push or pop would be a stack fault. */
		send_fault_signal(SIGBUS, SI_KERNEL, 0, TRAP_SS, 0);
	} else {
		send_fault_signal(SIGSEGV, SI_KERNEL, 0, TRAP_GP,
				  r->cs == USER_CS ? 0 : r->cs & 0xfffc);
	}
	irq_disable();
	return false;
}

/*
 * The slow way out, interrupts off: do what is pending until nothing is and the registers are
 * good. Each refused set of registers is a signal, whose handler has others, or which
 * kills: a program whose handlers are all bad runs out of stack for frames.
 */
void exit_work(struct regs *regs)
{
	do {
		while (this_cpu_read(work_pending)) {
			exit_to_user(regs);
			irq_disable();
		}
	} while (!regs_acceptable(regs));
}

/*
 * IRETQ to user mode has faulted: on real hardware only, and only if regs_acceptable() has
 * missed something. The five words that it did not take lie where its stack pointer was.
 * Makes the frame of a trap from user mode out of both and returns where it is.
 */
struct regs *trap_bad_iret(struct regs *r)
{
	struct regs fixed = *r;
	struct regs *frame;

	memcpy(&fixed.rip, (const void *)r->rsp, 5 * sizeof(u64));
	frame = (struct regs *)(r->rsp + 5 * sizeof(u64)) - 1;
	memcpy(frame, &fixed, sizeof(fixed));
	irq_enable();
	send_fault_signal(SIGSEGV, SI_KERNEL, 0, (u32)fixed.vector, fixed.error);
	irq_disable();
	return frame;
}
