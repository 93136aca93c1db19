/*
 * Argument strings of exec: out of the old address space into kernel pages, and from there
 * into the new one. The new stack can only be laid out when the total length is known, and
 * the old memory is gone when the strings are wanted, so they are copied twice.
 */
#include "kernel/execargs.h"

#include <asm/errno.h>

#include "arch/x86_64/uaccess.h"
#include "kernel/process.h"
#include "kernel/signal.h"
#include "kernel/string.h"
#include "mm/mm.h"

struct string_page {
	struct string_page *next;
	u32 used;
	char data[PAGE_SIZE - 16];
};
static_assert(sizeof(struct string_page) == PAGE_SIZE, "one frame");

u64 exec_arg_limit(void)
{
	u64 limit = MIN(rlimit(RLIMIT_STACK) / 4, 6 * MB);

	return MAX(limit, ARG_STRING_MAX);
}

/* Room at the end: at least one byte; NULL if out of memory. */
static char *room(struct strings *s, u64 *size)
{
	struct string_page *p = s->last;

	if (!p || p->used == sizeof(p->data)) {
		p = kpage_alloc(0);
		if (!p)
			return NULL;
		p->next = NULL;
		p->used = 0;
		if (s->last)
			s->last->next = p;
		else
			s->first = p;
		s->last = p;
	}
	*size = sizeof(p->data) - p->used;
	return p->data + p->used;
}

static void advance(struct strings *s, u64 n)
{
	s->last->used += (u32)n;
	s->bytes += n;
}

int strings_add_kernel(struct strings *s, const char *text, u64 left)
{
	u64 len = strlen(text) + 1, size;

	if (len > left || len > ARG_STRING_MAX)
		return -E2BIG;
	while (len) {
		char *to = room(s, &size);
		u64 n = MIN(len, size);

		if (!to)
			return -ENOMEM;
		memcpy(to, text, n);
		advance(s, n);
		text += n;
		len -= n;
	}
	s->count++;
	return 0;
}

/* How many of n bytes up to and with the first zero byte; n + 1 if there is none. */
static u64 with_zero(const char *p, u64 n)
{
	for (u64 i = 0; i < n; i++)
		if (!p[i])
			return i + 1;
	return n + 1;
}

int strings_add_user(struct strings *s, vaddr_t text, u64 left)
{
	u64 length = 0, size;

	for (;;) {
		char *to = room(s, &size);
		/*
		 * Never beyond the page that has the next byte: the following one may not be
		 * there.
		 */
		u64 n = MIN(size, PAGE_SIZE - (text & (PAGE_SIZE - 1))), used;

		if (!to)
			return -ENOMEM;
		if (copy_from_user(to, text, n))
			return -EFAULT;
		used = with_zero(to, n);
		length += MIN(used, n);
		if (length > left || length > ARG_STRING_MAX)
			return -E2BIG;
		advance(s, MIN(used, n));
		if (used <= n)
			break;
		text += n;
	}
	s->count++;
	return 0;
}

int strings_add_vector(struct strings *s, vaddr_t vector, u64 skip, u64 *left)
{
	u64 pointer, before;
	int err;

	for (u64 i = 0; vector; i++) {
		if (get_user_u64(vector + i * 8, &pointer))
			return -EFAULT;
		if (!pointer)
			break;
		if (i < skip)
			continue;
		if (*left < 8)
			return -E2BIG;
		*left -= 8;
		before = s->bytes;
		err = strings_add_user(s, pointer, *left);
		if (err)
			return err;
		*left -= s->bytes - before;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

void strings_free(struct strings *s)
{
	while (s->first) {
		struct string_page *next = s->first->next;

		kpage_free(s->first);
		s->first = next;
	}
	*s = (struct strings){ 0 };
}

int strings_store(const struct strings *s, struct mm *mm, vaddr_t at)
{
	for (struct string_page *p = s->first; p; p = p->next) {
		if (p->used && mm_access(mm, at, p->data, p->used, true, false) != (long)p->used)
			return -EFAULT;
		at += p->used;
	}
	return 0;
}

vaddr_t strings_store_pointers(const struct strings *s, struct mm *mm, vaddr_t strings_at,
			       vaddr_t at)
{
	u64 batch[64], start = strings_at, address = strings_at;
	u32 n = 0;

	for (struct string_page *p = s->first; p; p = p->next) {
		for (u32 i = 0; i < p->used; i++) {
			address++;
			if (p->data[i])
				continue;
			batch[n++] = start;
			start = address;
			if (n < ARRAY_SIZE(batch))
				continue;
			if (mm_access(mm, at, batch, sizeof(batch), true, false) != sizeof(batch))
				return 0;
			at += sizeof(batch);
			n = 0;
		}
	}
	/* The rest, with the closing 0: there is always room for it. */
	batch[n++] = 0;
	if (mm_access(mm, at, batch, n * 8, true, false) != (long)n * 8)
		return 0;
	return at + n * 8;
}
