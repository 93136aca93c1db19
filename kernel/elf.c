/*
 * ELF headers to a list of what to map, see elf.h. Three passes over the same
 * few bytes: the file header, where the program headers are, each of them.
 */
#include "kernel/elf.h"

#include <asm/errno.h>
#include <linux/elf.h>

#include "kernel/string.h"

#define PAGE_BYTES 4096ull

static int check_file_header(const Elf64_Ehdr *eh)
{
	if (memcmp(eh->e_ident, ELFMAG, SELFMAG))
		return -ENOEXEC;
	if (eh->e_ident[EI_CLASS] != ELFCLASS64 || eh->e_ident[EI_DATA] != ELFDATA2LSB)
		return -ENOEXEC;
	if (eh->e_type != ET_EXEC && eh->e_type != ET_DYN)
		return -ENOEXEC;
	if (eh->e_machine != EM_X86_64)
		return -ENOEXEC;
	if (eh->e_phentsize != sizeof(Elf64_Phdr) || eh->e_phnum < 1)
		return -ENOEXEC;
	if (eh->e_entry >= ELF_USER_LIMIT)
		return -EINVAL;
	return 0;
}

static int add_load(struct elf_image *out, const Elf64_Ehdr *eh, const Elf64_Phdr *ph)
{
	u64 phdr_bytes = eh->e_phnum * sizeof(Elf64_Phdr);
	u64 end;

	if (ph->p_filesz > ph->p_memsz)
		return -EINVAL;
	if (ph->p_vaddr >= ELF_USER_LIMIT || ph->p_memsz > ELF_USER_LIMIT - ph->p_vaddr)
		return -EINVAL;
	if (ph->p_memsz == 0)
		return 0;
	if (ph->p_filesz && (ph->p_offset ^ ph->p_vaddr) % PAGE_BYTES)
		return -EINVAL;
	if (__builtin_add_overflow(ph->p_offset, ph->p_filesz, &end) || end > INT64_MAX)
		return -EINVAL;
	if (out->nr_segments >= ELF_MAX_SEGMENTS)
		return -ENOEXEC;

	out->segments[out->nr_segments++] = (struct elf_segment){
		.offset = ph->p_offset,
		.vaddr = ph->p_vaddr,
		.filesz = ph->p_filesz,
		.memsz = ph->p_memsz,
		.flags = ph->p_flags & (PF_R | PF_W | PF_X),
	};
	out->load_start = MIN(out->load_start, ALIGN_DOWN((u64)ph->p_vaddr, PAGE_BYTES));
	out->load_end = MAX(out->load_end, ALIGN_UP(ph->p_vaddr + ph->p_memsz, PAGE_BYTES));
	/* As Linux: an alignment that is no power of two counts as none. */
	if (ph->p_align > out->align &&
	    (ph->p_align & (ph->p_align - 1)) == 0)
		out->align = ph->p_align;
	if (!out->phdr_vaddr && eh->e_phoff >= ph->p_offset && end - phdr_bytes >= eh->e_phoff &&
	    end >= phdr_bytes)
		out->phdr_vaddr = eh->e_phoff - ph->p_offset + ph->p_vaddr;
	return 0;
}

static int add_interp(struct elf_image *out, const Elf64_Phdr *ph, const u8 *head, size_t head_len,
		      u64 file_size)
{
	if (out->has_interp) /* the first one counts */
		return 0;
	if (ph->p_filesz > ELF_MAX_INTERP || ph->p_filesz < 2)
		return -ENOEXEC;
	if (ph->p_offset > file_size || ph->p_filesz > file_size - ph->p_offset)
		return -ENOEXEC;
	/* If the head does not reach so far, the loader sees the missing zero when it reads. */
	if (ph->p_offset + ph->p_filesz <= head_len && head[ph->p_offset + ph->p_filesz - 1])
		return -ENOEXEC;
	out->has_interp = true;
	out->interp_offset = ph->p_offset;
	out->interp_len = ph->p_filesz;
	return 0;
}

long elf_parse(const void *head, size_t head_len, u64 file_size, struct elf_image *out)
{
	Elf64_Ehdr eh;
	u64 phdr_bytes, phdr_end;
	int err;

	if (file_size < sizeof(eh))
		return -ENOEXEC;
	if (head_len < sizeof(eh))
		return sizeof(eh);
	memcpy(&eh, head, sizeof(eh));
	err = check_file_header(&eh);
	if (err)
		return err;

	phdr_bytes = eh.e_phnum * sizeof(Elf64_Phdr);
	if (__builtin_add_overflow(eh.e_phoff, phdr_bytes, &phdr_end) || phdr_end > file_size ||
	    phdr_end > ELF_MAX_HEAD)
		return -ENOEXEC;
	if (phdr_end > head_len)
		return phdr_end;

	memset(out, 0, sizeof(*out));
	out->pie = eh.e_type == ET_DYN;
	out->entry = eh.e_entry;
	out->load_start = UINT64_MAX;
	out->align = PAGE_BYTES;
	out->phnum = eh.e_phnum;
	out->phentsize = eh.e_phentsize;

	for (u32 i = 0; i < eh.e_phnum; i++) {
		Elf64_Phdr ph;

		memcpy(&ph, (const u8 *)head + eh.e_phoff + i * sizeof(ph), sizeof(ph));
		err = 0;
		if (ph.p_type == PT_LOAD)
			err = add_load(out, &eh, &ph);
		else if (ph.p_type == PT_INTERP)
			err = add_interp(out, &ph, head, head_len, file_size);
		else if (ph.p_type == PT_GNU_STACK)
			out->stack = ph.p_flags & PF_X ? ELF_STACK_EXEC : ELF_STACK_NOEXEC;
		if (err)
			return err;
	}
	return out->nr_segments ? 0 : -ENOEXEC;
}
