# Each target works from a bare clone: the first one makes .venv and installs the pinned versions into it.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test lint check bench against-avalanche rivals scenarios clean

setup: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 4) and "samc needs Python 3.11.4 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

# for the tests inside Avalanche, half a minute; without it they say what they miss, and nothing else needs it
.venv/avalanche: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[avalanche]' \
		|| echo "Avalanche could not be installed: its tests are left out"
	touch $@

demo: setup
	$(BIN)/samc demo --out runs/demo

# everything
test: setup .venv/avalanche
	$(BIN)/python -m pytest -n 2

# style and types
lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# before a commit: style, types and the tests that are quick
check: lint .venv/avalanche
	$(BIN)/python -m pytest -q -n 2 -m "not slow"

# each claim about speed, measured on this machine into benchmarks/results; what needs a GPU is only tried without one
bench: setup .venv/avalanche
	for name in against_loop plain_way reference_gradients against_avalanche same_answer repeatable phases past_tasks best_step throughput encoding leak checkpoints tiles; do \
		$(BIN)/python benchmarks/$$name.py || exit 1; \
	done
	$(BIN)/python benchmarks/table.py

# Avalanche's strategies and ours side by side on this machine's CPU, as a page
against-avalanche: setup .venv/avalanche
	$(BIN)/python benchmarks/against_avalanche.py --device cpu
	$(BIN)/python benchmarks/table.py --rows --only against-avalanche-cpu > benchmarks/results/against-avalanche-cpu.md

# every method, and the paper's SAMC, on the embedded stream, three seeds, into results/; runs that are there already are left alone
rivals: setup
	for seed in 0 1 2; do for model in $$($(BIN)/samc models | cut -d ' ' -f 1); do \
		out=results/split-synthetic/$$model-seed$$seed; \
		test -e $$out/record.json || $(BIN)/samc run --model $$model --seed $$seed --out $$out || exit 1; \
	done; \
		out=results/split-synthetic/samc-paper-seed$$seed; \
		test -e $$out/record.json || $(BIN)/samc run --preset paper --accounting bytes --seed $$seed --out $$out || exit 1; \
	done
	$(BIN)/samc report results/split-synthetic --markdown

# every method on the embedded stream with one head: class- and domain-incremental, three seeds, into results/scenarios
scenarios: setup
	for seed in 0 1 2; do for scenario in class domain; do for model in $$($(BIN)/samc models | cut -d ' ' -f 1); do \
		stream=split-synthetic; bytes=153650; \
		test $$scenario = domain && stream=rotated-split-synthetic; \
		test $$model = eec && bytes=30730/task; \
		test $$scenario-$$model = domain-icarl && continue; \
		out=results/scenarios/$$scenario/$$model-seed$$seed; \
		test -e $$out/record.json || OMP_NUM_THREADS=1 $(BIN)/samc run --model $$model --dataset $$stream \
			--scenario $$scenario --memory-bytes $$bytes --seed $$seed --out $$out || exit 1; \
	done; done; done
	$(BIN)/samc report results/scenarios

clean:
	rm -rf .venv runs
