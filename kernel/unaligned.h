/*
 * Little-endian numbers at any address, as firmware tables and file formats
 * have them. One machine instruction each.
 */
#ifndef KERNEL_UNALIGNED_H
#define KERNEL_UNALIGNED_H

#include "kernel/types.h"

static inline u16 get_u16(const void *p)
{
	u16 v;

	__builtin_memcpy(&v, p, sizeof(v));
	return v;
}

static inline u32 get_u32(const void *p)
{
	u32 v;

	__builtin_memcpy(&v, p, sizeof(v));
	return v;
}

static inline u64 get_u64(const void *p)
{
	u64 v;

	__builtin_memcpy(&v, p, sizeof(v));
	return v;
}

#endif
