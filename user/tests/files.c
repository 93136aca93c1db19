/*
 * Files on tmpfs: opening, offsets, sizes, names, directories, links, descriptors, sendfile.
 */
#include "harness.h"

#include <dirent.h>
#include <sys/sendfile.h>
#include <sys/statfs.h>
#include <sys/uio.h>

static char dir[128];

/* A directory for this test, which becomes the current one. */
static void enter(void)
{
	strcpy(dir, scratch("dir"));
	NEED(mkdir(dir, 0755) == 0);
	NEED(chdir(dir) == 0);
}

/* Everything in it has been removed by the test itself. */
static void leave(void)
{
	NEED(chdir("/") == 0);
	CHECK_EQ(rmdir(dir), 0);
}

static void put(const char *name, const char *text)
{
	int fd = NEED_OK(open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644));

	NEED(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static void expect(const char *name, const char *text)
{
	char buf[256];

	if (slurp(name, buf, sizeof(buf)) < 0)
		FAIL("%s: %s", name, errno_name(errno));
	else
		CHECK_MSG(!strcmp(buf, text), "%s holds '%s', expected '%s'", name, buf, text);
}

TEST(opening, "FS open: flags and errors")
{
	enter();
	CHECK_ERR(open("none", O_RDONLY), ENOENT);
	CHECK_ERR(open("none/below", O_RDWR | O_CREAT, 0600), ENOENT);
	CHECK_ERR(open("", O_RDONLY), ENOENT);
	int fd = NEED_OK(open("f", O_RDWR | O_CREAT | O_EXCL, 0640));
	CHECK_ERR(open("f", O_RDWR | O_CREAT | O_EXCL, 0640), EEXIST);
	CHECK_EQ(write(fd, "0123456789", 10), 10);
	int app = NEED_OK(open("f", O_WRONLY | O_APPEND));
	CHECK_EQ(lseek(app, 2, SEEK_SET), 2);
	CHECK_EQ(write(app, "AB", 2), 2);
	CHECK_EQ(lseek(app, 0, SEEK_CUR), 12);
	expect("f", "0123456789AB");
	CHECK_ERR(read(app, dir, 1), EBADF);
	int ro = NEED_OK(open("f", O_RDONLY));
	CHECK_ERR(write(ro, "x", 1), EBADF);
	int tr = NEED_OK(open("f", O_RDWR | O_TRUNC));
	CHECK_EQ(lseek(tr, 0, SEEK_END), 0);
	CHECK_ERR(open("f/", O_RDONLY), ENOTDIR);
	CHECK_ERR(open("f/below", O_RDONLY), ENOTDIR);
	CHECK_ERR(open("f", O_RDONLY | O_DIRECTORY), ENOTDIR);
	CHECK_ERR(open(".", O_RDWR), EISDIR);
	CHECK_ERR(open(".", O_WRONLY | O_CREAT, 0600), EISDIR);
	int d = NEED_OK(open(".", O_RDONLY | O_DIRECTORY));
	CHECK_ERR(read(d, dir + 100, 1), EISDIR);
	char longname[300];
	memset(longname, 'n', 299);
	longname[299] = 0;
	CHECK_ERR(open(longname, O_RDONLY | O_CREAT, 0600), ENAMETOOLONG);
	char longpath[5000];
	for (int i = 0; i < 4998; i += 2)
		memcpy(longpath + i, "./", 2);
	strcpy(longpath + 4996, "f");
	CHECK_ERR(open(longpath, O_RDONLY), ENAMETOOLONG);
	CHECK_OK(openat(d, "f", O_RDONLY));
	CHECK_ERR(openat(999, "f", O_RDONLY), EBADF);
	CHECK_ERR(openat(ro, "f", O_RDONLY), ENOTDIR);
	CHECK_EQ(unlinkat(d, "f", 0), 0);
	CHECK_ERR(close(999), EBADF);
	CHECK_EQ(close(fd), 0);
	CHECK_ERR(close(fd), EBADF);
	leave();
}

TEST(offsets, "FS lseek, pread, pwrite, holes, vectors")
{
	int fd = tmpfile_fd(0);
	char buf[64];

	CHECK_EQ(lseek(fd, 10000, SEEK_SET), 10000);
	CHECK_EQ(write(fd, "end", 3), 3);
	struct stat st;
	CHECK_EQ(fstat(fd, &st), 0);
	CHECK_EQ(st.st_size, 10003);
	CHECK_EQ(pread(fd, buf, 8, 4092), 8);
	for (int i = 0; i < 8; i++)
		CHECK_EQ(buf[i], 0);
	CHECK_EQ(pread(fd, buf, 64, 10000), 3);
	CHECK_EQ(pread(fd, buf, 64, 10003), 0);
	CHECK_EQ(pread(fd, buf, 64, 1UL << 40), 0);
	CHECK_ERR(pread(fd, buf, 1, -1), EINVAL);
	CHECK_ERR(lseek(fd, -1, SEEK_SET), EINVAL);
	CHECK_ERR(lseek(fd, -20000, SEEK_END), EINVAL);
	CHECK_ERR(lseek(fd, 0, 99), EINVAL);
	CHECK_EQ(lseek(fd, -3, SEEK_END), 10000);
	CHECK_EQ(lseek(fd, 5, SEEK_CUR), 10005);
	CHECK_EQ(read(fd, buf, 1), 0);
	CHECK_EQ(pwrite(fd, "mid", 3, 4095), 3);
	CHECK_EQ(pread(fd, buf, 5, 4094), 5);
	CHECK(!memcmp(buf, "\0mid\0", 5));
	CHECK_EQ(lseek(fd, 0, SEEK_CUR), 10005);
	struct iovec v[2] = { { buf, 1 }, { buf + 8, 7 } };
	CHECK_EQ(lseek(fd, 4094, SEEK_SET), 4094);
	CHECK_EQ(readv(fd, v, 2), 8);
	CHECK(buf[0] == 0 && !memcmp(buf + 8, "mid\0\0\0\0", 7));
	CHECK_ERR(ftruncate(fd, -1), EINVAL);
	CHECK_EQ(ftruncate(fd, 5), 0);
	CHECK_EQ(pread(fd, buf, 64, 0), 5);
	CHECK_EQ(ftruncate(fd, 100), 0);
	CHECK_EQ(pread(fd, buf, 64, 50), 50);
}

TEST(stats, "FS stat: kinds, sizes, links, modes, times")
{
	struct stat st, other;

	enter();
	mode_t mask = umask(022);
	put("f", "12345");
	CHECK_EQ(stat("f", &st), 0);
	CHECK(S_ISREG(st.st_mode));
	CHECK_EQ(st.st_mode & 07777, 0644);
	CHECK_EQ(st.st_size, 5);
	CHECK_EQ(st.st_nlink, 1);
	CHECK_EQ(st.st_uid + st.st_gid, 0);
	CHECK(st.st_ino != 0 && st.st_blksize >= 512);
	CHECK(labs(st.st_mtime - time(NULL)) < 10);
	CHECK_EQ(link("f", "g"), 0);
	CHECK_EQ(stat("g", &other), 0);
	CHECK_EQ(other.st_ino, st.st_ino);
	CHECK_EQ(other.st_nlink, 2);
	CHECK_EQ(unlink("f"), 0);
	expect("g", "12345");
	CHECK_EQ(stat("g", &other), 0);
	CHECK_EQ(other.st_nlink, 1);
	CHECK_EQ(chmod("g", 0400), 0);
	CHECK_EQ(stat("g", &other), 0);
	CHECK_EQ(other.st_mode & 07777, 0400);
	CHECK_EQ(mkdir("d", 0777), 0);
	CHECK_EQ(stat("d", &other), 0);
	CHECK(S_ISDIR(other.st_mode));
	CHECK_EQ(other.st_mode & 0777, 0755);
	CHECK_EQ(stat("/dev/null", &other), 0);
	CHECK(S_ISCHR(other.st_mode));
	CHECK_EQ(other.st_rdev, 0x103);
	int fd[2];
	NEED(pipe(fd) == 0);
	CHECK_EQ(fstat(fd[0], &other), 0);
	CHECK(S_ISFIFO(other.st_mode));
	CHECK_ERR(stat("none", &other), ENOENT);
	CHECK_ERR(fstat(999, &other), EBADF);
	CHECK_EQ(syscall(SYS_newfstatat, AT_FDCWD, "g", &other, 0), 0);
	int g = NEED_OK(open("g", O_RDONLY));
	CHECK_EQ(syscall(SYS_newfstatat, g, "", &other, 0x1000 /* AT_EMPTY_PATH */), 0);
	CHECK_EQ(other.st_size, 5);
	CHECK_EQ(access("g", R_OK), 0);
	CHECK_ERR(access("none", F_OK), ENOENT);
	CHECK_EQ(unlink("g"), 0);
	CHECK_EQ(rmdir("d"), 0);
	umask(mask);
	leave();
}

TEST(unlinked, "FS a file unlinked while open lives until its last close")
{
	char buf[8] = "";

	enter();
	put("f", "alive");
	int fd = NEED_OK(open("f", O_RDWR));
	char *m = map_fd(P, RW, MAP_SHARED, fd, 0);
	CHECK_EQ(unlink("f"), 0);
	CHECK_ERR(open("f", O_RDONLY), ENOENT);
	CHECK_EQ(read(fd, buf, 8), 5);
	CHECK(!strcmp(buf, "alive"));
	struct stat st;
	CHECK_EQ(fstat(fd, &st), 0);
	CHECK_EQ(st.st_nlink, 0);
	put("f", "other");
	close(fd);
	CHECK(!memcmp(m, "alive", 5)); /* the mapping alone keeps it */
	expect("f", "other");
	CHECK_EQ(unlink("f"), 0);
	CHECK_ERR(unlink("f"), ENOENT);
	CHECK_ERR(unlink("/"), EISDIR);
	leave();
}

TEST(directories, "FS mkdir, rmdir, getdents64, dot and dot-dot")
{
	struct stat a, b;

	enter();
	CHECK_EQ(mkdir("d", 0755), 0);
	CHECK_ERR(mkdir("d", 0755), EEXIST);
	CHECK_ERR(mkdir("x/y", 0755), ENOENT);
	CHECK_EQ(mkdir("d/e", 0755), 0);
	CHECK_ERR(rmdir("d"), ENOTEMPTY);
	CHECK_ERR(rmdir("none"), ENOENT);
	put("f", "");
	CHECK_ERR(rmdir("f"), ENOTDIR);
	CHECK_ERR(unlink("d"), EISDIR);
	CHECK_EQ(stat("d/e/../../d/./e", &a), 0);
	CHECK_EQ(stat("d//e", &b), 0);
	CHECK_EQ(a.st_ino, b.st_ino);
	CHECK_EQ(stat("d", &a), 0);
	CHECK_EQ(a.st_nlink, 3);
	CHECK_ERR(rmdir("d/e/."), EINVAL);
	/* Many entries, read in small pieces: each exactly once. */
	static char seen[300];
	char name[32], buf[sizeof(struct dirent)];
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "d/entry-%d", i);
		put(name, "");
	}
	int fd = NEED_OK(open("d", O_RDONLY | O_DIRECTORY)), dots = 0, subdirs = 0;
	for (int pass = 0; pass < 2; pass++) {
		memset(seen, 0, sizeof(seen));
		for (long n; (n = syscall(SYS_getdents64, fd, buf, sizeof(buf))) > 0;) {
			for (long at = 0; at < n;) {
				struct dirent *e = (struct dirent *)(buf + at);
				int number;

				if (sscanf(e->d_name, "entry-%d", &number) == 1 && number >= 0 &&
				    number < 300) {
					seen[number]++;
					CHECK(e->d_type == DT_REG || e->d_type == DT_UNKNOWN);
				} else if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) {
					dots++;
				} else {
					subdirs += !strcmp(e->d_name, "e");
				}
				CHECK(e->d_reclen % 8 == 0 && e->d_reclen >= 24);
				at += e->d_reclen;
			}
		}
		for (int i = 0; i < 300; i++)
			if (seen[i] != 1)
				FAIL("entry %d was seen %d times", i, seen[i]);
		CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
	}
	CHECK_EQ(dots, 4);
	CHECK_EQ(subdirs, 2);
	CHECK_ERR(syscall(SYS_getdents64, fd, buf, 10), EINVAL);
	CHECK_ERR(syscall(SYS_getdents64, 0, buf, sizeof(buf)), ENOTDIR);
	/* Removing while reading. */
	DIR *d = opendir("d");
	struct dirent *e;
	int removed = 0;
	NEED(d != NULL);
	while ((e = readdir(d)))
		if (e->d_name[0] != '.' && strcmp(e->d_name, "e")) {
			snprintf(name, sizeof(name), "d/%.20s", e->d_name);
			removed += unlink(name) == 0;
		}
	closedir(d);
	CHECK_EQ(removed, 300);
	CHECK_EQ(rmdir("d/e"), 0);
	/* A directory removed while it is the current one. */
	pid_t pid = xfork();
	if (pid == 0) {
		char cwd[64];

		NEED(chdir("d") == 0);
		NEED(rmdir("../d") == 0);
		CHECK_ERR(open("new", O_CREAT | O_RDWR, 0600), ENOENT);
		CHECK_ERR(syscall(SYS_getcwd, cwd, sizeof(cwd)), ENOENT);
		done();
	}
	join_child(pid);
	CHECK_EQ(unlink("f"), 0);
	leave();
}

