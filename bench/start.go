//go:build linux

package main

import "time"

// start measures the cost of wrapping the shortest program, from start to exit:
// launch, session, receipts.
func start(b *bench) ([]row, error) {
	run := func(argv ...string) (time.Duration, error) {
		began := time.Now()
		s, err := open(b.command(argv...))
		if err != nil {
			return 0, err
		}
		ended, err := s.close()
		return ended.Sub(began), err
	}
	var bare, unrecorded, loop pairs
	for range b.rounds {
		direct, err := run("true")
		if err != nil {
			return nil, err
		}
		wrapped, err := run(b.below("true")...)
		if err != nil {
			return nil, err
		}
		noLedger, err := run(b.wrap, "run", "--no-ledger", "--", "true")
		if err != nil {
			return nil, err
		}
		floor, err := run(b.program("floor"), "true")
		if err != nil {
			return nil, err
		}
		bare.add(direct, wrapped)
		unrecorded.add(direct, noLedger)
		loop.add(direct, floor)
	}
	return []row{
		loop.extraRow("true in a minimal pty loop − direct"),
		bare.extraRow("true wrapped − direct"),
		unrecorded.extraRow("true wrapped, --no-ledger − direct"),
	}, nil
}
