/*
 * TLB shootdown: after a call that takes a page or a right away has returned, no CPU uses the old
 * translation; and no frame is used again before that. known-bugs: TL-01, TL-04, TL-05,
 * TL-07, TL-09, TL-10. Many at once, and whom a flush interrupts: shootdown.c.
 */
#include "harness.h"

#define MAX 8 /* CPUs that take part */

/*
 * Pages that come and go lie where nobody else's mapping can slip in meanwhile. An odd one has a
 * neighbour in the same table: else the table goes too, and all of the TLB is flushed for that.
 */
static char *page_at(size_t nth)
{
	char *p = (char *)(ZONE + nth * HUGE);

	if (nth % 2) {
		char *beside = p + 16 * P;

		NEED(raw_mmap((unsigned long)beside, P, RW, ANON | MAP_FIXED, -1, 0) ==
		     (long)beside);
		*beside = 1;
	}
	NEED(raw_mmap((unsigned long)p, P, RW, ANON | MAP_FIXED, -1, 0) == (long)p);
	return p;
}

/* What the threads of a test share; every test begins with all of it zero. */
static struct {
	char *x; /* the page that all is about */
	volatile bool flag, stop;
	volatile bool warm; /* the other CPU has the translation */
	long n;
	struct meet meet, end;
	int cpu;
	volatile long made;
} w;

/*
 * Now and then a pause: where one thread of an emulator is all CPUs, that is when the next one gets its
 * turn, which may be a tenth of a second later otherwise.
 */
static __attribute__((noinline)) bool spin_read(const volatile char *x, volatile bool *until)
{
	return TRY(for (unsigned i = 1; !*until; i++) {
		(void)*x;
		w.warm = true;
		if (i % 64 == 0)
			pause_cpu();
	});
}

static __attribute__((noinline)) bool spin_write(volatile unsigned *x, volatile bool *until)
{
	return TRY(for (unsigned i = 1; !*until; i++) {
		++*x;
		if (i % 64 == 0)
			pause_cpu();
	});
}

/* Until the other thread uses the page: what it loads before that says nothing about flushing. */
static void until_warm(void)
{
	until(&w.warm);
}

/* ---- TL-01 ------------------------------------------------------------------------------ */

enum { UNMAP, PROTECT, REMAP, MADVISE, KINDS };

static void *reader(void *arg)
{
	int kind = (int)(intptr_t)arg;

	pin(w.cpu);
	while (follow(&w.meet)) {
		spin_read(w.x, &w.flag);
		/* It may have met the signal before the flag; now it must. */
		while (!w.flag)
			pause_cpu();
		switch (kind) {
		case UNMAP: CHECK_FAULT(loads(w.x), SIGSEGV, SEGV_MAPERR_, w.x); break;
		case PROTECT: CHECK_FAULT(loads(w.x), SIGSEGV, SEGV_ACCERR_, w.x); break;
		case REMAP: CHECK_EQ(*(volatile char *)w.x, 2); break;
		case MADVISE: CHECK_EQ(*(volatile char *)w.x, 0); break;
		}
		meet(&w.end);
	}
	return NULL;
}

static void take_away(int kind)
{
	switch (kind) {
	case UNMAP: NEED(munmap(w.x, P) == 0); break;
	case PROTECT: NEED(mprotect(w.x, P, PROT_NONE) == 0); break;
	case MADVISE: NEED(madvise(w.x, P, MADV_DONTNEED) == 0); break;
	case REMAP: {
		char *two = map(P, RW, ANON);

		*two = 2;
		NEED(raw_mremap((unsigned long)two, P, P, MREMAP_MAYMOVE | MREMAP_FIXED,
				(unsigned long)w.x) == (long)w.x);
		break;
	}
	}
}

static void all_pairs(int kind)
{
	int n = few_cpus(MAX);

	w.meet.n = w.end.n = 2;
	catch_faults();
	for (int a = 0; a < n; a++)
		for (int b = 0; b < n; b++) {
			if (n > 1 && a == b)
				continue;
			w.x = page_at((a + b) % 4);
			w.cpu = b;
			w.flag = false;
			pthread_t t = start(reader, (void *)(intptr_t)kind);
			pin(a);
			for (long i = 0;; i++) {
				NEED(raw_mmap((unsigned long)w.x, P, RW, ANON | MAP_FIXED, -1, 0) ==
				     (long)w.x);
				*w.x = 1;
				w.flag = w.warm = false;
				if (!lead(&w.meet, i < 1 || go_on(i, 3)))
					break;
				until_warm();
				take_away(kind);
				w.flag = true;
				meet(&w.end);
			}
			join(t);
		}
}

