/*
 * Futexes with an owner: PI locks, robust lists, and what a thread that ends owes to those who
 * wait for it. The queues are those of futex.c.
 *
 * The word of a PI futex holds the owner's thread number. The kernel hands it over itself, to
 * the waiter who has waited longest; priorities are not boosted.
 *
 * Source: futex(2), "Futexes Are Tricky"; set_robust_list(2).
 */
#include <asm/errno.h>
#include <linux/futex.h>

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/futex.h"
#include "kernel/process.h"
#include "kernel/signal.h"
#include "kernel/syscall.h"

static u32 pi_waiters; /* atomic: PI waiters in the machine, so that exit need not look for none */

/* Is a thread of this number there? An owner that is not will never unlock. */
static bool tid_alive(u32 tid)
{
	struct task *t = task_by_tid((int)tid);
	bool alive = t && !t->exiting;

	if (t)
		task_put(t);
	return alive;
}

/*
 * One try at the word. 1: it is ours. 0: owned, and the waiters' bit is set, by `*owner`. Or
 * -errno. With `wait` false the bit is left alone.
 */
static int pi_try(vaddr_t uaddr, bool wait, u32 *owner)
{
	u32 tid = (u32)current->tid, word, found;
	int err = get_user_u32(uaddr, &word);

	while (!err) {
		u32 new;
		bool take = !(word & FUTEX_TID_MASK);

		if ((word & FUTEX_TID_MASK) == tid)
			return -EDEADLK;
		/*
		 * A word without an owner but with bits: the owner died (robust), or waiters
		 * are left.
		 */
		if (take)
			new = tid | (word & (FUTEX_OWNER_DIED | FUTEX_WAITERS));
		else
			new = wait ? word | FUTEX_WAITERS : word;
		err = cmpxchg_user_u32(uaddr, word, new, &found);
		if (err)
			break;
		if (found == word) {
			*owner = word & FUTEX_TID_MASK;
			return take;
		}
		word = found;
	}
	return err;
}

/* The owner that we waited for has died without a robust list: take its place. */
static int pi_inherit(vaddr_t uaddr, u32 owner)
{
	u32 tid = (u32)current->tid, found;
	int err = cmpxchg_user_u32(uaddr, owner | FUTEX_WAITERS,
				   tid | FUTEX_OWNER_DIED | FUTEX_WAITERS, &found);

	return err ? err : found == (owner | FUTEX_WAITERS);
}

/* Queued and not the owner: sleep until the lock is handed over. 0: look again. */
static int pi_sleep(struct futex_wait *w, u32 owner, u64 deadline)
{
	struct bucket *b = lock_bucket_of(w);

	w->owner = owner;
	spin_unlock(&b->lock);
	/*
	 * An owner that leaves wakes those whose w->owner it is; it may have left before that
	 * was set.
	 */
	return tid_alive(owner) ? futex_sleep(w, deadline) : 0;
}

long futex_lock_pi(vaddr_t uaddr, bool shared, u64 deadline)
{
	struct futex_wait w = { .bitset = FUTEX_BITSET_MATCH_ANY, .pi = true };
	enum wait_result result;
	u32 owner = 0, waited_for = 0;
	int ret = mm_futex_key(uaddr, shared, true, &w.key);

	if (ret)
		return ret;
	atomic_add(&pi_waiters, 1);
	for (;;) {
		w.owner = 0;
		futex_enqueue(&w);
		ret = pi_try(uaddr, true, &owner);
		if (ret == 0 && tid_alive(owner)) {
			waited_for = owner;
			ret = pi_sleep(&w, owner, deadline);
		} else if (ret == 0) {
			ret = owner == waited_for ? pi_inherit(uaddr, owner) : -ESRCH;
		}
		/* While somebody hands the word to us, it is not decided whether it works out. */
		while ((result = futex_dequeue(&w)) == GRANTING)
			sched_yield();
		if (ret == 1 || result == GRANTED) {
			ret = 0;
			break;
		}
		if (ret < 0)
			break;
	}
	atomic_sub(&pi_waiters, 1);
	futex_key_put(&w.key);
	return ret == -EINTR ? -ERESTARTNOINTR : ret;
}

long futex_trylock_pi(vaddr_t uaddr)
{
	u32 owner;
	int ret;

	if (uaddr % 4)
		return -EINVAL;
	ret = pi_try(uaddr, false, &owner);
	if (ret < 0)
		return ret;
	return ret ? 0 : tid_alive(owner) ? -EAGAIN : -ESRCH;
}

/*
 * The word at uaddr is `tid`'s: give it to who has waited longest, or make it 0. died: the
 * owner did not unlock, it died. 0, -EPERM if it is not tid's, or -EFAULT.
 */
