/*
 * Formatted output into a buffer.
 *
 * Conversions: d i u x X o c s p %   Flags: - 0 space + #
 * Width and precision, also as *.    Sizes: hh h l ll z t j
 *
 * %p prints 0x and lower-case hexadecimal. There is no floating point and no
 * %n. An unknown conversion is printed as it stands, so that it is noticed.
 */
#ifndef KERNEL_PRINTF_H
#define KERNEL_PRINTF_H

#include <stdarg.h>

#include "kernel/types.h"

/*
 * Write at most `size` bytes to buf, the closing zero byte included (none if
 * size is 0). Returns the length that the whole text has or would have had, as
 * the C library does. Takes no lock; safe in any context.
 */
int kvsnprintf(char *buf, size_t size, const char *fmt, va_list args) __printf(3, 0);
int ksnprintf(char *buf, size_t size, const char *fmt, ...) __printf(3, 4);

/*
 * The same, but returns what is really in the buffer (at most size - 1; 0 if
 * size is 0): for building a text piece by piece.
 */
int kscnprintf(char *buf, size_t size, const char *fmt, ...) __printf(3, 4);

#endif
