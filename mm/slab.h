/*
 * Object caches, and kmalloc on top of them. Any context but interrupts
 * handlers (the caches take plain spinlocks).
 */
#ifndef MM_SLAB_H
#define MM_SLAB_H

#include "kernel/types.h"

struct slab_cache;

/* size in bytes up to 2048; align a power of two. Objects are not cleared. */
struct slab_cache *slab_create(const char *name, size_t size, size_t align);
void *slab_alloc(struct slab_cache *c); /* NULL if out of memory */
void *slab_zalloc(struct slab_cache *c);
void slab_free(struct slab_cache *c, void *obj);

/* Any size; above 2048 whole frames. NULL if out of memory. */
void *kmalloc(size_t size) __must_check;
void *kzalloc(size_t size) __must_check;
void kfree(void *p); /* NULL is fine */
size_t ksize(const void *p);

void slab_init(void);
struct seq;
void slab_show(struct seq *s); /* /proc/slabinfo */
u64 slab_frames(void);  /* frames that hold objects */
u64 slab_objects(void); /* objects in use, all caches */
/* Give free objects and slabs back; number of frames freed. Sleeps. */
u64 slab_shrink(void);
void slab_cpu_init(void);

#endif
