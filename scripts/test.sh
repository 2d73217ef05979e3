#!/bin/sh
# test.sh [FLAG…]: run all tests, with the race detector where it works and can
# find something. The tag lifeloopdebug checks every document at run time.
# gotestsum prints at the end which tests were skipped and why, which go test does
# not print.
set -eu

# Two processes of go test run side by side, because many tests wait for processes. Only
# one of them has the race detector. It needs cgo and so a C compiler; nothing else here
# does. go vet is left to `make lint`.
tests() {
	processors=$(getconf _NPROCESSORS_ONLN)
	go tool gotestsum --format pkgname --format-icons text -- -vet=off -timeout 30m -tags lifeloopdebug -p "$processors" -parallel "$((processors * 2))" "$@"
}

# Pure packages start no goroutine and share no variable, and the race detector
# makes them seven times slower. archtest and contracttest only read this repository,
# and the examples are programs in other languages or a few lines long.
# The scripts of cmd start the whole program some thousand times, which the detector
# makes four times slower; `make race` has them. Their goroutines are those of the
# supervisor, the control socket and the harness, whose tests run with the detector.
# They come first because they take longest.
calm=$(for p in cmd/lifeloop-wrap $(cat internal/archtest/pure.txt) internal/archtest internal/contracttest examples; do
	[ ! -d "$p" ] || echo "./$p"
done)

case ${PART-} in
calm)
	CGO_ENABLED=0 tests "$@" $calm
	;;
others)
	others=$(go list ./... | sed "s|^$(go list -m)|.|" | grep -vxF "$calm")
	if [ -n "$RACE" ]; then
		CGO_ENABLED=1 tests -race "$@" $others >"$OUT" 2>&1
	else
		CGO_ENABLED=0 tests "$@" $others >"$OUT" 2>&1
	fi
	;;
*)
	if ! printf '#include <pthread.h>\nint main(void) { return 0; }\n' | ${CC:-$(go env CC)} -x c - -o /dev/null 2>/dev/null; then
		RACE= && echo "race detector: off (no C compiler)"
	elif ! CGO_ENABLED=1 go test -race -run '^$' ./session >/dev/null 2>&1; then
		RACE= && echo "race detector: off (it fails on this machine; for the reason run: go test -race ./session)"
	else
		RACE=1 && echo "race detector: on"
	fi
	OUT=$(mktemp)
	export RACE OUT
	trap 'rm -f "$OUT"' EXIT
	status=0
	# xargs and not &, after which a shell ignores the interrupt key, also in tests.
	printf 'calm\nothers\n' | xargs -P 2 -I {} env PART={} "$0" "$@" || status=1
	cat "$OUT"
	exit $status
	;;
esac
