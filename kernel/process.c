/*
 * The table of numbers and the family tree.
 *
 * One entry a number says which thread and which process have it and who is in the process
 * group of that number; `uses` counts all of these and the members of the session, and the
 * number is free at 0. Entries come in chunks of one page, which goes (by RCU) when none of
 * its numbers is in use.
 *
 * Written under the tree lock. Read under RCU: an entry's pointers are
 * cleared before the reference that the table holds is dropped, and what they point to is
 * freed after a grace period, so a reader only has to take a reference that is not 0.
 */
#include "kernel/process.h"

#include <asm/errno.h>

#include "arch/x86_64/clock.h"
#include "arch/x86_64/cpu.h"
#include "kernel/printk.h"
#include "kernel/ptimer.h"
#include "kernel/signal.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "mm/page.h"
#include "mm/slab.h"

DEFINE_LOCK_CLASS(tree_class, "process tree", RANK_PROCESS);
DEFINE_LOCK_CLASS(siglock_class, "siglock", RANK_SIGNAL);
DEFINE_LOCK_CLASS(timer_mutex_class, "process timers", RANK_PROCESS);

struct pid_entry {
	struct task *task;       /* RCU */
	struct process *process; /* RCU; zombies too */
	struct list members;     /* of the process group: struct process, pgrp_link */
	u32 uses;
};

#define CHUNK_ENTRIES ((PAGE_SIZE - 32) / sizeof(struct pid_entry))
#define CHUNKS        DIV_UP(PID_MAX, CHUNK_ENTRIES)

struct pid_chunk {
	struct rcu_head rcu;
	u32 used; /* numbers in use; tree lock */
	struct pid_entry entries[CHUNK_ENTRIES];
};
static_assert(sizeof(struct pid_chunk) <= PAGE_SIZE, "one page");

static spinlock_t tree_spin;
static struct pid_chunk *chunks[CHUNKS]; /* RCU; tree lock */
/*
 * The chunk that was emptied last: mostly the next number lies in it again. It may only come
 * back to its own place, as readers may still look at it; place -1: it is fresh. There is one
 * from the start, so that what the table takes is the same before and after a burst of
 * processes.
 */
static struct pid_chunk *spare; /* tree lock */
static int spare_place;         /* tree lock */
static int last_pid;            /* tree lock */
static struct slab_cache *process_cache;

struct process *init_process;

u64 tree_lock(void)
{
	return spin_lock_irqsave(&tree_spin);
}

void tree_unlock(u64 flags)
{
	spin_unlock_irqrestore(&tree_spin, flags);
}

/* --- numbers ------------------------------------------------------------- */

/* The chunk of a number in 1 .. PID_MAX - 1. */
static struct pid_chunk **chunk_of(int pid)
{
	return &chunks[((u32)pid & (PID_MAX - 1)) / CHUNK_ENTRIES];
}

/* The entry of a number, or NULL if there is no chunk for it. */
static struct pid_entry *entry_of(int pid)
{
	struct pid_chunk *chunk;

	if (pid <= 0 || pid >= PID_MAX)
		return NULL;
	chunk = rcu_dereference(*chunk_of(pid));
	return chunk ? &chunk->entries[(u32)pid % CHUNK_ENTRIES] : NULL;
}

void pid_use(int pid)
{
	lock_assert_held(&tree_spin);
	if (entry_of(pid)->uses++ == 0)
		(*chunk_of(pid))->used++;
}

static void chunk_free(struct pid_chunk *chunk)
{
	atomic_sub(&frames_kept, 1);
	kpage_free(chunk);
}

static void chunk_free_rcu(struct rcu_head *head)
{
	chunk_free(container_of(head, struct pid_chunk, rcu));
}

void pid_unuse(int pid)
{
	struct pid_entry *e = entry_of(pid);
	struct pid_chunk **slot = chunk_of(pid), *chunk = *slot;

	lock_assert_held(&tree_spin);
	ASSERT(e && e->uses > 0);
	if (--e->uses || --chunk->used)
		return;
	rcu_assign_pointer(*slot, NULL);
	if (spare)
		call_rcu(&spare->rcu, chunk_free_rcu);
	spare = chunk;
	spare_place = (int)(slot - chunks);
}

/* A chunk of free numbers, made outside of the lock. */
static struct pid_chunk *chunk_alloc(void)
{
	struct pid_chunk *chunk = kpage_alloc(ALLOC_ZERO);

	if (chunk)
		atomic_add(&frames_kept, 1);
	for (u32 i = 0; chunk && i < CHUNK_ENTRIES; i++)
		list_init(&chunk->entries[i].members);
	return chunk;
}

/*
 * The first free number after the last one given; it may lie in a chunk that is not there. 0:
 * none.
 */
static int next_free(void)
{
	int pid = last_pid;

	for (int tries = 0; tries < PID_MAX; tries++) {
		if (++pid >= PID_MAX)
			pid = PID_RESERVED;
		struct pid_entry *e = entry_of(pid);

		if (!e || e->uses == 0)
			return pid;
	}
	return 0;
}

