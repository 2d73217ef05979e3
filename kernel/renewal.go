package kernel

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lifeloop/gate"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/renewal"
	"lifeloop/session"
)

// renewals move the session into a fresh harness session. Package renewal has the
// states and the rules; this machine performs the decisions:
//
//	asked, negotiated ──► at the prompt ──► prepare command ──► prepared
//	prepared ──► at the prompt ──► the harness is ended ──► its sources are drained
//	         ──► the token is recorded as consumed ──► continue command
//	         ──► launch of the same attempt, the payload waits for a slot
//	         ──► session.started: resumed ──► a hook accepted the payload: delivered
//
// renewal_inplace.go has the other way, in which the harness keeps running, and
// renewal_hook.go the part of it that needs a hook of the harness.
//
// The token is the continuation that the prepare command printed, stored by package vault.
// The payload is the text for the model; it is in soft state only. The session is PAUSED
// from the end of the old harness session to the start of the new one. If the wrapper
// dies before the reset has begun, the renewal is rolled back or refused. If the wrapper
// dies during the reset and before the token is consumed, the recovery continues the
// renewal by a relaunch, if this is possible. If the wrapper dies later, the payload is
// lost. The recovery then continues the old harness session, or the new one if the new
// one has had a prompt (DECISIONS R9).
type renewals struct {
	hard struct {
		renewal.Machine
		Receipt string // the newest receipt of the renewal, the parent of the next one
		Left    bool   // the old harness session has ended, and the renewal's receipt for session.ended was issued
	}
	soft struct {
		act   renewal.Act // the act in progress
		since time.Time   // start of the act, or of the wait until a reset is possible
		// resets are the times at which this process began a reset. They have monotonic
		// readings, so that the limit on resets per period holds even if the clock is
		// set.
		resets []time.Time
		// The fields below are used only for a reset in place, except soft.again, which
		// can also delay a relaunch.
		held    *inHand          // the continuation, until the fresh session begins
		fresh   *input.FreshSeen // the report of the fresh session; kept until renewals.enter has begun this session
		typing  bool             // keys are being typed
		stopped bool             // the typing is being stopped
		again   time.Time        // when the renewal may take its next step; zero if it need not wait
		undone  bool             // the keys that undo the reset were typed, or are being typed
		why     string           // why the reset failed
		atTurnEnd
	}
}

type (
	// RenewalMoved records that a renewal reached a state.
	RenewalMoved struct{ renewal.Move }
	// RenewalCalled records that a command of the profile is about to run: prepare or
	// continue. Continue consumes the token, even if the command fails.
	RenewalCalled struct {
		Renewal string `json:"renewal"`
		Command string `json:"command"`
		Digest  string `json:"digest,omitempty"` // identifies the token; only for continue
		// Set only for prepare: Scope is the number of the harness session that
		// will be left, and ID its id, if known.
		Scope int    `json:"scope,omitempty"`
		ID    string `json:"harness_session_id,omitempty"`
	}
	// RenewalMeasured records how many tokens the context has after a renewal. Broke
	// is set if too many are left; then no further renewal begins.
	RenewalMeasured struct {
		Renewal string `json:"renewal"`
		Tokens  int64  `json:"tokens_after"`
		Broke   bool   `json:"broke,omitempty"`
	}
)

func (RenewalMoved) key() (string, bool) { return "renewal_moved", true }
func (f RenewalMoved) apply(k *Kernel) {
	h := &k.renewals.hard
	if f.To == renewal.Asked {
		h.Receipt, h.Left = "", false
	}
	h.Apply(f.Move)
}

func (RenewalCalled) key() (string, bool) { return "renewal_called", true }
func (f RenewalCalled) apply(k *Kernel) {
	act := renewal.Prepare
	if f.Command == commandContinue {
		act = renewal.Continue
	}
	k.renewals.hard.Called(act, f.Scope, f.ID)
}

func (RenewalMeasured) key() (string, bool) { return "renewal_measured", false }
func (f RenewalMeasured) apply(k *Kernel)   { k.renewals.hard.Measured(f.Tokens, f.Broke) }

