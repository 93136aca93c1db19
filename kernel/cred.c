/*
 * User and group identities, capabilities. There is one set a process; root (effective uid 0) may
 * everything, others what POSIX gives them. Files look at fsuid and fsgid, signals at the rest.
 */
#include <asm/errno.h>
#include <linux/capability.h>

#include "arch/x86_64/uaccess.h"
#include "kernel/process.h"
#include "kernel/string.h"
#include "kernel/syscall.h"

#define KEEP     0xffffffffu /* (uid_t)-1: leave it */
#define ALL_CAPS ((1UL << (CAP_LAST_CAP + 1)) - 1)

static struct cred *own(void)
{
	return &current->process->cred;
}

/* --- users --------------------------------------------------------------------- */

long sys_getuid(void)
{
	return own()->uid;
}

long sys_geteuid(void)
{
	return own()->euid;
}

static bool may_uid(u32 id)
{
	struct cred *c = own();

	return id == KEEP || is_root() || id == c->uid || id == c->euid || id == c->suid;
}

long sys_setuid(u64 id)
{
	struct cred *c = own();
	u32 uid = (u32)id;

	if (uid == KEEP)
		return -EINVAL;
	if (is_root())
		c->uid = c->suid = uid;
	else if (uid != c->uid && uid != c->suid)
		return -EPERM;
	c->euid = c->fsuid = uid;
	return 0;
}

long sys_setreuid(u64 r, u64 e)
{
	struct cred *c = own();
	u32 uid = (u32)r, euid = (u32)e, old = c->uid;

	if (!is_root() && ((uid != KEEP && uid != c->uid && uid != c->euid) || !may_uid(euid)))
		return -EPERM;
	if (uid != KEEP)
		c->uid = uid;
	if (euid != KEEP)
		c->euid = euid;
	if (uid != KEEP || (euid != KEEP && euid != old))
		c->suid = c->euid;
	c->fsuid = c->euid;
	return 0;
}

long sys_setresuid(u64 r, u64 e, u64 s)
{
	struct cred *c = own();

	if (!may_uid((u32)r) || !may_uid((u32)e) || !may_uid((u32)s))
		return -EPERM;
	if ((u32)r != KEEP)
		c->uid = (u32)r;
	if ((u32)e != KEEP)
		c->euid = (u32)e;
	if ((u32)s != KEEP)
		c->suid = (u32)s;
	c->fsuid = c->euid;
	return 0;
}

static long put_three(u64 a, u64 b, u64 c, u32 x, u32 y, u32 z)
{
	return put_user_u32(a, x) || put_user_u32(b, y) || put_user_u32(c, z) ? -EFAULT : 0;
}

long sys_getresuid(u64 r, u64 e, u64 s)
{
	return put_three(r, e, s, own()->uid, own()->euid, own()->suid);
}

/* Returns the old value, whatever happens. */
long sys_setfsuid(u64 id)
{
	struct cred *c = own();
	u32 old = c->fsuid;

	if ((u32)id != KEEP && (may_uid((u32)id) || (u32)id == old))
		c->fsuid = (u32)id;
	return old;
}

/* --- groups ---------------------------------------------------------------------- */

long sys_getgid(void)
{
	return own()->gid;
}

long sys_getegid(void)
{
	return own()->egid;
}

static bool may_gid(u32 id)
{
	struct cred *c = own();

	return id == KEEP || is_root() || id == c->gid || id == c->egid || id == c->sgid;
}

long sys_setgid(u64 id)
{
	struct cred *c = own();
	u32 gid = (u32)id;

	if (gid == KEEP)
		return -EINVAL;
	if (is_root())
		c->gid = c->sgid = gid;
	else if (gid != c->gid && gid != c->sgid)
		return -EPERM;
	c->egid = c->fsgid = gid;
	return 0;
}

long sys_setregid(u64 r, u64 e)
{
	struct cred *c = own();
	u32 gid = (u32)r, egid = (u32)e, old = c->gid;

	if (!is_root() && ((gid != KEEP && gid != c->gid && gid != c->egid) || !may_gid(egid)))
		return -EPERM;
	if (gid != KEEP)
		c->gid = gid;
	if (egid != KEEP)
		c->egid = egid;
	if (gid != KEEP || (egid != KEEP && egid != old))
		c->sgid = c->egid;
	c->fsgid = c->egid;
	return 0;
}

