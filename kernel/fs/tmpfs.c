/*
 * tmpfs: files whose contents are the page cache and nothing else.
 *
 * A regular file is a struct mapping. Reads go straight to it; writes and changes of size take the
 * inode's write_lock, so that appends do not overwrite each other and
 * a size change is one step. Faults on a mapped file never take it.
 *
 * Also memfd_create(2) and its seals, which live in the mapping because mmap looks at them.
 */
#include <linux/falloc.h>
#include <linux/memfd.h>
#include <asm/signal.h>

#include "arch/x86_64/uaccess.h"
#include "kernel/printf.h"
#include "kernel/string.h"
#include "kernel/signal.h"
#include "kernel/syscall.h"
#include "kernel/vfs.h"
#include "mm/mapping.h"
#include "mm/slab.h"

static u32 get_seals(struct inode *inode)
{
	return READ_ONCE(inode->mapping->seals);
}

static long tmpfs_read(struct file *f, u64 *pos, struct uio *u)
{
	struct mapping *m = file_inode(f)->mapping;
	u64 base, len;
	long total = 0;

	while (uio_piece(u, &base, &len)) {
		long n;

		if (u->kernel) {
			n = mapping_read_kernel(m, *pos, (void *)base, len);
			if (n > 0)
				*pos += (u64)n;
		} else {
			n = mapping_read(m, pos, base, len);
		}
		if (n <= 0)
			return total ? total : n;
		total += n;
		uio_skip(u, (u64)n);
		if ((u64)n < len)
			break;
	}
	return total;
}

/*
 * How many frames page caches may take by writing to this file: half of all memory for files with a
 * name, nearly all for memfds, so that writing too much ends in ENOSPC and not in somebody's death:
 * what is in files is nobody's in particular, so no death would give it back.
 */
static u64 cache_limit(const struct inode *inode)
{
	u64 all = frames_total(NO_NODE);

	return inode->vol == &vol_anon ? all - all / 8 : all / 2;
}

/* How far the file may grow now. */
static u64 growth_limit(const struct inode *inode)
{
	u64 most = cache_limit(inode), used = mapping_pages();

	return ALIGN_UP(inode_size(inode), PAGE_SIZE) + (used < most ? most - used : 0) * PAGE_SIZE;
}

