; A guest that needs no kernel, to test the metronome with: starts in long mode on every CPU, does what the first letter
; of its last word on the command line says (then comes the number of CPUs, 1 to 9), prints a line on the debug console and leaves through isa-debug-exit.
;
;   l  a loop of 2,000,000 instructions between markers, on CPU 0
;   s  REP STOSB of 1 MB between markers
;   t  the same loop; prints the HPET's nanoseconds over it
;   c  the same; prints the time-stamp counter's ticks
;   r  all CPUs add to one word without LOCK, 20,000 times each, between markers; prints what is left of the sum
;   x  all CPUs add to one word with LOCK, on one cache line, between markers
;   y  all CPUs add, each to a line of its own
;   h  CPU 0 halts between markers until the HPET's comparator interrupts it after 5 ms; prints the time slept
;   w  the others halt; CPU 0 wakes them by interrupt, waits for their answers, 100 times; prints the number of answers
;   p  the others halt; CPU 0 sends them an interrupt and later, in the same turn, one of higher priority, 20 times; prints
;      how many came, and those of higher priority once more that came first
;   e  CPU 0 adds 100 times to a word that lies across two lines, with LOCK: QEMU stops all other CPUs each time, while the
;      others loop; prints the sum
;   n  marks nothing
;   u  marks a begin and no end
;
; Memory: 0x8000 AP start-up code, 0x70000 page tables, 0x80000.. stacks, 0x100000 this image, 0x400000 buffer.

	bits 32
	org 0x100000

PAGE_TABLES	equ 0x70000
STACKS		equ 0x90000		; 4 KB each, growing down from here + 4 KB * cpu
BUFFER		equ 0x400000
APIC		equ 0xfee00000
HPET		equ 0xfed00000
IOAPIC		equ 0xfec00000
LOOPS		equ 1000000

header:
	dd 0x1badb002, 0x10000, -(0x1badb002 + 0x10000)
	dd header, header, image_end, bss_end, start

%macro marker 0
	db 0x4d, 0x87, 0xff		; xchg %r15,%r15
%endmacro

start:
	cli
	mov eax, [ebx + 16]		; multiboot: command line
	mov [command], eax
	mov edi, PAGE_TABLES		; 4 GB identity map of 2 MB pages: PML4, PDPT, 4 page directories
	xor eax, eax
	mov ecx, 6 * 1024
	rep stosd
	mov dword [PAGE_TABLES], PAGE_TABLES + 0x1003
	mov ecx, 4
	mov eax, PAGE_TABLES + 0x2003
	mov edi, PAGE_TABLES + 0x1000
.pdpt:
	mov [edi], eax
	add eax, 0x1000
	add edi, 8
	loop .pdpt
	mov eax, 0x83
	mov edi, PAGE_TABLES + 0x2000
	mov ecx, 2048
.pd:
	mov [edi], eax
	add eax, 0x200000
	add edi, 8
	loop .pd
	mov esi, trampoline
	mov edi, 0x8000
	mov ecx, trampoline_end - trampoline
	rep movsb
	jmp to_long_mode

to_long_mode:				; 32-bit, flat
	mov eax, cr4
	or eax, 0x20			; PAE
	mov cr4, eax
	mov eax, PAGE_TABLES
	mov cr3, eax
	mov ecx, 0xc0000080		; EFER.LME
	rdmsr
	or eax, 0x100
	wrmsr
	mov eax, cr0
	or eax, 0x80000001
	mov cr0, eax
	lgdt [gdt_pointer]
	jmp 0x18:long_mode

trampoline:				; runs at 0x8000, 16-bit
	bits 16
	cli
	xor ax, ax
	mov ds, ax
	o32 lgdt [0x8000 + trampoline_gdt - trampoline]
	mov eax, cr0
	or al, 1
	mov cr0, eax
	jmp dword 0x08:ap_protected
	align 4
trampoline_gdt:
	dw gdt_end - gdt - 1
	dd gdt
trampoline_end:

	bits 32
ap_protected:
	mov ax, 0x10
	mov ds, ax
	mov es, ax
	mov ss, ax
	jmp to_long_mode

	align 8
