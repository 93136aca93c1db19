/*
 * How CPU time divides into user and system time: see account.c.
 */
#ifndef ARCH_ACCOUNT_H
#define ARCH_ACCOUNT_H

#include "kernel/types.h"

enum { TIME_ACCOUNT_TSC, TIME_ACCOUNT_OFF };
extern int time_account; /* boot parameter time.account */

#endif
