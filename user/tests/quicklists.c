/*
 * Per-CPU lists of page-table pages: QL-01 to QL-03, QL-05 (more of it in oom.c), QL-06. What they hold is in
 * /sys/kernel/mm/faultline/quicklists; vm.quicklist may be changed while running.
 */
#include "harness.h"

#define LISTS	"/sys/kernel/mm/faultline/quicklists"
#define POLICY	"/proc/sys/vm/quicklist"
#define NODE	"/sys/devices/system/node"
#define TABLES	200	/* leaf tables to be filled: fewer than a list holds */

struct sums { long count, foreign, high, hits, misses, returned; };

/* Over the CPUs of a node, or one CPU; -1: of all. */
static struct sums sums_of(int node, int only_cpu)
{
	static char text[65536];
	struct sums s = { 0 };

	if (slurp(LISTS, text, sizeof(text)) < 0)
		skip("no quicklists");
	for (char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
		struct sums l;
		int cpu, n;

		if (sscanf(line, "%d %d %ld %ld %ld %ld %ld %ld", &cpu, &n, &l.count, &l.foreign, &l.high,
			   &l.hits, &l.misses, &l.returned) != 8)
			continue;
		if ((node >= 0 && n != node) || (only_cpu >= 0 && cpu != only_cpu))
			continue;
		s.count += l.count;
		s.foreign += l.foreign;
		s.high += l.high;
		s.hits += l.hits;
		s.misses += l.misses;
		s.returned += l.returned;
	}
	return s;
}

static struct sums sums(int node)
{
	return sums_of(node, -1);
}

/* Bind to the first CPU of a node; false if it has none. */
static bool to_node(int node)
{
	char path[64], text[256];
	cpu_set_t set;
	int cpu;

	snprintf(path, sizeof(path), NODE "/node%d/cpulist", node);
	if (slurp(path, text, sizeof(text)) < 0 || sscanf(text, "%d", &cpu) != 1)
		return false;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	NEED(sched_setaffinity(0, sizeof(set), &set) == 0);
	return true;
}

/* Fill tables on node 0, go to node 1, let them go there. */
static void wander(void)
{
	NEED(to_node(0));
	char *p = map(TABLES * HUGE, RW, ANON | MAP_NORESERVE);

	for (int i = 0; i < TABLES; i++)
		p[i * HUGE] = 1;
	NEED(to_node(1));
	unmap(p, TABLES * HUGE);
}

/* Callbacks after grace periods come late: read the ledger, which waits for them. */
static void settle(void)
{
	char text[4096];

	slurp("/sys/kernel/mm/faultline/ledger", text, sizeof(text));
}

/* NULL: the one that was there first. */
static void policy(const char *name)
{
	static char first[32];

	if (!*first && slurp(POLICY, first, sizeof(first)) < 0)
		skip("no vm.quicklist");
	if (!spit(POLICY, name ? name : first))
		skip("vm.quicklist cannot be chosen");
}

/* What ran before may have filled the list of the node's first CPU: use up what is on it. */
static void make_room(int node)
{
	NEED(to_node(node));
	policy("off");
	settle();
	long n = sums(node).high + 1;
	char *p = map(n * HUGE, RW, ANON | MAP_NORESERVE);

	for (long i = 0; i < n; i++)
		p[i * HUGE] = 1;
	unmap(p, n * HUGE);
	settle();
}

TEST(stay_home, "QL-01 vm.quicklist=node: no page of another node stays on a list", .cpus = 2)
{
	if (!to_node(1))
		skip("one node only");
	policy("node");
	settle();
	long before = sums(-1).foreign; /* 0, unless the kernel was booted with `any` */
	for (int i = 0; i < 5; i++)
		wander();
	settle();
	long foreign = sums(-1).foreign;
	CHECK_MSG(foreign <= before, "%ld pages of other nodes, %ld before", foreign, before);
	policy(NULL);
}

