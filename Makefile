SHELL := bash
.DEFAULT_GOAL := help
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
OLDEST := .venv-oldest
SOURCES := splitlib connectors conformance tests benchmarks

.PHONY: help check test test-oldest interop conformance bench demo clean

help:  ## show this help
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/.ready: setup.cfg pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $@

$(OLDEST)/bin/.ready: setup.cfg pyproject.toml
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --upgrade pip
	$(OLDEST)/bin/python -m pip install --quiet -e '.[dev]' 'pyspark[connect]==4.0.0'
	touch $@

check: $(BIN)/.ready  ## lint and type-check
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy $(SOURCES)

test: $(BIN)/.ready test-oldest  ## all tests: newest PySpark in full, oldest PySpark on what touches Spark
	$(BIN)/pytest

# what reads through Spark; the metastore, the demo and the benchmarks do not depend on its version
test-oldest: $(OLDEST)/bin/.ready
	$(OLDEST)/bin/pytest tests/integration -m spark $(addprefix --ignore=tests/integration/test_,\
		hive_metastore.py demo.py benchmarks.py)

conformance: $(BIN)/.ready  ## the connector kit on the connectors of this repository
	$(BIN)/pytest tests/conformance

demo: $(BIN)/.ready  ## TPC-DS in a local metastore: Spark without and with DPP, and splitlib
	$(BIN)/splitlib demo

bench: $(BIN)/.ready  ## side by side against Spark; writes JSON and PNG to bench-results/
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

clean:  ## remove what the other targets made
	rm -rf $(VENV) $(OLDEST) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache bench-results
