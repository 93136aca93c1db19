/*
 * /sys/devices/system: processors and nodes, their number and how they hang together. What a
 * node's memory is doing is mm's own (mm/stats.c). Formats: Linux
 * Documentation/admin-guide/cputopology.rst, Documentation/ABI/stable/sysfs-devices-node.
 *
 * cpuN directories are generated when looked at: a machine may have 512.
 */
#include "arch/x86_64/smp.h"
#include "kernel/fs/gen.h"
#include "kernel/printf.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "mm/node.h"

/* --- lists of everything ------------------------------------------------------------ */

static void show_cpus(struct seq *s, void *arg)
{
	seq_cpulist(s, &cpus_online);
}

static void show_possible_cpus(struct seq *s, void *arg)
{
	if (num_cpus > 1)
		seq_printf(s, "0-%u\n", num_cpus - 1);
	else
		seq_puts(s, "0\n");
}

static void show_number(struct seq *s, void *arg)
{
	seq_printf(s, "%lu\n", (u64)arg);
}

static void show_empty(struct seq *s, void *arg)
{
	seq_puts(s, "\n");
}

static u64 all_nodes(void)
{
	return num_nodes >= 64 ? ~0UL : (1UL << num_nodes) - 1;
}

static void node_list(struct seq *s, u64 nodes)
{
	struct cpumask m = { { nodes } };

	seq_cpulist(s, &m);
}

static void show_all_nodes(struct seq *s, void *arg)
{
	node_list(s, all_nodes());
}

static void show_memory_nodes(struct seq *s, void *arg)
{
	node_list(s, node_memory_mask);
}

static void show_cpu_nodes(struct seq *s, void *arg)
{
	u64 nodes = 0;

	for_each_cpu(cpu, &cpus_online)
		nodes |= 1UL << cpu_to_node[cpu];
	node_list(s, nodes);
}

/* --- one node -------------------------------------------------------------------------- */

static struct cpumask cpus_of(int node)
{
	struct cpumask m = { { 0 } };

	for_each_cpu(cpu, &cpus_online) {
		if (cpu_to_node[cpu] == node)
			cpumask_set(&m, cpu);
	}
	return m;
}

static void show_node_cpulist(struct seq *s, void *arg)
{
	struct cpumask m = cpus_of((int)(long)arg);

	seq_cpulist(s, &m);
}

static void show_node_cpumap(struct seq *s, void *arg)
{
	struct cpumask m = cpus_of((int)(long)arg);

	seq_cpumap(s, &m);
}

static void show_distance(struct seq *s, void *arg)
{
	for (int i = 0; i < num_nodes; i++)
		seq_printf(s, "%s%u", i ? " " : "", node_distance[(long)arg][i]);
	seq_puts(s, "\n");
}

static void add_node(long node)
{
	static const struct {
		const char *name;
		void (*show)(struct seq *s, void *arg);
	} files[] = {
		{ "cpulist", show_node_cpulist },
		{ "cpumap", show_node_cpumap },
		{ "distance", show_distance },
	};
	char path[80];

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		ksnprintf(path, sizeof(path), "/sys/devices/system/node/node%ld/%s", node,
			  files[i].name);
		pseudo_file(path, files[i].show, NULL, (void *)node);
	}
}

/* --- one CPU ----------------------------------------------------------------------------- */

static u32 node_cpu(void *arg)
{
	return (u32)((struct gen_node *)arg)->id;
}

static void show_one(struct seq *s, void *arg)
{
	seq_puts(s, "1\n");
}

static void show_zero(struct seq *s, void *arg)
{
	seq_puts(s, "0\n");
}

/* Each CPU is a package of its own: one core, one thread. */
static void show_package(struct seq *s, void *arg)
{
	seq_printf(s, "%u\n", node_cpu(arg));
}

static void show_self_list(struct seq *s, void *arg)
{
	seq_printf(s, "%u\n", node_cpu(arg));
}

static void show_self_map(struct seq *s, void *arg)
{
	struct cpumask m = { { 0 } };

	cpumask_set(&m, node_cpu(arg));
	seq_cpumap(s, &m);
}

#define FILE_ENTRY(name, fn) { name, S_IFREG | 0444, .show = fn }

static const struct gen_entry topology_table[] = {
	FILE_ENTRY("physical_package_id", show_package),
	FILE_ENTRY("die_id", show_zero),
	FILE_ENTRY("core_id", show_zero),
	FILE_ENTRY("core_cpus", show_self_map),
	FILE_ENTRY("core_cpus_list", show_self_list),
	FILE_ENTRY("core_siblings", show_self_map),
	FILE_ENTRY("core_siblings_list", show_self_list),
	FILE_ENTRY("package_cpus", show_self_map),
	FILE_ENTRY("package_cpus_list", show_self_list),
	FILE_ENTRY("thread_siblings", show_self_map),
	FILE_ENTRY("thread_siblings_list", show_self_list),
	{ NULL },
};

