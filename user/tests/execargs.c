/*
 * execve: bad argument pointers, sizes and limits, what arrives in the new program, what the old
 * one keeps after a failure. known-bugs: ST-02.
 */
#include "harness.h"

#include <elf.h>
#include <sys/auxv.h>

extern char **environ;

/* ---- the program that is executed ------------------------------------------------------- */

static unsigned long checksum(char **v)
{
	unsigned long sum = 5381, n = 0;

	for (; *v; v++, n++)
		for (const char *c = *v;; c++) {
			sum = sum * 33 + (unsigned char)*c;
			if (!*c)
				break;
		}
	return sum + n;
}

/*
 * "sum A E": are the checksums of the remaining arguments and of the environment these? "auxv": the
 * vector is sane.
 */
int exec_main(int argc, char **argv)
{
	test_failed = 0;
	if (argc >= 3 && !strcmp(argv[0], "sum")) {
		CHECK_MSG(checksum(argv + 3) == strtoul(argv[1], NULL, 16), "the arguments differ");
		CHECK_MSG(checksum(environ) == strtoul(argv[2], NULL, 16),
			  "the environment differs");
	} else if (argc >= 1 && !strcmp(argv[0], "auxv")) {
		const unsigned char *random = (const unsigned char *)getauxval(AT_RANDOM);
		extern char __ehdr_start[];
		const Elf64_Ehdr *ehdr = (const Elf64_Ehdr *)__ehdr_start;
		unsigned sum = 0;

		CHECK_EQ(getauxval(AT_PAGESZ), P);
		CHECK_EQ(getauxval(AT_PHENT), sizeof(Elf64_Phdr));
		CHECK_EQ(getauxval(AT_PHNUM), ehdr->e_phnum);
		CHECK_EQ(getauxval(AT_PHDR), (long)__ehdr_start + (long)ehdr->e_phoff);
		CHECK_EQ(getauxval(AT_UID), 0);
		CHECK_EQ(getauxval(AT_SECURE), 0);
		CHECK_EQ(getauxval(AT_CLKTCK), 100);
		CHECK(getauxval(AT_ENTRY) != 0);
		CHECK(random != NULL);
		for (int i = 0; random && i < 16; i++)
			sum |= random[i];
		CHECK(sum != 0);
		CHECK(getauxval(AT_EXECFN) && strstr((char *)getauxval(AT_EXECFN), "exe"));
		CHECK_EQ((uintptr_t)__builtin_frame_address(0) % 16, 0);
	} else if (argc >= 2 && !strcmp(argv[0], "fds")) {
		int kept = atoi(argv[1]), closed = kept + 1;

		CHECK(fcntl(kept, F_GETFD) == 0);
		CHECK_ERR(fcntl(closed, F_GETFD), EBADF);
	} else if (argc >= 1 && !strcmp(argv[0], "signals")) {
		struct sigaction sa;
		sigset_t set;
		stack_t ss;

		sigaction(SIGUSR1, NULL, &sa);
		CHECK(sa.sa_handler == SIG_DFL); /* was caught */
		sigaction(SIGUSR2, NULL, &sa);
		CHECK(sa.sa_handler == SIG_IGN); /* was ignored */
		sigprocmask(SIG_BLOCK, NULL, &set);
		CHECK(sigismember(&set, SIGHUP)); /* was blocked */
		CHECK(!sigismember(&set, SIGUSR1));
		sigpending(&set);
		CHECK(sigaltstack(NULL, &ss) == 0 && (ss.ss_flags & SS_DISABLE));
	} else if (argc >= 1 && !strcmp(argv[0], "fresh")) {
		static char bss[3 * P];

		CHECK_FAULT(loads((char *)ZONE), SIGSEGV, SEGV_MAPERR_, ZONE);
		for (size_t i = 0; i < sizeof(bss); i++)
			if (bss[i]) {
				FAIL("bss is not zero");
				break;
			}
		CHECK_EQ(field("/proc/self/status", "Threads"), 1);
	} else {
		return argc;
	}
	return test_failed != 0;
}

/* Executes "sum" with these; what it finds is this test's result. */
static void check_delivery(char **args, int n, char **env)
{
	char a[32], e[32];
	char **argv = calloc(n + 6, sizeof(char *));

	snprintf(a, sizeof(a), "%lx", checksum(args));
	snprintf(e, sizeof(e), "%lx", checksum(env));
	argv[0] = "test", argv[1] = "--exec", argv[2] = "sum", argv[3] = a, argv[4] = e;
	memcpy(argv + 5, args, n * sizeof(char *));
	pid_t pid = xfork();
	if (pid == 0) {
		execve("/proc/self/exe", argv, env);
		FAIL("execve: %s", errno_name(errno));
		done();
	}
	join_child(pid);
	free(argv);
}

