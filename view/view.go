// Package view derives what readers see from the facts of a ledger: lifecycle
// events, receipts, the status, the evidence of an event, and the events of two
// other protocols, HCP L2 (docs/contract/hcp.md) and L0 (docs/contract/l0.md). Each
// view is computed by adding the facts one by one, in their order. A view changes
// no fact and stores nothing.
//
//	for entry := range entries {
//		if r, ok := view.Event(entry.Fact); ok { … }   // what `events` prints
//		status.Apply(entry)                            // what `status` prints
//	}
package view

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/manifests"
	"lifeloop/negotiate"
	"lifeloop/session"
	"lifeloop/synth"
)

// Event returns the lifecycle event in a fact, if the fact contains one.
func Event(f kernel.Fact) (lifeloop.EventRecord, bool) {
	o, ok := f.(kernel.Observed)
	return o.Record, ok
}

// A ReceiptRecord is a receipt in the form that readers get: the contract's
// members, the frame of its event, whether it was issued again for a repeated
// delivery, and the skipped events that it covers.
type ReceiptRecord struct {
	lifeloop.Receipt
	FrameContext *lifeloop.FrameContext
	Replay       bool
	Skipped      *kernel.SkippedRun
}

// MarshalJSON writes frame_context, replay and skipped as further members, if they
// are set.
func (r ReceiptRecord) MarshalJSON() ([]byte, error) {
	receipt, err := json.Marshal(r.Receipt)
	if err != nil || r.FrameContext == nil && !r.Replay && r.Skipped == nil {
		return receipt, err
	}
	more, err := json.Marshal(struct {
		FrameContext *lifeloop.FrameContext `json:"frame_context,omitempty"`
		Replay       bool                   `json:"replay,omitempty"`
		Skipped      *kernel.SkippedRun     `json:"skipped,omitempty"`
	}{r.FrameContext, r.Replay, r.Skipped})
	return slices.Concat(receipt[:len(receipt)-1], []byte(","), more[1:]), err
}

// Receipt returns the receipt in a fact, if the fact contains one.
func Receipt(f kernel.Fact) (ReceiptRecord, bool) {
	r, ok := f.(kernel.ReceiptIssued)
	return ReceiptRecord{r.Receipt, r.Frame, r.Replay, r.Skipped}, ok
}

