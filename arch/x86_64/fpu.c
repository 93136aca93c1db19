/*
 * FPU state by XSAVE where the CPU has it, else by FXSAVE: see fpu.h. The first 512
 * bytes of an area are the same in both; XSAVE adds a 64-byte header and more
 * components (compaction is not used: it is the format of signal frames too).
 *
 * Locking: a task's area belongs to the task; only a switch away from it writes
 * the area behind its back, so a new state is put together elsewhere and copied in with
 * interrupts off.
 */
#include "arch/x86_64/fpu.h"

#include <asm/errno.h>

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/task.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "mm/slab.h"

#define XFEATURE_X87    (1u << 0)
#define XFEATURE_SSE    (1u << 1)
#define XFEATURE_AVX    (1u << 2)
#define XFEATURE_AVX512 (7u << 5)

#define LEGACY_SIZE 512
#define MXCSR_RESET 0x1f80
#define FCW_RESET   0x37f

/* The start of an area. */
struct fpu_area {
	u16 fcw, fsw;
	u8 ftw, unused;
	u16 fop;
	u64 fip, fdp;
	u32 mxcsr, mxcsr_mask;
	u8 registers[432];
	/* Software's own 48 bytes; in signal frames Linux puts this here: */
	struct fpu_frame_info {
		u32 magic1;
		u32 extended_size; /* of the state in the frame, magic2 included */
		u64 xfeatures;
		u32 xstate_size;
		u32 padding[7];
	} info;
	u64 xstate_bv, xcomp_bv, reserved[6]; /* XSAVE header */
};
static_assert(offsetof(struct fpu_area, info) == 464, "SDM vol. 1, table 10-2");
static_assert(offsetof(struct fpu_area, xstate_bv) == LEGACY_SIZE, "SDM vol. 1, 13.4.2");

#define FRAME_MAGIC1 0x46505853u /* FP_XSTATE_MAGIC1 of <asm/sigcontext.h> */
#define FRAME_MAGIC2 0x46505845u

u32 fpu_size = LEGACY_SIZE;
static u64 xcr0;       /* components in use; 0 = FXSAVE; constant after boot */
static u32 mxcsr_mask; /* valid bits; constant after boot */
static struct slab_cache *fpu_cache;

void fpu_features_init(void)
{
	u32 a, b, c, d;

	if (!cpu_features.xsave)
		return;
	cpuid(0xd, 0, &a, &b, &c, &d);
	xcr0 = a & (XFEATURE_X87 | XFEATURE_SSE | XFEATURE_AVX | XFEATURE_AVX512);
	/* The three parts of AVX-512 are one, and want AVX. */
	if ((xcr0 & XFEATURE_AVX512) != XFEATURE_AVX512 || !(xcr0 & XFEATURE_AVX))
		xcr0 &= ~(u64)XFEATURE_AVX512;
	fpu_size = LEGACY_SIZE + 64;
	for (u32 i = 2; i < 32; i++) {
		if (!(xcr0 >> i & 1))
			continue;
		cpuid(0xd, i, &a, &b, &c, &d); /* size, offset */
		fpu_size = MAX(fpu_size, a + b);
	}
	fpu_size = ALIGN_UP(fpu_size, 64);
}

void fpu_init_cpu(void)
{
	if (xcr0)
		__asm__ __volatile__("xsetbv" ::"c"(0), "a"((u32)xcr0), "d"((u32)(xcr0 >> 32)));
	__asm__ __volatile__("fninit");
}

void fpu_init(void)
{
	struct fpu_area *area;

	if (fpu_size <= 2048)
		fpu_cache = slab_create("fpu", fpu_size, 64);
	else if (fpu_size > 4096)
		panic("fpu: a state of %u bytes", fpu_size);
	area = fpu_cache ? slab_zalloc(fpu_cache) : kzalloc(4096);
	if (!area)
		panic("fpu: out of memory");
	__asm__ __volatile__("fxsave64 %0" : "=m"(*area));
	mxcsr_mask = area->mxcsr_mask ? area->mxcsr_mask : 0xffbf;
	if (fpu_cache)
		slab_free(fpu_cache, area);
	else
		kfree(area);
}

static struct fpu_area *area_alloc(void)
{
	return fpu_cache ? slab_zalloc(fpu_cache) : kzalloc(4096);
}

static void area_free(struct fpu_area *area)
{
	if (!area)
		return;
	if (fpu_cache)
		slab_free(fpu_cache, area);
	else
		kfree(area);
}

void fpu_save(void *area)
{
	if (xcr0)
		__asm__ __volatile__("xsave64 %0"
				     : "+m"(*(char(*)[4096])area) : "a"(~0u), "d"(~0u));
	else
		__asm__ __volatile__("fxsave64 %0" : "=m"(*(char(*)[LEGACY_SIZE])area));
}

