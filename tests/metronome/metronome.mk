# The metronome: a QEMU plugin that keeps virtual time (docs/metronome.md), and the guest that its own test runs.

METRONOME_PLUGIN := build/metronome/metronome.so
METRONOME_GUEST := build/metronome/guest.bin
METRONOME_CFLAGS := -std=gnu11 -O2 -g -Wall -Wextra -fPIC -fvisibility=hidden $(if $(filter 1,$(WERROR)),-Werror)

.PHONY: metronome metronome-test
metronome: $(METRONOME_PLUGIN) $(METRONOME_GUEST)

# Symbols of QEMU's are found when they are first used: the same object is loaded into helper processes too.
$(METRONOME_PLUGIN): $(wildcard tests/metronome/*.c tests/metronome/*.h) tests/metronome/metronome.mk | build/.deps-build
	$(call say,PLUGIN,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(METRONOME_CFLAGS) -shared -Wl,-z,lazy $(filter %.c,$^) -ldl -lpthread -o $@

$(METRONOME_GUEST): tests/metronome/guest.asm | build/.deps-build
	$(call say,NASM,$<)
	@mkdir -p $(@D)
	$(Q)$(NASM) -f bin $< -o $@

metronome-test: metronome | build/.deps-run
	@tests/metronome/test.sh
