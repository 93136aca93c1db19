/* Text being produced into a buffer that grows, see seq.h. */
#include "kernel/seq.h"

#include "arch/x86_64/paging.h"
#include "kernel/printf.h"
#include "kernel/string.h"
#include "mm/slab.h"

#define FIRST_SIZE 1024
#define MAX_SIZE   (4UL << 20)

/* Room for n more bytes and a closing zero. */
static bool seq_room(struct seq *s, size_t n)
{
	size_t size = s->size ? s->size : FIRST_SIZE;
	char *buf;

	if (s->failed)
		return false;
	while (size < s->len + n + 1)
		size *= 2;
	if (size <= s->size)
		return true;
	buf = size <= MAX_SIZE ? kmalloc(size) : NULL;
	if (!buf) {
		s->failed = true;
		return false;
	}
	if (s->buf)
		memcpy(buf, s->buf, s->len);
	kfree(s->buf);
	s->buf = buf;
	s->size = size;
	return true;
}

void seq_write(struct seq *s, const void *data, size_t n)
{
	if (!seq_room(s, n))
		return;
	memcpy(s->buf + s->len, data, n);
	s->len += n;
}

void seq_puts(struct seq *s, const char *str)
{
	seq_write(s, str, strlen(str));
}

void seq_printf(struct seq *s, const char *fmt, ...)
{
	va_list args;
	int n;

	if (!seq_room(s, 128))
		return;
	va_start(args, fmt);
	n = kvsnprintf(s->buf + s->len, s->size - s->len, fmt, args);
	va_end(args);
	if (s->len + (size_t)n >= s->size) {
		if (!seq_room(s, (size_t)n))
			return;
		va_start(args, fmt);
		n = kvsnprintf(s->buf + s->len, s->size - s->len, fmt, args);
		va_end(args);
	}
	s->len += (size_t)n;
}
