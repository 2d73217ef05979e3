package kernel_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/renewal"
	"lifeloop/session"
	"lifeloop/view"
)

// l0Fields are the fields of each L0 event beside the envelope, in order; those
// in brackets are optional.
var l0Fields = map[string]string{
	"SESSION_START":           "attempt isRetry isFallback",
	"STREAM_INIT":             "",
	"ADAPTER_WRAP_START":      "streamType",
	"ADAPTER_DETECTED":        "adapterId",
	"ADAPTER_WRAP_END":        "adapterId",
	"STREAM_READY":            "",
	"TIMEOUT_START":           "timeoutType configuredMs",
	"TIMEOUT_RESET":           "timeoutType configuredMs tokenIndex",
	"TIMEOUT_TRIGGERED":       "timeoutType elapsedMs",
	"NETWORK_ERROR":           "error code retryable",
	"ERROR":                   "error [errorCode] failureType recoveryStrategy policy",
	"RETRY_START":             "attempt maxAttempts reason",
	"RETRY_FN_START":          "attempt category defaultShouldRetry",
	"RETRY_FN_RESULT":         "attempt category userResult finalShouldRetry durationMs",
	"RETRY_FN_ERROR":          "attempt category error finalShouldRetry durationMs",
	"RETRY_ATTEMPT":           "attempt maxAttempts reason delayMs countsTowardLimit isNetwork isModelIssue",
	"ATTEMPT_START":           "attempt isRetry isFallback",
	"RETRY_END":               "attempt success",
	"RETRY_GIVE_UP":           "attempt maxAttempts reason lastError",
	"FALLBACK_START":          "fromIndex toIndex reason",
	"FALLBACK_MODEL_SELECTED": "index",
	"FALLBACK_END":            "index success",
	"CHECKPOINT_SAVED":        "checkpoint tokenCount",
	"CONTINUATION_START":      "checkpoint tokenCount",
	"RESUME_START":            "checkpoint tokenCount",
	"GUARDRAIL_PHASE_START":   "phase ruleCount tokenCount",
	"GUARDRAIL_RULE_START":    "index ruleId callbackId",
	"GUARDRAIL_RULE_END":      "index ruleId passed callbackId durationMs",
	"GUARDRAIL_PHASE_END":     "phase passed violations durationMs",
	"GUARDRAIL_RULE_RESULT":   "index ruleId passed violation",
	"DRIFT_CHECK_RESULT":      "detected types confidence",
	"ABORT_REQUESTED":         "source",
	"ABORT_COMPLETED":         "tokenCount contentLength",
	"TOOL_REQUESTED":          "toolName toolCallId arguments",
	"TOOL_START":              "toolCallId toolName",
	"TOOL_RESULT":             "toolCallId result durationMs",
	"TOOL_ERROR":              "toolCallId error errorType durationMs",
	"TOOL_COMPLETED":          "toolCallId status",
	"COMPLETE":                "tokenCount contentLength durationMs state",
}

// l0Depth lists the events of L0. The random worlds of TestLaws must reach all of them.
func l0Depth() (words []string) {
	for _, word := range slices.Sorted(maps.Keys(l0Fields)) {
		words = append(words, "l0 "+word)
	}
	return words
}

// l0After lists the events that may come right before an event, apart from events
// of tools, which may come at any time.
var l0After = map[string][]string{
	"ADAPTER_WRAP_START":      {"STREAM_INIT"},
	"ADAPTER_WRAP_END":        {"ADAPTER_DETECTED"},
	"STREAM_READY":            {"ADAPTER_WRAP_END"},
	"RETRY_START":             {"ERROR"},
	"RETRY_ATTEMPT":           {"RETRY_START"},
	"ATTEMPT_START":           {"RETRY_ATTEMPT"},
	"RETRY_GIVE_UP":           {"ERROR"},
	"FALLBACK_START":          {"ERROR", "RETRY_GIVE_UP"},
	"FALLBACK_MODEL_SELECTED": {"FALLBACK_START"},
	"RESUME_START":            {"CONTINUATION_START"},
	"CONTINUATION_START":      {"ATTEMPT_START", "FALLBACK_MODEL_SELECTED"},
	"STREAM_INIT":             {"SESSION_START", "ATTEMPT_START", "FALLBACK_MODEL_SELECTED", "RESUME_START"},
	"GUARDRAIL_RULE_START":    {"GUARDRAIL_PHASE_START", "GUARDRAIL_RULE_END"},
	"GUARDRAIL_RULE_END":      {"GUARDRAIL_RULE_START"},
	"GUARDRAIL_PHASE_END":     {"GUARDRAIL_RULE_END"},
	"GUARDRAIL_RULE_RESULT":   {"GUARDRAIL_PHASE_END", "GUARDRAIL_RULE_RESULT"},
	"RETRY_END":               {"COMPLETE"},
	"FALLBACK_END":            {"COMPLETE", "RETRY_END"},
}

