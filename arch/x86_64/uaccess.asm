; Access to user memory: see uaccess.h. Each instruction that touches it has an entry in
; .ex_table; when a fault there cannot be resolved, trap.c continues at the fixup with all
; registers as the instruction left them. STAC and CLAC are there only on CPUs with SMAP.
;
; Copies go by quadwords; if one faults for good, the bytes before the bad page are still
; copied one by one, so that the count of what was not copied is exact.

%include "arch/x86_64/entry.inc"

global copy_from_user, copy_to_user, clear_user
global get_user_u8, get_user_u32, get_user_u64, put_user_u32, put_user_u64
global strncpy_from_user, cmpxchg_user_u32, futex_op_user

%define USER_END 0x7ffffffff000
%define EFAULT   14
%define ENOSYS   38
%define ENAMETOOLONG 36

section .text

; Jump to %3 unless [%1, %1 + %2) lies in user space. Changes RAX, R8.
%macro CHECK_RANGE 3
	mov rax, %1
	add rax, %2
	jc %3
	mov r8, USER_END
	cmp rax, r8
	ja %3
%endmacro

; size_t copy_from_user(void *dst, vaddr_t src, size_t n)
	align 16
copy_from_user:
	CHECK_RANGE rsi, rdx, copy_none
	jmp copy

; size_t copy_to_user(vaddr_t dst, const void *src, size_t n)
	align 16
copy_to_user:
	CHECK_RANGE rdi, rdx, copy_none
copy:
	mov rcx, rdx
	shr rcx, 3
	and edx, 7
	STAC
.quads:
	rep movsq
	mov ecx, edx
.bytes:
	rep movsb
.out:
	CLAC
	mov rax, rcx
	ret
.quads_failed: ; RCX quadwords and EDX bytes are left
	lea rcx, [rdx + rcx * 8]
	jmp .bytes
	EX_TABLE .quads, .quads_failed
	EX_TABLE .bytes, .out

copy_none:
	mov rax, rdx
	ret

; size_t clear_user(vaddr_t dst, size_t n)
	align 16
clear_user:
	mov rdx, rsi
	CHECK_RANGE rdi, rdx, copy_none
	mov rcx, rdx
	shr rcx, 3
	and edx, 7
	xor eax, eax
	STAC
.quads:
	rep stosq
	mov ecx, edx
.bytes:
	rep stosb
.out:
	CLAC
	mov rax, rcx
	ret
.quads_failed:
	lea rcx, [rdx + rcx * 8]
	jmp .bytes
	EX_TABLE .quads, .quads_failed
	EX_TABLE .bytes, .out

; For one value: %1 = bytes, %2 = the register with the user address.
%macro CHECK_VALUE 2
	mov rax, USER_END - %1
	cmp %2, rax
	ja efault
%endmacro

; int get_user_uN(vaddr_t src, uN *out)
	align 16
get_user_u8:
	CHECK_VALUE 1, rdi
	STAC
.read:
	mov al, [rdi]
	CLAC
	mov [rsi], al
	xor eax, eax
	ret
	EX_TABLE .read, efault_clac

	align 16
get_user_u32:
	CHECK_VALUE 4, rdi
	STAC
.read:
	mov eax, [rdi]
	CLAC
	mov [rsi], eax
	xor eax, eax
	ret
	EX_TABLE .read, efault_clac

	align 16
get_user_u64:
	CHECK_VALUE 8, rdi
	STAC
.read:
	mov rax, [rdi]
	CLAC
	mov [rsi], rax
	xor eax, eax
	ret
	EX_TABLE .read, efault_clac

; int put_user_uN(vaddr_t dst, uN v)
	align 16
put_user_u32:
	CHECK_VALUE 4, rdi
	STAC
.write:
	mov [rdi], esi
	CLAC
	xor eax, eax
	ret
	EX_TABLE .write, efault_clac

	align 16
put_user_u64:
	CHECK_VALUE 8, rdi
	STAC
.write:
	mov [rdi], rsi
	CLAC
	xor eax, eax
	ret
	EX_TABLE .write, efault_clac

efault_clac:
	CLAC
efault:
	mov rax, -EFAULT
	ret

; long strncpy_from_user(char *dst, vaddr_t src, size_t max)
	align 16
strncpy_from_user:
	mov r8, USER_END
	xor ecx, ecx
	STAC
.next:
	cmp rcx, rdx
	je .too_long
	cmp rsi, r8
	jae efault_clac
.read:
	mov al, [rsi]
	mov [rdi + rcx], al
	test al, al
	jz .end
	inc rcx
	inc rsi
	jmp .next
.end:
	CLAC
	mov rax, rcx
	ret
.too_long:
	CLAC
	mov rax, -ENAMETOOLONG
	ret
	EX_TABLE .read, efault_clac

; int cmpxchg_user_u32(vaddr_t addr, u32 old, u32 new, u32 *found)
	align 16
cmpxchg_user_u32:
	CHECK_VALUE 4, rdi
	mov eax, esi
	STAC
.exchange:
	lock cmpxchg [rdi], edx
	CLAC
	mov [rcx], eax
	xor eax, eax
	ret
	EX_TABLE .exchange, efault_clac

; int futex_op_user(vaddr_t addr, unsigned op, u32 arg, u32 *old)
	align 16
futex_op_user:
	CHECK_VALUE 4, rdi
	cmp esi, 4
	ja .no_such
	STAC
	test esi, esi
	jz .set
	cmp esi, 1
	je .add
.read:
	mov eax, [rdi]
.again:
	mov r8d, eax
	cmp esi, 3
	jb .or
	je .andn
	xor r8d, edx
	jmp .store
.or:
	or r8d, edx
	jmp .store
.andn:
	mov r9d, edx
	not r9d
	and r8d, r9d
.store:
	lock cmpxchg [rdi], r8d
	jne .again
	jmp .out
.add:
	mov eax, edx
.xadd:
	lock xadd [rdi], eax
	jmp .out
.set:
	mov eax, edx
.xchg:
	xchg [rdi], eax
.out:
	CLAC
	mov [rcx], eax
	xor eax, eax
	ret
.no_such:
	mov eax, -ENOSYS
	ret
	EX_TABLE .read, efault_clac
	EX_TABLE .store, efault_clac
	EX_TABLE .xadd, efault_clac
	EX_TABLE .xchg, efault_clac
