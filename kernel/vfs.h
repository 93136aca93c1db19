/*
 * The file system from inside: inodes, directory entries, path walk, open
 * files and their tables. For the rest of the kernel: kernel/file.h.
 *
 *   inode     what a name stands for: file, directory, device, pipe, ...
 *   dentry    a name in a directory; holds its inode and its parent
 *   file      an open of an inode: position, flags, operations
 *   files     a process's table of descriptors
 *   volume    one of the trees (tmpfs root, /dev, /proc, /sys)
 *
 * There is one tree of dentries; everything in it lives in memory. The tree holds a
 * reference on each entry in it, an entry one on its inode and its parent, so
 * that `..` and path names always work, after unlink too.
 *
 * Locks, outermost first:
 *   file->pos_lock     position of a regular file or directory.
 *   inode->write_lock  one writer of a regular file at a time, and size changes.
 *                      Held while user memory is touched; no fault takes it.
 *   ns_lock            (rwsem) the tree: who is in which directory. Walks read it
 *                      per component, never across a call into procfs.
 *   files->lock        a table's slots. Lookup is by RCU instead.
 *   spinlocks of rank RANK_VFS_LEAF: locks that file_put() may take, which
 *                      runs under the locks of mm too.
 */
#ifndef KERNEL_VFS_H
#define KERNEL_VFS_H

#include <asm/errno.h>
#include <linux/fcntl.h>
#include <linux/fs.h>
#include <linux/limits.h>
#include <linux/stat.h>

#include "kernel/file.h"
#include "kernel/list.h"
#include "kernel/lock.h"
#include "kernel/rcu.h"
#include "kernel/types.h"
#include "kernel/wait.h"

#define MAX_LINKS 40 /* symbolic links in one walk; then ELOOP */

/* file_put() may take these; inside only memory allocation's and the scheduler's locks. */
#define RANK_VFS_LEAF RANK_WAIT

struct dentry;
struct inode;
struct poll_table;
struct seq;
struct pipe;

/* --- where bytes come from or go to ------------------------------------ */

struct segment {
	u64 base; /* user address, or kernel pointer if uio->kernel */
	u64 len;
};

/*
 * A list of pieces of memory that a read fills or a write empties, from the
 * front. No spinlock may be held while it moves, as user memory may fault.
 */
struct uio {
	struct segment *seg;
	u32 nr;       /* pieces left, the current one included */
	bool kernel;  /* kernel memory */
	u64 left;     /* bytes left in all pieces */
};

/* One piece; `seg` is storage that lives as long as *u. */
void uio_init(struct uio *u, struct segment *seg, u64 base, u64 len, bool kernel);
/* Copy up to n bytes out of or into the pieces, advancing; returns bytes, fewer after a fault. */
size_t uio_get(struct uio *u, void *buf, size_t n);
size_t uio_put(struct uio *u, const void *buf, size_t n);
size_t uio_zero(struct uio *u, size_t n);
/* The current piece, not empty; false at the end. uio_skip() goes on by n <= its length. */
bool uio_piece(struct uio *u, u64 *base, u64 *len);
void uio_skip(struct uio *u, u64 n);
/* Cut to at most n bytes in all. */
void uio_cut(struct uio *u, u64 n);

#define MAX_RW  0x7ffff000UL /* the most that one call moves */
#define MAX_IOV 1024

/* A user's iovec as a uio. 0, -EINVAL, -EFAULT, -ENOMEM; iov_free() after 0. */
struct user_iov {
	struct segment fast[8], *seg;
	struct uio u;
};
int iov_load(struct user_iov *v, vaddr_t uvec, u64 count);
void iov_free(struct user_iov *v);

/* Device numbers as stat(2) shows them in 32 bits. */
#define DEV(major, minor) \
	((u32)((minor) & 0xff) | (u32)(major) << 8 | ((u32)(minor) & ~0xffu) << 12)
#define DEV_MAJOR(dev) ((dev) >> 8 & 0xfff)
#define DEV_MINOR(dev) (((dev) & 0xff) | ((dev) >> 12 & 0xfff00))

/* --- inodes -------------------------------------------------------------- */

/* One of the trees; constant, but the counters. */
struct volume {
	const char *type;  /* "tmpfs", "proc", ... as in /proc/mounts */
	const char *where; /* mount point */
	u32 dev;           /* st_dev */
	u32 magic;         /* statfs f_type */
	bool fixed;        /* users cannot make or remove names */
	u64 next_ino;      /* atomic */
	u64 nr_inodes;     /* atomic */
};
extern struct volume vol_root, vol_dev, vol_proc, vol_sys, vol_anon;

typedef bool (*fill_fn)(void *ctx, const char *name, size_t len, u64 ino, u32 type, u64 next_pos);

