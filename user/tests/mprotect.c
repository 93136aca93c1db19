/*
 * mprotect: split and merge, what each of the protections allows, early returns. known-bugs: VM-10.
 */
#include "harness.h"

#include <cpuid.h>

/* With protection keys in use, Linux makes what is only executable unreadable. */
static bool keys_in_use(void)
{
	unsigned a, b, c, d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c >> 4 & 1);
}

/* The kind of access that a page allows; x86 reads whatever it can write or run. */
static void check_page(char *p, int prot, const char *what, int i)
{
	bool r = loads(p), w = stores(p + 8, 1), x;

	CHECK_MSG(r == !!prot || (prot == PROT_EXEC && keys_in_use()),
		  "%s page %d prot %d: %sreadable", what, i, prot, r ? "" : "not ");
	if (!r)
		CHECK_MSG(hit.sig == SIGSEGV, "%s page %d: signal %d", what, i, hit.sig);
	CHECK_MSG(w == !!(prot & PROT_WRITE), "%s page %d prot %d: %swritable", what, i, prot,
		  w ? "" : "not ");
	x = jumps(p);
	CHECK_MSG(x == !!(prot & PROT_EXEC), "%s page %d prot %d: %sexecutable", what, i, prot,
		  x ? "" : "not ");
}

/* Five pages that each begin with a `ret`. */
static char *code(size_t pages)
{
	char *p = map(pages * P, RW, ANON);

	for (size_t i = 0; i < pages; i++)
		p[i * P] = (char)0xc3;
	return p;
}

TEST(each, "VM-10 what every protection allows")
{
	for (int touched = 0; touched < 2; touched++)
		for (int prot = 0; prot < 8; prot++) {
			char *p = code(1);

			CHECK_EQ(mprotect(p, P, prot), 0);
			check_page(p, prot, "mprotect", 0);
			if (!touched && !(prot & PROT_EXEC)) {
				p = map(P, prot, ANON);
				check_page(p, prot, "mmap", 0);
			}
		}
}

TEST(split_merge, "VM-10 split and merge over five pages")
{
	char *p = code(5);

	CHECK_EQ(mprotect(p + P, P, PROT_EXEC), 0);
	CHECK_EQ(mprotect(p + 3 * P, P, PROT_WRITE), 0);
	CHECK_EQ(areas_in(p, 5 * P), 5);
	CHECK_EQ(mprotect(p + P, 4 * P, PROT_READ), 0);
	CHECK_EQ(areas_in(p, 5 * P), 2);
	check_page(p, RW, "merge", 0);
	for (int i = 1; i < 5; i++)
		check_page(p + i * P, PROT_READ, "merge", i);
	CHECK_EQ(mprotect(p, 5 * P, RW), 0);
	CHECK_EQ(areas_in(p, 5 * P), 1);
	for (int i = 0; i < 5; i++)
		check_page(p + i * P, RW, "whole", i);
}

TEST(patterns, "VM-10 all patterns of two protections over five pages")
{
	static const int pairs[][2] = {
		{ PROT_NONE, RW },
		{ PROT_READ, RW },
		{ PROT_READ | PROT_EXEC, RW },
		{ PROT_WRITE, PROT_EXEC },
	};

	for (size_t k = 0; k < ARRAY_SIZE(pairs); k++)
		for (int pattern = 0; pattern < 32; pattern++) {
			char *p = code(5);

			for (int i = 0; i < 5; i++)
				NEED(mprotect(p + i * P, P, pairs[k][pattern >> i & 1]) == 0);
			int edges = 1;
			for (int i = 1; i < 5; i++)
				edges += (pattern >> i & 1) != (pattern >> (i - 1) & 1);
			CHECK_EQ(areas_in(p, 5 * P), edges);
			for (int i = 0; i < 5; i++)
				check_page(p + i * P, pairs[k][pattern >> i & 1], "pattern", i);
			unmap(p, 5 * P);
		}
}

