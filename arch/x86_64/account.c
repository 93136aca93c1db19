/*
 * User and system time. The entry code (entry.asm, seven instructions each way) adds
 * the TSC ticks since this CPU's last stamp to account_user on the way into the
 * kernel and to account_system on the way out. Only their ratio is used: how long the
 * whole was, clock_ns() says, so the TSC's rate may be unknown or change.
 *
 * Locking: everything is per CPU, touched with interrupts off.
 */
#include "arch/x86_64/account.h"

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/percpu.h"
#include "arch/x86_64/task.h"
#include "kernel/param.h"
#include "kernel/task.h"

/* off: all time counts as the user's, at no cost an entry. */
PARAM_ENUM(time_account, "time.account", 0, TIME_ACCOUNT_TSC, "tsc", "off");

DEFINE_PER_CPU(u64, account_stamp);
DEFINE_PER_CPU(u64, account_user);
DEFINE_PER_CPU(u64, account_system);

/* a * b / c without losing bits between; b <= c, so the result fits. */
static u64 scale(u64 a, u64 b, u64 c)
{
	u64 low, high, rest;

	__asm__("mulq %3" : "=a"(low), "=d"(high) : "a"(a), "rm"(b) : "cc");
	__asm__("divq %4" : "=a"(low), "=d"(rest) : "a"(low), "d"(high), "rm"(c) : "cc");
	return low;
}

void account_switch(struct task *prev, u64 ns)
{
	u64 user = this_cpu_read(account_user);
	u64 system = this_cpu_read(account_system);
	u64 now, user_ns;

	if (time_account == TIME_ACCOUNT_OFF) {
		if (prev->kthread)
			prev->system_ns += ns;
		else
			prev->user_ns += ns;
		return;
	}
	now = rdtsc();
	system += now - this_cpu_read(account_stamp);
	this_cpu_write(account_stamp, now);
	this_cpu_write(account_user, 0);
	this_cpu_write(account_system, 0);

	/* A TSC that went backwards (moved to another host) must not give nonsense. */
	if ((s64)user < 0 || (s64)system <= 0)
		user = 0, system = 1;
	user_ns = user ? scale(ns, user, user + system) : 0;
	prev->user_ns += user_ns;
	prev->system_ns += ns - user_ns;
}
