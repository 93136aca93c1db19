/*
 * Trap entry and return: what a signal frame may make the kernel return to, the ends of user space,
 * the stack selector after SYSRET, the meaning of a fault's error code, kernel addresses touched by
 * a program. known-bugs: UA-06, UA-07, UA-08, UA-10, UA-11, UA-13.
 */
#include "harness.h"

#include <ucontext.h>

/* ---- UA-06 ------------------------------------------------------------------------------ */

static struct {
	int reg;
	unsigned long value;
} edit;

static void edit_context(int sig, siginfo_t *info, void *uc)
{
	(void)sig, (void)info;
	greg_t *regs = ((ucontext_t *)uc)->uc_mcontext.gregs;

	if (edit.reg == REG_EFL)
		regs[REG_EFL] |= edit.value;
	else if (edit.reg == REG_CSGSFS)
		regs[REG_CSGSFS] &= ~0xffffL;
	else
		regs[edit.reg] = edit.value;
}

static void use_altstack(void)
{
	stack_t ss = { .ss_sp = map(16 * P, RW, ANON), .ss_size = 16 * P };

	NEED(sigaltstack(&ss, NULL) == 0);
}

static bool return_with(int reg, unsigned long value)
{
	struct sigaction sa = { .sa_sigaction = edit_context, .sa_flags = SA_SIGINFO | SA_NODEFER };

	sigaction(SIGUSR1, &sa, NULL);
	edit.reg = reg;
	edit.value = value;
	return TRY(raise(SIGUSR1));
}

/* siglongjmp() out of a handler leaves raise()'s mask behind. */
static void clear_mask(void)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void bad_returns(void)
{
	use_altstack();
	CHECK_FAULT(return_with(REG_RIP, 0x800000000000), SIGSEGV, SI_KERNEL_, 0);
	clear_mask();
	CHECK_FAULT(return_with(REG_RIP, 1UL << 63), SIGSEGV, SI_KERNEL_, 0);
	clear_mask();
	CHECK_FAULT(return_with(REG_RIP, 0xffffffff81000000), SIGSEGV, SEGV_MAPERR_,
		    0xffffffff81000000);
	clear_mask();
	CHECK_FAULT(return_with(REG_RIP, 0xffff888000000000), SIGSEGV, SEGV_MAPERR_,
		    0xffff888000000000);
	clear_mask();
	CHECK_FAULT(return_with(REG_RIP, 0), SIGSEGV, SEGV_MAPERR_, 0);
	clear_mask();
	CHECK_FAULT(return_with(REG_CSGSFS, 0), SIGSEGV, SI_KERNEL_, 0);
	clear_mask();
	/* The processor says #SS, which is SIGBUS; an emulator may say #GP, which is SIGSEGV. */
	CHECK(!return_with(REG_RSP, 1UL << 63));
	CHECK_MSG((hit.sig == SIGBUS || hit.sig == SIGSEGV) && hit.code == SI_KERNEL_,
		  "non-canonical RSP: signal %d code %d", hit.sig, hit.code);
	clear_mask();
}

TEST(sigreturn_bad, "UA-06 sigreturn to non-canonical and kernel addresses")
{
	bad_returns();
}

TEST(sigreturn_flags, "UA-06 sigreturn drops IOPL and NT")
{
	unsigned long flags;

	CHECK_RUNS(return_with(REG_EFL, 3 << 12 | 1 << 14));
	__asm__ volatile("pushfq; popq %0" : "=r"(flags));
	CHECK_EQ(flags >> 12 & 3, 0);
	CHECK_EQ(flags >> 14 & 1, 0);
	CHECK_EQ(flags >> 9 & 1, 1);                                   /* interrupts are on */
	CHECK_RUNS(return_with(REG_EFL, 1 << 17 | 1 << 19 | 1 << 20)); /* VM, VIF, VIP */
	getppid();
	__asm__ volatile("pushfq; popq %0" : "=r"(flags));
	CHECK_EQ(flags >> 17 & 1, 0);
}

TEST(sigreturn_keeps, "UA-06 sigreturn restores the registers that it may")
{
	unsigned long flags;

	/*
	 * The direction flag is a program's own business, and off again at the entry of a handler.
	 */
	CHECK_RUNS(return_with(REG_R10, 0x1234));
	__asm__ volatile("pushfq; popq %0" : "=r"(flags));
	CHECK_EQ(flags >> 10 & 1, 0);
}

