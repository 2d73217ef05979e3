package kernel

import (
	"cmp"
	"slices"
	"time"

	"lifeloop/attempt"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/session"
)

// ending handles the end of the harness and of the session. A harness is ended
// by a sequence of signals, called rungs; each has a part of the grace period:
//
//	quit or the abort's own signal ──► TERM ──► KILL to the whole tree
//
// A second abort sends KILL at once, unless it comes within repeatTime of the
// first: other programs often send the same signal several times. After the last
// launch, the clients have some time, the drain period, to answer. Then the
// processes that clients left behind are ended, and the session moves to its
// terminal state.
type ending struct {
	hard struct {
		Requested bool // an abort was requested
		Signal    int  // signal of the abort; 0 if neither a harness nor a planned launch was left to end
		Why       string
	}
	soft struct {
		early    *input.AbortAsked // the abort was requested before the session began
		aborted  time.Time         // when the last abort was handled; repetitions do not count
		rung     int               // the number of the newest rung; 0 before the first
		first    int               // the signal of the first rung
		stopDue  time.Time         // when the next rung is due
		killAt   time.Time         // the end of the grace period of the harness and of the processes below it
		drainDue time.Time
		draining bool
		left     bool // the harness has ended, but processes below it still run
		waits    bool // DrainBegan was recorded
		clients  clientsEnd
	}
}

// clientsEnd says whether the clients' processes run, are being ended, or are gone.
type clientsEnd int

const (
	clientsRun clientsEnd = iota
	clientsEnding
	clientsGone
)

type (
	// AbortRequested records that the wrapper was asked to end.
	AbortRequested struct {
		Signal int    `json:"signal"`
		Reason string `json:"reason,omitempty"`
	}
	// StopSent records that the signal of one rung was sent.
	StopSent struct {
		Rung   int  `json:"rung"`
		Signal int  `json:"signal"`
		Tree   bool `json:"tree,omitempty"`
	}
	// StopResult records the effect of a rung.
	StopResult struct {
		Rung   int    `json:"rung"`
		Effect string `json:"effect"` // "ended"; "partly", if some processes ran longer than the harness; or "none"
	}
	// ProcessesKilled names processes that got KILL, because they did not end by
	// themselves. More is the number of killed processes that are not listed. Clients
	// says that clients started them; otherwise the harness did.
	ProcessesKilled struct {
		Run       string          `json:"run"`
		Clients   bool            `json:"clients,omitempty"`
		Processes []input.Process `json:"processes"`
		More      int             `json:"more,omitempty"`
	}
	// DrainBegan records that the harness ended, and that clients may answer until
	// the time Until.
	DrainBegan struct {
		Until time.Time `json:"until"`
	}
)

func (StopSent) key() (string, bool)   { return "stop_sent", true }
func (StopSent) apply(*Kernel)         {}
func (StopResult) key() (string, bool) { return "stop_took", false }
func (StopResult) apply(*Kernel)       {}

func (ProcessesKilled) key() (string, bool) { return "killed", true }
func (ProcessesKilled) apply(*Kernel)       {}

func (DrainBegan) key() (string, bool) { return "drain_began", true }
func (DrainBegan) apply(*Kernel)       {}

func (AbortRequested) key() (string, bool) { return "abort_requested", true }
func (f AbortRequested) apply(k *Kernel) {
	h := &k.ending.hard
	h.Requested = true
	// Keep the abort's signal, which determines the exit code, only if there is a
	// harness or a planned launch to end.
	if h.Signal == 0 && (k.attempts.exit() == nil || k.recovery.planned() != nil || k.renewals.between()) {
		h.Signal, h.Why = f.Signal, cmp.Or(f.Reason, signalName(f.Signal))
	}
}

func (e *ending) requested() bool          { return e.hard.Requested }
func (e *ending) signal() int              { return e.hard.Signal }
func (e *ending) early() *input.AbortAsked { return e.soft.early }
func (e *ending) stopping() bool           { return e.soft.rung > 0 }
func (e *ending) draining() bool           { return e.soft.draining }

