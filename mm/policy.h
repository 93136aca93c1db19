/*
 * Both sides of every experiment: the boot parameters that choose between the
 * old and the new way of each mechanism. The table is in policy.c; each value
 * is looked at in one function of the mechanism's own file.
 */
#ifndef MM_POLICY_H
#define MM_POLICY_H

#include "kernel/types.h"

enum { PTL_MM, PTL_PTE, PTL_SPLIT, PTL_ATOMIC };
enum { MMAP_LOCK_RWSEM, MMAP_LOCK_VMA, MMAP_LOCK_RANGE };
enum { QUICKLIST_OFF, QUICKLIST_ANY, QUICKLIST_NODE };
enum { PCP_OFF, PCP_ON };
enum { LAZY_TLB_OFF, LAZY_TLB_ON };
enum { PCID_OFF, PCID_ON };
enum { CLEAR_STOSQ, CLEAR_STOSB, CLEAR_FASTEST };
enum { FORK_AHEAD_OFF, FORK_AHEAD_ON };

extern int vm_ptl;       /* one lock per mm; one per PTE table; PTE and PMD tables; lock-free set of an empty PTE */
extern int vm_mmap_lock; /* one reader/writer lock per mm; areas checked under RCU; changes by range too */
extern int vm_quicklist; /* page-table pages: allocator; per-CPU list; list of local pages only */
extern int vm_pcp;       /* per-CPU lists of free frames */

extern int vm_fork_ahead; /* fork copies and maps what both sides will need at once; or all is left to faults */
extern int vm_lazy_tlb;   /* a kernel thread goes over to the kernel's root; or keeps the last task's */
extern int vm_clear;      /* a page is cleared by eight bytes; by bytes; by what is faster at boot */
extern int vm_pcid;       /* loading a root flushes the TLB; or not, if the CPU has PCIDs and nothing has changed */

/* Below so many CPUs vm.ptl=split acts like pte, as the kernels of 2013 did. */
extern long vm_split_ptl_cpus;
extern long vm_max_map_count;

#endif
