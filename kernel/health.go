package kernel

import (
	"maps"
	"slices"
	"strings"
	"time"

	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/session"
	"lifeloop/telemetry"
)

// health is the current support of this launch's capabilities. A capability depends on
// sources (setup.Launch.Rests). Its support becomes weaker through
//
//	a lost source: silent, deleted or not read, or hooks that are not called
//	an untested version, until the capability has worked in this launch (version.go)
//	a prompt without its hook; an unknown context window; a lost ledger
//
// After any change, assess compares all capabilities with the last reported
// support, and announces the differences in one step:
//
//	claimed ──► weaker or unavailable ──► claimed again
//
// Support and proof belong to one launch: the next launch begins with its own
// manifest.
type health struct {
	hard struct {
		Support   map[string]lifeloop.Support // the last reported support of each capability that has changed
		Agreed    map[string]lifeloop.Support // newest negotiated support, by client and capability
		Versions  []string                    // versions that this launch reported, in order
		Announced []string                    // the untested versions announced in this session, as "ADAPTER VERSION"
		Unproven  map[string]bool             // capabilities that count as partial until they work, because the version is untested
		Early     map[string]bool             // capabilities that worked in this launch before its version was known
		Proven    int                         // how many capabilities have left Unproven, because they worked
		Weak      map[string]bool             // capabilities that this launch lacks from its start
	}
	soft struct {
		hookDue time.Time             // when the wait for the first hook ends; zero if there is no wait
		reports                       // what the sources of this launch have reported
		early   []input.SourceTrouble // troubles that came before the first harness session
		watched map[string]bool       // paths of files that signals named
		readAt  map[string]time.Time  // when the position of a source was recorded last
	}
}

// reports holds what the sources of a launch have reported, and what they failed to report.
type reports struct {
	worth    map[loss]lifeloop.Support // the support that each loss leaves to its source
	hooked   bool                      // a hook was called in this launch
	missed   bool                      // the hook of the newest prompt was not called
	noWindow bool                      // the context window is unknown
	away     bool                      // the harness's process named another harness session, whose files are unknown
	reported map[string]bool           // sources that reported something in this launch
	spoken   map[string]bool           // sources that reported something in this turn
	silent   map[string]int            // by expected source, the number of turns in a row in which it reported nothing
}

// A loss is one reason why a source is weaker than claimed. A source may have several.
// When one of them ends, the others remain. A sign that the source can be read ends several
// of them: see hookCalled, troubled and spoke.
type loss struct {
	source string
	by     lossKind
}

type lossKind int

const (
	byTrouble lossKind = iota // the newest trouble of the source
	byNoHook                  // the injected hooks are not called
	bySilence                 // the source misses turns
	byAbsence                 // the harness's process named another harness session, whose files are unknown
	countLosses
)

// worthOf returns the weakest support that the losses of a source leave; empty if it has
// no loss.
func (r *reports) worthOf(source string) (worth lifeloop.Support) {
	for by := range countLosses {
		if to := r.worth[loss{source, by}]; to != "" && (worth == "" || worth.Stronger(to)) {
			worth = to
		}
	}
	return worth
}

// regain ends the given losses of a source.
func (r *reports) regain(source string, ended ...lossKind) {
	for _, by := range ended {
		delete(r.worth, loss{source, by})
		if by == bySilence {
			delete(r.silent, source)
		}
	}
}

