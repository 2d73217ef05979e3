// Package supervisor is the imperative shell around the kernel: one loop owns
// the kernel, the ledger and the only timer. The loop commits the kernel's facts
// and then performs its effects.
//
// The rules are in the kernel, and everything specific to a harness is behind a port.
// The package makes one decision itself: a Chooser decides which harness session an
// observer, or a launch without hooks, follows. This decision needs the content of the
// harness's files, which the kernel does not read. The kernel gets the decision as a
// signal of kernel.FolderSource and accepts it. The supervisor
// starts nothing whose fact is not in the ledger: if a write fails, it ends the harness
// and returns ErrLedger, unless Options.KeepGoing is set.
//
//	result, err := supervisor.Run(ctx, kernel.New(cfg), supervisor.Ports{
//		Ledger: log, Launcher: launcher, Clients: clients, Door: door, Signals: signals,
//	}, supervisor.Options{})
package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"lifeloop/control"
	"lifeloop/dispatch"
	"lifeloop/kernel"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/kernel/setup"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	"lifeloop/telemetry"
)

// A Ledger makes facts durable. *ledger.Log is one.
type Ledger interface {
	Append(records []ledger.Record, sync bool) ([]ledger.Entry, error)
	Close() error
}

// A Child is a running harness.
type Child interface {
	PID() int
	Signal(sig syscall.Signal) error // sends a signal to the harness's process group
	KillTree() error                 // kills all descendants of the guard
	// Stop asks the harness's process group to end. Processes that outlive the harness
	// have until the end of the grace period to clean up.
	Stop(sig syscall.Signal, grace time.Duration) error
	Wait() input.ChildExited // returns when the harness has exited and its output is drained
	LastOutput() time.Time   // when output was last read; the present time if unread output waits; zero before any output
	Continue() error         // continues the harness's process group if that is stopped, so that the group handles signals
	Gone() <-chan struct{}   // closed when no process of the harness's tree is left
	// Killed names the first processes of the harness's tree that were killed so far,
	// and counts the others.
	Killed() (named []input.Process, more int)
	Hold() error // suspends all descendants of the guard with SIGSTOP
	Free() error // continues the processes that Hold suspended
}

// A Launcher prepares launches, one after another.
type Launcher interface {
	// Prepare prepares a launch. If its error, or an error that it wraps, has a method
	// ExitCode() int, this method gives the Code of input.LaunchFailed; otherwise the
	// Code is 125.
	Prepare(effect.Launch) (Plan, error)
	Release() // restores the terminal; may be called repeatedly and at any time
}

// A Plan is a prepared launch: how to start the harness and how to observe it.
type Plan struct {
	// Setup describes the launch. The kernel's Config already holds the Setup of the
	// first launch, unless the session was recovered.
	Setup setup.Launch
	// Start starts the harness. The Child may call post and settle until Wait has
	// returned. A call of settle waits until all inputs that its caller posted before
	// the call are on the ledger, but at most settleTime. An error of Start may have a
	// method ExitCode() int, as an error of Launcher.Prepare may.
	Start func(post func(input.Input), settle func()) (Child, error)
	// Containment names the means that ends the launch if wrapper and guard are
	// killed together. The fact of the launch records it.
	Containment string
	// Sources are read from the start of the harness to its end; nil if the harness
	// has none.
	Sources Sources
	// Key is the secret that the hooks of this launch send. If it is empty, no hooks
	// were injected, and every hook call comes from another process.
	Key string
	// Callers decides which hook calls with the right Key come from the harness. It is set
	// if other programs below the harness inherit its hooks; otherwise nil.
	Callers Callers
	// DecodeHook decodes a hook call, and Answer encodes its answer.
	DecodeHook func(event string, input []byte) (telemetry.HookCall, error)
	Answer     func(event, context string) []byte
	// Refuse encodes the refusal of a tool call; nil if no hook of the launch can
	// refuse one.
	Refuse func(event string, d telemetry.Decision, reason string) []byte
	// ToolTime is how long the hook of a tool call can wait for its answer; 0
	// means Options.HookTime.
	ToolTime time.Duration
	// Requests decodes what a plugin of the launch sends, and handles the questions that
	// the harness asks the wrapper before its requests to the model; nil if there are
	// neither. Asking receives these questions; nil if the harness asks none.
	Requests telemetry.Requests
	Asking   Asking
	// Keys make the running harness begin a fresh session. They are typed only if the
	// Child implements typist, as [harness.Child] does.
	Keys Keys
	// Resets says that a plugin, and not Keys, begins the fresh session. Requests, which
	// decodes the plugin's stream, is then a [telemetry.Resetter].
	Resets bool
	// Clear encodes the answer of a hook that makes the harness empty its context, with a
	// reason for the user; nil if no hook of the harness can do so.
	Clear func(event, reason string) []byte
	// Ended, if set, is called after the processes of the launch have ended and its
	// sources were read, but before the end of the launch is recorded.
	Ended func()
}

