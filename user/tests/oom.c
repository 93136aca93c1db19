/*
 * Running out: single allocations that fail in a fault and in the kernel's own access, a machine
 * filled to the brim, frames that sit on another CPU's list. known-bugs: OM-01, QL-05.
 *
 * A user fault without memory ends the process by SIGKILL, as on Linux; a copy gives EFAULT or
 * ENOMEM. Either way the ledger is exact afterwards. Filling the machine is for a machine of one's
 * own: only in the guest, or with OWN_MACHINE=1.
 */
#include "harness.h"

#include <poll.h>

#define SMALL_MACHINE (1500 * MB)

static void need_injection(void)
{
	if (!fail_alloc(0))
		skip("no allocation failures can be injected into this kernel");
}

static bool poll_in(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* A file with this many pages of bytes, and gone again; -1 with errno. */
static long tmpfile_of_pages(int n)
{
	const char *path = scratch("pages");
	static char page[P];
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	long r = 0;

	if (fd < 0)
		return -1;
	for (int i = 0; i < n && r >= 0; i++)
		r = write(fd, page, P);
	int e = errno;
	close(fd);
	unlink(path);
	errno = e;
	return r < 0 ? -1 : 0;
}

static long pipe_and_close(void)
{
	int fd[2];

	if (pipe(fd) < 0)
		return -1;
	long r = write(fd[1], "x", 1);
	int e = errno;
	close(fd[0]);
	close(fd[1]);
	errno = e;
	return r;
}

/* In a child: the nth allocation of this fault fails. Whether there was an nth. */
static bool user_fault(long nth, int prot, int flags, bool writes)
{
	bool *fired = map(P, RW, SHANON);
	pid_t pid = xfork();

	if (pid == 0) {
		/* A place whose tables are missing at every level. */
		char *p = (char *)raw_mmap(ZONE, 4 * P, prot, flags | MAP_FIXED, -1, 0);

		NEED(p == (char *)ZONE);
		*fired = true;
		NEED(fail_alloc(nth));
		if (writes)
			*(volatile char *)p = 1;
		else
			(void)*(volatile char *)p;
		*fired = fail_alloc_left() == 0;
		fail_alloc(0);
		CHECK_EQ(*(volatile char *)p, writes);
		done();
	}
	int status = wait_raw(pid);
	CHECK_MSG(status == 0 || (WIFSIGNALED(status) &&
				  (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGBUS)),
		  "allocation %ld: wait status 0x%x", nth, status);
	bool was = *fired;

	unmap(fired, P);
	return was;
}

TEST(each_write, "OM-01 every allocation of a write fault fails in turn")
{
	need_injection();
	int n = 1;

	while (n < 20 && user_fault(n, RW, ANON, true))
		n++;
	CHECK_MSG(n >= 4, "only %d allocations in a fault that needs three tables and a frame",
		  n - 1);
	n = 1;
	while (n < 20 && user_fault(n, RW, SHANON, true))
		n++;
	CHECK_MSG(n >= 4, "only %d allocations in a shared fault", n - 1);
}

TEST(each_read, "OM-01 every allocation of a read fault fails in turn")
{
	need_injection();
	int n = 1;

	while (n < 20 && user_fault(n, PROT_READ, ANON, false))
		n++;
	CHECK_MSG(n >= 3, "only %d allocations in a fault that needs three tables", n - 1);
}

TEST(each_copy, "OM-01 every allocation of a kernel copy's fault fails in turn")
{
	int fd[2];

	need_injection();
	NEED(pipe(fd) == 0);
	for (long nth = 1; nth < 20; nth++) {
		NEED(raw_mmap(ZONE, 4 * P, RW, ANON | MAP_FIXED, -1, 0) == (long)ZONE);
		NEED(write(fd[1], "abc", 3) == 3);
		NEED(fail_alloc(nth));
		long n = read(fd[0], (char *)ZONE, 3);
		int e = errno;
		bool fired = fail_alloc_left() == 0;
		fail_alloc(0);
		if (n == 3) {
			CHECK(!memcmp((char *)ZONE, "abc", 3));
		} else {
			CHECK_MSG(n == -1 && (e == EFAULT || e == ENOMEM), "read gave %ld %s", n,
				  errno_name(e));
			char buf[3];
			if (poll_in(fd[0]))
				(void)!read(fd[0], buf, 3);
		}
		unmap((char *)ZONE, 4 * P);
		if (!fired)
			break;
	}
}

TEST(each_cow, "OM-01 every allocation of a COW fault fails in turn; the old bytes stay")
{
	char *p = map(4 * P, RW, ANON);

	need_injection();
	memset(p, 'o', 4 * P);
	for (long nth = 1; nth < 8; nth++) {
		pid_t pid = xfork();

		if (pid == 0) {
			NEED(fail_alloc(nth));
			p[0] = 'n';
			fail_alloc(0);
			CHECK_EQ(p[0], 'n');
			CHECK_EQ(p[1], 'o');
			done();
		}
		int status = wait_raw(pid);
		CHECK_MSG(status == 0 || WIFSIGNALED(status), "allocation %ld: wait status 0x%x",
			  nth, status);
		CHECK_EQ(p[0], 'o');
	}
}

TEST(each_call, "OM-01 every allocation of the memory calls fails in turn")
{
	need_injection();
	for (int call = 0; call < 8; call++)
		for (long nth = 1; nth < 40; nth++) {
			char *p = (char *)ZONE;
			long r = 0;

			NEED(raw_mmap(ZONE, 64 * P, RW, ANON | MAP_FIXED, -1, 0) == (long)ZONE);
			p[0] = p[9 * P] = 'x';
			NEED(fail_alloc(nth));
			switch (call) {
			case 0: r = raw_mmap(ZONE + GB, 4 * P, RW, ANON | MAP_FIXED, -1, 0); break;
			case 1: r = raw_munmap(ZONE + 4 * P, P); break;
			case 2: r = raw_mprotect(ZONE + 4 * P, P, PROT_READ); break;
			case 3:
				r = raw_mremap(ZONE, 16 * P, 16 * P, MREMAP_MAYMOVE | MREMAP_FIXED,
					       ZONE + 2 * GB);
				break;
			case 4: r = raw_madvise(ZONE, 64 * P, MADV_POPULATE_WRITE); break;
			case 5:
				r = raw_mmap(ZONE + 3 * GB, 16 * P, RW,
					     ANON | MAP_POPULATE | MAP_FIXED, -1, 0);
				break;
			case 6: r = tmpfile_of_pages(4); break;
			case 7: r = pipe_and_close(); break;
			}
			int e = errno;
			bool fired = fail_alloc_left() == 0;
			fail_alloc(0);
			if (r == -1)
				CHECK_MSG(e == ENOMEM || e == ENOSPC || e == EFAULT ||
						  e == EAGAIN || e == ENFILE,
					  "call %d allocation %ld: %s", call, nth, errno_name(e));
			/* Moved or not, the bytes are somewhere and whole. */
			char *now = call == 3 && r != -1 ? (char *)(ZONE + 2 * GB) : p;
			CHECK_MSG(now[0] == 'x' && now[9 * P] == 'x',
				  "call %d allocation %ld lost bytes", call, nth);
			raw_munmap(ZONE, 4 * GB);
			if (!fired)
				break;
		}
}

/* ---- filling the machine ---------------------------------------------------------------- */

static long free_kb(void)
{
	return field("/proc/meminfo", "MemFree");
}

static void need_small_machine(void)
{
	if (!on_faultline() && !getenv("OWN_MACHINE"))
		skip("not on a machine that others use");
	if (free_kb() > (long)(SMALL_MACHINE / 1024))
		skip("more than %lu MB free", SMALL_MACHINE / MB);
}

TEST(fill, "OM-01 a process takes all memory: it is killed, the others live", .seconds = 150)
{
	need_small_machine();
	char *mine = map(64 * P, RW, ANON);
	for (int i = 0; i < 64; i++)
		mine[i * P] = i;
	for (int round = 0; round < 2; round++) {
		pid_t pid = xfork();

		if (pid == 0) {
			for (;;) {
				char *p = mmap(NULL, 16 * MB, RW, ANON, -1, 0);

				if (p == MAP_FAILED)
					_exit(3);
				for (size_t i = 0; i < 16 * MB; i += P)
					p[i] = 1;
			}
		}
		int status = wait_raw(pid);
		CHECK_MSG((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ||
				  (WIFEXITED(status) && WEXITSTATUS(status) == 3),
			  "wait status 0x%x", status);
		for (int i = 0; i < 64; i++)
			CHECK_EQ(mine[i * P], i);
	}
}

TEST(fill_tables, "OM-01 page tables alone take all memory", .seconds = 150)
{
	need_small_machine();
	pid_t pid = xfork();
	if (pid == 0) {
		/*
		 * A page of table for every page touched: reads, so that the frame is the zero
		 * frame.
		 */
		for (unsigned long at = ZONE;; at += GB) {
			if (raw_mmap(at, GB, PROT_READ, ANON | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
			    -1)
				_exit(3);
			for (unsigned long a = at; a < at + GB; a += HUGE)
				(void)*(volatile char *)a;
		}
	}
	int status = wait_raw(pid);
	CHECK_MSG((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ||
			  (WIFEXITED(status) && WEXITSTATUS(status) == 3),
		  "wait status 0x%x", status);
}

TEST(fill_file,
     "OM-01 a file takes all memory: ENOSPC, ENOMEM or a kill, and removing it gives all back",
     .seconds = 150)
{
	need_small_machine();
	pid_t pid = xfork();
	if (pid == 0) {
		static char buf[MB];
		const char *path = scratch("fill");
		int fd = NEED_OK(open(path, O_RDWR | O_CREAT, 0600));

		NEED(unlink(path) == 0);
		for (;;) {
			ssize_t n = write(fd, buf, sizeof(buf));

			if (n > 0)
				continue;
			CHECK_MSG(errno == ENOSPC || errno == ENOMEM || errno == EFAULT,
				  "write: %s", errno_name(errno));
			done();
		}
	}
	int status = wait_raw(pid);
	CHECK_MSG(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL),
		  "wait status 0x%x", status);
}

TEST(largest, "OM-01 the largest process is the one that goes", .seconds = 150)
{
	need_small_machine();
	struct door ready = door();
	pid_t big = xfork();
	if (big == 0) {
		size_t len = free_kb() / 100 * 70 * 1024UL & ~(P - 1);
		char *p = map(len, RW, ANON);

		for (size_t i = 0; i < len; i += P)
			p[i] = 1;
		let(ready);
		for (;;)
			pause();
	}
	pass(ready);
	/* Nearly all the rest, in small pieces, by somebody small; the large one takes its time to die. */
	rp_arm("mm_unmap", 1000);
	pid_t small = xfork();
	if (small == 0) {
		size_t len = free_kb() / 100 * 120 * 1024UL & ~(P - 1);
		char *p = map(len, RW, ANON | MAP_NORESERVE);

		for (size_t i = 0; i < len; i += P)
			p[i] = 1;
		done();
	}
	join_child(small);
	rp_arm("mm_unmap", 0);
	CHECK_KILLED(big, SIGKILL);
}

/* ---- QL-05 ------------------------------------------------------------------------------ */

static volatile bool stop;

/* What the zones keep for the kernel itself, in kB. */
static long kept_kb(void)
{
	static char text[65536];
	long sum = 0, min;

	NEED(slurp("/proc/zoneinfo", text, sizeof(text)) > 0);
	for (char *at = text; (at = strstr(at, "        min ")); at++)
		if (sscanf(at, " min %ld", &min) == 1)
			sum += min * 4;
	return sum;
}

/* Leaves this CPU's list full of free frames, and stays busy on it. */
static void *freer(void *arg)
{
	struct door *d = arg;
	static volatile int cpu;
	char *p = map(400 * P, RW, ANON);

	pin(__atomic_add_fetch(&cpu, 1, __ATOMIC_RELAXED));
	memset(p, 1, 400 * P);
	unmap(p, 400 * P);
	let(*d);
	while (!stop)
		pause_cpu();
	return NULL;
}

TEST(other_list, "QL-05 the last free frames sit on other CPUs' lists", .cpus = 2, .seconds = 150)
{
	need_small_machine();
	struct door d = door();
	pid_t pid = xfork();
	if (pid == 0) {
		int n = ncpus() < 8 ? ncpus() - 1 : 7;
		pthread_t t[7];

		for (int i = 0; i < n; i++) {
			t[i] = start(freer, &d);
			pass(d);
		}
		pin(0);
		/*
		 * Take nearly all that the kernel says is free, and it counts the lists: each time half of what
		 * is above what it keeps for itself.
		 */
		long low = kept_kb() + 512, left;
		char *p = map((free_kb() * 1024UL) & ~(P - 1), RW, ANON | MAP_NORESERVE);

		while ((left = free_kb() - low) > 0)
			for (long n = left / 8 > 16 ? left / 8 : 16; n > 0; n--, p += P)
				*p = 1;
		stop = true;
		for (int i = 0; i < n; i++)
			join(t[i]);
		done();
	}
	int status = wait_raw(pid);
	CHECK_MSG(status == 0, "wait status 0x%x: killed although memory was left", status);
}