static int pi_hand_over(vaddr_t uaddr, const struct futex_key *key, u32 tid, u32 died)
{
	struct bucket *b = futex_bucket(key);

	for (;;) {
		struct futex_wait *next = NULL;
		u32 word, found, new = died, more = 0;
		int err = get_user_u32(uaddr, &word);

		if (err)
			return err;
		if ((word & FUTEX_TID_MASK) != tid)
			return -EPERM;
		spin_lock(&b->lock);
		list_for_each(w, &b->waiters, struct futex_wait, link) {
			if (!w->pi || !futex_key_equal(&w->key, key))
				continue;
			if (next) {
				more = FUTEX_WAITERS;
				break;
			}
			next = w;
		}
		if (next) {
			list_del(&next->link);
			next->result = GRANTING;
			new |= (u32)next->task->tid | more;
		}
		spin_unlock(&b->lock);

		err = cmpxchg_user_u32(uaddr, word, new, &found);
		if (!err && found == word) {
			if (next) {
				struct task *t = next->task;

				rcu_read_lock();
				smp_store_release(&next->result, GRANTED);
				wake_task(t);
				rcu_read_unlock();
			}
			return 0;
		}
		/*
		 * Somebody set the waiters' bit meanwhile, or the page is gone: put the
		 * chosen one back.
		 */
		if (next) {
			spin_lock(&b->lock);
			list_add(&b->waiters, &next->link);
			next->result = WAITING;
			spin_unlock(&b->lock);
		}
		if (err)
			return err;
	}
}

long futex_unlock_pi(vaddr_t uaddr, bool shared)
{
	struct futex_key key;
	long ret = mm_futex_key(uaddr, shared, true, &key);

	if (ret)
		return ret;
	ret = pi_hand_over(uaddr, &key, (u32)current->tid, 0);
	futex_key_put(&key);
	return ret;
}

/* --- robust lists, exit --------------------------------------------------------------- */

/* A word that t may own: mark it and wake one. */
static void word_death(struct task *t, vaddr_t uaddr, bool pi, bool pending)
{
	u32 word, found;

	if (uaddr & 3 || get_user_u32(uaddr, &word))
		return;
	/* Between unlocking and waking: somebody else has to be woken in our place. */
	if (pending && !pi && !word) {
		futex_wake(uaddr, true, 1, FUTEX_BITSET_MATCH_ANY);
		return;
	}
	for (;;) {
		if ((word & FUTEX_TID_MASK) != (u32)t->tid)
			return;
		if (pi && (word & FUTEX_WAITERS)) {
			struct futex_key key;

			if (mm_futex_key(uaddr, true, true, &key))
				return;
			pi_hand_over(uaddr, &key, (u32)t->tid, FUTEX_OWNER_DIED);
			futex_key_put(&key);
			return;
		}
		if (cmpxchg_user_u32(uaddr, word, (word & FUTEX_WAITERS) | FUTEX_OWNER_DIED,
				     &found))
			return;
		if (found == word)
			break;
		word = found;
	}
	if (!pi && (word & FUTEX_WAITERS))
		futex_wake(uaddr, true, 1, FUTEX_BITSET_MATCH_ANY);
}

/*
 * The list is the user's: nothing about it is believed. Bit 0 of a pointer says that the lock
 * is PI.
 */
static void robust_exit(struct task *t)
{
	u64 head = t->robust_list, entry, offset, pending, next;

	if (get_user_u64(head, &entry) || get_user_u64(head + 8, &offset) ||
	    get_user_u64(head + 16, &pending))
		return;
	for (int limit = ROBUST_LIST_LIMIT; (entry & ~1UL) != head && limit; limit--) {
		/* Read on before the word is given away: its owner may free the entry. */
		bool bad = get_user_u64(entry & ~1UL, &next);

		if ((entry & ~1UL) != (pending & ~1UL))
			word_death(t, (entry & ~1UL) + offset, entry & 1, false);
		if (bad)
			return;
		entry = next;
		cond_resched();
	}
	if (pending & ~1UL)
		word_death(t, (pending & ~1UL) + offset, pending & 1, true);
}

/* Waiters for a PI lock whose owner t is and that no robust list names: let them look again. */
static void pi_exit(struct task *t)
{
	if (!__atomic_load_n(&pi_waiters, __ATOMIC_SEQ_CST))
		return;
	for (u64 i = 0; i <= futex_bucket_mask; i++) {
		struct bucket *b = &futex_buckets[i];
		struct wake_list wakes;

		if (list_empty(&b->waiters))
			continue;
		wake_list_init(&wakes);
		rcu_read_lock();
		spin_lock(&b->lock);
		list_for_each_safe(w, &b->waiters, struct futex_wait, link)
			if (w->pi && w->owner == (u32)t->tid)
				futex_wake_waiter(w, &wakes);
		spin_unlock(&b->lock);
		wake_list_run(&wakes);
		rcu_read_unlock();
	}
}

void futex_exit(struct task *t)
{
	if (t->robust_list)
		robust_exit(t);
	t->robust_list = 0;
	pi_exit(t);
}

void futex_wake_user(vaddr_t uaddr)
{
	futex_wake(uaddr, true, 1, FUTEX_BITSET_MATCH_ANY);
}

long sys_set_robust_list(u64 head, u64 len)
{
	if (len != sizeof(struct robust_list_head))
		return -EINVAL;
	current->robust_list = head;
	return 0;
}

long sys_get_robust_list(u64 tid, u64 uhead, u64 ulen)
{
	struct task *t = (int)tid ? task_by_tid((int)tid) : NULL;
	u64 head = t ? t->robust_list : current->robust_list;

	if ((int)tid && !t)
		return -ESRCH;
	if (t)
		task_put(t);
	if (put_user_u64(ulen, sizeof(struct robust_list_head)) || put_user_u64(uhead, head))
		return -EFAULT;
	return 0;
}
