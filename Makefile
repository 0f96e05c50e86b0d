# make run: the service on its embedded default. make test: every test that needs no other machine. make help: all targets.
VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= python3
# Files of tests share servers, so each stays in one process.
PYTEST ?= -n 2 --dist loadfile
SOURCES := pyproject.toml meson.build meson.options $(wildcard engine/native/meson.build tests/native/meson.build)

.DEFAULT_GOAL := help
.PHONY: help run test test-native lint types check clean

help: ## this list
	@sed -n 's/^\([a-z][a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | sort | awk -F'\t' '{printf "%-18s %s\n", $$1, $$2}'

run: $(VENV)/service ## set up, and start the service for development
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/sealane serve --dev

test: $(VENV)/test ## set up, and run every test that needs nothing else
	$(MAKE) --no-print-directory test-native
	$(BIN)/python -m pytest $(PYTEST)

test-native: $(VENV)/test build/native/build.ninja ## the C tests of this machine's kernels
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/meson test -C build/native --print-errorlogs

build/native/build.ninja: | $(VENV)/test
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/meson setup build/native -Dpython=false -Dprograms=true

lint: $(VENV)/test ## ruff
	$(BIN)/ruff check . && $(BIN)/ruff format --check engine service tests

types: $(VENV)/test ## mypy --strict
	$(BIN)/mypy

check: lint types test ## what must hold before a commit

clean: ## all that was built, but not the virtual environment
	rm -rf build dist

# The environments are stamps: what is installed follows the files that say so.
$(VENV)/build: mk/setup.sh
	PYTHON="$(PYTHON)" sh mk/setup.sh "$(VENV)"
	@touch $@

$(VENV)/service: $(VENV)/build $(SOURCES)
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pip install -q --no-build-isolation -e .
	@touch $@

$(VENV)/test: $(VENV)/build $(SOURCES)
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pip install -q --no-build-isolation -e '.[test]'
	@touch $@ $(VENV)/service

include mk/*.mk
emulation-tools wheels count test-emulated $(CROSS_ARCHITECTURES:%=kernelbench-%): | $(VENV)/test
