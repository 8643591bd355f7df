# Stoker: `make up` runs it, `make test` tests it. Everything they need they set up themselves;
# a second run does nothing. PYTHON=... chooses the interpreter (3.11 or newer).

PYTHON ?= $(firstword $(foreach p,/usr/bin/python3 python3,$(shell $(p) -c 'import sys; print("$(p)" if sys.version_info >= (3,11) else "")' 2>/dev/null)))
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q install -c constraints.txt

.PHONY: help install dev up test check bench soak docs clean

help:                      ## this list
	@grep -hE '^[a-z]+: .*##|^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

install: $(VENV)/.run      ## set up what Stoker needs to run

dev: $(VENV)/.dev          ## set up what tests and checks need as well

up: $(VENV)/.run           ## run Stoker here, for yourself (simulated GPUs if there are none)
	@exec $(BIN)/stoker up --one-person $$($(BIN)/python -m stoker.runner gpus | grep -q . || echo --simulate-gpus 4) $(ARGS)

test: $(VENV)/.dev         ## every test, in at most 15 minutes
	@$(BIN)/python tools/parts.py test $(PART)

check: $(VENV)/.dev        ## format, lint, types, import contracts
	@$(BIN)/python tools/parts.py check

bench: $(VENV)/.dev        ## the figures of the design, each beside its yardstick
	@$(BIN)/python -m bench $(FIGURE)

soak: $(VENV)/.dev         ## large counts: PART=crash|takeover|fuzz|property|... runs one
	@$(BIN)/python tools/parts.py soak $(PART)

docs: $(VENV)/.dev         ## generate the reference pages
	@$(BIN)/python tools/docs.py

clean:                     ## remove what was set up here (never any state)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/.run: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Stoker needs Python 3.11 or newer: install python3, or say make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || ./tools/apt python3-venv
	@echo "Setting up Stoker in $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.run tools/packages.txt
	@./tools/apt $$(grep -v '^#' tools/packages.txt)
	@echo "Setting up tests and checks ..."
	@$(PIP) -e '.[dev]'
	@touch $@
