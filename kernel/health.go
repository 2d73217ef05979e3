package kernel

import (
	"time"

	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/session"
	"lifeloop/telemetry"
)

// health is what the capabilities of this launch are worth now: hooks that are
// not called, sources that are silent or cannot be read, versions that were not
// tested (version.go). Each change is one capability.degraded, and so is the
// recovery:
//
//	         no call in time, silence, trouble, unknown version
//	claimed ────────────────────────────────────────────────────► weaker
//	        ◄──────────────────────────────────────────────────── or unavailable
//	         a call, a record, recovered, seen in this session
type health struct {
	hard struct {
		Support  map[string]lifeloop.Support // of capabilities that changed
		Versions []string                    // reported by the harness
		Unproven map[string]bool             // capabilities not yet seen of an untested version
		Weak     map[string]bool             // capabilities that were never there
	}
	soft struct {
		hookDue time.Time            // when the first hook must have been called; zero after it
		spoken  map[string]bool      // sources that reported something in this turn
		silent  map[string]int       // turns that an expected source did not report
		early   []SourceTrouble      // from before the session
		watched map[string]bool      // files that signals named
		readAt  map[string]time.Time // when the position of a source was recorded last
	}
}

type (
	// Weakened records a capability that this launch lacks from its start.
	Weakened struct {
		Capability string `json:"capability"`
		Reason     string `json:"reason"`
	}
	// SourceNamed records that the harness named a file as its own, which is
	// why it is read.
	SourceNamed struct {
		Path string `json:"path"`
		By   string `json:"by"`
	}
	// SourceRead records how far a telemetry source was read.
	SourceRead struct {
		Source string `json:"source"`
		Position
	}
	// SourceTroubled records that a source cannot be read as expected.
	SourceTroubled struct {
		Source string `json:"source"`
		What   string `json:"what"`
	}
)

// A Position is how far a source was read: enough to continue there after a
// crash without losing or repeating a line.
type Position struct {
	Path   string `json:"path"`
	Dev    uint64 `json:"dev"`
	Ino    uint64 `json:"ino"`
	Prefix string `json:"prefix"`
	Offset int64  `json:"offset"`
}

func (Weakened) key() (string, bool)       { return "weakened", false }
func (f Weakened) apply(k *Kernel)         { k.health.hard.Weak[f.Capability] = true }
func (SourceNamed) key() (string, bool)    { return "source_named", false }
func (SourceNamed) apply(*Kernel)          {}
func (SourceRead) key() (string, bool)     { return "source_read", false }
func (SourceRead) apply(*Kernel)           {}
func (SourceTroubled) key() (string, bool) { return "source_troubled", false }
func (SourceTroubled) apply(*Kernel)       {}

func newHealth() (h health) {
	h.hard.Support, h.hard.Unproven, h.hard.Weak = map[string]lifeloop.Support{}, map[string]bool{}, map[string]bool{}
	h.soft.spoken, h.soft.silent = map[string]bool{}, map[string]int{}
	h.soft.watched, h.soft.readAt = map[string]bool{}, map[string]time.Time{}
	return h
}

// observed folds a degradation. Stronger support than partial proves a
// capability.
func (h *health) observed(d *lifeloop.Degradation) {
	if d == nil {
		return
	}
	h.hard.Support[d.Capability] = d.CurrentSupport
	if d.CurrentSupport.Stronger(lifeloop.Partial) {
		delete(h.hard.Unproven, d.Capability)
	}
}

// launching forgets what the sources of the previous launch reported.
func (h *health) launching() {
	clear(h.soft.watched)
	clear(h.soft.spoken)
	clear(h.soft.silent)
}

// weaken records what this launch cannot have and no earlier launch lacked.
// It was known before anything was promised, so it is no degradation.
func (h *health) weaken(s *step) {
	for _, w := range s.cfg.Weak {
		if !h.hard.Weak[w.Capability] {
			s.record(w)
		}
	}
}

// claimed is the support that this launch began with, or partial until an
// untested version has proven it.
func (h *health) claimed(s *step, capability string) lifeloop.Support {
	if h.hard.Unproven[capability] {
		return lifeloop.Partial
	}
	return negotiate.Support(s.manifest(), capability)
}

// support is what is left of it now.
func (h *health) support(s *step, capability string) lifeloop.Support {
	if now, changed := h.hard.Support[capability]; changed {
		return now
	}
	return h.claimed(s, capability)
}

// degrade emits capability.degraded, in either direction.
func (h *health) degrade(s *step, capability string, from, to lifeloop.Support, evidence string) {
	if from == to {
		return
	}
	retry := lifeloop.RetryAfterReconfigure
	if to.Stronger(from) {
		retry = lifeloop.SafeRetry // it is back: nothing has to change first
	}
	d := &lifeloop.Degradation{Event: lifeloop.CapabilityDegraded, Capability: capability, PreviousSupport: from,
		CurrentSupport: to, ObservedAtEpochS: s.now.Unix(), Evidence: evidence, RetryClass: retry}
	s.emit(emission{event: lifeloop.CapabilityDegraded, evidence: own(evidence), degradation: d, data: map[string]any{
		"capability": capability, "previous_support": string(from), "current_support": string(to),
		"observed_at_epoch_s": d.ObservedAtEpochS, "evidence": evidence, "retry_class": string(d.RetryClass)}})
}

// hooksCapability is the one that needs hooks most.
const hooksCapability = string(lifeloop.FrameOpening)

// expectHook begins the wait for the first hook of a launch.
func (h *health) expectHook(s *step) { h.soft.hookDue = s.now.Add(s.cfg.FirstHook) }

