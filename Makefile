# All recipes of the project. CI runs only `make test`.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Cargo's target folder. It is relative to this folder unless CARGO_TARGET_DIR is absolute, because
# make splits a path at its spaces.
TARGET := $(or $(CARGO_TARGET_DIR),target)

# Tools that are built from source, at pinned versions.
CARGO_DENY_VERSION := 0.20.2
MDBOOK_VERSION := 0.5.4
CARGO_MUTANTS_VERSION := 27.1.0
TOOLS := target/tools
DENY := $(TOOLS)/bin/cargo-deny
# The version is part of the name, so that a new version is built.
MDBOOK := $(TOOLS)/mdbook-$(MDBOOK_VERSION)/bin/mdbook
MUTANTS := $(TOOLS)/mutants-$(CARGO_MUTANTS_VERSION)/bin/cargo-mutants

# Without optimisation, both tools are built in less than five minutes of CPU time. The book then
# takes less than a second, and the check of the dependencies four seconds instead of two.
INSTALL := CARGO_PROFILE_DEV_DEBUG=0 cargo install --debug --locked

# The accessibility rules of the browser tests.
AXE := $(TARGET)/axe-core

# The folder of the cluster parts that the tests run, as seen from tests/control-plane. The tests
# find the parts in the target folder, because their own binaries are there.
CONTROL_PLANE := $(if $(filter /%,$(TARGET)),,../../)$(TARGET)/control-plane

# The Python environment of models/: packages at pinned versions, 4 GB in total.
MODELS_PYTHON := $(TARGET)/models-python
# The file that marks it as complete.
MODELS_INSTALLED := $(MODELS_PYTHON)/installed
MODELS_VENV := "$(abspath $(MODELS_PYTHON))"

# The folder of the job logs for `make train` and `make evaluate`.
TRACES ?= traces

# The number of models that `make train` trains without each log, in order to score them on that
# log.
SEEDS ?= 1

# The number of replays of the decisions in `make evaluate`, with shifted submissions.
REPLAYS ?= 10

# The length of `make soak`, and of `make property`.
MINUTES ?= $(if $(filter property,$(MAKECMDGOALS)),5,10)

# The seed of `make property`; empty for another one in each run.
SEED ?=

# The number of repeats of `make reality`.
RUNS ?= 3

# The seconds between two bursts of jobs in `make demo-cluster`.
PAUSE ?= 120

# The number of worlds of `make worlds`.
WORLDS ?= 100000

# The number of cases of each property in `make fuzz`.
FUZZ_CASES ?= 100000

# Of `make image`: the name of the image, and arguments of release/Containerfile, such as
# "BUILDER=docker.io/library/rust@sha256:…".
IMAGE ?= prophet:dev
IMAGE_ARGUMENTS ?=

# Of `make release`: the binary, which is built if none is given, the folder of the artefacts, and
# the tag of the release, which must match the versions.
BINARY ?=
OUT ?= out/release
TAG ?=

.PHONY: help build test check check-models book reference chart-readme instance-types test-models fuzz bench soak property real real-worlds alerts worlds mutants reality demo-cluster train evaluate image release reproducible control-plane tools models-python known-demand
.NOTPARALLEL:

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

build: ## build the release binary, target/release/prophet
	cargo build --release --locked --features full

test: ## run the checks, then all tests; prints the minutes of each part
	@tests/run

check: $(DENY) check-models book ## check the format, clippy, the book, the chart's README, and the licences, bans and sources of dependencies
	cargo fmt --all --check
	cargo clippy --workspace --all-features --all-targets --locked -- --deny warnings
	cargo clippy --package prophet --locked -- --deny warnings
	$(DENY) --log-level error check licenses bans sources
	python3 charts/readme.py --check
	@if $(DENY) --log-level off fetch db >/dev/null 2>&1; then $(DENY) --log-level error check advisories; \
	else echo "advisories: not checked, because their database cannot be downloaded"; fi

