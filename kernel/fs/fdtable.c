/*
 * Tables of descriptors.
 *
 * fd_get() is on the way of every read and write, so it takes no lock: under RCU it loads the
 * table, the slot, and takes a reference on the file unless the count is 0 already. Tables that
 * were outgrown and files that were closed are freed after a grace period.
 *
 * Changes take files->lock (a spinlock, nothing inside). A closed file is put after the lock is
 * dropped.
 */
#include "arch/x86_64/cpu.h"
#include "kernel/process.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "kernel/vfs.h"
#include "mm/slab.h"

DEFINE_LOCK_CLASS(files_class, "files", RANK_VFS_LEAF);
DEFINE_LOCK_CLASS(fs_class, "fs_struct", RANK_VFS_LEAF);

#define FIRST_SIZE 64
#define MAX_FDS    (1 << 20)

struct fdtable { /* slots 0..size-1; size a multiple of 64 */
	u32 size;
	u64 *used, *cloexec; /* files->lock; used is set from fd_reserve() on */
	struct rcu_head rcu;
	struct file *file[]; /* written under files->lock, read under RCU */
};

struct files {
	u32 refs;        /* atomic: tasks that share it */
	spinlock_t lock;
	u32 next;        /* no free slot below; lock */
	struct fdtable *table; /* RCU */
	struct rcu_head rcu;
};

static struct fdtable *table_create(u32 size)
{
	struct fdtable *t = kzalloc(sizeof(*t) + size * sizeof(t->file[0]) + 2 * size / 8);

	if (!t)
		return NULL;
	t->size = size;
	t->used = (u64 *)&t->file[size];
	t->cloexec = t->used + size / 64;
	return t;
}

static void table_free(struct rcu_head *head)
{
	kfree(container_of(head, struct fdtable, rcu));
}

static bool bit(const u64 *map, u32 i)
{
	return map[i / 64] >> (i % 64) & 1;
}

static void set_bit(u64 *map, u32 i, bool on)
{
	if (on)
		map[i / 64] |= 1UL << (i % 64);
	else
		map[i / 64] &= ~(1UL << (i % 64));
}

/* --- lookup ------------------------------------------------------------------ */

static bool ref_tryget(u32 *refs)
{
	u32 n = READ_ONCE(*refs);

	while (n) {
		if (atomic_try_cmpxchg(refs, &n, n + 1))
			return true;
	}
	return false;
}

bool file_tryget(struct file *f)
{
	return ref_tryget(&f->refs);
}

struct file *files_get(struct files *files, int fd)
{
	struct file *f = NULL;
	struct fdtable *t;

	rcu_read_lock();
	t = rcu_dereference(files->table);
	if ((u32)fd < t->size) {
		f = rcu_dereference(t->file[fd]);
		if (f && !file_tryget(f))
			f = NULL;
	}
	rcu_read_unlock();
	return f;
}

struct file *fd_get(int fd)
{
	return current->files ? files_get(current->files, fd) : NULL;
}

int files_next(struct files *files, int fd)
{
	struct fdtable *t;
	int found = -1;

	rcu_read_lock();
	t = rcu_dereference(files->table);
	for (; (u32)fd < t->size && found < 0; fd++) {
		if (READ_ONCE(t->file[fd]))
			found = fd;
	}
	rcu_read_unlock();
	return found;
}

u32 files_size(struct files *files)
{
	u32 size;

	rcu_read_lock();
	size = rcu_dereference(files->table)->size;
	rcu_read_unlock();
	return size;
}

bool files_cloexec(struct files *files, int fd)
{
	bool on;

	spin_lock(&files->lock);
	on = (u32)fd < files->table->size && bit(files->table->cloexec, fd);
	spin_unlock(&files->lock);
	return on;
}

/* --- slots --------------------------------------------------------------------- */

/* Make room for slot `fd`; drops and takes files->lock. 0 or -ENOMEM. */
static int table_grow(struct files *files, u32 fd)
{
	struct fdtable *old, *new;
	u32 size = FIRST_SIZE;

	while (size <= fd)
		size *= 2;
	spin_unlock(&files->lock);
	new = table_create(size);
	spin_lock(&files->lock);
	if (!new)
		return -ENOMEM;
	old = files->table;
	if (old->size >= size) { /* another thread was faster */
		kfree(new);
		return 0;
	}
	memcpy(new->file, old->file, old->size * sizeof(old->file[0]));
	memcpy(new->used, old->used, old->size / 8);
	memcpy(new->cloexec, old->cloexec, old->size / 8);
	rcu_assign_pointer(files->table, new);
	call_rcu(&old->rcu, table_free);
	return 0;
}

static u32 find_free(const struct fdtable *t, u32 from)
{
	for (u32 w = from / 64; w < t->size / 64; w++) {
		u64 free = ~t->used[w];

		if (w == from / 64)
			free &= ~0UL << (from % 64);
		if (free)
			return w * 64 + (u32)__builtin_ctzl(free);
	}
	return MAX(t->size, from);
}

static u32 fd_limit(void)
{
	return (u32)MIN(rlimit(RLIMIT_NOFILE), MAX_FDS);
}

