/*
 * Boot parameters, see param.h: reading values, splitting the command line,
 * and the door for /proc/sys.
 *
 * Every change goes the same way: text -> check_value() -> (hook) -> store().
 */
#include "kernel/param.h"

#include <asm/errno.h>

#include "kernel/bootinfo.h"
#include "kernel/printf.h"
#include "kernel/string.h"

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_one_of(const char *text, const char *const *words)
{
	for (; *words; words++) {
		if (!strcmp(text, *words))
			return true;
	}
	return false;
}

static int read_bool(const char *text, long *out)
{
	static const char *const yes[] = { "on", "yes", "true", "1", "y", NULL };
	static const char *const no[] = { "off", "no", "false", "0", "n", NULL };

	if (is_one_of(text, yes))
		*out = 1;
	else if (is_one_of(text, no))
		*out = 0;
	else
		return -EINVAL;
	return 0;
}

static int read_enum(const struct param *p, const char *text, long *out)
{
	for (int i = 0; i < PARAM_MAX_CHOICES && p->choices[i]; i++) {
		if (!strcmp(text, p->choices[i])) {
			*out = i;
			return 0;
		}
	}
	return -EINVAL;
}

/* log2 of what a size suffix multiplies by, or -1. */
static int suffix_shift(char c)
{
	switch (c) {
	case 'K': case 'k': return 10;
	case 'M': case 'm': return 20;
	case 'G': case 'g': return 30;
	case 'T': case 't': return 40;
	}
	return -1;
}

static int read_int(const struct param *p, const char *text, long *out)
{
	bool negative = *text == '-';
	u64 value;
	int err;

	err = parse_u64(text + negative, &text, &value);
	if (err)
		return err;
	if ((p->flags & PARAM_SIZE) && suffix_shift(*text) > 0) {
		if (__builtin_mul_overflow(value, 1ull << suffix_shift(*text), &value))
			return -ERANGE;
		text++;
	}
	if (*text)
		return -EINVAL;
	if (value > INT64_MAX)
		return -ERANGE;
	*out = negative ? -(long)value : (long)value;
	return *out < p->min || *out > p->max ? -ERANGE : 0;
}

/* Is text a value for p? *number is set except for strings. */
static int check_value(const struct param *p, const char *text, long *number)
{
	*number = 0;
	switch (p->kind) {
	case PARAM_KIND_ENUM:
		return read_enum(p, text, number);
	case PARAM_KIND_INT:
		return read_int(p, text, number);
	case PARAM_KIND_BOOL:
		return read_bool(text, number);
	case PARAM_KIND_STRING:
		return strlen(text) < (size_t)p->max ? 0 : -ERANGE;
	}
	return -EINVAL;
}

static void store(const struct param *p, const char *text, long number)
{
	switch (p->kind) {
	case PARAM_KIND_ENUM:
		WRITE_ONCE(*(int *)p->var, (int)number);
		break;
	case PARAM_KIND_INT:
		WRITE_ONCE(*(long *)p->var, number);
		break;
	case PARAM_KIND_BOOL:
		WRITE_ONCE(*(bool *)p->var, number != 0);
		break;
	case PARAM_KIND_STRING:
		str_copy(p->var, text, p->max);
		break;
	}
}

const struct param *param_find(const char *name)
{
	params_for_each(p) {
		if (!strcmp(name, p->name))
			return p;
	}
	return NULL;
}

/* The one line about a bad value: what was wrong, what would be right. */
static void complain(const struct param *p, const char *value)
{
	char want[160] = "", now[64];
	int n = 0;

	param_format(p, now, sizeof(now));
	switch (p->kind) {
	case PARAM_KIND_ENUM:
		for (int i = 0; i < PARAM_MAX_CHOICES && p->choices[i]; i++)
			n += kscnprintf(want + n, sizeof(want) - n, "%s%s", i ? ", " : "one of ",
					p->choices[i]);
		break;
	case PARAM_KIND_INT:
		kscnprintf(want, sizeof(want), "a number from %ld to %ld", p->min, p->max);
		break;
	case PARAM_KIND_BOOL:
		kscnprintf(want, sizeof(want), "on or off");
		break;
	case PARAM_KIND_STRING:
		kscnprintf(want, sizeof(want), "at most %ld characters", p->max - 1);
		break;
	}
	boot_warn("parameter %s: \"%.40s\" is not %s; it stays %s", p->name, value, want, now);
}

/* One word of the command line, quotes already removed. */
static void parse_word(char *word)
{
	char *value = strchr(word, '=');
	const struct param *p;
	long number;

	if (value)
		*value++ = 0;
	p = param_find(word);
	if (!p) {
		boot_warn("unknown parameter \"%.60s\" ignored", word);
		return;
	}
	if (!value && p->kind == PARAM_KIND_BOOL)
		value = "on";
	if (!value) {
		boot_warn("parameter %s needs a value: %s=...", p->name, p->name);
		return;
	}
	if (check_value(p, value, &number))
		complain(p, value);
	else
		store(p, value, number);
}

/*
 * Cut the next word off *cursor and take its quotes out, in place: the word can
 * only shrink. Returns NULL at the end of the line.
 */
static char *next_word(char **cursor, bool *was_quoted)
{
	char *from = *cursor, *to, *word;
	bool quoted = false;

	while (is_blank(*from))
		from++;
	if (!*from)
		return NULL;
	*was_quoted = false;
	for (word = to = from; *from && (quoted || !is_blank(*from)); from++) {
		if (*from == '"') {
			quoted = !quoted;
			*was_quoted = true;
		} else {
			*to++ = *from;
		}
	}
	if (quoted)
		boot_warn("command line: no closing quote after \"%.40s\"", word);
	*cursor = *from ? from + 1 : from;
	*to = 0;
	return word;
}

void params_parse(char *cmdline)
{
	bool quoted;
	char *word;

	while ((word = next_word(&cmdline, &quoted))) {
		if (!quoted && !strcmp(word, "--"))
			return;
		if (*word)
			parse_word(word);
	}
}

int param_format(const struct param *p, char *buf, size_t len)
{
	switch (p->kind) {
	case PARAM_KIND_ENUM:
		return ksnprintf(buf, len, "%s", p->choices[READ_ONCE(*(int *)p->var)]);
	case PARAM_KIND_INT:
		return ksnprintf(buf, len, "%ld", READ_ONCE(*(long *)p->var));
	case PARAM_KIND_BOOL:
		return ksnprintf(buf, len, "%s", READ_ONCE(*(bool *)p->var) ? "on" : "off");
	case PARAM_KIND_STRING:
		return ksnprintf(buf, len, "%s", (const char *)p->var);
	}
	return -EINVAL;
}

int param_read(const char *name, char *buf, size_t len)
{
	const struct param *p = param_find(name);

	return p ? param_format(p, buf, len) : -ENOENT;
}

int param_write(const char *name, const char *value)
{
	const struct param *p = param_find(name);
	char text[256];
	size_t len;
	long number;
	int err;

	if (!p)
		return -ENOENT;
	if (!(p->flags & PARAM_RUNTIME))
		return -EPERM;
	len = str_copy(text, value, sizeof(text));
	if (len >= sizeof(text))
		return -EINVAL;
	if (len && text[len - 1] == '\n')
		text[len - 1] = 0;

	err = check_value(p, text, &number);
	if (err)
		return err;
	if (p->hook) {
		err = p->hook(number);
		if (err)
			return err;
	}
	store(p, text, number);
	return 0;
}
