/* kernel/elf.c: programs that run, and those that must not. */
#include "tests/unit/unit.h"

#include <errno.h>

#include "kernel/elf.h"
#include "tests/unit/build.h"

static struct bytes b;
static struct elf_image out;

static long parse_head(size_t head_len, u64 file_size)
{
	u8 *copy = malloc(head_len ? head_len : 1);
	long got;

	memcpy(copy, b.data, head_len);
	memset(&out, 0xee, sizeof(out));
	got = elf_parse(copy, head_len, file_size, &out);
	free(copy);
	return got;
}

static long parse(void)
{
	return parse_head(b.len, b.len);
}

TEST(typical_static)
{
	elf_typical(&b, ET_EXEC);
	CHECK_EQ(parse(), 0);
	CHECK(!out.pie && !out.has_interp);
	CHECK_EQ(out.entry, 0x401010);
	CHECK_EQ(out.load_start, 0x400000);
	CHECK_EQ(out.load_end, 0x405000);
	CHECK_EQ(out.align, 4096);
	CHECK_EQ(out.phdr_vaddr, 0x400040);
	CHECK_EQ(out.phnum, 5);
	CHECK_EQ(out.phentsize, 56);
	CHECK_EQ(out.stack, ELF_STACK_NOEXEC);
	CHECK_EQ(out.nr_segments, 3);
	CHECK_EQ(out.segments[1].offset, 0x1000);
	CHECK_EQ(out.segments[1].vaddr, 0x401000);
	CHECK_EQ(out.segments[1].flags, PF_R | PF_X);
	CHECK_EQ(out.segments[2].filesz, 0x120);
	CHECK_EQ(out.segments[2].memsz, 0x900);
	CHECK_EQ(out.segments[2].flags, PF_R | PF_W);
}

TEST(typical_pie)
{
	elf_typical(&b, ET_DYN);
	CHECK_EQ(parse(), 0);
	CHECK(out.pie);
	CHECK_EQ(out.entry, 0x1010);
	CHECK_EQ(out.load_start, 0);
	CHECK_EQ(out.load_end, 0x5000);
	CHECK_EQ(out.phdr_vaddr, 0x40);
}

TEST(this_very_program)
{
	FILE *f = fopen("/proc/self/exe", "rb");
	long size;

	CHECK(f);
	b.len = fread(b.data, 1, 4096, f);
	fseek(f, 0, SEEK_END);
	size = ftell(f);
	fclose(f);
	CHECK_EQ(parse_head(b.len, size), 0);
	CHECK(out.pie && out.has_interp);
	CHECK(!strncmp((char *)b.data + out.interp_offset, "/lib64/", 7));
	CHECK_EQ(b.data[out.interp_offset + out.interp_len - 1], 0);
	CHECK_EQ(out.phdr_vaddr, 64);
	CHECK(out.entry > out.load_start && out.entry < out.load_end);
}

TEST(not_an_elf)
{
	elf_typical(&b, ET_EXEC);
	for (int i = 0; i < 4; i++) {
		b.data[i] ^= 0x20;
		CHECK_EQ(parse(), -ENOEXEC);
		b.data[i] ^= 0x20;
	}
	memcpy(b.data, "#!/bin/sh\n", 10);
	CHECK_EQ(parse(), -ENOEXEC);
}

TEST(wrong_kind_of_elf)
{
	elf_typical(&b, ET_EXEC);
	elf_header(&b)->e_ident[EI_CLASS] = ELFCLASS32;
	CHECK_EQ(parse(), -ENOEXEC);
	elf_typical(&b, ET_EXEC);
	elf_header(&b)->e_ident[EI_DATA] = ELFDATA2MSB;
	CHECK_EQ(parse(), -ENOEXEC);
	elf_typical(&b, ET_EXEC);
	elf_header(&b)->e_machine = EM_AARCH64;
	CHECK_EQ(parse(), -ENOEXEC);
	for (int type = 0; type < 6; type++) {
		elf_typical(&b, ET_EXEC);
		elf_header(&b)->e_type = type;
		CHECK_EQ(parse(), type == ET_EXEC || type == ET_DYN ? 0 : -ENOEXEC);
	}
}

