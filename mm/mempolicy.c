/*
 * NUMA memory policy (mempolicy.h): set_mempolicy(2), mbind(2), get_mempolicy(2),
 * move_pages(2), migrate_pages(2).
 *
 * A policy is found by the fault under RCU (through its area) or by its own
 * task, and is freed after a grace period; it never changes, so an allocation sees the
 * old set of nodes or the new one, never a mixture.
 */
#include "mm/mempolicy.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/printf.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "mm/fault.h"
#include "mm/migrate.h"
#include "mm/mmap.h"
#include "mm/node.h"
#include "mm/ptwalk.h"
#include "mm/slab.h"

#include <asm/errno.h>
#include <linux/mempolicy.h>

#ifndef MPOL_PREFERRED_MANY
#define MPOL_PREFERRED_MANY 5
#endif

struct mempolicy *mempolicy_get(struct mempolicy *p)
{
	if (p)
		atomic_add(&p->refs, 1);
	return p;
}

static void policy_free(struct rcu_head *h)
{
	kfree(container_of(h, struct mempolicy, rcu));
}

void mempolicy_put(struct mempolicy *p)
{
	if (p && atomic_sub(&p->refs, 1) == 0)
		call_rcu(&p->rcu, policy_free);
}

bool mempolicy_equal(const struct mempolicy *a, const struct mempolicy *b)
{
	return a == b || (a && b && a->mode == b->mode && a->flags == b->flags &&
			  a->user_nodes == b->user_nodes);
}

/* ---- allocation ---- */

/* The n-th node (modulo their number) of a set that is not empty. */
static int nth_node(u64 nodes, u64 n)
{
	n %= (u64)__builtin_popcountl(nodes);
	while (n--)
		nodes &= nodes - 1;
	return __builtin_ctzl(nodes);
}

struct page *mempolicy_alloc_policy(struct mempolicy *p, u64 index, unsigned flags,
				    enum page_type type)
{
	struct page *page;
	int node;

	if (likely(!p))
		p = current->mempolicy;
	if (likely(!p))
		return page_alloc(0, NO_NODE, flags, type);
	switch (p->mode) {
	case MPOL_BIND:
		return page_alloc_nodes(0, NO_NODE, p->nodes, flags, type);
	case MPOL_INTERLEAVE:
		node = nth_node(p->nodes, index);
		page = page_alloc(0, node, flags | ALLOC_THISNODE | ALLOC_NOWAIT, type);
		return page ? page : page_alloc(0, node, flags, type);
	case MPOL_PREFERRED:
		return page_alloc(0, p->nodes ? __builtin_ctzl(p->nodes) : NO_NODE, flags, type);
	case MPOL_PREFERRED_MANY:
		page = page_alloc_nodes(0, NO_NODE, p->nodes, flags | ALLOC_NOWAIT, type);
		return page ? page : page_alloc(0, NO_NODE, flags, type);
	default:
		return page_alloc(0, NO_NODE, flags, type);
	}
}

struct page *mempolicy_alloc(const struct area *a, vaddr_t addr, unsigned flags, enum page_type type)
{
	return mempolicy_alloc_policy(rcu_dereference(a->policy), addr >> PAGE_SHIFT, flags, type);
}

/* ---- arguments ---- */

/* A node mask of maxnode bits at uaddr, as Linux reads it: bits 0 .. maxnode - 2. */
static int get_nodes(vaddr_t uaddr, u64 maxnode, u64 *nodes)
{
	u64 word;

	*nodes = 0;
	if (maxnode == 0 || maxnode == 1 || !uaddr) /* maxnode counts one too many */
		return 0;
	maxnode--;
	if (maxnode > PAGE_SIZE * 8)
		return -EINVAL;
	for (u64 bit = 0; bit < maxnode; bit += 64) {
		if (get_user_u64(uaddr + bit / 8, &word))
			return -EFAULT;
		if (maxnode - bit < 64)
			word &= (1UL << (maxnode - bit)) - 1;
		if (bit == 0)
			*nodes = word;
		else if (word)
			return -EINVAL; /* nodes that cannot exist */
	}
	return 0;
}

static u64 online_nodes(void)
{
	return num_nodes == 64 ? ~0UL : (1UL << num_nodes) - 1;
}

/* Relative numbers: bit n is the n-th allowed node, around and around. */
static u64 relative(u64 nodes, u64 allowed)
{
	u64 out = 0;

	for (int i = 0; i < 64; i++)
		if (nodes >> i & 1)
			out |= 1UL << nth_node(allowed, (u64)i);
	return out;
}