TEST(sigreturn_garbage, "UA-06 rt_sigreturn without a frame")
{
	pid_t pid = xfork();

	if (pid == 0) {
		/* A stack pointer at whose frame there is nothing. */
		__asm__ volatile("mov %0, %%rsp; mov $15, %%eax; syscall" ::"r"(0x1000UL)
				 : "memory");
		_exit(0);
	}
	CHECK_KILLED(pid, SIGSEGV);
	pid = xfork();
	if (pid == 0) {
		/* A frame of ones. */
		char *p = map(4 * P, RW, ANON);

		memset(p, 0xff, 4 * P);
		__asm__ volatile("mov %0, %%rsp; mov $15, %%eax; syscall" ::"r"(p + P) : "memory");
		_exit(0);
	}
	CHECK_KILLED(pid, SIGSEGV);
	pid = xfork();
	if (pid == 0) {
		__asm__ volatile("mov %0, %%rsp; mov $15, %%eax; syscall" ::"r"(1UL << 63)
				 : "memory");
		_exit(0);
	}
	int status = wait_raw(pid);
	CHECK_MSG(WIFSIGNALED(status), "wait status 0x%x", status);
}

static void *bad_returns_on(void *arg)
{
	pin((int)(intptr_t)arg);
	for (long i = 0; go_on(i, 40); i++)
		bad_returns();
	return NULL;
}

TEST(sigreturn_everywhere, "UA-06 bad returns on every CPU")
{
	pid_t pid[64];
	int n = ncpus() < 64 ? ncpus() : 64;

	for (int i = 0; i < n; i++)
		if ((pid[i] = xfork()) == 0) {
			bad_returns_on((void *)(intptr_t)i);
			done();
		}
	for (int i = 0; i < n; i++)
		join_child(pid[i]);
}

TEST(handler_bad, "UA-06 a handler at a bad address, a stack where no frame fits")
{
	static void *const at[] = { (void *)0x800000000000, (void *)0xffffffff81000000,
				    (void *)16 };

	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		pid_t pid = xfork();

		if (pid == 0) {
			signal(SIGUSR1, (void (*)(int))at[i]);
			raise(SIGUSR1);
			_exit(0);
		}
		CHECK_KILLED(pid, SIGSEGV);
	}
	static const unsigned long stacks[] = { 0x1000, 0x800000001000, 1UL << 63,
						0xffffffff81000000, 0 };
	for (size_t i = 0; i < ARRAY_SIZE(stacks); i++) {
		pid_t pid = xfork();

		if (pid == 0) {
			signal(SIGUSR1, _exit);
			__asm__ volatile("mov %0, %%rsp; syscall" ::"r"(stacks[i]), "a"(SYS_kill),
					 "D"(getpid()), "S"(SIGUSR1)
					 : "rcx", "r11", "memory");
			_exit(0);
		}
		CHECK_KILLED(pid, SIGSEGV);
	}
}

/* ---- UA-07 ------------------------------------------------------------------------------ */

static void *last_bytes(void *arg)
{
	(void)arg;
	char *top = (char *)0x7fffffffe000;

	CHECK_ERR(raw_mmap(USER_END, P, RW, ANON | MAP_FIXED, -1, 0), ENOMEM);
	CHECK_ERR(raw_mmap((unsigned long)top, 2 * P, RW, ANON | MAP_FIXED, -1, 0), ENOMEM);
	if (raw_mmap((unsigned long)top, P, RW | PROT_EXEC, ANON | MAP_FIXED_NOREPLACE, -1, 0) ==
	    -1) {
		/* The first thread's stack is there; another thread may take its end away. */
		CHECK_EQ(errno, EEXIST);
		NEED(raw_mmap((unsigned long)top, P, RW | PROT_EXEC, ANON | MAP_FIXED, -1, 0) ==
		     (long)top);
	}
	use_altstack();
	top[P - 2] = 0x0f;
	top[P - 1] = 0x05;
	CHECK_FAULT(TRY(__asm__ volatile("call *%0" ::"r"(top + P - 2), "a"(SYS_getppid)
					 : "rcx", "r11", "memory")),
		    SIGSEGV, SEGV_MAPERR_, USER_END);
	/* And an ordinary instruction that ends there. */
	top[P - 1] = (char)0x90;
	CHECK_FAULT(jumps(top + P - 1), SIGSEGV, SEGV_MAPERR_, USER_END);
	/* The last byte can be used; the next cannot. */
	CHECK_RUNS(loads(top + P - 1));
	CHECK_FAULT(loads(top + P), SIGSEGV, SEGV_MAPERR_, USER_END);
	done();
}

