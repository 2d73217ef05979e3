package kernel

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"lifeloop/attempt"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/session"
)

// This file is the way in and the way out: negotiation and launch, then the
// order of the end (ARCHITECTURE, Shutdown): the terminal first, then the
// sources to their end, then what is left to tell, then the clients' time.

const (
	sigKILL = 9
	sigINT  = 2
	sigTERM = 15
)

func (s *step) start() {
	began := s.cfg.Began
	began.Budget = s.budget()
	s.record(began)
	s.begin()
}

// begin takes a session from nothing to its first launch.
func (s *step) begin() {
	if s.hard.State == session.None {
		s.move(session.Pending, "start")
	}
	if in := s.soft.abortedEarly; in != nil {
		s.record(AbortRequested{Signal: in.Signal, Reason: in.Reason})
		if in.Ask != "" {
			s.do(Reply{Ask: in.Ask})
		}
		s.move(session.Rejected, "aborted_before_start")
		return
	}
	if why, class := s.negotiate(); class != "" {
		s.refuse(why, class)
		return
	}
	s.move(session.Running, "approved")
	if s.cfg.Observing || s.cfg.OneHook {
		return
	}
	if d := s.cfg.Policy.Session; d > 0 {
		s.record(DeadlineSet{Timer: TimerSession, At: s.now.Add(d).UTC()})
	}
	s.launch("first", nil)
}

// cause is why the first harness session begins.
func (s *step) cause() string { return cmp.Or(s.cfg.Cause, "startup") }

// negotiate evaluates what the owner and the clients require. The first
// refusal ends it, before anything has happened.
func (s *step) negotiate() (why string, class lifeloop.FailureClass) {
	ask := func(client string, wants []negotiate.Want) {
		for _, r := range negotiate.Capabilities(s.manifest(), wants) {
			s.record(Negotiated{Client: client, Capability: r.Want.Capability, Level: string(r.Want.Level),
				Outcome: string(r.Outcome), Have: string(r.Have)})
			if r.Warning != "" {
				for _, who := range warned(client, s.cfg.Clients) {
					s.soft.warnings[who] = append(s.soft.warnings[who], r.Warning)
				}
			}
			if r.Failure == "" || class != "" {
				continue
			}
			class = r.Failure
			why = fmt.Sprintf("required capability %s is %s", r.Want.Capability, r.Have)
			if client != "" {
				why = fmt.Sprintf("client %s: %s", client, why)
			}
		}
	}
	ask("", s.cfg.Wants)
	for _, c := range s.cfg.Clients {
		ask(c.ID, c.Wants)
	}
	return why, class
}

// refuse ends the session before it began: a failed receipt for each client
// and no lifecycle event (DECISIONS H5).
func (s *step) refuse(why string, class lifeloop.FailureClass) {
	s.record(HarnessSessionOpened{Scope: 1, ID: s.cfg.HarnessSession, Cause: s.cause()})
	s.activeBy(stopped, wrapperSource, "refused", time.Time{})
	clients := s.cfg.Clients
	if len(clients) == 0 {
		clients = []Client{{ID: SelfClient}}
	}
	for _, c := range clients {
		s.receiptFor(&call{Client: c.ID, Event: lifeloop.SessionStarting, EventID: s.cfg.NewID("evt_"),
			Invocation: s.invocation(), Mode: lifeloop.LauncherWrapper, Scope: 1}, lifeloop.Failed, class, "", []string{why})
	}
	s.move(session.Rejected, why)
}

// manifest is the adapter's manifest with what this launch cannot have taken
// out of it.
func (s *step) manifest() lifeloop.Manifest {
	m := s.cfg.Manifest
	for _, w := range s.cfg.Weak {
		m = negotiate.Weaken(m, w.Capability, lifeloop.Unavailable)
	}
	return m
}

// warned are the clients whose receipts say what a preferred capability came
// to: the one that asked, and for what the owner asked, all.
func warned(client string, all []Client) []string {
	switch {
	case client != "":
		return []string{client}
	case len(all) == 0:
		return []string{SelfClient}
	}
	var ids []string
	for _, c := range all {
		ids = append(ids, c.ID)
	}
	return ids
}