TEST(renaming, "FS rename")
{
	enter();
	put("a", "A");
	put("b", "B");
	CHECK_EQ(rename("a", "c"), 0);
	expect("c", "A");
	CHECK_ERR(open("a", O_RDONLY), ENOENT);
	int b = NEED_OK(open("b", O_RDONLY));
	CHECK_EQ(rename("c", "b"), 0); /* over another, which stays open */
	expect("b", "A");
	char c;
	CHECK_EQ(read(b, &c, 1), 1);
	CHECK_EQ(c, 'B');
	CHECK_ERR(rename("none", "x"), ENOENT);
	CHECK_EQ(rename("b", "b"), 0);
	NEED(mkdir("d", 0755) == 0 && mkdir("e", 0755) == 0 && mkdir("d/sub", 0755) == 0);
	CHECK_ERR(rename("b", "d"), EISDIR);
	CHECK_ERR(rename("d", "b"), ENOTDIR);
	CHECK_ERR(rename("d", "d/sub/x"), EINVAL);
	CHECK_ERR(rename("e", "d"), ENOTEMPTY);
	CHECK_EQ(rename("d/sub", "e"), 0); /* over an empty one */
	CHECK_EQ(rename("b", "e/b"), 0);
	expect("e/b", "A");
	CHECK_EQ(rename("e", "d/f"), 0);
	expect("d/f/b", "A");
	struct stat st, up;
	CHECK_EQ(stat("d/f/..", &up), 0);
	CHECK_EQ(stat("d", &st), 0);
	CHECK_EQ(st.st_ino, up.st_ino);
	CHECK_EQ(unlink("d/f/b"), 0);
	CHECK_EQ(rmdir("d/f"), 0);
	CHECK_EQ(rmdir("d"), 0);
	leave();
}

