; From the loader to kernel_main(): 32-bit protected mode, paging off, flat
; segments, interrupts off; no stack promised, no table of ours loaded.
;
;   start32    from GRUB: EAX = 0x36d76289, EBX = physical address of its information
;   pvh_start  from QEMU: EBX = physical address of struct hvm_start_info
;
; Builds the first page tables and continues in the higher half on the boot
; stack, with GS base 0: until percpu_init() the linked template of .percpu is
; the boot CPU's own area.
;
; The first page tables map the first 4 GiB in 2 MiB pages, writable and
; executable, at 0 and at DIRECT_MAP, and the first of them at KERNEL_VMA. The
; boot CPU leaves them in paging_init(); application processors pass through
; them on their way up (boot/trampoline.asm).
;
; Source: Intel SDM vol. 3, 10.8.5 (entering IA-32e mode).

extern kernel_main, __boot_start, __kernel_start_phys, __kernel_end_phys
global start32, pvh_start, boot_pml4, boot_stack

MULTIBOOT2_MAGIC equ 0x36d76289
BOOT_MULTIBOOT2  equ 1 ; as enum boot_kind in kernel/main.c
BOOT_PVH         equ 2
PVH_MAGIC        equ 0x336ec578

MEMORY_BASE      equ 4 << 20 ; as in kernel/main.c

P    equ 1
W    equ 2
HUGE equ 0x80

DIRECT_MAP_INDEX equ 273 ; of 0xffff888000000000 in the root table
KERNEL_INDEX     equ 511 ; of 0xffffffff80000000 in the root table
KERNEL_PUD_INDEX equ 510 ; and in the table below

BOOT_STACK_SIZE equ 32768

section .boot.text progbits alloc exec nowrite align=16
bits 32
start32:
	cmp eax, MULTIBOOT2_MAGIC
	mov esi, no_magic
	jne fail32
	mov edi, BOOT_MULTIBOOT2
	jmp common32

; QEMU puts the initramfs at the end of memory, over the kernel if it has to.
pvh_start:
	mov esp, first_stack_end
	cmp dword [ebx], PVH_MAGIC
	jne .apart ; kernel_main() will complain
	cmp dword [ebx + 12], 0 ; modules
	je .apart
	mov esi, [ebx + 16] ; the list of them
	cmp dword [esi + 4], 0
	jne .apart ; above 4 GiB
	mov eax, [esi]
	mov edx, [esi + 8]
	cmp eax, __kernel_end_phys
	jae .apart
	add eax, edx
	cmp eax, __boot_start
	ja no_room
.apart:
	mov edi, BOOT_PVH

; EDI = kind of boot, EBX = what the loader gave.
common32:
	cli
	cld
	mov esp, first_stack_end

	; Long mode there? CPUID itself is there if EFLAGS.ID can be changed.
	pushfd
	pop eax
	mov ecx, eax
	xor eax, 1 << 21
	push eax
	popfd
	pushfd
	pop eax
	xor eax, ecx
	mov esi, no_long_mode
	test eax, 1 << 21
	jz fail32
	push ebx
	mov eax, 0x80000000
	cpuid
	cmp eax, 0x80000001
	jb fail32
	mov eax, 0x80000001
	cpuid
	pop ebx
	mov esi, no_long_mode
	test edx, 1 << 29
	jz fail32
	mov ebp, edx ; bit 20: NX

	push edi
	; All tables empty, whatever the loader left there.
	mov edi, tables
	mov ecx, (tables_end - tables) / 4
	xor eax, eax
	rep stosd

	mov dword [boot_pml4], pud_low + P + W
	mov dword [boot_pml4 + 8 * DIRECT_MAP_INDEX], pud_low + P + W
	mov dword [boot_pml4 + 8 * KERNEL_INDEX], pud_high + P + W
	mov dword [pud_high + 8 * KERNEL_PUD_INDEX], pmds + P + W
	mov dword [pud_low], pmds + P + W
	mov dword [pud_low + 8], pmds + 4096 + P + W
	mov dword [pud_low + 16], pmds + 2 * 4096 + P + W
	mov dword [pud_low + 24], pmds + 3 * 4096 + P + W
	mov edi, pmds
	mov eax, P + W + HUGE
	mov ecx, 4 * 512