static void run_self(const char *what, const char *arg)
{
	pid_t pid = xfork();

	if (pid == 0) {
		self_exec(what, arg, NULL);
		FAIL("execve: %s", errno_name(errno));
		done();
	}
	join_child(pid);
}

/* ---- ST-02 ------------------------------------------------------------------------------ */

TEST(bad_pointers, "ST-02 argument vectors that cannot be read")
{
	char *page = map(2 * P, RW, ANON);
	static char exe[] = "/proc/self/exe";
	char *good[] = { "test", "--exec", "0", NULL }, *empty[] = { NULL };

	unmap(page + P, P);
	for (long i = 0; go_on(i, 20); i++) {
		char *bad_entry[] = { "test", (char *)ZONE, NULL },
		     *kernel_entry[] = { "t", (char *)(1UL << 63), NULL };
		char **last = (char **)(page + P - 8);

		CHECK_ERR(execve(exe, (char **)ZONE, empty), EFAULT);
		CHECK_ERR(execve(exe, good, (char **)ZONE), EFAULT);
		CHECK_ERR(execve(exe, bad_entry, empty), EFAULT);
		CHECK_ERR(execve(exe, good, bad_entry), EFAULT);
		CHECK_ERR(execve(exe, kernel_entry, empty), EFAULT);
		CHECK_ERR(execve(exe, (char **)0xffffffff81000000, empty), EFAULT);
		/* An array whose end lies in the hole; a string without end before it. */
		*last = "x";
		CHECK_ERR(execve(exe, last, empty), EFAULT);
		memset(page + P - 16, 'u', 16);
		char *endless[] = { "test", page + P - 16, NULL };
		CHECK_ERR(execve(exe, endless, empty), EFAULT);
		CHECK_ERR(execve(page + P - 16, good, empty), EFAULT);
	}
	/* Just not over the edge. */
	page[P - 1] = 0;
	strcpy(page + P - 3, "ok");
	char *edge[] = { page + P - 3, NULL };
	check_delivery(edge, 1, edge);
}

TEST(bad_files, "ST-02 files that are no programs")
{
	char *argv[] = { "x", NULL };
	const char *path = scratch("program");
	int fd;

	CHECK_ERR(execve("/no/such/file", argv, argv), ENOENT);
	CHECK_ERR(execve("", argv, argv), ENOENT);
	CHECK_ERR(execve("/", argv, argv), EACCES);
	CHECK_ERR(execve("/dev/null", argv, argv), EACCES);

	fd = NEED_OK(open(path, O_RDWR | O_CREAT | O_TRUNC, 0600));
	NEED(write(fd, "hello, world: no program", 24) == 24);
	close(fd);
	CHECK_ERR(execve(path, argv, argv), EACCES);
	NEED(chmod(path, 0700) == 0);
	CHECK_ERR(execve(path, argv, argv), ENOEXEC);
	NEED(truncate(path, 0) == 0);
	CHECK_ERR(execve(path, argv, argv), ENOEXEC);

	/* ELF headers with one thing wrong. */
	Elf64_Ehdr good = {
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_EXEC,
		.e_machine = EM_X86_64,
		.e_version = 1,
		.e_entry = 0x400000,
		.e_phoff = sizeof(Elf64_Ehdr),
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 1,
	};
	for (int i = 0; i < 6; i++) {
		Elf64_Ehdr h = good;

		switch (i) {
		case 0: h.e_machine = EM_ARM; break;
		case 1: h.e_phentsize = 1; break;
		case 2: h.e_phoff = 1UL << 62; break;
		case 3: h.e_type = ET_REL; break;
		case 4: h.e_phnum = 0; break;
		case 5: h.e_phnum = 65535; break;
		}
		fd = NEED_OK(open(path, O_RDWR | O_TRUNC));
		NEED(write(fd, &h, sizeof(h)) == sizeof(h));
		close(fd);
		errno = 0;
		pid_t pid = xfork();
		if (pid == 0) {
			execve(path, argv, argv);
			_exit(100 + (errno & 127) % 100);
		}
		int status = wait_raw(pid);
		/* Refused before the point of no return, or killed after it. */
		CHECK_MSG(WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) >= 100),
			  "case %d: wait status 0x%x", i, status);
	}
	unlink(path);
}

