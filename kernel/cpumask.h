/* Sets of CPUs. Single bits change atomically; iteration sees each word once. */
#ifndef KERNEL_CPUMASK_H
#define KERNEL_CPUMASK_H

#include "kernel/types.h"

#define CPUMASK_WORDS (MAX_CPUS / 64)

struct cpumask {
	u64 bits[CPUMASK_WORDS];
};

static inline void cpumask_set(struct cpumask *m, u32 cpu)
{
	__atomic_fetch_or(&m->bits[cpu / 64], 1UL << (cpu % 64), __ATOMIC_SEQ_CST);
}
static inline void cpumask_clear(struct cpumask *m, u32 cpu)
{
	__atomic_fetch_and(&m->bits[cpu / 64], ~(1UL << (cpu % 64)), __ATOMIC_SEQ_CST);
}
/* CPUs 0 to n - 1 of a mask that is empty and not shared yet. */
static inline void cpumask_fill(struct cpumask *m, u32 n)
{
	for (u32 w = 0; w * 64 < n; w++)
		m->bits[w] = n - w * 64 >= 64 ? ~0UL : (1UL << (n - w * 64)) - 1;
}
static inline bool cpumask_test(const struct cpumask *m, u32 cpu)
{
	return __atomic_load_n(&m->bits[cpu / 64], __ATOMIC_RELAXED) >> (cpu % 64) & 1;
}
static inline bool cpumask_empty(const struct cpumask *m)
{
	for (int i = 0; i < CPUMASK_WORDS; i++)
		if (m->bits[i])
			return false;
	return true;
}
static inline u32 cpumask_count(const struct cpumask *m)
{
	u32 n = 0;
	for (int i = 0; i < CPUMASK_WORDS; i++)
		for (u64 w = m->bits[i]; w; w &= w - 1)
			n++;
	return n;
}
/* First CPU >= from in the set, or MAX_CPUS. */
static inline u32 cpumask_next(const struct cpumask *m, u32 from)
{
	for (u32 i = from / 64; i < CPUMASK_WORDS; i++) {
		u64 w = __atomic_load_n(&m->bits[i], __ATOMIC_RELAXED);
		if (i == from / 64)
			w &= ~0UL << (from % 64);
		if (w)
			return i * 64 + (u32)__builtin_ctzl(w);
	}
	return MAX_CPUS;
}
#define for_each_cpu(cpu, m)                                                                       \
	for (u32 cpu = cpumask_next(m, 0); cpu < MAX_CPUS; cpu = cpumask_next(m, cpu + 1))

#endif
