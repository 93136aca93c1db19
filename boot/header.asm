; What loaders look for in the file: the multiboot2 header (GRUB, on BIOS and on
; UEFI) and the PVH note (qemu -kernel).
;
; No tag asks for EFI boot services to be kept, so GRUB leaves them before it
; jumps here; no tag names an EFI entry point either, so on UEFI too it enters at
; start32, in 32-bit protected mode.
;
; Sources: Multiboot2 Specification 2.0, section 3.1; Xen, docs/misc/pvh.

extern pvh_start

MULTIBOOT2_HEADER_MAGIC equ 0xe85250d6
MULTIBOOT2_I386         equ 0
XEN_ELFNOTE_PHYS32_ENTRY equ 18

section .boot.header progbits alloc noexec nowrite align=8
header:
	dd MULTIBOOT2_HEADER_MAGIC
	dd MULTIBOOT2_I386
	dd header_end - header
	dd -(MULTIBOOT2_HEADER_MAGIC + MULTIBOOT2_I386 + (header_end - header)) & 0xffffffff

	; Modules start on a page, so that their frames can be given back one day.
	align 8
	dw 6, 0
	dd 8
	; End of the list.
	align 8
	dw 0, 0
	dd 8
header_end:

section .note.Xen note alloc noexec nowrite align=4
	dd 4 ; length of the name
	dd 8 ; length of the value
	dd XEN_ELFNOTE_PHYS32_ENTRY
	db "Xen", 0
	dq pvh_start