long sys_setresgid(u64 r, u64 e, u64 s)
{
	struct cred *c = own();

	if (!may_gid((u32)r) || !may_gid((u32)e) || !may_gid((u32)s))
		return -EPERM;
	if ((u32)r != KEEP)
		c->gid = (u32)r;
	if ((u32)e != KEEP)
		c->egid = (u32)e;
	if ((u32)s != KEEP)
		c->sgid = (u32)s;
	c->fsgid = c->egid;
	return 0;
}

long sys_getresgid(u64 r, u64 e, u64 s)
{
	return put_three(r, e, s, own()->gid, own()->egid, own()->sgid);
}

long sys_setfsgid(u64 id)
{
	struct cred *c = own();
	u32 old = c->fsgid;

	if ((u32)id != KEEP && (may_gid((u32)id) || (u32)id == old))
		c->fsgid = (u32)id;
	return old;
}

long sys_getgroups(u64 size, u64 list)
{
	struct cred *c = own();

	if ((s32)size < 0)
		return -EINVAL;
	if (!size)
		return c->nr_groups;
	if (size < c->nr_groups)
		return -EINVAL;
	return copy_to_user(list, c->groups, c->nr_groups * sizeof(u32)) ? -EFAULT :
									    (long)c->nr_groups;
}

long sys_setgroups(u64 size, u64 list)
{
	struct cred *c = own();
	u32 groups[NGROUPS];

	if (!is_root())
		return -EPERM;
	if (size > NGROUPS)
		return -EINVAL;
	if (copy_from_user(groups, list, size * sizeof(u32)))
		return -EFAULT;
	memcpy(c->groups, groups, size * sizeof(u32));
	c->nr_groups = (u32)size;
	return 0;
}

/* --- capabilities -------------------------------------------------------------------- */

/* Version and pid in; the version the kernel speaks is written back if it is another. */
static long cap_header(vaddr_t uheader, u32 *words, int *pid)
{
	u32 version;

	if (get_user_u32(uheader, &version))
		return -EFAULT;
	switch (version) {
	case _LINUX_CAPABILITY_VERSION_1:
		*words = 1;
		break;
	case _LINUX_CAPABILITY_VERSION_2:
	case _LINUX_CAPABILITY_VERSION_3:
		*words = 2;
		break;
	default:
		return put_user_u32(uheader, _LINUX_CAPABILITY_VERSION_3) ? -EFAULT : -EINVAL;
	}
	return get_user_u32(uheader + 4, (u32 *)pid);
}

long sys_capget(u64 uheader, u64 udata)
{
	struct __user_cap_data_struct data[2];
	struct process *p;
	u32 words;
	u64 caps;
	int pid;
	long err = cap_header(uheader, &words, &pid);

	if (err)
		return err == -EINVAL && !udata ? 0 : err;
	if (pid < 0)
		return -EINVAL;
	p = pid ? process_by_pid(pid) : process_get(current->process);
	if (!p)
		return -ESRCH;
	caps = p->cred.euid == 0 ? ALL_CAPS : 0;
	process_put(p);
	for (u32 i = 0; i < 2; i++) {
		data[i].effective = data[i].permitted = (u32)(caps >> (32 * i));
		data[i].inheritable = 0;
	}
	return copy_to_user(udata, data, words * sizeof(data[0])) ? -EFAULT : 0;
}

/*
 * Capabilities follow the user id and cannot be given away one by one: what asks for less is
 * believed.
 */
long sys_capset(u64 uheader, u64 udata)
{
	struct __user_cap_data_struct data[2];
	u32 words;
	int pid;
	long err = cap_header(uheader, &words, &pid);

	if (err)
		return err;
	if (pid && pid != current->tid)
		return -EPERM;
	memset(data, 0, sizeof(data));
	if (copy_from_user(data, udata, words * sizeof(data[0])))
		return -EFAULT;
	if (!is_root() && (data[0].permitted || data[1].permitted))
		return -EPERM;
	return 0;
}
