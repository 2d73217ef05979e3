package synth_test

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lifeloop/synth"
	"lifeloop/telemetry"
)

// TestScenarios runs every file under testdata. A command is a signal, a step of time,
// or a call of New or of a method of State. The output of a command lists the reported
// observations. Update with go test ./synth -rewrite, and read the diff.
//
//	new [hooks] [estimates] [statusline] [infer] [window=NAME:TOKENS] [moderate=0.4] [hysteresis=0.1]
//	usage 160000 [of=200000:reported] [model=NAME] [estimate] [agent] [side] [at=-2s]
//	window 200000:statusline · live [model=NAME] [of=200000:table] · compacting · compacted half[:trigger[:before[:after]]] [agent] · prompt · stop · end · idle · fault
//	wait 500ms · flush · reset · resume · now
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var w world
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return w.command(t, d) })
	})
}

type world struct {
	s   *synth.State
	now time.Time
}

func (w *world) command(t *testing.T, d *datadriven.TestData) string {
	var observed []synth.Observation
	switch d.Cmd {
	case "new":
		w.s, w.now = synth.New(config(t, d)), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	case "wait":
		dur, err := time.ParseDuration(d.CmdArgs[0].Key)
		require.NoError(t, err)
		w.now = w.now.Add(dur)
		observed = w.s.Wake(w.now)
	case "flush":
		observed = w.s.Flush()
	case "reset":
		w.s.Reset()
	case "resume":
		w.s.Resume()
	case "now":
		now, ok := w.s.Now()
		return fmt.Sprintf("%v stale=%t known=%t\n", pressureText(now.Pressure), now.Stale, ok)
	default:
		sig := w.signal(t, d)
		observed = append(w.s.Before(sig), w.s.See(sig, w.now)...)
	}
	var b strings.Builder
	for _, o := range observed {
		b.WriteString(format(o))
	}
	if at, waits := w.s.Deadline(); waits {
		fmt.Fprintf(&b, "wake in %s\n", at.Sub(w.now))
	}
	if b.Len() == 0 {
		return "nothing"
	}
	return b.String()
}

func config(t *testing.T, d *datadriven.TestData) (cfg synth.Config) {
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "hooks":
			cfg.Hooks = true
		case "infer":
			cfg.Infer = true
		case "estimates":
			cfg.Estimates = true
		case "window": // NAME:TOKENS
			name, tokens, _ := strings.Cut(a.Vals[0], ":")
			cfg.Windows = map[string]int64{name: int64(number(t, tokens))}
		case "statusline":
			cfg.Statusline = true
		case "moderate":
			cfg.Moderate = number(t, a.Vals[0])
		case "hysteresis":
			cfg.Hysteresis = number(t, a.Vals[0])
		default:
			t.Fatalf("unknown argument %q", a.Key)
		}
	}
	return cfg
}

// kinds has the kind of signal for each command that is one signal.
var kinds = map[string]telemetry.Kind{
	"usage": telemetry.UsageSeen, "window": telemetry.WindowSeen, "compacting": telemetry.Compacting, "compacted": telemetry.Compacted,
	"prompt": telemetry.Prompt, "stop": telemetry.TurnStop, "end": telemetry.TurnEnd, "idle": telemetry.Idle, "fault": telemetry.Fault,
	"live": telemetry.SessionLive,
}

func (w *world) signal(t *testing.T, d *datadriven.TestData) telemetry.Signal {
	kind, ok := kinds[d.Cmd]
	require.True(t, ok, "unknown command %q", d.Cmd)
	sig := telemetry.Signal{Kind: kind, Source: "s"}
	switch kind {
	case telemetry.UsageSeen:
		sig.Usage = &telemetry.Usage{ID: "m", Used: int64(number(t, d.CmdArgs[0].Key))}
	case telemetry.WindowSeen:
		sig.Window, sig.WindowSource = parseWindow(t, d.CmdArgs[0].Key)
	case telemetry.Compacted:
		sig.Compaction = parseCompaction(t, d.CmdArgs[0].Key)
	}
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "agent":
			sig.Agent = "a1"
		case "side":
			sig.Side = "title"
		case "of":
			sig.Window, sig.WindowSource = parseWindow(t, a.Vals[0])
		case "model":
			sig.Model = a.Vals[0]
		case "estimate":
			sig.Usage.Estimate = true
		case "at":
			after, err := time.ParseDuration(a.Vals[0])
			require.NoError(t, err)
			sig.At = w.now.Add(after)
		}
	}
	return sig
}

