/*
 * Random bytes: ChaCha20 (RFC 8439) keyed from what the machine has, RDRAND where there is
 * one, the time-stamp counter and the clocks. After every request the key is replaced by the
 * generator's own output, so that what was given out cannot be computed again from a later
 * state.
 *
 * Enough for AT_RANDOM, getrandom(2) and /dev/urandom of a teaching kernel; do not
 * make long-lived keys with it.
 */
#include <asm/errno.h>
#include <linux/random.h>

#include "arch/x86_64/clock.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/lock.h"
#include "kernel/process.h"
#include "kernel/string.h"
#include "kernel/syscall.h"

static struct {
	spinlock_t lock; /* of no class: takes nothing inside */
	u32 key[8];  /* lock */
	u64 counter; /* lock; never the same twice with one key */
	bool seeded; /* lock */
} pool;

static u32 rotate(u32 x, unsigned n)
{
	return x << n | x >> (32 - n);
}

static void quarter(u32 *a, u32 *b, u32 *c, u32 *d)
{
	*a += *b;
	*d = rotate(*d ^ *a, 16);
	*c += *d;
	*b = rotate(*b ^ *c, 12);
	*a += *b;
	*d = rotate(*d ^ *a, 8);
	*c += *d;
	*b = rotate(*b ^ *c, 7);
}

static void chacha_block(const u32 key[8], u64 counter, u32 out[16])
{
	u32 in[16] = { 0x61707865, 0x3320646e, 0x79622d32, 0x6b206574 };
	u32 *x = out;

	memcpy(in + 4, key, 32);
	in[12] = (u32)counter;
	in[13] = (u32)(counter >> 32);
	memcpy(x, in, sizeof(in));
	for (int i = 0; i < 10; i++) {
		quarter(&x[0], &x[4], &x[8], &x[12]);
		quarter(&x[1], &x[5], &x[9], &x[13]);
		quarter(&x[2], &x[6], &x[10], &x[14]);
		quarter(&x[3], &x[7], &x[11], &x[15]);
		quarter(&x[0], &x[5], &x[10], &x[15]);
		quarter(&x[1], &x[6], &x[11], &x[12]);
		quarter(&x[2], &x[7], &x[8], &x[13]);
		quarter(&x[3], &x[4], &x[9], &x[14]);
	}
	for (int i = 0; i < 16; i++)
		x[i] += in[i];
}

static bool rdrand(u64 *out)
{
	u32 a, b, c, d;
	u8 ok;

	cpuid(1, 0, &a, &b, &c, &d);
	if (!(c >> 30 & 1))
		return false;
	for (int i = 0; i < 10; i++) {
		__asm__ __volatile__("rdrand %0; setc %1" : "=r"(*out), "=qm"(ok)::"cc");
		if (ok)
			return true;
	}
	return false;
}

/* Mix in what is not known outside; lock held. */
static void stir(void)
{
	u32 block[16];
	u64 r;

	for (int i = 0; i < 4; i++) {
		u64 mix = rdtsc() * 0x9e3779b97f4a7c15UL ^ clock_ns() << 20 ^
			  clock_realtime_offset();

		if (rdrand(&r))
			mix ^= r;
		pool.key[2 * i] ^= (u32)mix;
		pool.key[2 * i + 1] ^= (u32)(mix >> 32);
	}
	chacha_block(pool.key, ++pool.counter, block);
	memcpy(pool.key, block, sizeof(pool.key));
}

void random_bytes(void *buf, size_t n)
{
	u32 key[8], block[16];
	u64 counter = 0, flags;
	char *to = buf;

	/* A request gets a key of its own out of the pool; the long work is outside of the lock. */
	flags = spin_lock_irqsave(&pool.lock);
	if (!pool.seeded || !(pool.counter & 255))
		stir();
	pool.seeded = true;
	chacha_block(pool.key, ++pool.counter, block);
	memcpy(pool.key, block, sizeof(pool.key));
	memcpy(key, block + 8, sizeof(key));
	spin_unlock_irqrestore(&pool.lock, flags);

	while (n) {
		size_t part = MIN(n, sizeof(block));

		chacha_block(key, counter++, block);
		memcpy(to, block, part);
		to += part;
		n -= part;
	}
	memset(key, 0, sizeof(key));
	memset(block, 0, sizeof(block));
}

long sys_getrandom(u64 ubuf, u64 n, u64 flags)
{
	u8 part[256];
	u64 done = 0;

	if (flags & ~(u64)(GRND_NONBLOCK | GRND_RANDOM | GRND_INSECURE))
		return -EINVAL;
	if ((flags & (GRND_RANDOM | GRND_INSECURE)) == (GRND_RANDOM | GRND_INSECURE))
		return -EINVAL;
	n = MIN(n, 0x7fffffffUL);
	while (done < n) {
		u64 size = MIN(n - done, sizeof(part)), left;

		random_bytes(part, size);
		left = copy_to_user(ubuf + done, part, size);
		done += size - left;
		if (left)
			break;
		if (signal_pending(current))
			break;
		cond_resched();
	}
	return done || !n ? (long)done : -EFAULT;
}