TEST(last_bytes_test, "UA-07 a system call in the last bytes of user space")
{
	join(start(last_bytes, NULL));
}

/* ---- UA-08 ------------------------------------------------------------------------------ */

static unsigned stack_selector(void)
{
	unsigned ss;

	__asm__ volatile("mov %%ss, %0" : "=r"(ss));
	return ss & 0xffff;
}

TEST(selector, "UA-08 the stack selector after system calls, faults and preemption")
{
	unsigned first = stack_selector();
	char *m = map(256 * P, RW, ANON);

	CHECK_EQ(first & 3, 3);
	for (long i = 0; go_on(i, 20000); i++) {
		syscall(SYS_getppid);
		unsigned after_call = stack_selector();

		m[i % 256 * P] = 1;
		unsigned after_fault = stack_selector();

		if (after_call != first || after_fault != first) {
			FAIL("ss 0x%x, after a call 0x%x, after a fault 0x%x", first, after_call,
			     after_fault);
			return;
		}
		if (i % 256 == 255)
			madvise(m, 256 * P, MADV_DONTNEED);
	}
}

TEST(syscall_registers, "UA-08 a system call changes only rax, rcx and r11")
{
	unsigned long bad = 0;

	for (int i = 0; i < 100; i++) {
		unsigned long rax = SYS_getppid, out[8];

		__asm__ volatile(
			"push %%rbp; push %%rbx\n\t"
			"mov $0x11, %%edi; mov $0x22, %%esi\n\t"
			"mov $0x33, %%edx; mov $0x44, %%r10d\n\t"
			"mov $0x55, %%r8d; mov $0x66, %%r9d\n\t"
			"mov $0x77, %%ebx; mov $0x88, %%r12d\n\t"
			"syscall\n\t"
			"xor $0x11, %%rdi; xor $0x22, %%rsi; xor $0x33, %%rdx; xor $0x44, %%r10\n\t"
			"xor $0x55, %%r8; xor $0x66, %%r9; xor $0x77, %%rbx; xor $0x88, %%r12\n\t"
			"or %%rsi, %%rdi; or %%rdx, %%rdi; or %%r10, %%rdi\n\t"
			"or %%r8, %%rdi; or %%r9, %%rdi\n\t"
			"or %%rbx, %%rdi; or %%r12, %%rdi\n\t"
			"pop %%rbx; pop %%rbp"
			: "+a"(rax), "=D"(out[0])::"rsi", "rdx", "r10", "r8", "r9", "r12", "rcx",
			  "r11", "memory", "cc");
		bad |= out[0];
		if (rax != (unsigned long)getppid())
			FAIL("getppid gave %lu", rax);
	}
	CHECK_EQ(bad, 0);
}

TEST(unknown_calls, "UA-08 unknown call numbers give ENOSYS")
{
	static const unsigned long numbers[] = { 511,        1000,       4096,
						 0x7fffffff, 0x80000000, 1UL << 32 | 1000,
						 -1UL };

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		CHECK_ERR(syscall(numbers[i], 0, 0, 0, 0, 0, 0), ENOSYS);
	/* Only the low 32 bits are the number. */
	CHECK_EQ(syscall(1UL << 32 | SYS_getppid), getppid());
}

/* ---- UA-10 ------------------------------------------------------------------------------ */

TEST(error_code, "UA-10 the handler heeds the error code")
{
	char *m = map(P, RW, ANON);

	m[0] = (char)0xc3;
	CHECK_FAULT(jumps(m), SIGSEGV, SEGV_ACCERR_, m);
	NEED(mprotect(m, P, PROT_READ) == 0);
	CHECK_FAULT(stores(m + 5, 1), SIGSEGV, SEGV_ACCERR_, m + 5);
	CHECK_FAULT(jumps(m), SIGSEGV, SEGV_ACCERR_, m);
	CHECK_RUNS(loads(m));
	NEED(mprotect(m, P, PROT_NONE) == 0);
	CHECK_FAULT(loads(m + 77), SIGSEGV, SEGV_ACCERR_, m + 77);
	CHECK_FAULT(stores(m + 78, 1), SIGSEGV, SEGV_ACCERR_, m + 78);
	CHECK_FAULT(jumps(m), SIGSEGV, SEGV_ACCERR_, m);
	NEED(mprotect(m, P, PROT_READ | PROT_EXEC) == 0);
	CHECK_RUNS(jumps(m));
	CHECK_FAULT(stores(m + 1, 1), SIGSEGV, SEGV_ACCERR_, m + 1);

	char *fresh = map(P, PROT_READ, ANON);
	CHECK_FAULT(stores(fresh + 9, 1), SIGSEGV, SEGV_ACCERR_, fresh + 9);
	CHECK_RUNS(loads(fresh));
	CHECK_FAULT(stores(fresh + 9, 1), SIGSEGV, SEGV_ACCERR_, fresh + 9);

	int fd = tmpfile_fd(P);
	char *shared = map_fd(P, PROT_READ, MAP_SHARED, fd, 0);
	CHECK_FAULT(stores(shared + 3, 1), SIGSEGV, SEGV_ACCERR_, shared + 3);
	CHECK_RUNS(loads(shared));
	CHECK_FAULT(stores(shared + 4095, 1), SIGSEGV, SEGV_ACCERR_, shared + 4095);
	CHECK_FAULT(jumps(shared), SIGSEGV, SEGV_ACCERR_, shared);
	unmap(shared, P);
	CHECK_FAULT(loads(shared), SIGSEGV, SEGV_MAPERR_, shared);
}

