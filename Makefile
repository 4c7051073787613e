# SPDX-License-Identifier: MIT
# boxgate: one Makefile, no recursion. Try `make help`.
# Every object goes to build/<mode>/, so release, SAN=asan, SAN=tsan, COV=1 and FAULT=1 never mix.

PREFIX     ?= /usr/local
BINDIR     ?= $(PREFIX)/bin
LIBEXECDIR ?= $(PREFIX)/libexec/boxgate
DATADIR    ?= $(PREFIX)/share/boxgate
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
PKG_CONFIG ?= pkg-config
INSTALL    ?= install
CLANG      ?= clang
V          ?= 0
SAN        ?=
FUZZ_SECONDS ?= 10
COV        ?=
FAULT      ?=
WERROR     ?=

Q     := $(if $(filter 1,$(V)),,@)
MODE  := $(or $(SAN),$(if $(COV),cov),$(if $(FAULT),fault),release)$(if $(filter-out cc gcc,$(CC)),-$(notdir $(CC)))
BUILD := build/$(MODE)

PKGS     := libcurl libcjson yaml-0.1 libuv libarchive sqlite3 libsodium libseccomp
TUI_PKGS := ncursesw

# Goals that must work before a single package is there, or that build nothing.
NOBUILD := help setup clean uninstall
ifneq (,$(filter-out $(NOBUILD),$(or $(MAKECMDGOALS),all)))
# The setup script is silent and fast when nothing is missing; it names and installs what is.
TESTING   := test test-% check check-long lint fuzz bench coverage
SETUP_FOR := $(or $(if $(filter $(TESTING),$(MAKECMDGOALS)),test),$(filter demo,$(MAKECMDGOALS)),build)
ifneq (done,$(BOXGATE_SETUP))
ifneq (0,$(shell SETUP='$(SETUP)' tests/tools/setup $(SETUP_FOR) >&2; echo $$?))
$(error boxgate needs these packages to build; see above. SETUP=no never installs)
endif
export BOXGATE_SETUP := done
endif
endif

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla \
        -Wformat=2 -Wundef -Wwrite-strings -Wswitch-enum $(if $(WERROR),-Werror)
HARDEN := -D_FORTIFY_SOURCE=2 -fstack-protector-strong
OPT  := -O2 -g $(HARDEN)
SANFLAGS_asan := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
SANFLAGS_tsan := -O1 -g -fsanitize=thread
SANFLAGS_fuzz := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-omit-frame-pointer
ifneq (,$(SAN))
OPT := $(or $(SANFLAGS_$(SAN)),$(error SAN must be asan, tsan or fuzz))
endif
ifneq (,$(COV))
OPT := -O0 -g --coverage
endif

# User flags come last so that a packager's CFLAGS win.
BG_CPPFLAGS := -I. -D_GNU_SOURCE -DBG_LIBEXECDIR='"$(LIBEXECDIR)"' -DBG_DATADIR='"$(DATADIR)"' \
               $(if $(FAULT),-DBG_FAULT=1) $(shell $(PKG_CONFIG) --cflags $(PKGS) $(TUI_PKGS) 2>/dev/null) $(CPPFLAGS)
BG_CFLAGS   := -std=c11 $(WARN) $(OPT) -fPIE $(CFLAGS)
BG_LDFLAGS  := -pie -Wl,-z,relro,-z,now $(LDFLAGS)
CORE_LIBS   := $(shell $(PKG_CONFIG) --libs $(PKGS) 2>/dev/null) -lunistring -lm -lpthread $(LDLIBS)
TUI_LIBS    := $(shell $(PKG_CONFIG) --libs $(TUI_PKGS) 2>/dev/null)

