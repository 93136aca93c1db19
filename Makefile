# Faultline: build, run, test. `make help` lists what there is.
#
# One ISO serves every run: the command line comes by QEMU's fw_cfg, so nothing
# is rebuilt to run something else. What a target needs from the distribution
# is installed by tests/deps.sh the first time.

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:

# --- what to run -----------------------------------------------------------

BOOT  ?= $(if $(filter 1,$(UEFI)),uefi,bios)
CMD   ?= pft -t 1,2,4
export CPUS NODES MEM TOPO CPU UEFI BOOT CMD KARGS QEMU_ARGS LOG

# --- how to build ----------------------------------------------------------

ifeq ($(origin CC),default)
CC := gcc
endif
LD      ?= ld
ifeq ($(origin LD),default)
LD := ld
endif
NASM    ?= nasm
MUSL_CC ?= musl-gcc
VARIANT := $(if $(filter 1,$(DEBUG)),debug,release)
B       := build/$(VARIANT)
KERNEL  := $(B)/faultline.elf
ISO     := $(B)/faultline$(if $(EXTRA),-extra).iso
INITRAMFS := build/initramfs$(if $(EXTRA),-extra).cpio

ifeq ($(V),1)
Q    :=
say  = @:
else
Q    := @
say  = @printf '  %-8s %s\n' $(1) $(2)
endif

KDIRS := boot arch kernel mm
KSRC  := $(sort $(shell find $(KDIRS) -name '*.c' 2>/dev/null))
KASM  := $(sort $(shell find $(KDIRS) -name '*.asm' 2>/dev/null))
KOBJ  := $(KSRC:%.c=$(B)/%.o) $(KASM:%.asm=$(B)/%.asm.o)

# Only the compiler's own headers and Linux's uapi headers are visible to the
# kernel; libc's are not. build/uapi holds links to them.
KCFLAGS := -std=gnu11 -ffreestanding -nostdinc -I. -isystem build/uapi/$(notdir $(lastword $(CC))) -isystem build/uapi \
	-mcmodel=kernel -mno-red-zone -mgeneral-regs-only -fno-pic -fno-pie \
	-fno-stack-protector -fcf-protection=none -fno-omit-frame-pointer -fno-strict-aliasing \
	-fno-common -fno-asynchronous-unwind-tables -fno-delete-null-pointer-checks \
	-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -g
KCFLAGS += $(if $(filter 1,$(DEBUG)),-O1 -DDEBUG,-O2)
KCFLAGS += $(if $(filter 1,$(WERROR)),-Werror) $(KCFLAGS_EXTRA)
KASFLAGS := -f elf64 -g -F dwarf -I./ $(if $(filter 1,$(DEBUG)),-DDEBUG)
KLDFLAGS := -nostdlib -static -T linker.ld -z max-page-size=4096 -z noexecstack --build-id=none \
	--no-warn-rwx-segments

.PHONY: all kernel iso run clean help FORCE
all: $(KERNEL)
kernel: $(KERNEL)
iso: $(ISO)

# --- packages --------------------------------------------------------------

# Any change of installed packages makes the stamp old, and the check run again.
build/.deps-%: tests/deps.sh $(wildcard /var/lib/dpkg/status)
	@mkdir -p $(@D)
	@tests/deps.sh $* && touch $@

build/uapi/$(notdir $(lastword $(CC))): | build/.deps-build
	@mkdir -p build/uapi
	@ln -sfn /usr/include/linux build/uapi/linux
	@ln -sfn /usr/include/asm-generic build/uapi/asm-generic
	@ln -sfn $$(dirname $$(printf '#include <asm/unistd.h>\n' | $(CC) -E -M -x c - | tr ' ' '\n' | grep -m1 'asm/unistd.h')) build/uapi/asm
	@ln -sfn "$$($(CC) -print-file-name=include)" $@

# --- kernel ----------------------------------------------------------------

# A change of compiler or flags rebuilds everything.
$(B)/.flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(KCFLAGS) / $(NASM) $(KASFLAGS) / $(KLDFLAGS)' > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(B)/%.o: %.c $(B)/.flags | build/uapi/$(notdir $(lastword $(CC)))
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(KCFLAGS) -MMD -MP -MF $(@:.o=.d) -c $< -o $@

$(B)/%.asm.o: %.asm $(B)/.flags | build/.deps-build
	$(call say,NASM,$<)
	@mkdir -p $(@D)
	$(Q)$(NASM) $(KASFLAGS) -MD $(@:.o=.d) -MP $< -o $@

# Link with an empty symbol table, fill the table from that, link again; the
# code must not have moved.
$(KERNEL): $(KOBJ) linker.ld tests/ksyms.sh
	$(call say,LD,$@)
	$(Q)tests/ksyms.sh > $(B)/ksyms0.S && $(CC) -c $(B)/ksyms0.S -o $(B)/ksyms0.o
	$(Q)$(LD) $(KLDFLAGS) $(KOBJ) $(B)/ksyms0.o -o $(B)/pass1.elf
	$(Q)tests/ksyms.sh $(B)/pass1.elf > $(B)/ksyms1.S && $(CC) -c $(B)/ksyms1.S -o $(B)/ksyms1.o
	$(Q)$(LD) $(KLDFLAGS) $(KOBJ) $(B)/ksyms1.o -Map $(B)/faultline.map -o $@
	$(Q)tests/ksyms.sh $@ | cmp -s - $(B)/ksyms1.S || { echo "$@: code moved between the two links" >&2; exit 1; }

-include $(KSRC:%.c=$(B)/%.d) $(KASM:%.asm=$(B)/%.asm.d)

# --- the rest --------------------------------------------------------------

include mk/user.mk mk/run.mk
-include tests/unit/unit.mk tests/fuzz/fuzz.mk tests/metronome/metronome.mk tests/bench/bench.mk

clean:
	rm -rf build
