/*
 * /proc and /sys in the formats that Linux's tools parse.
 */
#include "harness.h"

#include <ctype.h>
#include <dirent.h>

static char text[1 << 20];

static const char *read_file(const char *path)
{
	if (slurp(path, text, sizeof(text)) < 0) {
		FAIL("%s: %s", path, errno_name(errno));
		text[0] = 0;
	}
	return text;
}

/* Every line of the file is "Name: number[ kB]". */
static void check_kb_lines(const char *path)
{
	for (const char *line = read_file(path); *line; line = strchr(line, '\n') + 1) {
		char name[64], unit[8] = "";
		long value;
		int n = sscanf(line, "%63[^:]: %ld%7[^\n]", name, &value, unit);

		if (n < 2 || (n == 3 && strcmp(unit, " kB")))
			FAIL("%s: '%.*s'", path, (int)strcspn(line, "\n"), line);
		if (!strchr(line, '\n'))
			break;
	}
}

TEST(meminfo, "PF /proc/meminfo")
{
	static const char *const names[] = {
		"MemTotal",        "MemFree",        "MemAvailable",   "Buffers",
		"Cached",          "SwapTotal",      "SwapFree",       "AnonPages",
		"Mapped",          "Shmem",          "PageTables",     "Slab",
		"HugePages_Total", "HugePages_Free", "HugePages_Rsvd", "HugePages_Surp",
		"Hugepagesize",    "AnonHugePages",
	};
	const char *path = "/proc/meminfo";

	check_kb_lines(path);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		CHECK_MSG(field(path, names[i]) >= 0, "no %s", names[i]);
	long total = field(path, "MemTotal"), available = field(path, "MemAvailable");
	CHECK(total > 16 * 1024 && field(path, "MemFree") < total && available <= total);
	CHECK_EQ(field(path, "Hugepagesize"), 2048);
	read_file(path);
	CHECK(!strncmp(text, "MemTotal:       ", 16));
	/* What a process takes is seen. */
	long before = field(path, "MemFree"), anon = field(path, "AnonPages");
	char *p = map(32 * MB, RW, ANON | MAP_POPULATE);
	long taken = before - field(path, "MemFree");
	if (on_faultline()) { /* elsewhere others take and give at the same time, and counts are
				 late */
		CHECK_MSG(taken >= 32 * 1024 && taken < 33 * 1024, "32 MB cost %ld kB of MemFree",
			  taken);
		CHECK_MSG(field(path, "AnonPages") - anon == 32 * 1024, "AnonPages grew by %ld kB",
			  field(path, "AnonPages") - anon);
	}
	unmap(p, 32 * MB);
}

