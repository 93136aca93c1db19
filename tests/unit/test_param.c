/* kernel/param.c: splitting a command line, values of each kind, the run-time door. */
#include "tests/unit/unit.h"

#include <errno.h>

#include "kernel/param.h"

static int hook_calls, hook_result;
static long hook_value;

static int hook(long value)
{
	hook_calls++;
	hook_value = value;
	return hook_result;
}

PARAM_ENUM(vm_ptl, "vm.ptl", 0, 2, "mm", "pte", "split", "atomic");
PARAM_ENUM_HOOK(vm_thp, "vm.thp", PARAM_RUNTIME, 1, hook, "never", "madvise", "always");
PARAM_INT(count, "count", 0, 7, -5, 1000);
PARAM_INT(mem, "mem", PARAM_SIZE | PARAM_RUNTIME, 0, 0, INT64_MAX);
PARAM_BOOL(verbose, "verbose", PARAM_RUNTIME, false);
PARAM_STRING(run, "run", 0, 32, "init");
PARAM_STRING(title, "title", PARAM_RUNTIME, 8, "");

static void parse(const char *line)
{
	/* On the heap and exact, so that the sanitizer sees a byte too far. */
	char *copy = strdup(line);

	params_parse(copy);
	free(copy);
}

static const char *value_of(const char *name)
{
	static char buf[64];

	CHECK(param_read(name, buf, sizeof(buf)) >= 0);
	return buf;
}

TEST(defaults)
{
	CHECK_EQ(vm_ptl, 2);
	CHECK_STR(value_of("vm.ptl"), "split");
	CHECK_EQ(count, 7);
	CHECK_STR(run, "init");
	parse("");
	parse("   \t \n");
	CHECK_QUIET();
	CHECK_EQ(vm_ptl, 2);
}

TEST(descriptors_lie_side_by_side)
{
	int n = 0;

	CHECK_EQ((char *)__params_end - (char *)__params_start, 7 * sizeof(struct param));
	params_for_each(p) {
		CHECK(p->name && p->var);
		CHECK(param_find(p->name) == p);
		n++;
	}
	CHECK_EQ(n, 7);
	CHECK(!param_find("nothing"));
	CHECK(!param_find(""));
}

TEST(words_of_every_kind)
{
	parse("vm.ptl=atomic vm.thp=never count=-3 mem=16M verbose=on run=sh");
	CHECK_QUIET();
	CHECK_EQ(vm_ptl, 3);
	CHECK_EQ(vm_thp, 0);
	CHECK_EQ(count, -3);
	CHECK_EQ(mem, 16 << 20);
	CHECK_EQ(verbose, true);
	CHECK_STR(run, "sh");
	CHECK_EQ(hook_calls, 0); /* not for the command line */
}

TEST(later_word_wins)
{
	parse("count=1 count=2");
	CHECK_EQ(count, 2);
	parse("count=3 count=nonsense");
	CHECK_EQ(count, 3);
	CHECK_WARNS(1, "count");
}

TEST(quotes)
{
	parse("run=\"pft -t 1,2\" count=5");
	CHECK_STR(run, "pft -t 1,2");
	CHECK_EQ(count, 5);
	parse("\"run=pft -m 3\" count=6");
	CHECK_STR(run, "pft -m 3");
	CHECK_EQ(count, 6);
	parse("run=\"\"");
	CHECK_STR(run, "");
	parse("run=a\"b c\"d");
	CHECK_STR(run, "ab cd");
	parse("run=x=y=z");
	CHECK_STR(run, "x=y=z");
	CHECK_QUIET();
	parse("run=\"no end count=8");
	CHECK_STR(run, "no end count=8");
	CHECK_EQ(count, 6);
	CHECK_WARNS(1, "no closing quote");
}

TEST(any_blank_separates)
{
	parse("\t count=1\n\n  verbose \r vm.ptl=mm ");
	CHECK_QUIET();
	CHECK_EQ(count, 1);
	CHECK_EQ(verbose, true);
	CHECK_EQ(vm_ptl, 0);
}

TEST(double_dash_ends)
{
	parse("count=1 -- count=2 rubbish");
	CHECK_QUIET();
	CHECK_EQ(count, 1);
	parse("\"--\" count=3"); /* quoted: a word like others */
	CHECK_WARNS(1, "unknown parameter \"--\"");
	CHECK_EQ(count, 3);
	parse("--count=4");
	CHECK_WARNS(1, "unknown parameter \"--count\"");
}

