package view_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"lifeloop/attempt"
	"lifeloop/kernel"
	"lifeloop/session"
	"lifeloop/telemetry"
	"lifeloop/view"
)

// TestL0OfARecordedSession prints the complete events of a recorded ledger. The
// ledger was recorded before facts about attempts existed. Update with go test
// ./view -rewrite.
func TestL0OfARecordedSession(t *testing.T) {
	datadriven.RunTest(t, "testdata/l0.txt", func(t *testing.T, d *datadriven.TestData) string {
		var b strings.Builder
		var l0 view.L0
		for _, e := range entries(t) {
			for _, ev := range l0.Apply(e) {
				fmt.Fprintf(&b, "%s\n", asJSON(t, ev))
			}
		}
		return b.String()
	})
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	doc, err := json.Marshal(v)
	require.NoError(t, err)
	return string(doc)
}

// An l0Session is a session that has just begun. Its facts are a second apart.
type l0Session struct {
	view.L0
	t  *testing.T
	at time.Time
}

func newL0(t *testing.T, began kernel.Began) *l0Session {
	s := &l0Session{t: t, at: time.UnixMilli(1000)}
	began.SessionID = "sess"
	s.apply(began, kernel.SessionMoved{To: session.Pending})
	return s
}

func (s *l0Session) apply(facts ...kernel.Fact) (out []view.L0Event) {
	s.t.Helper()
	for _, f := range facts {
		s.at = s.at.Add(time.Second)
		out = append(out, s.Apply(kernel.Entry{At: s.at, Fact: f})...)
	}
	return out
}

// only returns the event of this type. There must be exactly one.
func (s *l0Session) only(typ string, facts ...kernel.Fact) view.L0Event {
	s.t.Helper()
	var found []view.L0Event
	for _, e := range s.apply(facts...) {
		if e.Type == typ {
			found = append(found, e)
		}
	}
	require.Len(s.t, found, 1, typ)
	return found[0]
}

// TestL0Errors checks the codes of an attempt's failure for each cause
// (DECISIONS Z14, Z15).
func TestL0Errors(t *testing.T) {
	broken := func(recoverable bool) kernel.Fact {
		return kernel.RulesChecked{Phase: "post", Rules: []attempt.RuleResult{{ID: "r", Severity: attempt.Error, Recoverable: recoverable}}}
	}
	for _, c := range []struct {
		name   string
		before []kernel.Fact
		end    kernel.AttemptEnded
		code   any
		kind   string
	}{
		{"the harness failed", nil, kernel.AttemptEnded{Cause: attempt.Model}, nil, "model"},
		{"a network error", nil, kernel.AttemptEnded{Cause: attempt.Network, Detail: "ECONNRESET"}, "NETWORK_ERROR", "network"},
		{"a rate limit", nil, kernel.AttemptEnded{Cause: attempt.RateLimit}, nil, "network"},
		{"a server error", nil, kernel.AttemptEnded{Cause: attempt.ServerError}, nil, "network"},
		{"the initial time-out", nil, kernel.AttemptEnded{Cause: attempt.Timeout, Detail: "initial"}, "INITIAL_TOKEN_TIMEOUT", "timeout"},
		{"the inter time-out", nil, kernel.AttemptEnded{Cause: attempt.Timeout, Detail: "inter"}, "INTER_TOKEN_TIMEOUT", "timeout"},
		{"a slow tool", nil, kernel.AttemptEnded{Cause: attempt.Timeout, Detail: "tool"}, "TOOL_TIMEOUT", "timeout"},
		{"the session's time-out", nil, kernel.AttemptEnded{Cause: attempt.Timeout, Detail: "session"}, nil, "timeout"},
		{"a rule", []kernel.Fact{broken(true)}, kernel.AttemptEnded{Cause: attempt.Guardrail, Detail: "r"}, "GUARDRAIL_VIOLATION", "model"},
		{"a rule that is not recoverable", []kernel.Fact{broken(false)}, kernel.AttemptEnded{Cause: attempt.Guardrail, Detail: "r"}, "FATAL_GUARDRAIL_VIOLATION", "model"},
		{"drift", nil, kernel.AttemptEnded{Cause: attempt.Drift}, "DRIFT_DETECTED", "model"},
		{"no output", nil, kernel.AttemptEnded{Cause: attempt.ZeroOutput}, "ZERO_OUTPUT", "zero_output"},
		{"an abort", []kernel.Fact{kernel.AbortRequested{}}, kernel.AttemptEnded{Cause: attempt.Aborted}, "STREAM_ABORTED", "abort"},
		{"an unknown cause", nil, kernel.AttemptEnded{Cause: attempt.Unknown}, nil, "unknown"},
		{"a fatal cause", nil, kernel.AttemptEnded{Cause: attempt.Fatal}, nil, "unknown"},
		{"no such program", []kernel.Fact{kernel.Exited{NotStarted: true}}, kernel.AttemptEnded{Cause: attempt.Fatal}, "INVALID_STREAM", "unknown"},
		{"a launch that failed in transport", []kernel.Fact{kernel.Exited{NotStarted: true}}, kernel.AttemptEnded{Cause: attempt.Network}, "INVALID_STREAM", "network"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newL0(t, kernel.Began{})
			l.apply(kernel.Launching{Run: "run_1", Attempt: 1})
			l.apply(c.before...)
			c.end.Recovery = attempt.Halt
			events := l.apply(c.end)
			last := events[len(events)-1]
			require.Equal(t, []any{"ERROR", c.code, c.kind}, []any{last.Type, last.Field("errorCode"), last.Field("failureType")})
			require.NotEmpty(t, last.Field("error"))
			before := ""
			if len(events) > 1 {
				before = events[len(events)-2].Type
			}
			switch c.end.Cause {
			case attempt.Network:
				require.Equal(t, "NETWORK_ERROR", before)
			case attempt.Aborted:
				require.Equal(t, "ABORT_COMPLETED", before)
			default:
				require.Empty(t, before)
			}
		})
	}
}

