/*
 * Copy on write between parent, children and grandchildren; shared anonymous memory beside it; who
 * may keep the frame. known-bugs: CW-01, CW-02, CW-04, CW-05, CW-07, CW-14.
 */
#include "harness.h"

/* ---- CW-01 ------------------------------------------------------------------------------ */

static void read_only_at_fork(bool child_first, int children)
{
	char *p = map(P, RW, ANON);
	struct door go[4], ready = door();
	pid_t pid[4];

	*p = 5;
	NEED(mprotect(p, P, PROT_READ) == 0);
	for (int i = 0; i < children; i++) {
		go[i] = door();
		pid[i] = xfork();
		if (pid[i] == 0) {
			CHECK_FAULT(stores(p, 9), SIGSEGV, SEGV_ACCERR_, p);
			pass(go[i]);
			NEED(mprotect(p, P, RW) == 0);
			CHECK_EQ(*p, 5);
			*p = 6 + i;
			let(ready);
			pass(go[i]);
			CHECK_EQ(*p, 6 + i);
			done();
		}
	}
	if (child_first)
		for (int i = 0; i < children; i++) {
			let(go[i]);
			pass(ready);
		}
	NEED(mprotect(p, P, RW) == 0);
	CHECK_EQ(*p, 5);
	*p = 4;
	for (int i = 0; i < children; i++) {
		let(go[i]);
		if (!child_first) {
			pass(ready);
			let(go[i]);
		}
		join_child(pid[i]);
	}
	CHECK_EQ(*p, 4);
}

TEST(ro_child, "CW-01 read-only at fork, the child writes first")
{
	read_only_at_fork(true, 1);
}
TEST(ro_parent, "CW-01 read-only at fork, the parent writes first")
{
	read_only_at_fork(false, 1);
}
TEST(ro_three, "CW-01 read-only at fork, three children")
{
	read_only_at_fork(true, 3);
}
TEST(ro_three_parent, "CW-01 read-only at fork, three children, parent first")
{
	read_only_at_fork(false, 3);
}

TEST(none_at_fork, "CW-01 PROT_NONE at fork")
{
	char *p = map(2 * P, RW, ANON);

	p[0] = 1;
	p[P] = 2;
	NEED(mprotect(p, 2 * P, PROT_NONE) == 0);
	pid_t pid = xfork();
	if (pid == 0) {
		CHECK_FAULT(loads(p), SIGSEGV, SEGV_ACCERR_, p);
		NEED(mprotect(p, 2 * P, RW) == 0);
		CHECK_EQ(p[0] * 10 + p[P], 12);
		p[0] = p[P] = 9;
		done();
	}
	join_child(pid);
	NEED(mprotect(p, 2 * P, RW) == 0);
	CHECK_EQ(p[0] * 10 + p[P], 12);
}

/* Place for CW-01 with a transparent hugepage. */

/* ---- CW-02 ------------------------------------------------------------------------------ */

TEST(grandchild, "CW-02 fork of what is COW already")
{
	char *p = map(P, RW, ANON);

	*p = 1;
	pid_t c1 = xfork();
	if (c1 == 0) {
		pid_t c2 = xfork();

		if (c2 == 0) {
			CHECK_EQ(*p, 1);
			*p = 2;
			CHECK_EQ(*p, 2);
			done();
		}
		join_child(c2);
		CHECK_EQ(*p, 1);
		*p = 3;
		CHECK_EQ(*p, 3);
		done();
	}
	join_child(c1);
	CHECK_EQ(*p, 1);
}

static void chain(bool leaf_first)
{
	enum { DEPTH = 8 };
	char *p = map(P, RW, ANON);
	struct door go[DEPTH + 1];
	pid_t pid = 0;
	int me = 0;

	*p = 100;
	for (int i = 0; i <= DEPTH; i++)
		go[i] = door();
	while (me < DEPTH && (pid = xfork()) == 0)
		me++;
	/* A relay: each writes its own number in its turn, then checks at the end. */
	if (leaf_first) {
		if (me < DEPTH)
			join_child(pid);
		CHECK_EQ(*p, 100);
		*p = me;
		CHECK_EQ(*p, me);
	} else {
		if (me > 0)
			pass(go[me]);
		CHECK_EQ(*p, 100);
		*p = me;
		if (me < DEPTH) {
			let(go[me + 1]);
			join_child(pid);
		}
		CHECK_EQ(*p, me);
	}
	if (me)
		done();
}

