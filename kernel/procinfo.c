/*
 * What /proc/PID says about a process: text in Linux's formats (proc_pid_stat(5),
 * proc_pid_status(5)). The directory itself is made in kernel/fs.
 */
#include <linux/resource.h>

#include "arch/x86_64/smp.h"
#include "kernel/file.h"
#include "kernel/process.h"
#include "kernel/seq.h"
#include "kernel/signal.h"
#include "kernel/string.h"
#include "kernel/time.h"
#include "mm/mm.h"
#include "mm/node.h"
#include "mm/slab.h"

/* What is read under the locks in one go. */
struct snapshot {
	int pid, ppid, pgid, sid;
	u32 threads;
	u64 pending, shared, blocked, ignored, caught;
	u32 queued;
	struct usage own, reaped;
	bool thread_only; /* /proc/PID/task/TID: of this thread alone */
};

static void take_snapshot(struct process *p, struct task *t, struct snapshot *s)
{
	u64 flags;

	memset(s, 0, sizeof(*s));
	s->thread_only = t && t->tid != p->pid && READ_ONCE(p->leader);
	if (s->thread_only)
		usage_of_task(t, &s->own);
	else
		process_usage(p, &s->own);
	flags = tree_lock();
	s->pid = s->thread_only ? t->tid : p->pid;
	s->ppid = p->parent ? p->parent->pid : 0;
	s->pgid = p->pgid;
	s->sid = p->sid;
	spin_lock(&p->siglock);
	s->threads = p->nr_threads;
	s->queued = p->nr_queued;
	s->shared = p->shared.set;
	s->reaped = p->reaped;
	if (t) {
		s->pending = t->sig_pending.set;
		s->blocked = t->sig_blocked;
	}
	for (int i = 0; i < NSIGNALS; i++) {
		__sighandler_t h = p->sighand->action[i].sa_handler;

		if (h == SIG_IGN)
			s->ignored |= 1UL << i;
		else if (h != SIG_DFL)
			s->caught |= 1UL << i;
	}
	spin_unlock(&p->siglock);
	tree_unlock(flags);
}

char process_state_letter(struct process *p, struct task *t)
{
	if (p->state != PROCESS_ALIVE)
		return p->state == PROCESS_ZOMBIE ? 'Z' : 'X';
	if (!t)
		return 'Z';
	if (READ_ONCE(t->stopped))
		return 'T';
	switch (t->state) {
	case TASK_RUNNING:
		return 'R';
	case TASK_INTERRUPTIBLE:
		return 'S';
	case TASK_DEAD:
		return 'X';
	default:
		return 'D';
	}
}

static const char *comm_of(struct process *p, struct task *t)
{
	return t ? t->comm : p->comm;
}

/* Kernel-internal numbers that Linux gives to ticks of 10 ms. */
static u64 ticks(u64 ns)
{
	return ns / NS_PER_TICK;
}

void process_show_stat(struct process *p, struct task *t, struct seq *s)
{
	struct mm *mm = t ? mm_of_task(t) : NULL;
	struct snapshot now;
	int priority = 20 + (t ? t->nice : 0), tpgid;
	u32 tty = tty_of_process(p, &tpgid);

	take_snapshot(p, t, &now);
	if (t && t->rt_priority)
		priority = -1 - t->rt_priority;
	seq_printf(s, "%d (%s) %c %d %d %d %d %d %u ", now.pid, comm_of(p, t),
		   process_state_letter(p, t), now.ppid, now.pgid, now.sid, (int)tty, tpgid,
		   0x400000);
	seq_printf(s, "%lu %lu %lu %lu %lu %lu %lu %lu %d %d %u 0 %lu ", now.own.min_flt,
		   now.reaped.min_flt, now.own.maj_flt, now.reaped.maj_flt, ticks(now.own.user_ns),
		   ticks(now.own.system_ns), ticks(now.reaped.user_ns), ticks(now.reaped.system_ns),
		   priority, t ? t->nice : 0, now.threads, ticks(t ? t->start_ns : p->start_ns));
	seq_printf(s, "%lu %lu %lu ", mm ? (u64)mm_counter(mm, MM_VM) * PAGE_SIZE : 0,
		   mm ? mm_rss(mm) : 0, rlimit_of(p, RLIMIT_RSS));
	seq_printf(s, "%lu %lu %lu 0 0 ", mm ? mm->code_start : 0, mm ? mm->code_end : 0,
		   mm ? mm->stack_start : 0);
	seq_printf(s, "%lu %lu %lu %lu 0 0 0 ", now.pending & 0x7fffffff, now.blocked & 0x7fffffff,
		   now.ignored & 0x7fffffff, now.caught & 0x7fffffff);
	seq_printf(s, "%d %u %u %u 0 0 0 ", now.thread_only ? -1 : p->exit_signal, t ? t->cpu : 0,
		   t ? (u32)t->rt_priority : 0, t ? (u32)t->policy : 0);
	seq_printf(s, "%lu %lu %lu %lu %lu %lu %lu %u\n", mm ? mm->data_start : 0,
		   mm ? mm->data_end : 0, mm ? mm->brk_start : 0, mm ? mm->arg_start : 0,
		   mm ? mm->arg_end : 0, mm ? mm->env_start : 0, mm ? mm->env_end : 0,
		   p->state == PROCESS_ALIVE ? 0 : p->exit_code);
	if (mm)
		mm_put_user(mm);
}

