/*
 * Mapped files that shrink and grow: the end of the file, the tail of its last page, truncation
 * against faults. known-bugs: VM-13.
 */
#include "harness.h"

TEST(end_of_file, "VM-13 beyond the end, truncated, grown again")
{
	int fd = tmpfile_fd(P);
	char *p = map_fd(3 * P, RW, MAP_SHARED, fd, 0);

	CHECK_RUNS(stores(p + P - 1, 7));
	CHECK_FAULT(loads(p + P), SIGBUS, BUS_ADRERR_, p + P);
	CHECK_FAULT(stores(p + P + 99, 1), SIGBUS, BUS_ADRERR_, p + P + 99);
	NEED(ftruncate(fd, 0) == 0);
	CHECK_FAULT(loads(p + 5), SIGBUS, BUS_ADRERR_, p + 5);
	CHECK_FAULT(stores(p + 6, 1), SIGBUS, BUS_ADRERR_, p + 6);
	NEED(ftruncate(fd, P) == 0);
	CHECK_RUNS(loads(p));
	CHECK_EQ(p[P - 1], 0);
	NEED(ftruncate(fd, 3 * P) == 0);
	CHECK_RUNS(stores(p + 3 * P - 1, 1));
}

TEST(tail, "VM-13 the tail of the last page reads zero after a truncation inside it")
{
	int fd = tmpfile_fd(2 * P);
	char *p = map_fd(2 * P, RW, MAP_SHARED, fd, 0), buf[16];

	memset(p, 'x', 2 * P);
	NEED(ftruncate(fd, P + 100) == 0);
	CHECK_EQ(p[P + 99], 'x');
	CHECK_EQ(p[P + 100], 0);
	CHECK_EQ(p[2 * P - 1], 0);
	/*
	 * What a program writes beyond the end in the last page is not in the file when it grows
	 * again.
	 */
	p[P + 200] = 'y';
	CHECK_EQ(pread(fd, buf, 16, P + 100), 0);
	NEED(ftruncate(fd, 2 * P) == 0);
	CHECK_EQ(pread(fd, buf, 1, P + 100), 1);
	CHECK_EQ(buf[0], 0);
	CHECK_EQ(p[P + 99], 'x');
	CHECK_EQ(p[0], 'x');
}

TEST(private_truncate, "VM-13 truncation takes private copies too")
{
	int fd = tmpfile_fd(2 * P);

	NEED(pwrite(fd, "f", 1, P) == 1);
	char *p = map_fd(2 * P, RW, MAP_PRIVATE, fd, 0);
	p[P] = 'c';
	p[0] = 'd';
	NEED(ftruncate(fd, P) == 0);
	CHECK_EQ(p[0], 'd');
	CHECK_FAULT(loads(p + P), SIGBUS, BUS_ADRERR_, p + P);
	NEED(ftruncate(fd, 2 * P) == 0);
	CHECK_RUNS(loads(p + P));
	CHECK_EQ(p[P], 0);
}

TEST(other_process, "VM-13 truncation reaches every process that maps the file")
{
	int fd = tmpfile_fd(4 * P);
	char *p = map_fd(4 * P, RW, MAP_SHARED, fd, 0);
	struct door to = door(), from = door();

	memset(p, 1, 4 * P);
	pid_t pid = xfork();
	if (pid == 0) {
		char *q = map_fd(2 * P, PROT_READ, MAP_SHARED, fd, 2 * P);

		CHECK_EQ(p[3 * P], 1);
		CHECK_EQ(q[P], 1);
		let(from);
		pass(to);
		CHECK_FAULT(loads(p + 3 * P), SIGBUS, BUS_ADRERR_, p + 3 * P);
		CHECK_FAULT(loads(q + P), SIGBUS, BUS_ADRERR_, q + P);
		CHECK_RUNS(loads(q));
		CHECK_RUNS(loads(p));
		done();
	}
	pass(from);
	NEED(ftruncate(fd, 3 * P) == 0);
	let(to);
	join_child(pid);
}

TEST(holes, "VM-13 holes read zero and are filled by writes of either kind")
{
	int fd = tmpfile_fd(64 * P);
	char *p = map_fd(64 * P, RW, MAP_SHARED, fd, 0), buf[P];

	CHECK_EQ(p[10 * P], 0);
	CHECK_EQ(pread(fd, buf, P, 20 * P), P);
	CHECK_EQ(buf[0] + buf[P - 1], 0);
	p[10 * P] = 1;
	NEED(pwrite(fd, "z", 1, 30 * P) == 1);
	CHECK_EQ(p[30 * P], 'z');
	CHECK_EQ(pread(fd, buf, 1, 10 * P), 1);
	CHECK_EQ(buf[0], 1);
	struct stat st;
	NEED(fstat(fd, &st) == 0);
	CHECK_EQ(st.st_size, 64 * P);
}

/* ---- truncate against fault ------------------------------------------------------------- */

