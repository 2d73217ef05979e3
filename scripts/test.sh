#!/bin/sh
# test.sh [FLAG…] PACKAGE…: run go test, with the race detector if it works here.
# The race detector needs cgo and so a C compiler; nothing else here does.
# gotestsum prints at the end which tests were skipped and why, which go test does
# not print.
set -eu

tests="go tool gotestsum --format pkgname --format-icons text --"

probe() {
	printf '#include <pthread.h>\nint main(void) { return 0; }\n' | ${CC:-$(go env CC)} -x c - -o /dev/null 2>/dev/null
}

if ! probe; then
	echo "race detector: off (no C compiler)"
	CGO_ENABLED=0 exec $tests "$@"
fi
if ! CGO_ENABLED=1 go test -race -run '^$' ./session >/dev/null 2>&1; then
	echo "race detector: off (it fails on this machine; for the reason run: go test -race ./session)"
	CGO_ENABLED=0 exec $tests "$@"
fi
echo "race detector: on"
CGO_ENABLED=1 exec $tests -race "$@"
