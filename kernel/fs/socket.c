/*
 * AF_UNIX sockets as socketpair(2) makes them: two ends, each with a queue of messages that the
 * other has sent. A stream is a queue whose messages' borders are not seen. There are no
 * addresses: connect(2) finds nobody.
 *
 * Locks: each end's lock guards its queue and is not held while user memory is touched;
 * `reading` (a mutex) keeps readers apart, so that one may copy from the first message and take
 * it away afterwards. An end lives until both it and its peer have let go.
 */
#include <asm/ioctls.h>
#include <asm/signal.h>
#include <linux/poll.h>

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/uaccess.h"
#include "kernel/printf.h"
#include "kernel/string.h"
#include "kernel/syscall.h"
#include "kernel/task.h"
#include "kernel/vfs.h"
#include "mm/slab.h"

DEFINE_LOCK_CLASS(socket_class, "socket", RANK_VFS_LEAF);
DEFINE_LOCK_CLASS(socket_reading_class, "socket_reading", RANK_VFS);

#define AF_UNIX_       1
#define SOCK_STREAM_   1
#define SOCK_DGRAM_    2
#define SOCK_SEQ_      5
#define MSG_PEEK_      0x2
#define MSG_TRUNC_     0x20
#define MSG_DONTWAIT_  0x40
#define MSG_WAITALL_   0x100
#define MSG_NOSIGNAL_  0x4000

#define QUEUE_MAX  212992 /* bytes waiting at one end */
#define MSG_MAX    (QUEUE_MAX - 32)
#define STREAM_MSG 3968   /* with its head a page */

struct message {
	struct list link;
	size_t len, off; /* bytes, and how many have been read */
	char data[];
};

struct sock {
	u32 refs;          /* atomic: its file, its peer */
	int type;
	struct sock *peer; /* constant; NULL: not connected */
	spinlock_t lock;   /* guards the rest */
	struct list queue; /* messages for this end */
	size_t queued;
	bool closed;       /* this end's file is gone */
	bool no_more;      /* the other side will send no more */
	bool cannot_send;  /* shutdown(SHUT_WR) */
	struct mutex reading;
	struct wait_queue read_wait; /* something to read here */
	struct wait_queue write_wait; /* room here: the peer waits */
};

static struct volume vol_sock = { .type = "sockfs", .where = "", .dev = 0x8, .magic = 0x534f434b };

static struct sock *sock_create(int type)
{
	struct sock *s = kzalloc(sizeof(*s));

	if (!s)
		return NULL;
	s->refs = 1;
	s->type = type;
	spin_init(&s->lock, &socket_class);
	mutex_init(&s->reading, &socket_reading_class);
	list_init(&s->queue);
	wait_init(&s->read_wait);
	wait_init(&s->write_wait);
	return s;
}

static void sock_put(struct sock *s)
{
	if (atomic_sub(&s->refs, 1))
		return;
	list_for_each_safe (m, &s->queue, struct message, link)
		kfree(m);
	kfree(s);
}

/* --- sending ----------------------------------------------------------------------- */

/* Put m into to's queue if there is room (an empty queue always has). */
static bool try_enqueue(struct sock *to, struct message *m)
{
	bool ok;

	spin_lock(&to->lock);
	ok = !to->queued || to->queued + m->len <= QUEUE_MAX;
	if (ok) {
		list_add_tail(&to->queue, &m->link);
		to->queued += m->len;
	}
	spin_unlock(&to->lock);
	return ok;
}

static bool has_room(struct sock *to, size_t len)
{
	size_t queued = READ_ONCE(to->queued);

	return !queued || queued + len <= QUEUE_MAX || READ_ONCE(to->closed);
}

static int check_send(struct sock *s)
{
	if (!s->peer)
		return -ENOTCONN;
	if (READ_ONCE(s->cannot_send))
		return -EPIPE;
	if (READ_ONCE(s->peer->closed))
		return s->type == SOCK_DGRAM_ ? -ECONNREFUSED : -EPIPE;
	return 0;
}

/* One message of n bytes. 0 or -errno. */
static int send_one(struct sock *s, struct uio *u, size_t n, bool nonblock)
{
	struct message *m = kmalloc(sizeof(*m) + n);
	int err = 0;

	if (!m)
		return -ENOMEM;
	m->len = n;
	m->off = 0;
	if (uio_get(u, m->data, n) < n) {
		kfree(m);
		return -EFAULT;
	}
	while (!(err = check_send(s)) && !try_enqueue(s->peer, m)) {
		if (nonblock)
			err = -EAGAIN;
		else if (wait_event_interruptible(&s->peer->write_wait, has_room(s->peer, n)))
			err = -ERESTARTSYS;
		if (err)
			break;
	}
	if (err)
		kfree(m);
	else
		wake_up_all(&s->peer->read_wait);
	return err;
}

