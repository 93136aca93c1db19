/*
 * Signals: what a handler gets, masks, the alternate stack, restarting, waiting, queues of
 * real-time signals, nesting.
 */
#include "harness.h"

#include <ucontext.h>

static volatile int count, last_sig, last_code, last_value;
static volatile pid_t last_pid;

static void record(int sig, siginfo_t *info, void *uc)
{
	(void)uc;
	count++;
	last_sig = sig;
	last_code = info->si_code;
	last_pid = info->si_pid;
	last_value = info->si_value.sival_int;
}

static void catch (int sig, int flags)
{
	struct sigaction sa = { .sa_sigaction = record, .sa_flags = SA_SIGINFO | flags };

	NEED(sigaction(sig, &sa, NULL) == 0);
	count = 0;
}

static sigset_t set_of(int sig)
{
	sigset_t s;

	sigemptyset(&s);
	if (sig)
		sigaddset(&s, sig);
	return s;
}

TEST(info, "SG what siginfo says")
{
	catch (SIGUSR1, 0);
	CHECK_EQ(kill(getpid(), SIGUSR1), 0);
	CHECK_EQ(count, 1);
	CHECK_EQ(last_code, SI_USER);
	CHECK_EQ(last_pid, getpid());
	CHECK_EQ(syscall(SYS_tkill, getpid(), SIGUSR1), 0);
	CHECK_EQ(last_code, SI_TKILL);
	union sigval v = { .sival_int = 4711 };
	CHECK_EQ(sigqueue(getpid(), SIGUSR1, v), 0);
	CHECK_EQ(last_code, SI_QUEUE);
	CHECK_EQ(last_value, 4711);
	CHECK_EQ(count, 3);
	catch (SIGCHLD, 0);
	pid_t pid = xfork();
	if (pid == 0)
		_exit(3);
	CHECK_EQ(WEXITSTATUS(wait_raw(pid)), 3);
	CHECK_EQ(last_sig, SIGCHLD);
	CHECK_EQ(last_code, CLD_EXITED);
	CHECK_EQ(last_pid, pid);
	pid = xfork();
	if (pid == 0)
		raise(SIGKILL);
	CHECK_KILLED(pid, SIGKILL);
	CHECK_EQ(last_code, CLD_KILLED);
}

TEST(masks, "SG blocked signals wait; standard ones do not pile up")
{
	sigset_t block = set_of(SIGUSR1), old, pending;

	catch (SIGUSR1, 0);
	CHECK_EQ(sigprocmask(SIG_BLOCK, &block, &old), 0);
	CHECK(!sigismember(&old, SIGUSR1));
	for (int i = 0; i < 3; i++)
		raise(SIGUSR1);
	CHECK_EQ(count, 0);
	CHECK_EQ(sigpending(&pending), 0);
	CHECK(sigismember(&pending, SIGUSR1));
	CHECK(!sigismember(&pending, SIGUSR2));
	CHECK_EQ(sigprocmask(SIG_UNBLOCK, &block, NULL), 0);
	CHECK_EQ(count, 1);
	CHECK_ERR(syscall(SYS_rt_sigprocmask, 77, &block, NULL, 8), EINVAL);
	CHECK_ERR(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &block, NULL, 4), EINVAL);
	/* KILL and STOP cannot be blocked. */
	sigfillset(&block);
	unsigned long all = ~0UL, now;
	CHECK_EQ(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, 8), 0);
	CHECK_EQ(syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &now, 8), 0);
	CHECK_EQ(now & (1UL << (SIGKILL - 1) | 1UL << (SIGSTOP - 1)), 0);
	sigemptyset(&block);
	sigprocmask(SIG_SETMASK, &block, NULL);
	/* Ignored while blocked: gone. */
	block = set_of(SIGUSR2);
	sigprocmask(SIG_BLOCK, &block, NULL);
	raise(SIGUSR2);
	signal(SIGUSR2, SIG_IGN);
	sigpending(&pending);
	CHECK(!sigismember(&pending, SIGUSR2));
	sigprocmask(SIG_UNBLOCK, &block, NULL);
}