check-models: $(MODELS_INSTALLED) ## check the format, lints and types of models/, evaluation/, charts/ and release/
	cd models && $(MODELS_VENV)/bin/ruff format --no-cache --config pyproject.toml --check . ../evaluation ../charts ../crates/instances ../release ../tests/*.py
	cd models && $(MODELS_VENV)/bin/ruff check --no-cache --config pyproject.toml . ../evaluation ../charts ../crates/instances ../release ../tests/*.py
	cd models && $(MODELS_VENV)/bin/mypy --cache-dir $(MODELS_VENV)/mypy-cache *.py ../evaluation/*.py ../charts/*.py ../crates/instances/*.py ../release/*.py ../tests/*.py

book: $(MDBOOK) ## build the book of docs/ into target/book, and check the links of all Markdown files
	MDBOOK_LOG=warn $(MDBOOK) build --dest-dir "$(abspath $(TARGET)/book)"
	python3 tests/links.py $(TARGET)/book

reference: ## write docs/reference/ from the commands, the fields and the metrics of the program
	cargo build --workspace --all-features --locked
	@for page in commands policy planned-demand metrics; do \
	$(TARGET)/debug/prophet reference $$page >$(TARGET)/$$page.md && mv $(TARGET)/$$page.md docs/reference/$$page.md; done

instance-types: ## write the table of AWS's instance types from packages of the registries (needs Go)
	python3 crates/instances/table.py

chart-readme: ## write charts/prophet/README.md from the chart's values.yaml
	python3 charts/readme.py

test-models: $(MODELS_INSTALLED) ## run the tests of models/
	cd models && $(MODELS_VENV)/bin/python -m pytest -q -p no:cacheprovider

fuzz: ## run each property of damaged input for about a minute
	PROPTEST_CASES=$(FUZZ_CASES) cargo test --workspace --all-features --locked --test fuzz

bench: control-plane $(MODELS_INSTALLED) ## measure packing, simulation (also of the public logs in TRACES=dir), watches, reaction time, a crowd of pods and models
	TRACES="$(abspath $(TRACES))" cargo bench --workspace --all-features --locked
	PROPHET_ONNX_RUNTIME="$$(echo $(MODELS_VENV)/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.*)" \
	cargo bench --workspace --all-features --locked --bench onnx

soak: control-plane $(MODELS_INSTALLED) ## let jobs come and go for MINUTES=10 on a real control plane, and print memory, open files and requests by minute
	cargo build --workspace --all-features --locked
	MINUTES=$(MINUTES) cargo test --workspace --all-features --locked --test placeholders soak -- --ignored --nocapture

property: control-plane ## compare random workloads on a real API server with what is counted, for MINUTES=5, from SEED=n
	cargo build --workspace --all-features --locked
	MINUTES=$(MINUTES) SEED=$(SEED) cargo test --workspace --all-features --locked --test property -- --nocapture --test-threads 1

real-worlds: control-plane ## run random steps on a real control plane for MINUTES=10, from SEED=n, and check each second what must hold
	cargo build --workspace --all-features --locked
	MINUTES=$(MINUTES) SEED=$(SEED) cargo test --workspace --all-features --locked --test placeholders random_worlds -- --nocapture

real: control-plane ## run all scenarios and measurements on real nodes (kubelet, containerd, runc; needs root), and print the tables of docs/real-nodes.md
	cargo build --workspace --all-features --locked
	PROPHET_REAL_NODES=required cargo test --workspace --all-features --locked --test placeholders real:: -- --include-ignored --nocapture --test-threads 1

alerts: control-plane ## cause the faults of the alerts over counters and times on a real control plane, under a real Prometheus (Debian's package)
	cargo build --workspace --all-features --locked
	cargo test --workspace --all-features --locked --test placeholders alerts_over -- --ignored --nocapture

worlds: ## run random steps of a cluster without a control plane, in WORLDS=100000 worlds, and check what must hold after each turn
	WORLDS=$(WORLDS) cargo test --package controller --all-features --locked --lib random_worlds

mutants: $(MUTANTS) ## mutate control, placeholders and the gathering of demand, and print the mutants that no test of their crate notices (hours)
	$(MUTANTS) mutants --package control --package placeholders --package controller --output $(TARGET)/mutants \
	--file 'crates/control/src/**' --file 'placeholders/src/**' --file 'crates/controller/src/cluster/gather*' --file 'crates/controller/src/cluster/gather/**'

reality: control-plane ## run the trace of the simulator's test in real time, with each autoscaler, with and without Prophet on RUNS=3 real control planes each, and print both sides
	cargo build --workspace --all-features --locked
	RUNS=$(RUNS) cargo test --workspace --all-features --locked --test placeholders reality -- --ignored --nocapture --test-threads 1

demo-cluster: control-plane ## run bursts of jobs, PAUSE=120 seconds apart, on a real control plane with Prophet, until Ctrl-C
	cargo build --workspace --all-features --locked
	@exec $(TARGET)/debug/demo-cluster $(PAUSE)

train: $(MODELS_INSTALLED) ## train the shipped model on the public logs in TRACES=dir; it and its figures go to target/models
	cargo build --release --locked
	models/pretrain target/release/prophet $(TRACES) target/models $(MODELS_VENV)/bin/python $(SEEDS)

evaluate: $(MODELS_INSTALLED) ## write docs/evaluation.md: all policies on windows of the public logs in TRACES=dir, REPLAYS times
	cargo build --release --locked
	$(MODELS_VENV)/bin/python evaluation/replay.py $(TARGET)/release/prophet $(TRACES) $(REPLAYS) $(TARGET)/evaluation
	$(MODELS_VENV)/bin/python evaluation/pages.py $(TARGET)/evaluation docs

known-demand: $(MODELS_INSTALLED) ## write the tables of docs/known-demand.md: announced jobs on windows of the public logs in TRACES=dir
	cargo build --release --locked
	$(MODELS_VENV)/bin/python evaluation/announced.py $(TARGET)/release/prophet $(TRACES) 1 $(TARGET)/evaluation/announced docs/known-demand.md

image: ## build the container image IMAGE=name:tag with docker or podman, and start it
	release/image $(IMAGE) $(IMAGE_ARGUMENTS)

release: ## write the artefacts of a release, of BINARY=file if given, to OUT=dir
	@$(MAKE) --no-print-directory -C tests/control-plane CONTROL_PLANE="$(CONTROL_PLANE)" "$(CONTROL_PLANE)/bin/helm"
	@[[ -n "$(BINARY)" ]] || release/build $(TARGET)/shipped
	release/artefacts "$(or $(BINARY),$(TARGET)/shipped/release/prophet)" "$(OUT)" $(TARGET)/control-plane/bin/helm $(TAG)

reproducible: ## build the binary in two folders, and compare the two (hours on two cores)
	release/reproducible $(TARGET)/reproducible

control-plane: ## build the cluster parts that the tests run, or take them from KUBEBUILDER_ASSETS=dir
	@$(MAKE) --no-print-directory -C tests/control-plane CONTROL_PLANE="$(CONTROL_PLANE)"

tools: $(DENY) $(MDBOOK) $(AXE)

models-python: $(MODELS_INSTALLED)

$(MODELS_INSTALLED): models/requirements.txt
	@command -v python3 >/dev/null || { echo "models/ needs Python 3, which is not on the PATH" >&2; exit 1; }
	@rm -rf $(MODELS_PYTHON) && mkdir -p $(dir $(MODELS_PYTHON))
	models/environment $(MODELS_PYTHON)
	@touch $@

$(DENY):
	@if command -v cargo-deny >/dev/null && [[ "$$(cargo-deny --version)" == "cargo-deny $(CARGO_DENY_VERSION)" ]]; then \
	mkdir -p $(@D) && ln -sf "$$(command -v cargo-deny)" $@; \
	else $(INSTALL) cargo-deny --version $(CARGO_DENY_VERSION) --root $(TOOLS); fi

# Without npm, the folder is not created.
$(AXE): tests/axe
	@mkdir -p $(@D)
	tests/axe $@

$(MUTANTS):
	$(INSTALL) cargo-mutants --version $(CARGO_MUTANTS_VERSION) --root $(TOOLS)/mutants-$(CARGO_MUTANTS_VERSION)

$(MDBOOK):
	$(INSTALL) mdbook --version $(MDBOOK_VERSION) --no-default-features --root $(TOOLS)/mdbook-$(MDBOOK_VERSION)
