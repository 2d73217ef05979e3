package kernel

import (
	"cmp"
	"time"

	"lifeloop/attempt"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/session"
)

// sessionMachine is the session as a whole: its state, its time limits, and the
// commands that pause and resume it. The moves are those of package session:
//
//	PENDING ──► RUNNING ◄──► PAUSED
//	   │         │ │ │          │
//	   ▼         │ │ └─────► ABORTING ──► ABORTED
//	REJECTED     │ └──► COMPLETED
//	             └────► FAILED
//
// A session is PAUSED for one of five reasons: a command (hard.Paused), a
// signal that stopped the harness, a long wait for the next attempt, a renewal,
// or the death of the wrapper.
type sessionMachine struct {
	hard struct {
		State      session.State
		Began      Began
		Refused    lifeloop.FailureClass
		RefusedWhy string
		Paused     bool      // a command paused the session
		End        time.Time // when the session's time is over; zero if there is no limit
		TimedOut   Timer     // the session's own timer that fired
	}
	soft struct {
		pausedAt   time.Time // when the pause by a command began, or when the attempt ended during that pause; zero without a pause
		eventAt    time.Time // time of the newest fact or sign of life
		end        time.Time // hard.End, converted by timerAt for comparison with s.now
		ledgerLost bool      // the ledger is lost, so no client is called and hooks get empty answers
		replayedTo time.Time // the time of the last replayed fact
		closing    bool      // the wrapper died, and the session is being closed
	}
}

type (
	// Began is the first fact of every session. It describes this run of the
	// wrapper.
	Began struct {
		SessionID      string   `json:"session_id"`
		AdapterID      string   `json:"adapter_id"`
		AdapterVersion string   `json:"adapter_version"`
		Program        string   `json:"program"`     // only the base name
		Args           int      `json:"args"`        // only the number of arguments, because their text may be a prompt
		ArgsDigest     string   `json:"args_digest"` // sha256 over the NUL-joined arguments
		WorkDir        string   `json:"work_dir"`
		Version        string   `json:"version"` // the wrapper's version
		PID            int      `json:"pid"`     // the wrapper's process id
		PTY            bool     `json:"pty"`
		Clients        []string `json:"clients"`
		Policy         string   `json:"policy"` // digest of the gate's policy, or "none" (DECISIONS G2)
		// TokenDigest is the digest of the session's token; empty if none was
		// issued.
		TokenDigest string `json:"session_token_digest,omitempty"`
		// Budget limits the attempts; nil if there is only one attempt.
		Budget *Budget `json:"budget,omitempty"`
		// Meta holds the labels that the owner gave the session; they are not
		// interpreted.
		Meta map[string]string `json:"meta,omitempty"`
	}
	// SessionMoved records a move of the session machine.
	SessionMoved struct {
		From   session.State `json:"from"`
		To     session.State `json:"to"`
		Reason string        `json:"reason"`
		// Failure is set if the session was refused because of an unmet requirement or
		// by the gate.
		Failure lifeloop.FailureClass `json:"failure_class,omitempty"`
	}
	// DeadlineSet records a time that must survive a crash: the session's end.
	DeadlineSet struct {
		Timer Timer     `json:"timer"`
		At    time.Time `json:"at"`
	}
	// TimedOut records that a timer fired. If a harness runs, it is then ended.
	TimedOut struct {
		Timer     Timer  `json:"timer"`
		ElapsedMS int64  `json:"elapsed_ms"`
		Tool      string `json:"tool,omitempty"` // id of the tool call that took too long
	}
	// CommandReceived records a command that no other fact records, or the refusal of
	// a command. It also records the refusal of a client's request for a renewal.
	CommandReceived struct {
		What    string                `json:"what"`
		Reason  string                `json:"reason,omitempty"` // the reason given with the command; for a client's refused request, the client and the reason for the refusal
		Frame   string                `json:"frame,omitempty"`
		Failure lifeloop.FailureClass `json:"failure,omitempty"`
	}
	// PauseRequested and ResumeRequested record commands of the session socket.
	// ResumeRequested also records that the wrapper itself ended the pause.
	PauseRequested struct {
		Reason string `json:"reason,omitempty"`
	}
	ResumeRequested struct {
		Reason string `json:"reason,omitempty"`
		// RetryAt is the time of the next attempt, postponed by the length of the
		// pause; nil if no attempt waits, or if the waiting attempt is given up.
		RetryAt *time.Time `json:"retry_at,omitempty"`
	}
	// PausedAgain records that a signal continued the harness, although a command has
	// paused the session, and that the wrapper stops the harness again.
	PausedAgain struct{}
	// Resumed records that a new wrapper recovers the session after a crash. LastAt is
	// the time of the last fact of the earlier wrapper, which died at that time or later.
	Resumed struct {
		PID    int       `json:"pid"`
		LastAt time.Time `json:"last_at"`
		// Budget limits the attempts from now on; nil if there is only one attempt.
		Budget *Budget `json:"budget,omitempty"`
	}
)