// The commands of a profile.
const (
	commandPrepare  = "prepare"
	commandContinue = "continue"
)

// causeRenewal is the cause of a launch and of a new harness session, and the
// reason why the old harness session ended.
const causeRenewal = "renewal"

// pausing reports whether the session is PAUSED for a renewal.
func (r *renewals) pausing(k *Kernel) bool { return r.resets() && k.session.is(session.Paused) }

// resets reports whether a reset has ended the old harness session, or is ending the
// harness, and no new harness session has begun.
func (r *renewals) resets() bool {
	return r.hard.State == renewal.Resetting && (!r.hard.Ahead || r.hard.Left)
}

// between reports whether the harness has ended for a relaunch and was not started
// again: the continue command runs, or the next launch is about to begin.
func (r *renewals) between() bool { return r.hard.Between() }

// launching applies the fact of a launch, if the renewal waits for this launch.
func (r *renewals) launching(f Launching) {
	if f.Cause == causeRenewal && r.hard.Unused() {
		r.hard.Called(renewal.Launch, 0, "")
	}
}

// issued applies the fact of an issued receipt, if the receipt is for a step of the
// renewal.
func (r *renewals) issued(f ReceiptIssued) {
	if f.Renewal != "" {
		r.hard.Receipt = f.Receipt.ReceiptID
		r.hard.Left = r.hard.Left || f.Receipt.Event == lifeloop.SessionEnded && f.Receipt.FailureClass == nil
	}
}

// staged reports whether a parcel is the continuation of the newest renewal. The
// parameter is the parcel's call. A continuation answers no call, so this field holds
// the id of the renewal instead.
func (r *renewals) staged(call string) bool { return call != "" && call == r.hard.ID }

// rules returns the rules of the named profile, or of the first one if profile is
// empty. The result is nil if the profile is not active.
func (c *Config) rules(profile string) *renewal.Rules {
	for i := range c.Renewals {
		if profile == "" || c.Renewals[i].Profile == profile {
			return &c.Renewals[i]
		}
	}
	return nil
}

// rules returns the rules of the newest renewal. In a recovered session in which
// its profile is not active, they contain only the name.
func (r *renewals) rules(s *step) renewal.Rules {
	if rules := s.cfg.rules(r.hard.Profile); rules != nil {
		return *rules
	}
	return renewal.Rules{Profile: r.hard.Profile}
}

func (r *renewals) ref(s *step) effect.RenewalRef {
	return effect.RenewalRef{Renewal: r.hard.ID, Profile: r.hard.Profile, Client: r.rules(s).Client, Adapter: s.cfg.Manifest.AdapterID, Session: r.hard.OldID}
}

// commanded handles the command `renew`.
func (r *renewals) commanded(s *step, in input.RenewAsked) {
	rules, class, why := r.admit(s, in.Profile)
	if class != "" {
		s.refuseCommand("renew", in.Ask, in.Reason, class, why)
		return
	}
	class, why = r.begin(s, rules, renewal.Request{By: renewal.ByUser, Reason: in.Reason}, in.Ask)
	if class != "" || !s.cfg.guarded() {
		s.do(effect.Reply{Ask: in.Ask, Failure: class, Why: why, Renewal: r.hard.ID})
	}
}

// wanted handles the answer of a client that asks for a renewal. The request is
// ignored while a renewal is under way, or if the answer is about an earlier harness
// session.
func (r *renewals) wanted(s *step, k *call, profile string) {
	if r.hard.Open() || k.Scope != s.scopes.number() {
		return
	}
	rules, class, why := r.admit(s, profile)
	if class == "" && rules.Client != k.Client {
		class, why = lifeloop.InvalidRequest, "profile "+profile+" belongs to another client"
	}
	if class != "" {
		s.record(CommandReceived{What: "renew", Reason: "client " + k.Client + ": " + why, Failure: class})
		return
	}
	r.begin(s, rules, renewal.Request{By: renewal.ByClient, ClientID: k.Client}, "")
}