// Callers decide which calls of a launch's hooks come from its harness. *[control.Callers]
// is one.
type Callers interface {
	Launched(pid int)      // called when the harness runs
	Own(pid int) (is bool) // reports whether the call of the process pid comes from the harness
}

// A Client answers encoded dispatch envelopes, one in each call.
type Client interface {
	Call(ctx context.Context, envelope []byte) (dispatch.Answer, error)
}

// Sources follow the files that a harness writes.
type Sources interface {
	// Run follows the files until ctx ends, and then reads each once more to its end.
	Run(ctx context.Context, post func(input.Input)) error
	Launched(pid int) // called when the harness runs
	// Watch is called when the harness has reported the path of a file. Records
	// with a time before since do not belong to the session.
	Watch(path string, since time.Time)
}

// A Door serves hook calls and commands. *control.Server is one; close it after [Run].
type Door interface {
	Serve(ctx context.Context, h control.Handler) error
}

// Ports connect a run to the code outside this package. Ledger, Door, Signals and
// Committed may be nil.
type Ports struct {
	Ledger   Ledger
	Launcher Launcher
	Clients  map[string]Client
	// EndClients ends the clients' processes and what they left behind, and names
	// what had to be killed. It is called after the last call of a client; nil if
	// no client is a process.
	EndClients func() (killed []input.Process, more int)
	// Decider is the program of the policy's retry.decide; nil if there is none.
	Decider Client
	// Gate decides about acts that the gate's policy can refuse, such as a launch or a tool
	// call; nil if there is no such policy.
	Gate Gate
	// Renewer runs the programs of renewal profiles; nil if no profile is active.
	Renewer Renewer
	// CopyTranscript copies a transcript of the harness into the session's folder; nil
	// if transcripts are not copied.
	CopyTranscript func(path string) kernel.TranscriptCopied

	Door    Door
	Signals <-chan os.Signal
	// Committed is called on the loop with the facts of one write, after the write.
	Committed func([]kernel.Entry)
}

// Options are the settings of a run. The zero value is usable.
type Options struct {
	// HookTime is the harness's time-out for a hook that waits for an answer. 0 means 5 s.
	// The hook of a tool call can have a longer time-out (Plan.ToolTime), and so can a hook
	// at the end of a turn (endTime). The answer is sent at least hookMargin before the
	// time-out.
	HookTime time.Duration
	// Grace is the time from TERM to KILL if the ledger is lost. 0 means 5 s. If it is
	// negative, KILL follows at once.
	Grace time.Duration
	// KeepGoing continues without a ledger after a failed write.
	KeepGoing bool
	// Restart recovers a session whose wrapper died: the kernel has replayed its
	// ledger.
	Restart bool
	// Relaunch says that another launch may follow the first, after a failure or
	// for a renewal. If it is set, a launch is over only when no process of its tree
	// is left.
	Relaunch bool
	// Inside reports whether a process is part of the harness's tree. nil means
	// that no process is.
	Inside func(pid int) bool
	// Token is the secret with which a process that the harness started may send
	// commands, except CommandApprove; empty if there is none.
	Token string
	Log   zerolog.Logger
}

// SignDelay is how late a sign of life of the harness may reach the kernel: a file is
// read a little later than the harness writes it.
const SignDelay = 100 * time.Millisecond

const (
	hookMargin = 500 * time.Millisecond
	// batch is how many inputs the inbox holds, and the largest number of them that
	// gather takes for one write.
	batch = 64
	// treeTime limits the wait for processes that run longer than their harness.
	// The limit begins after the grace period, if there is one. The guard kills these
	// processes meanwhile; a process that still runs afterwards cannot be killed.
	treeTime = 3 * time.Second
)

