# warren: `make help` lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PREFIX  ?= /usr/local
DESTDIR ?=
# Where mount(8) looks for its helpers; empty: install none.
SBINDIR ?= /sbin
UNITDIR ?= $(PREFIX)/lib/systemd
ZSHDIR  ?= $(PREFIX)/share/zsh/site-functions
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)

# make fuzz: how long each fuzz target runs.
FUZZTIME ?= 20s
# make crash: how many crashes each test makes.
ROUNDS   ?= 50
# make attack: how many answers of each kind are timed at each door.
TIMES    ?= 20000
# make soak: how many operations, and how many inodes to measure memory with.
OPS      ?= 1000000
INODES   ?= 100000
# make everything: how long it lasts.
FOR      ?= 1h
# Which packages, and none later than BUDGET after the start: make test PKG=./backend/... BUDGET=10m
PKG      ?=
BUDGET   ?= 0

# Not a requirement of go.mod, whose list is what the program is built from.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Runs the tests, package after package (go doc ./scripts/suite).
SUITE  = @scripts/deps test && go build -o bin/suite ./scripts/suite && exec bin/suite -budget $(BUDGET)
# The same for one package at a length of its own. Every test runs in a temporary
# directory of its own, and must leave no mount and no process behind.
GOTEST := scripts/cleanly go test

.PHONY: help
help: ## list these targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## bin/warren
	@scripts/deps build
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/warren ./cmd/warren

.PHONY: demo
demo: ## from nothing to agents at work in one tree; KEEP=1 leaves it up
	@scripts/deps demo
	@$(MAKE) build
	@KEEP='$(KEEP)' scripts/demo

.PHONY: test
test: ## every package, long cases shortened
	$(SUITE) short $(PKG)

.PHONY: test-all
test-all: ## the suite with its long cases, then the short ones under the race detector and on one processor
	@status=0; for t in long race one; do $(MAKE) $$t || status=1; done; exit $$status

.PHONY: quick
quick: ## the packages that neither mount nor load the machine; unchanged ones are not run again
	$(SUITE) quick $(PKG)

.PHONY: long
long: ## the suite with its long cases
	$(SUITE) long $(PKG)

.PHONY: race
race: ## the suite under the race detector, long cases shortened
	$(SUITE) race $(PKG)

.PHONY: one
one: ## the suite with GOMAXPROCS=1, long cases shortened
	$(SUITE) one $(PKG)

.PHONY: lint
lint: ## gofmt, go vet, staticcheck
	@scripts/deps build
	@out=$$(gofmt -l .); [[ -z $$out ]] || { echo "gofmt would change:"; echo "$$out"; exit 1; } >&2
	go vet ./...
	go run $(STATICCHECK) -checks inherit,-ST1005 ./...

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME (20s)
	@go list ./... | while read -r pkg; do \
		go test -list '^Fuzz' "$$pkg" | grep '^Fuzz' | while read -r f; do \
			echo "+ go test -fuzz ^$$f\$$ $$pkg"; \
			scripts/cleanly go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) "$$pkg" </dev/null || exit 1; \
		done || exit 1; \
	done

.PHONY: posix
posix: ## go-fuse's POSIX tests on real mounts of every driver
	@scripts/deps test
	$(GOTEST) -count=1 -timeout 60m -v -run 'Posix|POSIX' ./fusefs/...

.PHONY: crash
crash: ## killed daemons and power cuts, each test ROUNDS times (50)
	@scripts/deps test
	$(GOTEST) -count=1 -timeout=0 -v ./scripts/crashtest -rounds $(ROUNDS)

.PHONY: soak
soak: ## OPS (1000000) mixed operations over four mounts with two restarts: nothing is lost, nothing grows
	@scripts/deps test
	$(GOTEST) -count=1 -timeout=0 -v ./scripts/soak -ops $(OPS) -inodes $(INODES)

.PHONY: lives
lives: ## mounts come and go in every way, beside a daemon that is ended again and again, FOR (1h)
	@scripts/deps test
	$(GOTEST) -count=1 -timeout=0 -v ./scripts/lifetest -for $(FOR)

.PHONY: attack
attack: ## what a soul may try: rights ended ROUNDS (50) times under it, and TIMES (20000) answers about hidden and absent paths
	@scripts/deps test
	$(GOTEST) -count=1 -timeout=0 -v ./scripts/attack -rounds $(ROUNDS) -times $(TIMES)

.PHONY: everything
everything: ## fsx, stress-ng, git, SQLite, listings and copies at once over three mounts, FOR (1h)
	@scripts/deps test
	$(GOTEST) -count=1 -timeout=0 -v -run TestEverything ./scripts/soak -for $(FOR)

