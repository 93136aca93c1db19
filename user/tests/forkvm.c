/*
 * fork of unusual address spaces: huge and empty, of many areas, one that fails half way.
 * known-bugs: VM-14, CW-12.
 */
#include "harness.h"

TEST(huge_empty, "VM-14 fork of 20 TiB of nothing", .seconds = 20)
{
	char *p[4];

	for (int i = 0; i < 4; i++)
		p[i] = map(20 * TB, PROT_NONE, ANON | MAP_NORESERVE);
	NEED(mprotect(p[0] + 13 * TB, P, RW) == 0);
	p[0][13 * TB] = 42;
	NEED(mprotect(p[3] + 20 * TB - P, P, RW) == 0);
	p[3][20 * TB - 1] = 43;
	uint64_t t = now_ns();
	pid_t pid = xfork();
	if (pid == 0) {
		CHECK_EQ(p[0][13 * TB], 42);
		CHECK_EQ(p[3][20 * TB - 1], 43);
		CHECK_FAULT(loads(p[1] + TB), SIGSEGV, SEGV_ACCERR_, p[1] + TB);
		p[0][13 * TB] = 1;
		done();
	}
	join_child(pid);
	t = now_ns() - t;
	CHECK_MSG(t < 2000000000, "fork and exit took %lu ms", (unsigned long)(t / 1000000));
	CHECK_EQ(p[0][13 * TB], 42);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(raw_munmap((unsigned long)p[i], 20 * TB), 0);
}

TEST(huge_touched, "VM-14 1 TiB read-write with a page here and there")
{
	char *p = map(TB, RW, ANON | MAP_NORESERVE);

	for (size_t at = 0; at < TB; at += 61 * GB)
		p[at] = at / GB + 1;
	pid_t pid = xfork();
	if (pid == 0) {
		for (size_t at = 0; at < TB; at += 61 * GB)
			CHECK_EQ((unsigned char)p[at], (at / GB + 1) & 0xff);
		CHECK_EQ(p[30 * GB], 0);
		done();
	}
	join_child(pid);
}

TEST(many_areas, "VM-14 fork of many areas, all kinds")
{
	enum { N = 60 };
	char *a[N];
	int fd = tmpfile_fd(N * P);

	for (int i = 0; i < N; i++) {
		switch (i % 5) {
		case 0: a[i] = map(2 * P, RW, ANON); break;
		case 1: a[i] = map(2 * P, RW, SHANON); break;
		case 2: a[i] = map_fd(P, RW, MAP_SHARED, fd, i * P); break;
		case 3: a[i] = map_fd(P, RW, MAP_PRIVATE, fd, i * P); break;
		default: a[i] = map(2 * P, RW, ANON | MAP_NORESERVE);
		}
		a[i][0] = i + 1;
	}
	/*
	 * A chain of three; the last one changes everything; only what is shared shows it to the
	 * others.
	 */
	int depth = 0;
	pid_t pid = 0;

	while (depth < 3 && (pid = xfork()) == 0)
		depth++;
	for (int i = 0; i < N && depth == 3; i++) {
		CHECK_EQ(a[i][0], i + 1);
		a[i][0] = 100;
	}
	if (depth < 3)
		join_child(pid);
	for (int i = 0; i < N && depth < 3; i++)
		CHECK_EQ(a[i][0], i % 5 == 1 || i % 5 == 2 ? 100 : i + 1);
	if (depth > 0)
		done();
}

/* ---- CW-12 ------------------------------------------------------------------------------ */

struct world {
	char *anon, *cow, *shared, *priv;
	int fd;
};

static struct world build_world(void)
{
	struct world w;

	w.fd = tmpfile_fd(16 * P);
	w.anon = map(64 * P, RW, ANON);
	w.cow = map(64 * P, RW, ANON);
	w.shared = map(16 * P, RW, SHANON);
	w.priv = map_fd(16 * P, RW, MAP_PRIVATE, w.fd, 0);
	for (int i = 0; i < 64; i++)
		w.anon[i * P] = w.cow[i * P] = i + 1;
	for (int i = 0; i < 16; i++)
		w.shared[i * P] = w.priv[i * P] = i + 1;
	/* Pages in other tables, so that several tables have to be copied. */
	for (int i = 1; i < 5; i++) {
		char *at = (char *)raw_mmap(0x100000000000UL * i, P, RW, ANON | MAP_FIXED_NOREPLACE,
					    -1, 0);

		NEED(at == (char *)(0x100000000000UL * i));
		*at = i;
	}
	return w;
}

