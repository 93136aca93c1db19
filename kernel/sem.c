/*
 * System V semaphores: sets of counters that change together or not at all.
 *
 * One lock guards a set. Who cannot go on leaves his operations in the set's queue; whoever
 * changes the set tries them all again, in order, and carries out those that can go on now.
 * So when a call has returned, everything that it made possible has happened. What an
 * operation with SEM_UNDO did is noted per process and set, and taken back when the process
 * ends.
 *
 * Locks: undo_lock (who has which undo) outside of a set's lock; neither is held while user
 * memory is touched.
 */
#include <asm/errno.h>
#include <asm/sembuf.h>
#include <linux/ipc.h>
#include <linux/sem.h>

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/ipc.h"
#include "kernel/process.h"
#include "kernel/signal.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "kernel/time.h"
#include "mm/slab.h"

struct semaphore {
	u16 value;
	int pid;           /* who changed it last */
	u32 ncount, zcount; /* who waits for it to grow, to be 0 */
};

struct sem_set {
	struct ipc_object ipc;   /* first */
	u32 nsems;               /* constant */
	spinlock_t lock;         /* guards all below; takes only run queues inside */
	bool dead;               /* removed: waiters get EIDRM */
	long otime, ctime;
	struct list waiting;     /* struct sem_operation, longest first */
	struct list undos;       /* struct sem_undo, set_link */
	struct semaphore sem[];
};

struct sem_undo {
	struct list process_link; /* process->sem_undos; undo_lock */
	struct list set_link;     /* set->lock */
	struct sem_set *set;      /* with a reference */
	s16 adjust[];             /* what to add at exit; set->lock */
};

DEFINE_LOCK_CLASS(sem_class, "semaphores", RANK_SIGNAL);

static void set_destroy(struct ipc_object *o);
static struct ipc_table sets = { .destroy = set_destroy };
static spinlock_t undo_lock; /* guards process->sem_undos of all; never under a set's lock */

static long now_seconds(void)
{
	return (long)(clock_realtime_ns() / NS_PER_SEC);
}

static struct sem_set *set_of(struct ipc_object *o)
{
	return container_of(o, struct sem_set, ipc);
}

static void set_destroy(struct ipc_object *o)
{
	kfree(set_of(o));
}

/* --- semget ------------------------------------------------------------------------- */

static struct ipc_object *set_make(void *arg, int *err)
{
	u32 nsems = *(u32 *)arg;
	struct sem_set *s;

	*err = -EINVAL;
	if (!nsems)
		return NULL;
	s = kzalloc(sizeof(*s) + nsems * sizeof(s->sem[0]));
	*err = -ENOMEM;
	if (!s)
		return NULL;
	s->nsems = nsems;
	spin_init(&s->lock, &sem_class);
	list_init(&s->waiting);
	list_init(&s->undos);
	s->ctime = now_seconds();
	return &s->ipc;
}

static int set_fits(struct ipc_object *o, void *arg)
{
	return *(u32 *)arg > set_of(o)->nsems ? -EINVAL : 0;
}

long sys_semget(u64 key, u64 nsems, u64 flags)
{
	u32 n = (u32)nsems;

	if ((s32)n < 0 || n > SEMMSL)
		return -EINVAL;
	return ipc_get(&sets, (int)key, (int)flags, set_make, set_fits, &n);
}

/* --- semop ------------------------------------------------------------------------------ */

/* On the stack of the task that calls; all guarded by the set's lock. */
struct sem_operation {
	struct sem_set *set;
	struct sem_undo *undo;   /* NULL: no operation wants one */
	const struct sembuf *ops;
	u32 nr;
	int pid;
	int blocked;             /* index of the operation that cannot go on */
	struct task *task;
	struct list link;        /* set->waiting */
	int result;              /* 1: still waiting; stored last, as the waiter may go then */
};

static u32 *waiter_count(struct sem_operation *o)
{
	const struct sembuf *op = &o->ops[o->blocked];
	struct semaphore *sem = &o->set->sem[op->sem_num];

	return op->sem_op ? &sem->ncount : &sem->zcount;
}

/*
 * One after the other; what has been done is undone if one cannot go on. 0, 1 wait, -errno.
 * Set locked.
 */
