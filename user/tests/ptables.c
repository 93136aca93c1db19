/*
 * The life of page tables: built by several threads at once, counted, freed at munmap, exec and
 * exit, walked while they are freed, moved as a whole. known-bugs: PT-01, PT-02, PT-04, PT-06,
 * PT-08, PT-09.
 */
#include "harness.h"

#include <sys/uio.h>

#define SLOT (512 * GB) /* what one entry of the top table maps */

static volatile bool stop;
static struct meet gate;

/* Kilobytes of page tables of this process. */
static long tables_kb(void)
{
	return field("/proc/self/status", "VmPTE");
}

/* Anonymous, 4 KB pages only, at this very address. */
static char *at(unsigned long addr, size_t len)
{
	NEED(raw_mmap(addr, len, RW, ANON | MAP_FIXED | MAP_NORESERVE, -1, 0) == (long)addr);
	madvise((void *)addr, len, MADV_NOHUGEPAGE);
	return (char *)addr;
}

/* ---- PT-01 ------------------------------------------------------------------------------ */

enum { T = 8 };
static char *sparse;

static void *scatter(void *arg)
{
	int me = (int)(intptr_t)arg;
	uint32_t seed = 77 + me;
	long n = rounds(150);

	pin(me);
	meet(&gate);
	for (int pass = 0; pass < 2; pass++) {
		seed = 77 + me;
		for (long i = 0; i < n; i++) {
			/*
			 * Pages are dealt out by number, so that tables are shared but pages are
			 * not.
			 */
			size_t page =
				(((size_t)roll(&seed) << 8 ^ roll(&seed)) % (TB / P)) / T * T + me;
			volatile uint32_t *word = (uint32_t *)(sparse + page * P);

			if (pass == 0) {
				if (*word && *word != page + 1)
					FAIL("page %zu holds 0x%x at its first touch", page, *word);
				*word = page + 1;
			} else if (*word != (uint32_t)(page + 1)) {
				FAIL("page %zu holds 0x%x, not its stamp", page, *word);
			}
		}
	}
	return NULL;
}

TEST(sparse_test, "PT-01 threads build tables all over 1 TiB", .seconds = 40)
{
	pthread_t t[T];

	sparse = map(TB, RW, ANON | MAP_NORESERVE);
	madvise(sparse, TB, MADV_NOHUGEPAGE);
	gate.n = T;
	for (int i = 0; i < T; i++)
		t[i] = start(scatter, (void *)(intptr_t)i);
	for (int i = 0; i < rounds(50) && rp_arm("pt_link", 2); i++)
		sleep_ms(1);
	for (int i = 0; i < T; i++)
		join(t[i]);
	CHECK_EQ(raw_munmap((unsigned long)sparse, TB), 0);
}

/* ---- PT-02 ------------------------------------------------------------------------------ */

static struct {
	char *spot;
	size_t stride;
} same;
static bool arm_each;

static void *touch_one(void *arg)
{
	int me = (int)(intptr_t)arg;

	pin(me);
	while (follow(&gate)) { /* the main thread has prepared */
		char *p = same.spot + me * same.stride;
		if (*(volatile char *)p)
			FAIL("a fresh page holds %d", *p);
		*p = me + 1;
		meet(&gate); /* and now checks */
		meet(&gate);
	}
	return NULL;
}

/*
 * Threads touch at once what lies under one missing table: there must be one table afterwards, and
 * all stamps.
 */
static void same_table(size_t stride, size_t len, long want_kb)
{
	pthread_t t[T];

	gate = (struct meet){ .n = T + 1 };
	same.stride = stride;
	for (int i = 0; i < T; i++)
		t[i] = start(touch_one, (void *)(intptr_t)i);
	for (long i = 0;; i++) {
		same.spot = at(ZONE + (i % 4) * 4 * TB, len);
		long before = tables_kb();

		if (arm_each)
			rp_arm("pt_link", 3);
		if (!lead(&gate, go_on(i, 20)))
			break;
		meet(&gate);
		long grown = tables_kb() - before;
		if (before >= 0)
			CHECK_MSG(grown == want_kb, "%ld kB of tables more, expected %ld", grown,
				  want_kb);
		for (int k = 0; k < T; k++)
			CHECK_EQ(same.spot[k * stride], k + 1);
		unmap(same.spot, len);
		if (before >= 0)
			CHECK_EQ(tables_kb(), before);
		meet(&gate);
	}
	for (int i = 0; i < T; i++)
		join(t[i]);
}

