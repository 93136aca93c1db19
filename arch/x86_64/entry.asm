; From the hardware to the kernel and back: exceptions, interrupts, SYSCALL.
;
; Every way in stores the same struct regs (trap.h) on the kernel stack of the
; task; frames from user mode always lie at the stack's very top. In the kernel GS
; base is this CPU's per-CPU offset (percpu.h), in user mode the user's own: SWAPGS
; exchanges the two, exactly once on each way from and to user mode.
;
; Three kinds of entry:
;   page faults   the way that everything here is about: CR2 is read first, then interrupts
;                 come back on, page_fault() (mm/fault.c) is called, and the way out looks
;                 at one word (work_pending) with interrupts off.
;   the rest      the same with trap_handle().
;   NMI, #DF, #MC may come at any instruction, also where GS is not yet or no longer
;                 ours: they have stacks of their own (IST) and find out by the sign
;                 of GS base. The kernel's is in the upper half or 0, the user's never is:
;                 arch_prctl() refuses it and CR4.FSGSBASE is off.
;
; Return to user mode: only registers that the kernel may have changed can be bad (a
; signal's frame, sigreturn, exec), and those ways come through exit_work(), which
; checks them; so IRETQ and SYSRET here never fault. Should IRETQ fault all the same, trap.c finds
; iret_to_user and turns it into a signal.
;
; CPU time: TIME_USER closes a stretch of user time, TIME_SYSTEM one of system time
; (account.c).
;
; Sources: Intel SDM vol. 3, 7.14 (64-bit exceptions), vol. 2 SYSCALL, SYSRET, SWAPGS.

%include "arch/x86_64/entry.inc"

extern trap_handle, trap_kernel_fault, trap_user_signal, trap_bad_iret
extern page_fault, syscall_handle, exit_work
extern work_pending, kernel_stack_top, account_stamp, account_user, account_system
global entry_table, syscall_entry, arch_return_to_user, iret_to_user, entry_start, entry_end

%macro SAVE 0 ; from the vector on downwards
	push rdi
	push rsi
	push rdx
	push rcx
	push rax
	push r8
	push r9
	push r10
	push r11
	push rbx
	push rbp
	push r12
	push r13
	push r14
	push r15
%endmacro

%macro RESTORE 0
	pop r15
	pop r14
	pop r13
	pop r12
	pop rbp
	pop rbx
	pop r11
	pop r10
	pop r9
	pop r8
	pop rax
	pop rcx
	pop rdx
	pop rsi
	pop rdi
%endmacro

; The time since this CPU's last stamp goes to the counter %1. Changes RAX, RDX.
%macro TIME_STAMP 1
	PATCH_SITE PATCH_NO_ACCOUNT, 2, 0xeb, %%end - %%start - 2
%%start:
	rdtsc
	shl rdx, 32
	or rax, rdx
	mov rdx, rax
	sub rdx, [gs:account_stamp]
	mov [gs:account_stamp], rax
	add [gs:%1], rdx
%%end:
%endmacro
; From the kernel: call %1 with the registers, which lie at RSP, as if the interrupted
; function had called it, so that a backtrace goes on there.
%macro CALL_FROM_KERNEL 1
	mov rdi, rsp
	push qword [rsp + REGS_RIP]
	push rbp
	mov rbp, rsp
	call %1
	add rsp, 16
%endmacro

%define TIME_USER   TIME_STAMP account_user
%define TIME_SYSTEM TIME_STAMP account_system

section .text
entry_start:

; --- page faults -------------------------------------------------------------

	align 64
entry_14:
	push 14
	SAVE
	CLAC
	cld
	mov rsi, cr2               ; before anything can fault again
	test byte [rsp + REGS_CS], 3
	jz page_fault_kernel
	swapgs
	TIME_USER
	xor ebp, ebp               ; a backtrace ends here
	mov edx, [rsp + REGS_ERROR]
	mov rdi, rsp
	sub rsp, 16                ; struct fault_signal
	mov rcx, rsp
	sti                        ; user mode always runs with interrupts on
	call page_fault
	test eax, eax
	jnz page_fault_signal
	add rsp, 16
return_to_user:
	cli
	cmp dword [gs:work_pending], 0
	jne exit_slow
exit_fast:
	TIME_SYSTEM
	RESTORE
	swapgs
	add rsp, 16                ; vector, error code
iret_to_user:
	iretq
exit_slow:
	mov rdi, rsp
	call exit_work
	jmp exit_fast

page_fault_signal:
	mov rsi, rsp
	lea rdi, [rsp + 16]
	call trap_user_signal
	add rsp, 16
	jmp return_to_user

page_fault_kernel:
	CALL_FROM_KERNEL trap_kernel_fault ; switches interrupts on if they were
	cli
return_to_kernel:
	RESTORE
	add rsp, 16
	iretq

; Prepared registers at the top of the current task's stack: fork, exec, init.
	align 16
arch_return_to_user:
	cli
	mov rsp, rdi
	call exit_work             ; checks the registers, which are somebody's invention
	jmp exit_fast

; --- other exceptions and interrupts --------------------------------------------

	align 16
trap_entry:
	SAVE
	CLAC
	cld
	test byte [rsp + REGS_CS], 3
	jz .kernel
	swapgs
	TIME_USER
	xor ebp, ebp
	mov rdi, rsp
	call trap_handle
	jmp return_to_user
.kernel:
	mov rax, iret_to_user
	cmp [rsp + REGS_RIP], rax
	je .bad_iret
	CALL_FROM_KERNEL trap_handle
	cli
	jmp return_to_kernel
.bad_iret:                         ; GS is the user's already
	swapgs
	xor ebp, ebp
	mov rdi, rsp
	call trap_bad_iret         ; the frame of a trap from user mode, put together again
	mov rsp, rax
	jmp return_to_user

; On a stack of their own, GS unknown.
	align 16
trap_entry_ist:
	SAVE
	CLAC
	cld
	mov ecx, 0xc0000101        ; GS base
	rdmsr
	xor ebx, ebx
	or eax, edx
	jz .ours                   ; 0: the boot CPU, early
	test edx, edx
	js .ours
	swapgs
	inc ebx
.ours:
	CALL_FROM_KERNEL trap_handle
	test ebx, ebx
	jz .out
	swapgs
.out:
	RESTORE
	add rsp, 16
	iretq

; --- system calls -------------------------------------------------------------------

; RCX = return address, R11 = flags; interrupts, direction, trap and AC are off (MSR_FMASK).
	align 64
syscall_entry:
	swapgs
	mov [gs:syscall_rsp], rsp
	mov rsp, [gs:kernel_stack_top]
	push USER_DS
	push qword [gs:syscall_rsp]
	push r11
	push USER_CS
	push rcx
	push 0
	push rax
	SAVE
	TIME_USER
	xor ebp, ebp
	mov rdi, rsp
	call syscall_handle
	cli
	cmp dword [gs:work_pending], 0
	jne exit_slow

	; SYSRET takes RIP from RCX and flags from R11 and cannot load anything else. A return
	; address that is not below the canonical limit would fault in the kernel on
	; the user's stack; anything unusual goes by IRETQ, checked.
	mov rcx, [rsp + REGS_RIP]
	cmp rcx, [rsp + REGS_RCX]
	jne exit_slow
	mov r11, [rsp + REGS_RFLAGS]
	cmp r11, [rsp + REGS_R11]
	jne exit_slow
	cmp dword [rsp + REGS_CS], USER_CS
	jne exit_slow
	cmp dword [rsp + REGS_SS], USER_DS
	jne exit_slow
	mov rax, rcx
	shr rax, 47
	jnz exit_slow
	mov rax, [rsp + REGS_RSP]
	shr rax, 47
	jnz exit_slow
	test r11d, 0x10100         ; TF, RF
	jnz exit_slow
	TIME_SYSTEM
	pop r15
	pop r14
	pop r13
	pop r12
	pop rbp
	pop rbx
	add rsp, 8                 ; R11
	pop r10
	pop r9
	pop r8
	pop rax
	add rsp, 8                 ; RCX
	pop rdx
	pop rsi
	pop rdi
	mov rsp, [rsp + 8 * 5]     ; past vector, error, rip, cs, rflags
	swapgs
	o64 sysret

; --- vectors -------------------------------------------------------------------------

%macro ENTRY 3 ; vector, 1 if the hardware pushes an error code, where to
	align 16
entry_%1:
%if !%2
	push 0
%endif
	push %1
	jmp %3
%endmacro

	ENTRY 0, 0, trap_entry
	ENTRY 1, 0, trap_entry
	ENTRY 2, 0, trap_entry_ist
	ENTRY 3, 0, trap_entry
	ENTRY 4, 0, trap_entry
	ENTRY 5, 0, trap_entry
	ENTRY 6, 0, trap_entry
	ENTRY 7, 0, trap_entry
	ENTRY 8, 1, trap_entry_ist
	ENTRY 9, 0, trap_entry
	ENTRY 10, 1, trap_entry
	ENTRY 11, 1, trap_entry
	ENTRY 12, 1, trap_entry
	ENTRY 13, 1, trap_entry
	ENTRY 15, 0, trap_entry
	ENTRY 16, 0, trap_entry
	ENTRY 17, 1, trap_entry
	ENTRY 18, 0, trap_entry_ist
	ENTRY 19, 0, trap_entry
	ENTRY 20, 0, trap_entry
	ENTRY 21, 1, trap_entry
%assign v 22
%rep 256 - 22
	ENTRY v, 0, trap_entry
%assign v v + 1
%endrep
entry_end:

section .rodata
	align 8
entry_table: ; address of each vector's entry
%assign v 0
%rep 256
	dq entry_ %+ v
%assign v v + 1
%endrep

section .percpu progbits alloc noexec write align=8
syscall_rsp: dq 0
