package kernel

import (
	"time"

	"lifeloop/kernel/input"
	"lifeloop/session"
	"lifeloop/telemetry"
)

// activity is what the harness seems to be doing, with the tools that it calls
// (tools.go). A single source may be wrong or late, so an activity is uncertain
// until another kind of source reports the same.
//
//	starting ──► ready ──► working ◄──► idle, needs_input, limit_wait ──► stopped
//	                          │ ▲                                            ▲
//	               no sign of life  any sign of work                         │
//	                          ▼ │                                            │
//	                        wedged ──────────────────────────────────────────┘
//
// A harness that waits for its first prompt is ready. It is idle only after it
// was busy, so that idle always means the end of some work.
type activity struct {
	soft struct {
		what   string
		busy   bool                 // this launch had an activity other than starting and ready
		by     map[string]bool      // the sources that have reported the current activity
		until  time.Time            // the end of a limit_wait, if known
		lifted time.Time            // until as a time of Kernel.Step's clock (see timerAt)
		sign   time.Time            // the last sign of life from any source
		asked  time.Time            // when the harness last began to need input
		freed  time.Time            // when the harness last stopped waiting for input or an approval
		signAt map[string]time.Time // when the last ActivitySeen of each source was recorded
		flying map[string]toolCall  // tool calls that have not returned, by id
		past   map[string]bool      // ids of tool calls that have returned
		pastIn []string             // the ids in past, oldest first
		begun  bool                 // the user has typed a part of a line
	}
}

// The activities, as `status` shows them.
const (
	starting   = "starting"
	ready      = "ready"
	working    = "working"
	needsInput = "needs_input"
	idling     = "idle"
	limitWait  = "limit_wait"
	wedged     = "wedged"
	stopped    = "stopped"
)

// Activities lists every activity.
func Activities() []string {
	return []string{starting, ready, working, needsInput, idling, limitWait, wedged, stopped}
}

// wrapperSource is the source name of what the wrapper itself observes, such as the
// start and the end of the process.
const wrapperSource = "wrapper"

type (
	// ActivitySeen records a sign of life. Frequent signs of one source are
	// recorded as one.
	ActivitySeen struct {
		Output int64  `json:"output,omitempty"` // bytes written by the harness so far
		Source string `json:"source,omitempty"` // the sign's source; empty for output
	}
	// ActivityMoved records a new activity when its first source reports it. The
	// activity is uncertain until ActivityConfirmed, except that the end of a
	// process is certain at once.
	ActivityMoved struct {
		To     string `json:"to"`
		Source string `json:"source"`
		Detail string `json:"detail,omitempty"`
		// Until is when a limit_wait ends, if known.
		Until *time.Time `json:"until,omitempty"`
	}
	// ActivityConfirmed records that a second kind of source reports the activity To.
	ActivityConfirmed struct {
		To     string `json:"to"`
		Source string `json:"source"`
		Detail string `json:"detail,omitempty"`
	}
)

func (ActivitySeen) key() (string, bool)      { return "activity_seen", false }
func (ActivitySeen) apply(*Kernel)            {}
func (ActivityMoved) key() (string, bool)     { return "activity_moved", false }
func (ActivityMoved) apply(*Kernel)           {}
func (ActivityConfirmed) key() (string, bool) { return "activity_confirmed", false }
func (ActivityConfirmed) apply(*Kernel)       {}

// Uncertain reports whether the new activity still needs a second source.
func (f ActivityMoved) Uncertain() bool { return !certain(f.To) }

// certain reports whether an activity needs no second source: the operating system
// itself reports that a process ended.
func certain(what string) bool { return what == stopped }

func newActivity() (a activity) {
	a.soft.signAt, a.soft.flying, a.soft.past = map[string]time.Time{}, map[string]toolCall{}, map[string]bool{}
	return a
}

func (a *activity) is(what string) bool   { return a.soft.what == what }
func (a *activity) current() string       { return a.soft.what }
func (a *activity) atPrompt() bool        { return a.is(idling) || a.is(ready) }
func (a *activity) uncertain() bool       { return len(a.soft.by) < 2 && !certain(a.soft.what) }
func (a *activity) limitEnds() time.Time  { return a.soft.lifted }
func (a *activity) toolRuns() bool        { return len(a.soft.flying) > 0 }
func (a *activity) restart(now time.Time) { a.soft.sign = now }
func (a *activity) line(begun bool)       { a.soft.begun = begun }
func (a *activity) lineBegun() bool       { return a.soft.begun }

// launching clears the state of the previous launch.
func (a *activity) launching() { *a = newActivity() }