TEST(broken_program_headers)
{
	elf_typical(&b, ET_EXEC);
	elf_header(&b)->e_phentsize = 55;
	CHECK_EQ(parse(), -ENOEXEC);
	elf_typical(&b, ET_EXEC);
	elf_header(&b)->e_phnum = 0;
	CHECK_EQ(parse(), -ENOEXEC);
	elf_typical(&b, ET_EXEC);
	elf_header(&b)->e_phnum = 0xffff; /* beyond the file */
	CHECK_EQ(parse(), -ENOEXEC);
	elf_typical(&b, ET_EXEC);
	elf_header(&b)->e_phoff = UINT64_MAX - 100; /* wraps */
	CHECK_EQ(parse(), -ENOEXEC);
	elf_header(&b)->e_phoff = b.len - 5 * 56 + 1;
	CHECK_EQ(parse(), -ENOEXEC);
}

TEST(short_heads_ask_for_more)
{
	elf_typical(&b, ET_EXEC);
	CHECK_EQ(parse_head(0, 63), -ENOEXEC);
	CHECK_EQ(parse_head(0, b.len), 64);
	CHECK_EQ(parse_head(63, b.len), 64);
	CHECK_EQ(parse_head(64, b.len), 64 + 5 * 56);
	CHECK_EQ(parse_head(64 + 5 * 56 - 1, b.len), 64 + 5 * 56);
	CHECK_EQ(parse_head(64 + 5 * 56, b.len), 0);
}

TEST(program_headers_elsewhere)
{
	Elf64_Phdr copy[5];

	elf_typical(&b, ET_EXEC);
	memcpy(copy, elf_phdr(&b, 0), sizeof(copy));
	put_zero(&b, 40000);
	elf_header(&b)->e_phoff = b.len;
	put_raw(&b, copy, sizeof(copy));
	CHECK_EQ(parse_head(4096, b.len), b.len);
	CHECK_EQ(parse(), 0);
	CHECK_EQ(out.phdr_vaddr, 0); /* in no segment */
	put_zero(&b, 40000);
	elf_header(&b)->e_phoff = b.len;
	put_raw(&b, copy, sizeof(copy));
	CHECK_EQ(parse(), -ENOEXEC); /* ends beyond 64 KB */
}

TEST(no_segment_to_load)
{
	elf_begin(&b, ET_EXEC, 0x400000);
	elf_add(&b, PT_NOTE, PF_R, 0, 0x400000, 0x40, 0x40);
	CHECK_EQ(parse(), -ENOEXEC);
	elf_begin(&b, ET_EXEC, 0x400000);
	elf_add(&b, PT_LOAD, PF_R, 0, 0x400000, 0, 0); /* nothing in it */
	CHECK_EQ(parse(), -ENOEXEC);
}

static long parse_segment(u16 type, u64 offset, u64 vaddr, u64 filesz, u64 memsz)
{
	elf_begin(&b, type, 0x400000);
	elf_add(&b, PT_LOAD, PF_R | PF_X, offset, vaddr, filesz, memsz);
	return parse();
}

