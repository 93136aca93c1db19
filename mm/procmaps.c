/*
 * What can be seen of one address space: /proc/PID/{maps,smaps,smaps_rollup,
 * numa_maps,status,statm,pagemap}, in Linux's formats (man 5 proc,
 * Documentation/admin-guide/mm/pagemap.rst).
 */
#include "kernel/file.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/seq.h"
#include "mm/mempolicy.h"
#include "mm/node.h"
#include "mm/mmlock.h"
#include "mm/ptwalk.h"
#include "mm/slab.h"

#define K(pages) ((unsigned long)(pages) * (PAGE_SIZE / 1024))

/* ---- maps ---- */

static const char *special_name(const struct mm *mm, const struct area *a)
{
	if (a->start <= mm->brk && a->end >= mm->brk_start && mm->brk > mm->brk_start && !a->mapping)
		return "[heap]";
	if (a->start <= mm->stack_start && a->end >= mm->stack_start && (a->flags & VM_STACK))
		return "[stack]";
	return NULL;
}

static void show_area(struct seq *s, struct mm *mm, struct area *a, char *path)
{
	const char *name = special_name(mm, a);
	u64 off = a->mapping ? a->pgoff << PAGE_SHIFT : 0, ino = 0;
	u32 dev = 0;
	size_t from = s->len;

	if (a->file) {
		name = file_path(a->file, path, PAGE_SIZE);
		ino = file_ino(a->file);
		dev = file_dev(a->file);
	} else if (a->mapping) {
		name = a->shm ? "/SYSV00000000 (deleted)" : "/dev/zero (deleted)";
		dev = 1;
		ino = 1;
	}
	seq_printf(s, "%08lx-%08lx %c%c%c%c %08lx %02x:%02x %lu ", (unsigned long)a->start,
		   (unsigned long)a->end, a->flags & VM_READ ? 'r' : '-',
		   a->flags & VM_WRITE ? 'w' : '-', a->flags & VM_EXEC ? 'x' : '-',
		   a->flags & VM_MAYSHARE ? 's' : 'p', (unsigned long)off, dev >> 8, dev & 255,
		   (unsigned long)ino);
	if (name) {
		while (s->len - from < 73 && !s->failed)
			seq_puts(s, " ");
		seq_puts(s, name);
	}
	seq_puts(s, "\n");
}

void mm_show_maps(struct mm *mm, struct seq *s)
{
	char *path = kmalloc(PAGE_SIZE);

	if (!path) {
		s->failed = true;
		return;
	}
	mm_lock_read(mm);
	for_each_area (a, mm)
		show_area(s, mm, a, path);
	mm_unlock_read(mm);
	kfree(path);
}

/* ---- smaps ---- */

struct area_sum {
	u64 rss, pss_shift12, anon, referenced, shared_clean, shared_dirty, private_clean,
		private_dirty, locked, zero;
	u64 per_node[MAX_NODES];
};

static void sum_entry(struct area_sum *u, const struct area *a, pte_t e)
{
	struct page *p;
	u32 maps;

	if (e.v & PTE_SPECIAL) {
		u->zero++;
		return;
	}
	p = phys_to_page(pte_phys(e));
	maps = (u32)MAX(READ_ONCE(p->mapcount), 1);
	u->rss++;
	u->per_node[p->node]++;
	u->pss_shift12 += PAGE_SIZE / maps;
	if (p->type == PG_ANON)
		u->anon++;
	if (e.v & PTE_A)
		u->referenced++;
	if (a->flags & VM_LOCKED)
		u->locked++;
	if (maps > 1)
		*((e.v & PTE_D) ? &u->shared_dirty : &u->shared_clean) += 1;
	else
		*((e.v & PTE_D) ? &u->private_dirty : &u->private_clean) += 1;
}

static void sum_area(struct area *a, struct area_sum *u)
{
	struct ptwalk w;

	rcu_read_lock();
	ptwalk_open(&w, a->mm, a->start, a->end, WALK_READ);
	while (ptwalk_next(&w)) {
		if (!ptwalk_lock(&w))
			continue;
		ptwalk_each (&w, i)
			if (!pte_none(w.entry[i]))
				sum_entry(u, a, w.entry[i]);
		ptwalk_unlock(&w);
		rcu_read_unlock();
		cond_resched();
		rcu_read_lock();
	}
	rcu_read_unlock();
}

