# `make` alone says what there is.
.DEFAULT_GOAL := help
SUDO := $(shell test "$$(id -u)" = 0 || echo sudo)
TARGET := $(or $(CARGO_TARGET_DIR),target)
HOST := $(shell rustc -vV | sed -n 's/^host: //p')
# Where crates and the checkout are is not in the program, which is then the same wherever it is built.
CARGO_FILES := $(or $(CARGO_HOME),$(HOME)/.cargo)
NO_PATHS := --remap-path-prefix=$(CARGO_FILES)=cargo --remap-path-prefix=$(CURDIR)=mosb
IMAGE ?= mosb.local/mosb:dev
MINIMUM_RUST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

# What `make packages` installs: lists, one name a line.
PACKAGES = tests/harness/debian-packages

# Half of the time they wait for a pod, a time limit or a back-off, but each has a node of its own, which costs processor
# time while it waits: on 2 processors, four tests at once take longer than two. The harness has nodes of each kind for 4.
export CLUSTER_TESTS ?= $(shell n=$$(nproc); echo $$((n > 4 ? 4 : n < 2 ? 2 : n)))

# What `make test` runs of `rollout`: at least five stories of machines, in two tests of some minutes.
export LAB_STORIES = rollout_story:: single_node_story::

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

.PHONY: demo
demo: ## the main job in one go, on a small base image: no server, no root
	cargo build --profile demo --package mosb --no-default-features --features demo --bin mosb --bin demo
	cargo run --profile demo --package mosb --no-default-features --features demo --quiet --bin demo

.PHONY: demo-cluster
demo-cluster: image ## the same in a cluster: a real Kubernetes node, mosb on it, a pool that changes (root, Go 1.21 or newer)
	cargo run --quiet --package mosb-tests --bin parts > $(TARGET)/image/parts
	cargo run --package mosb --features demo --quiet --bin demo-cluster -- \
		$(TARGET)/image/parts $(TARGET)/image/mosb.tar $(TARGET)/$(HOST)/release/mosb

.PHONY: build
build: ## the program, as target/release/mosb
	cargo build --release --package mosb

.PHONY: image
image: packages ## what clusters run, named by IMAGE=registry/repository:tag, as target/image/mosb.tar (OCI archive), with its SBOM
	RUSTFLAGS='-C target-feature=+crt-static $(NO_PATHS)' cargo build --release --package mosb --bin mosb --target $(HOST)
	rm -rf $(TARGET)/image && mkdir -p $(TARGET)/image
	containerfiles/image root $(TARGET)/image/root
	containerfiles/image archive $(TARGET)/image/root $(TARGET)/$(HOST)/release/mosb $(IMAGE) $(TARGET)/image/mosb.tar
	containerfiles/sbom $(TARGET)/image/root $(TARGET)/image/mosb.cdx.json

.PHONY: test
test: PARTS = --fuzz
test: packages parts ## each fact once, on real parts (needs root, Go 1.21 or newer); where CI is set it names only what failed
	cargo build --quiet --bin mosb
	cargo test $(if $(CI),--quiet) --no-run
	@tests/more-inotify tests/all-programs

.PHONY: test-all
test-all: PARTS = --fuzz --cluster-api --test-all --vm
test-all: PACKAGES += tests/harness/debian-packages-vm
test-all: packages parts ## everything: each write of each story, all machines, Cluster API, a virtual machine (needs root, Go 1.21 or newer, QEMU, x86-64)
	cargo build --quiet --bin mosb
	cargo test $(if $(CI),--quiet) --no-run
	@tests/more-inotify tests/all-programs all

.PHONY: test-rollout
test-rollout: packages parts ## machines that take images and reboot into them (needs root, Go 1.21 or newer)
	cargo build --quiet --bin mosb
	tests/more-inotify tests/in-memory cargo test --no-fail-fast --test rollout -- --test-threads=1

.PHONY: test-cluster-api
test-cluster-api: PARTS = --cluster-api
test-cluster-api: packages parts ## boot images with Cluster API's own controllers, which roll machines (needs root, Go 1.21 or newer)
	cargo build --quiet --bin mosb
	tests/more-inotify tests/in-memory cargo test --no-fail-fast --test cluster_api -- --test-threads=2

.PHONY: test-vm
test-vm: PACKAGES += tests/harness/debian-packages-vm
test-vm: PARTS = --only-vm
test-vm: packages parts ## a virtual machine boots images and kernel arguments of ours, and goes back (QEMU, x86-64, root)
	cargo build --quiet --bin mosb
	tests/in-memory cargo test --test vm -- --include-ignored --nocapture --test-threads=1

.PHONY: quick
quick: ## what needs neither root nor Go, in minutes: unit tests, the command line, a registry (Debian's docker-registry)
	cargo build --quiet --bin mosb
	cargo test --no-fail-fast --lib --test cli --test registry

.PHONY: unit
unit: ## what needs nothing, in seconds
	cargo test --lib

.PHONY: msrv
msrv: ## compiles everything with the oldest Rust that is supported, `rust-version` in Cargo.toml
	rustc --version | grep -F ' $(MINIMUM_RUST).' || { \
		rustup toolchain install --profile minimal $(MINIMUM_RUST) && cargo +$(MINIMUM_RUST) check --all-targets --features mosb/demo; }

.PHONY: check
check: msrv ## format, lints, documentation, generated files, licences
	cargo fmt --all --check
	cargo clippy --all-targets --features mosb/demo -- -D warnings
	cargo clippy --package mosb --bins -- -D warnings
	cargo clippy --package mosb --no-default-features --features demo --bins -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --no-deps
	cargo test --quiet --test cli -- dependencies:: documentation::

.PHONY: fix
fix: ## format, and what clippy can mend by itself
	cargo clippy --fix --allow-dirty --allow-staged --all-targets
	cargo fmt --all

.PHONY: golden
golden: ## writes the wanted outputs of golden tests anew, to be read in review
	UPDATE_EXPECT=1 cargo test --lib

.PHONY: generate
generate: ## writes generated reference files anew: JSON Schemas, command-line help
	UPDATE_EXPECT=1 cargo test --lib generated

.PHONY: bench
bench: packages parts ## measures, and writes docs/performance.md (root, half an hour, 20 GB of disk)
	cargo bench --bench bench

.PHONY: fuzz
fuzz: ## fuzzes each target for SECONDS (600)
	MOSB_FUZZ_SECONDS=$(or $(SECONDS),600) cargo test --test oracle -- --nocapture fuzz::

.PHONY: soak
soak: ## random events, kills and faults for MINUTES (30), the same ones again by SEED (root)
	MOSB_SOAK_SECONDS=$$(( $(or $(MINUTES),30) * 60 )) MOSB_SOAK_SEED=$(or $(SEED),$(shell date +%s)) \
		cargo test --test cluster -- --nocapture soak::

.PHONY: packages
packages: ## installs the Debian packages that the tests use and the machine lacks
	@missing=$$(for p in $$(cat $(PACKAGES)); do dpkg -s $$p >/dev/null 2>&1 || echo $$p; done); \
	test -z "$$missing" || { $(SUDO) apt-get update && $(SUDO) apt-get install -y --no-install-recommends $$missing; }

.PHONY: parts
parts: ## builds the Go and Rust programs that the tests use, outside the checkout (12 minutes, once)
	cargo run --quiet --package mosb-tests --bin parts -- $(PARTS)

.PHONY: clean
clean: ## removes what was built here; the parts stay
	cargo clean