TEST(bad_segments, "ST-02 program headers that point anywhere")
{
	const char *path = scratch("segments");
	struct {
		Elf64_Ehdr h;
		Elf64_Phdr p[2];
		char code[64];
	} image;
	static const struct {
		unsigned long vaddr, off, filesz, memsz;
	} bad[] = {
		{ 0xffffffff80000000, 0, 200, 200 }, { 0x7ffffffff000, 0, 200, 200 },
		{ 0x400000, 1UL << 62, 200, 200 },   { 0x400000, 0, 200, 1UL << 47 },
		{ 0x400000, 0, 300, 200 },           { 0x400000, 0, 200, -1UL },
		{ 0x400123, 0, 200, 200 },           { 0x400000, 0, 1UL << 40, 1UL << 40 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		memset(&image, 0, sizeof(image));
		image.h = (Elf64_Ehdr){
			.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			.e_type = ET_EXEC,
			.e_machine = EM_X86_64,
			.e_version = 1,
			.e_entry = 0x400000 + 176,
			.e_phoff = 64,
			.e_ehsize = 64,
			.e_phentsize = 56,
			.e_phnum = 1,
		};
		image.p[0] = (Elf64_Phdr){
			.p_type = PT_LOAD,
			.p_flags = PF_R | PF_X,
			.p_offset = bad[i].off,
			.p_vaddr = bad[i].vaddr,
			.p_filesz = bad[i].filesz,
			.p_memsz = bad[i].memsz,
			.p_align = P,
		};
		int fd = NEED_OK(open(path, O_RDWR | O_CREAT | O_TRUNC, 0700));
		NEED(write(fd, &image, sizeof(image)) == sizeof(image));
		close(fd);
		pid_t pid = xfork();
		if (pid == 0) {
			char *argv[] = { "x", NULL };

			execve(path, argv, argv);
			_exit(100);
		}
		int status = wait_raw(pid);
		CHECK_MSG(WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 100),
			  "case %zu: wait status 0x%x", i, status);
		unlink(path);
	}
}

TEST(tiny_program, "ST-02 a program of one page, with a bss behind it")
{
	const char *path = scratch("tiny");
	struct {
		Elf64_Ehdr h;
		Elf64_Phdr p[1];
		unsigned char code[64];
	} image = {
		.h = {
			.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			.e_type = ET_EXEC,
			.e_machine = EM_X86_64,
			.e_version = 1,
			.e_entry = 0x400000 + 120,
			.e_phoff = 64,
			.e_ehsize = 64,
			.e_phentsize = 56,
			.e_phnum = 1,
		},
		.p = { {
			.p_type = PT_LOAD,
			.p_flags = PF_R | PF_W | PF_X,
			.p_vaddr = 0x400000,
			.p_filesz = 184,
			.p_memsz = 0x3000,
			.p_align = P,
		} },
		/*
		 * exit_group(33), if the bss is zero, both in the file's last page and beyond it:
		 * mov edi, [0x402ff8]; add edi, [0x4000b8]; add edi, 33; mov eax, 231; syscall
		 */
		.code = { 0x8b, 0x3c, 0x25, 0xf8, 0x2f, 0x40, 0x00, /* mov */
			  0x03, 0x3c, 0x25, 0xb8, 0x00, 0x40, 0x00, /* add */
			  0x83, 0xc7, 33, 0xb8, 231, 0, 0, 0, 0x0f, 0x05 },
	};
	int fd = NEED_OK(open(path, O_RDWR | O_CREAT | O_TRUNC, 0700));

	NEED(write(fd, &image, 184) == 184);
	NEED(write(fd, "garbage after the end of the segment", 36) == 36);
	close(fd);
	pid_t pid = xfork();
	if (pid == 0) {
		char *argv[] = { "tiny", NULL };

		execve(path, argv, argv);
		FAIL("execve: %s", errno_name(errno));
		done();
	}
	int status = wait_raw(pid);
	CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 33, "wait status 0x%x", status);
	unlink(path);
}

TEST(sizes, "ST-02 arguments and environment of many sizes arrive exactly", .seconds = 60)
{
	static const size_t sizes[] = { 0, 1, 7, 4000, 4095, 4096, 4097, 65536, 131071 };
	char *one[2] = { NULL }, *env[3] = { NULL };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		one[0] = malloc(sizes[i] + 1);
		memset(one[0], 'a' + i, sizes[i]);
		one[0][sizes[i]] = 0;
		env[0] = one[0];
		env[1] = i % 2 ? "SHORT=1" : NULL;
		check_delivery(one, 1, env);
		free(one[0]);
	}
	enum { N = 5000 };
	char **many = calloc(N + 1, sizeof(char *));
	for (int i = 0; i < N; i++)
		asprintf(&many[i], "argument-%d", i);
	check_delivery(many, N, env + 2);
	char **env_many = many + N - 1000;
	check_delivery(one + 1, 0, env_many);
}

