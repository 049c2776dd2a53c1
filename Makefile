# All recipes of the project. CI runs only `make test`.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Tools that are built from source, at pinned versions.
CARGO_DENY_VERSION := 0.20.2
TOOLS := $(CURDIR)/target/tools
DENY := $(TOOLS)/bin/cargo-deny

# The parts of a real cluster that the tests run: Go programs, Python packages and manifests, at
# pinned versions. The tests find them in the target folder, because their own binaries are there.
CONTROL_PLANE := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/control-plane
MODULES := tests/control-plane
KUBERNETES := etcd kube-apiserver kube-controller-manager kube-scheduler kubectl
PROGRAMS := $(addprefix $(CONTROL_PLANE)/bin/,$(KUBERNETES) kwok karpenter helm)

# The Python environment of models/: packages at pinned versions, 4 GB in total.
MODELS_PYTHON := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/models-python

# The folder of the job logs for `make train` and `make evaluate`.
TRACES ?= traces

# The number of models that `make train` trains without each log, in order to score them on that
# log.
SEEDS ?= 1

# The number of replays of the decisions in `make evaluate`, with shifted submissions.
REPLAYS ?= 10

.PHONY: help build test check check-models test-models bench train evaluate control-plane
.NOTPARALLEL:

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

build: ## build the release binary, target/release/prophet
	cargo build --release --locked --features full

test: ## run the checks, then all tests; prints the minutes of each part
	@part() { local start=$$SECONDS; "$${@:2}"; times+="$$(awk -v part="$$1" -v s="$$((SECONDS - start))" 'BEGIN { printf "\n  %-8s %5.1f min", part, s / 60 }')"; }; \
	times=; \
	part tools $(MAKE) --no-print-directory $(DENY); \
	part cluster $(MAKE) --no-print-directory control-plane; \
	part python $(MAKE) --no-print-directory $(MODELS_PYTHON); \
	part check $(MAKE) --no-print-directory check; \
	part build cargo test --workspace --all-features --locked --no-run; \
	part tests cargo test --workspace --all-features --locked --no-fail-fast; \
	part models $(MAKE) --no-print-directory test-models; \
	echo "minutes:$$times"

check: $(DENY) check-models ## check the format, clippy, and the licences, bans and sources of dependencies
	cargo fmt --all --check
	cargo clippy --workspace --all-features --all-targets --locked -- --deny warnings
	$(DENY) --log-level error check licenses bans sources
	@if $(DENY) --log-level off fetch db >/dev/null 2>&1; then $(DENY) --log-level error check advisories; \
	else echo "advisories: not checked, because their database cannot be downloaded"; fi

check-models: $(MODELS_PYTHON) ## check the format, lints and types of models/
	cd models && $(MODELS_PYTHON)/bin/ruff format --no-cache --check . && $(MODELS_PYTHON)/bin/ruff check --no-cache .
	cd models && $(MODELS_PYTHON)/bin/mypy --cache-dir $(MODELS_PYTHON)/mypy-cache *.py

test-models: $(MODELS_PYTHON) ## run the tests of models/
	cd models && $(MODELS_PYTHON)/bin/python -m pytest -q -p no:cacheprovider

bench: control-plane $(MODELS_PYTHON) ## measure packing, simulation, watches, reaction time and models
	cargo bench --workspace --all-features --locked
	PROPHET_ONNX_RUNTIME="$$(echo $(MODELS_PYTHON)/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.*)" \
	cargo bench --workspace --all-features --locked --bench onnx

train: $(MODELS_PYTHON) ## train the shipped model on the public logs in TRACES=dir; it and its figures go to target/models
	cargo build --release --locked
	models/pretrain target/release/prophet $(TRACES) target/models $(MODELS_PYTHON)/bin/python $(SEEDS)

evaluate: $(MODELS_PYTHON) ## write docs/evaluation.md: all policies and forecasters on the public logs in TRACES=dir, REPLAYS times
	cargo build --release --locked
	PROPHET_ONNX_RUNTIME="$$(echo $(MODELS_PYTHON)/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.*)" \
	evaluation/run target/release/prophet $(TRACES) $(REPLAYS) docs

control-plane: $(PROGRAMS) $(CONTROL_PLANE)/stages $(CONTROL_PLANE)/crds $(CONTROL_PLANE)/python ## build the cluster parts that the tests run, or take them from KUBEBUILDER_ASSETS=dir

