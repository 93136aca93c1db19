/*
 * Memory policy calls: argument checks, what is stored comes back, and frames come from where the
 * policy says (on a machine with more than one node). known-bugs: NU-02, NU-04, NU-05 (NU-01's and
 * NU-07's parts need other machines).
 */
#include "harness.h"

enum { DEFAULT, PREFERRED, BIND, INTERLEAVE, LOCAL, PREFERRED_MANY };
enum { F_NODE = 1, F_ADDR = 2, F_MEMS_ALLOWED = 4 };
enum { MF_STRICT = 1, MF_MOVE = 2, MF_MOVE_ALL = 4 };

static long mbind(void *p, unsigned long len, int mode, const unsigned long *mask,
		  unsigned long maxnode, unsigned flags)
{
	return syscall(SYS_mbind, p, len, mode, mask, maxnode, flags);
}

static long set_policy(int mode, const unsigned long *mask, unsigned long maxnode)
{
	return syscall(SYS_set_mempolicy, mode, mask, maxnode);
}

static long get_policy(int *mode, unsigned long *mask, unsigned long maxnode, const void *addr,
		       unsigned long flags)
{
	return syscall(SYS_get_mempolicy, mode, mask, maxnode, addr, flags);
}

static void need_policies(void)
{
	if (set_policy(DEFAULT, NULL, 0) < 0 && errno == ENOSYS)
		skip("no memory policies");
}

/* Nodes with memory that the process may use, as a mask of the first 64. */
static unsigned long memory_nodes(void)
{
	unsigned long mask[16] = { 0 };

	NEED(get_policy(NULL, mask, 1024, NULL, F_MEMS_ALLOWED) == 0);
	return mask[0];
}

static int node_of(void *p)
{
	int node = -1;

	if (get_policy(&node, NULL, 0, p, F_NODE | F_ADDR) < 0)
		FAIL("get_mempolicy(F_NODE|F_ADDR): %s", errno_name(errno));
	return node;
}

TEST(arguments, "NU-05 arguments of mbind")
{
	need_policies();
	char *p = map(4 * P, RW, ANON);
	unsigned long node0 = 1, none = 0, absent = 1UL << 63;

	CHECK_ERR(mbind(p, P, BIND, &absent, 65, 0), EINVAL);
	CHECK_ERR(mbind(p + 1, P, BIND, &node0, 64, 0), EINVAL);
	CHECK_ERR(mbind(p, P, BIND, (unsigned long *)ZONE, 64, 0), EFAULT);
	CHECK_ERR(mbind(p, P, BIND, (unsigned long *)0xffff888000000000, 64, 0), EFAULT);
	CHECK_ERR(mbind(p, P, BIND, &node0, 1UL << 40, 0), EINVAL);
	CHECK_ERR(mbind(p, P, BIND, &none, 64, 0), EINVAL);
	CHECK_ERR(mbind(p, P, BIND, NULL, 0, 0), EINVAL);
	CHECK_ERR(mbind(p, P, INTERLEAVE, &none, 64, 0), EINVAL);
	CHECK_ERR(mbind(p, P, DEFAULT, &node0, 64, 0), EINVAL);
	CHECK_ERR(mbind(p, P, LOCAL, &node0, 64, 0), EINVAL);
	CHECK_ERR(mbind(p, P, 77, &node0, 64, 0), EINVAL);
	CHECK_ERR(mbind(p, P, BIND, &node0, 64, 0x80), EINVAL);
	CHECK_EQ(mbind(p, 0, BIND, &node0, 64, 0), 0);
	CHECK_ERR(mbind(p, -P, BIND, &node0, 64, 0), EINVAL);
	CHECK_ERR(mbind((void *)ZONE, P, BIND, &node0, 64, 0), EFAULT);
	CHECK_EQ(mbind(p, P, DEFAULT, NULL, 0, 0), 0);
	CHECK_EQ(mbind(p, P, DEFAULT, &none, 64, 0), 0);
	CHECK_EQ(mbind(p, P, PREFERRED, &none, 64, 0), 0); /* empty: local */
	CHECK_EQ(mbind(p, P, LOCAL, NULL, 0, 0), 0);
	unmap(p + P, P);
	CHECK_ERR(mbind(p, 3 * P, BIND, &node0, 64, 0), EFAULT);
	CHECK_RUNS(stores(p, 1));
}