func (Began) key() (string, bool)           { return "began", true }
func (f Began) apply(k *Kernel)             { k.session.hard.Began = f }
func (DeadlineSet) key() (string, bool)     { return "deadline_set", true }
func (f DeadlineSet) apply(k *Kernel)       { k.session.hard.End = f.At }
func (CommandReceived) key() (string, bool) { return "asked", false }
func (CommandReceived) apply(*Kernel)       {}
func (PauseRequested) key() (string, bool)  { return "pause_requested", true }
func (PauseRequested) apply(k *Kernel)      { k.session.hard.Paused = true }
func (PausedAgain) key() (string, bool)     { return "held_again", true }
func (PausedAgain) apply(*Kernel)           {}
func (Resumed) key() (string, bool)         { return "resumed", true }
func (f Resumed) apply(k *Kernel)           { k.session.hard.Began.PID = f.PID }

func (SessionMoved) key() (string, bool) { return "session_moved", true }
func (f SessionMoved) apply(k *Kernel) {
	h := &k.session.hard
	h.State = f.To
	if f.To == session.Rejected && f.Reason != abortedBeforeStart { // an aborted session was not refused
		h.Refused, h.RefusedWhy = cmp.Or(f.Failure, lifeloop.CapabilityUnsupported), f.Reason
	}
}

func (TimedOut) key() (string, bool) { return "timed_out", true }
func (f TimedOut) apply(k *Kernel) {
	if f.Timer == timerSession || f.Timer == timerIdle {
		k.session.hard.TimedOut = f.Timer
	}
	if k.attempts.alive() {
		k.attempts.stopFor(attempt.Timeout, string(f.Timer))
	}
}

func (ResumeRequested) key() (string, bool) { return "resume_requested", true }
func (f ResumeRequested) apply(k *Kernel) {
	k.session.hard.Paused = false
	k.recovery.postponed(f.RetryAt)
}

func (m *sessionMachine) state() session.State     { return m.hard.State }
func (m *sessionMachine) is(st session.State) bool { return m.hard.State == st }
func (m *sessionMachine) active() bool             { return m.is(session.Running) || m.is(session.Paused) }

// began reports whether the first fact was recorded.
func (m *sessionMachine) began() bool { return m.hard.Began.SessionID != "" }

// pausedByCommand reports whether a command paused the session and none resumed it.
func (m *sessionMachine) pausedByCommand() bool { return m.hard.Paused }

// pausedBySignal reports whether a signal stopped the harness, and no command or
// renewal paused the session.
func (m *sessionMachine) pausedBySignal(k *Kernel) bool {
	return m.is(session.Paused) && k.attempts.alive() && !m.hard.Paused && !k.renewals.pausing(k)
}

// timeout returns the session's own timer that fired; empty if none did.
func (m *sessionMachine) timeout() Timer { return m.hard.TimedOut }

func (m *sessionMachine) refusal() (lifeloop.FailureClass, string) {
	return m.hard.Refused, m.hard.RefusedWhy
}

func (m *sessionMachine) ledgerLost() bool        { return m.soft.ledgerLost }
func (m *sessionMachine) loseLedger()             { m.soft.ledgerLost = true }
func (m *sessionMachine) closeLost()              { m.soft.closing = true }
func (m *sessionMachine) closing() bool           { return m.soft.closing }
func (m *sessionMachine) recorded(at time.Time)   { m.soft.eventAt = at }
func (m *sessionMachine) arm(s *step)             { m.soft.end = s.timerAt(m.hard.End) }
func (m *sessionMachine) lastReplayed() time.Time { return m.soft.replayedTo }

// replayed stores the time of a fact that was replayed, and restores pausedAt. Both are
// soft state and need the time of the fact, which apply does not receive.
func (m *sessionMachine) replayed(e Entry) {
	m.soft.replayedTo = e.At
	switch e.Fact.(type) {
	case PauseRequested:
		m.soft.pausedAt = e.At
	case ResumeRequested:
		m.soft.pausedAt = time.Time{}
	case AttemptEnded:
		m.planned(e.At)
	}
}

