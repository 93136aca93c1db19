/*
 * TLB shootdown by many at once, and whom it interrupts: threads that unmap and drop pages side by side, CPUs
 * that idle or run somebody else, one round of interrupts a call. known-bugs: TL-02.
 */
#include "harness.h"

/* What the threads of a test share; every test begins with all of it zero. */
static struct {
	char *x; /* the page or pages that all is about */
	volatile bool flag, stop, warm;
	long n;
	struct meet meet, end;
	struct door go;
} w;

#define CREW 16

static struct {
	char *page[CREW];
	int n;
} crew;

static void *unmapper(void *arg)
{
	int me = (int)(intptr_t)arg;
	char *own = crew.page[me] + P;

	pin(me);
	meet(&w.meet);
	for (long i = 0; go_on(i, w.n); i++) {
		if (me == 0 && i % 8 == 0)
			rp_arm("gather_flush", 1);
		NEED(raw_mmap((unsigned long)own, P, RW, ANON | MAP_FIXED, -1, 0) == (long)own);
		CHECK_EQ(*(volatile char *)own, 0);
		*own = me + 1;
		NEED(munmap(own, P) == 0);
		CHECK_FAULT(loads(own), SIGSEGV, SEGV_MAPERR_, own);
		for (int k = 0; k < crew.n; k++)
			if (*(volatile char *)crew.page[k] != k + 1)
				FAIL("thread %d's page holds %d", k, *crew.page[k]);
	}
	return NULL;
}

static void all_unmap(int n, long times)
{
	pthread_t t[CREW];

	crew.n = n;
	w.n = times;
	w.meet = (struct meet){ .n = n };
	catch_faults();
	for (int i = 0; i < n; i++) {
		crew.page[i] = map(2 * P, RW, ANON);
		*crew.page[i] = i + 1;
	}
	for (int i = 0; i < n; i++)
		t[i] = start(unmapper, (void *)(intptr_t)i);
	for (int i = 0; i < n; i++)
		join(t[i]);
}

TEST(everybody, "TL-02 all CPUs shoot at once", .seconds = 60)
{
	all_unmap(few_cpus(8), 300);
}

TEST(more_threads, "TL-02 more threads than CPUs", .seconds = 60)
{
	all_unmap(CREW, 100);
}

/* Shootdown interrupts since boot, or -1. */
static long shootdowns(void)
{
	long n = field("/proc/vmstat", "nr_tlb_remote_flush");

	return n < 0 ? field("/proc/vmstat", "tlb_ipis") : n;
}

/* Those of 50 unmaps of a page each. */
static long interrupts_of_unmaps(void)
{
	long before = shootdowns();

	if (before < 0)
		skip("no count of shootdown interrupts");
	for (int k = 0; k < 50; k++) {
		char *p = map(P, RW, ANON);

		*p = 1;
		unmap(p, P);
	}
	return shootdowns() - before;
}

TEST(alone, "TL-02 a program on one CPU interrupts nobody")
{
	pin(0);
	sleep_ms(5);
	long n = interrupts_of_unmaps();
	CHECK_MSG(n < 25, "%ld interrupts for 50 unmaps of a single-threaded program", n);
}

static void *sleeper(void *arg)
{
	pin((int)(intptr_t)arg);
	CHECK_EQ(*(volatile char *)w.x, 1);
	meet(&w.meet);
	pass(w.go);
	/* What it had in its TLB when it fell asleep is not there any more. */
	CHECK_EQ(*(volatile char *)w.x, 2);
	return NULL;
}

