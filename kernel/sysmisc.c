/*
 * What a process asks about itself and the machine: names, limits, prctl,
 * membarrier, and so on.
 */
#include <asm/errno.h>
#include <asm/prctl.h>
#include <linux/membarrier.h>
#include <linux/personality.h>
#include <linux/prctl.h>
#include <linux/reboot.h>
#include <linux/sysinfo.h>
#include <linux/utsname.h>

#include "arch/x86_64/clock.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/power.h"
#include "arch/x86_64/smp.h"
#include "arch/x86_64/task.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/printk.h"
#include "kernel/sched.h"
#include "kernel/signal_internal.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "kernel/time.h"
#include "kernel/uts.h"
#include "mm/mm.h"

/* --- names ------------------------------------------------------------------------ */

long sys_uname(u64 user)
{
	struct new_utsname u;

	memset(&u, 0, sizeof(u));
	str_copy(u.sysname, UTS_SYSNAME, sizeof(u.sysname));
	str_copy(u.release, UTS_RELEASE, sizeof(u.release));
	str_copy(u.version, UTS_VERSION, sizeof(u.version));
	str_copy(u.machine, UTS_MACHINE, sizeof(u.machine));
	uts_get(UTS_NODENAME, u.nodename);
	uts_get(UTS_DOMAINNAME, u.domainname);
	return copy_to_user(user, &u, sizeof(u)) ? -EFAULT : 0;
}

static long set_name(enum uts_name which, vaddr_t user, u64 len)
{
	char name[UTS_LEN];

	if (!is_root())
		return -EPERM;
	if (len >= UTS_LEN)
		return -EINVAL;
	if (copy_from_user(name, user, len))
		return -EFAULT;
	name[len] = 0;
	uts_set(which, name);
	return 0;
}

long sys_sethostname(u64 user, u64 len)
{
	return set_name(UTS_NODENAME, user, len);
}

long sys_setdomainname(u64 user, u64 len)
{
	return set_name(UTS_DOMAINNAME, user, len);
}

/* --- the machine --------------------------------------------------------------------- */

long sys_sysinfo(u64 user)
{
	struct sysinfo info;
	u64 load[3];
	u16 procs = 0;

	memset(&info, 0, sizeof(info));
	info.uptime = (__kernel_long_t)(clock_ns() / NS_PER_SEC);
	sched_loadavg(load);
	for (int i = 0; i < 3; i++)
		info.loads[i] = load[i] << (SI_LOAD_SHIFT - 11);
	info.totalram = frames_total(NO_NODE) * PAGE_SIZE;
	info.freeram = frames_free(NO_NODE) * PAGE_SIZE;
	for (struct process *p = process_next(1); p; p = process_after(p))
		procs += (u16)READ_ONCE(p->nr_threads);
	info.procs = procs;
	info.mem_unit = 1;
	return copy_to_user(user, &info, sizeof(info)) ? -EFAULT : 0;
}

long sys_reboot(u64 magic, u64 magic2, u64 cmd, u64 arg)
{
	if (!is_root())
		return -EPERM;
	if ((u32)magic != LINUX_REBOOT_MAGIC1 ||
	    ((u32)magic2 != LINUX_REBOOT_MAGIC2 && (u32)magic2 != LINUX_REBOOT_MAGIC2A &&
	     (u32)magic2 != LINUX_REBOOT_MAGIC2B && (u32)magic2 != LINUX_REBOOT_MAGIC2C))
		return -EINVAL;
	switch ((u32)cmd) {
	case LINUX_REBOOT_CMD_CAD_ON:
	case LINUX_REBOOT_CMD_CAD_OFF:
		return 0;
	case LINUX_REBOOT_CMD_RESTART:
		machine_reset();
	case LINUX_REBOOT_CMD_HALT:
		machine_halt();
	case LINUX_REBOOT_CMD_POWER_OFF:
		machine_power_off();
	}
	return -EINVAL;
}

/* --- limits ----------------------------------------------------------------------------- */

static long change_limit(struct process *p, unsigned which, vaddr_t unew, vaddr_t uold)
{
	struct rlimit64 new, old;
	long ret = 0;
	u64 flags;

	if (which >= RLIM_NLIMITS)
		return -EINVAL;
	if (unew && copy_from_user(&new, unew, sizeof(new)))
		return -EFAULT;
	flags = spin_lock_irqsave(&p->siglock);
	old = p->rlim[which];
	if (unew) {
		if (new.rlim_cur > new.rlim_max)
			ret = -EINVAL;
		else if (new.rlim_max > old.rlim_max && !is_root())
			ret = -EPERM;
		else if (which == RLIMIT_NOFILE && new.rlim_max > 1048576)
			ret = -EPERM;
		else
			p->rlim[which] = new;
	}
	spin_unlock_irqrestore(&p->siglock, flags);
	if (!ret && unew && which == RLIMIT_CPU)
		cpu_limit_changed(p);
	if (!ret && uold && copy_to_user(uold, &old, sizeof(old)))
		ret = -EFAULT;
	return ret;
}

long sys_getrlimit(u64 which, u64 uold)
{
	return uold ? change_limit(current->process, (u32)which, 0, uold) : -EFAULT;
}

long sys_setrlimit(u64 which, u64 unew)
{
	return unew ? change_limit(current->process, (u32)which, unew, 0) : -EFAULT;
}

long sys_prlimit64(u64 pid, u64 which, u64 unew, u64 uold)
{
	struct process *p = (int)pid ? process_by_pid((int)pid) : process_get(current->process);
	long ret;

	if (!p)
		return -ESRCH;
	ret = signal_allowed(p, 0) ? change_limit(p, (u32)which, unew, uold) : -EPERM;
	process_put(p);
	return ret;
}

