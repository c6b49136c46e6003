# Everything runs inside .venv, which is made on first use and again when pyproject.toml changes. Users'
# dependencies come first; those of tests and documentation are added when they are needed.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
TEST_READY := .venv/.test-ready
DOCS_READY := .venv/.docs-ready
INSTALL := -m pip install --quiet --no-compile --disable-pip-version-check
# The pip that a new environment has may be too old to know groups.
NEW_PIP := $(INSTALL) 'pip>=25.1'

# torch has an environment of its own: all else must work where it is not installed.
TORCH := .venv-torch/bin
TORCH_READY := .venv-torch/.ready

CLUSTERS := .venv-clusters/bin
CLUSTERS_READY := .venv-clusters/.ready

LOWEST := .venv-lowest/bin
LOWEST_READY := .venv-lowest/.ready

# The first process that imports a module writes its bytecode: with it the next ones start in four
# seconds, without it in ten.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-long test-torch test-clusters test-lowest bench-gpu lint docs pictures clean

demo: $(READY)
	$(BIN)/ordinalrbm demo

# Several processes share the cores: a thread that waits must not keep one busy, and products of
# matrices are done by one.
test test-long test-torch test-clusters: export OMP_WAIT_POLICY = passive
test test-long test-torch test-clusters: export OPENBLAS_NUM_THREADS = 1
test-torch: export OMP_NUM_THREADS = 1

# Each process of pytest-xdist would compile the kernels for itself: they are compiled before.
test: $(TEST_READY) lint
	$(BIN)/python tests/warm_up.py
	$(BIN)/pytest -q -n auto --dist worksteal --durations=40

# Before a release: more random cases, more kills, full sizes; takes an hour or two.
test-long: $(TEST_READY)
	$(BIN)/python tests/warm_up.py
	ORDINALRBM_LONG=1 $(BIN)/pytest -q -n auto --dist loadfile --durations=30
	$(MAKE) test-clusters

# The GPU engine, in Triton's interpreter where there is no GPU; and several processes. The file that
# takes longest comes first.
test-torch: $(TORCH_READY)
	$(TORCH)/python tests/warm_up.py
	$(TORCH)/pytest -q -n auto --dist loadfile --no-loadscope-reorder --durations=15 tests/conformance/test_conformance_of_engines.py tests/gpu tests/distributed

# A real Spark, which needs Java, a real Ray and a real MLflow: with the long tests before a release.
test-clusters: $(CLUSTERS_READY)
	$(CLUSTERS)/python tests/warm_up.py
	ORDINALRBM_LONG=1 $(CLUSTERS)/pytest -q tests/clusters

# What needs a GPU; with the python that has a torch for it, for example PYTHON=python3.
bench-gpu:
	PYTHONPATH=src $(PYTHON) -m pytest -q tests/gpu
	PYTHONPATH=src $(PYTHON) -m pytest -q tests/conformance -k gpu
	PYTHONPATH=src $(PYTHON) benchmarks/gpu/training.py
	PYTHONPATH=src $(PYTHON) benchmarks/gpu/binary.py
	PYTHONPATH=src $(PYTHON) benchmarks/gpu/inference.py
	PYTHONPATH=src $(PYTHON) benchmarks/gpu/sampling.py --netflix

# With the lowest versions that pyproject.toml declares: the demo, and what meets other libraries. What
# these warn each other of is not ours to mend.
test-lowest: $(LOWEST_READY)
	cd .venv-lowest && bin/ordinalrbm demo
	ORDINALRBM_LOWEST=1 $(LOWEST)/pytest -q -W ignore::DeprecationWarning tests/cli/test_survey_commands.py tests/cli/test_rating_commands.py tests/files/test_file_formats.py tests/files/test_writing_files.py tests/matrix/test_rating_estimators.py

lint: $(TEST_READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Not --quiet: it would hide warnings from --strict as well.
docs: $(DOCS_READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The pictures of README and documentation, which are in the repository; screenshots need Chromium.
pictures: $(READY)
	$(BIN)/python docs/pictures.py

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python $(INSTALL) --editable .
	touch $(READY)

$(TEST_READY): $(READY)
	$(BIN)/python $(NEW_PIP)
	$(BIN)/python $(INSTALL) --group test
	touch $(TEST_READY)

$(DOCS_READY): $(READY)
	$(BIN)/python $(NEW_PIP)
	$(BIN)/python $(INSTALL) --group docs
	touch $(DOCS_READY)

$(LOWEST_READY): pyproject.toml
	$(PYTHON) -m venv .venv-lowest
	$(LOWEST)/python $(NEW_PIP)
	$(LOWEST)/python tests/lowest_versions.py > .venv-lowest/versions.txt
	$(LOWEST)/python $(INSTALL) --constraint .venv-lowest/versions.txt . --group lowest
	touch $(LOWEST_READY)

# These versions are builds without CUDA on machines without a GPU.
$(TORCH_READY): pyproject.toml
	$(PYTHON) -m venv .venv-torch
	$(TORCH)/python $(NEW_PIP)
	$(TORCH)/python $(INSTALL) --editable . --group test torch==2.13.0 triton==3.9.0
	touch $(TORCH_READY)

$(CLUSTERS_READY): pyproject.toml
	$(PYTHON) -m venv .venv-clusters
	$(CLUSTERS)/python $(NEW_PIP)
	$(CLUSTERS)/python $(INSTALL) --editable '.[spark,ray,mlflow]' --group test torch==2.13.0
	touch $(CLUSTERS_READY)

clean:
	rm -rf .venv .venv-torch .venv-clusters .venv-lowest build site *.egg-info src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
