/*
 * Argument and environment strings on their way from one address space to
 * the next: execargs.c, for exec.c.
 */
#ifndef KERNEL_EXECARGS_H
#define KERNEL_EXECARGS_H

#include "kernel/types.h"

struct mm;
struct string_page;

/* Strings one behind the other, each with its zero byte, in a list of pages. */
struct strings {
	struct string_page *first, *last;
	u64 bytes, count;
};

/* Longest single string, zero byte included: MAX_ARG_STRLEN. */
#define ARG_STRING_MAX (32 * 4096UL)

/*
 * Bytes that strings and pointers of an exec may take, as on Linux: a quarter of the stack
 * limit.
 */
u64 exec_arg_limit(void);

/* Add one. 0, -ENOMEM, -E2BIG (more than `left` bytes), -EFAULT. */
int strings_add_kernel(struct strings *s, const char *text, u64 left);
int strings_add_user(struct strings *s, vaddr_t text, u64 left);
/*
 * Add all strings of a vector of pointers in user memory, 0 = end; the first `skip` are left
 * out. Each also costs 8 bytes of *left, which is reduced. NULL vector: none.
 */
int strings_add_vector(struct strings *s, vaddr_t vector, u64 skip, u64 *left);
void strings_free(struct strings *s);

/* Write all at `at` in mm. 0 or -EFAULT. */
int strings_store(const struct strings *s, struct mm *mm, vaddr_t at);
/*
 * Write the pointers to the strings, stored at `strings_at`, and a 0 behind them, at `at`.
 * Returns the address behind, or 0 on a fault.
 */
vaddr_t strings_store_pointers(const struct strings *s, struct mm *mm, vaddr_t strings_at,
			       vaddr_t at);

#endif
