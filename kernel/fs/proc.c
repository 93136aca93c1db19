/*
 * /proc but for the processes (procpid.c): files about the machine and the kernel, and /proc/sys.
 * Those about memory are mm's own (mm/stats.c). Formats: proc(5).
 */
#include "arch/x86_64/clock.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/init.h"
#include "arch/x86_64/smp.h"
#include "kernel/fs/gen.h"
#include "kernel/lock.h"
#include "kernel/param.h"
#include "kernel/printf.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/sched.h"
#include "kernel/seq.h"
#include "kernel/string.h"
#include "kernel/uts.h"
#include "kernel/vfs.h"
#include "mm/slab.h"

#define NS 1000000000UL
#define TICK (NS / 100) /* the unit of times in /proc/stat */

/* --- time and load ----------------------------------------------------------------- */

static void show_uptime(struct seq *s, void *arg)
{
	u64 up = clock_ns(), idle = 0, t[4];

	for_each_cpu(cpu, &cpus_online) {
		sched_cpu_times(cpu, &t[0], &t[1], &t[2], &t[3]);
		idle += t[3];
	}
	seq_printf(s, "%lu.%02lu %lu.%02lu\n", up / NS, up / (NS / 100) % 100, idle / NS,
		   idle / (NS / 100) % 100);
}

static u32 count_threads(int *last_pid)
{
	u32 n = 0;

	for (struct process *p = process_next(1); p; p = process_after(p)) {
		n += READ_ONCE(p->nr_threads);
		*last_pid = p->pid;
	}
	return n;
}

static void show_loadavg(struct seq *s, void *arg)
{
	u64 load[3];
	int last = 0;
	u32 threads = count_threads(&last);

	sched_loadavg(load);
	for (int i = 0; i < 3; i++)
		seq_printf(s, "%lu.%02lu ", load[i] / 2048, load[i] % 2048 * 100 / 2048);
	seq_printf(s, "%u/%u %d\n", sched_nr_running(), threads, last);
}

static void cpu_line(struct seq *s, const char *name, const u64 t[4])
{
	seq_printf(s, "%s %lu %lu %lu %lu 0 0 0 0 0 0\n", name, t[0] / TICK, t[1] / TICK,
		   t[2] / TICK, t[3] / TICK);
}

static void show_stat(struct seq *s, void *arg)
{
	u64 sum[4] = { 0 }, t[4];
	char name[16];
	int last = 0;

	for_each_cpu(cpu, &cpus_online) {
		sched_cpu_times(cpu, &t[0], &t[1], &t[2], &t[3]);
		for (int i = 0; i < 4; i++)
			sum[i] += t[i];
	}
	cpu_line(s, "cpu ", sum);
	for_each_cpu(cpu, &cpus_online) {
		sched_cpu_times(cpu, &t[0], &t[1], &t[2], &t[3]);
		ksnprintf(name, sizeof(name), "cpu%u", cpu);
		cpu_line(s, name, t);
	}
	count_threads(&last);
	seq_printf(s, "intr 0\nctxt %lu\nbtime %lu\nprocesses %d\nprocs_running %u\n"
		      "procs_blocked 0\nsoftirq 0 0 0 0 0 0 0 0 0 0 0\n",
		   sched_switches(), clock_realtime_offset() / NS, last, sched_nr_running());
}

static void show_version(struct seq *s, void *arg)
{
	seq_printf(s, "Linux version %s (Faultline) %s\n", UTS_RELEASE, UTS_VERSION);
}

static void show_cmdline(struct seq *s, void *arg)
{
	seq_printf(s, "%s\n", boot_info.cmdline);
}

/* --- the processors ------------------------------------------------------------------- */

/* Names of feature bits as Linux has them; NULL ends, "" leaves a bit out. */
struct flag_word {
	u32 leaf, sub;
	u8 reg; /* 0 eax, 1 ebx, 2 ecx, 3 edx */
	const char *names;
};