// pressed begins a renewal if an active profile names this level of pressure. If no
// further renewal may begin in the session (hard.Broken), nothing is recorded.
func (r *renewals) pressed(s *step, level string) {
	i := slices.IndexFunc(s.cfg.Renewals, func(rules renewal.Rules) bool { return rules.Triggered(level) })
	if i < 0 || r.hard.Open() {
		return
	}
	if rules, class, _ := r.admit(s, s.cfg.Renewals[i].Profile); class == "" && r.hard.Broken == "" {
		r.begin(s, rules, renewal.Request{By: renewal.ByTrigger}, "")
	}
}

// admit returns the rules of a profile, or the reason why no renewal can begin now.
// If class is empty, begin may still refuse: it checks the limits and the
// capabilities.
func (r *renewals) admit(s *step, profile string) (rules renewal.Rules, class lifeloop.FailureClass, why string) {
	found := s.cfg.rules(profile)
	switch {
	case len(s.cfg.Renewals) == 0:
		return rules, lifeloop.CapabilityUnsupported, "no renewal profile is active (start the session with --profile NAME)"
	case found == nil:
		var names []string
		for _, p := range s.cfg.Renewals {
			names = append(names, p.Profile)
		}
		return rules, lifeloop.InvalidRequest, fmt.Sprintf("profile %s is not active; active: %s", profile, strings.Join(names, ", "))
	case r.hard.Open():
		return rules, lifeloop.StateConflict, "renewal " + r.hard.ID + " is under way"
	case s.session.ledgerLost():
		return rules, lifeloop.StateConflict, ledgerRefuses
	case !s.session.active():
		return rules, lifeloop.StateConflict, "the session is " + string(s.State())
	case !s.attempts.alive() || s.ending.stopping():
		return rules, lifeloop.StateConflict, "no harness is running, or the harness is being ended"
	}
	s.pressure.save(s) // the measurement may show that the newest renewal left too much context; begin then refuses another renewal
	return *found, "", ""
}

// begin records a renewal, and refuses it if the limits or the capabilities do not
// allow it. If there is a gate, begin asks the gate next, and the prepare command does
// not run before the gate has allowed the renewal. reply is the id of the user's command
// that asked for the renewal, if any. If the gate is asked, the command is answered
// after the gate's decision.
func (r *renewals) begin(s *step, rules renewal.Rules, q renewal.Request, reply string) (lifeloop.FailureClass, string) {
	q.Profile = rules.Profile
	q.Before, q.Trigger = s.pressure.trigger(q.By == renewal.ByTrigger)
	s.record(RenewalMoved{r.hard.Ask(s.cfg.NewID("rnw_"), q)})
	class, why, broke := r.hard.Refusal(s.now, rules, r.soft.resets)
	path := renewal.Path("")
	if class == "" {
		path, class, why = r.negotiate(s, rules)
	}
	if class != "" {
		r.end(s, class, why, broke)
		return class, why
	}
	if s.cfg.guarded() {
		r.start(s, renewal.Permit)
		s.guards.renew(s, &r.hard.Machine, path, reply)
		return "", ""
	}
	r.agree(s, path)
	return "", ""
}

// agree records that a renewal is accepted. The renewal then waits until the harness is
// at its prompt or, for a reset by a hook, until the harness ends a turn.
func (r *renewals) agree(s *step, path renewal.Path) {
	s.record(RenewalMoved{r.hard.Agree(path)})
	r.soft.undone, r.soft.why, r.soft.again = false, "", time.Time{}
	r.start(s, renewal.None)
}

// permitted continues the renewal that waits for the gate, or refuses it.
func (r *renewals) permitted(s *step, p pending, allowed bool, why string) {
	class := lifeloop.FailureClass("")
	switch {
	case p.renewal != r.hard.ID || r.hard.State != renewal.Asked:
		class, why = lifeloop.StateConflict, "the renewal has ended"
	case allowed:
		r.agree(s, p.path)
		why = ""
	default:
		class = lifeloop.OperatorRequired
		r.end(s, class, why, false)
	}
	if p.reply != "" {
		s.do(effect.Reply{Ask: p.reply, Failure: class, Why: why, Renewal: p.renewal})
	}
}