// Status is the state of a session, in the form of `status --json`. Its zero
// value is ready for use.
type Status struct {
	SessionID        string                      `json:"session_id"`
	State            string                      `json:"state"`        // a state of HCP L2
	StateReason      string                      `json:"state_reason"` // the reason of the last change of the state
	Liveness         string                      `json:"liveness,omitempty"`
	Activity         string                      `json:"activity"`
	AdapterID        string                      `json:"adapter_id"`
	Program          string                      `json:"program"`
	HarnessVersion   *string                     `json:"harness_version"` // the version that a source reported
	WorkDir          string                      `json:"work_dir"`
	Meta             map[string]string           `json:"meta"`    // the labels given by --meta
	Attempt          int                         `json:"attempt"` // the attempt's number in its profile, from 1; 0 before the first launch
	Profile          string                      `json:"profile"`
	HarnessSessionID *string                     `json:"harness_session_id"`
	PID              *int                        `json:"pid"`     // the harness's process id; null while no harness runs
	Context          *Context                    `json:"context"` // null while the context is unknown
	Capabilities     map[string]lifeloop.Support `json:"capabilities"`
	Since            time.Time                   `json:"since"` // when the activity began
	// Uncertain means that only one source reports the activity.
	Uncertain bool `json:"uncertain"`
	// Until is when a limit_wait ends, if the harness reported it.
	Until *time.Time `json:"until,omitempty"`
	// Held means that a command paused the session and it was not resumed.
	Held bool `json:"held"`
	// RetryAt is when the next attempt starts; null if none is planned, or the
	// session is paused.
	RetryAt *time.Time `json:"retry_at"`
	// Containment is cgroup if the last launch runs in a control group, which is killed
	// if wrapper and guard are killed together. Otherwise Containment is empty.
	Containment string `json:"containment,omitempty"`
	// Killed names the processes that had to be killed: those of the last launch, and
	// those that clients left behind.
	Killed []input.Process `json:"killed,omitempty"`
	// Transcripts are the copies of the harness's transcripts in the session's folder.
	Transcripts []kernel.TranscriptCopied `json:"transcripts,omitempty"`
	// Hooks says why hooks were injected into the newest launch, or why not. It is
	// empty if the adapter has no hooks, or if the injected hooks are invisible to the
	// user and need no reason.
	Hooks string `json:"hooks,omitempty"`
	// Policy is the digest of the policy of the gate (package gate), or "none". Gate counts
	// the gate's decisions; it is absent if there were none.
	Policy string `json:"policy"`
	Gate   *Gate  `json:"gate,omitempty"`
	// Usage is the sum of the session's model calls. Turns counts the frames of the
	// user's prompts, TurnsOther those that the harness, another session or a schedule
	// opened.
	Usage      synth.Usage `json:"usage"`
	Turns      int         `json:"turns"`
	TurnsOther int         `json:"turns_other,omitempty"`
	// Renewals are the renewals of the session; absent if there was none.
	Renewals *Renewals `json:"renewals,omitempty"`
	// UnknownRecords counts the records that no decoder understood, by source
	// and type.
	UnknownRecords map[string]map[string]int `json:"unknown_records"`
	StartedAt      time.Time                 `json:"started_at"`
	UpdatedAt      time.Time                 `json:"updated_at"` // the time of the last change of the state
	RiskLevel      string                    `json:"risk_level"` // a risk level of HCP L2
	Events         int                       `json:"events"`
	Receipts       int                       `json:"receipts"`
	Clients        []ClientCalls             `json:"clients"`  // for each client, how often it was called and how often that failed
	Evidence       []lifeloop.Evidence       `json:"evidence"` // the evidence for the activity
	LastSign       *Sign                     `json:"last_sign,omitempty"`

	last     time.Time // the time of the last fact
	wrapper  int
	launched bool            // a harness was launched at least once
	weak     map[string]bool // capabilities that were already unavailable when the newest launch began
	retryAt  *time.Time      // the value of RetryAt, kept while the session is paused
	calls    Clients
}

// Context is the newest measurement of the context of the harness's main
// conversation, not of its sub-agents.
type Context struct {
	Tokens       int64        `json:"tokens_used"`
	Window       *int64       `json:"window_tokens"` // null if unknown; then fraction and level are null too
	WindowSource string       `json:"window_source"`
	Fraction     *float64     `json:"fraction"` // the tokens as a fraction of the window, from 0 to 1
	Level        *synth.Level `json:"level"`
	// Stale marks a measurement from before a compaction. Estimate marks a number
	// that the harness computed after a compaction.
	Stale    bool      `json:"stale"`
	Estimate bool      `json:"estimate"`
	At       time.Time `json:"at"` // when the context was measured
}

// measured returns a recorded measurement in the form of `status`; nil if it says
// that nothing is known.
func measured(f kernel.ContextMeasured) *Context {
	if f.Tokens == nil {
		return nil
	}
	c := &Context{Tokens: *f.Tokens, WindowSource: f.WindowSource, Stale: f.Stale, Estimate: f.Estimate, At: f.At}
	if fraction, ok := (synth.Pressure{Used: c.Tokens, Window: f.Window}).Fraction(); ok {
		fraction = float64(int64(fraction*10_000)) / 10_000 // rounded down as in context.pressure_observed
		c.Window, c.Fraction, c.Level = &f.Window, &fraction, &f.Level
	}
	return c
}

// observedContext returns the context that the data of context.pressure_observed
// describe. In ledgers of earlier versions, only these data have the context's size.
func observedContext(data map[string]any, at time.Time) *Context {
	text, err := json.Marshal(data)
	if err != nil {
		return nil
	}
	c := &Context{At: at}
	if json.Unmarshal(text, c) != nil {
		return nil
	}
	return c
}

// A Sign is the last recorded sign of life, such as output or a change of an activity
// file. A sign soon after another sign of the same source is not recorded.
type Sign struct {
	Source string    `json:"source"`
	At     time.Time `json:"at"`
}

// ReasonText returns the reason for a state in words for people.
func ReasonText(reason string) string {
	if reason == "approved" { // HCP uses this word for every session that was not rejected
		return "started"
	}
	return reason
}

