/*
 * SRAT and SLIT: which CPU and which memory belong to which node, and how far
 * the nodes are from one another. ACPI 6.5, 5.2.16 and 5.2.17.
 *
 * The tables speak of proximity domains, any 32-bit numbers. A domain becomes a
 * node if it has an enabled CPU or enabled memory; nodes are numbered densely in
 * the order of their domain's number.
 */
#include "arch/x86_64/acpi_tables.h"
#include "kernel/string.h"
#include "kernel/unaligned.h"

#define SRAT_HEADER 48 /* SDT header, u32 and u64 reserved */
#define SLIT_HEADER 44 /* SDT header, u64 number of localities */

#define MEMORY_ENABLED      1u
#define MEMORY_HOTPLUGGABLE 2u

#define LOCAL_DISTANCE  10
#define REMOTE_DISTANCE 20

enum entry_type { ENTRY_CPU = 0, ENTRY_MEMORY = 1, ENTRY_X2APIC = 2 };

struct troubles {
	u32 unknown_cpu, first_unknown_cpu; /* in SRAT, not in MADT */
	u32 two_domains, first_two_domains;
	u32 empty_memory, wrapped_memory, too_much_memory;
	u32 overlaps;
	u64 first_overlap;
};

/* While SRAT is read: has this CPU's affinity been seen? Index as acpi_info.cpus. */
static bool has_affinity[ACPI_MAX_CPUS];

static void set_cpu_domain(struct acpi_info *out, u32 apic_id, u32 domain, struct troubles *bad)
{
	for (u32 i = 0; i < out->nr_cpus; i++) {
		struct acpi_cpu *cpu = &out->cpus[i];

		if (cpu->apic_id != apic_id)
			continue;
		if (!has_affinity[i])
			cpu->domain = domain;
		else if (cpu->domain != domain && !bad->two_domains++)
			bad->first_two_domains = apic_id;
		has_affinity[i] = true;
		return;
	}
	if (!bad->unknown_cpu++)
		bad->first_unknown_cpu = apic_id;
}

static bool holds_usable_memory(const struct boot_info *boot, u64 base, u64 len)
{
	for (u32 i = 0; i < boot->nr_ranges; i++) {
		const struct boot_range *r = &boot->ranges[i];

		if (r->type == BOOT_MEM_USABLE && r->base < base + len && base < r->base + r->len)
			return true;
	}
	return false;
}

static void add_memory(struct acpi_info *out, const struct boot_info *boot, const u8 *p,
		       u32 domain, struct troubles *bad)
{
	u64 base = get_u64(p + 8), len = get_u64(p + 16);
	u32 flags = get_u32(p + 28);

	if (!(flags & MEMORY_ENABLED))
		return;
	if (len == 0) {
		bad->empty_memory++;
		return;
	}
	if (base + len < base) {
		bad->wrapped_memory++;
		return;
	}
	/* Room for memory to be plugged in later makes no node; memory that is there does. */
	if ((flags & MEMORY_HOTPLUGGABLE) && !holds_usable_memory(boot, base, len))
		return;
	if (out->nr_memory >= ACPI_MAX_MEMORY) {
		bad->too_much_memory++;
		return;
	}
	out->memory[out->nr_memory++] = (struct acpi_memory){
		.base = base, .len = len, .domain = domain,
	};
}

static void sort_memory(struct acpi_memory *v, u32 n)
{
	for (u32 i = 1; i < n; i++) {
		struct acpi_memory x = v[i];
		u32 j = i;

		for (; j > 0 && v[j - 1].base > x.base; j--)
			v[j] = v[j - 1];
		v[j] = x;
	}
}

/* Sort, and cut off what an earlier range already covers: the lower one wins. */
static void resolve_memory(struct acpi_info *out, struct troubles *bad)
{
	u32 n = 0;

	sort_memory(out->memory, out->nr_memory);
	for (u32 i = 0; i < out->nr_memory; i++) {
		struct acpi_memory m = out->memory[i];
		const struct acpi_memory *last = n ? &out->memory[n - 1] : NULL;
		u64 taken = last ? last->base + last->len : 0;

		if (last && m.base < taken) {
			u64 cut = MIN(taken - m.base, m.len);

			if (last->domain != m.domain && !bad->overlaps++)
				bad->first_overlap = m.base;
			m.base += cut;
			m.len -= cut;
		}
		if (m.len)
			out->memory[n++] = m;
	}
	out->nr_memory = n;
}