// ErrLedger is wrapped by the error for a ledger that could not be written or closed.
var ErrLedger = errors.New("the ledger could not be written")

// A supervisor is one run. The loop owns its fields, unless a comment names another
// owner.
type supervisor struct {
	k   *kernel.Kernel
	p   Ports
	o   Options
	seq uint64    // the number of the last committed fact
	now time.Time // the time of the newest step, which never decreases

	inbox   chan posted
	results []input.Input      // results of effects that the loop performed itself; handled before the inbox
	settles chan chan struct{} // channels that settle waits for; the loop closes each after a commit
	waiters []chan struct{}    // the channels received from settles; the loop closes them after its present round
	ctx     context.Context
	wg      sync.WaitGroup
	cancel  map[string]context.CancelFunc // cancels a running dispatch, program or typing, by the id in its effect

	current  atomic.Pointer[launched] // the newest launch; the door's goroutines read it
	requests requests
}

// posted is an input with the number of its launch, as in [effect.Launch], so that
// inputs from a finished launch can be dropped. 0 means that the input belongs to no
// launch.
type posted struct {
	of int
	at time.Time // when the input was posted; zero if it had to wait because the inbox was full, or if the loop made it
	input.Input
}

// Run runs the session to its end. It returns when all its goroutines have
// returned and all its processes have ended. The end of ctx ends the session as
// SIGTERM does. An error means that the ledger could not be written or closed, and
// wraps ErrLedger.
func Run(ctx context.Context, k *kernel.Kernel, p Ports, o Options) (kernel.Result, error) {
	asked := ctx.Done()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := newSupervisor(ctx, k, p, o)
	panicking := true // set to false when the loop has returned
	defer func() {
		if !panicking { // after a panic, do not wait: the process ends at once, and then the guard ends the harness
			s.wg.Wait()
		}
	}()
	defer cancel()

	if p.Door != nil {
		s.wg.Go(func() {
			if err := p.Door.Serve(ctx, s); err != nil {
				o.Log.Error().Err(err).Msg("cannot serve the session's socket")
			}
		})
	}
	result, err := s.loop(asked)
	panicking = false
	return result, err
}

// newSupervisor returns a run whose goroutines end with ctx.
func newSupervisor(ctx context.Context, k *kernel.Kernel, p Ports, o Options) *supervisor {
	o.HookTime, o.Grace = cmp.Or(o.HookTime, 5*time.Second), cmp.Or(o.Grace, 5*time.Second)
	return &supervisor{k: k, p: p, o: o, ctx: ctx, inbox: make(chan posted, batch), settles: make(chan chan struct{}),
		cancel: map[string]context.CancelFunc{}, requests: newRequests()}
}

func (s *supervisor) loop(asked <-chan struct{}) (kernel.Result, error) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	in := posted{Input: input.Start{}}
	if s.o.Restart {
		in.Input = input.Restarted{PID: os.Getpid()}
	}
	for {
		if err := s.advance(s.gather(in)); err != nil {
			return s.abandon(err)
		}
		for _, w := range s.waiters {
			close(w)
		}
		s.waiters = nil
		if result, done := s.k.Done(); done && len(s.results) == 0 {
			return result, s.close()
		}
		var due <-chan time.Time
		if at, ok := s.k.Deadline(); ok {
			timer.Reset(time.Until(at))
			due = timer.C
		}
		if len(s.results) > 0 {
			in, s.results = posted{Input: s.results[0]}, s.results[1:]
			continue
		}
		select {
		case in = <-s.inbox:
		case w := <-s.settles:
			// Each input that the caller of settle posted was handled already, or is
			// in the inbox. gather takes the inputs of the inbox before this Wake.
			s.waiters, in = append(s.waiters, w), posted{Input: input.Wake{}}
		case sig := <-s.p.Signals:
			in = posted{Input: input.AbortAsked{Signal: number(sig)}}
		case <-asked:
			asked, in = nil, posted{Input: input.AbortAsked{Signal: int(syscall.SIGTERM)}}
		case <-due:
			in = posted{Input: input.Wake{}}
		}
	}
}