int pid_alloc(u64 *flags)
{
	struct pid_chunk *fresh = NULL;
	int pid;

	for (;;) {
		*flags = tree_lock();
		pid = next_free();
		if (pid && !entry_of(pid)) {
			struct pid_chunk **slot = chunk_of(pid);
			bool fits = spare && (spare_place < 0 || spare_place == slot - chunks);
			struct pid_chunk **from = fits ? &spare : &fresh;

			rcu_assign_pointer(*slot, *from);
			*from = NULL;
		}
		if (pid && entry_of(pid))
			break;
		tree_unlock(*flags);
		if (!pid)
			break;
		fresh = chunk_alloc();
		if (!fresh)
			return -ENOMEM;
	}
	if (fresh) /* somebody else was faster */
		call_rcu(&fresh->rcu, chunk_free_rcu);
	if (!pid)
		return -EAGAIN;
	pid_use(pid);
	last_pid = pid;
	return pid;
}

void child_event(struct process *p)
{
	atomic_add(&p->child_events, 1);
	wake_up_all(&p->child_wait);
}

void pid_set_task(int tid, struct task *t)
{
	rcu_assign_pointer(entry_of(tid)->task, t);
}

void pid_set_process(int pid, struct process *p)
{
	rcu_assign_pointer(entry_of(pid)->process, p);
}

void process_set_pgrp(struct process *p, int pgid)
{
	if (p->pgid) {
		list_del(&p->pgrp_link);
		pid_unuse(p->pgid);
	}
	WRITE_ONCE(p->pgid, pgid);
	if (pgid) {
		pid_use(pgid);
		list_add_tail(&entry_of(pgid)->members, &p->pgrp_link);
	}
}

void process_set_sid(struct process *p, int sid)
{
	if (p->sid)
		pid_unuse(p->sid);
	WRITE_ONCE(p->sid, sid);
	if (sid)
		pid_use(sid);
}

unsigned pgrp_each(int pgid, void (*fn)(struct process *p, void *arg), void *arg)
{
	struct pid_entry *e = entry_of(pgid);
	unsigned n = 0;

	lock_assert_held(&tree_spin);
	if (!e)
		return 0;
	list_for_each(p, &e->members, struct process, pgrp_link) {
		fn(p, arg);
		n++;
	}
	return n;
}

bool pgrp_orphaned(int pgid, struct process *ignored)
{
	struct pid_entry *e = entry_of(pgid);

	lock_assert_held(&tree_spin);
	if (!e)
		return true;
	list_for_each(p, &e->members, struct process, pgrp_link) {
		if (p == ignored || p->state != PROCESS_ALIVE || !p->parent ||
		    p->parent == init_process)
			continue;
		if (p->parent->pgid != pgid && p->parent->sid == p->sid)
			return false;
	}
	return true;
}

/* --- references and lookup ------------------------------------------------ */

static void process_free_rcu(struct rcu_head *head)
{
	struct process *p = container_of(head, struct process, rcu);

	if (p->sighand)
		sighand_put(p->sighand);
	slab_free(process_cache, p);
}

struct process *process_get(struct process *p)
{
	__atomic_fetch_add(&p->refs, 1, __ATOMIC_RELAXED);
	return p;
}

void process_put(struct process *p)
{
	if (__atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL) == 0)
		call_rcu(&p->rcu, process_free_rcu);
}

/* Take a reference on something that RCU keeps readable, unless its count is 0 already. */
static bool tryget(u32 *refs)
{
	u32 n = __atomic_load_n(refs, __ATOMIC_RELAXED);

	while (n)
		if (atomic_try_cmpxchg(refs, &n, n + 1))
			return true;
	return false;
}

struct process *process_by_pid(int pid)
{
	struct process *p = NULL;
	struct pid_entry *e;

	rcu_read_lock();
	e = entry_of(pid);
	if (e)
		p = rcu_dereference(e->process);
	if (p && !tryget(&p->refs))
		p = NULL;
	rcu_read_unlock();
	return p;
}

struct task *task_by_tid(int tid)
{
	struct task *t = NULL;
	struct pid_entry *e;

	rcu_read_lock();
	e = entry_of(tid);
	if (e)
		t = rcu_dereference(e->task);
	if (t && !tryget(&t->refs))
		t = NULL;
	rcu_read_unlock();
	return t;
}

struct process *process_next(int pid)
{
	struct process *p = NULL;

	rcu_read_lock();
	for (pid = MAX(pid, 1); !p && pid < PID_MAX; pid++) {
		struct pid_entry *e = entry_of(pid);

		if (!e) {
			/* Go on with the next chunk. */
			pid = (int)(((u32)pid / CHUNK_ENTRIES + 1) * CHUNK_ENTRIES - 1);
			continue;
		}
		p = rcu_dereference(e->process);
		if (p && !tryget(&p->refs))
			p = NULL;
	}
	rcu_read_unlock();
	return p;
}

