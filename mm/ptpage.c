/*
 * The life of page-table pages (ptpage.h), and which lock guards their entries.
 */
#include "mm/ptpage.h"
#include "arch/x86_64/smp.h"
#include "kernel/printk.h"
#include "mm/policy.h"
#include "mm/quicklist.h"

DEFINE_LOCK_CLASS(pt_class, "page_table", RANK_PT);
DEFINE_LOCK_CLASS(pt_upper_class, "page_table_pmd", RANK_PT_UPPER);

int ptl_policy;

void ptpage_init(void)
{
	ptl_policy = vm_ptl;
	if (vm_ptl == PTL_SPLIT && (long)num_cpus < vm_split_ptl_cpus)
		ptl_policy = PTL_PTE;
}

struct page *ptpage_alloc(struct mm *mm, unsigned level)
{
	struct page *p;

	if (fault_inject())
		return NULL;
	p = quicklist_take(level == PT_LEVELS ? QUICK_ROOT : QUICK_TABLE);
	if (!p)
		return NULL;
	p->level = (u8)level;
	spin_init(&p->pt.lock, level == 1 ? &pt_class : &pt_upper_class);
	p->pt.used = 0;
	p->pt.shares = 1;
	p->pt.setters = 0;
	p->pt.mm = mm;
	mm_count(mm, MM_TABLES, 1);
	return p;
}

static void check_zero(struct page *p)
{
#ifdef DEBUG
	const u64 *e = page_address(p);

	for (unsigned i = 0; i < (p->level == PT_LEVELS ? PT_ENTRIES / 2 : PT_ENTRIES); i++)
		if (e[i])
			panic("page table freed with entry %u = %llx", i, (unsigned long long)e[i]);
#else
	(void)p;
#endif
}

void ptpage_free_now(struct page *p)
{
	check_zero(p);
	if (!quicklist_give(p->level == PT_LEVELS ? QUICK_ROOT : QUICK_TABLE, p))
		page_free(p, 0);
}

void ptpage_free_unused(struct mm *mm, struct page *p)
{
	mm_count(mm, MM_TABLES, -1);
	ptpage_free_now(p);
}

static void free_after_grace(struct rcu_head *h)
{
	ptpage_free_now(container_of(h, struct page, pt.rcu));
}

void ptpage_free_rcu(struct page *p)
{
	call_rcu(&p->pt.rcu, free_after_grace);
}
