package kernel

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// A Fact is something that became true. Facts are the only data that the
// ledger stores and the only cause of a change of hard state. They hold ids,
// names, sizes, digests, numbers and times; never text of the session
// (DECISIONS F1).
//
// To add a fact, write its type with these methods beside the machine that it
// changes, add its zero value to registry, and give it a place in the views.
type Fact interface {
	// Kind is the name of the fact in the ledger.
	Kind() string
	// durable says that the fact must be on the disk before any effect of its
	// turn: a receipt, a move, an effect with a consequence (DECISIONS F3).
	durable() bool
	// apply changes the hard state. It is the only way to change it.
	apply(k *Kernel)
}

// registry is the closed set of facts. Their kinds are part of the format of
// the ledger and keep their spelling, whatever the Go types are called.
var registry = []Fact{
	Began{}, Negotiated{}, Weakened{}, SessionMoved{},
	Launching{}, Running{}, Exited{},
	HarnessSessionOpened{}, FrameAdopted{}, Bound{},
	Observed{}, Dispatched{}, Answered{}, Placing{}, PayloadSettled{}, CallOver{}, HookAnswered{}, ReceiptIssued{},
	CommandReceived{}, AbortRequested{}, StopSent{},
	ActivitySeen{}, ActivityMoved{}, ActivityConfirmed{},
	BindRefused{}, VersionSeen{}, UsageCounted{}, UnknownCounted{}, SourceNamed{}, SourceRead{}, SourceTroubled{},
	TimerSet{}, DeadlineSet{}, TimedOut{}, RulesChecked{}, DriftSeen{}, ToolCalled{}, ToolReturned{},
	CheckpointSaved{}, CheckpointDropped{}, LimitMet{}, AttemptEnded{},
	PauseRequested{}, ResumeRequested{}, PausedAgain{}, Resumed{}, StopResult{}, DrainBegan{},
}

// Encode renders a fact for the ledger.
func Encode(f Fact) (kind string, body json.RawMessage, err error) {
	body, err = json.Marshal(f)
	return f.Kind(), body, err
}

// Decode reads a fact back. An unknown kind is an error: a ledger of a newer
// version is not half understood.
func Decode(kind string, body json.RawMessage) (Fact, error) {
	for _, zero := range registry {
		if zero.Kind() != kind {
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

// An Entry is a fact with its place and time in the ledger.
type Entry struct {
	Seq uint64
	At  time.Time
	Fact
}