/*
 * Caches, from CPUID leaf 4 (Intel) or 0x8000001d (AMD), which have one format. SDM vol. 2,
 * "CPUID - Deterministic Cache Parameters".
 */
struct cache {
	u32 type, level, line, partitions, ways, sets;
};

static bool read_cache(u32 index, struct cache *out)
{
	u32 a, b, c, d, leaf = 4;

	cpuid(0, 0, &a, &b, &c, &d);
	if (a < 4)
		return false;
	if (!strcmp(cpu_features.vendor, "AuthenticAMD")) {
		cpuid(0x80000000, 0, &a, &b, &c, &d);
		if (a < 0x8000001d)
			return false;
		leaf = 0x8000001d;
	}
	cpuid(leaf, index, &a, &b, &c, &d);
	*out = (struct cache){ a & 31, a >> 5 & 7, (b & 0xfff) + 1, (b >> 12 & 0x3ff) + 1,
			       (b >> 22) + 1, c + 1 };
	return out->type != 0;
}

#define CACHE_OF(arg) ((u32)(((struct gen_node *)arg)->id >> 32))

static void show_cache(struct seq *s, void *arg)
{
	static const char *const types[] = { "", "Data", "Instruction", "Unified" };
	const char *name = ((struct gen_node *)arg)->entry->name;
	struct cache c;

	if (!read_cache(CACHE_OF(arg), &c))
		return;
	if (!strcmp(name, "type"))
		seq_printf(s, "%s\n", types[c.type & 3]);
	else if (!strcmp(name, "size"))
		seq_printf(s, "%luK\n", (u64)c.line * c.partitions * c.ways * c.sets / 1024);
	else
		seq_printf(s, "%u\n", name[0] == 'l' ? c.level : name[0] == 'c' ? c.line :
				      name[0] == 'w' ? c.ways : c.sets);
}

static const struct gen_entry cache_table[] = {
	FILE_ENTRY("type", show_cache),
	FILE_ENTRY("level", show_cache),
	FILE_ENTRY("size", show_cache),
	FILE_ENTRY("coherency_line_size", show_cache),
	FILE_ENTRY("ways_of_associativity", show_cache),
	FILE_ENTRY("number_of_sets", show_cache),
	FILE_ENTRY("shared_cpu_list", show_self_list),
	FILE_ENTRY("shared_cpu_map", show_self_map),
	{ NULL },
};
static const struct gen_entry cache_dir = { "", S_IFDIR | 0755, .table = cache_table };

static struct dentry *caches_lookup(struct dentry *dir, const char *name, size_t len)
{
	struct gen_node like = *dentry_node(dir);
	long i = len > 5 && !memcmp(name, "index", 5) ? parse_number(name + 5, len - 5) : -1;
	struct cache c;

	if (i < 0 || i > 15 || !read_cache((u32)i, &c))
		return NULL;
	like.id |= (u64)i << 32;
	return gen_dentry(dir, name, len, &cache_dir, &like, dir->inode->ino * 64 + (u64)i + 1);
}

static int caches_readdir(struct dentry *dir, u64 *pos, fill_fn fill, void *ctx)
{
	struct cache c;

	if (!gen_dots(dir, pos, fill, ctx))
		return 0;
	for (u64 i = *pos - 2; i < 16 && read_cache((u32)i, &c); i++) {
		char name[16];
		int n = ksnprintf(name, sizeof(name), "index%lu", i);

		if (!fill(ctx, name, (size_t)n, dir->inode->ino * 64 + i + 1, S_IFDIR, i + 3))
			break;
		*pos = i + 3;
	}
	return 0;
}

static const struct inode_ops caches_ops = { .lookup = caches_lookup, .readdir = caches_readdir };

static const struct gen_entry cpu_table[] = {
	FILE_ENTRY("online", show_one),
	{ "topology", S_IFDIR | 0755, .table = topology_table },
	{ "cache", S_IFDIR | 0755, .ops = &caches_ops },
	{ NULL },
};

static long read_node_link(struct dentry *d, char *buf, size_t size)
{
	int n = ksnprintf(buf, size, "../../node/node%d", cpu_to_node[dentry_node(d)->id]);

	return (long)MIN((size_t)n, size);
}

static const struct gen_entry node_link = { "", S_IFLNK | 0777, .readlink = read_node_link };


static int node_link_name(char *name, size_t size, const struct gen_node *n)
{
	return ksnprintf(name, size, "node%d", cpu_to_node[n->id]);
}

static struct dentry *cpu_lookup(struct dentry *dir, const char *name, size_t len)
{
	const struct gen_node *n = dentry_node(dir);
	char want[16];
	int want_len = node_link_name(want, sizeof(want), n);