TEST(segment_sizes_and_addresses)
{
	u64 top = ELF_USER_LIMIT;

	CHECK_EQ(parse_segment(ET_EXEC, 0, 0x400000, 0x1001, 0x1000), -EINVAL);
	CHECK_EQ(parse_segment(ET_EXEC, 0, 0x400000, 0x1000, 0x1000), 0);
	CHECK_EQ(parse_segment(ET_EXEC, 0, top - 0x1000, 0x1000, 0x1000), 0);
	CHECK_EQ(out.load_end, top);
	CHECK_EQ(parse_segment(ET_EXEC, 0, top - 0x1000, 0x1000, 0x1001), -EINVAL);
	CHECK_EQ(parse_segment(ET_EXEC, 0, top, 0, 1), -EINVAL);
	CHECK_EQ(parse_segment(ET_EXEC, 0, top, 0, 0), -EINVAL);
	CHECK_EQ(parse_segment(ET_EXEC, 0, 0xffffffff80000000, 1, 1), -EINVAL);
	CHECK_EQ(parse_segment(ET_EXEC, 0, 0x1000, 0, UINT64_MAX), -EINVAL);
	CHECK_EQ(parse_segment(ET_EXEC, 0, 0x1000, 0, UINT64_MAX - 0x1000 + 1), -EINVAL);
	CHECK_EQ(parse_segment(ET_DYN, 0, 0, 1, top), 0);
	CHECK_EQ(parse_segment(ET_DYN, 0, 0, 1, top + 1), -EINVAL);
	CHECK_EQ(parse_segment(ET_EXEC, 0, 0, 1, 1), 0); /* page 0: whether it may be mapped is policy */
}

TEST(offset_and_address_must_agree)
{
	CHECK_EQ(parse_segment(ET_EXEC, 0x10, 0x400000, 1, 1), -EINVAL);
	CHECK_EQ(parse_segment(ET_EXEC, 0x10, 0x400010, 1, 1), 0);
	CHECK_EQ(parse_segment(ET_EXEC, 0x123, 0x400000, 0, 0x1000), 0); /* pure bss: no matter */
}

TEST(segment_may_reach_past_the_file)
{
	/* As Linux: mapped, and SIGBUS when touched. */
	CHECK_EQ(parse_segment(ET_EXEC, 0x100000, 0x400000, 0x1000, 0x1000), 0);
	CHECK_EQ(parse_segment(ET_EXEC, UINT64_MAX - 0xfff, 0x400000, 0x1000, 0x1000), -EINVAL);
	CHECK_EQ(parse_segment(ET_EXEC, UINT64_MAX - 0xfff, 0x400000, 0x800, 0x800), -EINVAL);
	CHECK_EQ(parse_segment(ET_EXEC, 1ull << 63, 0x400000, 0x800, 0x800), -EINVAL);
}

TEST(entry_beyond_user_space)
{
	elf_typical(&b, ET_EXEC);
	elf_header(&b)->e_entry = ELF_USER_LIMIT - 1;
	CHECK_EQ(parse(), 0);
	elf_header(&b)->e_entry = ELF_USER_LIMIT;
	CHECK_EQ(parse(), -EINVAL);
	elf_header(&b)->e_entry = 0xffff800000000000; /* IRET or SYSRET would fault in the kernel */
	CHECK_EQ(parse(), -EINVAL);
}

TEST(number_of_segments)
{
	elf_begin(&b, ET_EXEC, 0x400000);
	for (int i = 0; i < ELF_MAX_SEGMENTS; i++)
		elf_add(&b, PT_LOAD, PF_R, 0, 0x400000 + i * 0x1000, 0x10, 0x10);
	CHECK_EQ(parse(), 0);
	CHECK_EQ(out.nr_segments, ELF_MAX_SEGMENTS);
	elf_add(&b, PT_NULL, 0, 0, 0, 0, 0);
	CHECK_EQ(parse(), 0);
	elf_add(&b, PT_LOAD, PF_R, 0, 0x800000, 0x10, 0x10);
	CHECK_EQ(parse(), -ENOEXEC);
}

TEST(order_does_not_matter)
{
	elf_begin(&b, ET_EXEC, 0x400000);
	elf_add(&b, PT_LOAD, PF_R, 0, 0x600000, 0x10, 0x1001);
	elf_add(&b, PT_LOAD, PF_R, 0, 0x400000, 0x10, 0x10);
	CHECK_EQ(parse(), 0);
	CHECK_EQ(out.load_start, 0x400000);
	CHECK_EQ(out.load_end, 0x602000);
	CHECK_EQ(out.segments[0].vaddr, 0x600000);
}