type (
	// Weakened records a capability that this launch lacks from its start.
	Weakened struct {
		Capability string `json:"capability"`
		Reason     string `json:"reason"`
	}
	// SourceNamed records that the harness reported the path of one of its files.
	// The wrapper then reads this file.
	SourceNamed struct {
		Path string `json:"path"`
		By   string `json:"by"`
	}
	// TranscriptCopied records that a transcript of the harness was copied into the
	// session's folder, because harnesses delete their transcripts. File is the name of
	// the copy. If there is no copy, Why is set instead.
	TranscriptCopied struct {
		Path   string `json:"path"`
		File   string `json:"file,omitempty"`
		Digest string `json:"digest,omitempty"`
		Bytes  int64  `json:"bytes,omitempty"`
		Why    string `json:"why,omitempty"`
	}
	// SourceRead records how far a telemetry source was read. An observer with a
	// ledger records one SourceRead for each record with signals. A resumed
	// observation continues after the last SourceRead.
	SourceRead struct {
		Source string `json:"source"`
		input.Position
		// Start says that reading of the source began here.
		Start bool `json:"start,omitempty"`
		// Newest is the latest time that the record gives for one of its signals.
		Newest time.Time `json:"newest,omitzero"`
		// Taken and Digest are set for a source that does not write its records in
		// order of time; its signals are sorted by their times. Taken is the number
		// of signals handled so far, and Digest their digest. Offset may then be
		// beyond the record of the last handled signal.
		Taken  int64  `json:"taken,omitempty"`
		Digest string `json:"digest,omitempty"`
		// Facts is how many facts of the record follow. If one of them is missing,
		// the record counts as unread.
		Facts int `json:"facts,omitempty"`
	}
	// SourceTroubled records that a source cannot be read as expected.
	SourceTroubled struct {
		Source string `json:"source"`
		What   string `json:"what"`
	}
)

func (Weakened) key() (string, bool)         { return "weakened", false }
func (f Weakened) apply(k *Kernel)           { k.health.hard.Weak[f.Capability] = true }
func (SourceNamed) key() (string, bool)      { return "source_named", false }
func (SourceNamed) apply(*Kernel)            {}
func (TranscriptCopied) key() (string, bool) { return "transcript_copied", false }
func (TranscriptCopied) apply(*Kernel)       {}
func (SourceRead) key() (string, bool)       { return "source_read", false }
func (SourceRead) apply(*Kernel)             {}
func (SourceTroubled) key() (string, bool)   { return "source_troubled", false }
func (SourceTroubled) apply(*Kernel)         {}

func newHealth() (h health) {
	h.hard.Agreed = map[string]lifeloop.Support{}
	h.launched()
	h.launching()
	h.soft.readAt = map[string]time.Time{}
	return h
}

// launched resets the hard state that belongs to one launch.
func (h *health) launched() {
	h.hard.Support, h.hard.Unproven, h.hard.Weak = map[string]lifeloop.Support{}, map[string]bool{}, map[string]bool{}
	h.hard.Versions, h.hard.Proven, h.hard.Early = nil, 0, map[string]bool{}
}

// launching clears the reports of the previous launch's sources.
func (h *health) launching() {
	h.soft.watched = map[string]bool{}
	h.soft.reports = reports{worth: map[loss]lifeloop.Support{}, reported: map[string]bool{}, spoken: map[string]bool{}, silent: map[string]int{}}
}

// observed stores what an event shows about capabilities. An event that comes before the
// harness's version is known can prove that the capability with the same name as the
// event works. The event capability.degraded has the present support of its capability;
// Also has that of other capabilities.
func (h *health) observed(f Observed) {
	h.early(f)
	if d := f.Degradation; d != nil {
		h.hard.Support[d.Capability] = d.CurrentSupport
		for _, c := range f.Also {
			h.hard.Support[c.Capability] = c.CurrentSupport
		}
	}
}

// weaken records the capabilities that this launch lacks. What the first launch lacks
// was known before anything was negotiated, so it is not a degradation. For a later
// launch, the method relaunched compares the launch's claims with the negotiated results.
func (h *health) weaken(s *step) {
	for _, w := range s.cfg.Weak {
		if !h.hard.Weak[w.Capability] {
			s.record(Weakened(w))
		}
	}
}

// claimed returns the support with which this launch began.
func (h *health) claimed(s *step, capability string) lifeloop.Support {
	return negotiate.Support(s.claims(), capability)
}

// support returns the support of a capability as it was last reported.
func (h *health) support(s *step, capability string) lifeloop.Support {
	if now, changed := h.hard.Support[capability]; changed {
		return now
	}
	return h.claimed(s, capability)
}

// worth returns the support that a capability has now. A capability in Unproven is at
// most partial.
func (h *health) worth(s *step, claims lifeloop.Manifest, capability string) lifeloop.Support {
	now := h.proven(s, claims, capability)
	if h.hard.Unproven[capability] && now.Stronger(lifeloop.Partial) {
		return lifeloop.Partial
	}
	return now
}

