# Everything that people and continuous integration run. `make` lists it.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin
STAMP := $(VENV)/.installed
PEERS := .venv-bench

# BLAS threads only get in each other's way: a worker uses one core.
export OPENBLAS_NUM_THREADS := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo check lint types unit test tools chaos bench bench-full lock docs clean clean-kernels

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(STAMP) ## make .venv with everything locked, and install the package into it

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version)'
	@test -x $(RUN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the locked dependencies into $(VENV)"
	@$(RUN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(RUN)/pip install --quiet --disable-pip-version-check --no-deps -e . > $(VENV)/setup.log 2>&1 || { cat $(VENV)/setup.log; exit 1; }
	@touch $@

demo: setup ## the main job on real flight events; KEEP=1 leaves it running, BROKER=host:port uses that broker, RATE=events/s
	@$(RUN)/streamlearn demo $(if $(KEEP),--keep) $(if $(BROKER),--broker $(BROKER)) $(if $(RATE),--rate $(RATE))

check: lint types unit ## lint, types and unit tests: under 2 minutes

lint: setup
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .

types: setup
	$(RUN)/mypy

unit: setup
	$(RUN)/pytest -q --numprocesses 2 --dist worksteal tests/unit

test: check tools ## every test, on a real Apache Kafka that is fetched and started
	$(RUN)/pytest -q --numprocesses 2 --dist worksteal tests/properties
	@# Three processes, each with a broker of its own: these tests mostly wait for brokers, groups and sessions.
	$(RUN)/pytest -q --numprocesses 3 --dist loadfile tests/chaos tests/integration

tools: ## the programs the tests need beside Java and Maven: from Debian's packages where they are missing
	@for tool in prometheus promtool docker-compose; do command -v $$tool >/dev/null || missing=1; done; test -z "$$missing" \
	  || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends prometheus docker-compose; } \
	     > /dev/null || { echo "prometheus, promtool and docker-compose are needed: install the packages prometheus and docker-compose"; exit 1; }

chaos: setup ## the long chaos schedule: hundreds of kills
	$(RUN)/pytest -q tests/chaos --long

bench: setup $(PEERS)/.installed ## short form of all benchmarks, one table with targets and verdicts
	$(RUN)/python -m benchmarks --quick

bench-full: setup $(PEERS)/.installed ## long form of all benchmarks: under an hour
	$(RUN)/python -m benchmarks

# The programs that benchmarks compare with: in an environment of their own, the worker's stays as it is locked.
$(PEERS)/.installed: benchmarks/requirements.lock
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r benchmarks/requirements.lock
	touch $@

COMPILE := $(RUN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-find-links \
  --no-emit-trusted-host

lock: setup ## lock the dependencies again after a change of pyproject.toml: for development, the subset of the image, the peers of the benchmarks
	$(RUN)/pip install --quiet pip-tools
	$(COMPILE) --extra dev --output-file requirements.lock pyproject.toml
	$(COMPILE) --constraint requirements.lock --output-file deploy/requirements.lock pyproject.toml
	$(COMPILE) --output-file benchmarks/requirements.lock benchmarks/requirements.in

docs: setup ## make the generated pages again
	$(RUN)/python -m streamlearn.metrics > docs/metrics.md

clean-kernels: ## remove compiled kernels: needed after editing a kernel that others inline
	find streamlearn -name '*.nb[ci]' -delete

clean: ## remove what was built
	rm -rf $(VENV) $(PEERS) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