/* *out = the policy asked for (NULL: default), or -errno. */
static int make_policy(int mode_flags, u64 nodes, bool home_local_only, struct mempolicy **out)
{
	u32 flags = (u32)mode_flags & (MPOL_F_STATIC_NODES | MPOL_F_RELATIVE_NODES |
				       MPOL_F_NUMA_BALANCING);
	u32 mode = (u32)mode_flags & ~flags;
	struct mempolicy *p;
	u64 effective = nodes;

	*out = NULL;
	if (mode > MPOL_PREFERRED_MANY)
		return -EINVAL;
	if ((flags & MPOL_F_STATIC_NODES) && (flags & MPOL_F_RELATIVE_NODES))
		return -EINVAL;
	if ((flags & MPOL_F_NUMA_BALANCING) && (mode != MPOL_BIND || home_local_only))
		return -EINVAL;
	if (mode == MPOL_DEFAULT)
		return nodes ? -EINVAL : 0;
	if (mode == MPOL_LOCAL || (mode == MPOL_PREFERRED && !nodes)) {
		if (nodes || (flags & (MPOL_F_STATIC_NODES | MPOL_F_RELATIVE_NODES)))
			return -EINVAL;
		mode = MPOL_LOCAL;
	} else {
		if (!nodes)
			return -EINVAL;
		if (flags & MPOL_F_RELATIVE_NODES)
			effective = relative(nodes, node_memory_mask);
		if (effective & ~online_nodes() && !(effective & online_nodes()))
			return -EINVAL;
		effective &= node_memory_mask;
		if (!effective)
			return -EINVAL;
	}
	p = kzalloc(sizeof *p);
	if (!p)
		return -ENOMEM;
	p->refs = 1;
	p->mode = (u16)mode;
	p->flags = (u16)flags;
	p->nodes = effective;
	p->user_nodes = nodes;
	*out = p;
	return 0;
}

long sys_set_mempolicy(u64 mode, u64 mask, u64 maxnode)
{
	struct mempolicy *p, *old;
	u64 nodes;
	int err = get_nodes(mask, maxnode, &nodes);

	if (!err)
		err = make_policy((int)mode, nodes, false, &p);
	if (err)
		return err;
	old = current->mempolicy;
	WRITE_ONCE(current->mempolicy, p);
	mempolicy_put(old);
	return 0;
}

/* ---- mbind ---- */

/* Pages of [start, end) in a that are on other nodes than the policy's: move them, or count them. */
static u64 misplaced(struct area *a, vaddr_t start, vaddr_t end, const struct mempolicy *p,
		     bool move, bool all)
{
	u64 nodes = p ? p->nodes : node_memory_mask, bad = 0;

	if (p && (p->mode == MPOL_LOCAL))
		nodes = 1UL << this_node();
	for (vaddr_t va = start; va < end; va += PAGE_SIZE) {
		int node = page_node_at(a->mm, va);

		if (node < 0 || (nodes >> node & 1))
			continue;
		if (!move || migrate_page(a, va, nth_node(nodes, va >> PAGE_SHIFT), all))
			bad++;
	}
	return bad;
}

static int bind_area(struct mm *mm, struct area *a, vaddr_t start, vaddr_t end, struct mempolicy *p)
{
	struct mempolicy *old;
	int err;

	area_mark(a);
	err = area_isolate(mm, &a, start, end);
	if (err) {
		area_unlock(a);
		return err;
	}
	old = a->policy;
	rcu_assign_pointer(a->policy, mempolicy_get(p));
	mempolicy_put(old);
	if (a->mapping && (a->flags & VM_SHARED)) { /* the pages of shared memory belong to the object */
		spin_lock(&a->mapping->lock);
		old = a->mapping->policy;
		rcu_assign_pointer(a->mapping->policy, mempolicy_get(p));
		spin_unlock(&a->mapping->lock);
		mempolicy_put(old);
	}
	area_unlock(area_merge(mm, a));
	return 0;
}

long sys_mbind(u64 start, u64 len, u64 mode, u64 mask, u64 maxnode, u64 flags)
{
	struct mm *mm = current->mm;
	struct mempolicy *p = NULL;
	u64 nodes, bad = 0;
	vaddr_t end;
	long err;

	if (flags & ~(u64)(MPOL_MF_STRICT | MPOL_MF_MOVE | MPOL_MF_MOVE_ALL))
		return -EINVAL;
	if (!IS_ALIGNED(start, PAGE_SIZE))
		return -EINVAL;
	err = get_nodes(mask, maxnode, &nodes);
	if (!err)
		err = make_policy((int)mode, nodes, true, &p);
	if (err)
		return err;
	end = start + ALIGN_UP(len, PAGE_SIZE);
	if (end < start || (len && end == start))
		err = -EINVAL;
	if (err || end == start)
		goto out;
	if (mm_lock_write_killable(mm)) {
		err = -EINTR;
		goto out;
	}
	/* No holes: looked at first, so that nothing changes if there is one. */
	for (vaddr_t pos = start; pos < end;) {
		struct area *a = area_at(mm, pos);

		if (!a) {
			err = -EFAULT;
			goto unlock;
		}
		pos = a->end;
	}
	if ((flags & MPOL_MF_STRICT) && !(flags & (MPOL_MF_MOVE | MPOL_MF_MOVE_ALL)))
		for (vaddr_t pos = start; pos < end;) {
			struct area *a = area_at(mm, pos);

			bad += misplaced(a, pos, MIN(end, a->end), p, false, false);
			pos = a->end;
		}
	if (bad) {
		err = -EIO;
		goto unlock;
	}
	for (vaddr_t pos = start; pos < end && !err;) {
		struct area *a = area_at(mm, pos);
		vaddr_t stop = MIN(end, a->end);

		err = bind_area(mm, a, pos, stop, p);
		if (!err && (flags & (MPOL_MF_MOVE | MPOL_MF_MOVE_ALL)))
			bad += misplaced(area_at(mm, pos), pos, stop, p, true,
					 flags & MPOL_MF_MOVE_ALL);
		pos = stop;
	}
	if (!err && bad && (flags & MPOL_MF_STRICT))
		err = -EIO;
unlock:
	mm_unlock_write(mm);
out:
	mempolicy_put(p);
	return err;
}

