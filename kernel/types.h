/*
 * Fixed-width integers, and types for the three things that are all "just a
 * number" and must never be confused: a physical address, a frame number and a
 * user virtual address. Kernel virtual addresses are ordinary pointers.
 */
#ifndef KERNEL_TYPES_H
#define KERNEL_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;

typedef struct {
	u64 v;
} phys_t; /* physical address, bytes */

typedef struct {
	u64 v;
} pfn_t; /* frame number: physical address / 4096 */

typedef u64 vaddr_t; /* user virtual address */

#define PHYS(x) ((phys_t){ (x) })
#define PFN(x)  ((pfn_t){ (x) })

/* Limits of the machine. Node ids are dense and in order of first appearance. */
#define MAX_CPUS  512
#define MAX_NODES 64
#define NO_NODE   (-1)

#define ARRAY_SIZE(a)     (sizeof(a) / sizeof((a)[0]))
#define ALIGN_UP(x, a)    (((x) + ((a)-1)) & ~((__typeof__(x))(a)-1))
#define ALIGN_DOWN(x, a)  ((x) & ~((__typeof__(x))(a)-1))
#define IS_ALIGNED(x, a)  (((x) & ((a)-1)) == 0)
#define MIN(a, b)         ((a) < (b) ? (a) : (b))
#define MAX(a, b)         ((a) > (b) ? (a) : (b))
#define DIV_UP(x, n)      (((x) + (n)-1) / (n))
#define container_of(p, T, m) ((T *)((char *)(p)-offsetof(T, m)))

#define KB 1024UL
#define MB (1024UL * KB)
#define GB (1024UL * MB)

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define CACHE_LINE       64
#define __cacheline      __attribute__((aligned(CACHE_LINE)))
#define __packed         __attribute__((packed))
#define __noreturn       __attribute__((noreturn))
#define __used           __attribute__((used))
#define __noinline       __attribute__((noinline))
#define __force_inline   inline __attribute__((always_inline))
#define __printf(f, a)   __attribute__((format(printf, f, a)))
#define __must_check     __attribute__((warn_unused_result))

#define static_assert _Static_assert

/* Compiler barrier; and single, untorn accesses to what other CPUs change. */
#define barrier()          __asm__ __volatile__("" ::: "memory")
#define READ_ONCE(x)       (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, val) (*(volatile __typeof__(x) *)&(x) = (val))

#endif
