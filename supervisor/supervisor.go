// Package supervisor is the imperative shell: one loop that owns the kernel,
// the ledger and the one timer, commits what the kernel found true, and then
// performs what it asks for.
//
// It decides nothing. Every rule is in the kernel; every word of a harness is
// behind a port. What it refuses is to act on anything that is not on the
// ledger: when the ledger refuses a write, it ends the harness and says so.
//
//	result, err := supervisor.Run(ctx, kernel.New(cfg), supervisor.Ports{
//		Ledger: log, Launcher: launcher, Clients: clients, Door: door, Signals: signals,
//	}, supervisor.Options{})
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"lifeloop/control"
	"lifeloop/dispatch"
	"lifeloop/kernel"
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
	Signal(sig syscall.Signal) error // to its process group
	KillTree() error                 // everything below us, now
	Wait() kernel.ChildExited        // returns when it is gone and its output drained
	Resume() error                   // continues a stopped group, so that a signal is seen
	Gone() <-chan struct{}           // closed when nothing of its tree is left
	Hold() error                     // stops everything below us
	Free() error                     // lets everything go on that Hold stopped
}

// A Launcher makes launches ready, one after another.
type Launcher interface {
	// Prepare makes a launch ready. An error may be an interface{ ExitCode() int }.
	Prepare(kernel.Launch) (Plan, error)
	Release() // gives the terminal back; may be called at any time, and twice
}

// A Plan is a launch made ready: what is to be started, and what of it can be
// heard.
type Plan struct {
	// Setup is what the launch turned out to be. That of the first launch the
	// kernel has in its Config already, unless the session was taken up.
	Setup kernel.Setup
	// Start starts the harness; post may be called until Wait returned, and
	// settle returns when everything posted before it is on the ledger. An error
	// may be an interface{ ExitCode() int }.
	Start func(post func(kernel.Input), settle func()) (Child, error)
	// Sources are what it writes; nil where nothing of it is read. They run once
	// it was started, until it is gone.
	Sources Sources
	// DecodeHook and Answer are its two dialects of a hook.
	DecodeHook func(event string, input []byte) (telemetry.HookCall, error)
	Answer     func(event, context string) []byte
}

// A Client answers one encoded dispatch envelope.
type Client interface {
	Call(ctx context.Context, envelope []byte) (dispatch.Answer, error)
}

// Sources follow the files that a harness writes.
type Sources interface {
	Run(ctx context.Context, post func(kernel.Input)) error // until ctx ends, then once more to the end of every file
	Launched(pid int)
	Watch(path string)
}

// A Door lets hooks in. *control.Server is one.
type Door interface {
	Serve(ctx context.Context, h control.Handler) error
}

// Ports are the world. Ledger, Door and Signals may be nil.
type Ports struct {
	Ledger   Ledger
	Launcher Launcher
	Clients  map[string]Client
	Door     Door
	Signals  <-chan os.Signal
	// Committed is told every fact after it was written, on the loop.
	Committed func(kernel.Entry)
}

// Options are the rest. The zero value is right.
type Options struct {
	// HookTime is how long the harness gives a hook that has a slot; the
	// answer comes hookMargin before it. 0 is 5 s.
	HookTime time.Duration
	// Grace is how long the harness has to end when the ledger is lost. 0 is 5 s.
	Grace time.Duration
	// KeepGoing runs on without a ledger when it refuses a write.
	KeepGoing bool
	// Restart takes up a session whose wrapper died: the kernel has replayed its
	// ledger.
	Restart bool
	// Relaunch says that one launch may follow another: then a launch is over
	// only when nothing of its tree is left.
	Relaunch bool
	Log      zerolog.Logger
}

const (
	hookMargin = 500 * time.Millisecond
	// batch bounds how many waiting inputs are stepped together and committed
	// with one write and one sync.
	batch = 64
	// treeTime bounds the wait for what a launch left behind, which is killed
	// meanwhile; beyond it there is only what cannot be killed.
	treeTime = 3 * time.Second
)

// ErrLedger wraps the refusal of the ledger that ended a run.
var ErrLedger = errors.New("the ledger refused a write")

