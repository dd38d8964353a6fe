# Winnow: everything installs into .venv, from PyPI alone. `make help` lists what there is.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := demo-out
SIDE_BY_SIDE := -n auto --maxprocesses 4 --dist loadfile

.PHONY: help setup demo test test-full check bench clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.installed: pyproject.toml
	@echo "== setting up $(VENV) (Python packages from PyPI)"
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Winnow needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

setup: $(VENV)/.installed  ## make .venv with Winnow and its tests' tools

demo: setup  ## generate a small web, replay it on the embedded store, show what was found
	$(BIN)/python -m bench.demo $(DEMO)

test: setup  ## all tests that need only Python, make and PyPI
	@echo "== tests on the embedded Valkey, alone and as a Cluster"
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m 'not debian'

test-full: setup  ## the tests that need Debian packages (installed where apt-get can)
	@command -v redis-server >/dev/null || { echo "== installing redis-server"; \
	  apt-get update -qq && apt-get install -y -qq redis-server || true; }
	@echo "== tests on Debian's Redis"
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m debian

check: setup  ## format, lint, types, tests
	$(BIN)/ruff format .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m 'not debian'

bench: setup  ## speed and accuracy, as ratios against the floor
	$(BIN)/python -m bench

clean:  ## remove what make made
	rm -rf $(VENV) $(DEMO) build dist *.egg-info
