/*
 * The C string functions that the kernel uses, under their standard names (the
 * compiler calls some of them by itself), and two of our own.
 *
 * No function here touches anything but its arguments; all may be called from
 * any context, also before the first page table of our own.
 */
#ifndef KERNEL_STRING_H
#define KERNEL_STRING_H

#include "kernel/types.h"

void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int byte, size_t n);
int memcmp(const void *a, const void *b, size_t n);

size_t strlen(const char *s);
size_t strnlen(const char *s, size_t max);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t n);
char *strchr(const char *s, int c);
char *strrchr(const char *s, int c);

/*
 * Copy the string `from` into the `size` bytes at `to`, cut where it does not
 * fit; `to` always ends in a zero byte if size > 0. Returns strlen(from), so a
 * result >= size says that it was cut.
 */
size_t str_copy(char *to, const char *from, size_t size);

/*
 * Read a number: decimal, or hexadecimal after "0x". No sign, no leading
 * blanks. *end (if not NULL) is set to the first character not used.
 * Returns 0; -EINVAL if there is no digit; -ERANGE if it exceeds 64 bits.
 * *out is only written on success.
 */
int parse_u64(const char *s, const char **end, u64 *out);

#endif
