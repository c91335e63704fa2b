# Two commands do everything on a fresh machine with Python >= 3.11 and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test calibrate attack bench lint clean

demo: $(VENV)/.demo  ## soft maps of a photograph taken at dusk: figure, report, maps
	$(BIN)/pmlda demo --out demo-output

# Compiled kernels are shared by the processes of one run, and made anew for every run.
KERNELS := $(abspath $(VENV))/kernels
test: $(VENV)/.test lint  ## style, types, layers and the whole test suite
	rm -rf $(KERNELS)
	NUMBA_CACHE_DIR=$(KERNELS) $(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

calibrate: $(VENV)/.test  ## the statistical tests at full size
	rm -rf $(KERNELS)
	NUMBA_CACHE_DIR=$(KERNELS) PMLDA_FULL_CALIBRATION=1 $(BIN)/python -m pytest -n 2 tests/statistical --durations=0

INPUTS ?= 3000
SEED ?= 0
MOMENTS ?= 50
attack: $(VENV)/.test  ## thousands of damaged inputs, bad situations and kills; wrong ones are kept and listed
	NUMBA_CACHE_DIR=$(KERNELS) $(BIN)/python -m tests.attack all --inputs $(INPUTS) --seed $(SEED) --moments $(MOMENTS)

bench: $(VENV)/.test  ## every benchmark; prints tables for docs/benchmarks.md
	$(BIN)/python -m pip install --quiet -e ".[bench]"
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

$(VENV)/.made:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'pmlda needs Python 3.11 or newer; this is ' + sys.version.split()[0] + '. Try: make PYTHON=python3.12')"
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.demo: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet -e .
	touch $@

$(VENV)/.test: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet -e ".[test]"
	touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) demo-output
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
