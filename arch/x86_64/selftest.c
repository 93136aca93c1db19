/*
 * Self-tests of what arch/ promises: clock, calls and shootdowns between CPUs, kernel
 * mappings and stacks, refused user accesses, the protection of the kernel image.
 */
#include "arch/x86_64/clock.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/init.h"
#include "arch/x86_64/paging.h"
#include "arch/x86_64/smp.h"
#include "arch/x86_64/task.h"
#include "arch/x86_64/tlb.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "kernel/wait.h"
#include "mm/page.h"

/* --- clock ------------------------------------------------------------------------ */

static u64 latest;     /* atomic, only grows: a time that some CPU has read */
static u32 backwards;  /* atomic */

static void read_clock(void *arg)
{
	for (int i = 0; i < 100; i++) {
		u64 before = __atomic_load_n(&latest, __ATOMIC_SEQ_CST);
		u64 now = clock_ns();

		if (now < before)
			atomic_add(&backwards, 1);
		while (before < now && !atomic_try_cmpxchg(&latest, &before, now))
			;
	}
}

SELFTEST(clock_monotonic_across_cpus)
{
	for (int i = 0; i < 10; i++) {
		smp_call_others(read_clock, NULL);
		read_clock(NULL);
	}
	SELFTEST_CHECK(backwards == 0);
	return 0;
}

/* --- calls and shootdowns ----------------------------------------------------------- */

static void count_one(void *arg)
{
	atomic_add((u32 *)arg, 1);
}

SELFTEST(smp_call_reaches_every_other_cpu)
{
	u32 n = 0;

	for (int i = 0; i < 5; i++)
		smp_call_others(count_one, &n);
	SELFTEST_CHECK(n == 5 * (cpumask_count(&cpus_online) - 1));
	return 0;
}

static u32 shooters; /* atomic: still at it */
static struct tlb_cpus everybody; /* a root that is nobody's */

static void shooter(void *arg)
{
	for (int i = 0; i < 50; i++) {
		tlb_shootdown(&everybody, 0x1000, i & 1 ? ~0UL : 0x3000, false);
		cond_resched();
	}
	atomic_sub(&shooters, 1);
}

SELFTEST(tlb_everybody_shoots_at_once)
{
	u32 started = 0;

	for_each_cpu(cpu, &cpus_online)
		everybody.word[cpu / CPUS_PER_WORD] |= tlb_cpus_bit(cpu);
	for_each_cpu(cpu, &cpus_online) {
		if (started == 16) /* more takes very long in an emulator */
			break;
		atomic_add(&shooters, 1);
		if (!kthread_create("shooter", shooter, NULL, (int)cpu))
			atomic_sub(&shooters, 1);
		started++;
	}
	while (__atomic_load_n(&shooters, __ATOMIC_SEQ_CST))
		sched_yield();
	return 0;
}

SELFTEST(tlb_one_cpu_sends_nothing)
{
	u64 flags = irq_save();
	u64 before = this_cpu_read(tlb_ipis_sent);
	struct tlb_cpus self = { 0 };

	tlb_cpus_load(&self, this_cpu());
	tlb_shootdown(&self, 0x1000, 0x2000, false);
	tlb_shootdown(&self, 0, ~0UL, true);
	before = this_cpu_read(tlb_ipis_sent) - before;
	irq_restore(flags);
	SELFTEST_CHECK(before == 0);
	return 0;
}

/* --- kernel mappings -------------------------------------------------------------------- */

#define TEST_VA (KSTACKS + (1UL << 37))

static u32 wrong_reads; /* atomic */

static void read_mapping(void *arg)
{
	if (READ_ONCE(*(u64 *)TEST_VA) != (u64)arg)
		atomic_add(&wrong_reads, 1);
}

