/*
 * What System V shared memory (shm.c) and semaphores (sem.c) have in common:
 * objects found by number and by key, with owner and permissions (ipc.c). And what
 * mm tells shm.c about areas.
 */
#ifndef KERNEL_IPC_H
#define KERNEL_IPC_H

#include <asm/ipcbuf.h>

#include "kernel/lock.h"
#include "kernel/types.h"

#define IPC_SLOTS 4096
#define IPC_64_BIT 0x0100 /* in a ctl's command: the only layout there is */

/* First member of each segment and semaphore set. */
struct ipc_object {
	int id;                /* constant */
	u32 refs;              /* table's lock; at 0 the owner frees it */
	bool removed;          /* table's lock: not found any more */
	struct ipc64_perm perm; /* table's lock */
};

struct ipc_table {
	spinlock_t lock; /* guards all below, and what objects say it does; takes nothing inside */
	u32 used, seq;
	struct ipc_object *slots[IPC_SLOTS];
	void (*destroy)(struct ipc_object *o); /* the last reference is gone; no lock held */
};

/*
 * xxxget(2): the object of a key. make() (outside of the lock, with arg) gives a new one, or
 * NULL with *err. check() says whether an old one fits: 0 or -errno; lock held. Returns the id.
 */
long ipc_get(struct ipc_table *t, int key, int flags,
	     struct ipc_object *(*make)(void *arg, int *err),
	     int (*check)(struct ipc_object *o, void *arg), void *arg);

/* By number, with a reference; *err: -EINVAL none, -EIDRM: the number has another owner by now. */
struct ipc_object *ipc_find(struct ipc_table *t, int id, int *err);
/* By place in the table (SHM_STAT, SEM_STAT). */
struct ipc_object *ipc_find_slot(struct ipc_table *t, u32 slot, int *err);
void ipc_put(struct ipc_table *t, struct ipc_object *o);

/* Take it out of the table, with the table's reference: the caller puts that. Lock held. */
void ipc_unlist(struct ipc_table *t, struct ipc_object *o);

/* May the current process read (4), write (2)? 0 or -EACCES. */
int ipc_access(const struct ipc_object *o, u32 want);
/* ... change and remove it? 0 or -EPERM. */
int ipc_owner(const struct ipc_object *o);
/* IPC_SET. */
void ipc_set_perm(struct ipc_table *t, struct ipc_object *o, const struct ipc64_perm *from);
/* Highest place in use, for *_INFO. */
long ipc_highest(struct ipc_table *t);

/*
 * For mm: an area made of a segment (the cookie of mm_map_shared()) has been made (mmap,
 * fork, split), or is gone. mm's locks may be held.
 */
void shm_area_opened(void *segment);
void shm_area_closed(void *segment);

#endif
