/*
 * The stack frame of a signal handler, bit for bit as Linux makes it on x86-64, and the way
 * back, rt_sigreturn(2):
 *
 *	            (128 bytes below the interrupted stack pointer stay untouched: red zone)
 *	fpstate     FPU state, 64-byte aligned
 *	siginfo
 *	ucontext    registers, blocked mask, alternate stack
 *	return address: the restorer       <- stack pointer in the handler, 16 n + 8
 *
 * Nothing that comes back from user memory is believed: selectors keep ring 3, only the
 * user's own flags are taken; registers that hardware could not load become a signal on the
 * way out (exit_work() in arch/x86_64/trap.c).
 */
#include <asm/errno.h>
#include <asm/processor-flags.h>
#include <linux/signal.h>

#include <asm/sigcontext.h>
#include <asm/ucontext.h>

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/task.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/signal_internal.h"
#include "kernel/string.h"
#include "kernel/syscall.h"

struct rt_sigframe {
	u64 restorer;
	struct ucontext uc;
	siginfo_t info;
};
static_assert(sizeof(struct rt_sigframe) == 8 + 304 + 128, "layout of Linux");

#define RED_ZONE 128

/* Flags that a handler may change for when it has returned. */
#define USER_FLAGS                                                                                 \
	(X86_EFLAGS_AC | X86_EFLAGS_OF | X86_EFLAGS_DF | X86_EFLAGS_TF | X86_EFLAGS_SF |           \
	 X86_EFLAGS_ZF | X86_EFLAGS_AF | X86_EFLAGS_PF | X86_EFLAGS_CF | X86_EFLAGS_RF)

static void context_from_regs(struct sigcontext *c, const struct regs *r, u64 mask, vaddr_t fp)
{
	struct task *t = current;

	c->r8 = r->r8;
	c->r9 = r->r9;
	c->r10 = r->r10;
	c->r11 = r->r11;
	c->r12 = r->r12;
	c->r13 = r->r13;
	c->r14 = r->r14;
	c->r15 = r->r15;
	c->rdi = r->rdi;
	c->rsi = r->rsi;
	c->rbp = r->rbp;
	c->rbx = r->rbx;
	c->rdx = r->rdx;
	c->rax = r->rax;
	c->rcx = r->rcx;
	c->rsp = r->rsp;
	c->rip = r->rip;
	c->eflags = r->rflags;
	c->cs = (u16)r->cs;
	c->ss = (u16)r->ss;
	c->err = t->fault_error;
	c->trapno = t->fault_trap;
	c->cr2 = t->fault_addr;
	c->oldmask = mask;
	c->fpstate = (struct _fpstate *)fp;
}

static void regs_from_context(struct regs *r, const struct sigcontext *c)
{
	r->r8 = c->r8;
	r->r9 = c->r9;
	r->r10 = c->r10;
	r->r11 = c->r11;
	r->r12 = c->r12;
	r->r13 = c->r13;
	r->r14 = c->r14;
	r->r15 = c->r15;
	r->rdi = c->rdi;
	r->rsi = c->rsi;
	r->rbp = c->rbp;
	r->rbx = c->rbx;
	r->rdx = c->rdx;
	r->rax = c->rax;
	r->rcx = c->rcx;
	r->rsp = c->rsp;
	r->rip = c->rip;
	r->rflags = (r->rflags & ~USER_FLAGS) | (c->eflags & USER_FLAGS);
	r->cs = c->cs | 3;
	r->ss = c->ss | 3;
	r->vector = (u64)-1;
}

/*
 * Where the frame goes: *fp for the FPU state, the rest below; 0 if it would leave the
 * alternate stack.
 */
static vaddr_t frame_place(const struct regs *regs, const struct sigaction *action, vaddr_t *fp)
{
	struct task *t = current;
	vaddr_t sp = regs->rsp;
	bool nested = on_altstack(t, sp), entering = false;

	sp -= RED_ZONE;
	if ((action->sa_flags & SA_ONSTACK) && altstack_state(t, regs->rsp) == 0) {
		sp = t->sas_sp + t->sas_size;
		entering = true;
	}
	sp = ALIGN_DOWN(sp - fpu_frame_size(), 64UL);
	*fp = sp;
	sp = ALIGN_DOWN(sp - sizeof(struct rt_sigframe), 16UL) - 8;
	if ((nested || entering) && !(sp > t->sas_sp && sp - t->sas_sp <= t->sas_size))
		return 0;
	return sp;
}

int sigframe_setup(struct regs *regs, int sig, const struct sigaction *action,
		   const siginfo_t *info, u64 saved_mask)
{
	struct rt_sigframe frame;
	vaddr_t fp, sp = frame_place(regs, action, &fp);

	if (!sp || !(action->sa_flags & SA_RESTORER))
		return -EFAULT;
	if (fpu_save_frame(fp))
		return -EFAULT;
	memset(&frame, 0, sizeof(frame));
	frame.restorer = (u64)action->sa_restorer;
	frame.uc.uc_flags = UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS |
			    (cpu_features.xsave ? UC_FP_XSTATE : 0);
	altstack_get(&frame.uc.uc_stack, regs->rsp);
	context_from_regs(&frame.uc.uc_mcontext, regs, saved_mask, fp);
	frame.uc.uc_sigmask = saved_mask;
	frame.info = *info;
	if (copy_to_user(sp, &frame, sizeof(frame)))
		return -EFAULT;
	if (current->sas_flags & (1U << 31)) { /* SS_AUTODISARM */
		current->sas_sp = 0;
		current->sas_size = 0;
		current->sas_flags = SS_DISABLE;
	}

	regs->rdi = (u64)sig;
	regs->rsi = sp + offsetof(struct rt_sigframe, info);
	regs->rdx = sp + offsetof(struct rt_sigframe, uc);
	regs->rax = 0;
	regs->rip = (u64)action->sa_handler;
	regs->rsp = sp;
	regs->cs = USER_CS;
	regs->ss = USER_DS;
	regs->rflags &= ~(u64)(X86_EFLAGS_DF | X86_EFLAGS_RF | X86_EFLAGS_TF);
	regs->vector = (u64)-1;
	return 0;
}

long sys_rt_sigreturn(void)
{
	struct regs *regs = current->user_regs;
	vaddr_t sp = regs->rsp - 8; /* the handler's RET took the return address */
	struct ucontext uc;

	if (copy_from_user(&uc, sp + offsetof(struct rt_sigframe, uc), sizeof(uc)))
		goto bad;
	signal_set_blocked(uc.uc_sigmask);
	regs_from_context(regs, &uc.uc_mcontext);
	if (fpu_restore_frame((vaddr_t)uc.uc_mcontext.fpstate))
		goto bad;
	altstack_set(&uc.uc_stack, regs->rsp);
	return (long)regs->rax;
bad:
	force_signal(SIGSEGV);
	return 0;
}
