/*
 * System V shared memory: removal while attached, attaching at addresses and with rights, counts,
 * fork, exec, exit. known-bugs: SH-01.
 */
#include "harness.h"

#include <sys/ipc.h>
#include <sys/shm.h>

#ifndef SHM_DEST
#define SHM_DEST 01000
#endif

static int new_segment(size_t size)
{
	return NEED_OK(shmget(IPC_PRIVATE, size, IPC_CREAT | 0600));
}

static void *attach(int id)
{
	void *p = shmat(id, NULL, 0);

	NEED(p != (void *)-1);
	return p;
}

TEST(removed, "SH-01 IPC_RMID while attached")
{
	int id = new_segment(2 * P);
	struct shmid_ds ds;
	char *a = attach(id);

	strcpy(a, "hello");
	CHECK_EQ(shmctl(id, IPC_RMID, NULL), 0);
	char *b = attach(id);
	CHECK(a != b);
	CHECK(!strcmp(b, "hello"));
	CHECK_EQ(shmctl(id, IPC_STAT, &ds), 0);
	CHECK(ds.shm_perm.mode & SHM_DEST);
	CHECK_EQ(ds.shm_nattch, 2);
	CHECK_EQ(ds.shm_segsz, 2 * P);
	pid_t pid = xfork();
	if (pid == 0) {
		CHECK_EQ(shmctl(id, IPC_STAT, &ds), 0);
		CHECK_EQ(ds.shm_nattch, 4);
		strcpy(b + P, "child");
		done();
	}
	join_child(pid);
	CHECK(!strcmp(a + P, "child"));
	CHECK_EQ(shmctl(id, IPC_STAT, &ds), 0);
	CHECK_EQ(ds.shm_nattch, 2);
	CHECK_EQ(shmdt(a), 0);
	CHECK(!strcmp(b, "hello"));
	CHECK_FAULT(loads(a), SIGSEGV, SEGV_MAPERR_, a);
	CHECK_EQ(shmdt(b), 0);
	CHECK_ERR(shmat(id, NULL, 0), EINVAL);
	CHECK_ERR(shmctl(id, IPC_STAT, &ds), EINVAL);
}

TEST(removed_idle, "SH-01 IPC_RMID with nobody attached")
{
	int id = new_segment(P);

	CHECK_EQ(shmctl(id, IPC_RMID, NULL), 0);
	CHECK_ERR(shmat(id, NULL, 0), EINVAL);
	CHECK_ERR(shmctl(id, IPC_RMID, NULL), EINVAL);
	/* Contents outlive every attachment until then. */
	id = new_segment(P);
	char *p = attach(id);
	p[9] = 9;
	CHECK_EQ(shmdt(p), 0);
	p = attach(id);
	CHECK_EQ(p[9], 9);
	CHECK_EQ(shmdt(p), 0);
	CHECK_EQ(shmctl(id, IPC_RMID, NULL), 0);
}

TEST(keys, "SH-01 keys")
{
	key_t key = 0x46000000 | getpid();

	CHECK_ERR(shmget(key, P, 0600), ENOENT);
	int id = NEED_OK(shmget(key, 3 * P - 5, IPC_CREAT | IPC_EXCL | 0640));
	CHECK_ERR(shmget(key, P, IPC_CREAT | IPC_EXCL | 0600), EEXIST);
	CHECK_EQ(shmget(key, P, 0), id);
	CHECK_EQ(shmget(key, 0, 0), id);
	CHECK_ERR(shmget(key, 4 * P, 0), EINVAL);
	CHECK_ERR(shmget(IPC_PRIVATE, 0, IPC_CREAT | 0600), EINVAL);
	struct shmid_ds ds;
	CHECK_EQ(shmctl(id, IPC_STAT, &ds), 0);
	CHECK_EQ(ds.shm_segsz, 3 * P - 5);
	CHECK_EQ(ds.shm_perm.mode & 0777, 0640);
	CHECK_EQ(ds.shm_cpid, getpid());
	CHECK_EQ(shmctl(id, IPC_RMID, NULL), 0);
	CHECK_ERR(shmget(key, P, 0), ENOENT);
}

