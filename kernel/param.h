/*
 * Boot parameters: `name=value` words of the command line that set variables,
 * each declared once, beside the code that it steers:
 *
 *	PARAM_ENUM(vm_ptl, "vm.ptl", 0, 2, "mm", "pte", "split", "atomic");
 *
 * defines `int vm_ptl = 2` and a descriptor that the linker collects with all
 * others. A header that other files include declares `extern int vm_ptl;`.
 *
 * Locking: none. params_parse() runs on the boot CPU before the others start.
 * Later writes (only to those with PARAM_RUNTIME) are single aligned stores;
 * readers that care use READ_ONCE(). A change that needs more than a store
 * gives a hook, which does its own locking.
 */
#ifndef KERNEL_PARAM_H
#define KERNEL_PARAM_H

#include "kernel/types.h"

#define PARAM_RUNTIME (1u << 0) /* param_write() may change it after boot */
#define PARAM_SIZE    (1u << 1) /* an int in bytes: K, M, G, T suffixes are accepted */
#define PARAM_HIDDEN  (1u << 2) /* not shown under /proc/sys */

#define PARAM_MAX_CHOICES 8

enum param_kind { PARAM_KIND_ENUM, PARAM_KIND_INT, PARAM_KIND_BOOL, PARAM_KIND_STRING };

struct param {
	const char *name;
	void *var; /* ENUM: int; INT: long; BOOL: bool; STRING: char[size] */
	enum param_kind kind;
	u32 flags;
	long min, max;   /* INT: allowed values; STRING: max = size of the array */
	int (*hook)(long value); /* INT, ENUM, BOOL; may be NULL: see PARAM_*_HOOK */
	const char *choices[PARAM_MAX_CHOICES]; /* ENUM: names of 0, 1, ...; NULL ends them */
};

/*
 * The kernel's linker script places ".params" between __params_start and
 * __params_end. A hosted build (unit tests) uses a section whose name is a C
 * identifier, for which the linker makes the two symbols itself.
 */
#if __STDC_HOSTED__
#define PARAM_SECTION  "params"
#define __params_start __start_params
#define __params_end   __stop_params
extern const struct param __params_start[] __attribute__((weak));
extern const struct param __params_end[] __attribute__((weak));
#else
#define PARAM_SECTION ".params"
extern const struct param __params_start[], __params_end[];
#endif

/* aligned(8) exactly: a larger alignment chosen by the compiler would tear holes into the array. */
#define PARAM_DESCRIPTOR(ident) \
	static const struct param param_##ident \
		__attribute__((used, section(PARAM_SECTION), aligned(8)))

static_assert(sizeof(struct param) % 8 == 0, "descriptors lie side by side");

/*
 * A hook is called by param_write() with the new value, already checked, before
 * it is stored: 0 lets the store happen, a negative errno is what the writer
 * gets. It is not called for the command line.
 */
#define PARAM_ENUM_HOOK(ident, name_, flags_, default_, hook_, ...) \
	int ident = (default_); \
	PARAM_DESCRIPTOR(ident) = { .name = (name_), .var = &ident, .kind = PARAM_KIND_ENUM, \
		.flags = (flags_), .hook = (hook_), .choices = { __VA_ARGS__ } }

#define PARAM_INT_HOOK(ident, name_, flags_, default_, min_, max_, hook_) \
	long ident = (default_); \
	PARAM_DESCRIPTOR(ident) = { .name = (name_), .var = &ident, .kind = PARAM_KIND_INT, \
		.flags = (flags_), .min = (min_), .max = (max_), .hook = (hook_) }

#define PARAM_BOOL_HOOK(ident, name_, flags_, default_, hook_) \
	bool ident = (default_); \
	PARAM_DESCRIPTOR(ident) = { .name = (name_), .var = &ident, .kind = PARAM_KIND_BOOL, \
		.flags = (flags_), .hook = (hook_) }

/* One of several words; the variable holds the word's index. */
#define PARAM_ENUM(ident, name, flags, default_index, ...) \
	PARAM_ENUM_HOOK(ident, name, flags, default_index, NULL, __VA_ARGS__)

/* A number in [min, max]. */
#define PARAM_INT(ident, name, flags, default_value, min, max) \
	PARAM_INT_HOOK(ident, name, flags, default_value, min, max, NULL)

/* on/off, yes/no, true/false, 1/0, y/n; the name alone means on. */
#define PARAM_BOOL(ident, name, flags, default_value) \
	PARAM_BOOL_HOOK(ident, name, flags, default_value, NULL)

/* Text of at most size - 1 bytes; a longer one is refused. */
#define PARAM_STRING(ident, name_, flags_, size_, default_text) \
	char ident[size_] = default_text; \
	PARAM_DESCRIPTOR(ident) = { .name = (name_), .var = ident, .kind = PARAM_KIND_STRING, \
		.flags = (flags_), .max = (size_) }

/*
 * Set parameters from a command line: words separated by blanks, each
 * `name=value` or `name`. Double quotes keep blanks together, around a value
 * (run="pft -t 2") or a whole word ("run=pft -t 2"). A later word overrides an
 * earlier one. A bare `--` ends it. An unknown name or a bad value gives one line
 * (boot_warn) and changes nothing. Writes into cmdline while it splits.
 */
void params_parse(char *cmdline);

/* Find one by its name, or NULL. */
const struct param *param_find(const char *name);

/* Every descriptor in link order. */
#define params_for_each(p) for (const struct param *p = __params_start; p < __params_end; p++)

/*
 * The current value as text, zero-terminated, without a newline. Returns the
 * length (that the text would have, if it is >= len); -ENOENT.
 */
int param_format(const struct param *p, char *buf, size_t len);
int param_read(const char *name, char *buf, size_t len);

/*
 * Change a value at run time; one closing newline is ignored.
 * Returns 0; -ENOENT unknown; -EPERM not changeable after boot; -EINVAL not a
 * value; -ERANGE out of [min, max]; or the hook's error.
 */
int param_write(const char *name, const char *value);

#endif
