//go:build linux

package main

import "time"

// start measures the cost of wrapping the shortest program, from start to exit:
// launch, session, receipts.
func start(b *bench) []row {
	run := func(argv ...string) func(int) time.Duration {
		return func(int) time.Duration {
			began := time.Now()
			return open(b.command(argv...)).close().Sub(began)
		}
	}
	t := inTurn(b.rounds, run("true"), run(b.below("true")...), run(b.wrap, "run", "--no-ledger", "--", "true"), run(b.program("floor"), "true"))
	return []row{
		t.pairs(0, 3).extraRow("time of the program \"true\": in a minimal pty loop, compared with a direct start"),
		t.pairs(0, 1).extraRow("time of the program \"true\": wrapped, compared with a direct start"),
		t.pairs(0, 2).extraRow("time of the program \"true\": wrapped with --no-ledger, compared with a direct start"),
	}
}
