# Boot it: the ISO, and the targets that start QEMU by tests/qemu.sh.

GRUB_MODULES := multiboot2 serial terminal terminfo normal iso9660 search part_gpt part_msdos \
	part_acorn part_amiga part_apple part_bsd part_dfly part_dvh part_plan part_sun part_sunpc

# GRUB keeps every section of the file in memory, so it gets one without debug data.
$(ISO): $(KERNEL) $(INITRAMFS) boot/grub.cfg
	$(call say,ISO,$@)
	$(Q)rm -rf $(ISO).dir && mkdir -p $(ISO).dir/boot/grub
	$(Q)strip -s $(KERNEL) -o $(ISO).dir/boot/faultline.elf
	$(Q)cp $(INITRAMFS) $(ISO).dir/boot/initramfs.cpio
	$(Q)sed "s/@BYTES@/$$(stat -c %s $(INITRAMFS))/" boot/grub.cfg > $(ISO).dir/boot/grub/grub.cfg
	$(Q)grub-mkrescue -o $@ $(ISO).dir --install-modules="$(GRUB_MODULES)" \
		> $(ISO).log 2>&1 || { cat $(ISO).log; rm -f $@; exit 1; }
	$(Q)rm -rf $(ISO).dir

BOOT_FILES = $(KERNEL) $(INITRAMFS) $(if $(filter bios uefi,$(BOOT)),$(ISO))
QEMU_ENV   = KERNEL=$(KERNEL) INITRAMFS=$(INITRAMFS) ISO=$(ISO)

.PHONY: run gdb debug
run: $(BOOT_FILES) | build/.deps-$(NEED)
	@$(QEMU_ENV) tests/qemu.sh

# QEMU in the background, stopped before the first instruction; gdb in front of it.
# GDB_ARGS="-batch -ex ..." for scripts.
GDB_PORT ?= 1234
gdb: $(BOOT_FILES) | build/.deps-$(NEED)
	@$(QEMU_ENV) TIMEOUT=0 setsid tests/qemu.sh -S -gdb tcp:127.0.0.1:$(GDB_PORT) \
		</dev/null >$(or $(LOG),$(B)/gdb.log) 2>&1 & qemu=$$!; \
	echo "Serial output: $(or $(LOG),$(B)/gdb.log). Commands: help fl"; \
	gdb -q $(KERNEL) -x tests/gdb/faultline.py -ex 'target remote 127.0.0.1:$(GDB_PORT)' $(GDB_ARGS); \
	kill -- -$$qemu 2>/dev/null; wait

# Every interrupt, exception and CPU reset, as QEMU sees it.
debug: $(BOOT_FILES) | build/.deps-$(NEED)
	@$(QEMU_ENV) tests/qemu.sh -d int,cpu_reset,guest_errors -D $(B)/qemu.log; \
	status=$$?; echo "QEMU's log: $(B)/qemu.log"; exit $$status

# --- tests -----------------------------------------------------------------

# Most cases boot the debug build, with its checks; some the release build.
.PHONY: test test-build
test-build: | build/.deps-$(NEED)
	@$(MAKE) --no-print-directory DEBUG= UEFI= EXTRA= iso
	@$(MAKE) --no-print-directory DEBUG=1 UEFI= EXTRA= iso
	@$(MAKE) --no-print-directory DEBUG= CC=clang B=build/clang kernel

# T="PATTERN..." runs only the cases with such names.
test: test-build
	@tests/run $(T)