/* How much may be written at pos: cuts u; 0 or -errno. */
static int write_limit(struct file *f, u64 pos, struct uio *u)
{
	struct inode *inode = file_inode(f);
	u32 seals = get_seals(inode);
	u64 limit = MIN(rlimit(RLIMIT_FSIZE), MAX_FILE_SIZE);

	if (!u->left)
		return 0;
	if (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
		return -EPERM;
	if ((seals & F_SEAL_GROW) && pos + u->left > inode_size(inode)) {
		u64 fits = ALIGN_DOWN(inode_size(inode), PAGE_SIZE); /* page by page, as Linux */

		if (pos >= fits)
			return -EPERM;
		uio_cut(u, fits - pos);
	}
	if (pos >= limit) {
		if (limit < MAX_FILE_SIZE)
			signal_self(SIGXFSZ);
		return -EFBIG;
	}
	uio_cut(u, limit - pos);
	if (pos + u->left > ALIGN_UP(inode_size(inode), PAGE_SIZE)) {
		limit = growth_limit(inode);
		if (pos >= limit && mapping_pages() >= cache_limit(inode))
			return -ENOSPC;
		if (pos < limit)
			uio_cut(u, limit - pos);
	}
	return 0;
}

static long tmpfs_write(struct file *f, u64 *pos, struct uio *u)
{
	struct inode *inode = file_inode(f);
	u64 base, len;
	long total = 0, n;

	mutex_lock(&inode->write_lock);
	if (f->flags & O_APPEND)
		*pos = inode_size(inode);
	n = write_limit(f, *pos, u);
	while (!n && uio_piece(u, &base, &len)) {
		if (u->kernel) {
			n = mapping_write_kernel(inode->mapping, *pos, (void *)base, len);
			if (n > 0)
				*pos += (u64)n;
		} else {
			n = mapping_write(inode->mapping, pos, base, len);
		}
		if (n <= 0)
			break;
		total += n;
		uio_skip(u, (u64)n);
		n = (u64)n < len ? -ENOSPC : 0;
	}
	if (total) {
		inode->mtime = inode->ctime = now_real_ns();
		if (inode->mode & 06000)
			inode->mode &= ~06000u;
	}
	mutex_unlock(&inode->write_lock);
	return total ? total : n;
}

static int tmpfs_truncate(struct inode *inode, u64 size)
{
	u64 old = inode_size(inode);
	u32 seals = get_seals(inode);

	if (size > MAX_FILE_SIZE)
		return -EFBIG;
	if (size > old && size > rlimit(RLIMIT_FSIZE)) {
		signal_self(SIGXFSZ);
		return -EFBIG;
	}
	mutex_lock(&inode->write_lock);
	old = inode_size(inode);
	if ((size < old && (seals & F_SEAL_SHRINK)) || (size > old && (seals & F_SEAL_GROW))) {
		mutex_unlock(&inode->write_lock);
		return -EPERM;
	}
	if (size != old)
		mapping_truncate(inode->mapping, size);
	inode->mtime = inode->ctime = now_real_ns();
	mutex_unlock(&inode->write_lock);
	return 0;
}

/* Make all pages of [offset, end) exist. */
static int fill_range(struct mapping *m, u64 offset, u64 end)
{
	for (u64 i = offset >> PAGE_SHIFT; i << PAGE_SHIFT < end; i++) {
		struct page *p;

		if (signal_pending(current))
			return -EINTR;
		p = mapping_get_page(m, i, false);
		if (!p)
			return -ENOSPC;
		page_put(p);
		cond_resched();
	}
	return 0;
}

static int tmpfs_fallocate(struct file *f, int mode, u64 offset, u64 len)
{
	struct inode *inode = file_inode(f);
	struct mapping *m = inode->mapping;
	u32 seals;
	int err = 0;

	if (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE))
		return -EOPNOTSUPP;
	mutex_lock(&inode->write_lock);
	seals = get_seals(inode);
	if (mode & FALLOC_FL_PUNCH_HOLE) {
		if (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
			err = -EPERM;
		else
			mapping_punch(m, offset, offset + len);
	} else if ((seals & F_SEAL_GROW) && offset + len > READ_ONCE(m->size)) {
		err = -EPERM;
	} else if (offset + len > growth_limit(inode)) {
		err = -ENOSPC;
	} else {
		err = fill_range(m, offset, offset + len);
		if (!err && !(mode & FALLOC_FL_KEEP_SIZE) && offset + len > READ_ONCE(m->size))
			mapping_truncate(m, offset + len);
	}
	if (!err)
		inode->mtime = inode->ctime = now_real_ns();
	mutex_unlock(&inode->write_lock);
	return err;
}

/* SEEK_DATA and SEEK_HOLE: pages that exist are data. */
static long find_edge(struct inode *inode, u64 from, bool data)
{
	u64 size = inode_size(inode), index = from >> PAGE_SHIFT;
	bool empty = !READ_ONCE(inode->mapping->nr_pages);

	if (from >= size)
		return -ENXIO;
	if (empty)
		return data ? -ENXIO : (long)from;
	for (; index << PAGE_SHIFT < size; index++) {
		struct page *p = mapping_find(inode->mapping, index);

		if (p)
			page_put(p);
		if (!p == !data)
			return (long)MAX(from, index << PAGE_SHIFT);
		if (signal_pending(current))
			return -EINTR;
		if (!(index % 1024))
			cond_resched();
	}
	return data ? -ENXIO : (long)size;
}

static long tmpfs_seek(struct file *f, s64 offset, int whence)
{
	struct inode *inode = file_inode(f);
	s64 base = 0;

	switch (whence) {
	case SEEK_SET:
		break;
	case SEEK_CUR:
		base = (s64)f->pos;
		break;
	case SEEK_END:
		base = (s64)inode_size(inode);
		break;
	case SEEK_DATA:
	case SEEK_HOLE:
		if (offset < 0)
			return -ENXIO;
		base = find_edge(inode, (u64)offset, whence == SEEK_DATA);
		if (base >= 0)
			f->pos = (u64)base;
		return base;
	default:
		return -EINVAL;
	}
	if (__builtin_add_overflow(base, offset, &base))
		return -EINVAL;
	if (base < 0)
		return -EINVAL;
	f->pos = (u64)base;
	return base;
}

const struct file_ops tmpfs_file_ops = {
	.read = tmpfs_read,
	.write = tmpfs_write,
	.seek = tmpfs_seek,
	.truncate = tmpfs_truncate,
	.fallocate = tmpfs_fallocate,
	.mmap = FILE_MMAP_CACHE,
};

static void tmpfs_destroy(struct inode *inode)
{
	if (S_ISREG(inode->mode))
		mapping_put(inode->mapping);
	else if (S_ISLNK(inode->mode))
		kfree(inode->target);
	else if (S_ISFIFO(inode->mode))
		inode_free_pipe(inode);
}

static const struct inode_ops tmpfs_inode_ops = {
	.destroy = tmpfs_destroy,
};

struct inode *tmpfs_inode(struct volume *vol, u32 mode, u32 rdev)
{
	struct inode *inode = inode_create(vol, mode, &tmpfs_inode_ops, NULL);

	if (!inode)
		return NULL;
	inode->rdev = rdev;
	switch (mode & S_IFMT) {
	case S_IFREG:
		inode->fops = &tmpfs_file_ops;
		inode->mapping = mapping_create(0);
		if (!inode->mapping) {
			inode->ops = NULL;
			inode_put(inode);
			return NULL;
		}
		break;
	case S_IFDIR:
		inode->fops = &dir_fops;
		break;
	case S_IFCHR:
	case S_IFBLK:
		inode->fops = &chardev_fops;
		break;
	case S_IFIFO:
		inode->fops = &fifo_fops;
		break;
	}
	return inode;
}

void tmpfs_init(void)
{
}

/* --- memfd ------------------------------------------------------------------------ */

#define MFD_KNOWN (MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL_ | MFD_EXEC_)
#define MFD_NOEXEC_SEAL_ 8U
#define MFD_EXEC_        16U
#define SEAL_EXEC         0x20U
#define MEMFD_NAME_MAX   249

long sys_memfd_create(u64 uname, u64 uflags)
{
	u32 flags = (u32)uflags, mode = 0777, seals = F_SEAL_SEAL;
	struct inode *inode;
	struct file *f;
	char name[NAME_MAX + 8] = "/memfd:";
	long n;
	int err;

	if (flags & ~MFD_KNOWN)
		return -EINVAL;
	if ((flags & MFD_EXEC_) && (flags & MFD_NOEXEC_SEAL_))
		return -EINVAL;
	n = strncpy_from_user(name + 7, uname, MEMFD_NAME_MAX + 1);
	if (n < 0)
		return n == -ENAMETOOLONG ? -EINVAL : n;
	if (flags & MFD_NOEXEC_SEAL_) {
		mode = 0666;
		seals = SEAL_EXEC;
	}
	if (flags & MFD_ALLOW_SEALING)
		seals &= ~(u32)F_SEAL_SEAL;
	inode = tmpfs_inode(&vol_anon, S_IFREG | mode, 0);
	if (!inode)
		return -ENOMEM;
	inode->nlink = 0;
	inode->mapping->seals = seals;
	f = anon_file(inode, name, O_RDWR | O_LARGEFILE, &tmpfs_file_ops, NULL, &err);
	if (!f)
		return err;
	f->fmode |= FMODE_SEEK | FMODE_POS_LOCK;
	return fd_add(f, flags & MFD_CLOEXEC);
}

#define ALL_SEALS \
	(F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE | \
	 SEAL_EXEC)

long memfd_get_seals(struct file *f)
{
	struct inode *inode = file_inode(f);

	if (inode->fops != &tmpfs_file_ops)
		return -EINVAL;
	/* A file with a name is sealed against sealing. */
	return f->dentry->anon ? get_seals(inode) : F_SEAL_SEAL;
}

long memfd_add_seals(struct file *f, u32 seals)
{
	struct inode *inode = file_inode(f);
	struct mapping *m = inode->mapping;
	long err = 0;

	if (!(f->fmode & FMODE_WRITE))
		return -EPERM;
	if (seals & ~(u32)ALL_SEALS)
		return -EINVAL;
	if (inode->fops != &tmpfs_file_ops)
		return -EINVAL;
	if (!f->dentry->anon)
		return -EPERM;
	mutex_lock(&inode->write_lock);
	mutex_lock(&m->i_mmap_lock);
	if (m->seals & F_SEAL_SEAL)
		err = -EPERM;
	else if ((seals & F_SEAL_WRITE) && !(m->seals & F_SEAL_WRITE) && m->writable_maps)
		err = -EBUSY;
	else
		WRITE_ONCE(m->seals, m->seals | seals);
	mutex_unlock(&m->i_mmap_lock);
	mutex_unlock(&inode->write_lock);
	return err;
}
