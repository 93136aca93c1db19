/*
 * execve: a new program in an old process.
 *
 * Everything that can fail is done beside the running program: the file is looked at (scripts lead to
 * their interpreter), strings are copied, the new address space is built and its stack filled. Only then comes the point of no
 * return: the other threads go, and the current one changes over.
 *
 * Address space of the new program, from the top:
 *
 *	STACK_TOP     strings, auxiliary vector, pointers, argc   <- stack pointer
 *	              stack, growing down
 *	mmap_base     the dynamic loader, if there is one; mmap
 *	0x5555_5555_4000   position-independent programs; heap behind the program
 */
#include <asm/errno.h>
#include <linux/auxvec.h>
#include <linux/elf.h>
#include <linux/fcntl.h>
#include <linux/limits.h>
#include <linux/mman.h>

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/task.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/elf.h"
#include "kernel/execargs.h"
#include "kernel/file.h"
#include "kernel/param.h"
#include "kernel/printf.h"
#include "kernel/printk.h"
#include "kernel/signal_internal.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "kernel/time.h"
#include "mm/mapping.h"
#include "mm/mm.h"
#include "mm/slab.h"

PARAM_BOOL(vm_aslr, "vm.aslr", PARAM_RUNTIME, false);

#define PIE_BASE        0x555555554000UL
#define SCRIPT_LINE_MAX 256 /* BINPRM_BUF_SIZE: what is looked at of "#!..." */
#define SCRIPT_DEPTH    5
#define STACK_TOP       (USER_END - 16 * PAGE_SIZE) /* some pages stay free for whoever tests the limit */
#define STACK_EXTRA     (128 * KB) /* mapped below the strings from the start */

#define AT_MINSIGSTKSZ_ 51