TEST(symlinks, "FS symbolic links")
{
	char buf[64];
	struct stat st;

	enter();
	put("f", "file");
	CHECK_EQ(symlink("f", "l"), 0);
	CHECK_ERR(symlink("f", "l"), EEXIST);
	expect("l", "file");
	CHECK_EQ(readlink("l", buf, sizeof(buf)), 1);
	CHECK_EQ(buf[0], 'f');
	CHECK_ERR(readlink("f", buf, sizeof(buf)), EINVAL);
	CHECK_ERR(syscall(SYS_readlink, "l", buf, 0), EINVAL);
	CHECK_EQ(lstat("l", &st), 0);
	CHECK(S_ISLNK(st.st_mode));
	CHECK_EQ(st.st_size, 1);
	CHECK_EQ(stat("l", &st), 0);
	CHECK(S_ISREG(st.st_mode));
	CHECK_ERR(open("l", O_RDONLY | O_NOFOLLOW), ELOOP);
	NEED(mkdir("d", 0755) == 0);
	CHECK_EQ(symlink("../f", "d/up"), 0);
	expect("d/up", "file");
	CHECK_EQ(symlink("d", "dl"), 0);
	expect("dl/up", "file");
	CHECK_EQ(symlink("nowhere", "dangling"), 0);
	CHECK_ERR(open("dangling", O_RDONLY), ENOENT);
	int fd = CHECK_OK(open("dangling", O_RDWR | O_CREAT, 0600));
	close(fd);
	CHECK_EQ(stat("nowhere", &st), 0);
	CHECK_EQ(symlink("loop2", "loop1"), 0);
	CHECK_EQ(symlink("loop1", "loop2"), 0);
	CHECK_ERR(open("loop1", O_RDONLY), ELOOP);
	CHECK_ERR(symlink("", "x"), ENOENT);
	char self[256];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	CHECK(n > 0 && self[0] == '/');
	CHECK_EQ(rename("l", "m"), 0); /* the link itself */
	expect("m", "file");
	static const char *const names[] = { "m",        "f",       "d/up",  "dl",
					     "dangling", "nowhere", "loop1", "loop2" };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		CHECK_EQ(unlink(names[i]), 0);
	CHECK_EQ(rmdir("d"), 0);
	leave();
}