TEST(unknown_and_bad_give_one_line_each)
{
	parse("colour=red");
	CHECK_WARNS(1, "unknown parameter \"colour\"");
	parse("vm.ptl");
	CHECK_WARNS(1, "vm.ptl needs a value");
	parse("vm.ptl=none");
	CHECK_WARNS(1, "\"none\" is not one of mm, pte, split, atomic; it stays split");
	parse("vm.ptl=");
	CHECK_WARNS(1, "vm.ptl");
	parse("count=1001");
	CHECK_WARNS(1, "a number from -5 to 1000; it stays 7");
	parse("count=-6");
	CHECK_WARNS(1, "count");
	parse("count=5x");
	CHECK_WARNS(1, "count");
	parse("count=1K"); /* not a size */
	CHECK_WARNS(1, "count");
	parse("count=-");
	CHECK_WARNS(1, "count");
	parse("count=99999999999999999999999");
	CHECK_WARNS(1, "count");
	parse("count=18446744073709551615"); /* -1, if the sign were lost */
	CHECK_WARNS(1, "count");
	parse("verbose=maybe");
	CHECK_WARNS(1, "on or off");
	parse("run=0123456789012345678901234567890123456789");
	CHECK_WARNS(1, "at most 31 characters");
	parse("=5");
	CHECK_WARNS(1, "unknown");
	parse("one two three");
	CHECK_WARNS(3, "two");
	CHECK_EQ(vm_ptl, 2);
	CHECK_EQ(count, 7);
	CHECK_EQ(verbose, false);
	CHECK_STR(run, "init");
}

TEST(string_of_full_length)
{
	parse("run=0123456789012345678901234567890");
	CHECK_QUIET();
	CHECK_EQ(strlen(run), 31);
}

TEST(booleans)
{
	static const char *const yes[] = { "on", "yes", "true", "1", "y" };
	static const char *const no[] = { "off", "no", "false", "0", "n" };
	char line[32];

	for (int i = 0; i < 5; i++) {
		verbose = false;
		snprintf(line, sizeof(line), "verbose=%s", yes[i]);
		parse(line);
		CHECK(verbose);
		snprintf(line, sizeof(line), "verbose=%s", no[i]);
		parse(line);
		CHECK(!verbose);
	}
	CHECK_QUIET();
}

TEST(sizes)
{
	static const struct {
		const char *text;
		long value;
	} good[] = {
		{ "mem=0", 0 }, { "mem=4k", 4096 }, { "mem=1K", 1024 }, { "mem=3m", 3 << 20 },
		{ "mem=0x10M", 16 << 20 }, { "mem=2G", 2l << 30 }, { "mem=1T", 1l << 40 },
		{ "mem=8388607T", 8388607l << 40 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		parse(good[i].text);
		CHECK_QUIET();
		CHECK_EQ(mem, good[i].value);
	}
	parse("mem=8388608T"); /* 2^63 */
	CHECK_WARNS(1, "mem");
	parse("mem=99999999999999999T"); /* more than 64 bits */
	CHECK_WARNS(1, "mem");
	parse("mem=1KB");
	CHECK_WARNS(1, "mem");
	parse("mem=M");
	CHECK_WARNS(1, "mem");
	CHECK_EQ(mem, 8388607l << 40);
}

TEST(reading)
{
	char buf[4];

	verbose = true;
	count = -5;
	CHECK_STR(value_of("verbose"), "on");
	CHECK_STR(value_of("count"), "-5");
	CHECK_STR(value_of("run"), "init");
	CHECK_EQ(param_read("vm.ptl", buf, sizeof(buf)), 5);
	CHECK_STR(buf, "spl");
	CHECK_EQ(param_read("nothing", buf, sizeof(buf)), -ENOENT);
}

TEST(writing_at_run_time)
{
	CHECK_EQ(param_write("nothing", "1"), -ENOENT);
	CHECK_EQ(param_write("vm.ptl", "mm"), -EPERM);
	CHECK_EQ(vm_ptl, 2);
	CHECK_EQ(param_write("verbose", "1\n"), 0);
	CHECK_EQ(verbose, true);
	CHECK_EQ(param_write("verbose", "1\n\n"), -EINVAL);
	CHECK_EQ(param_write("mem", "64K"), 0);
	CHECK_EQ(mem, 65536);
	CHECK_EQ(param_write("mem", "-1"), -ERANGE);
	CHECK_EQ(param_write("mem", ""), -EINVAL);
	CHECK_EQ(param_write("title", "a b\n"), 0);
	CHECK_STR(title, "a b");
	CHECK_EQ(param_write("title", "12345678"), -ERANGE);
	CHECK_STR(title, "a b");
	CHECK_QUIET();
}

TEST(hook_may_refuse)
{
	CHECK_EQ(param_write("vm.thp", "always"), 0);
	CHECK_EQ(hook_calls, 1);
	CHECK_EQ(hook_value, 2);
	CHECK_EQ(vm_thp, 2);
	hook_result = -EBUSY;
	CHECK_EQ(param_write("vm.thp", "never"), -EBUSY);
	CHECK_EQ(hook_calls, 2);
	CHECK_EQ(vm_thp, 2);
	CHECK_EQ(param_write("vm.thp", "sometimes"), -EINVAL); /* never reaches the hook */
	CHECK_EQ(hook_calls, 2);
}

TEST(oversized_write_is_refused)
{
	char text[1024];

	memset(text, '1', sizeof(text));
	text[sizeof(text) - 1] = 0;
	CHECK_EQ(param_write("mem", text), -EINVAL);
}
