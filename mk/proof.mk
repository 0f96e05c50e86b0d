# What proves the native code, beyond its tests. docs/proof.md says what each shows, and what it does not.
VENV ?= .venv
SECONDS ?= 60
FUZZERS := aead forgeries chunked poly1305 state chacha20
SHELL_PATH := PATH="$(abspath $(VENV)/bin):$$PATH"
PROGRAMS_ONLY := -Dpython=false -Dprograms=true
SANITIZED := -Db_sanitize=address,undefined -Ddebug=true
FUZZ_FLAGS := -std=gnu11 -O1 -g -Wall -Wextra -fsanitize=address,undefined -fno-sanitize-recover=all

.PHONY: prove prove-constant-time prove-stack prove-sanitized prove-memory prove-extension fuzz

prove: prove-constant-time prove-stack prove-sanitized prove-memory prove-extension ## all proofs of the native code but fuzzing

# A build folder: $(call configure,FOLDER,OPTIONS,COMPILER)
define configure
@test -f $1/build.ninja || { rm -rf $1; CC=$3 $(SHELL_PATH) meson setup $1 $(PROGRAMS_ONLY) $2 >/dev/null; }
@$(SHELL_PATH) meson compile -C $1 >/dev/null
endef

prove-constant-time: | $(VENV)/test ## under valgrind: nothing branches on a secret or indexes by one
	$(call configure,build/native,,cc)
	$(call configure,build/watched,-Dc_args=-DSEALANE_WATCH_SECRETS,cc)
	sh tests/native/constant_time.sh build/watched build/native

prove-stack: | $(VENV)/test ## nothing secret is left on the stack
	$(call configure,build/native,,cc)
	cc -std=gnu11 -O2 -Wall -Wextra tests/native/stacktest.c build/native/engine/native/libkernels.a -o build/stacktest -lpthread -Wl,-z,now
	build/stacktest

prove-sanitized: | $(VENV)/test ## the C tests of every kernel with AddressSanitizer and UBSan
	$(call configure,build/sanitized,$(SANITIZED) -Dc_args=-fno-sanitize-recover=all,cc)
	build/sanitized/tests/native/kerneltest

prove-memory: | $(VENV)/test ## under valgrind: the C tests, shortened, touch nothing that is not theirs and lose nothing
	$(call configure,build/native,,cc)
	for kernel in $$(sh tests/native/valgrind_kernels.sh); do \
		valgrind -q --error-exitcode=9 --leak-check=full build/native/tests/native/kerneltest --short --kernel $$kernel || exit 1; done

prove-extension: | $(VENV)/test ## under valgrind: the Python extension
	$(VENV)/bin/python tests/native/watch_extension.py
	! $(VENV)/bin/python tests/native/watch_extension.py --lose

# Each harness runs on every kernel; what it finds lies in build/fuzz/found. SECONDS: of all of them together.
fuzz: | $(VENV)/test ## libFuzzer on each C entry point, SECONDS=60 in all
	$(call configure,build/fuzz,$(SANITIZED) -Db_lundef=false "-Dc_args=-fsanitize=fuzzer-no-link -fno-sanitize-recover=all",clang)
	@mkdir -p build/fuzz/found
	clang $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link -c tests/native/plain.c -o build/fuzz/plain.o
	@set -e; for name in $(FUZZERS); do \
		clang $(FUZZ_FLAGS) -fsanitize=fuzzer tests/native/fuzz/$$name.c build/fuzz/plain.o build/fuzz/engine/native/libkernels.a \
			-o build/fuzz/$$name; \
		mkdir -p build/fuzz/corpus/$$name; \
		echo "== $$name"; \
		build/fuzz/$$name -max_total_time=$$(( ($(SECONDS) + 5) / 6 )) -max_len=512 -len_control=0 -verbosity=0 -print_final_stats=1 \
			-artifact_prefix=build/fuzz/found/$$name- build/fuzz/corpus/$$name; done
