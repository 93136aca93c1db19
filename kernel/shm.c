/*
 * System V shared memory: a segment is a page cache without a file.
 *
 * Every area that maps a segment counts as an attachment. A removed segment (IPC_RMID) keeps
 * its number, so that it can still be attached, until the last attachment is gone; then, or
 * at once if there is none, it leaves the table, and its memory goes with the last reference.
 */
#include <asm/errno.h>
#include <asm/shmbuf.h>
#include <linux/ipc.h>
#include <linux/mman.h>

#include "arch/x86_64/uaccess.h"
#include "kernel/ipc.h"
#include "kernel/process.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "kernel/time.h"
#include "mm/mapping.h"
#include "mm/mm.h"
#include "mm/slab.h"
#include "mm/vma.h"

/* <linux/shm.h> wants libc's headers. */
#define SHM_RDONLY    010000
#define SHM_RND       020000
#define SHM_REMAP     040000
#define SHM_EXEC      0100000
#define SHM_HUGETLB   04000
#define SHM_LOCK      11
#define SHM_UNLOCK    12
#define SHM_STAT      13
#define SHM_INFO      14
#define SHM_STAT_ANY  15
#define SHM_DEST      01000
#define SHM_LOCKED    02000
#define SHMMIN        1
#define SHMMAX        (~0UL - (1UL << 24))

struct segment {
	struct ipc_object ipc;   /* first */
	u64 size;                /* as asked for; constant */
	struct mapping *mapping; /* constant */
	/* table's lock: */
	u64 nattch;              /* areas, and attaches under way */
	bool dest;               /* goes with the last attachment */
	long atime, dtime, ctime;
	int cpid, lpid;
};

static void segment_destroy(struct ipc_object *o);
static struct ipc_table segments = { .destroy = segment_destroy };

static long now_seconds(void)
{
	return (long)(clock_realtime_ns() / NS_PER_SEC);
}

static struct segment *segment_of(struct ipc_object *o)
{
	return container_of(o, struct segment, ipc);
}

static void segment_destroy(struct ipc_object *o)
{
	struct segment *s = segment_of(o);

	mapping_put(s->mapping);
	kfree(s);
}

/* --- attachments -------------------------------------------------------------------- */

static void hold(struct segment *s)
{
	spin_lock(&segments.lock);
	s->nattch++;
	s->ipc.refs++;
	spin_unlock(&segments.lock);
}

static void release(struct segment *s, bool detached)
{
	long now = now_seconds();
	bool gone;

	spin_lock(&segments.lock);
	if (detached) {
		s->dtime = now;
		s->lpid = current->process ? current->process->pid : 0;
	}
	s->nattch--;
	gone = s->dest && !s->nattch && !s->ipc.removed;
	if (gone)
		ipc_unlist(&segments, &s->ipc);
	spin_unlock(&segments.lock);
	if (gone)
		ipc_put(&segments, &s->ipc);
	ipc_put(&segments, &s->ipc);
}

void shm_area_opened(void *segment)
{
	hold(segment);
}

void shm_area_closed(void *segment)
{
	release(segment, true);
}

/* --- shmget ---------------------------------------------------------------------------- */

struct shm_request {
	u64 size;
	int flags;
};

static struct ipc_object *segment_make(void *arg, int *err)
{
	struct shm_request *r = arg;
	struct segment *s;

	*err = -EINVAL;
	if (r->size < SHMMIN || r->size > SHMMAX)
		return NULL;
	*err = -ENOMEM;
	if (r->flags & SHM_HUGETLB)
		return NULL; /* the pool of hugepages is empty */
	s = kzalloc(sizeof(*s));
	if (!s)
		return NULL;
	s->size = r->size;
	s->mapping = mapping_create(ALIGN_UP(r->size, PAGE_SIZE));
	if (!s->mapping) {
		kfree(s);
		return NULL;
	}
	s->ctime = now_seconds();
	s->cpid = current->process->pid;
	return &s->ipc;
}

static int segment_fits(struct ipc_object *o, void *arg)
{
	return ((struct shm_request *)arg)->size > segment_of(o)->size ? -EINVAL : 0;
}

