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

#include "arch/x86_64/cpu.h"
#include "kernel/list.h"
#include "kernel/types.h"

struct task;

/* Ranks, outermost first (docs/design.md, Locks). */
enum lock_rank {
	RANK_NONE,       /* not checked: panic, early boot */
	RANK_FILE,       /* position of an open file; generated files are made under it */
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
	u32 unused;
};
#define DEFINE_LOCK_CLASS(ident, nm, rk)                                                           \
	__attribute__((section(".lock_classes"), used, aligned(8))) struct lock_class ident = {    \
		.name = (nm), .rank = (rk)                                                         \
	}

/* Classes are numbered by their place in the section, from 1; 0 = none. */
extern struct lock_class __lock_classes_start[], __lock_classes_end[];
#define MAX_LOCK_CLASSES 64

/*
 * 8 bytes. class_id indexes the class table; 0 = no statistics and no rank
 * check (a zeroed lock is a valid unlocked lock). owner: CPU + 1 in debug builds.
 */
typedef struct {
	u32 word;     /* 0: free, whatever the kind; see lock.c */
	u16 class_id;
	u16 owner;
} spinlock_t;

#define SPINLOCK_INIT { 0, 0, 0 }

void spin_init(spinlock_t *l, struct lock_class *c);

#ifndef HOST_TEST
/*
 * What the inline paths look at, in one word: 0 = queued locks and nothing to
 * record. Otherwise everything is done in lock.c.
 */
extern u32 lock_mode;
void spin_lock_full(spinlock_t *l, bool nested);
bool spin_trylock_full(spinlock_t *l);
void spin_unlock_full(spinlock_t *l);
void spin_lock_queued(spinlock_t *l); /* somebody has it: wait */
u64 spin_lock_irqsave_slow(spinlock_t *l, u64 flags);

static inline bool spin_lock_fast(spinlock_t *l)
{
	u32 free = 0;

	return __atomic_compare_exchange_n(&l->word, &free, 1, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}
static inline void spin_lock(spinlock_t *l)
{
	if (unlikely(lock_mode))
		spin_lock_full(l, false);
	else if (unlikely(!spin_lock_fast(l)))
		spin_lock_queued(l);
}
/* A second lock of the same rank: higher address, or the caller knows that no one takes them the other way. */
static inline void spin_lock_nested(spinlock_t *l)
{
	if (unlikely(lock_mode))
		spin_lock_full(l, true);
	else if (unlikely(!spin_lock_fast(l)))
		spin_lock_queued(l);
}
static inline bool spin_trylock(spinlock_t *l)
{
	return unlikely(lock_mode) ? spin_trylock_full(l) : spin_lock_fast(l);
}
static inline void spin_unlock(spinlock_t *l)
{
	if (unlikely(lock_mode))
		spin_unlock_full(l);
	else
		__atomic_store_n((u8 *)&l->word, 0, __ATOMIC_RELEASE);
}

/*
 * For locks that interrupt handlers take too. Nobody may wait for an answer
 * from another CPU (TLB shootdown, smp_call_others) while holding one of these: that CPU may
 * be spinning for it with interrupts off.
 */
static inline u64 spin_lock_irqsave(spinlock_t *l)
{
	u64 flags = irq_save();

	if (unlikely(lock_mode) || unlikely(!spin_lock_fast(l)))
		flags = spin_lock_irqsave_slow(l, flags);
	return flags;
}
static inline void spin_unlock_irqrestore(spinlock_t *l, u64 flags)
{
	spin_unlock(l);
	irq_restore(flags);
}
#else
void spin_lock(spinlock_t *l);
void spin_lock_nested(spinlock_t *l);
bool spin_trylock(spinlock_t *l);
void spin_unlock(spinlock_t *l);
u64 spin_lock_irqsave(spinlock_t *l);
void spin_unlock_irqrestore(spinlock_t *l, u64 flags);
#endif
bool spin_is_locked(const spinlock_t *l);

/* Sleeping locks: the waiter gives up the CPU. Not in interrupts, no spinlock held. */
struct mutex {
	u64 owner;            /* struct task * or 0, and flags in the low bits: lock_sleep.c; atomic */
	spinlock_t lock;      /* guards waiters */
	struct list waiters;
	struct lock_class *class;
	u64 since;            /* lock.stat: when it was taken; holder */
};
#define MUTEX_INIT(m, c) { .waiters = LIST_INIT((m).waiters), .class = (c) }
void mutex_init(struct mutex *m, struct lock_class *c);
void mutex_lock(struct mutex *m);
bool mutex_trylock(struct mutex *m);
void mutex_unlock(struct mutex *m);
bool mutex_is_locked(const struct mutex *m);

/*
 * Reader/writer semaphore; fair: a waiting writer stops new readers. The reader's fast path is
 * one atomic add.
 */
struct rwsem {
	u64 count;       /* see lock_sleep.c; atomic */
	spinlock_t lock; /* guards waiters */
	struct list waiters;
	struct lock_class *class;
	u64 since;       /* lock.stat: when the writer took it; writer */
};
void rwsem_init(struct rwsem *s, struct lock_class *c);
void down_read(struct rwsem *s);
bool down_read_trylock(struct rwsem *s);
void up_read(struct rwsem *s);
void down_write(struct rwsem *s);
bool down_write_trylock(struct rwsem *s);
/* 0, or -EINTR when a fatal signal is pending. */
int down_read_killable(struct rwsem *s);
int down_write_killable(struct rwsem *s);
void up_write(struct rwsem *s);
void downgrade_write(struct rwsem *s);

#ifdef DEBUG
/* A lock that is held, and where it was taken: lock_check.c. */
#define LOCK_TRACE        8
#define MAX_HELD_SLEEPING 8
struct held_lock {
	const void *lock;
	const struct lock_class *class; /* NULL: none */
	bool irqs_off;                  /* interrupts were off when, or once, it was taken */
	u64 trace[LOCK_TRACE];
};

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

/*
 * /proc/lock_stat: one line a class. With lock.stat=1 all columns are counted; with 2 only the
 * counts, without reading the clock. Writing anything to the file clears it.
 */
struct seq;
void lock_stat_show(struct seq *s);
void lock_stat_clear(void);

/* Boot: after the parameters have been read, while no lock is held: lock.kind and lock.stat take effect. */
void lock_init(void);

#endif
