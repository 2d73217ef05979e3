package view

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lifeloop/attempt"
	"lifeloop/kernel"
	"lifeloop/session"
	"lifeloop/telemetry"
)

// The names of L0's events. They are written in this package and nowhere else.
const (
	l0SessionStart = "SESSION_START"
	l0StreamInit   = "STREAM_INIT"
	l0StreamReady  = "STREAM_READY"
	l0Complete     = "COMPLETE"
	l0Error        = "ERROR"
	l0NetworkError = "NETWORK_ERROR"

	l0AbortRequested = "ABORT_REQUESTED"
	l0AbortCompleted = "ABORT_COMPLETED"

	l0AdapterWrapStart = "ADAPTER_WRAP_START"
	l0AdapterDetected  = "ADAPTER_DETECTED"
	l0AdapterWrapEnd   = "ADAPTER_WRAP_END"

	l0TimeoutStart     = "TIMEOUT_START"
	l0TimeoutReset     = "TIMEOUT_RESET"
	l0TimeoutTriggered = "TIMEOUT_TRIGGERED"

	l0RetryStart   = "RETRY_START"
	l0RetryAttempt = "RETRY_ATTEMPT"
	l0AttemptStart = "ATTEMPT_START"
	l0RetryEnd     = "RETRY_END"
	l0RetryGiveUp  = "RETRY_GIVE_UP"

	l0FallbackStart    = "FALLBACK_START"
	l0FallbackSelected = "FALLBACK_MODEL_SELECTED"
	l0FallbackEnd      = "FALLBACK_END"

	l0ContinuationStart = "CONTINUATION_START"
	l0CheckpointSaved   = "CHECKPOINT_SAVED"
	l0ResumeStart       = "RESUME_START"

	l0PhaseStart = "GUARDRAIL_PHASE_START"
	l0PhaseEnd   = "GUARDRAIL_PHASE_END"
	l0RuleStart  = "GUARDRAIL_RULE_START"
	l0RuleEnd    = "GUARDRAIL_RULE_END"
	l0RuleResult = "GUARDRAIL_RULE_RESULT"

	l0DriftResult = "DRIFT_CHECK_RESULT"

	l0ToolRequested = "TOOL_REQUESTED"
	l0ToolStart     = "TOOL_START"
	l0ToolResult    = "TOOL_RESULT"
	l0ToolError     = "TOOL_ERROR"
	l0ToolCompleted = "TOOL_COMPLETED"
)

// An L0Event is one event of the L0 lifecycle. As JSON its own fields stand
// beside the envelope's, in the order of Fields.
type L0Event struct {
	Type     string
	TS       int64             // Unix milliseconds; it never goes back within a session
	StreamID string            // our session's id
	Seq      uint64            // 1, 2, 3, … within the session
	Meta     map[string]string // the user object, as it was when the session began
	Fields   []L0Field
}

// An L0Field is a field of an event's own.
type L0Field struct {
	Name  string
	Value any
}

// Field is an event's own field of that name, nil where it has none.
func (e L0Event) Field(name string) any {
	for _, f := range e.Fields {
		if f.Name == name {
			return f.Value
		}
	}
	return nil
}