TEST(vmstat, "PF /proc/vmstat")
{
	static const char *const names[] = { "nr_free_pages",  "pgfault",
					     "pgalloc_normal", "pgfree",
					     "nr_anon_pages",  "nr_page_table_pages",
					     "numa_hit" };
	const char *path = "/proc/vmstat";

	for (const char *line = read_file(path); *line; line = strchr(line, '\n') + 1) {
		char name[64];
		unsigned long value;

		if (sscanf(line, "%63s %lu", name, &value) != 2)
			FAIL("'%.*s'", (int)strcspn(line, "\n"), line);
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		CHECK_MSG(field(path, names[i]) >= 0, "no %s", names[i]);
	long before = field(path, "pgfault");
	char *p = map(1000 * P, RW, ANON);
	madvise(p, 1000 * P, MADV_NOHUGEPAGE);
	for (int i = 0; i < 1000; i++)
		p[i * P] = 1;
	CHECK(field(path, "pgfault") - before >= 1000);
}

TEST(buddyinfo, "PF /proc/buddyinfo and /proc/zoneinfo")
{
	long pages = 0;
	int lines = 0;

	for (const char *line = read_file("/proc/buddyinfo"); *line;
	     line = strchr(line, '\n') + 1) {
		int node, at = 0;
		char zone[16];

		CHECK_EQ(sscanf(line, "Node %d, zone %15s%n", &node, zone, &at), 2);
		for (int order = 0; order < 11; order++) {
			long n;
			int used = 0;

			if (sscanf(line + at, "%ld%n", &n, &used) != 1) {
				FAIL("only %d orders in '%.*s'", order, (int)strcspn(line, "\n"),
				     line);
				break;
			}
			at += used;
			pages += n << order;
		}
		lines++;
	}
	CHECK(lines >= 1);
	CHECK(pages * 4 <= field("/proc/meminfo", "MemTotal"));
	CHECK(pages > 0);
	if (on_faultline()) /* frames may also be where buddyinfo does not look */
		CHECK(pages * 4 > field("/proc/meminfo", "MemFree") / 2);
	CHECK(strstr(read_file("/proc/zoneinfo"), "Node 0, zone") != NULL);
	CHECK(strstr(text, "pages free") != NULL);
}

TEST(cpuinfo, "PF /proc/cpuinfo and /proc/stat agree about the CPUs")
{
	int processors = 0, cpus = 0;

	for (const char *p = read_file("/proc/cpuinfo"); (p = strstr(p, "processor\t: ")); p++)
		processors++;
	CHECK(strstr(text, "vendor_id\t: ") && strstr(text, "flags\t\t: ") &&
	      strstr(text, "model name\t: "));
	CHECK(strstr(text, " sse2") != NULL);
	const char *line = read_file("/proc/stat");
	CHECK(!strncmp(line, "cpu  ", 5));
	for (; *line; line = strchr(line, '\n') + 1) {
		int n;
		unsigned long v[10];

		if (sscanf(line, "cpu%d %lu %lu %lu %lu %lu %lu %lu %lu", &n, v, v + 1, v + 2,
			   v + 3, v + 4, v + 5, v + 6, v + 7) == 9 &&
		    line[3] != ' ')
			cpus++;
	}
	CHECK(strstr(text, "\nctxt ") && strstr(text, "\nbtime ") && strstr(text, "\nprocesses "));
	CHECK_EQ(cpus, processors);
	CHECK_EQ(sysconf(_SC_NPROCESSORS_ONLN), processors);
	CHECK(ncpus() <= processors);
}

TEST(small_files, "PF uptime, loadavg, version, filesystems, mounts, cmdline")
{
	double up, idle, l1, l5, l15;
	int running, all, last;

	CHECK_EQ(sscanf(read_file("/proc/uptime"), "%lf %lf", &up, &idle), 2);
	CHECK(up > 0);
	CHECK_EQ(sscanf(read_file("/proc/loadavg"), "%lf %lf %lf %d/%d %d", &l1, &l5, &l15,
			&running, &all, &last),
		 6);
	CHECK(running >= 1 && all >= running);
	CHECK(strlen(read_file("/proc/version")) > 5);
	CHECK(strstr(read_file("/proc/filesystems"), "nodev\ttmpfs\n") != NULL);
	CHECK(strstr(read_file("/proc/mounts"), " /proc proc ") != NULL);
	CHECK(slurp("/proc/cmdline", text, sizeof(text)) >= 0);
	char *self = "/proc/self/cmdline";
	long n = slurp(self, text, sizeof(text));
	CHECK(n > 0 && text[n - 1] == 0 && strstr(text, "procfs"));
	char link[64] = "", pid[16];
	snprintf(pid, sizeof(pid), "%d", getpid());
	CHECK(readlink("/proc/self", link, sizeof(link)) > 0 && !strcmp(link, pid));
}

TEST(maps, "PF /proc/self/maps: every line, in order, and what it says of a mapping")
{
	unsigned long last = 0;
	char *p = map(3 * P, PROT_READ, ANON);
	int fd = tmpfile_fd(8 * P), heap = 0, stack = 0;
	char *f = map_fd(2 * P, RW, MAP_SHARED, fd, 3 * P);
	struct area a;

	NEED(raw_brk(raw_brk(0) + 2 * P) != 0);
	for (const char *line = read_file("/proc/self/maps"); *line;
	     line = strchr(line, '\n') + 1) {
		unsigned long start, end, off, inode;
		char prot[8];
		unsigned major, minor;
		int at = 0;

		if (sscanf(line, "%lx-%lx %7s %lx %x:%x %lu%n", &start, &end, prot, &off, &major,
			   &minor, &inode, &at) != 7) {
			FAIL("'%.*s'", (int)strcspn(line, "\n"), line);
			break;
		}
		CHECK(start >= last && end > start && start % P == 0 && end % P == 0);
		CHECK(strlen(prot) == 4 && (prot[0] == 'r' || prot[0] == '-') &&
		      (prot[3] == 'p' || prot[3] == 's'));
		if (inode)
			CHECK(strncmp(line + at, "  ", 1) == 0);
		last = end;
		heap += !!memmem(line, strcspn(line, "\n"), "[heap]", 6);
		stack += !!memmem(line, strcspn(line, "\n"), "[stack]", 7);
	}
	CHECK_EQ(heap, 1);
	CHECK_EQ(stack, 1);
	NEED(area_of(p + P, &a));
	CHECK(a.start <= (unsigned long)p && a.end >= (unsigned long)p + 3 * P &&
	      !strcmp(a.prot, "r--p") && !a.name[0]);
	NEED(area_of(f, &a));
	CHECK_EQ(a.off, 3 * P);
	CHECK(!strcmp(a.prot, "rw-s") && a.name[0]);
	NEED(area_of((void *)(uintptr_t)read_file, &a));
	CHECK(!strcmp(a.prot, "r-xp") && strstr(a.name, "procfs"));
}

TEST(long_maps, "PF /proc/self/maps with thousands of lines is whole, read in small pieces")
{
	int n = 1500, count = 0, fd;
	char *p = map(2 * n * P, RW, ANON), piece[777];

	for (int i = 0; i < n; i++)
		NEED(mprotect(p + 2 * i * P, P, PROT_READ) == 0);
	CHECK_EQ(areas_in(p, 2 * n * P), 2 * n);
	fd = NEED_OK(open("/proc/self/maps", O_RDONLY));
	for (ssize_t r; (r = read(fd, piece, sizeof(piece))) > 0;)
		for (ssize_t i = 0; i < r; i++)
			count += piece[i] == '\n';
	CHECK(count >= 2 * n && count < 2 * n + 100);
	close(fd);
}

TEST(smaps, "PF /proc/self/smaps and smaps_rollup")
{
	char *p = map(8 * P, RW, ANON), *s = map(4 * P, RW, SHANON);

	madvise(p, 8 * P, MADV_NOHUGEPAGE);
	for (int i = 0; i < 5; i++)
		p[i * P] = 1;
	s[0] = 1;
	CHECK_EQ(smaps_kb(p, "Size"), 32);
	CHECK_EQ(smaps_kb(p, "KernelPageSize"), 4);
	CHECK_EQ(smaps_kb(p, "Rss"), 20);
	CHECK_EQ(smaps_kb(p, "Pss"), 20);
	CHECK_EQ(smaps_kb(p, "Private_Dirty"), 20);
	CHECK_EQ(smaps_kb(p, "Anonymous"), 20);
	CHECK_EQ(smaps_kb(p, "AnonHugePages"), 0);
	CHECK_EQ(smaps_kb(p, "Swap"), 0);
	CHECK_EQ(smaps_kb(s, "Rss"), 4);
	CHECK(strstr(read_file("/proc/self/smaps"), "VmFlags: ") != NULL);
	/* Shared by fork, a page counts as shared for both. */
	struct door d = door(), ready = door();
	pid_t pid = xfork();
	if (pid == 0) {
		let(ready);
		pass(d);
		done();
	}
	pass(ready);
	CHECK_EQ(smaps_kb(p, "Rss"), 20);
	CHECK_EQ(smaps_kb(p, "Pss"), 10);
	CHECK_EQ(smaps_kb(p, "Private_Dirty"), 0);
	CHECK_EQ(smaps_kb(p, "Shared_Dirty"), 20);
	let(d);
	join_child(pid);
	CHECK_EQ(smaps_kb(p, "Private_Dirty"), 20);
	long rollup = field("/proc/self/smaps_rollup", "Rss");
	CHECK(rollup >= 24 && rollup < 65536);
	CHECK(strstr(read_file("/proc/self/smaps_rollup"), "[rollup]") != NULL);
}

TEST(status, "PF /proc/self/status")
{
	const char *path = "/proc/self/status";
	static const char *const names[] = { "VmPeak", "VmSize", "VmLck",  "VmHWM",
					     "VmRSS",  "VmData", "VmStk",  "VmExe",
					     "VmLib",  "VmPTE",  "Threads" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		CHECK_MSG(field(path, names[i]) >= 0, "no %s", names[i]);
	CHECK_EQ(field(path, "Pid"), getpid());
	CHECK_EQ(field(path, "PPid"), getppid());
	CHECK(strstr(read_file(path), "Name:\tprocfs\n") && strstr(text, "State:\tR (running)\n"));
	CHECK(strstr(text, "Cpus_allowed:\t") && strstr(text, "SigCgt:\t"));
	long size = field(path, "VmSize"), rss = field(path, "VmRSS");
	char *p = map(1024 * P, RW, ANON);
	CHECK_EQ(field(path, "VmSize") - size, 4096);
	memset(p, 1, 1024 * P);
	long grown = field(path, "VmRSS") - rss;
	CHECK_MSG(grown >= 3900 && grown < 4800, "VmRSS grew by %ld kB", grown);
	unmap(p, 1024 * P);
	CHECK(field(path, "VmHWM") >= rss + 3900);
	CHECK(field(path, "VmPeak") >= size + 4096);
	CHECK_EQ(field(path, "VmSize"), size);
}

TEST(stat_file, "PF /proc/self/stat and statm")
{
	int pid, ppid, pgrp;
	char name[64], state;
	const char *s = read_file("/proc/self/stat");

	CHECK_EQ(sscanf(s, "%d (%63[^)]) %c %d %d", &pid, name, &state, &ppid, &pgrp), 5);
	CHECK_EQ(pid, getpid());
	CHECK_EQ(ppid, getppid());
	CHECK_EQ(pgrp, getpgrp());
	CHECK_EQ(state, 'R');
	CHECK(!strcmp(name, "procfs"));
	/* 52 fields in all; 22 start time, 23 size in bytes, 24 resident pages, 39 CPU. */
	unsigned long field_[60];
	int n = 3;
	char *p = strrchr(text, ')') + 4;
	for (char *end; n < 60; p = end) {
		field_[++n] = strtoul(p, &end, 10);
		if (end == p)
			break;
	}
	CHECK_EQ(n - 1, 52);
	/* Elsewhere this count is kept per CPU and may be too low. */
	CHECK_MSG(field_[23] > 100000 && (field_[24] > 10 || !on_faultline()),
		  "size %lu, resident %lu", field_[23], field_[24]);
	CHECK_EQ(field_[20], 1);
	CHECK(field_[39] < 4096);
	unsigned long size, rss, shared, code, lib, data;
	CHECK_EQ(sscanf(read_file("/proc/self/statm"), "%lu %lu %lu %lu %lu %lu", &size, &rss,
			&shared, &code, &lib, &data),
		 6);
	CHECK_EQ(size, field_[23] / P);
	CHECK(rss > 10 && rss < size);
}

TEST(pagemap_file, "PF /proc/self/pagemap, and kpagecount and kpageflags by it")
{
	char *p = map(4 * P, RW, ANON);
	uint64_t entry[4], count = 0, flags = 0;
	int fd = NEED_OK(open("/proc/self/pagemap", O_RDONLY));

	p[P] = 1;
	CHECK_EQ(pread(fd, entry, 32, (uintptr_t)p / P * 8), 32);
	CHECK(!(entry[0] & PM_PRESENT) && (entry[1] & PM_PRESENT) && !(entry[2] & PM_PRESENT));
	CHECK_EQ(entry[0], 0);
	CHECK(PM_PFN(entry[1]) != 0); /* root may see it */
	CHECK(entry[1] >> 56 & 1);    /* mapped here alone */
	CHECK(!(entry[1] >> 61 & 1)); /* no file */
	CHECK_ERR(pread(fd, entry, 7, 0), EINVAL);
	CHECK_ERR(pread(fd, entry, 8, 4), EINVAL);
	int kc = NEED_OK(open("/proc/kpagecount", O_RDONLY)),
	    kf = NEED_OK(open("/proc/kpageflags", O_RDONLY));
	CHECK_EQ(pread(kc, &count, 8, PM_PFN(entry[1]) * 8), 8);
	CHECK_EQ(count, 1);
	CHECK_EQ(pread(kf, &flags, 8, PM_PFN(entry[1]) * 8), 8);
	CHECK(flags >> 12 & 1); /* KPF_ANON */
	CHECK(flags >> 11 & 1); /* KPF_MMAP */
	struct door d = door(), ready = door();
	pid_t pid = xfork();
	if (pid == 0) {
		let(ready);
		pass(d);
		done();
	}
	pass(ready);
	CHECK_EQ(pread(kc, &count, 8, PM_PFN(entry[1]) * 8), 8);
	CHECK_EQ(count, 2);
	CHECK_EQ(pread(fd, entry, 8, ((uintptr_t)p / P + 1) * 8), 8);
	CHECK(!(entry[0] >> 56 & 1));
	let(d);
	join_child(pid);
	int file = tmpfile_fd(P);
	char *f = map_fd(P, RW, MAP_SHARED, file, 0);
	f[0] = 1;
	CHECK(pagemap(f) >> 61 & 1); /* a file's or shared */
}

TEST(exe, "PF /proc/self/exe, fd, task, and another's entries")
{
	char link[256] = "", path[64];
	struct stat a, b;

	CHECK(readlink("/proc/self/exe", link, sizeof(link) - 1) > 0);
	CHECK_EQ(stat("/proc/self/exe", &a), 0);
	CHECK_EQ(stat(link, &b), 0);
	CHECK_EQ(a.st_ino, b.st_ino);
	int fd = NEED_OK(open("/dev/null", O_RDONLY)), seen = 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	memset(link, 0, sizeof(link));
	CHECK(readlink(path, link, sizeof(link) - 1) > 0);
	CHECK(!strcmp(link, "/dev/null"));
	DIR *d = opendir("/proc/self/fd");
	NEED(d != NULL);
	for (struct dirent *e; (e = readdir(d));)
		seen += atoi(e->d_name) == fd && isdigit(e->d_name[0]);
	closedir(d);
	CHECK_EQ(seen, 1);
	struct door in = door();
	pid_t pid = xfork();
	if (pid == 0) {
		pass(in);
		done();
	}
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	CHECK_EQ(field(path, "PPid"), getpid());
	seen = 0;
	d = opendir("/proc");
	NEED(d != NULL);
	for (struct dirent *e; (e = readdir(d));)
		seen += atoi(e->d_name) == pid || atoi(e->d_name) == getpid();
	closedir(d);
	CHECK_EQ(seen, 2);
	int gone = NEED_OK(open(path, O_RDONLY));
	let(in);
	join_child(pid);
	CHECK_ERR(open(path, O_RDONLY), ENOENT);
	long n = read(gone, text, 100);
	CHECK_MSG(n == 0 || (n == -1 && errno == ESRCH), "an open file of a dead process gave %ld",
		  n);
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
	CHECK(strlen(read_file(path)) > 20);
}

TEST(numa_maps, "PF /proc/self/numa_maps")
{
	char *p = map(4 * P, RW, ANON), want[32], *line = NULL;
	int pages = 0;

	memset(p, 1, 4 * P);
	if (access("/proc/self/numa_maps", R_OK) < 0)
		skip("no NUMA");
	read_file("/proc/self/numa_maps");
	snprintf(want, sizeof(want), "%lx ", (unsigned long)p);
	line = strstr(text, want);
	if (!CHECK(line != NULL))
		return;
	line[strcspn(line, "\n")] = 0;
	CHECK(strstr(line, " default") && strstr(line, " anon=4") && strstr(line, " dirty=4") &&
	      strstr(line, "kernelpagesize_kB=4"));
	for (char *at = strstr(line, " N"); at; at = strstr(at + 1, " N")) {
		int node, n;

		if (sscanf(at, " N%d=%d", &node, &n) == 2)
			pages += n;
	}
	CHECK_EQ(pages, 4);
}

TEST(nodes, "PF /sys/devices/system/node and cpu")
{
	char path[96];
	const char *base = "/sys/devices/system/node";
	int nodes = 0;
	long total = 0, cpus = 0;

	if (access(base, R_OK) < 0)
		skip("no NUMA");
	for (int n = 0; n < 64; n++) {
		int number, got = 0;
		long kb = -1;

		snprintf(path, sizeof(path), "%s/node%d/meminfo", base, n);
		if (access(path, R_OK) < 0)
			continue;
		nodes++;
		const char *line = strstr(read_file(path), "MemTotal:");
		CHECK(line && sscanf(text, "Node %d MemTotal: %ld kB", &number, &kb) == 2 &&
		      number == n);
		total += kb;
		snprintf(path, sizeof(path), "%s/node%d/distance", base, n);
		CHECK(sscanf(read_file(path), "%d", &got) == 1 && got >= 10);
		snprintf(path, sizeof(path), "%s/node%d/cpulist", base, n);
		for (const char *p = read_file(path); isdigit(*p);) {
			int a = strtol(p, (char **)&p, 10), b = a;

			if (*p == '-')
				b = strtol(p + 1, (char **)&p, 10);
			cpus += b - a + 1;
			if (*p == ',')
				p++;
		}
		snprintf(path, sizeof(path), "%s/node%d/numastat", base, n);
		CHECK(field(path, "numa_hit") >= 0);
		snprintf(path, sizeof(path), "%s/node%d/cpumap", base, n);
		CHECK(strlen(read_file(path)) > 1);
	}
	CHECK(nodes >= 1);
	CHECK_EQ(cpus, sysconf(_SC_NPROCESSORS_ONLN));
	long known = field("/proc/meminfo", "MemTotal");
	CHECK_MSG(total > known / 2 && total <= known + known / 8,
		  "nodes have %ld kB, meminfo says %ld", total, known);
	static const char *const lists[] = { "possible", "online", "has_cpu", "has_memory" };
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		snprintf(path, sizeof(path), "%s/%s", base, lists[i]);
		CHECK(isdigit(read_file(path)[0]) && strchr(text, '\n'));
	}
	CHECK(isdigit(read_file("/sys/devices/system/cpu/online")[0]));
	CHECK(isdigit(read_file("/sys/devices/system/cpu/possible")[0]));
	CHECK(access("/sys/devices/system/cpu/cpu0", F_OK) == 0);
}

TEST(offsets, "PF generated files: offsets, seeking, small reads, writing refused")
{
	char a[8192], b[8192];
	long n = slurp("/proc/self/status", a, sizeof(a)), m = 0;
	int fd = NEED_OK(open("/proc/self/status", O_RDONLY));

	/* One byte at a time gives the same names; numbers may have changed. */
	while (m < (long)sizeof(b) - 1 && read(fd, b + m, 1) == 1)
		m++;
	b[m] = 0;
	CHECK(labs(m - n) < 64);
	CHECK(!strncmp(a, b, 20));
	CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
	CHECK(read(fd, b, 100) == 100 && !strncmp(a, b, 20));
	CHECK_EQ(pread(fd, b, 5, 6), 5);
	CHECK(!strncmp(a + 6, b, 5));
	CHECK_EQ(pread(fd, b, 5, 100000), 0);
	CHECK(open("/proc/meminfo", O_WRONLY) == -1 ||
	      write(open("/proc/meminfo", O_WRONLY), "x", 1) == -1);
	CHECK_ERR(open("/proc/self/none", O_RDONLY), ENOENT);
	CHECK_ERR(open("/proc/new", O_RDWR | O_CREAT, 0600), ENOENT);
	CHECK(mkdir("/proc/newdir", 0700) == -1);
}

/*
 * Everything in /proc and /sys that is small and harmless can be opened and read to its end, or
 * says why not.
 */
static void walk(const char *dir, int depth)
{
	DIR *d = opendir(dir);
	char path[512];

	if (!d || depth > 5)
		return;
	for (struct dirent *e; (e = readdir(d));) {
		struct stat st;

		if (e->d_name[0] == '.' || !strcmp(e->d_name, "kmsg") ||
		    !strcmp(e->d_name, "kcore") || !strcmp(e->d_name, "trace_pipe") ||
		    isdigit(e->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (lstat(path, &st) < 0) {
			FAIL("%s: %s", path, errno_name(errno));
			continue;
		}
		if (S_ISDIR(st.st_mode)) {
			walk(path, depth + 1);
		} else if (S_ISREG(st.st_mode) && (st.st_mode & 0444)) {
			int fd = open(path, O_RDONLY | O_NONBLOCK);
			char buf[4096];

			for (int i = 0; fd >= 0 && i < 64 && read(fd, buf, sizeof(buf)) > 0; i++)
				;
			if (fd >= 0)
				close(fd);
		}
	}
	closedir(d);
}

TEST(everything, "PF every file of /proc and /sys can be read", .seconds = 60)
{
	if (!on_faultline())
		skip("some files of other kernels act when read");
	walk("/proc", 0);
	walk("/sys", 0);
	walk("/proc/self", 0);
	walk("/proc/1", 0);
}

TEST(under_change, "PF maps, smaps and pagemap are read while the space changes", .cpus = 2,
     .seconds = 40)
{
	extern void *changer(void *);
	static volatile bool stop;
	pthread_t t = start(changer, (void *)&stop);

	pin(0);
	for (long i = 0; go_on(i, 60); i++) {
		unsigned long last = 0;

		for (const char *line = read_file(i % 2 ? "/proc/self/maps" : "/proc/self/smaps");
		     line && *line; line = strchr(line, '\n'), line += line != NULL) {
			unsigned long start_, end;

			if (sscanf(line, "%lx-%lx ", &start_, &end) != 2)
				continue;
			CHECK_MSG(start_ >= last && end > start_, "0x%lx-0x%lx after 0x%lx", start_,
				  end, last);
			last = end;
		}
	}
	stop = true;
	join(t);
}

void *changer(void *arg)
{
	volatile bool *stop = arg;

	pin(1);
	while (!*stop) {
		char *p = map(64 * P, RW, ANON);

		for (int i = 0; i < 64; i += 2) {
			p[i * P] = 1;
			mprotect(p + i * P, P, PROT_READ);
		}
		unmap(p + 10 * P, 20 * P);
		unmap(p, 64 * P);
	}
	return NULL;
}