static const char *state_name(char letter)
{
	switch (letter) {
	case 'R':
		return "running";
	case 'S':
		return "sleeping";
	case 'D':
		return "disk sleep";
	case 'T':
		return "stopped";
	case 'Z':
		return "zombie";
	default:
		return "dead";
	}
}

/* A mask as groups of 32 bits, highest first, and as list of ranges. */
static void show_mask(struct seq *s, const char *name, const u64 *bits, u32 n)
{
	u32 groups = DIV_UP(MAX(n, 1u), 32u);
	bool first = true;

	seq_printf(s, "%s:\t", name);
	for (u32 g = groups; g-- > 0;)
		seq_printf(s, "%08x%s", (u32)(bits[g / 2] >> (g % 2 * 32)), g ? "," : "\n");
	seq_printf(s, "%s_list:\t", name);
	for (u32 i = 0; i < n; i++) {
		u32 from = i;

		if (!(bits[i / 64] >> (i % 64) & 1))
			continue;
		while (i + 1 < n && (bits[(i + 1) / 64] >> ((i + 1) % 64) & 1))
			i++;
		seq_printf(s, "%s%u", first ? "" : ",", from);
		if (i > from)
			seq_printf(s, "-%u", i);
		first = false;
	}
	seq_puts(s, "\n");
}

void process_show_status(struct process *p, struct task *t, struct seq *s)
{
	struct mm *mm = t ? mm_of_task(t) : NULL;
	char letter = process_state_letter(p, t);
	const struct cred *c = &p->cred;
	u64 caps = c->euid ? 0 : (1UL << 41) - 1;
	struct snapshot now;

	take_snapshot(p, t, &now);
	seq_printf(s, "Name:\t%s\nUmask:\t0022\nState:\t%c (%s)\n", comm_of(p, t), letter,
		   state_name(letter));
	seq_printf(s, "Tgid:\t%d\nNgid:\t0\nPid:\t%d\nPPid:\t%d\nTracerPid:\t0\n", p->pid, now.pid,
		   now.ppid);
	seq_printf(s, "Uid:\t%u\t%u\t%u\t%u\nGid:\t%u\t%u\t%u\t%u\n", c->uid, c->euid, c->suid,
		   c->fsuid, c->gid, c->egid, c->sgid, c->fsgid);
	seq_puts(s, "FDSize:\t64\nGroups:\t");
	for (u32 i = 0; i < c->nr_groups; i++)
		seq_printf(s, "%u ", c->groups[i]);
	seq_puts(s, "\n");
	if (mm) {
		mm_show_status(mm, s);
		mm_put_user(mm);
	}
	seq_printf(s, "Threads:\t%u\nSigQ:\t%u/%lu\n", now.threads, now.queued,
		   rlimit_of(p, RLIMIT_SIGPENDING));
	seq_printf(s, "SigPnd:\t%016lx\nShdPnd:\t%016lx\nSigBlk:\t%016lx\nSigIgn:\t%016lx\n"
		   "SigCgt:\t%016lx\n", now.pending, now.shared, now.blocked, now.ignored,
		   now.caught);
	seq_printf(s, "CapInh:\t%016x\nCapPrm:\t%016lx\nCapEff:\t%016lx\nCapBnd:\t%016lx\n"
		   "CapAmb:\t%016x\n", 0, caps, caps, (1UL << 41) - 1, 0);
	seq_printf(s, "NoNewPrivs:\t%d\nSeccomp:\t0\nSeccomp_filters:\t0\n",
		   t ? t->no_new_privs : 0);
	if (t) {
		u64 nodes = num_nodes >= 64 ? ~0UL : (1UL << num_nodes) - 1;

		show_mask(s, "Cpus_allowed", t->affinity.bits, num_cpus);
		show_mask(s, "Mems_allowed", &nodes, (u32)num_nodes);
		seq_printf(s, "voluntary_ctxt_switches:\t%lu\nnonvoluntary_ctxt_switches:\t%lu\n",
			   t->nvcsw, t->nivcsw);
	}
}