func number(sig os.Signal) int {
	if n, ok := sig.(syscall.Signal); ok {
		return int(n)
	}
	return int(syscall.SIGTERM)
}

// gather returns the given input and all inputs that wait, so that one write commits all
// of them. If the given input is a Wake, gather puts it after the others, because one of
// the others may prevent a timer from firing.
func (s *supervisor) gather(first posted) []posted {
	inputs := make([]posted, 0, 8)
	_, wake := first.Input.(input.Wake)
	if !wake {
		inputs = s.add(inputs, first)
	}
	for _, in := range s.results {
		inputs = append(inputs, posted{Input: in})
	}
	s.results = nil
	for range batch {
		select {
		case in := <-s.inbox:
			inputs = s.add(inputs, in)
			continue
		default:
		}
		if wake {
			inputs = append(inputs, first)
		}
		break
	}
	for i := range inputs {
		if inputs[i].at.IsZero() {
			inputs[i].at = time.Now()
		}
	}
	return inputs
}

// add appends an input. If the input's source had to wait for the loop, add puts a sign
// of life before the input. The source could not report more meanwhile, so a gap in its
// inputs does not show that the harness was silent.
func (s *supervisor) add(inputs []posted, in posted) []posted {
	if in.of > 0 && in.at.IsZero() {
		in.at = time.Now()
		inputs = append(inputs, posted{of: in.of, at: s.now, Input: input.SignOfLife{At: in.at}})
	}
	return append(inputs, in)
}

// outputSeen adds a sign of life before the inputs if a deadline of the kernel, perhaps a
// time-out for silence, is reached at the time of the inputs. Without the sign of life,
// the kernel may not know of the newest output, which is reported at most once a second.
func (s *supervisor) outputSeen(inputs []posted) []posted {
	l := s.current.Load()
	if l == nil || l.child == nil || !l.runs {
		return inputs
	}
	if at, ok := s.k.Deadline(); !ok || inputs[len(inputs)-1].at.Before(at) {
		return inputs
	}
	at := l.child.LastOutput()
	if at.IsZero() {
		return inputs
	}
	return append([]posted{{at: s.now, Input: input.SignOfLife{At: at}}}, inputs...)
}

// advance passes the inputs to the kernel in order, each with its own time, and drops
// those that are late. It commits the resulting facts with one write, and only then
// performs the resulting effects.
func (s *supervisor) advance(inputs []posted) error {
	var entries []kernel.Entry
	var effects []effect.Effect
	durable, after := false, false
	for _, p := range s.outputSeen(inputs) {
		if s.late(p) {
			continue
		}
		switch in := p.Input.(type) {
		case input.Returned:
			delete(s.cancel, in.Call)
		case input.RenewalPrepared:
			delete(s.cancel, in.Renewal)
		case input.RenewalContinued:
			delete(s.cancel, in.Renewal)
		case input.Launched:
			s.current.Load().runs = true
		case input.ChildExited:
			l := s.current.Load()
			l.child, l.left = nil, in.Leftover > 0 || in.Lost
		case input.SourcesDrained:
			if l := s.current.Load(); l != nil {
				l.over = true
			}
		}
		t := s.step(p)
		entries, effects, durable = s.date(entries, t.Facts), append(effects, t.Effects...), durable || t.Sync
		after = after || t.SyncAfter
	}
	if err := s.commit(entries, durable); err != nil {
		return s.lost(err, effects)
	}
	for _, e := range effects {
		s.perform(e)
	}
	if after && !durable && s.p.Ledger != nil {
		if _, err := s.p.Ledger.Append(nil, true); err != nil {
			return s.lost(err, nil)
		}
	}
	return nil
}

// lost handles a failed write: it returns the error that ends the run, or with
// KeepGoing continues without the ledger. releaseAll handles the effects whose facts
// could not be written.
func (s *supervisor) lost(err error, effects []effect.Effect) error {
	s.releaseAll(effects)
	if !s.o.KeepGoing {
		return fmt.Errorf("%w: %w", ErrLedger, err)
	}
	s.o.Log.Error().Err(err).Msg("the ledger can no longer be written; continuing without it")
	_ = s.p.Ledger.Close() // releases its lock; the ledger is broken
	s.p.Ledger = nil
	t := s.step(posted{at: time.Now(), Input: input.LedgerLost{}})
	_ = s.commit(s.date(nil, t.Facts), false) // without a ledger, only Committed receives the facts
	s.releaseAll(t.Effects)
	return nil
}

