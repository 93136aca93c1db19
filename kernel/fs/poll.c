/*
 * poll(2), select(2) and their relatives.
 *
 * The sleeper first puts itself on the wait queue of every file (with its task state set, so that a
 * wake-up from then on is not lost), then looks at each once more, then sleeps. It
 * holds a reference on every file while it is on its queue.
 */
#include <linux/poll.h>
#include <linux/time.h>

#include "arch/x86_64/clock.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/process.h"
#include "kernel/signal.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "kernel/vfs.h"
#include "mm/slab.h"

/* --- the table --------------------------------------------------------------------- */

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
 * Where one sleeper waits. The files must be held by the caller until poll_end(), because the
 * queues are theirs.
 */
struct poll_table {
	bool armed;    /* poll_wait() registers */
	int error;     /* -ENOMEM */
	u32 nr;
	struct poll_slot first[POLL_FIRST];
	struct poll_block *blocks;
};

/* The next look at each file registers. */
static void poll_begin(struct poll_table *t)
{
	t->armed = true;
	t->error = 0;
	t->nr = 0;
	t->blocks = NULL;
}

static struct poll_slot *new_slot(struct poll_table *t)
{
	u32 n = t->nr - POLL_FIRST;

	if (t->nr < POLL_FIRST)
		return &t->first[t->nr++];
	n %= ARRAY_SIZE(t->blocks->slot);
	if (!n) {
		struct poll_block *b = kmalloc(sizeof(*b));

		if (!b) {
			t->error = -ENOMEM;
			return NULL;
		}
		b->next = t->blocks;
		t->blocks = b;
	}
	t->nr++;
	return &t->blocks->slot[n];
}

void poll_wait(struct poll_table *t, struct wait_queue *q)
{
	struct poll_slot *s;

	if (!t || !t->armed)
		return;
	s = new_slot(t);
	if (!s)
		return;
	s->queue = q;
	s->entry = (struct wait_entry){ 0 };
	wait_prepare(q, &s->entry, TASK_INTERRUPTIBLE);
}

/* Off all queues. */
static void poll_end(struct poll_table *t)
{
	u32 in_block = 0;

	for (u32 i = 0; i < MIN(t->nr, POLL_FIRST); i++)
		wait_finish(t->first[i].queue, &t->first[i].entry);
	if (t->nr > POLL_FIRST) /* how many of the newest block */
		in_block = (t->nr - POLL_FIRST - 1) % ARRAY_SIZE(t->blocks->slot) + 1;
	while (t->blocks) {
		struct poll_block *b = t->blocks;

		for (u32 i = 0; i < in_block; i++)
			wait_finish(b->slot[i].queue, &b->slot[i].entry);
		in_block = ARRAY_SIZE(b->slot);
		t->blocks = b->next;
		kfree(b);
	}
	t->nr = 0;
	set_current_state(TASK_RUNNING);
}

/* Sleep until woken. 0; -EINTR; -ETIMEDOUT when deadline (monotonic ns, 0 = none) has passed. */
static int poll_sleep(struct poll_table *t, u64 deadline)
{
	t->armed = false;
	if (signal_pending(current))
		return -EINTR;
	if (!schedule_until(deadline))
		return -ETIMEDOUT;
	return signal_pending(current) ? -EINTR : 0;
}

/* Events of f: of those in want, and POLLERR, POLLHUP. */
static u32 file_poll(struct file *f, u32 want, struct poll_table *t)
{
	u32 events = POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM;

	if (f->fmode & FMODE_PATH)
		return POLLNVAL;
	if (f->ops->poll)
		events = f->ops->poll(f, t);
	return events & (want | POLLERR | POLLHUP);
}

/* --- a set of descriptors --------------------------------------------------------------- */

struct watch {
	struct file *file; /* a reference; NULL: EBADF */
	u32 want, got;
	bool strict;       /* select: POLLHUP and POLLERR count only where wanted */
};

static u32 look(struct watch *w, u32 n, struct poll_table *t)
{
	u32 ready = 0;

	for (u32 i = 0; i < n; i++) {
		if (w[i].file)
			w[i].got = file_poll(w[i].file, w[i].want, t) &
				   (w[i].strict ? w[i].want : ~0u);
		if (w[i].got)
			ready++;
		if (ready)
			t->armed = false; /* no sleep to come */
	}
	return ready;
}

/*
 * Wait until one of n is ready. deadline: monotonic ns; 0: for ever; 1: only look. Number ready
 * or -errno.
 */
static long wait_for(struct watch *w, u32 n, u64 deadline)
{
	struct poll_table t;
	long ret = 0;

	for (;;) {
		int err;

		poll_begin(&t);
		t.armed = deadline != 1;
		/* With nothing to register on, the state must be set by us. */
		if (t.armed)
			set_current_state(TASK_INTERRUPTIBLE);
		ret = look(w, n, &t);
		if (!ret)
			ret = t.error;
		if (ret || deadline == 1)
			break;
		err = poll_sleep(&t, deadline);
		poll_end(&t);
		if (err == -ETIMEDOUT) { /* one last look */
			deadline = 1;
			continue;
		}
		if (err)
			return -EINTR;
	}
	poll_end(&t);
	return ret;
}

