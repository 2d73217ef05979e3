package renewal_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lifeloop/lifeloop"
	"lifeloop/renewal"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// TestScenarios runs each file as the renewals of one session. A command is an
// event; its output is the move that follows, or the decision of the machine.
//
//	rules [max=N] [window=D] [session=N] [at=LEVEL]
//	ask [by=user] [before=N] [trigger=N] · agree · ready · call prepare|continue|launch · prepared DIGEST [expires=D] [fail=CLASS]
//	begin · ended · resume SCOPE ID · deliver · measured TOKENS · end CLASS · wait D · deadline none|prepare|reset|continue|launch · level LEVEL
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		w := &world{now: start}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w.t = t
			return w.command(d)
		})
	})
}

type world struct {
	t     *testing.T
	m     renewal.Machine
	rules renewal.Rules
	now   time.Time
	n     int
}

var acts = []string{"none", "prepare", "reset", "continue", "launch"}

func (w *world) apply(v renewal.Move) string {
	require.NoError(w.t, renewal.Check(w.m.State, v.To))
	w.m.Apply(v)
	text, err := json.Marshal(v)
	require.NoError(w.t, err)
	return string(text)
}

func (w *world) command(d *datadriven.TestData) string {
	args := map[string]string{}
	for _, a := range d.CmdArgs {
		args[a.Key] = strings.Join(a.Vals, "")
	}
	number := func(key string) (n int) {
		if args[key] != "" {
			var err error
			n, err = strconv.Atoi(args[key])
			require.NoError(w.t, err)
		}
		return n
	}
	first := func(i int) string { return d.CmdArgs[i].Key }
	switch d.Cmd {
	case "rules":
		w.rules.Max, w.rules.Session, w.rules.At = number("max"), number("session"), args["at"]
		w.rules.Window, _ = time.ParseDuration(args["window"])
	case "wait":
		by, err := time.ParseDuration(first(0))
		require.NoError(w.t, err)
		w.now = w.now.Add(by)
	case "ask":
		return w.ask(args["by"], args["before"], int64(number("trigger")))
	case "call":
		w.m.Called(renewal.Act(slices.Index(acts, first(0))), 1, "S1")
	case "prepared":
		var expires *time.Time
		if by, err := time.ParseDuration(args["expires"]); err == nil {
			expires = new(w.now.Add(by))
		}
		return w.apply(w.m.PrepareDone(first(0), expires, lifeloop.FailureClass(args["fail"]), "said so"))
	case "measured":
		n, err := strconv.ParseInt(first(0), 10, 64)
		require.NoError(w.t, err)
		w.m.Measured(n, w.m.Treadmill(n))
		return "broken: " + strconv.Quote(w.m.Broken)
	case "deadline":
		if at := w.rules.Deadline(renewal.Act(slices.Index(acts, first(0))), w.now); !at.IsZero() {
			return "in " + at.Sub(w.now).String()
		}
		return "none"
	case "level":
		return fmt.Sprint(w.rules.Triggered(first(0)))
	case "end":
		return w.apply(w.m.End(lifeloop.FailureClass(first(0)), "said so"))
	case "resume":
		return w.apply(w.m.Resume(number("scope"), args["id"]))
	default:
		return w.plain(d.Cmd)
	}
	return "ok"
}

// plain runs a command that has no arguments.
func (w *world) plain(cmd string) string {
	switch cmd {
	case "agree":
		return w.apply(w.m.Agree(renewal.Relaunch))
	case "ready":
		return acts[w.m.Ready()]
	case "begin":
		return w.apply(w.m.Begin(w.now))
	case "ended":
		return fmt.Sprintf("continue %t, between %t, expired %t", w.m.Ended(), w.m.Between(), w.m.Expired(w.now))
	case "deliver":
		return w.apply(w.m.Deliver())
	}
	require.Fail(w.t, "unknown command", cmd)
	return ""
}