// proven returns the support that a capability would have now in a tested version:
// what the manifest claims, limited by what this launch has lost, such as a source.
func (h *health) proven(s *step, claims lifeloop.Manifest, capability string) lifeloop.Support {
	now := negotiate.Support(claims, capability)
	limit := func(to lifeloop.Support) {
		if now.Stronger(to) {
			now = to
		}
	}
	on := s.cfg.Rests[capability]
	if source, is := strings.CutPrefix(capability, telemetryPrefix); is {
		if worth := h.soft.worthOf(source); worth != "" {
			limit(worth)
		}
		on = []string{source}
	}
	if capability == string(lifeloop.SessionStarted) && s.scopes.begun() || capability == identityCapability && s.scopes.identified() {
		on = nil // information that is already known stays known after its source is lost
	}
	lost := func(source string) bool { return h.soft.worthOf(source) == lifeloop.Unavailable }
	switch {
	case len(on) > 0 && !slices.ContainsFunc(on, func(source string) bool { return !lost(source) }):
		limit(lifeloop.Unavailable)
	case h.soft.missed && len(on) == 1 && on[0] == hooksSource,
		h.soft.noWindow && capability == pressureCapability:
		limit(lifeloop.Partial)
	}
	if capability == ledgerCapability && s.session.ledgerLost() {
		limit(lifeloop.Unavailable)
	}
	return now
}

// manifest returns the adapter's manifest with the present support.
func (h *health) manifest(s *step) lifeloop.Manifest {
	m := s.claims()
	for _, name := range slices.Sorted(maps.Keys(h.hard.Support)) {
		m = negotiate.Weaken(m, name, h.hard.Support[name])
	}
	return m
}

// placing returns the manifest by which payloads are placed, without the placements
// that are unavailable now. A placement that only became weaker keeps its claimed
// support, because the next hook may be called and can then deliver a payload.
func (h *health) placing(s *step) lifeloop.Manifest {
	m := s.claims()
	for _, class := range lifeloop.Placements() {
		if name := "placement." + string(class); h.hard.Support[name] == lifeloop.Unavailable {
			m = negotiate.Weaken(m, name, lifeloop.Unavailable)
		}
	}
	return m
}

// undeliverable returns the failure class if the continuation, the text for the model
// after a renewal, cannot be delivered in this launch. Then no placement before a session
// or before a prompt is available, because the launch never had one or lost it. The
// result is empty if there is such a placement.
func (h *health) undeliverable(s *step) lifeloop.FailureClass {
	has := func(m lifeloop.Manifest) bool {
		for _, class := range []lifeloop.Placement{lifeloop.PreSession, lifeloop.PreFrameLeading, lifeloop.PreFrameTrailing} {
			switch m.Placement[class].Support {
			case lifeloop.Native, lifeloop.Synthesized, lifeloop.Partial:
				return true
			}
		}
		return false
	}
	switch {
	case has(h.placing(s)):
		return ""
	case has(s.claims()):
		return lifeloop.DegradedCapability
	}
	return lifeloop.CapabilityUnsupported
}

// The names of the sources and capabilities that need special treatment.
const (
	hooksSource      = "hooks"
	statuslineSource = "statusline"
	telemetryPrefix  = "telemetry."

	identityCapability = "session_identity.harness_session_id"
	ledgerCapability   = "receipts.receipt_ledger"
)

// sourceName is the name under which the manifest lists the source of a signal.
func sourceName(source string) string {
	if source == "hook" {
		return hooksSource
	}
	return source
}

// began starts the wait for the first hook of a launch. If the harness calls
// its first hook at the first prompt, the wait starts later, at the first sign
// of a turn.
func (h *health) began(s *step) {
	if s.cfg.Hooks && !s.cfg.HookAtPrompt {
		h.expectHook(s)
	}
}

// expectHook begins the wait for the first hook of a launch.
func (h *health) expectHook(s *step) { h.soft.hookDue = s.now.Add(s.cfg.FirstHook) }

func (h *health) stopExpecting() { h.soft.hookDue = time.Time{} }

// restart restarts the wait for the first hook, if it has not ended.
func (h *health) restart(s *step) {
	if !h.soft.hookDue.IsZero() {
		h.expectHook(s)
	}
}

