/* System calls about scheduling: affinity, policies, priorities. What they do is in sched.c. */
#include <asm/errno.h>
#include <linux/resource.h>
#include <linux/sched.h>

#include "arch/x86_64/smp.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/process.h"
#include "kernel/signal_internal.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "kernel/time.h"

#define SCHED_EXT_ 7 /* newer than the headers; known, but nobody can have it */

/* The thread with that number, 0 = current, with a reference; NULL: -ESRCH. */
static struct task *task_of(int tid)
{
	if (tid)
		return tid < 0 ? NULL : task_by_tid(tid);
	task_get(current);
	return current;
}

static bool may_change(struct task *t)
{
	struct cred *mine = &current->process->cred, *its = &t->process->cred;

	return mine->euid == 0 || mine->euid == its->uid || mine->euid == its->euid;
}

long sys_sched_yield(void)
{
	sched_yield();
	return 0;
}

long sys_getcpu(u64 ucpu, u64 unode, u64 unused)
{
	if (ucpu && put_user_u32(ucpu, this_cpu()))
		return -EFAULT;
	if (unode && put_user_u32(unode, this_node()))
		return -EFAULT;
	return 0;
}

/* --- affinity ---------------------------------------------------------------------- */

long sys_sched_setaffinity(u64 tid, u64 len, u64 umask)
{
	struct cpumask mask;
	struct task *t;
	long ret;

	memset(&mask, 0, sizeof(mask));
	if (copy_from_user(&mask, umask, MIN((u32)len, sizeof(mask))))
		return -EFAULT;
	t = task_of((int)tid);
	if (!t)
		return -ESRCH;
	ret = may_change(t) ? sched_set_affinity(t, &mask) : -EPERM;
	task_put(t);
	return ret;
}

long sys_sched_getaffinity(u64 tid, u64 len_, u64 umask)
{
	u64 len = (u32)len_, size = ALIGN_UP(num_cpus, 64u) / 8;
	struct cpumask mask;
	struct task *t;

	if (len * 8 < num_cpus || len % 8)
		return -EINVAL;
	t = task_of((int)tid);
	if (!t)
		return -ESRCH;
	for (int i = 0; i < CPUMASK_WORDS; i++)
		mask.bits[i] = t->affinity.bits[i] & cpus_online.bits[i];
	task_put(t);
	len = MIN(len, size);
	return copy_to_user(umask, &mask, len) ? -EFAULT : (long)len;
}

/* --- policies ------------------------------------------------------------------------ */

static bool is_realtime(int policy)
{
	return policy == SCHED_FIFO || policy == SCHED_RR;
}

static long set_policy(int tid, int policy, vaddr_t uparam, bool keep)
{
	struct task *t;
	u32 priority;
	long ret = 0;

	if (!uparam || tid < 0)
		return -EINVAL;
	if (get_user_u32(uparam, &priority))
		return -EFAULT;
	t = task_of(tid);
	if (!t)
		return -ESRCH;
	if (keep)
		policy = t->policy;
	policy &= ~SCHED_RESET_ON_FORK;
	if (policy < 0 || policy > SCHED_IDLE || policy == 4 /* SCHED_ISO */)
		ret = -EINVAL;
	else if (is_realtime(policy) ? priority < 1 || priority > 99 : priority != 0)
		ret = -EINVAL;
	else if (!may_change(t) ||
		 (is_realtime(policy) && !is_root() && !rlimit(RLIMIT_RTPRIO)))
		ret = -EPERM;
	else
		sched_set_policy(t, policy, (int)priority);
	task_put(t);
	return ret;
}

long sys_sched_setscheduler(u64 tid, u64 policy, u64 uparam)
{
	if ((int)policy < 0)
		return -EINVAL;
	return set_policy((int)tid, (int)policy, uparam, false);
}

long sys_sched_setparam(u64 tid, u64 uparam)
{
	return set_policy((int)tid, 0, uparam, true);
}

long sys_sched_getscheduler(u64 tid)
{
	struct task *t;
	long ret;

	if ((int)tid < 0)
		return -EINVAL;
	t = task_of((int)tid);
	if (!t)
		return -ESRCH;
	ret = t->policy;
	task_put(t);
	return ret;
}