// Ended reports whether the session reached a terminal state.
func (s *Status) Ended() bool { return session.State(s.State).Terminal() }

// WrapperPID is the process id of the session's wrapper.
func (s *Status) WrapperPID() int { return s.wrapper }

// Lose marks the session as lost: its wrapper died, at some time after the last
// fact, without recording an end.
func (s *Status) Lose() {
	if s.last.IsZero() {
		s.last = s.StartedAt
	}
	s.PID, s.RetryAt, s.Held = nil, nil, false
	s.Uncertain, s.Until = false, nil
	s.active("stopped", "wrapper", "the wrapper died at or after "+s.last.UTC().Format(time.RFC3339)+"; outcome unknown", s.last)
}

// Apply adds one fact.
func (s *Status) Apply(e kernel.Entry) {
	s.last = e.At
	s.calls.Apply(e)
	s.Clients = s.calls.All()
	switch f := e.Fact.(type) {
	case kernel.Began:
		s.began(f, e.At)
	case kernel.Weakened:
		if s.weak == nil {
			s.weak = map[string]bool{}
		}
		s.weak[f.Capability] = true
		if f.Capability == "telemetry.hooks" {
			s.Hooks = "none: " + f.Reason
		}
		s.capability(f.Capability, lifeloop.Unavailable)
	case kernel.SessionMoved:
		s.State, s.StateReason, s.UpdatedAt = string(f.To), f.Reason, e.At
	case kernel.Launching:
		s.launching(f)
	case kernel.Resumed:
		s.wrapper = f.PID
	case kernel.Running:
		if f.Hooks != "" {
			s.Hooks = "injected: " + f.Hooks
		}
		s.PID, s.Containment = &f.PID, f.Containment
	case kernel.Exited:
		s.PID, s.Killed = nil, nil
	case kernel.ProcessesKilled:
		s.Killed = append(s.Killed, f.Processes...)
	case kernel.AttemptEnded:
		s.retryAt = nil
		if f.Retry != nil {
			s.retryAt = &f.Retry.At
		}
		s.waits()
	case kernel.PauseRequested:
		s.Held = true
		s.waits()
	case kernel.ResumeRequested:
		s.Held = false
		if f.RetryAt != nil {
			s.retryAt = f.RetryAt
		}
		s.waits()
	case kernel.HarnessSessionOpened:
		s.session(f.ID)
	case kernel.Bound:
		s.session(f.ID)
	case kernel.FrameAdopted:
		if f.Origin != "" { // the frame had no origin before, so it was counted as the user's
			s.Turns, s.TurnsOther = s.Turns-1, s.TurnsOther+1
		}
	case kernel.Observed:
		s.Events++
		s.observe(f, e.At)
	case kernel.ActivityMoved:
		s.active(f.To, f.Source, f.Detail, e.At)
		s.Uncertain, s.Until = f.Uncertain(), f.Until
	case kernel.ActivityConfirmed:
		s.Uncertain = false
		s.Evidence = append(s.Evidence, lifeloop.Evidence{Source: f.Source, Detail: f.Detail})
	case kernel.VersionSeen:
		s.version(f)
	case kernel.CapabilityProven:
		s.capability(f.Capability, f.Support)
	case kernel.ContextMeasured:
		s.Context = measured(f)
	case kernel.UsageCounted:
		s.Usage = f.Usage
	case kernel.ActivitySeen:
		s.LastSign = &Sign{Source: cmp.Or(f.Source, "terminal"), At: e.At}
	case kernel.ReceiptIssued:
		s.issued(f)
	default:
		s.more(e)
	}
}

// more applies further facts: those of records, transcripts, renewals and the gate.
func (s *Status) more(e kernel.Entry) {
	switch f := e.Fact.(type) {
	case kernel.UnknownCounted:
		if s.UnknownRecords == nil {
			s.UnknownRecords = map[string]map[string]int{}
		}
		s.UnknownRecords[f.Source] = f.Types
	case kernel.TranscriptCopied:
		s.copied(f)
	default:
		s.renews(e)
	}
}

