package view

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"strings"
	"time"

	"lifeloop/attempt"
	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/renewal"
	"lifeloop/session"
)

// The words of HCP L2, the session and lifecycle layer of the protocol HCP
// (docs/contract/hcp.md). Apart from tests, no other package uses the words of HCP.
const (
	hcpVersion = "1.0"

	hcpSessionCreated     = "session_created"
	hcpStateChanged       = "state_changed"
	hcpProgress           = "progress"
	hcpIntermediateResult = "intermediate_result" // read, never emitted (DECISIONS H7)
	hcpLog                = "log"
	hcpWarning            = "warning"
	hcpError              = "error"
	hcpCheckpointCreated  = "checkpoint_created"
	hcpSessionClosed      = "session_closed"
)

// An HCPMessage is one event of a session in the envelope of HCP L1.
type HCPMessage struct {
	Version   string   `json:"hcp_version"`
	MessageID string   `json:"message_id"`
	Timestamp string   `json:"timestamp"` // UTC, with milliseconds
	SessionID string   `json:"session_id"`
	Type      string   `json:"type"` // always event
	Payload   HCPEvent `json:"payload"`
}

// An HCPEvent is the payload of an event's envelope.
type HCPEvent struct {
	Type     string         `json:"event_type"`
	Sequence uint64         `json:"sequence"` // 1, 2, 3, … within the session
	Data     map[string]any `json:"data"`
}

// HCP computes the events of HCP L2 from a session's facts, which must begin with
// the first fact. Its zero value is ready for use. The same facts give the same
// envelopes, byte for byte: an event's number is its place among the events, its id
// is computed from the session's id and that number, and its time is that of the
// entry.
//
//	var hcp view.HCP
//	for entry := range entries {
//		for _, message := range hcp.Apply(entry) { … }
//	}
//
// No event is emitted before the session is RUNNING. So a session that is refused or
// aborted before that has no events (DECISIONS H5). The first event of every other
// session is session_created, the last is session_closed.
//
// A reader that publishes events must sync the ledger first (DECISIONS F3), as
// `events --as hcp` does with ledger.Settle.
type HCP struct {
	began   kernel.Began
	state   session.State
	emitted uint64
	at      time.Time       // time of the current fact
	killed  bool            // during an abort, processes that did not end were killed
	names   string          // ": " and the names of the killed processes; empty if not known
	saved   map[string]bool // ids of the checkpoints that were emitted
	out     []HCPMessage
}

// Apply adds one fact and returns its events. A check of the guardrails has one event
// for each broken rule. Any other fact has at most two events.
func (h *HCP) Apply(e kernel.Entry) []HCPMessage {
	h.at, h.out = e.At, nil
	switch f := e.Fact.(type) {
	case kernel.Began:
		h.began = f
	case kernel.SessionMoved:
		h.moved(f)
	case kernel.StopSent:
		h.killed = h.killed || f.Tree
	case kernel.Exited: // StopSent does not prove a kill: the process may have ended just before the signal
		h.killed = h.killed && (f.Signal == sigKILL || f.Leftover > 0 || f.Lost)
	case kernel.ProcessesKilled:
		if !f.Clients {
			h.killed, h.names = true, ": "+processNames(f)
		}
	case kernel.AttemptEnded:
		if f.Cause != attempt.Aborted { // kills at the end of an earlier attempt do not count
			h.killed, h.names = false, ""
		}
	}
	if h.emitted > 0 && !h.state.Terminal() {
		h.emitOther(e.Fact)
	}
	return h.out
}

// emit appends the next event.
func (h *HCP) emit(event string, data map[string]any) {
	h.emitted++
	h.out = append(h.out, HCPMessage{
		Version: hcpVersion, MessageID: hcpMessageID(h.began.SessionID, h.emitted),
		Timestamp: h.stamp(), SessionID: h.began.SessionID, Type: "event",
		Payload: HCPEvent{Type: event, Sequence: h.emitted, Data: data},
	})
}

// stamp formats the time of the current fact.
func (h *HCP) stamp() string { return h.at.UTC().Format("2006-01-02T15:04:05.000Z") }