TEST(straddle, "UA-10 an access that crosses into a page it may not touch")
{
	char *m = map(2 * P, RW, ANON);

	NEED(mprotect(m + P, P, PROT_NONE) == 0);
	CHECK(!TRY(*(volatile unsigned long *)(m + P - 4) = 1));
	CHECK(hit.sig == SIGSEGV && hit.code == SEGV_ACCERR_);
	CHECK_MSG(hit.addr == (uintptr_t)(m + P), "si_addr 0x%lx, expected 0x%lx", hit.addr,
		  (long)(m + P));
}

TEST(default_action, "UA-10 without a handler the fault kills")
{
	pid_t pid = xfork();

	if (pid == 0) {
		crash();
		_exit(0);
	}
	CHECK_KILLED(pid, SIGSEGV);
	pid = xfork();
	if (pid == 0) {
		/* Blocked or ignored, a fault's signal kills all the same. */
		sigset_t set;

		sigfillset(&set);
		sigprocmask(SIG_BLOCK, &set, NULL);
		crash();
		_exit(0);
	}
	CHECK_KILLED(pid, SIGSEGV);
	pid = xfork();
	if (pid == 0) {
		signal(SIGSEGV, SIG_IGN);
		crash();
		_exit(0);
	}
	CHECK_KILLED(pid, SIGSEGV);
}

TEST(other_exceptions, "UA-10 exceptions other than page faults")
{
	char *m = map(P, RW | PROT_EXEC, ANON);
	volatile int zero = 0, one = 1;
	extern char div_at[];

	m[0] = 0x0f, m[1] = 0x0b;             /* ud2 */
	CHECK_FAULT(jumps(m), SIGILL, 2, m);  /* ILL_ILLOPN */
	m[0] = (char)0xcc, m[1] = (char)0xc3; /* int3 */
	CHECK(!jumps(m));
	CHECK_EQ(hit.sig, SIGTRAP);
	CHECK_EQ(hit.code, SI_KERNEL_);
	CHECK(!TRY(__asm__ volatile("cltd\n.globl div_at\ndiv_at: idivl %1" ::"a"(one), "r"(zero)
				    : "edx", "cc")));
	CHECK_EQ(hit.sig, SIGFPE);
	CHECK_EQ(hit.code, 1); /* FPE_INTDIV */
	CHECK_EQ(hit.addr, (long)div_at);
	m[0] = (char)0xf4; /* hlt */
	CHECK_FAULT(jumps(m), SIGSEGV, SI_KERNEL_, 0);
	m[0] = (char)0xfa; /* cli */
	CHECK_FAULT(jumps(m), SIGSEGV, SI_KERNEL_, 0);
	m[0] = (char)0xcd, m[1] = 0x0e; /* int 14 */
	CHECK_FAULT(jumps(m), SIGSEGV, SI_KERNEL_, 0);
	m[0] = (char)0xec; /* in al, dx */
	CHECK_FAULT(jumps(m), SIGSEGV, SI_KERNEL_, 0);
	m[0] = 0x0f, m[1] = 0x30; /* wrmsr */
	CHECK_FAULT(jumps(m), SIGSEGV, SI_KERNEL_, 0);
	m[0] = 0x0f, m[1] = 0x22, m[2] = (char)0xd8; /* mov cr3, rax */
	CHECK_FAULT(jumps(m), SIGSEGV, SI_KERNEL_, 0);
	CHECK_FAULT(loads((void *)(1UL << 62)), SIGSEGV, SI_KERNEL_, 0);
}

