/*
 * Time: see clock.h. One counter is read by all CPUs, without a lock:
 *
 *   TSC        if CPUID says that it is invariant, and it does not run apart between CPUs
 *   HPET       64 bits, or 32 with the wrap handled
 *   PM timer   24 or 32 bits, wrap handled
 *
 * Narrow counters are widened by a shared 64-bit value, `wide_last`, that each reader may move
 * forward by compare-and-swap; a timer on the boot CPU reads the clock often enough that
 * no wrap is missed.
 *
 * Nanoseconds = (ticks - base) * mult >> 32, computed in 128 bits, so neither range nor
 * precision runs out. The per-CPU timer is the local APIC's, in one-shot mode.
 *
 * Sources: Intel IA-PC HPET specification 1.0a; ACPI 6.5, 4.8.3.3; SDM vol. 3, 19.17.
 */
#include "arch/x86_64/clock.h"

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/init.h"
#include "arch/x86_64/irq.h"
#include "kernel/param.h"
#include "kernel/printk.h"
#include "kernel/timer.h"

#define NS_PER_S 1000000000UL

enum source { SOURCE_NONE, SOURCE_TSC, SOURCE_HPET64, SOURCE_HPET32, SOURCE_PM };

/* Constant after clock_init(). */
static enum source source;
static u64 base;         /* ticks at zero */
static u64 mult;         /* nanoseconds a tick, 32 fraction bits */
static u64 narrow_mask;  /* of the counter, if it is not 64 bits wide */
static u64 lapic_mult;   /* local timer ticks a nanosecond, 32 fraction bits */
static volatile u64 *hpet;

PARAM_ENUM(clock_wanted, "clock", 0, 0, "auto", "tsc", "hpet", "pm");

static u64 wide_last __cacheline; /* atomic, only moves forward */
static u64 realtime_offset;       /* atomic */

/* --- counters ------------------------------------------------------------------- */

enum { HPET_CAPABILITIES = 0x00 / 8, HPET_CONFIG = 0x10 / 8, HPET_COUNTER = 0xf0 / 8 };

static u32 hpet_low(void)
{
	return *(volatile u32 *)&hpet[HPET_COUNTER];
}

static u32 hpet_high(void)
{
	return ((volatile u32 *)&hpet[HPET_COUNTER])[1];
}

/*
 * One 64-bit read, which a bus, or an emulator, may carry out as two. A tear matters only if the
 * low half wraps between them, so near a wrap (a 16th of the range to both sides, seconds) read
 * the halves until they agree.
 */
static u64 read_hpet64(void)
{
	u64 v = hpet[HPET_COUNTER];

	while ((u32)v + 0x10000000u < 0x20000000u) {
		u32 high = hpet_high();

		v = (u64)high << 32 | hpet_low();
		if (hpet_high() == high)
			break;
	}
	return v;
}

static u64 widen(u64 narrow)
{
	u64 last = __atomic_load_n(&wide_last, __ATOMIC_SEQ_CST);
	u64 now = last + ((narrow - last) & narrow_mask);

	/*
	 * A value read before another CPU moved `last` on lies behind it, which looks like
	 * almost a whole turn ahead: it counts as `last`. Real gaps stay below half a turn
	 * by the timer.
	 */
	if (now - last > narrow_mask / 2)
		return last;
	if (now - last > narrow_mask / 16)
		atomic_try_cmpxchg(&wide_last, &last, now);
	return now;
}

static u64 read_ticks(void)
{
	switch (source) {
	case SOURCE_TSC: return rdtsc();
	case SOURCE_HPET64: return read_hpet64();
	case SOURCE_HPET32: return widen(hpet_low());
	case SOURCE_PM: return widen(inl((u16)acpi_info.pm_timer.address) & narrow_mask);
	case SOURCE_NONE: break;
	}
	return 0;
}

static u64 mul_shift32(u64 a, u64 b)
{
	return (u64)((unsigned __int128)a * b >> 32);
}

u64 clock_ns(void)
{
	u64 ticks;

	if (unlikely(source == SOURCE_NONE))
		return 0;
	ticks = read_ticks() - base;
	/* A TSC a few ticks behind the boot CPU's, right after the start. */
	return (s64)ticks < 0 ? 0 : mul_shift32(ticks, mult);
}

