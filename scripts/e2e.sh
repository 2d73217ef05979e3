#!/bin/sh
# The end-to-end tests: real harnesses, installed by npm into .harnesses, talk
# to a scripted model in python3. Without the two there is nothing to run, and
# this says so instead of failing.
set -eu

missing=
for tool in python3 npm; do
	"$tool" --version >/dev/null 2>&1 || missing="$missing $tool"
done
if [ -n "$missing" ]; then
	echo "############################################################"
	echo "e2e: SKIPPED, nothing was tested: not installed:$missing"
	echo "############################################################"
	exit 0
fi
if ! ls e2e/*_test.go >/dev/null 2>&1; then
	echo "e2e: SKIPPED, nothing was tested: e2e/ holds no tests"
	exit 0
fi
exec go test -tags e2e -count=1 -timeout 20m "$@" ./e2e/...
