/*
 * What the compiler calls for an operation that the instruction set we build for
 * lacks (POPCNT is not in every x86-64).
 */
#include "kernel/types.h"

int __popcountdi2(s64 value);

int __popcountdi2(s64 value)
{
	u64 v = (u64)value;

	v -= v >> 1 & 0x5555555555555555;
	v = (v & 0x3333333333333333) + (v >> 2 & 0x3333333333333333);
	v = (v + (v >> 4)) & 0x0f0f0f0f0f0f0f0f;
	return (int)(v * 0x0101010101010101 >> 56);
}
