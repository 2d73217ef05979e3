package kernel

import (
	"cmp"
	"time"

	"lifeloop/lifeloop"
	"lifeloop/synth"
	"lifeloop/telemetry"
)

// This file decides which harness session a signal belongs to. Every bind and
// every change is a fact with its reason. A file that was only found, and
// never named by the harness, binds nothing.

// open begins the next harness session and tells session.starting.
func (s *step) open(id, cause string, ev []lifeloop.Evidence) {
	cause = cmp.Or(cause, "unknown")
	s.record(HarnessSessionOpened{Scope: s.hard.Scope + 1, ID: id, Cause: cause})
	switch before := s.hard.Sessions[s.hard.Scope-1]; {
	case before == nil:
	case before.ID == id && id != "" && cause != "clear":
		s.soft.synth.Resume()
	default:
		s.soft.synth.Reset()
	}
	s.tell(telling{event: lifeloop.SessionStarting, evidence: ev, data: map[string]any{"cause": cause}})
}

// started tells session.started once. Where the sign of life names no cause
// it is the one that the session was opened for.
func (s *step) started(cause string, ev []lifeloop.Evidence, h *hook) {
	hs := s.current()
	if hs.Started || hs.Ending {
		return
	}
	cause = cmp.Or(cause, hs.Cause, "unknown")
	s.inside(h, s.tell(telling{event: lifeloop.SessionStarted, evidence: ev, data: map[string]any{"cause": cause}}))
	s.earlyTroubles()
	if len(ev) > 0 && s.soft.doing.what == starting {
		s.activeBy(idling, ev[0].Source, ev[0].Detail, time.Time{})
	}
}

// over tells session.ending and session.ended of the current harness session,
// whichever of them was not told yet.
func (s *step) over(reason string, ev []lifeloop.Evidence) {
	s.goneAnyway()
	s.closeFrames(ev)
	s.flushSynth()
	s.ending(reason, ev)
	if hs := s.current(); !hs.Ended {
		s.tell(telling{event: lifeloop.SessionEnded, evidence: ev, data: map[string]any{"reason": hs.Reason}})
	}
	s.giveUpScope(s.hard.Scope, "the harness session ended")
}

func (s *step) ending(reason string, ev []lifeloop.Evidence) {
	if hs := s.current(); !hs.Ending {
		s.tell(telling{event: lifeloop.SessionEnding, evidence: ev, data: map[string]any{"reason": reason}})
	}
}

func (s *step) current() *harnessSession { return s.hard.Sessions[s.hard.Scope] }

// signals folds what one telemetry record told.
func (s *step) signals(in SignalsSeen) {
	before := len(s.turn.Facts)
	for _, sig := range in.Signals {
		s.signal(sig, nil)
	}
	if in.Position == nil || len(in.Signals) == 0 {
		return
	}
	// The cursor rides with what the record told; alone it is written at most
	// once a second, so a chatty source does not fill the ledger.
	src := in.Signals[0].Source
	if len(s.turn.Facts) == before && s.now.Sub(s.soft.sourceAt[src]) < cursorEvery {
		return
	}
	s.soft.sourceAt[src] = s.now
	s.record(SourceRead{Source: src, Position: *in.Position})
}

