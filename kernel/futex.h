/*
 * Between futex.c (queues, waiting, waking) and futexpi.c (locks with an owner).
 */
#ifndef KERNEL_FUTEX_H
#define KERNEL_FUTEX_H

#include "kernel/list.h"
#include "kernel/lock.h"
#include "mm/mm.h"

struct bucket {
	spinlock_t lock;
	struct list waiters; /* longest first */
} __cacheline;

enum wait_result { WAITING, WOKEN, GRANTING, GRANTED };

/* On the waiter's stack while it waits. What a waker needs is in one cache line. */
struct futex_wait {
	struct list link;       /* bucket's lock */
	struct futex_key key;   /* changes under both buckets' locks */
	struct task *task;
	u32 bitset;
	volatile int result;    /* enum wait_result: bucket's lock, but GRANTING to GRANTED; that and WOKEN are final */
	bool pi;
	u32 owner;              /* PI: thread that is waited for; bucket's lock */
	struct bucket *bucket;  /* changes under both buckets' locks */
} __cacheline;

/* All waiters: futex_bucket_mask + 1 queues; constant after boot. */
extern struct bucket *futex_buckets;
extern u64 futex_bucket_mask;

struct bucket *futex_bucket(const struct futex_key *key);
bool futex_key_equal(const struct futex_key *a, const struct futex_key *b);

/* Put the current task on the queue of w->key; *w is on its stack. */
void futex_enqueue(struct futex_wait *w);
/* Leave the queue; what had become of the waiter by then. */
enum wait_result futex_dequeue(struct futex_wait *w);
/* Lock the bucket that w is in now. */
struct bucket *lock_bucket_of(struct futex_wait *w);
/* Sleep until w is woken: 0, -ETIMEDOUT, -EINTR. Leaves w queued unless woken. */
int futex_sleep(struct futex_wait *w, u64 deadline);
/*
 * Bucket locked, inside rcu_read_lock(). After this w may be gone at any time: its owner may be awake, or time out. The
 * caller runs `wakes` when the bucket is unlocked.
 */
void futex_wake_waiter(struct futex_wait *w, struct wake_list *wakes);
/* FUTEX_WAKE: number woken, or -errno. */
long futex_wake(vaddr_t uaddr, bool shared, u32 count, u32 bitset);

/* futexpi.c; deadline 0: none. */
long futex_lock_pi(vaddr_t uaddr, bool shared, u64 deadline);
long futex_trylock_pi(vaddr_t uaddr);
long futex_unlock_pi(vaddr_t uaddr, bool shared);

#endif
