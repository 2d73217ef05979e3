//go:build linux

// Command bench compares lifeloop-wrap with floors: minimal programs with the same
// effect. Both are measured in the same run and alternate, so that a busy machine
// slows both. The results are ratios and differences; the times beside them depend
// on the machine and its load.
//
// In the code, floor is the time of the minimal program, and ours that of
// lifeloop-wrap. A row "A, compared with B" has A in the column OURS and B in the column
// FLOOR. Its result is A divided by B, or, with a sign, A minus B. A row about a speed
// also has times in these columns, but its result is B divided by A.
//
//	go build -o bin/ ./cmd/...
//	go run ./bench -wrap bin/lifeloop-wrap
//	go run ./bench -wrap bin/lifeloop-wrap -only echo,hook -rounds 60
//
// It prints all results. Then it exits with 1 if a target is missed, and with 2 if a
// measurement failed. No test depends on it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// A row is one line of the table.
type row struct {
	what        string
	floor, ours string // the median times, or the memory, of the minimal program and of lifeloop-wrap
	ratio       string // ours divided by the floor, ours minus the floor, or, for a speed, the floor divided by ours
	median      float64
	spread      string // the lower and the upper quartile of the ratios or differences
	target      string
	missed      bool
}

// A bench is the state that all measurements share.
type bench struct {
	wrap   string // the program under test
	dir    string // the folder of all files that are written
	rounds int
}

type measurement struct {
	name string
	run  func(*bench) []row
}

var measurements = []measurement{
	{"echo", echo},
	{"hook", hook},
	{"guard", guardedTool},
	{"throughput", throughput},
	{"start", start},
	{"exit", exit},
	{"append", appends},
	{"catchup", catchup},
	{"beside", beside},
	{"follow", follow},
	{"wait", wait},
	{"past", past},
	{"long", long},
	{"memory", memory},
}

func main() {
	missed, err := run()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	case missed:
		fmt.Println("\na target was missed")
		os.Exit(1)
	}
}

func run() (missed bool, err error) {
	b := &bench{}
	flag.StringVar(&b.wrap, "wrap", "bin/lifeloop-wrap", "`program` to measure, with lifeloop-hook in the same folder")
	flag.IntVar(&b.rounds, "rounds", 24, "`number` of rounds; some measurements run a multiple or a fraction of it; the measurement echo needs at least 20")
	only := flag.String("only", "", "`names` of the measurements to run, separated by commas; default all")
	flag.Parse()
	chosen, err := choose(*only)
	if err != nil {
		return false, err
	}
	if b.wrap, err = filepath.Abs(b.wrap); err != nil {
		return false, err
	}
	if b.dir, err = os.MkdirTemp("", "lifeloop-bench-"); err != nil {
		return false, err
	}
	defer os.RemoveAll(b.dir)
	if err := b.build("bench/empty", "bench/floor", "bench/walk", "bench/reader", "testdata/fakeharness"); err != nil {
		return false, err
	}

	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Println("RATIO is OURS divided by FLOOR; for a speed it is FLOOR divided by OURS; a value with a sign is OURS minus FLOOR. MIDDLE HALF is the range between the quartiles of the same value.")
	fmt.Fprintln(table, "MEASUREMENT\tFLOOR\tOURS\tRATIO\tMIDDLE HALF\tTARGET\t")
	var errs []error
	for _, m := range chosen {
		fmt.Fprintf(os.Stderr, "%s…\n", m.name)
		rows, err := b.measure(m.run)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
		}
		for _, r := range rows {
			verdict := ""
			if r.missed {
				verdict, missed = "MISSED", true
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.what, r.floor, r.ours, r.ratio, r.spread, r.target, verdict)
		}
	}
	return missed, errors.Join(append(errs, table.Flush())...)
}

// choose returns the measurements with these names, separated by commas, or all.
func choose(only string) ([]measurement, error) {
	if only == "" {
		return measurements, nil
	}
	var chosen []measurement
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(measurements, func(m measurement) bool { return m.name == name })
		if i < 0 {
			var known []string
			for _, m := range measurements {
				known = append(known, m.name)
			}
			return nil, fmt.Errorf("there is no measurement %q: use some of %s", name, strings.Join(known, ","))
		}
		chosen = append(chosen, measurements[i])
	}
	return chosen, nil
}

// measure runs a measurement until its end or its first error.
func (b *bench) measure(run func(*bench) []row) (rows []row, err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case failure:
			err = v.error
		default:
			panic(v)
		}
	}()
	return run(b), nil
}

// failure is the panic value of the function must. (*bench).measure recovers it and
// returns its error, so that the measurements need no error handling.
type failure struct{ error }

// must ends the measurement if err is not nil.
func must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// got ends the measurement if err is not nil, and returns v otherwise.
func got[T any](v T, err error) T {
	must(err)
	return v
}
