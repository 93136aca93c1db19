/*
 * Instructions that depend on what the CPU has: each place is listed in section
 * .patch (entry.inc) with the bytes that replace it if its feature is there.
 * Done once by the boot CPU, before kernel text becomes read-only and before another
 * CPU runs, so nobody can be executing what changes.
 */
#include "arch/x86_64/account.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/init.h"
#include "kernel/printk.h"

struct patch {
	u8 *address;
	u8 feature, len;
	u8 bytes[6];
} __packed;
static_assert(sizeof(struct patch) == 16, "as PATCH_SITE in entry.inc lays it out");

enum { PATCH_SMAP = 1, PATCH_NO_ACCOUNT = 2 };

extern const struct patch __patch_start[], __patch_end[];

static bool wanted(u8 feature)
{
	switch (feature) {
	case PATCH_SMAP: return cpu_features.smap;
	case PATCH_NO_ACCOUNT: return time_account == TIME_ACCOUNT_OFF;
	}
	panic("patch: unknown feature %u", feature);
}

void patch_init(void)
{
	for (const struct patch *p = __patch_start; p < __patch_end; p++) {
		if (!wanted(p->feature))
			continue;
		for (u8 i = 0; i < p->len; i++)
			p->address[i] = p->bytes[i];
	}
}