TEST(chain_leaf, "CW-02 a chain of eight, the leaf writes first")
{
	chain(true);
}
TEST(chain_root, "CW-02 a chain of eight, the root writes first")
{
	chain(false);
}

TEST(two_forks, "CW-02 two forks before any write")
{
	char *p = map(P, RW, ANON);
	struct door go = door();
	pid_t pid[2];

	*p = 1;
	for (int i = 0; i < 2; i++) {
		pid[i] = xfork();
		if (pid[i] == 0) {
			pass(go);
			CHECK_EQ(*p, 1);
			*p = 10 + i;
			CHECK_EQ(*p, 10 + i);
			done();
		}
	}
	*p = 2;
	let(go);
	let(go);
	join_child(pid[0]);
	join_child(pid[1]);
	CHECK_EQ(*p, 2);
}

TEST(orphan, "CW-02 the writer in the middle is gone, its child keeps the page")
{
	char *p = map(P, RW, ANON);
	struct door in = door(), out = door();

	*p = 1;
	pid_t pid = xfork();
	if (pid == 0) {
		*p = 2;
		if (xfork() == 0) {
			pass(in);
			CHECK_EQ(*p, 2);
			*p = 3;
			CHECK_EQ(*p, 3);
			NEED(write(out.fd[1], test_failed ? "n" : "y", 1) == 1);
			done();
		}
		_exit(0);
	}
	join_child(pid);
	CHECK_EQ(*p, 1);
	*p = 9;
	let(in);
	char answer = 0;
	CHECK_EQ(read(out.fd[0], &answer, 1), 1);
	CHECK_EQ(answer, 'y');
	CHECK_EQ(*p, 9);
}

/* ---- CW-04 ------------------------------------------------------------------------------ */

TEST(shared_after_fork, "CW-04 shared anonymous memory first touched after fork")
{
	char *p = map(4 * P, RW, SHANON), *other = map(4 * P, RW, SHANON);

	pid_t pid = xfork();
	if (pid == 0) {
		p[0] = 9;
		pid_t grandchild = xfork();
		if (grandchild == 0) {
			p[2 * P] = 11;
			done();
		}
		join_child(grandchild);
		CHECK_EQ(p[2 * P], 11);
		done();
	}
	p[P] = 10;
	join_child(pid);
	CHECK_EQ(p[0], 9);
	CHECK_EQ(p[P], 10);
	CHECK_EQ(p[2 * P], 11);
	CHECK_EQ(p[3 * P], 0);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(other[i * P], 0);
}

TEST(dev_zero, "CW-04 /dev/zero mapped shared is the same thing")
{
	int fd = NEED_OK(open("/dev/zero", O_RDWR));
	char *p = map_fd(2 * P, RW, MAP_SHARED, fd, 0), *q = map_fd(2 * P, RW, MAP_SHARED, fd, 0);
	char *r = map_fd(P, RW, MAP_PRIVATE, fd, 0);

	pid_t pid = xfork();
	if (pid == 0) {
		p[P] = 1;
		r[0] = 1;
		done();
	}
	join_child(pid);
	CHECK_EQ(p[P], 1);
	CHECK_EQ(q[P], 0);
	CHECK_EQ(r[0], 0);
	CHECK_RUNS(stores(r, 1));
}

TEST(shared_race, "CW-04 two processes touch the same shared page first", .cpus = 2)
{
	enum { N = 64 };
	struct meet *m = map(P, RW, SHANON);

	m->n = 2;
	for (long round = 0; round < rounds(12); round++) {
		rp_arm("file_insert", 2);
		int *p = map(N * P, RW, SHANON);
		pid_t pid = xfork();
		int me = pid == 0;

		pin(me);
		for (int i = 0; i < N; i++) {
			meet(m);
			p[i * P / 4 + me] = 1000 * me + i + 1;
		}
		meet(m);
		for (int i = 0; i < N; i++)
			if (p[i * P / 4] != i + 1 || p[i * P / 4 + 1] != 1001 + i)
				FAIL("page %d holds %d and %d: two frames?", i, p[i * P / 4],
				     p[i * P / 4 + 1]);
		if (me)
			done();
		join_child(pid);
		unmap(p, N * P);
	}
}

