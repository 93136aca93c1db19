/*
 * PID 1: the first process, made by hand; everything after it comes from fork.
 */
#include <asm/errno.h>
#include <linux/resource.h>

#include "arch/x86_64/clock.h"
#include "arch/x86_64/task.h"
#include "kernel/file.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/sched.h"
#include "kernel/signal.h"
#include "mm/page.h"

static const char *init_argv[3] = { "/init" };
static const char *const init_envp[] = { "HOME=/", "TERM=linux",
					 "PATH=/bin:/sbin:/usr/bin:/usr/sbin", NULL };

/* What a process may use unless told otherwise: as Linux. */
static void default_limits(struct process *p)
{
	u64 threads = MIN(frames_total(NO_NODE) / 32, (u64)PID_MAX - PID_RESERVED) / 2;

	for (int i = 0; i < RLIM_NLIMITS; i++)
		p->rlim[i] = (struct rlimit64){ RLIM64_INFINITY, RLIM64_INFINITY };
	p->rlim[RLIMIT_STACK].rlim_cur = 8 * MB;
	p->rlim[RLIMIT_CORE].rlim_cur = 0;
	p->rlim[RLIMIT_NOFILE] = (struct rlimit64){ 1024, 4096 };
	p->rlim[RLIMIT_MEMLOCK] = (struct rlimit64){ 8 * MB, 8 * MB };
	p->rlim[RLIMIT_NPROC] = (struct rlimit64){ threads, threads };
	p->rlim[RLIMIT_SIGPENDING] = (struct rlimit64){ threads, threads };
	p->rlim[RLIMIT_MSGQUEUE] = (struct rlimit64){ 819200, 819200 };
	p->rlim[RLIMIT_NICE] = (struct rlimit64){ 0, 0 };
	p->rlim[RLIMIT_RTPRIO] = (struct rlimit64){ 0, 0 };
}

static void init_main(void *arg)
{
	int err;

	sched_finish_switch();
	err = exec_kernel("/init", init_argv, init_envp);
	if (err)
		panic("cannot run /init: error %d. Is there an initramfs?", -err);
	arch_return_to_user(current->user_regs);
}

void init_start(const char *run)
{
	struct process *p = process_alloc();
	struct task *t = task_alloc("init", 0);
	u64 flags;

	init_argv[1] = run;
	if (!p || !t || fpu_init_task(t))
		panic("init: out of memory");
	t->process = p;
	t->files = files_create();
	p->sighand = sighand_alloc();
	if (!t->files || !p->sighand)
		panic("init: out of memory");
	console_open_stdio(t->files, &t->fs);
	arch_task_init(t, init_main, NULL);
	t->start_ns = clock_ns();
	t->sas_flags = SS_DISABLE;
	default_limits(p);
	p->unkillable = true;
	t->tid = pid_alloc(&flags);
	ASSERT(t->tid == 1);
	p->pid = t->tid;
	spin_lock(&p->siglock);
	p->leader = t;
	list_add(&p->threads, &t->thread_link);
	p->nr_threads = p->live = 1;
	spin_unlock(&p->siglock);
	process_set_pgrp(p, p->pid);
	process_set_sid(p, p->pid);
	pid_use(p->pid);
	pid_set_process(p->pid, process_get(p));
	pid_set_task(t->tid, t);
	init_process = p;
	tree_unlock(flags);
	sched_start(t);
}
