/*
 * System V semaphores. (Shared memory is in shm.c.)
 */
#include "harness.h"

#include <sys/ipc.h>
#include <sys/sem.h>

union semun {
	int val;
	struct semid_ds *buf;
	unsigned short *array;
};

static int new_set(int n)
{
	int id = semget(IPC_PRIVATE, n, IPC_CREAT | 0600);

	if (id < 0 && errno == ENOSYS)
		skip("no semaphores");
	NEED(id >= 0);
	return id;
}

static int op(int id, int num, int by, int flags)
{
	struct sembuf b = { num, by, flags };

	return semop(id, &b, 1);
}

TEST(values, "SV values, limits, errors")
{
	int id = new_set(3);
	unsigned short values[3] = { 1, 2, 3 };

	CHECK_EQ(semctl(id, 0, GETVAL), 0);
	CHECK_EQ(semctl(id, 0, SETALL, (union semun){ .array = values }), 0);
	CHECK_EQ(semctl(id, 2, GETVAL), 3);
	CHECK_EQ(semctl(id, 1, SETVAL, (union semun){ .val = 7 }), 0);
	CHECK_EQ(semctl(id, 0, GETALL, (union semun){ .array = values }), 0);
	CHECK_EQ(values[0] * 100 + values[1] * 10 + values[2], 173);
	CHECK_ERR(semctl(id, 3, GETVAL), EINVAL);
	CHECK_ERR(semctl(id, 0, SETVAL, (union semun){ .val = 40000 }), ERANGE);
	CHECK_ERR(op(id, 3, 1, 0), EFBIG);
	CHECK_ERR(op(id, 0, -2, IPC_NOWAIT), EAGAIN);
	CHECK_ERR(op(id, 0, 0, IPC_NOWAIT), EAGAIN);
	CHECK_ERR(op(id, 0, 32767, 0), ERANGE);
	CHECK_EQ(op(id, 0, -1, 0), 0);
	CHECK_EQ(op(id, 0, 0, 0), 0);
	CHECK_EQ(semctl(id, 0, GETPID), getpid());
	struct semid_ds ds;
	CHECK_EQ(semctl(id, 0, IPC_STAT, (union semun){ .buf = &ds }), 0);
	CHECK_EQ(ds.sem_nsems, 3);
	/* All operations of one call or none. */
	struct sembuf two[2] = { { 1, -1, 0 }, { 0, -1, IPC_NOWAIT } };
	CHECK_ERR(semop(id, two, 2), EAGAIN);
	CHECK_EQ(semctl(id, 1, GETVAL), 7);
	CHECK_EQ(semctl(id, 0, IPC_RMID), 0);
	CHECK_ERR(semctl(id, 0, GETVAL), EINVAL);
	CHECK_ERR(op(id, 0, 1, 0), EINVAL);
	CHECK_ERR(semget(IPC_PRIVATE, 0, IPC_CREAT), EINVAL);
	CHECK_ERR(semget(0x46123456, 1, 0), ENOENT);
}

TEST(blocking, "SV waiting, waking, removal under a waiter, interruption")
{
	int id = new_set(1);
	pid_t pid = xfork();

	if (pid == 0) {
		CHECK_EQ(op(id, 0, -3, 0), 0);
		CHECK_ERR(op(id, 0, -1, 0), EIDRM);
		done();
	}
	for (int i = 0; i < 1000 && semctl(id, 0, GETNCNT) != 1; i++)
		sleep_ms(1);
	CHECK_EQ(semctl(id, 0, GETNCNT), 1);
	CHECK_EQ(op(id, 0, 2, 0), 0);
	sleep_ms(5);
	CHECK_EQ(semctl(id, 0, GETVAL), 2);
	CHECK_EQ(op(id, 0, 1, 0), 0);
	for (int i = 0; i < 1000 && semctl(id, 0, GETNCNT) != 1; i++)
		sleep_ms(1);
	CHECK_EQ(semctl(id, 0, GETVAL), 0);
	CHECK_EQ(semctl(id, 0, IPC_RMID), 0);
	join_child(pid);
}

TEST(undo, "SV SEM_UNDO at exit and at SIGKILL")
{
	int id = new_set(1);

	CHECK_EQ(op(id, 0, 5, 0), 0);
	for (int way = 0; way < 2; way++) {
		struct door d = door();
		pid_t pid = xfork();

		if (pid == 0) {
			CHECK_EQ(op(id, 0, -3, SEM_UNDO), 0);
			let(d);
			if (way)
				for (;;)
					pause();
			done();
		}
		pass(d);
		if (way) {
			CHECK_EQ(semctl(id, 0, GETVAL), 2);
			kill(pid, SIGKILL);
		}
		wait_raw(pid);
		CHECK_EQ(semctl(id, 0, GETVAL), 5);
	}
	CHECK_EQ(semctl(id, 0, IPC_RMID), 0);
}

TEST(mutex, "SV a semaphore as a lock between processes", .seconds = 40)
{
	int id = new_set(1);
	volatile long *counter = map(P, RW, SHANON);
	pid_t pid[4];
	long n = rounds(150);

	CHECK_EQ(op(id, 0, 1, 0), 0);
	for (int i = 0; i < 4; i++)
		if ((pid[i] = xfork()) == 0) {
			pin(i);
			for (long k = 0; k < n; k++) {
				CHECK_EQ(op(id, 0, -1, 0), 0);
				long seen = *counter;
				if (k % 8 == 0)
					sched_yield();
				*counter = seen + 1;
				CHECK_EQ(op(id, 0, 1, 0), 0);
			}
			done();
		}
	for (int i = 0; i < 4; i++)
		join_child(pid[i]);
	CHECK_EQ(*counter, 4 * n);
	CHECK_EQ(semctl(id, 0, IPC_RMID), 0);
}