// A supervisor is one run. Its fields are owned by the loop, except where said.
type supervisor struct {
	k   *kernel.Kernel
	p   Ports
	o   Options
	seq uint64 // of the last committed fact, when there is no ledger to number them

	inbox   chan posted
	own     []kernel.Input     // what performing effects taught us, before the inbox
	settles chan chan struct{} // who waits for the next commit
	waiters []chan struct{}
	ctx     context.Context
	wg      sync.WaitGroup
	cancel  map[string]context.CancelFunc // running dispatches

	current atomic.Pointer[launched] // the newest launch: the loop puts it in, the door asks it

	hookN   atomic.Uint64
	hooksMu sync.Mutex // guards hooks and asks: the door's goroutines put in, the loop answers
	hooks   map[string]chan answer
	asks    map[string]chan kernel.Reply
}

// A launched is one launch. What is not said to be the loop's does not change.
type launched struct {
	number  int
	plan    Plan
	child   Child              // the loop's; nil before it runs and when it has ended
	gone    <-chan struct{}    // closed when nothing of its tree is left
	stop    context.CancelFunc // ends the watching of its sources
	drained chan struct{}      // closed when they have been read to their end
	left    bool               // the loop's; something outlived the harness
	over    bool               // the loop's; whatever it still says is not heard
}

// A posted input knows the launch that it is of, counted as [kernel.Launch]
// does: what a launch says when it is over is nothing of the next one. 0 is of
// none.
type posted struct {
	of int
	kernel.Input
}

// An answer is what a waiting hook gets. Carries says that there is something
// in it, so its delivery is to be told.
type answer struct {
	event   string
	context lifeloop.Opaque
	carries bool
}

// Run drives the session to its end. It returns only when every goroutine it
// started has returned and every process it started is gone. A ctx that ends
// asks for the end of the session, as SIGTERM does.
func Run(ctx context.Context, k *kernel.Kernel, p Ports, o Options) (kernel.Result, error) {
	if o.HookTime == 0 {
		o.HookTime = 5 * time.Second
	}
	if o.Grace == 0 {
		o.Grace = 5 * time.Second
	}
	asked := ctx.Done()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &supervisor{k: k, p: p, o: o, ctx: ctx, inbox: make(chan posted, batch), settles: make(chan chan struct{}),
		cancel: map[string]context.CancelFunc{}, hooks: map[string]chan answer{}, asks: map[string]chan kernel.Reply{}}
	bug := true // until the loop has returned
	defer func() {
		if !bug { // one ends this process, and with it the guard ends the harness: nobody is waited for
			s.wg.Wait()
		}
	}()
	defer cancel()

	if p.Door != nil {
		s.wg.Go(func() {
			if err := p.Door.Serve(ctx, s); err != nil {
				o.Log.Error().Err(err).Msg("serve the session's door")
			}
		})
	}
	result, err := s.loop(asked)
	bug = false
	return result, err
}

func (s *supervisor) loop(asked <-chan struct{}) (kernel.Result, error) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	in := posted{Input: kernel.Start{}}
	if s.o.Restart {
		in.Input = kernel.Restarted{PID: os.Getpid()}
	}
	for {
		if err := s.turn(s.gather(in)); err != nil {
			return s.abandon(err)
		}
		for _, w := range s.waiters {
			close(w)
		}
		s.waiters = nil
		if result, done := s.k.Done(); done && len(s.own) == 0 {
			return result, s.close()
		}
		var due <-chan time.Time
		if at, ok := s.k.Deadline(); ok {
			timer.Reset(time.Until(at))
			due = timer.C
		}
		if len(s.own) > 0 {
			in, s.own = posted{Input: s.own[0]}, s.own[1:]
			continue
		}
		select {
		case in = <-s.inbox:
		case w := <-s.settles:
			// What was posted before waits in the inbox, and is gathered now.
			s.waiters, in = append(s.waiters, w), posted{Input: kernel.Wake{}}
		case sig := <-s.p.Signals:
			in = posted{Input: kernel.AbortAsked{Signal: number(sig)}}
		case <-asked:
			asked, in = nil, posted{Input: kernel.AbortAsked{Signal: int(syscall.SIGTERM)}}
		case <-due:
			in = posted{Input: kernel.Wake{}}
		}
	}
}