/* ---- CW-05 ------------------------------------------------------------------------------ */

TEST(fault_count, "CW-05 a page costs one fault")
{
	char *fresh = map(64 * P, RW, ANON), *written = map(64 * P, RW, ANON);

	/* Where hugepages are given unasked, one fault would serve many. */
	madvise(fresh, 64 * P, MADV_NOHUGEPAGE);
	madvise(written, 64 * P, MADV_NOHUGEPAGE);
	for (int i = 0; i < 64; i++)
		written[i * P] = 1;
	pid_t pid = xfork();
	if (pid == 0) {
		long n = thread_faults(); /* also makes the stack this process's own */

		n = thread_faults();
		for (int i = 0; i < 64; i++)
			fresh[i * P] = 1;
		long fresh_faults = thread_faults() - n;
		n = thread_faults();
		for (int i = 0; i < 64; i++)
			written[i * P] = 2;
		long copy_faults = thread_faults() - n;
		CHECK_EQ(fresh_faults, 64);
		CHECK_EQ(copy_faults, 64);
		done();
	}
	join_child(pid);
	long n = thread_faults();
	n = thread_faults();
	for (int i = 0; i < 64; i++)
		written[i * P] = 3;
	long reuse = thread_faults() - n;
	CHECK_MSG(reuse <= 64, "the parent took %ld faults for 64 pages", reuse);
	n = thread_faults();
	for (int i = 0; i < 64; i++)
		written[i * P] = 4;
	CHECK_EQ(thread_faults() - n, 0);
	n = thread_faults();
	char *read_first = map(32 * P, RW, ANON);
	madvise(read_first, 32 * P, MADV_NOHUGEPAGE);
	for (int i = 0; i < 32; i++)
		(void)*(volatile char *)(read_first + i * P);
	CHECK_EQ(thread_faults() - n, 32);
	for (int i = 0; i < 32; i++)
		read_first[i * P] = 1;
	CHECK_EQ(thread_faults() - n, 64);
}

TEST(reuse, "CW-05 the last owner keeps the frame")
{
	char *p = map(P, RW, ANON);

	*p = 1;
	uint64_t frame = PM_PFN(pagemap(p));
	pid_t pid = xfork();
	if (pid == 0)
		done();
	join_child(pid);
	*p = 2;
	/* Frame numbers read as zero where the reader may not know them. */
	CHECK_EQ(PM_PFN(pagemap(p)), frame);
}

/* ---- CW-07 ------------------------------------------------------------------------------ */

TEST(both_write, "CW-07 parent and child write the shared page at once", .cpus = 2, .seconds = 40)
{
	enum { N = 16 };
	struct meet *m = map(P, RW, SHANON);

	m->n = 2;
	for (long round = 0; go_on(round, 40); round++) {
		rp_arm(round % 2 ? "cow" : "cow_copied", 2);
		unsigned char *p = map(N * P, RW, ANON);

		memset(p, 0xaa, N * P);
		pid_t pid = xfork();
		int me = pid == 0;
		unsigned char own = me ? 0x22 : 0x11;

		pin(me);
		for (int i = 0; i < N; i++) {
			unsigned char *q = p + i * P;

			meet(m);
			/*
			 * Single bytes, spread: until the end every other byte must be as it was at
			 * the fork.
			 */
			q[(me ? 64 : 128) + i] = own;
			for (size_t k = 0; k < P; k++)
				if (q[k] != 0xaa && q[k] != own) {
					FAIL("round %ld page %d: foreign byte 0x%x", round, i,
					     q[k]);
					break;
				}
			memset(q, own, P);
		}
		meet(m);
		for (size_t k = 0; k < N * P; k++)
			if (p[k] != own) {
				FAIL("round %ld: byte %zu is 0x%x at the end", round, k, p[k]);
				break;
			}
		if (me)
			done();
		join_child(pid);
		unmap(p, N * P);
	}
}

