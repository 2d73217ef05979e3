package kernel

import (
	"time"

	"lifeloop/lifeloop"
	"lifeloop/session"
	"lifeloop/telemetry"
)

// This file keeps what the harness seems to be doing. A single source may be
// wrong or late, so what it says is uncertain until another kind of source says
// the same. What nobody tells is silence, and long silence in the midst of work
// is told for what it is: a harness that claims to work and shows no life.

// The activities, as `status` shows them.
const (
	starting   = "starting"
	working    = "working"
	needsInput = "needs_input"
	idling     = "idle"
	limitWait  = "limit_wait"
	wedged     = "wedged"
	stopped    = "stopped"
)

// Activities lists them all.
func Activities() []string {
	return []string{starting, working, needsInput, idling, limitWait, wedged, stopped}
}

// wedgedAfter is how long a harness that claims to work may be silent.
const wedgedAfter = 5 * time.Minute

// wrapperSource is the source of what we know of the process ourselves.
const wrapperSource = "wrapper"

// doing is soft state: what the harness seems to be doing, and who says so.
type doing struct {
	what  string
	by    map[string]bool // the sources that say so
	until time.Time       // of a limit_wait, when that was told
	sign  time.Time       // of life, the last one from any source
	asked time.Time       // when it came to need input, the last time
	freed time.Time       // and when it went on
}

// active folds what a signal says that the harness is doing. What it did before
// it asked for something may be written a moment later, and tells nothing of
// the answer.
func (s *step) active(what string, sig telemetry.Signal) {
	d := &s.soft.doing
	switch {
	case what == needsInput && sig.At.IsZero():
		d.asked = s.now
	case what == needsInput && sig.At.After(d.asked):
		d.asked = sig.At
	case d.what == needsInput && !sig.At.IsZero() && sig.At.Before(d.asked):
		return
	}
	s.activeBy(what, sig.Source, sig.Detail, sig.Until)
}

// activeBy records what a source says that the harness is doing, when that is
// news: that it does something else, or that a second source says the same.
func (s *step) activeBy(what, source, detail string, until time.Time) {
	d := &s.soft.doing
	if d.what == stopped {
		return // what is read late of a harness that ended
	}
	if what == d.what && until.Equal(d.until) {
		if d.by[source] {
			return
		}
		if len(d.by) == 1 && d.uncertain() {
			s.record(ActivityConfirmed{To: what, Source: source, Detail: detail})
		}
		d.by[source] = true
		return
	}
	if d.what == needsInput {
		d.freed = s.now
	}
	d.what, d.until, d.by = what, until, map[string]bool{source: true}
	moved := ActivityMoved{To: what, Source: source, Detail: detail}
	if !until.IsZero() {
		moved.Until = &until
	}
	s.record(moved)
}

// uncertain says that one source alone tells it.
func (d *doing) uncertain() bool { return len(d.by) < 2 && !certain(d.what) }

// certain says whether an activity needs no second witness: that a process
// ended is told by the system, and by its terminal, which has nobody at the
// other end.
func certain(what string) bool { return what == stopped }

// Uncertain says whether what moved there waits for a second witness.
func (f ActivityMoved) Uncertain() bool { return !certain(f.To) }

// alive notes a sign of life.
func (s *step) alive() {
	s.soft.doing.sign, s.soft.eventAt = s.now, s.now
	s.living()
}

// output folds that the harness wrote to its terminal. That is a sign of life,
// and a second witness of one that starts or works; of one that seemed wedged
// it is the proof that it is not.
func (s *step) output(in OutputSeen) {
	s.alive()
	s.sign(ActivitySeen{Output: in.Total})
	s.wrote(in)
	switch s.soft.doing.what {
	case starting, working:
		s.activeBy(s.soft.doing.what, "terminal", "output", time.Time{})
	case wedged:
		s.activeBy(working, "terminal", "output", time.Time{})
	}
}

