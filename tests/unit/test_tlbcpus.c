/*
 * arch/x86_64/tlbcpus.h under real concurrency: a thread that loads and leaves an address space as a CPU with PCIDs does,
 * and one that changes an entry and flushes. An entry here is a version; a TLB that holds an old one after the flush
 * for the new one is over is what must never be.
 */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <sched.h>

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/tlb.h"

#define ROUNDS 200000 /* at least, and until both have been seen: a flush that arrives, a return that keeps */
#define SELF   37 /* not in the first word */
#define OTHER  38 /* shares the word */

static struct tlb_cpus cpus;
static u64 entry;    /* changed by the flusher only */
static u64 flushed;  /* every TLB has forgotten versions before this one */
static u32 request;  /* an interrupt is pending; 0: answered */
static bool over;

/* The CPU's own. */
static struct {
	bool loaded;
	u64 cached;  /* version in the TLB; 0: none */
} cpu;
static u64 flushes, kept; /* atomic: so far */

static void serve(void)
{
	if (!__atomic_load_n(&request, __ATOMIC_ACQUIRE))
		return;
	if (cpu.loaded) {
		cpu.cached = 0;
		atomic_add(&flushes, 1);
	} else {
		tlb_cpus_forget(&cpus, SELF);
	}
	__atomic_store_n(&request, 0, __ATOMIC_RELEASE);
}

static void run_user_code(void)
{
	u64 must = __atomic_load_n(&flushed, __ATOMIC_SEQ_CST);

	if (!cpu.cached)
		cpu.cached = __atomic_load_n(&entry, __ATOMIC_SEQ_CST);
	CHECK(cpu.cached >= must);
}

static void *run_cpu(void *arg)
{
	u32 n = 0;

	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		bool good;

		/* Interrupts off: nothing is served until the root is loaded. */
		good = tlb_cpus_load(&cpus, SELF);
		if (!good)
			cpu.cached = 0;
		atomic_add(&kept, good);
		cpu.loaded = true;
		for (u32 i = 0; i < n % 4; i++) {
			serve();
			run_user_code();
		}
		/* Off again, to another address space. */
		cpu.loaded = false;
		tlb_cpus_unload(&cpus, SELF, n % 8 != 7);
		if (n++ % 3 == 0)
			serve();
	}
	while (__atomic_load_n(&request, __ATOMIC_ACQUIRE))
		serve();
	return NULL;
}

static void flush(void)
{
	u64 loaded = 0;

	for (u32 w = 0; w < MAX_CPUS / CPUS_PER_WORD; w++) {
		u64 some = tlb_cpus_take(&cpus, w);

		if (w == SELF / CPUS_PER_WORD)
			loaded = some;
	}
	if (!(loaded & tlb_cpus_bit(SELF)))
		return;
	__atomic_store_n(&request, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&request, __ATOMIC_ACQUIRE))
		sched_yield();
}

TEST(tlb_cpus_never_leave_an_old_translation)
{
	pthread_t t;

	entry = 1;
	CHECK(!pthread_create(&t, NULL, run_cpu, NULL));
	for (u64 v = 2; v < ROUNDS || !READ_ONCE(flushes) || !READ_ONCE(kept); v++) {
		__atomic_store_n(&entry, v, __ATOMIC_SEQ_CST);
		flush();
		__atomic_store_n(&flushed, v, __ATOMIC_SEQ_CST);
		/* A neighbour comes and goes without touching what is not its own. */
		tlb_cpus_load(&cpus, OTHER);
		tlb_cpus_unload(&cpus, OTHER, v & 1);
		if (v % 64 == 0)
			sched_yield();
	}
	__atomic_store_n(&over, true, __ATOMIC_SEQ_CST);
	pthread_join(t, NULL);
}

struct cpu_features cpu_features;
int vm_pcid;

TEST(pcids_need_global_pages)
{
	for (int with = 0; with < 8; with++) {
		cpu_features = (struct cpu_features){ .pcid = with & 1, .pge = with & 2 };
		vm_pcid = with & 4 ? PCID_ON : PCID_OFF;
		CHECK_EQ(tlb_uses_pcid(), with == 7);
	}
}

TEST(tlb_cpus_keep_and_forget)
{
	struct tlb_cpus c = { 0 };

	CHECK(tlb_cpus_none_loaded(&c));
	for (u32 n = 0; n < MAX_CPUS; n++) {
		CHECK(!tlb_cpus_load(&c, n)); /* the first time nothing is kept */
		CHECK(!tlb_cpus_none_loaded(&c));
		tlb_cpus_unload(&c, n, true);
		CHECK(tlb_cpus_none_loaded(&c));
		CHECK(tlb_cpus_load(&c, n)); /* ... now it is */
		tlb_cpus_unload(&c, n, false);
		CHECK(!tlb_cpus_load(&c, n)); /* ... and now not */
		tlb_cpus_unload(&c, n, true);
	}
	/* A flusher makes all forget, and finds those that are loaded. */
	CHECK(tlb_cpus_load(&c, 5));
	CHECK(tlb_cpus_take(&c, 0) == tlb_cpus_bit(5));
	tlb_cpus_unload(&c, 5, true);
	CHECK(!tlb_cpus_load(&c, 6));
	tlb_cpus_unload(&c, 6, true);
	CHECK(tlb_cpus_load(&c, 5));
	tlb_cpus_unload(&c, 5, true);
	CHECK(tlb_cpus_load(&c, 32)); /* another word: not asked */
	tlb_cpus_unload(&c, 32, true);
	tlb_cpus_forget(&c, 32);
	CHECK(!tlb_cpus_load(&c, 32));
}

/* What a TLB holds under each tag is what the last root that was loaded under it without being `good` put there. */
TEST(tlb_tags_are_never_good_for_another)
{
	struct tlb_tags t = { 0 };
	u64 holds[TLB_TAGS + 1] = { 0 };
	u32 kept = 0, seed = 1;

	for (int n = 0; n < 100000; n++) {
		bool good = true;
		u64 id;
		u32 tag;

		seed = seed * 1103515245 + 12345;
		/* Mostly one of few, so that tags are found again; and new ones for ever. */
		id = seed >> 16 & 7 ? 1 + (seed >> 20) % 5 : 1000 + (u64)n;
		tag = tlb_tag_for(&t, id, &good);
		CHECK(tag >= 1 && tag <= TLB_TAGS);
		if (good)
			CHECK_EQ(holds[tag], id);
		kept += good;
		holds[tag] = id;
	}
	CHECK(kept > 10000);
	/* What is not good stays so. */
	bool good = false;
	tlb_tag_for(&t, t.owner[0], &good);
	CHECK(!good);
}
