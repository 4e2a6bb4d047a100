# Two commands do everything, set-up included: `make demo` and `make test`.
# They need Linux on x86-64, Python 3.10 to 3.13 with venv, and nothing else: no GPU, no ROCm, no root.
#   make test PYTHON=/path/to/python    takes another interpreter than python3
#   make test JOBS=8                    runs tests in as many processes (default 2)

PYTHON ?= python3
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# Tests start hundreds of processes, which begin sooner with the bytecode of those before.
unexport PYTHONDONTWRITEBYTECODE
# Each process of the tests has one processor: threads of NumPy and PyTorch would wait for each other, busily.
export OPENBLAS_NUM_THREADS := 1
export OMP_NUM_THREADS := 1

.PHONY: demo test full lint unit lit clean

demo: $(INSTALLED)
	$(BIN)/python examples/demo.py

# mypy is one process: lit runs beside it.
test: $(INSTALLED)
	$(MAKE) --jobs 2 --output-sync lint lit
	$(MAKE) unit

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/mypy

# Tests of passes by text: RUN and CHECK lines in test/**/*.mlir.
lit: $(INSTALLED)
	$(BIN)/lit --quiet --workers $(JOBS) test

unit: $(INSTALLED)
	$(BIN)/python -m pytest --numprocesses $(JOBS)

# The whole grids, of which `make test` runs a part: tens of minutes; and an hour of requests drawn from FUZZ_SEED.
full: FUZZ_SEED := $(or $(FUZZ_SEED),$(shell date +%s))
full: $(INSTALLED)
	@echo "seed of the fuzz: $(FUZZ_SEED) (make full FUZZ_SEED=$(FUZZ_SEED) repeats it)"
	FUZZ_SEED=$(FUZZ_SEED) $(BIN)/python -m pytest --numprocesses $(JOBS) -m full

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' || { \
	    echo "error: $(PYTHON) is not Python 3.10 to 3.13; name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; \
	    exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); \
	    echo "error: $(PYTHON) cannot make virtual environments (on Debian its venv module is a package of its own)." >&2; \
	    echo "  Either: apt install python3-venv;  or make $(VENV) yourself with virtualenv or uv, pip included;" >&2; \
	    echo "  or name a Python that has venv: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; \
	    exit 1; }
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[lld,hip,solve,test,dev]'
	@touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
	find test -name Output -prune -exec rm -rf {} +
