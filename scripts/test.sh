#!/bin/sh
# test.sh [FLAG…]: run all tests, with the race detector where it works and can
# find something. The tag lifeloopdebug checks every document at run time.
# gotestsum prints at the end which tests were skipped and why, which go test does
# not print.
set -eu

# Pure packages start no goroutine and share no variable, and the race detector
# makes them seven times slower. archtest and contracttest only read this repository.
# The scripts of cmd start the whole program some thousand times, which the detector
# makes four times slower; `make race` has them. Their goroutines are those of the
# supervisor, the control socket and the harness, whose tests run with the detector.
calm=$(for p in $(cat internal/archtest/pure.txt) internal/archtest internal/contracttest cmd/lifeloop-wrap; do
	[ ! -d "$p" ] || echo "./$p"
done)
others=$(go list ./... | sed "s|^$(go list -m)|.|" | grep -vxF "$calm")

# Many tests wait for processes, so more packages, and more tests of a package, run at
# once than there are processors.
processors=$(getconf _NPROCESSORS_ONLN)
tests() {
	go tool gotestsum --format pkgname --format-icons text -- -timeout 30m -tags lifeloopdebug -p "$((processors * 2))" -parallel "$((processors * 2))" "$@"
}

# The race detector needs cgo and so a C compiler; nothing else here does.
probe() {
	printf '#include <pthread.h>\nint main(void) { return 0; }\n' | ${CC:-$(go env CC)} -x c - -o /dev/null 2>/dev/null
}

status=0
export CGO_ENABLED=0
tests "$@" $calm || status=1
if ! probe; then
	echo "race detector: off (no C compiler)"
elif ! CGO_ENABLED=1 go test -race -run '^$' ./session >/dev/null 2>&1; then
	echo "race detector: off (it fails on this machine; for the reason run: go test -race ./session)"
else
	echo "race detector: on"
	CGO_ENABLED=1
	set -- -race "$@"
fi
tests "$@" $others || status=1
exit $status
