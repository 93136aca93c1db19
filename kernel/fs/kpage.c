/*
 * /proc/kpagecount and /proc/kpageflags: eight bytes for each frame, by frame number.
 * Format: Linux Documentation/admin-guide/mm/pagemap.rst.
 */
#include <linux/kernel-page-flags.h>

#include "kernel/fs/gen.h"
#include "kernel/printk.h"
#include "kernel/task.h"
#include "mm/page.h"

static u64 count_of(u64 pfn)
{
	if (!pfn_valid(PFN(pfn)))
		return 0;
	return (u64)MAX(READ_ONCE(pfn_to_page(PFN(pfn))->mapcount), 0);
}

#define BIT(n) (1UL << (n))

static u64 flags_of(u64 pfn)
{
	const struct page *p = pfn_to_page(PFN(pfn));
	u64 flags = 0;

	if (!pfn_valid(PFN(pfn)))
		return BIT(KPF_NOPAGE);
	switch (READ_ONCE(p->type)) {
	case PG_FREE:
		return BIT(KPF_BUDDY);
	case PG_SLAB:
		return BIT(KPF_SLAB);
	case PG_TABLE:
		return BIT(KPF_PGTABLE);
	case PG_ANON:
		flags = BIT(KPF_ANON) | BIT(KPF_SWAPBACKED) | BIT(KPF_UPTODATE) | BIT(KPF_LRU);
		break;
	case PG_FILE:
		flags = BIT(KPF_SWAPBACKED) | BIT(KPF_UPTODATE) | BIT(KPF_LRU);
		break;
	case PG_HUGETLB:
		flags = BIT(KPF_HUGE) | BIT(KPF_UPTODATE);
		break;
	}
	if (READ_ONCE(p->mapcount) > 0)
		flags |= BIT(KPF_MMAP);
	if (p->flags & PAGE_DIRTY)
		flags |= BIT(KPF_DIRTY);
	if (p->flags & PAGE_LOCKED)
		flags |= BIT(KPF_UNEVICTABLE);
	if (p == zero_page)
		flags |= BIT(KPF_ZERO_PAGE);
	return flags;
}

static long read_frames(u64 *pos, struct uio *u, u64 (*what)(u64 pfn))
{
	u64 buf[64];
	long total = 0;

	if (*pos % 8 || u->left % 8)
		return -EINVAL;
	while (u->left && *pos / 8 < max_pfn) {
		u64 n = MIN(MIN(u->left / 8, ARRAY_SIZE(buf)), max_pfn - *pos / 8);

		for (u64 i = 0; i < n; i++)
			buf[i] = what(*pos / 8 + i);
		if (uio_put(u, buf, n * 8) < n * 8)
			return total ? total : -EFAULT;
		*pos += n * 8;
		total += (long)(n * 8);
		if (signal_pending(current))
			break;
		cond_resched();
	}
	return total;
}

static long read_kpagecount(struct file *f, u64 *pos, struct uio *u)
{
	return read_frames(pos, u, count_of);
}

static long read_kpageflags(struct file *f, u64 *pos, struct uio *u)
{
	return read_frames(pos, u, flags_of);
}

static const struct file_ops count_fops = { .read = read_kpagecount };
static const struct file_ops flags_fops = { .read = read_kpageflags };

void kpage_files_init(void)
{
	tree_add("/proc/kpagecount", inode_create(&vol_proc, S_IFREG | 0400, NULL, &count_fops));
	tree_add("/proc/kpageflags", inode_create(&vol_proc, S_IFREG | 0400, NULL, &flags_fops));
}