func number(sig os.Signal) int {
	if n, ok := sig.(syscall.Signal); ok {
		return int(n)
	}
	return int(syscall.SIGTERM)
}

// gather takes what else waits, so that it is committed together.
func (s *supervisor) gather(first posted) []posted {
	inputs := []posted{first}
	for _, in := range s.own {
		inputs = append(inputs, posted{Input: in})
	}
	s.own = nil
	for len(inputs) < batch {
		select {
		case in := <-s.inbox:
			inputs = append(inputs, in)
		default:
			return inputs
		}
	}
	return inputs
}

// turn steps the inputs, commits their facts with one write, and only then
// performs their effects.
func (s *supervisor) turn(inputs []posted) error {
	now := time.Now()
	var facts []kernel.Fact
	var effects []kernel.Effect
	durable := false
	for _, p := range inputs {
		if s.late(p) {
			continue
		}
		switch in := p.Input.(type) {
		case kernel.Returned:
			delete(s.cancel, in.Call)
		case kernel.ChildExited:
			l := s.current.Load()
			l.child, l.left = nil, in.Leftover > 0 || in.Lost
		case kernel.SourcesDrained:
			if l := s.current.Load(); l != nil {
				l.over = true
			}
		}
		t := s.k.Step(now, p.Input)
		facts, effects, durable = append(facts, t.Facts...), append(effects, t.Effects...), durable || t.Sync
	}
	if err := s.commit(now, facts, durable); err != nil {
		// Nothing of this turn is acted upon, but nobody may be left waiting.
		s.letGo(effects)
		if !s.o.KeepGoing {
			return fmt.Errorf("%w: %w", ErrLedger, err)
		}
		s.o.Log.Error().Err(err).Msg("the ledger is lost; running on without it")
		_ = s.p.Ledger.Close() // it is broken; its lock must go
		s.p.Ledger = nil
		t := s.k.Step(now, kernel.LedgerLost{})
		_ = s.commit(now, t.Facts, false) // there is no ledger any more; the events file still hears
		s.letGo(t.Effects)
		return nil
	}
	for _, e := range effects {
		s.perform(e)
	}
	return nil
}

// late says that an input is of a launch that is over. A hook that asks is let
// go.
func (s *supervisor) late(p posted) bool {
	if l := s.current.Load(); p.of == 0 || p.of == l.number && !l.over {
		return false
	}
	if asked, ok := p.Input.(kernel.HookCalled); ok {
		s.answerHook(kernel.HookAnswer{Hook: asked.Hook})
	}
	return true
}

func (s *supervisor) commit(now time.Time, facts []kernel.Fact, durable bool) error {
	if len(facts) == 0 {
		return nil
	}
	if s.p.Ledger != nil {
		if err := appendTo(s.p.Ledger, now, facts, durable); err != nil {
			return err
		}
	}
	for _, f := range facts {
		s.seq++
		if s.p.Committed != nil {
			s.p.Committed(kernel.Entry{Seq: s.seq, At: now, Fact: f})
		}
	}
	return nil
}

// appendTo writes the facts of one moment.
func appendTo(l Ledger, now time.Time, facts []kernel.Fact, durable bool) error {
	records := make([]ledger.Record, len(facts))
	for i, f := range facts {
		kind, body, err := kernel.Encode(f)
		if err != nil {
			return err
		}
		records[i] = ledger.Record{Kind: kind, At: now, Body: body}
	}
	_, err := l.Append(records, durable)
	return err
}

// post hands an input to the loop. It blocks while the loop is busy, and is
// never called by the byte pump.
func (s *supervisor) post(in kernel.Input) { s.postOf(0, in) }

// postOf is post of what a launch says.
func (s *supervisor) postOf(launch int, in kernel.Input) {
	select {
	case s.inbox <- posted{launch, in}:
	case <-s.ctx.Done():
	}
}

// settleTime bounds the wait for the ledger of somebody who is about to stop
// the whole process.
const settleTime = 200 * time.Millisecond

