/*
 * System calls: the list, the prototypes, the way in.
 *
 * Every call is `long sys_NAME(u64, ...)`, NAME as in __NR_NAME, with as many
 * u64 arguments as Linux's call has. It runs in the calling task with
 * interrupts on and no lock held, and returns a value or -errno. Arguments are the raw
 * registers: an int must be cast to int, a pointer is a vaddr_t to be used
 * only through arch/x86_64/uaccess.h.
 *
 * A call that a signal interrupts returns one of the ERESTART codes below, as
 * in Linux; none of them ever reaches the user.
 */
#ifndef KERNEL_SYSCALL_H
#define KERNEL_SYSCALL_H

#include "arch/x86_64/trap.h"
#include "kernel/types.h"

/* -EINTR if a handler without SA_RESTART runs, else the call is made again. */
#define ERESTARTSYS 512
/* Always made again, whatever the handler's flags. */
#define ERESTARTNOINTR 513
/* -EINTR if any handler runs, else made again. */
#define ERESTARTNOHAND 514
/* As above, but made again as restart_syscall(2), which calls task->restart.func. */
#define ERESTART_RESTARTBLOCK 516

/* S(name, number of arguments), by the room that has them. */
#define SYSCALLS(S)                                                                                \
	/* files */                                                                                \
	S(read, 3) S(write, 3) S(open, 3) S(close, 1) S(stat, 2) S(fstat, 2) S(lstat, 2)           \
	S(poll, 3) S(lseek, 3) S(ioctl, 3) S(pread64, 4) S(pwrite64, 4) S(readv, 3) S(writev, 3)   \
	S(access, 2) S(pipe, 1) S(select, 5) S(dup, 1) S(dup2, 2) S(sendfile, 4) S(socket, 3)      \
	S(connect, 3) S(socketpair, 4) S(fcntl, 3) S(flock, 2) S(fsync, 1) S(fdatasync, 1)         \
	S(truncate, 2) S(ftruncate, 2) S(getdents, 3) S(getcwd, 2) S(chdir, 1) S(fchdir, 1)        \
	S(rename, 2) S(mkdir, 2) S(rmdir, 1) S(creat, 2) S(link, 2) S(unlink, 1) S(symlink, 2)     \
	S(readlink, 3) S(chmod, 2) S(fchmod, 2) S(chown, 3) S(fchown, 3) S(lchown, 3) S(umask, 1)  \
	S(mknod, 3) S(statfs, 2) S(fstatfs, 2) S(sync, 0) S(mount, 5) S(umount2, 2)                \
	S(readahead, 3) S(getdents64, 3) S(fadvise64, 4) S(utime, 2) S(utimes, 2)                  \
	S(openat, 4) S(mkdirat, 3) S(mknodat, 4) S(fchownat, 5) S(futimesat, 3)                    \
	S(newfstatat, 4) S(unlinkat, 3) S(renameat, 4) S(renameat2, 5) S(linkat, 5)                \
	S(symlinkat, 3) S(readlinkat, 4) S(fchmodat, 3) S(faccessat, 3) S(faccessat2, 4)           \
	S(pselect6, 6) S(ppoll, 5) S(splice, 6) S(tee, 4) S(vmsplice, 4) S(utimensat, 4)           \
	S(fallocate, 4) S(dup3, 3) S(pipe2, 2) S(preadv, 5) S(pwritev, 5) S(preadv2, 6)            \
	S(pwritev2, 6) S(syncfs, 1) S(memfd_create, 2) S(copy_file_range, 6) S(statx, 5)           \
	S(close_range, 3) S(eventfd, 1) S(eventfd2, 2) S(chroot, 1) S(vhangup, 0)                  \
	S(syslog, 3) S(sync_file_range, 4) S(sendto, 6) S(recvfrom, 6) S(sendmsg, 3)               \
	S(recvmsg, 3) S(shutdown, 2) S(getxattr, 4) S(lgetxattr, 4) S(fgetxattr, 4)                \
	S(listxattr, 3) S(llistxattr, 3) S(flistxattr, 3) S(setxattr, 5) S(lsetxattr, 5)           \
	S(fsetxattr, 5) S(removexattr, 2) S(lremovexattr, 2) S(fremovexattr, 2)                    \
	/* memory */                                                                               \
	S(mmap, 6) S(mprotect, 3) S(munmap, 2) S(brk, 1) S(mremap, 5) S(msync, 3) S(mincore, 3)    \
	S(madvise, 3) S(mlock, 2) S(munlock, 2) S(mlockall, 1) S(munlockall, 0) S(mlock2, 3)       \
	S(remap_file_pages, 5) S(mbind, 6) S(set_mempolicy, 3) S(get_mempolicy, 5)                 \
	S(migrate_pages, 4) S(move_pages, 6) S(set_mempolicy_home_node, 4)                         \
	S(process_vm_readv, 6) S(process_vm_writev, 6)                       \
	S(pkey_mprotect, 4) S(pkey_alloc, 2) S(pkey_free, 1)                     \
	/* tasks: clone.c exec.c exit.c process.c */                                               \
	S(fork, 0) S(vfork, 0) S(clone, 5) S(clone3, 2) S(execve, 3) S(execveat, 5) S(exit, 1)     \
	S(exit_group, 1) S(wait4, 4) S(waitid, 5) S(set_tid_address, 1) S(getpid, 0)               \
	S(getppid, 0) S(gettid, 0) S(setpgid, 2) S(getpgid, 1) S(getpgrp, 0) S(setsid, 0)          \
	S(getsid, 1)                                                                               \
	/* signals: signal.c sigframe.c */                                                         \
	S(rt_sigaction, 4) S(rt_sigprocmask, 4) S(rt_sigreturn, 0) S(rt_sigpending, 2)             \
	S(rt_sigtimedwait, 4) S(rt_sigqueueinfo, 3) S(rt_tgsigqueueinfo, 4) S(rt_sigsuspend, 2)    \
	S(kill, 2) S(tkill, 2) S(tgkill, 3) S(sigaltstack, 2) S(pause, 0) S(restart_syscall, 0)    \
	/* futex.c */                                                                              \
	S(futex, 6) S(futex_waitv, 5) S(set_robust_list, 2) S(get_robust_list, 3)                  \
	/* time.c ptimer.c */                                                                      \
	S(nanosleep, 2) S(clock_nanosleep, 4) S(clock_gettime, 2) S(clock_settime, 2)              \
	S(clock_getres, 2) S(gettimeofday, 2) S(settimeofday, 2) S(time, 1) S(getitimer, 2)        \
	S(setitimer, 3) S(alarm, 1) S(timer_create, 3) S(timer_settime, 4) S(timer_gettime, 2)     \
	S(timer_getoverrun, 1) S(timer_delete, 1) S(times, 1) S(getrusage, 2)                      \
	/* sysmisc.c sched calls */                                                                \
	S(sched_yield, 0) S(sched_setparam, 2) S(sched_getparam, 2) S(sched_setscheduler, 3)       \
	S(sched_getscheduler, 1) S(sched_get_priority_max, 1) S(sched_get_priority_min, 1)         \
	S(sched_rr_get_interval, 2) S(sched_setaffinity, 3) S(sched_getaffinity, 3)                \
	S(getpriority, 2) S(setpriority, 3) S(getcpu, 3) S(ioprio_get, 2) S(ioprio_set, 3)         \
	S(uname, 1) S(sysinfo, 1) S(prctl, 5) S(arch_prctl, 2) S(getrlimit, 2) S(setrlimit, 2)     \
	S(prlimit64, 4) S(getrandom, 3) S(membarrier, 3) S(personality, 1) S(reboot, 4)            \
	S(getuid, 0) S(getgid, 0) S(geteuid, 0) S(getegid, 0) S(setuid, 1) S(setgid, 1)            \
	S(setreuid, 2) S(setregid, 2) S(setresuid, 3) S(setresgid, 3) S(getresuid, 3)              \
	S(getresgid, 3) S(setfsuid, 1) S(setfsgid, 1) S(getgroups, 2) S(setgroups, 2)              \
	S(capget, 2) S(capset, 2) S(sethostname, 2) S(setdomainname, 2)                            \
	/* ipc.c */                                                                                \
	S(shmget, 3) S(shmat, 3) S(shmctl, 3) S(shmdt, 1) S(semget, 3) S(semop, 3)                 \
	S(semctl, 4) S(semtimedop, 4)

#define SYS_ARGS_0 void
#define SYS_ARGS_1 u64 a
#define SYS_ARGS_2 u64 a, u64 b
#define SYS_ARGS_3 u64 a, u64 b, u64 c
#define SYS_ARGS_4 u64 a, u64 b, u64 c, u64 d
#define SYS_ARGS_5 u64 a, u64 b, u64 c, u64 d, u64 e
#define SYS_ARGS_6 u64 a, u64 b, u64 c, u64 d, u64 e, u64 f
#define SYS_PROTOTYPE(name, n) long sys_##name(SYS_ARGS_##n);
SYSCALLS(SYS_PROTOTYPE)

#endif
