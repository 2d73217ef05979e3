package kernel

import (
	"cmp"

	"lifeloop/kernel/input"
	"lifeloop/telemetry"
)

// This file decides to which harness session a signal belongs. A hook, our plugin or the
// launch proves which session the harness has. A file proves nothing if it was only
// found, and the harness never reported its path.
//
// The choosers of package supervisor decide which session of a folder is followed,
// because the kernel does not read the content of files. A signal of FolderSource reports
// the decision, and the kernel accepts it.

// storeSource is the source name in signals from a database of many sessions.
// pluginSource is the source name in signals from our plugin, which runs in the
// harness and sends the harness's events.
const (
	storeSource  = "store"
	pluginSource = "plugin"
	// FolderSource is the source name of a signal by which the reader of a folder of sessions
	// chooses the harness session to follow.
	FolderSource = "folder"
)

// injected reports whether a source was injected into the launch, so that its
// signals prove which session the harness has.
func injected(source string) bool { return source == "hook" || source == pluginSource }

// Foreign reports whether a signal belongs to another session of a store, while the
// session to observe has not appeared yet. Such a signal has no effect.
func (k *Kernel) Foreign(sig telemetry.Signal) bool {
	return k.scopes.number() == 0 && k.cfg.Observing && k.cfg.HarnessSession != "" &&
		sig.Source == storeSource && sig.Session != "" && sig.Session != k.cfg.HarnessSession
}

func (s *step) signals(in input.SignalsSeen) {
	before := len(s.out.Facts)
	for _, sig := range in.Signals {
		s.signal(sig, nil)
	}
	s.health.read(s, in, before)
}

// signal applies one signal. h is the open hook whose call reported the signal; nil if
// the signal came from elsewhere.
func (s *step) signal(sig telemetry.Signal, h *hook) {
	if s.ending.draining() || s.recovery.between() || s.renewals.between() {
		return // the session or the attempt has ended, or the next launch is being prepared
	}
	if s.scopes.number() == 0 && !s.discover(sig) {
		return
	}
	s.activity.alive(s)
	s.health.spoke(s, sig.Source)
	if sig.Agent != "" || sig.Side != "" {
		s.books.count(s, sig)
		return // only the usage matters: a sub-agent runs within a tool call, and a side call is not part of the turn
	}
	if sig.Path != "" && h != nil {
		s.health.named(s, sig)
	}
	switch sig.Kind {
	case telemetry.SessionLive:
		if !s.sessionLive(sig, h) {
			return
		}
	case telemetry.SessionGone:
		s.scopes.gone(s, sig)
	default:
		s.revive(sig)
		current := s.identify(sig, h)
		s.books.count(s, sig)
		if !current {
			return
		}
		s.pressure.before(s, sig)
		s.renewals.emptied(s, sig)
		s.attempts.signal(s, sig)
		s.turns.signal(s, sig, h)
	}
	s.health.version(s, sig)
	if !s.scopes.current().Ended { // records of an ended session say nothing about the present context
		s.pressure.see(s, sig)
	}
}

// discover begins the harness session of an observer at the session's first signal, and
// reports whether the session has begun. Only that signal can show why the session began.
func (s *step) discover(sig telemetry.Signal) bool {
	if !s.cfg.Observing || sig.Agent != "" || sig.Side != "" || sig.Kind == telemetry.SessionGone {
		return false
	}
	if s.cfg.HarnessSession != "" && sig.Session != s.cfg.HarnessSession && sig.Source != FolderSource {
		return false
	}
	cause := cmp.Or(sig.Cause, "unknown")
	s.scopes.open(s, sig.Session, cause, by(sig), nil)
	s.scopes.start(s, cause, by(sig), nil)
	return true
}

// replace ends the current harness session, with reason, and begins the one that a
// signal names, with cause.
func (s *step) replace(sig telemetry.Signal, reason, cause string, h *hook) {
	s.endScope(s.renewals.reason(reason), by(sig))
	s.scopes.open(s, sig.Session, cause, by(sig), h)
}

