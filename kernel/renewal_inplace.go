package kernel

import (
	"fmt"
	"time"

	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/renewal"
	"lifeloop/session"
	"lifeloop/telemetry"
)

// This file resets a harness in place: typed keys make the running harness begin a
// fresh session, or our plugin in the harness does so on request. The reset by the answer
// to a hook is in renewal_hook.go, and uses some methods of this file. Below, "keys are
// typed" also means the request to the plugin and, in the methods that renewal_hook.go
// uses, the answer to the hook.
//
//	prepared ──► at the prompt, no line begun ──► the token is recorded as consumed
//	         ──► continue command ──► at the prompt: keys are typed
//	         ──► the old session ends, the fresh one begins: resumed. A hook reports it,
//	             or, with a harness whose first hook comes with the next prompt, FreshSeen
//	              └─ neither, within the limit ──► at the prompt: relaunch, or other
//	                 keys undo the reset and the renewal has failed
//
// The token (the stored continuation) is consumed before the old session ends, because
// the first hook of the fresh one carries it. The launch knows which keys to type. The
// kernel knows only whether a reset in place is possible (setup.Fresh.Clears). The plugin
// reports the fresh session by a hook call, and puts the answer into that session.

type (
	// RenewalTyped records that keys are about to be typed, either those of the
	// reset or those that undo it, or that the typing is about to be stopped.
	RenewalTyped struct {
		Renewal string `json:"renewal"`
		Keys    string `json:"keys"`
		// Means is set if, instead of typing keys, a plugin is asked or a hook is answered.
		Means renewal.Means `json:"means,omitempty"`
	}
	// RenewalRerouted records that a reset continues by another path, and why.
	RenewalRerouted struct {
		Renewal string       `json:"renewal"`
		Path    renewal.Path `json:"path"`
		Why     string       `json:"why"`
	}
)

// The keys that RenewalTyped names.
const (
	keysReset = "reset"
	keysUndo  = "undo"
	keysStop  = "stop"
)

func (RenewalTyped) key() (string, bool) { return "renewal_typed", true }
func (f RenewalTyped) apply(k *Kernel) {
	if f.Keys == keysReset {
		k.renewals.hard.Called(renewal.Clear, 0, "")
	}
}

func (RenewalRerouted) key() (string, bool) { return "renewal_rerouted", true }
func (f RenewalRerouted) apply(k *Kernel)   { k.renewals.hard.Reroute(f.Path) }

// inHand is a continuation that waits for the fresh session of a reset in
// place.
type inHand struct {
	payload lifeloop.PayloadEnvelope
	choices []negotiate.Candidate
}

// typeAgain is the delay before the next try, if the keys of the reset were not typed
// (input.KeysTyped.Busy), for example because the user had begun a line.
const typeAgain = 3 * time.Second

// clearing reports whether the keys for a fresh session were typed, and that
// session has not begun.
func (r *renewals) clearing() bool {
	return r.hard.InPlace() && r.hard.Typed && r.soft.held != nil
}

// lineSettles is how long a renewal waits before its next step after the user has sent a
// line, because the line may begin a turn.
const lineSettles = 2 * time.Second

// lineSeen handles a line that the user begins or ends. After the end of a line, which
// may begin a turn, a reset that could begin soon waits for lineSettles.
func (r *renewals) lineSeen(s *step, begun bool) {
	waits := r.soft.act == renewal.None || r.soft.act == renewal.Prepare || r.soft.act == renewal.Type
	if !begun && waits && r.hard.Open() && (r.hard.Path == renewal.Relaunch || !s.byHook()) {
		r.soft.again = s.now.Add(lineSettles)
	}
}

// lineFree reports whether the reset loses nothing that the user has typed. It is true if
// the user has begun no line, or if the reset is in place and the harness keeps the line
// (KeepsLine). A relaunch would lose a begun line, and typed keys would be appended to
// the line.
func (r *renewals) lineFree(s *step) bool {
	return !s.activity.lineBegun() || r.hard.Path == renewal.InPlace && s.cfg.KeepsLine
}