static int try_all(struct sem_operation *o)
{
	int ret = 0;
	u32 i;

	for (i = 0; i < o->nr; i++) {
		const struct sembuf *op = &o->ops[i];
		struct semaphore *sem = &o->set->sem[op->sem_num];
		int value = sem->value + op->sem_op;

		if (op->sem_op ? value < 0 : sem->value != 0) {
			ret = op->sem_flg & IPC_NOWAIT ? -EAGAIN : 1;
			o->blocked = (int)i;
			break;
		}
		if (value > SEMVMX) {
			ret = -ERANGE;
			break;
		}
		if (op->sem_flg & SEM_UNDO) {
			int adjust = o->undo->adjust[op->sem_num] - op->sem_op;

			if (adjust < -SEMAEM - 1 || adjust > SEMAEM) {
				ret = -ERANGE;
				break;
			}
			o->undo->adjust[op->sem_num] = (s16)adjust;
		}
		sem->value = (u16)value;
	}
	if (!ret) {
		for (i = 0; i < o->nr; i++)
			o->set->sem[o->ops[i].sem_num].pid = o->pid;
		return 0;
	}
	while (i-- > 0) {
		const struct sembuf *op = &o->ops[i];

		o->set->sem[op->sem_num].value -= (u16)op->sem_op;
		if (op->sem_flg & SEM_UNDO)
			o->undo->adjust[op->sem_num] += op->sem_op;
	}
	return ret;
}

static void finish(struct sem_operation *o, int result)
{
	struct task *t = o->task;

	--*waiter_count(o);
	list_del(&o->link);
	task_get(t);
	smp_store_release(&o->result, result);
	wake_task(t);
	task_put(t);
}

/* The set has changed: whoever can go on now does. Set locked. */
static void run_waiting(struct sem_set *s)
{
	bool again;

	do {
		again = false;
		list_for_each_safe(o, &s->waiting, struct sem_operation, link) {
			int blocked = o->blocked, ret = s->dead ? -EIDRM : try_all(o);

			if (ret == 1) {
				int now = o->blocked;

				o->blocked = blocked;
				--*waiter_count(o);
				o->blocked = now;
				++*waiter_count(o);
				continue;
			}
			o->blocked = blocked;
			if (!ret)
				s->otime = now_seconds();
			finish(o, ret);
			again |= !ret;
		}
	} while (again);
}

/*
 * Queued: sleep until somebody has carried it out. 0, -EAGAIN after the deadline, -EINTR,
 * -EIDRM.
 */
static long wait_turn(struct sem_operation *o, u64 deadline)
{
	struct sem_set *s = o->set;
	long ret = 0;

	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (smp_load_acquire(&o->result) != 1)
			break;
		ret = signal_pending(current) ? -EINTR : schedule_until(deadline) ? 0 : -EAGAIN;
		if (ret)
			break;
	}
	set_current_state(TASK_RUNNING);
	spin_lock(&s->lock);
	if (o->result != 1) {
		ret = o->result;
	} else {
		--*waiter_count(o);
		list_del(&o->link);
	}
	spin_unlock(&s->lock);
	return ret;
}

/* The current process's note for this set, made if there is none. */
static struct sem_undo *undo_of(struct sem_set *s)
{
	struct process *p = current->process;
	struct sem_undo *fresh = kzalloc(sizeof(*fresh) + s->nsems * sizeof(s16)), *found = NULL;

	if (!fresh)
		return NULL;
	spin_lock(&undo_lock);
	list_for_each(u, &p->sem_undos, struct sem_undo, process_link)
		if (u->set == s)
			found = u;
	if (!found) {
		fresh->set = s;
		list_add(&p->sem_undos, &fresh->process_link);
		spin_lock(&s->lock);
		list_add(&s->undos, &fresh->set_link);
		spin_unlock(&s->lock);
		spin_lock(&sets.lock);
		s->ipc.refs++;
		spin_unlock(&sets.lock);
	}
	spin_unlock(&undo_lock);
	if (found)
		kfree(fresh);
	return found ? found : fresh;
}

static long operate(struct sem_set *s, const struct sembuf *ops, u32 nr, u64 deadline)
{
	struct sem_operation o = { .set = s, .ops = ops, .nr = nr, .task = current,
				   .pid = current->process->pid };
	bool alters = false, undo = false;
	long ret = 0;

	for (u32 i = 0; i < nr; i++) {
		if (ops[i].sem_num >= s->nsems)
			return -EFBIG;
		alters |= ops[i].sem_op != 0;
		undo |= (ops[i].sem_flg & SEM_UNDO) != 0;
	}
	ret = ipc_access(&s->ipc, alters ? 2 : 4);
	if (ret)
		return ret;
	if (undo) {
		o.undo = undo_of(s);
		if (!o.undo)
			return -ENOMEM;
	}
	spin_lock(&s->lock);
	o.result = s->dead ? -EIDRM : try_all(&o);
	ret = o.result;
	if (ret == 1) {
		++*waiter_count(&o);
		list_add_tail(&s->waiting, &o.link);
	} else if (!ret) {
		s->otime = now_seconds();
		if (alters)
			run_waiting(s);
	}
	spin_unlock(&s->lock);
	return ret == 1 ? wait_turn(&o, deadline) : ret;
}

