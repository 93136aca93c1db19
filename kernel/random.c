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

#define STOCK_BLOCKS 8  /* made at a time: the first half block is the next key */
#define STIR_EVERY   32 /* refills */

/* Small requests, the most by far, are served from a stock; what is given out is erased. */
static struct {
	spinlock_t lock; /* of no class: takes nothing inside; guards the rest */
	u32 key[8];
	u32 refills;
	u32 left;        /* bytes at the end of stock */
	u8 stock[STOCK_BLOCKS * 64 - 32];
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
	u64 r;

	for (int i = 0; i < 4; i++) {
		u64 mix = rdtsc() * 0x9e3779b97f4a7c15UL ^ clock_ns() << 20 ^
			  clock_realtime_offset();

		if (rdrand(&r))
			mix ^= r;
		pool.key[2 * i] ^= (u32)mix;
		pool.key[2 * i + 1] ^= (u32)(mix >> 32);
	}
}

/* New stock and a new key; lock held. */
static void refill(void)
{
	u32 blocks[STOCK_BLOCKS][16];

	if (pool.refills++ % STIR_EVERY == 0)
		stir();
	for (u32 i = 0; i < STOCK_BLOCKS; i++)
		chacha_block(pool.key, i, blocks[i]);
	memcpy(pool.key, blocks, sizeof(pool.key));
	memcpy(pool.stock, (u8 *)blocks + sizeof(pool.key), sizeof(pool.stock));
	memset(blocks, 0, sizeof(blocks));
	pool.left = sizeof(pool.stock);
}

/* n <= sizeof(pool.stock) bytes. */
static void take(void *to, size_t n)
{
	u64 flags = spin_lock_irqsave(&pool.lock);
	u8 *from;

	if (pool.left < n)
		refill();
	from = pool.stock + sizeof(pool.stock) - pool.left;
	memcpy(to, from, n);
	memset(from, 0, n);
	pool.left -= (u32)n;
	spin_unlock_irqrestore(&pool.lock, flags);
}

void random_bytes(void *buf, size_t n)
{
	u32 key[8], block[16];
	char *to = buf;

	if (n <= sizeof(block)) {
		take(buf, n);
		return;
	}
	/* A large request gets a key of its own, and works outside of the lock. */
	take(key, sizeof(key));
	for (u64 counter = 0; n; counter++) {
		size_t part = MIN(n, sizeof(block));

		chacha_block(key, counter, block);
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
