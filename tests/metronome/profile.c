/*
 * Where the guest's instructions go, by function of its kernel.
 *
 * The symbol table is the output of `nm` or a copy of /proc/kallsyms. A function gets a counter
 * when code of it is first translated; each block adds its instructions inline. Folded stacks (one
 * line per stack, its functions separated by semicolons, then a count) need no frame pointers:
 * calls and returns are followed, and each vCPU has a place in a tree of calls. Code that is
 * reached otherwise is a tail call, or, if its symbol looks like an entry point, an interrupt.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "metronome.h"

#define MAX_FUNCTIONS	16384	/* that are executed */
#define USER_CODE	0	/* index of all user code */

struct symbol {
	uint64_t address;
	const char *name;
	unsigned int function;	/* index of its counter, or 0: none yet */
};

static struct symbol *symbols;
static size_t symbol_count;
static struct symbol *functions[MAX_FUNCTIONS];
static unsigned int function_count = 1;
static struct qemu_plugin_scoreboard *counters;
static uint64_t at_start[MAX_FUNCTIONS];
static uint64_t transfers[MAX_FUNCTIONS];	/* since the region began; counted in turns only */
/* Of the tables above: translation is parallel. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- symbols ---- */

static int by_address(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static bool read_symbols(void)
{
	char line[512], name[256], type;
	size_t room = 0;
	FILE *f = fopen(options.symbols, "r");

	if (!f) {
		fprintf(stderr, "metronome: cannot read the symbol table '%s'\n", options.symbols);
		return false;
	}
	while (fgets(line, sizeof(line), f)) {
		uint64_t address;

		if (sscanf(line, "%lx %c %255s", &address, &type, name) != 3 ||
		    !strchr("tTwW", type))
			continue;
		if (!strncmp(name, "..@", 3))	/* NASM's label of a macro, within a function */
			continue;
		if (symbol_count == room) {
			room = room ? room * 2 : 4096;
			symbols = realloc(symbols, room * sizeof(*symbols));
		}
		symbols[symbol_count++] = (struct symbol){ address, strdup(name), 0 };
	}
	fclose(f);
	if (!symbol_count) {
		fprintf(stderr, "metronome: no function in '%s': is it the output of nm?\n",
			options.symbols);
		return false;
	}
	qsort(symbols, symbol_count, sizeof(*symbols), by_address);
	return true;
}

static struct symbol *symbol_at(uint64_t address)
{
	size_t low = 0, high = symbol_count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (symbols[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &symbols[low - 1] : NULL;
}

/* The counter of the function at an address; that of user code if there is none left. */
static unsigned int function_at(uint64_t address)
{
	struct symbol *symbol = symbol_at(address);
	unsigned int function = USER_CODE;

	if (!symbol)
		return USER_CODE;
	pthread_mutex_lock(&lock);
	if (!symbol->function && function_count < MAX_FUNCTIONS) {
		functions[function_count] = symbol;
		symbol->function = function_count++;
	}
	function = symbol->function;
	pthread_mutex_unlock(&lock);
	return function;
}

static const char *function_name(unsigned int function)
{
	return function == USER_CODE ? "user" : functions[function]->name;
}

static uint64_t executed(unsigned int function)
{
	uint64_t sum = 0;

	for (int i = 0; i < vcpu_count; i++) {
		uint64_t *mine = qemu_plugin_scoreboard_find(counters, (unsigned int)i);

		sum += mine[function];
	}
	return sum;
}

/* ---- the tree of calls ---- */

struct node {
	struct node *parent, *child, *sibling;
	unsigned int function;
	uint64_t insns;
};

enum arrival { JUMPED, CALLED, RETURNED };	/* how the next block is reached */

static struct place {
	struct node *node;
	enum arrival arrival;
} places[MAX_VCPUS];

static struct node root;

/* Changed in turns only: no lock. */
static struct node *child_of(struct node *parent, unsigned int function)
{
	struct node *n;

	for (n = parent->child; n; n = n->sibling)
		if (n->function == function)
			return n;
	n = calloc(1, sizeof(*n));
	*n = (struct node){ .parent = parent, .sibling = parent->child, .function = function };
	parent->child = n;
	return n;
}

static bool is_entry(unsigned int function)
{
	static const char *const prefixes[] = { "asm_", "isr", "irq_", "exception", "entry_" };
	const char *name = function_name(function);

	for (size_t i = 0; i < LENGTH(prefixes); i++)
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}

static struct node *next_place(const struct place *place, unsigned int function)
{
	struct node *now = place->node, *n;

	if (!now || function == USER_CODE || now->function == USER_CODE)
		return child_of(&root, function);
	if (place->arrival == CALLED)
		return child_of(now, function);
	if (place->arrival == RETURNED) {
		for (n = now->parent; n && n != &root; n = n->parent)
			if (n->function == function)
				return n;
		return child_of(&root, function);	/* another task's stack */
	}
	if (now->function == function)
		return now;
	return child_of(is_entry(function) ? now : now->parent, function);
}

struct block {
	unsigned int function, insns;
};

static void on_block(unsigned int vcpu, void *data)
{
	const struct block *block = data;
	struct place *place = &places[vcpu];

	if (!turns_are_on())
		return;
	place->node = next_place(place, block->function);
	place->arrival = JUMPED;
	place->node->insns += block->insns;
}

static void on_call(unsigned int vcpu, void *unused)
{
	places[vcpu].arrival = CALLED;
	(void)unused;
}

static void on_return(unsigned int vcpu, void *unused)
{
	places[vcpu].arrival = RETURNED;
	(void)unused;
}

/* Only the last instruction of a block can be a call or a return. */
static void watch_flow(struct qemu_plugin_tb *tb)
{
	struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, qemu_plugin_tb_n_insns(tb) - 1);
	uint8_t code[16] = { 0 }, *p = code;

	qemu_plugin_insn_data(insn, code, sizeof(code) - 2);
	while (*p == 0xf2 || *p == 0xf3 || *p == 0x3e || *p == 0x2e || *p == 0x66 ||
	       (*p & 0xf0) == 0x40)
		p++;
	if (p[0] == 0xe8 || (p[0] == 0xff && (p[1] >> 3 & 7) == 2))
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_call, QEMU_PLUGIN_CB_NO_REGS, NULL);
	else if (p[0] == 0xc3 || p[0] == 0xc2 || p[0] == 0xcf)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_return, QEMU_PLUGIN_CB_NO_REGS,
						       NULL);
}