static long semop(int id, vaddr_t uops, u64 nr, u64 deadline)
{
	struct sembuf fast[8], *ops = fast;
	struct ipc_object *o;
	long ret;
	int err;

	if (!nr || id < 0)
		return -EINVAL;
	if (nr > SEMOPM)
		return -E2BIG;
	if (nr > ARRAY_SIZE(fast)) {
		ops = kmalloc(nr * sizeof(*ops));
		if (!ops)
			return -ENOMEM;
	}
	ret = copy_from_user(ops, uops, nr * sizeof(*ops)) ? -EFAULT : 0;
	if (!ret) {
		o = ipc_find(&sets, id, &err);
		ret = err;
		if (o) {
			ret = operate(set_of(o), ops, (u32)nr, deadline);
			ipc_put(&sets, o);
		}
	}
	if (ops != fast)
		kfree(ops);
	return ret;
}

long sys_semtimedop(u64 id, u64 uops, u64 nr, u64 utimeout)
{
	u64 deadline = 0;
	int err = utimeout ? deadline_from_user(utimeout, &deadline) : 0;

	return err ? err : semop((int)id, uops, (u32)nr, deadline);
}

long sys_semop(u64 id, u64 uops, u64 nr)
{
	return semop((int)id, uops, (u32)nr, 0);
}

void sem_exit(struct process *p)
{
	while (!list_empty(&p->sem_undos)) {
		struct sem_undo *u;
		struct sem_set *s;

		spin_lock(&undo_lock);
		u = list_first(&p->sem_undos, struct sem_undo, process_link);
		list_del(&u->process_link);
		spin_unlock(&undo_lock);
		s = u->set;
		spin_lock(&s->lock);
		list_del(&u->set_link);
		for (u32 i = 0; i < s->nsems && !s->dead; i++) {
			int value = s->sem[i].value + u->adjust[i];

			if (!u->adjust[i])
				continue;
			s->sem[i].value = (u16)MIN(MAX(value, 0), SEMVMX);
			s->sem[i].pid = p->pid;
		}
		run_waiting(s);
		spin_unlock(&s->lock);
		ipc_put(&sets, &s->ipc);
		kfree(u);
	}
}

/* --- semctl ------------------------------------------------------------------------------ */

static long sem_remove(struct sem_set *s)
{
	bool listed;
	long err = ipc_owner(&s->ipc);

	if (err)
		return err;
	spin_lock(&sets.lock);
	listed = !s->ipc.removed;
	if (listed)
		ipc_unlist(&sets, &s->ipc);
	spin_unlock(&sets.lock);
	spin_lock(&s->lock);
	s->dead = true;
	run_waiting(s);
	spin_unlock(&s->lock);
	if (listed)
		ipc_put(&sets, &s->ipc);
	return 0;
}

static long sem_stat(struct sem_set *s, vaddr_t ubuf)
{
	struct semid64_ds ds;

	memset(&ds, 0, sizeof(ds));
	spin_lock(&sets.lock);
	ds.sem_perm = s->ipc.perm;
	spin_unlock(&sets.lock);
	ds.sem_otime = s->otime;
	ds.sem_ctime = s->ctime;
	ds.sem_nsems = s->nsems;
	return copy_to_user(ubuf, &ds, sizeof(ds)) ? -EFAULT : 0;
}

/* Set values: what was to be undone is void. Set locked. */
static void set_value(struct sem_set *s, u32 i, u16 value)
{
	s->sem[i].value = value;
	s->sem[i].pid = current->process->pid;
	list_for_each(u, &s->undos, struct sem_undo, set_link)
		u->adjust[i] = 0;
	s->ctime = now_seconds();
}

static long set_all(struct sem_set *s, vaddr_t uarray)
{
	u16 *values = kmalloc(s->nsems * sizeof(u16));
	long ret = 0;

	if (!values)
		return -ENOMEM;
	if (copy_from_user(values, uarray, s->nsems * sizeof(u16)))
		ret = -EFAULT;
	for (u32 i = 0; i < s->nsems && !ret; i++)
		if (values[i] > SEMVMX)
			ret = -ERANGE;
	if (!ret) {
		spin_lock(&s->lock);
		for (u32 i = 0; i < s->nsems; i++)
			set_value(s, i, values[i]);
		run_waiting(s);
		spin_unlock(&s->lock);
	}
	kfree(values);
	return ret;
}