// planned handles the end of an attempt. If the session is already paused, the
// pause delays the next attempt only from now on.
func (m *sessionMachine) planned(now time.Time) {
	if !m.soft.pausedAt.IsZero() {
		m.soft.pausedAt = now
	}
}

// pausedFor returns how long the present pause by a command has delayed the
// session so far.
func (m *sessionMachine) pausedFor(now time.Time) (d time.Duration) {
	if !m.soft.pausedAt.IsZero() {
		d = now.Sub(m.soft.pausedAt)
	}
	return d
}

// lives sets eventAt to at, the time of a sign of life, unless eventAt is later.
func (m *sessionMachine) lives(at time.Time) {
	if at.After(m.soft.eventAt) {
		m.soft.eventAt = at
	}
}

func (m *sessionMachine) move(s *step, to session.State, reason string) {
	if err := session.Check(m.hard.State, to); err != nil {
		panic("kernel: " + err.Error()) // always a bug of this package, not of the input
	}
	s.record(SessionMoved{From: m.hard.State, To: to, Reason: reason})
}

// reject ends a session that was refused before it became RUNNING.
func (m *sessionMachine) reject(s *step, why string, class lifeloop.FailureClass) {
	s.record(SessionMoved{From: m.hard.State, To: session.Rejected, Reason: why, Failure: class})
}

// timer returns the session's own timer that fires next, and when. A pause by a
// command stops the idle timer, and not the session's time (DECISIONS H2).
func (m *sessionMachine) timer(k *Kernel) (at time.Time, which Timer) {
	if !m.active() || m.hard.TimedOut != "" || k.ending.draining() || k.cfg.Observing || k.cfg.OneHook {
		return at, ""
	}
	at, which = m.soft.end, timerSession
	if p := k.cfg.Policy; p.Idle > 0 && !m.hard.Paused {
		if t := m.soft.eventAt.Add(p.Idle + k.cfg.SignDelay); at.IsZero() || t.Before(at) {
			at, which = t, timerIdle
		}
	}
	return at, which
}

func (m *sessionMachine) next(k *Kernel) time.Time {
	at, _ := m.timer(k)
	return at
}

// wake ends the session, running or paused, when its own time limit has passed.
func (m *sessionMachine) wake(s *step) {
	_, which := m.timer(s.Kernel)
	elapsed := s.now.Sub(m.soft.end.Add(-s.cfg.Policy.Session))
	if which == timerIdle {
		elapsed = s.now.Sub(m.soft.eventAt)
	}
	s.recovery.settle(s, lifeloop.Timeout, "the session timed out")
	s.record(TimedOut{Timer: which, ElapsedMS: elapsed.Milliseconds()})
	if m.is(session.Paused) {
		m.move(s, session.Running, timeoutReason(which))
	}
	if m.hard.Paused {
		m.unpause(s, beingEnded)
	}
	switch {
	case s.attempts.alive():
		s.attempts.stop(s)
	case s.recovery.planned() != nil:
		s.recovery.giveUp(s, attempt.Timeout, string(which))
	case s.renewals.between():
		s.renewals.abandon(s, "the session timed out")
	case s.guards.launching():
		s.guards.settle(s, "the session timed out")
	}
}

// timeoutReason returns the reason for the end of a session by its own timer
// (DECISIONS H2, H4).
func timeoutReason(which Timer) string {
	if which == timerIdle {
		return "idle_timeout"
	}
	return "timeout"
}

// pause stops the harness, all its descendants, and the timers of the attempt.
func (m *sessionMachine) pause(s *step, in input.PauseAsked) {
	if why := m.pauseRefusal(s); why != "" {
		s.refuseCommand("pause", in.Ask, in.Reason, lifeloop.StateConflict, why)
		return
	}
	s.record(PauseRequested{Reason: in.Reason})
	m.soft.pausedAt = s.now
	if s.attempts.alive() {
		s.do(effect.Suspend{})
	}
	if m.is(session.Running) {
		m.move(s, session.Paused, cmp.Or(in.Reason, "paused"))
	}
	s.do(effect.Reply{Ask: in.Ask})
}

func (m *sessionMachine) pauseRefusal(s *step) string {
	switch {
	case m.hard.Paused:
		return "the session is already paused"
	case m.soft.ledgerLost:
		return ledgerRefuses
	case !m.active():
		return "the session is " + string(m.hard.State)
	case s.cfg.Observing, s.cfg.OneHook:
		return "a session that is only observed cannot be paused"
	case s.renewals.pausing(s.Kernel):
		return "the session is being renewed"
	case s.attempts.alive() && s.ending.stopping():
		return "the harness is being ended"
	case s.attempts.alive(), s.recovery.between():
		return ""
	case s.attempts.exit() == nil:
		return "the harness is being started"
	}
	return "the harness has ended"
}

