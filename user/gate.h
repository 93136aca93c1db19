/*
 * A start and an end for workers that are timed together, threads or processes. Cheaper than a pair
 * of barriers, whose waiters hand each other the way out one by one: here each has a seat with a word of its own to
 * sleep on, main wakes the first, and who sits on seat i wakes seats 2i + 1 and 2i + 2. So the last of n starts after
 * log n steps, no two meet in a queue of the kernel's, and none is kept waiting when main loses its CPU to a worker.
 *
 *   main                        worker
 *   gate_init()
 *   gate_all_here()             gate_enter()      takes a seat, sleeps
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

#define MAX_TEAM 4096 /* workers */

struct gate {
	_Alignas(64) atomic_uint missing; /* workers that have not entered */
	_Alignas(64) atomic_uint working; /* workers that have not left */
	_Alignas(64) atomic_uint released;
	_Alignas(64) int private;         /* FUTEX_PRIVATE_FLAG between threads */
	unsigned int workers;
	struct {
		_Alignas(64) atomic_uint open;
	} seat[MAX_TEAM];
};

static inline void gate_init(struct gate *g, unsigned int workers, bool threads)
{
	g->missing = g->working = g->workers = workers;
	g->released = 0;
	g->private = threads ? FUTEX_PRIVATE_FLAG : 0;
	for (unsigned int i = 0; i < workers; i++)
		g->seat[i].open = 0;
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

static inline void gate_call(struct gate *g, unsigned int seat)
{
	if (seat >= g->workers)
		return;
	atomic_store(&g->seat[seat].open, 1);
	gate_wake(g, &g->seat[seat].open, 1);
}

static inline void gate_enter(struct gate *g)
{
	unsigned int missing = atomic_fetch_sub(&g->missing, 1), seat = g->workers - missing;

	if (missing == 1)
		gate_wake(g, &g->missing, 1);
	gate_wait(g, &g->seat[seat].open, 1);
	gate_call(g, 2 * seat + 1);
	gate_call(g, 2 * seat + 2);
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
	gate_call(g, 0);
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