/* --- poll ----------------------------------------------------------------------------------- */

static long do_poll(vaddr_t ufds, u32 n, u64 deadline)
{
	struct pollfd *fds = NULL;
	struct watch *w = NULL;
	long ret = -ENOMEM;
	u32 bad = 0;

	if (n > rlimit(RLIMIT_NOFILE))
		return -EINVAL;
	fds = kmalloc(n * sizeof(*fds) + 1);
	w = kzalloc(n * sizeof(*w) + 1);
	if (!fds || !w)
		goto out;
	ret = -EFAULT;
	if (copy_from_user(fds, ufds, n * sizeof(*fds)))
		goto out;
	for (u32 i = 0; i < n; i++) {
		if (fds[i].fd < 0)
			continue;
		w[i].file = fd_get(fds[i].fd);
		w[i].want = (u16)fds[i].events;
		if (!w[i].file) {
			w[i].got = POLLNVAL;
			bad++;
		}
	}
	ret = wait_for(w, n, bad ? 1 : deadline);
	for (u32 i = 0; i < n; i++)
		fds[i].revents = (short)w[i].got;
	if (ret >= 0) {
		for (u32 i = 0; i < n; i++) { /* only revents are the kernel's to write */
			vaddr_t at = ufds + i * sizeof(*fds) + offsetof(struct pollfd, revents);

			if (copy_to_user(at, &fds[i].revents, sizeof(fds[i].revents))) {
				ret = -EFAULT;
				break;
			}
		}
	}
	for (u32 i = 0; i < n; i++)
		file_put(w[i].file);
out:
	kfree(fds);
	kfree(w);
	return ret;
}

#define NS 1000000000UL

/* Monotonic deadline for a time from now; 1 for none of it. */
static u64 deadline_in(u64 ns)
{
	u64 now = clock_ns();

	if (!ns)
		return 1;
	return ns > ~0UL / 2 ? 0 : now + ns;
}

static long poll_restart(struct restart *r);

long sys_poll(u64 ufds, u64 n, u64 timeout)
{
	s32 ms = (s32)timeout;
	struct restart *r = &current->restart;
	u64 deadline = ms < 0 ? 0 : deadline_in((u64)ms * 1000000);
	long ret = do_poll(ufds, (u32)n, deadline);

	if (ret == -EINTR) {
		r->func = poll_restart;
		r->addr = ufds;
		r->val = (u32)n;
		r->deadline_ns = deadline;
		return -ERESTART_RESTARTBLOCK;
	}
	return ret;
}

static long poll_restart(struct restart *r)
{
	u64 deadline = r->deadline_ns;
	long ret;

	if (deadline > 1 && deadline <= clock_ns())
		deadline = 1;
	ret = do_poll(r->addr, (u32)r->val, deadline);
	if (ret == -EINTR) {
		r->func = poll_restart;
		return -ERESTART_RESTARTBLOCK;
	}
	return ret;
}

/* Timeout in a user's timespec, 0 = for ever. 0 or -errno. */
static int get_deadline(vaddr_t uts, u64 *deadline)
{
	s64 ts[2];

	*deadline = 0;
	if (!uts)
		return 0;
	if (copy_from_user(ts, uts, sizeof(ts)))
		return -EFAULT;
	if (ts[0] < 0 || ts[1] < 0 || ts[1] >= (s64)NS)
		return -EINVAL;
	*deadline = ts[0] > (s64)(~0UL / 4 / NS) ? 0 : deadline_in((u64)ts[0] * NS + (u64)ts[1]);
	return 0;
}

/* The time that is left goes back to the user, as Linux does it; failing to store it is no
 * error. */
static void put_left(vaddr_t uts, u64 deadline, bool micro)
{
	u64 now = clock_ns(), left = deadline > now ? deadline - now : 0;
	s64 ts[2] = { (s64)(left / NS), (s64)(left % NS) };

	if (!uts || !deadline)
		return;
	if (micro)
		ts[1] /= 1000;
	if (copy_to_user(uts, ts, sizeof(ts)))
		return;
}

long sys_ppoll(u64 ufds, u64 n, u64 uts, u64 umask, u64 size)
{
	u64 deadline;
	long ret = get_deadline(uts, &deadline);

	if (!ret && umask)
		ret = signal_set_user_mask(umask, size);
	if (ret)
		return ret;
	ret = do_poll(ufds, (u32)n, deadline);
	if (umask)
		signal_restore_mask(ret == -EINTR);
	put_left(uts, deadline, false);
	return ret == -EINTR ? -ERESTARTNOHAND : ret;
}

/* --- select
 * ------------------------------------------------------------------------------------ */