// start stores in soft state which act begins now. The act None means that the renewal
// waits until the harness is at its prompt or, for a reset by a hook, ends a turn.
func (r *renewals) start(s *step, act renewal.Act) { r.soft.act, r.soft.since = act, s.now }

// waiting reports whether the renewal waits until the harness is at its prompt or, for
// a reset by a hook, ends a turn.
func (r *renewals) waiting() bool {
	return r.soft.act == renewal.None || r.soft.act == renewal.Type || r.soft.act == renewal.FallBack
}

// negotiate compares the capabilities that a renewal needs with those that are
// available now.
func (r *renewals) negotiate(s *step, rules renewal.Rules) (renewal.Path, lifeloop.FailureClass, string) {
	m := s.health.manifest(s)
	if !s.cfg.Stores {
		m = negotiate.Weaken(m, negotiate.ContinuationStore, lifeloop.Unavailable)
	}
	for _, capability := range []string{negotiate.ContinuationObservation, negotiate.ContinuationStore, negotiate.ContinuationDelivery} {
		if res := wanted(s, m, rules, capability, lifeloop.Required); res.Failure != "" {
			return "", res.Failure, fmt.Sprintf("required capability %s is %s", capability, res.Have)
		}
	}
	if class := s.health.undeliverable(s); class != "" {
		return "", class, "nothing in this launch can carry the continuation to the model"
	}
	class, why := lifeloop.CapabilityUnsupported, "the profile names no way to reset"
	for i, path := range rules.Paths {
		level := lifeloop.Required
		if i < len(rules.Paths)-1 {
			level = lifeloop.Preferred // another path can be tried after this one
		}
		if class, why = r.path(s, m, rules, path, level); class == "" {
			return path, "", ""
		}
	}
	if negotiate.Support(m, negotiate.ManualReset) == lifeloop.Manual {
		return "", lifeloop.OperatorRequired, "only a user can reset this harness"
	}
	return "", class, why
}

// path returns why a reset cannot take the given path now; the failure class is empty if
// the path is possible. If the profile lists relaunch after this path (level is not
// Required), path refuses a reset in place that would have to wait (untimely). The
// harness is then relaunched instead.
func (r *renewals) path(s *step, m lifeloop.Manifest, rules renewal.Rules, path renewal.Path, level lifeloop.Requirement) (lifeloop.FailureClass, string) {
	capability := negotiate.WrapperReset
	switch {
	case path == renewal.Relaunch && !s.cfg.Renews:
		return lifeloop.CapabilityUnsupported, "this launch cannot be repeated with a fresh session: it has no terminal, or its command line does not allow it"
	case path == renewal.InPlace:
		if capability = negotiate.NativeReset; !s.cfg.Clears || level != lifeloop.Required && r.untimely(s, rules) {
			m = negotiate.Weaken(m, negotiate.NativeReset, lifeloop.Unavailable)
		}
	}
	if res := wanted(s, m, rules, capability, level); res.Outcome != negotiate.Satisfied {
		return cmp.Or(res.Failure, lifeloop.CapabilityUnsupported), fmt.Sprintf("required capability %s is %s", capability, res.Have)
	}
	return "", ""
}

// untimely reports whether a reset in place would have to wait, and a relaunch would
// not. This is true during a turn, if the profile allows a relaunch to cut the turn off.
// It is also true at the prompt, if a reset in place needs the hook at the end of a turn.
func (r *renewals) untimely(s *step, rules renewal.Rules) bool {
	return rules.Cut && !s.activity.atPrompt() || s.byHook() && s.activity.atPrompt() && s.turns.top() == nil && !s.slots.ending()
}

// relaunches reports whether a reset in place that has failed can continue by a
// relaunch.
func (r *renewals) relaunches(s *step, m lifeloop.Manifest, rules renewal.Rules) bool {
	if !slices.Contains(rules.Paths, renewal.Relaunch) {
		return false
	}
	class, _ := r.path(s, m, rules, renewal.Relaunch, lifeloop.Required)
	return class == ""
}