TEST(one_pte, "PT-02 eight threads under one missing 2 MiB", .seconds = 40)
{
	same_table(P, HUGE, 12);
}

TEST(one_pmd, "PT-02 eight threads under one missing 1 GiB", .seconds = 40)
{
	same_table(HUGE, GB, 4 + 4 + T * 4);
}

TEST(one_pud, "PT-02 eight threads under one missing 512 GiB", .seconds = 40)
{
	same_table(GB, SLOT, 4 + T * 8);
}

TEST(raced, "PT-02 the loser of the race frees its table", .cpus = 2)
{
	if (!rp_arm("pt_link", 3))
		skip("no race points in this kernel");
	arm_each = true;
	same_table(P, HUGE, 12);
}

TEST(count, "PT-02 VmPTE counts every table once")
{
	long before = tables_kb();

	if (before < 0)
		skip("no VmPTE");
	char *p = at(ZONE, 4 * GB);
	CHECK_EQ(tables_kb(), before);
	p[0] = 1;
	CHECK_EQ(tables_kb() - before, 12);
	p[P] = 1;
	CHECK_EQ(tables_kb() - before, 12);
	p[HUGE] = 1;
	CHECK_EQ(tables_kb() - before, 16);
	p[GB] = 1;
	CHECK_EQ(tables_kb() - before, 24);
	/* A zapped range keeps its tables or gives them up; munmap gives them up. */
	unmap(p + GB, GB);
	CHECK_EQ(tables_kb() - before, 16);
	unmap(p, 4 * GB);
	CHECK_EQ(tables_kb() - before, 0);
}

/* ---- PT-04 ------------------------------------------------------------------------------ */

enum { SPAN = 4 }; /* 2 MiB ranges that come and go */
static char *coming;

/*
 * Maps, stamps and unmaps ranges, so that tables under a walker's feet go, and come back as those
 * of a range with another stamp.
 */
static void come_and_go(long n)
{
	for (long i = 0; go_on(i, n); i++) {
		if (i % 3)
			rp_arm(i % 3 == 1 ? "pt_link" : "gather_flush", 1);
		at((unsigned long)coming, SPAN * HUGE);
		for (int k = 0; k < SPAN; k++)
			memset(coming + k * HUGE + 9 * P, 0x11, 64);
		/* A walker that has found a table goes on when its frame is in use again. */
		bool parks = i % 3 == 0 && rp_arm("walk_pinned", 1);
		for (volatile int spin = 0; spin < 4000 && parks; spin++)
			;
		if (i % 3 == 0 && !parks)
			sched_yield();
		unmap(coming, SPAN * HUGE);
		char *m = at((unsigned long)coming + 64 * HUGE, SPAN * HUGE);
		for (int k = 0; k < SPAN; k++)
			memset(m + k * HUGE + 9 * P, 0xe7, 2 * P);
		if (parks)
			sleep_ms(1);
		unmap(m, SPAN * HUGE);
	}
}

static void check_bytes(const unsigned char *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (b[i] != 0 && b[i] != 0x11) {
			FAIL("the walker brought 0x%x", b[i]);
			return;
		}
}

static void *walk_pagemap(void *arg)
{
	int fd = NEED_OK(open("/proc/self/pagemap", O_RDONLY));
	uint64_t e[16];

	(void)arg;
	pin(1);
	while (!stop) {
		for (int k = 0; k < SPAN; k++) {
			ssize_t n = pread(fd, e, sizeof(e), (uintptr_t)(coming + k * HUGE) / P * 8);

			if (n != (ssize_t)sizeof(e)) {
				FAIL("pagemap gave %zd %s", n, errno_name(errno));
				return NULL;
			}
			for (int i = 0; i < 16; i++)
				if (i != 9 && (e[i] & PM_PRESENT))
					FAIL("pagemap shows page %d, which was never touched", i);
		}
	}
	close(fd);
	return NULL;
}

