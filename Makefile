# Requires only Python 3.11 or newer and make: each target installs its requirements into .venv, pinned and hashed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Python compiles the modules that it imports; to compile all at once takes longer than to install them, and 90 MB.
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --no-compile
# Three processes keep the two cores of CI busy while some tests wait; 0 runs the tests in one process, which a debugger needs.
WORKERS ?= 3
# A worker that has run its share takes half of another: until then, the tests of a module and its fixtures stay together.
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

RUNTIME_ENVIRONMENT := $(VENV)/.installed-runtime
RUNTIME_PROJECT := $(VENV)/.installed-project-runtime
TEST_ENVIRONMENT := $(VENV)/.installed-test
CHECK_ENVIRONMENT := $(VENV)/.installed-check
PROJECT := $(VENV)/.installed-project
# Other tools that benchmarks compare with. Their requirements contradict each other, so each has its own environment.
PEERS := phoenix mlflow agentevals fair-forge

UV := $(BIN)/python -m uv
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url

.DEFAULT_GOAL := help
TESTS ?= tests
.PHONY: site help demo test test-slow test-browser snapshots check bench peers docs lock lock-upgrade format clean \
	check-format check-lint check-types check-imports check-requirements check-words check-docs

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(RUNTIME_PROJECT) ## replay recorded agents into a live collector and report their reliability (ten seconds)
	$(BIN)/otel-agentic demo

# A failed test runs once more, in a second run: on a busy machine a process of a test may be late. Status 1 is that of
# failed tests; any other, and that of the second run (5 if it has no tests), is the result.
test: $(PROJECT) ## run the tests that take seconds
	@$(PYTEST); status=$$?; \
	if [ $$status -eq 1 ]; then \
		echo "The failed tests run once more. One that passes now needs a fix, too."; \
		$(PYTEST) --last-failed --last-failed-no-failures none -r ap; status=$$?; \
	fi; \
	exit $$status

test-slow: $(PROJECT) ## run the tests that take minutes, and every property with many examples
	HYPOTHESIS_PROFILE=thorough $(PYTEST) -m "slow or hypothesis"

test-browser: $(PROJECT) ## run the tests of the console in Chromium, which must be installed
	$(PIP_INSTALL) --quiet --require-hashes --requirement requirements/browser.txt
	$(BIN)/python -m pytest -n 0 -m browser tests/console

snapshots: $(PROJECT) $(CHECK_ENVIRONMENT) ## update the snapshots in tests that no longer match; TESTS=tests/cli for some; review the diff
	$(BIN)/python -m pytest -n 0 -q --inline-snapshot=create,fix $(TESTS)
	$(BIN)/ruff format tests

# Several parts, so that `make --keep-going check` reports all problems at once.
check: check-format check-lint check-types check-imports check-requirements check-words check-docs ## format, lint, types, import rules, words, docs

check-format: $(CHECK_ENVIRONMENT)
	$(BIN)/ruff format --check

check-lint: $(CHECK_ENVIRONMENT)
	$(BIN)/ruff check

check-types: $(PROJECT) $(CHECK_ENVIRONMENT)
	$(BIN)/mypy
	$(BIN)/mypy examples

check-imports: $(PROJECT) $(CHECK_ENVIRONMENT)
	$(BIN)/lint-imports
	$(BIN)/python -m tools.import_law

check-requirements: $(PROJECT)
	$(BIN)/python -m tools.check_requirements

check-words: $(PROJECT)
	$(BIN)/python -m tools.check_words

check-docs: $(PROJECT)
	$(BIN)/python -m tools.cli_reference --check
	$(BIN)/python -m tools.settings_reference --check
	$(BIN)/python -m tools.store_reference --check
	$(BIN)/python -m tools.framework_reference --check
	$(BIN)/python -m tools.metric_reference --check
	$(BIN)/python -m tools.case_schema --check
	$(BIN)/python -m tools.table_reference --check
	$(BIN)/python -m tools.check_docs