long sys_set_mempolicy_home_node(u64 start, u64 len, u64 node, u64 flags)
{
	if (flags || !IS_ALIGNED(start, PAGE_SIZE) || node >= (u64)num_nodes)
		return -EINVAL;
	return -EOPNOTSUPP;
}

/* ---- get_mempolicy ---- */

static long put_nodes(vaddr_t uaddr, u64 maxnode, u64 nodes)
{
	u64 bytes = ALIGN_UP(maxnode - 1, 64) / 8;

	if (!uaddr)
		return 0;
	if (maxnode < (u64)num_nodes)
		return -EINVAL;
	if (bytes > PAGE_SIZE)
		return -EINVAL;
	if (put_user_u64(uaddr, nodes))
		return -EFAULT;
	if (bytes > 8 && clear_user(uaddr + 8, bytes - 8))
		return -EFAULT;
	return 0;
}

static int policy_mode(const struct mempolicy *p)
{
	return p ? p->mode | p->flags : MPOL_DEFAULT;
}

static u64 policy_nodes(const struct mempolicy *p)
{
	if (!p || p->mode == MPOL_LOCAL)
		return 0;
	return p->flags & (MPOL_F_STATIC_NODES | MPOL_F_RELATIVE_NODES) ? p->user_nodes : p->nodes;
}

long sys_get_mempolicy(u64 pmode, u64 mask, u64 maxnode, u64 addr, u64 flags)
{
	struct mm *mm = current->mm;
	struct mempolicy *p = current->mempolicy;
	int mode;
	u64 nodes;

	if (flags & ~(u64)(MPOL_F_NODE | MPOL_F_ADDR | MPOL_F_MEMS_ALLOWED))
		return -EINVAL;
	if (mask && maxnode < (u64)num_nodes)
		return -EINVAL;
	if (flags & MPOL_F_MEMS_ALLOWED) {
		if (flags & (MPOL_F_NODE | MPOL_F_ADDR))
			return -EINVAL;
		if (pmode && put_user_u32(pmode, 0))
			return -EFAULT;
		return put_nodes(mask, maxnode, node_memory_mask);
	}
	if (flags & MPOL_F_ADDR) {
		struct area *a;

		if (flags & MPOL_F_NODE) { /* the node of the page itself */
			if (fault_in(mm, addr, false, false) != FAULT_DONE)
				return -EFAULT;
		}
		mm_lock_read(mm);
		a = area_at(mm, addr);
		if (!a) {
			mm_unlock_read(mm);
			return -EFAULT;
		}
		p = mempolicy_get(a->policy ? a->policy
				  : a->mapping && (a->flags & VM_SHARED) ? a->mapping->policy : NULL);
		mode = policy_mode(p);
		nodes = policy_nodes(p);
		if (flags & MPOL_F_NODE)
			mode = page_node_at(mm, addr & PAGE_MASK);
		mm_unlock_read(mm);
		mempolicy_put(p);
		if (mode < 0)
			return -EFAULT;
	} else {
		if (addr)
			return -EINVAL;
		mode = policy_mode(p);
		nodes = policy_nodes(p);
		if (flags & MPOL_F_NODE) {
			if (!p || p->mode != MPOL_INTERLEAVE)
				return -EINVAL;
			mode = nth_node(p->nodes, current->il_next);
		}
	}
	if (pmode && put_user_u32(pmode, (u32)mode))
		return -EFAULT;
	return put_nodes(mask, maxnode, nodes);
}

char *mempolicy_format(const struct mempolicy *p, char *buf, size_t n)
{
	static const char *const names[] = { "default",    "prefer", "bind",
					     "interleave", "local",  "prefer (many)" };
	size_t len;
	u64 nodes;

	if (!p) {
		str_copy(buf, "default", n);
		return buf;
	}
	len = str_copy(buf, names[p->mode], n);
	if (p->flags & MPOL_F_STATIC_NODES)
		len += (size_t)ksnprintf(buf + len, n - len, "=static");
	if (p->flags & MPOL_F_RELATIVE_NODES)
		len += (size_t)ksnprintf(buf + len, n - len, "=relative");
	nodes = policy_nodes(p);
	for (int i = 0, first = 1; i < 64 && len < n; i++) {
		int last = i;

		if (!(nodes >> i & 1))
			continue;
		while (last < 63 && (nodes >> (last + 1) & 1))
			last++;
		len += (size_t)ksnprintf(buf + len, n - len, last > i ? "%c%d-%d" : "%c%d",
					 first ? ':' : ',', i, last);
		first = 0;
		i = last;
	}
	return buf;
}