void profile_watch(struct qemu_plugin_tb *tb, bool kernel)
{
	unsigned int n = (unsigned int)qemu_plugin_tb_n_insns(tb);
	unsigned int function = kernel ? function_at(qemu_plugin_tb_vaddr(tb)) : USER_CODE;
	qemu_plugin_u64 counter = { counters, function * sizeof(uint64_t) };
	struct block *block;

	qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64, counter,
							  n);
	if (!options.folded)
		return;
	block = malloc(sizeof(*block));		/* lives as long as the translation may */
	*block = (struct block){ function, n };
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, block);
	if (kernel)
		watch_flow(tb);
}

void profile_transfer(uint64_t address)
{
	transfers[address >> 63 ? function_at(address) : USER_CODE]++;
}

/* ---- results ---- */

static void forget(struct node *n)
{
	for (; n; n = n->sibling) {
		n->insns = 0;
		forget(n->child);
	}
}

void profile_reset(void)
{
	if (!options.symbols)
		return;
	for (unsigned int i = 0; i < function_count; i++)
		at_start[i] = executed(i);
	memset(transfers, 0, sizeof(transfers));
	forget(root.child);
}

static int by_count(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return x[1] > y[1] ? -1 : x[1] < y[1];
}

static void put_top(FILE *out, const char *name, uint64_t (*count)(unsigned int function))
{
	uint64_t (*rows)[2] = calloc(function_count, sizeof(*rows));

	for (unsigned int i = 0; i < function_count; i++) {
		rows[i][0] = i;
		rows[i][1] = count(i);
	}
	qsort(rows, function_count, sizeof(*rows), by_count);
	fprintf(out, ",\"%s\":[", name);
	for (unsigned int i = 0; i < function_count && i < options.top && rows[i][1]; i++)
		fprintf(out, "%s[\"%s\",%lu]", i ? "," : "",
			function_name((unsigned int)rows[i][0]), rows[i][1]);
	fprintf(out, "]");
	free(rows);
}

static uint64_t executed_since(unsigned int function)
{
	return executed(function) - at_start[function];
}

static uint64_t transferred(unsigned int function)
{
	return transfers[function];
}

void profile_top(FILE *out)
{
	put_top(out, "top", executed_since);
	if (options.near)
		put_top(out, "top_transfers", transferred);
}

static void put_stacks(FILE *out, const struct node *n, char *path, size_t length, size_t room)
{
	for (; n; n = n->sibling) {
		int more = snprintf(path + length, room - length, "%s%s", length ? ";" : "",
				    function_name(n->function));

		if (more < 0 || length + (size_t)more >= room)
			continue;	/* absurdly deep: left out */
		if (n->insns)
			fprintf(out, "%s %lu\n", path, n->insns);
		put_stacks(out, n->child, path, length + (size_t)more, room);
		path[length] = 0;
	}
}

void profile_folded(void)
{
	static char path[8192];
	FILE *f = fopen(options.folded, "a");

	if (!f) {
		fprintf(stderr, "metronome: cannot write stacks to '%s'\n", options.folded);
		return;
	}
	put_stacks(f, root.child, path, 0, sizeof(path));
	fclose(f);
}

bool profile_start(void)
{
	if (!options.symbols)
		return true;
	counters = qemu_plugin_scoreboard_new(sizeof(uint64_t) * MAX_FUNCTIONS);
	return read_symbols();
}