GUEST_SRC := $(wildcard core/guest/guest*.c)
CLI_SRC   := $(wildcard core/cli/*.c core/mcp/*.c)
CORE_SRC  := $(filter-out $(GUEST_SRC) $(CLI_SRC),$(wildcard core/*.c core/*/*.c core/*/*/*.c))
WIZ_SRC   := $(wildcard wizard/*.c)
TUI_SRC   := $(filter-out tui/main.c,$(wildcard tui/*.c tui/*/*.c))
UNIT_SRC  := $(wildcard tests/unit/*/test_*.c)
SCREEN_SRC := $(wildcard tests/screen/test_*.c)
FUZZ_SRC  := $(wildcard tests/fuzz/fuzz_*.c)
BENCH_SRC := $(wildcard tests/bench/bench_*.c)
FLOW_TESTS   := $(wildcard tests/flow/test_*)
ENGINE_SRC   := $(wildcard tests/engine/test_*.c)

obj = $(patsubst %.c,$(BUILD)/%.o,$(1))
CORE_OBJ := $(call obj,$(CORE_SRC))
APP_OBJ  := $(call obj,$(CLI_SRC) $(WIZ_SRC) $(TUI_SRC))
LIB      := $(BUILD)/libboxgate.a
APPLIB   := $(BUILD)/libboxgate-app.a
BIN      := $(BUILD)/boxgate
GUEST    := $(BUILD)/boxgate-guest
UNIT     := $(patsubst tests/%.c,$(BUILD)/tests/%,$(UNIT_SRC))
ENGINE_BIN := $(patsubst tests/%.c,$(BUILD)/tests/%,$(ENGINE_SRC))
ENGINE_TESTS := $(filter-out %.c %.h,$(wildcard tests/engine/test_*)) $(ENGINE_BIN)
SCREEN   := $(patsubst tests/%.c,$(BUILD)/tests/%,$(SCREEN_SRC))
REPLAY   := $(patsubst tests/fuzz/%.c,$(BUILD)/tests/replay/%,$(FUZZ_SRC))
FUZZ     := $(patsubst tests/%.c,$(BUILD)/tests/%,$(FUZZ_SRC))
BENCH    := $(patsubst tests/%.c,$(BUILD)/tests/%,$(BENCH_SRC))
HEADLESS := $(BUILD)/tests/headless
# The program once more, with crash points: only the files that have some are compiled again.
FAULT_OBJ := $(patsubst %.c,$(BUILD)/crash/%.o,$(shell grep -l 'base/fault\.h' core/*/*.c core/*/*/*.c))
FAULTBIN  := $(BUILD)/boxgate-fault

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
MAKEFLAGS += --no-builtin-rules

all: $(if $(wildcard tui/main.c),$(BIN)) $(if $(GUEST_SRC),$(GUEST)) ## build everything

$(LIB): $(CORE_OBJ)
	@echo "  AR      $@"
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(APPLIB): $(APP_OBJ)
	@echo "  AR      $@"
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BIN): $(call obj,tui/main.c) $(APPLIB) $(LIB)
	@echo "  LD      $@"
	$(Q)$(CC) $(BG_CFLAGS) $(BG_LDFLAGS) -o $@ $^ $(CORE_LIBS) $(TUI_LIBS)

$(FAULTBIN): $(call obj,tui/main.c) $(FAULT_OBJ) $(APPLIB) $(LIB)
	@echo "  LD      $@"
	$(Q)$(CC) $(BG_CFLAGS) $(BG_LDFLAGS) -o $@ $^ $(CORE_LIBS) $(TUI_LIBS)

$(BUILD)/crash/%.o: %.c $(BUILD)/.flags
	@mkdir -p $(@D)
	@echo "  CC      $< (crash points)"
	$(Q)$(CC) $(BG_CPPFLAGS) -DBG_FAULT=1 $(BG_CFLAGS) -MMD -MP -c -o $@ $<

# The guest lives in other people's images: static, no sanitizer, no position-independent tricks.
$(GUEST): $(patsubst %.c,$(BUILD)/guest/%.o,$(GUEST_SRC))
	@echo "  LD      $@"
	$(Q)$(CC) -static -s -o $@ $^

$(BUILD)/guest/%.o: %.c $(BUILD)/.flags
	@mkdir -p $(@D)
	@echo "  CC      $< (guest)"
	$(Q)$(CC) -I. -D_GNU_SOURCE -std=c11 $(WARN) -Os -fno-pie $(HARDEN) -ffunction-sections -MMD -MP -c -o $@ $<

$(BUILD)/%.o: %.c $(BUILD)/.flags
	@mkdir -p $(@D)
	@echo "  CC      $<"
	$(Q)$(CC) $(BG_CPPFLAGS) $(BG_CFLAGS) -MMD -MP -c -o $@ $<

