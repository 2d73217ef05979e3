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
	"lifeloop/renewal"
	"lifeloop/session"
	"lifeloop/telemetry"
)

// An L0Event is one event of the L0 lifecycle. Its JSON has type, ts, streamId, seq and
// meta (the envelope), then Fields in their order. L0's names of events and fields are
// written in this package and nowhere else.
type L0Event struct {
	Type     string
	TS       int64             // Unix milliseconds; never decreases within a session
	StreamID string            // the id of the wrapper's session
	Seq      uint64            // 1, 2, 3, … within the session
	Meta     map[string]string // the labels that the session was started with, as L0's user-provided meta object
	Fields   []L0Field
}

// An L0Field is a field that only some types of event have.
type L0Field struct {
	Name  string
	Value any
}

// Field returns the value of the field of that name in Fields, or nil.
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

// An L0State describes the completed attempt and the retries before it. It does
// not contain the harness's output, which belongs to the user.
type L0State struct {
	TokenCount        int64         `json:"tokenCount"`
	ContentLength     int64         `json:"contentLength"`
	Checkpoint        string        `json:"checkpoint"`        // id of the newest checkpoint; empty if there is none
	ModelRetryCount   int           `json:"modelRetryCount"`   // the session's retries that count toward a profile's budget
	NetworkRetryCount int           `json:"networkRetryCount"` // the session's retries that do not count toward a profile's budget
	FallbackIndex     int           `json:"fallbackIndex"`
	Violations        []L0Violation `json:"violations"` // violations of guardrails in the completed attempt
	DriftDetected     bool          `json:"driftDetected"`
	Completed         bool          `json:"completed"`
	Resumed           bool          `json:"resumed"` // the attempt continued from a checkpoint
}

// An L0Violation is a guardrail that was broken.
type L0Violation struct {
	Rule        string `json:"rule"`
	Message     string `json:"message"`
	Severity    string `json:"severity"` // warning, error or fatal
	Recoverable bool   `json:"recoverable"`
}

// l0Policy is the retry policy and its progress, as the event ERROR reports
// them.
type l0Policy struct {
	RetryEnabled    bool `json:"retryEnabled"`
	FallbackEnabled bool `json:"fallbackEnabled"`
	MaxRetries      int  `json:"maxRetries"` // the limit on the session's retries of all kinds together
	MaxFallbacks    int  `json:"maxFallbacks"`
	Attempt         int  `json:"attempt"` // the attempt's number in its profile, from 1
	FallbackIndex   int  `json:"fallbackIndex"`
}

// L0 computes the events of the L0 lifecycle from a session's facts, which must
// begin with the first fact. The same facts give the same events, byte for
// byte.
//
//	var l0 view.L0
//	for entry := range entries {
//		for _, event := range l0.Apply(entry) { … }
//	}
//
// In L0's words, each launch of the harness is an attempt, except the launch of a
// renewal, and each profile (the primary or a fallback) is a stream. The harness's output
// is counted and never shown. Facts for which L0 has no event, such as a pause, are
// skipped.
type L0 struct {
	// Tool returns the arguments of a tool call and its result, or the error text
	// of a failed one. The ledger has only their digests and sizes. If Tool is nil or
	// ok is false, the events have these digests and sizes instead.
	Tool func(call string) (args, result any, ok bool)
	// Words returns the text of a launch's failure. If it is nil or returns an
	// empty string, the ledger's reason is used.
	Words func(run string) string

	began kernel.Began
	open  bool // between SESSION_START and the end
	seq   uint64
	at    int64 // the time of the current fact, but never earlier than that of the previous one
	out   []L0Event

	aborted    bool // an abort was requested
	launches   int  // the number of launches so far
	attempt    l0Attempt
	retries    l0Retries
	why        string // how the previous attempt ended
	rules      int    // the number of guardrail checks so far
	checkpoint string
	renewal    l0Renewal
	asked      kernel.RetryAsked
}

// An l0Renewal is the newest renewal. token is the digest of the continuation token, which
// the prepare command of the renewal's profile printed. path says whether the harness is
// started again, or begins a new session itself.
type l0Renewal struct {
	token string
	path  renewal.Path
}

// An l0Attempt is the newest attempt.
type l0Attempt struct {
	kernel.Launching
	notStarted bool
	broken     map[string]attempt.RuleResult
	violations []L0Violation
	late       map[string]bool // ids of tool calls that timed out
}

// l0Retries counts the retries of the current profile and, for the whole session,
// the retries that count toward a profile's budget and the retries that do not.
type l0Retries struct{ profile, counted, uncounted int }