func (h *health) stopExpecting() { h.soft.hookDue = time.Time{} }

// restart begins that wait again, if it lasts.
func (h *health) restart(s *step) {
	if !h.soft.hookDue.IsZero() {
		h.expectHook(s)
	}
}

// hookCalled ends the wait, and reports the recovery if hooks were thought
// lost.
func (h *health) hookCalled(s *step) {
	h.stopExpecting()
	if h.support(s, hooksCapability) == lifeloop.Unavailable {
		h.degrade(s, hooksCapability, lifeloop.Unavailable, h.claimed(s, hooksCapability), "the harness called a hook")
	}
}

// prompted checks that the prompt of a launch with hooks came by its hook.
func (h *health) prompted(s *step, source string, byHook bool) {
	claimed, now := h.claimed(s, hooksCapability), h.support(s, hooksCapability)
	switch {
	case !byHook && s.cfg.Hooks && now == claimed:
		h.degrade(s, hooksCapability, now, lifeloop.Partial, "a prompt appeared in the "+source+", but its hook was not called")
	case byHook && now == lifeloop.Partial:
		h.degrade(s, hooksCapability, now, claimed, "the hook of a prompt was called again")
	}
}

// next is the end of the wait for the first hook: a paused harness calls none.
func (h *health) next(k *Kernel) (at time.Time) {
	if !k.session.is(session.Paused) {
		at = h.soft.hookDue
	}
	return at
}

// wake reports that the injected hooks are not called: a dialog is open, or
// a setting of the user or an administrator turned them off.
func (h *health) wake(s *step) {
	h.stopExpecting()
	if s.attempts.alive() {
		h.degrade(s, hooksCapability, h.support(s, hooksCapability), lifeloop.Unavailable,
			"no hook was called within "+s.cfg.FirstHook.String()+" of the launch: a dialog may be open, or hooks are turned off")
	}
}

// telemetryCapability is the name under which a source is claimed.
func telemetryCapability(source string) string { return "telemetry." + source }

// sourceSupport reports that a source is worth more or less than before.
func (h *health) sourceSupport(s *step, source string, to lifeloop.Support, why string) {
	name := telemetryCapability(source)
	if s.scopes.number() == 0 || s.ending.draining() || s.attempts.exit() != nil || h.claimed(s, name) == lifeloop.Unavailable {
		return
	}
	h.degrade(s, name, h.support(s, name), to, why)
}

// named begins to watch a file that a hook named.
func (h *health) named(s *step, sig telemetry.Signal) {
	if h.soft.watched[sig.Path] {
		return
	}
	h.soft.watched[sig.Path] = true
	s.record(SourceNamed{Path: sig.Path, By: sig.Source + ": " + sig.Detail})
	s.do(Watch{sig.Path})
}

// read records how far a source was read. The position is recorded with the
// facts of its record; alone it is recorded at most once a second, so that a
// source with many records does not fill the ledger.
func (h *health) read(s *step, source string, to Position, news bool) {
	if !news && s.now.Sub(h.soft.readAt[source]) < saveEvery {
		return
	}
	h.soft.readAt[source] = s.now
	s.record(SourceRead{Source: source, Position: to})
}

// trouble records that a source cannot be read as expected, and reports what
// that takes away, as soon as there is a session.
func (h *health) trouble(s *step, in SourceTrouble) {
	s.record(SourceTroubled(in))
	if s.scopes.number() == 0 {
		h.soft.early = append(h.soft.early, in)
		return
	}
	h.troubled(s, in)
}

// earlyTroubles reports what happened to sources before there was a session.
func (h *health) earlyTroubles(s *step) {
	early := h.soft.early
	h.soft.early = nil
	for _, in := range early {
		h.troubled(s, in)
	}
}

// troubled degrades a source. One that was truncated or replaced is read from
// its start, so nothing is lost.
func (h *health) troubled(s *step, in SourceTrouble) {
	switch in.What {
	case "polling":
		h.sourceSupport(s, in.Source, lifeloop.Partial, "the "+in.Source+" is polled, because its changes cannot be watched")
	case "deleted":
		h.sourceSupport(s, in.Source, lifeloop.Unavailable, "the "+in.Source+" was deleted")
	case "stale":
		h.sourceSupport(s, in.Source, lifeloop.Unavailable, "the "+in.Source+" belongs to a process that has ended")
	case "unreadable":
		h.sourceSupport(s, in.Source, lifeloop.Unavailable, "the "+in.Source+" cannot be read")
	case "recovered":
		h.sourceSupport(s, in.Source, h.claimed(s, telemetryCapability(in.Source)), "the "+in.Source+" can be read normally again")
	}
}

// silentTurns is how many turns an expected source may miss.
const silentTurns = 2

// spoke notes that a source reported something in this turn.
func (h *health) spoke(s *step, source string) {
	h.soft.spoken[source] = true
	if h.soft.silent[source] >= silentTurns {
		h.sourceSupport(s, source, h.claimed(s, telemetryCapability(source)), "the "+source+" reports turns again")
	}
	delete(h.soft.silent, source)
}

// turnEnded counts the expected sources that did not report the turn, though
// others did.
func (h *health) turnEnded(s *step) {
	for _, source := range s.cfg.Expected {
		if h.soft.spoken[source] {
			continue
		}
		h.soft.silent[source]++
		if h.soft.silent[source] == silentTurns {
			h.sourceSupport(s, source, lifeloop.Unavailable, "the "+source+" did not report two turns that other sources reported")
		}
	}
	clear(h.soft.spoken)
}
