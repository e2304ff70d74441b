# The knobs: PYTHON makes the virtual environment; TORCH goes in before the project, so that a CPU build satisfies
# its range (users of PyTorch's own index: TORCH="torch --index-url <the CPU index>").
PYTHON ?= python3
VENV   ?= .venv
TORCH  ?= torch==2.13.0
PYTEST_ARGS ?= -n auto --dist worksteal
BENCH_ARGS  ?=
BIN    := $(VENV)/bin

.PHONY: help setup demo test lint format bench clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/.ready  ## make the virtual environment and install everything into it
$(VENV)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "treering needs Python 3.11 or newer: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet --editable . --group dev --group bench
	@touch $@

demo: setup  ## ingest a day of an LLM service and tell the story of its incidents
	$(BIN)/treering demo

test: setup  ## run the tests
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: setup  ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup  ## let ruff rewrite the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup  ## measure against DuckDB, numpy and faiss; writes docs/benchmarks.md
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

clean:  ## remove everything that was built
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
