/*
 * What exec reads: the program's file, the interpreters that scripts lead to, the
 * dynamic loader; and the strings that the new program gets.
 */
#include <asm/errno.h>
#include <linux/fcntl.h>

#include "kernel/exec.h"
#include "kernel/process.h"
#include "kernel/string.h"
#include "mm/mapping.h"
#include "mm/mm.h"
#include "mm/slab.h"

#define SCRIPT_LINE_MAX 256 /* BINPRM_BUF_SIZE: what is looked at of "#!..." */

/* --- reading files ----------------------------------------------------------------- */

int open_program(const char *path, struct file **out)
{
	int err = 0;
	struct file *f = file_open(path, O_RDONLY, 0, &err);

	if (!f)
		return err;
	if (!file_executable(f) || !file_mapping(f)) {
		file_put(f);
		return -EACCES;
	}
	err = file_deny_write(f);
	if (err) {
		file_put(f);
		return err;
	}
	*out = f;
	return 0;
}

/* Up to max first bytes of a file, in a new buffer. */
static long read_head(struct file *f, size_t max, u8 **out)
{
	struct mapping *m = file_mapping(f);
	size_t n = MIN(READ_ONCE(m->size), max);
	u8 *buf = kzalloc(MAX(n, 1UL));
	long got;

	if (!buf)
		return -ENOMEM;
	got = mapping_read_kernel(m, 0, buf, n);
	if (got < 0)
		kfree(buf);
	else
		*out = buf;
	return got;
}

/* Headers of a program; a large program header table takes a second look. */
static int read_image(struct file *f, struct elf_image **out)
{
	struct elf_image *image = kmalloc(sizeof(*image));
	long need = PAGE_SIZE, got;
	u8 *head;

	if (!image)
		return -ENOMEM;
	do {
		got = read_head(f, (size_t)need, &head);
		if (got < 0) {
			need = got;
			break;
		}
		need = elf_parse(head, (size_t)got, READ_ONCE(file_mapping(f)->size), image);
		kfree(head);
	} while (need > got);
	if (need) {
		kfree(image);
		return need < 0 ? (int)need : -ENOEXEC;
	}
	*out = image;
	return 0;
}

char *copy_string(const char *s, size_t len)
{
	char *to = kmalloc(len + 1);

	if (to) {
		memcpy(to, s, len);
		to[len] = 0;
	}
	return to;
}

static int push_prefix(struct exec *x, char *s)
{
	if (!s)
		return -ENOMEM;
	x->prefix[x->nr_prefix++] = s;
	return 0;
}

static bool blank(char c)
{
	return c == ' ' || c == '\t';
}

/*
 * "#!interpreter [one argument]": the interpreter becomes the program, with
 * the argument and the script's path before the arguments. 1: not a script.
 */
static int follow_script(struct exec *x)
{
	char line[SCRIPT_LINE_MAX + 1], *p = line + 2, *end, *arg = NULL, *arg_end = NULL;
	long n = mapping_read_kernel(file_mapping(x->file), 0, line, SCRIPT_LINE_MAX);
	struct file *next;
	bool cut;
	int err;

	if (n < 2 || line[0] != '#' || line[1] != '!')
		return n < 0 ? (int)n : 1;
	line[n] = 0;
	end = strchr(line, '\n');
	cut = !end && n == SCRIPT_LINE_MAX;
	if (!end)
		end = line + strlen(line);
	while (end > p && blank(end[-1]))
		end--;
	*end = 0;
	while (blank(*p))
		p++;
	if (!*p)
		return -ENOEXEC;
	for (end = p; *end && !blank(*end); end++)
		;
	if (!*end && cut)
		return -ENOEXEC; /* the interpreter's own name is cut */
	if (*end) {
		*end = 0;
		for (arg = end + 1; blank(*arg); arg++)
			;
		arg_end = arg + strlen(arg);
	}
	/*
	 * The script's path takes the place of argv[0], as the interpreter's does in a nested
	 * one.
	 */
	if (!x->nr_prefix) {
		err = push_prefix(x, copy_string(x->name, strlen(x->name)));
		if (err)
			return err;
	}
	if (arg && *arg) {
		err = push_prefix(x, copy_string(arg, (size_t)(arg_end - arg)));
		if (err)
			return err;
	}
	err = push_prefix(x, copy_string(p, strlen(p)));
	if (!err)
		err = open_program(p, &next);
	if (err)
		return err;
	file_put(x->file);
	x->file = next;
	return 0;
}

int find_program(struct exec *x)
{
	char *path;
	int err;

	for (int depth = 0;; depth++) {
		err = follow_script(x);
		if (err)
			break;
		if (depth == SCRIPT_DEPTH)
			return -ELOOP;
	}
	if (err < 0)
		return err;
	err = read_image(x->file, &x->image);
	if (err || !x->image->has_interp)
		return err;
	path = kzalloc(x->image->interp_len + 1);
	if (!path)
		return -ENOMEM;
	err = mapping_read_kernel(file_mapping(x->file), x->image->interp_offset, path,
				  x->image->interp_len) == (long)x->image->interp_len ?
		      open_program(path, &x->loader) : -ENOEXEC;
	kfree(path);
	if (err)
		return err;
	err = read_image(x->loader, &x->loader_image);
	return err == -ENOEXEC || (!err && x->loader_image->has_interp) ? -ELIBBAD : err;
}

/* --- arguments ----------------------------------------------------------------------------- */

static int add_kernel_vector(struct strings *s, const char *const *v, u64 *left)
{
	for (; *v; v++) {
		int err = strings_add_kernel(s, *v, *left);

		if (err)
			return err;
	}
	return 0;
}

int gather_strings(struct exec *x)
{
	u64 left = exec_arg_limit();
	int err = strings_add_kernel(&x->execfn, x->name, left);

	for (u32 i = x->nr_prefix; i-- && !err;) {
		u64 before = x->args.bytes;

		err = strings_add_kernel(&x->args, x->prefix[i], left);
		left -= MIN(left, x->args.bytes - before + 8);
	}
	if (err)
		return err;
	if (x->kargv)
		err = add_kernel_vector(&x->args, x->kargv + (x->nr_prefix ? 1 : 0), &left);
	else
		err = strings_add_vector(&x->args, x->uargv, x->nr_prefix ? 1 : 0, &left);
	/* A program always has a name, even if the caller gives none. */
	if (!err && !x->args.count)
		err = strings_add_kernel(&x->args, "", left);
	if (err)
		return err;
	return x->kenvp ? add_kernel_vector(&x->envs, x->kenvp, &left) :
			  strings_add_vector(&x->envs, x->uenvp, 0, &left);
}
