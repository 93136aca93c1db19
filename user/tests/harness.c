/*
 * Runs the tests of one program: see harness.h.
 *
 * The parent allocates nothing after its warm-up, so that what the ledger shows is the kernel's
 * doing. A test's processes form one process group; when the test's own process has ended the rest
 * of the group is killed, and the ledger is read only when the group is empty.
 */
#include "harness.h"

#include <sys/prctl.h>
#include <ucontext.h>

#define SKIPPED         77
#define DEFAULT_SECONDS 30
#define TEST_NS         1200000000.0 /* see go_on() */
#define LEDGER          "/sys/kernel/mm/faultline/ledger"
#define RACEPOINTS      "/sys/kernel/mm/faultline/racepoints"
#define FAIL_NTH        "/sys/kernel/mm/faultline/fail_nth"

static struct test *tests; /* in order of line */
static int skip_fd = -1;   /* where skip() leaves its reason */
static double scale = 1;
static uint64_t test_begun;
static volatile sig_atomic_t timed_out;

volatile int test_failed;
__thread struct hit hit;
__thread sigjmp_buf *volatile try_here;

void test_register(struct test *t)
{
	struct test **at = &tests;

	while (*at && (*at)->line < t->line)
		at = &(*at)->next;
	t->next = *at;
	*at = t;
}

/* ---- results ---------------------------------------------------------------------------- */

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

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
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

/* ---- processes and threads -------------------------------------------------------------- */

pid_t xfork(void)
{
	pid_t pid = fork();

	NEED(pid >= 0);
	if (pid == 0)
		test_failed = 0;
	return pid;
}

int wait_raw(pid_t pid)
{
	int status;
	pid_t got;

	do
		got = waitpid(pid, &status, 0);
	while (got < 0 && errno == EINTR);
	if (got != pid) {
		FAIL("waitpid(%d) gave %d %s", pid, got, errno_name(errno));
		return -1;
	}
	return status;
}

void join_child_at(const char *file, int line, pid_t pid)
{
	int status = wait_raw(pid);

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return;
	if (WIFSIGNALED(status))
		fail_at(file, line, "child killed by signal %d", WTERMSIG(status));
	else
		fail_at(file, line, "child failed (wait status 0x%x)", status);
}

void self_exec(const char *arg, ...)
{
	char *argv[32] = { "test", "--exec", (char *)arg };
	va_list ap;
	int n = 3;

	va_start(ap, arg);
	while (n < 31 && argv[n - 1] && (argv[n] = va_arg(ap, char *)))
		n++;
	va_end(ap);
	execve("/proc/self/exe", argv, environ);
}

pthread_t start(void *(*fn)(void *), void *arg)
{
	pthread_t t;
	int e = pthread_create(&t, NULL, fn, arg);

	if (e) {
		FAIL("pthread_create: %s", errno_name(e));
		done();
	}
	return t;
}

void join(pthread_t t)
{
	int e = pthread_join(t, NULL);

	if (e)
		FAIL("pthread_join: %s", errno_name(e));
}

/* The set that the program started with: what unpin() goes back to, and what pin() counts in. */
static cpu_set_t all_cpus;
static int cpu_count; /* counting takes thousands of instructions, too many for a loop that spins */

int ncpus(void)
{
	return cpu_count;
}

void pin(int nth)
{
	int n = ncpus();

	nth %= n;
	for (int cpu = 0; cpu < CPUS_IN_SET; cpu++) {
		if (!CPU_ISSET(cpu, &all_cpus) || nth--)
			continue;
		cpu_set_t one;

		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		NEED(sched_setaffinity(0, sizeof(one), &one) == 0);
		return;
	}
}

void unpin(void)
{
	NEED(sched_setaffinity(0, sizeof(all_cpus), &all_cpus) == 0);
}

struct door door(void)
{
	struct door d;

	NEED(pipe(d.fd) == 0);
	return d;
}

void let(struct door d)
{
	NEED(write(d.fd[1], "x", 1) == 1);
}