long sys_sched_getparam(u64 tid, u64 uparam)
{
	struct task *t;
	u32 priority;

	if ((int)tid < 0 || !uparam)
		return -EINVAL;
	t = task_of((int)tid);
	if (!t)
		return -ESRCH;
	priority = (u32)t->rt_priority;
	task_put(t);
	return put_user_u32(uparam, priority);
}

long sys_sched_get_priority_max(u64 policy)
{
	if (is_realtime((int)policy))
		return 99;
	return policy > SCHED_EXT_ || policy == 4 /* SCHED_ISO */ ? -EINVAL : 0;
}

long sys_sched_get_priority_min(u64 policy)
{
	if (is_realtime((int)policy))
		return 1;
	return sys_sched_get_priority_max(policy);
}

long sys_sched_rr_get_interval(u64 tid, u64 uts)
{
	struct task *t;
	int policy;

	if ((int)tid < 0)
		return -EINVAL;
	t = task_of((int)tid);
	if (!t)
		return -ESRCH;
	policy = t->policy;
	task_put(t);
	return put_timespec(uts, policy == SCHED_FIFO ? 0 : 100000000UL);
}

/* --- nice ------------------------------------------------------------------------------ */

struct nice_request {
	bool set;
	int nice;  /* to set; or the lowest found */
	long ret;  /* -ESRCH while nobody was meant */
	u32 uid;
};

static void nice_task(struct task *t, struct nice_request *r)
{
	if (!r->set) {
		if (r->ret == -ESRCH || t->nice < r->nice)
			r->nice = t->nice;
		r->ret = 0;
		return;
	}
	if (!may_change(t))
		r->ret = -EPERM;
	else if (r->nice < t->nice && !is_root() && 20 - r->nice > (int)rlimit(RLIMIT_NICE))
		r->ret = -EACCES;
	else {
		sched_set_nice(t, r->nice);
		if (r->ret == -ESRCH)
			r->ret = 0;
	}
}

static void nice_process(struct process *p, void *arg)
{
	u64 flags = spin_lock_irqsave(&p->siglock);

	list_for_each(t, &p->threads, struct task, thread_link)
		nice_task(t, arg);
	spin_unlock_irqrestore(&p->siglock, flags);
}

/* Everybody that (which, who) means. */
static long nice_all(int which, int who, struct nice_request *r)
{
	struct process *self = current->process;
	struct task *t;
	u64 flags;

	r->ret = -ESRCH;
	switch (which) {
	case PRIO_PROCESS:
		t = task_of(who);
		if (t) {
			nice_task(t, r);
			task_put(t);
		}
		return r->ret;
	case PRIO_PGRP:
		flags = tree_lock();
		pgrp_each(who ? who : self->pgid, nice_process, r);
		tree_unlock(flags);
		return r->ret;
	case PRIO_USER:
		for (struct process *p = process_next(1); p; p = process_after(p))
			if (p->cred.uid == (who ? (u32)who : self->cred.uid))
				nice_process(p, r);
		return r->ret;
	}
	return -EINVAL;
}

/* The raw call gives 20 - nice, so that it is never negative. */
long sys_getpriority(u64 which, u64 who)
{
	struct nice_request r = { .set = false };
	long ret = nice_all((int)which, (int)who, &r);

	return ret ? ret : 20 - r.nice;
}

long sys_setpriority(u64 which, u64 who, u64 value)
{
	struct nice_request r = { .set = true, .nice = MIN(MAX((int)value, -20), 19) };

	return nice_all((int)which, (int)who, &r);
}

/* There is no block I/O to schedule: everybody has the class "none". */
long sys_ioprio_get(u64 which, u64 who)
{
	struct task *t;

	if (which < 1 || which > 3)
		return -EINVAL;
	if (which != 1)
		return 0;
	t = task_of((int)who);
	if (!t)
		return -ESRCH;
	task_put(t);
	return 0;
}

long sys_ioprio_set(u64 which, u64 who, u64 ioprio)
{
	long ret = sys_ioprio_get(which, who);

	if (ret < 0)
		return ret;
	return ioprio >> 13 > 3 || (ioprio & 0x1fff) > 7 ? -EINVAL : 0;
}
