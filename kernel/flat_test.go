package kernel_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/telemetry"
)

// A rush is a session whose turns follow each other quickly, with clients that may
// be slow.
type rush struct {
	t        *testing.T
	k        *kernel.Kernel
	now      time.Time
	takes    map[string]time.Duration
	due      []returned
	hooks    int
	answers  int
	bytes    int // total size of all facts
	receipts int
	skipped  int // events that receipts report as skipped
}

// A returned is the answer of a client, and its time.
type returned struct {
	at time.Time
	in input.Returned
}

func newRush(t *testing.T, takes map[string]time.Duration) *rush {
	n := 0
	cfg := defaults()
	cfg.Hooks, cfg.HarnessSession, cfg.Ledger, cfg.Tick, cfg.ClientDrain = true, "S0", true, time.Second, 5*time.Second
	cfg.NewID = func(prefix string) string { n++; return fmt.Sprintf("%s%09d", prefix, n) }
	for id := range takes {
		c := setup.Client{ID: id, Events: map[lifeloop.Event]bool{}, Timeout: 5 * time.Second}
		for _, e := range lifeloop.Events() {
			c.Events[e] = true
		}
		cfg.Clients = append(cfg.Clients, c)
	}
	r := &rush{t: t, k: kernel.New(cfg), now: start, takes: takes}
	r.step(input.Start{})
	r.step(input.Launched{PID: 1})
	r.hook("SessionStart", "pre_session", telemetry.Signal{Kind: telemetry.SessionLive, Cause: "startup", Session: "S0"})
	return r
}

func (r *rush) step(in input.Input) {
	out := r.k.Step(r.now, in)
	for _, f := range out.Facts {
		_, body, err := kernel.Encode(f)
		require.NoError(r.t, err)
		r.bytes += len(body)
		if f, ok := f.(kernel.ReceiptIssued); ok {
			r.receipts++
			if f.Skipped != nil {
				r.skipped += f.Skipped.Events
			}
		}
	}
	for _, e := range out.Effects {
		switch e := e.(type) {
		case effect.Dispatch:
			r.answers++
			in := input.Returned{Call: e.Call, Response: &lifeloop.CallbackResponse{Status: lifeloop.Observed}}
			if event := e.Envelope.Request.Event; event == lifeloop.FrameOpening || event == lifeloop.FrameOpened {
				p := payload(e.Client, 1, []string{"side_channel_context", "note", "text", "preferred"})
				if key := fmt.Sprint("k", r.answers); r.takes[e.Client] == 0 { // the kernel keeps at most 1,000 keys per client; the number for a slow client would stay below and grow during the whole test
					p.IdempotencyKey = &key
				}
				in.Response.ClientPayloads = append(in.Response.ClientPayloads, p)
			}
			r.due = append(r.due, returned{r.now.Add(r.takes[e.Client]), in})
		case effect.HookAnswer:
			if e.Context.Len() > 0 {
				r.step(input.HookClosed{Hook: e.Hook, Delivered: true})
			}
		}
	}
}

// pass advances the time by d, delivers the answers that are due by then, and wakes the
// kernel if a timer is due.
func (r *rush) pass(d time.Duration) {
	r.now = r.now.Add(d)
	for i := 0; i < len(r.due); {
		if r.due[i].at.After(r.now) {
			i++
			continue
		}
		in := r.due[i].in
		r.due = append(r.due[:i:i], r.due[i+1:]...)
		r.step(in)
	}
	if at, ok := r.k.Deadline(); ok && !at.After(r.now) {
		r.step(input.Wake{})
	}
}

func (r *rush) hook(event, slot string, signals ...telemetry.Signal) {
	r.hooks++
	for i := range signals {
		signals[i].Source, signals[i].Detail = "hook", event
	}
	r.step(input.HookCalled{Hook: fmt.Sprint("h", r.hooks), Deadline: r.now.Add(4 * time.Second), Call: telemetry.HookCall{
		Event: event, Session: signals[0].Session, Turn: signals[0].Turn, Slot: slot, Capacity: 9500, Signals: signals}})
}

