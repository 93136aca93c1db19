; From one kernel stack to another; see switch.c, which does all the rest.

global switch_stacks, task_first_run

section .text

; void switch_stacks(u64 *save_rsp, u64 load_rsp)
; What the C calling convention lets a function change needs no saving. Interrupts off.
	align 16
switch_stacks:
	push rbp
	push rbx
	push r12
	push r13
	push r14
	push r15
	mov [rdi], rsp
	mov rsp, rsi
	pop r15
	pop r14
	pop r13
	pop r12
	pop rbx
	pop rbp
	ret

; Where a new task's stack makes switch_stacks return to: RBX = fn, R12 = arg
; (arch_task_init). RBP is 0: a backtrace ends here.
	align 16
task_first_run:
	mov rdi, r12
	call rbx
	ud2