// TestL0ToolTexts checks that arguments, results and failure texts come from
// Tool and Words. Without these functions, the events have digests, sizes and
// the wrapper's own sentences.
func TestL0ToolTexts(t *testing.T) {
	called := kernel.ToolCalled{Tool: "c1", Name: "search", Args: &telemetry.Sized{Digest: "sha256:aa", Size: 7}}
	returned := kernel.ToolReturned{Tool: "c1", Name: "search", Result: &telemetry.Sized{Digest: "sha256:bb", Size: 9}}
	denied := kernel.ToolReturned{Tool: "c1", Error: "EXECUTION_ERROR"}
	failed := kernel.AttemptEnded{AttemptRef: kernel.AttemptRef{Run: "run_1"}, Cause: attempt.Unknown, Recovery: attempt.Halt, Reason: "the harness exited with code 1"}

	l := newL0(t, kernel.Began{})
	require.JSONEq(t, `{"digest":"sha256:aa","byte_size":7}`, asJSON(t, l.only("TOOL_REQUESTED", called).Field("arguments")))
	require.JSONEq(t, `{"digest":"sha256:bb","byte_size":9}`, asJSON(t, l.only("TOOL_RESULT", returned).Field("result")))
	require.Equal(t, "the tool failed", l.only("TOOL_ERROR", denied).Field("error"))
	require.Nil(t, l.only("TOOL_REQUESTED", kernel.ToolCalled{Tool: "c2"}).Field("arguments"), "the ledger has no arguments")
	require.Equal(t, "the harness exited with code 1", l.only("ERROR", failed).Field("error"))

	l = newL0(t, kernel.Began{})
	l.Tool = func(call string) (args, result any, ok bool) {
		return map[string]any{"q": "<b>"}, "denied", call == "c1"
	}
	l.Words = func(run string) string { return "Harness exploded in " + run }
	doc, err := l.only("TOOL_REQUESTED", called).MarshalJSON()
	require.NoError(t, err)
	require.Contains(t, string(doc), `"arguments":{"q":"<b>"}}`, "without HTML escapes")
	require.Equal(t, "denied", l.only("TOOL_RESULT", returned).Field("result"))
	require.Equal(t, "denied", l.only("TOOL_ERROR", denied).Field("error"))
	require.Nil(t, l.only("TOOL_REQUESTED", kernel.ToolCalled{Tool: "c2"}).Field("arguments"))
	require.Equal(t, "Harness exploded in run_1", l.only("ERROR", failed).Field("error"))
}

