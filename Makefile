PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

# Bytecode is kept even where the shell says not to: without it every process that runs tests compiles
# all of them anew, and each process that a test starts all of the package.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: test quick lowest lint torch demo docs dist bench bench-full fuzz clean

# One process per core, each with one thread for linear algebra: more would only wait for each other.
test: $(VENV)/.dev
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

# The tests of what changed since main, and a core that any change may break; in under a minute.
quick: $(VENV)/.dev
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" \
	$$($(BIN)/python .ci/quick.py) $(ARGS)

# The same with the oldest packages that are allowed, in an environment of its own.
lowest: $(VENV)-lowest/.test
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_CACHE_DIR=$(VENV)-lowest/numba \
	$(VENV)-lowest/bin/python -m pytest -n auto --dist worksteal $(ARGS)

lint: $(VENV)/.dev
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { $(BIN)/ruff format --check .; exit 1; }
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python .ci/import_rules.py

# What kernels on a device need; its tests skip without it.
torch: $(VENV)/.dev
	@$(PIP) torch==2.13.0

demo: $(VENV)/.core
	@$(BIN)/kernelweave demo $(ARGS)

# The site, examples run and warnings are errors: open docs/_build/index.html.
docs: $(VENV)/.dev
	@MPLBACKEND=agg $(BIN)/python -m sphinx -b html -W --keep-going --quiet docs docs/_build $(ARGS)

# What is published: an sdist and a wheel that the package index will take.
dist: $(VENV)/.dev
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist . >/dev/null
	@$(BIN)/python -m twine check --strict dist/*

# Both go on where they were interrupted; ARGS="--fresh" starts over, ARGS="NAME ..." picks some.
bench: $(VENV)/.dev
	@$(BIN)/python -m benchmarks.run --quick $(ARGS)

bench-full: $(VENV)/.dev
	@$(BIN)/python -m benchmarks.run $(ARGS)

# Random fits, judged in exact arithmetic. A finding names its seed and number, to run it again.
fuzz: $(VENV)/.dev
	@$(BIN)/python -m benchmarks.harness.fuzz --minutes 20 $(ARGS)

clean:
	@rm -rf $(VENV) $(VENV)-lowest build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@rm -rf docs/_build docs/gallery docs/api docs/sg_execution_times.rst
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "kernelweave needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# The order-only dependency matters: the interpreter's own date says nothing about what is installed.
$(VENV)/.core: pyproject.toml | $(BIN)/python
	@$(PIP) -e ".[cli]"
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@$(PIP) -e ".[dev]"
	@touch $(VENV)/.core $@

$(VENV)-lowest/.test: pyproject.toml .ci/lowest.txt
	@$(PYTHON) -m venv $(VENV)-lowest
	@$(VENV)-lowest/bin/python -m pip --disable-pip-version-check install --quiet -e ".[test]" -c .ci/lowest.txt
	@touch $@