TEST(process_arguments, "NU-05 arguments of set_mempolicy and get_mempolicy")
{
	need_policies();
	unsigned long nodes = memory_nodes(), first = nodes & -nodes, none = 0, absent = 1UL << 63,
		      mask[16];
	int mode = -1;

	CHECK_ERR(set_policy(BIND, &absent, 65), EINVAL);
	CHECK_ERR(set_policy(BIND, &none, 64), EINVAL);
	CHECK_ERR(set_policy(BIND, NULL, 0), EINVAL);
	CHECK_ERR(set_policy(BIND, &first, 1UL << 40), EINVAL);
	CHECK_ERR(set_policy(BIND, (unsigned long *)ZONE, 64), EFAULT);
	CHECK_ERR(set_policy(DEFAULT, &first, 64), EINVAL);
	CHECK_ERR(set_policy(77, &first, 64), EINVAL);
	CHECK_EQ(set_policy(BIND, &first, 64), 0);
	memset(mask, 0xff, sizeof(mask));
	CHECK_EQ(get_policy(&mode, mask, 1024, NULL, 0), 0);
	CHECK_EQ(mode, BIND);
	CHECK_EQ(mask[0], first);
	CHECK_EQ(mask[15], 0);
	CHECK_EQ(set_policy(DEFAULT, NULL, 0), 0);
	CHECK_EQ(get_policy(&mode, mask, 1024, NULL, 0), 0);
	CHECK_EQ(mode, DEFAULT);
	CHECK_EQ(mask[0], 0);
	CHECK_ERR(get_policy(&mode, NULL, 0, NULL, F_ADDR), EFAULT);
	CHECK_ERR(get_policy(&mode, NULL, 0, &mode, 0), EINVAL);
	CHECK_ERR(get_policy(&mode, NULL, 0, NULL, 0x80), EINVAL);
	CHECK_ERR(get_policy(&mode, mask, 1024, NULL, F_MEMS_ALLOWED | F_ADDR), EINVAL);
	CHECK_ERR(get_policy((int *)ZONE, NULL, 0, NULL, 0), EFAULT);
	CHECK_ERR(get_policy(&mode, NULL, 0, (void *)ZONE, F_ADDR), EFAULT);
	CHECK(nodes != 0);
}

TEST(areas, "NU-05 the policy of a range: split, stored, inherited, gone")
{
	need_policies();
	unsigned long first = memory_nodes() & -memory_nodes(), mask[16];
	char *p = map(5 * P, RW, ANON);
	int mode;

	CHECK_EQ(mbind(p + P, 2 * P, BIND, &first, 64, 0), 0);
	CHECK_EQ(areas_in(p, 5 * P), 3);
	CHECK_EQ(get_policy(&mode, mask, 1024, p + P, F_ADDR), 0);
	CHECK_EQ(mode, BIND);
	CHECK_EQ(mask[0], first);
	CHECK_EQ(get_policy(&mode, mask, 1024, p, F_ADDR), 0);
	CHECK_EQ(mode, DEFAULT);
	pid_t pid = xfork();
	if (pid == 0) {
		CHECK_EQ(get_policy(&mode, mask, 1024, p + 2 * P, F_ADDR), 0);
		CHECK_EQ(mode, BIND);
		done();
	}
	join_child(pid);
	CHECK_EQ(mbind(p, 5 * P, DEFAULT, NULL, 0, 0), 0);
	CHECK_EQ(areas_in(p, 5 * P), 1);
	*p = 1;
	int node = node_of(p);
	CHECK(node >= 0 && (memory_nodes() >> node & 1));
	CHECK_EQ(set_policy(PREFERRED, &first, 64), 0);
	pid = xfork();
	if (pid == 0) {
		CHECK_EQ(get_policy(&mode, mask, 1024, NULL, 0), 0);
		CHECK_EQ(mode, PREFERRED);
		done();
	}
	join_child(pid);
}

/* ---- with more than one node ------------------------------------------------------------ */

static int need_nodes(int *second)
{
	unsigned long nodes;

	need_policies();
	nodes = memory_nodes();
	if (!(nodes & (nodes - 1)))
		skip("one node only");
	*second = __builtin_ctzl(nodes & (nodes - 1));
	return __builtin_ctzl(nodes);
}