static void *walk_uaccess(void *arg)
{
	int fd[2];
	unsigned char b[64];

	(void)arg;
	pin(1);
	NEED(pipe2(fd, O_NONBLOCK) == 0);
	while (!stop)
		for (int k = 0; k < SPAN; k++) {
			ssize_t n = write(fd[1], coming + k * HUGE + 9 * P, 64);

			if (n > 0) {
				CHECK_EQ(read(fd[0], b, sizeof(b)), n);
				check_bytes(b, n);
			} else {
				CHECK_EQ(errno, EFAULT);
			}
			n = syscall(SYS_futex, coming + k * HUGE + 9 * P + 128, 1, 1, NULL, NULL,
				    0);
			CHECK_MSG(n == 0 || (n == -1 && errno == EFAULT), "futex wake gave %ld",
				  (long)n);
			unsigned char vec[16];
			if (mincore(coming + k * HUGE, 16 * P, vec) < 0)
				CHECK_EQ(errno, ENOMEM);
		}
	return NULL;
}

static void walker_against_freer(void *(*walk)(void *))
{
	coming = (char *)ZONE;
	pthread_t t = start(walk, NULL);
	pin(0);
	come_and_go(250);
	stop = true;
	join(t);
}

TEST(pagemap_walk, "PT-04 pagemap is read while tables are freed", .cpus = 2, .seconds = 40)
{
	walker_against_freer(walk_pagemap);
}

TEST(uaccess_walk, "PT-04 copies, futex keys and mincore while tables are freed", .cpus = 2,
     .seconds = 40)
{
	walker_against_freer(walk_uaccess);
}

TEST(remote_walk, "PT-04 another process reads by process_vm_readv while tables are freed",
     .cpus = 2, .seconds = 40)
{
	unsigned char b[64];
	struct iovec local = { b, 64 }, remote = { (void *)(ZONE + 9 * P), 64 };

	coming = (char *)ZONE;
	pid_t pid = xfork();
	if (pid == 0) {
		pin(0);
		come_and_go(200);
		done();
	}
	pin(1);
	int status, sick = 0;
	while (waitpid(pid, &status, WNOHANG) == 0) {
		remote.iov_base = coming + (sick++ % SPAN) * HUGE + 9 * P;
		long n = syscall(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0);

		if (n > 0)
			check_bytes(b, n);
		else if (errno == ENOSYS)
			skip("no process_vm_readv");
		else
			CHECK_MSG(errno == EFAULT || errno == ESRCH, "process_vm_readv: %s",
				  errno_name(errno));
	}
	CHECK_EQ(status, 0);
}

/* ---- PT-06 ------------------------------------------------------------------------------ */

static struct {
	char *base;
	int fd;
} mixed;

static void *mixed_faults(void *arg)
{
	int me = (int)(intptr_t)arg;

	pin(me);
	for (long i = 0; me ? follow(&gate) : lead(&gate, go_on(i, 40)); i++) {
		for (int k = 0; k < 8; k++) {
			switch (me) {
			case 0: /* two fault in the shared range */
			case 1: mixed.base[k * HUGE + me * P] = me + 1; break;
			case 2: /* one its anonymous neighbour under the same upper table */
				mixed.base[(16 + k) * HUGE] = 3;
				break;
			case 3: /* one changes protections over the edge */
				mprotect(mixed.base + 15 * HUGE, HUGE, k % 2 ? PROT_READ : RW);
				mprotect(mixed.base + k * HUGE + 64 * P, P, k % 2 ? PROT_READ : RW);
			}
		}
		meet(&gate);
		if (me == 3) {
			for (int k = 0; k < 8; k++)
				if (mixed.base[k * HUGE] != 1 || mixed.base[k * HUGE + P] != 2 ||
				    mixed.base[(16 + k) * HUGE] != 3)
					FAIL("range %d lost an entry", k);
			madvise(mixed.base, 24 * HUGE, MADV_DONTNEED);
			raw_mmap((unsigned long)mixed.base + 16 * HUGE, 8 * HUGE, RW,
				 ANON | MAP_FIXED, -1, 0);
		}
		meet(&gate);
	}
	return NULL;
}

