/*
 * Address spaces: what the rest of the kernel asks of memory management.
 */
#ifndef MM_MM_H
#define MM_MM_H

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/trap.h"
#include "arch/x86_64/tlbcpus.h"
#include "kernel/lock.h"
#include "kernel/task.h"
#include "mm/page.h"

struct file;
struct seq;
struct area;
struct mempolicy;

#define AREA_MAX_HEIGHT 12

struct mm {
	phys_t root;             /* root table, constant */
	u32 users;               /* atomic: threads that use it; at 0 all areas go */
	u32 refs;                /* atomic: pointers to the struct itself (users count as one) */

	struct rwsem lock;       /* through mmlock.h */
	u32 exclusive;           /* atomic: holders of lock that keep changes out: see mmlock.h */
	struct wait_queue change_wait;

	struct area *areas[AREA_MAX_HEIGHT]; /* skip list heads: head_lock to write, RCU to read */
	spinlock_t head_lock;    /* like an area's link_lock: see vma.h */
	u32 area_height;         /* highest level in use; atomic, only grows */

	/* Layout: mm->lock. */
	vaddr_t mmap_base, brk_start, brk;
	vaddr_t arg_start, arg_end, env_start, env_end;
	vaddr_t stack_start, code_start, code_end, data_start, data_end;
	u64 hiwater_rss, hiwater_vm; /* pages; racy maxima */
	u64 def_flags;           /* of new areas: VM_LOCKED after mlockall(MCL_FUTURE) */

	struct tlb_cpus cpus;    /* that have root loaded, or keep what they cached of it: arch/x86_64/tlbcpus.h */
	u64 tlb_id;              /* constant: tlb_load_root() */

	spinlock_t ptl;          /* vm.ptl=mm: the one page-table lock */

	spinlock_t state_lock;   /* guards tasks and the base counters' sum with leaving threads */
	struct list tasks;       /* struct task, mm_link */
	s64 counter[NR_MM_COUNTERS]; /* base of the sums; atomic */

	struct file *exe;        /* for /proc/self/exe; lock */
	u64 saved_auxv[48];
	u32 membarrier_state;
	struct rcu_head rcu;
};

/* A new, empty address space with users = refs = 1, or NULL. */
struct mm *mm_create(void);
/* Copy for fork(2): private areas copy-on-write. Current task's mm is `parent`. NULL: out of memory
 * (nothing of the child remains). Sleeps. */
struct mm *mm_fork(struct mm *parent);

/*
 * User references. mm_attach: t becomes a thread of mm and takes over one user
 * reference of the caller (from mm_create, mm_fork or mm_get_user); t does not
 * run yet, or is current. mm_detach: current goes over to the kernel root and
 * gives its user reference back; t->mm = NULL. The last one unmaps all. Sleeps.
 */
void mm_attach(struct mm *mm, struct task *t);
void mm_detach(void);
/* Undo mm_attach() of a task that has never run; the user reference is the caller's again. */
void mm_unattach(struct task *t);
static inline void mm_get_user(struct mm *mm) /* the caller has one already */
{
	atomic_add(&mm->users, 1);
}
void mm_put_user(struct mm *mm);
/* For others to look at it: with a user reference; NULL if t has none (any more). */
struct mm *mm_of_task(struct task *t);
/* Keeps only the structure itself (futex keys): mm_put() may free it at 0. */
static inline void mm_get(struct mm *mm)
{
	atomic_add(&mm->refs, 1);
}
void mm_put(struct mm *mm);

/* Context switch to a task with address space next; NULL: to one that has none. Interrupts off. */
void mm_switch(struct mm *next);
/*
 * A flush has come to this CPU for the address space whose mm->cpus this is: true if it must be carried out. Else
 * that is not loaded here, or not any more because this CPU goes over to the kernel's root instead.
 */
bool mm_flush_arrived(struct tlb_cpus *cpus);
DECLARE_PER_CPU(bool, mm_lazy); /* own CPU: what is loaded is not the running task's, which has none */

/* exec: the current task leaves its mm (if any) and goes on in mm, whose user reference it takes over. */
void mm_exec_switch(struct mm *mm);

