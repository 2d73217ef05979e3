package kernel

import (
	"cmp"
	"time"

	"lifeloop/lifeloop"
	"lifeloop/telemetry"
)

// scopes are the harness sessions of this session, one after another. Each is
// a scope, counted from 1:
//
//	opened ──► starting ──► started ──► ending ──► ended
//	              └────────────────────────┘
//
// The id of a scope may be unknown at first. The fact Bound records that the id became
// known or changed, and why. identity.go decides which scope a signal belongs to.
type scopes struct {
	hard struct {
		Scope    int // number of the current scope
		Sessions map[int]*harnessSession
		Numbers  map[string]int // for each id, the scope that numbers its receipts
		Fresh    int            // the scope of the newest launch that began a fresh attempt; a restart continues no earlier scope
	}
	soft struct {
		refused map[string]bool // ids of other harness sessions for which BindRefused was recorded
		// gone is the harness's report that its session ends, as long as this report waits for
		// the record of the last turn's end. It is nil if no report waits.
		gone    *telemetry.Signal
		goneDue time.Time // when gone is handled even without that record
	}
}

type harnessSession struct {
	ID       string
	Cause    string
	Starting bool // session.starting was emitted
	Started  bool
	Ending   bool
	Reason   string // the reason in session.ending
	Ended    bool
	Prompted bool  // a prompt was observed
	Empty    bool  // the context was empty at the start, although an earlier scope may have the same id
	Receipts int64 // the number of receipts so far, if this scope numbers them
	// Numbers is the scope that numbers this scope's receipts: the first scope with
	// the same id (DECISIONS L2). Several scopes in a row without an id count
	// as one. An id has several scopes if its harness session is resumed, or
	// cleared in place.
	Numbers int
}

type (
	// HarnessSessionOpened begins a scope: the facts that follow belong to a new
	// harness session. ID is empty while it is unknown.
	HarnessSessionOpened struct {
		Scope int    `json:"scope"`
		ID    string `json:"id"`
		Cause string `json:"cause"`
		// Adopted is set if the harness session was live before the wrapper
		// observed it.
		Adopted bool `json:"adopted,omitempty"`
	}
	// Bound records that a scope's id became known or changed, and why.
	Bound struct {
		Scope  int    `json:"scope"`
		ID     string `json:"id"`
		Was    string `json:"was"`
		Reason string `json:"reason"`
		// Empty is set if an earlier scope has this id, and the harness begins this
		// one with an empty context.
		Empty bool `json:"empty,omitempty"`
	}
	// BindRefused records that a source named a harness session that nothing links
	// to this session.
	BindRefused struct {
		Scope  int    `json:"scope"`
		ID     string `json:"id"`
		Reason string `json:"reason"`
	}
)

func (HarnessSessionOpened) key() (string, bool) { return "harness_session_opened", false }
func (f HarnessSessionOpened) apply(k *Kernel) {
	h := &k.scopes.hard
	numbers := f.Scope
	if before := h.Sessions[f.Scope-1]; before != nil && before.ID == "" && f.ID == "" {
		numbers = before.Numbers
	}
	h.Scope = f.Scope
	h.Sessions[f.Scope] = &harnessSession{Numbers: numbers, Cause: f.Cause, Starting: f.Adopted, Started: f.Adopted,
		Empty: f.ID != "" && beginsEmpty(f.Cause)}
	k.scopes.name(f.Scope, f.ID)
	k.pressure.opened()
}

func (Bound) key() (string, bool) { return "bound", false }
func (f Bound) apply(k *Kernel) {
	k.scopes.name(f.Scope, f.ID)
	k.scopes.hard.Sessions[f.Scope].Empty = f.Empty
}
func (BindRefused) key() (string, bool) { return "bind_refused", false }
func (BindRefused) apply(*Kernel)       {}

// launched sets Fresh to the current scope if its launch continues no harness session.
// The launch of a renewal does not count: it belongs to the same attempt, and if the
// renewal fails, the old harness session may continue.
func (c *scopes) launched(f Launching) {
	if f.Checkpoint == "" && f.Cause != causeRenewal {
		c.hard.Fresh = c.hard.Scope
	}
}

func newScopes() (c scopes) {
	c.hard.Sessions, c.hard.Numbers, c.soft.refused = map[int]*harnessSession{}, map[string]int{}, map[string]bool{}
	return c
}

// name sets the id of a scope. All receipts of one id share one sequence.
func (c *scopes) name(scope int, id string) {
	hs := c.hard.Sessions[scope]
	hs.ID = id
	if id == "" {
		return
	}
	if first, known := c.hard.Numbers[id]; known {
		hs.Numbers = first
	}
	c.hard.Numbers[id] = hs.Numbers
}