static void check_world(struct world *w)
{
	for (int i = 0; i < 64; i++)
		if (w->anon[i * P] != i + 1 || w->cow[i * P] != i + 1)
			FAIL("page %d holds %d and %d", i, w->anon[i * P], w->cow[i * P]);
	for (int i = 0; i < 16; i++)
		if (w->shared[i * P] != i + 1 || w->priv[i * P] != i + 1)
			FAIL("page %d holds %d and %d", i, w->shared[i * P], w->priv[i * P]);
	for (int i = 1; i < 5; i++)
		CHECK_EQ(*(char *)(0x100000000000UL * i), i);
	/* Everything is writable again. */
	for (int i = 0; i < 64; i++) {
		w->anon[i * P + 8]++;
		w->cow[i * P + 8]++;
	}
	for (int i = 0; i < 16; i++)
		w->priv[i * P + 8]++;
}

TEST(fail_each, "CW-12 fork with each of its allocations failing in turn", .seconds = 60)
{
	struct world w = build_world();
	struct door in = door();
	long n, failures = 0;

	/* A first child holds the COW range shared all the time. */
	pid_t sharer = xfork();
	if (sharer == 0) {
		pass(in);
		done();
	}
	for (n = 1; n < 3000 && !test_failed; n++) {
		if (!fail_alloc(n)) {
			let(in);
			join_child(sharer);
			skip("no allocation failures can be injected into this kernel");
		}
		pid_t pid = fork();
		int e = errno;
		long left = fail_alloc_left();

		fail_alloc(0);
		if (pid == 0)
			_exit(0);
		if (pid > 0) {
			int status = wait_raw(pid);

			/*
			 * Born before the failure, the child may meet it and be killed for it;
			 * nothing else.
			 */
			CHECK_MSG(status == 0 ||
					  (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL),
				  "allocation %ld: wait status 0x%x", n, status);
			if (left > 0)
				break; /* all allocations of a fork have had their turn */
			continue;
		}
		failures++;
		CHECK_MSG(e == ENOMEM || e == EAGAIN, "allocation %ld: fork gave %s", n,
			  errno_name(e));
		CHECK_EQ(waitpid(-1, NULL, WNOHANG), 0); /* only the sharer is there */
		check_world(&w);
	}
	CHECK_MSG(failures > 3, "only %ld failures in %ld forks", failures, n);
	let(in);
	join_child(sharer);
	check_world(&w);
}

TEST(process_limit, "CW-12 fork at RLIMIT_NPROC, as another user")
{
	if (syscall(SYS_setuid, 0) < 0 && errno == ENOSYS)
		skip("no users");
	pid_t pid = xfork();

	if (pid == 0) {
		struct rlimit rl = { 0, 0 };

		NEED(syscall(SYS_setuid, 12345) == 0);
		NEED(setrlimit(RLIMIT_NPROC, &rl) == 0);
		pid_t c = fork();

		if (c == 0)
			_exit(0);
		if (c > 0)
			FAIL("fork beyond RLIMIT_NPROC worked");
		else
			CHECK_EQ(errno, EAGAIN);
		done();
	}
	join_child(pid);
}

TEST(fork_storm, "CW-12 many children at once, each with pages of its own")
{
	enum { N = 24 };
	struct world w = build_world();
	pid_t pid[N];

	for (long round = 0; go_on(round, 3); round++) {
		for (int i = 0; i < N; i++) {
			pid[i] = xfork();
			if (pid[i] == 0) {
				check_world(&w);
				for (int k = 0; k < 64; k++)
					w.anon[k * P + 9] = i;
				sched_yield();
				for (int k = 0; k < 64; k++)
					if (w.anon[k * P + 9] != i)
						FAIL("child %d sees child %d's byte", i,
						     w.anon[k * P + 9]);
				done();
			}
		}
		for (int i = 0; i < N; i++)
			join_child(pid[i]);
	}
	check_world(&w);
}
