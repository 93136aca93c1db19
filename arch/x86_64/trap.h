/*
 * The registers of an interrupted context, as the entry code stores them, and
 * the doors between hardware and kernel.
 */
#ifndef ARCH_TRAP_H
#define ARCH_TRAP_H

#include "kernel/types.h"

struct regs {
	u64 r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi;
	u64 vector; /* for a system call: its number (orig_rax), or -1 once it must not restart */
	u64 error;
	u64 rip, cs, rflags, rsp, ss; /* pushed by the hardware */
};

#define RFLAGS_ONE (1UL << 1) /* always 1 */
#define RFLAGS_TF  (1UL << 8)
#define RFLAGS_IF  (1UL << 9)
/* What a program may have as it likes: CF PF AF ZF SF TF DF OF RF AC ID. */
#define RFLAGS_USER 0x250dd5UL

#define KERNEL_CS 0x08
#define KERNEL_DS 0x10
#define USER_DS   0x23 /* SYSRET wants SS = base + 8, CS = base + 16 */
#define USER_CS   0x2b

static inline bool regs_user(const struct regs *r)
{
	return r->cs & 3;
}

/* Exceptions: SDM vol. 3, table 7-1. */
enum {
	TRAP_DE = 0,
	TRAP_DB = 1,
	TRAP_NMI = 2,
	TRAP_BP = 3,
	TRAP_OF = 4,
	TRAP_UD = 6,
	TRAP_DF = 8,
	TRAP_NP = 11,
	TRAP_SS = 12,
	TRAP_GP = 13,
	TRAP_MF = 16,
	TRAP_AC = 17,
	TRAP_MC = 18,
	TRAP_XM = 19,
};

/* Fixed interrupt vectors. */
enum {
	VEC_PANIC = 2, /* NMI: stop */
	VEC_PAGE_FAULT = 14,
	VEC_SERIAL = 0xe0,     /* COM1 through the IOAPIC */
	VEC_TIMER = 0xf0,      /* local APIC timer */
	VEC_RESCHEDULE = 0xf1, /* IPI: look at your run queue, or pass a quiescent state */
	VEC_TLB = 0xf2,        /* IPI: TLB shootdown request */
	VEC_CALL = 0xf3,       /* IPI: run a function */
	VEC_SPURIOUS = 0xff,
};

/*
 * Called by the entry code, interrupts off on entry:
 *   trap_handle      exceptions and interrupts (table in trap.c)
 *   syscall_handle   SYSCALL (kernel/syscall.c)
 *   exit_to_user     last thing before returning to user mode, interrupts off:
 *                    reschedule, signals, RCU (kernel/entry.c). The assembly calls it
 *                    only if the per-CPU word work_pending is not 0.
 */
void trap_handle(struct regs *regs);
void syscall_handle(struct regs *regs);
void exit_to_user(struct regs *regs);

/* A fault of the current task becomes a signal (kernel/signal.h). */
void send_fault_signal(int signo, int code, u64 addr, u32 trapno, u64 error);

/*
 * Resolve a page fault at addr (CR2, already read) with the hardware's error
 * code; in mm/fault.c. Interrupts are on unless the interrupted context had them off.
 * Returns 0: retry the access; else *sig says what the user gets (the caller
 * uses the fixup instead where the access was the kernel's own).
 */
struct fault_signal {
	int signo; /* SIGSEGV, SIGBUS or SIGKILL (out of memory) */
	int code;  /* si_code */
	u64 addr;  /* si_addr */
};
int page_fault(struct regs *regs, u64 addr, u32 error, struct fault_signal *sig);

#endif