const char *clock_source_name(void)
{
	static const char *const names[] = { "none", "tsc", "hpet", "hpet (32 bits)", "pm timer" };

	return names[source];
}

void clock_delay_us(u64 us)
{
	u64 end = clock_ns() + us * 1000;

	while (clock_ns() < end)
		cpu_relax();
}

/* --- choosing ----------------------------------------------------------------- */

/* numerator / denominator with 32 fraction bits; numerator < denominator * 2^32. */
static u64 ratio32(u64 numerator, u64 denominator)
{
	u64 q, rest;

	__asm__("divq %4"
		: "=a"(q), "=d"(rest)
		: "a"(numerator << 32), "d"(numerator >> 32), "rm"(denominator)
		: "cc");
	return q;
}

static bool start_hpet(void)
{
	u64 capabilities;
	u32 period;

	if (!acpi_info.hpet_phys)
		return false;
	hpet = map_device(acpi_info.hpet_phys, 0x400);
	if (!hpet)
		return false;
	capabilities = hpet[HPET_CAPABILITIES];
	period = (u32)(capabilities >> 32); /* femtoseconds */
	if (!acpi_hpet_period_ok(period)) {
		printk("clock: HPET with a period of %u fs ignored\n", period);
		return false;
	}
	hpet[HPET_CONFIG] = (hpet[HPET_CONFIG] & ~2UL) | 1; /* run, no legacy interrupts */
	mult = ratio32(period, 1000000);
	narrow_mask = 0xffffffff;
	source = capabilities & 1 << 13 ? SOURCE_HPET64 : SOURCE_HPET32;
	return true;
}

static bool start_pm(void)
{
	const struct acpi_reg *reg = &acpi_info.pm_timer;

	if (!reg->address || reg->space != ACPI_SPACE_IO)
		return false;
	narrow_mask = reg->bits == 32 ? 0xffffffff : 0xffffff;
	mult = ratio32(NS_PER_S, 3579545);
	source = SOURCE_PM;
	return true;
}

/* Without any other clock: the TSC's rate by counting with PIT channel 2 for 50 ms. */
static u64 tsc_rate_by_pit(void)
{
	u32 count = 1193182 / 20;
	u64 start, end;

	outb(0x61, (inb(0x61) & ~2) | 1);
	outb(0x43, 0xb0);
	outb(0x42, count & 0xff);
	outb(0x42, count >> 8);
	start = rdtsc();
	while (!(inb(0x61) & 0x20) && rdtsc() - start < 10 * NS_PER_S)
		;
	end = rdtsc();
	return (end - start) * 20;
}

/* Take the TSC as the source, measured against the present one for 20 ms. */
static void start_tsc(void)
{
	u64 rate;

	if (source == SOURCE_NONE) {
		rate = tsc_rate_by_pit();
	} else {
		u64 t0 = clock_ns(), c0 = rdtsc(), t1, c1;

		clock_delay_us(20000);
		t1 = clock_ns();
		c1 = rdtsc();
		rate = mul_shift32(c1 - c0, ratio32(NS_PER_S, t1 - t0));
	}
	if (!rate)
		rate = NS_PER_S;
	mult = ratio32(NS_PER_S, rate);
	source = SOURCE_TSC;
}

/* Local timer ticks a nanosecond: the middle of three measurements of 2 ms. */
static void calibrate_lapic(void)
{
	u64 m[3];

	for (int i = 0; i < 3; i++) {
		u64 t0, t1;
		u32 left;

		lapic_timer_start(0xffffffff);
		t0 = clock_ns();
		clock_delay_us(2000);
		left = lapic_timer_left();
		t1 = clock_ns();
		m[i] = ratio32(0xffffffff - left, t1 - t0);
	}
	lapic_timer_start(0);
	lapic_mult = MAX(MIN(m[0], m[1]), MIN(MAX(m[0], m[1]), m[2]));
	if (!lapic_mult)
		panic("clock: the local APIC timer does not run");
}

