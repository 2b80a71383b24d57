# Everything a contributor types. On a machine with only python3 and make, each target creates what it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
SESSIONS ?= ../shared/trajectories ../shared/compactions

.PHONY: demo test check laws bench docs fresh

$(STAMP): pyproject.toml benchmarks/pyproject.toml src/danshari/version.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[fast,dev]' -e benchmarks
	@touch $(STAMP)

demo: $(STAMP)        ## the main job on the bundled sessions
	$(BIN)/danshari report src/danshari/data/sessions
	$(BIN)/danshari replay src/danshari/data/sessions --policy balanced --policy literal --no-rounds

test: $(STAMP)        ## all tests (laws at 40 sessions each)
	$(BIN)/python -m pytest -n auto

laws: $(STAMP)        ## every law over 10,000 generated sessions (nightly; under 20 minutes on 2 cores)
	DANSHARI_LAWS=nightly $(BIN)/python -m pytest -n auto tests/laws

check: $(STAMP)       ## ruff, mypy --strict, house rules, docs
	$(BIN)/ruff check src benchmarks tests scripts examples
	$(BIN)/ruff format --check src benchmarks tests scripts examples/record.py
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_house.py tests/test_docs.py

bench: $(STAMP)       ## speed, proxies, live traffic, and the comparison on recorded sessions (SESSIONS=folders)
	$(BIN)/danshari bench speed
	$(BIN)/danshari bench proxy
	$(BIN)/danshari bench traffic $(SESSIONS) --rounds 20
	$(BIN)/danshari bench sessions $(SESSIONS) --json bench-results --html bench-results

docs: $(STAMP)        ## regenerate reference pages, help texts and the README picture
	$(BIN)/python scripts/make_docs.py

fresh:                ## forget the environment
	rm -rf $(VENV)