.fill:
	mov [edi], eax
	add eax, 0x200000
	add edi, 8
	loop .fill
	pop edi

	mov eax, boot_pml4
	mov cr3, eax
	mov eax, 1 << 5 ; PAE
	mov cr4, eax
	mov ecx, 0xc0000080 ; EFER
	rdmsr
	or eax, 1 << 8 ; LME
	test ebp, 1 << 20
	jz .no_nx
	or eax, 1 << 11 ; NXE
.no_nx:
	wrmsr
	mov eax, cr0
	and eax, ~(1 << 2 | 1 << 29 | 1 << 30)           ; EM, NW, CD off
	or eax, 1 << 31 | 1 << 16 | 1 << 5 | 1 << 1 | 1  ; PG, WP, NE, MP, PE
	mov cr0, eax
	lgdt [first_gdt_pointer]
	jmp 8:.long

bits 64
.long:
	mov rax, qword higher_half
	jmp rax

; EBX = start information, EDX = bytes of the initramfs that lies over the kernel: what
; require_memory() in kernel/main.c would say if it were still there.
bits 32
no_room:
	push edx
	mov esi, not_enough
	call say32
	mov esi, [ebx + 40] ; memory map: entries of 24 bytes: base, size, type
	mov ecx, [ebx + 48]
	xor eax, eax
	jecxz .summed
.sum:
	cmp dword [esi + 16], 1 ; usable
	jne .next
	add eax, [esi + 8]
.next:
	add esi, 24
	loop .sum
.summed:
	call megabytes32
	mov esi, found
	call say32
	pop edx
	mov eax, __kernel_end_phys
	sub eax, __kernel_start_phys
	lea eax, [eax + edx * 2 + MEMORY_BASE]
	call megabytes32
	mov esi, needed
	jmp fail32

; Print EAX bytes as MB, rounded up.
megabytes32:
	add eax, (1 << 20) - 1
	shr eax, 20
	mov esi, digits_end
	mov byte [esi], 0
	mov ecx, 10
.digit:
	xor edx, edx
	div ecx
	add edx, '0'
	dec esi
	mov [esi], dl
	test eax, eax
	jnz .digit
; Print the text at ESI on COM1; changes EAX, EDX, ESI.
say32:
	mov dx, 0x3f8 + 5
.wait:
	in al, dx
	test al, 0x20
	jz .wait
	lodsb
	test al, al
	jz .end
	mov dx, 0x3f8
	out dx, al
	jmp say32
.end:
	ret

; Say why (ESI) and leave through isa-debug-exit with the value of an early panic.
fail32:
	mov esp, first_stack_end
	call say32
	mov dx, 0x501
	mov ax, 0x21
	out dx, ax
.halt:
	cli
	hlt
	jmp .halt

section .boot.rodata progbits alloc noexec nowrite align=8
no_magic:     db "faultline: not started by a multiboot2 loader", 13, 10, 0
no_long_mode: db "faultline: this processor has no 64-bit mode", 13, 10, 0
not_enough:   db "not enough memory: ", 0
found:        db " MB found, at least ", 0
needed:       db " MB needed", 13, 10, 0
	align 8
first_gdt:
	dq 0
	dq 0x00af9b000000ffff ; 64-bit code
	dq 0x00cf93000000ffff ; data
first_gdt_pointer:
	dw first_gdt_pointer - first_gdt - 1
	dd first_gdt

section .boot.bss nobits alloc noexec write align=4096
tables:
boot_pml4: resb 4096
pud_low:   resb 4096
pud_high:  resb 4096
pmds:      resb 4 * 4096
tables_end:
	resb 256
first_stack_end:
	resb 10
digits_end: ; of a number, and a 0
	resb 1

section .text
bits 64
higher_half:
	xor eax, eax
	mov ds, eax
	mov es, eax
	mov ss, eax
	mov fs, eax
	mov gs, eax
	mov rsp, boot_stack + BOOT_STACK_SIZE
	mov ecx, 0xc0000101 ; GS base
	xor edx, edx
	wrmsr
	mov ecx, 0xc0000102 ; the user's, while in the kernel
	wrmsr
	mov esi, ebx ; kernel_main(kind, physical address)
	xor ebp, ebp
	call kernel_main
.halt:
	cli
	hlt
	jmp .halt

section .bss nobits alloc noexec write align=16
boot_stack: resb BOOT_STACK_SIZE
