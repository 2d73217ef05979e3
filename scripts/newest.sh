#!/bin/sh
# newest.sh: run all end-to-end stories with the newest published version of each
# harness, and print which stories hold. The exit code is that of the stories.
set -u
out=$(mktemp)
trap 'rm -f "$out"' EXIT
E2E_NEWEST=1 go test -tags e2e -count=1 -v -timeout 60m ./e2e >"$out" 2>&1
code=$?
grep -F '***' "$out" || true
for name in claude codex gemini opencode; do
	program=.harnesses-newest/node_modules/.bin/$name
	version=$(HOME=$(mktemp -d) timeout 60 "$program" --version 2>/dev/null | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)
	echo "$name ${version:-is not installed}"
done
echo
grep -E '^ *--- (PASS|FAIL|SKIP): Test[A-Za-z]+/' "$out" | grep -v '^        ' |
	sed -E 's/^ *--- PASS: (.*) \(.*/holds    \1/; s/^ *--- FAIL: (.*) \(.*/CHANGED  \1/; s/^ *--- SKIP: (.*) \(.*/skipped  \1/' | sort | uniq
echo
tail -n 1 "$out"
[ "$code" = 0 ] || grep -E -A12 '_test.go:[0-9]+: ' "$out" | head -n 200
exit "$code"