// sessionLive handles a signal that a harness session is live. It reports whether that
// session is the current one now.
func (s *step) sessionLive(sig telemetry.Signal, h *hook) bool {
	hs := s.scopes.current()
	switch {
	case !injected(sig.Source) && sig.Source != FolderSource && s.scopes.ended(sig.Session):
		return false // the signal is from the file of an ended session, which was read late
	case s.elsewhere(sig):
		s.scopes.refuse(s, sig)
		return false
	case hs.Ended:
		s.scopes.open(s, sig.Session, sig.Cause, by(sig), h)
	case hs.ID == "" && sig.Session != "":
		s.scopes.bind(s, sig.Session, sig.Cause, sig.Source+": "+sig.Detail)
	case s.cleared(sig):
		s.replace(sig, endBy(sig.Cause), sig.Cause, h)
	case s.resumedElsewhere(sig):
		s.replace(sig, "resume", sig.Cause, h)
	case sig.Session == "" || hs.ID == sig.Session:
	case !hs.Started:
		s.scopes.bind(s, sig.Session, sig.Cause, sig.Source+" reports an id that differs from that of the launch: "+sig.Detail)
	default:
		s.replace(sig, endBy(sig.Cause), sig.Cause, h)
	}
	s.scopes.start(s, sig.Cause, by(sig), h)
	return true
}

// endBy returns the reason for the end of a harness session if only the start of the
// next session shows that end. cause is the cause of the start.
func endBy(cause string) string {
	switch cause {
	case "clear", "resume", "fork":
		return cause
	}
	return "replaced"
}

// resumedElsewhere reports whether an observer sees that another process resumed
// the session during a turn. The previous process has then ended without reporting
// its end.
func (s *step) resumedElsewhere(sig telemetry.Signal) bool {
	hs, f := s.scopes.current(), s.turns.top()
	return s.cfg.Observing && sig.Source == "hook" && sig.Cause == "resume" && sig.Session == hs.ID && hs.Started && f != nil && !f.Ending
}

// elsewhere reports whether a signal of a store must be refused. All processes of the
// harness share the store, so the session of the signal may belong to any of them. Only
// signals of the session to observe, of the current session, and of a session that
// continues the current one are accepted.
func (s *step) elsewhere(sig telemetry.Signal) bool {
	id := s.scopes.current().ID
	switch {
	case sig.Source != storeSource || sig.Session == "" || sig.Session == id:
		return false
	case id == "":
		return !s.cfg.Observing
	}
	return sig.From != id
}

// cleared reports whether a signal says that the current harness session starts
// again with an empty context under the same id. Several sources may report
// this, some of them late. A signal reports nothing new if the session has no prompt
// yet, or if the signal is older than the newest prompt.
func (s *step) cleared(sig telemetry.Signal) bool {
	hs := s.scopes.current()
	return sig.Cause == "clear" && sig.Session != "" && sig.Session == hs.ID && hs.Started && hs.Prompted &&
		(sig.At.IsZero() || s.turns.prompted(sig.At))
}

// revive begins an observed session again if the hook of a prompt or of a compaction is
// called after the session's end: another process has resumed the session. If that
// process first compacts the context, the hook of the compaction may be called before
// the SessionStart hook.
func (s *step) revive(sig telemetry.Signal) {
	hs := s.scopes.current()
	if !s.cfg.Observing || !hs.Ended || sig.Source != "hook" || sig.Session == "" || sig.Session != hs.ID {
		return
	}
	if sig.Kind == telemetry.Compacting || sig.Kind == telemetry.Prompt {
		s.scopes.open(s, sig.Session, "resume", by(sig), nil)
		s.scopes.start(s, "resume", by(sig), nil)
	}
}

// identify reports whether a signal belongs to the current harness session. If a hook
// or our plugin proves that the harness has a new session, identify first makes that
// session the current one.
func (s *step) identify(sig telemetry.Signal, h *hook) bool {
	hs := s.scopes.current()
	if sig.Session == "" || sig.Session == hs.ID {
		s.health.followed(s, sig)
		return true
	}
	if h == nil && !injected(sig.Source) {
		// Neither a hook, live or recorded, nor our plugin reported the signal. So the
		// signal may belong to another session. Only an observed session without an id
		// takes the id of the signal.
		if hs.ID == "" && !hs.Ended && s.cfg.Observing {
			s.scopes.bind(s, sig.Session, "", sig.Source+": "+sig.Detail)
			return true
		}
		s.scopes.refuse(s, sig)
		s.health.unfollowed(s, sig)
		return false
	}
	switch {
	case hs.Ended:
		s.scopes.open(s, sig.Session, "unknown", by(sig), h)
	case hs.ID == "":
		s.scopes.bind(s, sig.Session, "", "hook: "+sig.Detail)
		return true
	case hs.Cause == "fork" || !s.turns.any():
		// At its start, a fork still reports the id of its origin; from the first
		// prompt on, its own id.
		s.scopes.bind(s, sig.Session, "", "a different id was reported for the same harness session: "+sig.Detail)
		return true
	default:
		s.replace(sig, "replaced", "unknown", h)
	}
	s.scopes.start(s, "unknown", by(sig), nil)
	return true
}
