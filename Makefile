# Every target installs what it needs in .venv, from a bare Python 3.10+ with pip.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check install -c constraints.txt

.PHONY: help demo test coverage docs lint types bench results studies dist clean

help:
	@echo "make demo      see it work, on synthetic data"
	@echo "make test      lint, types, tests and doctests"
	@echo "make coverage  line coverage of each room by its own tests (make coverage-losses for one room)"
	@echo "make docs      build the documentation in site/; it needs no network"
	@echo "make bench     speed and memory compared with other tools (about 45 minutes)"
	@echo "make results   every loss and committees on real data sets (about three hours; it can be stopped and run again)"
	@echo "make studies   every table and figure of the papers, repeated (about two hours; likewise)"
	@echo "make dist      build and check what is uploaded to PyPI, in dist/"
	@echo "make clean     remove the virtual environment and caches"

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "error: $(PYTHON) is too old; expected Python 3.10 or newer (make PYTHON=/path/to/python)"; exit 2; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/core.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing tautrank into $(VENV) ..."
	@$(PIP) -e .
	@touch $@

$(VENV)/test.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing tautrank, its test tools and the tools it is compared with into $(VENV) ..."
	@$(PIP) -e '.[test]'
	@touch $@ $(VENV)/core.stamp

$(VENV)/docs.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing tautrank and the documentation tools into $(VENV) ..."
	@$(PIP) -e '.[docs]'
	@touch $@ $(VENV)/core.stamp

demo: $(VENV)/core.stamp
	@$(BIN)/tautrank demo

# worksteal: the tests of a file stay together and share fixtures, until a worker has nothing left to do.
# The last lines say whether the tests ran that need a browser or the real data sets.
test: lint types
	$(BIN)/python -m pytest -n 2 --dist worksteal

# -W: a broken link, a page outside the navigation or a docstring that cannot be read is an error.
docs: $(VENV)/docs.stamp
	@rm -rf site
	$(BIN)/python -m sphinx -W --keep-going -E -q -d $(VENV)/doctrees docs site
	@echo "open site/index.html"

# Each room by its own tests and doctests, alone: make coverage-losses. Kernels are run once more without the compiler, on
# the tests marked `uncompiled`: coverage does not see inside compiled code.
ROOMS := $(patsubst src/tautrank/%/__init__.py,%,$(wildcard src/tautrank/*/__init__.py))

coverage: $(addprefix coverage-,$(ROOMS))

coverage-%: $(VENV)/test.stamp
	@echo "coverage of $*" && rm -rf .coverage/$* && mkdir -p .coverage/$*
	COVERAGE_FILE=.coverage/$*/data $(BIN)/coverage run -m pytest -q tests/$* src/tautrank/$*
	@if grep -rqw --include='*.py' njit src/tautrank/$*; then NUMBA_DISABLE_JIT=1 COVERAGE_FILE=.coverage/$*/data \
	  $(BIN)/coverage run -m pytest -q -m uncompiled tests/$* src/tautrank/$*; fi
	@cd .coverage/$* && COVERAGE_FILE=data ../../$(BIN)/coverage combine -q --rcfile=../../pyproject.toml
	@COVERAGE_FILE=.coverage/$*/data $(BIN)/coverage report --include='*/tautrank/$*/*'

lint: $(VENV)/test.stamp
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .

types: $(VENV)/test.stamp
	$(BIN)/mypy

bench: $(VENV)/test.stamp
	$(BIN)/python -m bench --write docs/results/speed.md

studies: $(VENV)/test.stamp
	$(BIN)/python -m bench.study_results --write docs/results/studies.md

results: $(VENV)/test.stamp
	$(BIN)/python -m bench.results --write docs/results/losses.md
	$(BIN)/python -m bench.committee_results --write docs/results/committees.md
	$(BIN)/python -m bench.engine_results --repeats 3 --write docs/results/engines.md
	$(BIN)/python -m bench.smoothed_results --write docs/results/smoothed.md
	$(BIN)/python -m bench.early_stopping_results --write docs/results/early-stopping.md
	$(BIN)/python -m bench.theory_results --write docs/results/theory.md
	$(BIN)/python -m bench.click_results --write docs/results/clicks.md
	$(BIN)/python -m bench.significance_results --write docs/results/significance.md

# The date of the last commit in the archives: the same tree gives the same bytes.
dist: $(VENV)/core.stamp
	@$(PIP) build twine
	@rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*

clean:
	rm -rf $(VENV) site dist .bench .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