// wanted negotiates one capability that a renewal needs, and records the result.
func wanted(s *step, m lifeloop.Manifest, rules renewal.Rules, capability string, level lifeloop.Requirement) negotiate.Result {
	res := negotiate.Capabilities(m, []negotiate.Want{{Capability: capability, Level: level, AcceptPartial: rules.Partial}}, cmp.Or(rules.Claims, rules.Profile))[0]
	s.record(negotiatedOf(rules.Client, res))
	return res
}

// review takes the next step of a waiting renewal, if the step is possible now. Most
// steps need the harness to be at its prompt.
func (r *renewals) review(s *step) {
	defer r.attend(s)
	if !r.hard.Open() || !s.attempts.alive() {
		return
	}
	r.interrupt(s)
	r.enter(s)
	r.detour(s)
	act := r.soft.act
	if !r.waiting() {
		return
	}
	if r.hard.Prepares && s.scopes.number() != r.hard.Old {
		r.conclude(s, "the harness has begun another session since the renewal was prepared")
		return
	}
	gone := act == renewal.FallBack && s.scopes.current().Ended // the harness session has ended, so there is no prompt to wait for
	switch {
	case !gone && !r.mayReset(s), !r.soft.again.IsZero():
		return
	case act == renewal.Type:
		r.typeKeys(s, renewal.Clear)
		return
	case act == renewal.FallBack:
		r.elsewhere(s)
		return
	}
	switch act := r.hard.Ready(); act {
	case renewal.Prepare:
		hs := s.scopes.current()
		s.record(RenewalCalled{Renewal: r.hard.ID, Command: commandPrepare, Scope: s.scopes.number(), ID: hs.ID})
		r.start(s, act)
		s.do(effect.PrepareRenewal{RenewalRef: r.ref(s), Timeout: r.rules(s).Filled().Prepare})
	case renewal.Reset:
		r.reset(s)
	}
}

// mayReset reports whether a renewal may now run the prepare command, end the harness or
// type keys. A question to the user is never cut off. A running turn is cut off only by a
// relaunch, and only if the profile allows it.
func (r *renewals) mayReset(s *step) bool {
	hs := s.scopes.current()
	switch {
	case !s.session.is(session.Running), s.ending.stopping(), s.attempts.stopped(), s.session.ledgerLost():
		return false
	case !hs.Started || hs.Ending, s.activity.is(needsInput):
		return false
	case r.hard.Path == renewal.InPlace && s.byHook() && r.soft.act != renewal.FallBack:
		return r.soft.hook != ""
	case (r.hard.Ready() == renewal.Reset || r.soft.act == renewal.Type) && !r.lineFree(s):
		return false
	case r.rules(s).Cut && r.hard.Path == renewal.Relaunch:
		return true
	}
	return s.activity.atPrompt() && s.turns.top() == nil
}

// prepared applies the result of the prepare command.
func (r *renewals) prepared(s *step, in input.RenewalPrepared) {
	if in.Renewal != r.hard.ID || r.soft.act != renewal.Prepare {
		return
	}
	r.start(s, renewal.None)
	v := r.hard.PrepareDone(in.Digest, in.Expires, in.Failure, in.Why)
	if v.Failure != "" {
		r.over(s, v)
		return
	}
	s.record(RenewalMoved{v})
	r.receipt(s, renewalStep{event: lifeloop.SessionEnding, scope: r.hard.Old})
}

// reset begins the reset: it ends the harness or, in place, calls the continue command.
// If the token has expired, it ends the renewal instead.
func (r *renewals) reset(s *step) {
	if r.hard.Expired(s.now) {
		r.end(s, lifeloop.Timeout, "the continuation expired before the harness was at its prompt", false)
		return
	}
	s.record(RenewalMoved{r.hard.Begin(s.now)})
	r.soft.resets = append(r.soft.resets, s.now)
	if r.hard.Path == renewal.InPlace {
		r.consume(s)
		return
	}
	r.leave(s)
}

// leave ends the harness for a relaunch.
func (r *renewals) leave(s *step) {
	r.start(s, renewal.Reset)
	ev := own("renewal " + r.hard.ID)
	s.turns.closeAll(s, ev)
	s.scopes.end(s, causeRenewal, ev)
	s.ending.stop(s, cmp.Or(s.cfg.Quit, sigTERM))
}

