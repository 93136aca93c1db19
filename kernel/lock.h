/*
 * Locks. Every lock belongs to a class; a class has a name and a rank. A CPU
 * (for sleeping locks: a task) that holds a lock may only take locks of a rank
 * that is not lower; the debug build checks it and shows both places. Two locks of the
 * same rank: lower address first (said with spin_lock_nested).
 *
 * lock.kind decides at boot what every spinlock is: tas, ticket or queued
 * (MCS-like: each waiter spins on its own CPU's cache line). One word serves
 * all three; the fast path is one atomic instruction.
 */
#ifndef KERNEL_LOCK_H
#define KERNEL_LOCK_H

#include "kernel/list.h"
#include "kernel/types.h"

/* Ranks, outermost first (docs/design.md, Locks). */
enum lock_rank {
	RANK_NONE,       /* not checked: panic, early boot */
	RANK_PROCESS,    /* process tree, signals' siglock is RANK_SIGNAL */
	RANK_VFS,        /* directories, open-file tables */
	RANK_MM,         /* address range of an mm (sleeping) */
	RANK_AREA,       /* area map of an mm */
	RANK_MAPPING,    /* a file's list of areas, i_mmap */
	RANK_HUGE_FAULT, /* hugetlb fault mutex */
	RANK_PAGE,       /* page cache of a file */
	RANK_HUGE_POOL,
	RANK_PT_UPPER,   /* page tables of level 2 and up */
	RANK_PT,         /* page tables of level 1 */
	RANK_MM_STATE,   /* RSS, mempolicy state, thread list of an mm */
	RANK_SLAB,
	RANK_ZONE,       /* buddy allocator of a node */
	RANK_SIGNAL,
	RANK_WAIT,       /* wait queues, futex buckets */
	RANK_TIMER,
	RANK_RUNQUEUE,
	RANK_CONSOLE,
	RANK_LEAF,       /* takes nothing inside */
};

/*
 * A lock class. Declared beside the lock it is for:
 *   DEFINE_LOCK_CLASS(zone_class, "zone", RANK_ZONE);
 * The statistics are per CPU and summed in /proc/lock_stat.
 */
struct lock_class {
	const char *name;
	u32 rank;
	u16 id; /* index into the per-CPU statistics */
	u16 registered;
};
#define DEFINE_LOCK_CLASS(ident, nm, rk)                                                           \
	__attribute__((section(".lock_classes"), used, aligned(8))) struct lock_class ident = {    \
		.name = (nm), .rank = (rk)                                                         \
	}

/*
 * 8 bytes. class_id indexes the class table; 0 = no statistics and no rank
 * check (a zeroed lock is a valid unlocked lock). owner: CPU + 1 in debug builds.
 */
typedef struct {
	u32 word;
	u16 class_id;
	u16 owner;
} spinlock_t;

#define SPINLOCK_INIT { 0, 0, 0 }

void spin_init(spinlock_t *l, struct lock_class *c);
void spin_lock(spinlock_t *l);
void spin_lock_nested(spinlock_t *l); /* a second lock of the same rank: higher address */
bool spin_trylock(spinlock_t *l);
void spin_unlock(spinlock_t *l);
bool spin_is_locked(const spinlock_t *l);

/* For locks that interrupt handlers take too. */
u64 spin_lock_irqsave(spinlock_t *l);
void spin_unlock_irqrestore(spinlock_t *l, u64 flags);

/* Sleeping locks: the waiter gives up the CPU. Not in interrupts, no spinlock held. */
struct mutex {
	spinlock_t lock; /* guards the fields below */
	struct task *owner;
	struct list waiters;
	struct lock_class *class;
};
void mutex_init(struct mutex *m, struct lock_class *c);
void mutex_lock(struct mutex *m);
bool mutex_trylock(struct mutex *m);
void mutex_unlock(struct mutex *m);

/*
 * Reader/writer semaphore; fair: a waiting writer stops new readers. The reader's fast path is
 * one atomic add.
 */
struct rwsem {
	s64 count;       /* >0: readers; -1: writer; atomic */
	spinlock_t lock; /* guards waiters */
	u32 waiting;     /* number of waiters; readers go slow when a writer waits */
	struct list waiters;
	struct lock_class *class;
};
void rwsem_init(struct rwsem *s, struct lock_class *c);
void down_read(struct rwsem *s);
bool down_read_trylock(struct rwsem *s);
void up_read(struct rwsem *s);
void down_write(struct rwsem *s);
/* 0, or -EINTR when a fatal signal is pending. */
int down_write_killable(struct rwsem *s);
void up_write(struct rwsem *s);
void downgrade_write(struct rwsem *s);

#ifdef DEBUG
void lock_assert_held(const spinlock_t *l);
void lock_assert_none(void); /* panics if this CPU holds any spinlock: before sleeping or user access */
#else
static inline void lock_assert_held(const spinlock_t *l)
{
	(void)l;
}
static inline void lock_assert_none(void)
{
}
#endif

/* /proc/lock_stat */
struct seq;
void lock_stat_show(struct seq *s);

/* Boot: number the classes (section .lock_classes). */
void lock_init(void);

#endif