// worked handles a sign of a turn. If the harness calls its first hook at the first
// prompt, worked starts the wait for that hook.
func (h *health) worked(s *step, source string) {
	if s.cfg.Hooks && s.cfg.HookAtPrompt && source != "hook" && !h.soft.hooked && h.soft.hookDue.IsZero() && h.soft.worthOf(hooksSource) == "" {
		h.expectHook(s)
	}
}

// hookCalled ends the wait for the first hook. If hooks counted as lost, the hooks are
// available again. An expected source that counted as lost only because no hook was
// called is available again too. A hook may now report the paths of files. So an
// expected source that has reported nothing yet is also available again, unless it has
// a trouble.
func (h *health) hookCalled(s *step) {
	h.stopExpecting()
	h.soft.hooked = true
	if h.soft.worthOf(hooksSource) != lifeloop.Unavailable {
		return
	}
	h.soft.regain(hooksSource, byTrouble, byNoHook, bySilence, byAbsence)
	for _, source := range s.cfg.Expected {
		h.soft.regain(source, byNoHook)
		if !h.soft.reported[source] {
			h.soft.regain(source, bySilence, byAbsence)
		}
	}
	h.assess(s, "the harness called a hook")
}

// prompted handles a prompt. byHook says whether the hook for prompts reported it. If
// another source reported the prompt in a launch with hooks, the hook was not called.
func (h *health) prompted(s *step, source string, byHook bool) {
	switch {
	case !byHook && s.cfg.Hooks:
		h.soft.missed = true
		h.assess(s, "a prompt appeared in the "+source+", but the hook for prompts was not called")
	case byHook:
		h.soft.missed = false
		h.assess(s, "the hook of a later prompt was called")
	}
}

// window records whether the context window is known; if not, the level of
// pressure is unknown.
func (h *health) window(s *step, known bool, source string) {
	why := "the context window is unknown, and so is the level of pressure"
	if known {
		why = "the context window is now known, from " + source
	}
	if h.soft.noWindow == known {
		h.soft.noWindow = !known
		h.assess(s, why)
	}
}

// next returns the end of the wait for the first hook. It is zero while the
// session is paused, because a paused harness calls no hook.
func (h *health) next(k *Kernel) (at time.Time) {
	if !k.session.is(session.Paused) {
		at = h.soft.hookDue
	}
	return at
}

// wake reports that the injected hooks are not called. Either a dialog is open, or
// a setting of the user or an administrator turned the hooks off. The expected sources
// that have reported nothing count as lost too: perhaps only hooks name their files.
func (h *health) wake(s *step) {
	h.stopExpecting()
	if !s.attempts.alive() {
		return
	}
	h.soft.worth[loss{hooksSource, byNoHook}] = lifeloop.Unavailable
	for _, source := range s.cfg.Expected {
		if !h.soft.reported[source] {
			h.soft.worth[loss{source, byNoHook}] = lifeloop.Unavailable
		}
	}
	since := "of the launch"
	if s.cfg.HookAtPrompt {
		since = "of the first prompt"
	}
	h.assess(s, "no hook was called within "+s.cfg.FirstHook.String()+" "+since+": a dialog may be open, or hooks are turned off")
}

// lose records a loss of sources. Until the loss ends, the support of these sources is
// at most the value of the parameter to.
func (h *health) lose(s *step, sources []string, by lossKind, to lifeloop.Support, evidence string) {
	h.change(s, sources, false, evidence, func(name string) { h.soft.worth[loss{name, by}] = to })
}

// change calls set(name) for each of the sources. The capabilities of all these sources
// then change in one step. back says whether these calls end losses. Sources that the
// adapter does not claim are left out.
func (h *health) change(s *step, sources []string, back bool, evidence string, set func(name string)) {
	if s.scopes.number() == 0 || s.ending.draining() || s.attempts.exit() != nil {
		return
	}
	names := make([]string, 0, len(sources))
	for _, source := range sources {
		name := sourceName(source)
		if h.claimed(s, telemetryPrefix+name) == lifeloop.Unavailable {
			continue
		}
		names = append(names, name)
		set(name)
	}
	if len(names) == 0 {
		return
	}
	h.assess(s, evidence)
	if slices.Contains(names, statuslineSource) {
		s.pressure.expectWindow(s, back)
	}
}