TEST(real_time, "SG real-time signals queue, in order, lowest number first")
{
	sigset_t block;
	siginfo_t info;

	sigemptyset(&block);
	sigaddset(&block, SIGRTMIN + 3);
	sigaddset(&block, SIGRTMIN + 1);
	sigprocmask(SIG_BLOCK, &block, NULL);
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(sigqueue(getpid(), SIGRTMIN + 3, (union sigval){ .sival_int = 30 + i }),
			 0);
		CHECK_EQ(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){ .sival_int = 10 + i }),
			 0);
	}
	for (int i = 0; i < 10; i++) {
		CHECK_EQ(sigwaitinfo(&block, &info), i < 5 ? SIGRTMIN + 1 : SIGRTMIN + 3);
		CHECK_EQ(info.si_value.sival_int, i < 5 ? 10 + i : 25 + i);
	}
	struct timespec ts = { 0, 10000000 };
	CHECK_ERR(sigtimedwait(&block, &info, &ts), EAGAIN);
	ts.tv_nsec = -1;
	CHECK_ERR(sigtimedwait(&block, &info, &ts), EINVAL);
	ts.tv_nsec = 0;
	CHECK_ERR(sigtimedwait(&block, &info, &ts), EAGAIN);
	/* What a waiter takes no handler gets; what it does not wait for interrupts it. */
	catch (SIGUSR2, 0);
	pid_t me = getpid(), pid = xfork();
	if (pid == 0) {
		sleep_ms(20);
		kill(me, SIGUSR2);
		done();
	}
	ts.tv_sec = 5;
	CHECK_ERR(syscall(SYS_rt_sigtimedwait, &block, &info, &ts, 8),
		  EINTR); /* libc would try again */
	CHECK_EQ(count, 1);
	join_child(pid);
}

static volatile uintptr_t stack_in_handler;

static void note_stack(int sig)
{
	(void)sig;
	stack_in_handler = (uintptr_t)__builtin_frame_address(0);
	count++;
}

static void change_altstack(int sig)
{
	stack_t ss = { .ss_flags = SS_DISABLE };

	(void)sig;
	CHECK_EQ(sigaltstack(NULL, &ss), 0);
	CHECK(ss.ss_flags & SS_ONSTACK);
	CHECK_ERR(sigaltstack(&(stack_t){ .ss_flags = SS_DISABLE }, NULL), EPERM);
	count++;
}

TEST(altstack, "SG the alternate stack")
{
	char *area = map(8 * P, RW, ANON);
	stack_t ss = { .ss_sp = area, .ss_size = 8 * P }, old;
	struct sigaction sa = { .sa_handler = note_stack, .sa_flags = SA_ONSTACK };

	CHECK_EQ(sigaltstack(NULL, &old), 0);
	CHECK(old.ss_flags & SS_DISABLE);
	CHECK_EQ(sigaltstack(&ss, NULL), 0);
	CHECK_EQ(sigaltstack(NULL, &old), 0);
	CHECK(old.ss_sp == area && old.ss_size == 8 * P && old.ss_flags == 0);
	sigaction(SIGUSR1, &sa, NULL);
	raise(SIGUSR1);
	CHECK(stack_in_handler > (uintptr_t)area && stack_in_handler < (uintptr_t)area + 8 * P);
	sa.sa_flags = 0;
	sigaction(SIGUSR1, &sa, NULL);
	raise(SIGUSR1);
	CHECK(stack_in_handler < (uintptr_t)area || stack_in_handler > (uintptr_t)area + 8 * P);
	sa.sa_flags = SA_ONSTACK;
	sa.sa_handler = change_altstack;
	sigaction(SIGUSR1, &sa, NULL);
	count = 0;
	raise(SIGUSR1);
	CHECK_EQ(count, 1);
	ss.ss_size = 100;
	CHECK_ERR(syscall(SYS_sigaltstack, &ss, NULL), ENOMEM);
	ss.ss_size = 8 * P;
	ss.ss_flags = 0x1234;
	CHECK_ERR(syscall(SYS_sigaltstack, &ss, NULL), EINVAL);
	/* An alternate stack that is not there: the signal cannot be delivered. */
	pid_t pid = xfork();
	if (pid == 0) {
		ss.ss_flags = 0;
		NEED(sigaltstack(&ss, NULL) == 0);
		unmap(area, 8 * P);
		sa.sa_handler = note_stack;
		sigaction(SIGUSR1, &sa, NULL);
		raise(SIGUSR1);
		_exit(0);
	}
	CHECK_KILLED(pid, SIGSEGV);
}