TEST(levels, "PT-06 shared and private ranges under one upper table", .cpus = 2, .seconds = 40)
{
	pthread_t t[4];

	mixed.fd = tmpfile_fd(16 * HUGE);
	mixed.base = (char *)ZONE;
	NEED(raw_mmap(ZONE, 16 * HUGE, RW, MAP_SHARED | MAP_FIXED, mixed.fd, 0) == (long)ZONE);
	at(ZONE + 16 * HUGE, 8 * HUGE);
	gate = (struct meet){ .n = 4 };
	for (int i = 0; i < 4; i++)
		t[i] = start(mixed_faults, (void *)(intptr_t)i);
	for (int i = 0; i < 4; i++)
		join(t[i]);
}

/* ---- PT-08 ------------------------------------------------------------------------------ */

static void touch_levels(void)
{
	static const unsigned long spots[] = {
		0x10000000, 0x7fe00000,   GB,      3 * GB - P, SLOT,
		SLOT + GB,  3 * SLOT - P, 64 * TB, 127 * TB,
	};

	for (size_t i = 0; i < ARRAY_SIZE(spots); i++) {
		char *p = (char *)raw_mmap(spots[i] & ~(P - 1), P, RW, ANON | MAP_FIXED_NOREPLACE,
					   -1, 0);

		if ((long)p == -1) {
			CHECK_EQ(errno, EEXIST);
			continue;
		}
		CHECK_EQ(*(volatile char *)p, 0);
		*p = 1;
	}
}

static void end_in_every_way(int way)
{
	struct door ready = door();
	pid_t pid = xfork();

	if (pid == 0) {
		touch_levels();
		if (test_failed)
			done();
		if (way == 0)
			_exit(0);
		if (way == 1)
			self_exec("0", NULL);
		let(ready);
		for (;;)
			pause();
	}
	if (way == 2) {
		pass(ready);
		kill(pid, SIGKILL);
		CHECK_KILLED(pid, SIGKILL);
	} else {
		join_child(pid);
	}
	close(ready.fd[0]);
	close(ready.fd[1]);
}

TEST(ends, "PT-08 tables of every level are freed at exit, exec and SIGKILL", .seconds = 60)
{
	long before = field("/proc/meminfo", "PageTables"), n = 0;

	for (; go_on(n, 150); n++)
		end_in_every_way(n % 3);
	/*
	 * The ledger sees every single one; this is what a user sees. One lost table a round would
	 * be 4n kB.
	 */
	long grown = 0;
	for (int i = 0; i < 60; i++) {
		grown = field("/proc/meminfo", "PageTables") - before;
		if (grown < 2 * n)
			break;
		sleep_ms(50); /* tables and counts may come back a little later */
	}
	CHECK_MSG(grown < 2 * n + 32, "%ld kB of tables more after %ld processes", grown, n);
}

TEST(munmapped, "PT-08 munmap of a wide range frees tables on both sides of empty ones")
{
	long before = tables_kb();

	for (int i = 0; i < rounds(20); i++) {
		char *p = at(ZONE, 2 * TB);

		p[0] = p[SLOT + 5 * GB] = p[SLOT + 5 * GB + 3 * HUGE] = p[3 * SLOT + 511 * GB] =
			p[2 * TB - P] = 1;
		unmap(p, 2 * TB);
		if (before >= 0)
			CHECK_EQ(tables_kb(), before);
	}
	/* Partly: what is left lives on. */
	char *p = at(ZONE, 4 * HUGE);
	for (int i = 0; i < 4; i++)
		p[i * HUGE + P] = i + 1;
	unmap(p + HUGE, 2 * HUGE);
	CHECK_EQ(p[P], 1);
	CHECK_EQ(p[3 * HUGE + P], 4);
	CHECK_FAULT(loads(p + HUGE + P), SIGSEGV, SEGV_MAPERR_, p + HUGE + P);
	at(ZONE + HUGE, 2 * HUGE);
	CHECK_EQ(p[HUGE + P], 0);
	CHECK_EQ(p[2 * HUGE + P], 0);
}