TEST(descriptors, "FS dup, dup2, dup3, fcntl")
{
	int fd = tmpfile_fd(0), other = tmpfile_fd(0);

	CHECK_EQ(write(fd, "abc", 3), 3);
	int d = NEED_OK(dup(fd));
	CHECK_EQ(lseek(d, 0, SEEK_CUR), 3);
	CHECK_EQ(lseek(d, 1, SEEK_SET), 1);
	CHECK_EQ(lseek(fd, 0, SEEK_CUR), 1);
	CHECK_EQ(dup2(fd, 60), 60);
	CHECK_EQ(dup2(60, 60), 60);
	CHECK_ERR(dup2(999, 60), EBADF);
	CHECK_ERR(dup2(999, 999), EBADF);
	CHECK_ERR(dup2(fd, -1), EBADF);
	CHECK_EQ(lseek(60, 0, SEEK_CUR), 1);
	CHECK_EQ(dup2(other, 60), 60); /* closes what was there */
	CHECK_EQ(lseek(60, 0, SEEK_CUR), 0);
	CHECK_ERR(dup3(fd, fd, 0), EINVAL);
	CHECK_EQ(dup3(fd, 61, O_CLOEXEC), 61);
	CHECK_EQ(fcntl(61, F_GETFD), FD_CLOEXEC);
	CHECK_EQ(fcntl(60, F_GETFD), 0);
	CHECK_EQ(fcntl(fd, F_DUPFD, 100), 100);
	CHECK_EQ(fcntl(fd, F_DUPFD_CLOEXEC, 100), 101);
	CHECK_EQ(fcntl(101, F_GETFD), FD_CLOEXEC);
	CHECK_EQ(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDWR);
	CHECK_EQ(fcntl(fd, F_SETFL, O_APPEND | O_NONBLOCK), 0);
	CHECK_EQ(fcntl(d, F_GETFL) & (O_APPEND | O_NONBLOCK),
		 O_APPEND | O_NONBLOCK); /* of the open file */
	CHECK_ERR(fcntl(fd, 9999), EINVAL);
	CHECK_ERR(fcntl(999, F_GETFD), EBADF);
	/* The lowest number is given. */
	close(d);
	CHECK_EQ(dup(fd), d);
}