struct inode_ops {
	/* Directories whose entries are not in the tree: find a name. A new reference, NULL: not
	 * there. Called without locks. */
	struct dentry *(*lookup)(struct dentry *dir, const char *name, size_t len);
	/* List entries from *pos on; fill() returns false when full. Called without locks. */
	int (*readdir)(struct dentry *dir, u64 *pos, fill_fn fill, void *ctx);
	/* Text of a symbolic link; returns its length (cut to size) or -errno. NULL:
	 * inode->target. */
	long (*readlink)(struct dentry *d, char *buf, size_t size);
	/* A link straight to an entry (/proc/PID/fd/N): a new reference, NULL with *err. */
	struct dentry *(*jump)(struct dentry *d, int *err);
	void (*destroy)(struct inode *inode);
};

struct inode {
	u32 refs;   /* atomic */
	u32 mode;   /* type constant; permission bits: single stores */
	u32 nlink;  /* ns_lock */
	u32 uid, gid;
	u32 rdev;   /* constant */
	u64 ino;    /* constant */
	struct volume *vol;
	u64 atime, mtime, ctime, btime; /* ns since 1970; single stores */
	const struct inode_ops *ops;    /* may be NULL */
	const struct file_ops *fops;
	struct mutex write_lock;        /* see top */
	union {
		struct mapping *mapping; /* regular file of tmpfs: contents and size */
		char *target;            /* symbolic link */
		struct {                 /* directory: ns_lock */
			struct list entries; /* struct dentry, by cookie */
			u64 nr_entries, next_cookie;
			u32 nr_subdirs;
		};
		void *data;              /* of whoever made it */
	};
	s32 writers;            /* opens for writing, or (below 0) of being executed; atomic */
	struct pipe *pipe;      /* fifo, pipe: pipe.c */
	struct list file_locks; /* fcntl and flock locks: locks.c */
};

/* A new inode with one reference, nlink 1; times are now. NULL: out of memory. */
struct inode *inode_create(struct volume *vol, u32 mode, const struct inode_ops *ops,
			   const struct file_ops *fops);
struct inode *inode_get(struct inode *inode);
void inode_put(struct inode *inode);
u64 now_real_ns(void); /* CLOCK_REALTIME */
/* Size for stat: of contents, link text; 0 for what has none. */
u64 inode_size(const struct inode *inode);

/* --- directory entries ------------------------------------------------------ */

struct dname { /* immutable; freed by RCU */
	struct rcu_head rcu;
	u16 len;
	char text[];
};

struct dentry {
	u32 refs;              /* atomic */
	bool unlinked;         /* no longer in the tree; ns_lock, read anywhere */
	bool anon;             /* never was in it: pipes, memfds; name is the whole path */
	bool volume_root;      /* top of a volume: cannot be removed or renamed */
	struct dentry *parent; /* itself at the root; ns_lock and rename_seq, read under RCU */
	struct dname *name;    /* the same */
	struct inode *inode;   /* constant */
	struct list hash_link; /* ns_lock */
	struct list link;      /* inode->entries of the parent; ns_lock */
	u64 cookie;            /* position in readdir */
	struct rcu_head rcu;
};

extern struct rwsem ns_lock;
extern struct dentry *root_dentry;

struct dentry *dentry_get(struct dentry *d);
void dentry_put(struct dentry *d); /* NULL is fine */
/* Entry not in the tree (anon: parent NULL), with one reference; takes over the caller's
 * reference on inode whatever happens. NULL: out of memory. */
struct dentry *dentry_create(struct dentry *parent, const char *name, size_t len,
			     struct inode *inode);

/* Caller holds ns_lock: find (no reference taken), put into the tree, take out. */
struct dentry *dir_find(struct dentry *dir, const char *name, size_t len);
void dir_insert(struct dentry *dir, struct dentry *d); /* takes over the caller's reference */
void dir_remove(struct dentry *d);                      /* drops the tree's reference */
bool dir_is_ancestor(struct dentry *a, struct dentry *d); /* a == d or above it */

/* Move d to be `name` in dir; both under ns_lock for writing. new_name comes from
 * dname_create(). */
void dir_move(struct dentry *d, struct dentry *dir, struct dname *new_name);
struct dname *dname_create(const char *name, size_t len);

/*
 * Name of d as seen from root (NULL: the real one), " (deleted)" appended where fit. Builds at
 * the end of buf and returns the start; "(unreachable)" in front if it is not below root. Any
 * context.
 */
char *dentry_path(struct dentry *d, struct dentry *root, char *buf, size_t size);