// drainTime returns how long the drain still lasts.
func (e *ending) drainTime(now time.Time) time.Duration { return e.soft.drainDue.Sub(now) }

// launching clears the state of the previous launch's end.
func (e *ending) launching() { e.soft.rung, e.soft.first, e.soft.left = 0, 0, false }

func (e *ending) next(*Kernel) time.Time { return sooner(e.soft.stopDue, e.soft.drainDue) }

func (e *ending) wake(s *step) {
	if s.due(e.soft.stopDue) {
		e.nextRung(s)
	}
	if s.due(e.soft.drainDue) {
		e.soft.drainDue = time.Time{}
		e.drainOver(s)
	}
}

// repeatTime is how long after an abort another one counts as its repetition
// (DECISIONS A2).
const repeatTime = 2 * time.Second

// abort begins to end the harness. After the command `abort`, the first signal is the
// harness's own quit signal. Otherwise the first signal is the one that the wrapper
// received: without the wrapper, the harness would have received that signal.
func (e *ending) abort(s *step, in input.AbortAsked) {
	if s.session.is(session.None) {
		e.soft.early = &in
		return
	}
	if !e.soft.aborted.IsZero() && s.now.Before(e.soft.aborted.Add(repeatTime)) {
		if in.Ask != "" {
			s.record(CommandReceived{What: "abort", Reason: in.Reason})
			s.do(effect.Reply{Ask: in.Ask})
		}
		return
	}
	s.recovery.settle(s, lifeloop.StateConflict, "the run is aborted")
	again := e.hard.Signal != 0
	repeated := again || !e.soft.aborted.IsZero()
	e.soft.aborted = s.now
	s.record(AbortRequested{Signal: in.Signal, Reason: in.Reason})
	if in.Ask != "" {
		s.do(effect.Reply{Ask: in.Ask})
	}
	if s.cfg.OneHook || s.cfg.Observing { // an observer has no harness to end
		s.sourcesDrained()
		e.drainOver(s)
		return
	}
	switch {
	case again && s.attempts.alive():
		e.noEffect(s)
		e.send(s, sigKILL, true)
	case repeated && e.soft.left: // the last rung has its result already: the harness ended. KILL ends the rest of its tree now
		e.send(s, sigKILL, true)
		e.soft.left = false
	}
	if e.soft.draining {
		e.drainOver(s) // the session only waits for clients
	}
	renewing := s.renewals.between()
	if again || s.attempts.exit() != nil && s.recovery.planned() == nil && !renewing {
		return
	}
	if s.session.active() {
		s.session.move(s, session.Aborting, cmp.Or(in.Reason, signalName(in.Signal)))
	}
	if s.session.pausedByCommand() {
		s.session.unpause(s, beingEnded)
	}
	switch {
	case s.recovery.planned() != nil:
		s.recovery.giveUp(s, attempt.Aborted, "")
	case renewing:
		s.renewals.abandon(s, "the run was aborted")
	case s.guards.launching():
		s.guards.settle(s, "the run was aborted")
	case !s.attempts.alive():
	case in.Ask != "":
		e.stop(s, cmp.Or(s.cfg.Quit, in.Signal))
	default:
		e.stop(s, in.Signal)
	}
}

// aborting moves a recovered session to ABORTING, if the wrapper died between the
// request of an abort and this move.
func (e *ending) aborting(s *step) {
	if s.session.active() {
		s.session.move(s, session.Aborting, e.hard.Why)
	}
}

// stop sends the signal of the first rung, unless the harness is already being
// ended.
func (e *ending) stop(s *step, signal int) {
	if e.soft.rung == 0 {
		e.soft.first = signal
		e.nextRung(s)
	}
}

