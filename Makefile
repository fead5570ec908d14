# `make demo` and `make test` need only Python 3.11+ and make; everything else is installed into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What an installation is made from: settings, and the C twins that it compiles.
INSTALLED_FROM := pyproject.toml hatch_build.py $(shell find src -name '_*.[ch]')
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test check format lab-types bench doctor-score own-data claims trust clean

demo: $(VENV)/installed
	$(BIN)/pellucid train --minutes 0.7

# What Python compiles it may keep, whatever the environment says: else each of a hundred processes compiles it again.
test: $(VENV)/installed-dev
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses=auto --dist=worksteal $(PYTEST_FLAGS)

# Formatting, lint and strict types first: they answer in seconds.
check: $(VENV)/installed-dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(MAKE) lab-types
	$(MAKE) test PYTEST_FLAGS=--durations=25

# The types of the lab's pages, which are comments in plain JavaScript; TypeScript is kept outside of this folder.
TYPES := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/pellucid-typescript

lab-types:
	@if command -v npm >/dev/null; then \
		npm --prefix $(TYPES) install --no-audit --no-fund --silent typescript@5 \
		&& $(TYPES)/node_modules/.bin/tsc --project tsconfig.json; \
	else echo "npm is not installed, so the types of the lab's pages are not checked"; fi

format: $(VENV)/installed-dev
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# One table of ours beside every peer, then what looking costs, and the lab: 20 minutes on two fast cores, or an hour.
bench: $(VENV)/installed-bench
	$(BIN)/python benchmarks/beside_peers.py --write docs/performance.md
	$(BIN)/python benchmarks/health.py
	$(BIN)/python benchmarks/lab.py

# What the doctor finds and what it costs: the museum's programs, those of strangers, mutants, and its certificates.
# What out/doctor-score.jsonl holds is not run again, unless the rules or the programs have changed since.
doctor-score: $(VENV)/installed-bench
	$(BIN)/python benchmarks/doctor_score.py --journal out/doctor-score.jsonl --write docs/doctor-score.md

# Trains with the defaults on data that others made; benchmarks/outside/fetch.sh out/own-data unpacks them first.
own-data: $(VENV)/installed-bench
	$(BIN)/python benchmarks/own_data.py --jobs 2 --write docs/own-data.md

# Every claim again, several at once; what out/claims.jsonl holds is not run again. Forty minutes on two cores.
claims: $(VENV)/installed-dev
	$(BIN)/pellucid claims run all --journal out/claims.jsonl --store src/pellucid/claims/ledger

# The slow proofs: a million fuzzed expressions, ulp tables, depth, kills, faults. About an hour on two cores.
trust: $(VENV)/installed-dev
	$(BIN)/python trust/run.py

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(INSTALLED_FROM) | $(BIN)/python
	$(PIP) install --editable .
	touch $@

$(VENV)/installed-dev: $(INSTALLED_FROM) | $(BIN)/python
	$(PIP) install --editable ".[dev]"
	touch $@ $(VENV)/installed

$(VENV)/installed-bench: $(INSTALLED_FROM) | $(VENV)/installed-dev
	$(PIP) install --editable ".[bench]"
	touch $@