void pass(struct door d)
{
	char c;
	ssize_t n;

	do
		n = read(d.fd[0], &c, 1);
	while (n < 0 && errno == EINTR);
	NEED(n == 1);
}

void meet(struct meet *m)
{
	int round = __atomic_load_n(&m->round, __ATOMIC_ACQUIRE);

	if (__atomic_add_fetch(&m->here, 1, __ATOMIC_ACQ_REL) == m->n) {
		__atomic_store_n(&m->here, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&m->round, round + 1, __ATOMIC_RELEASE);
		return;
	}
	for (int spins = 0; __atomic_load_n(&m->round, __ATOMIC_ACQUIRE) == round; spins++) {
		/*
		 * A CPU that spins for long may be what keeps an emulator from running the one it
		 * waits for.
		 */
		if (spins < 500 && ncpus() > 1)
			pause_cpu();
		else if (spins < 600)
			sched_yield();
		else
			nanosleep(&(struct timespec){ 0, 50000 }, NULL);
	}
}

bool lead(struct meet *m, bool more)
{
	m->over[(m->round + 1) & 1] = !more;
	meet(m);
	return more;
}

bool follow(struct meet *m)
{
	int next = m->round + 1;

	meet(m);
	return !m->over[next & 1];
}

/* ---- memory ----------------------------------------------------------------------------- */

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

/* ---- faults ----------------------------------------------------------------------------- */

static void on_fault(int sig, siginfo_t *info, void *uc)
{
	(void)uc;
	hit.sig = sig;
	hit.code = info->si_code;
	hit.addr = (uintptr_t)info->si_addr;
	if (!try_here) {
		diag("stray signal %d code %d at 0x%lx", hit.sig, hit.code, hit.addr);
		_exit(2);
	}
	siglongjmp(*try_here, 1);
}

void catch_faults(void)
{
	static volatile bool installed;
	static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP };

	if (installed)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		struct sigaction sa = { .sa_sigaction = on_fault,
					.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK };

		NEED(sigaction(signals[i], &sa, NULL) == 0);
	}
	installed = true;
}

bool loads(const volatile void *p)
{
	return TRY((void)*(const volatile char *)p);
}

bool stores(volatile void *p, int byte)
{
	return TRY(*(volatile char *)p = byte);
}

bool jumps(const volatile void *p)
{
	return TRY(((void (*)(void))(uintptr_t)p)());
}