// nextRung sends the signal of the next rung, and sets when the rung after it is
// due. Without a grace period, it sends the signals of all following rungs as well.
func (e *ending) nextRung(s *step) {
	grace := s.cfg.AbortGrace
	e.noEffect(s)
	switch {
	case e.soft.rung == 0 && e.soft.first == sigTERM:
		e.send(s, sigTERM, false)
		e.soft.stopDue = s.now.Add(grace)
	case e.soft.rung == 0:
		e.send(s, e.soft.first, false)
		e.soft.stopDue = s.now.Add(grace / 2)
	case e.soft.rung == 1 && e.soft.first != sigTERM:
		e.send(s, sigTERM, false)
		e.soft.stopDue = s.now.Add(grace / 2)
	default:
		e.send(s, sigKILL, true)
	}
	if s.due(e.soft.stopDue) { // the grace period is 0, so the next rung is due at once
		e.nextRung(s)
	}
}

// noEffect records that the last rung, if there was one, had no effect.
func (e *ending) noEffect(s *step) {
	if e.soft.rung > 0 {
		s.record(StopResult{Rung: e.soft.rung, Effect: "none"})
	}
}

func (e *ending) send(s *step, signal int, tree bool) {
	e.soft.rung++
	s.record(StopSent{Rung: e.soft.rung, Signal: signal, Tree: tree})
	if e.soft.rung == 1 {
		e.soft.killAt = s.now.Add(s.cfg.AbortGrace)
	}
	stop := effect.Stop{Signal: signal, Tree: tree}
	if !tree {
		stop.Grace = max(e.soft.killAt.Sub(s.now), 0)
	}
	s.do(stop)
	e.soft.stopDue = time.Time{}
}

// exited records the effect of the last rung.
func (e *ending) exited(s *step, leftover int) {
	e.soft.stopDue, e.soft.left = time.Time{}, leftover > 0
	if e.soft.rung == 0 {
		return
	}
	took := "ended"
	if leftover > 0 {
		took = "partly" // processes below the harness still run; the guard ends them
	}
	s.record(StopResult{Rung: e.soft.rung, Effect: took})
}

// sourcesDrained handles the input SourcesDrained. The fact about killed processes
// comes before the end of their attempt.
func (e *ending) sourcesDrained(s *step, in input.SourcesDrained) {
	e.soft.left = false
	if len(in.Killed) > 0 && !e.soft.draining {
		s.record(ProcessesKilled{Run: s.attempts.run(), Processes: in.Killed, More: in.More})
	}
	s.sourcesDrained()
}

// clientsEnded records the processes that clients left behind and that were killed.
func (e *ending) clientsEnded(s *step, in input.ClientsEnded) {
	if len(in.Killed) > 0 {
		s.record(ProcessesKilled{Run: s.attempts.run(), Clients: true, Processes: in.Killed, More: in.More})
	}
	e.soft.clients = clientsGone
}

// sourcesDrained ends the launch, or the observation: no source has more to
// report.
func (s *step) sourcesDrained() {
	if s.ending.draining() || s.recovery.between() || s.renewals.between() {
		return
	}
	s.books.save(s)
	s.pressure.save(s)
	if s.cfg.Observing || s.cfg.OneHook {
		// Emit the reports about the context that are still pending. Open frames stay
		// open, because no source reported their end.
		s.pressure.flush(s)
		s.slots.giveUpScope(s, s.scopes.number(), "no further hook can deliver it")
		s.ending.drain(s)
		return
	}
	if s.attempts.exit() == nil {
		return // a second SourcesDrained came while the next launch waits for the gate's decision
	}
	if why := s.attempts.endReason(); !s.scopes.current().Ended {
		s.endScope(why, own("process: "+why))
	}
	if !s.renewals.drained(s) {
		s.attempts.over(s)
	}
}

// drain gives the clients a last period to answer.
func (e *ending) drain(s *step) {
	s.renewals.conclude(s, "the session ended")
	e.soft.draining = true
	e.soft.drainDue = s.now.Add(s.cfg.ClientDrain)
	e.wait(s)
	s.slots.answerAll(s)
}