func number(t *testing.T, s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	require.NoError(t, err)
	return f
}

func parseWindow(t *testing.T, s string) (int64, string) {
	tokens, source, _ := strings.Cut(s, ":")
	return int64(number(t, tokens)), source
}

func parseCompaction(t *testing.T, s string) *telemetry.Compaction {
	part := strings.Split(s, ":")
	c := &telemetry.Compaction{Half: part[0]}
	if len(part) > 1 {
		c.Trigger = part[1]
	}
	for i, dst := range []**int64{&c.Before, &c.After} {
		if len(part) > 2+i {
			n := int64(number(t, part[2+i]))
			*dst = &n
		}
	}
	return c
}

func pressureText(p synth.Pressure) string {
	text := fmt.Sprintf("pressure %q %d/%d (%s)", p.Level, p.Used, p.Window, p.WindowSource)
	if p.Estimate {
		text += " estimate"
	}
	return text
}

func format(o synth.Observation) string {
	switch o := o.(type) {
	case synth.Pressure:
		return pressureText(o) + "\n"
	case synth.Compaction:
		line := "compaction " + o.Trigger
		for _, n := range []*int64{o.Before, o.After} {
			if n == nil {
				line += " ?"
			} else {
				line += fmt.Sprint(" ", *n)
			}
		}
		if o.Inferred {
			line += " inferred"
		}
		return fmt.Sprintf("%s by %d\n", line, len(o.Signals))
	}
	return fmt.Sprintf("unknown %T\n", o)
}

// check is rapid.Check without its file for a failing run, which TestScenarios
// would take for a scenario. rapid prints the seed.
func check(t *testing.T, law func(*rapid.T)) {
	t.Helper()
	require.NoError(t, flag.Set("rapid.nofailfile", "true"))
	rapid.Check(t, law)
}

// levels lists the levels, the lowest first.
var levels = []synth.Level{synth.Low, synth.Moderate, synth.High, synth.Critical}

// TestEveryLevelIsReportedAtItsBound moves the context through the whole window
// and back, in steps of one part in a thousand.
func TestEveryLevelIsReportedAtItsBound(t *testing.T) {
	const window = 1000
	s := synth.New(synth.Config{})
	var got []string
	at := func(used int64) {
		sig := telemetry.Signal{Kind: telemetry.UsageSeen, Window: window, WindowSource: "reported", Usage: &telemetry.Usage{Used: used}}
		for _, o := range s.See(sig, time.Time{}) {
			p := o.(synth.Pressure)
			got = append(got, fmt.Sprintf("%d %s", p.Used, p.Level))
		}
	}
	at(0) // zero tokens are not a measurement and are not reported
	for used := int64(1); used <= window; used++ {
		at(used)
	}
	for used := int64(window); used >= 0; used-- {
		at(used)
	}
	require.Equal(t, []string{"1 low", "500 moderate", "750 high", "900 critical", "870 high", "720 moderate", "470 low"}, got)
}

// TestFigures checks random measurements. A reported level is that of the
// measurement and differs from the level reported before. After each measurement,
// the last reported level is that of the measurement or, within the hysteresis,
// the next higher one.
func TestFigures(t *testing.T) {
	check(t, func(r *rapid.T) {
		const window = 1000
		s := synth.New(synth.Config{})
		last := synth.Unknown
		for range rapid.IntRange(1, 60).Draw(r, "figures") {
			used := rapid.Int64Range(1, window+100).Draw(r, "used")
			f := min(float64(used)/window, 1)
			own := levelOf(f)
			sig := telemetry.Signal{Kind: telemetry.UsageSeen, Window: window, WindowSource: "reported", Usage: &telemetry.Usage{Used: used}}
			for _, o := range s.See(sig, time.Time{}) {
				p := o.(synth.Pressure)
				if p.Level != own || p.Level == last {
					r.Fatalf("reported %v after %s; the figure is %s", p, last, own)
				}
				last = p.Level
			}
			if last != own && (f >= 0.9 || levelOf(f+0.03) != last) {
				r.Fatalf("%d is %s, but %s was reported last", used, own, last)
			}
		}
	})
}

