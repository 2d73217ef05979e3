#!/bin/sh
# verify-ledger.sh FOLDER: checks a session's ledger with ordinary tools only.
# Every line contains the SHA-256 of its other bytes, and that of the line before.
set -eu
cat "$1"/ledger-*.jsonl | {
	n=0 prev=sha256:0000000000000000000000000000000000000000000000000000000000000000
	while IFS= read -r line; do
		n=$((n + 1))
		sum=$(printf %s "$line" | sed -E 's/"digest":"[^"]*",("kind":"[^"]*","prev":"[^"]*","seq":[0-9]+\})$/\1/' | sha256sum)
		have=$(printf %s "$line" | jq -r '"\(.seq) \(.prev) \(.digest)"')
		want="$n $prev sha256:${sum%% *}"
		[ "$have" = "$want" ] || { echo "line $n is not what was written" >&2; exit 1; }
		prev=sha256:${sum%% *}
	done
	[ "$n" -gt 0 ] || { echo "no entries in $1" >&2; exit 1; }
	echo "ok: $n entries, last $prev"
}