func (c *scopes) observed(f Observed) {
	hs := c.hard.Sessions[f.Scope]
	switch f.Record.Event {
	case lifeloop.SessionStarting:
		hs.Starting = true
	case lifeloop.SessionStarted:
		hs.Started = true
	case lifeloop.SessionEnding:
		hs.Ending = true
		hs.Reason, _ = f.Record.Data["reason"].(string)
	case lifeloop.SessionEnded:
		hs.Ended = true
	case lifeloop.FrameOpening:
		hs.Prompted = hs.Prompted || !f.ByClient()
	}
}

// numbering returns the scope whose counter (Receipts) numbers a receipt. If the receipt
// names the id of a harness session, that id decides, because the receipt's own scope
// may have got another id since.
func (c *scopes) numbering(scope int, id *string) *harnessSession {
	if id != nil && c.hard.Numbers[*id] != 0 {
		return c.hard.Sessions[c.hard.Numbers[*id]]
	}
	return c.hard.Sessions[c.hard.Sessions[scope].Numbers]
}

func (c *scopes) receipt(scope int, id *string, sequence int64) {
	first := c.numbering(scope, id)
	first.Receipts = max(first.Receipts, sequence) // sequence may be smaller, because in older ledgers each scope numbered its own receipts
}

func (c *scopes) nextReceipt(scope int, id *string) int64 {
	return c.numbering(scope, id).Receipts + 1
}

// beginsEmpty reports whether a harness session that the harness begins for this
// cause has an empty context, even if an earlier scope has the same id.
func beginsEmpty(cause string) bool {
	return cause == "startup" || cause == "clear" || cause == causeRenewal
}

// context returns the numbers of the scopes that share the model's context with a
// scope, itself included, in order: those with the same id, unless the context was
// emptied between them. A scope without an id shares its context with no other scope.
func (c *scopes) context(scope int) (same []int) {
	hs := c.hard.Sessions[scope]
	if hs == nil || hs.ID == "" {
		return []int{scope}
	}
	for n := 1; n <= c.hard.Scope; n++ {
		switch other := c.hard.Sessions[n]; {
		case other == nil || other.ID != hs.ID:
			continue
		case other.Empty && n > scope:
			return same
		case other.Empty:
			same = nil
		}
		same = append(same, n)
	}
	return same
}

func (c *scopes) number() int                  { return c.hard.Scope }
func (c *scopes) of(scope int) *harnessSession { return c.hard.Sessions[scope] }
func (c *scopes) current() *harnessSession     { return c.hard.Sessions[c.hard.Scope] }

// id returns the id of a scope as a pointer, for a member that may be null; nil
// while it is unknown.
func (c *scopes) id(scope int) *string {
	if hs := c.hard.Sessions[scope]; hs != nil && hs.ID != "" {
		return new(hs.ID)
	}
	return nil
}

// begun reports whether the current harness session has started. The method identified
// reports whether the id of the current harness session is known.
func (c *scopes) begun() bool      { return c.current() != nil && c.current().Started }
func (c *scopes) identified() bool { return c.current() != nil && c.current().ID != "" }

func (c *scopes) known(id string) bool {
	for _, hs := range c.hard.Sessions {
		if hs.ID == id {
			return true
		}
	}
	return false
}

// ended reports whether a harness session of this id has ended and was not started
// again.
func (c *scopes) ended(id string) bool {
	if hs := c.current(); hs.ID == id && !hs.Ended {
		return false
	}
	for _, hs := range c.hard.Sessions {
		if id != "" && hs.ID == id && hs.Ended {
			return true
		}
	}
	return false
}

// prompted returns the id of the newest harness session that had a prompt, since the
// newest fresh attempt began. A session without a prompt need not be continued. A
// session from before this attempt must not be continued: its attempt may have broken a
// guardrail, or have had another harness.
func (c *scopes) prompted() string {
	for scope := c.hard.Scope; scope > 0 && scope >= c.hard.Fresh; scope-- {
		if hs := c.hard.Sessions[scope]; hs != nil && hs.Prompted && hs.ID != "" {
			return hs.ID
		}
	}
	return ""
}

// open begins a scope and emits session.starting. h is the hook that reports the
// new harness session, or nil.
func (c *scopes) open(s *step, id, cause string, ev []lifeloop.Evidence, h *hook) {
	cause = cmp.Or(cause, "unknown")
	emptied := cause == "clear"
	if s.renewals.cleared(s, cause) {
		cause, emptied = causeRenewal, true
	}
	s.record(HarnessSessionOpened{Scope: c.hard.Scope + 1, ID: id, Cause: cause})
	if before := c.hard.Sessions[c.hard.Scope-1]; before != nil {
		s.pressure.newScope(s, before.ID == id && id != "" && !emptied)
	}
	s.renewals.opened(s)
	s.slots.inside(s, h, s.emit(emission{event: lifeloop.SessionStarting, evidence: ev, data: map[string]any{"cause": cause}}), "")
}

