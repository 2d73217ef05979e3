#!/bin/sh
# dead.sh PACKAGE…: print each function that no program reaches and fail if there
# is one. A function that only tests call is dead too, except in internal/mock,
# testdata and packages named for a test, which exist for tests.
set -eu

dead=$(go tool deadcode "$@" | grep -v -E '^(internal/mock|testdata|[^:]*test)/' || true)
unused=$(go tool deadcode -test -tags e2e "$@")
if [ -n "$dead$unused" ]; then
	printf '%s\n' "$dead" "$unused" | grep . | sort -u
	exit 1
fi
