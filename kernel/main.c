/*
 * From boot/entry.asm to the first process: the order in which the rooms of the kernel are
 * opened. Each step may use what those before it have set up, and nothing else.
 *
 * The first half runs on the boot CPU alone, on the boot stack, interrupts off. Then the
 * scheduler makes that context the idle task of CPU 0, and a kernel thread does
 * the rest, because file systems and processes may sleep.
 */
#include "arch/x86_64/acpi.h"
#include "arch/x86_64/clock.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/descriptors.h"
#include "arch/x86_64/fpu.h"
#include "arch/x86_64/init.h"
#include "arch/x86_64/irq.h"
#include "arch/x86_64/multiboot2.h"
#include "arch/x86_64/paging.h"
#include "arch/x86_64/pvh.h"
#include "arch/x86_64/serial.h"
#include "arch/x86_64/smp.h"
#include "kernel/file.h"
#include "kernel/lock.h"
#include "kernel/panic.h"
#include "kernel/param.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/rcu.h"
#include "kernel/sched.h"
#include "kernel/string.h"
#include "mm/bootmem.h"
#include "mm/mm.h"
#include "mm/node.h"
#include "mm/page.h"

enum boot_kind { BOOT_KIND_MULTIBOOT2 = 1, BOOT_KIND_PVH = 2 }; /* as in boot/entry.asm */

struct boot_info boot_info;
struct acpi_info acpi_info;
bool params_ready;

static char cmdline_rest[BOOT_CMDLINE_MAX]; /* params_parse() cuts it to pieces */

/* --- the loader's word --------------------------------------------------------- */

static void read_boot_info(enum boot_kind kind, u64 phys)
{
	size_t len;

	if (kind == BOOT_KIND_PVH)
		pvh_parse(phys, early_map, &boot_info);
	else
		multiboot2_parse(early_map(phys, 8), 4 * GB - phys, &boot_info);

	/* QEMU's words come after the loader's: later ones win. */
	len = strlen(boot_info.cmdline);
	if (len + 2 < sizeof(boot_info.cmdline)) {
		char *end = boot_info.cmdline + len;

		if (len)
			*end++ = ' ';
		if (!fwcfg_cmdline(end, (size_t)(boot_info.cmdline + BOOT_CMDLINE_MAX - end)))
			boot_info.cmdline[len] = 0;
	}
	memcpy(cmdline_rest, boot_info.cmdline, sizeof(cmdline_rest));
	params_parse(cmdline_rest);
	params_ready = true;
}

/* --- memory ---------------------------------------------------------------------- */

/*
 * What a machine must have beside the kernel and the initramfs, boot/entry.asm has it too: the first
 * MiB, descriptors of a section of frames, page tables, the first processes.
 */
#define MEMORY_BASE    (4 * MB)
#define MEMORY_PER_CPU (128 * KB)

/* Bytes of the initramfs that the loader was told to bring: GRUB goes on without if there is no room. */
PARAM_INT(initramfs_bytes, "boot.initramfs", PARAM_HIDDEN, 0, 0, 1L << 40);

/*
 * A machine on which the first process could not even start says so here, in one line, instead of
 * failing somewhere later. The initramfs counts twice: it is there until all its files are copied.
 */
static void require_memory(u64 found)
{
	u64 image = image_phys(__kernel_end) - image_phys(__kernel_start);
	u64 initrd = MAX(boot_info.initrd_len, (u64)initramfs_bytes);
	u64 needed = MEMORY_BASE + image + 2 * initrd + (num_cpus - 1) * MEMORY_PER_CPU;
	u64 found_mb = ALIGN_UP(found, MB) / MB;

	if (found >= needed)
		return;
	printk("not enough memory: %lu MB found, at least %lu MB needed\n", found_mb,
	       found_mb + ALIGN_UP(needed - found, MB) / MB);
	machine_exit_panic(true);
}