// negotiationWarnings are what a client must be told of its preferred
// capabilities, once, with its first receipt.
func (s *step) negotiationWarnings(k *call) []string {
	w := s.soft.warnings[k.Client]
	delete(s.soft.warnings, k.Client)
	return w
}

func (s *step) launched(in Launched) {
	s.record(Running{Run: s.hard.Run, PID: in.PID})
	if in.Setup != nil {
		s.cfg.Setup = *in.Setup
		s.soft.synth.Use(in.Setup.Synth)
		if id := in.Setup.HarnessSession; id != "" && s.current().ID == "" {
			s.bind(id, "launch: the harness was told to use it")
		}
		s.weakened()
	}
	s.soft.attempt.quiet = s.now
	if after := s.cfg.Policy.Initial; after > 0 {
		s.record(TimerSet{Timer: TimerInitial, AfterMS: after.Milliseconds()})
	}
	if s.cfg.Hooks {
		s.soft.hookDue = s.now.Add(s.cfg.HookPatience)
	}
	if s.wantsTick() {
		s.soft.tickDue = s.now.Add(s.cfg.Tick)
	}
	if s.cfg.NoTelemetry {
		s.started("", own("the process runs"), nil)
		s.activeBy(working, wrapperSource, "the process runs", time.Time{})
	}
	if s.hard.AbortBy != 0 { // asked to end before there was anything to end
		s.soft.stopBy = s.hard.AbortBy
		s.nextRung()
	}
}

func (s *step) launchFailed(in LaunchFailed) {
	s.soft.launchWhy = in.Why
	s.activeBy(stopped, wrapperSource, "not started", time.Time{})
	s.record(Exited{Run: s.hard.Run, Code: in.Code, NotStarted: true, Transient: in.Transient})
	s.do(Release{})
	s.sourcesDrained()
}

func (s *step) childStopped(in ChildStopped) {
	if s.hard.State == session.Running {
		s.move(session.Paused, "stopped by "+signalName(in.Signal))
	}
}

func (s *step) childContinued() {
	switch {
	case s.stopped():
		s.soft.attempt.quiet = s.now
		s.goesOnAgain()
		s.move(session.Running, "continued")
	case s.hard.Held && s.hard.Alive:
		s.heldAgain()
	}
}

// abortAsked starts the way down: first the signal that we were sent, for that
// is what the harness would have been sent without us; then TERM; then KILL to
// everything below. A second request skips the rest.
func (s *step) abortAsked(in AbortAsked) {
	if s.hard.State == session.None {
		s.soft.abortedEarly = &in
		return
	}
	again := s.hard.AbortBy != 0
	s.record(AbortRequested{Signal: in.Signal, Reason: in.Reason})
	if in.Ask != "" {
		s.do(Reply{Ask: in.Ask})
	}
	if s.cfg.OneHook { // its time is up
		s.sourcesDrained()
		s.drainOver()
		return
	}
	if again && s.hard.Alive {
		s.tookNothing()
		s.stop(sigKILL, true)
	}
	if s.soft.draining {
		s.drainOver() // the harness is gone; only the clients are being waited for
	}
	if again || s.hard.Exit != nil && s.hard.Next == nil {
		return
	}
	if s.hard.State == session.Running || s.hard.State == session.Paused {
		s.move(session.Aborting, cmp.Or(in.Reason, signalName(in.Signal)))
	}
	if s.hard.Held {
		s.free(ending)
	}
	switch {
	case s.hard.Next != nil:
		s.noAttempt(attempt.Aborted, "")
	case s.hard.Alive && s.soft.stopRung == 0: // else it is on its way down already, and has its time
		s.soft.stopBy = in.Signal
		if in.Ask != "" {
			s.soft.stopBy = cmp.Or(s.cfg.Quit, in.Signal)
		}
		s.nextRung()
	}
}

// nextRung sends the next signal of the way down and says when the one after
// it is due.
func (s *step) nextRung() {
	grace := s.cfg.AbortGrace
	s.tookNothing()
	switch {
	case s.soft.stopRung == 0 && s.soft.stopBy == sigTERM:
		s.stop(sigTERM, false)
		s.soft.stopDue = s.now.Add(grace)
	case s.soft.stopRung == 0:
		s.stop(s.soft.stopBy, false)
		s.soft.stopDue = s.now.Add(grace / 2)
	case s.soft.stopRung == 1 && s.soft.stopBy != sigTERM:
		s.stop(sigTERM, false)
		s.soft.stopDue = s.now.Add(grace / 2)
	default:
		s.stop(sigKILL, true)
	}
}