// settle returns when everything that its caller posted before is on the
// ledger, or when that takes too long.
func (s *supervisor) settle() {
	patience := time.NewTimer(settleTime)
	defer patience.Stop()
	w := make(chan struct{})
	select {
	case s.settles <- w:
	case <-s.ctx.Done():
		return
	case <-patience.C:
		return
	}
	select {
	case <-w:
	case <-s.ctx.Done():
	case <-patience.C:
	}
}

// perform starts an effect. Whatever it learns comes back as an input.
func (s *supervisor) perform(e kernel.Effect) {
	switch e := e.(type) {
	case kernel.Launch:
		s.launch(e)
	case kernel.Stop:
		s.stop(e)
	case kernel.Suspend, kernel.Continue:
		s.hold(e)
	case kernel.Watch:
		if l := s.current.Load(); l != nil && l.plan.Sources != nil {
			l.plan.Sources.Watch(e.Path)
		}
	case kernel.Dispatch:
		s.dispatch(e)
	case kernel.Cancel:
		if cancel := s.cancel[e.Call]; cancel != nil {
			cancel()
		}
	case kernel.HookAnswer:
		s.answerHook(e)
	case kernel.Reply:
		s.reply(e)
	case kernel.Release:
		s.p.Launcher.Release()
	case kernel.DrainSources:
		s.drain(s.current.Load())
	default:
		panic(fmt.Sprintf("supervisor: no way to perform %T", e))
	}
}

// letGo performs of a turn that could not be recorded only what ends
// something: a hook that waits, a harness that stands still, the terminal, the
// watching. What the kernel believes to be under way is told to have failed.
func (s *supervisor) letGo(effects []kernel.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case kernel.HookAnswer:
			s.perform(kernel.HookAnswer{Hook: e.Hook, Event: e.Event})
			s.own = append(s.own, kernel.HookClosed{Hook: e.Hook})
		case kernel.Launch:
			s.own = append(s.own, kernel.LaunchFailed{Code: 125, Why: ErrLedger.Error()})
		case kernel.Release, kernel.DrainSources, kernel.Stop, kernel.Cancel, kernel.Continue:
			s.perform(e)
		case kernel.Reply:
			s.reply(kernel.Reply{Ask: e.Ask, Failure: lifeloop.InternalError, Why: ErrLedger.Error()})
		case kernel.Dispatch:
			s.own = append(s.own, kernel.Returned{Call: e.Call, Failure: lifeloop.InternalError, Why: ErrLedger.Error()})
		}
	}
}

// passing says that the machine was short of something when a launch was made
// ready: another moment may have it.
func passing(err error) bool {
	for _, short := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, short) {
			return true
		}
	}
	return false
}

// launch makes a launch ready and starts it.
func (s *supervisor) launch(e kernel.Launch) {
	l := &launched{number: e.Number, drained: make(chan struct{})}
	child, err := s.start(e, l)
	if err != nil {
		l.over = true
		code := 125
		var coded interface{ ExitCode() int }
		if errors.As(err, &coded) {
			code = coded.ExitCode()
		}
		s.own = append(s.own, kernel.LaunchFailed{Code: code, Why: err.Error(), Transient: passing(err)})
		return
	}
	l.child, l.gone = child, child.Gone()
	in := kernel.Launched{PID: child.PID()}
	if e.Number > 1 || s.o.Restart {
		in.Setup = &l.plan.Setup
	}
	s.own = append(s.own, in)
	s.follow(l)
	s.wg.Go(func() { s.postOf(l.number, child.Wait()) })
}

func (s *supervisor) start(e kernel.Launch, l *launched) (Child, error) {
	plan, err := s.p.Launcher.Prepare(e)
	if err != nil {
		return nil, err
	}
	l.plan = plan
	s.current.Store(l) // before there is anybody to ask the door
	return plan.Start(func(in kernel.Input) { s.postOf(l.number, in) }, s.settle)
}

// follow runs the sources of a launch.
func (s *supervisor) follow(l *launched) {
	ctx, stop := context.WithCancel(s.ctx)
	l.stop = stop
	if l.plan.Sources == nil {
		close(l.drained)
		return
	}
	s.wg.Go(func() {
		defer close(l.drained)
		if err := l.plan.Sources.Run(ctx, func(in kernel.Input) { s.postOf(l.number, in) }); err != nil {
			s.postOf(l.number, kernel.SourceTrouble{Source: "watcher", What: "stopped"})
			s.o.Log.Error().Err(err).Msg("watch the harness's files")
		}
	})
	l.plan.Sources.Launched(l.child.PID())
}

