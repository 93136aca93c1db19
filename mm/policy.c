/*
 * The one table of what can be chosen (see policy.h). The default is the best
 * value; the oldest way of history stands first.
 */
#include "mm/policy.h"
#include "kernel/param.h"

PARAM_ENUM(vm_ptl, "vm.ptl", 0, PTL_SPLIT, "mm", "pte", "split", "atomic");
PARAM_ENUM(vm_mmap_lock, "vm.mmap_lock", 0, MMAP_LOCK_RANGE, "rwsem", "vma", "range");
PARAM_ENUM(vm_quicklist, "vm.quicklist", PARAM_RUNTIME, QUICKLIST_NODE, "off", "any", "node");
PARAM_ENUM(vm_pcp, "vm.pcp", PARAM_RUNTIME, PCP_ON, "off", "on");
PARAM_ENUM(vm_fork_ahead, "vm.fork_ahead", PARAM_RUNTIME, FORK_AHEAD_ON, "off", "on");
PARAM_ENUM(vm_lazy_tlb, "vm.lazy_tlb", PARAM_RUNTIME, LAZY_TLB_ON, "off", "on");
PARAM_ENUM(vm_clear, "vm.clear", 0, CLEAR_FASTEST, "stosq", "stosb", "fastest");
PARAM_ENUM(vm_pcid, "vm.pcid", 0, PCID_ON, "off", "on");
PARAM_INT(vm_split_ptl_cpus, "vm.split_ptl_cpus", 0, 4, 1, 512);
PARAM_INT(vm_max_map_count, "vm.max_map_count", PARAM_RUNTIME, 65530, 16, 1 << 24);