TEST(munmap_pairs, "TL-01 munmap, seen by every other CPU")
{
	all_pairs(UNMAP);
}
TEST(mprotect_pairs, "TL-01 mprotect to none, seen by every other CPU")
{
	all_pairs(PROTECT);
}
TEST(remap_pairs, "TL-01 another page put in place, seen by every other CPU")
{
	all_pairs(REMAP);
}
TEST(madvise_pairs, "TL-01 DONTNEED, seen by every other CPU")
{
	all_pairs(MADVISE);
}

static void *late_writer(void *arg)
{
	(void)arg;
	pin(w.cpu);
	while (follow(&w.meet)) {
		CHECK(!spin_write((unsigned *)w.x, &w.stop));
		CHECK(hit.sig == SIGSEGV && hit.code == SEGV_ACCERR_);
		meet(&w.end);
	}
	return NULL;
}

TEST(late_write, "TL-01 no store lands after mprotect has returned", .cpus = 2, .seconds = 40)
{
	int n = few_cpus(MAX);

	w.meet.n = w.end.n = 2;
	catch_faults();
	for (int a = 0; a < n; a++)
		for (int b = 0; b < n; b++) {
			if (a == b)
				continue;
			w.x = page_at(0);
			w.cpu = b;
			pthread_t t = start(late_writer, NULL);
			pin(a);
			for (long i = 0;; i++) {
				volatile unsigned *x = (unsigned *)w.x;

				NEED(mprotect(w.x, P, RW) == 0);
				*x = 0;
				if (!lead(&w.meet, i < 1 || go_on(i, 4)))
					break;
				while (*x == 0)
					pause_cpu();
				NEED(mprotect(w.x, P, PROT_READ) == 0);
				unsigned first = *x;
				for (volatile int spin = 0; spin < 2000; spin++)
					;
				CHECK_EQ(*x, first);
				meet(&w.end);
			}
			join(t);
			unmap(w.x, P);
		}
}

TEST(swap, "TL-01 two file pages swapped under a reader", .cpus = 2)
{
	int fd = tmpfile_fd(2 * P);
	char byte[2] = { 1, 2 };

	NEED(pwrite(fd, byte, 1, 0) == 1 && pwrite(fd, byte + 1, 1, P) == 1);
	w.x = map_fd(P, RW, MAP_SHARED, fd, 0);
	w.meet.n = w.end.n = 2;
	w.cpu = 1;
	catch_faults();
	/* The reader's check is for 2, so every round ends there. */
	pthread_t t = start(reader, (void *)(intptr_t)REMAP);
	pin(0);
	for (long i = 0;; i++) {
		NEED(mmap(w.x, P, RW, MAP_SHARED | MAP_FIXED, fd, 0) == w.x);
		CHECK_EQ(*(volatile char *)w.x, 1);
		w.flag = w.warm = false;
		if (!lead(&w.meet, go_on(i, 200)))
			break;
		until_warm();
		NEED(mmap(w.x, P, RW, MAP_SHARED | MAP_FIXED, fd, P) == w.x);
		w.flag = true;
		meet(&w.end);
	}
	join(t);
}

/* ---- TL-04 ------------------------------------------------------------------------------ */

static __attribute__((noinline)) bool bump(volatile unsigned *x)
{
	return TRY(++*x);
}

static void *nomad(void *arg)
{
	volatile unsigned *x = (unsigned *)w.x;
	bool sleeps = arg != NULL;
	int at = 0;

	while (!w.stop) {
		/*
		 * Off this CPU and on another, or away while somebody else runs, and then a store
		 * at once.
		 */
		if (sleeps)
			nanosleep(&(struct timespec){ 0, 20000 }, NULL);
		else
			pin(++at);
		if (bump(x))
			w.made++;
		else if (hit.sig != SIGSEGV || hit.code != SEGV_ACCERR_)
			FAIL("signal %d code %d", hit.sig, hit.code);
	}
	return NULL;
}