// drain reads what a launch has written once more to its end, and says when
// that is done. It waits first until nobody is left who could write: a session
// that has ended has left nothing running, and of two launches that write the
// same files nothing could be told apart any more.
func (s *supervisor) drain(l *launched) {
	left := l.left
	s.wg.Go(func() {
		if s.o.Relaunch || left {
			patience := time.NewTimer(treeTime)
			defer patience.Stop()
			select {
			case <-l.gone:
			case <-patience.C:
				s.o.Log.Warn().Int("launch", l.number).Msg("something of the harness's tree cannot be ended")
			case <-s.ctx.Done():
			}
		}
		l.stop()
		<-l.drained
		s.postOf(l.number, kernel.SourcesDrained{})
	})
}

// hold stops the whole tree, or lets it go on.
func (s *supervisor) hold(e kernel.Effect) {
	child := s.child()
	if child == nil {
		return
	}
	do, what := child.Hold, "stop the harness's tree"
	if _, free := e.(kernel.Continue); free {
		do = func() error { return errors.Join(child.Free(), child.Resume()) } // also what somebody else had stopped
		what = "let the harness's tree go on"
	}
	if err := do(); err != nil {
		s.o.Log.Warn().Err(err).Msg(what)
	}
}

// child is the harness that runs; nil when none does.
func (s *supervisor) child() Child {
	if l := s.current.Load(); l != nil {
		return l.child
	}
	return nil
}

func (s *supervisor) stop(e kernel.Stop) {
	child := s.child()
	if child == nil {
		return
	}
	var err error
	if e.Tree {
		err = child.KillTree()
	} else {
		err = errors.Join(child.Signal(syscall.Signal(e.Signal)), child.Resume())
	}
	if err != nil {
		s.o.Log.Warn().Err(err).Int("signal", e.Signal).Bool("tree", e.Tree).Msg("stop the harness")
	}
}

func (s *supervisor) dispatch(e kernel.Dispatch) {
	client, ok := s.p.Clients[e.Client]
	if !ok {
		s.own = append(s.own, kernel.Returned{Call: e.Call, Failure: lifeloop.InternalError, Why: "no such client"})
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, e.Timeout)
	s.cancel[e.Call] = cancel
	s.wg.Go(func() {
		defer cancel()
		s.post(call(ctx, client, e))
	})
}

// call makes one dispatch and reads its answer.
// A client that panics has failed, and disturbs nothing else.
func call(ctx context.Context, client Client, e kernel.Dispatch) (in kernel.Returned) {
	failed := func(class lifeloop.FailureClass, why string) kernel.Returned {
		return kernel.Returned{Call: e.Call, Failure: class, Why: why}
	}
	defer func() {
		if recover() != nil {
			in = failed(lifeloop.InternalError, "the client panicked")
		}
	}()
	envelope, err := e.Envelope.Encode()
	if err != nil {
		return failed(lifeloop.InternalError, "the envelope cannot be encoded")
	}
	answer, err := client.Call(ctx, envelope)
	if err != nil {
		var f *dispatch.Failure
		if errors.As(err, &f) {
			return failed(f.Class, f.Why)
		}
		return failed(lifeloop.InternalError, "the client could not be called")
	}
	response, err := lifeloop.ParseCallbackResponse(answer.Body)
	if err == nil {
		err = response.Validate(e.Envelope.Request.SchemaVersion)
	}
	if err != nil {
		return failed(lifeloop.InvalidRequest, "the answer is not a valid callback response"+where(err))
	}
	// A member that nobody reads may be the misspelt name of a payload's.
	for _, p := range lifeloop.Unknown("callback_response", answer.Body) {
		response.Warnings = append(response.Warnings, p.Path+": "+p.Message)
	}
	return kernel.Returned{Call: e.Call, Response: &response}
}