// An l0Judge checks what view.L0 emits about one session against the specification
// of the L0 lifecycle (docs/contract/l0.md).
type l0Judge struct {
	live, read view.L0
	entries    []kernel.Entry
	lines      []string

	seq, ts  int64
	last     string // the newest event that is not about a tool
	strategy string // the recovery strategy of the newest ERROR
	aborted  bool
	renewing bool // the newest fact is a launch of a renewal
	results  int  // violations whose result was not emitted yet
	types    map[string]int

	hooks  view.Hooks
	called []string // the hooks that were called for the newest event
	l0Counts
}

type l0Counts struct{ starts, launches, attempts int }

// fact checks the events of one fact, live and as the ledger returns it.
func (j *l0Judge) fact(t require.TestingT, live, read kernel.Entry) {
	events := j.live.Apply(live)
	lines := l0Lines(t, events)
	require.Equal(t, lines, l0Lines(t, j.read.Apply(read)), "the same live and read back")
	j.entries = append(j.entries, read)
	j.lines = append(j.lines, lines...)
	if j.types == nil {
		j.types = map[string]int{}
		j.listen()
	}
	l, _ := read.Fact.(kernel.Launching)
	moved, _ := read.Fact.(kernel.RenewalMoved)
	j.renewing = l.Cause == "renewal" || moved.To == renewal.Resumed
	switch f := read.Fact.(type) {
	case kernel.Launching:
		if f.Cause != "renewal" { // a launch for a renewal continues the attempt, without an onStart
			j.launches++
		}
	case kernel.AttemptEnded:
		j.attempts++
	}
	for _, e := range events {
		j.event(t, e, read.At.UnixMilli())
		j.callbacks(t, e)
	}
}

func (j *l0Judge) event(t require.TestingT, e view.L0Event, at int64) {
	require.EqualValues(t, j.seq+1, e.Seq, "dense from 1")
	require.Equal(t, "sess", e.StreamID)
	require.GreaterOrEqual(t, e.TS, j.ts, "time does not go back")
	require.Equal(t, max(at, j.ts), e.TS)
	j.seq, j.ts = int64(e.Seq), e.TS
	j.types[e.Type]++
	fields, known := l0Fields[e.Type]
	require.True(t, known, "%s is not in the document", e.Type)
	got := ""
	for _, f := range e.Fields {
		got += " " + f.Name
	}
	with, without := strings.NewReplacer("[", "", "]", "").Replace(fields), strings.ReplaceAll(fields, " [errorCode]", "")
	require.Contains(t, []string{with, without}, strings.TrimSpace(got), e.Type)

	require.Equal(t, e.Type == "SESSION_START", e.Seq == 1, "SESSION_START is the first event and no other")
	ended := j.types["COMPLETE"] > 0 && e.Type != "COMPLETE" || j.strategy == "halt" && e.Type != "ERROR"
	require.True(t, !ended || slices.Contains([]string{"RETRY_END", "FALLBACK_END", "RETRY_GIVE_UP"}, e.Type), "%s after the end", e.Type)
	renewing := j.renewing && (e.Type == "CONTINUATION_START" || e.Type == "STREAM_INIT") // a renewal emits these events in the middle of an attempt
	if before, one := l0After[e.Type]; one && !renewing {
		require.Contains(t, before, j.last, "what comes right before %s", e.Type)
	}
	switch e.Type {
	case "COMPLETE":
		require.Equal(t, 1, j.types[e.Type])
	case "ERROR":
		require.NotEmpty(t, e.Field("error"))
		require.NotEqual(t, "halt", j.strategy, "an ERROR after the last one")
		j.strategy = e.Field("recoveryStrategy").(string)
		require.Equal(t, e.Field("failureType") == "abort", j.last == "ABORT_COMPLETED")
		require.Equal(t, e.Field("failureType") == "network" && e.Field("errorCode") == "NETWORK_ERROR", j.last == "NETWORK_ERROR" && e.Field("errorCode") != "INVALID_STREAM")
	case "RETRY_START":
		require.Equal(t, "retry", j.strategy)
	case "FALLBACK_START":
		require.Equal(t, "fallback", j.strategy)
		require.Less(t, e.Field("fromIndex"), e.Field("toIndex"))
	case "RETRY_GIVE_UP":
		require.NotEqual(t, "retry", j.strategy)
	case "ABORT_REQUESTED":
		require.False(t, j.aborted, "requested once")
		j.aborted = true
	case "STREAM_INIT":
		require.False(t, j.aborted, "a launch after an abort")
	case "GUARDRAIL_PHASE_END":
		require.Zero(t, j.results)
		j.results = len(e.Field("violations").([]view.L0Violation))
		require.Equal(t, e.Field("passed"), j.results == 0)
	case "GUARDRAIL_RULE_RESULT":
		j.results--
	}
	if !strings.HasPrefix(e.Type, "TOOL_") {
		j.last = e.Type
	}
}

