# Two commands on a fresh machine with python3 (3.11 or newer) and make:
#   make up     set everything up and run the embedded cluster   (ARGS="--nodes 20" passes flags)
#   make test   set everything up and run the tests
PYTHON ?= python3
BIN := .venv/bin
export HOLDFAST_VECTORS ?= $(abspath ../shared/vectors)
# Two more than there are cores: many tests wait for processes rather than compute.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(os.cpu_count() or 1, 8) + 2)')
# Start-up is mostly compiling otherwise; some machines switch the cache off.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help up test guides check fmt coverage bench compare bench-real parity scenarios real binaries versions kubectl differential attack fuzz mutants soak lock clean

help:
	@echo "make up [ARGS=...]  run the embedded cluster      make test       run the tests"
	@echo "make check          lint, types, layers, spelling make fmt        format the code"
	@echo "make guides         replay the commands of docs   make versions   test on kube-apiserver 1.37"
	@echo "make parity         compare with upstream's cases make scenarios  count the scenarios passed"
	@echo "make bench          measure                       make real       test on kube-apiserver + etcd"
	@echo "make bench-real [ARGS=--quick]                    measure beside kube-scheduler on a real one"
	@echo "make compare ARGS=REV                             measure beside another revision"
	@echo "make kubectl        test with kubectl 1.30, 1.36  make differential  hunt for other decisions"
	@echo "make attack         load without credentials      make fuzz          send random requests"
	@echo "make coverage       of the packages that decide   make mutants    change code, see tests fail"
	@echo "make soak [SEED=7] [MINUTES=60]  long checks"

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Holdfast needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "python3 cannot make virtual environments: install python3-venv"; exit 1; }

# The distribution had this name before; uninstalled after the new one it would take bin/holdfast with it.
FORMER_NAME := holdfast

# What `up` needs: the runtime dependencies, pinned by hash, and Holdfast itself.
.venv/.runtime: .venv/bin/python requirements.lock pyproject.toml
	@echo "Installing Holdfast into .venv ..."
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip uninstall -q -y --disable-pip-version-check $(FORMER_NAME) 2>/dev/null || true
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# What tests, linters and benchmarks need on top.
.venv/.dev: .venv/.runtime requirements-dev.lock
	@echo "Installing the development tools into .venv ..."
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

up: .venv/.runtime
	@$(BIN)/holdfast up $(ARGS)

test: .venv/.dev
	@mkdir -p build
	$(BIN)/pytest -q -n $(WORKERS) --dist loadgroup -m "not real and not parity and not guide" \
	  --ignore tests/parity --junitxml=build/junit.xml $(ARGS)

# The transcripts of README and docs, command by command, in clusters of their own.
guides: .venv/.dev
	@mkdir -p build
	$(BIN)/pytest -q -n $(WORKERS) -m "guide and not real" tests/stories --junitxml=build/junit-guides.xml $(ARGS)

check: .venv/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/codespell

fmt: .venv/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# How much of the packages that only decide is executed by their own tests.
coverage: .venv/.dev
	@$(BIN)/python tools/pure_coverage.py -n $(WORKERS) --dist loadgroup $(ARGS)

parity: .venv/.dev
	@$(BIN)/python tools/parity.py $(ARGS)

scenarios: .venv/.dev
	@$(BIN)/python tools/scenarios.py build/junit.xml build/junit-guides.xml build/junit-real.xml

bench: .venv/.dev
	@$(BIN)/python benchmarks/run.py $(ARGS)

# The working tree beside another revision: ARGS="REV --only decisions".
compare: .venv/.dev
	@$(BIN)/python benchmarks/compare.py $(ARGS)

bench-real: .venv/.dev binaries
	@$(BIN)/python benchmarks/real_control_plane.py $(ARGS)

# The real control plane, built once from its Go modules into the user's cache.
binaries:
	@tests/real/build

real: .venv/.dev binaries
	@mkdir -p build
	$(BIN)/pytest -q -m real tests --junitxml=build/junit-real.xml $(ARGS)

# What changes with a newer Kubernetes: its kube-apiserver is built once, into the same cache.
versions: .venv/.dev binaries
	@tests/real/build-apiserver v1.37.1
	$(BIN)/pytest -q -m real tests/real/test_kubernetes_1_37.py $(ARGS)

# The tests that run kubectl, with the oldest kubectl that Holdfast supports and the newest.
kubectl: .venv/.dev
	@for version in v1.30.14 v1.36.2; do \
	  path=$$(tests/real/build-kubectl $$version) || exit 1; \
	  echo "kubectl $$version"; \
	  HOLDFAST_KUBECTL=$$path $(BIN)/pytest -q -n $(WORKERS) --dist loadgroup \
	    -m "kubectl and not real" tests $(ARGS) || exit 1; \
	done

# Decisions unlike kube-scheduler's, hunted over random snapshots.
differential: .venv/.dev binaries
	@$(BIN)/python tools/differential.py $(ARGS)

# A minute of load by clients without credentials; docs/security.md.
attack: .venv/.dev
	@$(BIN)/python tools/attack.py $(ARGS)

# Requests that no client should send; ARGS="--requests 100000 --seed 7", or --replay FILE.
fuzz: .venv/.dev
	@$(BIN)/python tests/fuzz/run.py $(ARGS)

# Small wrong changes of the code that some test should notice; ARGS="--seed 7 --count 20".
mutants: .venv/.dev
	@$(BIN)/python tools/mutants.py $(ARGS)

# The long checks, each for its share of the time: fuzzers, kill rounds, laws, mutants, differential.
MINUTES ?= 60
soak: .venv/.dev
	@$(BIN)/python tools/soak.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

lock: .venv/bin/python
	@$(BIN)/python -m pip install -q --disable-pip-version-check uv
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url --group build pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url --group dev -c requirements.lock pyproject.toml -o requirements-dev.lock

clean:
	rm -rf .venv build .mypy_cache .ruff_cache .hypothesis