static long sock_send(struct sock *s, struct uio *u, u32 flags, bool nonblock)
{
	long total = 0;
	int err = check_send(s);

	nonblock |= flags & MSG_DONTWAIT_;
	if (!err && s->type != SOCK_STREAM_) {
		size_t n = u->left;

		err = n > MSG_MAX ? -EMSGSIZE : send_one(s, u, n, nonblock);
		if (!err)
			return (long)n;
	}
	while (!err && s->type == SOCK_STREAM_ && u->left) {
		size_t n = MIN(u->left, STREAM_MSG);

		err = send_one(s, u, n, nonblock);
		if (!err)
			total += (long)n;
	}
	if (err == -EPIPE && !total && !(flags & MSG_NOSIGNAL_))
		signal_self(SIGPIPE);
	return total ? total : err;
}

/* --- receiving ------------------------------------------------------------------------ */

static struct message *first_message(struct sock *s)
{
	struct message *m = NULL;

	spin_lock(&s->lock);
	if (!list_empty(&s->queue))
		m = list_first(&s->queue, struct message, link);
	spin_unlock(&s->lock);
	return m;
}

/* n more bytes of the first message are done with; the whole of it if `all`. reading is held. */
static void consume(struct sock *s, struct message *m, size_t n, bool all)
{
	bool gone;

	spin_lock(&s->lock);
	m->off += n;
	gone = all || m->off == m->len;
	if (gone) {
		list_del(&m->link);
		s->queued -= m->len;
	}
	spin_unlock(&s->lock);
	if (gone)
		kfree(m);
	wake_up_all(&s->write_wait);
}

/* End of file: nobody can send any more. */
static bool at_end(struct sock *s)
{
	return READ_ONCE(s->no_more) ||
	       (s->type != SOCK_DGRAM_ && s->peer && READ_ONCE(s->peer->closed));
}

static bool can_read(struct sock *s)
{
	return first_message(s) || at_end(s);
}

/* A datagram, cut to what fits; *truncated says so. */
static long take_datagram(struct sock *s, struct uio *u, u32 flags, bool *truncated)
{
	struct message *m = first_message(s);
	size_t n, want;

	if (!m)
		return -EAGAIN;
	want = MIN(u->left, m->len);
	n = uio_put(u, m->data, want);
	if (n < want)
		return -EFAULT;
	*truncated = want < m->len;
	if (flags & MSG_TRUNC_)
		n = m->len;
	if (!(flags & MSG_PEEK_))
		consume(s, m, m->len, true);
	return (long)n;
}

static long take_stream(struct sock *s, struct uio *u, u32 flags)
{
	struct message *m;
	long total = 0;

	while (u->left && (m = first_message(s))) {
		size_t want = MIN(u->left, m->len - m->off);
		size_t n = uio_put(u, m->data + m->off, want);

		total += (long)n;
		if (!(flags & MSG_PEEK_) && n)
			consume(s, m, n, false);
		if (n < want)
			return total ? total : -EFAULT;
		if (flags & MSG_PEEK_)
			break;
	}
	return total ? total : -EAGAIN;
}

static long sock_recv(struct sock *s, struct uio *u, u32 flags, bool nonblock, bool *truncated)
{
	bool stream = s->type == SOCK_STREAM_;
	long total = 0;

	nonblock |= flags & MSG_DONTWAIT_;
	if (stream && !u->left)
		return 0;
	for (;;) {
		long n;

		mutex_lock(&s->reading);
		n = stream ? take_stream(s, u, flags) : take_datagram(s, u, flags, truncated);
		mutex_unlock(&s->reading);
		if (n >= 0)
			total += n;
		if (n >= 0 && !(stream && (flags & MSG_WAITALL_) && u->left))
			return total;
		if (n < 0 && n != -EAGAIN)
			return total ? total : n;
		if (!first_message(s) && at_end(s))
			return total;
		if (!s->peer)
			return stream ? -EINVAL : -ENOTCONN;
		if (nonblock)
			return total ? total : -EAGAIN;
		if (wait_event_interruptible(&s->read_wait, can_read(s)))
			return total ? total : -ERESTARTSYS;
	}
}

/* --- as a file ---------------------------------------------------------------------------- */

static long sock_read(struct file *f, u64 *pos, struct uio *u)
{
	bool truncated;

	return sock_recv(f->data, u, 0, f->flags & O_NONBLOCK, &truncated);
}

static long sock_write(struct file *f, u64 *pos, struct uio *u)
{
	return sock_send(f->data, u, 0, f->flags & O_NONBLOCK);
}

