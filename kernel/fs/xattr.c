/*
 * Extended attributes: no file has any, and none can be set. ls and cp ask all the same, and take
 * ENOSYS for a fault.
 */
#include <asm/errno.h>

#include "kernel/syscall.h"

#define NONE(name, args, result)                                                                   \
	long sys_##name(SYS_ARGS_##args)                                                           \
	{                                                                                          \
		return result;                                                                     \
	}

NONE(getxattr, 4, -EOPNOTSUPP)
NONE(lgetxattr, 4, -EOPNOTSUPP)
NONE(fgetxattr, 4, -EOPNOTSUPP)
NONE(listxattr, 3, 0)
NONE(llistxattr, 3, 0)
NONE(flistxattr, 3, 0)
NONE(setxattr, 5, -EOPNOTSUPP)
NONE(lsetxattr, 5, -EOPNOTSUPP)
NONE(fsetxattr, 5, -EOPNOTSUPP)
NONE(removexattr, 2, -EOPNOTSUPP)
NONE(lremovexattr, 2, -EOPNOTSUPP)
NONE(fremovexattr, 2, -EOPNOTSUPP)