SELFTEST(kernel_unmap_is_seen_by_every_cpu)
{
	u64 *pages[2] = { kpage_alloc(0), kpage_alloc(0) };
	int err = 0;

	SELFTEST_CHECK(pages[0] && pages[1]);
	for (u64 i = 0; i < 10 && !err; i++) {
		u64 *page = pages[i & 1];

		page[0] = i;
		err = kernel_map(TEST_VA, virt_to_phys(page), PAGE_SIZE, KERNEL_RW);
		if (err)
			break;
		read_mapping((void *)i);
		smp_call_others(read_mapping, (void *)i);
		kernel_unmap(TEST_VA, PAGE_SIZE);
	}
	kpage_free(pages[0]);
	kpage_free(pages[1]);
	SELFTEST_CHECK(!err && !wrong_reads);
	SELFTEST_CHECK(!kernel_entry(TEST_VA).v);
	return 0;
}

SELFTEST(kernel_stacks_have_guards_and_are_apart)
{
	static char *stacks[100];
	int made = 0, bad = 0;

	for (int round = 0; round < 3; round++) {
		for (made = 0; made < 100; made++) {
			stacks[made] = kstack_alloc((int)this_node());
			if (!stacks[made])
				break;
			memset(stacks[made], made, KSTACK_SIZE);
		}
		for (int i = 0; i < made; i++) {
			bad += stacks[i][0] != (char)i || stacks[i][KSTACK_SIZE - 1] != (char)i;
			bad += kernel_entry((u64)stacks[i] - PAGE_SIZE).v != 0;
			kstack_free(stacks[i]);
		}
	}
	SELFTEST_CHECK(made > 0 && bad == 0);
	return 0;
}

/* Entry bits of every page from start to end: all of `set`, none of `clear`. */
static bool all_pages(const char *start, const char *end, u64 set, u64 clear)
{
	for (; start < end; start += PAGE_SIZE) {
		u64 e = kernel_entry((u64)start).v;

		if ((e & set) != set || (e & clear))
			return false;
	}
	return true;
}

SELFTEST(kernel_image_is_protected)
{
	SELFTEST_CHECK(all_pages(__text_start, __text_end, PTE_P, PTE_W | PTE_U | PTE_NX));
	SELFTEST_CHECK(all_pages(__rodata_start, __rodata_end, PTE_P | pte_nx, PTE_W | PTE_U));
	SELFTEST_CHECK(all_pages(__data_start, __kernel_end, PTE_P | PTE_W | pte_nx, PTE_U));
	SELFTEST_CHECK(!kernel_entry(0).v && !kernel_entry(0x200000).v);
	return 0;
}

/* --- user access --------------------------------------------------------------------------- */

SELFTEST(user_access_to_kernel_memory_is_refused)
{
	static const u64 bad[] = { USER_END, USER_END - 4, 1UL << 47, 1UL << 63, DIRECT_MAP,
				   KERNEL_VMA, ~0UL - 7, ~0UL - 3 };
	char buf[8] = "same";
	u32 v32 = 1;
	u64 v64 = 1;

	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		SELFTEST_CHECK(copy_from_user(buf, bad[i], 8) == 8);
		SELFTEST_CHECK(copy_to_user(bad[i], buf, 8) == 8);
		SELFTEST_CHECK(clear_user(bad[i], 8) == 8);
		SELFTEST_CHECK(get_user_u64(bad[i], &v64) < 0 && put_user_u64(bad[i], 0) < 0);
		SELFTEST_CHECK(strncpy_from_user(buf, bad[i] | 7, 8) < 0 || bad[i] == USER_END - 4);
	}
	SELFTEST_CHECK(get_user_u32(USER_END - 3, &v32) < 0);
	SELFTEST_CHECK(copy_to_user(0x1000, buf, ~0UL) == ~0UL);
	/* In range, but a kernel thread has no memory there: the fixup, and nothing copied. */
	SELFTEST_CHECK(copy_from_user(buf, 0x1000, 8) == 8 && get_user_u32(0x1000, &v32) < 0);
	SELFTEST_CHECK(!strcmp(buf, "same") && v32 == 1 && v64 == 1);
	SELFTEST_CHECK(copy_from_user(buf, USER_END, 0) == 0);
	return 0;
}
