# Every recipe of the project. CI runs `make test` and nothing else.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Tools that are built from source, pinned.
CARGO_DENY_VERSION := 0.20.2
TOOLS := $(CURDIR)/target/tools
DENY := $(TOOLS)/bin/cargo-deny

# Where the job logs lie that `make evaluate` runs.
TRACES ?= traces

.PHONY: help build test check bench evaluate
.NOTPARALLEL:

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

build: ## the release binary, target/release/prophet
	cargo build --release --locked

test: ## check, then all tests; prints the minutes of each part
	@part() { local start=$$SECONDS; "$${@:2}"; times+="$$(awk -v part="$$1" -v s="$$((SECONDS - start))" 'BEGIN { printf "\n  %-8s %5.1f min", part, s / 60 }')"; }; \
	times=; \
	part tools $(MAKE) --no-print-directory $(DENY); \
	part check $(MAKE) --no-print-directory check; \
	part build cargo test --workspace --locked --no-run; \
	part tests cargo test --workspace --locked; \
	echo "minutes:$$times"

check: $(DENY) ## format, clippy, licences, bans and sources of dependencies
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- --deny warnings
	$(DENY) --log-level error check licenses bans sources
	@if $(DENY) --log-level off fetch db >/dev/null 2>&1; then $(DENY) --log-level error check advisories; \
	else echo "advisories: not checked, their database cannot be had from here"; fi

bench: ## how fast packing and simulating are
	cargo bench --workspace --locked

evaluate: build ## the tables of all policies over the public logs in TRACES=dir
	evaluation/run target/release/prophet $(TRACES)

$(DENY):
	@if command -v cargo-deny >/dev/null && [[ "$$(cargo-deny --version)" == "cargo-deny $(CARGO_DENY_VERSION)" ]]; then \
	mkdir -p $(@D) && ln -sf "$$(command -v cargo-deny)" $@; \
	else cargo install cargo-deny --version $(CARGO_DENY_VERSION) --locked --root $(TOOLS); fi