static void complain(const struct troubles *bad)
{
	if (bad->unknown_cpu)
		boot_warn("ACPI: SRAT: %u CPUs that MADT does not have ignored (first: APIC %u)",
			  bad->unknown_cpu, bad->first_unknown_cpu);
	if (bad->two_domains)
		boot_warn("ACPI: SRAT: %u CPUs in two domains, the first counts (APIC %u)",
			  bad->two_domains, bad->first_two_domains);
	if (bad->empty_memory)
		boot_warn("ACPI: SRAT: %u empty memory ranges ignored", bad->empty_memory);
	if (bad->wrapped_memory)
		boot_warn("ACPI: SRAT: %u memory ranges beyond 64 bits ignored",
			  bad->wrapped_memory);
	if (bad->too_much_memory)
		boot_warn("ACPI: SRAT: %u memory ranges above %u ignored", bad->too_much_memory,
			  ACPI_MAX_MEMORY);
	if (bad->overlaps)
		boot_warn("ACPI: SRAT: %u memory ranges of two domains overlap, the lower range"
			  " wins (first at %#lx)", bad->overlaps, bad->first_overlap);
}

/* CPUs that SRAT forgot go to the first node, whichever domain that will be. */
static void place_forgotten_cpus(struct acpi_info *out)
{
	u32 nr = 0, first = 0, lowest = UINT32_MAX;

	for (u32 i = 0; i < out->nr_memory; i++)
		lowest = MIN(lowest, out->memory[i].domain);
	for (u32 i = 0; i < out->nr_cpus; i++) {
		if (has_affinity[i] && out->cpus[i].enabled)
			lowest = MIN(lowest, out->cpus[i].domain);
	}
	if (lowest == UINT32_MAX)
		lowest = 0;
	for (u32 i = 0; i < out->nr_cpus; i++) {
		if (has_affinity[i])
			continue;
		out->cpus[i].domain = lowest;
		if (out->cpus[i].enabled && !nr++)
			first = out->cpus[i].apic_id;
	}
	if (nr)
		boot_warn("ACPI: SRAT: %u CPUs in no domain go to node 0 (first: APIC %u)", nr,
			  first);
}

/* Usable memory in no affinity range: acpi_node_of() gives it to node 0. */
static void count_forgotten_memory(const struct acpi_info *out, const struct boot_info *boot)
{
	u64 bytes = 0;

	for (u32 i = 0; i < boot->nr_ranges; i++) {
		const struct boot_range *r = &boot->ranges[i];
		u64 covered = 0;

		if (r->type != BOOT_MEM_USABLE)
			continue;
		for (u32 k = 0; k < out->nr_memory; k++) {
			const struct acpi_memory *m = &out->memory[k];
			u64 start = MAX(r->base, m->base);
			u64 end = MIN(r->base + r->len, m->base + m->len);

			covered += start < end ? end - start : 0;
		}
		bytes += r->len - covered;
	}
	if (bytes)
		boot_warn("ACPI: SRAT: %lu KB of memory in no domain go to node 0", bytes / KB);
}

void acpi_read_srat(struct acpi_info *out, const struct boot_info *boot, const u8 *table, u32 len)
{
	struct acpi_entries it = { "SRAT", table, len, SRAT_HEADER };
	struct troubles bad = { 0 };
	bool wide = table[8] >= 2; /* revision 1 has 8-bit domains, the rest is noise */
	bool any_cpu = false;
	const u8 *p;

	if (len < SRAT_HEADER) {
		boot_warn("ACPI: SRAT of %u bytes ignored: one node", len);
		return;
	}
	memset(has_affinity, 0, sizeof(has_affinity));
	while ((p = acpi_next_entry(&it))) {
		switch (p[0]) {
		case ENTRY_CPU:
			if (!acpi_entry_fits(&it, p, 16) || !(get_u32(p + 4) & 1))
				break;
			set_cpu_domain(out, p[3], !wide ? p[2] : p[2] | (u32)p[9] << 8 |
				       (u32)p[10] << 16 | (u32)p[11] << 24, &bad);
			any_cpu = true;
			break;
		case ENTRY_X2APIC:
			if (!acpi_entry_fits(&it, p, 24) || !(get_u32(p + 12) & 1))
				break;
			set_cpu_domain(out, get_u32(p + 8), get_u32(p + 4), &bad);
			any_cpu = true;
			break;
		case ENTRY_MEMORY:
			if (acpi_entry_fits(&it, p, 40))
				add_memory(out, boot, p, wide ? get_u32(p + 2) : p[2], &bad);
			break;
		}
	}
	resolve_memory(out, &bad);
	complain(&bad);
	if (!any_cpu && !out->nr_memory) {
		boot_warn("ACPI: SRAT without enabled entries ignored: one node");
		return;
	}
	out->has_srat = true;
	place_forgotten_cpus(out);
	count_forgotten_memory(out, boot);
}

/* --- numbering ----------------------------------------------------------- */