TEST(three_write, "CW-07 three sharers and one that exits", .cpus = 2, .seconds = 40)
{
	struct meet *m = map(P, RW, SHANON);

	m->n = 3;
	for (long round = 0; go_on(round, 30); round++) {
		unsigned char *p = map(8 * P, RW, ANON);
		pid_t pid[3];

		memset(p, 0xaa, 8 * P);
		for (int i = 0; i < 3; i++) {
			pid[i] = xfork();
			if (pid[i] == 0) {
				pin(i);
				meet(m);
				if (i == 2)
					_exit(0);
				for (int k = 0; k < 8; k++) {
					memset(p + k * P, i + 1, P / 2);
					for (size_t j = 0; j < P; j++)
						if (p[k * P + j] != (j < P / 2 ? i + 1 : 0xaa)) {
							FAIL("child %d page %d byte %zu is 0x%x", i,
							     k, j, p[k * P + j]);
							break;
						}
				}
				done();
			}
		}
		for (int i = 0; i < 3; i++)
			join_child(pid[i]);
		for (size_t j = 0; j < 8 * P; j++)
			if (p[j] != 0xaa) {
				FAIL("the parent's byte %zu is 0x%x", j, p[j]);
				break;
			}
		unmap(p, 8 * P);
	}
}

/*
 * Each thread adds to its own word of every page; a copy made while another thread stores would
 * lose words.
 */
enum { N = 32, T = 4 };
static struct {
	unsigned *p;
	struct meet m;
} s;

static void *break_all(void *arg)
{
	int me = (int)(intptr_t)arg;

	pin(me);
	meet(&s.m);
	for (int i = 0; i < N; i++)
		s.p[i * P / 4 + me * 16] += me + 1;
	meet(&s.m);
	return NULL;
}

TEST(threads_break, "CW-07 threads of one process break COW at once", .cpus = 2, .seconds = 40)
{
	s.m.n = T;
	for (long round = 0; go_on(round, 25); round++) {
		pthread_t t[T];

		s.p = map(N * P, RW, ANON);
		for (int i = 0; i < N * (int)P / 4; i++)
			s.p[i] = 7;
		struct door in = door();
		rp_arm(round % 2 ? "cow" : "cow_copied", 2);
		pid_t pid = xfork();
		if (pid == 0) {
			pass(in);
			for (int i = 0; i < N * (int)P / 4; i++)
				if (s.p[i] != 7) {
					FAIL("the child's word %d is %u", i, s.p[i]);
					break;
				}
			done();
		}
		for (int i = 0; i < T; i++)
			t[i] = start(break_all, (void *)(intptr_t)i);
		for (int i = 0; i < T; i++)
			join(t[i]);
		for (int i = 0; i < N; i++)
			for (int k = 0; k < T; k++)
				CHECK_EQ(s.p[i * P / 4 + k * 16], 7 + k + 1);
		let(in);
		join_child(pid);
		unmap(s.p, N * P);
		close(in.fd[0]);
		close(in.fd[1]);
	}
}

TEST(ahead, "CW-07 what fork copies ahead is each side's own")
{
	volatile int mine = 1;
	struct door in = door();
	pid_t pid = xfork();

	if (pid == 0) {
		pass(in); /* the parent has written */
		CHECK_EQ(mine, 1);
		mine = 3;
		errno = 33;
		CHECK_EQ(mine, 3);
		done();
	}
	errno = 22;
	mine = 2;
	let(in);
	join_child(pid);
	CHECK_EQ(mine, 2);
}

TEST(ahead_saves, "CW-07 the only thread forks: nobody faults on its stack (vm.fork_ahead)")
{
	static const char setting[] = "/proc/sys/vm/fork_ahead";
	char was[16];
	long with[2];

	if (!on_faultline())
		skip("a mechanism of this kernel");
	NEED(slurp(setting, was, sizeof(was)) > 0);
	for (int on = 0; on < 2; on++) {
		NEED(spit(setting, on ? "on" : "off"));
		long before = thread_faults();
		pid_t pid = xfork();
		if (pid == 0)
			done();
		join_child(pid);
		with[on] = thread_faults() - before;
	}
	spit(setting, was);
	CHECK_MSG(with[1] < with[0], "%ld faults, without it %ld", with[1], with[0]);
}

