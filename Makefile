# What there is to do here. A target is a line or two; what needs more is a
# script in scripts/. Go and git are enough for everything but e2e.

# Patterns do not reach into testdata, where two programs live.
PACKAGES := ./... ./testdata/fakeharness ./testdata/fakeclient/...

.PHONY: build test race lint fmt cover fuzz chaos bench demo e2e

build: # bin/lifeloop-wrap and bin/lifeloop-hook, static binaries
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/...

test: lint # everything that needs no network, with the race detector where there is a C compiler
	scripts/test.sh $(TESTFLAGS) ./...

race: # the tests, and an error where the race detector cannot run
	go test -race $(TESTFLAGS) ./...

lint: # formatting, go vet, staticcheck, go vet for macOS, dead code
	@"$$(go env GOROOT)/bin/gofmt" -l . | { ! grep .; }
	go vet -tags e2e $(PACKAGES) && go tool staticcheck -tags e2e $(PACKAGES)
	@scripts/portable.sh
	@scripts/dead.sh $(PACKAGES)

fmt:
	go fmt $(PACKAGES)

cover: # cover.out, and the total
	go test -coverpkg=./... -coverprofile=cover.out ./... && go tool cover -func=cover.out | tail -n 1

fuzz: # every fuzz target for FUZZTIME, 10s unless given; FUZZTIME=2m after a change to a format
	scripts/fuzz.sh $(FUZZTIME)

chaos: # WORLDS random worlds against every law, and somebody killed at every append of a session
	go test -count=1 -v -timeout 2h -run TestWorlds ./kernel -worlds $(or $(WORLDS),100000)
	go test -count=1 -v -timeout 1h -run TestKillMatrix ./cmd/lifeloop-wrap -kills 0

bench: build # ratios to a floor measured in the same run
	go run ./bench -wrap bin/lifeloop-wrap $(BENCHFLAGS)

demo: build
	bin/lifeloop-wrap demo

e2e: # real harnesses, installed into .harnesses, against scripted models; says what is missing
	go test -tags e2e -count=1 -v -timeout 20m ./e2e