// signal folds one signal. h is the hook that brought it, if one did.
func (s *step) signal(sig telemetry.Signal, h *hook) {
	if s.soft.draining || s.hard.Next != nil {
		return // the end was told, of the session or of the attempt
	}
	if s.hard.Scope == 0 {
		if !s.cfg.Observing || sig.Agent != "" || sig.Side != "" || sig.Kind == telemetry.SessionGone {
			return
		}
		if s.cfg.HarnessSession != "" && sig.Session != s.cfg.HarnessSession {
			return // another session's, or nobody's
		}
		// An observer meets a session in its middle: the first record of it is
		// all there is to know of its start.
		cause := sig.Cause
		if cause == "" {
			cause = "unknown"
		}
		s.open(sig.Session, cause, by(sig))
		s.started(cause, by(sig), nil)
	}
	s.alive()
	s.heard(sig.Source)
	if sig.Agent != "" || sig.Side != "" {
		s.meter(sig)
		return // a sub-agent lives inside the main chain's tool call, and a side call beside it
	}
	if sig.Path != "" && h != nil && !s.soft.watched[sig.Path] {
		s.soft.watched[sig.Path] = true
		s.record(SourceNamed{Path: sig.Path, By: sig.Source + ": " + sig.Detail})
		s.do(Watch{sig.Path})
	}
	switch sig.Kind {
	case telemetry.SessionLive:
		s.sessionLive(sig, h)
	case telemetry.SessionGone:
		s.sessionGone(sig)
	default:
		s.revived(sig)
		mine := s.mine(sig, h)
		s.meter(sig)
		if !mine {
			return
		}
		for _, o := range s.soft.synth.Before(sig) {
			s.observed(o)
		}
		s.attemptSignal(sig)
		s.turnSignal(sig, h)
	}
	s.versionTold(sig)
	if s.current().Ended {
		return // its last words were told; the figures of its file are no news
	}
	for _, o := range s.soft.synth.See(sig, s.now) {
		s.observed(o)
	}
}

func (s *step) sessionLive(sig telemetry.Signal, h *hook) {
	hs := s.current()
	switch {
	case sig.Source != "hook" && s.wasOver(sig.Session):
		return // a file of a session that is over was read to its end late
	case s.elsewhere(sig):
		s.refuseBind(sig)
		return
	case hs.Ended:
		s.open(sig.Session, sig.Cause, by(sig))
	case hs.ID == "" && sig.Session != "":
		s.bind(sig.Session, sig.Source+": "+sig.Detail)
	case s.cleared(sig):
		s.over(endBy(sig.Cause), by(sig))
		s.open(sig.Session, sig.Cause, by(sig))
	case s.resumed(sig):
		s.over("resume", by(sig))
		s.open(sig.Session, sig.Cause, by(sig))
	case sig.Session == "" || hs.ID == sig.Session:
	case !hs.Started:
		s.bind(sig.Session, sig.Source+" tells another id than the launch gave: "+sig.Detail)
	default:
		s.over(endBy(sig.Cause), by(sig))
		s.open(sig.Session, sig.Cause, by(sig))
	}
	s.started(sig.Cause, by(sig), h)
}

// resumed says, to an observer, that the session is taken up again in the midst
// of a turn: whoever ran it before is gone, and could not say so.
func (s *step) resumed(sig telemetry.Signal) bool {
	hs := s.current()
	return s.cfg.Observing && sig.Source == "hook" && sig.Cause == "resume" && sig.Session == hs.ID && hs.Started && s.top() != nil && !s.top().Ending
}

// elsewhere says that a session begins in a store which all processes of the
// harness share. That is no word of the process that we look at: a store alone
// binds the session that an observer was pointed at, and after it one that says
// that it goes on from there.
func (s *step) elsewhere(sig telemetry.Signal) bool {
	id := s.current().ID
	switch {
	case sig.Source != storeSource || sig.Session == "" || sig.Session == id:
		return false
	case id == "":
		return !s.cfg.Observing
	}
	return sig.From != id
}

// Foreign reports whether a signal is of another session of a store than the one
// that an observer was pointed at, which has not shown yet. It will tell nothing.
func (k *Kernel) Foreign(sig telemetry.Signal) bool {
	return k.hard.Scope == 0 && k.cfg.Observing && k.cfg.HarnessSession != "" &&
		sig.Source == storeSource && sig.Session != "" && sig.Session != k.cfg.HarnessSession
}

// storeSource is what decoders call a database of many sessions.
const storeSource = "store"

// cleared says that the current session begins from nothing and keeps its id.
// Several sources may tell of it, one of them late: a session in which nothing
// was asked yet has nothing to clear, and what was cleared before the newest
// prompt was told by another source.
func (s *step) cleared(sig telemetry.Signal) bool {
	hs := s.current()
	return sig.Cause == "clear" && sig.Session != "" && sig.Session == hs.ID && hs.Started && hs.Asked &&
		(sig.At.IsZero() || sig.At.After(s.soft.askedAt))
}