static void show_sum(struct seq *s, const struct area_sum *u)
{
	seq_printf(s, "Rss:            %8lu kB\n", K(u->rss));
	seq_printf(s, "Pss:            %8lu kB\n", (unsigned long)(u->pss_shift12 / 1024));
	seq_printf(s, "Shared_Clean:   %8lu kB\n", K(u->shared_clean));
	seq_printf(s, "Shared_Dirty:   %8lu kB\n", K(u->shared_dirty));
	seq_printf(s, "Private_Clean:  %8lu kB\n", K(u->private_clean));
	seq_printf(s, "Private_Dirty:  %8lu kB\n", K(u->private_dirty));
	seq_printf(s, "Referenced:     %8lu kB\n", K(u->referenced));
	seq_printf(s, "Anonymous:      %8lu kB\n", K(u->anon));
	seq_printf(s, "AnonHugePages:  %8lu kB\n", 0UL);
	seq_printf(s, "ShmemPmdMapped: %8lu kB\n", 0UL);
	seq_printf(s, "Shared_Hugetlb: %8lu kB\n", 0UL);
	seq_printf(s, "Private_Hugetlb:%8lu kB\n", 0UL);
	seq_printf(s, "Swap:           %8lu kB\n", 0UL);
	seq_printf(s, "SwapPss:        %8lu kB\n", 0UL);
	seq_printf(s, "Locked:         %8lu kB\n", K(u->locked));
}

static void show_vmflags(struct seq *s, u32 flags)
{
	static const struct {
		u32 flag;
		char name[4];
	} names[] = {
		{ VM_READ, "rd" },	{ VM_WRITE, "wr" },	{ VM_EXEC, "ex" },
		{ VM_SHARED, "sh" },	{ VM_MAYREAD, "mr" },	{ VM_MAYWRITE, "mw" },
		{ VM_MAYEXEC, "me" },	{ VM_MAYSHARE, "ms" },	{ VM_GROWSDOWN, "gd" },
		{ VM_LOCKED, "lo" },	{ VM_SEQ, "sr" },	{ VM_RAND, "rr" },
		{ VM_DONTFORK, "dc" },	{ VM_NORESERVE, "nr" }, { VM_WIPEONFORK, "wf" },
		{ VM_DONTDUMP, "dd" },	{ VM_HUGEPAGE, "hg" },	{ VM_NOHUGEPAGE, "nh" },
		{ VM_MERGEABLE, "mg" },
	};

	seq_puts(s, "VmFlags:");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (flags & names[i].flag)
			seq_printf(s, " %s", names[i].name);
	seq_puts(s, " \n");
}

void mm_show_smaps(struct mm *mm, struct seq *s)
{
	char *path = kmalloc(PAGE_SIZE);

	if (!path) {
		s->failed = true;
		return;
	}
	mm_lock_read(mm);
	for_each_area (a, mm) {
		struct area_sum u = { 0 };

		sum_area(a, &u);
		show_area(s, mm, a, path);
		seq_printf(s, "Size:           %8lu kB\n", K(area_pages(a)));
		seq_printf(s, "KernelPageSize: %8lu kB\n", K(1));
		seq_printf(s, "MMUPageSize:    %8lu kB\n", K(1));
		show_sum(s, &u);
		seq_printf(s, "THPeligible:           0\n");
		show_vmflags(s, a->flags);
	}
	mm_unlock_read(mm);
	kfree(path);
}

void mm_show_smaps_rollup(struct mm *mm, struct seq *s)
{
	struct area_sum u = { 0 };
	vaddr_t start = 0, end = 0;

	mm_lock_read(mm);
	for_each_area (a, mm) {
		if (!end)
			start = a->start;
		end = a->end;
		sum_area(a, &u);
	}
	mm_unlock_read(mm);
	seq_printf(s, "%08lx-%08lx ---p 00000000 00:00 0                          [rollup]\n",
		   (unsigned long)start, (unsigned long)end);
	show_sum(s, &u);
}

void mm_show_numa_maps(struct mm *mm, struct seq *s)
{
	char *path = kmalloc(PAGE_SIZE);
	char policy[80];

	if (!path) {
		s->failed = true;
		return;
	}
	mm_lock_read(mm);
	for_each_area (a, mm) {
		struct area_sum u = { 0 };
		const char *name = special_name(mm, a);

		sum_area(a, &u);
		seq_printf(s, "%08lx %s", (unsigned long)a->start,
			   mempolicy_format(a->policy, policy, sizeof policy));
		if (a->file)
			seq_printf(s, " file=%s", file_path(a->file, path, PAGE_SIZE));
		else if (name)
			seq_printf(s, name[1] == 'h' ? " heap" : " stack");
		if (u.anon)
			seq_printf(s, " anon=%lu", (unsigned long)u.anon);
		if (u.private_dirty + u.shared_dirty)
			seq_printf(s, " dirty=%lu", (unsigned long)(u.private_dirty + u.shared_dirty));
		if (u.rss > u.anon)
			seq_printf(s, " mapped=%lu", (unsigned long)u.rss);
		for (int n = 0; n < num_nodes; n++)
			if (u.per_node[n])
				seq_printf(s, " N%d=%lu", n, (unsigned long)u.per_node[n]);
		if (u.rss)
			seq_printf(s, " kernelpagesize_kB=4");
		seq_puts(s, "\n");
	}
	mm_unlock_read(mm);
	kfree(path);
}

