package renewal

import (
	"fmt"
	"slices"
	"time"

	"lifeloop/lifeloop"
)

// A Machine holds the newest renewal of a session, and the data about earlier
// renewals that the limits need. Its zero value is ready for use. Only Apply,
// Called, Reroute and Measured change it.
type Machine struct {
	Renewal
	Count  int         // the number of renewals that began a reset
	Resets []time.Time // the start times of the newest resets, the oldest first
	Broken string      // why this session can have no further renewal; empty while it can
}

// A Renewal is the state of one renewal.
type Renewal struct {
	ID    string
	State State
	Request
	Path    Path
	Digest  string
	Expires *time.Time
	// Old and New are the numbers of the old and the new harness session, counted from 1
	// in the session; 0 while unknown. OldID is the id of the old one.
	Old, New int
	OldID    string
	// Prepares is set when the prepare command is called, Consumed when the
	// continue command is called, Launched when the harness is started again.
	Prepares, Consumed, Launched bool
	// Ahead is set if the token (the stored continuation) was consumed while the old
	// harness session was still open: for a reset in place.
	Ahead bool
	// Typed is set when the act Clear is about to begin: keys are typed, the plugin is
	// asked or the hook is answered, for a fresh session.
	Typed bool
	After *int64 // the tokens in the context after the renewal; nil until measured
}

// maxResets is how many resets a machine remembers. A larger Limits.Max counts as
// maxResets.
const maxResets = 64

// Open reports whether a renewal is under way.
func (m *Machine) Open() bool { return m.State != Idle && !m.State.Over() }

// Apply applies a recorded move.
func (m *Machine) Apply(v Move) {
	if Check(m.State, v.To) != nil {
		return
	}
	switch v.To {
	case Asked:
		m.Renewal = Renewal{ID: v.Renewal, Request: v.Request}
	case Negotiated:
		m.Path = v.Path
	case Prepared:
		m.Digest, m.Expires = v.Digest, v.Expires
	case Resetting:
		m.Count++
		m.Resets = append(m.Resets, v.At)
		m.Resets = m.Resets[max(len(m.Resets)-maxResets, 0):]
	case Resumed:
		m.New = v.Scope
	}
	if v.Broke {
		m.Broken = v.Why
	}
	m.State = v.To
}

// Called changes the machine because an act is about to begin. Only the acts Prepare,
// Continue, Clear and Launch change it. Continue consumes the token even if the continue
// command fails. scope and id are used only for Prepare: they are the number and the id
// of the harness session that the renewal will leave.
func (m *Machine) Called(act Act, scope int, id string) {
	switch act {
	case Prepare:
		m.Prepares, m.Old, m.OldID = true, scope, id
	case Continue:
		m.Consumed, m.Ahead = true, m.Path == InPlace
	case Launch:
		m.Launched = true
	case Clear:
		m.Typed = true
	}
}

// Reroute changes the machine because the reset continues by another path.
func (m *Machine) Reroute(path Path) { m.Path = path }

// Measured stores how many tokens the context has after the renewal. If broke is
// set, no further renewal may begin in the session.
func (m *Machine) Measured(tokens int64, broke bool) {
	m.After = &tokens
	if broke {
		m.Broken = fmt.Sprintf("after a renewal the context still had %d tokens", tokens)
	}
}

// Ask returns the move that begins a renewal. No other renewal may be open.
func (m *Machine) Ask(id string, r Request) Move {
	return Move{Renewal: id, To: Asked, Request: r}
}

// Refusal returns the reason why the rules allow no further renewal; class is empty
// if they allow one. broke is true if the reason is Limits.Max or Limits.Session: the
// session can then have no further renewal. The parameter resets has the start times of
// the newest resets, with monotonic clock readings. Refusal uses them instead of the last
// times in m.Resets, which have no such readings.
func (m *Machine) Refusal(now time.Time, r Rules, resets []time.Time) (class lifeloop.FailureClass, why string, broke bool) {
	l := r.Limits.Filled()
	recent := 0
	for i, at := range m.Resets {
		if known := i - (len(m.Resets) - len(resets)); known >= 0 {
			at = resets[known]
		}
		if now.Sub(at) < l.Window {
			recent++
		}
	}
	switch {
	case m.Broken != "":
		return lifeloop.OperatorRequired, "renewals of this session were stopped: " + m.Broken, false
	case recent >= min(l.Max, maxResets):
		return lifeloop.OperatorRequired, fmt.Sprintf("%d renewals within %s", recent, l.Window), true
	case m.Count >= l.Session:
		return lifeloop.OperatorRequired, fmt.Sprintf("the session had %d renewals, which is its limit", m.Count), true
	}
	return "", "", false
}

