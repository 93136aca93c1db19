/*
 * Access to user memory from the kernel. Every access may fault: the page is
 * then faulted in as for the user itself, or, if that cannot be done, the
 * instruction's entry in .ex_table continues at a fixup and the caller gets an
 * error. No spinlock may be held (a fault may sleep). SMAP is opened only
 * around the access itself.
 */
#ifndef ARCH_UACCESS_H
#define ARCH_UACCESS_H

#include "arch/x86_64/paging.h"
#include "kernel/types.h"

/* True if [p, p + n) lies in user space (n may be 0); no wrap. */
static inline bool user_range_ok(vaddr_t p, size_t n)
{
	return n <= USER_END && p <= USER_END - n;
}

/* Copy n bytes; return how many bytes at the end were NOT copied (0 = all). */
size_t copy_from_user(void *dst, vaddr_t src, size_t n);
size_t copy_to_user(vaddr_t dst, const void *src, size_t n);
size_t clear_user(vaddr_t dst, size_t n);

/* One value; 0 or -EFAULT. */
int get_user_u8(vaddr_t src, u8 *out);
int get_user_u32(vaddr_t src, u32 *out);
int get_user_u64(vaddr_t src, u64 *out);
int put_user_u32(vaddr_t dst, u32 v);
int put_user_u64(vaddr_t dst, u64 v);

/*
 * Copy a string of at most max - 1 bytes plus its NUL. Returns the length
 * without NUL, -EFAULT, or -ENAMETOOLONG if no NUL came within max bytes.
 */
long strncpy_from_user(char *dst, vaddr_t src, size_t max);

/*
 * Atomically: if *addr == old, store new. *found gets what was there.
 * addr is 4-byte aligned. 0 or -EFAULT.
 */
int cmpxchg_user_u32(vaddr_t addr, u32 old, u32 new, u32 *found);

/*
 * Atomic *addr = op(*addr, arg) for FUTEX_OP_{SET,ADD,OR,ANDN,XOR} (0..4);
 * *old = the value before. 0, -EFAULT or -ENOSYS.
 */
int futex_op_user(vaddr_t addr, unsigned op, u32 arg, u32 *old);

/* For the page-fault handler: the address of the fixup for rip, or 0. */
u64 ex_table_lookup(u64 rip);

#endif