/* ---- status, statm ---- */

void mm_show_status(struct mm *mm, struct seq *s)
{
	u64 anon = (u64)mm_counter(mm, MM_ANON), file = (u64)mm_counter(mm, MM_FILE);
	u64 shmem = (u64)mm_counter(mm, MM_SHMEM), rss = mm_rss(mm);

	seq_printf(s, "VmPeak:\t%8lu kB\n", K(MAX(mm->hiwater_vm, (u64)mm_counter(mm, MM_VM))));
	seq_printf(s, "VmSize:\t%8lu kB\n", K(mm_counter(mm, MM_VM)));
	seq_printf(s, "VmLck:\t%8lu kB\n", K(mm_counter(mm, MM_LOCKED)));
	seq_printf(s, "VmPin:\t%8lu kB\n", 0UL);
	seq_printf(s, "VmHWM:\t%8lu kB\n", K(MAX(mm->hiwater_rss, rss)));
	seq_printf(s, "VmRSS:\t%8lu kB\n", K(rss));
	seq_printf(s, "RssAnon:\t%8lu kB\n", K(anon));
	seq_printf(s, "RssFile:\t%8lu kB\n", K(file));
	seq_printf(s, "RssShmem:\t%8lu kB\n", K(shmem));
	seq_printf(s, "VmData:\t%8lu kB\n", K(mm_counter(mm, MM_DATA)));
	seq_printf(s, "VmStk:\t%8lu kB\n", K(mm_counter(mm, MM_STACK)));
	seq_printf(s, "VmExe:\t%8lu kB\n", (unsigned long)(mm->code_end - mm->code_start) / 1024);
	seq_printf(s, "VmLib:\t%8lu kB\n", 0UL);
	seq_printf(s, "VmPTE:\t%8lu kB\n", K(mm_counter(mm, MM_TABLES)));
	seq_printf(s, "VmSwap:\t%8lu kB\n", 0UL);
	seq_printf(s, "HugetlbPages:\t%8lu kB\n", 0UL);
}

void mm_show_statm(struct mm *mm, struct seq *s)
{
	seq_printf(s, "%lu %lu %lu %lu 0 %lu 0\n", (unsigned long)mm_counter(mm, MM_VM),
		   (unsigned long)mm_rss(mm),
		   (unsigned long)(mm_counter(mm, MM_FILE) + mm_counter(mm, MM_SHMEM)),
		   (unsigned long)((mm->code_end - mm->code_start + PAGE_SIZE - 1) >> PAGE_SHIFT),
		   (unsigned long)(mm_counter(mm, MM_DATA) + mm_counter(mm, MM_STACK)));
}

/* ---- pagemap ---- */

#define PM_SOFT_DIRTY (1UL << 55)
#define PM_EXCLUSIVE  (1UL << 56)
#define PM_FILE       (1UL << 61)
#define PM_PRESENT    (1UL << 63)

static u64 pagemap_entry(pte_t e)
{
	struct page *p;
	u64 v;

	if (pte_none(e))
		return 0;
	v = PM_PRESENT | PM_SOFT_DIRTY | pte_phys(e).v >> PAGE_SHIFT;
	if (e.v & PTE_SPECIAL)
		return v;
	p = phys_to_page(pte_phys(e));
	if (p->type != PG_ANON)
		v |= PM_FILE;
	if (READ_ONCE(p->mapcount) == 1)
		v |= PM_EXCLUSIVE;
	return v;
}

long mm_pagemap(struct mm *mm, u64 first, u64 *buf, u64 n)
{
	u64 last = USER_END >> PAGE_SHIFT;
	struct ptwalk w;

	if (first >= last)
		return 0;
	n = MIN(n, last - first);
	for (u64 i = 0; i < n; i++)
		buf[i] = 0;
	mm_lock_read(mm);
	rcu_read_lock();
	ptwalk_open(&w, mm, first << PAGE_SHIFT, (first + n) << PAGE_SHIFT, WALK_READ);
	while (ptwalk_next(&w)) {
		if (!ptwalk_lock(&w))
			continue;
		ptwalk_each (&w, i)
			buf[(ptwalk_addr(&w, i) >> PAGE_SHIFT) - first] = pagemap_entry(w.entry[i]);
		ptwalk_unlock(&w);
	}
	rcu_read_unlock();
	mm_unlock_read(mm);
	return (long)n;
}