static volatile int depth, deepest, again;

static void nest(int sig)
{
	depth++;
	if (depth > deepest)
		deepest = depth;
	if (again-- > 0)
		raise(sig);
	depth--;
}

static void other(int sig)
{
	(void)sig;
	count = depth;
}

static void masked(int sig)
{
	sigset_t now;

	depth = 1;
	sigprocmask(SIG_BLOCK, NULL, &now);
	CHECK(sigismember(&now, sig));
	CHECK(sigismember(&now, SIGUSR2));
	raise(SIGUSR2);
	if (again-- > 0)
		raise(sig);
	depth = 0;
}

TEST(nesting, "SG nesting, sa_mask, SA_NODEFER")
{
	struct sigaction sa = { .sa_handler = nest, .sa_flags = SA_NODEFER };
	sigset_t mask;

	sigaction(SIGUSR1, &sa, NULL);
	again = 9;
	raise(SIGUSR1);
	CHECK_EQ(deepest, 10);
	sa.sa_flags = 0;
	sigaction(SIGUSR1, &sa, NULL);
	deepest = 0;
	again = 3; /* each comes after the return of the one before */
	raise(SIGUSR1);
	CHECK_EQ(deepest, 1);
	CHECK_EQ(again, -1);

	/*
	 * In a handler its own signal and those of sa_mask are blocked; what came meanwhile comes
	 * after it.
	 */
	sa = (struct sigaction){ .sa_handler = masked };
	sigaddset(&sa.sa_mask, SIGUSR2);
	sigaction(SIGUSR1, &sa, NULL);
	signal(SIGUSR2, other);
	count = -1;
	again = 1;
	raise(SIGUSR1);
	CHECK_EQ(again, -1);
	CHECK_EQ(count, 0);
	sigprocmask(SIG_BLOCK, NULL, &mask);
	CHECK(!sigismember(&mask, SIGUSR1) && !sigismember(&mask, SIGUSR2));
}

TEST(reset_hand, "SG SA_RESETHAND")
{
	struct sigaction now;

	catch (SIGUSR1, SA_RESETHAND);
	raise(SIGUSR1);
	CHECK_EQ(count, 1);
	sigaction(SIGUSR1, NULL, &now);
	CHECK(now.sa_handler == SIG_DFL);
	pid_t pid = xfork();
	if (pid == 0) {
		raise(SIGUSR1);
		_exit(0);
	}
	CHECK_KILLED(pid, SIGUSR1);
	CHECK_ERR(syscall(SYS_rt_sigaction, SIGKILL, &now, NULL, 8), EINVAL);
	CHECK_ERR(syscall(SYS_rt_sigaction, SIGSTOP, &now, NULL, 8), EINVAL);
	CHECK_ERR(syscall(SYS_rt_sigaction, 0, NULL, NULL, 8), EINVAL);
	CHECK_ERR(syscall(SYS_rt_sigaction, 65, NULL, NULL, 8), EINVAL);
	CHECK_ERR(syscall(SYS_rt_sigaction, SIGUSR1, NULL, NULL, 7), EINVAL);
}

/* Interrupts this process twice, then does what would end the wait. */
static pid_t pest(int fd)
{
	pid_t me = getpid(), pid = xfork();

	if (pid == 0) {
		for (int i = 0; i < 2; i++) {
			sleep_ms(25);
			kill(me, SIGUSR1);
		}
		sleep_ms(25);
		if (fd >= 0)
			(void)!write(fd, "x", 1);
		done();
	}
	return pid;
}

TEST(restart, "SG SA_RESTART and EINTR")
{
	int fd[2], n = 0, status;
	char c;

	NEED(pipe(fd) == 0);
	catch (SIGUSR1, SA_RESTART);
	pid_t pid = pest(fd[1]);
	CHECK_EQ(read(fd[0], &c, 1), 1);
	CHECK_EQ(count, 2);
	join_child(pid);
	pid = pest(-1);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(count, 4);
	catch (SIGUSR1, 0);
	pid = pest(fd[1]);
	while (read(fd[0], &c, 1) != 1) {
		CHECK_EQ(errno, EINTR);
		n++;
	}
	CHECK_EQ(n, 2);
	join_child(pid);
	pid = pest(-1);
	n = 0;
	while (waitpid(pid, &status, 0) != pid)
		n += CHECK_EQ(errno, EINTR);
	CHECK_EQ(n, 2);
	/* Sleeps say what is left. */
	pid = pest(-1);
	struct timespec ts = { 5, 0 }, rest = { 0, 0 };
	catch (SIGUSR1, SA_RESTART); /* nanosleep does not restart by it */
	CHECK_ERR(nanosleep(&ts, &rest), EINTR);
	CHECK(rest.tv_sec == 4);
	join_child(pid);
	pid = pest(-1);
	CHECK_ERR(pause(), EINTR);
	join_child(pid);
}

