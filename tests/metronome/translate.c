/*
 * What is counted in each block of guest code, decided once when QEMU translates it.
 *
 * A block adds its instructions to its class and to the turn's time by inline adds, then compares;
 * only a block that ends the turn leaves translated code. Blocks in the upper half of the address
 * space are the kernel's; a block with a PAUSE is a spinning one. Single instructions of interest
 * have an inline add of their own or, where that is not enough, a callback; they are rare.
 */
#include <stdlib.h>
#include <string.h>

#include "metronome.h"

#define APIC_PAGE	0xfee00000
#define APIC_EOI	0x0b0
#define APIC_ICR	0x300
#define X2APIC_EOI	0x80b
#define X2APIC_ICR	0x830

static qemu_plugin_u64 field(size_t offset)
{
	return (qemu_plugin_u64){ scoreboard, offset };
}

#define FIELD(name) field(offsetof(struct score, name))

static void add_in_block(struct qemu_plugin_tb *tb, qemu_plugin_u64 what, uint64_t n)
{
	qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64, what, n);
}

static void count(struct qemu_plugin_insn *insn, enum event event)
{
	qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_PLUGIN_INLINE_ADD_U64,
							    FIELD(events[event]), 1);
}

/* ---- decoding: just enough to tell the instructions of interest ---- */

struct decoded {
	uint8_t opcode[3];	/* after the prefixes; zero beyond the instruction's end */
	bool rep, lock, wide, narrow;	/* F2 or F3; F0; REX.W; 66 */
	bool pause_hint;	/* F3 */
};

static struct decoded decode(const struct qemu_plugin_insn *insn)
{
	uint8_t bytes[16] = { 0 };
	size_t n = qemu_plugin_insn_data(insn, bytes, sizeof(bytes) - 1), i = 0;
	struct decoded d = { .rep = false };

	for (; i < n; i++) {
		switch (bytes[i]) {
		case 0xf3:
			d.pause_hint = true;
			/* fall through */
		case 0xf2:
			d.rep = true;
			continue;
		case 0xf0:
			d.lock = true;
			continue;
		case 0x66:
			d.narrow = true;
			continue;
		case 0x26: case 0x2e: case 0x36: case 0x3e: case 0x64: case 0x65: case 0x67:
			continue;
		case 0x40 ... 0x4f:
			d.wide |= bytes[i] & 8;
			continue;
		}
		break;
	}
	for (size_t k = 0; k < sizeof(d.opcode) && i + k < n; k++)
		d.opcode[k] = bytes[i + k];
	return d;
}

static bool is_marker(const struct qemu_plugin_insn *insn)
{
	static const uint8_t marker[] = { 0x4d, 0x87, 0xff };	/* xchg %r15,%r15 */
	uint8_t bytes[sizeof(marker)] = { 0 };

	return qemu_plugin_insn_size(insn) == sizeof(marker) &&
	       qemu_plugin_insn_data(insn, bytes, sizeof(bytes)) == sizeof(bytes) &&
	       !memcmp(bytes, marker, sizeof(marker));
}

static bool is_pause(const struct decoded *d)
{
	return d->pause_hint && d->opcode[0] == 0x90;
}

static unsigned int mod(uint8_t modrm)
{
	return modrm >> 6;
}

static unsigned int reg(uint8_t modrm)
{
	return modrm >> 3 & 7;
}

/* ---- callbacks ---- */

static void on_turn_over(unsigned int vcpu, void *unused)
{
	vcpu_turn_over(vcpu);
	(void)unused;
}

static void on_marker(unsigned int vcpu, void *unused)
{
	if (region_toggle())
		vcpu_turn_over(vcpu);	/* the rest of its block is in the region already */
	(void)unused;
}

/*
 * First user block after a page fault: what the kernel executed since the last user block is the
 * fault's cost.
 */
static void on_fault_done(unsigned int vcpu, void *unused)
{
	struct score *score = score_of(vcpu);

	score->in_fault = 0;
	if (turns_are_on())
		fault_cost_note(vcpu, score->since_user);
	(void)unused;
}

static void apic_write(unsigned int vcpu, uint32_t offset)
{
	if (offset == APIC_EOI)
		score_of(vcpu)->events[IRQS]++;
	else if (offset == APIC_ICR)
		score_of(vcpu)->events[IPIS]++;
}

/*
 * A 32-bit store in the kernel, which may be to the memory-mapped APIC. Most are not: an
 * instruction that was not in its first executions is no longer looked at (a stale count only means
 * another look).
 */
static void on_kernel_store(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr,
			    void *looks_left)
{
	static uint64_t apic_vpage;	/* where the kernel maps it, once seen */
	uint16_t *looks = looks_left;
	struct qemu_plugin_hwaddr *haddr;

	if (vaddr >> 12 == apic_vpage && apic_vpage)
		return apic_write(vcpu, vaddr & 0xfff);
	if (!*looks)
		return;
	--*looks;
	haddr = qemu_plugin_get_hwaddr(info, vaddr);
	if (haddr && qemu_plugin_hwaddr_is_io(haddr) &&
	    (qemu_plugin_hwaddr_phys_addr(haddr) & ~0xfffull) == APIC_PAGE) {
		apic_vpage = vaddr >> 12;
		apic_write(vcpu, vaddr & 0xfff);
	}
}

static struct qemu_plugin_register *rcx;

