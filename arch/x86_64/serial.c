/*
 * COM1: see serial.h. Source: National Semiconductor PC16550D data sheet.
 *
 * Lock order: none here. Output registers are the console lock's, input is read
 * only by the interrupt handler, which runs on the boot CPU.
 */
#include "arch/x86_64/serial.h"

#include "arch/x86_64/cpu.h"
#include "arch/x86_64/irq.h"
#include "arch/x86_64/trap.h"

#define COM1 0x3f8
#define COM1_IRQ 4

enum { DATA = 0, IER = 1, FCR = 2, LCR = 3, MCR = 4, LSR = 5, SCRATCH = 7 };

#define LSR_RECEIVED 0x01
#define LSR_EMPTY    0x20 /* the transmit FIFO can take 16 bytes */

static bool present; /* constant after serial_init() */
static u32 room;     /* bytes that the FIFO surely takes; console lock */

void serial_init(void)
{
	outb(COM1 + SCRATCH, 0xa5);
	if (inb(COM1 + SCRATCH) != 0xa5)
		return;
	outb(COM1 + IER, 0);
	outb(COM1 + LCR, 0x80); /* divisor latch */
	outb(COM1 + DATA, 1);   /* 115200 baud */
	outb(COM1 + IER, 0);
	outb(COM1 + LCR, 0x03); /* 8 bits, no parity, 1 stop bit */
	outb(COM1 + FCR, 0x07); /* FIFOs on and empty, interrupt at the first byte */
	outb(COM1 + MCR, 0x0b); /* DTR, RTS, interrupt line connected */
	present = true;
}

void serial_putc(char c)
{
	if (!present)
		return;
	if (!room) {
		while (!(inb(COM1 + LSR) & LSR_EMPTY))
			cpu_relax();
		room = 16;
	}
	room--;
	outb(COM1 + DATA, (u8)c);
}

void serial_write(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '\n')
			serial_putc('\r');
		serial_putc(text[i]);
	}
}

void serial_interrupt(void)
{
	/* Bounded, so that a dead UART that reads as ones cannot hold the CPU. */
	for (int i = 0; i < 256 && (inb(COM1 + LSR) & LSR_RECEIVED); i++)
		console_input((char)inb(COM1 + DATA));
}

void serial_enable_input(void)
{
	if (!present)
		return;
	irq_route_isa(COM1_IRQ, VEC_SERIAL);
	outb(COM1 + IER, 1); /* receive only */
	serial_interrupt();  /* what came before would never raise an edge */
}
