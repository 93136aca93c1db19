/*
 * The address space of a new program, from the top:
 *
 *	STACK_TOP     strings, auxiliary vector, pointers, argc   <- stack pointer
 *	              stack, growing down
 *	mmap_base     the dynamic loader, if there is one; mmap
 *	0x5555_5555_4000   position-independent programs; heap behind the program
 */
#include <asm/errno.h>
#include <linux/auxvec.h>
#include <linux/elf.h>
#include <linux/mman.h>

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/task.h"
#include "kernel/exec.h"
#include "kernel/param.h"
#include "kernel/process.h"
#include "kernel/string.h"
#include "mm/mm.h"

PARAM_BOOL(vm_aslr, "vm.aslr", PARAM_RUNTIME, false);

#define PIE_BASE        0x555555554000UL
#define STACK_TOP       (USER_END - 16 * PAGE_SIZE) /* leaves room for tests of the limit */
#define STACK_EXTRA     (128 * KB) /* mapped below the strings from the start */

#define AT_MINSIGSTKSZ_ 51

/* --- the new address space -------------------- */

static u32 prot_of(u32 flags)
{
	return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) |
	       (flags & PF_X ? PROT_EXEC : 0);
}

/* Clear [at, end of its page) of a segment that can be written. */
static int clear_tail(struct mm *mm, vaddr_t at)
{
	u64 n = ALIGN_UP(at, PAGE_SIZE) - at;

	if (!n)
		return 0;
	return mm_access(mm, at, page_address(zero_page), n, true, false) == (long)n ? 0 : -EFAULT;
}

/* Map one segment: what the file has, and zeros behind it. */
static int map_segment(struct mm *mm, struct file *f, const struct elf_segment *s, u64 bias)
{
	u64 start = ALIGN_DOWN(s->vaddr + bias, PAGE_SIZE);
	u64 file_end = s->vaddr + bias + s->filesz, end = s->vaddr + bias + s->memsz;
	u64 mapped = start;
	long ret;

	if (s->filesz) {
		mapped = ALIGN_UP(file_end, PAGE_SIZE);
		ret = mm_map(mm, start, mapped - start, prot_of(s->flags),
			     MAP_PRIVATE | MAP_FIXED, f, ALIGN_DOWN(s->offset, PAGE_SIZE));
		if (ret < 0)
			return (int)ret;
		if (end > file_end && (s->flags & PF_W)) {
			ret = clear_tail(mm, file_end);
			if (ret)
				return (int)ret;
		}
	}
	if (end <= mapped)
		return 0;
	ret = mm_map(mm, mapped, ALIGN_UP(end, PAGE_SIZE) - mapped, prot_of(s->flags),
		     MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, NULL, 0);
	return ret < 0 ? (int)ret : 0;
}

static int map_image(struct mm *mm, struct file *f, const struct elf_image *image, u64 bias)
{
	for (u32 i = 0; i < image->nr_segments; i++) {
		int err = map_segment(mm, f, &image->segments[i], bias);

		if (err)
			return err;
	}
	return 0;
}

/* A place in the mmap area that holds all of an image. */
static long place_loader(struct mm *mm, const struct elf_image *image)
{
	u64 size = image->load_end - image->load_start, slack = image->align - PAGE_SIZE;
	long at = mm_map(mm, 0, size + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, NULL, 0);

	if (at < 0)
		return at;
	mm_unmap(mm, (vaddr_t)at, size + slack);
	return (long)(ALIGN_UP((u64)at, image->align) - image->load_start);
}

static u64 random_pages(u32 bits)
{
	u64 r = 0;

	if (vm_aslr)
		random_bytes(&r, sizeof(r));
	return (r & ((1UL << bits) - 1)) << PAGE_SHIFT;
}

static int map_program(struct exec *x)
{
	const struct elf_image *image = x->image;
	struct mm *mm = x->mm;
	u64 code_end = 0, brk = 0;
	long bias;
	int err;

	if (image->pie)
		x->bias = ALIGN_UP(PIE_BASE + random_pages(28), image->align) -
			  ALIGN_DOWN(image->load_start, image->align);
	err = map_image(mm, x->file, image, x->bias);
	if (err)
		return err;
	x->entry = image->entry + x->bias;
	if (x->loader) {
		bias = x->loader_image->pie ? place_loader(mm, x->loader_image) : 0;
		if (bias < 0)
			return (int)bias;
		x->loader_bias = (u64)bias;
		err = map_image(mm, x->loader, x->loader_image, x->loader_bias);
		if (err)
			return err;
		x->entry = x->loader_image->entry + x->loader_bias;
	}
	for (u32 i = 0; i < image->nr_segments; i++) {
		const struct elf_segment *s = &image->segments[i];

		if (s->flags & PF_X) {
			if (!mm->code_start || s->vaddr + x->bias < mm->code_start)
				mm->code_start = s->vaddr + x->bias;
			code_end = MAX(code_end, s->vaddr + x->bias + s->filesz);
		}
		mm->data_start = MAX(mm->data_start, s->vaddr + x->bias);
		mm->data_end = MAX(mm->data_end, s->vaddr + x->bias + s->filesz);
		brk = MAX(brk, s->vaddr + x->bias + s->memsz);
	}
	mm->code_end = code_end;
	brk = ALIGN_UP(brk, PAGE_SIZE) + (vm_aslr ? random_pages(13) : 0);
	mm_set_brk(mm, brk);
	mm->exe = file_get(x->file);
	return 0;
}

