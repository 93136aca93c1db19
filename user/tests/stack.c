/*
 * The stack: growth, its limit, the guard gap to its neighbour, MAP_GROWSDOWN, and what is next to
 * them. known-bugs: ST-02 (second half).
 */
#include "harness.h"

static struct area stack_area(void)
{
	struct area a;
	volatile char here = 0;

	NEED(area_of((const void *)&here, &a));
	return a;
}

static __attribute__((noinline)) int deep(int n)
{
	volatile char frame[1024];

	frame[0] = n;
	return n ? deep(n - 1) + frame[0] : 0;
}

TEST(grows, "ST-02 the stack grows by itself")
{
	struct area before = stack_area();

	CHECK_MSG(!strcmp(before.name, "[stack]"), "the stack is called '%s'", before.name);
	deep(2000); /* 2 MB */
	struct area after = stack_area();
	CHECK(after.start < before.start);
	CHECK_EQ(after.end, before.end);
	CHECK(before.start - after.start >= MB);
}

TEST(jump, "ST-02 a far access below the stack pointer, within the limit, grows it too")
{
	struct area a = stack_area();
	char *far = (char *)a.end - 6 * MB;

	CHECK_RUNS(stores(far, 1));
	CHECK_EQ(*far, 1);
	CHECK(stack_area().start <= (unsigned long)far);
}

TEST(limit, "ST-02 the stack's limit")
{
	pid_t pid = xfork();

	if (pid == 0) {
		struct rlimit rl = { MB, RLIM_INFINITY };
		struct area a = stack_area();

		NEED(setrlimit(RLIMIT_STACK, &rl) == 0);
		stack_t ss = { .ss_sp = map(16 * P, RW, ANON), .ss_size = 16 * P };
		NEED(sigaltstack(&ss, NULL) == 0);
		char *below = (char *)a.end - MB - 4 * P;
		CHECK_FAULT(stores(below, 1), SIGSEGV, SEGV_MAPERR_, below);
		CHECK_FAULT(loads(below), SIGSEGV, SEGV_MAPERR_, below);
		CHECK_RUNS(stores((char *)a.end - MB + 4 * P, 1));
		bool ran = TRY(deep(4000));
		CHECK(!ran && hit.sig == SIGSEGV);
		done();
	}
	join_child(pid);
	/* Without a stack for the handler the signal cannot be delivered: it kills. */
	pid = xfork();
	if (pid == 0) {
		struct rlimit rl = { MB, MB };

		NEED(setrlimit(RLIMIT_STACK, &rl) == 0);
		struct sigaction sa = { .sa_handler = _exit };
		sigaction(SIGSEGV, &sa, NULL);
		deep(1000000);
		_exit(0);
	}
	CHECK_KILLED(pid, SIGSEGV);
}

TEST(kernel_grows, "ST-02 the kernel's own access grows the stack")
{
	int fd[2];
	struct area a = stack_area();
	char *far = (char *)a.end - 5 * MB;

	NEED(pipe(fd) == 0 && write(fd[1], "abc", 3) == 3);
	CHECK_EQ(read(fd[0], far, 3), 3);
	CHECK(!memcmp(far, "abc", 3));
	NEED(pipe(fd) == 0 && write(fd[1], "abc", 3) == 3);
	CHECK_ERR(read(fd[0], (char *)a.end - 64 * MB, 3), EFAULT);
}

TEST(guard_gap, "ST-02 a gap is kept between the stack and its neighbour")
{
	struct area a = stack_area();
	/* A neighbour 2 MB below the present stack. */
	char *n = (char *)raw_mmap(a.start - 2 * MB, P, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);

	NEED((long)n != -1);
	*n = 42;
	stack_t ss = { .ss_sp = map(16 * P, RW, ANON), .ss_size = 16 * P };
	NEED(sigaltstack(&ss, NULL) == 0);
	CHECK_FAULT(stores(n + P, 1), SIGSEGV, SEGV_MAPERR_, n + P); /* just above the neighbour */
	CHECK_FAULT(loads(n + 16 * P), SIGSEGV, SEGV_MAPERR_, n + 16 * P);
	CHECK_RUNS(stores((char *)a.start - P, 1));
	CHECK_RUNS(stores(n + P + MB + 64 * P, 1)); /* 256 pages of gap, then stack */
	CHECK_EQ(*n, 42);
	/* A guard that cannot be touched needs no gap more. */
	NEED(mprotect(n, P, PROT_NONE) == 0);
	CHECK_RUNS(stores(n + 2 * P, 1));
	CHECK_FAULT(loads(n), SIGSEGV, SEGV_ACCERR_, n);
}