// listen sets every hook to a function that records its call.
func (j *l0Judge) listen() {
	note := func(name string) { j.called = append(j.called, name) }
	j.hooks = view.Hooks{
		OnEvent:      func(view.L0Event) { note("onEvent") },
		OnStart:      func(int, bool, bool) { note("onStart") },
		OnComplete:   func(view.L0State) { note("onComplete") },
		OnError:      func(error, bool, bool) { note("onError") },
		OnViolation:  func(view.L0Violation) { note("onViolation") },
		OnRetry:      func(int, string) { note("onRetry") },
		OnFallback:   func(int, string) { note("onFallback") },
		OnResume:     func(string, int64) { note("onResume") },
		OnCheckpoint: func(string, int64) { note("onCheckpoint") },
		OnTimeout:    func(string, int64) { note("onTimeout") },
		OnAbort:      func(int64, int64) { note("onAbort") },
		OnDrift:      func([]string, float64) { note("onDrift") },
		OnToolCall:   func(string, string, any) { note("onToolCall") },
	}
}

// callbacks checks that Emit calls, for an event, exactly onEvent and the callbacks that
// view.L0Callbacks lists.
func (j *l0Judge) callbacks(t require.TestingT, e view.L0Event) {
	j.called = nil
	j.hooks.Emit(e)
	want := []string{"onEvent"}
	for _, c := range view.L0Callbacks(e) {
		want = append(want, c.Name)
		if c.Name == "onStart" {
			j.starts++
		}
	}
	require.Equal(t, want, j.called)
	require.Zero(t, j.hooks.Panics())
}

// ended checks what must be true at the end.
func (j *l0Judge) ended(t require.TestingT, reach map[string]int) {
	require.Equal(t, max(j.launches, 1), j.starts, "one onStart for every launch, or for a session without one")
	require.Equal(t, max(j.attempts, 1), j.types["ERROR"]+j.types["COMPLETE"], "each attempt ends once, and so does a session without one")
	require.Equal(t, j.types["COMPLETE"] == 0, j.strategy == "halt", "a session ends with COMPLETE, or with an ERROR that halts")
	require.Equal(t, j.types["GUARDRAIL_PHASE_START"], j.types["GUARDRAIL_PHASE_END"])
	require.Zero(t, j.results)
	require.Equal(t, j.types["TOOL_COMPLETED"], j.types["TOOL_RESULT"]+j.types["TOOL_ERROR"])
	for event, n := range j.types {
		reach["l0 "+event] += n
	}
}

// readAgain compares the events with those of another reading from the beginning.
func (j *l0Judge) readAgain(t require.TestingT) {
	var later view.L0
	var lines []string
	for _, e := range j.entries {
		lines = append(lines, l0Lines(t, later.Apply(e))...)
	}
	require.Equal(t, j.lines, lines, "the same each time it is read")
}

// clone returns an independent copy of the judge, for a session that has the same entries
// so far and then ends in another way. The views of the copy read these entries again.
func (j *l0Judge) clone() *l0Judge {
	c := *j
	c.live, c.read = view.L0{}, view.L0{}
	for _, e := range c.entries {
		c.live.Apply(e)
		c.read.Apply(e)
	}
	c.types = maps.Clone(c.types)
	c.entries, c.lines = slices.Clip(c.entries), slices.Clip(c.lines)
	c.listen()
	return &c
}

func l0Lines(t require.TestingT, events []view.L0Event) (lines []string) {
	for _, e := range events {
		line, err := json.Marshal(e)
		require.NoError(t, err)
		lines = append(lines, string(line))
	}
	return lines
}

// TestEveryFactHasItsPlaceInL0: the view handles the zero value of every fact before,
// during and after a session.
func TestEveryFactHasItsPlaceInL0(t *testing.T) {
	silent := map[string]bool{}
	for _, f := range kernel.Registry() {
		var l view.L0
		require.Empty(t, l.Apply(kernel.Entry{Fact: f}), "%T before the session", f)
		l.Apply(kernel.Entry{Fact: kernel.Began{SessionID: "sess"}})
		require.Len(t, l.Apply(kernel.Entry{Fact: kernel.SessionMoved{To: session.Pending}}), 1)
		if len(l.Apply(kernel.Entry{Fact: f})) == 0 {
			silent[kernel.Kind(f)] = true
		}
		l.Apply(kernel.Entry{Fact: kernel.SessionMoved{From: session.Running, To: session.Failed}})
		require.Empty(t, l.Apply(kernel.Entry{Fact: f}), "%T after the end", f)
	}
	var emit []string
	for _, f := range kernel.Registry() {
		if !silent[kernel.Kind(f)] {
			emit = append(emit, kernel.Kind(f))
		}
	}
	require.Equal(t, strings.Fields("launching running abort_requested timer_set timed_out rules_held drift_seen tool_called tool_returned checkpoint_saved attempt_ended retry_answered"), emit)
}