long sys_shmget(u64 key, u64 size, u64 flags)
{
	struct shm_request r = { .size = size, .flags = (int)flags };

	return ipc_get(&segments, (int)key, (int)flags, segment_make, segment_fits, &r);
}

/* --- shmat, shmdt -------------------------------------------------------------------------- */

static long attach(struct segment *s, vaddr_t addr, int flags)
{
	u32 prot = PROT_READ, mflags = MAP_SHARED;
	long ret;

	if (!(flags & SHM_RDONLY))
		prot |= PROT_WRITE;
	if (flags & SHM_EXEC)
		prot |= PROT_EXEC;
	if (addr)
		mflags |= flags & SHM_REMAP ? MAP_FIXED : MAP_FIXED_NOREPLACE;
	/* It must not be destroyed before the area is there and counts. */
	hold(s);
	ret = mm_map_shared(current->mm, addr, s->size, prot, mflags, s->mapping, s);
	release(s, false);
	if (ret < 0)
		return ret == -EEXIST ? -EINVAL : ret;
	spin_lock(&segments.lock);
	s->atime = now_seconds();
	s->lpid = current->process->pid;
	spin_unlock(&segments.lock);
	return ret;
}

long sys_shmat(u64 id, u64 addr, u64 flags_)
{
	int flags = (int)flags_, err;
	struct ipc_object *o;
	long ret;

	if (addr % PAGE_SIZE) {
		if (!(flags & SHM_RND))
			return -EINVAL;
		addr = ALIGN_DOWN(addr, PAGE_SIZE);
		if (!addr && (flags & SHM_REMAP))
			return -EINVAL;
	} else if (!addr && (flags & SHM_REMAP)) {
		return -EINVAL;
	}
	o = ipc_find(&segments, (int)id, &err);
	if (!o)
		return err;
	ret = ipc_access(o, flags & SHM_RDONLY ? 4 : 6);
	if (!ret)
		ret = attach(segment_of(o), addr, flags);
	ipc_put(&segments, o);
	return ret;
}

/* The next area at or behind addr that is an attachment of `want` (NULL: of any segment). */
static bool next_attachment(struct mm *mm, vaddr_t addr, void **want, vaddr_t *start, vaddr_t *end,
			    u64 *offset)
{
	bool found = false;

	down_read(&mm->lock);
	for (struct area *a = area_find(mm, addr); a; a = area_next(a)) {
		if (!a->shm || (*want && a->shm != *want))
			continue;
		*want = a->shm;
		*start = a->start;
		*end = a->end;
		*offset = a->pgoff << PAGE_SHIFT;
		found = true;
		break;
	}
	up_read(&mm->lock);
	return found;
}

/* An attachment may have been cut into several areas, or parts of it unmapped. */
long sys_shmdt(u64 addr)
{
	struct mm *mm = current->mm;
	vaddr_t start, end, at = addr;
	void *segment = NULL;
	u64 offset, size;

	if (addr % PAGE_SIZE)
		return -EINVAL;
	do {
		if (!next_attachment(mm, at, &segment, &start, &end, &offset))
			return -EINVAL;
		if (start - addr == offset)
			break;
		segment = NULL;
		at = end;
	} while (start <= addr);
	if (!segment || start - addr != offset)
		return -EINVAL;

	size = ALIGN_UP(((struct segment *)segment)->size, PAGE_SIZE);
	while (start < addr + size) {
		at = end;
		if (start - addr == offset)
			mm_unmap(mm, start, end - start);
		if (!next_attachment(mm, at, &segment, &start, &end, &offset))
			break;
	}
	return 0;
}

/* --- shmctl ----------------------------------------------------------------------------------- */

static long shm_remove(struct segment *s)
{
	bool gone;
	long err = ipc_owner(&s->ipc);

	if (err)
		return err;
	spin_lock(&segments.lock);
	gone = !s->nattch && !s->ipc.removed;
	s->dest = true;
	s->ipc.perm.mode |= SHM_DEST;
	s->ipc.perm.key = IPC_PRIVATE;
	if (gone)
		ipc_unlist(&segments, &s->ipc);
	spin_unlock(&segments.lock);
	if (gone)
		ipc_put(&segments, &s->ipc);
	return 0;
}