// hcpMessageID returns the id of a message. It has the form of a UUID of
// version 4, as L1 requires. It is the same on every reading, because it is
// computed by SHA-256 from the session's id, a slash and the number in decimal.
func hcpMessageID(sessionID string, sequence uint64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", sessionID, sequence))
	id := sum[:16]
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// moved emits a change of the session's state. The change to RUNNING at the start is
// emitted as session_created. A change to a terminal state is followed by
// session_closed.
func (h *HCP) moved(f kernel.SessionMoved) {
	if h.state.Terminal() && h.emitted > 0 {
		return // the ledger is damaged; no event may follow session_closed
	}
	h.state = f.To
	switch {
	case f.From == session.Pending && f.To == session.Running:
		meta := map[string]string{}
		maps.Copy(meta, h.began.Meta)
		// The session's token is never shown (DECISIONS F2).
		h.emit(hcpSessionCreated, map[string]any{"state": string(f.To), "risk_level": riskLevel(h.began), "metadata": meta})
	case h.emitted == 0: // the session has not started yet, or was refused
	default:
		h.emit(hcpStateChanged, map[string]any{"from_state": string(f.From), "to_state": string(f.To), "reason": f.Reason})
		if f.To.Terminal() {
			reason := f.Reason
			if f.To == session.Aborted && h.killed {
				reason += "; cleanup incomplete, remaining processes were killed" + h.names
			}
			h.emit(hcpSessionClosed, map[string]any{"final_state": string(f.To), "reason": reason})
		}
	}
}

// sigKILL is the number of SIGKILL, which no process can catch or ignore.
const sigKILL = 9

// processNames lists the processes for people, such as "sleep (4711), node (4712)".
func processNames(f kernel.ProcessesKilled) string {
	var names []string
	for _, p := range f.Processes {
		names = append(names, fmt.Sprintf("%s (%d)", p.Name, p.PID))
	}
	if f.More > 0 {
		names = append(names, fmt.Sprintf("and %d more", f.More))
	}
	return strings.Join(names, ", ")
}

// riskLevel returns a session's risk level. An observed session is R1, because it only
// reads. A session that launches a harness is R5, because the risk class of every launch
// is critical (DECISIONS H9).
func riskLevel(f kernel.Began) string {
	if f.Program == "" { // nothing is launched
		return "R1"
	}
	return "R5"
}

// emitOther emits the events of each fact except Began and SessionMoved, while the
// session is open. Its last case lists the facts without an event. Their content is
// shown elsewhere: in a call's receipt, in `status`, or in the events of the harness
// session.
func (h *HCP) emitOther(f kernel.Fact) {
	switch f := f.(type) {
	case kernel.Weakened:
		h.log("info", f.Capability+" is unavailable in this launch: "+f.Reason, map[string]any{"capability": f.Capability})
	case kernel.Launching:
		message := "starting the harness, cause " + f.Cause
		if f.Attempt > 1 || f.Profile > 0 {
			message += fmt.Sprintf(", attempt %d with profile %s", f.Attempt, f.Name)
		}
		h.progress("launching", message)
	case kernel.Exited:
		if f.Leftover > 0 {
			h.warn("leftover_processes", fmt.Sprintf("processes outlived the harness and are being terminated: %d", f.Leftover), map[string]any{"count": f.Leftover})
		}
	case kernel.ProcessesKilled:
		whose := "processes"
		if f.Clients {
			whose = "processes that clients left behind"
		}
		h.warn("processes_killed", whose+" did not end by themselves and were killed: "+processNames(f), map[string]any{"processes": f.Processes, "more": f.More})
	case kernel.AttemptEnded:
		h.attemptEnded(f)
	case kernel.RetryAnswered:
		if f.Failure != "" {
			h.warn("retry_decide_failed", "the program that decides about retries failed: "+f.Why, map[string]any{"failure_class": string(f.Failure)})
		}
	case kernel.CheckpointSaved:
		h.checkpoint(f.Checkpoint, fmt.Sprintf("lines or messages of output so far: %d", f.Units))
	case kernel.GateAnswered:
		h.decided(f)
	case kernel.RenewalMoved, kernel.RenewalCalled, kernel.RenewalTyped, kernel.RenewalRerouted, kernel.RenewalMeasured:
		h.renews(f)
	case kernel.CheckpointDropped:
		h.warn("checkpoint_dropped", f.Reason, map[string]any{"checkpoint_id": f.Checkpoint})
	case kernel.TimedOut: // the error is emitted when the harness has ended
		h.warn("timeout", fmt.Sprintf("the %s timer fired after %d ms", f.Timer, f.ElapsedMS), map[string]any{"timer": string(f.Timer), "elapsed_ms": f.ElapsedMS})
	case kernel.DriftSeen:
		h.warn("drift", "the harness repeats itself", map[string]any{"types": f.Types})
	case kernel.RulesChecked:
		for _, r := range f.Rules {
			if !r.Passed {
				h.warn("guardrail", "rule "+r.ID+" was broken", map[string]any{"rule": r.ID, "severity": string(r.Severity), "recoverable": r.Recoverable})
			}
		}
	case kernel.LimitMet:
		h.warn("rate_limit", "the harness reached a rate limit", map[string]any{"until": f.Until, "action": string(f.Action)})
	case kernel.StopResult:
		if f.Effect == "none" {
			h.log("warn", fmt.Sprintf("shutdown step %d had no effect", f.Rung), map[string]any{"rung": f.Rung})
		}
	case kernel.Observed:
		h.observe(f)
	case kernel.ReceiptIssued:
		h.receipt(f)
	case kernel.StopSent:
		to := "to the harness's process group"
		if f.Tree {
			to = "to all processes below the wrapper"
		}
		h.log("info", fmt.Sprintf("signal %d %s", f.Signal, to), map[string]any{"signal": f.Signal, "rung": f.Rung, "tree": f.Tree})
	case kernel.ActivitySeen:
		h.progress("alive", "sign of life, source: "+cmp.Or(f.Source, "terminal"))
	case kernel.ActivityMoved:
		h.progress("activity", f.To+", reported by the "+f.Source)
	case kernel.SourceTroubled:
		h.warn("source_troubled", "source "+f.Source+": "+f.What, map[string]any{"source": f.Source, "what": f.What})
	case kernel.Began, kernel.SessionMoved: // Apply handles these facts
	case kernel.RetryAsked, kernel.TimerSet, kernel.DeadlineSet, kernel.ToolCalled, kernel.ToolReturned, kernel.PauseRequested, kernel.ResumeRequested, kernel.PausedAgain, kernel.Resumed,
		kernel.Negotiated, kernel.Running, kernel.HarnessSessionOpened, kernel.FrameAdopted, kernel.Bound, kernel.BindRefused,
		kernel.Dispatched, kernel.Answered, kernel.Placing, kernel.PayloadSettled, kernel.CallOver, kernel.HookAnswered, kernel.CommandReceived,
		kernel.AbortRequested, kernel.ActivityConfirmed, kernel.UsageCounted, kernel.ContextMeasured, kernel.UnknownCounted, kernel.SourceNamed,
		kernel.SourceRead, kernel.VersionSeen, kernel.CapabilityProven, kernel.DrainBegan, kernel.TranscriptCopied, kernel.GateAsked, kernel.ApprovalAsked, kernel.ApprovalAnswered:
	default:
		panic(fmt.Sprintf("view: HCP does not know %T: add a case to view/hcp.go", f))
	}
}

// decided warns about an act that the policy did not allow.
func (h *HCP) decided(f kernel.GateAnswered) {
	if !f.Allowed() {
		h.warn("policy", "the policy did not allow "+cmp.Or(f.Tool, f.Act)+": "+string(f.Verdict), map[string]any{
			"act": f.Act, "verdict": f.Verdict, "reason_codes": f.Reasons, "trace_id": f.TraceID})
	}
}

func (h *HCP) progress(stage, message string) {
	h.emit(hcpProgress, map[string]any{"stage": stage, "message": message})
}

func (h *HCP) log(level, message string, details map[string]any) {
	h.emit(hcpLog, map[string]any{"level": level, "message": message, "details": object(details)})
}

func (h *HCP) warn(code, message string, details map[string]any) {
	h.emit(hcpWarning, map[string]any{"code": code, "message": message, "details": object(details)})
}

// object returns m, or an empty object if m is nil.
func object(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// checkpoint emits a point from which the session can be continued. Each id has one
// checkpoint_created in a session; a later checkpoint with the same id is reported
// as progress. detail says how the checkpoint came about.
func (h *HCP) checkpoint(id, detail string) {
	if h.saved[id] {
		h.progress("checkpoint", fmt.Sprintf("checkpoint %s: the session can be continued from here (%s)", id, detail))
		return
	}
	if h.saved == nil {
		h.saved = map[string]bool{}
	}
	h.saved[id] = true
	h.emit(hcpCheckpointCreated, map[string]any{"checkpoint_id": id, "resumable": true,
		"description": "the session can be continued from here (" + detail + ")", "created_at": h.stamp()})
}

// renewal emits a step of a renewal. When the renewal is prepared, it also emits a
// checkpoint, because the session can then be continued with the renewal's token. The
// checkpoint's id is the digest of the token.
func (h *HCP) renewal(f kernel.RenewalMoved) {
	switch f.To {
	case renewal.Refused, renewal.RolledBack, renewal.Failed:
		details := map[string]any{"renewal": f.Renewal, "failure_class": string(f.Failure)}
		if f.Broke {
			details["breaker"] = true
		}
		h.warn("renewal_"+string(f.To), "renewal "+f.Renewal+": "+f.Why, details)
	default:
		h.progress("renewal", "renewal "+f.Renewal+": "+string(f.To))
	}
	if f.To == renewal.Prepared {
		h.checkpoint(f.Digest, "by renewal "+f.Renewal)
	}
}

// renews emits the events of a renewal.
func (h *HCP) renews(f kernel.Fact) {
	switch f := f.(type) {
	case kernel.RenewalMoved:
		h.renewal(f)
	case kernel.RenewalCalled:
		h.progress("renewal", "renewal "+f.Renewal+": the "+f.Command+" command of its profile runs")
	case kernel.RenewalTyped:
		h.progress("renewal", "renewal "+f.Renewal+": "+typedText(f))
	case kernel.RenewalRerouted:
		h.warn("renewal_rerouted", "renewal "+f.Renewal+" continues by "+string(f.Path)+": "+f.Why, map[string]any{"renewal": f.Renewal, "path": string(f.Path)})
	case kernel.RenewalMeasured:
		h.measured(f)
	}
}

// measured emits the size of the context after a renewal.
func (h *HCP) measured(f kernel.RenewalMeasured) {
	message, details := fmt.Sprintf("the context has %d tokens after renewal %s", f.Tokens, f.Renewal), map[string]any{"renewal": f.Renewal, "tokens_after": f.Tokens}
	if f.Broke {
		h.warn("renewal_stopped", message+", which is too many; the session is not renewed again", details)
		return
	}
	h.log("info", message, details)
}

// attemptEnded emits a failed attempt and what follows it. An aborted attempt is
// not an error.
func (h *HCP) attemptEnded(f kernel.AttemptEnded) {
	if f.Cause == "" || f.Cause == attempt.Aborted {
		return
	}
	message := f.Reason
	if f.Run != "" { // without a run, the session ended while no attempt was in progress
		message = fmt.Sprintf("attempt %d with profile %s: %s", f.Attempt, f.Name, f.Reason)
	}
	h.emit(hcpError, map[string]any{"code": hcpErrorCode(f), "message": message, "recoverable": f.Recovery != attempt.Halt})
	switch f.Recovery {
	case attempt.Retry:
		r, when := f.Retry, "at once"
		if r.DelayMS > 0 {
			when = fmt.Sprintf("in %d ms", r.DelayMS)
		}
		h.warn("retry", f.Name+" is retried "+when, map[string]any{"retry": r.Number, "delay_ms": r.DelayMS,
			"wait": string(r.Wait), "counted": r.Counted})
	case attempt.Fallback:
		h.warn("fallback", "falling back from "+f.Name+" to the next profile", map[string]any{"from": f.Profile, "to": f.Next, "skipped": append([]string{}, f.Skipped...)})
	}
}

// hcpErrorCode returns the HCP code of a failure. It is one of the codes that HCP L4
// defines for a failed task.
func hcpErrorCode(f kernel.AttemptEnded) string {
	switch f.Cause {
	case attempt.Timeout:
		return "timeout"
	case attempt.Guardrail:
		return "safety_violation"
	case attempt.Network, attempt.RateLimit, attempt.ServerError:
		return "resource_unavailable"
	}
	switch {
	case f.Failure == lifeloop.AdapterUnavailable: // the harness could not be started
		return "resource_unavailable"
	case f.Cause == attempt.Unknown && f.Failure == lifeloop.TransportError: // the wrapper died
		return "internal_error"
	case f.Cause == attempt.Fatal && (f.Failure == lifeloop.InternalError || f.Detail == "guard lost"): // only older ledgers have the detail "guard lost"
		return "internal_error"
	}
	return "execution_error"
}

// observe emits lifecycle events. It does not emit supervisor.tick, because other facts
// report each change of a tick's data. It does not emit receipt.emitted, because the
// method receipt emits each receipt.
func (h *HCP) observe(f kernel.Observed) {
	r := f.Record
	event := string(r.Event)
	switch r.Event {
	case lifeloop.SessionStarting, lifeloop.SessionStarted, lifeloop.SessionEnding, lifeloop.SessionEnded,
		lifeloop.FrameOpening, lifeloop.FrameOpened, lifeloop.FrameEnding, lifeloop.FrameEnded:
		h.progress(event, subject(r))
	case lifeloop.ContextPressureObserved:
		h.warn(event, pressureText(r.Data), r.Data)
	case lifeloop.ContextCompacted:
		h.log("info", fmt.Sprintf("the context was compacted, trigger %v", r.Data["trigger"]), r.Data)
	case lifeloop.CapabilityDegraded:
		message := "a capability changed"
		if d := f.Degradation; d != nil {
			name := d.Capability
			if n := len(f.Also); n > 0 {
				name += fmt.Sprintf(" (with %d more)", n)
			}
			message = fmt.Sprintf("%s is %s, no longer %s: %s", name, d.CurrentSupport, d.PreviousSupport, d.Evidence)
		}
		h.warn(event, message, r.Data)
	case lifeloop.ReceiptGapDetected:
		h.warn(event, "records from the harness are missing", r.Data)
	case lifeloop.SupervisorTick, lifeloop.ReceiptEmitted:
	}
}

// subject names the harness session or frame of an event, with cause, outcome and
// reason.
func subject(r lifeloop.EventRecord) string {
	text := "the harness session"
	switch {
	case r.FrameContext != nil:
		text = "frame " + r.FrameContext.FrameID
	case r.HarnessSessionID != nil:
		text += " " + *r.HarnessSessionID
	}
	for _, name := range []string{"cause", "outcome", "reason"} {
		if word, ok := r.Data[name].(string); ok && word != "" {
			text += ": " + word
		}
	}
	return text
}

// pressureText returns the level, if known; the details have the numbers.
func pressureText(data map[string]any) string {
	if level, ok := data["level"].(string); ok {
		return "context pressure is " + level
	}
	return "context pressure is unknown"
}

// receipt emits the receipt of a client, or of the wrapper if there is no client.
func (h *HCP) receipt(f kernel.ReceiptIssued) {
	r, level, how := f.Receipt, "info", ""
	details := map[string]any{"receipt_id": r.ReceiptID, "client_id": r.ClientID, "event": string(r.Event), "event_id": r.EventID, "status": string(r.Status)}
	switch r.Status {
	case lifeloop.Failed:
		level = "error"
	case lifeloop.Degraded:
		level = "warn"
	}
	if r.FailureClass != nil {
		details["failure_class"] = string(*r.FailureClass)
	}
	if f.Replay {
		level, how, details["replay"] = "info", ", issued again", true
	}
	if s := f.Skipped; s != nil {
		how, details["skipped"] = fmt.Sprintf(", events: %d", s.Events), s.Events
	}
	h.log(level, fmt.Sprintf("receipt of %s for %s: %s%s", r.ClientID, r.Event, r.Status, how), details)
}