// named begins to watch a file whose path a hook has reported.
func (h *health) named(s *step, sig telemetry.Signal) {
	if h.soft.watched[sig.Path] {
		return
	}
	h.soft.watched[sig.Path] = true
	s.record(SourceNamed{Path: sig.Path, By: sig.Source + ": " + sig.Detail})
	watch := effect.Watch{Path: sig.Path}
	if hs := s.scopes.current(); sig.Kind == telemetry.SessionLive && sig.Cause == "resume" && hs.Started && !s.cfg.Observing {
		watch.Since = s.now.Add(-resumedWithin)
	}
	s.do(watch)
}

// repeats reports whether a hook has named a file in this launch. Such a file repeats
// the prompts that hooks report.
func (h *health) repeats() bool { return len(h.soft.watched) > 0 }

// resumedWithin is the longest time between the resumption of a session by a running
// harness and the hook for the resumption. Records that are older than resumedWithin when
// the hook is called are dropped, because another process may have written them.
const resumedWithin = 2 * time.Second

// read records how far a source was read, after its signals were handled. The parameter
// before is the number of facts that this step had before the signals. The position of a
// record that led to facts is always recorded. Other positions are recorded at most once a
// second, so that a source with many records does not fill the ledger.
func (h *health) read(s *step, in input.SignalsSeen, before int) {
	switch {
	case in.Position == nil || s.cfg.Observing && !s.cfg.Ledger:
	case s.cfg.Observing:
		h.readByObserver(s, in, before)
	case len(in.Signals) > 0:
		source := in.Signals[0].Source
		if len(s.out.Facts) > before || s.now.Sub(h.soft.readAt[source]) >= saveEvery {
			h.soft.readAt[source] = s.now
			s.record(SourceRead{Source: source, Position: *in.Position})
		}
	}
}

// readByObserver records the position of each record. A resumed observation first reads
// the records up to the last position again, and then continues exactly at that position.
// SourceRead comes before the facts of its record and has their number, so a missing
// fact is detected.
func (h *health) readByObserver(s *step, in input.SignalsSeen, before int) {
	f := SourceRead{Source: in.Source, Position: *in.Position, Start: len(in.Signals) == 0,
		Taken: in.Taken, Digest: in.Digest, Facts: len(s.out.Facts) - before}
	for _, sig := range in.Signals {
		if sig.At.After(f.Newest) {
			f.Newest = sig.At
		}
	}
	s.record(f)
	copy(s.out.Facts[before+1:], s.out.Facts[before:])
	s.out.Facts[before] = f
}

// trouble records that a source cannot be read as expected, and then calls troubled.
// Before the first harness session, trouble stores the input for earlyTroubles instead.
func (h *health) trouble(s *step, in input.SourceTrouble) {
	s.record(SourceTroubled{Source: in.Source, What: string(in.What)})
	if s.scopes.number() == 0 {
		h.soft.early = append(h.soft.early, in)
		return
	}
	h.troubled(s, in)
}

// earlyTroubles handles the troubles that came before the first harness session.
func (h *health) earlyTroubles(s *step) {
	early := h.soft.early
	h.soft.early = nil
	for _, in := range early {
		h.troubled(s, in)
	}
}

// troubled changes the support of a source after a trouble.
func (h *health) troubled(s *step, in input.SourceTrouble) {
	switch to, why, _ := consequence(in); {
	case why == "":
	case to == "":
		h.change(s, concerned(in), true, why, func(name string) { h.soft.regain(name, byTrouble, byNoHook, bySilence) })
	default:
		h.lose(s, concerned(in), byTrouble, to, why)
	}
}

// concerned lists the sources that a trouble concerns.
func concerned(in input.SourceTrouble) []string {
	if len(in.Read) > 0 {
		return in.Read
	}
	return []string{in.Source}
}