.PHONY: cases
cases: ## the failures that users of other systems reported, on two real mounts
	@scripts/deps test
	$(GOTEST) -count=1 -timeout 60m -v ./scripts/casetest

.PHONY: work
work: ## real work in real mounts: tar, git, npm, Python, Go, SQLite, rsync, and kill -9 after each
	@scripts/deps test
	$(GOTEST) -count=1 -timeout 60m -v ./scripts/worktest

.PHONY: containers
containers: build ## agents in containers of runc, podman and bubblewrap, all at once (root, debootstrap)
	scripts/containers/try

.PHONY: bench
bench: ## compare with the native filesystem and installed peers; BENCH='--scale 0.1'
	@scripts/deps bench
	scripts/bench/bench $(BENCH)

.PHONY: ci
ci: ## lint, test, and as much of the rest as fits (.ci/run)
	.ci/run

.PHONY: install
install: build ## into PREFIX (/usr/local), below DESTDIR: program, man pages, completions, units, mount.warren
	umask 022 && install -D -m 0755 bin/warren '$(DESTDIR)$(PREFIX)/bin/warren'
	umask 022 && install -d -m 0755 '$(DESTDIR)$(PREFIX)/share/man/man1'
	umask 022 && bin/warren man --dir '$(DESTDIR)$(PREFIX)/share/man/man1'
	umask 022 && install -D -m 0644 scripts/package/mount.warren.8 '$(DESTDIR)$(PREFIX)/share/man/man8/mount.warren.8'
	umask 022 && install -d -m 0755 '$(DESTDIR)$(PREFIX)/share/bash-completion/completions' '$(DESTDIR)$(ZSHDIR)' \
		'$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d'
	umask 022 && bin/warren completion bash >'$(DESTDIR)$(PREFIX)/share/bash-completion/completions/warren'
	umask 022 && bin/warren completion zsh >'$(DESTDIR)$(ZSHDIR)/_warren'
	umask 022 && bin/warren completion fish >'$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/warren.fish'
	umask 022 && install -d -m 0755 '$(DESTDIR)$(UNITDIR)/system' '$(DESTDIR)$(UNITDIR)/user'
	umask 022 && sed 's|@BINDIR@|$(PREFIX)/bin|' scripts/package/warren.service >'$(DESTDIR)$(UNITDIR)/system/warren.service'
	umask 022 && sed 's|@BINDIR@|$(PREFIX)/bin|' scripts/package/warren-user.service >'$(DESTDIR)$(UNITDIR)/user/warren.service'
	$(if $(SBINDIR),umask 022 && install -d -m 0755 '$(DESTDIR)$(SBINDIR)')
	$(if $(SBINDIR),ln -sfn '$(PREFIX)/bin/warren' '$(DESTDIR)$(SBINDIR)/mount.warren')
	$(if $(SBINDIR),ln -sfn '$(PREFIX)/bin/warren' '$(DESTDIR)$(SBINDIR)/mount.fuse.warren')

.PHONY: uninstall
uninstall: ## what install put there
	rm -f '$(DESTDIR)$(PREFIX)/bin/warren' '$(DESTDIR)$(PREFIX)'/share/man/man1/warren{,-*}.1 \
		'$(DESTDIR)$(PREFIX)/share/man/man8/mount.warren.8' \
		'$(DESTDIR)$(PREFIX)/share/bash-completion/completions/warren' '$(DESTDIR)$(ZSHDIR)/_warren' \
		'$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/warren.fish' \
		'$(DESTDIR)$(UNITDIR)/system/warren.service' '$(DESTDIR)$(UNITDIR)/user/warren.service'
	$(if $(SBINDIR),rm -f '$(DESTDIR)$(SBINDIR)/mount.warren' '$(DESTDIR)$(SBINDIR)/mount.fuse.warren')

.PHONY: deb
deb: ## dist/warren_VERSION_ARCH.deb
	@scripts/deps deb
	rm -rf dist/root
	@$(MAKE) install DESTDIR=dist/root PREFIX=/usr SBINDIR=/usr/sbin ZSHDIR=/usr/share/zsh/vendor-completions
	scripts/package/deb dist/root '$(VERSION)'

.PHONY: trydeb
trydeb: deb ## install, serve and purge the package in a fresh Debian root (root, debootstrap)
	scripts/package/try dist/warren_*.deb

.PHONY: repro
repro: ## two builds in two directories give the same bytes, program and package
	scripts/package/repro '$(VERSION)'

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist
