# The two commands that do everything: `make run` and `make test`.
#
#   make run                    serve the demo film, and print the addresses
#   make run FILMS=/srv/films   serve your own; LISTEN=lan opens the server to the network
#   make test                   every test, against real players

export FILMS ?= assets/demo.mp4
LISTEN ?= loopback
ARGS ?=

.PHONY: run test build web check clean

# FILMS goes through the environment, so that its name may hold spaces and quotes; not every shell
# has replaced a ~ behind a = by then.
run: build
	@case $$FILMS in "~/"*) FILMS=$$HOME/$${FILMS#"~/"} ;; esac; \
	exec "$${CARGO_TARGET_DIR:-target}/release/reelway" serve --listen $(LISTEN) $(ARGS) -- "$$FILMS"

build: web
	@scripts/need cargo cc
	cargo build --release --locked --package reelway

web:
	@scripts/need node npm
	@scripts/build-web

test:
	@scripts/test

# Formatting, lints, documentation, the style of texts (docs/development/style.md) and what the crates may do
# (docs/development/testing.md).
check:
	cargo fmt --all --check
	cargo test --quiet --package reelway-tests --test words --locked
	cargo test --quiet --package reelway-structure --test workspace --locked
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --manifest-path fuzz/Cargo.toml --target-dir target --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

clean:
	cargo clean
	rm -rf web/dist web/node_modules