TEST(suspend, "SG sigsuspend")
{
	sigset_t block = set_of(SIGUSR1), none = set_of(0), now;

	catch (SIGUSR1, 0);
	sigprocmask(SIG_BLOCK, &block, NULL);
	raise(SIGUSR1);
	CHECK_EQ(count, 0);
	CHECK_ERR(sigsuspend(&none), EINTR);
	CHECK_EQ(count, 1);
	sigprocmask(SIG_BLOCK, NULL, &now);
	CHECK(sigismember(&now, SIGUSR1)); /* the old mask is back */
}

static volatile uintptr_t fault_addr, fault_ip;
static volatile long fault_err, fault_trap;
static char *fault_page;

static void repair(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	(void)sig;
	fault_addr = (uintptr_t)info->si_addr;
	fault_err = uc->uc_mcontext.gregs[REG_ERR];
	fault_trap = uc->uc_mcontext.gregs[REG_TRAPNO];
	fault_ip = uc->uc_mcontext.gregs[REG_RIP];
	CHECK_EQ(uc->uc_mcontext.gregs[REG_CR2], fault_addr);
	count++;
	mprotect(fault_page, P, RW);
}

TEST(fault_repair, "SG a fault's handler repairs, and the access goes on")
{
	struct sigaction sa = { .sa_sigaction = repair, .sa_flags = SA_SIGINFO };

	fault_page = map(P, PROT_READ, ANON);
	sigaction(SIGSEGV, &sa, NULL);
	count = 0;
	((volatile char *)fault_page)[44] = 7;
	CHECK_EQ(count, 1);
	CHECK_EQ(fault_page[44], 7);
	CHECK_EQ(fault_addr, fault_page + 44);
	CHECK_EQ(fault_trap, 14);
	CHECK_EQ(fault_err & 6, 6); /* a write from user mode */
	CHECK(fault_ip != 0);
	mprotect(fault_page, P, PROT_NONE);
	(void)*(volatile char *)(fault_page + 5);
	CHECK_EQ(count, 2);
	CHECK_EQ(fault_err & 2, 0);
	long n = 0;
	for (; go_on(n, 200); n++) {
		mprotect(fault_page, P, PROT_NONE);
		((volatile char *)fault_page)[n] = n;
	}
	CHECK_EQ(count, 2 + n);
}

static void edit_rax(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_R12] += 1;
}

TEST(context, "SG all registers survive a handler; a handler may change them")
{
	struct sigaction sa = { .sa_sigaction = record, .sa_flags = SA_SIGINFO };
	unsigned long bad;

	/* Delivered at a system call's end. */
	sigaction(SIGUSR1, &sa, NULL);
	__asm__ volatile(
		"push %%rbp\n\t"
		"mov $0x1111, %%ebx; mov $0x2222, %%r12d; mov $0x3333, %%r13d\n\t"
		"mov $0x4444, %%r14d; mov $0x5555, %%r15d\n\t"
		"mov $0x6666, %%ebp; mov $0x7777, %%r8d\n\t"
		"mov $0x8888, %%r9d; mov $0x9999, %%r10d\n\t"
		"syscall\n\t"
		"xor $0x1111, %%rbx; xor $0x2222, %%r12; xor $0x3333, %%r13\n\t"
		"xor $0x4444, %%r14; xor $0x5555, %%r15\n\t"
		"xor $0x6666, %%rbp; xor $0x7777, %%r8; xor $0x8888, %%r9; xor $0x9999, %%r10\n\t"
		"or %%r12, %%rbx; or %%r13, %%rbx; or %%r14, %%rbx\n\t"
		"or %%r15, %%rbx; or %%rbp, %%rbx\n\t"
		"or %%r8, %%rbx; or %%r9, %%rbx; or %%r10, %%rbx; or %%rax, %%rbx\n\t"
		"pop %%rbp"
		: "=b"(bad)
		: "a"(SYS_kill), "D"(getpid()), "S"(SIGUSR1)
		: "rcx", "r11", "r8", "r9", "r10", "r12", "r13", "r14", "r15", "memory", "cc");
	CHECK_EQ(bad, 0);
	CHECK_EQ(count, 1);
	/* A changed register comes back changed. */
	sa.sa_sigaction = edit_rax;
	sigaction(SIGUSR1, &sa, NULL);
	unsigned long r12;
	__asm__ volatile("mov $41, %%r12d; syscall; mov %%r12, %0"
			 : "=r"(r12)
			 : "a"(SYS_kill), "D"(getpid()), "S"(SIGUSR1)
			 : "rcx", "r11", "r12", "memory", "cc");
	CHECK_EQ(r12, 42);
}