// wait records DrainBegan once during the drain, when a client has something to
// answer: usually when the drain begins, but sometimes only at a later event.
func (e *ending) wait(s *step) {
	if e.soft.draining && !e.soft.waits && s.router.open() {
		e.soft.waits = true
		s.record(DrainBegan{Until: e.soft.drainDue.UTC()})
	}
}

// drainOver ends the drain: it gives up open hooks, waiting payloads, and calls
// that clients did not answer in time.
func (e *ending) drainOver(s *step) {
	s.slots.closeAll(s)
	for scope := range s.scopes.number() {
		s.slots.giveUpScope(s, scope+1, "the session ended")
	}
	s.router.giveUp(s)
}

// finish moves the session to its terminal state once nothing is open. This move is
// the last fact of every session.
func (e *ending) finish(s *step) {
	e.wait(s)
	if !e.soft.draining || s.router.open() || s.slots.open() || s.State().Terminal() {
		return
	}
	programs := slices.ContainsFunc(s.cfg.Clients, func(c setup.Client) bool { return c.Program })
	switch {
	case !programs || s.session.closing():
		// No client process is left: either no client is a program, or the wrapper has
		// died, and its clients have ended with the wrapper.
	case e.soft.clients == clientsRun:
		e.soft.clients = clientsEnding
		s.do(effect.EndClients{})
		return
	case e.soft.clients == clientsEnding:
		return
	}
	switch {
	case s.session.is(session.Aborting):
		s.session.move(s, session.Aborted, cmp.Or(e.hard.Why, s.attempts.endReason()))
	case s.cfg.Observing && s.turns.unfinished(s.attempts.lastTurn()) != "":
		s.session.move(s, session.Failed, s.turns.unfinished(s.attempts.lastTurn()))
	case s.attempts.completed(), s.cfg.Observing, s.cfg.OneHook:
		s.end(session.Completed)
	default:
		s.end(session.Failed)
	}
}

// end moves the session to COMPLETED or FAILED. A session that was paused when its
// harness ended moves to RUNNING first.
func (s *step) end(to session.State) {
	why, left := s.attempts.failure(), "the harness ended while the session was paused"
	if s.session.closing() {
		left = supervisorLost
		if last := s.attempts.last(); to == session.Failed && (last == nil || last.Detail == supervisorLost) {
			why = supervisorLost
		}
	}
	if s.session.is(session.Paused) {
		s.session.move(s, session.Running, left)
	}
	if t := s.session.timeout(); t != "" {
		why = timeoutReason(t)
	}
	s.session.move(s, to, why)
}

// Without a ledger the run continues, but nothing more is recorded.
const (
	ledgerLost    = "the ledger can no longer be written"
	ledgerRefuses = ledgerLost + ", so commands are refused"
)

// ledgerLost continues the run without a ledger: from now on hooks get empty
// answers, no client is called, and the capability of a receipt ledger is
// unavailable (DECISIONS X4).
func (s *step) ledgerLost() {
	const why = ledgerLost
	s.session.loseLedger()
	s.guards.settle(s, why) // refuse a waiting launch, because its permission could not be recorded
	if s.session.state().Terminal() {
		return // settle has refused the first launch, for which the session waited
	}
	waiting := s.session.is(session.Paused) && !s.session.pausedBySignal(s.Kernel)
	if s.session.pausedByCommand() {
		s.session.unpause(s, why)
	}
	if waiting {
		s.session.move(s, session.Running, why)
	}
	s.health.assess(s, why)
	s.router.failQueued(s, why)
	s.slots.giveUpIf(s, why, func(*parcel) bool { return true })
	s.slots.answerAll(s)
	s.recovery.settle(s, lifeloop.InternalError, why)
	switch {
	case s.recovery.planned() != nil: // do not wait for the next launch
		s.recovery.giveUp(s, attempt.Fatal, why)
	case s.renewals.between():
		s.renewals.abandon(s, why)
	default:
		s.renewals.conclude(s, why)
	}
}