// revived begins a session anew that was observed to its end and calls a hook
// again: it was taken up by another process, whose SessionStart may come behind
// a compaction.
func (s *step) revived(sig telemetry.Signal) {
	hs := s.current()
	if !s.cfg.Observing || !hs.Ended || sig.Source != "hook" || sig.Session == "" || sig.Session != hs.ID {
		return
	}
	if sig.Kind == telemetry.Compacting || sig.Kind == telemetry.Prompt {
		s.open(sig.Session, "resume", by(sig))
		s.started("resume", by(sig), nil)
	}
}

// wasOver says whether a harness session of this id has ended and was not
// begun anew under it.
func (s *step) wasOver(id string) bool {
	if hs := s.current(); hs.ID == id && !hs.Ended {
		return false
	}
	for _, hs := range s.hard.Sessions {
		if id != "" && hs.ID == id && hs.Ended {
			return true
		}
	}
	return false
}

// endBy is the reason of an end that only the next session's start tells.
func endBy(cause string) string {
	switch cause {
	case "clear", "resume", "fork":
		return cause
	}
	return "replaced"
}

// sessionGone tells the end as far as the harness tells it: the process may
// still write, so session.ended waits for its exit unless the harness goes on
// with another session.
func (s *step) sessionGone(sig telemetry.Signal) {
	hs := s.current()
	if hs.ID != "" && sig.Session != "" && sig.Session != hs.ID || hs.Ended {
		return
	}
	if hs.ID == "" && sig.Session != "" {
		s.bind(sig.Session, sig.Source+": "+sig.Detail)
	}
	s.started("unknown", by(sig), nil) // what tells its end is a sign of its life
	// Of a session that is only observed this is all there will be of its end.
	if sig.Reason == "clear" || sig.Reason == "resume" || s.cfg.Observing {
		s.over(sig.Reason, by(sig))
		return
	}
	// The hook may be quicker than the record of how the last turn ended: that is
	// waited for, until the process has ended and was read to its end.
	if f := s.top(); f != nil && !f.Ending && s.hard.Exit == nil {
		s.soft.gone, s.soft.goneDue = &sig, s.now.Add(lastRecords)
		return
	}
	s.gone(sig)
}

// lastRecords is how long the end of a session waits for that of its turn.
const lastRecords = time.Second

// gone tells that the session is about to end, and its turn with it.
func (s *step) gone(sig telemetry.Signal) {
	s.soft.gone, s.soft.goneDue = nil, time.Time{}
	s.closeFrames(by(sig))
	s.ending(sig.Reason, by(sig))
}

// goneAnyway stops to wait for the end of the last turn.
func (s *step) goneAnyway() {
	if sig := s.soft.gone; sig != nil {
		s.gone(*sig)
	}
}

// mine says whether a signal belongs to the current harness session, after
// following the harness to a new one where a hook proves it.
func (s *step) mine(sig telemetry.Signal, h *hook) bool {
	hs := s.current()
	if sig.Session == "" || sig.Session == hs.ID {
		return true
	}
	if h == nil && sig.Source != "hook" { // a recorded hook proves as much as one that is heard
		// A file may belong to a session of its own; only a session that has no
		// id yet takes it from the file that the harness named.
		if hs.ID == "" && !hs.Ended && s.cfg.Observing {
			s.bind(sig.Session, sig.Source+": "+sig.Detail)
			return true
		}
		s.refuseBind(sig)
		return false
	}
	switch {
	case hs.Ended:
		s.open(sig.Session, "unknown", by(sig))
		s.started("unknown", by(sig), nil)
	case hs.ID == "":
		s.bind(sig.Session, "hook: "+sig.Detail)
	case hs.Cause == "fork" || len(s.hard.Frames) == 0 && len(s.hard.Past) == 0:
		// A fork's start still carries the id of its origin; the first prompt
		// carries its own.
		s.bind(sig.Session, "hook tells another id before the first frame: "+sig.Detail)
	default:
		s.over("replaced", by(sig))
		s.open(sig.Session, "unknown", by(sig))
		s.started("unknown", by(sig), nil)
	}
	return true
}