TEST(locks, "FS record locks")
{
	int fd = tmpfile_fd(100);
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 10 };

	CHECK_EQ(fcntl(fd, F_SETLK, &l), 0);
	pid_t pid = xfork();
	if (pid == 0) {
		CHECK_MSG(fcntl(fd, F_SETLK, &l) == -1 && (errno == EAGAIN || errno == EACCES),
			  "the lock was given twice");
		l.l_start = 20;
		CHECK_EQ(fcntl(fd, F_SETLK, &l), 0);
		l.l_start = 10;
		CHECK_EQ(fcntl(fd, F_SETLKW, &l), 0); /* waits for the parent */
		done();
	}
	sleep_ms(30);
	CHECK_EQ(waitpid(pid, NULL, WNOHANG), 0);
	l.l_type = F_UNLCK;
	CHECK_EQ(fcntl(fd, F_SETLK, &l), 0);
	join_child(pid);
	l.l_type = F_WRLCK;
	l.l_start = 0, l.l_len = 0;
	CHECK_EQ(fcntl(fd, F_SETLK, &l), 0); /* the child's went with it */
}

TEST(sending, "FS sendfile")
{
	int in = tmpfile_fd(0), out = tmpfile_fd(0), fd[2];
	static char buf[20000], got[20000];

	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = i * 3 + i / 4096;
	NEED(write(in, buf, sizeof(buf)) == sizeof(buf));
	off_t at = 100;
	CHECK_EQ(sendfile(out, in, &at, 9000), 9000);
	CHECK_EQ(at, 9100);
	CHECK_EQ(pread(out, got, sizeof(got), 0), 9000);
	CHECK(!memcmp(got, buf + 100, 9000));
	CHECK_EQ(lseek(in, 19000, SEEK_SET), 19000);
	CHECK_EQ(sendfile(out, in, NULL, 5000), 1000);
	CHECK_EQ(sendfile(out, in, NULL, 5000), 0);
	NEED(pipe(fd) == 0);
	at = 0;
	CHECK_EQ(sendfile(fd[1], in, &at, 5000), 5000);
	CHECK_EQ(read(fd[0], got, 5000), 5000);
	CHECK(!memcmp(got, buf, 5000));
	CHECK_ERR(sendfile(out, 999, NULL, 1), EBADF);
	at = -1;
	CHECK_ERR(sendfile(out, in, &at, 1), EINVAL);
}

