/*
 * The cost of memory shared between CPUs; docs/metronome.md has the calibration.
 *
 * Every line of guest memory has an owner (the CPU that wrote it last), a version (which grows at
 * each change of owner or write after others have read) and a mark that others have read it since.
 * Every CPU has a cache: the lines, with their versions, that it used last. An access is free if
 * the CPU has the line in the state that it needs, as in the MESI protocol:
 *
 *   load    of a version that it has, or wrote itself             else a transfer from the owner
 *   store   to a line that it owns and nobody else has read since  else a transfer or invalidation
 *
 * An owner that has lost the line from its cache wrote it back: what comes from memory is not
 * charged, here as elsewhere. Nor are REP STOS and REP MOVS, whose whole-line stores do not wait
 * for the old contents; they only take the line. Turns are serial, so nothing here is locked;
 * outside a region nothing is counted.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "metronome.h"

#define LINE_SHIFT	6
#define PIECE_SHIFT	20		/* lines in one piece of the table: 64 MB of memory */
#define PIECES		(1u << 14)		/* 1 TB */
#define SEEN		(1u << 14)		/* lines that one CPU remembers: 1 MB of cache */

struct line {
	uint16_t owner;		/* CPU number + 1; 0: never written in a region */
	uint16_t shared;	/* another CPU has read this version */
	uint32_t version;
};

struct seen {
	uint32_t line, version;
};

static struct line *pieces[PIECES];
static struct seen *seen[MAX_VCPUS];
static unsigned int cpus_per_node;

static void *zeroed(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED) {
		perror("metronome: memory for the coherence model");
		exit(1);
	}
	return p;
}

/* An instruction that accesses memory. */
struct access {
	bool streams;		/* stores whole lines */
	uint64_t address;	/* of the instruction */
};

static void charge(unsigned int vcpu, unsigned int owner, const struct access *access)
{
	struct score *score = score_of(vcpu);
	bool far = vcpu / cpus_per_node != owner / cpus_per_node;

	score->used += (uint64_t)(far ? options.far : options.near) * UNITS;
	score->events[far ? FAR_TRANSFERS : TRANSFERS]++;
	if (options.symbols)
		profile_transfer(access->address);
}

static struct seen *slot(unsigned int vcpu, uint32_t number)
{
	if (!seen[vcpu])
		seen[vcpu] = zeroed(SEEN * sizeof(struct seen));
	return &seen[vcpu][number % SEEN];
}

static bool owner_has(const struct line *line, uint32_t number)
{
	return line->owner && slot(line->owner - 1u, number)->line == number;
}

static void load(unsigned int vcpu, struct line *line, uint32_t number,
		 const struct access *access)
{
	struct seen *mine = slot(vcpu, number);

	if (line->owner && line->owner != vcpu + 1) {
		if (mine->line == number && mine->version == line->version)
			return;
		if (owner_has(line, number))
			charge(vcpu, line->owner - 1u, access);
		line->shared = 1;
	}
	*mine = (struct seen){ number, line->version };
}

static void store(unsigned int vcpu, struct line *line, uint32_t number,
		  const struct access *access)
{
	bool mine = line->owner == vcpu + 1;

	if (!mine || line->shared) {
		if (!access->streams && owner_has(line, number))
			charge(vcpu, line->owner - 1u, access);
		*line = (struct line){ (uint16_t)(vcpu + 1), 0, line->version + 1 };
	}
	*slot(vcpu, number) = (struct seen){ number, line->version };
}

static void on_access(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *access)
{
	struct qemu_plugin_hwaddr *haddr;
	uint64_t number;
	struct line *line;

	if (!turns_are_on())
		return;
	haddr = qemu_plugin_get_hwaddr(info, vaddr);
	if (!haddr || qemu_plugin_hwaddr_is_io(haddr))
		return;
	number = qemu_plugin_hwaddr_phys_addr(haddr) >> LINE_SHIFT;
	if (number >> PIECE_SHIFT >= PIECES)
		return;
	if (!pieces[number >> PIECE_SHIFT])
		pieces[number >> PIECE_SHIFT] = zeroed(sizeof(struct line) << PIECE_SHIFT);
	line = &pieces[number >> PIECE_SHIFT][number & ((1u << PIECE_SHIFT) - 1)];
	if (qemu_plugin_mem_is_store(info))
		store(vcpu, line, (uint32_t)number, access);
	else
		load(vcpu, line, (uint32_t)number, access);
}

void coherence_watch(struct qemu_plugin_insn *insn, bool streams)
{
	struct access *access = malloc(sizeof(*access)); /* lives as long as the translation may */

	*access = (struct access){ streams, qemu_plugin_insn_vaddr(insn) };
	qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS,
					 QEMU_PLUGIN_MEM_RW, access);
}

void coherence_start(void)
{
	cpus_per_node = ((unsigned int)vcpu_count + options.nodes - 1) / options.nodes;
	if (!cpus_per_node)
		cpus_per_node = 1;
}
