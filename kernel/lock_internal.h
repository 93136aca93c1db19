/*
 * What the files of the lock implementation share: lock.c (the three kinds of spinlock),
 * lock_sleep.c (mutex, rwsem), lock_check.c (order, debug builds), lock_stat.c.
 */
#ifndef KERNEL_LOCK_INTERNAL_H
#define KERNEL_LOCK_INTERNAL_H

#include "kernel/lock.h"
#include "kernel/task.h"

/* Bits of lock_mode. */
#define LOCK_MODE_KIND  1 /* not the queued kind */
#define LOCK_MODE_STAT  2
#define LOCK_MODE_CHECK 4 /* debug builds: always */

enum { LOCK_TAS, LOCK_TICKET, LOCK_QUEUED };

static inline u32 class_number(const struct lock_class *c)
{
	return c ? (u32)(c - __lock_classes_start) + 1 : 0;
}
static inline struct lock_class *class_of_number(u32 number)
{
	return number ? &__lock_classes_start[number - 1] : NULL;
}

/*
 * The bare locks of each kind, without bookkeeping; also for the self-tests. Waiting returns how often it
 * looked in vain; with irqsave, interrupts are off and were as in flags.
 */
bool lock_kind_try(spinlock_t *l, int kind);
u64 lock_kind_wait(spinlock_t *l, int kind, bool irqsave, u64 flags);
void lock_kind_release(spinlock_t *l, int kind);

/* --- statistics (lock_stat.c) ---------------------------------------------------- */

#define STAT_COUNTS 2 /* value of lock.stat: leave the clock alone */
extern long lock_stat;

static inline bool lock_stat_on(void)
{
	return lock_mode & LOCK_MODE_STAT;
}
/* Now, in ns, if times are wanted; else 0. */
u64 lock_stat_clock(void);
/* One acquisition of a lock of this class; wait_start 0 if it was not waited for. */
void lock_stat_acquired(u32 class, u64 spins, bool contended, u64 wait_start);
void lock_stat_released(u32 class, u64 since);
/* A spinlock was taken, is about to be released: measures the time between. */
void lock_stat_push(const spinlock_t *l);
void lock_stat_pop(const spinlock_t *l);

/* --- order (lock_check.c) ---------------------------------------------------------- */

#ifdef DEBUG
/* About to wait for l. flags: with the interrupt flag as it was before an irqsave. */
void lock_check_spin(spinlock_t *l, bool nested, u64 flags);
void lock_check_spin_taken(spinlock_t *l, u64 flags);
void lock_check_spin_released(spinlock_t *l);
/* The same for sleeping locks; shared: a reader, who may not take the same lock again either. */
void lock_check_sleep(const void *lock, const struct lock_class *class);
void lock_check_sleep_taken(const void *lock, const struct lock_class *class);
void lock_check_sleep_released(const void *lock);
/* This CPU holds no spinlock. */
bool lock_none_held(void);
#else
static inline void lock_check_spin(spinlock_t *l, bool nested, u64 flags) {}
static inline void lock_check_spin_taken(spinlock_t *l, u64 flags) {}
static inline void lock_check_spin_released(spinlock_t *l) {}
static inline void lock_check_sleep(const void *lock, const struct lock_class *class) {}
static inline void lock_check_sleep_taken(const void *lock, const struct lock_class *class) {}
static inline void lock_check_sleep_released(const void *lock) {}
#endif

#endif