func levelOf(f float64) synth.Level {
	n := 0
	for _, bound := range []float64{0.5, 0.75, 0.9} {
		if f >= bound {
			n++
		}
	}
	return levels[n]
}

// TestCompactionsOfTwoSources checks random orders of reports and other signals:
// the number of compactions is that of the source with more reports.
func TestCompactionsOfTwoSources(t *testing.T) {
	check(t, func(r *rapid.T) {
		s := synth.New(synth.Config{Hooks: rapid.Bool().Draw(r, "hooks")})
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		reported, witness := 0, map[string]int{}
		var story []string
		count := func(obs []synth.Observation) {
			for _, o := range obs {
				if c, ok := o.(synth.Compaction); ok {
					reported++
					if len(c.Signals) < 1 || len(c.Signals) > 2 || c.Trigger == "" {
						r.Fatalf("%+v", c)
					}
				}
			}
		}
		for range rapid.IntRange(0, 30).Draw(r, "length") {
			what := rapid.SampledFrom([]string{"hook", "record", "hook", "record", "usage", "prompt", "compacting", "wait", "an agent's"}).Draw(r, "what")
			story = append(story, what)
			sig := telemetry.Signal{Kind: telemetry.Compacted, Compaction: &telemetry.Compaction{Half: what}}
			switch what {
			case "hook", "record":
				witness[what]++
			case "usage":
				sig = telemetry.Signal{Kind: telemetry.UsageSeen, Usage: &telemetry.Usage{Used: 1}}
			case "prompt":
				sig = telemetry.Signal{Kind: telemetry.Prompt}
			case "compacting":
				sig = telemetry.Signal{Kind: telemetry.Compacting}
			case "an agent's":
				sig.Compaction.Half, sig.Agent = "record", "a1"
			case "wait":
				now = now.Add(rapid.SampledFrom([]time.Duration{time.Millisecond, 499 * time.Millisecond, time.Second}).Draw(r, "for"))
				count(s.Wake(now))
				if at, waits := s.Deadline(); waits && !at.After(now) {
					r.Fatalf("a deadline in the past after %v", story)
				}
				continue
			}
			count(s.Before(sig))
			count(s.See(sig, now))
		}
		count(s.Flush())
		if _, waits := s.Deadline(); waits {
			r.Fatalf("a compaction is pending after Flush: %v", story)
		}
		if want := max(witness["hook"], witness["record"]); reported != want {
			r.Fatalf("%d compactions reported for %v, want %d", reported, story, want)
		}
	})
}

// A usage without the size of the context reports no pressure.
func TestCostWithoutContextIsIgnored(t *testing.T) {
	s := synth.New(synth.Config{})
	seen := func(u telemetry.Usage) []synth.Observation {
		return s.See(telemetry.Signal{Kind: telemetry.UsageSeen, Usage: &u, Window: 1000, WindowSource: "reported"}, time.Time{})
	}
	require.Len(t, seen(telemetry.Usage{Used: 800}), 1)
	require.Empty(t, seen(telemetry.Usage{Input: 30, Output: 5}))
	now, ok := s.Now()
	require.True(t, ok)
	require.False(t, now.Stale)
	require.Equal(t, int64(800), now.Used)
}

// TestAnotherConfiguration changes to a launch without a status line. A usage must
// then be reported at once, and not wait for a report of the status line.
func TestAnotherConfiguration(t *testing.T) {
	usage := telemetry.Signal{Kind: telemetry.UsageSeen, Source: "transcript", Usage: &telemetry.Usage{Used: 60_000}}
	s := synth.New(synth.Config{Statusline: true})
	require.Empty(t, s.See(usage, time.Time{}))
	s.Reset()
	s.Use(synth.Config{})
	require.Len(t, s.See(usage, time.Time{}), 1)
}
