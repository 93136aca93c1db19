/*
 * Futexes: waiting for a word of user memory, and waking who waits there.
 *
 * A waiter queues itself first and reads the word then. A waker changes the word (the user
 * did, before the call) and looks at the queue then. So either the waiter sees the new value,
 * or the waker sees the waiter, and no user memory is touched under a bucket's lock. A waiter
 * that finds the word changed when it has been chosen already passes the wake-up on.
 *
 * A waiter's bucket changes when it is requeued; so it is locked by looking at
 * waiter->bucket, locking that, and looking again.
 *
 * PI futexes and robust lists: futexpi.c.
 *
 * Lock order: bucket of lower address, bucket of higher address; run queues inside.
 * Source: futex(2), "Futexes Are Tricky"; robust lists: set_robust_list(2).
 */
#include <asm/errno.h>
#include <linux/futex.h>
#include <linux/time.h>

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/smp.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/futex.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/signal.h"
#include "kernel/syscall.h"
#include "kernel/time.h"
#include "mm/mapping.h"
#include "mm/mm.h"
#include "mm/slab.h"

DEFINE_LOCK_CLASS(futex_class, "futex", RANK_WAIT);

struct bucket *futex_buckets;
u64 futex_bucket_mask;

struct bucket *futex_bucket(const struct futex_key *key)
{
	u64 h = (key->word >> 2) ^ ((u64)key->object >> 4);

	h *= 0x9e3779b97f4a7c15UL;
	return &futex_buckets[(h >> 32) & futex_bucket_mask];
}

bool futex_key_equal(const struct futex_key *a, const struct futex_key *b)
{
	return a->word == b->word && a->object == b->object && a->shared == b->shared;
}

/* --- the queues -------------------------------------------------------------- */

void futex_enqueue(struct futex_wait *w)
{
	struct bucket *b = futex_bucket(&w->key);

	w->task = current;
	w->result = WAITING;
	w->bucket = b;
	spin_lock(&b->lock);
	list_add_tail(&b->waiters, &w->link);
	spin_unlock(&b->lock);
}

struct bucket *lock_bucket_of(struct futex_wait *w)
{
	for (;;) {
		struct bucket *b = READ_ONCE(w->bucket);

		spin_lock(&b->lock);
		if (b == READ_ONCE(w->bucket))
			return b;
		spin_unlock(&b->lock);
	}
}

enum wait_result futex_dequeue(struct futex_wait *w)
{
	enum wait_result result = (enum wait_result)smp_load_acquire(&w->result);
	struct bucket *b;

	/* Final: who stored it does not touch *w any more. So those who are woken together do not meet here. */
	if (result == WOKEN || result == GRANTED)
		return result;
	b = lock_bucket_of(w);
	result = (enum wait_result)w->result;
	if (result == WAITING)
		list_del(&w->link);
	spin_unlock(&b->lock);
	return result;
}

void futex_wake_waiter(struct futex_wait *w, struct wake_list *wakes)
{
	struct task *t = w->task;

	list_del(&w->link);
	smp_store_release(&w->result, WOKEN);
	wake_list_add(wakes, t);
}

static unsigned wake_key(const struct futex_key *key, unsigned count, u32 bitset, bool *has_pi)
{
	struct bucket *b = futex_bucket(key);
	struct wake_list wakes;
	unsigned woken = 0;

	/* Orders the user's store to the word, or ours, before the look at the queue. */
	smp_mb();
	if (list_empty(&b->waiters))
		return 0;
	wake_list_init(&wakes);
	rcu_read_lock();
	spin_lock(&b->lock);
	list_for_each_safe(w, &b->waiters, struct futex_wait, link) {
		if (!futex_key_equal(&w->key, key))
			continue;
		if (w->pi) {
			if (has_pi)
				*has_pi = true;
			continue;
		}
		if (!(w->bitset & bitset))
			continue;
		futex_wake_waiter(w, &wakes);
		if (++woken >= count)
			break;
	}
	spin_unlock(&b->lock);
	wake_list_run(&wakes);
	rcu_read_unlock();
	return woken;
}

static void lock_two(struct bucket *a, struct bucket *b)
{
	if (a == b) {
		spin_lock(&a->lock);
		return;
	}
	spin_lock(a < b ? &a->lock : &b->lock);
	spin_lock_nested(a < b ? &b->lock : &a->lock);
}