TEST(placing, "NU-05 frames come from where the policy says")
{
	int b, a = need_nodes(&b);
	unsigned long on_a = 1UL << a, on_b = 1UL << b, both = on_a | on_b;
	enum { N = 32 };

	for (int which = 0; which < 2; which++) {
		unsigned long mask = which ? on_b : on_a;
		char *p = map(N * P, RW, ANON);

		CHECK_EQ(mbind(p, N * P, BIND, &mask, 64, 0), 0);
		for (int i = 0; i < N; i++)
			p[i * P] = 1;
		for (int i = 0; i < N; i++)
			CHECK_EQ(node_of(p + i * P), which ? b : a);
		char *q = map(N * P, RW, ANON);
		CHECK_EQ(set_policy(PREFERRED, &mask, 64), 0);
		for (int i = 0; i < N; i++)
			q[i * P] = 1;
		CHECK_EQ(set_policy(DEFAULT, NULL, 0), 0);
		CHECK_EQ(node_of(q), which ? b : a);
		CHECK_EQ(node_of(q + (N - 1) * P), which ? b : a);
	}
	char *p = map(N * P, RW, ANON);
	int count[64] = { 0 };
	CHECK_EQ(mbind(p, N * P, INTERLEAVE, &both, 64, 0), 0);
	for (int i = 0; i < N; i++) {
		p[i * P] = 1;
		int node = node_of(p + i * P);

		if (node >= 0 && node < 64)
			count[node]++;
	}
	CHECK_EQ(count[a], N / 2);
	CHECK_EQ(count[b], N / 2);
	/* A shared file's frames follow the policy of the first that touches. */
	int fd = tmpfile_fd(N * P);
	char *s = map_fd(N * P, RW, MAP_SHARED, fd, 0);
	CHECK_EQ(mbind(s, N * P, BIND, &on_b, 64, 0), 0);
	s[0] = 1;
	CHECK_EQ(node_of(s), b);
}

TEST(strict, "NU-02 MPOL_MF_STRICT and MPOL_MF_MOVE")
{
	int b, a = need_nodes(&b);
	unsigned long on_a = 1UL << a, on_b = 1UL << b;
	char *p = map(4 * P, RW, ANON);

	CHECK_EQ(mbind(p, 4 * P, BIND, &on_a, 64, 0), 0);
	for (int i = 0; i < 4; i++)
		p[i * P] = i + 1;
	CHECK_EQ(mbind(p, 4 * P, BIND, &on_a, 64, MF_STRICT), 0);
	CHECK_ERR(mbind(p, 4 * P, BIND, &on_b, 64, MF_STRICT), EIO);
	CHECK_EQ(node_of(p), a);
	CHECK_EQ(mbind(p, 4 * P, BIND, &on_b, 64, MF_MOVE | MF_STRICT), 0);
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(node_of(p + i * P), b);
		CHECK_EQ(p[i * P], i + 1);
	}
}

static struct {
	unsigned long on[2];
	volatile bool stop;
	volatile unsigned *p;
	unsigned last;
	int kind;
} w;

static void *flipper(void *arg)
{
	char *p = arg;

	pin(1);
	for (long i = 0; !w.stop; i++)
		CHECK_EQ(mbind(p, 64 * P, BIND, &w.on[i % 2], 64, 0), 0);
	return NULL;
}

TEST(rebinding, "NU-04 a policy changes while another thread faults under it", .cpus = 2,
     .seconds = 40)
{
	int b, a = need_nodes(&b);
	char *p = map(64 * P, RW, ANON);

	w.on[0] = 1UL << a;
	w.on[1] = 1UL << b;
	pthread_t t = start(flipper, p);
	pin(0);
	for (long i = 0; go_on(i, 60); i++) {
		for (int k = 0; k < 64; k++) {
			p[k * P] = 1;
			if (k % 16 == 0) {
				int node = node_of(p + k * P);
				CHECK_MSG(node == a || node == b, "a frame on node %d", node);
			}
		}
		madvise(p, 64 * P, MADV_DONTNEED);
	}
	w.stop = true;
	join(t);
}

static void *counting(void *arg)
{
	unsigned n = 0;

	(void)arg;
	pin(1);
	while (!w.stop)
		*w.p = ++n;
	w.last = n;
	return NULL;
}

TEST(move_writer, "NU-02 a page moves between nodes under a writer: no store is lost", .cpus = 2,
     .seconds = 40)
{
	int b, a = need_nodes(&b);
	unsigned long on[2] = { 1UL << a, 1UL << b };
	char *p = map(P, RW, ANON);

	w.p = (unsigned *)p;
	*w.p = 0;
	w.stop = false;
	pthread_t t = start(counting, NULL);
	pin(0);
	unsigned seen = 0;
	for (long i = 0; go_on(i, 100); i++) {
		CHECK_EQ(mbind(p, P, BIND, &on[i % 2], 64, MF_MOVE), 0);
		unsigned now = *w.p;
		CHECK_MSG(now >= seen, "the count went back from %u to %u", seen, now);
		seen = now;
	}
	w.stop = true;
	join(t);
	CHECK_EQ(*w.p, w.last);
}
