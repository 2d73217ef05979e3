//go:build linux

package main

import (
	"fmt"
	"time"
)

// keys is the number of keys per round and program.
const keys = 60

// echo measures the time of a key to the program and back to the screen. A client
// must not slow it, so the same program is measured with a client that sleeps. It is
// also compared with itself, which shows the noise.
func echo(b *bench) ([]row, error) {
	inner := b.faked(`{"print":"ready"}{"echo_until":"q"}`)
	sleeper := append([]string{b.wrap, "run", "--client", "sleeper=sleep 30", "--client-drain", "1ms", "--"}, inner...)
	var self, client, floor pairs
	for round := range b.rounds {
		programs := [][]string{b.below(inner...), b.below(inner...), sleeper, append([]string{b.program("floor")}, inner...)}
		took, err := b.typeByTurns(programs, round)
		if err != nil {
			return nil, err
		}
		self.add(took[0], took[1])
		client.add(took[0], took[2])
		floor.add(took[3], took[0])
	}
	withClient := client.ratioRow("echo of a key: with a client that sleeps 30 s / without a client")
	limit := max(1.05, at(self.ratios(), 0.75))
	withClient = withClient.atMost(limit, &client)
	withClient.target = fmt.Sprintf("≤ 1.05 or %.3f", at(self.ratios(), 0.75))
	return []row{
		self.ratioRow("echo of a key: the same program / itself"),
		withClient,
		floor.ratioRow("echo of a key: without a client / a minimal pty loop"),
	}, nil
}

// typeByTurns starts all programs, sends keys to them in turn, and returns the median
// time of a key for each. Each round starts with another program.
func (b *bench) typeByTurns(programs [][]string, round int) ([]time.Duration, error) {
	var screens []*screen
	defer func() {
		for _, s := range screens {
			s.kill()
		}
	}()
	for _, argv := range programs {
		s, err := open(b.command(argv...))
		if err != nil {
			return nil, err
		}
		screens = append(screens, s)
		if err := s.until("ready"); err != nil {
			return nil, err
		}
	}
	for _, s := range screens {
		// If the terminal is not in raw mode yet, the first key comes back twice.
		if _, err := s.tty.Write([]byte("x")); err != nil {
			return nil, err
		}
		if err := s.until("x"); err != nil {
			return nil, err
		}
		if err := s.settle(); err != nil {
			return nil, err
		}
	}
	took := make([][]time.Duration, len(screens))
	key := []byte("x")
	for turn := range keys {
		for i := range screens {
			which := (i + turn + round) % len(screens)
			tty := screens[which].tty
			began := time.Now()
			if _, err := tty.Write(key); err != nil {
				return nil, err
			}
			if _, err := tty.Read(key); err != nil {
				return nil, fmt.Errorf("%q: %w", programs[which], err)
			}
			took[which] = append(took[which], time.Since(began))
		}
	}
	var medians []time.Duration
	for _, t := range took {
		medians = append(medians, median(t))
	}
	return medians, nil
}
