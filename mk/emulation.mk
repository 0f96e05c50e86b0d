# Cross-built wheels and programs, and everything that runs under emulation. docs/emulation.md tells of each.
# Wants VENV, the folder of a virtual environment with the project's build and test requirements.

VENV ?= .venv
CROSS_ARCHITECTURES := x86_64 aarch64 s390x loongarch64

.PHONY: wheels kernelbench count test-emulated emulation-tools

emulation-tools: ## qemu, compilers and root folders of other architectures, into the cache
	$(VENV)/bin/python deploy/cross/provision.py all

wheels: ## dist/: the wheel of every architecture, without emulation
	$(VENV)/bin/python deploy/cross/wheels.py

kernelbench: $(CROSS_ARCHITECTURES:%=kernelbench-%) ## build/: static kernelbench-ARCH and kerneltest-ARCH

kernelbench-%:
	$(VENV)/bin/python deploy/cross/provision.py zig >/dev/null
	@test -f build/static-$*/build.ninja || PATH="$(abspath $(VENV)/bin):$$PATH" $(VENV)/bin/meson setup build/static-$* --cross-file deploy/cross/$*-static.ini \
		-Dpython=false -Dprograms=true -Ddefault_library=static
	PATH="$(abspath $(VENV)/bin):$$PATH" $(VENV)/bin/meson compile -C build/static-$*
	@cp build/static-$*/tests/native/kernelbench build/kernelbench-$*
	@cp build/static-$*/tests/native/kerneltest build/kerneltest-$*

count: kernelbench ## instructions per byte of every kernel
	$(VENV)/bin/python tests/emulated/count.py

test-emulated: wheels kernelbench ## the C tests, the engine's tests and the service on other architectures
	$(VENV)/bin/python deploy/cross/provision.py qemu root-loong64 root-s390x root-arm64
	$(VENV)/bin/python -m pytest tests/emulated -m emulated -n 2 --dist worksteal
