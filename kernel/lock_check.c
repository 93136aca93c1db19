/*
 * Debug builds: is every lock taken in the order of its rank? (kernel/lock.h, enum lock_rank)
 *
 * A CPU keeps a list of the spinlocks it holds, a task one of its mutexes and semaphores, each with the
 * stack that took it. Before waiting for a lock its rank is compared with all that is held; a
 * lower rank, or the same without saying so, is a deadlock waiting for its day, and ends in a
 * panic that shows both stacks. A trylock may take any rank: it does not wait.
 *
 * An interrupt handler's locks are compared only with locks that were held with interrupts
 * off: the others belong to the interrupted code, which took them in an order of its own, and the
 * handler can take none of their classes (or it should, by irqsave, everywhere).
 *
 * Also found: a lock taken twice, released by somebody else, or held when the CPU is given up.
 */
#ifdef DEBUG

#include "kernel/lock_internal.h"

#include "arch/x86_64/cpu.h"
#include "kernel/printk.h"
#include "kernel/rcu.h"

#define MAX_HELD 24
#define FLAG_IF  (1UL << 9)

static DEFINE_PER_CPU(struct held_lock, held[MAX_HELD]); /* own CPU */
static DEFINE_PER_CPU(u32, nr_held);

static const char *class_name(const struct lock_class *c)
{
	return c ? c->name : "no class";
}

static u32 rank_of(const struct lock_class *c)
{
	return c ? c->rank : RANK_NONE;
}

static void print_held(const struct held_lock *h)
{
	printk("held: %s (rank %u) at %p, taken by\n", class_name(h->class), rank_of(h->class), h->lock);
	backtrace_print(h->trace, LOCK_TRACE);
}

static void __noreturn complain(const char *what, const void *lock, const struct lock_class *class,
				const struct held_lock *h)
{
	if (h)
		print_held(h);
	panic("%s: %s (rank %u) at %p", what, class_name(class), rank_of(class), lock);
}

static void compare(const struct held_lock *h, const void *lock, const struct lock_class *class,
		    bool same_rank_ok)
{
	u32 mine = rank_of(class), other = rank_of(h->class);

	if (h->lock == lock)
		complain("lock taken twice", lock, class, h);
	if (mine == RANK_NONE || other == RANK_NONE)
		return;
	if (other > mine || (other == mine && !same_rank_ok))
		complain("lock order", lock, class, h);
}

/* skip: how many of the innermost callers are the lock's own code. */
static void record(struct held_lock *h, const void *lock, const struct lock_class *class,
		   bool irqs_off, unsigned skip)
{
	h->lock = lock;
	h->class = class;
	h->irqs_off = irqs_off;
	backtrace_save(h->trace, LOCK_TRACE, skip);
}

void lock_check_spin(spinlock_t *l, bool nested, u64 flags)
{
	struct lock_class *class = class_of_number(l->class_id);
	struct held_lock *mine = *this_cpu_ptr(held);
	bool maybe_handler = !(flags & FLAG_IF);
	u32 n = MIN(this_cpu_read(nr_held), (u32)MAX_HELD);
	struct task *t = current;

	if (panicking())
		return;
	for (u32 i = 0; i < n; i++)
		if (!maybe_handler || mine[i].irqs_off || mine[i].lock == l)
			compare(&mine[i], l, class, nested);
	for (u32 i = 0; t && !maybe_handler && i < t->nr_held; i++)
		compare(&t->held[i], l, class, true);
}

void lock_check_spin_taken(spinlock_t *l, u64 flags)
{
	u64 now = irq_save(); /* handlers change the list too */
	u32 i = this_cpu_read(nr_held);

	l->owner = this_cpu() + 1;
	if (i >= MAX_HELD)
		panic("more than %d spinlocks held", MAX_HELD);
	record(&(*this_cpu_ptr(held))[i], l, class_of_number(l->class_id), !(now & FLAG_IF), 3);
	this_cpu_inc(nr_held);
	irq_restore(now);
}

void lock_check_spin_released(spinlock_t *l)
{
	struct held_lock *mine = *this_cpu_ptr(held);
	u64 now;
	u32 n, i;

	if (panicking())
		return;
	now = irq_save();
	n = this_cpu_read(nr_held);
	if (!spin_is_locked(l) || l->owner != this_cpu() + 1)
		panic("spin_unlock of %s at %p, which this CPU does not hold",
		      class_name(class_of_number(l->class_id)), l);
	for (i = n; i > 0 && mine[i - 1].lock != l; i--)
		;
	if (!i)
		panic("spin_unlock of %s at %p: not among the locks held",
		      class_name(class_of_number(l->class_id)), l);
	l->owner = 0;
	for (; i < n; i++)
		mine[i - 1] = mine[i];
	this_cpu_add(nr_held, -1);
	irq_restore(now);
}

void lock_assert_held(const spinlock_t *l)
{
	if (!panicking() && (!spin_is_locked(l) || READ_ONCE(l->owner) != this_cpu() + 1))
		panic("%s at %p is not held here", class_name(class_of_number(l->class_id)), l);
}

bool lock_none_held(void)
{
	return !this_cpu_read(nr_held);
}

void lock_assert_none(void)
{
	if (panicking() || lock_none_held())
		return;
	print_held(&(*this_cpu_ptr(held))[0]);
	panic("a spinlock is held where the CPU may be given up");
}

void lock_check_sleep(const void *lock, const struct lock_class *class)
{
	struct task *t = current;

	if (panicking())
		return;
	lock_assert_none();
	for (u32 i = 0; t && i < t->nr_held; i++)
		compare(&t->held[i], lock, class, true);
}

void lock_check_sleep_taken(const void *lock, const struct lock_class *class)
{
	struct task *t = current;

	if (!t)
		return;
	if (t->nr_held >= MAX_HELD_SLEEPING)
		panic("more than %d sleeping locks held", MAX_HELD_SLEEPING);
	record(&t->held[t->nr_held++], lock, class, false, 1);
}

void lock_check_sleep_released(const void *lock)
{
	struct task *t = current;
	u32 i;

	if (!t || panicking())
		return;
	for (i = t->nr_held; i > 0 && t->held[i - 1].lock != lock; i--)
		;
	if (!i)
		panic("sleeping lock at %p released by a task that does not hold it", lock);
	t->nr_held--;
	for (; i <= t->nr_held; i++)
		t->held[i - 1] = t->held[i];
}

#else
typedef int nothing_in_release_builds;
#endif