void fpu_load(const void *area)
{
	if (xcr0)
		__asm__ __volatile__("xrstor64 %0"
				     ::"m"(*(const char(*)[4096])area), "a"(~0u), "d"(~0u));
	else
		__asm__ __volatile__("fxrstor64 %0" ::"m"(*(const char(*)[LEGACY_SIZE])area));
}

/*
 * A component whose xstate_bv bit is 0 is loaded in its initial state, but MXCSR always
 * from memory.
 */
static void area_reset(struct fpu_area *area)
{
	memset(area, 0, fpu_size);
	area->fcw = FCW_RESET;
	area->mxcsr = MXCSR_RESET;
}

int fpu_init_task(struct task *t)
{
	struct fpu_area *area = t->fpu ? t->fpu : area_alloc();

	if (!area)
		return -ENOMEM;
	area_reset(area);
	t->fpu = area;
	return 0;
}

int fpu_copy(struct task *child)
{
	struct fpu_area *area = area_alloc();
	u64 flags;

	if (!area)
		return -ENOMEM;
	flags = irq_save();
	fpu_save(area);
	irq_restore(flags);
	child->fpu = area;
	return 0;
}

void fpu_free(struct task *t)
{
	struct fpu_area *area = t->fpu;
	u64 flags = irq_save();

	t->fpu = NULL;
	irq_restore(flags);
	area_free(area);
}

/* The current task goes on with this state. */
static void become(const struct fpu_area *area)
{
	u64 flags = irq_save();

	memcpy(current->fpu, area, fpu_size);
	fpu_load(current->fpu);
	irq_restore(flags);
}

void fpu_reset(void)
{
	u64 flags = irq_save();

	area_reset(current->fpu);
	fpu_load(current->fpu);
	irq_restore(flags);
}

/* --- signal frames --------------------------------------------------------- */

size_t fpu_frame_size(void)
{
	return xcr0 ? fpu_size + sizeof(u32) : LEGACY_SIZE;
}

int fpu_save_frame(vaddr_t to)
{
	struct fpu_area *area = current->fpu;
	u32 magic2 = FRAME_MAGIC2;
	u64 flags = irq_save();

	fpu_save(area);
	irq_restore(flags);
	/* A switch during the copy saves the same values again. */
	memset(&area->info, 0, sizeof(area->info));
	if (xcr0) {
		area->info.magic1 = FRAME_MAGIC1;
		area->info.extended_size = fpu_size + sizeof(magic2);
		area->info.xfeatures = xcr0;
		area->info.xstate_size = fpu_size;
		if (copy_to_user(to + fpu_size, &magic2, sizeof(magic2)))
			return -EFAULT;
	}
	return copy_to_user(to, area, fpu_size) ? -EFAULT : 0;
}

/* Whether a frame, of which the legacy part is in *area, has extended state. */
static bool frame_is_extended(const struct fpu_area *area, vaddr_t from)
{
	const struct fpu_frame_info *info = &area->info;
	u32 magic2;

	return xcr0 && info->magic1 == FRAME_MAGIC1 && info->xstate_size >= LEGACY_SIZE + 64 &&
	       info->xstate_size <= fpu_size &&
	       info->extended_size >= info->xstate_size + sizeof(magic2) &&
	       !get_user_u32(from + info->xstate_size, &magic2) && magic2 == FRAME_MAGIC2;
}

int fpu_restore_frame(vaddr_t from)
{
	struct fpu_area *area;
	int err = 0;

	if (!from) {
		fpu_reset();
		return 0;
	}
	area = area_alloc();
	if (!area)
		return -EFAULT;
	if (copy_from_user(area, from, LEGACY_SIZE)) {
		err = -EFAULT;
	} else if (frame_is_extended(area, from)) {
		u64 wanted = area->info.xfeatures & xcr0;

		if (copy_from_user((char *)area + LEGACY_SIZE, from + LEGACY_SIZE,
				   area->info.xstate_size - LEGACY_SIZE))
			err = -EFAULT;
		area->xstate_bv &= wanted;
	} else if (xcr0) {
		area->xstate_bv = XFEATURE_X87 | XFEATURE_SSE;
	}
	/* What would make XRSTOR fault (SDM vol. 1, 13.8.1). */
	if (xcr0) {
		area->xcomp_bv = 0;
		memset(area->reserved, 0, sizeof(area->reserved));
	}
	if (!err && area->mxcsr & ~mxcsr_mask)
		err = -EINVAL;
	if (!err)
		become(area);
	area_free(area);
	return err;
}