TEST(alignment)
{
	static const struct {
		u64 align, want;
	} cases[] = { { 0, 4096 }, { 1, 4096 }, { 0x1000, 4096 }, { 0x200000, 0x200000 },
		      { 0x3000, 4096 }, { UINT64_MAX, 4096 }, { 1ull << 63, 1ull << 63 } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		elf_typical(&b, ET_DYN);
		elf_phdr(&b, 1)->p_align = cases[i].align;
		CHECK_EQ(parse(), 0);
		CHECK_EQ(out.align, cases[i].want);
	}
}

TEST(stack_flags)
{
	elf_typical(&b, ET_EXEC);
	elf_phdr(&b, 4)->p_flags |= PF_X;
	parse();
	CHECK_EQ(out.stack, ELF_STACK_EXEC);
	elf_phdr(&b, 4)->p_type = PT_NULL;
	parse();
	CHECK_EQ(out.stack, ELF_STACK_DEFAULT);
}

static long parse_interp(u64 offset, u64 size, u64 head_len)
{
	elf_begin(&b, ET_DYN, 0);
	elf_add(&b, PT_INTERP, PF_R, offset, offset, size, size);
	elf_add(&b, PT_LOAD, PF_R, 0, 0, 0x200, 0x200);
	put_zero(&b, 0x200 - b.len);
	memcpy(b.data + 0x100, "/lib/ld.so", 11);
	put_zero(&b, 0x2000);
	return parse_head(head_len, b.len);
}

TEST(interpreter)
{
	CHECK_EQ(parse_interp(0x100, 11, 0x1000), 0);
	CHECK(out.has_interp);
	CHECK_EQ(out.interp_offset, 0x100);
	CHECK_EQ(out.interp_len, 11);
	CHECK_EQ(parse_interp(0x100, 10, 0x1000), -ENOEXEC);   /* no closing zero */
	CHECK_EQ(parse_interp(0x100, 10, 0x105), 0);           /* ... which is not seen yet */
	CHECK_EQ(parse_interp(0x100, 1, 0x1000), -ENOEXEC);
	CHECK_EQ(parse_interp(0x100, 0, 0x1000), -ENOEXEC);
	CHECK_EQ(parse_interp(0x200, 4096, 0x1000), 0);
	CHECK_EQ(parse_interp(0x200, 4097, 0x1000), -ENOEXEC);
	CHECK_EQ(parse_interp(0x2200 - 10, 11, 0x1000), -ENOEXEC); /* beyond the file */
	CHECK_EQ(parse_interp(UINT64_MAX - 5, 11, 0x1000), -ENOEXEC);
}

TEST(first_interpreter_counts)
{
	elf_begin(&b, ET_DYN, 0);
	elf_add(&b, PT_INTERP, PF_R, 0x200, 0x200, 4, 4);
	elf_add(&b, PT_INTERP, PF_R, 0x300, 0x300, 5, 5);
	elf_add(&b, PT_LOAD, PF_R, 0, 0, 0x200, 0x200);
	put_zero(&b, 0x400 - b.len);
	CHECK_EQ(parse(), 0);
	CHECK_EQ(out.interp_offset, 0x200);
}

TEST(headers_half_inside_a_segment_are_not_mapped)
{
	elf_typical(&b, ET_EXEC);
	elf_phdr(&b, 0)->p_filesz = 64 + 5 * 56 - 1;
	CHECK_EQ(parse(), 0);
	CHECK_EQ(out.phdr_vaddr, 0);
	elf_phdr(&b, 0)->p_filesz = 64 + 5 * 56;
	CHECK_EQ(parse(), 0);
	CHECK_EQ(out.phdr_vaddr, 0x400040);
	/* A segment smaller than the headers must not wrap the comparison. */
	elf_phdr(&b, 0)->p_filesz = 8;
	CHECK_EQ(parse(), 0);
	CHECK_EQ(out.phdr_vaddr, 0);
}

TEST(every_truncation)
{
	elf_typical(&b, ET_EXEC);
	for (size_t len = 0; len < 64 + 5 * 56; len++) {
		CHECK_EQ(parse_head(len, len), -ENOEXEC);
		CHECK(parse_head(len, b.len) > (long)len);
	}
}
