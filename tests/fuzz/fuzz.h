/*
 * Common to the fuzz targets. Each defines LLVMFuzzerTestOneInput(); beyond not
 * crashing it asserts what must hold of every result.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/bootinfo.h"
#include "kernel/types.h"

#define MUST(cond) \
	do { \
		if (!(cond)) { \
			fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #cond); \
			abort(); \
		} \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ranges sorted, disjoint, merged, one usable; texts closed. */
void fuzz_check_boot_info(const struct boot_info *info);

/* Read every byte, so that the sanitizer sees one out of bounds. */
void fuzz_touch(const void *p, size_t n);

#endif
