/*
 * Private file mappings: changed pages are the process's own, unchanged ones the file's.
 * known-bugs: CW-13.
 */
#include "harness.h"

static char at(int fd, off_t off)
{
	char c = 0;

	CHECK_EQ(pread(fd, &c, 1, off), 1);
	return c;
}

static int file_of(char c, size_t pages)
{
	int fd = tmpfile_fd(pages * P);
	char page[P];

	memset(page, c, P);
	for (size_t i = 0; i < pages; i++)
		NEED(pwrite(fd, page, P, i * P) == (ssize_t)P);
	return fd;
}

TEST(isolation, "CW-13 a private write is seen by nobody else")
{
	int fd = file_of('A', 1);
	char *p = map_fd(P, RW, MAP_PRIVATE, fd, 0), *q = map_fd(P, RW, MAP_PRIVATE, fd, 0);

	p[0] = p[1] = 'B';
	CHECK_EQ(q[0], 'A');
	CHECK_EQ(at(fd, 0), 'A');
	CHECK_EQ(p[2], 'A');
	pid_t pid = xfork();
	if (pid == 0) {
		CHECK_EQ(p[0], 'B');
		p[0] = 'C';
		q[0] = 'D';
		CHECK_EQ(p[0], 'C');
		done();
	}
	join_child(pid);
	CHECK_EQ(p[0], 'B');
	CHECK_EQ(q[0], 'A');
	CHECK_EQ(madvise(p, P, MADV_DONTNEED), 0);
	CHECK_EQ(p[0], 'A');
	CHECK_EQ(p[1], 'A');
}

TEST(write_first, "CW-13 a write as the first access copies the file's bytes")
{
	int fd = file_of('A', 4);
	char *p = map_fd(4 * P, RW, MAP_PRIVATE, fd, 0);

	for (int i = 0; i < 4; i++) {
		p[i * P + 17] = i;
		for (size_t k = 0; k < P; k++)
			if (k != 17 && p[i * P + k] != 'A') {
				FAIL("page %d byte %zu is 0x%x", i, k, p[i * P + k]);
				break;
			}
	}
	CHECK_EQ(at(fd, 17), 'A');
}

TEST(file_changes, "CW-13 the file changes under unchanged pages only")
{
	int fd = file_of('A', 2);
	char *p = map_fd(2 * P, RW, MAP_PRIVATE, fd, 0);

	p[0] = 'x';
	(void)*(volatile char *)(p + P);
	NEED(pwrite(fd, "NN", 2, 0) == 2 && pwrite(fd, "NN", 2, P) == 2);
	CHECK_EQ(p[1], 'A');
	/* Not copied yet: the file's page itself. */
	CHECK_EQ(p[P], 'N');
	p[P + 1] = 'y';
	CHECK_EQ(p[P], 'N');
}

TEST(two_writers, "CW-13 processes write the same private page, and the file's owner too")
{
	int fd = file_of('A', 8);
	struct meet *m = map(P, RW, SHANON);
	char *s = map_fd(8 * P, RW, MAP_SHARED, fd, 0);
	pid_t pid[3];

	m->n = 4;
	for (int c = 0; c < 3; c++) {
		pid[c] = xfork();
		if (pid[c] == 0) {
			char *p = map_fd(8 * P, RW, MAP_PRIVATE, fd, 0);

			pin(c + 1);
			for (int i = 0; i < 8; i++) {
				meet(m);
				p[i * P] = 'a' + c;
			}
			meet(m);
			for (int i = 0; i < 8; i++) {
				CHECK_EQ(p[i * P], 'a' + c);
				CHECK_EQ(p[i * P + 2], 'A');
			}
			done();
		}
	}
	for (int i = 0; i < 8; i++) {
		meet(m);
		s[i * P + 1] = 'S';
	}
	meet(m);
	for (int c = 0; c < 3; c++)
		join_child(pid[c]);
	for (int i = 0; i < 8; i++) {
		CHECK_EQ(at(fd, i * P), 'A');
		CHECK_EQ(at(fd, i * P + 1), 'S');
	}
}

TEST(program_data, "CW-13 a program's own data and bss are private")
{
	static int data = 7;
	static int bss[3000];

	pid_t pid = xfork();
	if (pid == 0) {
		data = 8;
		bss[1500] = 1;
		done();
	}
	join_child(pid);
	CHECK_EQ(data, 7);
	CHECK_EQ(bss[1500], 0);
}

TEST(read_only_private, "CW-13 made writable after it was read")
{
	int fd = file_of('A', 1);
	char *p = map_fd(P, PROT_READ, MAP_PRIVATE, fd, 0);

	CHECK_EQ(p[0], 'A');
	NEED(mprotect(p, P, RW) == 0);
	p[0] = 'B';
	NEED(mprotect(p, P, PROT_READ) == 0);
	CHECK_EQ(at(fd, 0), 'A');
	NEED(mprotect(p, P, RW) == 0);
	p[1] = 'C';
	CHECK_EQ(p[0], 'B');
	CHECK_EQ(at(fd, 1), 'A');
}

TEST(smaps_counts, "CW-13 smaps tells changed pages from the file's")
{
	int fd = file_of('A', 8);
	char *p = map_fd(8 * P, RW, MAP_PRIVATE, fd, 0);

	for (int i = 0; i < 6; i++)
		(void)*(volatile char *)(p + i * P);
	p[0] = p[P] = 'x';
	CHECK_EQ(smaps_kb(p, "Size"), 32);
	CHECK_EQ(smaps_kb(p, "Anonymous"), 8);
	long rss = smaps_kb(p, "Rss");
	CHECK_MSG(rss >= 24 && rss <= 32, "Rss %ld kB",
		  rss); /* fault-around may have mapped more */
}