gdt:	dq 0
	dq 0x00cf9a000000ffff		; 0x08 32-bit code
	dq 0x00cf92000000ffff		; 0x10 data
	dq 0x00af9a000000ffff		; 0x18 64-bit code
gdt_end:
gdt_pointer:
	dw gdt_end - gdt - 1
	dq gdt

	bits 64
long_mode:
	mov ax, 0x10
	mov ds, ax
	mov es, ax
	mov ss, ax
	mov ebp, APIC
	mov ebx, HPET
	mov eax, 1
	lock xadd [cpus], eax		; this CPU's number
	mov r12d, eax
	inc eax
	shl eax, 12
	lea rsp, [rax + STACKS]
	lidt [idt_pointer]
	mov eax, [rbp + 0xf0]		; enable the local APIC
	or eax, 0x100
	mov [rbp + 0xf0], eax
	test r12d, r12d
	jnz other_cpu

	mov edi, idt + 0x110		; 64 gates: 0x31 of higher priority
	mov eax, on_urgent
	call gate
	mov edi, idt			; 0x20 the HPET, 0x21 the wake-up
	mov eax, on_timer
	call gate
	mov eax, on_wake
	call gate
	mov esi, [command]		; the last word is ours
.next:	lodsb
	test al, al
	jnz .next
	mov al, [rsi - 3]
	mov [mode], al
	mov al, [rsi - 2]		; then the number of CPUs, as a digit
	sub al, '1'			; the others
	mov [wanted], al
	mov dword [rbp + 0x300], 0xc4500	; INIT, then start-up, to all others
	mov ecx, 1000000
.wait:	loop .wait
	mov dword [rbp + 0x300], 0xc4608
.all:	pause
	movzx eax, byte [wanted]
	cmp [ready], al
	jb .all

	mov al, [mode]
	cmp al, 'l'
	je test_loop
	cmp al, 's'
	je test_stos
	cmp al, 't'
	je test_hpet
	cmp al, 'c'
	je test_tsc
	cmp al, 'r'
	je test_race
	cmp al, 'x'
	je test_race
	cmp al, 'y'
	je test_race
	cmp al, 'e'
	je test_exclusive
	cmp al, 'h'
	je test_halt
	cmp al, 'w'
	je test_wake
	cmp al, 'p'
	je test_priority
	cmp al, 'u'
	jne leave
	marker
leave:
	mov eax, 0			; isa-debug-exit: QEMU's status is 2 * value + 1
	out 0xf4, al
	hlt

gate:					; rax = handler, rdi = next two gates' place - 0x200
	mov [rdi + 0x200], ax
	mov word [rdi + 0x202], 0x18
	mov word [rdi + 0x204], 0x8e00
	shr rax, 16
	mov [rdi + 0x206], ax
	add rdi, 16
	ret

other_cpu:
	lock inc byte [ready]
	cmp byte [mode], 'w'
	je answer
	cmp byte [mode], 'p'
	je answer
.sleep:	pause
	cmp byte [go], 0
	je .sleep
	call work
	lock inc byte [done]
.halt:	cli
	hlt
	jmp .halt

; ---- what is measured ----

spend:					; LOOPS * 2 + 1 instructions, and the return
	mov ecx, LOOPS
.again:	dec ecx
	jnz .again
	ret

test_loop:
	marker
	call spend
	marker
	jmp leave

test_stos:
	mov edi, BUFFER
	mov ecx, 1 << 20
	mov al, 1
	marker
	rep stosb
	marker
	jmp leave

start_hpet:
	mov eax, [rbx + 0x10]
	or al, 1
	mov [rbx + 0x10], eax
	ret

test_hpet:				; the HPET of QEMU ticks every 10 ns
	call start_hpet
	marker
	mov r13, [rbx + 0xf0]
	call spend
	mov rax, [rbx + 0xf0]
	marker
	sub rax, r13
	imul rax, 10
	call print
	jmp leave

test_tsc:
	marker
	rdtsc
	mov r13d, eax
	call spend
	rdtsc
	marker
	sub eax, r13d
	call print
	jmp leave