static void wanderer(bool sleeps)
{
	volatile unsigned *x;

	w.x = page_at(0);
	x = (unsigned *)w.x;
	*x = 1;
	catch_faults();
	pthread_t t = start(nomad, sleeps ? (void *)1 : NULL);
	for (long i = 0; go_on(i, 300); i++) {
		rp_arm("mm_switch", 1);
		NEED(mprotect(w.x, P, PROT_READ) == 0);
		unsigned first = *x;
		for (volatile int spin = 0; spin < 2000; spin++)
			;
		if (i % 8 == 0)
			sched_yield();
		CHECK_EQ(*x, first);
		NEED(mprotect(w.x, P, RW) == 0);
		if (i % 3 == 0)		/* it must have stored since, or there is nothing to flush */
			for (long seen = w.made; w.made == seen && !test_failed;)
				sched_yield();
	}
	w.stop = true;
	join(t);
	CHECK_MSG(*x == 1 + w.made, "%u for %ld stores", *x, w.made);
}

TEST(migrating, "TL-04 a migrating thread against mprotect", .cpus = 2, .seconds = 40)
{
	wanderer(false);
}
TEST(sleeping, "TL-04 a thread that sleeps and wakes against mprotect", .seconds = 40)
{
	wanderer(true);
}

TEST(other_process, "TL-04 another process runs on the CPU between", .cpus = 2, .seconds = 40)
{
	/*
	 * On CPU 1 the thread and another process alternate; a lazily kept address space must still
	 * be flushed.
	 */
	pid_t pid = xfork();

	if (pid == 0) {
		pin(1);
		for (;;)
			sched_yield();
	}
	w.x = page_at(0);
	volatile unsigned *x = (unsigned *)w.x;
	*x = 1;
	catch_faults();
	pthread_t t = start(nomad, (void *)1);
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(1, &one);
	pthread_setaffinity_np(t, sizeof(one), &one);
	pin(0);
	for (long i = 0; go_on(i, 200); i++) {
		NEED(mprotect(w.x, P, PROT_READ) == 0);
		unsigned first = *x;
		for (volatile int spin = 0; spin < 3000; spin++)
			;
		CHECK_EQ(*x, first);
		NEED(mprotect(w.x, P, RW) == 0);
		if (i % 2)
			sched_yield();
	}
	w.stop = true;
	join(t);
	kill(pid, SIGKILL);
	CHECK_KILLED(pid, SIGKILL);
}

/* ---- TL-05 ------------------------------------------------------------------------------ */

#define STAMP 0x7a

static char *old_at, *new_at;

static __attribute__((noinline)) bool stamp_until_gone(volatile char *x)
{
	return TRY(for (;;) {
		bool over = w.flag;

		*x = STAMP;
		w.warm = true;
		if (over) {
			FAIL("a store lands at the old address after mremap has returned");
			break;
		}
	});
}

static void *stamper(void *arg)
{
	(void)arg;
	pin(1);
	while (follow(&w.meet)) {
		stamp_until_gone(old_at);
		CHECK_MSG(hit.sig == SIGSEGV && hit.code == SEGV_MAPERR_ &&
				  hit.addr == (uintptr_t)old_at,
			  "signal %d code %d", hit.sig, hit.code);
		meet(&w.end);
	}
	return NULL;
}

static void *zapper(void *arg)
{
	(void)arg;
	pin(2);
	while (!w.stop)
		raw_madvise((unsigned long)new_at, P, MADV_DONTNEED);
	return NULL;
}

static void *allocator(void *arg)
{
	(void)arg;
	pin(3);
	while (!w.stop) {
		char *m = map(16 * P, RW, ANON);

		for (int i = 0; i < 16; i++) {
			for (volatile char *c = m + i * P; c < m + (i + 1) * P; c += 512)
				if (*c)
					FAIL("a fresh page holds 0x%x", (unsigned char)*c);
			m[i * P + 8] = 1;
		}
		for (int i = 0; i < 16; i++)
			if (m[i * P])
				FAIL("another page's stamp 0x%x in mine", m[i * P]);
		unmap(m, 16 * P);
	}
	return NULL;
}

TEST(mremap_zap, "TL-05 mremap, a late store and a zap at the new address", .cpus = 2,
     .seconds = 40)
{
	pthread_t t[3];

	old_at = page_at(1);
	new_at = page_at(2);
	w.meet.n = w.end.n = 2;
	catch_faults();
	t[0] = start(stamper, NULL);
	t[1] = start(zapper, NULL);
	t[2] = start(allocator, NULL);
	pin(0);
	for (long i = 0;; i++) {
		NEED(raw_mmap((unsigned long)old_at, P, RW, ANON | MAP_FIXED, -1, 0) ==
		     (long)old_at);
		*old_at = STAMP;
		w.flag = w.warm = false;
		if (!lead(&w.meet, go_on(i, 200)))
			break;
		until_warm();
		/* At its new place already, at the old one still in TLBs. */
		if (i % 2 == 0)
			rp_arm("mremap_flush", 1);
		NEED(raw_mremap((unsigned long)old_at, P, P, MREMAP_MAYMOVE | MREMAP_FIXED,
				(unsigned long)new_at) == (long)new_at);
		w.flag = true;
		char c = *(volatile char *)new_at;
		CHECK_MSG(c == STAMP || c == 0, "the moved page holds 0x%x", c);
		meet(&w.end);
	}
	if (test_failed)
		done();
	w.stop = true;
	for (int i = 0; i < 3; i++)
		join(t[i]);
}