TEST(too_big, "ST-02 arguments beyond the limits give E2BIG", .seconds = 60)
{
	char *empty[] = { NULL };
	size_t n = 128 * 1024;
	char *big = malloc(n + 1);

	memset(big, 'b', n);
	big[n] = 0;
	char *one[] = { "x", big, NULL };
	CHECK_ERR(execve("/proc/self/exe", one, empty),
		  E2BIG); /* one string of 128 KiB and its end */
	CHECK_ERR(execve("/proc/self/exe", empty + 0, one), E2BIG);

	/* 1e5 pointers, long enough together to go over a quarter of the stack limit. */
	enum { N = 100000 };
	char **many = malloc((N + 1) * sizeof(char *));
	for (int i = 0; i < N; i++)
		many[i] = "forty bytes or so, to be over the limit.";
	many[N] = NULL;
	CHECK_ERR(execve("/proc/self/exe", many, empty), E2BIG);
	CHECK_ERR(execve("/proc/self/exe", one + 2, many), E2BIG);
	for (long i = 0; go_on(i, 5); i++)
		CHECK_ERR(execve("/proc/self/exe", many, many), E2BIG);
	CHECK_EQ(many[N - 1][0], 'f');
}

TEST(small_stack, "ST-02 a small stack limit bounds the arguments", .seconds = 30)
{
	pid_t pid = xfork();

	if (pid == 0) {
		struct rlimit rl = { 256 * 1024, 256 * 1024 };
		static char big[100 * 1024];
		char *empty[] = { NULL }, *args[] = { "x", "--exec", big, big, big, big, NULL };

		memset(big, 'b', sizeof(big) - 1);
		NEED(setrlimit(RLIMIT_STACK, &rl) == 0);
		CHECK_ERR(execve("/proc/self/exe", args, empty), E2BIG);
		char *small[] = { "x", "--exec", "auxv", NULL };
		execve("/proc/self/exe", small, empty);
		FAIL("execve: %s", errno_name(errno));
		done();
	}
	join_child(pid);
}

TEST(no_args, "ST-02 an empty argument vector becomes one empty argument")
{
	for (int null = 0; null < 2; null++) {
		pid_t pid = xfork();

		if (pid == 0) {
			char *empty[] = { NULL }, *env[] = { "FAULTLINE_ARGC=1", NULL };

			execve("/proc/self/exe", null ? NULL : empty, env);
			_exit(99);
		}
		int status = wait_raw(pid);
		CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 1, "wait status 0x%x",
			  status);
	}
}

TEST(auxv, "ST-02 the auxiliary vector and the stack's alignment")
{
	run_self("auxv", NULL);
}
TEST(fresh, "ST-02 nothing of the old address space is left")
{
	NEED(raw_mmap(ZONE, P, RW, SHANON | MAP_FIXED, -1, 0) == (long)ZONE);
	run_self("fresh", NULL);
}

TEST(descriptors, "ST-02 close-on-exec")
{
	int a = NEED_OK(fcntl(0, F_DUPFD, 50)), b;
	char number[16];

	NEED(fcntl(a, F_SETFD, 0) == 0);
	b = a + 1;
	NEED(dup2(a, b) == b);
	NEED(fcntl(b, F_SETFD, FD_CLOEXEC) == 0);
	snprintf(number, sizeof(number), "%d", a);
	run_self("fds", number);
	CHECK(fcntl(b, F_GETFD) == FD_CLOEXEC);
}

static void nothing(int sig)
{
	(void)sig;
}

TEST(signal_state, "ST-02 signal handlers, mask and stack across exec")
{
	static char stack[16384];
	stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };
	sigset_t set;

	signal(SIGUSR1, nothing);
	signal(SIGUSR2, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	NEED(sigaltstack(&ss, NULL) == 0);
	run_self("signals", NULL);
}

TEST(repeated, "ST-02 exec after exec", .seconds = 60)
{
	for (long i = 0; go_on(i, 60); i++)
		run_self("fresh", NULL);
}

TEST(script, "ST-02 an interpreter line")
{
	const char *path = scratch("script");
	char line[] = "#!/proc/self/exe --exec\n";
	int fd = NEED_OK(open(path, O_RDWR | O_CREAT | O_TRUNC, 0700));

	NEED(write(fd, line, strlen(line)) == (ssize_t)strlen(line));
	close(fd);
	pid_t pid = xfork();
	if (pid == 0) {
		char *argv[] = { "script", "a", "b", NULL };

		execve(path, argv, argv + 3);
		_exit(errno == ENOEXEC ? 90 : 91);
	}
	int status = wait_raw(pid);
	unlink(path);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 90)
		skip("no interpreter lines");
	CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 3, "wait status 0x%x",
		  status); /* path, a, b */
}