void crash(void)
{
	char *volatile nowhere = (char *)8;

	*(volatile char *)nowhere = 1;
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

/* ---- time, size of runs, the kernel's debugging files ----------------------------------- */

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

void sleep_ms(long ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

long rounds(long n)
{
	long r = n * scale, least = n < 3 ? n : 3;

	return r > least ? r : least;
}

bool go_on(long i, long n)
{
	if (test_failed || i >= rounds(n))
		return false;
	if (i < 6 || (i > 64 && i % 16)) /* reading the clock takes time too */
		return true;
	return now_ns() - test_begun < TEST_NS * scale;
}

uint32_t roll(uint32_t *state)
{
	uint32_t x = *state ? *state : 2463534242U;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return *state = x;
}

bool on_faultline(void)
{
	return access("/sys/kernel/mm/faultline", F_OK) == 0;
}

bool rp_arm(const char *name, int ms)
{
	char line[80];

	snprintf(line, sizeof(line), "%s %d\n", name, ms);
	return spit(RACEPOINTS, line);
}

/* What a test has armed and nobody met is taken back after it. */
static void rp_disarm_all(void)
{
	static const char *const names[] = {
		"anon_insert", "cow",        "cow_copied", "file_copy",
		"file_insert", "fork_flush", "fork_table", "gather_flush",
		"mm_switch",   "mremap_flush", "pt_link",  "truncate",
		"walk_pinned",
	};

	if (access(RACEPOINTS, F_OK) == 0)
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			rp_arm(names[i], 0);
}

bool fail_alloc(long nth)
{
	char line[32];

	snprintf(line, sizeof(line), "%ld\n", nth);
	return spit(FAIL_NTH, line);
}

long fail_alloc_left(void)
{
	char line[32];

	return slurp(FAIL_NTH, line, sizeof(line)) > 0 ? strtol(line, NULL, 10) : -1;
}

/* ---- the ledger ------------------------------------------------------------------------- */

struct ledger {
	char text[4096];
	bool there;
};

static struct ledger before, after;

static void ledger_read(struct ledger *l)
{
	l->there = slurp(LEDGER, l->text, sizeof(l->text)) > 0;
}

/* True if equal; with `say_so` names every line that differs. */
static bool ledger_same(bool say_so)
{
	char *a = before.text, *b = after.text;
	bool same = true;

	while (*a || *b) {
		int la = strcspn(a, "\n"), lb = strcspn(b, "\n");

		if (la != lb || memcmp(a, b, la)) {
			same = false;
			if (say_so)
				diag("ledger: before '%.*s', after '%.*s'", la, a, lb, b);
		}
		a += la + (a[la] == '\n');
		b += lb + (b[lb] == '\n');
	}
	return same;
}

/*
 * What the last processes of a test left may still be on its way back when they have been reaped.
 */
static bool ledger_balanced(void)
{
	for (int try = 0;; try++) {
		ledger_read(&after);
		if (!before.there || ledger_same(try == 5))
			return true;
		if (try == 5)
			return false;
		sleep_ms(20);
	}
}

/* ---- running ---------------------------------------------------------------------------- */

static volatile pid_t running;

static void on_alarm(int sig)
{
	(void)sig;
	timed_out = 1;
	if (running > 0) {
		kill(-running, SIGKILL);
		kill(running, SIGKILL);
	}
}

static void set_alarm(int seconds)
{
	struct itimerval it = { .it_value.tv_sec = seconds };

	setitimer(ITIMER_REAL, &it, NULL);
}

/* Ends what is left of the test's process group; false if something does not die. */
static bool clear_group(pid_t group)
{
	for (int try = 0; try < 300; try++) {
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (kill(-group, SIGKILL) < 0 && errno == ESRCH)
			return true;
		sleep_ms(try < 100 ? 1 : 20);
	}
	return false;
}

/* Runs one test to its end. 0 passed, 1 failed, SKIPPED with the reason in buf. */
static int run_one(struct test *t, char *reason, size_t size)
{
	int fd[2], status = 0;
	pid_t got;

	if (pipe(fd) < 0)
		return 1;
	timed_out = 0;
	pid_t pid = fork();

	if (pid == 0) {
		setpgid(0, 0);
		close(fd[0]);
		skip_fd = fd[1];
		test_begun = now_ns();
		t->run();
		done();
	}
	if (pid < 0) {
		diag("fork: %s", errno_name(errno));
		return 1;
	}
	setpgid(pid, pid);
	running = pid;
	set_alarm(t->seconds ? t->seconds : DEFAULT_SECONDS);
	/*
	 * SIGKILL follows at the alarm; a process that even that does not end must not hang the
	 * whole run.
	 */
	do
		got = waitpid(pid, &status, timed_out ? WNOHANG : 0);
	while ((got < 0 && errno == EINTR) ||
	       (got == 0 && timed_out++ < 100 && (sleep_ms(20), true)));
	set_alarm(0);
	running = 0;
	bool cleared = clear_group(pid);

	rp_disarm_all();
	close(fd[1]);
	fcntl(fd[0], F_SETFL, O_NONBLOCK); /* what would not die may hold the other end */
	ssize_t n = read(fd[0], reason, size - 1);
	reason[n > 0 ? n : 0] = 0;
	close(fd[0]);

	if (got != pid) {
		diag("hang: still running after %d s, and SIGKILL does not end it",
		     t->seconds ? t->seconds : DEFAULT_SECONDS);
		return 1;
	}
	if (timed_out) {
		diag("hang: killed after %d s", t->seconds ? t->seconds : DEFAULT_SECONDS);
		return 1;
	}
	if (WIFSIGNALED(status)) {
		diag("killed by signal %d", WTERMSIG(status));
		return 1;
	}
	if (!cleared) {
		diag("processes of the test are left that SIGKILL does not end");
		return 1;
	}
	return WEXITSTATUS(status);
}

/* Makes the kernel create what it creates once: caches, per-CPU lists, the tmpfs directories. */
static void *warm_thread(void *arg)
{
	pin((int)(intptr_t)arg);
	memset(map(64 * P, RW, ANON), 1, 64 * P);
	return NULL;
}

static void warm_up(void)
{
	int fd = tmpfile_fd(8 * P), pipes[2];
	char *m = map_fd(8 * P, RW, MAP_SHARED, fd, 0);
	int n = ncpus() < 16 ? ncpus() : 16;
	pthread_t t[16];

	memset(m, 1, 8 * P);
	for (int i = 0; i < n; i++)
		t[i] = start(warm_thread, (void *)(intptr_t)i);
	for (int i = 0; i < n; i++)
		join(t[i]);
	loads(NULL);
	NEED(pipe(pipes) == 0 && write(pipes[1], m, P) == (ssize_t)P);
	pid_t pid = xfork();

	if (pid == 0) {
		m[0] = 2;
		done();
	}
	join_child(pid);
	sleep_ms(1);
}

static struct test warm_up_test = { .title = "warm-up", .run = warm_up };

int main(int argc, char **argv)
{
	const char *pattern = "", *env = getenv("FAULTLINE_SCALE");
	char reason[256];
	int opt, count = 0, number = 0, failed = 0;
	bool list = false, show_time = false;

	if (argc > 1 && !strcmp(argv[1], "--exec"))
		return exec_main ? exec_main(argc - 2, argv + 2) : argc > 2 ? atoi(argv[2]) : 0;
	if (getenv("FAULTLINE_ARGC")) /* executed without arguments, by a test of just that */
		return argc;
	if (env)
		scale = strtod(env, NULL);
	while ((opt = getopt(argc, argv, "s:lt")) != -1) {
		if (opt == 's')
			scale = strtod(optarg, NULL);
		else if (opt == 'l')
			list = true;
		else if (opt == 't')
			show_time = true;
		else
			return 2;
	}
	if (optind < argc)
		pattern = argv[optind];
	if (scale <= 0)
		scale = 1;
	if (sched_getaffinity(0, sizeof(all_cpus), &all_cpus) < 0 ||
	    (cpu_count = CPU_COUNT(&all_cpus)) == 0) {
		say("Bail out! sched_getaffinity: %s\n", errno_name(errno));
		return 2;
	}
	for (struct test *t = tests; t; t = t->next) {
		count += strstr(t->title, pattern) != NULL;
		if (list)
			say("%s\n", t->title);
	}
	if (list)
		return 0;

	struct sigaction sa = { .sa_handler = on_alarm };

	sigaction(SIGALRM, &sa, NULL);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	say("KTAP version 1\n1..%d\n", count);
	if (run_one(&warm_up_test, reason, sizeof(reason)) != 0)
		diag("the warm-up failed");
	/* The buffers are touched before anything counts. */
	ledger_read(&before);
	ledger_read(&after);

	for (struct test *t = tests; t; t = t->next) {
		int result;

		if (!strstr(t->title, pattern))
			continue;
		number++;
		if (t->cpus > ncpus()) {
			say("ok %d %s # SKIP needs %d CPUs\n", number, t->title, t->cpus);
			continue;
		}
		ledger_read(&before);
		uint64_t begun = now_ns();
		result = run_one(t, reason, sizeof(reason));
		if (show_time)
			diag("%lu ms", (now_ns() - begun) / 1000000);
		if (!t->no_ledger && !ledger_balanced())
			result = 1;
		if (result == SKIPPED)
			say("ok %d %s # SKIP %s\n", number, t->title, reason);
		else
			say("%sok %d %s\n", result ? "not " : "", number, t->title);
		failed += result != 0 && result != SKIPPED;
	}
	return failed != 0;
}
