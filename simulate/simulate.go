// Package simulate plays a scripted world against the kernel, in virtual time:
// the way to try a retry and fallback policy without a harness, and without
// waiting for its time-outs.
//
// It is the kernel that runs live sessions, with the supervisor taken out: a
// world says what each launch does, and the same file gives the same facts,
// byte for byte. It refuses to guess: a world that is not understood is an
// error, and one in which nothing can happen any more says what everybody
// waits for.
//
//	world, err := simulate.Parse(file)
//	result := world.Run()
//	for _, entry := range result.Entries { fmt.Println(view.Event(entry.Fact)) }
//	if result.Stuck { fmt.Println(result.Why) }
//
// # Time
//
// The session begins at [Start]. A launch runs from the millisecond in which
// it is asked for. Its steps happen one millisecond apart, the first one
// millisecond after the launch; wait_ms takes the place of that millisecond.
// What is caused happens in the millisecond of its cause: the end of a process
// that was sent TERM, the reading of what it left, the launch that follows.
//
// Within one millisecond comes first what was caused, then what somebody asks
// for (control), then what the harness does, then what a timer makes of it:
// output in the very millisecond in which a time-out is due is in time, and a
// harness that is paused in the millisecond of a step has not made it.
package simulate

import (
	"encoding/json"
	"time"

	"lifeloop/kernel"
	"lifeloop/session"
)

// Session is the id that every simulated session has.
const Session = "00000000-0000-4000-8000-000000000001"

// Start is when every simulated session begins.
func Start() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

// A Result is how a world went.
type Result struct {
	Entries  []kernel.Entry // what a ledger would hold
	Launches []string       // the profiles that were launched, in order
	State    session.State  // the last one
	Code     int            // what `run` would exit with; 0 while the session is not over
	// Stuck says that the session is not over and never will be. Why is a
	// sentence for people.
	Stuck bool
	Why   string
	// Texts are what the script says and no fact holds, by the number of the
	// entry that tells of it.
	Texts map[uint64]*Text
}

// A Text is what a script gave to or got from a tool, or in whose words a tool
// or an attempt failed. Of a live session nobody keeps that.
type Text struct {
	Arguments, Result json.RawMessage
	Words             string
}

// A Core decides what happens: a [kernel.Kernel], or somebody who looks over
// the shoulder of one.
type Core interface {
	Step(now time.Time, in kernel.Input) kernel.Turn
	Deadline() (time.Time, bool)
	Done() (kernel.Result, bool)
}

var _ Core = (*kernel.Kernel)(nil)

// Run plays the world to its end.
func (w World) Run() Result { return w.RunOn(kernel.New(w.Config())) }