static struct {
	volatile unsigned *first, *second;
	volatile bool stop;
} pair;

/* The second count never runs ahead of the first. */
static void *count_pair(void *arg)
{
	(void)arg;
	pin(1);
	while (!pair.stop) {
		++*pair.first;
		++*pair.second;
	}
	return NULL;
}

TEST(snapshot, "CW-07 fork while a thread stores: the child's copy stands still (SP-11)", .cpus = 2,
     .seconds = 40)
{
	/* Once within one page table, once in two. */
	for (int apart = 0; apart < 2; apart++) {
		char *p = reserve(2 * HUGE, HUGE);

		NEED(mprotect(p, 2 * HUGE, RW) == 0);
		madvise(p, 2 * HUGE, MADV_NOHUGEPAGE);
		pair.first = (unsigned *)(p + 10 * P);
		pair.second = (unsigned *)(p + 74 * P + (apart ? HUGE : 0));
		pair.stop = false;
		pthread_t t = start(count_pair, NULL);
		pin(0);
		while (*pair.second == 0)
			sched_yield();
		for (long round = 0; go_on(round, 30); round++) {
			rp_arm("fork_flush", 2);
			unsigned seen = *pair.second;
			pid_t pid = xfork();
			if (pid == 0) {
				unsigned first = *pair.first, second = *pair.second;

				CHECK_MSG(first - second <= 1, "the copy holds %u and %u", first,
					  second);
				CHECK(second >= seen);
				sleep_ms(3);
				CHECK_EQ(*pair.first, first);
				CHECK_EQ(*pair.second, second);
				done();
			}
			join_child(pid);
		}
		pair.stop = true;
		join(t);
		unmap(p, 2 * HUGE);
	}
}

/* ---- CW-14 ------------------------------------------------------------------------------ */

TEST(dirtied_elsewhere, "CW-14 write to a shared page that another process dirtied")
{
	int fd = tmpfile_fd(P);
	struct door go[5];
	pid_t pid[4];

	for (int i = 0; i < 5; i++)
		go[i] = door();
	for (int i = 0; i < 4; i++) {
		pid[i] = xfork();
		if (pid[i] == 0) {
			char *p = map_fd(P, RW, MAP_SHARED, fd, 0);

			(void)*(volatile char *)p;
			pass(go[i]);
			for (int k = 0; k < 4; k++)
				CHECK_EQ(p[k * 100], k < i ? k + 1 : 0);
			CHECK_RUNS(stores(p + i * 100, i + 1));
			let(go[i + 1]);
			done();
		}
	}
	let(go[0]);
	pass(go[4]);
	for (int i = 0; i < 4; i++)
		join_child(pid[i]);
	char *p = map_fd(P, PROT_READ, MAP_SHARED, fd, 0);
	for (int k = 0; k < 4; k++)
		CHECK_EQ(p[k * 100], k + 1);
}

TEST(first_writes, "CW-14 simultaneous first writes to shared pages", .cpus = 2)
{
	enum { N = 32, C = 4 };
	struct meet *m = map(P, RW, SHANON);
	int fd = tmpfile_fd(N * P);
	pid_t pid[C];

	m->n = C;
	for (int c = 0; c < C; c++) {
		pid[c] = xfork();
		if (pid[c] == 0) {
			int *p = map_fd(N * P, RW, MAP_SHARED, fd, 0);

			pin(c);
			for (int i = 0; i < N; i++) {
				(void)*(volatile int *)(p + i * P / 4);
				meet(m);
				__atomic_fetch_add(&p[i * P / 4 + 32], 1, __ATOMIC_RELAXED);
				p[i * P / 4 + c] = c + 1;
			}
			done();
		}
	}
	for (int c = 0; c < C; c++)
		join_child(pid[c]);
	int *p = map_fd(N * P, PROT_READ, MAP_SHARED, fd, 0);
	for (int i = 0; i < N; i++) {
		CHECK_EQ(p[i * P / 4 + 32], C);
		for (int c = 0; c < C; c++)
			CHECK_EQ(p[i * P / 4 + c], c + 1);
	}
}
