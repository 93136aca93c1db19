/*
 * Spinlocks: three kinds in one 32-bit word, chosen at boot by lock.kind.
 *
 * tas      0 free, 1 taken. Every try is an exchange, which pulls the cache line away from the
 *          holder and all other waiters; nobody is promised a turn.
 *
 * ticket   bits 31..16 the next ticket, bits 15..0 the one being served; free when they are
 *          equal. First come, first served, but all waiters read one line, and each release
 *          makes every one of them fetch it again.
 *
 * queued   (after Mellor-Crummey and Scott, "Algorithms for Scalable Synchronization on
 *          Shared-Memory Multiprocessors", 1991, packed into one word as Linux does)
 *
 *              31        18 17   16 15     8 7      0
 *             +------------+-------+--------+--------+
 *             | CPU + 1    | level | unused | locked |
 *             +------------+-------+--------+--------+
 *               \___ tail: last waiter ___/
 *
 *          Free and nobody waits: the word is 0, and one compare-and-swap 0 -> 1 takes it.
 *          A waiter takes a node of its own CPU (level: a task may be waiting when an interrupt
 *          makes the CPU wait for another lock, hence four nodes), writes itself in as
 *          the tail, and links itself behind the old tail. It then spins on its own node
 *          until its predecessor makes it head of the queue. Only the head looks
 *          at the lock word.
 *
 *   Why it is right:
 *   1. Mutual exclusion. `locked` goes from 0 to 1 in three places. The fast path and trylock
 *      need the whole word to be 0: no holder, no waiter. The two in the slow path belong to the head,
 *      and there is one head at a time: whoever found the tail empty, or was told by its
 *      predecessor, which by then had the lock and never looks at it again as a waiter. The
 *      head stores only after it has seen locked == 0, and while it exists the tail is not 0, so
 *      nobody else can make it 1 in between.
 *   2. No waiter is lost. The tail changes by exchange, so the old value names
 *      exactly one predecessor for each waiter. A head removes itself by compare-and-swap
 *      (tail == itself and unlocked -> 1, nobody waits); if that fails, somebody has exchanged
 *      the tail and will link itself, so the head waits for that link and hands on.
 *   3. A node is used again only when its lock is taken and the successor, if any, has been told; nobody
 *      else writes into it: the predecessor's store to `go` was what we waited for, and the
 *      successor's store to `next` is what we waited for to hand on.
 *   4. Order. Acquiring is a locked instruction or a load that saw locked == 0 (acquire), releasing is
 *      a store (release); handing on by `go` likewise.
 *
 * Interrupts: a plain spin_lock leaves them as they are; so a lock that an interrupt handler
 * takes must be taken by irqsave everywhere. Such a lock is waited for with
 * interrupts off in the ticket and queued kinds: once in line, a handler on this CPU that wants the
 * same lock would queue behind its own CPU for ever. With tas a waiter is in no
 * line, and waits with interrupts as they were. Nothing that waits for another CPU's answer
 * (TLB shootdown) may be done while holding an irqsave lock, and then
 * a CPU that spins with interrupts off always gets on.
 *
 * lock_mode is 0 for queued locks that record nothing; then the inline paths in lock.h do
 * all but waiting. In every other case spin_lock_full() and its like do everything.
 */
#include "kernel/lock_internal.h"

#include "arch/x86_64/percpu.h"
#include "kernel/param.h"
#include "kernel/printk.h"

PARAM_ENUM(lock_kind, "lock.kind", 0, LOCK_QUEUED, "tas", "ticket", "queued");
PARAM_INT(lock_stat, "lock.stat", 0, 0, 0, 2);

#ifdef DEBUG
u32 lock_mode = LOCK_MODE_CHECK; /* written once, by lock_init() */
#else
u32 lock_mode;
#endif
static int kind_now = LOCK_QUEUED; /* as above */

void lock_init(void)
{
	u64 classes = __lock_classes_end - __lock_classes_start;

	if (classes > MAX_LOCK_CLASSES)
		panic("%lu lock classes; MAX_LOCK_CLASSES is %d", classes, MAX_LOCK_CLASSES);
	kind_now = lock_kind;
	if (kind_now != LOCK_QUEUED)
		lock_mode |= LOCK_MODE_KIND;
	if (lock_stat)
		lock_mode |= LOCK_MODE_STAT;
}

void spin_init(spinlock_t *l, struct lock_class *c)
{
	*l = (spinlock_t){ .class_id = class_number(c) };
}

bool spin_is_locked(const spinlock_t *l)
{
	u32 word = READ_ONCE(l->word);

	return kind_now == LOCK_TICKET ? (u16)word != word >> 16 : word & 0xff;
}

/* --- tas ----------------------------------------------------------------------- */

/* Each waits as its caller's interrupt flag was: flags. Returns how often it looked in vain. */
static u64 tas_lock(spinlock_t *l, bool irqsave, u64 flags)
{
	u64 spins = 0;

	while (atomic_xchg(&l->word, 1)) {
		spins++;
		if (irqsave)
			irq_restore(flags);
		cpu_relax();
		if (irqsave)
			irq_disable();
	}
	return spins;
}

/* --- ticket ---------------------------------------------------------------------- */

static u64 ticket_lock(spinlock_t *l)
{
	u16 ticket = atomic_fetch_add(&l->word, 1u << 16) >> 16;
	u64 spins = 0;

	while (smp_load_acquire((u16 *)&l->word) != ticket) {
		spins++;
		cpu_relax();
	}
	return spins;
}

