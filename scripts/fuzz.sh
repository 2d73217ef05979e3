#!/bin/sh
# fuzz.sh [TIME]: each fuzz target for TIME; go fuzzes one target at a time. The
# targets are found, not listed: a new one is fuzzed from its first commit on. A
# finding is kept by go under the package's testdata/fuzz, and ends the run.
# An input of many kilobytes would be minimized for a minute each, so that is cut
# short. A format that is new or was changed gets `make fuzz FUZZTIME=2m`.
set -eu
time=${1:-10s}

grep -r -o -E --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sort | while IFS=: read -r file func; do
	dir=$(dirname "$file") target=${func#func }
	echo "fuzz $dir $target $time"
	go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x "$dir" </dev/null || exit 1
done