/* Bit by bit from 0, separated by blanks; "-" has no name. */
static const struct flag_word flag_words[] = {
	{ 1, 0, 3, "fpu vme de pse tsc msr pae mce cx8 apic - sep mtrr pge mca cmov pat pse36 pn "
		   "clflush - dts acpi mmx fxsr sse sse2 ss ht tm ia64 pbe" },
	{ 0x80000001, 0, 3, "- - - - - - - - - - - syscall - - - - - - - mp nx - mmxext - - "
			    "fxsr_opt pdpe1gb rdtscp - lm 3dnowext 3dnow" },
	{ 1, 0, 2, "pni pclmulqdq dtes64 monitor ds_cpl vmx smx est tm2 ssse3 cid sdbg fma cx16 xtpr "
		   "pdcm - pcid dca sse4_1 sse4_2 x2apic movbe popcnt tsc_deadline_timer aes xsave "
		   "- avx f16c rdrand hypervisor" },
	{ 0x80000001, 0, 2, "lahf_lm cmp_legacy svm extapic cr8_legacy abm sse4a misalignsse "
			    "3dnowprefetch osvw ibs xop skinit wdt - lwp fma4 tce - nodeid_msr - tbm "
			    "topoext" },
	{ 7, 0, 1, "fsgsbase tsc_adjust sgx bmi1 hle avx2 - smep bmi2 erms invpcid rtm cqm - mpx "
		   "rdt_a avx512f avx512dq rdseed adx smap avx512ifma - clflushopt clwb intel_pt "
		   "avx512pf avx512er avx512cd sha_ni avx512bw avx512vl" },
	{ 0xd, 1, 0, "xsaveopt xsavec xgetbv1 xsaves" },
	{ 7, 0, 2, "- avx512vbmi umip pku ospke waitpkg avx512_vbmi2 - gfni vaes vpclmulqdq "
		   "avx512_vnni avx512_bitalg - avx512_vpopcntdq - la57 - - - - - rdpid" },
	{ 7, 0, 3, "- - - - fsrm" },
};

static void show_flags(struct seq *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(flag_words); i++) {
		const struct flag_word *w = &flag_words[i];
		u32 r[4], max;

		cpuid(w->leaf & 0x80000000, 0, &max, &r[1], &r[2], &r[3]);
		if (w->leaf > max)
			continue;
		cpuid(w->leaf, w->sub, &r[0], &r[1], &r[2], &r[3]);
		for (const char *p = w->names; *p; r[w->reg] >>= 1) {
			size_t len = 0;

			while (p[len] && p[len] != ' ')
				len++;
			if ((r[w->reg] & 1) && *p != '-')
				seq_printf(s, " %.*s", (int)len, p);
			p += len;
			while (*p == ' ')
				p++;
		}
	}
}

static void show_cpuinfo(struct seq *s, void *arg)
{
	u32 a, b, c, d, max, family, model;

	cpuid(0, 0, &max, &b, &c, &d);
	cpuid(1, 0, &a, &b, &c, &d);
	family = a >> 8 & 15;
	model = (a >> 4 & 15) | (family == 6 || family == 15 ? a >> 12 & 0xf0 : 0);
	if (family == 15)
		family += a >> 20 & 0xff;
	for_each_cpu(cpu, &cpus_online) {
		seq_printf(s, "processor\t: %u\nvendor_id\t: %s\ncpu family\t: %u\nmodel\t\t: %u\n"
			      "model name\t: %s\nstepping\t: %u\ncpu MHz\t\t: 1000.000\n",
			   cpu, cpu_features.vendor, family, model, cpu_features.brand, a & 15);
		seq_printf(s, "physical id\t: %u\nsiblings\t: 1\ncore id\t\t: 0\ncpu cores\t: 1\n"
			      "apicid\t\t: %u\ninitial apicid\t: %u\nfpu\t\t: yes\n"
			      "fpu_exception\t: yes\ncpuid level\t: %u\nwp\t\t: yes\nflags\t\t:",
			   cpu, cpu_apic_id[cpu], cpu_apic_id[cpu], max);
		show_flags(s);
		seq_printf(s, "\nbugs\t\t:\nbogomips\t: 2000.00\nclflush size\t: %u\n"
			      "cache_alignment\t: 64\naddress sizes\t: %u bits physical, %u bits virtual\n"
			      "power management:\n\n",
			   (b >> 8 & 0xff) * 8, cpu_features.phys_bits, cpu_features.virt_bits);
	}
}

DECLARE_PER_CPU(u64, tlb_ipis_sent); /* arch/x86_64/tlb.c */