static void unlock_two(struct bucket *a, struct bucket *b)
{
	spin_unlock(&a->lock);
	if (a != b)
		spin_unlock(&b->lock);
}

/* --- waiting ------------------------------------------------------------------- */

int futex_sleep(struct futex_wait *w, u64 deadline)
{
	int ret = 0;

	while (smp_load_acquire(&w->result) == WAITING) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (smp_load_acquire(&w->result) != WAITING)
			break;
		if (signal_pending(current)) {
			ret = -EINTR;
			break;
		}
		if (!schedule_until(deadline)) {
			ret = -ETIMEDOUT;
			break;
		}
	}
	set_current_state(TASK_RUNNING);
	return ret;
}

static long wait_on_word(vaddr_t uaddr, bool shared, u32 val, u32 bitset, u64 deadline)
{
	struct futex_wait w = { .bitset = bitset };
	u32 now;
	int ret = mm_futex_key(uaddr, shared, false, &w.key);

	if (ret)
		return ret;
	/* Mostly the word has changed already: no need to queue for that. */
	ret = get_user_u32(uaddr, &now);
	if (!ret && now != val)
		ret = -EAGAIN;
	if (ret)
		goto out;
	futex_enqueue(&w);
	smp_mb();
	ret = get_user_u32(uaddr, &now);
	if (!ret && now != val)
		ret = -EAGAIN;
	if (ret) {
		if (futex_dequeue(&w) != WAITING)
			wake_key(&w.key, 1, bitset, NULL);
		goto out;
	}
	ret = futex_sleep(&w, deadline);
	if (futex_dequeue(&w) != WAITING)
		ret = 0;
out:
	futex_key_put(&w.key);
	return ret;
}

static long wait_again(struct restart *r);

static long futex_wait(vaddr_t uaddr, bool shared, u32 val, u32 bitset, u64 deadline)
{
	long ret;

	if (!bitset)
		return -EINVAL;
	ret = wait_on_word(uaddr, shared, val, bitset, deadline);
	if (ret != -EINTR)
		return ret;
	if (!deadline)
		return -ERESTARTSYS;
	current->restart = (struct restart){ .func = wait_again, .deadline_ns = deadline,
					     .val = val, .addr = uaddr, .flags = shared,
					     .bitset = bitset };
	return -ERESTART_RESTARTBLOCK;
}

static long wait_again(struct restart *r)
{
	return futex_wait(r->addr, r->flags, (u32)r->val, r->bitset, r->deadline_ns);
}

long futex_wake(vaddr_t uaddr, bool shared, u32 count, u32 bitset)
{
	struct futex_key key;
	bool has_pi = false;
	long ret;

	if (!bitset)
		return -EINVAL;
	ret = mm_futex_key(uaddr, shared, false, &key);
	if (ret)
		return ret;
	ret = wake_key(&key, MAX((s32)count, 1), bitset, &has_pi);
	futex_key_put(&key);
	return ret ? ret : has_pi ? -EINVAL : 0;
}

/* The caller has references on both mappings, so none is the last. */
static void key_replace(struct futex_key *key, const struct futex_key *by)
{
	struct futex_key old = *key;

	*key = *by;
	if (by->shared)
		mapping_get(by->object);
	futex_key_put(&old);
}

/*
 * Wake `wake` waiters of uaddr, move up to `move` others to uaddr2. With cmp: only if the
 * word is still `val`, or -EAGAIN. The word is read before the queues are locked: a waiter
 * that comes in between is moved although the word had changed, which the caller could not
 * tell from having called a little earlier.
 */