// consequence returns the support of the sources after a trouble, and the evidence for
// it. The support is empty if the trouble has ended; the evidence is empty if the support
// does not change. known is false if in.What is not a known trouble.
func consequence(in input.SourceTrouble) (to lifeloop.Support, why string, known bool) {
	the := "the " + in.Source
	switch in.What {
	case input.TroublePolling:
		return lifeloop.Partial, the + " is polled, because its changes cannot be watched", true
	case input.TroubleMissed:
		return lifeloop.Partial, "records of " + the + " may be missing, because the file was replaced, truncated or deleted while no observer read it", true
	case input.TroubleDeleted:
		return lifeloop.Unavailable, the + " was deleted", true
	case input.TroubleStale:
		return lifeloop.Unavailable, the + " belongs to a process that has ended", true
	case input.TroubleUnreadable:
		return lifeloop.Unavailable, the + " cannot be read", true
	case input.TroubleUnassigned:
		return lifeloop.Unavailable, the + " does not show which harness session runs in this terminal", true
	case input.TroubleStopped:
		// The source is "hooks" if package instructions can no longer serve the harness's
		// requests, which are handled as hook calls. Then all that depends on hooks is
		// unavailable.
		return lifeloop.Unavailable, "the reader of the " + strings.Join(concerned(in), ", ") + " has stopped", true
	case input.TroubleRecovered:
		return "", the + " can be read normally again", true
	case input.TroubleTruncated, input.TroubleReplaced: // the source is read from its start, so no record is lost
		return "", "", true
	case input.TroubleLineTooLong, input.TroubleBroken, input.TroubleEventTooLong, input.TroubleLost: // the source still reports later records
		return "", "", true
	case input.TroubleOverflow, input.TroubleNotPassedOn: // the source itself lost nothing
		return "", "", true
	}
	return "", "", false
}

// unfollowed handles a signal in which the harness's own process names another harness
// session than the current one. If no hooks are called, the files of that session are
// unknown. Then all sources except the source of this signal are unavailable until the
// process names the current session again.
func (h *health) unfollowed(s *step, sig telemetry.Signal) {
	hooks := s.cfg.Hooks && !h.soft.missed && h.soft.worthOf(hooksSource) != lifeloop.Unavailable
	old := !sig.At.IsZero() && s.attempts.launchedAfter(sig.At, s.now)
	if sig.Process == nil || h.soft.away || hooks || old || s.cfg.Observing || s.attempts.exit() != nil {
		return
	}
	h.soft.away = true
	for _, on := range s.cfg.Rests {
		for _, source := range on {
			if source != sig.Source {
				h.soft.worth[loss{source, byAbsence}] = lifeloop.Unavailable
			}
		}
	}
	h.assess(s, "the "+sig.Source+" names another harness session, and no hook reports the files of that session")
}

// followed handles a signal about the current harness session.
func (h *health) followed(s *step, sig telemetry.Signal) {
	if sig.Process != nil && sig.Session != "" && h.soft.away && s.attempts.exit() == nil {
		h.soft.away = false
		maps.DeleteFunc(h.soft.worth, func(l loss, _ lifeloop.Support) bool { return l.by == byAbsence })
		h.assess(s, "the "+sig.Source+" names the harness session again")
	}
}

// silentTurns is how many turns in a row an expected source must miss to count as
// lost.
const silentTurns = 2

// spoke records in soft state that a source reported something in this turn.
func (h *health) spoke(s *step, source string) {
	h.soft.spoken[source], h.soft.reported[source] = true, true
	why := ""
	switch {
	case h.soft.silent[source] >= silentTurns:
		why = "the " + source + " reports turns again"
	case h.soft.worth[loss{source, byNoHook}] != "":
		why = "the " + source + " reports events, although no hook was called"
	}
	if why != "" {
		h.change(s, []string{source}, true, why, func(name string) {
			h.soft.regain(name, byNoHook, bySilence)
			if h.soft.worth[loss{name, byTrouble}] == lifeloop.Unavailable {
				h.soft.regain(name, byTrouble) // a source that reports can be read
			}
		})
	}
	delete(h.soft.silent, source)
}

// turnEnded counts, for each expected source, the turns in a row in which the source
// reported nothing. After silentTurns such turns, the source counts as lost.
func (h *health) turnEnded(s *step) {
	for _, source := range s.cfg.Expected {
		if h.soft.spoken[source] {
			continue
		}
		h.soft.silent[source]++
		if h.soft.silent[source] == silentTurns {
			h.lose(s, []string{source}, bySilence, lifeloop.Unavailable, "the "+source+" did not report two turns that other sources reported")
		}
	}
	clear(h.soft.spoken)
}

func (h *health) recall(past *health) { h.soft = past.soft }