static void show_interrupts(struct seq *s, void *arg)
{
	seq_puts(s, "           ");
	for_each_cpu(cpu, &cpus_online)
		seq_printf(s, "CPU%-8u", cpu);
	seq_puts(s, "\nTLB:");
	for_each_cpu(cpu, &cpus_online)
		seq_printf(s, " %10lu", READ_ONCE(per_cpu(tlb_ipis_sent, cpu)));
	seq_puts(s, "   TLB shootdowns sent\n");
}

/* --- lists ------------------------------------------------------------------------------ */

static void show_text(struct seq *s, void *arg)
{
	seq_puts(s, arg);
}

static const char filesystems[] = "nodev\tsysfs\nnodev\ttmpfs\nnodev\tproc\nnodev\tdevtmpfs\n"
				  "nodev\tpipefs\nnodev\tsockfs\nnodev\tramfs\nnodev\tdevpts\n";
static const char devices[] = "Character devices:\n  1 mem\n  4 ttyS\n  5 /dev/tty\n"
			      "  5 /dev/console\n  5 /dev/ptmx\n136 pts\n\nBlock devices:\n";
static const char swaps[] = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";

static void show_lock_stat(struct seq *s, void *arg)
{
	lock_stat_show(s);
}

static long write_lock_stat(const char *text, size_t n, void *arg)
{
	lock_stat_clear();
	return (long)n;
}

/* "20000000-3fffffff : System RAM" */
static void show_iomem(struct seq *s, void *arg)
{
	for (u32 i = 0; i < boot_info.nr_ranges; i++) {
		const struct boot_range *r = &boot_info.ranges[i];

		seq_printf(s, "%08lx-%08lx : %s\n", r->base, r->base + r->len - 1,
			   r->type == BOOT_MEM_USABLE ? "System RAM" :
			   r->type == BOOT_MEM_ACPI_RECLAIM ? "ACPI Tables" :
			   r->type == BOOT_MEM_NVS ? "ACPI Non-volatile Storage" : "Reserved");
	}
}

/* --- /proc/sys ---------------------------------------------------------------------------- */

static void show_param(struct seq *s, void *arg)
{
	char value[256];

	if (param_format(arg, value, sizeof(value)) >= 0)
		seq_printf(s, "%s\n", value);
}

static long write_param(const char *text, size_t n, void *arg)
{
	int err = param_write(((const struct param *)arg)->name, text);

	return err ? err : (long)n;
}

/* "vm.ptl" appears as /proc/sys/vm/ptl. */
static void add_params(void)
{
	params_for_each(p) {
		char path[128] = "/proc/sys/";
		char *at = path + 10;

		if ((p->flags & PARAM_HIDDEN) || !strchr(p->name, '.'))
			continue;
		str_copy(at, p->name, sizeof(path) - 10);
		*strchr(at, '.') = '/';
		pseudo_file(path, show_param, p->flags & PARAM_RUNTIME ? write_param : NULL,
			    (void *)p);
	}
}

/* Numbers that nothing here asks for, but programs do: they read back what was written. */
static struct knob {
	const char *path;
	u64 value;
	bool writable;
} knobs[] = {
	{ "/proc/sys/kernel/pid_max", PID_MAX, false },
	{ "/proc/sys/kernel/threads-max", PID_MAX, false },
	{ "/proc/sys/kernel/shmmax", 18446744073692774399UL, false },
	{ "/proc/sys/kernel/shmall", 18446744073692774399UL, false },
	{ "/proc/sys/kernel/shmmni", 4096, false },
	{ "/proc/sys/kernel/ngroups_max", 65536, false },
	{ "/proc/sys/kernel/cap_last_cap", 40, false },
	{ "/proc/sys/kernel/overflowuid", 65534, false },
	{ "/proc/sys/kernel/overflowgid", 65534, false },
	{ "/proc/sys/kernel/randomize_va_space", 2, true },
	{ "/proc/sys/kernel/panic", 0, true },
	{ "/proc/sys/kernel/numa_balancing", 0, false },
	{ "/proc/sys/kernel/random/entropy_avail", 256, false },
	{ "/proc/sys/kernel/random/poolsize", 256, false },
	{ "/proc/sys/fs/nr_open", 1048576, false },
	{ "/proc/sys/fs/file-max", 9223372036854775807UL, false },
	{ "/proc/sys/fs/pipe-max-size", 1048576, false },
	{ "/proc/sys/vm/overcommit_memory", 1, true },
	{ "/proc/sys/vm/overcommit_ratio", 50, true },
	{ "/proc/sys/vm/swappiness", 60, true },
	{ "/proc/sys/vm/drop_caches", 0, true },
	{ "/proc/sys/vm/mmap_min_addr", 65536, false },
};