static long futex_requeue(vaddr_t uaddr, vaddr_t uaddr2, bool shared, s32 wake, s32 move, bool cmp,
			  u32 val)
{
	struct futex_key from, to;
	struct bucket *b1, *b2;
	struct wake_list wakes;
	long done = 0, woken = 0;
	u32 now;
	int ret;

	if (wake < 0 || move < 0)
		return -EINVAL;
	ret = mm_futex_key(uaddr, shared, false, &from);
	if (ret)
		return ret;
	ret = mm_futex_key(uaddr2, shared, false, &to);
	if (ret)
		goto put_from;
	if (cmp) {
		ret = get_user_u32(uaddr, &now);
		if (!ret && now != val)
			ret = -EAGAIN;
		if (ret)
			goto put_to;
	}
	b1 = futex_bucket(&from);
	b2 = futex_bucket(&to);
	wake_list_init(&wakes);
	smp_mb();
	rcu_read_lock();
	lock_two(b1, b2);
	list_for_each_safe(w, &b1->waiters, struct futex_wait, link) {
		if (!futex_key_equal(&w->key, &from))
			continue;
		if (w->pi) {
			ret = -EINVAL;
			break;
		}
		if (woken < wake) {
			futex_wake_waiter(w, &wakes);
			woken++;
			done++;
			continue;
		}
		if (done - woken >= move)
			break;
		list_del(&w->link);
		list_add_tail(&b2->waiters, &w->link);
		key_replace(&w->key, &to);
		smp_store_release(&w->bucket, b2);
		done++;
	}
	unlock_two(b1, b2);
	wake_list_run(&wakes);
	rcu_read_unlock();
put_to:
	futex_key_put(&to);
put_from:
	futex_key_put(&from);
	return ret ? ret : done;
}

static long futex_wake_op(vaddr_t uaddr, vaddr_t uaddr2, bool shared, u32 wake1, u32 wake2, u32 enc)
{
	unsigned op = enc >> 28 & 7, cmp = enc >> 24 & 15;
	s32 oparg = (s32)(enc << 8) >> 20, cmparg = (s32)(enc << 20) >> 20, old;
	struct futex_key key1, key2;
	bool wake_second;
	long ret;

	if (enc >> 31) {
		if (oparg < 0 || oparg > 31)
			oparg &= 31;
		oparg = (s32)(1u << oparg);
	}
	ret = mm_futex_key(uaddr, shared, false, &key1);
	if (ret)
		return ret;
	ret = mm_futex_key(uaddr2, shared, true, &key2);
	if (ret)
		goto put1;
	ret = futex_op_user(uaddr2, op, (u32)oparg, (u32 *)&old);
	if (ret)
		goto put2;
	switch (cmp) {
	case FUTEX_OP_CMP_EQ:
		wake_second = old == cmparg;
		break;
	case FUTEX_OP_CMP_NE:
		wake_second = old != cmparg;
		break;
	case FUTEX_OP_CMP_LT:
		wake_second = old < cmparg;
		break;
	case FUTEX_OP_CMP_GE:
		wake_second = old >= cmparg;
		break;
	case FUTEX_OP_CMP_LE:
		wake_second = old <= cmparg;
		break;
	case FUTEX_OP_CMP_GT:
		wake_second = old > cmparg;
		break;
	default:
		ret = -ENOSYS;
		goto put2;
	}
	ret = wake_key(&key1, MAX((s32)wake1, 1), FUTEX_BITSET_MATCH_ANY, NULL);
	if (wake_second)
		ret += wake_key(&key2, MAX((s32)wake2, 1), FUTEX_BITSET_MATCH_ANY, NULL);
put2:
	futex_key_put(&key2);
put1:
	futex_key_put(&key1);
	return ret;
}

/* --- futex_waitv -------------------------------------------------------------------- */

#define WAITV_MAX 128

/* Wait for several words at once: the index of one that was woken. */
long sys_futex_waitv(u64 uwaiters, u64 nr, u64 flags, u64 utimeout, u64 clock)
{
	struct futex_waitv v;
	struct futex_wait *w;
	u64 deadline = 0, ns;
	u32 queued = 0, now;
	long ret = 0, index = -1;

	if (flags || !nr || nr > WAITV_MAX || !uwaiters)
		return -EINVAL;
	if (utimeout) {
		if ((int)clock != CLOCK_MONOTONIC && (int)clock != CLOCK_REALTIME)
			return -EINVAL;
		ret = get_timespec(utimeout, &ns);
		if (ret)
			return ret;
		deadline = deadline_of_clock((int)clock, ns);
	}
	w = kzalloc(nr * sizeof(*w));
	if (!w)
		return -ENOMEM;
	for (; queued < nr && !ret; queued++) {
		ret = -EFAULT;
		if (copy_from_user(&v, uwaiters + queued * sizeof(v), sizeof(v)))
			break;
		ret = -EINVAL;
		if ((v.flags & ~(u32)(FUTEX_32 | FUTEX_PRIVATE_FLAG)) || !(v.flags & FUTEX_32) ||
		    v.__reserved)
			break;
		ret = mm_futex_key(v.uaddr, !(v.flags & FUTEX_PRIVATE_FLAG), false, &w[queued].key);
		if (ret)
			break;
		w[queued].bitset = FUTEX_BITSET_MATCH_ANY;
		futex_enqueue(&w[queued]);
		smp_mb();
		ret = get_user_u32(v.uaddr, &now);
		if (!ret && now != (u32)v.val)
			ret = -EAGAIN;
	}
	while (!ret && index < 0) {
		set_current_state(TASK_INTERRUPTIBLE);
		for (u32 i = 0; i < nr && index < 0; i++)
			if (smp_load_acquire(&w[i].result) == WOKEN)
				index = i;
		if (index >= 0)
			break;
		if (signal_pending(current))
			ret = -ERESTARTSYS;
		else if (!schedule_until(deadline))
			ret = -ETIMEDOUT;
	}
	set_current_state(TASK_RUNNING);
	for (u32 i = 0; i < queued; i++) {
		if (futex_dequeue(&w[i]) != WAITING)
			index = i;
		futex_key_put(&w[i].key);
	}
	kfree(w);
	return index >= 0 ? index : ret;
}

