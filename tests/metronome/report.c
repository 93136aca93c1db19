/*
 * One JSON line per region, to the file asked for or to stderr; docs/metronome.md describes the
 * members.
 */
#include <stdlib.h>
#include <string.h>

#include "metronome.h"

#define EXACT_COSTS	16384	/* fault costs below this are counted one by one, for quantiles */

static FILE *out;
static unsigned int regions;

/* Cost of page faults in kernel instructions. Written in turns only, so not locked. */
static struct {
	uint64_t n, sum, at[EXACT_COSTS + 1];	/* the last holds all that are higher */
} costs;

static const char *const event_names[EVENTS] = {
	[FAULTS] = "faults", [IRQS] = "irqs", [IPIS] = "ipis", [SYSCALLS] = "syscalls",
	[CR3_LOADS] = "cr3_loads", [INVLPGS] = "invlpgs", [ATOMICS] = "atomics", [HALTS] = "halts",
	[TRANSFERS] = "transfers", [FAR_TRANSFERS] = "far_transfers",
};

static const char *const class_names[CLASSES] = {
	[USER] = "user", [KERNEL] = "kernel",
	[USER_SPIN] = "user_spin", [KERNEL_SPIN] = "kernel_spin",
};

bool report_open(void)
{
	out = options.report ? fopen(options.report, "w") : stderr;
	if (!out)
		fprintf(stderr, "metronome: cannot write the report to '%s'\n", options.report);
	return out;
}

void fault_cost_reset(void)
{
	memset(&costs, 0, sizeof(costs));
}

void fault_cost_note(unsigned int vcpu, uint64_t insns)
{
	costs.n++;
	costs.sum += insns;
	costs.at[insns < EXACT_COSTS ? insns : EXACT_COSTS]++;
	(void)vcpu;
}

static unsigned int cost_quantile(double part)
{
	uint64_t below = 0;

	for (unsigned int i = 0; i < EXACT_COSTS; i++) {
		below += costs.at[i];
		if (below && (double)below >= part * (double)costs.n)
			return i;
	}
	return EXACT_COSTS;
}

static void put_score(const struct score *s, int64_t idle)
{
	for (int i = 0; i < CLASSES; i++)
		fprintf(out, "\"%s\":%lu,", class_names[i], s->insns[i]);
	fprintf(out, "\"idle_ns\":%ld,\"rep_bytes_user\":%lu,\"rep_bytes_kernel\":%lu", idle,
		s->rep_bytes[USER], s->rep_bytes[KERNEL]);
	for (int i = 0; i < EVENTS; i++)
		fprintf(out, ",\"%s\":%lu", event_names[i], s->events[i]);
}

/* What happened since `before`. */
static struct score difference(const struct score *now, const struct score *before)
{
	struct score d = { .used = 0 };

	for (int i = 0; i < CLASSES; i++)
		d.insns[i] = now->insns[i] - before->insns[i];
	for (int i = 0; i < 2; i++)
		d.rep_bytes[i] = now->rep_bytes[i] - before->rep_bytes[i];
	for (int i = 0; i < EVENTS; i++)
		d.events[i] = now->events[i] - before->events[i];
	return d;
}

static void add(struct score *sum, const struct score *s)
{
	for (int i = 0; i < CLASSES; i++)
		sum->insns[i] += s->insns[i];
	for (int i = 0; i < 2; i++)
		sum->rep_bytes[i] += s->rep_bytes[i];
	for (int i = 0; i < EVENTS; i++)
		sum->events[i] += s->events[i];
}

void report_region(const struct region *region)
{
	struct score total = { .used = 0 };
	int64_t idle = 0;

	fprintf(out, "{\"region\":%u,\"virtual_ns\":%ld,\"host_ms\":%ld,\"cpus\":%d,\"turn\":%ld,",
		++regions, region->end - region->start,
		(region->host_end - region->host_start) / 1000000, vcpu_count, options.turn);
	if (options.seeded)
		fprintf(out, "\"seed\":%lu,\"schedule\":\"%s\",", options.seed,
			options.wide ? "wide" : "even");
	if (region->unfinished)
		fprintf(out, "\"unfinished\":true,");
	fprintf(out, "\"rounds\":%lu,\"turns\":%lu,\"steps\":%lu,\"vcpus\":[", region->rounds,
		region->turns, region->steps);
	for (int i = 0; i < vcpu_count; i++) {
		struct score d = difference(score_of((unsigned int)i), &region->before[i]);

		add(&total, &d);
		idle += region->idle[i];
		fprintf(out, i ? ",{" : "{");
		put_score(&d, region->idle[i]);
		fprintf(out, "}");
	}
	fprintf(out, "],\"total\":{");
	put_score(&total, idle);
	fprintf(out, "}");
	if (options.fault_cost && costs.n)
		fprintf(out, ",\"fault_insns\":{\"n\":%lu,\"mean\":%.1f,"
			"\"p10\":%u,\"p50\":%u,\"p90\":%u}",
			costs.n, (double)costs.sum / (double)costs.n, cost_quantile(0.1),
			cost_quantile(0.5), cost_quantile(0.9));
	if (options.symbols)
		profile_top(out);
	fprintf(out, "}\n");
	fflush(out);
	if (options.folded)
		profile_folded();
}