// TestL0ToolTimeout checks that a tool call that times out ends once, and that
// its late result causes no event.
func TestL0ToolTimeout(t *testing.T) {
	l := newL0(t, kernel.Began{})
	l.apply(kernel.Launching{Attempt: 1}, kernel.ToolCalled{Tool: "c1", Name: "search"})
	e := l.only("TOOL_ERROR", kernel.TimedOut{Timer: kernel.TimerTool, ElapsedMS: 5000, Tool: "c1"})
	require.Equal(t, []any{"TIMEOUT", int64(5000)}, []any{e.Field("errorType"), e.Field("durationMs")})
	require.Empty(t, l.apply(kernel.ToolReturned{Tool: "c1", Name: "search"}))
	// The next attempt may use the same id for another call.
	l.apply(kernel.AttemptEnded{Cause: attempt.Timeout, Detail: "tool", Recovery: attempt.Retry, Retry: &kernel.RetryPlan{Number: 1}},
		kernel.Launching{Attempt: 2}, kernel.ToolCalled{Tool: "c1", Name: "search"})
	require.NotEmpty(t, l.apply(kernel.ToolReturned{Tool: "c1", Name: "search"}))
}

// TestL0Time checks that ts does not decrease when the clock is set back, and
// that meta does not change after the session began.
func TestL0Time(t *testing.T) {
	meta := map[string]string{"ticket": "A-7"}
	l := newL0(t, kernel.Began{Meta: meta})
	first := l.apply(kernel.Launching{Attempt: 1})[0]
	first.Meta["ticket"] = "B"
	l.at = time.UnixMilli(5)
	second := l.apply(kernel.Running{})[0]
	require.Equal(t, first.TS, second.TS)
	require.Equal(t, map[string]string{"ticket": "A-7"}, second.Meta)
	require.Equal(t, "{}", asJSON(t, newL0(t, kernel.Began{}).apply(kernel.Launching{Attempt: 1})[0].Meta), "empty if none was given")
}

// TestL0PolicyAndState checks that the policy in ERROR comes from the session's
// first fact, and the state in COMPLETE from all facts.
func TestL0PolicyAndState(t *testing.T) {
	l := newL0(t, kernel.Began{Budget: &kernel.Budget{Attempts: 2, MaxRetries: 6, Profiles: []string{"a", "b"}}})
	l.apply(kernel.Launching{Attempt: 1, Name: "a", Adapter: "generic"})
	e := l.only("ERROR", kernel.AttemptEnded{AttemptRef: kernel.AttemptRef{Attempt: 1, Name: "a"}, Cause: attempt.Model, Recovery: attempt.Retry, Reason: "the harness exited with code 1",
		Retry: &kernel.RetryPlan{Number: 1, Of: 2, Counted: true, DelayMS: 10}})
	require.Equal(t, `{"retryEnabled":true,"fallbackEnabled":true,"maxRetries":6,"maxFallbacks":1,"attempt":1,"fallbackIndex":0}`, asJSON(t, e.Field("policy")))
	l.apply(kernel.Launching{Attempt: 2, Name: "a"}, kernel.CheckpointSaved{Checkpoint: "T1", Units: 3})
	up := l.only("RETRY_GIVE_UP", kernel.AttemptEnded{AttemptRef: kernel.AttemptRef{Attempt: 2, Name: "a"}, Cause: attempt.Model, Recovery: attempt.Fallback, Next: 1, GaveUp: true,
		Reason: "the harness exited with code 1", Skipped: []string{"x: not installed"}})
	require.Equal(t, []any{1, 2, "the harness exited with code 1"}, []any{up.Field("attempt"), up.Field("maxAttempts"), up.Field("lastError")})
	start := l.only("FALLBACK_START", kernel.Launching{Attempt: 1, Profile: 1, Name: "b", Checkpoint: "T1", CheckpointUnits: 3})
	require.Equal(t, "the harness exited with code 1; skipped: x: not installed", start.Field("reason"))
	l.apply(kernel.RulesChecked{Phase: "pre", Rules: []attempt.RuleResult{{ID: "w", Severity: attempt.Warning, Recoverable: true}}})
	events := l.apply(kernel.AttemptEnded{AttemptRef: kernel.AttemptRef{Attempt: 1, Profile: 1, Name: "b"}, AttemptCost: kernel.AttemptCost{Units: 4, Bytes: 40, DurationMS: 9}})
	require.Equal(t, `{"tokenCount":4,"contentLength":40,"checkpoint":"T1","modelRetryCount":1,"networkRetryCount":0,"fallbackIndex":1,`+
		`"violations":[{"rule":"w","message":"rule w was broken","severity":"warning","recoverable":true}],"driftDetected":false,"completed":true,"resumed":true}`,
		asJSON(t, events[0].Field("state")))
	var tail []string
	for _, e := range events {
		tail = append(tail, e.Type)
	}
	require.Equal(t, []string{"COMPLETE", "RETRY_END", "FALLBACK_END"}, tail)
	require.Empty(t, l.apply(kernel.ToolCalled{Tool: "late"}, kernel.AbortRequested{}, kernel.SessionMoved{From: session.Running, To: session.Completed}), "no event follows the end")
}

