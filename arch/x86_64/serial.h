/*
 * COM1, a 16550: output by polling, input by interrupt.
 */
#ifndef ARCH_SERIAL_H
#define ARCH_SERIAL_H

#include "kernel/types.h"

/* Set the line up (115200 8N1). First thing at boot; without a UART output goes nowhere. */
void serial_init(void);

/*
 * Send bytes; serial_write puts a carriage return before each newline. No lock: the caller
 * keeps writers apart (printk's console lock).
 */
void serial_putc(char c);
void serial_write(const char *text, size_t len);

/* Take input from now on: interrupts through the IOAPIC, each byte to console_input(). */
void serial_enable_input(void);

/* VEC_SERIAL: hand over what has arrived. */
void serial_interrupt(void);

/* The terminal's side (kernel/fs/console.c): a byte has come in. Interrupt context. */
void console_input(char c);

#endif
