# The tasks of this repository. A target is a few lines; longer ones call a script
# in scripts/. All but the e2e tasks need only Go and git.

# ./... does not match the two programs in testdata.
PACKAGES := ./... ./testdata/fakeharness ./testdata/fakeclient/...

.PHONY: build test race lint fmt cover fuzz chaos vuln bench soak demo e2e e2e-newest bench-real

build: # build the static binaries bin/lifeloop-wrap and bin/lifeloop-hook
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/...

test: # all tests that need no network, with the race detector if there is a C compiler
	scripts/test.sh $(TESTFLAGS)

race: # all tests with the race detector; an error if it cannot run
	go test -race $(TESTFLAGS) ./...

lint: # check format, go vet, staticcheck, go vet for macOS, dead code
	@"$$(go env GOROOT)/bin/gofmt" -l . | { ! grep .; }
	go vet -tags e2e $(PACKAGES) && go tool staticcheck -tags e2e $(PACKAGES)
	@scripts/portable.sh
	@scripts/dead.sh $(PACKAGES)

fmt: # format all Go files
	go fmt $(PACKAGES)

cover: # write cover.out and print the total
	go test -coverpkg=./... -coverprofile=cover.out ./... && go tool cover -func=cover.out | tail -n 1

fuzz: # run every fuzz target for FUZZTIME (default 10s); use FUZZTIME=2m after a change to a format
	scripts/fuzz.sh $(FUZZTIME)

chaos: # 10 to 30 minutes on two cores: WORLDS (50000) random worlds, a kill at every append, the fault matrix, every changed byte of evidence; prints what was tried and lost
	@scripts/chaos.sh $(WORLDS)

vuln: # search known vulnerabilities; says so where their database cannot be reached
	@scripts/vuln.sh $(PACKAGES)

bench: build # measure ratios to floors of the same run
	go run ./bench -wrap bin/lifeloop-wrap $(BENCHFLAGS)

soak: build # run turns at 30 a second for SOAK (default 10m); an error if the wrapper's memory grows
	go run ./bench/soak -wrap bin/lifeloop-wrap -for $(or $(SOAK),10m)

demo: build
	bin/lifeloop-wrap demo

# A harness does not behave alike in every run on a busy machine, so up to three stories
# that fail are played once more. The end of the output names each of them.
e2e: # run real harnesses from .harnesses against scripted models; prints what is missing
	go tool gotestsum --format standard-verbose --format-icons text --rerun-fails=1 --rerun-fails-max-failures=6 \
		--packages=./e2e -- -tags e2e -count=1 -timeout 60m

e2e-newest: # run the same stories with the newest published versions; prints which hold
	scripts/newest.sh

bench-real: # measure each real harness from its start to its prompt, alternately bare and wrapped
	@scripts/bench-real.sh $(PAIRS)