// tookNothing records that the last rung, if there was one, had no effect.
func (s *step) tookNothing() {
	if s.soft.stopRung > 0 {
		s.record(StopResult{Rung: s.soft.stopRung, Effect: "none"})
	}
}

func (s *step) stop(signal int, tree bool) {
	s.soft.stopRung++
	s.record(StopSent{Rung: s.soft.stopRung, Signal: signal, Tree: tree})
	s.do(Stop{Signal: signal, Tree: tree})
	s.soft.stopDue = time.Time{}
}

func (s *step) childExited(in ChildExited) {
	s.soft.stopDue, s.soft.hookDue, s.soft.tickDue = time.Time{}, time.Time{}, time.Time{}
	s.record(Exited{Run: s.hard.Run, Code: in.Code, Signal: in.Signal, Leftover: in.Leftover, Lost: in.Lost, OutputLost: in.OutputLost})
	if s.soft.stopRung > 0 {
		effect := "ended"
		if in.Leftover > 0 {
			effect = "partly" // the guard ends the others
		}
		s.record(StopResult{Rung: s.soft.stopRung, Effect: effect})
	}
	s.activeBy(stopped, wrapperSource, s.endReason(), time.Time{})
	s.do(Release{})
	s.do(DrainSources{})
}

// sourcesDrained tells the end, of the launch or of all that was observed: every
// source has said what it had to say.
func (s *step) sourcesDrained() {
	if s.soft.draining || s.hard.Next != nil {
		return
	}
	s.keepBooks(true)
	if s.cfg.Observing || s.cfg.OneHook {
		s.flushSynth() // what is open stays open: nothing was seen of its end
		s.giveUpScope(s.hard.Scope, "no slot is left")
		s.beginDrain()
		return
	}
	if !s.current().Ended {
		s.over(s.endReason(), own("process: "+s.endReason()))
	}
	s.attemptOver()
}

// beginDrain gives the clients their last time together.
func (s *step) beginDrain() {
	s.soft.draining = true
	s.soft.drainDue = s.now.Add(s.cfg.ClientDrain)
	if len(s.hard.Calls) > 0 {
		s.record(DrainBegan{Until: s.soft.drainDue.UTC()})
	}
	for _, id := range append([]string(nil), s.soft.hookOrder...) {
		if h := s.soft.hooks[id]; !h.answered {
			s.answerHook(h)
		}
	}
}

// drainOver gives up what clients did not answer in time.
func (s *step) drainOver() {
	for _, id := range append([]string(nil), s.soft.hookOrder...) {
		s.hookClosed(HookClosed{Hook: id})
	}
	for scope := range s.hard.Scope {
		s.giveUpScope(scope+1, "the session ended")
	}
	for _, c := range s.cfg.Clients {
		if f, busy := s.soft.flying[c.ID]; busy {
			delete(s.soft.flying, c.ID)
			s.do(Cancel{f.call})
			if k := s.hard.Calls[f.call]; k != nil {
				s.record(Answered{Call: f.call, Failure: lifeloop.Timeout})
				s.receiptFor(k, lifeloop.Failed, lifeloop.Timeout, "", []string{"the session ended before the client answered"})
			}
		}
		q := s.soft.queue[c.ID]
		s.soft.queue[c.ID] = nil
		for _, id := range q {
			if k := s.hard.Calls[id]; k != nil {
				s.receiptFor(k, lifeloop.Failed, lifeloop.Timeout, "", []string{"the session ended before the client was free"})
			}
		}
	}
	// What receipt.emitted queued meanwhile has nobody left to hear it.
	for _, c := range s.cfg.Clients {
		for _, id := range s.soft.queue[c.ID] {
			if k := s.hard.Calls[id]; k != nil {
				s.receiptFor(k, lifeloop.Failed, lifeloop.Timeout, "", []string{"the session ended"})
			}
		}
		s.soft.queue[c.ID] = nil
	}
}

