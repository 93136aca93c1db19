/*
 * Switching tasks: see task.h. The saved stack of a task that does not run:
 *
 *	kstack + KSTACK_SIZE   struct regs: where entries from user mode store theirs
 *	                       ... calls down to arch_switch_to()
 *	                       return address
 *	kernel_rsp ->          r15 r14 r13 r12 rbx rbp   (upwards)
 *
 * All with interrupts off, on the CPU that switches.
 */
#include "arch/x86_64/task.h"

#include <asm/errno.h>

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/descriptors.h"
#include "arch/x86_64/fpu.h"
#include "arch/x86_64/paging.h"
#include "kernel/string.h"
#include "kernel/task.h"

#define MSR_FS_BASE        0xc0000100
#define MSR_KERNEL_GS_BASE 0xc0000102 /* the user's GS base while in the kernel */

struct saved_registers {
	u64 r15, r14, r13, r12, rbx, rbp, rip;
};

extern void switch_stacks(u64 *save_rsp, u64 load_rsp);
extern void task_first_run(void);

static u64 stack_top(const struct task *t)
{
	return (u64)t->kstack + KSTACK_SIZE;
}

void arch_task_init(struct task *t, void (*fn)(void *), void *arg)
{
	struct regs *regs = (struct regs *)stack_top(t) - 1;
	struct saved_registers *saved = (struct saved_registers *)regs - 1;

	static_assert(sizeof(struct regs) % 16 == 0, "task_first_run() starts 16-byte aligned");
	memset(regs, 0, sizeof(*regs));
	memset(saved, 0, sizeof(*saved));
	saved->rip = (u64)task_first_run;
	saved->rbx = (u64)fn;
	saved->r12 = (u64)arg;
	t->kernel_rsp = (u64)saved;
	t->user_regs = regs;
}

void arch_switch_to(struct task *prev, struct task *next)
{
	if (prev->fpu)
		fpu_save(prev->fpu);
	if (next->fpu)
		fpu_load(next->fpu);
	if (!next->kthread) {
		/* FSGSBASE is off, so the struct has the values; loading a selector can zero the
		 * hardware's behind our back, hence always write. */
		wrmsr(MSR_FS_BASE, next->fs_base);
		wrmsr(MSR_KERNEL_GS_BASE, next->gs_base);
	}
	set_kernel_stack(stack_top(next));
	this_cpu_write(current_task, next);
	switch_stacks(&prev->kernel_rsp, next->kernel_rsp);
}

void regs_init_user(struct regs *regs, u64 rip, u64 rsp)
{
	memset(regs, 0, sizeof(*regs));
	regs->rip = rip;
	regs->rsp = rsp;
	regs->cs = USER_CS;
	regs->ss = USER_DS;
	regs->rflags = RFLAGS_IF | RFLAGS_ONE;
	regs->vector = (u64)-1;
}

int arch_set_fs(u64 base)
{
	if (base >= USER_END)
		return -EPERM;
	current->fs_base = base;
	wrmsr(MSR_FS_BASE, base);
	return 0;
}

int arch_set_gs(u64 base)
{
	if (base >= USER_END)
		return -EPERM;
	current->gs_base = base;
	wrmsr(MSR_KERNEL_GS_BASE, base);
	return 0;
}

u64 arch_get_fs(void)
{
	return current->fs_base;
}

u64 arch_get_gs(void)
{
	return current->gs_base;
}

void arch_copy_bases(struct task *child)
{
	child->fs_base = current->fs_base;
	child->gs_base = current->gs_base;
}
