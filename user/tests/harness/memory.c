/* Memory: mapped by tests, and what the kernel says about it in /proc. */
#include "internal.h"

void *map_fd(size_t len, int prot, int flags, int fd, off_t off)
{
	void *p = mmap(NULL, len, prot, flags, fd, off);

	NEED(p != MAP_FAILED);
	return p;
}

void *map(size_t len, int prot, int flags)
{
	return map_fd(len, prot, flags, -1, 0);
}

void *reserve(size_t len, size_t align)
{
	char *p = map(len + align, PROT_NONE, ANON | MAP_NORESERVE);
	char *at = (char *)(((uintptr_t)p + align - 1) & ~(align - 1));

	if (at > p)
		unmap(p, at - p);
	if (at < p + align)
		unmap(at + len, p + align - at);
	return at;
}

void unmap(void *p, size_t len)
{
	NEED(munmap(p, len) == 0);
}

const char *scratch(const char *name)
{
	static char path[128];
	static const char *dir;

	if (!dir)
		dir = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	snprintf(path, sizeof(path), "%s/flt-%d-%s", dir, getpid(), name);
	return path;
}

int tmpfile_fd(off_t size)
{
	int fd = syscall(SYS_memfd_create, "test", 0);

	if (fd < 0 && errno == ENOSYS) {
		const char *path = scratch("tmpfile");

		fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
		NEED(fd >= 0);
		NEED(unlink(path) == 0);
	}
	NEED(fd >= 0);
	NEED(ftruncate(fd, size) == 0);
	return fd;
}

long raw_mmap(unsigned long addr, unsigned long len, int prot, int flags, int fd, unsigned long off)
{
	return syscall(SYS_mmap, addr, len, prot, flags, fd, off);
}

long raw_munmap(unsigned long addr, unsigned long len)
{
	return syscall(SYS_munmap, addr, len);
}

long raw_mprotect(unsigned long addr, unsigned long len, unsigned long prot)
{
	return syscall(SYS_mprotect, addr, len, prot);
}

long raw_madvise(unsigned long addr, unsigned long len, int advice)
{
	return syscall(SYS_madvise, addr, len, advice);
}

long raw_mremap(unsigned long old, unsigned long oldlen, unsigned long len, int flags,
		unsigned long to)
{
	return syscall(SYS_mremap, old, oldlen, len, flags, to);
}

unsigned long raw_brk(unsigned long to)
{
	return syscall(SYS_brk, to);
}

/* ---- what the kernel says about memory -------------------------------------------------- */

long slurp(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t n = 0;

	if (fd < 0)
		return -1;
	while (n < size - 1) {
		ssize_t r = read(fd, buf + n, size - 1 - n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			break;
		n += r;
	}
	buf[n] = 0;
	close(fd);
	return n;
}

bool spit(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	ssize_t n = write(fd, text, strlen(text));
	int saved = errno;

	close(fd);
	errno = saved;
	return n == (ssize_t)strlen(text);
}

static char text[2 << 20];

long field(const char *path, const char *name)
{
	size_t len = strlen(name);

	if (slurp(path, text, sizeof(text)) < 0)
		return -1;
	for (char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL)
		if (!strncmp(line, name, len) && (line[len] == ':' || line[len] == ' '))
			return strtol(line + len + 1, NULL, 10);
	return -1;
}

static bool area_line(const char *line, struct area *a)
{
	int at = 0;

	*a = (struct area){ 0 };
	if (sscanf(line, "%lx-%lx %4s %lx %*s %*s%n", &a->start, &a->end, a->prot, &a->off, &at) <
		    4 ||
	    !at)
		return false;
	line += at + strspn(line + at, " ");
	snprintf(a->name, sizeof(a->name), "%.*s", (int)strcspn(line, "\n"), line);
	return true;
}

/* Calls fn on every line of /proc/self/maps or smaps until it says true. */
static bool each_line(const char *path, bool (*fn)(const char *, void *), void *arg)
{
	NEED(slurp(path, text, sizeof(text)) > 0);
	for (char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL)
		if (fn(line, arg))
			return true;
	return false;
}

struct area_query {
	unsigned long start, end;
	const char *name;
	struct area found;
	int count;
	bool inside;
	long value;
};

static bool area_holds(const char *line, void *arg)
{
	struct area_query *q = arg;

	return area_line(line, &q->found) && q->found.start <= q->start && q->start < q->found.end;
}

bool area_of(const void *p, struct area *a)
{
	struct area_query q = { .start = (unsigned long)p };
	bool found = each_line("/proc/self/maps", area_holds, &q);

	*a = q.found;
	return found;
}

static bool area_counts(const char *line, void *arg)
{
	struct area_query *q = arg;

	q->count +=
		area_line(line, &q->found) && q->found.start < q->end && q->start < q->found.end;
	return false;
}

int areas_in(const void *p, size_t len)
{
	struct area_query q = { .start = (unsigned long)p, .end = (unsigned long)p + len };

	each_line("/proc/self/maps", area_counts, &q);
	return q.count;
}

static bool smaps_line(const char *line, void *arg)
{
	struct area_query *q = arg;
	size_t len = strlen(q->name);
	struct area a;

	if (area_line(line, &a)) {
		q->inside = a.start <= q->start && q->start < a.end;
		return false;
	}
	if (!q->inside || strncmp(line, q->name, len) || line[len] != ':')
		return false;
	q->value = strtol(line + len + 1, NULL, 10);
	return true;
}

long smaps_kb(const void *p, const char *name)
{
	struct area_query q = { .start = (unsigned long)p, .name = name, .value = -1 };

	each_line("/proc/self/smaps", smaps_line, &q);
	return q.value;
}

uint64_t pagemap(const void *p)
{
	uint64_t entry = ~0ULL;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	NEED(fd >= 0);
	if (pread(fd, &entry, 8, (uintptr_t)p / P * 8) != 8)
		FAIL("pagemap of %p cannot be read: %s", p, errno_name(errno));
	close(fd);
	return entry;
}

bool resident(const void *p)
{
	unsigned char vec = 0;

	NEED(mincore((void *)((uintptr_t)p & ~(P - 1)), P, &vec) == 0);
	return vec & 1;
}

long thread_faults(void)
{
	struct rusage ru;

	NEED(getrusage(RUSAGE_THREAD, &ru) == 0);
	return ru.ru_minflt;
}