/* --- prctl -------------------------------------------------------------------------------- */

static long set_comm(vaddr_t user)
{
	char name[TASK_COMM];
	long len = strncpy_from_user(name, user, TASK_COMM);

	if (len == -ENAMETOOLONG) {
		if (copy_from_user(name, user, TASK_COMM - 1))
			return -EFAULT;
		len = TASK_COMM - 1;
	}
	if (len < 0)
		return -EFAULT;
	memset(name + len, 0, (size_t)(TASK_COMM - len));
	memcpy(current->comm, name, TASK_COMM);
	return 0;
}

long sys_prctl(u64 option, u64 a, u64 b, u64 c, u64 d)
{
	struct task *t = current;
	struct process *p = t->process;

	switch ((int)option) {
	case PR_SET_NAME:
		return set_comm(a);
	case PR_GET_NAME:
		return copy_to_user(a, t->comm, TASK_COMM) ? -EFAULT : 0;
	case PR_SET_PDEATHSIG:
		if (a > NSIGNALS)
			return -EINVAL;
		t->pdeath_signal = (int)a;
		return 0;
	case PR_GET_PDEATHSIG:
		return put_user_u32(a, (u32)t->pdeath_signal);
	case PR_GET_DUMPABLE:
		return !p->no_dump;
	case PR_SET_DUMPABLE:
		if (a > 1)
			return -EINVAL;
		p->no_dump = !a;
		return 0;
	case PR_SET_NO_NEW_PRIVS:
		if (a != 1 || b || c || d)
			return -EINVAL;
		t->no_new_privs = true;
		return 0;
	case PR_GET_NO_NEW_PRIVS:
		return a || b || c || d ? -EINVAL : t->no_new_privs;
	case PR_SET_CHILD_SUBREAPER:
		p->subreaper = a != 0;
		return 0;
	case PR_GET_CHILD_SUBREAPER:
		return put_user_u32(a, p->subreaper);
	case PR_GET_TID_ADDRESS:
		return put_user_u64(a, t->clear_child_tid);
	case PR_GET_TIMERSLACK:
		return 50000;
	case PR_SET_TIMERSLACK: /* sleeps end when they are due: there is nothing to slacken */
	case PR_GET_KEEPCAPS:
	case PR_GET_SECCOMP:
	case PR_GET_SECUREBITS:
		return 0;
	case PR_GET_THP_DISABLE:
		return a || b || c || d ? -EINVAL : 0;
	case PR_SET_KEEPCAPS:
		return a > 1 ? -EINVAL : 0;
	case PR_CAPBSET_READ:
		return a > 40 ? -EINVAL : 1;
	case PR_CAPBSET_DROP:
		return a > 40 ? -EINVAL : is_root() ? 0 : -EPERM;
	case PR_SET_VMA: /* names of areas are not kept */
		return a == PR_SET_VMA_ANON_NAME ? 0 : -EINVAL;
	}
	return -EINVAL;
}

long sys_arch_prctl(u64 code, u64 address)
{
	switch ((int)code) {
	case ARCH_SET_FS:
		return arch_set_fs(address);
	case ARCH_SET_GS:
		return arch_set_gs(address);
	case ARCH_GET_FS:
		return put_user_u64(address, arch_get_fs());
	case ARCH_GET_GS:
		return put_user_u64(address, arch_get_gs());
	}
	return -EINVAL;
}

long sys_personality(u64 value)
{
	struct process *p = current->process;
	long old = p->personality;

	if ((u32)value != 0xffffffff)
		p->personality = (u32)value;
	return old;
}

/* --- membarrier -------------------- */

#define MEMBARRIER_REGISTERED                                                                      \
	(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED | MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED |    \
	 MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE)
#define MEMBARRIER_COMMANDS                                                                        \
	(MEMBARRIER_CMD_GLOBAL | MEMBARRIER_CMD_GLOBAL_EXPEDITED |                                 \
	 MEMBARRIER_CMD_PRIVATE_EXPEDITED | MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE |           \
	 MEMBARRIER_REGISTERED | MEMBARRIER_CMD_GET_REGISTRATIONS_)
#define MEMBARRIER_CMD_GET_REGISTRATIONS_ (1 << 9)

static void barrier_here(void *arg)
{
	u32 a, b, c, d;

	smp_mb();
	cpuid(0, 0, &a, &b, &c, &d); /* serialises instruction fetch too: SDM vol. 3, 9.3 */
}

/* Every CPU passes a barrier: those that do not run this mm too, which does no harm. */
static long barrier_everywhere(void)
{
	barrier_here(NULL);
	smp_call_others(barrier_here, NULL);
	barrier_here(NULL);
	return 0;
}

long sys_membarrier(u64 cmd_, u64 flags, u64 cpu)
{
	struct mm *mm = current->mm;
	u32 cmd = (u32)cmd_;

	if (flags)
		return -EINVAL;
	switch (cmd) {
	case MEMBARRIER_CMD_QUERY:
		return MEMBARRIER_COMMANDS;
	case MEMBARRIER_CMD_GLOBAL:
		rcu_synchronize();
		return 0;
	case MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED:
	case MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED:
	case MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE:
		atomic_or(&mm->membarrier_state, cmd);
		return 0;
	case MEMBARRIER_CMD_GLOBAL_EXPEDITED:
		return barrier_everywhere();
	case MEMBARRIER_CMD_PRIVATE_EXPEDITED:
	case MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE:
		if (!(READ_ONCE(mm->membarrier_state) & cmd << 1))
			return -EPERM;
		return barrier_everywhere();
	case MEMBARRIER_CMD_GET_REGISTRATIONS_:
		return READ_ONCE(mm->membarrier_state) & MEMBARRIER_REGISTERED;
	}
	return -EINVAL;
}