TEST(below_arguments, "ST-02 above the stack there is nothing")
{
	struct area a = stack_area(), next;
	char *end = (char *)a.end;

	CHECK_RUNS(loads(end - 1));
	if (a.end < USER_END && !area_of(end, &next))
		CHECK_FAULT(loads(end), SIGSEGV, SEGV_MAPERR_, end);
}

TEST(growsdown, "ST-02 MAP_GROWSDOWN")
{
	/* Room around: the area lies at 32 MB in the zone, nothing near. */
	char *base = (char *)ZONE + 32 * MB;

	NEED(raw_mmap((unsigned long)base, P, RW, ANON | MAP_GROWSDOWN | MAP_FIXED, -1, 0) ==
	     (long)base);
	*base = 1;
	CHECK_RUNS(stores(base - 1, 2));
	CHECK_RUNS(stores(base - 3 * P, 3));
	CHECK_RUNS(stores(base - 20 * P, 4));
	CHECK_EQ(base[0] + base[-1] + base[-3 * (long)P] + base[-20 * (long)P], 10);
	struct area a;
	CHECK(area_of(base, &a));
	CHECK_EQ(a.start, base - 20 * P);
	CHECK_EQ(a.end, base + P);
	CHECK_FAULT(loads(base + P), SIGSEGV, SEGV_MAPERR_, base + P);
	/* Its gap: a neighbour 300 pages below stops it 256 pages short. */
	char *n = base - 400 * P;
	NEED(raw_mmap((unsigned long)n, P, RW, ANON | MAP_FIXED, -1, 0) == (long)n);
	CHECK_FAULT(stores(n + P, 1), SIGSEGV, SEGV_MAPERR_, n + P);
	CHECK_RUNS(stores(n + 300 * P, 1));
	/* It must be private and anonymous. */
	int fd = tmpfile_fd(P);
	CHECK_ERR(raw_mmap(0, P, RW, MAP_SHARED | MAP_GROWSDOWN, fd, 0), EINVAL);
}

TEST(growsdown_protect, "ST-02 mprotect of a growing area with PROT_GROWSDOWN")
{
	char *base = (char *)ZONE + 32 * MB;

	NEED(raw_mmap((unsigned long)base, 4 * P, RW, ANON | MAP_GROWSDOWN | MAP_FIXED, -1, 0) ==
	     (long)base);
	CHECK_RUNS(stores(base - P, 1));
	CHECK_EQ(raw_mprotect((unsigned long)base + 2 * P, P, PROT_READ | 0x01000000), 0);
	CHECK_FAULT(stores(base - P, 1), SIGSEGV, SEGV_ACCERR_, base - P);
	CHECK_RUNS(stores(base + 3 * P, 1));
}

TEST(threads_grow, "ST-02 threads grow the same area at once", .cpus = 2)
{
	extern void *grow_some(void *);
	pthread_t t[4];
	char *base = (char *)ZONE + 64 * MB;

	NEED(raw_mmap((unsigned long)base, P, RW, ANON | MAP_GROWSDOWN | MAP_FIXED, -1, 0) ==
	     (long)base);
	catch_faults();
	for (int i = 0; i < 4; i++)
		t[i] = start(grow_some, (void *)(intptr_t)i);
	for (int i = 0; i < 4; i++)
		join(t[i]);
	for (int i = 0; i < 200; i++) {
		char *volatile p = base;

		if (*(p - (i + 1) * P) != i % 4 + 1)
			FAIL("page %d holds %d", i, *(p - (i + 1) * P));
	}
	CHECK_EQ(areas_in(base - 200 * P, 201 * P), 1);
}

void *grow_some(void *arg)
{
	char *base = (char *)ZONE + 64 * MB;
	int me = (int)(intptr_t)arg;

	pin(me);
	for (int i = me; i < 200; i += 4)
		CHECK_RUNS(stores(base - (i + 1) * P, me + 1));
	return NULL;
}

TEST(fork_stack, "ST-02 a child's stack grows apart from its parent's")
{
	struct area a = stack_area();
	pid_t pid = xfork();

	if (pid == 0) {
		deep(3000);
		CHECK(stack_area().start < a.start);
		done();
	}
	join_child(pid);
	CHECK_EQ(stack_area().start, a.start);
	deep(1000);
}