// resume continues a session that a command or a signal paused.
func (m *sessionMachine) resume(s *step, in input.ResumeAsked) {
	if why := m.resumeRefusal(s); why != "" {
		s.refuseCommand("resume", in.Ask, in.Reason, lifeloop.StateConflict, why)
		return
	}
	pause := m.pausedFor(s.now)
	m.resumeWait(s, in.Reason)
	s.attempts.shift(pause, s.now)
	s.activity.shift(pause, s.now)
	s.restartDeadlines()
	if s.attempts.alive() {
		s.do(effect.Continue{})
	}
	// The wait for the next attempt still pauses the session, if it is long.
	if at := s.recovery.retryAt(); m.is(session.Paused) && (at.IsZero() || at.Sub(s.now) < longWait) {
		m.move(s, session.Running, cmp.Or(in.Reason, "resumed"))
	}
	s.do(effect.Reply{Ask: in.Ask})
}

// resumeWait records the end of a pause that a command or a signal began. The pause
// is ended by the command resume or by a recovery. If the next attempt waits, resumeWait
// delays it by the part of the pause during which it waited.
func (m *sessionMachine) resumeWait(s *step, reason string) {
	f := ResumeRequested{Reason: reason}
	if at := s.recovery.retryAt(); !at.IsZero() {
		f.RetryAt = new(s.now.Add(at.Sub(s.now) + m.pausedFor(s.now)).UTC())
	}
	s.record(f)
	s.recovery.arm(s)
	m.soft.pausedAt = time.Time{}
}

func (m *sessionMachine) resumeRefusal(s *step) string {
	switch at := s.recovery.retryAt(); {
	case m.hard.Paused, m.pausedBySignal(s.Kernel):
		return ""
	case !m.active():
		return "the session is " + string(m.hard.State)
	case s.renewals.pausing(s.Kernel):
		return "no command paused the session: it is being renewed"
	case m.is(session.Paused) && !at.IsZero():
		return "no command paused the session: it waits for its next attempt until " + at.Format(time.RFC3339)
	}
	return "no command paused the session"
}

// unpause ends a pause that a command began, although no command to resume was received.
// It is called before the harness is ended, because a stopped process handles no signal
// but KILL. It is also called if the ledger is lost: the wrapper then stops acting, so the
// harness must not stay paused (DECISIONS X4).
func (m *sessionMachine) unpause(s *step, why string) {
	s.record(ResumeRequested{Reason: why})
	m.soft.pausedAt = time.Time{}
	if s.attempts.alive() {
		s.do(effect.Continue{})
	}
}

// beingEnded is the reason for resuming a harness only to end it.
const beingEnded = "the harness is being ended"

// stopped handles a signal that stopped the harness.
func (m *sessionMachine) stopped(s *step, in input.ChildStopped) {
	if m.is(session.Running) {
		m.move(s, session.Paused, "stopped by "+signalName(in.Signal))
	}
}

// continued handles a signal that continued the harness. If a command paused the
// session, only a command may resume it, so the harness is stopped once more. In
// any other state the report came late and has no effect.
func (m *sessionMachine) continued(s *step) {
	switch {
	case m.pausedBySignal(s.Kernel):
		s.attempts.restartSilence(s.now)
		s.restartDeadlines()
		m.move(s, session.Running, "continued")
	case m.hard.Paused && s.attempts.alive():
		s.record(PausedAgain{})
		s.do(effect.Suspend{})
	}
}

// restartDeadlines restarts time limits of the harness when it continues after a pause:
// the limits for the next sign of life, for the first hook, and, if a renewal waits for
// the harness's prompt, for reaching the prompt.
func (s *step) restartDeadlines() {
	s.activity.restart(s.now)
	s.health.restart(s)
	s.renewals.restart(s.now)
}

// refuseCommand records and answers a command that is not carried out.
func (s *step) refuseCommand(what, ask, reason string, class lifeloop.FailureClass, why string) {
	s.record(CommandReceived{What: what, Reason: reason, Failure: class})
	s.do(effect.Reply{Ask: ask, Failure: class, Why: why})
}

// shifted adds the length of a pause to a time in the past. If the sum is later than
// now, because the time lies within the pause, shifted returns now.
func shifted(t time.Time, pause time.Duration, now time.Time) time.Time {
	if t = t.Add(pause); t.After(now) {
		return now
	}
	return t
}
