# The measurements: docs/results.md. EXP=NAME runs one experiment of tests/bench/experiments.ini, FULL=1 takes the historic
# thread counts, POLICY=NAME only one of the policies, SEED=N a seeded schedule, SET="mb=64 reps=10" other sizes.

LINUX_VMLINUZ := build/linux/vmlinuz
BENCH := /usr/bin/env python3 tests/bench/bench.py
BENCH_ARGS = $(if $(EXP),-e $(EXP)) $(if $(POLICY),-p $(POLICY)) $(if $(filter 1,$(FULL)),-f) $(if $(SEED),-s $(SEED)) \
	$(if $(OPTIONS),-o '$(OPTIONS)') $(addprefix -d ,$(SET))

.PHONY: bench bench-linux compare results explore profile
bench: $(KERNEL) $(METRONOME_PLUGIN) user | build/.deps-bench
	@KERNEL=$(KERNEL) $(BENCH) run faultline $(BENCH_ARGS)

bench-linux: $(LINUX_VMLINUZ) $(METRONOME_PLUGIN) user | build/.deps-bench
	@$(BENCH) run linux $(BENCH_ARGS)

# Where the instructions go; PROFILE=linux for Linux.
profile: $(KERNEL) $(METRONOME_PLUGIN) user $(if $(filter linux,$(PROFILE)),$(LINUX_VMLINUZ)) | build/.deps-bench
	@KERNEL=$(KERNEL) $(BENCH) profile $(or $(PROFILE),faultline) $(BENCH_ARGS)

compare:
	@$(BENCH) compare $(if $(EXP),-e $(EXP))

results: | build/.deps-bench
	@$(BENCH) publish

# Debian's kernel, fetched and unpacked, never installed.
$(LINUX_VMLINUZ): tests/bench/linux.sh | build/.deps-bench
	@tests/bench/linux.sh $@

# TEST, a program of /tests, under many schedules: stops at the first that fails.
explore: $(KERNEL) $(INITRAMFS) $(METRONOME_PLUGIN) | build/.deps-run
	@KERNEL=$(KERNEL) INITRAMFS=$(INITRAMFS) tests/bench/explore.sh '$(TEST)' '$(SEEDS)'

# What the kernel may cost at most: a test. It starts the metronome as docs/metronome.md says.
.PHONY: budget
budget: $(KERNEL) $(INITRAMFS) $(METRONOME_PLUGIN) | build/.deps-run
	@tests/bench/budget.sh