int fd_reserve(int from, bool cloexec)
{
	struct files *files = current->files;
	u32 limit = fd_limit(), fd;
	int ret;

	spin_lock(&files->lock);
	for (;;) {
		fd = find_free(files->table, MAX((u32)from, files->next));
		if (fd >= limit) {
			ret = -EMFILE;
			break;
		}
		if (fd < files->table->size) {
			set_bit(files->table->used, fd, true);
			set_bit(files->table->cloexec, fd, cloexec);
			if ((u32)from <= files->next)
				files->next = fd + 1;
			ret = (int)fd;
			break;
		}
		ret = table_grow(files, fd);
		if (ret)
			break;
	}
	spin_unlock(&files->lock);
	return ret;
}

void fd_install(int fd, struct file *f)
{
	struct files *files = current->files;

	spin_lock(&files->lock);
	rcu_assign_pointer(files->table->file[fd], f);
	spin_unlock(&files->lock);
}

/* files->lock held. */
static void slot_free(struct files *files, u32 fd)
{
	WRITE_ONCE(files->table->file[fd], NULL);
	set_bit(files->table->used, fd, false);
	set_bit(files->table->cloexec, fd, false);
	if (fd < files->next)
		files->next = fd;
}

void fd_unreserve(int fd)
{
	struct files *files = current->files;

	spin_lock(&files->lock);
	slot_free(files, (u32)fd);
	spin_unlock(&files->lock);
}

int fd_add(struct file *f, bool cloexec)
{
	int fd = fd_reserve(0, cloexec);

	if (fd < 0)
		file_put(f);
	else
		fd_install(fd, f);
	return fd;
}

static void close_file(struct files *files, struct file *f)
{
	locks_close(f, files);
	file_put(f);
}

int fd_close(int fd)
{
	struct files *files = current->files;
	struct file *f = NULL;

	spin_lock(&files->lock);
	if ((u32)fd < files->table->size)
		f = files->table->file[fd];
	if (f)
		slot_free(files, (u32)fd);
	spin_unlock(&files->lock);
	if (!f)
		return -EBADF;
	close_file(files, f);
	return 0;
}

int fd_replace(int fd, struct file *f, bool cloexec)
{
	struct files *files = current->files;
	struct file *old = NULL;
	int err = 0;

	if ((u32)fd >= fd_limit()) {
		file_put(f);
		return -EBADF;
	}
	spin_lock(&files->lock);
	while (!err && (u32)fd >= files->table->size)
		err = table_grow(files, (u32)fd);
	if (!err) {
		old = files->table->file[fd];
		if (!old && bit(files->table->used, (u32)fd))
			err = -EBUSY; /* reserved by an open() in progress */
	}
	if (!err) {
		set_bit(files->table->used, (u32)fd, true);
		set_bit(files->table->cloexec, (u32)fd, cloexec);
		rcu_assign_pointer(files->table->file[fd], f);
	}
	spin_unlock(&files->lock);
	if (err)
		file_put(f);
	else if (old)
		close_file(files, old);
	return err ? err : fd;
}

int fd_set_cloexec(int fd, bool on)
{
	struct files *files = current->files;
	int err = -EBADF;

	spin_lock(&files->lock);
	if ((u32)fd < files->table->size && files->table->file[fd]) {
		set_bit(files->table->cloexec, (u32)fd, on);
		err = 0;
	}
	spin_unlock(&files->lock);
	return err;
}

int fd_get_cloexec(int fd)
{
	struct files *files = current->files;
	int ret = -EBADF;

	spin_lock(&files->lock);
	if ((u32)fd < files->table->size && files->table->file[fd])
		ret = bit(files->table->cloexec, (u32)fd);
	spin_unlock(&files->lock);
	return ret;
}

/* First slot >= fd in use (marked_only: and marked), with its file taken out of it; NULL: none up to last. */
static struct file *take_slot(struct files *files, u32 *fd, u32 last, bool marked_only)
{
	struct file *f = NULL;

	spin_lock(&files->lock);
	while (!f && *fd <= last && *fd < files->table->size) {
		const struct fdtable *t = files->table;
		u64 word = t->used[*fd / 64] & (marked_only ? t->cloexec[*fd / 64] : ~0UL);

		word &= ~0UL << (*fd % 64);
		*fd = word ? ALIGN_DOWN(*fd, 64u) + (u32)__builtin_ctzl(word) : ALIGN_DOWN(*fd, 64u) + 64;
		if (!word || *fd > last)
			continue;
		f = t->file[*fd];
		if (f)
			slot_free(files, *fd);
		else
			(*fd)++; /* reserved by an open() in progress */
	}
	spin_unlock(&files->lock);
	return f;
}

/* Close, one by one, each open file in [first, last] that is marked (or all). */
static void close_slots(struct files *files, u32 first, u32 last, bool marked_only)
{
	struct file *f;

	while ((f = take_slot(files, &first, last, marked_only)))
		close_file(files, f);
}

