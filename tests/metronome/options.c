/* Options of the plugin: `-plugin metronome.so,name=value,...`; docs/metronome.md lists them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "metronome.h"

struct options options = {
	.turn = 200, .rep_rate = 8, .pause = 40, .cpu = -1, .nodes = 1, .top = 20,
};

static bool number(const char *text, uint64_t low, uint64_t high, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 0);
	return !errno && end != text && !*end && *text != '-' && *value >= low && *value <= high;
}

static bool one_of(const char *text, const char *no, const char *yes, bool *value)
{
	*value = !strcmp(text, yes);
	return *value || !strcmp(text, no);
}

static bool cost_pair(const char *text, unsigned int *near, unsigned int *far)
{
	char left[16];
	const char *colon = strchr(text, ':');
	uint64_t a, b;

	if (!strcmp(text, "off"))
		return true;
	if (!colon || (size_t)(colon - text) >= sizeof(left))
		return false;
	memcpy(left, text, (size_t)(colon - text));
	left[colon - text] = 0;
	if (!number(left, 1, 100000, &a) || !number(colon + 1, 1, 100000, &b))
		return false;
	*near = (unsigned int)a;
	*far = (unsigned int)b;
	return true;
}

/* 1: taken; 0: the value is bad; -1: no such option. */
static int read_one(const char *name, const char *value)
{
	uint64_t n = 0;
	int good;

	if (!strcmp(name, "turn")) {
		good = number(value, 10, 1000000, &n);
		options.turn = (int64_t)n;
	} else if (!strcmp(name, "rep")) {
		good = number(value, 1, UNITS, &n);
		options.rep_rate = (unsigned int)n;
	} else if (!strcmp(name, "pause")) {
		good = number(value, 1, 1000, &n);
		options.pause = (unsigned int)n;
	} else if (!strcmp(name, "seed")) {
		good = number(value, 0, UINT64_MAX, &options.seed);
		options.seeded = true;
	} else if (!strcmp(name, "reseed")) {
		good = one_of(value, "off", "on", &options.reseed);
	} else if (!strcmp(name, "schedule")) {
		good = one_of(value, "even", "wide", &options.wide);
	} else if (!strcmp(name, "region")) {
		good = one_of(value, "marked", "all", &options.whole_run);
	} else if (!strcmp(name, "cpu")) {
		good = !strcmp(value, "any") || number(value, 0, 1023, &n);
		options.cpu = !strcmp(value, "any") ? -2 : (int)n;
	} else if (!strcmp(name, "coherence")) {
		good = cost_pair(value, &options.near, &options.far);
	} else if (!strcmp(name, "nodes")) {
		good = number(value, 1, 64, &n);
		options.nodes = (unsigned int)n;
	} else if (!strcmp(name, "report")) {
		good = !!*value;
		options.report = strdup(value);
	} else if (!strcmp(name, "symbols")) {
		good = !!*value;
		options.symbols = strdup(value);
	} else if (!strcmp(name, "folded")) {
		good = !!*value;
		options.folded = strdup(value);
	} else if (!strcmp(name, "top")) {
		good = number(value, 1, 1000, &n);
		options.top = (unsigned int)n;
	} else if (!strcmp(name, "fault_cost")) {
		good = one_of(value, "off", "on", &options.fault_cost);
	} else {
		return -1;
	}
	return good;
}

bool options_read(int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		char *value = strchr(argv[i], '=');
		int result = -1;

		if (value) {
			*value = 0;
			result = read_one(argv[i], value + 1);
			*value = '=';
		}
		if (result < 0)
			fprintf(stderr, "metronome: unknown option '%s' (see docs/metronome.md)\n",
				argv[i]);
		if (result == 0)
			fprintf(stderr, "metronome: bad value in '%s' (see docs/metronome.md)\n",
				argv[i]);
		if (result <= 0)
			return false;
	}
	if ((options.wide || options.reseed) && !options.seeded) {
		fprintf(stderr, "metronome: schedule=wide and reseed=on need seed=N\n");
		return false;
	}
	if (options.folded && !options.symbols) {
		fprintf(stderr, "metronome: folded=FILE needs symbols=FILE\n");
		return false;
	}
	return true;
}
