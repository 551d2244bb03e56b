# The first target that a person types sets up all that it needs; a second run repeats none of it.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help setup demo test test-full check bench generate lock clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.installed: requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "tidegate needs Python 3.11 to 3.13; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-deps --require-hashes -r requirements-dev.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

lock: ## Resolve the dependencies anew (needs uv from the environment)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --group dev pyproject.toml -c requirements.lock -o requirements-dev.lock

setup: $(VENV)/.installed ## Python environment in .venv and jars, checked against their locks

check: $(VENV)/.installed ## ruff, mypy strict, import rules, generated files current
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: setup ## All tests but the long ones
	$(BIN)/pytest -m "not full"

test-full: setup ## All tests
	$(BIN)/pytest

clean: ## Remove .venv and the local state
	rm -rf $(VENV) .tidegate
