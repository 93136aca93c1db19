/*
 * The state of a panic, for the console; what everybody uses is in printk.h.
 */
#ifndef KERNEL_PANIC_H
#define KERNEL_PANIC_H

#include "kernel/types.h"

/* Another CPU panics: this one has nothing to say any more. */
bool panic_elsewhere(void);

/* arch/x86_64/power.c: leave the emulator with the status for a panic (early: before the command
 * line was read); on a real machine halt. */
void machine_exit_panic(bool early) __noreturn;

#endif