// Apply adds one fact and returns its events.
func (l *L0) Apply(e kernel.Entry) []L0Event {
	l.at, l.out = max(l.at, e.At.UnixMilli()), nil
	switch f := e.Fact.(type) {
	case kernel.Began:
		l.began = f
	case kernel.SessionMoved:
		l.moved(f)
	default:
		if l.open {
			l.emitOther(f)
		}
	}
	return l.out
}

// emit appends the next event. In fields, names and values alternate.
func (l *L0) emit(event string, fields ...any) {
	l.seq++
	meta := map[string]string{}
	maps.Copy(meta, l.began.Meta)
	e := L0Event{Type: event, TS: l.at, StreamID: l.began.SessionID, Seq: l.seq, Meta: meta}
	for i := 0; i < len(fields); i += 2 {
		e.Fields = append(e.Fields, L0Field{fields[i].(string), fields[i+1]})
	}
	l.out = append(l.out, e)
}

// moved emits the beginning of a session. It also emits the end of a session that no
// AttemptEnded has ended: a session that was refused, that ended before its first
// attempt, or that is only observed.
func (l *L0) moved(f kernel.SessionMoved) {
	switch {
	case f.To == session.Pending && l.seq == 0:
		l.open = true
		l.emit("SESSION_START", "attempt", 1, "isRetry", false, "isFallback", false)
	case !l.open || !f.To.Terminal():
	case f.To == session.Completed:
		l.completed(kernel.AttemptEnded{})
	case l.aborted:
		l.failed(kernel.AttemptEnded{Cause: attempt.Aborted, Reason: "the run was aborted", Recovery: attempt.Halt, AttemptRef: kernel.AttemptRef{Attempt: 1}})
	default:
		l.failed(kernel.AttemptEnded{Cause: attempt.Unknown, Reason: f.Reason, Recovery: attempt.Halt, AttemptRef: kernel.AttemptRef{Attempt: 1}})
	}
}

// emitOther emits the events of a fact that Apply does not handle itself. Apply calls it
// only while the session is open. Its last case lists the facts that it ignores.
func (l *L0) emitOther(f kernel.Fact) {
	switch f := f.(type) {
	case kernel.Launching:
		l.launching(f)
	case kernel.Running:
		adapter := cmp.Or(l.attempt.Adapter, l.began.AdapterID)
		l.emit("ADAPTER_DETECTED", "adapterId", adapter)
		l.emit("ADAPTER_WRAP_END", "adapterId", adapter)
		l.emit("STREAM_READY")
	case kernel.Exited:
		l.attempt.notStarted = f.NotStarted
	case kernel.TimerSet:
		l.timerSet(f)
	case kernel.TimedOut:
		l.timedOut(f)
	case kernel.RulesChecked:
		l.rulesChecked(f)
	case kernel.DriftSeen:
		l.emit("DRIFT_CHECK_RESULT", "detected", true, "types", slices.Clone(f.Types), "confidence", f.Confidence)
	case kernel.CheckpointSaved:
		l.checkpoint = f.Checkpoint
		l.emit("CHECKPOINT_SAVED", "checkpoint", f.Checkpoint, "tokenCount", f.Units)
	case kernel.CheckpointDropped:
		l.checkpoint = ""
	case kernel.RenewalMoved:
		l.renewed(f)
	case kernel.RenewalRerouted:
		l.renewal.path = f.Path
	case kernel.ToolCalled:
		args, _, known := l.shown(f.Tool)
		if !known {
			args = sized(f.Args)
		}
		l.emit("TOOL_REQUESTED", "toolName", f.Name, "toolCallId", f.Tool, "arguments", args)
		l.emit("TOOL_START", "toolCallId", f.Tool, "toolName", f.Name)
	case kernel.ToolReturned:
		l.toolReturned(f)
	case kernel.AbortRequested:
		l.abort()
	case kernel.AttemptEnded:
		l.attemptEnded(f)
	case kernel.RetryAsked:
		if l.asked = f; f.Planned.Retry != nil {
			l.emit("RETRY_FN_START", "attempt", f.Planned.Retry.Number-1, "category", failureType(f.Planned.Cause), "defaultShouldRetry", true)
		}
	case kernel.RetryAnswered:
		l.retryAnswered(f)
	case kernel.Began, kernel.SessionMoved: // Apply handles these facts
	case kernel.Resumed:
		l.began.Budget = f.Budget
	case kernel.DeadlineSet, kernel.LimitMet, kernel.PauseRequested, kernel.ResumeRequested, kernel.PausedAgain, kernel.StopSent, kernel.StopResult, kernel.ProcessesKilled,
		kernel.Negotiated, kernel.Weakened, kernel.HarnessSessionOpened, kernel.FrameAdopted, kernel.Bound, kernel.BindRefused,
		kernel.Observed, kernel.Dispatched, kernel.Answered, kernel.Placing, kernel.PayloadSettled, kernel.CallOver, kernel.HookAnswered,
		kernel.ReceiptIssued, kernel.CommandReceived, kernel.ActivitySeen, kernel.ActivityMoved, kernel.ActivityConfirmed, kernel.VersionSeen,
		kernel.CapabilityProven, kernel.UsageCounted, kernel.ContextMeasured, kernel.UnknownCounted, kernel.SourceNamed, kernel.SourceRead, kernel.TranscriptCopied,
		kernel.SourceTroubled, kernel.DrainBegan, kernel.RenewalCalled, kernel.RenewalTyped, kernel.RenewalMeasured, kernel.GateAsked, kernel.GateAnswered, kernel.ApprovalAsked, kernel.ApprovalAnswered:
	default:
		panic(fmt.Sprintf("view: L0 does not know %T: add a case to view/l0.go", f))
	}
}

