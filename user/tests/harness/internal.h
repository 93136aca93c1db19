/*
 * What the files of the harness share: results.c (checks), process.c (processes, threads, CPUs),
 * memory.c, faults.c (signals that a test expects), kernel.c (time, size of runs, debugging files),
 * main.c (running). For the test programs: ../harness.h.
 */
#ifndef FAULTLINE_TESTS_HARNESS_INTERNAL_H
#define FAULTLINE_TESTS_HARNESS_INTERNAL_H

#include "../harness.h"

/* ---- results.c -------------------------------------------------------------------------- */

#define SKIPPED 77 /* exit status of a test that skip() ended */

extern int skip_fd; /* where skip() leaves its reason */

/* To standard output, written at once. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- process.c -------------------------------------------------------------------------- */

/* The set that the program started with: what unpin() goes back to, and what pin() counts in. */
extern cpu_set_t all_cpus;
extern int cpu_count; /* counting takes thousands of instructions, too many for a loop that spins */

/* ---- kernel.c --------------------------------------------------------------------------- */

extern double scale;        /* of the runs: -s */
extern uint64_t test_begun; /* now_ns() when the test began */

/* What a test has armed and nobody met is taken back after it. */
void rp_disarm_all(void);

#endif