// finish moves the session to its terminal state once nothing is open. It is
// the last fact of every session.
func (s *step) finish() {
	if !s.soft.draining || len(s.hard.Calls) > 0 || len(s.soft.hooks) > 0 || s.hard.State.Terminal() {
		return
	}
	switch h := &s.hard; {
	case h.State == session.Aborting:
		s.move(session.Aborted, h.AbortWhy)
	case h.Last != nil && h.Last.Cause == "", s.cfg.Observing, s.cfg.OneHook:
		s.ended(session.Completed)
	default:
		s.ended(session.Failed)
	}
}

// ended moves to a terminal state by way of RUNNING, where the session was
// stopped by job control when its harness died.
func (s *step) ended(to session.State) {
	if s.hard.State == session.Paused {
		s.move(session.Running, "the stopped harness ended")
	}
	s.move(to, s.lastReason())
}

// lastReason is why the session ended: its own time, what failed an attempt
// that ended well by itself, or how the harness ended.
func (s *step) lastReason() string {
	h := &s.hard
	switch {
	case h.TimedOut != nil:
		return timeoutReason(h.TimedOut.Timer)
	case h.Last == nil, h.Exit == nil:
	case h.Limit != nil && h.Last.Cause == attempt.RateLimit:
		return string(attempt.RateLimit)
	case h.Last.Cause == attempt.Guardrail:
		return "guardrail " + h.Last.Detail
	case h.Last.Cause == attempt.Drift, h.Last.Cause != "" && h.Exit.Code == 0 && h.Exit.Signal == 0 && !h.Exit.OutputLost && !h.Exit.Lost && !h.Exit.Unseen:
		return string(h.Last.Cause)
	case h.Last.Cause == attempt.Timeout:
		return h.Last.Detail + " timeout"
	}
	return s.endReason()
}

// endReason is the word that session.ended carries: what the harness called
// it, else how its process ended.
func (s *step) endReason() string {
	switch e := s.hard.Exit; {
	case e == nil:
		return "end of observation"
	case e.NotStarted:
		return "not started"
	case e.Unseen:
		return supervisorLost
	case e.Lost:
		return "guard lost"
	case e.Signal != 0:
		return signalName(e.Signal)
	default:
		return "exit " + strconv.Itoa(e.Code)
	}
}

// ledgerLost ends all acting: hooks are answered empty, nobody is called, and
// nothing durable is claimed any more (DECISIONS X4).
func (s *step) ledgerLost() {
	s.soft.lame = true
	stands := s.hard.State == session.Paused && !s.stopped()
	if s.hard.Held {
		s.free("the ledger is lost")
	}
	if stands {
		s.move(session.Running, "the ledger is lost")
	}
	s.degrade("receipts.receipt_ledger", s.cfg.Manifest.Receipts.ReceiptLedger, lifeloop.Unavailable, "the ledger refused a write")
	for _, c := range s.cfg.Clients {
		q := s.soft.queue[c.ID]
		s.soft.queue[c.ID] = nil
		for _, id := range q {
			s.receiptFor(s.hard.Calls[id], lifeloop.Failed, lifeloop.InternalError, "", []string{"the ledger is lost"})
		}
	}
	for _, p := range append([]*parcel(nil), s.soft.waiting...) {
		if p.hook == "" {
			s.giveUp(p, "the ledger is lost")
		}
	}
	for _, id := range append([]string(nil), s.soft.hookOrder...) {
		if h := s.soft.hooks[id]; !h.answered {
			s.answerHook(h)
		}
	}
	if s.hard.Next != nil { // nothing is launched any more, so there is nothing to run on with
		s.noAttempt(attempt.Fatal, "the ledger is lost")
	}
}

var signalNames = [...]string{1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
	9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 19: "SIGSTOP", 20: "SIGTSTP",
	21: "SIGTTIN", 22: "SIGTTOU", 24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS"}

// FatalSignals are the signals that end a process which does not mind them, by name.
func FatalSignals() map[string]int {
	all := map[string]int{}
	for n, name := range signalNames {
		if name != "" && (n < 19 || n > 22) { // those stop it
			all[name] = n
		}
	}
	return all
}

func signalName(n int) string {
	if 0 < n && n < len(signalNames) && signalNames[n] != "" {
		return signalNames[n]
	}
	return "signal " + strconv.Itoa(n)
}
