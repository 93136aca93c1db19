/*
 * What the processors can do, and switching it on. Every CPU gets the same control
 * registers; features are taken from the boot CPU and assumed of all.
 *
 * Sources: Intel SDM vol. 2 CPUID, vol. 3 chapter 2 (control registers), 5.8.8 (SYSCALL).
 */
#include "arch/x86_64/cpu.h"

#include "arch/x86_64/fpu.h"
#include "arch/x86_64/init.h"
#include "arch/x86_64/paging.h"
#include "arch/x86_64/tlb.h"
#include "arch/x86_64/trap.h"
#include "kernel/string.h"

#define MSR_EFER   0xc0000080
#define EFER_SCE   (1u << 0)
#define EFER_NXE   (1u << 11)
#define MSR_STAR   0xc0000081
#define MSR_LSTAR  0xc0000082
#define MSR_FMASK  0xc0000084

#define CR0_EM (1u << 2)
#define CR0_TS (1u << 3)
#define CR0_MP (1u << 1)
#define CR0_NE (1u << 5)
#define CR0_WP (1u << 16)

#define CR4_PAE        (1u << 5)
#define CR4_PGE        (1u << 7)
#define CR4_OSFXSR     (1u << 9)
#define CR4_OSXMMEXCPT (1u << 10)
#define CR4_UMIP       (1u << 11)
#define CR4_PCIDE      (1u << 17) /* with CR3 bits 11:0 zero, as they are then */
#define CR4_OSXSAVE    (1u << 18)
#define CR4_SMEP       (1u << 20)
#define CR4_SMAP       (1u << 21)

/* Cleared by SYSCALL: TF, IF, DF, IOPL, NT, RF, AC. */
#define SYSCALL_FMASK 0x57700

struct cpu_features cpu_features;
u64 pte_nx;

extern void syscall_entry(void);

void cpu_features_init(void)
{
	struct cpu_features *f = &cpu_features;
	u32 max, max_ext, a, b, c, d;

	cpuid(0, 0, &max, &b, &c, &d);
	memcpy(f->vendor, &b, 4);
	memcpy(f->vendor + 4, &d, 4);
	memcpy(f->vendor + 8, &c, 4);

	cpuid(1, 0, &a, &b, &c, &d);
	f->pge = d >> 13 & 1;
	f->pcid = c >> 17 & 1;
	f->x2apic = c >> 21 & 1;
	f->tsc_deadline = c >> 24 & 1;
	f->xsave = c >> 26 & 1;

	if (max >= 7) {
		cpuid(7, 0, &a, &b, &c, &d);
		f->fsgsbase = b & 1;
		f->smep = b >> 7 & 1;
		f->erms = b >> 9 & 1;
		f->smap = b >> 20 & 1;
		f->umip = c >> 2 & 1;
	}
	if (f->xsave && max >= 0xd) {
		cpuid(0xd, 1, &a, &b, &c, &d);
		f->xsaveopt = a & 1;
	} else {
		f->xsave = false;
	}

	f->phys_bits = 36;
	f->virt_bits = 48;
	cpuid(0x80000000, 0, &max_ext, &b, &c, &d);
	if (max_ext >= 0x80000001) {
		cpuid(0x80000001, 0, &a, &b, &c, &d);
		f->nx = d >> 20 & 1;
		f->pdpe1gb = d >> 26 & 1;
	}
	if (max_ext >= 0x80000004) {
		u32 *text = (u32 *)f->brand;

		for (u32 i = 0; i < 3; i++, text += 4)
			cpuid(0x80000002 + i, 0, &text[0], &text[1], &text[2], &text[3]);
	}
	if (max_ext >= 0x80000007) {
		cpuid(0x80000007, 0, &a, &b, &c, &d);
		f->invariant_tsc = d >> 8 & 1;
	}
	if (max_ext >= 0x80000008) {
		cpuid(0x80000008, 0, &a, &b, &c, &d);
		f->phys_bits = a & 0xff;
		f->virt_bits = a >> 8 & 0xff;
	}
	pte_nx = f->nx ? PTE_NX : 0;
	fpu_features_init();
}

void cpu_init(void)
{
	const struct cpu_features *f = &cpu_features;
	u64 cr0, cr4;

	__asm__ __volatile__("mov %%cr0, %0" : "=r"(cr0));
	cr0 &= ~(u64)(CR0_EM | CR0_TS);
	cr0 |= CR0_MP | CR0_NE | CR0_WP;
	__asm__ __volatile__("mov %0, %%cr0" ::"r"(cr0) : "memory");

	/* Set, not added to: five-level paging and user-mode FSGSBASE stay off (entry.asm). */
	cr4 = CR4_PAE | CR4_OSFXSR | CR4_OSXMMEXCPT | (f->pge ? CR4_PGE : 0) |
	      (f->umip ? CR4_UMIP : 0) | (f->xsave ? CR4_OSXSAVE : 0) |
	      (f->smep ? CR4_SMEP : 0) | (f->smap ? CR4_SMAP : 0) | (tlb_uses_pcid() ? CR4_PCIDE : 0);
	__asm__ __volatile__("mov %0, %%cr4" ::"r"(cr4) : "memory");

	wrmsr(MSR_EFER, rdmsr(MSR_EFER) | EFER_SCE | (f->nx ? EFER_NXE : 0));
	/* SYSCALL: CS = KERNEL_CS, SS = next. SYSRET: SS = base + 8, CS = base + 16, RPL 3. */
	wrmsr(MSR_STAR, (u64)(USER_CS - 16) << 48 | (u64)KERNEL_CS << 32);
	wrmsr(MSR_LSTAR, (u64)syscall_entry);
	wrmsr(MSR_FMASK, SYSCALL_FMASK);
	fpu_init_cpu();
}