TEST(asleep, "TL-02 CPUs that idle in the address space are disturbed once", .cpus = 2)
{
	int n = few_cpus(8);
	pthread_t t[CREW];

	w.x = map(P, RW, ANON);
	*w.x = 1;
	w.meet = (struct meet){ .n = n };
	w.go = door();
	pin(0);
	for (int i = 1; i < n; i++)
		t[i] = start(sleeper, (void *)(intptr_t)i);
	meet(&w.meet);
	sleep_ms(20);
	NEED(raw_mmap((unsigned long)w.x, P, RW, ANON | MAP_FIXED, -1, 0) == (long)w.x);
	*w.x = 2;
	long sent = interrupts_of_unmaps();
	for (int i = 1; i < n; i++)
		let(w.go);
	for (int i = 1; i < n; i++)
		join(t[i]);
	CHECK_MSG(sent < 25, "%ld interrupts for 50 unmaps while all others sleep", sent);
}

static void *spinner(void *arg)
{
	pin((int)(intptr_t)arg);
	w.warm = true;
	until(&w.flag);
	return NULL;
}

TEST(one_round, "TL-02 one call, one round of interrupts: 2000 shared pages", .cpus = 2)
{
	char *p = map_fd(2000 * P, RW, MAP_SHARED, tmpfile_fd(2000 * P), 0);

	for (int i = 0; i < 2000; i++)
		p[i * P] = 1;
	pin(0);
	pthread_t t = start(spinner, (void *)1);
	until(&w.warm);
	long before = shootdowns();
	if (before < 0)
		skip("no count of shootdown interrupts");
	unmap(p, 2000 * P);
	long sent = shootdowns() - before;
	w.flag = true;
	join(t);
	CHECK_MSG(sent <= 5, "%ld rounds", sent);
}

static void *dropper(void *arg)
{
	pin((int)(intptr_t)arg);
	for (;;) {
		meet(&w.meet);
		if (w.stop)
			return NULL;
		CHECK_EQ(*(volatile char *)w.x, 1);
		meet(&w.meet);
		if (arg) /* the other one is before its flush when this one finds nothing any more */
			until(&w.flag);
		else
			rp_arm("gather_flush", 3);
		w.flag = true;
		NEED(madvise(w.x, P, MADV_DONTNEED) == 0);
		CHECK_EQ(*(volatile char *)w.x, 0);
		meet(&w.end);
	}
}

TEST(drop_twice, "TL-02 two threads drop one page: neither sees it afterwards", .cpus = 2,
     .seconds = 30)
{
	pthread_t t[2];

	w.x = map(P, RW, ANON);
	w.meet.n = w.end.n = 3;
	for (int i = 0; i < 2; i++)
		t[i] = start(dropper, (void *)(intptr_t)i);
	for (long i = 0; go_on(i, 100); i++) {
		*w.x = 1;
		w.flag = false;
		meet(&w.meet);
		meet(&w.meet);
		meet(&w.end);
	}
	w.stop = true;
	meet(&w.meet);
	for (int i = 0; i < 2; i++)
		join(t[i]);
}

static void *carver(void *arg)
{
	int me = (int)(intptr_t)arg;

	pin(me);
	meet(&w.meet);
	for (long i = 0; i < w.n; i++) {
		char *own = w.x + (i * CREW + me) * P;

		CHECK_EQ(*own, me + 1);
		NEED(munmap(own, P) == 0);
		CHECK_FAULT(loads(own), SIGSEGV, SEGV_MAPERR_, own);
		if (i < w.n - 1)
			CHECK_EQ(own[CREW * P], me + 1);
	}
	return NULL;
}

TEST(carve, "TL-02 threads take one area apart", .cpus = 2, .seconds = 60)
{
	pthread_t t[CREW];

	catch_faults();
	w.n = rounds(64) < 8 ? 8 : rounds(64);
	for (long round = 0; go_on(round, 4); round++) {
		w.x = map(w.n * CREW * P, RW, ANON);
		w.meet = (struct meet){ .n = CREW };
		for (int i = 0; i < w.n * CREW; i++)
			w.x[i * P] = i % CREW + 1;
		for (int i = 0; i < CREW; i++)
			t[i] = start(carver, (void *)(intptr_t)i);
		for (int i = 0; i < CREW; i++)
			join(t[i]);
	}
}
