package kernel

import (
	"slices"
	"time"

	"lifeloop/kernel/input"
	"lifeloop/renewal"
	"lifeloop/telemetry"
)

// This file resets a harness in place by the answer to a hook that the harness calls at
// the end of a turn (renewal.ByHook). The answer makes the harness empty its context and
// wait for its user:
//
//	the turn ends, the hook waits ──► prepare ──► the token is recorded as consumed
//	         ──► continue ──► the hook is answered: clear
//	         ──► the harness reports that its context is empty, and gets time to make
//	             its new context (emptyingTakes)
//	         ──► the old session ends, the fresh one begins: resumed
//	         ──► the hook of the next prompt carries the continuation: delivered
//
// The renewal itself starts no turn. If the time limit of the hook passes, or a prompt
// comes, before the hook is answered with clear, the answer is empty. The renewal then
// waits for the end of the next turn, or continues by a relaunch at the prompt if the
// profile lists that path.

// atTurnEnd is the part of a renewal that belongs to the hook at the end of a turn.
type atTurnEnd struct {
	hook   string            // the hook at the end of a turn that waits for the renewal, or whose answer was to clear the context
	prompt *input.HookCalled // the hook of the next prompt, which waits for the fresh session
	until  time.Time         // until when prompt waits
	rests  time.Time         // when renewals.detour tries a relaunch; zero if none is planned, for example because the hook at the end of a turn was called
}

const (
	// endWait is how long the hook at the end of a turn waits for the clients whose answer
	// may ask for a renewal.
	endWait = 4 * time.Second
	// hookFollows is how long the renewal waits for the hook of a turn when the harness is
	// already at its prompt: some sources report the end of a turn before the hook is called.
	hookFollows = 2 * time.Second
	// emptyingTakes is how long a harness may take to make its new context, after it has
	// reported that the old one is empty. The hook of the next prompt waits until then, but
	// not beyond its own time limit.
	emptyingTakes = 2 * time.Second
	// promptWaits is how long a prompt waits for the report that the context is empty.
	promptWaits = 3 * time.Second
)

// byHook reports whether the harness of this launch is reset in place by the answer to a
// hook.
func (k *Kernel) byHook() bool { return k.cfg.Clears && k.cfg.Means == renewal.ByHook }

// ends reports whether a renewal can reset the harness by the answer to this hook
// call.
func (r *renewals) ends(s *step, call telemetry.HookCall) bool {
	return call.Clears && s.byHook() && len(s.cfg.Renewals) > 0
}

// asking reports whether an active renewal profile belongs to a client, whose
// answers can then ask for a renewal.
func (r *renewals) asking(s *step, client string) bool {
	for _, rules := range s.cfg.Renewals {
		if rules.Client == client {
			return true
		}
	}
	return false
}

// holds reports whether a hook must wait for the renewal, and stores such a hook as
// soft.hook.
func (r *renewals) holds(s *step, h *hook) bool {
	if !h.ends || s.due(h.limit) || r.soft.hook != "" && r.soft.hook != h.id || !r.awaitsHook(s) {
		return false
	}
	r.soft.hook = h.id
	return true
}

// holding reports whether a hook is soft.hook. This is the hook at the end of a turn
// that waits for the renewal, or whose answer was to clear the context.
func (r *renewals) holding(hook string) bool { return r.soft.hook == hook && hook != "" }

// awaitsHook reports whether the renewal needs the hook at the end of a turn.
func (r *renewals) awaitsHook(s *step) bool {
	if !r.hard.Open() || !s.attempts.alive() || s.attempts.exit() != nil || s.ending.stopping() || s.session.ledgerLost() || s.scopes.current().Ending {
		return false
	}
	switch r.hard.State {
	case renewal.Asked:
		return r.soft.act == renewal.Permit
	case renewal.Negotiated, renewal.Prepared:
		return r.hard.Path == renewal.InPlace
	}
	return r.hard.InPlace() && !r.hard.Typed && (r.soft.act == renewal.Continue || r.soft.act == renewal.Type)
}

// attend answers the hooks that need not wait for the renewal any more.
func (r *renewals) attend(s *step) {
	if h := s.slots.hook(r.soft.hook); h == nil || h.answered && !r.hard.Typed {
		r.soft.hook = ""
	} else if !h.answered && !r.awaitsHook(s) {
		r.release(s)
	}
	if !r.hard.Open() || !s.attempts.alive() {
		r.soft.rests = time.Time{}
	}
	if p := r.soft.prompt; p != nil && (!r.clearing() || s.attempts.exit() != nil || s.due(r.soft.until)) {
		r.proceed(s)
	}
}

