/* Between the files of /proc/PID. */
#ifndef KERNEL_FS_PROCPID_H
#define KERNEL_FS_PROCPID_H

#include "kernel/fs/gen.h"

/* Descriptors of what the node is about; a reference, NULL if it is gone. */
struct files *node_files(const struct gen_node *n);
/* The path of what a link jumps to, as the reader sees it: readlink of every such link. */
long read_jump(struct dentry *d, char *buf, size_t size);
/* fill() with a number for a name. */
bool fill_number(fill_fn fill, void *ctx, u64 number, u64 ino, u32 type, u64 next);

extern const struct inode_ops procfd_ops, procfdinfo_ops;

#endif
