/* Tables of System V objects: see ipc.h. */
#include "kernel/ipc.h"

#include <asm/errno.h>
#include <linux/ipc.h>

#include "kernel/process.h"
#include "kernel/string.h"

/*
 * A number says the place in the table and how often places were given, so that old ones are
 * not mistaken.
 */
#define ID_PLACES 32768

static struct ipc_object *by_key(struct ipc_table *t, int key)
{
	for (u32 i = 0; i < IPC_SLOTS && key != IPC_PRIVATE; i++)
		if (t->slots[i] && t->slots[i]->perm.key == key)
			return t->slots[i];
	return NULL;
}

static long insert(struct ipc_table *t, struct ipc_object *o, int key, int flags)
{
	const struct cred *c = &current->process->cred;

	for (u32 i = 0; i < IPC_SLOTS; i++) {
		if (t->slots[i])
			continue;
		memset(&o->perm, 0, sizeof(o->perm));
		o->perm.key = key;
		o->perm.uid = o->perm.cuid = c->euid;
		o->perm.gid = o->perm.cgid = c->egid;
		o->perm.mode = (__kernel_mode_t)(flags & 0777);
		o->perm.seq = (unsigned short)t->seq;
		o->id = (int)(t->seq * ID_PLACES + i);
		o->refs = 1;
		if (++t->seq >= 0x7fffffff / ID_PLACES)
			t->seq = 0;
		t->slots[i] = o;
		t->used++;
		return o->id;
	}
	return -ENOSPC;
}

static long use_old(struct ipc_object *o, int flags, int (*check)(struct ipc_object *, void *),
		    void *arg)
{
	long err;

	if ((flags & (IPC_CREAT | IPC_EXCL)) == (IPC_CREAT | IPC_EXCL))
		return -EEXIST;
	err = check(o, arg);
	if (!err)
		err = ipc_access(o, (u32)(flags | flags >> 3 | flags >> 6) & 6);
	return err ? err : o->id;
}

long ipc_get(struct ipc_table *t, int key, int flags,
	     struct ipc_object *(*make)(void *arg, int *err),
	     int (*check)(struct ipc_object *o, void *arg), void *arg)
{
	struct ipc_object *o, *fresh = NULL;
	int err = 0;
	long ret;

	for (;;) {
		spin_lock(&t->lock);
		o = by_key(t, key);
		if (o)
			ret = use_old(o, flags, check, arg);
		else if (key != IPC_PRIVATE && !(flags & IPC_CREAT))
			ret = -ENOENT;
		else if (fresh)
			ret = insert(t, fresh, key, flags);
		else
			ret = 1; /* make one, and look again */
		bool listed = fresh && !o && ret >= 0;

		spin_unlock(&t->lock);
		if (o || fresh || ret < 0) {
			if (fresh && !listed)
				t->destroy(fresh);
			return ret;
		}
		fresh = make(arg, &err);
		if (!fresh)
			return err;
	}
}

static struct ipc_object *take(struct ipc_table *t, u32 slot, int id, int *err)
{
	struct ipc_object *o = NULL;

	*err = -EINVAL;
	if (slot >= IPC_SLOTS)
		return NULL;
	spin_lock(&t->lock);
	o = t->slots[slot];
	if (o && id >= 0 && o->id != id) {
		*err = -EIDRM;
		o = NULL;
	}
	if (o)
		o->refs++;
	spin_unlock(&t->lock);
	return o;
}

struct ipc_object *ipc_find(struct ipc_table *t, int id, int *err)
{
	*err = -EINVAL;
	return id < 0 ? NULL : take(t, (u32)id % ID_PLACES, id, err);
}

struct ipc_object *ipc_find_slot(struct ipc_table *t, u32 slot, int *err)
{
	return take(t, slot, -1, err);
}

void ipc_put(struct ipc_table *t, struct ipc_object *o)
{
	bool last;

	spin_lock(&t->lock);
	last = --o->refs == 0;
	spin_unlock(&t->lock);
	if (last)
		t->destroy(o);
}

void ipc_unlist(struct ipc_table *t, struct ipc_object *o)
{
	t->slots[(u32)o->id % ID_PLACES] = NULL;
	t->used--;
	o->removed = true;
}

int ipc_access(const struct ipc_object *o, u32 want)
{
	const struct cred *c = &current->process->cred;
	u32 mode = o->perm.mode;

	if (is_root())
		return 0;
	if (c->euid == o->perm.uid || c->euid == o->perm.cuid)
		mode >>= 6;
	else if (c->egid == o->perm.gid || c->egid == o->perm.cgid)
		mode >>= 3;
	return want & ~mode & 6 ? -EACCES : 0;
}

int ipc_owner(const struct ipc_object *o)
{
	u32 euid = current->process->cred.euid;

	return is_root() || euid == o->perm.uid || euid == o->perm.cuid ? 0 : -EPERM;
}

void ipc_set_perm(struct ipc_table *t, struct ipc_object *o, const struct ipc64_perm *from)
{
	spin_lock(&t->lock);
	o->perm.uid = from->uid;
	o->perm.gid = from->gid;
	o->perm.mode = (__kernel_mode_t)((o->perm.mode & ~0777u) | (from->mode & 0777));
	spin_unlock(&t->lock);
}

long ipc_highest(struct ipc_table *t)
{
	long highest = 0;

	spin_lock(&t->lock);
	for (u32 i = 0; i < IPC_SLOTS; i++)
		if (t->slots[i])
			highest = i;
	spin_unlock(&t->lock);
	return highest;
}
