# User programs: static, by musl-gcc, running on Faultline and Linux alike.
#
#   user/NAME.c or user/NAME/*.c   ->  /bin/NAME   (init: /init)
#   user/tests/NAME.c              ->  /tests/NAME, with user/tests/harness/*.c
#   EXTRA=DIR                      ->  the files of DIR on top

UBUILD  := build/user/root
UCFLAGS := -std=gnu11 -O2 -g -static -pthread -Wall -Wextra -Wno-unused-parameter -I. -Iuser \
	-idirafter build/uapi $(if $(filter 1,$(WERROR)),-Werror)

USER_DIRS  := $(filter-out user/tests/ user/etc/,$(sort $(wildcard user/*/)))
USER_NAMES := $(sort $(patsubst user/%.c,%,$(wildcard user/*.c)) $(patsubst user/%/,%,$(USER_DIRS)))
HARNESS    := $(sort $(wildcard user/tests/harness/*.c))
TEST_NAMES := $(sort $(patsubst user/tests/%.c,%,$(wildcard user/tests/*.c)))

user_path  = $(UBUILD)/$(if $(filter init,$(1)),init,bin/$(1))
USER_BINS := $(foreach n,$(USER_NAMES),$(call user_path,$(n)))
TEST_BINS := $(TEST_NAMES:%=$(UBUILD)/tests/%)

.PHONY: user
user: $(USER_BINS) $(TEST_BINS)

build/user/.flags: FORCE
	$(call remember,$(MUSL_CC) $(UCFLAGS))
build/user/.programs: FORCE
	$(call remember,$(USER_BINS) $(TEST_BINS))

# $(1) name, $(2) output, $(3) sources, $(4) headers that it may use
define user_program
$(2): $(3) $(4) build/user/.flags | build/uapi/$(notdir $(lastword $(CC)))
	$$(call say,MUSL,$(1))
	@mkdir -p $$(@D)
	$$(Q)$$(MUSL_CC) $$(UCFLAGS) $(3) -o $$@
endef

$(foreach n,$(USER_NAMES),$(eval $(call user_program,user/$(n),$(call user_path,$(n)),\
	$(wildcard user/$(n).c user/$(n)/*.c),$(wildcard user/*.h user/$(n)/*.h))))
$(foreach n,$(TEST_NAMES),$(eval $(call user_program,user/tests/$(n),$(UBUILD)/tests/$(n),\
	user/tests/$(n).c $(HARNESS),$(wildcard user/*.h user/tests/*.h user/tests/harness/*.h))))

$(INITRAMFS): $(USER_BINS) $(TEST_BINS) build/user/.programs user/mkinitramfs.sh $(wildcard user/etc/*) $(if $(EXTRA),FORCE)
	$(call say,CPIO,$@)
	@mkdir -p $(@D)
	$(Q)user/mkinitramfs.sh $@ $(UBUILD) $(if $(EXTRA),$(EXTRA),'') $(USER_BINS) $(TEST_BINS)