// MarshalJSON writes the envelope and the event's own fields as one object.
func (e L0Event) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	sep := '{'
	for _, f := range append([]L0Field{{"type", e.Type}, {"ts", e.TS}, {"streamId", e.StreamID}, {"seq", e.Seq}, {"meta", e.Meta}}, e.Fields...) {
		fmt.Fprintf(&b, "%c%q:", sep, f.Name)
		sep = ','
		if err := enc.Encode(f.Value); err != nil {
			return nil, fmt.Errorf("%s of %s: %w", f.Name, e.Type, err)
		}
		b.Truncate(b.Len() - 1) // the newline
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// An L0State is what COMPLETE tells of the attempt that completed, and of the
// way there. There is no content in it: what a harness writes is nobody's but
// its user's.
type L0State struct {
	TokenCount        int64         `json:"tokenCount"`
	ContentLength     int64         `json:"contentLength"`
	Checkpoint        string        `json:"checkpoint"`        // the newest, empty without one
	ModelRetryCount   int           `json:"modelRetryCount"`   // counted retries of the session
	NetworkRetryCount int           `json:"networkRetryCount"` // the others
	FallbackIndex     int           `json:"fallbackIndex"`
	Violations        []L0Violation `json:"violations"` // of that attempt
	DriftDetected     bool          `json:"driftDetected"`
	Completed         bool          `json:"completed"`
	Resumed           bool          `json:"resumed"` // it went on from a checkpoint
}

// An L0Violation is a guardrail that was broken.
type L0Violation struct {
	Rule        string `json:"rule"`
	Message     string `json:"message"`
	Severity    string `json:"severity"` // warning, error or fatal
	Recoverable bool   `json:"recoverable"`
}

// l0Policy is what an ERROR says of the policy, and of where it stands.
type l0Policy struct {
	RetryEnabled    bool `json:"retryEnabled"`
	FallbackEnabled bool `json:"fallbackEnabled"`
	MaxRetries      int  `json:"maxRetries"` // of every kind, in the session
	MaxFallbacks    int  `json:"maxFallbacks"`
	Attempt         int  `json:"attempt"` // of the profile, from 1
	FallbackIndex   int  `json:"fallbackIndex"`
}

// L0 tells a session in the words of the L0 lifecycle: a fold over its facts
// from the first on. The same facts give the same events, byte for byte,
// whoever reads them and however often.
//
//	var l0 view.L0
//	for entry := range entries {
//		for _, event := range l0.Apply(entry) { … }
//	}
//
// A launch of a process is an attempt, a profile a stream, and what the harness
// writes is counted and never shown. What has no name in L0, as a pause, is
// silent.
type L0 struct {
	// Tool shows the arguments of a call and what came of it (of one that failed,
	// the error in words) to who may see them: the ledger has their digests and
	// sizes alone, which are told where Tool is nil or does not know the call.
	Tool func(call string) (args, result any, ok bool)
	// Words is what was said of the failure of a launch, by who may see it; the
	// ledger's sentence is told where Words is nil or empty.
	Words func(run string) string

	began kernel.Began
	open  bool // SESSION_START was told, and the end was not
	seq   uint64
	at    int64 // of the fact that is being told, and never before the last
	out   []L0Event

	aborted    bool             // somebody asked for the end
	launches   int              // so far
	attempt    kernel.Launching // the newest
	why        string           // how the attempt before it ended
	notStarted bool
	retries    int // of the current profile
	counted    int // of the session
	uncounted  int
	rules      int // held so far
	broken     map[string]attempt.RuleResult
	violations []L0Violation
	checkpoint string
	late       map[string]bool // calls whose end was told because it took too long
}

// Apply folds one fact and returns the events that it makes.
func (l *L0) Apply(e kernel.Entry) []L0Event {
	l.at, l.out = max(l.at, e.At.UnixMilli()), nil
	switch f := e.Fact.(type) {
	case kernel.Began:
		l.began = f
	case kernel.SessionMoved:
		l.moved(f)
	default:
		if l.open {
			l.tellOf(f)
		}
	}
	return l.out
}

// tell makes the next event, of names and values in turn.
func (l *L0) tell(event string, fields ...any) {
	l.seq++
	meta := map[string]string{}
	maps.Copy(meta, l.began.Meta)
	e := L0Event{Type: event, TS: l.at, StreamID: l.began.SessionID, Seq: l.seq, Meta: meta}
	for i := 0; i < len(fields); i += 2 {
		e.Fields = append(e.Fields, L0Field{fields[i].(string), fields[i+1]})
	}
	l.out = append(l.out, e)
}

// moved tells the beginning, and the end of a session without an attempt: one
// that was refused, or ended before its first, or is only observed.
func (l *L0) moved(f kernel.SessionMoved) {
	switch {
	case f.To == session.Pending && l.seq == 0:
		l.open = true
		l.tell(l0SessionStart, "attempt", 1, "isRetry", false, "isFallback", false)
	case !l.open || !f.To.Terminal():
	case f.To == session.Completed:
		l.completed(kernel.AttemptEnded{})
	case l.aborted:
		l.failed(kernel.AttemptEnded{Cause: attempt.Aborted, Reason: "it was asked to end", Recovery: attempt.Halt, AttemptRef: kernel.AttemptRef{Attempt: 1}})
	default:
		l.failed(kernel.AttemptEnded{Cause: attempt.Unknown, Reason: f.Reason, Recovery: attempt.Halt, AttemptRef: kernel.AttemptRef{Attempt: 1}})
	}
}

// tellOf tells of everything else, between the beginning and the end. What is
// silent is listed.
func (l *L0) tellOf(f kernel.Fact) {
	switch f := f.(type) {
	case kernel.Launching:
		l.launching(f)
	case kernel.Running:
		adapter := cmp.Or(l.attempt.Adapter, l.began.AdapterID)
		l.tell(l0AdapterDetected, "adapterId", adapter)
		l.tell(l0AdapterWrapEnd, "adapterId", adapter)
		l.tell(l0StreamReady)
	case kernel.Exited:
		l.notStarted = f.NotStarted
	case kernel.TimerSet:
		l.timerSet(f)
	case kernel.TimedOut:
		l.timedOut(f)
	case kernel.RulesChecked:
		l.rulesHeld(f)
	case kernel.DriftSeen:
		l.tell(l0DriftResult, "detected", true, "types", slices.Clone(f.Types), "confidence", f.Confidence)
	case kernel.CheckpointSaved:
		l.checkpoint = f.Checkpoint
		l.tell(l0CheckpointSaved, "checkpoint", f.Checkpoint, "tokenCount", f.Units)
	case kernel.CheckpointDropped:
		l.checkpoint = ""
	case kernel.ToolCalled:
		args, _, known := l.shown(f.Tool)
		if !known {
			args = sized(f.Args)
		}
		l.tell(l0ToolRequested, "toolName", f.Name, "toolCallId", f.Tool, "arguments", args)
		l.tell(l0ToolStart, "toolCallId", f.Tool, "toolName", f.Name)
	case kernel.ToolReturned:
		l.toolReturned(f)
	case kernel.AbortRequested:
		if !l.aborted {
			l.aborted = true
			l.tell(l0AbortRequested, "source", "user")
		}
	case kernel.AttemptEnded:
		l.attemptEnded(f)
	case kernel.Began, kernel.SessionMoved: // told above
	case kernel.Resumed:
		l.began.Budget = f.Budget
	case kernel.DeadlineSet, kernel.LimitMet, kernel.PauseRequested, kernel.ResumeRequested, kernel.PausedAgain, kernel.StopSent, kernel.StopResult,
		kernel.Negotiated, kernel.Weakened, kernel.HarnessSessionOpened, kernel.FrameAdopted, kernel.Bound, kernel.BindRefused,
		kernel.Observed, kernel.Dispatched, kernel.Answered, kernel.Placing, kernel.PayloadSettled, kernel.CallOver, kernel.HookAnswered,
		kernel.ReceiptIssued, kernel.CommandReceived, kernel.ActivitySeen, kernel.ActivityMoved, kernel.ActivityConfirmed, kernel.VersionSeen,
		kernel.UsageCounted, kernel.UnknownCounted, kernel.SourceNamed, kernel.SourceRead, kernel.SourceTroubled, kernel.DrainBegan:
	default:
		panic(fmt.Sprintf("view: L0 does not know %T", f))
	}
}

// launching tells which attempt begins, and what it goes on from. The first was
// announced by SESSION_START; the others are told after the back-off, right
// before their launch (DECISIONS Z3). A launch that repeats an attempt is none
// of its own.
func (l *L0) launching(f kernel.Launching) {
	before := l.attempt
	switch {
	case l.launches == 0:
	case f.Profile != before.Profile:
		l.retries = 0
		l.tell(l0FallbackStart, "fromIndex", before.Profile, "toIndex", f.Profile, "reason", l.why)
		l.tell(l0FallbackSelected, "index", f.Profile)
	case f.Attempt != before.Attempt:
		l.tell(l0AttemptStart, "attempt", f.Attempt, "isRetry", true, "isFallback", f.Profile > 0)
	}
	l.launches++
	l.attempt, l.notStarted, l.broken, l.violations, l.late = f, false, map[string]attempt.RuleResult{}, nil, nil
	if f.Checkpoint != "" {
		l.tell(l0ContinuationStart, "checkpoint", f.Checkpoint, "tokenCount", f.CheckpointUnits)
		l.tell(l0ResumeStart, "checkpoint", f.Checkpoint, "tokenCount", f.CheckpointUnits)
	}
	l.tell(l0StreamInit)
	l.tell(l0AdapterWrapStart, "streamType", "process")
}

// timerSet tells that a timer runs: the initial one from the launch on, the
// other from the first sign of life, which is what it is reset by first.
func (l *L0) timerSet(f kernel.TimerSet) {
	if f.Timer == kernel.TimerInter {
		l.tell(l0TimeoutReset, "timeoutType", string(f.Timer), "configuredMs", f.AfterMS, "tokenIndex", 0)
		return
	}
	l.tell(l0TimeoutStart, "timeoutType", string(f.Timer), "configuredMs", f.AfterMS)
}

// timedOut tells that a timer fired. A tool that took too long has failed,
// whatever it may still say.
func (l *L0) timedOut(f kernel.TimedOut) {
	l.tell(l0TimeoutTriggered, "timeoutType", string(f.Timer), "elapsedMs", f.ElapsedMS)
	if f.Tool == "" {
		return
	}
	l.toolFailed(f.Tool, toolTimeout, f.ElapsedMS, "")
	if l.late == nil {
		l.late = map[string]bool{}
	}
	l.late[f.Tool] = true
}

// toolTimeout is the type of error of a tool that took too long.
const toolTimeout = "TIMEOUT"

func (l *L0) toolReturned(f kernel.ToolReturned) {
	if l.late[f.Tool] {
		return
	}
	_, result, known := l.shown(f.Tool)
	if f.Error != "" {
		words, _ := result.(string)
		l.toolFailed(f.Tool, f.Error, f.DurationMS, words)
		return
	}
	if !known {
		result = sized(f.Result)
	}
	l.tell(l0ToolResult, "toolCallId", f.Tool, "result", result, "durationMs", f.DurationMS)
	l.tell(l0ToolCompleted, "toolCallId", f.Tool, "status", "success")
}

func (l *L0) toolFailed(call, kind string, ms int64, words string) {
	sentence := "the tool failed"
	switch kind {
	case toolTimeout:
		sentence = "the tool took too long"
	case telemetry.ToolNotFound:
		sentence = "there is no such tool"
	case telemetry.ToolRefused:
		sentence = "the call was refused"
	}
	l.tell(l0ToolError, "toolCallId", call, "error", cmp.Or(words, sentence), "errorType", kind, "durationMs", ms)
	l.tell(l0ToolCompleted, "toolCallId", call, "status", "error")
}

// shown is what may be seen of a call beyond the ledger.
func (l *L0) shown(call string) (args, result any, ok bool) {
	if l.Tool == nil {
		return nil, nil, false
	}
	return l.Tool(call)
}

// sized is what the ledger has of arguments or of a result; null where it has
// nothing.
func sized(s *telemetry.Sized) any {
	if s == nil {
		return nil
	}
	return *s
}

// rulesHeld tells a phase in which guardrails were held: the rules, then the
// phase's end, then what was broken. They take no time: a phase is one instant
// of the session.
func (l *L0) rulesHeld(f kernel.RulesChecked) {
	violations := []L0Violation{}
	l.tell(l0PhaseStart, "phase", f.Phase, "ruleCount", len(f.Rules), "tokenCount", f.Units)
	for i, r := range f.Rules {
		l.rules++
		id := fmt.Sprintf("rule-%d", l.rules)
		l.tell(l0RuleStart, "index", i, "ruleId", r.ID, "callbackId", id)
		l.tell(l0RuleEnd, "index", i, "ruleId", r.ID, "passed", r.Passed, "callbackId", id, "durationMs", 0)
		if r.Passed {
			continue
		}
		if l.broken != nil {
			l.broken[r.ID] = r
		}
		violations = append(violations, L0Violation{Rule: r.ID, Message: "rule " + r.ID + " was broken", Severity: string(r.Severity), Recoverable: r.Recoverable})
	}
	l.violations = append(l.violations, violations...)
	l.tell(l0PhaseEnd, "phase", f.Phase, "passed", len(violations) == 0, "violations", violations, "durationMs", 0)
	for i, v := range violations {
		l.tell(l0RuleResult, "index", i, "ruleId", v.Rule, "passed", false, "violation", v)
	}
}

// attemptEnded tells how an attempt ended, and what follows, as far as it is
// told before the next one begins.
func (l *L0) attemptEnded(f kernel.AttemptEnded) {
	if f.Cause == "" {
		l.completed(f)
		return
	}
	l.failed(f)
	l.why = f.Reason
	if len(f.Skipped) > 0 {
		l.why += "; passed over: " + strings.Join(f.Skipped, ", ")
	}
	if r := f.Retry; r != nil {
		l.retries = r.Number
		if r.Counted {
			l.counted++
		} else {
			l.uncounted++
		}
		kind := failureType(f.Cause)
		l.tell(l0RetryStart, "attempt", r.Number, "maxAttempts", r.Of, "reason", f.Reason)
		l.tell(l0RetryAttempt, "attempt", r.Number, "maxAttempts", r.Of, "reason", f.Reason, "delayMs", r.DelayMS, "countsTowardLimit", r.Counted,
			"isNetwork", kind == "network", "isModelIssue", kind == "model" || kind == "zero_output")
	}
	if f.GaveUp {
		l.tell(l0RetryGiveUp, "attempt", l.retries, "maxAttempts", l.budget().Attempts, "reason", "no other try of "+f.Name+" is made",
			"lastError", l.sentence(f))
	}
}

// completed is the end of a session that did what it was to do.
func (l *L0) completed(f kernel.AttemptEnded) {
	l.open = false
	state := L0State{TokenCount: f.Units, ContentLength: f.Bytes, Checkpoint: l.checkpoint, ModelRetryCount: l.counted, NetworkRetryCount: l.uncounted,
		FallbackIndex: f.Profile, Violations: append([]L0Violation{}, l.violations...), Completed: true, Resumed: l.attempt.Checkpoint != ""}
	l.tell(l0Complete, "tokenCount", f.Units, "contentLength", f.Bytes, "durationMs", f.DurationMS, "state", state)
	if n := l.counted + l.uncounted; n > 0 {
		l.tell(l0RetryEnd, "attempt", n, "success", true)
	}
	if f.Profile > 0 {
		l.tell(l0FallbackEnd, "index", f.Profile, "success", true)
	}
}

// failed tells that an attempt failed, once (DECISIONS Z2).
func (l *L0) failed(f kernel.AttemptEnded) {
	if f.Recovery != attempt.Retry && f.Recovery != attempt.Fallback {
		l.open = false
	}
	if f.Cause == attempt.Aborted {
		l.tell(l0AbortCompleted, "tokenCount", f.Units, "contentLength", f.Bytes)
	}
	words := l.sentence(f)
	if f.Cause == attempt.Network { // and no other cause does (DECISIONS Z14)
		l.tell(l0NetworkError, "error", words, "code", cmp.Or(f.Detail, "network"), "retryable", true)
	}
	b := l.budget()
	fields := []any{"error", words}
	if code := l.errorCode(f); code != "" {
		fields = append(fields, "errorCode", code)
	}
	l.tell(l0Error, append(fields, "failureType", failureType(f.Cause), "recoveryStrategy", string(f.Recovery),
		"policy", l0Policy{RetryEnabled: b.MaxRetries > 0, FallbackEnabled: len(b.Profiles) > 1, MaxRetries: b.MaxRetries,
			MaxFallbacks: max(len(b.Profiles)-1, 0), Attempt: f.Attempt, FallbackIndex: f.Profile})...)
}

// sentence says for people why an attempt failed. It is never empty.
func (l *L0) sentence(f kernel.AttemptEnded) string {
	words := ""
	if l.Words != nil && f.Run != "" {
		words = l.Words(f.Run)
	}
	return cmp.Or(words, f.Reason, "it failed: "+string(f.Cause))
}

// budget is what the policy allows: nothing where the session has none.
func (l *L0) budget() kernel.Budget {
	if l.began.Budget == nil {
		return kernel.Budget{}
	}
	return *l.began.Budget
}

// failureType is the L0 word for what failed (DECISIONS Z15).
func failureType(c attempt.Cause) string {
	switch c {
	case attempt.Network, attempt.RateLimit, attempt.ServerError:
		return "network"
	case attempt.Timeout:
		return "timeout"
	case attempt.ZeroOutput:
		return "zero_output"
	case attempt.Aborted:
		return "abort"
	case attempt.Model, attempt.Guardrail, attempt.Drift:
		return "model"
	}
	return "unknown" // nobody could name it, or nothing mends it
}

// errorCode is the L0 code of a failure; most have none.
func (l *L0) errorCode(f kernel.AttemptEnded) string {
	switch f.Cause {
	case attempt.Aborted:
		return "STREAM_ABORTED"
	case attempt.Timeout:
		switch kernel.Timer(f.Detail) {
		case kernel.TimerInitial:
			return "INITIAL_TOKEN_TIMEOUT"
		case kernel.TimerInter:
			return "INTER_TOKEN_TIMEOUT"
		case kernel.TimerTool:
			return "TOOL_TIMEOUT"
		}
		return ""
	case attempt.ZeroOutput:
		return "ZERO_OUTPUT"
	case attempt.Guardrail:
		if r, known := l.broken[f.Detail]; known && !r.Recoverable {
			return "FATAL_GUARDRAIL_VIOLATION"
		}
		return "GUARDRAIL_VIOLATION"
	case attempt.Drift:
		return "DRIFT_DETECTED"
	}
	switch {
	case l.notStarted:
		return "INVALID_STREAM"
	case f.Cause == attempt.Network:
		return l0NetworkError
	}
	return ""
}