/* --- the calls ------------------------------------------------------------------------- */

static bool takes_timeout(int cmd)
{
	return cmd == FUTEX_WAIT || cmd == FUTEX_WAIT_BITSET || cmd == FUTEX_LOCK_PI ||
	       cmd == FUTEX_LOCK_PI2;
}

long sys_futex(u64 uaddr, u64 op_, u64 val, u64 utimeout, u64 uaddr2, u64 val3)
{
	int op = (int)op_, cmd = op & FUTEX_CMD_MASK;
	bool shared = !(op & FUTEX_PRIVATE_FLAG);
	u64 deadline = 0, ns;
	long ret;

	if ((op & FUTEX_CLOCK_REALTIME) && cmd != FUTEX_WAIT_BITSET && cmd != FUTEX_WAIT &&
	    cmd != FUTEX_LOCK_PI2)
		return -ENOSYS;
	if (utimeout && takes_timeout(cmd)) {
		ret = get_timespec(utimeout, &ns);
		if (ret)
			return ret;
		if (cmd == FUTEX_WAIT)
			deadline = deadline_after(ns);
		else
			deadline = deadline_of_clock(cmd == FUTEX_LOCK_PI ||
						     (op & FUTEX_CLOCK_REALTIME) ?
						     CLOCK_REALTIME : CLOCK_MONOTONIC, ns);
	}
	switch (cmd) {
	case FUTEX_WAIT:
		return futex_wait(uaddr, shared, (u32)val, FUTEX_BITSET_MATCH_ANY, deadline);
	case FUTEX_WAIT_BITSET:
		return futex_wait(uaddr, shared, (u32)val, (u32)val3, deadline);
	case FUTEX_WAKE:
		return futex_wake(uaddr, shared, (u32)val, FUTEX_BITSET_MATCH_ANY);
	case FUTEX_WAKE_BITSET:
		return futex_wake(uaddr, shared, (u32)val, (u32)val3);
	case FUTEX_REQUEUE:
		return futex_requeue(uaddr, uaddr2, shared, (s32)val, (s32)utimeout, false, 0);
	case FUTEX_CMP_REQUEUE:
		return futex_requeue(uaddr, uaddr2, shared, (s32)val, (s32)utimeout, true,
				     (u32)val3);
	case FUTEX_WAKE_OP:
		return futex_wake_op(uaddr, uaddr2, shared, (u32)val, (u32)utimeout, (u32)val3);
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2:
		return futex_lock_pi(uaddr, shared, deadline);
	case FUTEX_TRYLOCK_PI:
		return futex_trylock_pi(uaddr);
	case FUTEX_UNLOCK_PI:
		return futex_unlock_pi(uaddr, shared);
	}
	return -ENOSYS;
}

void futex_init(void)
{
	u64 n = 256;

	while (n < 64UL * num_cpus)
		n *= 2;
	futex_buckets = kzalloc(n * sizeof(struct bucket));
	ASSERT(futex_buckets);
	futex_bucket_mask = n - 1;
	for (u64 i = 0; i < n; i++) {
		spin_init(&futex_buckets[i].lock, &futex_class);
		list_init(&futex_buckets[i].waiters);
	}
}