TEST(trapped, "QL-01 vm.quicklist=any: they pile up where they were freed", .cpus = 2)
{
	if (!to_node(1))
		skip("one node only");
	make_room(1);
	policy("any");
	/* Only this CPU's list: others of the node may have been left some by what ran before. */
	int cpu = sched_getcpu();
	/* Room on it: what is there goes into use meanwhile. */
	size_t len = sums_of(1, cpu).count * HUGE + HUGE;
	char *use = map(len, RW, ANON | MAP_NORESERVE);
	for (size_t at = 0; at < len; at += HUGE)
		use[at] = 1;
	wander();
	settle();
	long trapped = sums_of(1, cpu).foreign;
	diag("%ld pages of node 0 on a list of node 1", trapped);
	CHECK(trapped > TABLES / 4);
	policy("node");
	/* They are used up again by what this CPU maps, and what is freed then goes home. */
	for (int i = 0; i < 4; i++) {
		char *p = map(2 * TABLES * HUGE, RW, ANON | MAP_NORESERVE);

		for (int k = 0; k < 2 * TABLES; k++)
			p[k * HUGE] = 1;
		unmap(p, 2 * TABLES * HUGE);
		settle();
	}
	CHECK_EQ(sums_of(1, cpu).foreign, 0);
	unmap(use, len);
	policy(NULL);
}

TEST(off, "QL-01 vm.quicklist=off: nothing is added")
{
	policy("off");
	settle();
	long before = sums(-1).count;
	char *p = map(TABLES * HUGE, RW, ANON | MAP_NORESERVE);

	for (int i = 0; i < TABLES; i++)
		p[i * HUGE] = 1;
	unmap(p, TABLES * HUGE);
	settle();
	CHECK(sums(-1).count <= before);
	policy(NULL);
}

TEST(idle, "QL-03 a CPU that idles for long gives back all but its low water", .seconds = 60)
{
	struct sums before, after = { 0 };

	policy("node");
	pin(0);
	char *p = map(TABLES * HUGE, RW, ANON | MAP_NORESERVE);
	for (int i = 0; i < TABLES; i++)
		p[i * HUGE] = 1;
	unmap(p, TABLES * HUGE);
	settle();
	before = sums(-1);
	CHECK(before.count > before.high / 16);
	for (int k = 0; k < 40; k++) {
		sleep_ms(250);
		after = sums(-1);
		if (after.count <= after.high / 16)
			break;
	}
	CHECK_MSG(after.count <= after.high / 16, "%ld tables on lists, %ld before it idled",
		  after.count, before.count);
	policy(NULL);
}

TEST(batches, "QL-03 tables come and go in batches")
{
	policy("node");
	pin(0);
	struct sums first = sums_of(-1, 0), full, empty;
	long wanted = first.high + 100; /* more than are there, more than will be kept */

	char *p = map(wanted * HUGE, RW, ANON | MAP_NORESERVE);
	for (long i = 0; i < wanted; i++)
		p[i * HUGE] = 1;
	full = sums_of(-1, 0);
	long taken = full.hits - first.hits + full.misses - first.misses;
	long fresh = wanted - first.count;
	CHECK_MSG(taken >= wanted, "%ld tables taken for %ld", taken, wanted);
	CHECK_MSG(full.misses - first.misses <= fresh / 3,
		  "the list was empty %ld times for %ld tables more than it had", full.misses - first.misses, fresh);
	unmap(p, wanted * HUGE);
	settle();
	empty = sums_of(-1, 0);
	CHECK_MSG(empty.count <= empty.high && empty.count >= empty.high / 4 * 3,
		  "%ld tables on a list that may hold %ld", empty.count, empty.high);
	CHECK(empty.returned > full.returned);
	policy(NULL);
}

TEST(bounded, "QL-03 all lists together may hold a sixteenth of memory at most")
{
	CHECK(sums(-1).high <= field("/proc/meminfo", "MemTotal") / 4 / 16);
	CHECK(sums(-1).high > 0);
}

/* Tables come and go on one CPU, more than its list takes. */
static void *fill_list(void *arg)
{
	pin((int)(intptr_t)arg);
	char *p = map(3 * TABLES * HUGE, RW, ANON | MAP_NORESERVE);

	for (int k = 0; k < 3 * TABLES; k++)
		p[k * HUGE] = 1;
	unmap(p, 3 * TABLES * HUGE);
	settle();
	return NULL;
}

TEST(capped, "QL-03 full lists of all CPUs leave nine tenths of the rest to a program", .seconds = 60)
{
	int n = ncpus() < 8 ? ncpus() : 8;
	long total = field("/proc/meminfo", "MemTotal");

	sums(-1);
	for (int i = 0; i < n; i++)
		join(start(fill_list, (void *)(intptr_t)i));
	struct sums full = sums(-1);
	CHECK_MSG(full.count <= full.high && full.count * 4 <= total / 16,
		  "%ld pages on lists that may hold %ld, of %ld kB", full.count, full.high, total);
	if (rounds(100) < 100 || total > (256 << 10))
		return; /* the rest is no race, and takes long */
	size_t len = (size_t)field("/proc/meminfo", "MemFree") * 1024 / 10 * 9 & ~(P - 1);
	pid_t pid = xfork();
	if (pid == 0) {
		char *p = map(len, RW, ANON | MAP_NORESERVE);

		for (size_t at = 0; at < len; at += P)
			p[at] = 1;
		done();
	}
	join_child(pid);
}