TEST(devices, "FS the devices that every program expects")
{
	char buf[64];
	int fd = NEED_OK(open("/dev/null", O_RDWR));

	CHECK_EQ(read(fd, buf, 8), 0);
	CHECK_EQ(write(fd, buf, 8), 8);
	fd = NEED_OK(open("/dev/zero", O_RDWR));
	memset(buf, 1, 64);
	CHECK_EQ(read(fd, buf, 64), 64);
	CHECK(buf[0] == 0 && buf[63] == 0);
	CHECK_EQ(write(fd, buf, 8), 8);
	fd = NEED_OK(open("/dev/full", O_RDWR));
	CHECK_EQ(read(fd, buf, 8), 8);
	CHECK_ERR(write(fd, buf, 8), ENOSPC);
	fd = NEED_OK(open("/dev/urandom", O_RDONLY));
	char again[64];
	CHECK_EQ(read(fd, buf, 64), 64);
	CHECK_EQ(read(fd, again, 64), 64);
	CHECK(memcmp(buf, again, 64) != 0);
	CHECK_EQ(syscall(SYS_getrandom, again, 64, 0), 64);
	CHECK(memcmp(buf, again, 64) != 0);
	CHECK_ERR(syscall(SYS_getrandom, again, 64, 0x80), EINVAL);
	CHECK_ERR(open("/dev/none", O_RDWR), ENOENT);
}