// launching emits the start of each attempt except the first, which SESSION_START
// announced. The start is emitted after the back-off, right before the launch
// (DECISIONS Z3). A second launch of the same attempt, which a renewal makes, emits
// no start; it resumes from the digest of the renewal's token. If a launch continues
// from a checkpoint, launching emits the continuation too.
func (l *L0) launching(f kernel.Launching) {
	if f.Cause == "renewal" && f.Checkpoint == "" {
		f.Checkpoint = l.renewal.token
	}
	before := l.attempt
	switch {
	case l.launches == 0:
	case f.Profile != before.Profile:
		l.retries.profile = 0
		l.emit("FALLBACK_START", "fromIndex", before.Profile, "toIndex", f.Profile, "reason", l.why)
		l.emit("FALLBACK_MODEL_SELECTED", "index", f.Profile)
	case f.Attempt != before.Attempt:
		l.emit("ATTEMPT_START", "attempt", f.Attempt, "isRetry", true, "isFallback", f.Profile > 0)
	}
	l.launches++
	l.attempt = l0Attempt{Launching: f, broken: map[string]attempt.RuleResult{}}
	if f.Checkpoint != "" {
		l.emit("CONTINUATION_START", "checkpoint", f.Checkpoint, "tokenCount", f.CheckpointUnits)
		l.emit("RESUME_START", "checkpoint", f.Checkpoint, "tokenCount", f.CheckpointUnits)
	}
	l.emit("STREAM_INIT")
	l.emit("ADAPTER_WRAP_START", "streamType", "process")
}

// renewed emits the digest of a renewal's token as a checkpoint. In a reset in place, the
// harness itself begins a new session and is not launched again. For this case, renewed
// also emits that the new harness session resumes from the checkpoint.
func (l *L0) renewed(f kernel.RenewalMoved) {
	switch {
	case f.To == renewal.Negotiated:
		l.renewal.path = f.Path
	case f.To == renewal.Prepared:
		l.renewal.token = f.Digest
		l.emit("CHECKPOINT_SAVED", "checkpoint", f.Digest, "tokenCount", int64(0))
	case f.To == renewal.Resumed && l.renewal.path == renewal.InPlace:
		l.emit("CONTINUATION_START", "checkpoint", l.renewal.token, "tokenCount", int64(0))
		l.emit("RESUME_START", "checkpoint", l.renewal.token, "tokenCount", int64(0))
	}
}

// timerSet emits the start of a timer. The initial timer starts at the launch. The
// inter timer starts at the first sign of life, and its start is emitted as its first
// reset.
func (l *L0) timerSet(f kernel.TimerSet) {
	if f.Timer == kernel.TimerInter {
		l.emit("TIMEOUT_RESET", "timeoutType", string(f.Timer), "configuredMs", f.AfterMS, "tokenIndex", 0)
		return
	}
	l.emit("TIMEOUT_START", "timeoutType", string(f.Timer), "configuredMs", f.AfterMS)
}

// timedOut emits the expiry of a timer. A tool call that timed out has failed;
// a later result is ignored.
func (l *L0) timedOut(f kernel.TimedOut) {
	l.emit("TIMEOUT_TRIGGERED", "timeoutType", string(f.Timer), "elapsedMs", f.ElapsedMS)
	if f.Tool == "" {
		return
	}
	l.toolFailed(f.Tool, toolTimeout, f.ElapsedMS, "")
	if l.attempt.late == nil {
		l.attempt.late = map[string]bool{}
	}
	l.attempt.late[f.Tool] = true
}