/* Place for TL-05 with a 2 MiB page. */

/* ---- TL-07 ------------------------------------------------------------------------------ */

static __attribute__((noinline)) bool watch(const volatile unsigned char *x)
{
	return TRY(for (unsigned i = 1;; i++) {
		unsigned char c = *x;

		w.warm = true;
		if (i % 64 == 0)
			pause_cpu();
		if (c != 0x11)
			FAIL("the unmapped page shows 0x%x", c);
		if (test_failed)
			break;
	});
}

static void *watcher(void *arg)
{
	(void)arg;
	pin(1);
	while (follow(&w.meet)) {
		watch((unsigned char *)w.x);
		CHECK(hit.sig == SIGSEGV);
		meet(&w.end);
	}
	return NULL;
}

/*
 * Allocates and fills frames: on a CPU of its own, and on the one that frees, whose list has them
 * first.
 */
static void *filler(void *arg)
{
	pin(arg ? 0 : 2);
	while (!w.stop) {
		char *m = map(256 * P, RW, ANON);

		/* One by one: unmapping would use up the race point that waits for another. */
		for (int i = 0; i < 256 && !w.stop; i++) {
			memset(m + i * P, 0x5a, P);
			nanosleep(&(struct timespec){ 0, 100000 }, NULL);
		}
		unmap(m, 256 * P);
	}
	return NULL;
}

TEST(early_free, "TL-07 a frame is not used again before the flush", .cpus = 2, .seconds = 40)
{
	w.x = page_at(1);
	w.meet.n = w.end.n = 2;
	catch_faults();
	pthread_t t = start(watcher, NULL), f = start(filler, NULL), g = start(filler, (void *)1);
	pin(0);
	for (long i = 0;; i++) {
		NEED(raw_mmap((unsigned long)w.x, P, RW, ANON | MAP_FIXED, -1, 0) == (long)w.x);
		memset(w.x, 0x11, P);
		w.warm = false;
		if (!lead(&w.meet, (i < rounds(30) && !test_failed) || go_on(i, 200)))
			break;
		until_warm();
		rp_arm("gather_flush", 4);
		NEED(munmap(w.x, P) == 0);
		/* The very CPU that freed it is likely to get the frame next. */
		char *m = map(P, RW, ANON);
		memset(m, 0x5a, P);
		unmap(m, P);
		meet(&w.end);
	}
	if (test_failed)
		done();
	w.stop = true;
	join(t);
	join(f);
	join(g);
}

/* ---- TL-09 ------------------------------------------------------------------------------ */

enum { PAGES = 128 };

static struct {
	unsigned *p;
	long faults[2];
} both;

static void *both_write(void *arg)
{
	int me = (int)(intptr_t)arg;

	pin(me);
	for (long i = 0; i < w.n; i++) {
		rp_arm(me ? "anon_insert" : "cow_copied", 2);
		meet(&w.meet);
		long before = thread_faults();
		for (int k = 0; k < PAGES; k++)
			both.p[k * P / 4 + me] = k + me + 1;
		both.faults[me] += thread_faults() - before;
		meet(&w.end);
		if (me == 0)
			for (int k = 0; k < PAGES; k++)
				if (both.p[k * P / 4] != (unsigned)k + 1 ||
				    both.p[k * P / 4 + 1] != (unsigned)k + 2)
					FAIL("page %d holds %u and %u", k, both.p[k * P / 4],
					     both.p[k * P / 4 + 1]);
		meet(&w.end);
	}
	return NULL;
}

