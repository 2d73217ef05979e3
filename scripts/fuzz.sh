#!/bin/sh
# fuzz.sh [TIME]: run every fuzz target for TIME, one after another. The targets
# are found by their names, so a new one needs no entry here. A failing input is
# saved by go in the package's testdata/fuzz and ends the run. Minimizing is
# limited, because it takes a minute for an input of many kilobytes. After a change
# to a format, run `make fuzz FUZZTIME=2m`.
set -eu
time=${1:-10s}

grep -r -o -E --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sort | while IFS=: read -r file func; do
	dir=$(dirname "$file") target=${func#func }
	echo "fuzz $dir $target $time"
	go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x "$dir" </dev/null || exit 1
done
