/*
 * Writing where the program itself may not: /proc/self/mem breaks COW in private mappings and never
 * writes through to a read-only file. known-bugs: CW-09.
 */
#include "harness.h"

/*
 * A read-only descriptor of a file of one page of 'A's; *rw, if wanted, is another that can write.
 */
static int read_only_file(int *rw)
{
	const char *path = scratch("dirtycow");
	char page[P];
	int w = NEED_OK(open(path, O_RDWR | O_CREAT | O_TRUNC, 0600));

	memset(page, 'A', P);
	NEED(write(w, page, P) == (ssize_t)P);
	int r = NEED_OK(open(path, O_RDONLY));
	unlink(path);
	if (rw)
		*rw = w;
	else
		close(w);
	return r;
}

static int self_mem(void)
{
	int fd = open("/proc/self/mem", O_RDWR);

	if (fd < 0 && errno == ENOENT)
		skip("no /proc/self/mem");
	NEED(fd >= 0);
	return fd;
}

TEST(base, "CW-09 a forced write to a read-only private mapping stays private")
{
	int fd = read_only_file(NULL), mem = self_mem();
	char *p = map_fd(P, PROT_READ, MAP_PRIVATE, fd, 0), c;

	CHECK_EQ(p[10], 'A');
	CHECK_EQ(pwrite(mem, "BB", 2, (off_t)(uintptr_t)(p + 10)), 2);
	CHECK_EQ(p[10], 'B');
	CHECK_EQ(pread(fd, &c, 1, 10), 1);
	CHECK_EQ(c, 'A');
	CHECK_FAULT(stores(p + 10, 1), SIGSEGV, SEGV_ACCERR_, p + 10);
	CHECK_EQ(madvise(p, P, MADV_DONTNEED), 0);
	CHECK_EQ(p[10], 'A');

	char *s = map_fd(P, PROT_READ, MAP_SHARED, fd, 0);
	CHECK_ERR(pwrite(mem, "CC", 2, (off_t)(uintptr_t)(s + 10)), EIO);
	CHECK_EQ(s[10], 'A');
	CHECK_EQ(pread(mem, &c, 1, (off_t)(uintptr_t)s), 1);
	CHECK_EQ(c, 'A');
	CHECK_ERR(pread(mem, &c, 1, ZONE), EIO);
}

TEST(anonymous, "CW-09 a forced write to a read-only page that is COW after fork")
{
	int mem = self_mem();
	char *p = map(P, RW, ANON);

	*p = 'a';
	NEED(mprotect(p, P, PROT_READ) == 0);
	pid_t pid = xfork();
	if (pid == 0) {
		int own = self_mem();

		CHECK_EQ(pwrite(own, "b", 1, (off_t)(uintptr_t)p), 1);
		CHECK_EQ(*p, 'b');
		done();
	}
	join_child(pid);
	CHECK_EQ(*p, 'a');
	CHECK_EQ(pwrite(mem, "c", 1, (off_t)(uintptr_t)p), 1);
	CHECK_EQ(*p, 'c');
	/* The zero frame must not be written either. */
	char *z = map(P, PROT_READ, ANON), *other = map(P, PROT_READ, ANON);
	CHECK_EQ(*z + *other, 0);
	CHECK_EQ(pwrite(mem, "z", 1, (off_t)(uintptr_t)z), 1);
	CHECK_EQ(*z, 'z');
	CHECK_EQ(*other, 0);
}

static struct {
	char *p;
	int fd, mem;
	volatile bool stop;
} race;

static void *writer(void *arg)
{
	long *n = arg;

	pin(0);
	while (!race.stop) {
		if (pwrite(race.mem, "moo", 3, (off_t)(uintptr_t)race.p) != 3)
			FAIL("pwrite to /proc/self/mem: %s", errno_name(errno));
		++*n;
	}
	return NULL;
}

static void *dropper(void *arg)
{
	(void)arg;
	pin(1);
	while (!race.stop)
		madvise(race.p, P, MADV_DONTNEED);
	return NULL;
}

TEST(race_test, "CW-09 the forced write races with DONTNEED", .seconds = 30)
{
	long n = 0, looks = 0;
	char buf[4];

	race.mem = self_mem();
	race.fd = read_only_file(NULL);
	race.p = map_fd(P, PROT_READ, MAP_PRIVATE, race.fd, 0);
	pthread_t a = start(writer, &n), b = start(dropper, NULL);
	uint64_t end = now_ns() + rounds(1500) * 1000000UL;
	/* On an emulator that runs one CPU at a time the writer seldom meets the dropper outside of its call. */
	while ((now_ns() < end || (*(volatile long *)&n < 12 && now_ns() < end + 20000000000UL)) &&
	       !test_failed) {
		if (++looks % 16 == 0) /* at every look the writer would never get done */
			rp_arm("cow_copied", 1);
		CHECK_EQ(pread(race.fd, buf, 3, 0), 3);
		if (memcmp(buf, "AAA", 3))
			FAIL("the file was written: %.3s", buf);
		char c = *(volatile char *)race.p;
		if (c != 'A' && c != 'm')
			FAIL("the mapping shows 0x%x", c);
		sched_yield();
	}
	race.stop = true;
	join(a);
	join(b);
	CHECK_MSG(n > 10, "only %ld writes", n);
}

/* The same by the ordinary door: kernel copies into a private mapping while it is dropped. */
static void *reader_into(void *arg)
{
	int *zero = arg;

	pin(0);
	while (!race.stop)
		if (read(*zero, race.p, 64) != 64)
			FAIL("read: %s", errno_name(errno));
	return NULL;
}

TEST(read_race, "CW-09 read(2) into a private file mapping races with DONTNEED", .seconds = 30)
{
	int zero = NEED_OK(open("/dev/zero", O_RDONLY));
	char buf[64];

	race.fd = read_only_file(NULL);
	race.p = map_fd(P, RW, MAP_PRIVATE, race.fd, 0);
	pthread_t a = start(reader_into, &zero), b = start(dropper, NULL);
	uint64_t end = now_ns() + rounds(700) * 1000000UL;
	while (now_ns() < end && !test_failed) {
		CHECK_EQ(pread(race.fd, buf, 64, 0), 64);
		for (int i = 0; i < 64; i++)
			if (buf[i] != 'A')
				FAIL("the file's byte %d became 0x%x", i, buf[i]);
		sched_yield();
	}
	race.stop = true;
	join(a);
	join(b);
}

TEST(shared_same_file, "CW-09 a private write beside a shared mapping of the same page")
{
	int rw, fd = read_only_file(&rw);
	char *s = map_fd(P, RW, MAP_SHARED, rw, 0), *p = map_fd(P, RW, MAP_PRIVATE, fd, 0);

	CHECK_EQ(p[0], 'A');
	s[0] = 'S';
	/* Not yet copied, the private mapping may show either; once copied it is alone. */
	p[1] = 'P';
	CHECK_EQ(s[1], 'A');
	s[2] = 'T';
	CHECK_EQ(p[2], 'A');
	CHECK_EQ(p[1], 'P');
}
