#!/usr/bin/env bash
# bench-real.sh [PAIRS]: measure each real harness from its start to its prompt,
# alternately bare and wrapped, in PAIRS pairs (9).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
E2E_BENCH=${1:-9} go test -tags e2e -count=1 -v -timeout 20m -run TestStartUp ./e2e |
	{ grep -E 'start-up|target|no prompt|^ok|FAIL' || true; }