// signal applies the activity that a signal reports. A record of work may be read
// after a request for input although the record was written earlier. Such a record
// does not mean that the user gave the input.
func (a *activity) signal(s *step, what string, sig telemetry.Signal) {
	switch {
	case what == needsInput && sig.At.IsZero():
		a.soft.asked = s.now
	case what == needsInput && sig.At.After(a.soft.asked):
		a.soft.asked = sig.At
	case a.is(needsInput) && !sig.At.IsZero() && sig.At.Before(a.soft.asked):
		return
	}
	if what == idling && sig.Kind == telemetry.Idle && !a.soft.busy {
		what = ready
	}
	a.set(s, what, sig.Source, sig.Detail, sig.Until)
}

// set records an activity if it is new, and its confirmation if a second source
// reports it. until is the end of a limit_wait, or zero.
func (a *activity) set(s *step, what, source, detail string, until time.Time) {
	if a.is(stopped) {
		return // a late record of a harness that has already ended
	}
	if a.is(what) && until.Equal(a.soft.until) {
		if a.soft.by[source] {
			return
		}
		if len(a.soft.by) == 1 && a.uncertain() {
			s.record(ActivityConfirmed{To: what, Source: source, Detail: detail})
		}
		a.soft.by[source] = true
		return
	}
	if a.is(needsInput) {
		a.soft.freed = s.now
	}
	a.soft.busy = a.soft.busy || what != starting && what != ready
	a.soft.what, a.soft.until, a.soft.by = what, until, map[string]bool{source: true}
	a.soft.lifted = time.Time{}
	moved := ActivityMoved{To: what, Source: source, Detail: detail}
	if !until.IsZero() {
		moved.Until, a.soft.lifted = &until, s.timerAt(until)
	}
	s.record(moved)
}

// own records an activity that the wrapper itself observes.
func (a *activity) own(s *step, what, detail string) {
	a.set(s, what, wrapperSource, detail, time.Time{})
}

// alive handles a sign of life at the time of this step.
func (a *activity) alive(s *step) {
	a.soft.sign = s.now
	s.session.recorded(s.now)
	s.attempts.sign(s, s.now)
}

// waited handles the end of a tool call's wait for an approval by the user. The
// tool can begin only now.
func (a *activity) waited(s *step) {
	a.alive(s)
	a.soft.freed = s.now
}

// lives handles a sign of life at a time that may be later than the step's time.
func (a *activity) lives(s *step, at time.Time) {
	if !s.attempts.alive() {
		return
	}
	if at.After(a.soft.sign) {
		a.soft.sign = at
	}
	s.session.lives(at)
	s.attempts.sign(s, at)
}

// output handles output of the harness to its terminal. Output is a sign of life.
// It confirms the activities starting and working, and ends the activity wedged.
func (a *activity) output(s *step, in input.OutputSeen) {
	a.alive(s)
	a.sign(s, ActivitySeen{Output: in.Total})
	s.attempts.output(s, in)
	switch a.soft.what {
	case starting, working:
		a.set(s, a.soft.what, "terminal", "output", time.Time{})
	case wedged:
		a.set(s, working, "terminal", "output", time.Time{})
	}
}

// next returns the time at which silence will count as wedged. The time is zero unless
// the activity is working. It is also zero while only the wrapper reports work, a tool
// runs or waits for an approval, or the session is paused.
func (a *activity) next(k *Kernel) time.Time {
	if k.session.is(session.Paused) || !a.is(working) || a.toolRuns() || k.guards.asksUser() || len(a.soft.by) == 1 && a.soft.by[wrapperSource] {
		return time.Time{}
	}
	return a.soft.sign.Add(k.cfg.WedgedAfter)
}

func (a *activity) wake(s *step) {
	a.own(s, wedged, "the harness is reported to be working, but no source showed a sign of life for "+s.cfg.WedgedAfter.String()+", and no tool call is open")
}

// signEvery is the shortest time between two ActivitySeen of one source, if no tick
// interval is configured.
const signEvery = 30 * time.Second

// sign records f, unless an ActivitySeen of the same source was recorded less than a
// tick interval ago.
func (a *activity) sign(s *step, f ActivitySeen) {
	every := s.cfg.Tick
	if every == 0 {
		every = signEvery
	}
	if at, ok := a.soft.signAt[f.Source]; ok && s.now.Sub(at) < every {
		return
	}
	a.soft.signAt[f.Source] = s.now
	s.record(f)
}

func (a *activity) recall(past *activity) { a.soft = past.soft }
