# Every target builds the environment it needs; a second run starts at once.
# `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

BIN := .venv/bin
READY := .venv/.ready
# The first interpreter that runs and is new enough. Looked up only by rules that need it.
PYTHON ?= $(shell for p in python3.11 python3 python3.13 python3.12; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)
# Many tests wait for a disk, a server or a JVM, so there is one process more than processors. Tests of
# one group share a process, and with it what takes long to start.
PYTEST_ARGS ?= -n $(shell $(BIN)/python -c "import os; print(len(os.sched_getaffinity(0)) + 1)") --dist loadgroup
# Compiled modules are kept, whatever the shell says: tests start hundreds of processes that import them.
export PYTHONDONTWRITEBYTECODE :=
CHECKED := $(wildcard src tests tools examples bench)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(READY): requirements/dev.lock pyproject.toml tools/bootstrap.py
	@if [ -z "$(PYTHON)" ]; then \
		echo "no Python 3.11 or newer found on PATH; try: make PYTHON=/path/to/python3.11" >&2; exit 1; fi
	@"$(PYTHON)" tools/bootstrap.py

.PHONY: venv
venv: $(READY) ## Build the environment in .venv

.PHONY: demo
demo: $(READY) ## Walk through a first graph
	@$(BIN)/python examples/demo.py

.PHONY: test
test: $(READY) ## Run the whole test suite (PYTEST_ARGS="-k name" narrows it)
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

.PHONY: test-deep
test-deep: $(READY) ## Run the property tests much longer, with fresh seeds
	@$(BIN)/python -m pytest $(PYTEST_ARGS) --hypothesis-profile=deep --timeout=3600

.PHONY: faults
faults: $(READY) ## Break every storage call of every write, and clusters of Spark; race (takes minutes)
	@$(BIN)/python -m pytest $(PYTEST_ARGS) -m "deep or not deep" --timeout=3600 \
		tests/faults tests/spark tests/concurrency tests/server tests/conformance/test_races.py \
		tests/unit/graph/test_large_text.py tests/unit/dataplane/load/test_leftovers.py \
		tests/property/test_merge_model.py tests/property/test_merge_table.py \
		tests/property/test_feed_model.py tests/property/test_transaction_model.py \
		tests/property/test_schema_model.py \
		tests/stateful/test_years_machine.py tests/stateful/test_versioning_machine.py

.PHONY: coverage
coverage: $(READY) ## Run the whole test suite and report which lines it reaches
	@$(BIN)/python -m pytest $(PYTEST_ARGS) --timeout=3600 --cov --cov-report=term:skip-covered --cov-report=json:.coverage.json
	@$(BIN)/python -m tools.coverage .coverage.json

.PHONY: hooks
hooks: $(READY) ## Install the checks that run before each commit
	@$(BIN)/pre-commit install

.PHONY: check
check: $(READY) ## Formatting, lint, types and import direction
	@$(BIN)/ruff format --check $(CHECKED)
	@$(BIN)/ruff check $(CHECKED)
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

.PHONY: fmt
fmt: $(READY) ## Format the code and apply safe lint fixes
	@$(BIN)/ruff check --fix-only $(CHECKED)
	@$(BIN)/ruff format $(CHECKED)

.PHONY: bench
bench: $(READY) ## Measure, and compare with the targets
	@$(BIN)/python -m bench

.PHONY: corpus
corpus: $(READY) ## Regenerate the expected answers of the language corpus; review the diff
	@$(BIN)/python -m tests.corpus.regenerate

.PHONY: docs
docs: $(READY) ## Rewrite the pages that are made from the code
	@$(BIN)/python -m tools.diagnostics
	@$(BIN)/python -m tools.commands

.PHONY: lock
lock: ## Resolve the dependencies into requirements/*.lock (UPGRADE=--upgrade for newer versions)
	@"$(PYTHON)" tools/lock.py $(UPGRADE)

.PHONY: clean
clean: ## Remove the environment and every cache
	@rm -rf .venv .venv.lock .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage* dist build .bench
	@find src tests tools bench examples -name __pycache__ -type d -prune -exec rm -rf {} +