/* ---- PT-09 ------------------------------------------------------------------------------ */

static char *moving[2];

static void *zap_moving(void *arg)
{
	(void)arg;
	pin(1);
	while (!stop)
		for (int i = 0; i < 2; i++)
			raw_madvise((unsigned long)moving[i], HUGE, MADV_DONTNEED);
	return NULL;
}

static void *read_moving(void *arg)
{
	(void)arg;
	pin(2);
	while (!stop)
		for (int i = 0; i < 2; i++)
			for (size_t k = 0; k < 512; k += 37) {
				volatile unsigned short *p = (unsigned short *)(moving[i] + k * P);

				if (!TRY({
					    unsigned short v = *p;

					    if (v != k + 1)
						    FAIL("page %zu shows %u", k, v);
				    }) &&
				    hit.code != SEGV_MAPERR_)
					FAIL("signal %d code %d", hit.sig, hit.code);
			}
	return NULL;
}

TEST(whole_tables, "PT-09 whole tables are moved while others zap and read the range", .cpus = 2,
     .seconds = 40)
{
	int fd = tmpfile_fd(HUGE);

	moving[0] = (char *)ZONE;
	moving[1] = (char *)ZONE + 4 * HUGE;
	catch_faults();
	NEED(raw_mmap(ZONE, HUGE, RW, MAP_SHARED | MAP_FIXED, fd, 0) == (long)ZONE);
	for (size_t k = 0; k < 512; k++)
		*(unsigned short *)(moving[0] + k * P) = k + 1;
	pthread_t a = start(zap_moving, NULL), b = start(read_moving, NULL);
	pin(0);
	for (long i = 0; go_on(i, 100); i++) {
		char *from = moving[i % 2], *to = moving[(i + 1) % 2];

		rp_arm(i % 2 ? "gather_flush" : "mremap_flush", 1);
		NEED(raw_mremap((unsigned long)from, HUGE, HUGE, MREMAP_MAYMOVE | MREMAP_FIXED,
				(unsigned long)to) == (long)to);
		CHECK_FAULT(loads(from), SIGSEGV, SEGV_MAPERR_, from);
		for (size_t k = 0; k < 512; k += 5)
			if (*(volatile unsigned short *)(to + k * P) != k + 1)
				FAIL("round %ld: page %zu shows %u", i, k,
				     *(unsigned short *)(to + k * P));
	}
	stop = true;
	join(a);
	join(b);
}

TEST(move_anon_tables, "PT-09 anonymous tables moved; their old addresses fault, count stays")
{
	char *p = at(ZONE, HUGE);
	long before;

	memset(p, 0x33, HUGE);
	before = tables_kb();
	for (int i = 1; i < rounds(30); i++) {
		char *q = (char *)ZONE + (i % 7) * 2 * HUGE;

		if (q == p)
			continue;
		NEED(raw_mremap((unsigned long)p, HUGE, HUGE, MREMAP_MAYMOVE | MREMAP_FIXED,
				(unsigned long)q) == (long)q);
		CHECK_FAULT(loads(p), SIGSEGV, SEGV_MAPERR_, p);
		CHECK_FAULT(loads(p + HUGE - 1), SIGSEGV, SEGV_MAPERR_, p + HUGE - 1);
		for (size_t k = 0; k < HUGE; k += 13 * P)
			CHECK_EQ(q[k], 0x33);
		p = q;
	}
	if (before >= 0)
		CHECK_EQ(tables_kb(), before);
	unmap(p, HUGE);
}
