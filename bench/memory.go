//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"lifeloop/internal/store/storetest"
)

// few and many are the numbers of entries of two sessions. mostMemory is the limit
// for the memory of a command that reads one of them, in KiB.
const (
	few, many  = 20_000, 200_000
	mostMemory = 64 << 10
)

// memory compares the peak resident memory of commands that read a long session
// with that of the same commands on a short one. Each command reads the ledger entry
// by entry, so its memory should not grow with the ledger.
func memory(b *bench) (rows []row) {
	state := b.program("long")
	ids := map[int]string{few: "11111111-1111-4111-8111-111111111111", many: "22222222-2222-4222-8222-222222222222"}
	for entries, id := range ids {
		must(storetest.Long(state, id, entries))
	}
	for _, words := range []string{"status", "receipts", "events --as hcp", "events --as l0", "run --resume"} { // run --resume is last, because it changes the sessions
		peak := func(entries int) int64 {
			return b.peak(append(append([]string{b.wrap}, strings.Fields(words)...), ids[entries]), state)
		}
		short, long := peak(few), peak(many)
		r := row{what: fmt.Sprintf("peak memory of %s with %d entries, compared with %d entries", words, many, few), floor: mebibytes(short), ours: mebibytes(long),
			median: float64(long) / float64(short), ratio: fmt.Sprintf("%.2f", float64(long)/float64(short)), spread: "-"}.atMost(1.5)
		r.missed = r.missed || long > mostMemory
		rows = append(rows, r)
	}
	return rows
}

func mebibytes(kib int64) string { return fmt.Sprintf("%.1f MiB", float64(kib)/1024) }

// peak runs a program to its end and returns the largest resident memory that was
// seen, in KiB.
func (b *bench) peak(argv []string, state string) (most int64) {
	cmd := b.command(argv...)
	cmd.Env = append(cmd.Env, "LIFELOOP_STATE_DIR="+state)
	must(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		if _, rest, found := strings.Cut(string(text), "VmHWM:"); found {
			most = max(most, got(strconv.ParseInt(strings.Fields(rest)[0], 10, 64)))
		}
		select {
		case err := <-ended:
			must(err)
			return most
		case <-time.After(5 * time.Millisecond):
		}
	}
}
