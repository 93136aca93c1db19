/* Time, the size of runs, and the kernel's debugging files. */
#include "internal.h"

#define TEST_NS    1200000000.0 /* see go_on() */
#define RACEPOINTS "/sys/kernel/mm/faultline/racepoints"
#define FAIL_NTH   "/sys/kernel/mm/faultline/fail_nth"

double scale = 1;
uint64_t test_begun;

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

void sleep_ms(long ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

long rounds(long n)
{
	long r = n * scale, least = n < 3 ? n : 3;

	return r > least ? r : least;
}

bool go_on(long i, long n)
{
	if (test_failed || i >= rounds(n))
		return false;
	if (i < 6 || (i > 64 && i % 16)) /* reading the clock takes time too */
		return true;
	return now_ns() - test_begun < TEST_NS * scale;
}

uint32_t roll(uint32_t *state)
{
	uint32_t x = *state ? *state : 2463534242U;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return *state = x;
}

bool on_faultline(void)
{
	return access("/sys/kernel/mm/faultline", F_OK) == 0;
}

bool rp_arm(const char *name, int ms)
{
	char line[80];

	snprintf(line, sizeof(line), "%s %d\n", name, ms);
	return spit(RACEPOINTS, line);
}

void rp_disarm_all(void)
{
	static const char *const names[] = {
		"anon_insert", "cow",        "cow_copied", "file_copy",
		"file_insert", "fork_flush", "fork_table", "gather_flush",
		"mm_switch",   "mremap_flush", "pt_link",  "truncate",
		"walk_pinned",
	};

	if (access(RACEPOINTS, F_OK) == 0)
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			rp_arm(names[i], 0);
}

bool fail_alloc(long nth)
{
	char line[32];

	snprintf(line, sizeof(line), "%ld\n", nth);
	return spit(FAIL_NTH, line);
}

long fail_alloc_left(void)
{
	char line[32];

	return slurp(FAIL_NTH, line, sizeof(line)) > 0 ? strtol(line, NULL, 10) : -1;
}