#define SET_IN  (POLLIN | POLLRDNORM | POLLRDBAND | POLLHUP | POLLERR)
#define SET_OUT (POLLOUT | POLLWRNORM | POLLWRBAND | POLLERR)
#define SET_EX  POLLPRI
#define MAX_SELECT 65536

static bool in_set(const u64 *set, u32 i)
{
	return set && (set[i / 64] >> (i % 64) & 1);
}

/* sets: 3 x words; a set whose address is 0 is not looked at. */
static long select_sets(u32 n, u64 *sets, const vaddr_t uset[3], u64 deadline)
{
	u32 words = DIV_UP(n, 64), nr = 0, k = 0;
	u64 *in = uset[0] ? sets : NULL, *out = uset[1] ? sets + words : NULL,
	    *ex = uset[2] ? sets + 2 * words : NULL;
	struct watch *w;
	long ret = 0;

	for (u32 i = 0; i < n; i++)
		nr += in_set(in, i) || in_set(out, i) || in_set(ex, i);
	w = kzalloc(nr * sizeof(*w) + 1);
	if (!w)
		return -ENOMEM;
	for (u32 i = 0; i < n && !ret; i++) {
		if (!in_set(in, i) && !in_set(out, i) && !in_set(ex, i))
			continue;
		w[k].want = (in_set(in, i) ? SET_IN : 0) | (in_set(out, i) ? SET_OUT : 0) |
			    (in_set(ex, i) ? SET_EX : 0);
		w[k].strict = true;
		w[k].file = fd_get((int)i);
		if (!w[k].file)
			ret = -EBADF;
		k++;
	}
	if (!ret)
		ret = wait_for(w, nr, deadline);
	if (ret >= 0) {
		ret = k = 0;
		for (u32 i = 0; i < n; i++) {
			u32 got;

			if (!in_set(in, i) && !in_set(out, i) && !in_set(ex, i))
				continue;
			got = w[k++].got;
			for (int s = 0; s < 3; s++) {
				static const u32 what[3] = { SET_IN, SET_OUT, SET_EX };
				u64 *set = s == 0 ? in : s == 1 ? out : ex;

				if (!in_set(set, i))
					continue;
				if (got & what[s])
					ret++;
				else
					set[i / 64] &= ~(1UL << (i % 64));
			}
		}
	}
	for (u32 i = 0; i < nr; i++)
		file_put(w[i].file);
	kfree(w);
	return ret;
}

static long do_select(s32 n, vaddr_t in, vaddr_t out, vaddr_t ex, u64 deadline)
{
	const vaddr_t uset[3] = { in, out, ex };
	u32 words, max = files_size(current->files);
	u64 *sets;
	long ret = 0;

	if (n < 0)
		return -EINVAL;
	n = MIN(n, (s32)MIN(max, MAX_SELECT)); /* what is beyond the table is not open */
	words = DIV_UP((u32)n, 64);
	sets = kzalloc(3 * words * 8 + 1);
	if (!sets)
		return -ENOMEM;
	for (int s = 0; s < 3 && !ret; s++) {
		if (uset[s] && copy_from_user(sets + (u32)s * words, uset[s], words * 8))
			ret = -EFAULT;
	}
	if (!ret)
		ret = select_sets((u32)n, sets, uset, deadline);
	for (int s = 0; s < 3 && ret >= 0; s++) {
		if (uset[s] && copy_to_user(uset[s], sets + (u32)s * words, words * 8))
			ret = -EFAULT;
	}
	kfree(sets);
	return ret;
}

long sys_select(u64 n, u64 in, u64 out, u64 ex, u64 utv)
{
	u64 deadline = 0;
	s64 tv[2];
	long ret;

	if (utv) {
		if (copy_from_user(tv, utv, sizeof(tv)))
			return -EFAULT;
		if (tv[0] < 0 || tv[1] < 0)
			return -EINVAL;
		tv[0] += tv[1] / 1000000;
		tv[1] %= 1000000;
		deadline = tv[0] > (s64)(~0UL / 4 / NS) ?
				   0 : deadline_in((u64)tv[0] * NS + (u64)tv[1] * 1000);
	}
	ret = do_select((s32)n, in, out, ex, deadline);
	put_left(utv, deadline, true);
	return ret == -EINTR ? -ERESTARTNOHAND : ret;
}

long sys_pselect6(u64 n, u64 in, u64 out, u64 ex, u64 uts, u64 usig)
{
	u64 deadline, sig[2] = { 0, 0 };
	long ret = get_deadline(uts, &deadline);

	if (!ret && usig && copy_from_user(sig, usig, sizeof(sig)))
		ret = -EFAULT;
	if (!ret && sig[0])
		ret = signal_set_user_mask(sig[0], sig[1]);
	if (ret)
		return ret;
	ret = do_select((s32)n, in, out, ex, deadline);
	if (sig[0])
		signal_restore_mask(ret == -EINTR);
	put_left(uts, deadline, false);
	return ret == -EINTR ? -ERESTARTNOHAND : ret;
}
