/* Common to the fuzz targets, see fuzz.h. */
#include "tests/fuzz/fuzz.h"

#include <stdarg.h>

/* Formats the line, so that a bad argument is seen, and drops it. */
void boot_warn(const char *fmt, ...)
{
	char line[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
}

void fuzz_touch(const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void)((const volatile uint8_t *)p)[i];
}

void fuzz_check_boot_info(const struct boot_info *info)
{
	bool usable = false;

	MUST(memchr(info->cmdline, 0, sizeof(info->cmdline)));
	MUST(memchr(info->loader, 0, sizeof(info->loader)));
	MUST(info->rsdp_len == 0 || info->rsdp_len == 20 || info->rsdp_len == 36);
	MUST(info->initrd_phys + info->initrd_len >= info->initrd_phys);
	MUST(info->nr_ranges <= BOOT_RANGES_MAX);
	for (u32 i = 0; i < info->nr_ranges; i++) {
		const struct boot_range *r = &info->ranges[i];

		MUST(r->len > 0 && r->base + r->len <= 1ull << 52);
		MUST(r->type >= BOOT_MEM_USABLE && r->type <= BOOT_MEM_BAD);
		MUST(i == 0 || r[-1].base + r[-1].len <= r->base);
		MUST(i == 0 || r[-1].base + r[-1].len < r->base || r[-1].type != r->type);
		usable |= r->type == BOOT_MEM_USABLE;
	}
	/* Memory is only assumed where nothing stricter forbids it. */
	MUST(usable || (info->flags & BOOT_MAP_FALLBACK));
}