/*
 * Map len bytes at addr (exec, brk, shmat, mmap). prot PROT_*, flags MAP_* as mmap(2); file may be
 * NULL (anonymous); off in bytes. Returns the address or -errno as Linux. Sleeps.
 */
long mm_map(struct mm *mm, vaddr_t addr, u64 len, u32 prot, u32 flags, struct file *file, u64 off);
/* The same for a bare mapping (SysV shm): shared, offset 0. */
struct mapping;
long mm_map_shared(struct mm *mm, vaddr_t addr, u64 len, u32 prot, u32 flags, struct mapping *m,
		   void *shm_cookie);
int mm_unmap(struct mm *mm, vaddr_t addr, u64 len);
/* exec: the stack area ending at top (exclusive), growing down to at most limit bytes. 0 or -errno. */
int mm_map_stack(struct mm *mm, vaddr_t top, u64 size, bool executable);
/* exec: heap start after the image. */
void mm_set_brk(struct mm *mm, vaddr_t start);

/*
 * Copy between a kernel buffer and any process's memory at addr, faulting pages in; with force, write to read-only private
 * areas by breaking COW (/proc/PID/mem, ptrace-like). Returns bytes done, or -EFAULT/-EIO if none. Sleeps.
 */
long mm_access(struct mm *mm, vaddr_t addr, void *buf, size_t len, bool write, bool force);
/* A reference on the frame at addr, faulted in for reading or writing; NULL with *err. The frame counts as
 * pinned until page_unpin(): COW copies for the other side. */
struct page *mm_pin(struct mm *mm, vaddr_t addr, bool write, int *err);
void page_unpin(struct page *p);

/* What a futex word is identified by: shared words by (mapping, offset), private by (mm, address). */
struct futex_key {
	u64 word; /* address, or offset in the mapping */
	void *object; /* mm or mapping */
	bool shared;
};
/* 0, -EFAULT (not mapped, or shared && not writable for write), -EINVAL unaligned. For a shared key a reference on the mapping is
 * held: futex_key_put(). */
int mm_futex_key(vaddr_t addr, bool shared, bool write, struct futex_key *key);
void futex_key_put(struct futex_key *key);

/*
 * Count pages: a thread of the mm in its own struct task, so no cache line is
 * shared; anybody else in the mm's base, atomically.
 */
static inline void mm_count(struct mm *mm, enum mm_counter_kind kind, s64 n)
{
	struct task *t = current;

	if (likely(t->mm == mm))
		t->mm_counter[kind] += n;
	else
		atomic_add(&mm->counter[kind], n);
}
/* This thread's own view: exact if it is the only one. */
static inline s64 mm_counter_quick(struct mm *mm, enum mm_counter_kind kind)
{
	return READ_ONCE(mm->counter[kind]) + (current->mm == mm ? current->mm_counter[kind] : 0);
}
/* Exact sums over the mm and its threads. */
s64 mm_counter(struct mm *mm, enum mm_counter_kind kind);
u64 mm_rss(struct mm *mm);
/* The most it has been, as far as this thread knows without asking the others (who count for themselves). */
u64 mm_rss_peak(struct mm *mm);

/* /proc/PID/... */
void mm_show_maps(struct mm *mm, struct seq *s);
void mm_show_smaps(struct mm *mm, struct seq *s);
void mm_show_smaps_rollup(struct mm *mm, struct seq *s);
void mm_show_numa_maps(struct mm *mm, struct seq *s);
void mm_show_status(struct mm *mm, struct seq *s); /* the Vm* and Rss* lines of status */
void mm_show_statm(struct mm *mm, struct seq *s);
/* pagemap: n entries of 8 bytes from page index first on, to buf. Returns entries. */
long mm_pagemap(struct mm *mm, u64 first, u64 *buf, u64 n);

/* /proc/{meminfo,vmstat,buddyinfo,zoneinfo,slabinfo}, /sys/devices/system/node, faultline/: registers itself. */
void mm_stats_init(void);

/* Boot, after paging_init() and nodes_init(): frames, slab, everything of mm. */
void mm_init(void);
/* Each CPU as it starts, the boot CPU too (in mm_init and again after percpu_init has copied its area: not needed
 * there), with cpu_number and cpu_node set: empty its lists of frames, tables, objects. */
void mm_cpu_init(void);

#endif
