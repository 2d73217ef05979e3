#!/bin/sh
# newest.sh [FLAG…]: run all end-to-end stories with the newest published version of each
# harness, and print which stories hold, which capabilities each version has, and what
# failed or was skipped. Like `make e2e` it plays a few stories that fail once more. The exit code is that of the
# stories.
set -u
out=$(mktemp)
trap 'rm -f "$out"' EXIT
E2E_NEWEST=1 go tool gotestsum --format standard-verbose --format-icons text --rerun-fails=1 --rerun-fails-max-failures=6 \
	--packages=./e2e -- -tags e2e -count=1 -timeout 60m "$@" >"$out" 2>&1
code=$?
grep -F '***' "$out" || true
results=$(mktemp)
trap 'rm -f "$out" "$results"' EXIT
for harness in 'claude Claude Code' 'codex Codex' 'gemini Gemini CLI' 'opencode OpenCode'; do
	program=.harnesses-newest/node_modules/.bin/${harness%% *}
	version=$(HOME=$(mktemp -d) timeout 60 "$program" --version 2>/dev/null | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)
	echo "version ${harness#* } ${version:-missing}"
done | tee "$results"
echo
# A story that was played again has two lines; the last one counts. A test with stories is
# no story itself.
grep -E '^ *--- (PASS|FAIL|SKIP): Test' "$out" | grep -v '^        ' |
	sed -E 's/^ *--- PASS: (.*) \(.*/holds \1/; s/^ *--- FAIL: (.*) \(.*/CHANGED \1/; s/^ *--- SKIP: (.*) \(.*/skipped \1/' |
	awk '{ last[$2] = $1; if (sub("/.*", "", $2)) parts[$2] = 1 } END { for (story in last) if (!(story in parts)) printf "%-8s %s\n", last[story], story }' | sort |
	tee -a "$results"
echo
awk -f scripts/capabilities.awk docs/harnesses/stories.md "$results"
echo
sed -n '/^=== \(Skipped\|Failed\)/,$p' "$out"
exit "$code"
