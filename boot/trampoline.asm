; Where application processors start: real mode, at a page below 1 MiB that smp.c
; copies this code to, filling in what depends on the address. Straight from there to
; long mode on the first page tables (boot/entry.asm), which map this page where it
; is, and on to ap_start.
;
; All of them may come at once: nothing here is written and no stack is used. In
; ap_start each finds out who it is by its APIC id and takes its own stack and
; per-CPU area. One that is not in the list (more processors than MAX_CPUS) sleeps for good.
;
; Source: Intel SDM vol. 3, 10.4.4 (MP initialization), 10.8.5 (IA-32e mode).

extern boot_pml4, kernel_root, num_cpus, cpu_apic_id, percpu_offset, ap_stack, ap_main
global trampoline_start, trampoline_end
global trampoline_efer, trampoline_gdt_base, trampoline_gdt, trampoline_far, trampoline_long

section .rodata
	align 16
bits 16
trampoline_start:
	cli
	cld
	mov ax, cs
	mov ds, ax
	o32 lgdt [gdt_pointer - trampoline_start]
	mov eax, 1 << 5 ; PAE
	mov cr4, eax
	mov eax, boot_pml4
	mov cr3, eax
	mov ecx, 0xc0000080
	mov eax, [trampoline_efer - trampoline_start]
	xor edx, edx
	wrmsr
	; PG, WP, NE, ET, MP, PE; caches on
	mov eax, 1 << 31 | 1 << 16 | 1 << 5 | 1 << 4 | 1 << 1 | 1
	mov cr0, eax
	jmp dword far [trampoline_far - trampoline_start]

bits 64
trampoline_long:
	mov rax, qword ap_start
	jmp rax

	align 8
trampoline_gdt:
	dq 0
	dq 0x00af9b000000ffff ; 64-bit code
gdt_pointer:
	dw gdt_pointer - trampoline_gdt - 1
trampoline_gdt_base: ; smp.c: address of the copied trampoline_gdt
	dd 0
	align 4
trampoline_far:      ; smp.c: address of the copied trampoline_long
	dd 0
	dw 8
	align 4
trampoline_efer:     ; smp.c: LME, and NXE if there is NX
	dd 0
trampoline_end:

section .text
ap_start:
	xor eax, eax
	mov ds, eax
	mov es, eax
	mov ss, eax
	mov fs, eax
	mov gs, eax
	mov rax, [kernel_root]
	mov cr3, rax

	; The x2APIC id if there is one, else the 8-bit one.
	xor eax, eax
	cpuid
	cmp eax, 0xb
	jb .old_id
	mov eax, 0xb
	xor ecx, ecx
	cpuid
	test ebx, ebx
	jnz .have_id
.old_id:
	mov eax, 1
	cpuid
	mov edx, ebx
	shr edx, 24
.have_id:
	xor edi, edi
.search:
	cmp edi, [num_cpus]
	jae .nobody
	cmp edx, [cpu_apic_id + rdi * 4]
	je .found
	inc edi
	jmp .search
.nobody:
	cli
	hlt
	jmp .nobody

.found: ; EDI = CPU number
	mov rsp, [ap_stack + rdi * 8]
	mov rax, [percpu_offset + rdi * 8]
	mov rdx, rax
	shr rdx, 32
	mov ecx, 0xc0000101 ; GS base
	wrmsr
	xor ebp, ebp
	call ap_main
	ud2
