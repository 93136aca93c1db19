/*
 * The end of a run. QEMU's isa-debug-exit device at port 0x501 ends the emulator
 * with status 2 * value + 1: tests/qemu.sh gives the values their meaning.
 */
#ifndef ARCH_POWER_H
#define ARCH_POWER_H

#include "kernel/types.h"

#define EXIT_PANIC       0x20
#define EXIT_PANIC_EARLY 0x21
#define EXIT_STATUS      0x40 /* | exit status of PID 1, at most 0x3f */

/* Leave the emulator with a value; without it power off by ACPI; else reset; else halt. */
void machine_exit(u8 value) __noreturn;
/* PID 1 has ended with this status: tell and leave. */
void machine_exit_status(u32 status) __noreturn;
/* reboot(2). */
void machine_power_off(void) __noreturn;
void machine_reset(void) __noreturn;
void machine_halt(void) __noreturn;

#endif