test_race:
	marker
	mov byte [go], 1
	call work
.wait:	pause
	movzx eax, byte [wanted]
	cmp [done], al
	jb .wait
	marker
	mov rax, [sum]
	call print
	jmp leave

test_exclusive:
	mov byte [go], 1
	mov ecx, 100
	marker
.more:	lock inc qword [BUFFER + 60]
	dec ecx
	jnz .more
	marker
	mov rax, [BUFFER + 60]
	call print
	jmp leave

work:
	mov ecx, 20000
	mov al, [mode]
	cmp al, 'e'
	je work				; until the end
	cmp al, 'x'
	je .locked
	cmp al, 'y'
	je .own
.race:	mov rax, [sum]
	inc rax
	mov [sum], rax
	dec ecx
	jnz .race
	ret
.locked:
	lock inc qword [sum]
	dec ecx
	jnz .locked
	ret
.own:	mov edx, r12d
	shl edx, 7
.more:	lock inc qword [rdx + BUFFER]
	dec ecx
	jnz .more
	ret

test_halt:				; HPET comparator 0 by legacy replacement: IOAPIC line 2
	mov al, 0xff			; the old interrupt controller stays quiet
	out 0x21, al
	out 0xa1, al
	mov eax, 3			; QEMU's main loop is told that the PIT stops, just when the region begins
	mov [rbx + 0x10], eax
	marker
	mov edi, IOAPIC			; not before: the PIT was on that line
	mov dword [rdi], 0x14
	mov dword [rdi + 0x10], 0x20
	mov dword [rdi], 0x15
	mov dword [rdi + 0x10], 0
	mov r13, [rbx + 0xf0]
	add r13, 500000
	mov [rbx + 0x108], r13
	mov eax, 4			; enabled, edge, one-shot
	mov [rbx + 0x100], eax
	sub r13, 500000
	sti
	hlt
	cli
	mov rax, [rbx + 0xf0]
	marker
	sub rax, r13
	imul rax, 10
	call print
	jmp leave

test_wake:
	mov r14d, 100
	marker
.round:
	mov dword [answers], 0
	mov dword [rbp + 0x300], 0xc4021	; fixed, vector 0x21, all but self
	movzx eax, byte [wanted]
	call await_answers
	dec r14d
	jnz .round
	jmp print_sum

test_priority:
	mov r14d, 20
	marker
.round:
	mov dword [answers], 0
	mov dword [rbp + 0x300], 0xc4021
	mov ecx, 100000
.busy:	dec ecx
	jnz .busy
	mov dword [rbp + 0x300], 0xc4031
	movzx eax, byte [wanted]
	add eax, eax
	call await_answers
	dec r14d
	jnz .round
print_sum:
	marker
	mov rax, [sum]
	call print
	jmp leave

await_answers:				; eax of them
	pause
	cmp [answers], eax
	jb await_answers
	ret

answer:
	sti
	hlt
	jmp answer

on_timer:
	push rax
	mov dword [rbp + 0xb0], 0
	pop rax
	iretq

on_wake:
	lock inc qword [sum]
	mov dword [rbp + 0xb0], 0
	lock inc dword [answers]
	iretq

on_urgent:
	cmp dword [answers], 0
	jne on_wake
	lock inc qword [sum]
	jmp on_wake

print:					; rax in decimal and a newline, on the debug console
	mov rsi, digits_end
	mov ecx, 10
.more:	xor edx, edx
	div rcx
	add dl, '0'
	dec rsi
	mov [rsi], dl
	test rax, rax
	jnz .more
.out:	mov al, [rsi]
	out 0xe9, al
	inc rsi
	cmp rsi, digits_end + 1
	jb .out
	ret

	align 8
idt_pointer:
	dw 64 * 16 - 1
	dq idt
	align 8
command:	dd 0
cpus:		dd 0
answers:	dd 0
mode:		db 0
wanted:		db 0		; other CPUs
ready:		db 0
done:		db 0
go:		db 0
digits:		times 24 db ' '
digits_end:	db 10
	align 128
sum:		dq 0
	align 128
image_end:

	absolute $
idt:		resb 64 * 16
bss_end:
