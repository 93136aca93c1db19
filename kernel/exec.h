/*
 * Between exec.c (the call, the point of no return), execfile.c (files, scripts, strings)
 * and execmem.c (the new address space).
 */
#ifndef KERNEL_EXEC_H
#define KERNEL_EXEC_H

#include "kernel/elf.h"
#include "kernel/execargs.h"
#include "kernel/file.h"
#include "kernel/task.h"

#define SCRIPT_DEPTH 5

/* One exec under way; own task only. */
struct exec {
	struct file *file;     /* the program, after scripts */
	char *name;            /* the path asked for: AT_EXECFN */
	/* What scripts put before the arguments, innermost first. */
	char *prefix[2 * SCRIPT_DEPTH + 3];
	u32 nr_prefix;
	vaddr_t uargv, uenvp;
	const char *const *kargv, *const *kenvp;
	struct strings args, envs, execfn;
	struct elf_image *image, *loader_image;
	struct file *loader;
	u64 bias, loader_bias;
	struct mm *mm;
	vaddr_t stack_pointer, entry;
	char comm[TASK_COMM];
};

/* The file behind a path, ready to be executed: *out with a reference. 0 or -errno. */
int open_program(const char *path, struct file **out);
/* From the file asked for (x->file) to the ELF program that runs, and its loader. 0 or -errno. */
int find_program(struct exec *x);
/* Copy arguments and environment, with what scripts put before. 0 or -errno. */
int gather_strings(struct exec *x);
/* Build x->mm: program, loader, filled stack; sets entry and stack_pointer. 0 or -errno. */
int build_memory(struct exec *x);
/* A copy of len characters as a string; NULL if out of memory. */
char *copy_string(const char *s, size_t len);

#endif
