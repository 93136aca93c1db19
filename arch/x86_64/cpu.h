/*
 * Processor primitives: interrupts, barriers, atomics, MSRs, CPUID, control
 * registers, feature flags. Source: Intel SDM vol. 2 and 3.
 */
#ifndef ARCH_CPU_H
#define ARCH_CPU_H

#include "kernel/types.h"

static inline void cpu_relax(void)
{
	__asm__ __volatile__("pause" ::: "memory");
}
static inline void irq_disable(void)
{
	__asm__ __volatile__("cli" ::: "memory");
}
static inline void irq_enable(void)
{
	__asm__ __volatile__("sti" ::: "memory");
}
static inline u64 read_flags(void)
{
	u64 f;
	__asm__ __volatile__("pushfq; pop %0" : "=r"(f)::"memory");
	return f;
}
static inline bool irqs_enabled(void)
{
	return read_flags() & (1 << 9);
}
/* Disable interrupts; the value returned goes to irq_restore(). */
static inline u64 irq_save(void)
{
	u64 f = read_flags();
	irq_disable();
	return f;
}
static inline void irq_restore(u64 flags)
{
	if (flags & (1 << 9))
		irq_enable();
}

/* Full memory barrier: the one ordering x86 does not give is store before a later load. */
static inline void smp_mb(void)
{
	__asm__ __volatile__("lock; addl $0, -4(%%rsp)" ::: "memory", "cc");
}
#define smp_load_acquire(p)     __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define smp_store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)

/* Atomic read-modify-write; all are full barriers on x86. */
#define atomic_add(p, n)       __atomic_add_fetch(p, n, __ATOMIC_SEQ_CST)
#define atomic_sub(p, n)       __atomic_sub_fetch(p, n, __ATOMIC_SEQ_CST)
#define atomic_fetch_add(p, n) __atomic_fetch_add(p, n, __ATOMIC_SEQ_CST)
#define atomic_xchg(p, v)      __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST)
#define atomic_or(p, v)        __atomic_or_fetch(p, v, __ATOMIC_SEQ_CST)
#define atomic_and(p, v)       __atomic_and_fetch(p, v, __ATOMIC_SEQ_CST)
/* Store new if *p == *old; else put what was found into *old. */
#define atomic_try_cmpxchg(p, old, new)                                                            \
	__atomic_compare_exchange_n(p, old, new, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

static inline void cpuid(u32 leaf, u32 sub, u32 *a, u32 *b, u32 *c, u32 *d)
{
	__asm__ __volatile__("cpuid" : "=a"(*a), "=b"(*b), "=c"(*c), "=d"(*d) : "a"(leaf), "c"(sub));
}
static inline u64 rdmsr(u32 msr)
{
	u32 lo, hi;
	__asm__ __volatile__("rdmsr" : "=a"(lo), "=d"(hi) : "c"(msr));
	return (u64)hi << 32 | lo;
}
static inline void wrmsr(u32 msr, u64 v)
{
	__asm__ __volatile__("wrmsr" ::"c"(msr), "a"((u32)v), "d"((u32)(v >> 32)) : "memory");
}
static inline u64 rdtsc(void)
{
	u32 lo, hi;
	__asm__ __volatile__("rdtsc" : "=a"(lo), "=d"(hi));
	return (u64)hi << 32 | lo;
}
static inline void outb(u16 port, u8 v)
{
	__asm__ __volatile__("outb %0, %1" ::"a"(v), "Nd"(port));
}
static inline void outw(u16 port, u16 v)
{
	__asm__ __volatile__("outw %0, %1" ::"a"(v), "Nd"(port));
}
static inline void outl(u16 port, u32 v)
{
	__asm__ __volatile__("outl %0, %1" ::"a"(v), "Nd"(port));
}
static inline u8 inb(u16 port)
{
	u8 v;
	__asm__ __volatile__("inb %1, %0" : "=a"(v) : "Nd"(port));
	return v;
}
static inline u16 inw(u16 port)
{
	u16 v;
	__asm__ __volatile__("inw %1, %0" : "=a"(v) : "Nd"(port));
	return v;
}
static inline u32 inl(u16 port)
{
	u32 v;
	__asm__ __volatile__("inl %1, %0" : "=a"(v) : "Nd"(port));
	return v;
}

/* What the processors offer; filled once by the boot CPU, constant afterwards. */
struct cpu_features {
	bool nx, smep, smap, umip, pge, pdpe1gb, pcid, x2apic, xsave, xsaveopt, fsgsbase,
		erms, invariant_tsc, tsc_deadline;
	u32 phys_bits, virt_bits;
	char vendor[13], brand[49];
};
extern struct cpu_features cpu_features;

#endif
