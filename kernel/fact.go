package kernel

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"lifeloop/lifeloop"
)

// A Fact is something that became true. Facts are the only data that the
// ledger stores and the only cause of a change of hard state. They hold ids,
// names, sizes, digests, numbers and times; never text of the session
// (DECISIONS F1).
//
// To add a fact, write its type beside the machine that it changes, add it to
// registry and to durable, and give it a place in the views.
type Fact interface {
	// apply changes the hard state. It is the only way to change it.
	apply(k *Kernel)
}

// registry is the closed set of facts, each with its kind, which is its name in
// the ledger: kinds keep their spelling, whatever the Go types are called.
var registry = []registered{
	{"began", Began{}}, {"negotiated", Negotiated{}}, {"weakened", Weakened{}}, {"session_moved", SessionMoved{}},
	{"launching", Launching{}}, {"running", Running{}}, {"exited", Exited{}},
	{"harness_session_opened", HarnessSessionOpened{}}, {"bound", Bound{}}, {"bind_refused", BindRefused{}}, {"frame_adopted", FrameAdopted{}},
	{"observed", Observed{}}, {"dispatched", Dispatched{}}, {"answered", Answered{}}, {"call_over", CallOver{}},
	{"receipt_issued", ReceiptIssued{}}, {"hook_heard", HookAnswered{}}, {"placing", Placing{}}, {"payload_settled", PayloadSettled{}},
	{"asked", CommandReceived{}}, {"pause_requested", PauseRequested{}}, {"resume_requested", ResumeRequested{}},
	{"held_again", PausedAgain{}}, {"resumed", Resumed{}},
	{"abort_requested", AbortRequested{}}, {"stop_sent", StopSent{}}, {"stop_took", StopResult{}}, {"drain_began", DrainBegan{}},
	{"activity_seen", ActivitySeen{}}, {"activity_moved", ActivityMoved{}}, {"activity_confirmed", ActivityConfirmed{}},
	{"version_told", VersionSeen{}}, {"usage_counted", UsageCounted{}}, {"unknown_counted", UnknownCounted{}},
	{"source_named", SourceNamed{}}, {"source_read", SourceRead{}}, {"source_troubled", SourceTroubled{}},
	{"timer_set", TimerSet{}}, {"deadline_set", DeadlineSet{}}, {"timed_out", TimedOut{}},
	{"rules_held", RulesChecked{}}, {"drift_seen", DriftSeen{}}, {"limit_met", LimitMet{}},
	{"tool_called", ToolCalled{}}, {"tool_returned", ToolReturned{}},
	{"checkpoint_saved", CheckpointSaved{}}, {"checkpoint_dropped", CheckpointDropped{}}, {"attempt_ended", AttemptEnded{}},
}

// durable says that a fact must be on the disk before any effect of its turn: a
// receipt, a move, an effect with a consequence (DECISIONS F3).
func durable(f Fact) bool {
	switch f := f.(type) {
	case Observed:
		return f.Record.Event != lifeloop.SupervisorTick
	case HookAnswered:
		return f.Payloads > 0
	case Dispatched, Answered, PayloadSettled, CallOver: // until its receipt a call has promised nothing
		return false
	case Negotiated, Weakened, Running, HarnessSessionOpened, FrameAdopted, Bound, BindRefused, CommandReceived, StopResult,
		ActivitySeen, ActivityMoved, ActivityConfirmed, VersionSeen, UsageCounted, UnknownCounted,
		SourceNamed, SourceRead, SourceTroubled, TimerSet, ToolCalled, ToolReturned:
		return false
	case Began, SessionMoved, Launching, Exited, Placing, ReceiptIssued, AbortRequested, StopSent, DeadlineSet, TimedOut,
		RulesChecked, DriftSeen, LimitMet, CheckpointSaved, CheckpointDropped, AttemptEnded,
		PauseRequested, ResumeRequested, PausedAgain, Resumed, DrainBegan:
		return true
	}
	panic(fmt.Sprintf("kernel: %T is not known to be durable or not", f))
}

// Kind is the name of a fact in the ledger.
func Kind(f Fact) string {
	i := slices.IndexFunc(registry, func(r registered) bool { return reflect.TypeOf(r.zero) == reflect.TypeOf(f) })
	return registry[i].kind
}

type registered struct {
	kind string
	zero Fact
}

// Encode renders a fact for the ledger.
func Encode(f Fact) (kind string, body json.RawMessage, err error) {
	body, err = json.Marshal(f)
	return Kind(f), body, err
}

// Decode reads a fact back. An unknown kind is an error: it is from a newer
// version, whose ledger must not be read in part.
func Decode(kind string, body json.RawMessage) (Fact, error) {
	for _, r := range registry {
		if r.kind != kind {
			continue
		}
		v := reflect.New(reflect.TypeOf(r.zero))
		if err := json.Unmarshal(body, v.Interface()); err != nil {
			return nil, fmt.Errorf("fact %q: %w", kind, err)
		}
		return v.Elem().Interface().(Fact), nil
	}
	return nil, fmt.Errorf("unknown fact %q", kind)
}

// An Entry is a fact with its place and time in the ledger.
type Entry struct {
	Seq uint64
	At  time.Time
	Fact
}