TEST(big, "FS a large file, written and read in odd pieces", .seconds = 40)
{
	int fd = tmpfile_fd(0);
	size_t len = rounds(400) * 1000, done_ = 0;
	uint32_t seed = 4;
	static unsigned char buf[30000];

	while (done_ < len) {
		size_t n = 1 + roll(&seed) % sizeof(buf);

		n = n < len - done_ ? n : len - done_;
		for (size_t i = 0; i < n; i++)
			buf[i] = (done_ + i) * 2654435761u >> 24;
		NEED(write(fd, buf, n) == (ssize_t)n);
		done_ += n;
	}
	unsigned char *m = map_fd(len, PROT_READ, MAP_SHARED, fd, 0);
	for (size_t i = 0; i < len; i += 97)
		if (m[i] != (unsigned char)(i * 2654435761u >> 24)) {
			FAIL("byte %zu of the mapping is 0x%x", i, m[i]);
			break;
		}
	lseek(fd, 0, SEEK_SET);
	for (size_t at = 0; at < len;) {
		size_t n = 1 + roll(&seed) % sizeof(buf);
		ssize_t got = read(fd, buf, n);

		if (!CHECK_EQ(got, n < len - at ? n : len - at))
			break;
		for (ssize_t i = 0; i < got; i += 61)
			if (buf[i] != (unsigned char)((at + i) * 2654435761u >> 24)) {
				FAIL("byte %zu is 0x%x", at + i, buf[i]);
				break;
			}
		at += got;
	}
}

TEST(parallel, "FS many processes make and remove names in one directory", .seconds = 40)
{
	enum { N = 4 };
	pid_t pid[N];

	enter();
	for (int i = 0; i < N; i++)
		if ((pid[i] = xfork()) == 0) {
			char a[32], b[32];

			pin(i);
			for (long k = 0; k < rounds(60); k++) {
				snprintf(a, sizeof(a), "a-%d", i);
				snprintf(b, sizeof(b), "b-%d", i);
				put(a, "x");
				CHECK_EQ(rename(a, b), 0);
				expect(b, "x");
				int fd = open("common", O_RDWR | O_CREAT | O_EXCL, 0600);

				if (fd >= 0) {
					close(fd);
					CHECK_EQ(unlink("common"), 0);
				} else {
					CHECK_EQ(errno, EEXIST);
				}
				CHECK_EQ(unlink(b), 0);
			}
			done();
		}
	for (int i = 0; i < N; i++)
		join_child(pid[i]);
	leave();
}

TEST(appenders, "FS appends of many processes are whole", .seconds = 40)
{
	enum { N = 4 };
	pid_t pid[N];
	long n = rounds(100);

	enter();
	put("log", "");
	for (int i = 0; i < N; i++)
		if ((pid[i] = xfork()) == 0) {
			int fd = NEED_OK(open("log", O_WRONLY | O_APPEND));
			char rec[16];

			memset(rec, 'a' + i, 16);
			for (long k = 0; k < n; k++)
				CHECK_EQ(write(fd, rec, 16), 16);
			done();
		}
	for (int i = 0; i < N; i++)
		join_child(pid[i]);
	int fd = NEED_OK(open("log", O_RDONLY)), whole = 0;
	char rec[16];
	while (read(fd, rec, 16) == 16) {
		for (int i = 1; i < 16; i++)
			CHECK_EQ(rec[i], rec[0]);
		whole++;
	}
	CHECK_EQ(whole, N * n);
	CHECK_EQ(unlink("log"), 0);
	leave();
}