# Rewritten only when compiler or flags change, so a changed CFLAGS rebuilds.
$(BUILD)/.flags: FORCE
	@mkdir -p $(@D)
	@echo '$(subst ','\'',$(CC) $(BG_CPPFLAGS) $(BG_CFLAGS))' | cmp -s - $@ || \
	 echo '$(subst ','\'',$(CC) $(BG_CPPFLAGS) $(BG_CFLAGS))' > $@

$(BUILD)/tests/unit/%: $(BUILD)/tests/unit/%.o $(APPLIB) $(LIB)
	@echo "  LD      $@"
	$(Q)$(CC) $(BG_CFLAGS) $(BG_LDFLAGS) -o $@ $^ $(CORE_LIBS) $(TUI_LIBS) -lcmocka

$(BUILD)/tests/engine/%: $(BUILD)/tests/engine/%.o $(APPLIB) $(LIB)
	@echo "  LD      $@"
	$(Q)$(CC) $(BG_CFLAGS) $(BG_LDFLAGS) -o $@ $^ $(CORE_LIBS) $(TUI_LIBS) -lcmocka

$(BUILD)/tests/screen/%: $(BUILD)/tests/screen/%.o $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/screen/lib_*.c)) $(APPLIB) $(LIB)
	@echo "  LD      $@"
	$(Q)$(CC) $(BG_CFLAGS) $(BG_LDFLAGS) -o $@ $^ $(CORE_LIBS) $(TUI_LIBS) -lcmocka -lvterm -lutil

# A fuzz target with a plain main: replays its corpus without a fuzzer.
$(BUILD)/tests/replay/%: $(BUILD)/tests/fuzz/%.o $(BUILD)/tests/fuzz/replay.o $(APPLIB) $(LIB)
	@mkdir -p $(@D)
	@echo "  LD      $@"
	$(Q)$(CC) $(BG_CFLAGS) $(BG_LDFLAGS) -o $@ $^ $(CORE_LIBS) $(TUI_LIBS)

$(BUILD)/tests/fuzz/%: $(BUILD)/tests/fuzz/%.o $(APPLIB) $(LIB)
	@echo "  LD      $@"
	$(Q)$(CC) $(BG_CFLAGS) -fsanitize=fuzzer $(BG_LDFLAGS) -o $@ $^ $(CORE_LIBS) $(TUI_LIBS)

# The JSON front is compared with another reader; nothing else links it.
$(BUILD)/tests/replay/fuzz_json $(BUILD)/tests/fuzz/fuzz_json: TUI_LIBS += -ljansson

$(BUILD)/tests/bench/%: $(BUILD)/tests/bench/%.o $(APPLIB) $(LIB)
	@echo "  LD      $@"
	$(Q)$(CC) $(BG_CFLAGS) $(BG_LDFLAGS) -o $@ $^ $(CORE_LIBS) $(TUI_LIBS) -lutil

# core without curses must link: nothing outside tui/ knows a screen.
$(HEADLESS): $(BUILD)/tests/unit/headless.o $(LIB)
	@echo "  LD      $@"
	$(Q)$(CC) $(BG_CFLAGS) $(BG_LDFLAGS) -o $@ $(BUILD)/tests/unit/headless.o -Wl,--whole-archive $(LIB) -Wl,--no-whole-archive $(CORE_LIBS)

TEST_ENV = BOXGATE_BIN='$(CURDIR)/$(BIN)' BOXGATE_GUEST='$(CURDIR)/$(GUEST)' BOXGATE_BUILD='$(CURDIR)/$(BUILD)' BOXGATE_SRC='$(CURDIR)'
export ASAN_OPTIONS ?= detect_leaks=1:abort_on_error=0:strict_string_checks=1
export LSAN_OPTIONS ?= suppressions=$(CURDIR)/tests/tools/lsan.supp:print_suppressions=0
export UBSAN_OPTIONS ?= print_stacktrace=1
# The private engines that engine tests started end with the run, whatever its result.
ENGINES_STOP = code=$$?; tests/tools/engine stop; exit $$code

test-build: all $(UNIT) $(ENGINE_BIN) $(SCREEN) $(REPLAY) $(HEADLESS) $(FAULTBIN)

test: test-build ## unit, flow, screen, real engines, corpora replay (ends with the summary line)
	@$(TEST_ENV) tests/run.sh $(UNIT) $(HEADLESS) $(REPLAY) $(SCREEN) $(FLOW_TESTS) $(ENGINE_TESTS); $(ENGINES_STOP)