TEST(addresses, "SH-01 where and how a segment is attached")
{
	int id = new_segment(2 * P);
	char *want = (char *)ZONE;

	CHECK_EQ(shmat(id, want, 0), want);
	CHECK_ERR(shmat(id, want, 0), EINVAL); /* in use */
	CHECK_EQ(shmat(id, want + 4 * P + 17, SHM_RND), want + 4 * P);
	CHECK_ERR(shmat(id, want + 8 * P + 17, 0), EINVAL);
	char *r = shmat(id, NULL, SHM_RDONLY);
	NEED(r != (void *)-1);
	want[0] = 7;
	CHECK_EQ(r[0] + want[4 * P], 14);
	CHECK_FAULT(stores(r, 1), SIGSEGV, SEGV_ACCERR_, r);
	CHECK_EQ(shmat(id, want, SHM_REMAP), want);
	CHECK_EQ(want[0], 7);
	CHECK_ERR(shmdt(want + P), EINVAL);
	CHECK_ERR(shmdt(want + 64 * P), EINVAL);
	CHECK_EQ(shmdt(want), 0);
	CHECK_EQ(shmdt(want + 4 * P), 0);
	CHECK_EQ(shmdt(r), 0);
	CHECK_EQ(shmctl(id, IPC_RMID, NULL), 0);
}

TEST(counts, "SH-01 munmap, mremap and exit count as detaching")
{
	int id = new_segment(4 * P);
	struct shmid_ds ds;
	char *p = attach(id);

	unmap(p + P, P); /* two areas now */
	CHECK_EQ(shmctl(id, IPC_STAT, &ds), 0);
	CHECK_EQ(ds.shm_nattch, 2);
	unmap(p, P);
	unmap(p + 2 * P, 2 * P);
	CHECK_EQ(shmctl(id, IPC_STAT, &ds), 0);
	CHECK_EQ(ds.shm_nattch, 0);
	for (int way = 0; way < 2; way++) {
		pid_t pid = xfork();

		if (pid == 0) {
			p = attach(id);
			p[0]++;
			if (way)
				self_exec("0", NULL);
			done();
		}
		join_child(pid);
		CHECK_EQ(shmctl(id, IPC_STAT, &ds), 0);
		CHECK_EQ(ds.shm_nattch, 0);
		CHECK_EQ(ds.shm_lpid, pid);
	}
	p = attach(id);
	CHECK_EQ(p[0], 2);
	CHECK_EQ(shmctl(id, IPC_RMID, NULL), 0);
}

TEST(race, "SH-01 IPC_RMID against shmat", .cpus = 2, .seconds = 40)
{
	struct {
		struct meet m;
		volatile int id;
	} *s = map(P, RW, SHANON);

	s->m.n = 2;
	pid_t pid = xfork();
	int me = pid == 0;
	pin(me);
	for (long i = 0; me ? follow(&s->m) : lead(&s->m, go_on(i, 100)); i++) {
		if (!me) {
			s->id = new_segment(P);
			char *p = attach(s->id);
			*p = 77;
			shmdt(p);
		}
		meet(&s->m);
		if (me) {
			errno = 0;
			char *p = shmat(s->id, NULL, 0);

			if (p == (void *)-1) {
				CHECK_MSG(errno == EINVAL || errno == EIDRM, "shmat: %s",
					  errno_name(errno));
			} else {
				CHECK_EQ(*p, 77);
				CHECK_EQ(shmdt(p), 0);
			}
		} else {
			CHECK_EQ(shmctl(s->id, IPC_RMID, NULL), 0);
		}
		meet(&s->m);
	}
	if (me)
		done();
	join_child(pid);
}

TEST(many, "SH-01 many processes share a segment", .seconds = 40)
{
	enum { N = 12, WORDS = 64 };
	int id = new_segment(WORDS * P);
	pid_t pid[N];

	for (int i = 0; i < N; i++) {
		pid[i] = xfork();
		if (pid[i] == 0) {
			char *p = attach(id);

			pin(i);
			for (int k = 0; k < WORDS; k++)
				__atomic_fetch_add((int *)(p + k * P), i + 1, __ATOMIC_RELAXED);
			if (i % 2)
				shmdt(p);
			done();
		}
	}
	for (int i = 0; i < N; i++)
		join_child(pid[i]);
	char *p = attach(id);
	for (int k = 0; k < WORDS; k++)
		CHECK_EQ(*(int *)(p + k * P), N * (N + 1) / 2);
	CHECK_EQ(shmctl(id, IPC_RMID, NULL), 0);
	CHECK_EQ(shmdt(p), 0);
}
