/*
 * Floating point and vector state: kept over system calls, preemption, migration, signals and fork;
 * fresh after exec and never another task's.
 */
#include "harness.h"

#include <cpuid.h>
#include <ucontext.h>

static bool has_avx(void)
{
	unsigned a, b, c, d;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_AVX))
		return false;
	__asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
	return (a & 6) == 6;
}

static bool has_avx512(void)
{
	unsigned a, b, c, d;

	if (!has_avx() || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX512F))
		return false;
	__asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
	return (a & 0xe6) == 0xe6;
}

/* clang-format off */

/* All sixteen SSE registers, from 16 blocks of 16 bytes, and back. */
#define EACH(op)                                                                           \
	op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7)                                    \
	op(8) op(9) op(10) op(11) op(12) op(13) op(14) op(15)
#define LOAD_X(n) "movdqu " #n "*16(%0), %%xmm" #n "\n\t"
#define SAVE_X(n) "movdqu %%xmm" #n ", " #n "*16(%1)\n\t"
#define LOAD_Y(n) "vmovdqu " #n "*32(%0), %%ymm" #n "\n\t"
#define SAVE_Y(n) "vmovdqu %%ymm" #n ", " #n "*32(%1)\n\t"
#define LOAD_Z(n) "vmovdqu64 " #n "*64(%0), %%zmm" #n "\n\t"
#define SAVE_Z(n) "vmovdqu64 %%zmm" #n ", " #n "*64(%1)\n\t"
#define CLOBBERS                                                                           \
	"xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",    \
	"xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "memory"

/*
 * Loads the registers, does something in the middle, stores them. kind: 0 SSE, 1 AVX, 2 AVX-512.
 * The middle: `calls` raw system calls `nr` with arguments a, b, or for nr < 0 so many turns of
 * a loop.
 */
#define THROUGH(LOAD, SAVE)                                                                \
	__asm__ volatile(EACH(LOAD)                                                        \
		"1: test %%r13, %%r13; js 2f\n\t"                                          \
		"mov %%r13, %%rax; mov %%r14, %%rdi; mov %%r15, %%rsi; syscall\n\t"        \
		"2: dec %%r12; jnz 1b\n\t"                                                 \
		EACH(SAVE)                                                                 \
		:: "b"(in), "d"(out), "r"(r12), "r"(r13), "r"(r14), "r"(r15)               \
		: "rax", "rcx", "r11", "rdi", "rsi", "cc", CLOBBERS)

/* clang-format on */

static void through(int kind, const void *in, void *out, long calls, long nr, long a, long b)
{
	register long r12 __asm__("r12") = calls;
	register long r13 __asm__("r13") = nr;
	register long r14 __asm__("r14") = a;
	register long r15 __asm__("r15") = b;

	if (kind == 0)
		THROUGH(LOAD_X, SAVE_X);
	else if (kind == 1)
		THROUGH(LOAD_Y, SAVE_Y);
	else
		THROUGH(LOAD_Z, SAVE_Z);
}

static int kinds(void)
{
	return has_avx512() ? 3 : has_avx() ? 2 : 1;
}

static size_t state_size(int kind)
{
	return 256 << kind;
}

static void fill(unsigned char *p, size_t n, unsigned seed)
{
	uint32_t s = seed + 1;

	for (size_t i = 0; i < n; i++)
		p[i] = roll(&s) >> 8;
}

static void check_kept(const char *what, long nr, long calls, long a, long b, unsigned seed)
{
	for (int kind = 0; kind < kinds(); kind++) {
		unsigned char in[1024], out[1024] = { 0 };

		fill(in, sizeof(in), seed * 10 + kind);
		through(kind, in, out, calls, nr, a, b);
		if (memcmp(in, out, state_size(kind)))
			FAIL("%s: vector registers of kind %d changed", what, kind);
	}
}

TEST(calls, "FP state over system calls that block and that do not")
{
	struct timespec ms = { 0, 1000000 };

	diag("vector state: %s", kinds() == 3 ? "AVX-512" : kinds() == 2 ? "AVX" : "SSE");
	check_kept("getppid", SYS_getppid, 100, 0, 0, 1);
	check_kept("sched_yield", SYS_sched_yield, 100, 0, 0, 2);
	check_kept("nanosleep", SYS_nanosleep, 5, (long)&ms, 0, 3);
}

static void *user(void *arg)
{
	unsigned me = (int)(intptr_t)arg;

	if (me % 2)
		pin(0);
	for (long i = 0; go_on(i, 12); i++)
		check_kept("preemption", -1, 300000, 0, 0, me * 1000 + i);
	return NULL;
}