// toolTimeout is the type of error of a tool that took too long.
const toolTimeout = "TIMEOUT"

func (l *L0) toolReturned(f kernel.ToolReturned) {
	if l.attempt.late[f.Tool] {
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
	l.emit("TOOL_RESULT", "toolCallId", f.Tool, "result", result, "durationMs", f.DurationMS)
	l.emit("TOOL_COMPLETED", "toolCallId", f.Tool, "status", "success")
}

func (l *L0) toolFailed(call, kind string, ms int64, words string) {
	sentence := map[string]string{toolTimeout: "the tool timed out", telemetry.ToolNotFound: "there is no such tool", telemetry.ToolRefused: "the call was refused"}[kind]
	l.emit("TOOL_ERROR", "toolCallId", call, "error", cmp.Or(words, sentence, "the tool failed"), "errorType", kind, "durationMs", ms)
	l.emit("TOOL_COMPLETED", "toolCallId", call, "status", "error")
}

// shown calls Tool; ok is false if Tool is nil.
func (l *L0) shown(call string) (args, result any, ok bool) {
	if l.Tool == nil {
		return nil, nil, false
	}
	return l.Tool(call)
}

// sized returns the digest and size of arguments or of a result, or null.
func sized(s *telemetry.Sized) any {
	if s == nil {
		return nil
	}
	return *s
}

// rulesChecked emits a phase of guardrail checks: its rules, its end, then the
// violations. Its durations are 0, because all checks of a phase have the same
// time.
func (l *L0) rulesChecked(f kernel.RulesChecked) {
	violations := []L0Violation{}
	l.emit("GUARDRAIL_PHASE_START", "phase", f.Phase, "ruleCount", len(f.Rules), "tokenCount", f.Units)
	for i, r := range f.Rules {
		l.rules++
		id := fmt.Sprintf("rule-%d", l.rules)
		l.emit("GUARDRAIL_RULE_START", "index", i, "ruleId", r.ID, "callbackId", id)
		l.emit("GUARDRAIL_RULE_END", "index", i, "ruleId", r.ID, "passed", r.Passed, "callbackId", id, "durationMs", 0)
		if r.Passed {
			continue
		}
		if l.attempt.broken != nil {
			l.attempt.broken[r.ID] = r
		}
		violations = append(violations, L0Violation{Rule: r.ID, Message: "rule " + r.ID + " was broken", Severity: string(r.Severity), Recoverable: r.Recoverable})
	}
	l.attempt.violations = append(l.attempt.violations, violations...)
	l.emit("GUARDRAIL_PHASE_END", "phase", f.Phase, "passed", len(violations) == 0, "violations", violations, "durationMs", 0)
	for i, v := range violations {
		l.emit("GUARDRAIL_RULE_RESULT", "index", i, "ruleId", v.Rule, "passed", false, "violation", v)
	}
}

// abort emits ABORT_REQUESTED, once in a session.
func (l *L0) abort() {
	if !l.aborted {
		l.aborted = true
		l.emit("ABORT_REQUESTED", "source", "user")
	}
}

// attemptEnded emits the end of an attempt, and the decision about a retry. The
// next attempt's start is emitted with its launch.
func (l *L0) attemptEnded(f kernel.AttemptEnded) {
	if f.Cause == "" {
		l.completed(f)
		return
	}
	l.failed(f)
	l.why = f.Reason
	if len(f.Skipped) > 0 {
		l.why += "; skipped: " + strings.Join(f.Skipped, ", ")
	}
	if r := f.Retry; r != nil {
		l.retries.profile = r.Number
		if r.Counted {
			l.retries.counted++
		} else {
			l.retries.uncounted++
		}
		kind := failureType(f.Cause)
		l.emit("RETRY_START", "attempt", r.Number, "maxAttempts", r.Of, "reason", f.Reason)
		l.emit("RETRY_ATTEMPT", "attempt", r.Number, "maxAttempts", r.Of, "reason", f.Reason, "delayMs", r.DelayMS, "countsTowardLimit", r.Counted,
			"isNetwork", kind == "network", "isModelIssue", kind == "model" || kind == "zero_output")
	}
	if f.GaveUp {
		l.emit("RETRY_GIVE_UP", "attempt", l.retries.profile, "maxAttempts", l.budget().Attempts, "reason", f.Name+" is not retried again",
			"lastError", l.sentence(f))
	}
}

// retryAnswered emits the answer of the program that decides about a retry. If
// the program failed, the rule of the policy applies.
func (l *L0) retryAnswered(f kernel.RetryAnswered) {
	number := 0
	if plan := l.asked.Planned.Retry; plan != nil {
		number = plan.Number - 1
	}
	category := failureType(l.asked.Planned.Cause)
	if f.Failure != "" {
		l.emit("RETRY_FN_ERROR", "attempt", number, "category", category, "error", cmp.Or(f.Why, string(f.Failure)), "finalShouldRetry", f.Retry, "durationMs", f.DurationMS)
		return
	}
	l.emit("RETRY_FN_RESULT", "attempt", number, "category", category, "userResult", f.Retry, "finalShouldRetry", f.Retry, "durationMs", f.DurationMS)
}

// completed emits the end of a session that completed. f is the end of the session's
// last attempt, or the zero value if no attempt has ended.
func (l *L0) completed(f kernel.AttemptEnded) {
	l.open = false
	state := L0State{TokenCount: f.Units, ContentLength: f.Bytes, Checkpoint: l.checkpoint, ModelRetryCount: l.retries.counted, NetworkRetryCount: l.retries.uncounted,
		FallbackIndex: f.Profile, Violations: append([]L0Violation{}, l.attempt.violations...), Completed: true, Resumed: l.attempt.Checkpoint != ""}
	l.emit("COMPLETE", "tokenCount", f.Units, "contentLength", f.Bytes, "durationMs", f.DurationMS, "state", state)
	if n := l.retries.counted + l.retries.uncounted; n > 0 {
		l.emit("RETRY_END", "attempt", n, "success", true)
	}
	if f.Profile > 0 {
		l.emit("FALLBACK_END", "index", f.Profile, "success", true)
	}
}

// failed emits the failure of an attempt as one ERROR (DECISIONS Z2).
func (l *L0) failed(f kernel.AttemptEnded) {
	if f.Recovery != attempt.Retry && f.Recovery != attempt.Fallback {
		l.open = false
	}
	if f.Cause == attempt.Aborted {
		l.abort() // emits nothing if an AbortRequested fact was applied before; an abort by a key has no AbortRequested
		l.emit("ABORT_COMPLETED", "tokenCount", f.Units, "contentLength", f.Bytes)
	}
	words := l.sentence(f)
	if f.Cause == attempt.Network { // only this cause has the event NETWORK_ERROR (DECISIONS Z14)
		l.emit("NETWORK_ERROR", "error", words, "code", cmp.Or(f.Detail, "network"), "retryable", true)
	}
	b := l.budget()
	fields := []any{"error", words}
	if code := l.errorCode(f); code != "" {
		fields = append(fields, "errorCode", code)
	}
	l.emit("ERROR", append(fields, "failureType", failureType(f.Cause), "recoveryStrategy", string(f.Recovery),
		"policy", l0Policy{RetryEnabled: b.MaxRetries > 0, FallbackEnabled: len(b.Profiles) > 1, MaxRetries: b.MaxRetries,
			MaxFallbacks: max(len(b.Profiles)-1, 0), Attempt: f.Attempt, FallbackIndex: f.Profile})...)
}

// sentence returns the reason why an attempt failed, in words. It is never
// empty.
func (l *L0) sentence(f kernel.AttemptEnded) string {
	words := ""
	if l.Words != nil && f.Run != "" {
		words = l.Words(f.Run)
	}
	return cmp.Or(words, f.Reason, "the attempt failed: "+string(f.Cause))
}

// budget returns the policy's limits of attempts, or the zero value if the session
// has only one attempt.
func (l *L0) budget() kernel.Budget {
	if l.began.Budget == nil {
		return kernel.Budget{}
	}
	return *l.began.Budget
}

// failureType returns L0's name for the kind of a failure (DECISIONS Z15).
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
	return "unknown" // the cause is unknown or fatal
}

// errorCode is the L0 code of a failure; empty if L0 has none for its cause.
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
		if r, known := l.attempt.broken[f.Detail]; known && !r.Recoverable {
			return "FATAL_GUARDRAIL_VIOLATION"
		}
		return "GUARDRAIL_VIOLATION"
	case attempt.Drift:
		return "DRIFT_DETECTED"
	}
	switch {
	case l.attempt.notStarted:
		return "INVALID_STREAM"
	case f.Cause == attempt.Network:
		return "NETWORK_ERROR"
	}
	return ""
}