static long get_all(struct sem_set *s, vaddr_t uarray)
{
	u16 *values = kmalloc(s->nsems * sizeof(u16));
	long ret;

	if (!values)
		return -ENOMEM;
	spin_lock(&s->lock);
	for (u32 i = 0; i < s->nsems; i++)
		values[i] = s->sem[i].value;
	spin_unlock(&s->lock);
	ret = copy_to_user(uarray, values, s->nsems * sizeof(u16)) ? -EFAULT : 0;
	kfree(values);
	return ret;
}

/* About one semaphore of the set. */
static long sem_one(struct sem_set *s, u32 n, int cmd, u64 arg)
{
	long ret = 0;

	if (n >= s->nsems)
		return -EINVAL;
	if (cmd == SETVAL && ((int)arg < 0 || (int)arg > SEMVMX))
		return -ERANGE;
	spin_lock(&s->lock);
	switch (s->dead ? -1 : cmd) {
	case GETVAL:
		ret = s->sem[n].value;
		break;
	case GETPID:
		ret = s->sem[n].pid;
		break;
	case GETNCNT:
		ret = s->sem[n].ncount;
		break;
	case GETZCNT:
		ret = s->sem[n].zcount;
		break;
	case SETVAL:
		set_value(s, n, (u16)arg);
		run_waiting(s);
		break;
	default:
		ret = -EIDRM;
	}
	spin_unlock(&s->lock);
	return ret;
}

static long sem_info(int cmd, vaddr_t ubuf)
{
	struct seminfo info = { .semmap = SEMMAP, .semmni = IPC_SLOTS, .semmns = SEMMNS,
				.semmnu = SEMMNU, .semmsl = SEMMSL, .semopm = SEMOPM,
				.semume = SEMUME, .semusz = SEMUSZ, .semvmx = SEMVMX,
				.semaem = SEMAEM };

	if (cmd == SEM_INFO) {
		info.semusz = (int)READ_ONCE(sets.used);
		info.semaem = 0;
		spin_lock(&sets.lock);
		for (u32 i = 0; i < IPC_SLOTS; i++)
			if (sets.slots[i])
				info.semaem += (int)set_of(sets.slots[i])->nsems;
		spin_unlock(&sets.lock);
	}
	return copy_to_user(ubuf, &info, sizeof(info)) ? -EFAULT : ipc_highest(&sets);
}

static long sem_set_perm(struct sem_set *s, vaddr_t ubuf)
{
	struct semid64_ds ds;
	long err = ipc_owner(&s->ipc);

	if (copy_from_user(&ds, ubuf, sizeof(ds)))
		return -EFAULT;
	if (err)
		return err;
	ipc_set_perm(&sets, &s->ipc, &ds.sem_perm);
	s->ctime = now_seconds();
	return 0;
}

static long control(struct sem_set *s, u32 n, int cmd, u64 arg)
{
	bool writes = cmd == SETVAL || cmd == SETALL;
	long err;

	if (cmd == IPC_RMID)
		return sem_remove(s);
	if (cmd == IPC_SET)
		return sem_set_perm(s, arg);
	err = cmd == SEM_STAT_ANY ? 0 : ipc_access(&s->ipc, writes ? 2 : 4);
	if (err)
		return err;
	switch (cmd) {
	case IPC_STAT:
		return sem_stat(s, arg);
	case SEM_STAT:
	case SEM_STAT_ANY:
		err = sem_stat(s, arg);
		return err ? err : s->ipc.id;
	case GETALL:
		return get_all(s, arg);
	case SETALL:
		return set_all(s, arg);
	case GETVAL:
	case GETPID:
	case GETNCNT:
	case GETZCNT:
	case SETVAL:
		return sem_one(s, n, cmd, arg);
	}
	return -EINVAL;
}

long sys_semctl(u64 id, u64 n, u64 cmd_, u64 arg)
{
	int cmd = (int)cmd_ & ~IPC_64_BIT, err;
	struct ipc_object *o;
	long ret;

	if ((int)id < 0)
		return -EINVAL;
	if (cmd == IPC_INFO || cmd == SEM_INFO)
		return sem_info(cmd, arg);
	o = cmd == SEM_STAT || cmd == SEM_STAT_ANY ? ipc_find_slot(&sets, (u32)id, &err) :
						     ipc_find(&sets, (int)id, &err);
	if (!o)
		return err;
	ret = control(set_of(o), (u32)n, cmd, arg);
	ipc_put(&sets, o);
	return ret;
}
