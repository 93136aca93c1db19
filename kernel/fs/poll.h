/* Waiting for events of several files at once. */
#ifndef KERNEL_FS_POLL_H
#define KERNEL_FS_POLL_H

#include "kernel/vfs.h"

struct poll_slot {
	struct wait_queue *queue;
	struct wait_entry entry;
};

struct poll_block {
	struct poll_block *next;
	struct poll_slot slot[40];
};

#define POLL_FIRST 8

/*
 * Where one sleeper waits. The files must be held by the caller until poll_end(), because the queues are theirs.
 */
struct poll_table {
	bool armed;    /* poll_wait() registers */
	int error;     /* -ENOMEM */
	u32 nr;
	struct poll_slot first[POLL_FIRST];
	struct poll_block *blocks;
};

void poll_begin(struct poll_table *t); /* the next look at each file registers */
void poll_end(struct poll_table *t);   /* off all queues */
/* Events of f, of those in `want` and POLLERR, POLLHUP. */
u32 file_poll(struct file *f, u32 want, struct poll_table *t);
/*
 * Sleep until woken; registered queues only. 0; -EINTR; -ETIMEDOUT when deadline (monotonic ns, 0 = none) has passed.
 */
int poll_sleep(struct poll_table *t, u64 deadline);

#endif