// drained continues a renewal when its harness has ended and all its output was
// read. It returns false if the harness ended for another reason, or the session
// cannot continue; then the attempt is over.
func (r *renewals) drained(s *step) bool {
	if !r.hard.Ended() {
		return false
	}
	if why := r.obstacle(s); why != "" {
		r.end(s, lifeloop.StateConflict, why, false)
		return false
	}
	if !r.hard.Left {
		r.receipt(s, renewalStep{event: lifeloop.SessionEnded, scope: r.hard.Old})
	}
	if s.session.is(session.Running) {
		s.session.move(s, session.Paused, causeRenewal)
	}
	if held := r.soft.held; held != nil { // a reset in place that has been rerouted to a relaunch
		r.soft.held = nil
		r.relaunch(s, *held)
		return true
	}
	r.consume(s)
	return true
}

// consume runs the continue command, which consumes the token.
func (r *renewals) consume(s *step) {
	s.record(RenewalCalled{Renewal: r.hard.ID, Command: commandContinue, Digest: r.hard.Digest})
	r.start(s, renewal.Continue)
	s.do(effect.ContinueRenewal{RenewalRef: r.ref(s), Digest: r.hard.Digest, Timeout: r.rules(s).Filled().Continue})
}

// obstacle returns the reason why the session cannot continue after its harness
// has ended, or "".
func (r *renewals) obstacle(s *step) string {
	switch e := s.attempts.exit(); {
	case s.ending.requested():
		return "the session is being ended"
	case s.session.timeout() != "":
		return "the session ran out of time"
	case s.session.ledgerLost():
		return ledgerLost
	case s.attempts.stopped():
		return "the attempt failed"
	case e.Lost, e.OutputLost:
		return "the guard of the harness was killed, or some output of the harness could not be written: " + s.attempts.endReason()
	}
	return ""
}

// continued applies the result of the continue command. After a success, the harness
// gets a fresh session, by a relaunch or in place, and the command's text waits for a
// slot of this session. If the command failed, or no slot can take the text, the old
// harness session continues if it can.
func (r *renewals) continued(s *step, in input.RenewalContinued) {
	if in.Renewal != r.hard.ID || r.soft.act != renewal.Continue {
		return
	}
	r.start(s, renewal.Reset)
	if in.Failure != "" {
		r.lost(s, "the continue command: "+in.Why)
		return
	}
	p := r.payload(s, in)
	choices := negotiate.Placement(s.health.placing(s), p).Candidates
	if len(choices) == 0 {
		r.lost(s, fmt.Sprintf("nothing in this launch can carry a continuation of %d bytes to the model", p.ByteSize))
		return
	}
	held := inHand{payload: p, choices: choices}
	if r.hard.Ahead {
		r.soft.held = &held
		r.start(s, renewal.Type)
		return
	}
	r.relaunch(s, held)
}

// relaunch starts the harness with a fresh session, for which the continuation waits.
func (r *renewals) relaunch(s *step, held inHand) {
	r.start(s, renewal.Launch)
	s.recovery.renew(s, "")
	s.slots.stage(s, r.hard.ID, held.payload, held.choices)
}

// lost ends a renewal whose continuation is lost, and lets the old harness session
// continue. If the harness has ended and cannot resume that session, a fresh one begins.
func (r *renewals) lost(s *step, why string) {
	r.end(s, lifeloop.PayloadRejected, why, false)
	if r.hard.Ahead { // reset in place: the old harness session has not ended
		return
	}
	old := ""
	if s.cfg.Resumes && s.scopes.of(r.hard.Old).Prompted {
		old = r.hard.OldID
	}
	s.recovery.renew(s, old)
}

// launched moves the session back to RUNNING at once if the harness reports its new
// harness session only with the first prompt.
func (r *renewals) launched(s *step) {
	if s.cfg.HookAtPrompt {
		r.unpause(s)
	}
}

