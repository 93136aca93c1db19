/*
 * The end: say what happened, where, and how it came to it, then leave.
 *
 * The first CPU to panic claims the word panic_cpu and stops the others; a second one that panics
 * at the same time halts without a word, so that there is one report. A panic inside
 * the report (the stack is broken, a lock is held by a stopped CPU) prints its one
 * line and leaves at once; one inside that leaves silently.
 *
 * Nothing here takes a lock but the console's, which a panic may take over.
 */
#include "kernel/panic.h"

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/init.h"
#include "arch/x86_64/smp.h"
#include "arch/x86_64/trap.h"
#include "kernel/ksyms.h"
#include "kernel/printf.h"
#include "kernel/printk.h"
#include "kernel/task.h"

#define BACKTRACE_MAX 24

static u32 panic_cpu;   /* 0 = all is well, else CPU + 1; atomic, set once */
static u32 panic_depth; /* panicking CPU only */

bool panicking(void)
{
	return READ_ONCE(panic_cpu) != 0;
}

bool panic_elsewhere(void)
{
	u32 cpu = READ_ONCE(panic_cpu);

	return cpu && cpu != this_cpu() + 1;
}

static void __noreturn halt(void)
{
	for (;;)
		__asm__ __volatile__("cli; hlt");
}

static bool kernel_text(u64 address)
{
	return address >= (u64)__text_start && address < (u64)__text_end;
}

/*
 * Follow the chain of saved frame pointers from rbp. It must climb, stay within a stack's length
 * of where it began, and each return address must be kernel text: a broken chain ends the walk
 * and is never followed into memory that may not be there.
 */
static void walk(u64 rbp, u64 *addresses, unsigned max, unsigned skip)
{
	u64 start = rbp;
	unsigned n = 0;

	while (n < max && rbp >= 0xffff800000000000UL && IS_ALIGNED(rbp, 8) &&
	       rbp - start < KSTACK_SIZE - 16) {
		u64 next = ((u64 *)rbp)[0], address = ((u64 *)rbp)[1];

		if (!kernel_text(address))
			break;
		if (skip)
			skip--;
		else
			addresses[n++] = address;
		if (next <= rbp)
			break;
		rbp = next;
	}
	if (n < max)
		addresses[n] = 0;
}

void __noinline backtrace_save(u64 *addresses, unsigned max, unsigned skip)
{
	walk((u64)__builtin_frame_address(0), addresses, max, skip);
}

void backtrace_print(const u64 *addresses, unsigned max)
{
	for (unsigned i = 0; i < max && addresses[i]; i++) {
		u64 offset = 0;
		/* One back: a call that does not return may be the last of its function. */
		const char *name = ksym_lookup(addresses[i] - 1, &offset);

		printk("  %016lx %s+%#lx\n", addresses[i], name ? name : "?", offset + 1);
	}
}

static void print_regs(const struct regs *r)
{
	const char *name;
	u64 offset = 0;

	name = ksym_lookup(r->rip, &offset);
	printk("rip %016lx %s+%#lx  cs %lx  rflags %lx  vector %ld  error %lx\n", r->rip,
	       name ? name : "?", offset, r->cs, r->rflags, r->vector, r->error);
	printk("rax %016lx rbx %016lx rcx %016lx rdx %016lx\n", r->rax, r->rbx, r->rcx, r->rdx);
	printk("rsi %016lx rdi %016lx rbp %016lx rsp %016lx\n", r->rsi, r->rdi, r->rbp, r->rsp);
	printk("r8  %016lx r9  %016lx r10 %016lx r11 %016lx\n", r->r8, r->r9, r->r10, r->r11);
	printk("r12 %016lx r13 %016lx r14 %016lx r15 %016lx\n", r->r12, r->r13, r->r14, r->r15);
	if (!regs_user(r)) {
		u64 cr2, cr3;

		__asm__ __volatile__("mov %%cr2, %0; mov %%cr3, %1" : "=&r"(cr2), "=r"(cr3));
		printk("cr2 %016lx cr3 %016lx\n", cr2, cr3);
	}
}

/* Claim the panic; returns only to the CPU that may report. */
static void enter(void)
{
	u32 nobody = 0, me = this_cpu() + 1;

	irq_disable();
	if (!atomic_try_cmpxchg(&panic_cpu, &nobody, me) && nobody != me)
		halt();
}

static void __noreturn report(const struct regs *regs, const char *fmt, va_list args)
{
	u64 trace[BACKTRACE_MAX];
	char text[256];
	struct task *t;

	if (++panic_depth > 2)
		machine_exit_panic(false);
	kvsnprintf(text, sizeof(text), fmt, args);
	if (panic_depth == 2) {
		printk("panic inside a panic: %s\n", text);
		machine_exit_panic(false);
	}

	smp_stop_others();
	printk("panic: %s\n", text);
	t = current;
	if (t)
		printk("CPU %u, task %d \"%.16s\"\n", this_cpu(), t->tid, t->comm);
	else
		printk("CPU %u, no task yet\n", this_cpu());
	if (regs)
		print_regs(regs);
	if (!regs)
		backtrace_save(trace, BACKTRACE_MAX, 2); /* not ourselves */
	else if (!regs_user(regs))
		walk(regs->rbp, trace, BACKTRACE_MAX, 0);
	else
		trace[0] = 0;
	printk("backtrace:\n");
	backtrace_print(trace, BACKTRACE_MAX);
	machine_exit_panic(false);
}

void panic(const char *fmt, ...)
{
	va_list args;

	enter();
	va_start(args, fmt);
	report(NULL, fmt, args);
}

void panic_regs(const struct regs *regs, const char *fmt, ...)
{
	va_list args;

	enter();
	va_start(args, fmt);
	report(regs, fmt, args);
}