/* Boot: an entry at a path below an existing or new directory of the same volume. */
struct dentry *tree_add(const char *path, struct inode *inode);
struct dentry *tree_mkdir(const char *path); /* that directory, made if need be; no reference */

/* Generic directory operations: find and list what is in the tree. */
struct dentry *dir_lookup(struct dentry *dir, const char *name, size_t len);
int dir_readdir(struct dentry *dir, u64 *pos, fill_fn fill, void *ctx);
extern const struct file_ops dir_fops;

/* --- path walk (walk.c) --------------------------------------------------- */

enum walk_last { WALK_NAME, WALK_DOT, WALK_DOTDOT, WALK_ROOT };

struct walk {
	char *path;          /* buffer, being walked through */
	const char *pos;
	struct dentry *dir;  /* where we are */
	struct dentry *root;
	const char *last;    /* last component: inside path, not terminated */
	size_t last_len;
	enum walk_last last_type;
	bool must_be_dir;    /* a slash behind the last component */
	int links;           /* followed so far */
	int depth;
	struct {
		char *path;
		const char *pos;
	} stack[MAX_LINKS];  /* what is left of the paths that links were found in */
};

#define WALK_FOLLOW 1 /* follow a link in the last component */
#define WALK_EMPTY  2 /* "" stands for the start itself (AT_EMPTY_PATH) */

/*
 * Begin at dirfd (AT_FDCWD, or of a directory) with a user's path, or at the root of the kernel
 * with a kernel path; go to the parent of the last component. 0 or -errno; call walk_end() only
 * after 0.
 */
int walk_begin(struct walk *w, int dirfd, vaddr_t path);
int walk_begin_kernel(struct walk *w, const char *path);
void walk_end(struct walk *w);
/* The entry of the last component, following links if asked: new reference, NULL with *err. */
struct dentry *walk_last(struct walk *w, bool follow, int *err);
/* The last component is the link d: go on to the parent of what it names. -errno; 1: *jump is
 * the target. */
int walk_into_link(struct walk *w, struct dentry *d, struct dentry **jump);

/* Then: on to the parent of the last component, as walk_begin() does. */
int walk_resume(struct walk *w);

/* All in one: the entry at a path. NULL with *err. */
struct dentry *path_lookup(int dirfd, vaddr_t path, unsigned flags, int *err);
struct dentry *path_lookup_kernel(const char *path, int *err);
/* One component below dir. NULL with *err (-ENOENT, -ENOTDIR, ...). */
struct dentry *lookup_one(struct dentry *dir, const char *name, size_t len, int *err);
/* Copy a user's path into a page (kpage_free() it). 0 or -errno. */
int user_path(vaddr_t path, char **out);
/* Target of a link into buf; length or -errno. */
long inode_readlink(struct dentry *d, char *buf, size_t size);

/* --- names: create, remove, rename (names.c) -------------------------------- */

/* Make a name for a new inode of the mode in w's last place. O_EXCL semantics: -EEXIST. */
int make_node(struct walk *w, u32 mode, u32 rdev, const char *target, struct dentry **out);
u32 current_umask(void);

/* --- open files ----------------------------------------------------------- */

#define FMODE_READ  1
#define FMODE_WRITE 2
#define FMODE_PATH  4  /* O_PATH: only a place */
#define FMODE_SEEK  8  /* has a position; pread and pwrite work */
#define FMODE_POS_LOCK 16 /* the position is guarded by pos_lock during read and write */
#define FMODE_SERIAL  32 /* pread and pwrite take pos_lock too */
#define FMODE_WRITER  64 /* counts in inode->writers */
#define FMODE_EXEC    128 /* counts there as being executed */

struct file_ops {
	/* Called by open(); may set f->ops, f->data, f->fmode. */
	int (*open)(struct file *f);
	/* 0..n bytes or -errno; *pos is to be advanced. No locks held but pos_lock. */
	long (*read)(struct file *f, u64 *pos, struct uio *u);
	long (*write)(struct file *f, u64 *pos, struct uio *u);
	/* Events that are there now; registers with t (may be NULL). NULL: always ready. */
	u32 (*poll)(struct file *f, struct poll_table *t);
	long (*ioctl)(struct file *f, u32 cmd, u64 arg);
	long (*seek)(struct file *f, s64 offset, int whence); /* NULL: by size of the inode */
	int (*fallocate)(struct file *f, int mode, u64 offset, u64 len);
	int (*truncate)(struct inode *inode, u64 size); /* NULL: EINVAL */
	void (*release)(struct file *f);
	enum file_mmap_kind mmap;
	bool unsigned_pos; /* positions are addresses: all 64 bits */
};