// live records that the new harness session has begun.
func (r *renewals) live(s *step) {
	if r.soft.act != renewal.Launch {
		return
	}
	s.record(RenewalMoved{r.hard.Resume(s.scopes.number(), s.scopes.current().ID)})
	r.start(s, renewal.Reset) // the next steps have no time limit
	r.receipt(s, renewalStep{event: lifeloop.SessionStarted, scope: s.scopes.number()})
	r.unpause(s)
}

// settled applies the outcome of delivering the continuation.
func (r *renewals) settled(s *step, p *parcel, st lifeloop.Status, class lifeloop.FailureClass, why string) {
	if !r.hard.Open() {
		return
	}
	if st != lifeloop.Delivered || r.hard.State != renewal.Resumed {
		if class != lifeloop.OperatorRequired {
			class = lifeloop.PayloadRejected // whatever the reason, the delivery is lost (DECISIONS R7)
		}
		r.end(s, class, why, false)
		return
	}
	s.record(RenewalMoved{r.hard.Deliver()})
	event := lifeloop.SessionStarted
	if p.chosen.Class != lifeloop.PreSession {
		event = lifeloop.FrameOpening
	}
	r.receipt(s, renewalStep{event: event, scope: p.scope, parcel: p})
}

// measured records the first measurement of the context in the harness session that
// a renewal began, and whether the context is still too large.
func (r *renewals) measured(s *step, tokens int64) {
	if r.hard.New == 0 || r.hard.New != s.scopes.number() || r.hard.After != nil || tokens == 0 {
		return
	}
	s.record(RenewalMeasured{Renewal: r.hard.ID, Tokens: tokens, Broke: r.hard.Treadmill(tokens)})
}

// end ends a renewal that cannot continue. broke stops all further renewals.
func (r *renewals) end(s *step, class lifeloop.FailureClass, why string, broke bool) {
	v := r.hard.End(class, why)
	v.Broke = broke
	r.over(s, v)
}

// over records the end of a renewal and ends everything that is still open: a
// running command, an unused token, a waiting payload, and the pause.
func (r *renewals) over(s *step, v renewal.Move) {
	was, act, resets, typing := r.hard.State, r.soft.act, r.resets(), r.soft.typing
	r.soft.act, r.soft.held, r.soft.typing = renewal.None, nil, false
	s.record(RenewalMoved{v})
	r.receipt(s, renewalStep{event: r.eventAfter(was), scope: s.scopes.number(), failure: v.Failure, why: v.Why})
	s.guards.withdraw(s, v.Why, func(act string, p pending) bool { return act == gate.ActRenew && p.renewal == r.hard.ID })
	s.slots.giveUpCall(s, r.hard.ID, v.Why)
	if !s.session.closing() && !s.session.ledgerLost() {
		if act == renewal.Prepare || act == renewal.Continue || typing {
			s.do(effect.Cancel{Call: r.hard.ID})
		}
		if r.hard.Digest != "" && !r.hard.Consumed {
			s.do(effect.DiscardToken{RenewalRef: r.ref(s), Digest: r.hard.Digest})
		}
	}
	if resets {
		r.unpause(s)
	}
}

// unpause continues a session that a renewal paused.
func (r *renewals) unpause(s *step) {
	if s.session.is(session.Paused) && !s.session.pausedByCommand() {
		s.session.move(s, session.Running, causeRenewal)
		s.attempts.restartSilence(s.now)
		s.restartDeadlines()
	}
}

// eventAfter returns the event of the receipt that reports the early end of a renewal.
// was is the state in which the renewal ended. The event is that of the first step that
// the renewal did not reach.
func (r *renewals) eventAfter(was renewal.State) lifeloop.Event {
	switch {
	case was == renewal.Prepared, was == renewal.Resetting && !r.hard.Left:
		return lifeloop.SessionEnded
	case was == renewal.Resetting, was == renewal.Resumed:
		return lifeloop.SessionStarted
	}
	return lifeloop.SessionEnding
}

// conclude ends a renewal, if one is open, for a reason outside it, such as the end of
// its attempt or of the session.
func (r *renewals) conclude(s *step, why string) {
	if r.hard.Open() {
		class := lifeloop.StateConflict
		if r.hard.Consumed {
			class = lifeloop.PayloadRejected
		}
		r.end(s, class, why, false)
	}
}

