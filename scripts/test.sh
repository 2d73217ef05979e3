#!/bin/sh
# test.sh [FLAG…] PACKAGE…: go test, with the race detector where it can run.
# It needs cgo, hence a C compiler, which nothing else here does. gotestsum
# prints at the end which tests were skipped, and why: go test alone keeps that
# to itself.
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
	echo "race detector: off (not on this machine: go test -race ./session says why)"
	CGO_ENABLED=0 exec $tests "$@"
fi
echo "race detector: on"
CGO_ENABLED=1 exec $tests -race "$@"