TEST(preempted, "FP state over preemption, six threads on few CPUs", .seconds = 60)
{
	pthread_t t[6];

	for (int i = 0; i < 6; i++)
		t[i] = start(user, (void *)(intptr_t)i);
	for (int i = 0; i < 6; i++)
		join(t[i]);
}

TEST(migrated, "FP state over migration", .cpus = 2)
{
	cpu_set_t set[2];

	for (int i = 0; i < 2; i++) {
		pin(i);
		sched_getaffinity(0, sizeof(set[i]), &set[i]);
	}
	unpin();
	for (long i = 0; go_on(i, 200); i++) {
		/*
		 * sched_setaffinity(0, size, set): the third argument is in rdx, which holds `out`;
		 * so by a helper.
		 */
		unsigned char in[256], out[256];

		fill(in, sizeof(in), i);
		register long rdx __asm__("rdx") = (long)&set[i % 2];
		register long rbx __asm__("rbx") = (long)in;
		register long r12 __asm__("r12") = (long)out;
		__asm__ volatile(
			"movdqu (%%rbx), %%xmm3\n\t"
			"movdqu 16(%%rbx), %%xmm9\n\t"
			"movdqu 32(%%rbx), %%xmm15\n\t"
			"syscall\n\t"
			"movdqu %%xmm3, (%%r12)\n\t"
			"movdqu %%xmm9, 16(%%r12)\n\t"
			"movdqu %%xmm15, 32(%%r12)"
			:: "a"(SYS_sched_setaffinity), "D"(0), "S"(sizeof(cpu_set_t)),
			   "r"(rdx), "r"(rbx), "r"(r12)
			: "rcx", "r11", CLOBBERS);
		if (memcmp(in, out, 48))
			FAIL("round %ld: registers changed by a move to another CPU", i);
	}
}

static volatile int handled;

static void spoil(int sig, siginfo_t *info, void *uc)
{
	unsigned char junk[1024], out[1024];

	(void)sig, (void)info, (void)uc;
	memset(junk, 0xee, sizeof(junk));
	for (int kind = 0; kind < kinds(); kind++)
		through(kind, junk, out, 1, -1, 0, 0);
	__asm__ volatile("fninit; fldpi; fldpi" ::: "st", "st(1)");
	unsigned mxcsr = 0x9fc0;
	__asm__ volatile("ldmxcsr %0" ::"m"(mxcsr));
	handled++;
}

TEST(signals, "FP a handler's use of the registers is undone by its return")
{
	struct sigaction sa = { .sa_sigaction = spoil, .sa_flags = SA_SIGINFO };
	unsigned mxcsr = 0, now;
	double x;

	sigaction(SIGUSR1, &sa, NULL);
	__asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
	__asm__ volatile("fninit; fld1" ::: "st");
	check_kept("a signal", SYS_kill, 3, getpid(), SIGUSR1, 5);
	__asm__ volatile("fstpl %0" : "=m"(x));
	__asm__ volatile("stmxcsr %0" : "=m"(now));
	CHECK(handled >= 3);
	CHECK(x == 1.0);
	CHECK_EQ(now, mxcsr);
}

TEST(timer_signals, "FP signals by a timer in the middle of computing", .seconds = 40)
{
	struct sigaction sa = { .sa_sigaction = spoil, .sa_flags = SA_SIGINFO };
	struct itimerval it = { { 0, 3000 }, { 0, 3000 } };

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &it, NULL);
	for (long i = 0; go_on(i, 20); i++)
		check_kept("a timer's signal", -1, 400000, 0, 0, 50 + i);
	it = (struct itimerval){ 0 };
	setitimer(ITIMER_REAL, &it, NULL);
	CHECK(handled > 0);
}

static void look(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	(void)sig, (void)info;
	/* The interrupted registers are in the frame; what is written there is what comes back. */
	if (!uc->uc_mcontext.fpregs) {
		FAIL("no floating-point state in the frame");
		return;
	}
	unsigned char *xmm5 = (unsigned char *)uc->uc_mcontext.fpregs + 160 + 5 * 16;

	CHECK_EQ(xmm5[0], 0x42);
	memset(xmm5, 0x77, 16);
	handled++;
}

TEST(frame, "FP the frame shows the state, and a handler may change it")
{
	struct sigaction sa = { .sa_sigaction = look, .sa_flags = SA_SIGINFO };
	unsigned char in[16], out[16];

	memset(in, 0x42, 16);
	sigaction(SIGUSR1, &sa, NULL);
	__asm__ volatile("movdqu %1, %%xmm5; syscall; movdqu %%xmm5, %0"
			 : "=m"(out)
			 : "m"(in), "a"(SYS_kill), "D"(getpid()), "S"(SIGUSR1)
			 : "rcx", "r11", "xmm5", "memory");
	CHECK_EQ(handled, 1);
	for (int i = 0; i < 16; i++)
		CHECK_EQ(out[i], 0x77);
}