static void two_writers(bool cow)
{
	char *parent = map(PAGES * P, RW, ANON);

	madvise(parent, PAGES * P, MADV_NOHUGEPAGE);
	w.n = 1;
	for (long i = 0; go_on(i, 15); i++) {
		if (cow)
			memset(parent, 0, PAGES * P);
		pid_t pid = xfork();
		if (pid == 0) {
			both.p = (unsigned *)parent;
			if (!cow) {
				both.p = map(PAGES * P, RW, ANON);
				madvise(both.p, PAGES * P, MADV_NOHUGEPAGE);
			}
			w.meet.n = w.end.n = 2;
			pthread_t t = start(both_write, (void *)1);
			both_write(NULL);
			join(t);
			CHECK_MSG(both.faults[0] + both.faults[1] <= 2 * PAGES + 40,
				  "%ld faults for %d pages", both.faults[0] + both.faults[1],
				  PAGES);
			done();
		}
		join_child(pid);
	}
}

TEST(same_fresh, "TL-09 two threads write the same fresh pages", .cpus = 2)
{
	two_writers(false);
}
TEST(same_cow, "TL-09 two threads write the same COW pages", .cpus = 2)
{
	two_writers(true);
}

static void *retrier(void *arg)
{
	volatile unsigned *x = (unsigned *)w.x;

	(void)arg;
	pin(1);
	while (follow(&w.meet)) {
		while (!TRY(x[1]++))
			if (hit.sig != SIGSEGV || hit.code != SEGV_ACCERR_) {
				FAIL("signal %d code %d", hit.sig, hit.code);
				break;
			}
		meet(&w.end);
	}
	return NULL;
}

TEST(upgrade, "TL-09 a store is retried until mprotect allows it", .cpus = 2)
{
	w.x = page_at(0);
	w.meet.n = w.end.n = 2;
	catch_faults();
	pthread_t t = start(retrier, NULL);
	pin(0);
	for (long i = 0;; i++) {
		NEED(mprotect(w.x, P, PROT_READ) == 0);
		if (!lead(&w.meet, go_on(i, 200)))
			break;
		for (volatile int spin = 0; spin < 500; spin++)
			;
		NEED(mprotect(w.x, P, RW) == 0);
		meet(&w.end);
		CHECK_EQ(((unsigned *)w.x)[1], i + 1);
	}
	join(t);
}

/* ---- TL-10 ------------------------------------------------------------------------------ */

enum { TABLES = 8 };

static struct {
	char *base, *beside;
} tables;

static void *neighbour(void *arg)
{
	(void)arg;
	pin(1);
	while (!w.stop)
		for (int i = 0; i < TABLES && !test_failed; i++) {
			volatile char *q = tables.base + i * HUGE + 7 * P;

			if (TRY({
				    char c = *q;

				    /* Mapped it holds zero or 1; through a freed table it would be
				     * anything. */
				    if (c != 0 && c != 1)
					    FAIL("read 0x%x through a freed table",
						 (unsigned char)c);
			    }))
				continue;
			if (hit.sig != SIGSEGV ||
			    (hit.code != SEGV_MAPERR_ && hit.code != SEGV_ACCERR_))
				FAIL("signal %d code %d", hit.sig, hit.code);
			if (*(volatile char *)(tables.beside + i * HUGE) != 3)
				FAIL("the neighbour's page is lost");
		}
	return NULL;
}

TEST(table_freed, "TL-10 no access goes through a freed page table", .cpus = 2, .seconds = 40)
{
	tables.base = page_at(0);
	tables.beside = reserve(TABLES * HUGE, HUGE);
	NEED(mprotect(tables.beside, TABLES * HUGE, RW) == 0);
	madvise(tables.beside, TABLES * HUGE, MADV_NOHUGEPAGE);
	for (int i = 0; i < TABLES; i++)
		tables.beside[i * HUGE] = 3;
	catch_faults();
	pthread_t t = start(neighbour, NULL);
	pin(0);
	for (long i = 0; go_on(i, 100); i++) {
		char *b = (char *)raw_mmap((unsigned long)tables.base, TABLES * HUGE, RW,
					   ANON | MAP_FIXED | MAP_NORESERVE, -1, 0);

		NEED(b == tables.base);
		madvise(b, TABLES * HUGE, MADV_NOHUGEPAGE);
		for (int k = 0; k < TABLES; k++)
			b[k * HUGE + 7 * P] = 1;
		rp_arm("gather_flush", 1);
		unmap(b, TABLES * HUGE);
		/*
		 * The tables' frames come back as data that looks like table entries: present,
		 * writable, user.
		 */
		uint64_t *m = map(2 * TABLES * P, RW, ANON);
		for (size_t k = 0; k < 2 * TABLES * P / 8; k++)
			m[k] = 0xe7;
		unmap(m, 2 * TABLES * P);
	}
	w.stop = true;
	join(t);
}
