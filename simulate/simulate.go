// Package simulate runs the kernel against a scripted world in virtual time. It
// shows what a retry and fallback policy does, without a harness and without
// waiting for time-outs.
//
// It uses the same kernel as live sessions, but no supervisor. A world
// describes what each launch does, and the same document gives the same facts,
// byte for byte. An invalid world is an error. If the session cannot end because
// nothing more can happen, the result says why.
//
//	world, err := simulate.Parse(doc)
//	result := world.Run()
//	for _, entry := range result.Entries { fmt.Println(view.Event(entry.Fact)) }
//	if result.Stuck { fmt.Println(result.Why) }
//
// # Time
//
// The session begins at [Start]. A launch begins in the millisecond of its request.
// Its first step happens one millisecond after the launch, and each further step one
// millisecond after the step before it. The time in wait_ms replaces this millisecond.
// What a step or a timer causes happens in the same millisecond: for example the end of
// a process that was sent TERM, the reading of its remaining output, or the next launch.
//
// The order within one millisecond is: results of what has just happened, entries of the
// list control, answers of the client, steps of the harness, timers. So output in the
// millisecond of a time-out is in time. A harness that is paused in the millisecond of a
// step has not performed that step.
package simulate

import (
	"encoding/json"
	"time"

	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/session"
)

// Session is the id that every simulated session has.
const Session = "00000000-0000-4000-8000-000000000001"

// Start is when every simulated session begins.
func Start() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

// A Result is the outcome of a world.
type Result struct {
	Entries  []kernel.Entry // the entries that a ledger would contain
	Launches []string       // the profiles that were launched, in order
	State    session.State  // the last state
	Code     int            // the exit code that `run` would have; 0 if the session has not ended
	// Stuck means that the session did not end, because nothing more can happen or a
	// limit of the simulation was reached. Why is the reason in words.
	Stuck bool
	Why   string
	// Texts has the texts of the script that facts do not contain, by the Seq of
	// the entry that they belong to.
	Texts map[uint64]*Text
}

// A Text holds the arguments or the result of a tool call, or the message of a
// failed tool or attempt. A live session does not store them.
type Text struct {
	Arguments, Result json.RawMessage
	Words             string
}

// A Core decides what happens: a [kernel.Kernel], or a type that wraps one to watch
// it.
type Core interface {
	Step(now time.Time, in input.Input) kernel.Output
	Deadline() (time.Time, bool)
	Done() (kernel.Result, bool)
}

var _ Core = (*kernel.Kernel)(nil)

// Run simulates the world to its end.
func (w World) Run() Result { return w.RunOn(kernel.New(w.Config())) }