TEST(bad_frame, "FP a frame with impossible state kills the program, not the machine")
{
	pid_t pid = xfork();

	if (pid == 0) {
		/* mxcsr with reserved bits; then xstate header bits that are not supported. */
		struct sigaction sa = { .sa_sigaction = look, .sa_flags = SA_SIGINFO };

		(void)sa;
		ucontext_t *uc;
		unsigned char *frame = map(8 * P, RW, ANON);
		memset(frame, 0xff, 8 * P);
		uc = (ucontext_t *)(frame + P);
		memset(uc, 0, sizeof(*uc));
		uc->uc_mcontext.fpregs = (void *)(frame + 4 * P);
		uc->uc_mcontext.gregs[REG_RIP] = (long)_exit;
		uc->uc_mcontext.gregs[REG_RDI] = 0;
		uc->uc_mcontext.gregs[REG_CSGSFS] = 0x33 | 0x2bL << 48;
		uc->uc_mcontext.gregs[REG_RSP] = (long)(frame + 8 * P - 8);
		__asm__ volatile("mov %0, %%rsp; mov $15, %%eax; syscall" ::"r"(uc) : "memory");
		__builtin_unreachable();
	}
	int status = wait_raw(pid);
	CHECK_MSG((WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) || status == 0,
		  "wait status 0x%x", status);
}

TEST(forked, "FP fork gives the child the parent's registers")
{
	unsigned char in[16], out[16];

	memset(in, 0x5c, 16);
	long pid;
	unsigned short cw = 0x27f, cw_now = 0;
	__asm__ volatile("fldcw %0" ::"m"(cw));
	__asm__ volatile("movdqu %2, %%xmm7; syscall; movdqu %%xmm7, %0"
			 : "=m"(out), "=a"(pid)
			 : "m"(in), "a"(SYS_fork)
			 : "rcx", "r11", "xmm7", "memory");
	if (pid == 0) {
		test_failed = 0;
		CHECK(!memcmp(in, out, 16));
		__asm__ volatile("fnstcw %0" : "=m"(cw_now));
		CHECK_EQ(cw_now, cw);
		done();
	}
	CHECK(!memcmp(in, out, 16));
	join_child(pid);
}

static void *fresh(void *arg)
{
	unsigned mxcsr;

	(void)arg;
	__asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
	CHECK_EQ(mxcsr & 0xffc0, 0x1f80);
	return NULL;
}

int exec_main(int argc, char **argv)
{
	unsigned mxcsr;
	unsigned short cw;

	(void)argc, (void)argv;
	__asm__ volatile("stmxcsr %0; fnstcw %1" : "=m"(mxcsr), "=m"(cw));
	return (mxcsr & 0xffc0) != 0x1f80 || cw != 0x37f;
}

TEST(executed, "FP a new program begins with a clean state")
{
	pid_t pid = xfork();

	if (pid == 0) {
		unsigned mxcsr = 0x9fc0;
		unsigned short cw = 0x27f;

		__asm__ volatile("ldmxcsr %0; fldcw %1" ::"m"(mxcsr), "m"(cw));
		self_exec("state", NULL);
		done();
	}
	join_child(pid);
	join(start(fresh, NULL));
}

TEST(traps, "FP unmasked exceptions are SIGFPE")
{
	unsigned short cw = 0x37b; /* x87 division by zero is not masked */
	volatile double zero = 0;
	bool ran =
		TRY(__asm__ volatile("fninit; fldcw %0; fld1; fdivl %1; fwait" ::"m"(cw), "m"(zero)
				     : "st"));

	CHECK(!ran && hit.sig == SIGFPE);
	CHECK_EQ(hit.code, 3); /* FPE_FLTDIV */
	__asm__ volatile("fninit");
}

TEST(numbers, "FP threads compute the same sum at the same time", .seconds = 40)
{
	extern void *series(void *);
	pthread_t t[8];
	double sum[8];

	for (int i = 0; i < 8; i++)
		t[i] = start(series, &sum[i]);
	for (int i = 0; i < 8; i++)
		join(t[i]);
	for (int i = 1; i < 8; i++)
		CHECK(sum[i] == sum[0]);
	CHECK(sum[0] > 3.14 && sum[0] < 3.15);
}

void *series(void *arg)
{
	double s = 0;

	for (long k = 0; k < rounds(200000); k++)
		s += (k % 2 ? -4.0 : 4.0) / (2 * k + 1);
	*(double *)arg = s;
	return NULL;
}