static long shm_stat(struct segment *s, vaddr_t ubuf)
{
	struct shmid64_ds ds;

	memset(&ds, 0, sizeof(ds));
	spin_lock(&segments.lock);
	ds.shm_perm = s->ipc.perm;
	ds.shm_segsz = s->size;
	ds.shm_atime = s->atime;
	ds.shm_dtime = s->dtime;
	ds.shm_ctime = s->ctime;
	ds.shm_cpid = s->cpid;
	ds.shm_lpid = s->lpid;
	ds.shm_nattch = s->nattch;
	spin_unlock(&segments.lock);
	return copy_to_user(ubuf, &ds, sizeof(ds)) ? -EFAULT : 0;
}

static long shm_set(struct segment *s, vaddr_t ubuf)
{
	struct shmid64_ds ds;
	long err = ipc_owner(&s->ipc);

	if (copy_from_user(&ds, ubuf, sizeof(ds)))
		return -EFAULT;
	if (err)
		return err;
	ipc_set_perm(&segments, &s->ipc, &ds.shm_perm);
	s->ctime = now_seconds();
	return 0;
}

static long shm_limits(vaddr_t ubuf)
{
	struct shminfo64 info = { .shmmax = SHMMAX, .shmmin = SHMMIN, .shmmni = IPC_SLOTS,
				  .shmseg = IPC_SLOTS, .shmall = SHMMAX };

	return copy_to_user(ubuf, &info, sizeof(info)) ? -EFAULT : ipc_highest(&segments);
}

/* What ipcs(1) calls "summary". */
static long shm_summary(vaddr_t ubuf)
{
	struct {
		s32 used_ids;
		u64 total, resident, swapped, swap_attempts, swap_successes;
	} info;

	memset(&info, 0, sizeof(info));
	spin_lock(&segments.lock);
	info.used_ids = (s32)segments.used;
	for (u32 i = 0; i < IPC_SLOTS; i++) {
		struct segment *s = segments.slots[i] ? segment_of(segments.slots[i]) : NULL;

		if (!s)
			continue;
		info.total += DIV_UP(s->size, PAGE_SIZE);
		info.resident += READ_ONCE(s->mapping->nr_pages);
	}
	spin_unlock(&segments.lock);
	return copy_to_user(ubuf, &info, sizeof(info)) ? -EFAULT : ipc_highest(&segments);
}

static long shm_lock(struct segment *s, bool on)
{
	long err = ipc_owner(&s->ipc);

	if (err)
		return err;
	/* Nothing is ever swapped out: it is enough to say so. */
	spin_lock(&segments.lock);
	if (on)
		s->ipc.perm.mode |= SHM_LOCKED;
	else
		s->ipc.perm.mode &= (__kernel_mode_t)~SHM_LOCKED;
	spin_unlock(&segments.lock);
	return 0;
}

long sys_shmctl(u64 id, u64 cmd_, u64 ubuf)
{
	int cmd = (int)cmd_ & ~IPC_64_BIT, err;
	struct ipc_object *o;
	long ret;

	if ((int)id < 0 || cmd < 0)
		return -EINVAL;
	if (cmd == IPC_INFO)
		return shm_limits(ubuf);
	if (cmd == SHM_INFO)
		return shm_summary(ubuf);
	o = cmd == SHM_STAT || cmd == SHM_STAT_ANY ? ipc_find_slot(&segments, (u32)id, &err) :
						     ipc_find(&segments, (int)id, &err);
	if (!o)
		return err;
	switch (cmd) {
	case IPC_RMID:
		ret = shm_remove(segment_of(o));
		break;
	case IPC_STAT:
	case SHM_STAT:
	case SHM_STAT_ANY:
		ret = cmd == SHM_STAT_ANY ? 0 : ipc_access(o, 4);
		if (!ret)
			ret = shm_stat(segment_of(o), ubuf);
		if (!ret && cmd != IPC_STAT)
			ret = o->id;
		break;
	case IPC_SET:
		ret = shm_set(segment_of(o), ubuf);
		break;
	case SHM_LOCK:
	case SHM_UNLOCK:
		ret = shm_lock(segment_of(o), cmd == SHM_LOCK);
		break;
	default:
		ret = -EINVAL;
	}
	ipc_put(&segments, o);
	return ret;
}