struct process *process_after(struct process *p)
{
	struct process *next = process_next(p->pid + 1);

	process_put(p);
	return next;
}

struct task *process_next_task(struct process *p, int tid)
{
	struct task *best = NULL;
	u64 flags = spin_lock_irqsave(&p->siglock);

	list_for_each(t, &p->threads, struct task, thread_link)
		if (t->tid >= tid && (!best || t->tid < best->tid))
			best = t;
	if (best)
		task_get(best);
	spin_unlock_irqrestore(&p->siglock, flags);
	return best;
}

struct task *process_task(struct process *p)
{
	u64 flags = spin_lock_irqsave(&p->siglock);
	struct task *t = p->leader;

	if (!t && !list_empty(&p->threads))
		t = list_first(&p->threads, struct task, thread_link);
	if (t)
		task_get(t);
	spin_unlock_irqrestore(&p->siglock, flags);
	return t;
}

/* --- life ------------------------------------------------------------------ */

struct process *process_alloc(void)
{
	struct process *p = slab_zalloc(process_cache);

	if (!p)
		return NULL;
	p->refs = 1;
	list_init(&p->children);
	list_init(&p->sibling);
	list_init(&p->pgrp_link);
	list_init(&p->threads);
	list_init(&p->shared.queue);
	list_init(&p->posix_timers);
	list_init(&p->sem_undos);
	spin_init(&p->siglock, &siglock_class);
	mutex_init(&p->timer_mutex, &timer_mutex_class);
	wait_init(&p->stop_wait);
	wait_init(&p->child_wait);
	wait_init(&p->exec_wait);
	timers_init(p);
	p->start_ns = clock_ns();
	p->exit_signal = SIGCHLD;
	return p;
}

void process_init(void)
{
	spin_init(&tree_spin, &tree_class);
	process_cache = slab_create("process", sizeof(struct process), CACHE_LINE);
	chunks[0] = chunk_alloc();
	spare = chunk_alloc();
	spare_place = -1;
	ASSERT(process_cache && chunks[0] && spare);
	signal_init();
	ptimer_init();
	futex_init();
}

u64 rlimit(unsigned which)
{
	return current->process ? rlimit_of(current->process, which) : RLIM64_INFINITY;
}

/* --- the calls that ask for and move between numbers ----------------------- */

long sys_getpid(void)
{
	return current->process->pid;
}

long sys_gettid(void)
{
	return current->tid;
}

long sys_getppid(void)
{
	struct process *parent;
	long pid;

	rcu_read_lock();
	parent = READ_ONCE(current->process->parent);
	pid = parent ? parent->pid : 0;
	rcu_read_unlock();
	return pid;
}

long sys_getpgrp(void)
{
	return current->process->pgid;
}

/* A field of the process `pid` (0: own), or -ESRCH. */
static long pid_field(int pid, bool sid)
{
	struct process *p = pid ? process_by_pid(pid) : process_get(current->process);
	long id;

	if (!p)
		return -ESRCH;
	id = sid ? READ_ONCE(p->sid) : READ_ONCE(p->pgid);
	process_put(p);
	return id ? id : -ESRCH;
}

long sys_getpgid(u64 pid)
{
	return pid_field((int)pid, false);
}

long sys_getsid(u64 pid)
{
	return pid_field((int)pid, true);
}

/* POSIX: a child may be moved until it has called exec; only within its session. */
static long setpgid_locked(struct process *p, int pgid)
{
	struct process *self = current->process;

	if (p != self) {
		if (p->parent != self || p->state == PROCESS_DEAD)
			return -ESRCH;
		if (p->sid != self->sid)
			return -EPERM;
		if (p->did_exec)
			return -EACCES;
	}
	if (p->sid == p->pid)
		return -EPERM;
	if (pgid != p->pid) {
		struct pid_entry *e = entry_of(pgid);

		if (!e || list_empty(&e->members) ||
		    list_first(&e->members, struct process, pgrp_link)->sid != self->sid)
			return -EPERM;
	}
	if (p->pgid != pgid)
		process_set_pgrp(p, pgid);
	return 0;
}

long sys_setpgid(u64 pid_, u64 pgid_)
{
	int pid = (int)pid_, pgid = (int)pgid_;
	struct process *p;
	u64 flags;
	long ret;

	if (pgid < 0)
		return -EINVAL;
	p = pid ? process_by_pid(pid) : process_get(current->process);
	if (!p)
		return -ESRCH;
	flags = tree_lock();
	ret = setpgid_locked(p, pgid ? pgid : p->pid);
	tree_unlock(flags);
	process_put(p);
	return ret;
}

long sys_setsid(void)
{
	struct process *p = current->process;
	u64 flags = tree_lock();
	long ret = -EPERM;

	if (p->sid != p->pid && list_empty(&entry_of(p->pid)->members)) {
		process_set_sid(p, p->pid);
		process_set_pgrp(p, p->pid);
		p->tty = NULL;
		ret = p->pid;
	}
	tree_unlock(flags);
	return ret;
}
