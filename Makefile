# Works from a fresh clone on a machine with Python >= 3.11 and git. `make` alone runs the demonstration.

VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Two more than there are processors, at most four: tests wait for other processes almost half of their time.
TEST_PROCESSES := $(shell n=$$(nproc 2>/dev/null || echo 1); if [ "$$n" -lt 2 ]; then echo 3; else echo 4; fi)

# The first of these on the path that can make an environment; asked for only when one is made. Modules take less memory
# from 3.12 on. Not every package has wheels for the newest Python, so that comes late.
NEW_ENOUGH := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for name in python3.13 python3.12 python3 python3.11 python3.14 python; do \
	if "$$name" -c "$(NEW_ENOUGH)" 2>/dev/null; then command -v "$$name"; break; fi; done)

# For the working day, in less than a minute: what runs inside a test process, without properties and what takes long,
# then one session of every kind of module in sandboxes, started as a command.
CHECKED := tests/protocol tests/sdk/contract tests/sdk/kernel tests/sdk/worker \
	tests/host/authorization tests/host/isolation tests/host/plan tests/host/policy tests/host/rpc tests/host/session \
	$(wildcard tests/sources/test_*.py) tests/sources/lock tests/sources/manifest tests/sources/resolver \
	tests/packaging/test_claims.py \
	tests/integration/test_demo.py::test_the_job_is_done_and_every_misbehaviour_contained

# Hundreds of programs are started here, and each would compile all of its own code again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := run
.PHONY: run agent batch check compiled-tests test user-environment test-user test-all lint bench bench-quick soak clean

run: $(VENV)/ready
	@$(BIN)/paddock demo

# A scripted model, behind a server that speaks as a vendor's does, mends a program with the tools.
agent: $(VENV)/ready
	@PYTHONPATH=tests $(BIN)/python -m coding_agent

# Many tasks with a scripted model and a hostile module; the driver is killed, and goes on.
batch: $(VENV)/ready
	@PYTHONPATH=tests $(BIN)/python -m many_tasks

check: lint
	@$(BIN)/python -m pytest --quiet --numprocesses=logical --dist=worksteal -m "not (costly or hypothesis or slow)" $(CHECKED)

# Faults done to sessions for HOURS, an hour by default; the first SEED is the commit. It ends at the first problem.
soak: $(VENV)/ready-dev
	@PYTHONPATH=tests $(BIN)/python tests/faults/simulator.py $(or $(SEED),$$((0x$$(git rev-parse --short=7 HEAD)))) \
		$(or $(STEPS),60) --hours $(or $(HOURS),1)

test: $(VENV)/ready-dev
	@$(BIN)/python -m pytest --numprocesses=$(TEST_PROCESSES) --dist=worksteal

# What one process of tests does before all others can begin. What is wrong with a test, `make test` says.
compiled-tests: $(VENV)/ready-dev
	@$(BIN)/python -m pytest --quiet --quiet --collect-only >/dev/null || true

# What depends on bubblewrap, as an ordinary user; it takes the package `bubblewrap`.
test-user: $(VENV)/ready-dev
	@TEST_PROCESSES=$(TEST_PROCESSES) $(BIN)/python tests/everywhere.py --row "user, bwrap" -k bwrap

user-environment: $(VENV)/ready-dev
	@$(BIN)/python tests/everywhere.py --set-up

# Every supported Python that is on the path, an ordinary user with bubblewrap, and a usual container as root and as a
# user.
test-all: $(VENV)/ready-dev
	@TEST_PROCESSES=$(TEST_PROCESSES) $(BIN)/python tests/everywhere.py

lint: $(VENV)/ready-dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python tests/packaging/balance.py

# `BESIDE=REV` compares this tree with a commit; `PARTS=calls,start` measures only these.
bench: $(VENV)/ready-dev
	@$(BIN)/python tests/benchmarks/run.py $(if $(BESIDE),--beside '$(BESIDE)') $(if $(PARTS),'$(PARTS)')

# Shows that every part of it runs; its figures say nothing.
bench-quick: $(VENV)/ready-dev
	@$(BIN)/python tests/benchmarks/run.py --quick

clean:
	rm -rf $(VENV) .agent .bench .environments .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "no Python >= 3.11 with venv was found; name one: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# The stamps say which pyproject.toml the environment was made for.
$(VENV)/ready: pyproject.toml | $(VENV)/bin/python
	@echo "setting up $(VENV)" >&2
	@$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/ready-dev: pyproject.toml | $(VENV)/bin/python
	@echo "setting up $(VENV) for development" >&2
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/ready