/* A stretch of the process's memory as it is, at most 64 KB. */
static void show_memory(struct process *p, struct seq *s, bool environment)
{
	struct task *t = process_task(p);
	struct mm *mm = t ? mm_of_task(t) : NULL;
	char *buf = kmalloc(PAGE_SIZE);

	if (mm && buf) {
		vaddr_t at = environment ? mm->env_start : mm->arg_start;
		vaddr_t end = environment ? mm->env_end : mm->arg_end;

		while (at < end && s->len < 64 * KB) {
			size_t n = MIN(end - at, PAGE_SIZE);
			long got = mm_access(mm, at, buf, n, false, false);

			if (got <= 0)
				break;
			seq_write(s, buf, (size_t)got);
			at += (u64)got;
		}
	}
	kfree(buf);
	if (mm)
		mm_put_user(mm);
	if (t)
		task_put(t);
}

void process_show_cmdline(struct process *p, struct seq *s)
{
	show_memory(p, s, false);
}

void process_show_environ(struct process *p, struct seq *s)
{
	show_memory(p, s, true);
}

void process_show_auxv(struct process *p, struct seq *s)
{
	struct task *t = process_task(p);
	struct mm *mm = t ? mm_of_task(t) : NULL;
	u32 n = 0;

	if (mm) {
		while (n + 2 < ARRAY_SIZE(mm->saved_auxv) && mm->saved_auxv[n])
			n += 2;
		seq_write(s, mm->saved_auxv, (n + 2) * 8);
		mm_put_user(mm);
	}
	if (t)
		task_put(t);
}

static void show_limit(struct seq *s, u64 value)
{
	if (value == RLIM64_INFINITY)
		seq_printf(s, "%-20s ", "unlimited");
	else
		seq_printf(s, "%-20lu ", value);
}

void process_show_limits(struct process *p, struct seq *s)
{
	static const struct {
		const char *name, *unit;
	} names[RLIM_NLIMITS] = {
		[RLIMIT_CPU] = { "Max cpu time", "seconds" },
		[RLIMIT_FSIZE] = { "Max file size", "bytes" },
		[RLIMIT_DATA] = { "Max data size", "bytes" },
		[RLIMIT_STACK] = { "Max stack size", "bytes" },
		[RLIMIT_CORE] = { "Max core file size", "bytes" },
		[RLIMIT_RSS] = { "Max resident set", "bytes" },
		[RLIMIT_NPROC] = { "Max processes", "processes" },
		[RLIMIT_NOFILE] = { "Max open files", "files" },
		[RLIMIT_MEMLOCK] = { "Max locked memory", "bytes" },
		[RLIMIT_AS] = { "Max address space", "bytes" },
		[RLIMIT_LOCKS] = { "Max file locks", "locks" },
		[RLIMIT_SIGPENDING] = { "Max pending signals", "signals" },
		[RLIMIT_MSGQUEUE] = { "Max msgqueue size", "bytes" },
		[RLIMIT_NICE] = { "Max nice priority", "" },
		[RLIMIT_RTPRIO] = { "Max realtime priority", "" },
		[RLIMIT_RTTIME] = { "Max realtime timeout", "us" },
	};

	seq_printf(s, "%-25s %-20s %-20s %-10s\n", "Limit", "Soft Limit", "Hard Limit", "Units");
	for (int i = 0; i < RLIM_NLIMITS; i++) {
		seq_printf(s, "%-25s ", names[i].name);
		show_limit(s, p->rlim[i].rlim_cur);
		show_limit(s, p->rlim[i].rlim_max);
		seq_printf(s, "%-10s\n", names[i].unit);
	}
}