static struct {
	int fd;
	char *p;
	volatile bool stop;
	struct meet m;
	long n;
} race;

/*
 * Touches the file's page for ever: it may find bytes that were written, zero, or SIGBUS; nothing
 * else.
 */
static void *toucher(void *arg)
{
	bool writes = arg != NULL;
	long hits = 0;

	pin(writes ? 1 : 2);
	while (!race.stop) {
		bool ran = writes ? TRY(race.p[64] = 'w') : TRY({
			char c = *(volatile char *)(race.p + 64);

			if (c != 0 && c != 'w')
				FAIL("a foreign byte: 0x%x", (unsigned char)c);
		});
		if (!ran && !(hit.sig == SIGBUS && hit.code == BUS_ADRERR_ &&
			      hit.addr == (uintptr_t)race.p + 64)) {
			FAIL("signal %d code %d at 0x%lx", hit.sig, hit.code, hit.addr);
			return NULL;
		}
		hits += !ran;
	}
	(void)hits;
	return NULL;
}

TEST(truncate_fault, "VM-13 truncate against faults", .seconds = 30)
{
	race.fd = tmpfile_fd(P);
	race.p = map_fd(P, RW, MAP_SHARED, race.fd, 0);
	race.stop = false;
	catch_faults();
	pthread_t a = start(toucher, (void *)1), b = start(toucher, NULL);
	pin(0);
	for (long i = 0; go_on(i, 600); i++) {
		rp_arm(i % 2 ? "file_insert" : "truncate", 1);
		NEED(ftruncate(race.fd, 0) == 0);
		/* What was freed is used at once by somebody else: a mapping of it would show. */
		char *m = map(4 * P, RW, ANON);

		memset(m, 0x5a, 4 * P);
		for (int k = 0; k < 4; k++)
			if (m[k * P + 64] != 0x5a)
				FAIL("a fresh anonymous page was written through the file mapping");
		unmap(m, 4 * P);
		/* Nor may a fault that began before put the old page there now. */
		if (i % 4 == 0)
			sleep_ms(2);
		CHECK_FAULT(loads(race.p + 64), SIGBUS, BUS_ADRERR_, race.p + 64);
		NEED(ftruncate(race.fd, P) == 0);
		if (i % 2)
			sched_yield();
	}
	race.stop = true;
	join(a);
	join(b);
}

TEST(truncate_release, "VM-13 a fault parked after its look-up of the page retries", .seconds = 30)
{
	/*
	 * The faulter waits after it found the page; meanwhile the page is truncated away. Only
	 * SIGBUS is right.
	 */
	if (!rp_arm("file_insert", 20))
		skip("no race points in this kernel");
	int fd = tmpfile_fd(P);
	char *p = map_fd(P, RW, MAP_SHARED, fd, 0);
	char *other = map_fd(P, RW, MAP_SHARED, tmpfile_fd(P), 0);

	for (int i = 0; i < 10; i++) {
		NEED(ftruncate(fd, P) == 0 && pwrite(fd, "x", 1, 0) == 1);
		struct door ready = door();
		pid_t pid = xfork();
		if (pid == 0) {
			/* All that this takes has been faulted in before the point is armed. */
			CHECK_RUNS(loads(other));
			rp_arm("file_insert", 20);
			let(ready);
			bool ran = loads(p);

			/* Early enough it may have seen the byte; late it must see the signal. */
			CHECK(ran || (hit.sig == SIGBUS && hit.addr == (uintptr_t)p));
			sleep_ms(30);
			CHECK_FAULT(loads(p), SIGBUS, BUS_ADRERR_, p);
			done();
		}
		pass(ready);
		sleep_ms(5);
		NEED(ftruncate(fd, 0) == 0);
		join_child(pid);
		close(ready.fd[0]);
		close(ready.fd[1]);
	}
}

/* The file's memory lies in one page table with anonymous memory, as a program's own areas do. */
TEST(truncate_exit, "VM-13 truncate against the exit of processes that map the file", .cpus = 2,
     .seconds = 30)
{
	int fd = tmpfile_fd(16 * P);

	for (long i = 0; go_on(i, 100); i++) {
		struct door out = door();

		NEED(ftruncate(fd, 16 * P) == 0);
		pid_t pid = xfork();
		if (pid == 0) {
			char *anon = map(64 * P, RW, ANON);
			char *m = mmap(anon + 16 * P, 16 * P, RW, MAP_SHARED | MAP_FIXED, fd, 0);

			pin(1);
			NEED(m == anon + 16 * P);
			for (int k = 0; k < 16; k++)
				anon[k * P] = m[k * P] = anon[(32 + k) * P] = 1;
			let(out);
			_exit(0);
		}
		pin(0);
		pass(out);
		for (int spins = 0; spins < i % 10 * 500; spins++)
			pause_cpu();
		NEED(ftruncate(fd, 0) == 0);
		join_child(pid);
		close(out.fd[0]);
		close(out.fd[1]);
	}
}

/* Place for VM-13 with hugetlb. */