// TestL0WithoutAnAttempt checks the end of sessions without an attempt: one
// that was refused, one that was aborted before its start, and one that is only
// observed.
func TestL0WithoutAnAttempt(t *testing.T) {
	refused := newL0(t, kernel.Began{}).only("ERROR", kernel.SessionMoved{From: session.Pending, To: session.Rejected, Reason: "a required capability is unavailable"})
	require.Equal(t, "a required capability is unavailable", refused.Field("error"))
	require.Equal(t, "halt", refused.Field("recoveryStrategy"))

	early := newL0(t, kernel.Began{}).apply(kernel.AbortRequested{Signal: 15}, kernel.SessionMoved{From: session.Pending, To: session.Rejected})
	require.Equal(t, []string{"ABORT_REQUESTED", "ABORT_COMPLETED", "ERROR"}, []string{early[0].Type, early[1].Type, early[2].Type})

	observed := newL0(t, kernel.Began{}).apply(kernel.SessionMoved{From: session.Pending, To: session.Running}, kernel.SessionMoved{From: session.Running, To: session.Completed})
	require.Len(t, observed, 1)
	require.Equal(t, "COMPLETE", observed[0].Type)
}

// TestL0Callbacks checks the callbacks of each event with their arguments, as
// functions and as lines. Attempts count from 1, fallbacks from 0.
func TestL0Callbacks(t *testing.T) {
	l := newL0(t, kernel.Began{})
	var calls []string
	note := func(form string, args ...any) { calls = append(calls, fmt.Sprintf(form, args...)) }
	hooks := view.Hooks{
		OnEvent:      func(e view.L0Event) { note("%s", e.Type) },
		OnStart:      func(n int, retry, fallback bool) { note("onStart %d %t %t", n, retry, fallback) },
		OnComplete:   func(s view.L0State) { note("onComplete %d", s.TokenCount) },
		OnViolation:  func(v view.L0Violation) { note("onViolation %s %s %t", v.Rule, v.Severity, v.Recoverable) },
		OnRetry:      func(n int, reason string) { note("onRetry %d %s", n, reason) },
		OnFallback:   func(i int, reason string) { note("onFallback %d %s", i, reason) },
		OnResume:     func(id string, n int64) { note("onResume %s %d", id, n) },
		OnCheckpoint: func(id string, n int64) { note("onCheckpoint %s %d", id, n) },
		OnTimeout:    func(kind string, ms int64) { note("onTimeout %s %d", kind, ms) },
		OnAbort:      func(n, bytes int64) { note("onAbort %d %d", n, bytes) },
		OnDrift:      func(types []string, c float64) { note("onDrift %v %v", types, c) },
		OnToolCall:   func(name, id string, args any) { note("onToolCall %s %s %v", name, id, args) },
	}
	hooks.OnError = func(err error, retry, fallback bool) {
		var of view.L0Error
		require.True(t, errors.As(err, &of))
		note("onError %s %s %t %t", of, of.Code, retry, fallback)
	}
	plan := &kernel.RetryPlan{Number: 1, Of: 1, Counted: true}
	for _, c := range []struct {
		fact      kernel.Fact
		calls     string // the calls of the functions in hooks, except OnEvent
		callbacks string // the same calls, as lines of JSON from view.L0Callbacks
	}{
		{kernel.ToolCalled{Tool: "c1", Name: "search"}, "onToolCall search c1 <nil>", `{"callback":"onToolCall","args":["search","c1",null]}`},
		{kernel.CheckpointSaved{Checkpoint: "T1", Units: 3}, "onCheckpoint T1 3", `{"callback":"onCheckpoint","args":["T1",3]}`},
		{kernel.RulesChecked{Phase: "pre", Rules: []attempt.RuleResult{{ID: "ok", Passed: true}, {ID: "r", Severity: attempt.Error, Recoverable: true}}},
			"onViolation r error true", `{"callback":"onViolation","args":[{"rule":"r","message":"rule r was broken","severity":"error","recoverable":true}]}`},
		{kernel.DriftSeen{Types: []string{"repetition"}, Confidence: 1}, "onDrift [repetition] 1", `{"callback":"onDrift","args":[["repetition"],1]}`},
		{kernel.TimedOut{Timer: kernel.TimerInter, ElapsedMS: 30}, "onTimeout inter 30", `{"callback":"onTimeout","args":["inter",30]}`},
		{kernel.AttemptEnded{Cause: attempt.Drift, Recovery: attempt.Retry, Reason: "why", Retry: plan}, "onError why DRIFT_DETECTED true false, onRetry 1 why",
			`{"callback":"onError","args":[{"message":"why","code":"DRIFT_DETECTED"},true,false]} {"callback":"onRetry","args":[1,"why"]}`},
		{kernel.Launching{Attempt: 2, Checkpoint: "T1", CheckpointUnits: 3}, "onStart 2 true false, onResume T1 3",
			`{"callback":"onStart","args":[2,true,false]} {"callback":"onResume","args":["T1",3]}`},
		{kernel.AttemptEnded{Cause: attempt.Model, Recovery: attempt.Fallback, Reason: "why", GaveUp: true}, "onError why  false true",
			`{"callback":"onError","args":[{"message":"why"},false,true]}`},
		{kernel.Launching{Attempt: 1, Profile: 1}, "onStart 1 false true, onFallback 0 why",
			`{"callback":"onStart","args":[1,false,true]} {"callback":"onFallback","args":[0,"why"]}`},
		{kernel.AttemptEnded{AttemptRef: kernel.AttemptRef{Profile: 1}, AttemptCost: kernel.AttemptCost{Units: 7}}, "onComplete 7",
			`{"callback":"onComplete","args":[{"tokenCount":7,"contentLength":0,"checkpoint":"T1","modelRetryCount":1,"networkRetryCount":0,"fallbackIndex":1,"violations":[],"driftDetected":false,"completed":true,"resumed":false}]}`},
	} {
		if _, first := c.fact.(kernel.ToolCalled); first {
			l.apply(kernel.Launching{Attempt: 1})
		}
		calls = nil
		var lines []string
		for _, e := range l.apply(c.fact) {
			hooks.Emit(e)
			for _, cb := range view.L0Callbacks(e) {
				lines = append(lines, asJSON(t, cb))
			}
		}
		var called []string
		for _, h := range calls {
			if strings.HasPrefix(h, "on") {
				called = append(called, h)
			}
		}
		require.Equal(t, c.calls, strings.Join(called, ", "), "%T", c.fact)
		require.Equal(t, c.callbacks, strings.Join(lines, " "), "%T", c.fact)
	}
	aborted := newL0(t, kernel.Began{})
	calls = nil
	for _, e := range aborted.apply(kernel.AbortRequested{}, kernel.AttemptEnded{Cause: attempt.Aborted, Recovery: attempt.Halt, AttemptCost: kernel.AttemptCost{Units: 3, Bytes: 9}}) {
		hooks.Emit(e)
	}
	require.Equal(t, []string{"ABORT_REQUESTED", "ABORT_COMPLETED", "onAbort 3 9", "ERROR", "onError the attempt failed: abort STREAM_ABORTED false false"}, calls)
	require.Zero(t, hooks.Panics())
}

// TestHooksThatPanic checks that a panic is counted, and affects neither the
// other hooks nor the caller (DECISIONS Z12). A nil hook is not called.
func TestHooksThatPanic(t *testing.T) {
	started := 0
	hooks := view.Hooks{
		OnEvent: func(view.L0Event) { panic("no") },
		OnStart: func(int, bool, bool) { started++; panic("no") },
	}
	var none view.Hooks
	var l view.L0
	l.Apply(kernel.Entry{Fact: kernel.Began{SessionID: "sess"}})
	for _, f := range []kernel.Fact{kernel.SessionMoved{To: session.Pending}, kernel.Launching{Attempt: 1}, kernel.AttemptEnded{}} {
		for _, e := range l.Apply(kernel.Entry{Fact: f}) {
			hooks.Emit(e)
			none.Emit(e)
		}
	}
	require.Equal(t, 1, started)
	require.Equal(t, 1+4, hooks.Panics(), "of one onStart and four onEvent")
	require.Zero(t, none.Panics())
}
