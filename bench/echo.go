//go:build linux

package main

import (
	"fmt"
	"time"
)

// keys is the number of keys per round and program.
const keys = 60

// echo measures the time from a key press until the program's echo is on the
// screen. A client must not slow this down, so the same program is measured with a
// client that sleeps. The program is also compared with itself, which shows the
// noise.
func echo(b *bench) []row {
	inner := b.faked(`{"print":"ready"}{"echo_until":"q"}`)
	sleeper := append([]string{b.wrap, "run", "--client", "sleeper=sleep 30", "--client-drain", "1ms", "--"}, inner...)
	programs := [][]string{b.below(inner...), b.below(inner...), sleeper, append([]string{b.program("floor")}, inner...)}
	t := make(times, len(programs))
	for round := range b.rounds {
		for i, took := range b.typeByTurns(programs, round) {
			t[i] = append(t[i], took)
		}
	}
	self := t.pairs(0, 1)
	noise := at(self.ratios(), 0.75)
	withClient := t.pairs(0, 2).ratioRow("time to echo a key, wrapped, with a client that sleeps 30 s, compared with no client").atMost(max(1.05, noise))
	withClient.target = fmt.Sprintf("≤ max(1.05, %.3f)", noise)
	return []row{
		self.ratioRow("time to echo a key, wrapped, measured twice: the noise of these measurements"),
		withClient,
		t.pairs(3, 0).ratioRow("time to echo a key, wrapped, without a client, compared with a minimal pty loop"),
	}
}

// typeByTurns starts all programs, sends keys to them in turn, and returns the median
// time of a key for each. Each round starts with another program.
func (b *bench) typeByTurns(programs [][]string, round int) (medians []time.Duration) {
	var screens []*screen
	for _, argv := range programs {
		s := open(b.command(argv...))
		defer s.kill()
		screens = append(screens, s)
		s.until("ready")
	}
	for _, s := range screens {
		// If the terminal is not in raw mode yet, the first key comes back twice.
		got(s.tty.WriteString("x"))
		s.until("x")
		s.settle()
	}
	took := make(times, len(screens))
	key := []byte("x")
	for turn := range keys {
		for i := range screens {
			which := (i + turn + round) % len(screens)
			tty := screens[which].tty
			began := time.Now()
			got(tty.Write(key))
			if _, err := tty.Read(key); err != nil {
				must(fmt.Errorf("%q: %w", programs[which], err))
			}
			took[which] = append(took[which], time.Since(began))
		}
	}
	for _, t := range took {
		medians = append(medians, median(t))
	}
	return medians
}
