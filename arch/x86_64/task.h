/*
 * What the scheduler and process code need of the hardware to run tasks:
 * stacks, the switch between them, FPU state, the way to user mode, CPU time.
 */
#ifndef ARCH_TASK_H
#define ARCH_TASK_H

#include "arch/x86_64/trap.h"
#include "kernel/types.h"

struct task;

/* --- stacks (kstack.c) ---------------------------------------------------- */

/*
 * A kernel stack of KSTACK_SIZE bytes with frames from the node, an unmapped guard
 * below. Returns its lowest byte (for task->kstack) or NULL. Sleeps; no lock held.
 */
void *kstack_alloc(int node);
/* Give it back; nobody runs on it any more. Task context, no lock held. */
void kstack_free(void *stack);

/* Frames of stacks that CPUs keep for their next task. */
u64 kstack_kept_frames(void);

/* --- switching (switch.asm, switch.c) --------------------------------------- */

/*
 * Prepare a task that has a kstack: on its first arch_switch_to() it calls
 * fn(arg) on its stack, interrupts off, prev still current in no sense; fn does
 * the scheduler's own clean-up, and never returns. Sets kernel_rsp and user_regs,
 * which points to the frame at the stack's top where a return to user mode
 * takes its registers from.
 */
void arch_task_init(struct task *t, void (*fn)(void *), void *arg);

/*
 * Leave prev, continue next where it left. Interrupts off. Saves and loads: kernel stack and
 * callee-saved registers, user segment bases, FPU state of tasks that have one (t->fpu), the stack
 * for entries from user mode. Sets current_task. Not: address space (mm_switch()), time.
 * Returns when somebody switches back to prev.
 */
void arch_switch_to(struct task *prev, struct task *next);

/*
 * To user mode with the registers in current->user_regs (fork child, exec, init): checks
 * work_pending and the registers as any return does.
 */
void arch_return_to_user(struct regs *regs) __noreturn;

/* Registers for a fresh program: everything 0 but these. */
void regs_init_user(struct regs *regs, u64 rip, u64 rsp);

/* User FS/GS base of the current task (arch_prctl). Non-canonical or kernel half: -EPERM. */
int arch_set_fs(u64 base);
int arch_set_gs(u64 base);
u64 arch_get_fs(void);
u64 arch_get_gs(void);
/* Fork: copy the current task's bases into the child's struct. */
void arch_copy_bases(struct task *child);

/* --- FPU (fpu.c) -------------------------------------------------------------- */

/* Give a task the state of a fresh program: allocates t->fpu if NULL. 0 or -ENOMEM. */
int fpu_init_task(struct task *t);
/* Fork: child gets a copy of the current task's state. 0 or -ENOMEM. */
int fpu_copy(struct task *child);
void fpu_free(struct task *t);
/* Exec: current task's state back to the fresh one. */
void fpu_reset(void);

/*
 * Signal frames, in Linux's format: FXSAVE image with magic in its software-reserved
 * bytes, extended state, closing magic. size: bytes needed at a 64-byte aligned user
 * address. save: 0 or -EFAULT. restore: from a frame (0 address: fresh state); checked;
 * 0, -EFAULT or -EINVAL.
 */
size_t fpu_frame_size(void);
int fpu_save_frame(vaddr_t to);
int fpu_restore_frame(vaddr_t from);

/* --- CPU time (account.c) --------------------------------------------------- */

/*
 * The entry code stamps each way in and out with the TSC, per CPU; the sums say how the
 * time since the last context switch divides into user and system. At a switch: add that
 * division of `ns` to prev->user_ns and prev->system_ns and start anew. Interrupts off.
 */
void account_switch(struct task *prev, u64 ns);

#endif
