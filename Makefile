# Faultline: build, run, test. `make help` lists what there is.
#
# One ISO serves every run: the command line comes by QEMU's fw_cfg, so nothing
# is rebuilt to run something else. What a target needs from the distribution
# is installed by tests/deps.sh the first time.

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc)
endif
ifneq ($(filter clean,$(MAKECMDGOALS)),)
.NOTPARALLEL:
endif

# --- what to run -----------------------------------------------------------

BOOT  ?= $(if $(filter 1,$(UEFI)),uefi,bios)
CMD   ?= pft -t 1,2,4
export CPUS NODES MEM TOPO CPU BOOT CMD KARGS QEMU_ARGS LINUX LOG MONITOR TIMEOUT ACCEL ICOUNT

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

# What is built waits for the packages of what it is built for, so that they come in one go.
NEED := $(firstword $(filter test bench gdb,$(MAKECMDGOALS)) $(if $(filter run debug,$(MAKECMDGOALS)),run) build)

# Any change of installed packages makes the stamp old, and the check run again.
build/.deps-%: tests/deps.sh $(wildcard /var/lib/dpkg/status)
	@mkdir -p $(@D)
	@tests/deps.sh $* && touch $@

build/uapi/$(notdir $(lastword $(CC))): | build/.deps-$(NEED)
	@mkdir -p build/uapi
	@ln -sfn /usr/include/linux build/uapi/linux
	@ln -sfn /usr/include/asm-generic build/uapi/asm-generic
	@ln -sfn $$(dirname $$(printf '#include <asm/unistd.h>\n' | $(CC) -E -M -x c - | tr ' ' '\n' | grep -m1 'asm/unistd.h')) build/uapi/asm
	@ln -sfn "$$($(CC) -print-file-name=include)" $@

# --- kernel ----------------------------------------------------------------

# A change of compiler or flags rebuilds everything; a file more or less links again.
# $(1): what to remember in $@, which gets a new time only if that differs.
remember = @mkdir -p $(@D); echo '$(1)' > $@.new; \
	if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(B)/.flags: FORCE
	$(call remember,$(CC) $(KCFLAGS) / $(NASM) $(KASFLAGS) / $(KLDFLAGS))
$(B)/.objects: FORCE
	$(call remember,$(KOBJ))

$(B)/%.o: %.c $(B)/.flags | build/uapi/$(notdir $(lastword $(CC)))
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(KCFLAGS) -MMD -MP -MF $(@:.o=.d) -c $< -o $@

$(B)/%.asm.o: %.asm $(B)/.flags | build/.deps-$(NEED)
	$(call say,NASM,$<)
	@mkdir -p $(@D)
	$(Q)$(NASM) $(KASFLAGS) -MD $(@:.o=.d) -MP $< -o $@

# Link with an empty symbol table, fill the table from that, link again; the
# code must not have moved.
$(KERNEL): $(KOBJ) $(B)/.objects linker.ld tests/ksyms.sh
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

help:
	@sed -n 's/^## \{0,1\}//p' Makefile
## make              build the kernel (build/release, with DEBUG=1 build/debug)
## make run          boot it by GRUB in QEMU and run CMD
## make gdb          the same, under gdb, with commands for the kernel's structures
## make debug        the same, with every interrupt and CPU reset in a log
## make test         everything: host unit tests, then the matrix of machines (T=NAME: only those)
## make unit, fuzz   the tests that run on the host
## make bench        the measurements
## make iso          only the ISO;  make user: only the user programs
## make clean
##
## What to run:
##   CMD="pft -t 1,2; sh -c 'ls /proc'"   programs for init, one after the other
##   KARGS="vm.ptl=mm selftest=all"       kernel parameters
##   EXTRA=DIR                            add the files of DIR to the initramfs
## On which machine:
##   CPUS=4 NODES=2 MEM=1G                N equal nodes
##   TOPO=ring-8                          one of tests/topologies instead of NODES
##   CPU=max                              QEMU's CPU model
##   BOOT=bios|uefi|pvh                   through GRUB, or by QEMU directly (fastest); UEFI=1 is BOOT=uefi
##   BOOT=linux LINUX=FILE                the same programs on a Linux kernel, to compare
##   QEMU_ARGS="..." MONITOR=SOCKET       more for QEMU
## How:
##   DEBUG=1  assertions, poisoning, lock checks     LOG=FILE  keep the serial output
##   TIMEOUT=SECONDS   CC=clang   WERROR=1   V=1 (show commands)