bench: $(PROJECT) ## print the ratios that the documentation promises
	for file in benchmarks/bench_*.py benchmarks/ingest.py; do echo "== $$file"; $(BIN)/python -m benchmarks.$$(basename $$file .py) || exit 1; done

peers: $(PEERS:%=$(VENV)/peers/%/.installed) ## install the other tools that benchmarks compare with (minutes)

site: $(VENV)/docs/.installed ## build the documentation as a site, into site/
	$(VENV)/docs/bin/mkdocs build --strict --quiet

docs: $(PROJECT) ## regenerate the reference pages from the code
	$(BIN)/python -m tools.cli_reference
	$(BIN)/python -m tools.settings_reference
	$(BIN)/python -m tools.store_reference
	$(BIN)/python -m tools.framework_reference
	$(BIN)/python -m tools.metric_reference
	$(BIN)/python -m tools.case_schema
	$(BIN)/python -m tools.table_reference

format: $(CHECK_ENVIRONMENT) ## format the code and fix what ruff can fix
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

lock: $(CHECK_ENVIRONMENT) ## update requirements/ after a change of pyproject.toml; keeps pins that are still valid
	$(COMPILE) $(UPGRADE) pyproject.toml --output-file requirements/runtime.txt
	$(COMPILE) $(UPGRADE) pyproject.toml --extra judges --extra notebook --extra plots --extra demo --group test \
		--constraint requirements/runtime.txt --output-file requirements/test.txt
	$(COMPILE) $(UPGRADE) --group build --constraint requirements/test.txt --output-file requirements/build.txt
	$(COMPILE) $(UPGRADE) --group check --constraint requirements/test.txt --output-file requirements/check.txt
	$(COMPILE) $(UPGRADE) --group browser --constraint requirements/test.txt --output-file requirements/browser.txt
	$(COMPILE) $(UPGRADE) --group docs --output-file requirements/docs.txt
	for peer in $(PEERS); do \
		$(COMPILE) $(UPGRADE) --group peer-$$peer --output-file requirements/peer-$$peer.txt || exit 1; done

lock-upgrade: ## update requirements/ to the newest releases
	$(MAKE) lock UPGRADE=--upgrade

clean: ## remove the output of the other targets, except requirements/
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find otel_agentic collectors tests tools benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; name one: make PYTHON=python3.12"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@touch $@

$(RUNTIME_ENVIRONMENT): requirements/runtime.txt requirements/build.txt $(VENV)/.created
	@echo "Installing the runtime requirements (about 350 MB) into $(VENV) ..."
	$(PIP_INSTALL) --require-hashes --requirement requirements/runtime.txt --requirement requirements/build.txt
	@touch $@

# They include the runtime requirements in the same versions.
$(TEST_ENVIRONMENT): requirements/test.txt $(VENV)/.created
	@echo "Installing the test requirements (about 900 MB) into $(VENV) ..."
	$(PIP_INSTALL) --require-hashes --requirement requirements/test.txt
	@touch $@ $(RUNTIME_ENVIRONMENT)

$(CHECK_ENVIRONMENT): requirements/check.txt $(TEST_ENVIRONMENT)
	$(PIP_INSTALL) --require-hashes --requirement requirements/check.txt
	@touch $@

$(VENV)/docs/.installed: requirements/docs.txt $(CHECK_ENVIRONMENT)
	$(UV) venv --quiet --clear --python $(BIN)/python $(@D)
	$(UV) pip install --quiet --python $(@D) --require-hashes --requirement $<
	@touch $@

$(VENV)/peers/%/.installed: requirements/peer-%.txt $(CHECK_ENVIRONMENT)
	$(UV) venv --quiet --clear --python $(BIN)/python $(@D)
	$(UV) pip install --quiet --python $(@D) --require-hashes --requirement $<
	@touch $@

# pyproject.toml contains the entry points, so a change of it reinstalls the project.
$(RUNTIME_PROJECT): pyproject.toml $(RUNTIME_ENVIRONMENT)
	$(PIP_INSTALL) --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(PROJECT): $(TEST_ENVIRONMENT) $(RUNTIME_PROJECT)
	@touch $@
