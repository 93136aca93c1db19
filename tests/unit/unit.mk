# Host tests: kernel code that touches no hardware, under AddressSanitizer and
# UndefinedBehaviorSanitizer. Included by the top Makefile.
#
#	make unit		build and run all; last line "N passed, N failed"
#	make unit UNIT="elf acpi"	only these
#	make fuzz		each fuzz target for FUZZ_SECONDS (20)
#
# To add tests/unit/test_NAME.c: one line UNIT_NAME := the kernel sources it needs
# (kernel/string.c is always there), and NAME in UNIT_ALL. Headers that touch
# hardware are replaced by tests/unit/shim/.

UNIT_CC = $(if $(shell command -v clang 2>/dev/null),clang,$(CC))
UNIT_B  := build/unit

UNIT_ALL := string tlbcpus printf param bootinfo multiboot2 pvh acpi acpi_madt acpi_srat acpi_fadt \
	cpio elf frames vma ptwalk
UNIT     ?= $(UNIT_ALL)

UNIT_printf     := kernel/printf.c
UNIT_param      := kernel/param.c kernel/printf.c
UNIT_bootinfo   := kernel/bootinfo.c
UNIT_multiboot2 := arch/x86_64/multiboot2.c kernel/bootinfo.c
UNIT_pvh        := arch/x86_64/pvh.c kernel/bootinfo.c
UNIT_ACPI       := $(addprefix arch/x86_64/,acpi.c acpi_madt.c acpi_srat.c acpi_fadt.c) kernel/bootinfo.c
UNIT_acpi       := $(UNIT_ACPI)
UNIT_acpi_madt  := $(UNIT_ACPI)
UNIT_acpi_srat  := $(UNIT_ACPI)
UNIT_acpi_fadt  := $(UNIT_ACPI)
UNIT_cpio       := kernel/cpio.c
UNIT_elf        := kernel/elf.c
# Memory management, with mm_host.c in the place of the rest of the kernel.
UNIT_MM         := tests/unit/mm_host.c $(addprefix mm/,bootmem.c node.c page.c buddy.c pcp.c slab.c policy.c \
	ptpage.c quicklist.c ptwalk.c gather.c vma.c zap.c mm.c)
UNIT_frames     := $(UNIT_MM)
UNIT_vma        := $(UNIT_MM)
UNIT_ptwalk     := $(UNIT_MM)

FUZZ_ALL     := multiboot2 pvh acpi cpio elf param
FUZZ         ?= $(FUZZ_ALL)
FUZZ_SECONDS ?= 20

UNIT_CFLAGS := -std=gnu11 -g -O1 -Itests/unit/shim -I. -fsanitize=address,undefined \
	-fno-sanitize-recover=all -fno-omit-frame-pointer -fno-strict-aliasing -Wall -Wextra \
	-DHOST_TEST -Wno-unused-parameter -Wno-missing-field-initializers $(if $(filter 1,$(WERROR)),-Werror) -DDEBUG
# The fuzzer's coverage, in a tree of objects of its own.
FUZZ_CFLAGS := $(UNIT_CFLAGS) -fsanitize=fuzzer-no-link

unit_objs = $(patsubst %.c,$(UNIT_B)/%.o,tests/unit/unit.c kernel/string.c $(1))
fuzz_objs = $(patsubst %.c,$(UNIT_B)/fuzz-obj/%.o,kernel/string.c $(1))

UNIT_PROGRAMS := $(UNIT:%=$(UNIT_B)/test_%)
UNIT_REPLAYS  := $(foreach f,$(filter $(FUZZ_ALL),$(UNIT)),$(UNIT_B)/test_corpus_$(f))

.PHONY: unit fuzz
.SECONDARY: build/.deps-unit $(UNIT_B)/tests/fuzz/seed.o
unit: $(UNIT_PROGRAMS) $(UNIT_REPLAYS) $(UNIT_B)/corpus/.made
	@tests/unit/run.sh $(UNIT_PROGRAMS) $(UNIT_REPLAYS)

fuzz: $(FUZZ:%=$(UNIT_B)/fuzz_%) $(UNIT_B)/corpus/.made
	@tests/fuzz/run.sh $(FUZZ_SECONDS) $(FUZZ)

$(UNIT_B)/%.o: %.c tests/unit/unit.mk | build/.deps-unit
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(UNIT_CC) $(UNIT_CFLAGS) $(UNIT_EXTRA) -MMD -MP -c $< -o $@

$(UNIT_B)/fuzz-obj/%.o: %.c tests/unit/unit.mk | build/.deps-unit
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)clang $(FUZZ_CFLAGS) $(UNIT_EXTRA) -MMD -MP -c $< -o $@

$(UNIT_B)/kernel/string.o $(UNIT_B)/fuzz-obj/kernel/string.o: UNIT_EXTRA := -include tests/unit/rename_string.h

define unit_program
$(UNIT_B)/test_$(1): $(call unit_objs,tests/unit/test_$(1).c $(UNIT_$(1)))
	$$(call say,LD,$$@)
	$$(Q)$$(UNIT_CC) $$(UNIT_CFLAGS) $$(filter %.o,$$^) -o $$@
-include $(patsubst %.o,%.d,$(call unit_objs,tests/unit/test_$(1).c $(UNIT_$(1))))
endef
$(foreach t,$(UNIT_ALL),$(eval $(call unit_program,$(t))))

# A fuzz target twice: with libFuzzer, and with a main() that replays the corpus.
define fuzz_program
$(UNIT_B)/fuzz_$(1): $(call fuzz_objs,tests/fuzz/fuzz_$(1).c tests/fuzz/fuzz.c $(UNIT_$(1)))
	$$(call say,LD,$$@)
	$$(Q)clang $$(UNIT_CFLAGS) -fsanitize=fuzzer $$(filter %.o,$$^) -o $$@
$(UNIT_B)/test_corpus_$(1): $(filter-out %/unit.o,$(call unit_objs,tests/fuzz/replay.c tests/fuzz/fuzz_$(1).c tests/fuzz/fuzz.c $(UNIT_$(1))))
	$$(call say,LD,$$@)
	$$(Q)$$(UNIT_CC) $$(UNIT_CFLAGS) $$(filter %.o,$$^) -o $$@
-include $(patsubst %.c,$(UNIT_B)/%.d,tests/fuzz/replay.c tests/fuzz/fuzz_$(1).c)
endef
$(foreach f,$(FUZZ_ALL),$(eval $(call fuzz_program,$(f))))

# The seeds are made by a program, so that they follow the builders in the tests.
$(UNIT_B)/seed: $(UNIT_B)/tests/fuzz/seed.o
	$(Q)$(UNIT_CC) $(UNIT_CFLAGS) $^ -o $@

$(UNIT_B)/corpus/.made: $(UNIT_B)/seed
	@mkdir -p $(@D)
	$(Q)$(UNIT_B)/seed $(@D)
	@touch $@