// wedgeDue is when silence becomes a wedge; ok is false while nothing claims
// that there is work, or something explains the silence: a tool runs, a person
// is asked, a limit is waited for, it stands still.
func (k *Kernel) wedgeDue() (at time.Time, ok bool) {
	d := &k.soft.doing
	if k.hard.State == session.Paused || d.what != working || len(k.soft.tools.flying) > 0 || len(d.by) == 1 && d.by[wrapperSource] {
		return time.Time{}, false
	}
	return d.sign.Add(k.cfg.WedgedAfter), true
}

func (s *step) wedge() {
	s.activeBy(wedged, wrapperSource, "it claims to work; no sign of life from any source for "+s.cfg.WedgedAfter.String()+", and no tool in flight", time.Time{})
}

// sign records a sign of life of each source at most once a tick: a fact is
// not a heartbeat.
func (s *step) sign(f ActivitySeen) {
	every := s.cfg.Tick
	if every == 0 {
		every = defaultActivity
	}
	if at, ok := s.soft.signAt[f.Source]; ok && s.now.Sub(at) < every {
		return
	}
	s.soft.signAt[f.Source] = s.now
	s.record(f)
}

// defaultActivity is how often a sign of life is recorded without ticks.
const defaultActivity = 30 * time.Second

// telemetryCapability is the name under which a source is claimed.
func telemetryCapability(source string) string { return "telemetry." + source }

// sourceTrouble records that a source cannot be read as it should, and tells
// what that takes away. What was cut or replaced is read anew: nothing is gone.
func (s *step) sourceTrouble(in SourceTrouble) {
	s.record(SourceTroubled(in))
	if s.hard.Scope == 0 {
		s.soft.early = append(s.soft.early, in) // told as soon as there is a session to tell it of
		return
	}
	s.troubleTaken(in)
}

// earlyTroubles tells what was wrong with sources before the session was known.
func (s *step) earlyTroubles() {
	early := s.soft.early
	s.soft.early = nil
	for _, in := range early {
		s.troubleTaken(in)
	}
}

func (s *step) troubleTaken(in SourceTrouble) {
	switch in.What {
	case "polling":
		s.sourceSupport(in.Source, lifeloop.Partial, "the "+in.Source+" is polled, because its changes cannot be watched")
	case "deleted":
		s.sourceSupport(in.Source, lifeloop.Unavailable, "the "+in.Source+" is not there any more")
	case "stale":
		s.sourceSupport(in.Source, lifeloop.Unavailable, "the "+in.Source+" was left behind by a process that is gone")
	case "unreadable":
		s.sourceSupport(in.Source, lifeloop.Unavailable, "the "+in.Source+" cannot be read")
	case "recovered":
		s.sourceSupport(in.Source, s.claimed(telemetryCapability(in.Source)), "the "+in.Source+" can be read again as it should")
	}
}

// sourceSupport tells that a source is worth more or less than before.
func (s *step) sourceSupport(source string, to lifeloop.Support, why string) {
	name := telemetryCapability(source)
	if s.hard.Scope == 0 || s.soft.draining || s.hard.Exit != nil || s.claimed(name) == lifeloop.Unavailable {
		return
	}
	s.degrade(name, s.support(name), to, why)
}

// heard notes that a source spoke in this turn.
func (s *step) heard(source string) {
	s.soft.spoke[source] = true
	if s.soft.silent[source] >= silentTurns {
		s.sourceSupport(source, s.claimed(telemetryCapability(source)), "the "+source+" tells again")
	}
	delete(s.soft.silent, source)
}

// silentTurns is how many turns a source that should tell of them may pass over.
const silentTurns = 2

// turnHeard counts, at the end of a turn that somebody told of, the sources
// that should have told of it and did not.
func (s *step) turnHeard() {
	for _, source := range s.cfg.Expected {
		if s.soft.spoke[source] {
			continue
		}
		s.soft.silent[source]++
		if s.soft.silent[source] == silentTurns {
			s.sourceSupport(source, lifeloop.Unavailable, "the "+source+" was silent in two turns that others told of")
		}
	}
	clear(s.soft.spoke)
}
