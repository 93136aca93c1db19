/*
 * Runs the self-tests that selftest= names: "all", or names with commas between, each
 * perhaps ending in * for all that begin so. Reports them as KTAP on the console.
 *
 * Every test is followed by a look at the ledger: no frame may be missing. Object caches and the tables of the stack
 * area keep some memory the first time a thing is done; so a test after which frames are missing runs again, and
 * has leaked if some are missing again.
 */
#include "kernel/selftest.h"

#include <asm/errno.h>

#include "arch/x86_64/clock.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/power.h"
#include "arch/x86_64/smp.h"
#include "kernel/param.h"
#include "kernel/rcu.h"
#include "kernel/string.h"
#include "mm/page.h"
#include "mm/ptpage.h"
#include "mm/slab.h"

PARAM_STRING(selftest_names, "selftest", 0, 256, "");
PARAM_BOOL(selftest_exit, "selftest_exit", 0, false);

extern const struct selftest __selftests_start[], __selftests_end[];

#define SETTLE_MS 500

/* --- crews ----------------------------------------------------------------------------- */

#define CREW_MAX (2 * MAX_CPUS)

/* Static: the last member may still be waking the waiter when that goes on. */
static struct {
	struct wait_queue done; /* running has become 0 */
	u32 running;            /* atomic */
	struct member members[CREW_MAX];
} crew;

static void member_main(void *arg)
{
	struct member *m = arg;

	m->fn(m);
	task_put(m->task);
	if (atomic_sub(&crew.running, 1) == 0)
		wake_up_all(&crew.done);
}

u32 cpus_up(void)
{
	return cpumask_count(&cpus_online);
}

static int nth_cpu(u32 n)
{
	n %= cpus_up();
	for_each_cpu(cpu, &cpus_online)
		if (!n--)
			return (int)cpu;
	return 0;
}

int crew_start(void (*fn)(struct member *), void *arg, u32 count, bool pinned)
{
	ASSERT(count <= CREW_MAX);
	if (!crew.done.list.next)
		wait_init(&crew.done);
	crew.running = 1; /* us, until all have been started */
	for (u32 i = 0; i < count; i++) {
		struct member *m = &crew.members[i];

		*m = (struct member){ fn, arg, i, NULL };
		atomic_add(&crew.running, 1);
		m->task = kthread_prepare("selftest", member_main, m, pinned ? nth_cpu(i) : -1);
		if (!m->task) {
			atomic_sub(&crew.running, 1);
			return -ENOMEM;
		}
		sched_start(m->task); /* our reference is the member's to drop */
	}
	return 0;
}

void crew_wait(void)
{
	atomic_sub(&crew.running, 1);
	wait_event(&crew.done, READ_ONCE(crew.running) == 0);
}

struct member *crew_member(u32 index)
{
	return &crew.members[index];
}

int crew_run(void (*fn)(struct member *), void *arg, u32 count, bool pinned)
{
	int err = crew_start(fn, arg, count, pinned);

	crew_wait();
	return err;
}

void sleep_ns(u64 ns)
{
	u64 until = clock_ns() + ns;

	do {
		set_current_state(TASK_UNINTERRUPTIBLE);
	} while (schedule_until(until));
}

/* --- the ledger ------------------------------------------------------------------------- */

/* Free frames once all that is on its way has arrived: at most until there are `enough`. */
static u64 settled_frames(u64 enough)
{
	u64 give_up = clock_ns() + SETTLE_MS * MS, frames;

	for (;;) {
		rcu_barrier();
		quicklist_drain_all();
		slab_shrink();
		pcp_drain_all();
		frames = frames_free(NO_NODE);
		if (frames >= enough || clock_ns() >= give_up)
			return frames;
		sleep_ns(1 * MS);
	}
}

static int run_with_ledger(const struct selftest *t)
{
	u64 before = settled_frames(0), after;
	int err;

	for (int again = 0;; again++) {
		err = t->run();
		if (err)
			return err;
		after = settled_frames(before);
		if (after >= before)
			return 0;
		if (again)
			break;
		before = after;
	}
	printk_raw("# %s: %lu frames are missing\n", t->name, before - after);
	return 1;
}

/* --- the runner ---------------------------------------------------------------------------- */

static bool wanted(const char *name)
{
	const char *p = selftest_names;

	if (!strcmp(p, "all"))
		return true;
	while (*p) {
		const char *end = strchr(p, ',');
		size_t n = end ? (size_t)(end - p) : strlen(p);

		if (n && p[n - 1] == '*' ? !strncmp(name, p, n - 1) :
					   strlen(name) == n && !strncmp(name, p, n))
			return true;
		p += n + (end != NULL);
	}
	return false;
}

void selftest_run(void)
{
	u32 count = 0, number = 0, failed = 0;

	if (!selftest_names[0])
		return;
	for (const struct selftest *t = __selftests_start; t < __selftests_end; t++)
		count += wanted(t->name);
	printk_raw("KTAP version 1\n1..%u\n", count);
	for (const struct selftest *t = __selftests_start; t < __selftests_end; t++) {
		int err;

		if (!wanted(t->name))
			continue;
		err = run_with_ledger(t);
		failed += err != 0;
		printk_raw("%s %u %s\n", err ? "not ok" : "ok", ++number, t->name);
	}
	if (selftest_exit)
		machine_exit_status(failed || !count);
}