TEST(bad_selectors, "UA-10 bad selectors, and a null FS or GS, harm only the program")
{
	CHECK(!TRY(__asm__ volatile("mov %0, %%ds" ::"r"(0xfff8))));
	CHECK(hit.sig == SIGSEGV && hit.code == SI_KERNEL_);
	CHECK(!TRY(__asm__ volatile("mov %0, %%gs" ::"r"(0x1000))));
	CHECK(hit.sig == SIGSEGV && hit.code == SI_KERNEL_);
	__asm__ volatile("mov %0, %%gs" ::"r"(0));
	__asm__ volatile("mov %0, %%ds; mov %0, %%es" ::"r"(0));
	for (int i = 0; i < 200; i++) {
		syscall(SYS_getppid);
		sched_yield();
	}
	CHECK_EQ(test_failed, 0); /* thread-local and global data are still there */
	CHECK(try_here == NULL);
}

/* ---- UA-11 ------------------------------------------------------------------------------ */

TEST(kernel_addresses, "UA-11 user access to kernel addresses")
{
	static const unsigned long canonical[] = {
		0,
		0x10,
		0x7ffffffff000,
		0xffff800000000000,
		0xffff888000000000,
		0xffffc90000000000,
		0xffffffff80000000,
		0xffffffff81000000,
		0xffffffff80100000,
		0xfffffffffffff000,
		0xffffffffffffffff,
	};
	static const unsigned long wild[] = { 0x800000000000, 1UL << 63, 0xffff7fffffffffff,
					      0x0001000000000000 };

	use_altstack();
	for (size_t i = 0; i < ARRAY_SIZE(canonical); i++) {
		char *p = (char *)canonical[i];

		CHECK_FAULT(loads(p), SIGSEGV, SEGV_MAPERR_, p);
		CHECK_FAULT(stores(p, 1), SIGSEGV, SEGV_MAPERR_, p);
		CHECK_FAULT(jumps(p), SIGSEGV, SEGV_MAPERR_, p);
	}
	for (size_t i = 0; i < ARRAY_SIZE(wild); i++) {
		char *p = (char *)wild[i];

		CHECK_FAULT(loads(p), SIGSEGV, SI_KERNEL_, 0);
		CHECK_FAULT(stores(p, 1), SIGSEGV, SI_KERNEL_, 0);
		CHECK_FAULT(jumps(p), SIGSEGV, SI_KERNEL_, 0);
	}
}

/* ---- UA-13 ------------------------------------------------------------------------------ */

#define STRIPE 64 /* pages that one thread faults over and over */

static struct {
	volatile bool stop;
	char *base[64];
} storm;

static void *storm_faults(void *arg)
{
	int me = (int)(intptr_t)arg;
	char *m = storm.base[me];

	pin(me);
	for (long round = 0; go_on(round, 100); round++) {
		for (int i = 0; i < STRIPE; i++) {
			volatile long *word = (long *)(m + i * P + 8 * me);

			if (!CHECK_RUNS(stores(word, 0)))
				return NULL;
			if (*word) {
				FAIL("a fresh page holds 0x%lx", *word);
				return NULL;
			}
			*word = round + 1;
		}
		for (int i = 0; i < STRIPE; i++)
			if (*(long *)(m + i * P + 8 * me) != round + 1)
				FAIL("page %d lost its word", i);
		madvise(m, STRIPE * P, MADV_DONTNEED);
	}
	return NULL;
}

static void *storm_unmaps(void *arg)
{
	pin((int)(intptr_t)arg);
	while (!storm.stop) {
		char *m = map(8 * P, RW, ANON);

		for (int i = 0; i < 8; i++)
			m[i * P] = 1;
		CHECK_FAULT(loads(NULL), SIGSEGV, SEGV_MAPERR_, 0);
		unmap(m, 8 * P);
	}
	return NULL;
}

TEST(storm_test, "UA-13 faults and shootdowns at once on every CPU", .seconds = 40)
{
	pthread_t f[64], u[64];
	int n = ncpus() < 16 ? ncpus() : 16;

	catch_faults();
	for (int i = 0; i < n; i++)
		storm.base[i] = map(STRIPE * P, RW, ANON);
	for (int i = 0; i < n; i++) {
		f[i] = start(storm_faults, (void *)(intptr_t)i);
		u[i] = start(storm_unmaps, (void *)(intptr_t)i);
	}
	for (int i = 0; i < n; i++)
		join(f[i]);
	storm.stop = true;
	for (int i = 0; i < n; i++)
		join(u[i]);
}