// proceed handles the hook of the next prompt, which has waited. If the harness has
// reported an empty context, the fresh session begins first.
func (r *renewals) proceed(s *step) {
	p := r.soft.prompt
	r.soft.prompt = nil
	switch {
	case !r.clearing(), s.attempts.exit() != nil:
	case r.soft.fresh != nil:
		r.soft.again = time.Time{}
		r.enter(s)
	default:
		r.fallBack(s, "the next prompt came before the harness reported that its context is empty")
	}
	s.slots.called(s, *p)
	// If the method review called proceed, Step has already called the wake methods that
	// were due, and does not call slots.wake again. So proceed must call it here.
	if s.due(s.slots.next(s.Kernel)) {
		s.slots.wake(s)
	}
}

// release answers the hook that waits for the renewal, without a reset.
func (r *renewals) release(s *step) {
	hook := r.soft.hook
	r.soft.hook = ""
	s.slots.letGo(s, hook)
}

// prompting handles the hook of a prompt, and reports whether it must wait for the fresh
// session. A prompt that comes while the hook at the end of a turn waits shows that the
// user has left that turn. That hook is then answered without a reset, which would empty
// the context of the new turn.
func (r *renewals) prompting(s *step, in input.HookCalled) bool {
	if !s.byHook() || !prompts(in.Call) || in.Call.Session != s.scopes.current().ID {
		return false
	}
	switch {
	case r.clearing() && r.soft.prompt == nil && s.attempts.alive() && r.soft.act == renewal.Clear:
		r.soft.prompt, r.soft.until = &in, sooner(in.Deadline, s.now.Add(promptWaits))
		return true
	case !r.hard.Typed:
		r.release(s)
	}
	return false
}

func prompts(call telemetry.HookCall) bool {
	for _, sig := range call.Signals {
		if sig.Kind == telemetry.Prompt {
			return true
		}
	}
	return false
}

// gaveUp handles the end of a hook's process. If it is the hook of a prompt that waits
// for the fresh session, the harness no longer waits for the answer, so the wait ends.
func (r *renewals) gaveUp(s *step, hook string) {
	if p := r.soft.prompt; p != nil && p.Hook == hook {
		r.proceed(s)
	}
}

// clear answers the hook that waits for the renewal. The answer makes the harness
// empty its context.
func (r *renewals) clear(s *step) {
	s.record(RenewalTyped{Renewal: r.hard.ID, Keys: keysReset, Means: s.cfg.Means})
	r.start(s, renewal.Clear)
	r.soft.fresh = nil
	s.slots.clear(s, r.soft.hook)
}

// hookEnded handles the end of soft.hook. whole says whether the whole answer to the hook
// was written.
func (r *renewals) hookEnded(s *step, hook string, whole bool) {
	if !r.holding(hook) {
		return
	}
	r.soft.hook = ""
	if r.soft.act == renewal.Clear && !whole {
		r.fallBack(s, "the hook ended before the answer was written")
	}
}

// emptied handles the harness's report that its context is empty.
func (r *renewals) emptied(s *step, sig telemetry.Signal) {
	if sig.Kind != telemetry.Cleared || !s.byHook() || !r.clearing() || r.soft.act != renewal.Clear || r.soft.fresh != nil {
		return
	}
	r.soft.fresh = &input.FreshSeen{Renewal: r.hard.ID, ID: sig.Session, Source: sig.Source, Detail: sig.Detail}
	r.soft.again = s.now.Add(emptyingTakes)
	if p := r.soft.prompt; p != nil {
		r.soft.until = sooner(p.Deadline, r.soft.again)
	}
}

// detour lets a renewal that waits for the end of a turn continue by a relaunch, if the
// harness is at its prompt and calls no hook any more.
func (r *renewals) detour(s *step) {
	waits := r.soft.act == renewal.None && (r.hard.State == renewal.Negotiated || r.hard.State == renewal.Prepared) || r.soft.act == renewal.Type
	switch rules := r.rules(s); {
	case !s.byHook(), !waits, r.hard.Path != renewal.InPlace, r.soft.hook != "", !s.activity.atPrompt(), s.turns.top() != nil,
		!slices.Contains(rules.Paths, renewal.Relaunch):
		r.soft.rests = time.Time{}
	case r.soft.rests.IsZero():
		r.soft.rests = s.now.Add(hookFollows)
	case !s.due(r.soft.rests):
	case !r.relaunches(s, s.health.manifest(s), rules):
		// A relaunch is not possible now. detour tries again later, unless the hook at
		// the end of a turn is called first.
		r.soft.rests = s.now.Add(rules.Filled().Idle)
	case r.soft.act == renewal.Type:
		r.fallBack(s, noTurnEnds)
	default:
		r.soft.rests = time.Time{}
		s.record(RenewalRerouted{Renewal: r.hard.ID, Path: renewal.Relaunch, Why: noTurnEnds})
	}
}

// noTurnEnds is why a renewal that waits for the end of a turn continues by a relaunch.
const noTurnEnds = "the harness is at its prompt, and can be reset in place only at the end of a turn"
