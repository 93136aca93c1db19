/*
 * What turns.c, region.c and watchdog.c share: the state of the schedule. Nobody else includes
 * this.
 */
#ifndef METRONOME_TURNS_H
#define METRONOME_TURNS_H

#include <sched.h>
#include <stdatomic.h>

#include "metronome.h"

enum { NOBODY = -1, MAIN = -2 };	/* holders of the baton that are not a vCPU */

enum state {
	HALTED,		/* in pthread_cond_wait, or about to be; or not started */
	RUNNABLE,
	WAKING,		/* signalled or resumed; it will become one of the other two */
};

/* Under turns.lock, except `go`. */
struct vcpu {
	enum state state;
	bool idle;		/* between QEMU's idle and resume callbacks */
	bool stopped;		/* waits in vcpu_turn_over() */
	bool step;		/* is asked to run one block without the baton */
	pid_t tid;		/* 0: not started */
	cpu_set_t home;		/* affinity outside the region */
	pthread_cond_t *cond;	/* what the halted thread waits on */
	int64_t debt;		/* units used beyond earlier turns */
	int64_t length;		/* of this turn, units */
	int64_t halted_at;	/* ns */
	_Atomic uint32_t go;	/* futex: look again */
};

/* Written under the lock; what is atomic may be read without. */
struct turns {
	pthread_mutex_t lock;
	atomic_bool on;			/* turns are taken */
	_Atomic int baton;
	int order[MAX_VCPUS];		/* of the vCPUs in this round */
	int position;			/* in `order`, of the next */
	int waking;			/* vCPUs in state WAKING */
	struct vcpu *granted;		/* has got the baton, is to be woken by unlock() */
	bool granted_main;		/* likewise */

	_Atomic int64_t clock;		/* virtual time at the begin of this round, while `on` */
	_Atomic int64_t latest;		/* newest time given out */
	_Atomic int64_t lag;		/* of virtual time behind the host's, while not `on` */
	uint64_t random;		/* state of the generator */
	_Atomic uint64_t taken;		/* turns so far */
	uint64_t rounds, steps;

	bool arming;			/* a region begins when all vCPUs have stopped */
	bool main_polls, main_needed;
	int64_t deadline;		/* of the main loop */
	pid_t main_tid;
	cpu_set_t main_home;
};

extern struct turns turns;
extern struct vcpu vcpus[MAX_VCPUS];

/* turns.c; called under the lock */
void unlock(void);		/* also wakes who has got the baton */
void look_again(struct vcpu *v);
void pass(void);		/* the holder gives the baton up, to the next */
void step_all(void);		/* every waiting vCPU runs one block, to get to QEMU's exit check */

/* region.c; called under the lock */
void begin_turns(void);
void begin_if_armed(void);	/* if every vCPU is stopped or halted, and the main loop polls */
void stop_all(void);		/* while arming: make every vCPU come to vcpu_turn_over() */
bool others_come(int vcpu);	/* while arming: will they, without this vCPU's help? */
void region_idle(int vcpu, int64_t until);	/* a halted vCPU's sleep has ended */
void pin(bool pinned);

/* watchdog.c */
bool thread_runs(pid_t tid);	/* or would if it had a host CPU */
void watchdog_start(void);

#endif