// step steps the kernel at the time of the input. Time never goes back: an input that
// was posted earlier than the newest step has the time of that step.
func (s *supervisor) step(p posted) kernel.Output {
	if p.at.After(s.now) {
		s.now = p.at
	}
	out := s.k.Step(s.now, p.Input)
	checkDocuments(out)
	return out
}

// date appends an entry for each fact of the newest step, with the time of that step.
// The entries get their numbers from commit.
func (s *supervisor) date(entries []kernel.Entry, facts []kernel.Fact) []kernel.Entry {
	for _, f := range facts {
		entries = append(entries, kernel.Entry{At: s.now, Fact: f})
	}
	return entries
}

// late reports whether an input belongs to a finished launch and is dropped. A late
// hook call gets an empty answer.
func (s *supervisor) late(p posted) bool {
	if l := s.current.Load(); p.of == 0 || p.of == l.number && !l.over {
		return false
	}
	if asked, ok := p.Input.(input.HookCalled); ok {
		s.answerHook(effect.HookAnswer{Hook: asked.Hook})
	}
	return true
}

func (s *supervisor) commit(entries []kernel.Entry, durable bool) error {
	if len(entries) == 0 {
		return nil
	}
	if s.p.Ledger != nil {
		if err := appendTo(s.p.Ledger, entries, durable); err != nil {
			return err
		}
	}
	for i := range entries {
		s.seq++
		entries[i].Seq = s.seq
	}
	if s.p.Committed != nil {
		s.p.Committed(entries)
	}
	return nil
}

// appendTo writes the facts of entries with one write.
func appendTo(l Ledger, entries []kernel.Entry, durable bool) error {
	records := make([]ledger.Record, len(entries))
	for i, e := range entries {
		kind, body, err := kernel.Encode(e.Fact)
		if err != nil {
			return err
		}
		records[i] = ledger.Record{Kind: kind, At: e.At, Body: body}
	}
	_, err := l.Append(records, durable)
	return err
}

// CloseLost records the end of a session whose wrapper died. k must have replayed the
// session's ledger. No effect is performed.
func CloseLost(k *kernel.Kernel, l Ledger, now time.Time, reason string) error {
	out := k.Step(now, input.CloseAsked{Reason: reason})
	if len(out.Facts) == 0 {
		return errors.New("its ledger is empty")
	}
	entries := make([]kernel.Entry, len(out.Facts))
	for i, f := range out.Facts {
		entries[i] = kernel.Entry{At: now, Fact: f}
	}
	if err := appendTo(l, entries, true); err != nil {
		return fmt.Errorf("%w: %w", ErrLedger, err)
	}
	return nil
}

// post sends an input to the loop. It blocks while the inbox is full, so a goroutine
// that copies the harness's output must not call it.
func (s *supervisor) post(in input.Input) { s.postOf(0, in) }

// postOf posts an input from a launch. If the inbox is full, the input waits, and gets the
// time at which the loop takes it. While the input waits, its source reads nothing, so
// a gap in the inputs does not show that the harness was silent.
func (s *supervisor) postOf(launch int, in input.Input) {
	p := posted{of: launch, at: time.Now(), Input: in}
	select {
	case s.inbox <- p:
		return
	default:
	}
	p.at = time.Time{}
	select {
	case s.inbox <- p:
	case <-s.ctx.Done():
	}
}

// settleTime limits the wait for the ledger before the wrapper's process is suspended.
const settleTime = 200 * time.Millisecond

// settle returns when every input that its caller posted before is on the
// ledger, but after settleTime at the latest.
func (s *supervisor) settle() {
	ctx, cancel := context.WithTimeout(s.ctx, settleTime)
	defer cancel()
	w := make(chan struct{})
	select {
	case s.settles <- w:
	case <-ctx.Done():
		return
	}
	select {
	case <-w:
	case <-ctx.Done():
	}
}

