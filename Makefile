# Two commands set everything up: `make plan` and `make test`. Both make .venv first, pinned by constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SCENARIO ?= workloads/scenarios/mixed-fleet.yaml
OUT ?= runs/mixed-fleet
WORKERS ?= 2
BENCH_SIZE ?= full
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1

.PHONY: plan test test-fast cpu-seconds lint bench study accuracy pictures package notebooks engine-parsers manifest-tools clean

plan: $(VENV)/installed
	$(BIN)/planner plan $(SCENARIO) --out $(OUT) $(FLAGS)

test: $(VENV)/installed
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test-fast: $(VENV)/installed
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow and not bench and not study"

# what each test costs, into tests/slow.txt: those that test-fast leaves out
cpu-seconds: $(VENV)/installed
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --cpu-seconds

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# all benchmarks, or with BENCH_SIZE=small those of a minute altogether
bench: $(VENV)/installed
	$(BIN)/python -m pytest tests/benchmarks tests/studies -m "bench$(if $(filter small,$(BENCH_SIZE)), and not long)" -s -p no:xdist

study: $(VENV)/installed
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m study --timeout 0

# what the fit reaches, on record: tables of the guide, and errors by slice that tests hold later ones against
accuracy: $(VENV)/installed
	PYTHONPATH=tests/cost $(BIN)/python tests/cost/make_accuracy_record.py

# the picture of a report page that the README shows, painted by Chromium
pictures: $(VENV)/installed
	$(BIN)/python tests/report/make_picture.py

# wheel and sdist, installed into a fresh environment that plans from elsewhere
package: $(VENV)/installed
	$(BIN)/python tests/package/fresh_install.py

# notebooks with their outputs as pages, under notebooks/rendered/, which is not kept
notebooks: $(VENV)/installed
	$(BIN)/python -m jupyter nbconvert --execute --to html --output-dir notebooks/rendered notebooks/*.ipynb

# the engines' own parsers, which some tests ask; without them these tests are skipped
engine-parsers: $(VENV)/installed
	$(BIN)/python tests/export/engine_parsers/installing.py

# Helm, kubectl, ShellCheck, a CEL evaluator, a policy linter, Dynamo's GlobalRouter, the routers and a load generator, which some tests ask
manifest-tools: $(VENV)/installed
	$(BIN)/python tests/export/tools/installing.py

$(VENV)/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist notebooks/rendered