/* ---- QL-05: lists are emptied by an interrupt, whatever their CPU is doing with them ---- */

static volatile bool stop;

static void *list_user(void *arg)
{
	int me = (int)(intptr_t)arg;

	pin(me);
	while (!stop && !test_failed) {
		volatile int *p = map(4 * HUGE, RW, ANON | MAP_NORESERVE);

		for (int k = 0; k < 4; k++) {
			volatile int *at = p + k * HUGE / 4;

			if (*at || at[P / 4])
				FAIL("a fresh page holds %d and %d", *at, at[P / 4]);
			*at = me + 1;
			at[P / 4] = -me;
		}
		for (int k = 0; k < 4; k++)
			if (p[k * HUGE / 4] != me + 1 || p[(k * HUGE + P) / 4] != -me)
				FAIL("CPU %d's page %d holds %d", me, k, p[k * HUGE / 4]);
		unmap((void *)p, 4 * HUGE);
	}
	return NULL;
}

TEST(drained, "QL-05 lists are emptied while their CPUs take from them and give to them", .cpus = 2,
     .seconds = 40)
{
	pthread_t t[8];
	int n = ncpus() < 8 ? ncpus() : 8;

	if (!fail_alloc(1000000))
		skip("no fault injection");
	fail_alloc(0);
	for (int i = 0; i < n; i++)
		t[i] = start(list_user, (void *)(intptr_t)i);
	pin(0);
	for (long i = 0; go_on(i, 200); i++) {
		volatile char *p = map(P, RW, ANON);

		fail_alloc(1); /* no memory, it seems: the kernel empties all lists, then tries again */
		*p = 1;
		CHECK_EQ(fail_alloc_left(), 0);
		fail_alloc(0);
		unmap((void *)p, P);
	}
	stop = true;
	for (int i = 0; i < n; i++)
		join(t[i]);
}

/* ---- QL-02, QL-06 ----------------------------------------------------------------------- */

static struct { char *spot; volatile bool over; struct meet gate; } s;

/* Reads beside what is being unmapped, through the same upper tables. */
static void *neighbour(void *arg)
{
	to_node(0);
	while (follow(&s.gate)) {
		for (int i = 0; i < 2000 && !s.over; i++)
			if (s.spot[HUGE] != 77)
				FAIL("the neighbour reads %d", s.spot[HUGE]);
		meet(&s.gate);
	}
	return arg;
}

TEST(off_node_flush, "QL-02 an off-node table is not reused before every CPU has forgotten it", .cpus = 2)
{
	if (!to_node(1))
		skip("one node only");
	s.gate = (struct meet){ .n = 2 };
	pthread_t t = start(neighbour, NULL);

	for (long i = 0;; i++) {
		to_node(0); /* the tables come from node 0 */
		char *p = reserve(4 * HUGE, HUGE);

		NEED(mprotect(p, 4 * HUGE, RW) == 0);
		s.spot = p;
		p[0] = 1;
		p[HUGE] = 77;
		to_node(1);
		s.over = false;
		if (!lead(&s.gate, go_on(i, 40)))
			break;
		rp_arm("gather_flush", 2);
		unmap(p, HUGE);
		char *q = map(64 * P, RW, ANON); /* takes frames at once, and fills them with what looks like entries */

		memset(q, 0xe7, 64 * P);
		s.over = true;
		meet(&s.gate);
		unmap(q, 64 * P);
		unmap(p + HUGE, 3 * HUGE);
	}
	join(t);
}

TEST(no_memory, "QL-06 a table or frame that cannot be had fails cleanly at each place")
{
	if (!fail_alloc(1000000))
		skip("no fault injection");
	fail_alloc(0);
	for (int n = 1; n <= 6; n++) {
		pid_t pid = xfork();

		if (pid == 0) {
			char *p = map(4 * TB, RW, ANON | MAP_NORESERVE);

			fail_alloc(n);
			p[TB] = 1;
			p[2 * TB] = 2;
			if (p[TB] != 1 || p[2 * TB] != 2)
				FAIL("what was written is not there");
			done();
		}
		int st = wait_raw(pid);
		CHECK_MSG(st == 0 || (WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL), "wait status 0x%x", st);
	}
}