// turns plays n turns from number i on. Each turn has a tool and four model calls.
// After every hundredth turn the context is cleared.
func (r *rush) turns(i, n int) {
	for ; n > 0; n-- {
		turn, session := fmt.Sprintf("turn-%08d", i), fmt.Sprintf("S%d", i/100)
		sig := func(kind telemetry.Kind) telemetry.Signal {
			return telemetry.Signal{Kind: kind, Session: session, Turn: turn, Outcome: telemetry.Completed, Tool: "tool-" + turn, ToolName: "Bash"}
		}
		r.hook("UserPromptSubmit", "pre_frame_trailing", sig(telemetry.Prompt))
		r.pass(10 * time.Millisecond)
		r.hook("PreToolUse", "", sig(telemetry.ToolStart))
		r.hook("PostToolUse", "tool_result", sig(telemetry.ToolEnd))
		var records []telemetry.Signal
		for call := range 4 {
			u := sig(telemetry.UsageSeen)
			u.Source, u.Detail = "transcript", "r"
			u.Usage = &telemetry.Usage{ID: fmt.Sprint(turn, "-", call), Used: int64(1 + i*7919%200_000), Input: 10, Output: 1}
			u.Window, u.WindowSource = 200_000, "reported"
			records = append(records, u)
		}
		r.step(input.SignalsSeen{Signals: records, Source: "transcript", Position: &input.Position{Path: "/t", Offset: int64(i)}})
		r.hook("Stop", "", sig(telemetry.TurnStop))
		r.pass(10 * time.Millisecond)
		r.hook("Idle", "", sig(telemetry.TurnEnd))
		r.pass(10 * time.Millisecond)
		i++
		if i%100 == 0 {
			r.hook("SessionStart", "pre_session", telemetry.Signal{Kind: telemetry.SessionLive, Cause: "clear", Session: fmt.Sprintf("S%d", i/100)})
		}
	}
}

func (r *rush) end() {
	r.step(input.ChildExited{})
	r.step(input.SourcesDrained{})
	for range 100 {
		r.pass(time.Second)
	}
	_, done := r.k.Done()
	require.True(r.t, done)
}

// warm gives the meter more calls than it remembers, so that it does not grow
// any more.
func (r *rush) warm() {
	for i := range 70 {
		var calls []telemetry.Signal
		for n := range 1000 {
			calls = append(calls, telemetry.Signal{Kind: telemetry.UsageSeen, Source: "transcript", Session: "S0", Side: "title",
				Usage: &telemetry.Usage{ID: fmt.Sprint("warm-", i, "-", n), Input: 1}})
		}
		r.step(input.SignalsSeen{Signals: calls})
	}
}

// The state of a session is as large after N turns as after N/4, apart from a little
// state for each harness session.
func TestStateIsFlat(t *testing.T) {
	const quarter = 1050
	r := newRush(t, map[string]time.Duration{"fast": 0, "slow": time.Second})
	r.warm()
	r.turns(0, quarter)
	first := kernel.Size(r.k)
	r.turns(quarter, 3*quarter)
	last := kernel.Size(r.k)
	t.Logf("%d after %d turns, %d after %d turns", first, quarter, last, 4*quarter)
	require.Less(t, last, first+first/16, "the ids in the kept receipts have a digit more")
}

// With a client that takes a second for each call, 5,000 fast turns add as much to
// the ledger per turn as the first thousand turns. The end of the session adds
// little.
func TestSlowClientIsBounded(t *testing.T) {
	r := newRush(t, map[string]time.Duration{"slow": time.Second})
	r.turns(0, 1000)
	first := r.bytes
	r.turns(1000, 4000)
	all := r.bytes
	r.end()
	t.Logf("%d bytes in 1,000 turns, %d in 5,000, %d with the end; %d receipts, %d answers, %d events were skipped", first, all, r.bytes, r.receipts, r.answers, r.skipped)
	require.Less(t, all, 5*first+first/2)
	require.Less(t, r.bytes-all, 3<<20, "the end: one receipt for each waiting call")
	require.Greater(t, r.skipped, 15_000)
	require.Less(t, r.receipts, r.answers+2*1000+100)
}