	if ((size_t)want_len == len && !memcmp(want, name, len))
		return gen_dentry(dir, name, len, &node_link, n, dir->inode->ino * 64 + 60);
	for (u64 i = 0; cpu_table[i].name; i++) {
		if (strlen(cpu_table[i].name) == len && !memcmp(cpu_table[i].name, name, len))
			return gen_dentry(dir, name, len, &cpu_table[i], n,
					  dir->inode->ino * 64 + i + 1);
	}
	return NULL;
}

static int cpu_readdir(struct dentry *dir, u64 *pos, fill_fn fill, void *ctx)
{
	u64 i;

	if (!gen_dots(dir, pos, fill, ctx))
		return 0;
	for (i = 0; cpu_table[i].name; i++) {
		if (i + 2 < *pos)
			continue;
		if (!fill(ctx, cpu_table[i].name, strlen(cpu_table[i].name),
			  dir->inode->ino * 64 + i + 1, cpu_table[i].mode & S_IFMT, i + 3))
			return 0;
		*pos = i + 3;
	}
	if (*pos == i + 2) {
		char name[16];
		int n = node_link_name(name, sizeof(name), dentry_node(dir));

		if (fill(ctx, name, (size_t)n, dir->inode->ino * 64 + 60, S_IFLNK, i + 3))
			*pos = i + 3;
	}
	return 0;
}

static const struct inode_ops cpu_ops = { .lookup = cpu_lookup, .readdir = cpu_readdir };
static const struct gen_entry cpu_dir = { "", S_IFDIR | 0755, .ops = &cpu_ops };

/* --- /sys/devices/system/cpu ----------------------------------------------------------------- */

#define CPU_BASE (1UL << 40)
#define CPU_INO(cpu) (0x10000UL + (cpu))

static struct dentry *cpus_lookup(struct dentry *dir, const char *name, size_t len)
{
	struct dentry *d = dir_lookup(dir, name, len);
	long cpu = len > 3 && !memcmp(name, "cpu", 3) ? parse_number(name + 3, len - 3) : -1;
	struct gen_node like = { .id = (u64)cpu };

	if (d || cpu < 0 || cpu >= MAX_CPUS || !cpumask_test(&cpus_online, (u32)cpu))
		return d;
	return gen_dentry(dir, name, len, &cpu_dir, &like, CPU_INO((u64)cpu));
}

static int cpus_readdir(struct dentry *dir, u64 *pos, fill_fn fill, void *ctx)
{
	if (*pos < CPU_BASE && !gen_tree_entries(dir, pos, CPU_BASE, fill, ctx))
		return 0;
	for (u32 cpu = cpumask_next(&cpus_online, (u32)(*pos - CPU_BASE)); cpu < MAX_CPUS;
	     cpu = cpumask_next(&cpus_online, cpu + 1)) {
		char name[16];
		int n = ksnprintf(name, sizeof(name), "cpu%u", cpu);

		if (!fill(ctx, name, (size_t)n, CPU_INO((u64)cpu), S_IFDIR, CPU_BASE + cpu + 1))
			break;
		*pos = CPU_BASE + cpu + 1;
	}
	return 0;
}

static const struct inode_ops cpus_ops = { .lookup = cpus_lookup, .readdir = cpus_readdir };

void sysfs_init(void)
{
	pseudo_file("/sys/devices/system/cpu/online", show_cpus, NULL, NULL);
	pseudo_file("/sys/devices/system/cpu/present", show_possible_cpus, NULL, NULL);
	pseudo_file("/sys/devices/system/cpu/possible", show_possible_cpus, NULL, NULL);
	pseudo_file("/sys/devices/system/cpu/offline", show_empty, NULL, NULL);
	pseudo_file("/sys/devices/system/cpu/isolated", show_empty, NULL, NULL);
	pseudo_file("/sys/devices/system/cpu/kernel_max", show_number, NULL,
		    (void *)(MAX_CPUS - 1UL));
	gen_extend("/sys/devices/system/cpu", &cpus_ops);
	pseudo_file("/sys/devices/system/node/possible", show_all_nodes, NULL, NULL);
	pseudo_file("/sys/devices/system/node/online", show_all_nodes, NULL, NULL);
	pseudo_file("/sys/devices/system/node/has_cpu", show_cpu_nodes, NULL, NULL);
	pseudo_file("/sys/devices/system/node/has_memory", show_memory_nodes, NULL, NULL);
	pseudo_file("/sys/devices/system/node/has_normal_memory", show_memory_nodes, NULL, NULL);
	for (long node = 0; node < num_nodes; node++)
		add_node(node);
	tree_mkdir("/sys/kernel/mm");
	tree_mkdir("/sys/fs/cgroup");
}