struct file {
	u32 refs;     /* atomic; memory is freed by RCU */
	u32 fmode;    /* constant after open */
	u32 flags;    /* O_*: single stores by fcntl */
	u64 pos;      /* pos_lock if FMODE_POS_LOCK, else single stores */
	struct mutex pos_lock;
	struct dentry *dentry;
	const struct file_ops *ops;
	void *data;   /* of ops */
	struct rcu_head rcu;
};

static inline struct inode *file_inode(const struct file *f)
{
	return f->dentry->inode;
}

/* Open what d names; takes over the caller's reference on d. NULL with *err. */
struct file *dentry_open(struct dentry *d, u32 flags, int *err);
/* Count f as a writer of its inode. 0; -ETXTBSY: it is being executed. */
int file_count_writer(struct file *f);
/* An open file on an inode without a name ("anon_inode:[eventfd]"); takes over the inode's
 * reference. */
struct file *anon_file(struct inode *inode, const char *name, u32 flags,
		       const struct file_ops *ops, void *data, int *err);
/* open(2) without a descriptor. */
struct file *open_path(int dirfd, vaddr_t path, u32 flags, u32 mode, int *err);

/* read, write, with the position or (pos != NULL) at a given one. Bytes or -errno. */
long file_read(struct file *f, u64 *pos, struct uio *u);
long file_write(struct file *f, u64 *pos, struct uio *u);
bool file_tryget(struct file *f);

/* --- tables of descriptors (fdtable.c) ------------------------------------- */

/* The smallest free descriptor >= from is reserved; -EMFILE, -ENOMEM. Then install or give back. */
int fd_reserve(int from, bool cloexec);
void fd_install(int fd, struct file *f); /* takes over the reference */
void fd_unreserve(int fd);
/* Both in one; takes over the reference, drops it on errors. */
int fd_add(struct file *f, bool cloexec);
int fd_close(int fd);
/* dup2: put f at fd, closing what was there. Takes over the reference. */
int fd_replace(int fd, struct file *f, bool cloexec);
int fd_set_cloexec(int fd, bool on); /* -EBADF */
int fd_get_cloexec(int fd);          /* 0, 1, -EBADF */
int fd_close_range(u32 first, u32 last, bool cloexec_only);
/* Open file of another table, with a reference; the next open descriptor >= fd or -1. */
struct file *files_get(struct files *files, int fd);
int files_next(struct files *files, int fd);
bool files_cloexec(struct files *files, int fd);
u32 files_size(struct files *files); /* slots */
/* Task's table and directories for a look from outside: a reference or NULL if gone. */
struct task;
struct files *files_of_task(struct task *t);
struct fs *fs_of_task(struct task *t);

/* What fork copies or shares: directories and umask. */
struct fs {
	u32 refs; /* atomic */
	u32 umask;
	spinlock_t lock; /* guards root and cwd */
	struct dentry *root, *cwd;
	struct rcu_head rcu;
};
struct dentry *fs_root(struct fs *fs); /* new references */
struct dentry *fs_cwd(struct fs *fs);

/* --- polling (poll.c) ------------------------------------------------------- */

/* Also wait on q while polling; t may be NULL. */
void poll_wait(struct poll_table *t, struct wait_queue *q);

/* --- the parts -------------------------------------------------------------- */

/* Send the current thread a signal: SIGPIPE, SIGXFSZ. */
void signal_self(int signo);
long memfd_get_seals(struct file *f);
long pipe_get_size(struct file *f);
long pipe_set_size(struct file *f, u64 size);
void inode_free_pipe(struct inode *inode);
/* Descriptors for two files, their numbers stored at ufds; takes over both, undoes all on
 * errors. */
int fd_add_pair(struct file *a, struct file *b, bool cloexec, vaddr_t ufds);
long memfd_add_seals(struct file *f, u32 seals);
void tmpfs_init(void);
struct inode *tmpfs_inode(struct volume *vol, u32 mode, u32 rdev); /* any type */
void dev_init(void);
void tty_init(void);
void proc_init(void);
void sysfs_init(void);
extern const struct file_ops chardev_fops, fifo_fops, tmpfs_file_ops;

/* A generated file: what pseudo_file() registers, and what procfs makes for each process. */
struct pseudo {
	void (*show)(struct seq *s, void *arg);
	long (*write)(const char *text, size_t n, void *arg);
	void *arg;
};
extern const struct file_ops pseudo_fops; /* inode->data is the struct pseudo */
void pseudo_flush_early(void);            /* boot: register what came before vfs_init() */

/* fcntl record locks and flock (locks.c). */
long fcntl_lock(struct file *f, u32 cmd, vaddr_t ulock);
void locks_close(struct file *f, struct files *owner); /* a descriptor was closed */
void locks_release(struct file *f);                     /* the last reference went */

#endif