struct exec {
	struct file *file;     /* the program, after scripts */
	char *name;            /* the path asked for: AT_EXECFN */
	char *prefix[2 * SCRIPT_DEPTH + 3]; /* what scripts put before the arguments; innermost first */
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

/* --- reading files ----------------------------------------------------------------- */

/* The file behind a path, ready to be executed. */
static int open_program(const char *path, struct file **out)
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

static char *copy_string(const char *s, size_t len)
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
	/* The script's path takes the place of argv[0], as the interpreter's does in a nested one. */
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

/* From the file asked for to the ELF program that runs, and its loader. */
static int find_program(struct exec *x)
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

static int gather_strings(struct exec *x)
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

/* --- the new address space ---------------------------------------------------------------------- */

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
		ret = mm_map(mm, start, mapped - start, prot_of(s->flags), MAP_PRIVATE | MAP_FIXED, f,
			     ALIGN_DOWN(s->offset, PAGE_SIZE));
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

/* --- the stack ------------------------------------------------------------------------------------- */

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
static int build_memory(struct exec *x)
{
	vaddr_t top = STACK_TOP - random_pages(10);
	u64 size = x->args.bytes + x->envs.bytes + x->execfn.bytes + pointer_bytes(x) + STACK_EXTRA;
	int err;

	x->mm = mm_create();
	if (!x->mm)
		return -ENOMEM;
	err = mm_map_stack(x->mm, top, ALIGN_UP(size, PAGE_SIZE), x->image->stack == ELF_STACK_EXEC);
	if (!err)
		err = map_program(x);
	return err ? err : fill_stack(x, top);
}

/* --- the point of no return ----------------------------------------------------------------------- */

/* All other threads go; the current one becomes the leader. 0, or -EAGAIN: the process is being killed. */
static int become_only_thread(void)
{
	struct task *t = current;
	struct process *p = t->process;
	struct wait_entry e = { 0 };
	u64 flags = spin_lock_irqsave(&p->siglock);

	if (p->group_exit || p->group_exec) {
		spin_unlock_irqrestore(&p->siglock, flags);
		return -EAGAIN;
	}
	if (p->nr_threads == 1 && t == p->leader) {
		spin_unlock_irqrestore(&p->siglock, flags);
		return 0;
	}
	p->group_exec = t;
	signal_kill_others(p);
	spin_unlock_irqrestore(&p->siglock, flags);

	for (;;) {
		wait_prepare(&p->exec_wait, &e, TASK_KILLABLE);
		if (READ_ONCE(p->nr_threads) == 1 || fatal_signal_pending(t))
			break;
		schedule();
	}
	wait_finish(&p->exec_wait, &e);

	flags = tree_lock();
	spin_lock(&p->siglock);
	p->group_exec = NULL;
	if (p->nr_threads == 1 && !p->leader) {
		pid_set_task(t->tid, NULL);
		pid_unuse(t->tid);
		t->tid = p->pid;
		pid_use(t->tid);
		pid_set_task(t->tid, t);
		p->leader = t;
		t->process->exit_signal = SIGCHLD;
	}
	bool alone = p->nr_threads == 1 && !p->group_exit;

	spin_unlock(&p->siglock);
	tree_unlock(flags);
	return alone ? 0 : -EAGAIN;
}

/* A process that shared its handlers with another one gets its own. */
static int own_sighand(struct process *p)
{
	struct sighand *own, *old = p->sighand;
	u64 flags;

	if (READ_ONCE(old->refs) == 1)
		return 0;
	own = sighand_alloc();
	if (!own)
		return -ENOMEM;
	flags = tree_lock();
	spin_lock(&p->siglock);
	memcpy(own->action, old->action, sizeof(own->action));
	p->sighand = own;
	spin_unlock(&p->siglock);
	tree_unlock(flags);
	sighand_put(old);
	return 0;
}

static int own_files(struct task *t)
{
	struct files *copy = files_copy(t->files);

	if (!copy)
		return -ENOMEM;
	files_put(t->files);
	t->files = copy;
	return 0;
}

static void switch_over(struct exec *x)
{
	struct task *t = current;
	struct process *p = t->process;

	if (t->mm) {
		u64 rss = MAX(t->mm->hiwater_rss, mm_rss(t->mm));

		p->gone.max_rss = MAX(p->gone.max_rss, rss);
		memory_release();
	}
	mm_exec_switch(x->mm);
	x->mm = NULL;
	timers_exec(p);
	signal_exec(t);
	files_close_on_exec();
	memcpy(t->comm, x->comm, sizeof(t->comm));
	t->set_child_tid = 0;
	t->sig_restore_mask = false;
	t->restart.func = NULL;
	p->did_exec = true;
	p->no_dump = false;
	fpu_reset();
	arch_set_fs(0);
	arch_set_gs(0);
	regs_init_user(t->user_regs, x->entry, x->stack_pointer);
}

/* --- the whole -------------------------------------------------------------------------------------- */

static void exec_free(struct exec *x)
{
	if (x->file)
		file_put(x->file);
	if (x->loader)
		file_put(x->loader);
	kfree(x->image);
	kfree(x->loader_image);
	for (u32 i = 0; i < x->nr_prefix; i++)
		kfree(x->prefix[i]);
	kfree(x->name);
	strings_free(&x->args);
	strings_free(&x->envs);
	strings_free(&x->execfn);
	if (x->mm)
		mm_put_user(x->mm);
	kfree(x);
}

/* The program's short name: the last part of its path. */
static void set_comm(struct exec *x)
{
	const char *slash = strrchr(x->name, '/');

	str_copy(x->comm, slash ? slash + 1 : x->name, sizeof(x->comm));
}

/* x->file, name and argument sources are set. Consumes x. */
static int exec_run(struct exec *x)
{
	int err = find_program(x);

	if (!err)
		err = gather_strings(x);
	if (!err)
		err = build_memory(x);
	if (!err)
		err = own_files(current);
	if (!err)
		err = own_sighand(current->process);
	if (!err)
		err = become_only_thread();
	if (!err) {
		set_comm(x);
		switch_over(x);
	}
	exec_free(x);
	return err;
}

int exec_kernel(const char *path, const char *const *argv, const char *const *envp)
{
	struct exec *x = kzalloc(sizeof(*x));
	int err;

	if (!x)
		return -ENOMEM;
	x->kargv = argv;
	x->kenvp = envp;
	x->name = copy_string(path, strlen(path));
	err = x->name ? open_program(path, &x->file) : -ENOMEM;
	if (!err)
		return exec_run(x);
	exec_free(x);
	return err;
}

/*
 * The path for execveat(): as given, or by way of the descriptor it is relative to. 1: an
 * empty path, the descriptor is the program.
 */
static int path_from_user(struct exec *x, int dirfd, vaddr_t upath, u32 flags)
{
	char *path = kmalloc(PATH_MAX);
	long len;
	int err = 0;

	if (!path)
		return -ENOMEM;
	len = strncpy_from_user(path, upath, PATH_MAX);
	if (len < 0) {
		err = (int)len;
	} else if (!len && !(flags & AT_EMPTY_PATH)) {
		err = -ENOENT;
	} else if (dirfd == AT_FDCWD || path[0] == '/') {
		x->name = copy_string(path, (size_t)len);
	} else {
		x->name = kmalloc(32 + (size_t)len);
		if (x->name)
			ksnprintf(x->name, 32 + (size_t)len, len ? "/proc/self/fd/%d/%s" :
				  "/dev/fd/%d%s", dirfd, path);
	}
	kfree(path);
	if (!err && !x->name)
		err = -ENOMEM;
	return err ? err : len == 0;
}

long sys_execveat(u64 dirfd, u64 upath, u64 uargv, u64 uenvp, u64 flags)
{
	struct exec *x;
	int err;

	if (flags & ~(u64)(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW))
		return -EINVAL;
	x = kzalloc(sizeof(*x));
	if (!x)
		return -ENOMEM;
	x->uargv = uargv;
	x->uenvp = uenvp;
	err = path_from_user(x, (int)dirfd, upath, (u32)flags);
	if (err == 1) {
		x->file = fd_get((int)dirfd);
		err = !x->file ? -EBADF :
		      file_executable(x->file) && file_mapping(x->file) ? 0 : -EACCES;
	} else if (!err) {
		err = open_program(x->name, &x->file);
	}
	if (!err)
		return exec_run(x);
	exec_free(x);
	return err;
}

long sys_execve(u64 upath, u64 uargv, u64 uenvp)
{
	return sys_execveat((u64)AT_FDCWD, upath, uargv, uenvp, 0);
}