void clock_set_next(u64 deadline_ns)
{
	u64 now, ticks;

	if (!deadline_ns) {
		lapic_timer_start(0);
		return;
	}
	now = clock_ns();
	ticks = deadline_ns > now ? MIN(deadline_ns - now, 60 * NS_PER_S) : 0;
	ticks = mul_shift32(ticks, lapic_mult);
	/* Too long for the counter: come early, and be armed again. */
	lapic_timer_start((u32)MIN(MAX(ticks, 1UL), 0xffffffffUL));
}

/* --- keeping narrow counters from wrapping unseen -------------------------------------- */

static struct timer keepalive;

static void keepalive_tick(struct timer *t)
{
	u64 now = clock_ns();

	timer_arm(t, now + mul_shift32(narrow_mask / 4, mult));
}

void clock_keepalive_start(void)
{
	if (source != SOURCE_HPET32 && source != SOURCE_PM)
		return;
	timer_init(&keepalive, keepalive_tick);
	keepalive_tick(&keepalive);
}

/* --- the time of day ------------------------------------------------------------------ */

static u8 cmos(u8 reg)
{
	outb(0x70, reg);
	return inb(0x71);
}

struct rtc_time {
	u8 second, minute, hour, day, month, year;
};

static struct rtc_time rtc_read(void)
{
	while (cmos(0x0a) & 0x80) /* update in progress */
		cpu_relax();
	return (struct rtc_time){ cmos(0), cmos(2), cmos(4), cmos(7), cmos(8), cmos(9) };
}

static u32 from_bcd(u8 v, bool binary)
{
	return binary ? v : (v >> 4) * 10u + (v & 15);
}

/* Days from 1970-01-01 to the first of a month, 2000 and later. */
static u64 days_before(u32 year, u32 month)
{
	static const u16 before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334 };
	u32 y = year - 1970;

	return y * 365UL + (y + 1) / 4 + before[month - 1] + (month > 2 && year % 4 == 0);
}

/* Seconds since 1970 by the real-time clock; 0 if it makes no sense. */
static u64 rtc_seconds(void)
{
	struct rtc_time t, again = rtc_read();
	u32 year, month, day, hour;
	u8 mode = cmos(0x0b);
	bool binary = mode & 4, pm;
	int tries = 0;

	/* Two equal readings: none fell into an update. */
	do {
		t = again;
		again = rtc_read();
	} while (++tries < 10 && (t.second != again.second || t.minute != again.minute ||
				  t.hour != again.hour || t.day != again.day));
	pm = t.hour & 0x80;
	hour = from_bcd(t.hour & 0x7f, binary);
	if (!(mode & 2)) /* 12 hours */
		hour = hour % 12 + (pm ? 12 : 0);
	year = 2000 + from_bcd(t.year, binary);
	month = from_bcd(t.month, binary);
	day = from_bcd(t.day, binary);
	if (month < 1 || month > 12 || day < 1 || day > 31 || hour > 23)
		return 0;
	return ((days_before(year, month) + day - 1) * 24 + hour) * 3600 +
	       from_bcd(t.minute, binary) * 60 + from_bcd(t.second, binary);
}

u64 clock_realtime_offset(void)
{
	return __atomic_load_n(&realtime_offset, __ATOMIC_RELAXED);
}

void clock_set_realtime_offset(u64 ns)
{
	__atomic_store_n(&realtime_offset, ns, __ATOMIC_RELAXED);
}

void clock_init(void)
{
	bool want_tsc = clock_wanted == 1 || (clock_wanted == 0 && cpu_features.invariant_tsc);

	if (clock_wanted == 3 ? !start_pm() && !start_hpet() : !start_hpet() && !start_pm())
		printk("clock: neither HPET nor ACPI PM timer, taking the TSC on trust\n");
	wide_last = source == SOURCE_PM ? inl((u16)acpi_info.pm_timer.address) & narrow_mask :
		    source == SOURCE_HPET32 ? hpet_low() : 0;
	base = read_ticks();
	if (want_tsc || source == SOURCE_NONE) {
		start_tsc();
		base = read_ticks();
	}
	calibrate_lapic();
	clock_set_realtime_offset(rtc_seconds() * NS_PER_S - clock_ns());
}