// abandon ends the renewal and the attempt. It is called while no harness runs: the old
// launch has ended, and the new one has not begun.
func (r *renewals) abandon(s *step, why string) {
	r.conclude(s, why)
	s.attempts.over(s)
}

// recover handles a renewal that was open when the wrapper died. If the reset had begun,
// the token is not consumed, a relaunch is possible, and the parameter named continues
// is true, recover continues the renewal. Otherwise recover ends the renewal. The
// result done says whether the renewal continues. The result named again says whether
// the old harness session must be launched again, because the reset had begun to end
// the harness. A reset in place ends no harness.
func (r *renewals) recover(s *step, continues bool) (done, again bool) {
	if !r.hard.Open() {
		return false, false
	}
	again = r.hard.State == renewal.Resetting && !r.hard.InPlace()
	why := wrapperDied
	if continues && r.hard.Ended() && !r.hard.Consumed {
		if why = r.byRelaunch(s); why == "" {
			s.attempts.recovered(s)
			return r.drained(s), false
		}
	}
	// The vault may still have a token that no fact records, or a token that was not
	// taken out although a fact says that it is consumed.
	unsure := r.hard.Prepares && r.hard.Digest == "" || r.hard.Unused()
	r.conclude(s, why)
	if unsure {
		s.do(effect.DiscardToken{RenewalRef: r.ref(s), Digest: r.hard.Digest})
	}
	return false, again
}

// wrapperDied is why a renewal ends after a crash of the wrapper.
const wrapperDied = "the wrapper died"

func (r *renewals) next(k *Kernel) time.Time {
	limit := r.limit(k)
	if limit.IsZero() {
		return limit
	}
	at := sooner(r.soft.rests, sooner(r.soft.again, limit))
	if r.soft.prompt != nil {
		at = sooner(r.soft.until, at)
	}
	return at
}

// limit returns the time at which the act in progress, or the wait until the harness is
// at its prompt, has taken too long. The time is zero while neither has a limit.
func (r *renewals) limit(k *Kernel) time.Time {
	switch {
	case !r.hard.Open(), r.soft.since.IsZero(), r.waiting() && k.session.pausedByCommand(), r.soft.act == renewal.Launch && k.cfg.HookAtPrompt:
		return time.Time{}
	}
	if rules := k.cfg.rules(r.hard.Profile); rules != nil {
		return rules.Deadline(r.soft.act, r.soft.since)
	}
	return time.Time{}
}

// wake ends the wait until soft.again, and handles the timeout of an act or of the wait
// until the harness is at its prompt. Both may be due in one step, because a step may
// come late.
func (r *renewals) wake(s *step) {
	if s.due(r.soft.again) {
		r.soft.again = time.Time{}
	}
	if !s.due(r.limit(s.Kernel)) {
		return
	}
	switch r.soft.act {
	case renewal.Type, renewal.FallBack:
		r.end(s, lifeloop.PayloadRejected, cmp.Or(r.soft.why, "the harness was not at its prompt in time"), false)
	case renewal.Clear, renewal.Undo:
		r.overdue(s)
	case renewal.None:
		why := "the harness was not at its prompt in time"
		if r.hard.Path == renewal.InPlace && s.byHook() {
			why = "no turn of the harness ended in time"
		} else if r.hard.State == renewal.Prepared && !r.lineFree(s) {
			why = "the user has begun a line, which the reset would lose, or has a dialog open"
		}
		r.end(s, lifeloop.Timeout, why, false)
	case renewal.Prepare:
		r.end(s, lifeloop.Timeout, "the prepare command took too long", false)
	case renewal.Continue:
		r.lost(s, "the continue command took too long")
	case renewal.Launch:
		r.end(s, lifeloop.PayloadRejected, "the new launch reported no harness session in time", false)
	}
}

// restart gives the harness the full time again to reach its prompt.
func (r *renewals) restart(now time.Time) {
	if r.waiting() {
		r.soft.since = now
	}
}