/* The lowest domain in use that is >= least. False: there is none. */
static bool next_domain(const struct acpi_info *out, u64 least, u32 *domain)
{
	u64 best = UINT64_MAX;

	for (u32 i = 0; i < out->nr_memory; i++) {
		if (out->memory[i].domain >= least)
			best = MIN(best, (u64)out->memory[i].domain);
	}
	for (u32 i = 0; i < out->nr_cpus; i++) {
		if (out->cpus[i].enabled && out->cpus[i].domain >= least)
			best = MIN(best, (u64)out->cpus[i].domain);
	}
	*domain = best;
	return best != UINT64_MAX;
}

static int node_of_domain(const struct acpi_info *out, u32 domain)
{
	for (u32 i = 0; i < out->nr_nodes; i++) {
		if (out->node_domain[i] == domain)
			return i;
	}
	return 0;
}

void acpi_number_nodes(struct acpi_info *out)
{
	u64 least = 0;
	u32 domain;

	if (!out->has_srat)
		return; /* as set up: node 0 is everything */
	out->nr_nodes = 0;
	while (next_domain(out, least, &domain)) {
		if (out->nr_nodes == MAX_NODES) {
			boot_warn("ACPI: SRAT: more than %d nodes, domains from %u on count as"
				  " node 0", MAX_NODES, domain);
			break;
		}
		out->node_domain[out->nr_nodes++] = domain;
		least = (u64)domain + 1;
	}
	if (!out->nr_nodes) /* SRAT spoke of disabled CPUs only */
		out->nr_nodes = 1;
	for (u32 i = 0; i < out->nr_cpus; i++)
		out->cpus[i].node = node_of_domain(out, out->cpus[i].domain);
	for (u32 i = 0; i < out->nr_memory; i++)
		out->memory[i].node = node_of_domain(out, out->memory[i].domain);
}

/* --- distances ----------------------------------------------------------- */

/* Is the matrix what the specification asks for? Complains if not. */
static bool slit_is_good(const u8 *matrix, u64 n)
{
	for (u64 i = 0; i < n; i++) {
		for (u64 j = 0; j < n; j++) {
			u8 d = matrix[i * n + j];

			if (i == j ? d == LOCAL_DISTANCE : d > LOCAL_DISTANCE)
				continue;
			boot_warn("ACPI: SLIT ignored: distance %u from domain %lu to %lu", d, i, j);
			return false;
		}
	}
	return true;
}

void acpi_read_slit(struct acpi_info *out, const u8 *table, u32 len)
{
	const u8 *matrix = table + SLIT_HEADER;
	u64 n;

	if (!out->has_srat)
		return;
	n = len >= SLIT_HEADER ? get_u64(table + SDT_HEADER) : 0;
	if (n == 0 || n > len || n * n != len - SLIT_HEADER) {
		boot_warn("ACPI: SLIT of %u bytes for %lu domains ignored", len, n);
		return;
	}
	if (!slit_is_good(matrix, n))
		return;
	for (u32 i = 0; i < out->nr_nodes; i++) {
		if (out->node_domain[i] >= n) {
			boot_warn("ACPI: SLIT ignored: it has %lu domains, SRAT a domain %u", n,
				  out->node_domain[i]);
			return;
		}
	}
	for (u32 i = 0; i < out->nr_nodes; i++) {
		for (u32 j = 0; j < out->nr_nodes; j++)
			out->distance[i][j] = matrix[out->node_domain[i] * n + out->node_domain[j]];
	}
}

/* --- questions ----------------------------------------------------------- */

int acpi_node_of(const struct acpi_info *info, u64 phys)
{
	for (u32 i = 0; i < info->nr_memory; i++) {
		const struct acpi_memory *m = &info->memory[i];

		if (phys >= m->base && phys - m->base < m->len)
			return m->node;
	}
	return 0;
}

size_t acpi_usable_memory(const struct acpi_info *info, const struct boot_info *boot,
			  struct acpi_memory *out, size_t max)
{
	size_t n = 0;

	for (u32 i = 0; i < boot->nr_ranges; i++) {
		u64 at = boot->ranges[i].base, end = at + boot->ranges[i].len;

		if (boot->ranges[i].type != BOOT_MEM_USABLE)
			continue;
		/* memory[] is sorted: first the gap before each range, then what it covers. */
		for (u32 k = 0; k <= info->nr_memory && at < end; k++) {
			const struct acpi_memory *m = k < info->nr_memory ? &info->memory[k] : NULL;
			u64 gap_end = m ? MIN(MAX(m->base, at), end) : end;
			u64 stop = m ? MAX(MIN(m->base + m->len, end), gap_end) : end;

			if (at < gap_end && n < max)
				out[n++] = (struct acpi_memory){
					at, gap_end - at, info->node_domain[0], 0 };
			if (gap_end < stop && n < max)
				out[n++] = (struct acpi_memory){
					gap_end, stop - gap_end, m->domain, m->node };
			at = MAX(stop, gap_end);
		}
	}
	return n;
}