// perform starts an effect. Its result is passed to the kernel as an input.
func (s *supervisor) perform(e effect.Effect) {
	switch e := e.(type) {
	case effect.Launch:
		s.launch(e)
	case effect.Stop:
		s.stop(e)
	case effect.Suspend, effect.Continue:
		s.suspend(e)
	case effect.Watch:
		if l := s.current.Load(); l != nil && l.plan.Sources != nil {
			l.plan.Sources.Watch(e.Path, e.Since)
		}
	case effect.Dispatch:
		s.dispatch(e)
	case effect.Decide:
		s.decide(e)
	case effect.AskGate:
		s.askGate(e)
	case effect.PrepareRenewal:
		s.prepareRenewal(e)
	case effect.ContinueRenewal:
		s.continueRenewal(e)
	case effect.TypeKeys:
		s.typeKeys(e)
	case effect.LineTaken:
		if child, is := s.current.Load().started.(typist); is {
			child.LineTaken()
		}
	case effect.DiscardToken:
		s.wg.Go(func() { s.discardToken(e) })
	case effect.Cancel:
		if cancel := s.cancel[e.Call]; cancel != nil {
			cancel()
		}
	case effect.HookAnswer:
		s.answerHook(e)
	case effect.Reply:
		s.reply(e)
	case effect.Release:
		s.p.Launcher.Release()
	case effect.DrainSources:
		s.drain(s.current.Load())
	case effect.EndClients:
		s.wg.Go(func() {
			killed, more := s.p.EndClients()
			s.post(input.ClientsEnded{Killed: killed, More: more})
		})
	default:
		panic(fmt.Sprintf("supervisor: unknown effect %T", e))
	}
}

// releaseAll handles the effects of a kernel step whose facts could not be written. It
// performs those that end or release something, although no fact of them is recorded:
// waiting hooks are answered, a paused harness continues, the terminal is given back.
// Launches, dispatches and questions to the gate are reported to the kernel as
// failed, commands are refused, and other effects are dropped.
func (s *supervisor) releaseAll(effects []effect.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case effect.HookAnswer:
			s.perform(effect.HookAnswer{Hook: e.Hook, Event: e.Event})
			s.results = append(s.results, input.HookClosed{Hook: e.Hook})
		case effect.Launch:
			s.results = append(s.results, input.LaunchFailed{Code: 125, Why: ErrLedger.Error()})
		case effect.Release, effect.DrainSources, effect.EndClients, effect.Stop, effect.Cancel, effect.Continue, effect.DiscardToken:
			s.perform(e)
		case effect.AskGate:
			s.results = append(s.results, input.GateDecided{Ask: e.Ask, Failure: lifeloop.InternalError, Why: ErrLedger.Error()})
		case effect.Reply:
			s.reply(effect.Reply{Ask: e.Ask, Failure: lifeloop.InternalError, Why: ErrLedger.Error()})
		case effect.Dispatch:
			s.results = append(s.results, input.Returned{Call: e.Call, Failure: lifeloop.InternalError, Why: ErrLedger.Error()})
		}
	}
}

// abandon ends a run after a failed write: TERM to the harness, then KILL, then
// the terminal is restored. No other effect is performed.
func (s *supervisor) abandon(cause error) (kernel.Result, error) {
	s.requests.releaseHooks()
	if child := s.child(); child != nil {
		_ = errors.Join(child.Free(), child.Signal(syscall.SIGTERM), child.Continue())
		grace := time.NewTimer(s.o.Grace)
		defer grace.Stop()
		for gone := false; !gone; {
			select {
			case p := <-s.inbox:
				switch in := p.Input.(type) {
				case input.ChildExited:
					gone = true
				case input.HookCalled:
					s.answerHook(effect.HookAnswer{Hook: in.Hook, Event: in.Call.Event})
				case input.AbortAsked:
					_ = child.KillTree()
					s.refuseAsked(in)
				default:
					s.refuseAsked(in)
				}
			case <-s.p.Signals:
				_ = child.KillTree()
			case <-grace.C:
				_ = child.KillTree()
			}
		}
	}
	s.p.Launcher.Release()
	_ = s.close() // releases the lock; an error does not matter, because the ledger is broken
	return kernel.Result{Code: 125, Failure: lifeloop.InternalError}, cause
}

func (s *supervisor) close() error {
	if s.p.Ledger == nil {
		return nil
	}
	if err := s.p.Ledger.Close(); err != nil {
		return fmt.Errorf("%w: %w", ErrLedger, err)
	}
	return nil
}
