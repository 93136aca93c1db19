/*
 * Pipes: a ring of pages, between pipe.c (bytes in and out) and splice.c (whole pages in and out).
 */
#ifndef KERNEL_FS_PIPE_H
#define KERNEL_FS_PIPE_H

#include "kernel/vfs.h"
#include "mm/page.h"

enum pipe_page {
	PIPE_OWN,    /* made by write(): may be appended to; page_free() */
	PIPE_CACHE,  /* of a file, or shared with another pipe: page_put() */
	PIPE_PINNED, /* user's memory given by vmsplice(): page_unpin() */
};

struct pipe_buf {
	struct page *page;
	u32 off, len; /* the bytes in it */
	enum pipe_page kind;
};

/*
 * lock guards everything, and is never held while user memory is touched. Only whoever holds
 * reading (a mutex, which no page fault takes) moves tail and what lies there, so a reader may
 * copy to the user from the first buffer and take it away afterwards: nothing is lost when the
 * copy fails. Wake-ups happen outside lock.
 */
struct pipe {
	spinlock_t lock;
	struct mutex reading;
	struct pipe_buf *ring;
	u32 slots;      /* power of two */
	u32 head, tail; /* free-running: next to fill, first that is filled */
	u32 readers, writers;
	u64 reader_opens, writer_opens; /* for open() of a fifo, which waits for the other side */
	struct page *spare; /* an empty page, to save a trip to the allocator */
	struct wait_queue read_wait, write_wait;
};

#define PIPE_SLOTS 16

struct pipe *file_pipe(struct file *f); /* NULL if it is not one */

/*
 * Append the buffer, waiting for room unless nonblock. 0: the page is the pipe's now (own pages
 * may have been copied and freed instead); else -EAGAIN, -EPIPE (SIGPIPE was sent),
 * -ERESTARTSYS and it is still the caller's.
 */
int pipe_push(struct pipe *p, struct pipe_buf *buf, bool nonblock);
/* Wait until there is something to read: 1; 0: no writers; -EAGAIN, -ERESTARTSYS. reading must
 * not be held. */
int pipe_wait_readable(struct pipe *p, bool nonblock);
/* Copy of the i-th filled buffer; false if there are not so many. */
bool pipe_peek(struct pipe *p, u32 i, struct pipe_buf *buf);
/* The same with a reference on the page, which from now on no write may append to. */
bool pipe_share(struct pipe *p, u32 i, struct pipe_buf *buf);
/* Wait until a push would not have to (or no readers are left). 0, -EAGAIN, -ERESTARTSYS. */
int pipe_wait_writable(struct pipe *p, bool nonblock);
/* n bytes of the first buffer are done with. reading is held. */
void pipe_consume(struct pipe *p, u32 n);
void pipe_buf_release(struct pipe_buf *buf);

#endif
