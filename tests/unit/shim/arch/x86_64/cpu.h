/* Nothing interrupts a host test; atomics are the compiler's. */
#ifndef ARCH_CPU_H
#define ARCH_CPU_H

#include "kernel/types.h"

static inline void cpu_relax(void)
{
}
static inline u64 irq_save(void)
{
	return 0;
}
static inline void irq_restore(u64 flags)
{
}
static inline bool irqs_enabled(void)
{
	return true;
}
static inline u64 rdtsc(void)
{
	return 12345;
}
static inline void smp_mb(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}
struct cpu_features {
	bool pcid, pge, erms;
};
extern struct cpu_features cpu_features;

#define smp_load_acquire(p)     __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define smp_store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define atomic_add(p, n)        __atomic_add_fetch(p, n, __ATOMIC_SEQ_CST)
#define atomic_sub(p, n)        __atomic_sub_fetch(p, n, __ATOMIC_SEQ_CST)
#define atomic_fetch_add(p, n)  __atomic_fetch_add(p, n, __ATOMIC_SEQ_CST)
#define atomic_xchg(p, v)       __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST)
#define atomic_or(p, v)         __atomic_or_fetch(p, v, __ATOMIC_SEQ_CST)
#define atomic_and(p, v)        __atomic_and_fetch(p, v, __ATOMIC_SEQ_CST)
#define atomic_try_cmpxchg(p, old, new)                                                            \
	__atomic_compare_exchange_n(p, old, new, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

#endif
