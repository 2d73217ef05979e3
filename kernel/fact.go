package kernel

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// A Fact is something that became true. Facts are the only data that the ledger
// stores and the only cause of a change of hard state, the state that survives a
// crash. They contain ids, names, sizes, digests, numbers and times, but never text
// of the session (DECISIONS F1).
//
// To add a fact, write its type with these methods in a file of one of the machines
// that a Kernel consists of, usually the machine that records the fact. Add its zero
// value to registry. Add a case to view.HCP and view.L0, which list every fact, and to
// the other types of package view that need the fact. Add a row to docs/facts.md.
type Fact interface {
	// key returns the fact's kind, which is its name in the ledger, and whether it
	// is durable. A durable fact must be on the disk before any effect of its step.
	// Receipts, changes of the session's state, and facts whose effects have
	// consequences outside are durable (DECISIONS F3).
	key() (kind string, durable bool)
	// apply changes the hard state. Nothing else may change it.
	apply(k *Kernel)
}

// registry is the closed set of facts. Kinds are part of the ledger's format and
// keep their spelling, whatever the Go types are called.
var registry = []Fact{
	Began{}, Negotiated{}, Weakened{}, SessionMoved{},
	Launching{}, Running{}, Exited{},
	HarnessSessionOpened{}, Bound{}, BindRefused{}, FrameAdopted{},
	Observed{}, Dispatched{}, Answered{}, CallOver{},
	ReceiptIssued{}, HookAnswered{}, Placing{}, PayloadSettled{},
	CommandReceived{}, PauseRequested{}, ResumeRequested{},
	PausedAgain{}, Resumed{},
	AbortRequested{}, StopSent{}, StopResult{}, ProcessesKilled{}, DrainBegan{},
	ActivitySeen{}, ActivityMoved{}, ActivityConfirmed{},
	VersionSeen{}, CapabilityProven{}, UsageCounted{}, ContextMeasured{}, UnknownCounted{},
	SourceNamed{}, SourceRead{}, SourceTroubled{}, TranscriptCopied{},
	TimerSet{}, DeadlineSet{}, TimedOut{},
	RulesChecked{}, DriftSeen{}, LimitMet{},
	ToolCalled{}, ToolReturned{},
	CheckpointSaved{}, CheckpointDropped{}, AttemptEnded{},
	RetryAsked{}, RetryAnswered{},
	RenewalMoved{}, RenewalCalled{}, RenewalTyped{}, RenewalRerouted{}, RenewalMeasured{},
	GateAsked{}, GateAnswered{}, ApprovalAsked{}, ApprovalAnswered{},
}

// Kind returns the name of a fact in the ledger.
func Kind(f Fact) string {
	kind, _ := f.key()
	return kind
}

// Encode returns a fact in the form in which the ledger stores it.
func Encode(f Fact) (kind string, body json.RawMessage, err error) {
	body, err = json.Marshal(f)
	return Kind(f), body, err
}

// Decode reads a fact back. An unknown kind is an error: it is from a newer
// version, whose ledger must not be read in part.
func Decode(kind string, body json.RawMessage) (Fact, error) {
	for _, zero := range registry {
		if Kind(zero) != kind {
			continue
		}
		v := reflect.New(reflect.TypeOf(zero))
		if err := json.Unmarshal(body, v.Interface()); err != nil {
			return nil, fmt.Errorf("fact %q: %w", kind, err)
		}
		return v.Elem().Interface().(Fact), nil
	}
	return nil, fmt.Errorf("unknown fact %q", kind)
}

// An Entry is a fact with its sequence number and time in the ledger.
type Entry struct {
	Seq uint64
	At  time.Time
	Fact
}
