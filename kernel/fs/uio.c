/* Lists of pieces of user or kernel memory, see vfs.h. */
#include "arch/x86_64/uaccess.h"
#include "kernel/string.h"
#include "kernel/vfs.h"
#include "mm/slab.h"

void uio_init(struct uio *u, struct segment *seg, u64 base, u64 len, bool kernel)
{
	*seg = (struct segment){ base, len };
	*u = (struct uio){ .seg = seg, .nr = 1, .kernel = kernel, .left = len };
}

bool uio_piece(struct uio *u, u64 *base, u64 *len)
{
	if (!u->left)
		return false;
	while (!u->seg->len) {
		u->seg++;
		u->nr--;
	}
	*base = u->seg->base;
	*len = MIN(u->seg->len, u->left);
	return true;
}

void uio_skip(struct uio *u, u64 n)
{
	u->seg->base += n;
	u->seg->len -= n;
	u->left -= n;
}

void uio_cut(struct uio *u, u64 n)
{
	u->left = MIN(u->left, n);
}

enum copy { GET, PUT, ZERO };

static size_t copy_piece(enum copy what, bool kernel, u64 base, void *buf, size_t n)
{
	if (kernel) {
		if (what == GET)
			memcpy(buf, (void *)base, n);
		else if (what == PUT)
			memcpy((void *)base, buf, n);
		else
			memset((void *)base, 0, n);
		return n;
	}
	if (!user_range_ok(base, n))
		return 0;
	if (what == GET)
		return n - copy_from_user(buf, base, n);
	if (what == PUT)
		return n - copy_to_user(base, buf, n);
	return n - clear_user(base, n);
}

static size_t copy(struct uio *u, enum copy what, char *buf, size_t n)
{
	size_t done = 0;
	u64 base, len;

	while (done < n && uio_piece(u, &base, &len)) {
		size_t want = MIN(len, n - done);
		size_t got = copy_piece(what, u->kernel, base, buf ? buf + done : NULL, want);

		uio_skip(u, got);
		done += got;
		if (got < want)
			break;
	}
	return done;
}

size_t uio_get(struct uio *u, void *buf, size_t n)
{
	return copy(u, GET, buf, n);
}

size_t uio_put(struct uio *u, const void *buf, size_t n)
{
	return copy(u, PUT, (char *)buf, n);
}

size_t uio_zero(struct uio *u, size_t n)
{
	return copy(u, ZERO, NULL, n);
}

/* --- a user's iovec ------------------------------------------------------------------ */

void iov_free(struct user_iov *v)
{
	if (v->seg != v->fast)
		kfree(v->seg);
}

int iov_load(struct user_iov *v, vaddr_t uvec, u64 count)
{
	u64 total = 0;
	int err = -EFAULT;

	v->seg = v->fast;
	if (count > MAX_IOV)
		return -EINVAL;
	if (count > ARRAY_SIZE(v->fast)) {
		v->seg = kmalloc(count * sizeof(struct segment));
		if (!v->seg)
			return -ENOMEM;
	}
	if (copy_from_user(v->seg, uvec, count * sizeof(struct segment)))
		goto fail;
	for (u64 i = 0; i < count; i++) {
		struct segment *s = &v->seg[i];

		err = (s64)s->len < 0 ? -EINVAL : user_range_ok(s->base, s->len) ? 0 : -EFAULT;
		if (err)
			goto fail;
		s->len = MIN(s->len, MAX_RW - total);
		total += s->len;
	}
	v->u = (struct uio){ .seg = v->seg, .nr = (u32)count, .left = total };
	return 0;
fail:
	iov_free(v);
	return err;
}
