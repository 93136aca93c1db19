/*
 * Reading an ELF program's headers. Pure: it sees the first bytes of the file
 * and the file's size, checks everything that can be checked without mapping,
 * and hands back what to map. The loader (exec) believes its result.
 *
 * Source: System V ABI, chapters 4 and 5; x86-64 psABI; the errors are those of
 * Linux's binfmt_elf.
 */
#ifndef KERNEL_ELF_H
#define KERNEL_ELF_H

#include "kernel/types.h"

#define ELF_MAX_SEGMENTS 64
#define ELF_MAX_HEAD     65536           /* program headers must end within it */
#define ELF_USER_LIMIT   0x7ffffffff000UL /* first address user code cannot have */
#define ELF_MAX_INTERP   4096            /* PATH_MAX, zero byte included */

/*
 * One PT_LOAD, in the file's order: usually that of the addresses, but Linux
 * accepts any, and where two share a page the later one wins.
 */
struct elf_segment {
	u64 offset; /* in the file; congruent to vaddr modulo 4096 if filesz > 0 */
	u64 vaddr;  /* ET_DYN: relative to the load bias */
	u64 filesz; /* bytes from the file, <= memsz; may reach past the file's end */
	u64 memsz;  /* > 0; the rest is zero */
	u32 flags;  /* PF_R 4, PF_W 2, PF_X 1 */
};

enum elf_stack { ELF_STACK_DEFAULT, ELF_STACK_NOEXEC, ELF_STACK_EXEC };

struct elf_image {
	bool pie;        /* ET_DYN: choose a bias, a multiple of `align` */
	u64 entry;       /* without the bias; below ELF_USER_LIMIT, not necessarily mapped */
	u64 load_start;  /* lowest page of all segments, without the bias */
	u64 load_end;    /* end of the highest page */
	u64 align;       /* largest p_align of a PT_LOAD, power of two, >= 4096 */
	u64 phdr_vaddr;  /* program headers in memory (AT_PHDR), without bias; 0: not mapped */
	u16 phnum;       /* AT_PHNUM */
	u16 phentsize;   /* AT_PHENT */
	enum elf_stack stack; /* PT_GNU_STACK */
	bool has_interp;
	u64 interp_offset, interp_len; /* of the path in the file, zero byte included */
	u32 nr_segments; /* at least 1 */
	struct elf_segment segments[ELF_MAX_SEGMENTS];
};

/*
 * Check and read the headers of a program. head: the first head_len bytes of a
 * file that has file_size bytes; give at least MIN(file_size, 4096).
 *
 * Returns
 *   0         *out is filled
 *   > 0       so many bytes of the file are needed as head (more than head_len,
 *             at most file_size and ELF_MAX_HEAD): read them and call again
 *   -ENOEXEC  not an x86-64 ELF program, or its headers are broken
 *   -EINVAL   a segment that cannot be mapped: file size above memory size,
 *             address overflow or beyond the user limit, offset and address
 *             not congruent; or an entry point beyond the user limit
 * Never keeps a pointer into head.
 */
long elf_parse(const void *head, size_t head_len, u64 file_size, struct elf_image *out);

#endif