// typeKeys types the keys of the reset, or with renewal.Undo those that undo it. A
// harness that is reset by a hook gets the hook's answer instead.
func (r *renewals) typeKeys(s *step, act renewal.Act) {
	if s.byHook() {
		r.clear(s)
		return
	}
	keys := keysReset
	if act == renewal.Undo {
		keys, r.soft.undone = keysUndo, true
	}
	s.record(RenewalTyped{Renewal: r.hard.ID, Keys: keys, Means: s.cfg.Means})
	r.start(s, act)
	r.soft.typing, r.soft.stopped, r.soft.fresh = true, false, nil
	s.do(effect.TypeKeys{Renewal: r.hard.ID, Undo: act == renewal.Undo})
}

// typed applies the outcome of typing. If the outcome is Busy, the keys of the reset are
// typed later, but those of an undo are not. If keys were typed but no fresh session
// begins, the time limit ends the wait.
func (r *renewals) typed(s *step, in input.KeysTyped) {
	act := renewal.Clear
	if in.Undo {
		act = renewal.Undo
	}
	if in.Renewal != r.hard.ID || !r.soft.typing || r.soft.act == renewal.Undo && !in.Undo {
		return
	}
	r.soft.typing = false
	if r.soft.act != act {
		return // the fresh session was reported before the outcome of the typing
	}
	switch {
	case in.Undo:
		switch byKeys := s.cfg.Means != renewal.ByPlugin; {
		case in.Busy:
			r.soft.why += "; the typed command was not erased, because the user has typed since or has a dialog open"
		case in.Failure != "" && byKeys:
			r.soft.why += "; the typed command could not be erased: " + in.Failure
		}
		r.start(s, renewal.FallBack)
	case in.Busy:
		r.start(s, renewal.Type)
		r.soft.again = s.now.Add(typeAgain)
	case in.Failure != "":
		what := "the command could not be typed: "
		if s.cfg.Means == renewal.ByPlugin {
			what = "the plugin began no fresh session: "
		}
		r.fallBack(s, what+in.Failure)
	}
}

// fallBack gives up the reset in place. As soon as the harness is at its prompt or has
// ended the harness session, r.elsewhere(s) decides what follows.
func (r *renewals) fallBack(s *step, why string) {
	r.soft.why = why
	r.start(s, renewal.FallBack)
}

// elsewhere handles a reset in place that has failed. It relaunches the harness with the
// same continuation, if the profile and the harness allow a relaunch. Otherwise the
// continuation is lost. The keys that undo the reset are then typed, unless the harness
// session has ended or the reset is made by a hook.
func (r *renewals) elsewhere(s *step) {
	switch rules := r.rules(s); {
	case r.soft.undone:
		r.end(s, lifeloop.PayloadRejected, r.soft.why, false)
	case r.soft.held != nil && r.relaunches(s, s.health.manifest(s), rules):
		s.record(RenewalRerouted{Renewal: r.hard.ID, Path: renewal.Relaunch, Why: r.soft.why})
		r.leave(s)
	case s.scopes.current().Ended, s.byHook():
		r.end(s, lifeloop.PayloadRejected, r.soft.why, false)
	default:
		r.typeKeys(s, renewal.Undo)
	}
}

// byRelaunch lets a reset whose harness died with the wrapper continue by a relaunch, if
// that is possible. Otherwise it returns the reason: for example, the recovered session
// has no terminal.
func (r *renewals) byRelaunch(s *step) (why string) {
	switch {
	case r.hard.Path == renewal.Relaunch && !s.cfg.Renews:
		return wrapperDied + ", and the harness cannot be launched with a fresh session now: there is no terminal, or the command line does not allow it"
	case r.hard.Path == renewal.Relaunch:
	case !r.relaunches(s, s.health.manifest(s), r.rules(s)):
		return wrapperDied
	default:
		s.record(RenewalRerouted{Renewal: r.hard.ID, Path: renewal.Relaunch, Why: wrapperDied})
	}
	return ""
}