# $(call program,MODULE,PACKAGE,LDFLAGS): links the program from KUBEBUILDER_ASSETS if it is there;
# otherwise builds it with Go.
define program
@mkdir -p $(@D)
@if [[ -x "$${KUBEBUILDER_ASSETS:-/none}/$(@F)" ]]; then ln -sf "$$(realpath "$$KUBEBUILDER_ASSETS")/$(@F)" $@; \
else $(need_go); echo "building $(@F)"; \
(cd $(MODULES)/$(1) && go build -trimpath -ldflags="-s -w $(3)" -o $@.new $(2)) && touch $@.new && mv $@.new $@; fi
endef

# The linker flag that sets the version of the Kubernetes binaries. Without it they have no version,
# and helm reads the version of the API server.
kubernetes_version = -X k8s.io/component-base/version.gitVersion=$$(go list -m -f '{{.Version}}' k8s.io/kubernetes)

# $(call module_files,MODULE,GO MODULE,FILES...): copies files of a Go module into a folder.
define module_files
@rm -rf $@ && mkdir -p $@ && $(need_go)
@cd $(MODULES)/$(1) && go mod download $(2) && folder="$$(go list -m -f '{{.Dir}}' $(2))" && \
for file in $(3); do install -m 644 "$$folder"/$$file $@/; done
endef

need_go = command -v go >/dev/null || { echo "make control-plane needs Go (https://go.dev/dl), which is not on the PATH" >&2; exit 1; }

$(CONTROL_PLANE)/bin/etcd: $(MODULES)/kubernetes/go.mod
	$(call program,kubernetes,go.etcd.io/etcd/server/v3)

$(addprefix $(CONTROL_PLANE)/bin/,$(filter kube%,$(KUBERNETES))): $(MODULES)/kubernetes/go.mod
	$(call program,kubernetes,k8s.io/kubernetes/cmd/$(@F),$(kubernetes_version))

$(CONTROL_PLANE)/bin/kwok: $(MODULES)/kwok/go.mod
	$(call program,kwok,sigs.k8s.io/kwok/cmd/kwok)

$(CONTROL_PLANE)/bin/karpenter: $(MODULES)/karpenter/go.mod
	$(call program,karpenter,sigs.k8s.io/karpenter/kwok)

$(CONTROL_PLANE)/bin/helm: $(MODULES)/helm/go.mod
	$(call program,helm,helm.sh/helm/v4/cmd/helm)

$(CONTROL_PLANE)/stages: $(MODULES)/kwok/go.mod
	$(call module_files,kwok,sigs.k8s.io/kwok,$(addprefix kustomize/stage/,node/fast/node-*.yaml node/heartbeat-with-lease/node-*.yaml pod/fast/pod-*.yaml))

$(CONTROL_PLANE)/crds: $(MODULES)/karpenter/go.mod
	$(call module_files,karpenter,sigs.k8s.io/karpenter,kwok/charts/crds/*.yaml kwok/apis/crds/*.yaml)

$(CONTROL_PLANE)/python: $(MODULES)/requirements.txt
	@command -v python3 >/dev/null || { echo "make control-plane needs Python 3, which is not on the PATH" >&2; exit 1; }
	@rm -rf $@ $@.new && mkdir -p $(@D)
	python3 -m venv $@
	@$@/bin/python -m pip install --quiet --disable-pip-version-check --requirement $< || { rm -rf $@; exit 1; }
	@touch $@

$(MODELS_PYTHON): models/requirements.txt
	@command -v python3 >/dev/null || { echo "models/ needs Python 3, which is not on the PATH" >&2; exit 1; }
	@rm -rf $@ && mkdir -p $(@D)
	python3 -m venv $@
	@$@/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --requirement $< || { rm -rf $@; exit 1; }
	@touch $@

$(DENY):
	@if command -v cargo-deny >/dev/null && [[ "$$(cargo-deny --version)" == "cargo-deny $(CARGO_DENY_VERSION)" ]]; then \
	mkdir -p $(@D) && ln -sf "$$(command -v cargo-deny)" $@; \
	else cargo install cargo-deny --version $(CARGO_DENY_VERSION) --locked --root $(TOOLS); fi
