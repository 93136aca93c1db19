/*
 * The page cache of one file (tmpfs) or of one shared anonymous area: frames by
 * index. Lookup is lock-free under RCU; changes take mapping->lock. The areas
 * that map it hang on i_mmap, so that truncation finds them.
 *
 * Truncation against faults: truncate lowers size, zaps all areas, then removes
 * the frames (page->mapping = NULL). A fault that has found a frame looks again
 * at size and page->mapping under the page-table lock; the zap takes that same
 * lock afterwards. So a fault sees the truncation, or the zap sees its entry.
 */
#ifndef MM_MAPPING_H
#define MM_MAPPING_H

#include "kernel/list.h"
#include "kernel/lock.h"
#include "mm/page.h"

struct mapping {
	u64 size;        /* bytes; writers: lock; readers: READ_ONCE */
	u64 nr_pages;    /* lock */
	spinlock_t lock; /* guards the tree and page->mapping */
	u32 refs;        /* atomic */
	void *tree;      /* root of the index tree; RCU */
	bool shm_destroyed;
	u32 seals;       /* F_SEAL_* */
	struct mutex i_mmap_lock; /* guards i_mmap */
	struct list i_mmap;  /* struct area, mapping_link */
	u32 writable_maps;
	struct mempolicy *policy; /* of a shared area; lock to write, RCU to read */
	struct rcu_head rcu;
};

struct mapping *mapping_create(u64 size); /* one reference; NULL if out of memory */
void mapping_get(struct mapping *m);
bool mapping_tryget(struct mapping *m); /* under RCU: false if it is being freed */
void mapping_put(struct mapping *m); /* the last one frees all frames */

/* Frame at an index with a reference taken, or NULL. Any context, takes no lock. */
struct page *mapping_find(struct mapping *m, u64 index);

/*
 * Frame at an index, with a reference; made and cleared (or, overwrite: not cleared, the
 * caller fills all of it) if not there. NULL: out of memory. Does not look at size.
 * May sleep in reclaim.
 */
struct page *mapping_get_page(struct mapping *m, u64 index, bool overwrite);

/* The same with flags of page_alloc(): ALLOC_NOWAIT for faults that may not sleep. */
struct page *mapping_make_page(struct mapping *m, u64 index, unsigned flags);

/* Drop frames beyond the end of file that a write which failed has made. */
void mapping_trim(struct mapping *m);

/* Set the size; shrinking zaps and frees all beyond, clears the rest of the last page. Sleeps. */
void mapping_truncate(struct mapping *m, u64 new_size);
/* Free the whole pages in [start, end) bytes, clear partial ones (FALLOC_FL_PUNCH_HOLE). Sleeps. */
void mapping_punch(struct mapping *m, u64 start, u64 end);

/*
 * Copy between user memory and the file at *pos, advancing it; no lock is held
 * while user memory is touched, so source and target may be the same page.
 * Returns bytes (short at EOF for reads, after a fault, or out of memory), or -EFAULT, -ENOMEM, -EFBIG. write
 * extends the size as it goes.
 */
long mapping_read(struct mapping *m, u64 *pos, vaddr_t ubuf, size_t n);
long mapping_write(struct mapping *m, u64 *pos, vaddr_t ubuf, size_t n);
/* The same with kernel memory (ELF headers, initramfs). */
long mapping_read_kernel(struct mapping *m, u64 pos, void *buf, size_t n);
long mapping_write_kernel(struct mapping *m, u64 pos, const void *buf, size_t n);

#define MAX_FILE_SIZE 0x7fffffffffffffffUL

u64 mapping_pages(void); /* frames in all page caches */
void mapping_init(void);

#endif