// interrupt stops the typing when the harness is no longer at its prompt: a dialog may
// take the next key as an answer.
func (r *renewals) interrupt(s *step) {
	if !s.activity.atPrompt() && !s.scopes.current().Ended && r.clearing() {
		r.stopTyping(s)
	}
}

// stopTyping stops the typing once, if keys are being typed.
func (r *renewals) stopTyping(s *step) {
	if r.soft.typing && !r.soft.stopped {
		r.soft.stopped = true
		s.record(RenewalTyped{Renewal: r.hard.ID, Keys: keysStop, Means: s.cfg.Means})
		s.do(effect.Cancel{Call: r.hard.ID})
	}
}

// reason returns the reason for the end of a harness session: causeRenewal if the keys of
// a renewal caused the end, otherwise the reported reason.
func (r *renewals) reason(reported string) string {
	if r.clearing() && (reported == "clear" || reported == endBy("")) {
		return causeRenewal
	}
	return reported
}

// cleared reports whether a harness session that begins with this cause was begun by
// the typed keys.
func (r *renewals) cleared(s *step, cause string) bool {
	return r.clearing() && s.attempts.alive() && (cause == "clear" || cause == "unknown")
}

// left records that the typed keys ended the old harness session.
func (r *renewals) left(s *step) {
	if !r.clearing() || !s.attempts.alive() {
		return
	}
	r.receipt(s, renewalStep{event: lifeloop.SessionEnded, scope: r.hard.Old})
	if s.session.is(session.Running) {
		s.session.move(s, session.Paused, causeRenewal)
	}
}

// opened lets the continuation wait for a slot (a place in the model's context, slots.go)
// of the harness session that begins.
func (r *renewals) opened(s *step) {
	if !r.clearing() {
		return
	}
	if s.scopes.current().Cause != causeRenewal {
		r.end(s, lifeloop.PayloadRejected, "the harness opened a session that the reset did not cause", false)
		return
	}
	held := r.soft.held
	r.soft.held, r.soft.fresh = nil, nil
	r.start(s, renewal.Launch)
	s.slots.stage(s, r.hard.ID, held.payload, held.choices)
}

// seen stores the report of a fresh session, for enter.
func (r *renewals) seen(s *step, in input.FreshSeen) {
	if in.Renewal == r.hard.ID && r.clearing() && in.ID != "" && !s.scopes.known(in.ID) {
		r.soft.fresh = &in
	}
}

// enter begins the fresh session that was reported, once the harness is at its prompt, or
// has had time to make its new context.
func (r *renewals) enter(s *step) {
	in := r.soft.fresh
	ready := s.activity.atPrompt()
	if s.byHook() {
		ready = r.soft.again.IsZero()
	}
	if in == nil || !r.clearing() || !ready {
		return
	}
	r.soft.again = time.Time{}
	sig := telemetry.Signal{Kind: telemetry.SessionLive, Source: in.Source, Detail: in.Detail, Session: in.ID, Cause: "clear"}
	s.replace(sig, sig.Cause, sig.Cause, nil)
	s.scopes.start(s, sig.Cause, by(sig), nil)
}

// overdue is called when no fresh session has begun within the time limit after keys
// were typed, or when typing the keys of the undo took too long.
func (r *renewals) overdue(s *step) {
	r.stopTyping(s)
	r.soft.typing = false
	limit := r.rules(s).Filled().Clear
	why := fmt.Sprintf("the harness began no fresh session within %s", limit)
	if r.soft.undone { // soft.why is the reason for the undo
		why = fmt.Sprintf("%s; the typed command was not erased within %s", r.soft.why, limit)
	}
	r.fallBack(s, why)
}
