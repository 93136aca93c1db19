/* Text of a /proc or /sys file being produced: a growing buffer. */
#ifndef KERNEL_SEQ_H
#define KERNEL_SEQ_H

#include "kernel/types.h"

struct seq {
	char *buf;
	size_t len, size;
	bool failed; /* out of memory: reading the file gives ENOMEM */
	int error;   /* set by show(): reading gives this -errno */
};

void seq_printf(struct seq *s, const char *fmt, ...) __printf(2, 3);
void seq_puts(struct seq *s, const char *str);
void seq_write(struct seq *s, const void *data, size_t n);

/*
 * Register a generated file, at boot. path: "/proc/meminfo", "/sys/kernel/mm/faultline/ledger".
 * Missing directories are made. show fills the text at first read of an open file; write (may
 * be NULL) gets a NUL-terminated copy of what was written in one call and returns bytes or
 * -errno.
 */
void pseudo_file(const char *path, void (*show)(struct seq *, void *arg),
		 long (*write)(const char *text, size_t n, void *arg), void *arg);

#endif
