# Every target sets up what it needs, from a bare Python 3.10+ with pip, in .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check install -c constraints.txt

.PHONY: help demo test coverage lint types bench results studies clean

help:
	@echo "make demo   see it work, on data made up for the purpose"
	@echo "make test   lint, types, tests and doctests"
	@echo "make coverage  lines of the rooms below the engines that their tests run (a few minutes)"
	@echo "make docs   the documents as a site that needs no network, in site/"
	@echo "make bench  speed and memory beside the peers (about 15 minutes)"
	@echo "make results  every loss on the real data sets, tuned (about two hours)"
	@echo "make studies  every table and figure of the papers, run again (about two hours)"
	@echo "make clean  remove the virtual environment and caches"

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "error: $(PYTHON) is too old; expected Python 3.10 or newer (make PYTHON=/path/to/python)"; exit 2; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/core.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing tautrank into $(VENV) ..."
	@$(PIP) -e .
	@touch $@

$(VENV)/test.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing tautrank, its test tools and the peers into $(VENV) ..."
	@$(PIP) -e '.[test]'
	@touch $@ $(VENV)/core.stamp

$(VENV)/docs.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing tautrank and what builds its documents into $(VENV) ..."
	@$(PIP) -e '.[docs]'
	@touch $@ $(VENV)/core.stamp

demo: $(VENV)/core.stamp
	@$(BIN)/tautrank demo

# worksteal: a file's tests stay together, with what they share, until a worker has nothing left.
test: lint types
	$(BIN)/python -m pytest -n 2 --dist worksteal

# -W: a broken link, a page outside the navigation or a docstring that cannot be read is an error.
docs: $(VENV)/docs.stamp
	@rm -rf site
	$(BIN)/python -m sphinx -W --keep-going -E -q -d $(VENV)/doctrees docs site
	@echo "open site/index.html"

ROOMS := data metrics losses theory simulate
COMPILED := $(addprefix tests/test_,$(addsuffix .py,bad_input letor_reader parsed_cache ranking_data folders_and_tables \
  metrics_bad_input metrics_brute_force metrics_extremes metrics_laws metrics_text significance repeated_runs \
  losses_api own_losses theory_bounds theory_check theory_claims theory_directness theory_em theory_hessian \
  theory_lipschitz theory_smoothing simulate_clicks simulate_noise simulate_web_search))
# The doctests, too; a ListLoss alone means nothing without a compiler.
UNCOMPILED := $(addprefix src/tautrank/,$(ROOMS)) --ignore=src/tautrank/losses/list_loss.py \
  $(addprefix tests/test_,$(addsuffix .py,bad_input losses_pairwise losses_randomness losses_softmax theory_gamma \
  uncompiled_kernels)) \
  $(addprefix tests/test_losses_stochastic.py::test_,bad_options_say_what_to_change bad_data_is_named \
  names_and_defaults a_certain_stop_at_any_rank a_users_selection the_first_documents_are_found_in_order)

coverage: $(VENV)/test.stamp
	rm -rf .coverage
	mkdir .coverage
	$(BIN)/coverage run -m pytest -q $(COMPILED)
	NUMBA_DISABLE_JIT=1 $(BIN)/coverage run -m pytest -q $(UNCOMPILED)
	$(BIN)/coverage combine -q
	@for room in $(ROOMS); do \
	  echo && echo "$$room" && $(BIN)/coverage report --include="*/tautrank/$$room/*" || failed=1; done; exit $$failed

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
	$(BIN)/python -m bench.smoothed_results --write docs/results/smoothed.md
	$(BIN)/python -m bench.theory_results --write docs/results/theory.md

clean:
	rm -rf $(VENV) site .bench .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