static volatile pthread_t got_it;
static volatile bool stop;

static void who(int sig)
{
	(void)sig;
	got_it = pthread_self();
	count++;
}

static void *blocked_spin(void *arg)
{
	sigset_t block = set_of(SIGUSR1);

	(void)arg;
	pthread_sigmask(SIG_BLOCK, &block, NULL);
	while (!stop)
		sleep_ms(1);
	return NULL;
}

static void *open_spin(void *arg)
{
	(void)arg;
	while (!stop)
		sleep_ms(1);
	return NULL;
}

TEST(threads, "SG a process's signal goes to a thread that takes it, a thread's to that thread")
{
	sigset_t block = set_of(SIGUSR1);

	signal(SIGUSR1, who);
	pthread_t a = start(blocked_spin, NULL), b = start(open_spin, NULL);
	pthread_sigmask(SIG_BLOCK, &block, NULL);
	sleep_ms(10);
	count = 0;
	kill(getpid(), SIGUSR1);
	for (int i = 0; i < 1000 && !count; i++)
		sleep_ms(1);
	CHECK(count == 1 && got_it == b);
	CHECK_EQ(pthread_kill(b, SIGUSR1), 0);
	for (int i = 0; i < 1000 && count < 2; i++)
		sleep_ms(1);
	CHECK(count == 2 && got_it == b);
	pthread_kill(a, SIGUSR1); /* waits for ever */
	sleep_ms(10);
	CHECK_EQ(count, 2);
	stop = true;
	join(a);
	join(b);
}

TEST(interrupts_loop, "SG a signal reaches a thread that never enters the kernel")
{
	sigset_t usr2 = set_of(SIGUSR2);

	sigprocmask(SIG_BLOCK, &usr2, NULL);
	pid_t pid = xfork();
	if (pid == 0) {
		catch (SIGUSR1, 0);
		kill(getppid(), SIGUSR2);
		while (!count)
			pause_cpu();
		done();
	}
	struct timespec ts = { 5, 0 };
	sigtimedwait(&usr2, NULL, &ts);
	sleep_ms(5);
	CHECK_EQ(kill(pid, SIGUSR1), 0);
	join_child(pid);
}

TEST(storm, "SG many signals from many processes", .seconds = 40)
{
	enum { N = 4 };
	pid_t pid[N], me = getpid();
	int n = rounds(100);

	sigset_t block = set_of(SIGRTMIN + 2);
	sigprocmask(SIG_BLOCK, &block, NULL);
	for (int i = 0; i < N; i++)
		if ((pid[i] = xfork()) == 0) {
			for (int k = 0; k < n; k++)
				while (sigqueue(me, SIGRTMIN + 2,
						(union sigval){ .sival_int = i }) < 0 &&
				       errno == EAGAIN)
					sched_yield();
			done();
		}
	int from[N] = { 0 };
	for (int k = 0; k < N * n; k++) {
		siginfo_t info;
		struct timespec ts = { 10, 0 };

		if (!CHECK_EQ(sigtimedwait(&block, &info, &ts), SIGRTMIN + 2))
			break;
		from[info.si_value.sival_int]++;
	}
	for (int i = 0; i < N; i++) {
		CHECK_EQ(from[i], n);
		join_child(pid[i]);
	}
}