// refuseBind records, once for each id, that a source speaks of a session which
// nothing proves to be this one: two sessions may share a folder, and a file
// that was only found binds nothing.
func (s *step) refuseBind(sig telemetry.Signal) {
	if s.known(sig.Session) || s.soft.refused[sig.Session] || len(s.soft.refused) >= maxRefused {
		return
	}
	s.soft.refused[sig.Session] = true
	s.record(BindRefused{Scope: s.hard.Scope, ID: sig.Session,
		Reason: sig.Source + ": " + sig.Detail + " is of another session, and no hook or launch says that this one went on as that"})
}

// maxRefused bounds how many other sessions are named.
const maxRefused = 64

// known says whether a harness session of this run has, or had, this id.
func (s *step) known(id string) bool {
	for _, hs := range s.hard.Sessions {
		if hs.ID == id {
			return true
		}
	}
	return false
}

func (s *step) bind(id, reason string) {
	s.record(Bound{Scope: s.hard.Scope, ID: id, Was: s.current().ID, Reason: reason})
}

const pressureCapability = "context_pressure"

// observed tells what synth found worth telling.
func (s *step) observed(o synth.Observation) {
	switch o := o.(type) {
	case synth.Pressure:
		ev := by(o.Signal)
		claimed, now := s.claimed(pressureCapability), s.support(pressureCapability)
		switch {
		case o.Window == 0 && now == claimed:
			s.degrade(pressureCapability, now, lifeloop.Partial, "the context window is not known, so the level is not either")
		case o.Window > 0 && now != claimed:
			s.degrade(pressureCapability, now, claimed, "the context window is known now, from "+o.WindowSource)
		}
		s.tell(telling{event: lifeloop.ContextPressureObserved, frame: s.topFrame(), evidence: ev, data: pressureData(o, false)})
	case synth.Compaction:
		data := map[string]any{"trigger": o.Trigger, "tokens_before": nil, "tokens_after": nil}
		if o.Before != nil {
			data["tokens_before"] = *o.Before
		}
		if o.After != nil {
			data["tokens_after"] = *o.After
		}
		ev := by(o.Signals...)
		if o.Inferred {
			data["inferred"] = true
			ev = append(ev, own("nobody told it: the context fell to less than half between two calls of the model")...)
		}
		s.stoppedBefore(o.Signals)
		s.tell(telling{event: lifeloop.ContextCompacted, frame: s.topFrame(), evidence: ev, data: data})
	}
}

// stoppedBefore ends a frame that had stopped when a compaction of another
// turn was told: that turn could not have begun in it.
func (s *step) stoppedBefore(told []telemetry.Signal) {
	f := s.top()
	if f == nil || !f.Ending {
		return
	}
	for _, sig := range told {
		if sig.Turn != "" && f.Turn != "" && sig.Turn != f.Turn {
			s.closeFrame(f.ID, by(sig))
			return
		}
	}
}

func (s *step) flushSynth() {
	for _, o := range s.soft.synth.Flush() {
		s.observed(o)
	}
}

func pressureData(p synth.Pressure, stale bool) map[string]any {
	data := map[string]any{"level": nil, "tokens_used": p.Used, "window_tokens": nil, "window_source": p.WindowSource,
		"fraction": nil, "stale": stale}
	if f, ok := p.Fraction(); ok {
		// Four digits are more than any window's resolution is worth, and they
		// keep the line the same wherever it is computed.
		data["level"], data["window_tokens"], data["fraction"] = string(p.Level), p.Window, float64(int64(f*10_000))/10_000
	}
	return data
}

// meter counts a model call, if it was made for a session of this run.
func (s *step) meter(sig telemetry.Signal) {
	if sig.Kind == telemetry.UsageSeen && (sig.Session == "" || s.known(sig.Session)) && s.soft.meter.See(sig) {
		s.soft.metered = true
	}
}

// keepBooks records what the session's model calls add up to, when that moved:
// at once at the end of a turn and of the session, else once a second.
func (s *step) keepBooks(now bool) {
	if !s.soft.metered || !now && s.now.Sub(s.soft.meteredAt) < cursorEvery {
		return
	}
	s.soft.metered, s.soft.meteredAt = false, s.now
	s.record(UsageCounted{s.soft.metered0.Plus(s.soft.meter.Total())})
}

// unknownSeen records what a source told that its decoder does not know.
func (s *step) unknownSeen(in UnknownSeen) { s.record(UnknownCounted(in)) }