static bool ticket_trylock(spinlock_t *l)
{
	u32 word = READ_ONCE(l->word);

	return (u16)word == word >> 16 && atomic_try_cmpxchg(&l->word, &word, word + (1u << 16));
}

/* Only the holder changes the lower half, so a plain addition to it will do. */
static void ticket_unlock(spinlock_t *l)
{
	u16 *serving = (u16 *)&l->word;

	smp_store_release(serving, *serving + 1);
}

/* --- queued ------------------------------------------------------------------------ */

struct queue_node {
	struct queue_node *next; /* successor, stored by it */
	u32 go;                  /* not 0: we are head; stored by the predecessor */
	u32 unused;
};

#define NODE_LEVELS 4

/* One cache line a CPU; own CPU uses them, neighbours in a queue write them. */
static __cacheline DEFINE_PER_CPU(struct queue_node, queue_nodes[NODE_LEVELS]);
static DEFINE_PER_CPU(u32, queue_level); /* nodes in use */

static struct queue_node *node_of_tail(u16 tail)
{
	return &per_cpu(queue_nodes, (tail >> 2) - 1)[tail & 3];
}

/* Wait in line. Returns how often it looked in vain. */
static u64 queued_lock_slow(spinlock_t *l)
{
	u16 *tail_of_lock = (u16 *)&l->word + 1;
	u32 level = this_cpu_read(queue_level);
	struct queue_node *node, *next;
	u16 tail, old;
	u64 spins = 0;
	u32 word;

	if (level >= NODE_LEVELS) { /* deeper than interrupts nest: without a node, without a turn */
		while (!spin_lock_fast(l)) {
			spins++;
			cpu_relax();
		}
		return spins;
	}

	/* An interrupt that comes after this uses the next node, and is done with it when it returns. */
	this_cpu_inc(queue_level);
	node = &(*this_cpu_ptr(queue_nodes))[level];
	node->next = NULL;
	node->go = 0;
	tail = (u16)((this_cpu() + 1) << 2 | level);

	old = atomic_xchg(tail_of_lock, tail); /* full barrier: the node is clean before it is seen */
	if (old) {
		smp_store_release(&node_of_tail(old)->next, node);
		while (!smp_load_acquire(&node->go)) {
			spins++;
			cpu_relax();
		}
	}

	/* Head of the queue. */
	while ((word = smp_load_acquire(&l->word)) & 0xff) {
		spins++;
		cpu_relax();
	}
	if (word != (u32)tail << 16 || !atomic_try_cmpxchg(&l->word, &word, 1)) {
		__atomic_store_n((u8 *)&l->word, 1, __ATOMIC_RELAXED);
		while (!(next = smp_load_acquire(&node->next)))
			cpu_relax();
		smp_store_release(&next->go, 1);
	}
	this_cpu_add(queue_level, -1);
	return spins;
}

void spin_lock_queued(spinlock_t *l)
{
	queued_lock_slow(l);
}

/* --- all kinds, with all there is to record ------------------------------------------- */

bool lock_kind_try(spinlock_t *l, int kind)
{
	switch (kind) {
	case LOCK_TAS:
		return !atomic_xchg(&l->word, 1);
	case LOCK_TICKET:
		return ticket_trylock(l);
	default:
		return spin_lock_fast(l);
	}
}

u64 lock_kind_wait(spinlock_t *l, int kind, bool irqsave, u64 flags)
{
	switch (kind) {
	case LOCK_TAS:
		return tas_lock(l, irqsave, flags);
	case LOCK_TICKET:
		return ticket_lock(l);
	default:
		return queued_lock_slow(l);
	}
}

void lock_kind_release(spinlock_t *l, int kind)
{
	if (kind == LOCK_TICKET)
		ticket_unlock(l);
	else
		__atomic_store_n((u8 *)&l->word, 0, __ATOMIC_RELEASE);
}

/* Interrupts are off already if irqsave; flags is what they were. */
static void lock_full(spinlock_t *l, bool nested, bool irqsave, u64 flags)
{
	bool contended;
	u64 spins = 0, start = 0;

	lock_check_spin(l, nested, flags);
	contended = !lock_kind_try(l, kind_now);
	if (contended) {
		if (lock_stat_on())
			start = lock_stat_clock();
		spins = lock_kind_wait(l, kind_now, irqsave, flags) + 1;
	}
	if (lock_stat_on()) {
		lock_stat_acquired(l->class_id, spins, contended, start);
		lock_stat_push(l);
	}
	lock_check_spin_taken(l, flags);
}

void spin_lock_full(spinlock_t *l, bool nested)
{
	lock_full(l, nested, false, read_flags());
}

u64 spin_lock_irqsave_slow(spinlock_t *l, u64 flags)
{
	if (lock_mode)
		lock_full(l, false, true, flags);
	else
		queued_lock_slow(l);
	return flags;
}

bool spin_trylock_full(spinlock_t *l)
{
	if (!lock_kind_try(l, kind_now))
		return false;
	if (lock_stat_on()) {
		lock_stat_acquired(l->class_id, 0, false, 0);
		lock_stat_push(l);
	}
	lock_check_spin_taken(l, read_flags());
	return true;
}

void spin_unlock_full(spinlock_t *l)
{
	lock_check_spin_released(l);
	if (lock_stat_on())
		lock_stat_pop(l);
	lock_kind_release(l, kind_now);
}
