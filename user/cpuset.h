/* What sched.h should say of sets of CPUs: some versions of musl give CPU_SETSIZE in bytes. */
#ifndef USER_CPUSET_H
#define USER_CPUSET_H

#include <sched.h>

#define CPUS_IN_SET	(8 * (int)sizeof(cpu_set_t))

#endif
