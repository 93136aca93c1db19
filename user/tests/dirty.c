/*
 * The dirty bit is never lost: nothing that a program stored disappears, whatever protection
 * changes and forks run beside the store. known-bugs: CW-17.
 */
#include "harness.h"

static struct {
	volatile unsigned *p;
	volatile bool stop;
	unsigned last;
} w;

static __attribute__((noinline)) bool store(volatile unsigned *p, unsigned value)
{
	return TRY(*p = value);
}

/*
 * Counts up in the page; the handler-less store faults only for as long as the page is read-only.
 */
static void *count_up(void *arg)
{
	unsigned n = 0;

	(void)arg;
	pin(1);
	while (!w.stop) {
		if (store(w.p, n + 1))
			n++;
		else if (hit.sig != SIGSEGV || hit.code != SEGV_ACCERR_)
			FAIL("signal %d code %d", hit.sig, hit.code);
	}
	w.last = n;
	return NULL;
}

/*
 * soft-dirty and pagecache flags are the kernel's own check; here: the file shows what was stored,
 * after all of it.
 */
TEST(shared_protect, "CW-17 stores to a shared file page against mprotect and fork", .cpus = 2,
     .seconds = 30)
{
	int fd = tmpfile_fd(P);
	unsigned in_file;

	w.p = map_fd(P, RW, MAP_SHARED, fd, 0);
	catch_faults();
	pthread_t t = start(count_up, NULL);
	pin(0);
	while (*w.p == 0)
		sched_yield();
	for (long i = 0; go_on(i, 400); i++) {
		if (i % 4 == 0)
			rp_arm("gather_flush", 1);
		NEED(mprotect((void *)w.p, P, PROT_READ) == 0);
		unsigned a = *w.p, b = *w.p;
		NEED(pread(fd, &in_file, 4, 0) == 4);
		CHECK_MSG(a == b && in_file == a, "read-only, but %u, %u, in the file %u", a, b,
			  in_file);
		NEED(mprotect((void *)w.p, P, RW) == 0);
		if (i % 8 == 0) {
			pid_t pid = xfork();

			if (pid == 0)
				done();
			join_child(pid);
		}
	}
	w.stop = true;
	join(t);
	NEED(pread(fd, &in_file, 4, 0) == 4);
	CHECK_EQ(in_file, w.last);
	CHECK_MSG(w.last > 10, "only %u stores", w.last);
}

TEST(private_protect, "CW-17 stores to an anonymous page against mprotect and fork", .cpus = 2,
     .seconds = 30)
{
	w.p = map(P, RW, ANON);
	w.stop = false;
	catch_faults();
	pthread_t t = start(count_up, NULL);
	pin(0);
	while (*w.p == 0)
		sched_yield();
	for (long i = 0; go_on(i, 300); i++) {
		NEED(mprotect((void *)w.p, P, PROT_READ) == 0);
		unsigned a = *w.p;
		sched_yield();
		CHECK_EQ(*w.p, a);
		if (i % 4 == 0) {
			pid_t pid = xfork();

			if (pid == 0) {
				CHECK_EQ(*w.p, a);
				done();
			}
			NEED(mprotect((void *)w.p, P, RW) == 0);
			join_child(pid);
		} else {
			NEED(mprotect((void *)w.p, P, RW) == 0);
		}
	}
	w.stop = true;
	join(t);
	CHECK_EQ(*w.p, w.last);
}

TEST(madv_free, "CW-17 MADV_FREE, then a store: the byte survives fork and pressure")
{
	char *p = map(64 * P, RW, ANON);

	for (int i = 0; i < 64; i++)
		p[i * P] = 1;
	if (madvise(p, 64 * P, MADV_FREE) < 0) {
		CHECK_EQ(errno, EINVAL);
		skip("no MADV_FREE");
	}
	/* Until it is written again a page may read old or zero. */
	for (int i = 0; i < 64; i++)
		CHECK_MSG(p[i * P] == 1 || p[i * P] == 0, "page %d reads %d", i, p[i * P]);
	for (int i = 0; i < 64; i += 2)
		p[i * P] = 50 + i;
	pid_t pid = xfork();
	if (pid == 0) {
		for (int i = 0; i < 64; i += 2)
			CHECK_EQ(p[i * P], 50 + i);
		done();
	}
	join_child(pid);
	if (on_faultline())
		spit("/proc/sys/vm/drop_caches", "3");
	for (int i = 0; i < 64; i += 2)
		CHECK_EQ(p[i * P], 50 + i);
}
