# Every target sets up what it needs from a bare clone. `make help` lists them.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
ARGS ?=
# more than the number of cores: many tests wait for leases, browsers and servers
JOBS ?= 4
# package:program pairs that the tests use; installed if this user may do so
SYSTEM_PACKAGES ?= redis-server:redis-server chromium:chromium pgbouncer:pgbouncer faketime:faketime

# The tests start hundreds of processes, each of which would compile the sources again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help run test test-all lint size bench soak docs charts dist screenshots system-packages corpus clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

run: $(VENV)/.ready-run ## the tour: see it work, on SQLite and loopback alone (ARGS="--for 20s")
	@$(BIN)/python -m examples.tour $(ARGS)

# Lint runs in parallel with the tests, because most of it uses one core; its output is shown at the end. The tests are
# collected once before they are distributed, so that all processes find the bytecode.
test: system-packages $(VENV)/.ready-test ## all tests, lint, types and layer contracts
	@tools/system-packages $(SYSTEM_PACKAGES)
	@output=$$(mktemp); passed=0; $(MAKE) --no-print-directory lint >"$$output" 2>&1 & linting=$$!; \
	$(BIN)/python -m pytest --collect-only -q >/dev/null || true; \
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(ARGS) || passed=$$?; \
	wait $$linting || passed=1; cat "$$output"; rm -f "$$output"; exit $$passed

test-all: test ## the tests on every Python this machine has, 3.11 to 3.13
	@tools/test-all

lint: $(VENV)/.ready-test ## ruff, mypy, import contracts, generated docs up to date, workflow files, size
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet . || { echo "run: $(BIN)/ruff format ."; exit 1; }
	@$(BIN)/mypy
	@$(BIN)/basedpyright --pythonpath $(BIN)/python | tail -n 1
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python tools/reference.py --check
	@$(BIN)/check-jsonschema -q --builtin-schema vendor.github-workflows .github/workflows/*.yml
	@$(BIN)/check-jsonschema -q --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/feature.yml
	@figures=$$($(BIN)/python tools/size.py) || { echo "$$figures"; exit 1; }

size: $(VENV)/.ready-test ## the size of the code; fails if a limit is exceeded
	@$(BIN)/python tools/size.py

bench: $(VENV)/.ready-bench ## speed, as ratios against peers in one run
	@$(BIN)/python -m benchmarks $(ARGS)

soak: $(VENV)/.ready-test ## ten minutes of load, kills, restarts and full disks on both databases, then long fuzzing (ARGS="--minutes 2")
	@$(BIN)/python -m tools.soak $(ARGS)
	@OUTLAST_SOAK=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup --timeout 900 tests/crash tests/integration
	@HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest -n $(JOBS) --timeout 900 tests/property tests/fuzz

docs: $(VENV)/.ready-test ## the reference from the code, the site in build/docs, and how many words the pages have
	@$(BIN)/python tools/reference.py
	@$(BIN)/python -m sphinx -W --keep-going -n -q -d build/doctrees docs build/docs
	@echo "the site is in build/docs/index.html"
	@$(BIN)/python tools/words.py

charts: $(VENV)/.ready-test ## the simulated charts of the documentation, in docs/images
	@$(BIN)/python tools/charts.py

dist: $(VENV)/.ready-test ## sdist and wheel in dist/
	@rm -rf dist
	@$(BIN)/python -m hatchling build

screenshots: $(VENV)/.ready-test ## every page of the dashboard as a picture (ARGS="build/screenshots")
	@$(BIN)/python tools/screenshots.py $(ARGS)

# Runs in the background, because it waits for the network and the disk; `test` waits for its end before it starts pytest.
system-packages:
	@tools/system-packages $(SYSTEM_PACKAGES) </dev/null >/dev/null 2>&1 &

clean: ## remove everything that the other targets created
	@rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis build dist

# One stamp file per set of packages; a change of the pins or of the project file installs again. The packages of the tests
# and of lint are installed by one call. Only a tenth of their modules is ever imported, so they are compiled on import.
INSTALL_test := --no-compile --group lint
# The stamp has the name of the project: an environment from before the rename contains the old distribution, whose pytest
# plugin can no longer be loaded, so the environment is created again.
$(VENV)/.outlast:
	@command -v $(PYTHON) >/dev/null || { echo "Outlast needs Python 3.11 or later; $(PYTHON) was not found. Set PYTHON=…"; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/.ready-run: $(VENV)/.outlast pyproject.toml constraints.txt
	@echo "setting up $(VENV) (once)"
	@$(PIP) install -c constraints.txt -e '.[web]'
	@touch $@

$(VENV)/.ready-%: $(VENV)/.outlast pyproject.toml constraints.txt
	@echo "installing what '$*' needs into $(VENV) (once)"
	@$(PIP) install -c constraints.txt -e '.[cli]' $(INSTALL_$*) --group $*
	@touch $@
