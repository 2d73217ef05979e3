# The tasks of this repository. A target is a few lines; longer ones call a script
# in scripts/. All but e2e need only Go and git.

# ./... does not match the two programs in testdata.
PACKAGES := ./... ./testdata/fakeharness ./testdata/fakeclient/...

.PHONY: build test race lint fmt cover fuzz chaos bench demo e2e

build: # build the static binaries bin/lifeloop-wrap and bin/lifeloop-hook
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/...

test: lint # all tests that need no network, with the race detector if there is a C compiler
	scripts/test.sh $(TESTFLAGS) ./...
	go test -tags lifeloopdebug $(TESTFLAGS) ./supervisor # documents are checked at run time
	go test -tags lifeloopdebug $(TESTFLAGS) -run 'TestScripts/(run|host_hook|observe)_' ./cmd/lifeloop-wrap

race: # all tests with the race detector; an error if it cannot run
	go test -race $(TESTFLAGS) ./...

lint: # check format, go vet, staticcheck, go vet for macOS, dead code
	@"$$(go env GOROOT)/bin/gofmt" -l . | { ! grep .; }
	go vet -tags e2e $(PACKAGES) && go tool staticcheck -tags e2e $(PACKAGES)
	@scripts/portable.sh
	@scripts/dead.sh $(PACKAGES)

fmt:
	go fmt $(PACKAGES)

cover: # write cover.out and print the total
	go test -coverpkg=./... -coverprofile=cover.out ./... && go tool cover -func=cover.out | tail -n 1

fuzz: # run every fuzz target for FUZZTIME (default 10s); use FUZZTIME=2m after a change to a format
	scripts/fuzz.sh $(FUZZTIME)

chaos: # check WORLDS random worlds against every law, and kill a process at every append of a session
	go test -count=1 -v -timeout 2h -run TestWorlds ./kernel -worlds $(or $(WORLDS),100000)
	go test -count=1 -v -timeout 1h -run TestKillMatrix ./cmd/lifeloop-wrap -kills 0

bench: build # measure ratios to floors of the same run
	go run ./bench -wrap bin/lifeloop-wrap $(BENCHFLAGS)

demo: build
	bin/lifeloop-wrap demo

e2e: # run real harnesses from .harnesses against scripted models; prints what is missing
	go test -tags e2e -count=1 -v -timeout 20m ./e2e