static u32 sock_poll(struct file *f, struct poll_table *t)
{
	struct sock *s = f->data;
	u32 events = 0;

	poll_wait(t, &s->read_wait);
	if (!s->peer)
		return POLLOUT | POLLWRNORM | POLLHUP;
	poll_wait(t, &s->peer->write_wait);
	if (can_read(s))
		events |= POLLIN | POLLRDNORM;
	if (at_end(s))
		events |= POLLRDHUP;
	if (at_end(s) && (s->cannot_send || READ_ONCE(s->peer->closed)))
		events |= POLLHUP;
	if (has_room(s->peer, STREAM_MSG))
		events |= POLLOUT | POLLWRNORM;
	return events;
}

static long sock_ioctl(struct file *f, u32 cmd, u64 arg)
{
	struct sock *s = f->data;
	u32 n = 0;

	if (cmd != FIONREAD)
		return -ENOTTY;
	spin_lock(&s->lock);
	list_for_each (m, &s->queue, struct message, link) {
		n += (u32)(m->len - m->off);
		if (s->type != SOCK_STREAM_) /* the next one's */
			break;
	}
	spin_unlock(&s->lock);
	return put_user_u32(arg, n);
}

static void sock_release(struct file *f)
{
	struct sock *s = f->data;

	spin_lock(&s->lock);
	s->closed = true;
	spin_unlock(&s->lock);
	if (s->peer) {
		wake_up_all(&s->peer->read_wait);
		wake_up_all(&s->write_wait); /* the peer's senders */
		sock_put(s->peer);
	}
	sock_put(s);
}

static const struct file_ops sock_ops = {
	.read = sock_read,
	.write = sock_write,
	.poll = sock_poll,
	.ioctl = sock_ioctl,
	.release = sock_release,
};

/* Takes over s; NULL with *err. */
static struct file *sock_file(struct sock *s, u32 flags, int *err)
{
	struct inode *inode = inode_create(&vol_sock, S_IFSOCK | 0777, NULL, NULL);
	char name[32];
	struct file *f;

	ksnprintf(name, sizeof(name), "socket:[%lu]", inode ? inode->ino : 0);
	f = anon_file(inode, name, O_RDWR | (flags & O_NONBLOCK), &sock_ops, s, err);
	if (!f)
		sock_put(s);
	return f;
}

/* --- the calls ------------------------------------------------------------------------------- */

static int check_type(u64 domain, u64 type, u64 protocol)
{
	u32 kind = (u32)type & 0xf;

	if ((u32)domain != AF_UNIX_)
		return -EAFNOSUPPORT;
	if ((u32)type & ~(0xfu | O_NONBLOCK | O_CLOEXEC))
		return -EINVAL;
	if (kind != SOCK_STREAM_ && kind != SOCK_DGRAM_ && kind != SOCK_SEQ_)
		return -ESOCKTNOSUPPORT;
	return protocol && (u32)protocol != AF_UNIX_ ? -EPROTONOSUPPORT : 0;
}

long sys_socketpair(u64 domain, u64 type, u64 protocol, u64 usv)
{
	int err = check_type(domain, type, protocol);
	struct sock *a, *b;
	struct file *fa, *fb;

	if (err)
		return err;
	a = sock_create(type & 0xf);
	b = sock_create(type & 0xf);
	if (!a || !b) {
		if (a)
			sock_put(a);
		if (b)
			sock_put(b);
		return -ENOMEM;
	}
	a->peer = b;
	b->peer = a;
	a->refs = b->refs = 2;
	fa = sock_file(a, (u32)type, &err);
	if (!fa) { /* a's own reference is gone; b's file would have dropped the one that is left */
		sock_put(b);
		sock_put(b);
		sock_put(a);
		return err;
	}
	fb = sock_file(b, (u32)type, &err);
	if (!fb) {
		file_put(fa); /* drops a, and a's reference on b */
		sock_put(a);  /* b's reference on a */
		return err;
	}
	return fd_add_pair(fa, fb, type & O_CLOEXEC, usv);
}

long sys_socket(u64 domain, u64 type, u64 protocol)
{
	int err = check_type(domain, type, protocol);
	struct sock *s;
	struct file *f;

	if (err)
		return err;
	s = sock_create(type & 0xf);
	if (!s)
		return -ENOMEM;
	f = sock_file(s, (u32)type, &err);
	return f ? fd_add(f, type & O_CLOEXEC) : err;
}

static struct file *sock_get(u64 fd, int *err)
{
	struct file *f = fd_get((int)fd);

	*err = 0;
	if (!f) {
		*err = -EBADF;
		return NULL;
	}
	if (f->ops != &sock_ops) {
		file_put(f);
		*err = -ENOTSOCK;
		return NULL;
	}
	return f;
}