void translate_find_registers(void)
{
	GArray *all = qemu_plugin_get_registers();
	const qemu_plugin_reg_descriptor *regs = (const void *)all->data;

	for (unsigned int i = 0; i < all->len && !rcx; i++)
		if (!strcmp(regs[i].name, "rcx"))
			rcx = regs[i].handle;
}

/* WRMSR: to the x2APIC? */
static void on_wrmsr(unsigned int vcpu, void *unused)
{
	static __thread GByteArray *value;
	uint32_t msr = 0;

	if (!value)
		value = g_byte_array_new();
	g_byte_array_set_size(value, 0);
	if (!rcx || qemu_plugin_read_register(rcx, value) < (int)sizeof(msr))
		return;
	memcpy(&msr, value->data, sizeof(msr));
	if (msr == X2APIC_EOI)
		score_of(vcpu)->events[IRQS]++;
	else if (msr == X2APIC_ICR)
		score_of(vcpu)->events[IPIS]++;
	(void)unused;
}

/* ---- single instructions ---- */

/* REP STOS and REP MOVS loop inside a block: each element stored is charged by its size. */
static void watch_string(struct qemu_plugin_insn *insn, const struct decoded *d, bool kernel)
{
	uint64_t size = !(d->opcode[0] & 1) ? 1 : d->wide ? 8 : d->narrow ? 2 : 4;

	qemu_plugin_register_vcpu_mem_inline_per_vcpu(insn, QEMU_PLUGIN_MEM_W,
						      QEMU_PLUGIN_INLINE_ADD_U64, FIELD(used),
						      size * UNITS / options.rep_rate);
	qemu_plugin_register_vcpu_mem_inline_per_vcpu(insn, QEMU_PLUGIN_MEM_W,
						      QEMU_PLUGIN_INLINE_ADD_U64,
						      FIELD(rep_bytes[kernel]), size);
}

static void watch_two_byte(struct qemu_plugin_insn *insn, const struct decoded *d)
{
	uint8_t modrm = d->opcode[2];

	switch (d->opcode[1]) {
	case 0x01:	/* group 7 */
		if (reg(modrm) == 7 && mod(modrm) != 3)
			count(insn, INVLPGS);
		break;
	case 0x20:	/* from a control register */
		if (reg(modrm) == 2)
			count(insn, FAULTS);
		if (reg(modrm) == 2 && options.fault_cost)
			qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
				insn, QEMU_PLUGIN_INLINE_STORE_U64, FIELD(in_fault), 1);
		break;
	case 0x22:	/* to a control register */
		if (reg(modrm) == 3)
			count(insn, CR3_LOADS);
		break;
	case 0x30:
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_wrmsr, QEMU_PLUGIN_CB_R_REGS, NULL);
		break;
	}
}

static void watch_kernel(struct qemu_plugin_insn *insn, const struct decoded *d)
{
	bool store = d->opcode[0] == 0x89 || d->opcode[0] == 0xc7 || d->opcode[0] == 0x87;

	if (d->opcode[0] == 0x0f)
		watch_two_byte(insn, d);
	else if (d->opcode[0] == 0xf4)
		count(insn, HALTS);
	else if (store && !d->wide && !d->narrow && mod(d->opcode[1]) != 3) {
		uint16_t *looks = malloc(sizeof(*looks)); /* lives as long as the translation may */

		*looks = 64;
		qemu_plugin_register_vcpu_mem_cb(insn, on_kernel_store, QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_W, looks);
	}
}

static void watch(struct qemu_plugin_insn *insn, const struct decoded *d, bool kernel)
{
	bool string = (d->opcode[0] & 0xfe) == 0xa4 || (d->opcode[0] & 0xfe) == 0xaa;
	bool exchange = (d->opcode[0] & 0xfe) == 0x86 && mod(d->opcode[1]) != 3;

	if (d->rep && string)
		watch_string(insn, d, kernel);
	if (d->lock || exchange)
		count(insn, ATOMICS);
	if (kernel)
		watch_kernel(insn, d);
	else if (d->opcode[0] == 0x0f && d->opcode[1] == 0x05)
		count(insn, SYSCALLS);
	if (is_marker(insn))
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_marker, QEMU_PLUGIN_CB_NO_REGS,
						       NULL);
	if (options.near)
		coherence_watch(insn, d->rep && string);
}

void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb), pauses = 0;
	bool kernel = qemu_plugin_tb_vaddr(tb) >> 63;
	int class;

	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		struct decoded d = decode(insn);

		pauses += is_pause(&d);
		watch(insn, &d, kernel);
	}
	class = (pauses ? USER_SPIN : USER) + kernel;
	add_in_block(tb, FIELD(used), (n + pauses * (options.pause - 1)) * UNITS);
	add_in_block(tb, FIELD(insns[class]), n);
	if (options.fault_cost && kernel) {
		add_in_block(tb, FIELD(since_user), n);
	} else if (options.fault_cost) {
		qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, on_fault_done, QEMU_PLUGIN_CB_NO_REGS,
							  QEMU_PLUGIN_COND_NE, FIELD(in_fault), 0,
							  NULL);
		qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_STORE_U64,
								  FIELD(since_user), 0);
	}
	if (options.symbols)
		profile_watch(tb, kernel);
	qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, on_turn_over, QEMU_PLUGIN_CB_NO_REGS,
						  QEMU_PLUGIN_COND_GE, FIELD(used), TURN_OVER,
						  NULL);
	(void)id;
}