// start emits session.started once. If cause is empty, the event has the cause of
// the scope.
func (c *scopes) start(s *step, cause string, ev []lifeloop.Evidence, h *hook) {
	hs := c.current()
	if hs.Started || hs.Ending {
		return
	}
	cause = cmp.Or(cause, hs.Cause, "unknown")
	if hs.Cause == causeRenewal { // the harness reports another cause, because it does not know about the renewal
		cause = causeRenewal
	}
	s.slots.inside(s, h, s.emit(emission{event: lifeloop.SessionStarted, evidence: ev, data: map[string]any{"cause": cause}}), "")
	s.health.earlyTroubles(s)
	s.renewals.live(s)
}

// endScope ends the current harness session and everything that is open in it.
func (s *step) endScope(reason string, ev []lifeloop.Evidence) {
	s.scopes.stopWaiting(s)
	s.turns.closeAll(s, ev)
	s.pressure.flush(s)
	s.scopes.end(s, reason, ev)
	if hs := s.scopes.current(); !hs.Ended {
		s.emit(emission{event: lifeloop.SessionEnded, evidence: ev, data: map[string]any{"reason": hs.Reason}})
		s.renewals.left(s)
	}
	s.slots.giveUpScope(s, s.scopes.number(), "the harness session ended")
}

// end emits session.ending once.
func (c *scopes) end(s *step, reason string, ev []lifeloop.Evidence) {
	if hs := c.current(); !hs.Ending {
		s.emit(emission{event: lifeloop.SessionEnding, evidence: ev, data: map[string]any{"reason": reason}})
	}
}

// lastRecords is how long a reported end of a harness session waits for the record of
// the last turn's end.
const lastRecords = time.Second

// gone handles the harness's report that its session ends. The process may still
// write, so session.ended waits for its exit, unless the harness continues with
// another session.
func (c *scopes) gone(s *step, sig telemetry.Signal) {
	hs := c.current()
	if hs.ID != "" && sig.Session != "" && sig.Session != hs.ID || hs.Ended {
		return
	}
	if hs.ID == "" && sig.Session != "" {
		c.bind(s, sig.Session, "", sig.Source+": "+sig.Detail)
	}
	c.start(s, "unknown", by(sig), nil) // a session that ends must have started
	// After clear and resume, the harness continues with another session. An observer
	// gets no other report of the end.
	if sig.Reason == "clear" || sig.Reason == "resume" || s.cfg.Observing {
		s.endScope(s.renewals.reason(sig.Reason), by(sig))
		return
	}
	// The hook that reports the session's end may come before the record of the
	// last turn's end was read.
	if f := s.turns.top(); f != nil && !f.Ending && s.attempts.exit() == nil {
		c.soft.gone, c.soft.goneDue = &sig, s.now.Add(lastRecords)
		return
	}
	c.endReported(s, sig)
}

// endReported closes the frames of a harness session whose end was reported, and
// emits session.ending.
func (c *scopes) endReported(s *step, sig telemetry.Signal) {
	c.launching()
	s.turns.closeAll(s, by(sig))
	c.end(s, sig.Reason, by(sig))
}

// stopWaiting ends the wait for the end of the last turn, if a reported end of the
// session waits for it.
func (c *scopes) stopWaiting(s *step) {
	if sig := c.soft.gone; sig != nil {
		c.endReported(s, *sig)
	}
}

// launching discards the reported end of a harness session. It is called before a launch,
// because the report is about the previous launch, and by endReported, which handles the
// report itself.
func (c *scopes) launching() { c.soft.gone, c.soft.goneDue = nil, time.Time{} }

func (c *scopes) next(*Kernel) time.Time { return c.soft.goneDue }
func (c *scopes) wake(s *step)           { c.stopWaiting(s) }

// bind sets the id of the current scope, that is, of the newest harness session. cause is
// the reason that the harness gave for the start of this session; empty if it gave none.
func (c *scopes) bind(s *step, id, cause, reason string) {
	empty := beginsEmpty(cause) || beginsEmpty(c.current().Cause) && c.current().Cause != "startup" // "startup" may be only what the launch assumed, so it does not prove that the context is empty
	s.record(Bound{Scope: c.hard.Scope, ID: id, Was: c.current().ID, Reason: reason, Empty: c.known(id) && empty})
	s.slots.bound(s)
}

// maxRefused is how many BindRefused are recorded at most.
const maxRefused = 64

// refuse records, once for each id, that a source names a harness session that nothing
// links to this session of the wrapper. Two sessions may share a folder, so a file in the
// folder does not prove a link.
func (c *scopes) refuse(s *step, sig telemetry.Signal) {
	if c.known(sig.Session) || c.soft.refused[sig.Session] || len(c.soft.refused) >= maxRefused {
		return
	}
	c.soft.refused[sig.Session] = true
	s.record(BindRefused{Scope: c.hard.Scope, ID: sig.Session,
		Reason: sig.Source + ": " + sig.Detail + " names another harness session, which no hook or launch links to the current one"})
}

func (c *scopes) recall(past *scopes) { c.soft = past.soft }
