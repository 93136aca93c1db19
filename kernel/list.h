/* Doubly linked circular lists with the node inside the element. No locking here. */
#ifndef KERNEL_LIST_H
#define KERNEL_LIST_H

#include "kernel/types.h"

struct list {
	struct list *next, *prev;
};

#define LIST_INIT(l) { &(l), &(l) }

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}
static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}
static inline void list_insert_(struct list *n, struct list *prev, struct list *next)
{
	n->prev = prev;
	n->next = next;
	prev->next = n;
	next->prev = n;
}
static inline void list_add(struct list *head, struct list *n) /* first */
{
	list_insert_(n, head, head->next);
}
static inline void list_add_tail(struct list *head, struct list *n) /* last */
{
	list_insert_(n, head->prev, head);
}
/* Remove; the node becomes an empty list of its own, so removing twice is harmless. */
static inline void list_del(struct list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	list_init(n);
}
/* Move all of from to the tail of to. */
static inline void list_splice_tail(struct list *to, struct list *from)
{
	if (list_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	list_init(from);
}

#define list_entry(p, T, m)  container_of(p, T, m)
#define list_first(h, T, m)  container_of((h)->next, T, m)
#define list_last(h, T, m)   container_of((h)->prev, T, m)
#define list_for_each(it, h, T, m)                                                                 \
	for (T *it = container_of((h)->next, T, m); &it->m != (h);                                 \
	     it = container_of(it->m.next, T, m))
/* Allows removal of `it` itself. */
#define list_for_each_safe(it, h, T, m)                                                            \
	for (T *it = container_of((h)->next, T, m), *next_ = container_of(it->m.next, T, m);        \
	     &it->m != (h); it = next_, next_ = container_of(next_->m.next, T, m))

#endif