// began adds the first fact.
func (s *Status) began(f kernel.Began, at time.Time) {
	s.SessionID, s.AdapterID, s.Program, s.WorkDir = f.SessionID, f.AdapterID, f.Program, f.WorkDir
	s.Policy = cmp.Or(f.Policy, "none")
	s.Profile, s.wrapper, s.StartedAt = f.AdapterID, f.PID, at
	s.RiskLevel = riskLevel(f)
	s.Meta = map[string]string{}
	maps.Copy(s.Meta, f.Meta)
	s.Capabilities = map[string]lifeloop.Support{}
	s.UnknownRecords = map[string]map[string]int{}
	s.Evidence = []lifeloop.Evidence{}
	s.claims(f.AdapterID)
}

// copied replaces the earlier copy of a transcript.
func (s *Status) copied(f kernel.TranscriptCopied) {
	s.Transcripts = append(slices.DeleteFunc(s.Transcripts, func(old kernel.TranscriptCopied) bool { return old.Path == f.Path }), f)
}

// issued counts a receipt, unless it is a repetition.
func (s *Status) issued(f kernel.ReceiptIssued) {
	if !f.Replay {
		s.Receipts++
	}
}

// launching resets the capabilities to those that the launch's adapter claims, because
// the degradations of the previous launch have ended. The first launch resets nothing:
// an older ledger records the first launch's missing capabilities before the launch.
func (s *Status) launching(f kernel.Launching) {
	s.Attempt, s.Profile, s.retryAt, s.RetryAt = max(f.Attempt, 1), cmp.Or(f.Name, s.Profile), nil, nil
	if s.launched {
		s.Hooks = ""
		s.AdapterID, s.weak, s.Capabilities, s.HarnessVersion = cmp.Or(f.Adapter, s.AdapterID), nil, nil, nil
		s.claims(s.AdapterID)
	}
	s.launched = true
}

// version weakens the claims that are not proven for an untested version of the
// harness.
func (s *Status) version(f kernel.VersionSeen) {
	s.HarnessVersion = &f.Version
	for _, name := range f.Unproven {
		if s.Capabilities[name].Stronger(lifeloop.Partial) {
			s.capability(name, lifeloop.Partial)
		}
	}
}

// waits sets RetryAt, which is null while the session is paused.
func (s *Status) waits() {
	s.RetryAt = s.retryAt
	if s.Held {
		s.RetryAt = nil
	}
}

// claims sets the capabilities to those that an adapter's manifest claims. It does not
// change the capabilities in weak.
func (s *Status) claims(adapter string) {
	m, ok := manifests.Get(adapter)
	if !ok {
		return
	}
	m = negotiate.Within(m) // leave out the claims that need a renewal profile
	claim := func(name string, support lifeloop.Support) {
		if !s.weak[name] {
			s.capability(name, support)
		}
	}
	for _, name := range negotiate.Names(m) {
		support := negotiate.Support(m, name)
		if support != lifeloop.Unavailable || lifeloop.Event(name).Valid() || strings.HasPrefix(name, "placement.") {
			claim(name, support)
		}
	}
}

func (s *Status) observe(f kernel.Observed, at time.Time) {
	switch f.Record.Event {
	case lifeloop.FrameOpening:
		switch {
		case f.ByClient():
		case f.Record.Data["origin"] != nil:
			s.TurnsOther++
		default:
			s.Turns++
		}
	case lifeloop.ContextPressureObserved:
		s.Context = observedContext(f.Record.Data, at)
	case lifeloop.ContextCompacted:
		// Until the next request, the newest measurement is older than the compaction.
		if s.Context != nil {
			stale := *s.Context
			stale.Stale = true
			s.Context = &stale
		}
	}
	if d := f.Degradation; d != nil {
		s.capability(d.Capability, d.CurrentSupport)
	}
	for _, c := range f.Also {
		s.capability(c.Capability, c.CurrentSupport)
	}
}

func (s *Status) capability(name string, support lifeloop.Support) {
	if s.Capabilities == nil { // nil after a further launch has begun, or if the ledger's first entries are missing
		s.Capabilities = map[string]lifeloop.Support{}
	}
	s.Capabilities[name] = support
}

func (s *Status) session(id string) {
	if id == "" {
		s.HarnessSessionID = nil
		return
	}
	s.HarnessSessionID = &id
}

func (s *Status) active(what, source, detail string, at time.Time) {
	s.Activity, s.Since = what, at
	s.Evidence = []lifeloop.Evidence{{Source: source, Detail: detail}}
}