static void add_memory(void)
{
	static struct acpi_memory pieces[ACPI_MAX_MEMORY + BOOT_RANGES_MAX];
	size_t n = acpi_usable_memory(&acpi_info, &boot_info, pieces, ARRAY_SIZE(pieces));
	u8 distances[MAX_NODES * MAX_NODES];
	u64 found = 0;

	for (size_t i = 0; i < n; i++)
		found += pieces[i].len;
	require_memory(found);

	for (u32 i = 0; i < acpi_info.nr_nodes; i++)
		for (u32 j = 0; j < acpi_info.nr_nodes; j++)
			distances[i * acpi_info.nr_nodes + j] = acpi_info.distance[i][j];
	nodes_init((int)acpi_info.nr_nodes, distances);

	for (size_t i = 0; i < n; i++)
		bootmem_add(pieces[i].base, pieces[i].base + pieces[i].len, pieces[i].node);
	/* The BIOS's data, the page that other CPUs start in. */
	bootmem_reserve(0, 1 * MB);
	bootmem_reserve((u64)__boot_start, (u64)__boot_end);
	bootmem_reserve(image_phys(__kernel_start), image_phys(__kernel_end));
	if (boot_info.initrd_len)
		bootmem_reserve(boot_info.initrd_phys,
				boot_info.initrd_phys + boot_info.initrd_len);
}

/* The initramfs as memory; NULL if there is none, or it is out of reach. */
static const void *initrd_memory(void)
{
	u64 start = boot_info.initrd_phys, end = start + boot_info.initrd_len;
	const struct boot_range *r = boot_info.ranges;

	if (!boot_info.initrd_len || end < start)
		return NULL;
	for (u32 i = 0; i < boot_info.nr_ranges; i++, r++)
		if (r->type == BOOT_MEM_USABLE && r->base <= start && end <= r->base + r->len)
			return phys_to_virt(PHYS(start));
	printk("initramfs: %#lx to %#lx is not in usable memory\n", start, end);
	return NULL;
}

/* Its files are copies: the frames become ordinary memory. */
static void free_initrd(void)
{
	frames_release(boot_info.initrd_phys, boot_info.initrd_phys + boot_info.initrd_len);
}

/* --- what there is, in a few lines ------------------------------------------------- */

static const char *loader_kind(void)
{
	if (boot_info.flags & BOOT_FROM_PVH)
		return "PVH";
	return boot_info.flags & BOOT_EFI ? "multiboot2, UEFI" : "multiboot2, BIOS";
}

static void report_machine(void)
{
	u64 per_node[MAX_NODES] = { 0 };
	u32 cpus[MAX_NODES] = { 0 };
	const struct mem_range *r;
	unsigned n;

	printk("Faultline on %s (%s), %u CPU%s, %u node%s, clock %s\n",
	       cpu_features.brand[0] ? cpu_features.brand : cpu_features.vendor, loader_kind(),
	       num_cpus, num_cpus == 1 ? "" : "s", acpi_info.nr_nodes,
	       acpi_info.nr_nodes == 1 ? "" : "s", clock_source_name());
	r = bootmem_ranges(&n);
	for (unsigned i = 0; i < n; i++)
		per_node[r[i].node] += r[i].end - r[i].start;
	for (u32 cpu = 0; cpu < num_cpus; cpu++)
		cpus[cpu_to_node[cpu]]++;
	for (u32 node = 0; node < acpi_info.nr_nodes; node++)
		printk("node %u: %lu MB, %u CPU%s\n", node, per_node[node] / MB, cpus[node],
		       cpus[node] == 1 ? "" : "s");
}

/* --- the two halves ------------------------------------------------------------------ */

PARAM_STRING(run_param, "run", 0, 2048, "");

/* In a kernel thread: everything is there, now the files and the first process. */
static void boot_thread(void *arg)
{
	const void *initrd = initrd_memory();
	int files = 0;

	clock_keepalive_start();
	process_init();
	vfs_init();
	mm_stats_init();
	debug_files_init();
	if (initrd) {
		files = initramfs_unpack(initrd, boot_info.initrd_len);
		free_initrd();
		if (files < 0)
			printk("initramfs: error %d\n", -files);
	}
	serial_enable_input();
	selftest_run();
	printk("%d files, to user mode\n", MAX(files, 0));
	init_start(run_param);
}

void kernel_main(enum boot_kind kind, u64 phys)
{
	const struct acpi_access access = { early_map };

	serial_init();
	read_boot_info(kind, phys);

	cpu_features_init();
	patch_init();
	acpi_parse(&boot_info, &access, &acpi_info);
	cpus_enumerate();
	add_memory();
	trampoline_reserve();

	paging_init();
	percpu_init();
	cpu_init();
	descriptors_init(0);
	lock_init();
	mm_init();
	paging_use_frames();
	fpu_init();

	irq_init();
	clock_init();
	report_machine();
	rcu_init();
	sched_init();
	smp_boot();
	printk("%u CPU%s up\n", cpumask_count(&cpus_online), num_cpus == 1 ? "" : "s");

	if (!kthread_create("boot", boot_thread, NULL, 0))
		panic("no memory for the first thread");
	cpu_idle();
}
