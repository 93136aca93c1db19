/* Running out of memory. */
#ifndef MM_OOM_H
#define MM_OOM_H

#include "kernel/types.h"

/*
 * Called by the allocator when all zones are empty; round counts the tries of
 * this allocation from 0. First empties per-CPU lists, quicklists and object caches; then kills the
 * process with most memory, with one line, and waits a little for it to go.
 * Returns false if trying again is pointless (nothing to kill, the current
 * task itself is dying, or it cannot sleep). Sleeps; no spinlock held.
 */
bool reclaim(int round);

/* All frames of an address space have been given back. */
struct mm;
void oom_mm_gone(struct mm *mm);

#endif