// A caller is a hook on the other side of the door. *control.HookCall is one.
type caller interface {
	Answer(out []byte) (delivered bool)
	Gone() <-chan struct{}
}

// where names the first member that is wrong, for the client's author, and not
// what stands there: what a client prints is not ours to repeat. `event invoke`
// says more.
func where(err error) string {
	var v *lifeloop.ValidationError
	if !errors.As(err, &v) || len(v.Problems) == 0 {
		return ""
	}
	return ": see " + v.Problems[0].Path
}

// Hook is called by the door, in a goroutine of the connection's own. It
// returns when the hook is over.
func (s *supervisor) Hook(ctx context.Context, call *control.HookCall) {
	s.hook(ctx, call.Event, call.Input, call.Told, call)
}

func (s *supervisor) hook(ctx context.Context, event string, input []byte, told bool, call caller) {
	l := s.current.Load()
	if l == nil {
		call.Answer(nil) // nothing was launched yet, so it is nobody's of ours
		return
	}
	decoded, err := l.plan.DecodeHook(event, input)
	if err != nil {
		s.o.Log.Warn().Err(err).Str("event", event).Msg("a hook's input is not understood")
		call.Answer(nil)
		return
	}
	if told {
		s.postOf(l.number, kernel.SignalsSeen{Signals: decoded.Signals})
		return
	}
	id := "hook_" + strconv.FormatUint(s.hookN.Add(1), 10)
	waits := make(chan answer, 1)
	s.hooksMu.Lock()
	s.hooks[id] = waits
	s.hooksMu.Unlock()
	defer func() {
		s.hooksMu.Lock()
		delete(s.hooks, id)
		s.hooksMu.Unlock()
	}()
	s.postOf(l.number, kernel.HookCalled{Hook: id, Call: decoded, Deadline: time.Now().Add(s.o.HookTime - hookMargin)})
	select {
	case a := <-waits:
		delivered := call.Answer(a.render(l.plan.Answer))
		if a.carries {
			s.post(kernel.HookClosed{Hook: id, Delivered: delivered})
		}
	case <-call.Gone():
		s.post(kernel.HookClosed{Hook: id})
	case <-ctx.Done():
	}
}

// render is the answer in the harness's own words; nil when it carries nothing.
func (a answer) render(answer func(event, context string) []byte) []byte {
	if !a.carries {
		return nil
	}
	return answer(a.event, a.context.Reveal())
}

func (s *supervisor) answerHook(e kernel.HookAnswer) {
	s.hooksMu.Lock()
	waits := s.hooks[e.Hook]
	s.hooksMu.Unlock()
	a := answer{event: e.Event, context: e.Context, carries: e.Context.Len() > 0}
	if waits == nil {
		if a.carries { // the harness left in this very moment
			s.own = append(s.own, kernel.HookClosed{Hook: e.Hook})
		}
		return
	}
	waits <- a // has room: a hook is answered once
}

// abandon ends the run of a session whose ledger refused a write: the
// harness's own way out, then KILL; the terminal; nothing else.
func (s *supervisor) abandon(cause error) (kernel.Result, error) {
	result := kernel.Result{Code: 125, Failure: lifeloop.InternalError}
	s.freeHooks()
	if child := s.child(); child != nil {
		_ = errors.Join(child.Free(), child.Signal(syscall.SIGTERM), child.Resume())
		grace := time.NewTimer(s.o.Grace)
		defer grace.Stop()
		for gone := false; !gone; {
			select {
			case p := <-s.inbox:
				switch in := p.Input.(type) {
				case kernel.ChildExited:
					gone = true
				case kernel.HookCalled:
					s.answerHook(kernel.HookAnswer{Hook: in.Hook, Event: in.Call.Event})
				case kernel.AbortAsked:
					_ = child.KillTree() // as a signal does
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
	if s.p.Ledger != nil {
		_ = s.p.Ledger.Close() // it is broken; its lock must go
	}
	return result, cause
}

// freeHooks lets every hook go that still waits for an answer.
func (s *supervisor) freeHooks() {
	s.hooksMu.Lock()
	defer s.hooksMu.Unlock()
	for _, waits := range s.hooks {
		select {
		case waits <- answer{}:
		default: // it has one already
		}
	}
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