TEST(maps_text, "VM-10 /proc/self/maps shows the protections")
{
	static const struct {
		int prot;
		const char *text;
	} want[] = {
		{ PROT_NONE, "---p" },      { PROT_READ, "r--p" },
		{ PROT_WRITE, "-w-p" },     { RW, "rw-p" },
		{ PROT_EXEC, "--xp" },      { PROT_READ | PROT_EXEC, "r-xp" },
		{ RW | PROT_EXEC, "rwxp" },
	};
	char *p = map(3 * P, RW, ANON);
	struct area a;

	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		NEED(mprotect(p + P, P, want[i].prot) == 0);
		NEED(area_of(p + P, &a));
		CHECK_MSG(!strcmp(a.prot, want[i].text), "maps says %s, expected %s", a.prot,
			  want[i].text);
	}
	char *s = map(P, PROT_READ, SHANON);
	NEED(area_of(s, &a));
	CHECK_MSG(!strcmp(a.prot, "r--s"), "maps says %s for a shared mapping", a.prot);
}

TEST(contents, "VM-10 protections come and go, contents stay")
{
	char *p = map(16 * P, RW, ANON);
	uint32_t seed = 5;

	for (int i = 0; i < 16; i++)
		p[i * P + 16] = i + 1;
	for (long round = 0; go_on(round, 500); round++) {
		static const int prots[] = { PROT_NONE, PROT_READ, RW, PROT_WRITE };
		int first = roll(&seed) % 16, n = 1 + roll(&seed) % (16 - first);

		NEED(mprotect(p + first * P, n * P, prots[roll(&seed) % 4]) == 0);
	}
	NEED(mprotect(p, 16 * P, PROT_READ) == 0);
	for (int i = 0; i < 16; i++)
		CHECK_EQ(p[i * P + 16], i + 1);
	CHECK_EQ(areas_in(p, 16 * P), 1);
}

TEST(none_then_fault, "VM-10 untouched pages under a changed protection")
{
	char *p = map(4 * P, PROT_NONE, ANON);

	CHECK_FAULT(loads(p), SIGSEGV, SEGV_ACCERR_, p);
	NEED(mprotect(p, 2 * P, RW) == 0);
	CHECK_RUNS(stores(p, 1));
	CHECK_RUNS(stores(p + P, 1));
	CHECK_FAULT(loads(p + 2 * P), SIGSEGV, SEGV_ACCERR_, p + 2 * P);
	/* A read maps the zero frame; made writable it must still be copied on a write. */
	char *z = map(P, PROT_READ, ANON), *other = map(P, PROT_READ, ANON);
	CHECK_EQ(z[0] + other[0], 0);
	NEED(mprotect(z, P, RW) == 0);
	CHECK_RUNS(stores(z, 5));
	CHECK_EQ(other[0], 0);
	CHECK_EQ(z[0], 5);
}

TEST(shared_file, "VM-10 a shared file page made read-only and writable again")
{
	int fd = tmpfile_fd(P);
	char *p = map_fd(P, RW, MAP_SHARED, fd, 0), c;

	*p = 1;
	NEED(mprotect(p, P, PROT_READ) == 0);
	CHECK_FAULT(stores(p, 2), SIGSEGV, SEGV_ACCERR_, p);
	NEED(mprotect(p, P, RW) == 0);
	CHECK_RUNS(stores(p, 3));
	NEED(pread(fd, &c, 1, 0) == 1);
	CHECK_EQ(c, 3);
}

TEST(grows, "VM-10 PROT_GROWSDOWN and PROT_GROWSUP on what does not grow")
{
	char *p = map(P, RW, ANON);

	CHECK_ERR(raw_mprotect((unsigned long)p, P, PROT_READ | 0x01000000), EINVAL);
	CHECK_ERR(raw_mprotect((unsigned long)p, P, PROT_READ | 0x02000000), EINVAL);
	CHECK_ERR(raw_mprotect((unsigned long)p, P, PROT_READ | 0x03000000), EINVAL);
	CHECK_RUNS(stores(p, 1));
}