test-unit: test-build ## unit tests, screens and corpora only
	@$(TEST_ENV) tests/run.sh $(UNIT) $(HEADLESS) $(REPLAY) $(SCREEN)

test-flow: all $(FAULTBIN) ## flow tests only (real server, real local sandboxes)
	@$(TEST_ENV) tests/run.sh $(FLOW_TESTS)

test-engine: all $(ENGINE_BIN) ## real dockerd and podman only
	@$(TEST_ENV) tests/run.sh $(ENGINE_TESTS); $(ENGINES_STOP)

setup: ## install what building and testing needs (the other goals do it by themselves)
	@SETUP='$(SETUP)' tests/tools/setup test

check: ## lint, then the tests under ASan and UBSan
	$(Q)+$(MAKE) lint
	$(Q)+$(MAKE) SAN=asan test

check-long: test-build ## the long runs: fuzzing for minutes, units under valgrind, tests/long/
	@$(TEST_ENV) tests/tools/check-long $(UNIT)

format: ## rewrite the C files as .clang-format says
	clang-format -i $(shell find core wizard tui tests -name '*.[ch]' 2>/dev/null)

lint: ## layering, formatting, static analysis, shell scripts
	@tests/tools/lint

fuzz: ## build the fuzzers (clang, libFuzzer) and run each for FUZZ_SECONDS (10)
	$(Q)+$(MAKE) CC=$(CLANG) SAN=fuzz fuzz-run

fuzz-run: $(FUZZ)
	@FUZZ_SECONDS='$(FUZZ_SECONDS)' tests/tools/fuzz $^

bench: all $(BENCH) ## the held numbers as a table
	@$(TEST_ENV) tests/bench/run

demo: all ## the main job, in throw-away folders (console on a terminal, else headless)
	@$(TEST_ENV) tests/demo/demo

coverage: ## tests with gcov, report in build/coverage/
	$(Q)+$(MAKE) COV=1 test
	$(Q)mkdir -p build/coverage && gcovr -r . --object-directory build/cov -e tests/ --html-details build/coverage/index.html --print-summary

# Exact, from make's own variables.
compile_commands.json: FORCE ## for clangd and clang-tidy
	@{ echo '['; sep=; for f in $(CORE_SRC) $(CLI_SRC) $(WIZ_SRC) $(TUI_SRC) tui/main.c $(GUEST_SRC) $(UNIT_SRC) $(ENGINE_SRC) $(SCREEN_SRC) $(FUZZ_SRC); do \
	  printf '%s{"directory":"%s","file":"%s","command":"%s"}\n' "$$sep" "$(CURDIR)" "$$f" \
	  "$(CC) $(subst ",\\\\\\\",$(subst ',,$(BG_CPPFLAGS))) -std=c11 $(WARN) -c $$f"; sep=,; done; echo ']'; } > $@

install: all ## install under $(DESTDIR)$(PREFIX)
	$(INSTALL) -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(LIBEXECDIR) $(DESTDIR)$(DATADIR)/themes
	$(INSTALL) -m 755 $(BIN) $(DESTDIR)$(BINDIR)/boxgate
	$(INSTALL) -m 755 $(GUEST) $(DESTDIR)$(LIBEXECDIR)/boxgate-guest
	$(INSTALL) -m 644 $(wildcard themes/*.yaml) $(DESTDIR)$(DATADIR)/themes/

uninstall: ## remove what install put there (never a user's config or records)
	rm -f $(DESTDIR)$(BINDIR)/boxgate $(DESTDIR)$(LIBEXECDIR)/boxgate-guest
	rm -f $(addprefix $(DESTDIR)$(DATADIR)/themes/,$(notdir $(wildcard themes/*.yaml)))
	-rmdir $(DESTDIR)$(LIBEXECDIR) $(DESTDIR)$(DATADIR)/themes $(DESTDIR)$(DATADIR) 2>/dev/null

clean: ## remove build/ and the test engines' data
	@tests/tools/engine clean
	rm -rf build compile_commands.json

help: ## show this text
	@grep -hE '^[a-z_.-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 24

FORCE:
.PHONY: all test test-build test-unit test-flow test-engine check check-long format lint fuzz fuzz-run bench demo setup coverage install uninstall clean help FORCE
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
