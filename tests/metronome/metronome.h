/*
 * The metronome keeps virtual time for a guest with many CPUs on a host with few.
 *
 * It is one shared object loaded twice: by QEMU as a TCG plugin, which sees the guest's
 * instructions, and by the dynamic linker (LD_PRELOAD), which puts it between QEMU and the clock.
 * docs/metronome.md is the manual.
 *
 *   options.c    what the user asked for
 *   turns.c      the baton: which vCPU, or QEMU's main loop, may run now; virtual time
 *   region.c     what is measured: from marker to marker
 *   watchdog.c   helps if the holder of the baton waits for another vCPU
 *   host.c       the calls of QEMU that are replaced: clock, poll, condition variables
 *   translate.c  what is counted in each block of guest code
 *   coherence.c  the cost of memory shared between CPUs (off by default)
 *   profile.c    top functions and folded stacks (off by default)
 *   report.c     one JSON line per region
 *
 * Time is counted in units of 1/64 ns, so that a fraction of a nanosecond per byte can be charged
 * by an inline add.
 */
#ifndef METRONOME_H
#define METRONOME_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "qemu_api.h"

#define MAX_VCPUS	1024
#define UNITS		64		/* per nanosecond */
#define TURN_OVER	(1ull << 63)	/* a vCPU's `used` at or above this ends its turn */
#define NEVER		INT64_MAX
#define EXPORT		__attribute__((visibility("default")))	/* seen by QEMU and the linker */
#define LENGTH(a)	(sizeof(a) / sizeof((a)[0]))

/* Exit status of QEMU. It would add a line of its own to an error that is returned to it. */
enum { NO_REGION = 4, BAD_USE = 69 };

/* Who is executing: instructions are counted in four classes. */
enum { USER, KERNEL, USER_SPIN, KERNEL_SPIN, CLASSES };

/* Events counted one by one, by the instruction that causes them. */
enum event {
	FAULTS,		/* reads of CR2 */
	IRQS,		/* end-of-interrupt writes to the local APIC */
	IPIS,		/* writes to the interrupt command register */
	SYSCALLS,	/* SYSCALL instructions */
	CR3_LOADS,	/* writes of CR3: address space switches and full flushes */
	INVLPGS,	/* single TLB flushes */
	ATOMICS,	/* LOCK prefixes and XCHG with memory */
	HALTS,		/* HLT */
	TRANSFERS,	/* cache lines moved from a CPU of the same node (coherence=) */
	FAR_TRANSFERS,	/* cache lines moved from another node (coherence=) */
	EVENTS
};

/*
 * What translated code counts for one vCPU; written by its own thread, read by others only while it
 * waits.
 */
struct score {
	uint64_t used;			/* time in this turn, in units, counted up to TURN_OVER */
	uint64_t insns[CLASSES];
	uint64_t rep_bytes[2];		/* written by REP STOS and MOVS, in user and kernel code */
	/* With fault_cost=on, since the last user block: */
	uint64_t since_user;		/* kernel instructions */
	uint64_t in_fault;		/* a page fault was taken */
	uint64_t events[EVENTS];
};

struct options {
	int64_t turn;			/* length of a turn, ns */
	unsigned int rep_rate;		/* bytes a nanosecond of REP STOS and REP MOVS */
	unsigned int pause;		/* cost of a PAUSE, ns */
	bool seeded;
	uint64_t seed;
	bool reseed;			/* each region but the first draws from the next seed */
	bool wide;			/* turns of very different lengths, for race finding */
	bool whole_run;			/* turns from power-on, not only in a marked region */
	int cpu;			/* host CPU for the region; -1: where it starts; -2: any */
	unsigned int near, far;		/* cost of a line transfer, ns; 0, 0: model off */
	unsigned int nodes;
	const char *report, *symbols, *folded;
	unsigned int top;		/* functions listed in the report */
	bool fault_cost;
};

extern struct options options;
extern struct qemu_plugin_scoreboard *scoreboard;
extern int vcpu_count;			/* as configured; fixed once QEMU has started */
extern __thread int self;		/* the vCPU of this thread, or -1 */

/*
 * Reads `name=value` options into `options`. False, with one line on stderr, if one is unknown or
 * bad.
 */
bool options_read(int argc, char **argv);

static inline struct score *score_of(unsigned int vcpu)
{
	return qemu_plugin_scoreboard_find(scoreboard, vcpu);
}

/* turns.c; each takes the lock of turns.c. */
void turns_start(void);			/* at load; starts the watchdog */
void vcpu_started(unsigned int vcpu);
void vcpu_halted(unsigned int vcpu);	/* called with QEMU's big lock held: never waits */
void vcpu_resumed(unsigned int vcpu);	/* likewise */
void vcpu_turn_over(unsigned int vcpu);	/* waits until it is this vCPU's turn again */
bool region_toggle(void);		/* the guest's marker; true: wait for your turn */
bool region_was_marked(void);
void region_abandon(void);		/* QEMU exits: report what there is */
int64_t virtual_now(void);		/* ns; goes on from the host's clock, never back */

/* What host.c tells turns.c. */
bool turns_are_on(void);
void waits_on(pthread_cond_t *cond);	/* this thread is about to wait */
/* It has been woken, and holds the mutex; a halted vCPU waits for the end of the turn in which that was. */
void wait_for_waker(pthread_mutex_t *mutex);
void wakes(pthread_cond_t *cond);	/* this thread is about to wake those who wait */
void main_enters_poll(int64_t deadline);/* the main loop has nothing to do before `deadline` */
bool main_may_leave_poll(bool ready, bool due); /* a descriptor is ready; the deadline has passed */
void main_is_needed(void);		/* a vCPU has put work into the main loop's queue */

/* host.c */
int64_t host_now(void);			/* the host's monotonic clock, ns */
void host_start(void);			/* ends QEMU if this object was not preloaded */
void host_kick_main(void);		/* make the main loop look at main_may_leave_poll() again */
void host_tsc_begins(void);		/* the guest's RDTSC follows virtual time from here on */
void host_trap_tsc(void);		/* ... in this thread */

/* report.c */
struct region {
	int64_t start, end;		/* virtual ns */
	int64_t host_start, host_end;	/* host ns */
	uint64_t rounds, turns, steps;
	bool unfinished;
	int64_t idle[MAX_VCPUS];	/* ns */
	struct score before[MAX_VCPUS];
};
bool report_open(void);
void report_region(const struct region *region);
void fault_cost_note(unsigned int vcpu, uint64_t insns);
void fault_cost_reset(void);

/* translate.c */
void translate_find_registers(void);	/* from a vCPU's init callback */
void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);

/* coherence.c */
void coherence_start(void);
void coherence_watch(struct qemu_plugin_insn *insn, bool streams); /* does it store whole lines? */

/* profile.c */
bool profile_start(void);
void profile_watch(struct qemu_plugin_tb *tb, bool kernel);
void profile_transfer(uint64_t address);	/* a cache line moved for this instruction */
void profile_reset(void);		/* a region begins; vCPUs are stopped */
void profile_top(FILE *out);		/* the "top" member of a report */
void profile_folded(void);		/* appends the region's stacks to the file asked for */

#endif