func (w *world) ask(by, before string, trigger int64) string {
	w.n++
	r := renewal.Request{Profile: "handoff", By: renewal.By(by), Trigger: trigger}
	if n, err := strconv.ParseInt(before, 10, 64); err == nil {
		r.Before = &n
	}
	out := w.apply(w.m.Ask(fmt.Sprint("r", w.n), r))
	if class, why, broke := w.m.Refusal(w.now, w.rules, nil); class != "" {
		v := w.m.End(class, why)
		v.Broke = broke
		out += "\n" + w.apply(v)
	}
	return out
}

// TestEveryRenewalEnds makes random moves and checks that each move is legal. A renewal
// that ends after its reset began must be delivered or failed. A renewal that ends
// earlier must be refused or rolled back.
func TestEveryRenewalEnds(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var m renewal.Machine
		ends := 0
		for i := range 20 {
			var v renewal.Move
			switch {
			case !m.Open():
				v = m.Ask(fmt.Sprint("r", i), renewal.Request{Profile: "p", By: renewal.ByUser})
			case rapid.Bool().Draw(r, "cannot go on"):
				v = m.End(lifeloop.StateConflict, "said so")
			case m.State == renewal.Asked:
				v = m.Agree(renewal.Relaunch)
			case m.State == renewal.Negotiated:
				require.Equal(r, renewal.Prepare, m.Ready())
				m.Called(renewal.Prepare, 1, "")
				v = m.PrepareDone("sha256:1", nil, rapid.SampledFrom([]lifeloop.FailureClass{"", lifeloop.Timeout}).Draw(r, "prepare"), "said so")
			case m.State == renewal.Prepared:
				v = m.Begin(start)
			case m.State == renewal.Resetting:
				require.True(r, m.Ended())
				m.Called(renewal.Continue, 0, "")
				require.True(r, m.Between())
				m.Called(renewal.Launch, 0, "")
				v = m.Resume(2, "S2")
			default:
				v = m.Deliver()
			}
			require.NoError(r, renewal.Check(m.State, v.To))
			if v.To.Over() {
				ends++
				require.Equal(r, m.State == renewal.Resetting || m.State == renewal.Resumed, v.To == renewal.Failed || v.To == renewal.Delivered, "%s to %s", m.State, v.To)
			}
			m.Apply(v)
		}
		require.LessOrEqual(r, ends, 20)
	})
}

// TestMovesAreClosed checks that there are 16 moves. No move leads to Idle. A move leads
// to Asked if, and only if, the move begins in Idle or in a final state.
func TestMovesAreClosed(t *testing.T) {
	n := 0
	for _, from := range append(renewal.States(), renewal.Idle) {
		for _, to := range append(renewal.States(), renewal.Idle) {
			if renewal.Check(from, to) == nil {
				n++
				require.NotEqual(t, renewal.Idle, to)
				require.Equal(t, from == renewal.Idle || from.Over(), to == renewal.Asked, "%s to %s", from, to)
			}
		}
	}
	require.Equal(t, 16, n)
}

// TestRefusalWhenTheClockIsSet sets the clock between resets. The recorded times of the
// resets are then wrong. The caller has kept times with monotonic clock readings, and
// these times are right.
func TestRefusalWhenTheClockIsSet(t *testing.T) {
	began := time.Now()
	var m renewal.Machine
	var kept []time.Time
	for i := range 3 {
		at := began.Add(time.Duration(i) * time.Second)
		m.Resets, kept = append(m.Resets, at.Add(-24*time.Hour).UTC().Round(0)), append(kept, at)
	}
	now := began.Add(3 * time.Second)
	_, why, _ := m.Refusal(now, renewal.Rules{}, kept)
	require.Equal(t, "3 renewals within 30m0s", why)
	_, why, _ = m.Refusal(now, renewal.Rules{}, kept[1:]) // after a crash, the caller has no time of the first reset
	require.Empty(t, why)
}
