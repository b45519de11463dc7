# Every target makes .venv and installs by itself when needed; nothing has to be activated.
#   make demo   make test   make test-slow   make test-peers   make lint   make format   make bench   make docs   make wheel   make wheel-test   make wheel-check   make clean
# Another interpreter: make PYTHON=python3.12 test      More for pytest: make test ARGS="-k uai"

PYTHON ?= python3
# One more than there are cores: many tests wait for a process of their own.
WORKERS ?= $(shell $(PYTHON) -c "import os; print(min(8, 1 + (os.cpu_count() or 1)))")
ARGS ?=

VENV := .venv
WHEEL_VENV := .venv-wheel
PEERS_VENV := .venv-peers/tests
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.installed-demo
DOCS_STAMP := $(VENV)/.installed-docs
PEERS_STAMP := $(PEERS_VENV)/.installed
QUIET := --quiet --disable-pip-version-check
# Files of bytecode are made when a module is first imported, not by pip.
export PIP_COMPILE := 0
# uv installs several times as fast as pip, but does not read pip's settings. Where these say which packages to take, such
# as a torch without CUDA, pip installs them.
UV := $(shell command -v uv 2>/dev/null)
PIP_CHOOSES = $(shell $(PYTHON) -m pip config list 2>/dev/null | grep -E "(index-url|find-links|no-index|constraint)='[^']")
INSTALL = $(if $(and $(UV),$(if $(PIP_CHOOSES),,yes)),$(UV) pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip install $(QUIET))
BENCHMARKS := $(filter-out _% compare,$(patsubst benchmarks/%.py,%,$(wildcard benchmarks/*.py)))
# Bytecode is kept in build/, even if the environment switches it off: every test process imports the same modules.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/build/bytecode
# One thread per test process: the processes already fill the cores.
PYTEST := OMP_NUM_THREADS=1 MPLBACKEND=agg $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help install install-docs demo test test-slow test-peers lint format bench docs wheel wheel-test wheel-check clean

help:
	@sed -n '2,3s/^# *//p' Makefile

install: $(STAMP)

# What every target needs: a Python of a supported version in $(VENV).
define new_venv
	@$(PYTHON) -c 'import sys; sys.exit(None if (3, 11) <= sys.version_info[:2] <= (3, 13) else "equifactor needs Python 3.11 to 3.13, found " + sys.version.split()[0] + ": try make PYTHON=python3.12")'
	@echo "Installing into $(VENV): up to a minute, longer where packages must be downloaded" >&2
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
endef

$(STAMP): pyproject.toml constraints.txt
	$(new_venv)
	@$(INSTALL) -e ".[dev]" -c constraints.txt
	@touch $@ $(DEMO_STAMP)

# The demo needs neither tests nor documentation, clusters or tables of pandas.
$(DEMO_STAMP): pyproject.toml constraints.txt
	$(new_venv)
	@$(INSTALL) -e ".[learned,plot]" -c constraints.txt
	@touch $@

demo: $(DEMO_STAMP)
	@$(BIN)/equifactor demo -o demo-output

test: $(STAMP)
	@$(PYTEST) -m "not slow" $(ARGS)

test-slow: $(STAMP)
	@$(PYTEST) -m slow $(ARGS)

# Tests against other libraries, in an environment of its own that has them: pgmpy, pyAgrum, PyTorch Geometric, pyganak,
# pytorch-crf, PyMatching and toulbar2. Without them these tests are skipped. One test reads circuits from the folder in
# EQUIFACTOR_DATA_QEC, and is skipped without it.
$(PEERS_STAMP): pyproject.toml constraints.txt
	@echo "Installing other libraries into $(PEERS_VENV): some minutes, and about 2 GB" >&2
	@$(PEERS_VENV)/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(PEERS_VENV)
	@$(PEERS_VENV)/bin/python -m pip install $(QUIET) -e ".[dev,peers,toulbar2]" -c constraints.txt
	@touch $@

test-peers: $(PEERS_STAMP)
	@OMP_NUM_THREADS=1 MPLBACKEND=agg $(PEERS_VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal -m peers $(ARGS)

lint: $(STAMP)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports --no-cache --no-logo
	@$(BIN)/mypy

format: $(STAMP)
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(STAMP)
	@for name in $(BENCHMARKS); do $(BIN)/python -m benchmarks.$$name || exit 1; done

$(DOCS_STAMP): pyproject.toml constraints.txt
	$(new_venv)
	@$(INSTALL) -e ".[dev,docs]" -c constraints.txt
	@touch $(STAMP) $(DEMO_STAMP) $@

install-docs: $(DOCS_STAMP)

# Warnings are errors; site/index.html can be opened from disk.
docs: $(DOCS_STAMP)
	@OMP_NUM_THREADS=1 MPLBACKEND=agg $(BIN)/python -m tools.website

# A wheel with the compiled kernels of all solvers, for this platform and this version of Python: some minutes.
wheel:
	@$(PYTHON) -m pip wheel $(QUIET) --no-deps --wheel-dir dist .
	@ls -l dist/*.whl

# The wheel is what users get: it is built, installed into an environment of its own and used outside of the repository,
# first without torch, then with it. `wheel-check` is quick: its wheel has the kernels of one solver, and it borrows
# torch from $(VENV).
wheel-test:
	@rm -rf build/lib build/bdist.* dist $(WHEEL_VENV)
	@$(PYTHON) -m venv $(WHEEL_VENV)
	@$(WHEEL_VENV)/bin/python -m pip wheel $(QUIET) --no-deps --wheel-dir dist .
	@$(WHEEL_VENV)/bin/python -m pip install $(QUIET) dist/*.whl -c constraints.txt
	@.ci/try-installed $(abspath $(WHEEL_VENV))/bin full
	@wheel=$$(echo dist/*.whl) && $(WHEEL_VENV)/bin/python -m pip install $(QUIET) "$$wheel[learned]" -c constraints.txt
	@.ci/try-installed $(abspath $(WHEEL_VENV))/bin learned

wheel-check: $(STAMP)
	@rm -rf build/lib build/bdist.* dist $(WHEEL_VENV)
	@$(PYTHON) -m venv --without-pip $(WHEEL_VENV)
	@EQUIFACTOR_BUILD_KERNELS=exact $(BIN)/python -m pip wheel $(QUIET) --no-deps --wheel-dir dist .
	@$(BIN)/python -m pip --python $(WHEEL_VENV)/bin/python install $(QUIET) dist/*.whl -c constraints.txt
	@.ci/try-installed $(abspath $(WHEEL_VENV))/bin quick
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > $$(echo $(WHEEL_VENV)/lib/python3.*/site-packages)/learned.pth
	@.ci/try-installed $(abspath $(WHEEL_VENV))/bin learned

clean:
	rm -rf $(VENV) $(WHEEL_VENV) .venv-peers .cache build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis demo-output
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
