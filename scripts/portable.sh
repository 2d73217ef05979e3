#!/bin/sh
# portable.sh: go vet for macOS. Every package must type-check there, except
# those that ARCHITECTURE.md lists in its line "Built on Linux only:".
set -eu

excepted=$(sed -n 's/^Built on Linux only: *//p' ARCHITECTURE.md | tr -d '`.' | tr ' ' '\n' | grep . | sort)
linux=$(GOOS=linux go list ./... | sort)
other=$(GOOS=darwin GOARCH=arm64 go list ./... | sort)
missing=$(printf '%s\n' "$linux" | while read -r p; do
	printf '%s\n' "$other" | grep -qx "$p" || echo "${p#*/}"
done)
if [ "$missing" != "$excepted" ]; then
	echo "portable.sh: packages without a file for darwin: $(echo $missing); ARCHITECTURE.md lists: $(echo $excepted)" >&2
	exit 1
fi
GOOS=darwin GOARCH=arm64 exec go vet ./...