int fd_close_range(u32 first, u32 last, bool cloexec_only)
{
	struct files *files = current->files;

	if (!cloexec_only) {
		close_slots(files, first, last, false);
		return 0;
	}
	spin_lock(&files->lock);
	for (u32 fd = first; fd <= last && fd < files->table->size; fd++) {
		if (files->table->file[fd])
			set_bit(files->table->cloexec, fd, true);
	}
	spin_unlock(&files->lock);
	return 0;
}

void files_close_on_exec(void)
{
	close_slots(current->files, 0, ~0u - 1, true);
}

/* --- whole tables ---------------------------------------------------------------- */

static struct files *files_new(u32 size)
{
	struct files *files = kzalloc(sizeof(*files));

	if (!files)
		return NULL;
	files->refs = 1;
	spin_init(&files->lock, &files_class);
	files->table = table_create(size);
	if (!files->table) {
		kfree(files);
		return NULL;
	}
	return files;
}

struct files *files_create(void)
{
	return files_new(FIRST_SIZE);
}

/* Slots that are worth copying. lock held. */
static u32 slots_used(const struct fdtable *t)
{
	u32 n = t->size / 64;

	while (n > 1 && !t->used[n - 1])
		n--;
	return n * 64;
}

struct files *files_copy(struct files *old)
{
	struct files *new = NULL;
	u32 size = FIRST_SIZE, n;

	for (;;) {
		new = files_new(size);
		if (!new)
			return NULL;
		spin_lock(&old->lock);
		n = slots_used(old->table);
		if (n <= size)
			break;
		spin_unlock(&old->lock);
		kfree(new->table);
		kfree(new);
		while (size < n)
			size *= 2;
	}
	for (u32 i = 0; i < n / 64; i++)
		for (u64 left = old->table->used[i]; left; left &= left - 1) {
			u32 fd = i * 64 + (u32)__builtin_ctzl(left);
			struct file *f = old->table->file[fd];

			if (!f) /* reserved by another thread's open() */
				continue;
			new->table->file[fd] = file_get(f);
			set_bit(new->table->used, fd, true);
			set_bit(new->table->cloexec, fd, bit(old->table->cloexec, fd));
		}
	spin_unlock(&old->lock);
	return new;
}

struct files *files_share(struct files *files)
{
	atomic_add(&files->refs, 1);
	return files;
}

static void files_free(struct rcu_head *head)
{
	struct files *files = container_of(head, struct files, rcu);

	kfree(files->table);
	kfree(files);
}

void files_put(struct files *files)
{
	if (!files || atomic_sub(&files->refs, 1))
		return;
	close_slots(files, 0, ~0u - 1, false);
	call_rcu(&files->rcu, files_free);
}

int files_unshare(void)
{
	struct files *old = current->files, *new;

	if (READ_ONCE(old->refs) == 1)
		return 0;
	new = files_copy(old);
	if (!new)
		return -ENOMEM;
	current->files = new;
	files_put(old);
	return 0;
}

/* --- directories of a process ----------------------------------------------------- */

static struct fs *fs_new(struct dentry *root, struct dentry *cwd, u32 umask)
{
	struct fs *fs = kzalloc(sizeof(*fs));

	if (!fs) {
		dentry_put(root);
		dentry_put(cwd);
		return NULL;
	}
	fs->refs = 1;
	fs->umask = umask;
	fs->root = root;
	fs->cwd = cwd;
	spin_init(&fs->lock, &fs_class);
	return fs;
}

struct fs *fs_copy(struct fs *fs)
{
	return fs_new(fs_root(fs), fs_cwd(fs), fs->umask);
}

struct fs *fs_share(struct fs *fs)
{
	atomic_add(&fs->refs, 1);
	return fs;
}

static void fs_free(struct rcu_head *head)
{
	kfree(container_of(head, struct fs, rcu));
}

void fs_put(struct fs *fs)
{
	if (!fs || atomic_sub(&fs->refs, 1))
		return;
	dentry_put(fs->root);
	dentry_put(fs->cwd);
	call_rcu(&fs->rcu, fs_free);
}

struct files *files_of_task(struct task *t)
{
	struct files *files;

	rcu_read_lock();
	files = rcu_dereference(t->files);
	if (files && !ref_tryget(&files->refs))
		files = NULL;
	rcu_read_unlock();
	return files;
}

struct fs *fs_of_task(struct task *t)
{
	struct fs *fs;

	rcu_read_lock();
	fs = rcu_dereference(t->fs);
	if (fs && !ref_tryget(&fs->refs))
		fs = NULL;
	rcu_read_unlock();
	return fs;
}

u32 current_umask(void)
{
	return current->fs ? current->fs->umask : 022;
}

void console_open_stdio(struct files *files, struct fs **fs)
{
	int err = 0;
	struct file *f = NULL;
	struct dentry *d = path_lookup_kernel("/dev/console", &err);

	*fs = fs_new(dentry_get(root_dentry), dentry_get(root_dentry), 022);
	if (d)
		f = dentry_open(d, O_RDWR, &err);
	for (u32 fd = 0; f && fd < 3; fd++) {
		files->table->file[fd] = file_get(f);
		set_bit(files->table->used, fd, true);
	}
	files->next = 3;
	if (f)
		file_put(f);
}
