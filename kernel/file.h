/*
 * Open files, as the rest of the kernel sees them. The tables and the file
 * system itself: kernel/vfs.h.
 */
#ifndef KERNEL_FILE_H
#define KERNEL_FILE_H

#include "kernel/types.h"

struct file;
struct files;
struct fs;
struct mapping;
struct process;

struct file *file_get(struct file *f);
void file_put(struct file *f); /* sleeps with the last one */

/* Open file of descriptor fd of the current task, with a reference; NULL: EBADF. */
struct file *fd_get(int fd);

/* Open a path for the kernel itself (exec, init): O_RDONLY. NULL with *err. */
struct file *file_open(const char *path, int flags, int mode, int *err);

/* exec: as long as f is open nobody may open the file for writing. 0; -ETXTBSY: somebody has. */
int file_deny_write(struct file *f);

/* What mmap of it means. */
enum file_mmap_kind {
	FILE_MMAP_NONE,  /* ENODEV */
	FILE_MMAP_CACHE, /* through file_mapping() */
	FILE_MMAP_ZERO,  /* /dev/zero: anonymous memory */
};
enum file_mmap_kind file_mmap_kind(const struct file *f);
struct mapping *file_mapping(const struct file *f); /* NULL if none; lives as long as f */
bool file_readable(const struct file *f);           /* opened for reading / writing */
bool file_writable(const struct file *f);
bool file_executable(const struct file *f);         /* any x bit, not a directory */
/* Path as /proc/PID/maps shows it (" (deleted)" appended if unlinked); returns buf. */
char *file_path(const struct file *f, char *buf, size_t size);
u64 file_ino(const struct file *f);
u32 file_dev(const struct file *f);
u32 file_mode(const struct file *f);

/* Process life: tables and directory contexts. NULL if out of memory. */
struct files *files_create(void);
struct files *files_copy(struct files *f);  /* fork: duplicate table */
struct files *files_share(struct files *f); /* CLONE_FILES */
int files_unshare(void); /* the current task gets a table of its own: 0, -ENOMEM */
void files_put(struct files *f);
void files_close_on_exec(void);             /* exec, current task (table already unshared) */
struct fs *fs_copy(struct fs *f);
struct fs *fs_share(struct fs *f);
void fs_put(struct fs *f);
/* exit of a session's leader: its terminal is given up, the foreground group hears SIGHUP. */
void tty_leader_exit(struct process *p);
/* For /proc/PID/stat: device number of the controlling terminal, 0 if none, and its foreground
 * group or -1. */
u32 tty_of_process(struct process *p, int *pgid);

/* Boot. */
void vfs_init(void);                                   /* tmpfs root, /dev, /proc, /sys */
int initramfs_unpack(const void *archive, size_t len); /* number of files, or -errno */
void console_open_stdio(struct files *files, struct fs **fs); /* init's 0, 1, 2 and root directory */

#endif