/* struct sockaddr_un: who is there? Nobody ever listens. */
static long find_nobody(vaddr_t uaddr, u64 len)
{
	char path[112] = "";
	struct dentry *d;
	int err;

	if (len < 2 || len > 110)
		return -EINVAL;
	if (copy_from_user(path, uaddr, len))
		return -EFAULT;
	if (path[0] != AF_UNIX_ || path[1])
		return -EINVAL;
	if (!path[2])
		return -ECONNREFUSED;
	d = path_lookup_kernel(path + 2, &err);
	if (!d)
		return err;
	dentry_put(d);
	return -ECONNREFUSED;
}

long sys_connect(u64 fd, u64 uaddr, u64 len)
{
	int err;
	struct file *f = sock_get(fd, &err);
	long ret;

	if (!f)
		return err;
	ret = ((struct sock *)f->data)->peer ? -EISCONN : find_nobody(uaddr, len);
	file_put(f);
	return ret;
}

long sys_sendto(u64 fd, u64 buf, u64 len, u64 flags, u64 uaddr, u64 addr_len)
{
	int err;
	struct file *f = sock_get(fd, &err);
	struct segment seg;
	struct uio u;
	long ret;

	if (!f)
		return err;
	if (!user_range_ok(buf, len))
		ret = -EFAULT;
	else if (uaddr && ((struct sock *)f->data)->peer)
		ret = -EISCONN;
	else if (uaddr)
		ret = find_nobody(uaddr, addr_len);
	else {
		uio_init(&u, &seg, buf, MIN(len, MAX_RW), false);
		ret = sock_send(f->data, &u, (u32)flags, f->flags & O_NONBLOCK);
	}
	file_put(f);
	return ret;
}

long sys_recvfrom(u64 fd, u64 buf, u64 len, u64 flags, u64 uaddr, u64 uaddr_len)
{
	int err;
	struct file *f = sock_get(fd, &err);
	bool truncated = false;
	struct segment seg;
	struct uio u;
	long ret;

	if (!f)
		return err;
	if (!user_range_ok(buf, len)) {
		ret = -EFAULT;
	} else {
		uio_init(&u, &seg, buf, MIN(len, MAX_RW), false);
		ret = sock_recv(f->data, &u, (u32)flags, f->flags & O_NONBLOCK, &truncated);
		if (ret >= 0 && uaddr && uaddr_len && put_user_u32(uaddr_len, 0))
			ret = -EFAULT;
	}
	file_put(f);
	return ret;
}

struct user_msg { /* struct msghdr */
	u64 name;
	u32 name_len, pad;
	u64 iov, iov_len, control, control_len;
	u32 flags, pad2;
};

/* Control messages (descriptors, credentials) are not there. */
static long message_call(u64 fd, vaddr_t umsg, u32 flags, bool send)
{
	int err;
	struct file *f = sock_get(fd, &err);
	bool truncated = false;
	struct user_msg msg;
	struct user_iov v;
	long ret;

	if (!f)
		return err;
	ret = copy_from_user(&msg, umsg, sizeof(msg)) ? -EFAULT : 0;
	if (!ret && send && msg.control_len)
		ret = -EINVAL;
	if (!ret)
		ret = msg.iov_len > MAX_IOV ? -EMSGSIZE : iov_load(&v, msg.iov, msg.iov_len);
	if (ret)
		goto out;
	if (send) {
		ret = sock_send(f->data, &v.u, flags, f->flags & O_NONBLOCK);
	} else {
		ret = sock_recv(f->data, &v.u, flags, f->flags & O_NONBLOCK, &truncated);
		msg.name_len = 0;
		msg.control_len = 0;
		msg.flags = truncated ? MSG_TRUNC_ : 0;
		if (ret >= 0 && copy_to_user(umsg, &msg, offsetof(struct user_msg, pad2)))
			ret = -EFAULT;
	}
	iov_free(&v);
out:
	file_put(f);
	return ret;
}

long sys_sendmsg(u64 fd, u64 umsg, u64 flags)
{
	return message_call(fd, umsg, (u32)flags, true);
}

long sys_recvmsg(u64 fd, u64 umsg, u64 flags)
{
	return message_call(fd, umsg, (u32)flags, false);
}

long sys_shutdown(u64 fd, u64 how)
{
	int err;
	struct file *f = sock_get(fd, &err);
	struct sock *s;

	if (!f)
		return err;
	s = f->data;
	if (how > 2)
		err = -EINVAL;
	else if (!s->peer)
		err = -ENOTCONN;
	if (!err && how != 1) { /* no more reading here */
		WRITE_ONCE(s->no_more, true);
		WRITE_ONCE(s->peer->cannot_send, true);
	}
	if (!err && how != 0) { /* no more writing */
		WRITE_ONCE(s->cannot_send, true);
		WRITE_ONCE(s->peer->no_more, true);
	}
	if (!err) {
		wake_up_all(&s->read_wait);
		wake_up_all(&s->peer->read_wait);
		wake_up_all(&s->write_wait);
		wake_up_all(&s->peer->write_wait);
	}
	file_put(f);
	return err;
}