// Agree returns the move that accepts a renewal by the negotiated path.
func (m *Machine) Agree(path Path) Move { return Move{Renewal: m.ID, To: Negotiated, Path: path} }

// Ready returns the next act while the harness is at its prompt: the prepare
// command, and after it the reset.
func (m *Machine) Ready() Act {
	switch {
	case m.State == Negotiated && !m.Prepares:
		return Prepare
	case m.State == Prepared:
		return Reset
	}
	return None
}

// Begin returns the move with which the reset begins.
func (m *Machine) Begin(now time.Time) Move {
	return Move{Renewal: m.ID, To: Resetting, At: now.UTC()}
}

// PrepareDone returns the move that follows the prepare command. If class is not empty,
// the command has failed, and the renewal is refused.
func (m *Machine) PrepareDone(digest string, expires *time.Time, class lifeloop.FailureClass, why string) Move {
	if class != "" {
		return Move{Renewal: m.ID, To: Refused, Failure: class, Why: "the prepare command: " + why}
	}
	return Move{Renewal: m.ID, To: Prepared, Digest: digest, Expires: expires}
}

// Expired reports whether the token can no longer be used.
func (m *Machine) Expired(now time.Time) bool { return m.Expires != nil && !now.Before(*m.Expires) }

// Ended reports whether the reset continues when the harness ends. The next act is then
// Continue, or Launch if the token is already consumed.
func (m *Machine) Ended() bool {
	return m.State == Resetting && (!m.Consumed || m.Ahead && m.Path == Relaunch && !m.Launched)
}

// Between reports whether the harness has ended for a relaunch and was not started
// again: the continue command runs, or the launch is about to begin. The result is false
// if the token was consumed before the harness ended (Ahead).
func (m *Machine) Between() bool { return m.Unused() && !m.Ahead }

// Unused reports whether the token is consumed, and the harness has neither begun a
// fresh session nor been started again.
func (m *Machine) Unused() bool { return m.State == Resetting && m.Consumed && !m.Launched }

// InPlace reports whether a reset is under way in which the running harness is to
// begin a fresh session.
func (m *Machine) InPlace() bool { return m.State == Resetting && m.Path == InPlace }

// Resume returns the move after the start of the new harness session.
func (m *Machine) Resume(scope int, id string) Move {
	return Move{Renewal: m.ID, To: Resumed, Scope: scope, ID: id}
}

// Deliver returns the move after the delivery of the continuation.
func (m *Machine) Deliver() Move { return Move{Renewal: m.ID, To: Delivered} }

// End returns the move that ends an open renewal that cannot continue. The final
// state depends on the current one.
func (m *Machine) End(class lifeloop.FailureClass, why string) Move {
	to := Failed
	switch {
	case m.State == Asked, m.State == Negotiated && !m.Prepares:
		to = Refused
	case m.State == Negotiated, m.State == Prepared:
		to = RolledBack
	}
	return Move{Renewal: m.ID, To: to, Failure: class, Why: why}
}

// Treadmill reports whether a renewal left too many tokens in the context: at least
// half of Request.Trigger. It is false if Trigger is unknown.
func (m *Machine) Treadmill(tokens int64) bool { return m.Trigger > 0 && tokens*2 >= m.Trigger }

// Deadline returns the time by which an act must have ended. since is the time at which
// the act began. The act None means the wait until the harness is at its prompt. The
// result is zero if Limits has no limit for the act.
func (r Rules) Deadline(act Act, since time.Time) (at time.Time) {
	l := r.Limits.Filled()
	switch act {
	case None, Type, FallBack:
		return since.Add(l.Idle)
	case Clear, Undo:
		return since.Add(l.Clear)
	case Prepare:
		return since.Add(l.Prepare)
	case Continue:
		return since.Add(l.Continue)
	case Launch:
		return since.Add(l.Observe)
	}
	return at
}

// levels are the levels of pressure that can ask for a renewal, in order.
func levels() []string { return []string{"moderate", "high", "critical"} }

// Triggered reports whether a level of pressure asks for a renewal.
func (r Rules) Triggered(level string) bool {
	at := slices.Index(levels(), r.At)
	return at >= 0 && slices.Index(levels(), level) >= at
}
