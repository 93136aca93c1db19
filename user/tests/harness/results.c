/* Results: what a test's checks found, and how it is said. */
#include "internal.h"

int skip_fd = -1;
volatile int test_failed;

static void write_all(int fd, const char *s, size_t n)
{
	while (n) {
		ssize_t w = write(fd, s, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return;
		s += w;
		n -= w;
	}
}

void say(const char *fmt, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	write_all(1, line, n < (int)sizeof(line) ? (size_t)n : sizeof(line) - 1);
}

static void vdiag(const char *prefix, const char *fmt, va_list ap)
{
	char line[512];
	int saved = errno;
	int n = snprintf(line, sizeof(line) - 1, "# %s", prefix);

	n += vsnprintf(line + n, sizeof(line) - 1 - n, fmt, ap);
	if (n > (int)sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	write_all(1, line, n);
	errno = saved;
}

void diag(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vdiag("", fmt, ap);
	va_end(ap);
}

void fail_at(const char *file, int line, const char *fmt, ...)
{
	char prefix[64];
	va_list ap;
	const char *base = strrchr(file, '/');

	/* A check in a loop that always fails would drown the log. */
	int before = __atomic_fetch_add(&test_failed, 1, __ATOMIC_RELAXED);
	if (before >= 8) {
		if (before == 8)
			diag("(more failures not shown)");
		return;
	}
	snprintf(prefix, sizeof(prefix), "%s:%d: ", base ? base + 1 : file, line);
	va_start(ap, fmt);
	vdiag(prefix, fmt, ap);
	va_end(ap);
}

void skip(const char *fmt, ...)
{
	char reason[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
	if (test_failed)
		done();
	write_all(skip_fd, reason, strlen(reason));
	_exit(SKIPPED);
}

void done(void)
{
	_exit(test_failed ? 1 : 0);
}

const char *errno_name(int e)
{
	static const char *const names[] = {
#define N(x) [x] = #x
		N(EPERM),      N(ENOENT),    N(ESRCH),      N(EINTR),  N(EIO),     N(ENXIO),
		N(E2BIG),      N(ENOEXEC),   N(EBADF),      N(ECHILD), N(EAGAIN),  N(ENOMEM),
		N(EACCES),     N(EFAULT),    N(ENOTBLK),    N(EBUSY),  N(EEXIST),  N(EXDEV),
		N(ENODEV),     N(ENOTDIR),   N(EISDIR),     N(EINVAL), N(ENFILE),  N(EMFILE),
		N(ENOTTY),     N(ETXTBSY),   N(EFBIG),      N(ENOSPC), N(ESPIPE),  N(EROFS),
		N(EMLINK),     N(EPIPE),     N(EDOM),       N(ERANGE), N(EDEADLK), N(ENAMETOOLONG),
		N(ENOLCK),     N(ENOSYS),    N(ENOTEMPTY),  N(ELOOP),  N(EIDRM),   N(EOVERFLOW),
		N(EOPNOTSUPP), N(ETIMEDOUT), N(EOWNERDEAD),
#undef N
	};
	static __thread char other[16];

	if (e == 0)
		return "no error";
	if (e > 0 && e < (int)ARRAY_SIZE(names) && names[e])
		return names[e];
	snprintf(other, sizeof(other), "errno %d", e);
	return other;
}