static void show_knob(struct seq *s, void *arg)
{
	seq_printf(s, "%lu\n", READ_ONCE(((struct knob *)arg)->value));
}

static long write_knob(const char *text, size_t n, void *arg)
{
	u64 v;

	while (*text == ' ')
		text++;
	if (parse_u64(text, NULL, &v))
		return -EINVAL;
	WRITE_ONCE(((struct knob *)arg)->value, v);
	return (long)n;
}

static void show_uuid(struct seq *s, void *arg)
{
	static u8 boot_id[16];
	u8 fresh[16], *id = arg ? boot_id : fresh;

	if (!arg || !boot_id[6]) {
		random_bytes(id, 16);
		id[6] = (id[6] & 0x0f) | 0x40; /* version 4: random */
		id[8] = (id[8] & 0x3f) | 0x80;
	}
	for (int i = 0; i < 16; i++)
		seq_printf(s, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", id[i]);
	seq_puts(s, "\n");
}

static void show_name(struct seq *s, void *arg)
{
	seq_printf(s, "%s\n", (const char *)arg);
}

static void show_hostname(struct seq *s, void *arg)
{
	char name[UTS_LEN];

	uts_get(arg ? UTS_DOMAINNAME : UTS_NODENAME, name);
	seq_printf(s, "%s\n", name);
}

static long write_hostname(const char *text, size_t n, void *arg)
{
	char name[UTS_LEN];
	size_t len = MIN(n, sizeof(name) - 1);

	memcpy(name, text, len);
	name[len] = 0;
	if (strchr(name, '\n'))
		*strchr(name, '\n') = 0;
	uts_set(arg ? UTS_DOMAINNAME : UTS_NODENAME, name);
	return (long)n;
}

static void add_sys(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(knobs); i++)
		pseudo_file(knobs[i].path, show_knob, knobs[i].writable ? write_knob : NULL,
			    &knobs[i]);
	pseudo_file("/proc/sys/kernel/ostype", show_name, NULL, "Linux");
	pseudo_file("/proc/sys/kernel/osrelease", show_name, NULL, UTS_RELEASE);
	pseudo_file("/proc/sys/kernel/version", show_name, NULL, UTS_VERSION);
	pseudo_file("/proc/sys/kernel/hostname", show_hostname, write_hostname, NULL);
	pseudo_file("/proc/sys/kernel/domainname", show_hostname, write_hostname, (void *)1);
	pseudo_file("/proc/sys/kernel/printk", show_name, NULL, "4\t4\t1\t7");
	pseudo_file("/proc/sys/kernel/sem", show_name, NULL, "32000\t1024000000\t500\t32000");
	pseudo_file("/proc/sys/kernel/random/boot_id", show_uuid, NULL, (void *)1);
	pseudo_file("/proc/sys/kernel/random/uuid", show_uuid, NULL, NULL);
	add_params();
}

void proc_init(void)
{
	pseudo_file("/proc/uptime", show_uptime, NULL, NULL);
	pseudo_file("/proc/loadavg", show_loadavg, NULL, NULL);
	pseudo_file("/proc/stat", show_stat, NULL, NULL);
	pseudo_file("/proc/version", show_version, NULL, NULL);
	pseudo_file("/proc/cmdline", show_cmdline, NULL, NULL);
	pseudo_file("/proc/cpuinfo", show_cpuinfo, NULL, NULL);
	pseudo_file("/proc/interrupts", show_interrupts, NULL, NULL);
	pseudo_file("/proc/filesystems", show_text, NULL, (void *)filesystems);
	pseudo_file("/proc/devices", show_text, NULL, (void *)devices);
	pseudo_file("/proc/swaps", show_text, NULL, (void *)swaps);
	pseudo_file("/proc/iomem", show_iomem, NULL, NULL);
	pseudo_file("/proc/lock_stat", show_lock_stat, write_lock_stat, NULL);
	add_sys();
	procpid_init();
	kpage_files_init();
}
