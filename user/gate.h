/*
 * A start and an end for workers that are timed together, threads or processes. Cheaper than a pair
 * of barriers, whose waiters hand each other the way out one by one: here main wakes two, and everybody
 * who wakes wakes two more, so that the last of n starts after log n steps, and none is kept waiting when main
 * loses its CPU to a worker.
 *
 *   main                        worker
 *   gate_init()
 *   gate_all_here()             gate_enter()      counts itself in, sleeps
 *   gate_open()                 ... work ...
 *   gate_all_done()             gate_leave()      counts itself out, sleeps
 *   gate_release()              ... what is not timed ...
 */
#ifndef USER_GATE_H
#define USER_GATE_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

struct gate {
	_Alignas(64) atomic_uint missing; /* workers that have not entered */
	_Alignas(64) atomic_uint opened;
	_Alignas(64) atomic_uint working; /* workers that have not left */
	_Alignas(64) atomic_uint released;
	_Alignas(64) int private;         /* FUTEX_PRIVATE_FLAG between threads */
};

static inline void gate_init(struct gate *g, unsigned int workers, bool threads)
{
	*g = (struct gate){ .missing = workers, .working = workers,
			    .private = threads ? FUTEX_PRIVATE_FLAG : 0 };
}

static inline void gate_wake(struct gate *g, atomic_uint *word, int count)
{
	syscall(SYS_futex, word, FUTEX_WAKE | g->private, count);
}

/* Until the word is `value`. */
static inline void gate_wait(struct gate *g, atomic_uint *word, unsigned int value)
{
	unsigned int seen;

	while ((seen = atomic_load(word)) != value)
		syscall(SYS_futex, word, FUTEX_WAIT | g->private, seen, NULL);
}

static inline void gate_enter(struct gate *g)
{
	if (atomic_fetch_sub(&g->missing, 1) == 1)
		gate_wake(g, &g->missing, 1);
	gate_wait(g, &g->opened, 1);
	gate_wake(g, &g->opened, 2);
}

static inline void gate_leave(struct gate *g)
{
	if (atomic_fetch_sub(&g->working, 1) == 1)
		gate_wake(g, &g->working, 1);
	gate_wait(g, &g->released, 1);
}

static inline void gate_all_here(struct gate *g)
{
	gate_wait(g, &g->missing, 0);
}

static inline void gate_open(struct gate *g)
{
	atomic_store(&g->opened, 1);
	gate_wake(g, &g->opened, 2);
}

static inline void gate_all_done(struct gate *g)
{
	gate_wait(g, &g->working, 0);
}

static inline void gate_release(struct gate *g)
{
	atomic_store(&g->released, 1);
	gate_wake(g, &g->released, INT_MAX);
}

#endif
