/*
 * Time: a monotonic clock in nanoseconds since boot, and one one-shot timer per
 * CPU. TSC only if CPUID says invariant, else HPET, else the ACPI PM timer.
 */
#ifndef ARCH_CLOCK_H
#define ARCH_CLOCK_H

#include "kernel/types.h"

void clock_init(void);           /* boot CPU: pick the source, calibrate the APIC timer */

/* Boot CPU, once timers work: for counters that wrap. */
void clock_keepalive_start(void);
u64 clock_ns(void);              /* CLOCK_MONOTONIC; any context */
u64 clock_realtime_offset(void); /* CLOCK_REALTIME - CLOCK_MONOTONIC in ns; from the RTC at boot */
void clock_set_realtime_offset(u64 ns);
const char *clock_source_name(void);

/*
 * Arm this CPU's one-shot timer for an absolute monotonic time (0 = disarm);
 * interrupts off. On expiry vector VEC_TIMER calls timer_interrupt()
 * (kernel/timer.c).
 */
void clock_set_next(u64 deadline_ns);

/* Busy-wait; boot and device code only. */
void clock_delay_us(u64 us);

#endif
