# The first target that a person types sets up all that it needs; a second run repeats none of it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ENVIRONMENT := $(VENV)/.installed
META := schemas/meta/tidegate-v1.schema.json
# Hundreds of tests start processes; without bytecode each of them would compile every module again.
unexport PYTHONDONTWRITEBYTECODE
PACKAGES := tidegate contracts gateway spark_jobs schemas benchmarks tests docs .github

.PHONY: help setup demo docs test test-full first-steps check types style fuzz mutation chaos bench bench-smoke dist generate lock clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(ENVIRONMENT) ## Environment in .venv and jars, everything checked against its lock
	@$(BIN)/tidegate jars

demo: $(ENVIRONMENT) ## Enforce two real streams on this machine, and open the page
	@$(BIN)/tidegate demo

docs: $(ENVIRONMENT) ## The documentation as a site, into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "open build/site/index.html, or with search: $(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site"

test: setup ## All tests but the long ones
	TIDEGATE_TESTS=short $(BIN)/pytest -m "not full" $(IN_TWO)

test-full: setup ## All tests
	$(BIN)/pytest $(IN_TWO)
# Tests of the shared Spark session and broker in one process, all others in a second (tests/conftest.py).
IN_TWO := --numprocesses 2 --dist loadgroup

first-steps: setup ## Walk the first two lessons as a reader does; fails if one takes longer than it promises
	$(BIN)/python -m tests.docs.first_steps

check: types style ## Formatter, linter, types, import rules, generated files current

types: $(ENVIRONMENT)
	$(BIN)/mypy

style: $(ENVIRONMENT)
	$(BIN)/ruff format --check $(PACKAGES)
	$(BIN)/ruff check $(PACKAGES)
	$(BIN)/lint-imports
	@$(BIN)/python -m tidegate.contracts.document.metaschema | diff -u $(META) - || { echo "$(META) is not current: run 'make generate'"; exit 1; }
	@$(BIN)/python -m docs.generate --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

fuzz: setup ## Try odd records, contracts and requests for SECONDS_OF_FUZZING (600); the seed is printed
	$(BIN)/python -X faulthandler -m tests.fuzz.run --seconds $(or $(SECONDS_OF_FUZZING),600)

mutation: setup ## Change the protocol one place at a time; tests must notice (with Java for SECONDS_OF_MUTATION, 0)
	$(BIN)/python -m tests.mutation.run --jvm-seconds $(or $(SECONDS_OF_MUTATION),0) $(if $(SEED),--seed $(SEED))

chaos: setup ## Disturb the job at random for SECONDS_OF_CHAOS (600) on SINK (iceberg), then look at every record
	$(BIN)/python -m tests.chaos.run --seconds $(or $(SECONDS_OF_CHAOS),600) --sink $(or $(SINK),iceberg) $(if $(SEED),--seed $(SEED))

bench: setup ## Every benchmark on this machine; writes benchmarks/latest.json
	$(BIN)/python -m benchmarks.run

bench-smoke: setup ## The same on little data: shows that they work, measures nothing
	$(BIN)/python -m benchmarks.run --smoke --out $(or $(OUT),/dev/null)

dist: $(ENVIRONMENT) ## Wheel and sdist in dist/
	@$(BIN)/python -m hatchling build -d dist

generate: $(ENVIRONMENT) ## Write the generated files: meta-schema, reference pages
	$(BIN)/python -m tidegate.contracts.document.metaschema > $(META).new && mv $(META).new $(META)
	$(BIN)/python -m docs.generate

lock: $(ENVIRONMENT) ## Resolve the dependencies again
	$(BIN)/uv pip compile $(LOCK_OPTIONS) pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile $(LOCK_OPTIONS) --group dev pyproject.toml -c requirements.lock -o requirements-dev.lock
LOCK_OPTIONS := --quiet --all-extras --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header

clean: ## Remove the environment and the local state
	rm -rf $(VENV) .tidegate

$(ENVIRONMENT): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "tidegate needs Python 3.11 to 3.13, $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 2; }
	@echo "setup      environment in $(VENV) (a minute or two, once)"
	@$(PYTHON) -m venv $(VENV)
	@# An older pip remarks how two packages without wheels are built; there is nothing that anybody could do about it.
	@PYTHONWARNINGS=ignore $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-dev.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