/* --- the stack -------------------- */

struct auxv {
	u64 pair[40];
	u32 n;
};

static void aux_add(struct auxv *v, u64 key, u64 value)
{
	v->pair[v->n++] = key;
	v->pair[v->n++] = value;
}

static void fill_auxv(struct exec *x, struct auxv *v, vaddr_t random, vaddr_t execfn,
		      vaddr_t platform)
{
	const struct elf_image *image = x->image;
	const struct cred *cred = &current->process->cred;
	u32 a, b, c, d;

	cpuid(1, 0, &a, &b, &c, &d);
	aux_add(v, AT_MINSIGSTKSZ_, ALIGN_UP(fpu_frame_size() + 64 + 440 + 128 + 8, 16UL));
	aux_add(v, AT_HWCAP, d);
	aux_add(v, AT_PAGESZ, PAGE_SIZE);
	aux_add(v, AT_CLKTCK, 100);
	aux_add(v, AT_PHDR, image->phdr_vaddr ? image->phdr_vaddr + x->bias : 0);
	aux_add(v, AT_PHENT, image->phentsize);
	aux_add(v, AT_PHNUM, image->phnum);
	aux_add(v, AT_BASE, x->loader ? x->loader_bias + ALIGN_DOWN(x->loader_image->load_start,
								     PAGE_SIZE) : 0);
	aux_add(v, AT_FLAGS, 0);
	aux_add(v, AT_ENTRY, image->entry + x->bias);
	aux_add(v, AT_UID, cred->uid);
	aux_add(v, AT_EUID, cred->euid);
	aux_add(v, AT_GID, cred->gid);
	aux_add(v, AT_EGID, cred->egid);
	aux_add(v, AT_SECURE, 0);
	aux_add(v, AT_RANDOM, random);
	aux_add(v, AT_HWCAP2, 0);
	aux_add(v, AT_EXECFN, execfn);
	aux_add(v, AT_PLATFORM, platform);
	aux_add(v, AT_NULL, 0);
}

static int store(struct mm *mm, vaddr_t at, const void *data, size_t n)
{
	return mm_access(mm, at, (void *)data, n, true, false) == (long)n ? 0 : -EFAULT;
}

/* argc, two vectors with a 0 behind each. */
static u64 pointer_bytes(const struct exec *x)
{
	return (x->args.count + x->envs.count + 3) * 8;
}

static int fill_stack(struct exec *x, vaddr_t top)
{
	static const char platform_name[] = "x86_64";
	struct mm *mm = x->mm;
	vaddr_t args, envs, execfn, platform, random, sp, at;
	struct auxv v = { .n = 0 };
	u8 seed[16];

	execfn = top - 8 - x->execfn.bytes;
	envs = execfn - x->envs.bytes;
	args = envs - x->args.bytes;
	platform = ALIGN_DOWN(args, 16UL) - sizeof(platform_name);
	random = platform - sizeof(seed);
	random_bytes(seed, sizeof(seed));
	fill_auxv(x, &v, random, execfn, platform);
	sp = ALIGN_DOWN(ALIGN_DOWN(random, 16UL) - pointer_bytes(x) - v.n * 8, 16UL);

	if (strings_store(&x->execfn, mm, execfn) || strings_store(&x->envs, mm, envs) ||
	    strings_store(&x->args, mm, args) ||
	    store(mm, platform, platform_name, sizeof(platform_name)) ||
	    store(mm, random, seed, sizeof(seed)) || store(mm, sp, &x->args.count, 8))
		return -EFAULT;
	at = strings_store_pointers(&x->args, mm, args, sp + 8);
	if (at)
		at = strings_store_pointers(&x->envs, mm, envs, at);
	if (!at || store(mm, at, v.pair, v.n * 8))
		return -EFAULT;

	memcpy(mm->saved_auxv, v.pair, v.n * 8);
	mm->arg_start = args;
	mm->arg_end = mm->env_start = envs;
	mm->env_end = execfn;
	mm->stack_start = sp;
	x->stack_pointer = sp;
	return 0;
}

/* The stack first: where it ends decides where mmap begins. */
int build_memory(struct exec *x)
{
	vaddr_t top = STACK_TOP - random_pages(10);
	u64 size = x->args.bytes + x->envs.bytes + x->execfn.bytes + pointer_bytes(x) + STACK_EXTRA;
	int err;

	x->mm = mm_create();
	if (!x->mm)
		return -ENOMEM;
	err = mm_map_stack(x->mm, top, ALIGN_UP(size, PAGE_SIZE),
			   x->image->stack == ELF_STACK_EXEC);
	if (!err)
		err = map_program(x);
	return err ? err : fill_stack(x, top);
}
