package conformance

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"lifeloop/attempt"
	"lifeloop/control"
	"lifeloop/dispatch"
	"lifeloop/internal/environ"
	"lifeloop/kernel"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/supervisor"
	"lifeloop/telemetry"
)

// This file runs a session with the client, with the real loop, kernel, socket
// and dispatch. Only the harness is scripted, and no ledger is written.

// tick is the interval of the event supervisor.tick.
const tick = 300 * time.Millisecond

// ofWrapper selects the events of a second session: receipts, ticks, and the start and
// end of a harness session. ofHarness selects the events of the main session: all
// except receipts and ticks. A client that receives receipts is called twice as often, so
// receipts are sent only in the second session, which is shorter.
func ofWrapper(e lifeloop.Event) bool {
	return e == lifeloop.SupervisorTick || e == lifeloop.ReceiptEmitted || e.Session()
}
func ofHarness(e lifeloop.Event) bool {
	return e != lifeloop.SupervisorTick && e != lifeloop.ReceiptEmitted
}

// session runs one session. The client receives the events for which subscribed returns
// true. If r is not nil, the session is renewed.
func (k *kit) session(ctx context.Context, mode string, subscribed func(lifeloop.Event) bool, r *renewed) error {
	id := newID("")
	path, err := control.SocketPath(id)
	if err != nil {
		return err
	}
	door, err := control.Listen(path)
	if err != nil {
		return err
	}
	defer door.Close()
	client, err := k.client(mode, id)
	if err != nil {
		return err
	}
	defer client.close()

	s := &world{kit: k, renewed: r, mode: mode, socket: path, events: map[lifeloop.Event]int{},
		open: map[string]bool{}, calls: map[string]int{}, step: "the start", changed: make(chan struct{}), stopped: ctx.Done(), subscribed: map[lifeloop.Event]bool{}}
	for _, e := range lifeloop.Events() {
		s.subscribed[e] = subscribed(e)
	}
	client.world = s
	ports := supervisor.Ports{Launcher: s, Door: door, Committed: s.committed, Clients: map[string]supervisor.Client{k.cfg.ClientID: client}}
	cfg := s.config(id)
	if r != nil {
		cfg.Renewing, ports.Renewer = r.renewing(), r.programs
	}
	_, err = supervisor.Run(ctx, kernel.New(cfg), ports, supervisor.Options{Relaunch: true})
	if err != nil {
		return fmt.Errorf("run a session: %w", err)
	}
	s.judge()
	return s.incomplete
}

// environment returns the environment of a client for which the configuration neither
// sets variables nor names further ones to inherit.
func (k *kit) environment(session string) []string {
	return environ.Spec{}.Of(os.Environ(), k.mark, "LIFELOOP_SESSION_ID="+session, "LIFELOOP_CLIENT_ID="+k.cfg.ClientID)
}

// client returns the tested client, for the calls of the session whose id is session.
func (k *kit) client(mode, session string) (*recorded, error) {
	cfg := dispatch.Config{ID: k.cfg.ClientID, Command: k.cfg.Command, Timeout: k.cfg.Timeout,
		Env: k.environment(session)}
	if mode == Persistent {
		p, err := dispatch.NewPersistent(cfg)
		return &recorded{Client: p, close: p.Close}, err
	}
	o, err := dispatch.NewOneshot(cfg)
	return &recorded{Client: o, close: func() {}}, err
}

// recorded is a client that records its calls.
type recorded struct {
	supervisor.Client
	close func()
	world *world
}

func (r *recorded) Call(ctx context.Context, text []byte) (dispatch.Answer, error) {
	envelope, err := lifeloop.Parse[lifeloop.DispatchEnvelope](text)
	if err != nil {
		return dispatch.Answer{}, err
	}
	if r.world.givenUp(r.world.mode) {
		return dispatch.Answer{}, &dispatch.Failure{Class: lifeloop.Timeout, Why: "not called, because earlier calls timed out"}
	}
	answer, err := r.Client.Call(ctx, text)
	failed, _ := errors.AsType[*dispatch.Failure](err)
	r.world.called(envelope, answer, failed)
	return answer, err
}

// newID returns a new id.
func newID(prefix string) string { return prefix + rand.Text() }

// config returns the kernel's configuration: one client that receives the subscribed
// events, and one retry.
func (s *world) config(id string) kernel.Config {
	return kernel.Config{
		Session: id, Ledger: true, Launch: s.setup(), Tick: tick, ClientDrain: s.patience(), Limits: setup.Limits{AbortGrace: time.Second},
		Clients:   []setup.Client{{ID: s.cfg.ClientID, Events: s.subscribed, Timeout: s.cfg.Timeout}},
		Policy:    attempt.Policy{Retries: attempt.Retries{Attempts: 1, MaxRetries: 1, On: map[attempt.Cause]bool{attempt.Model: true}}},
		Manifests: []lifeloop.Manifest{s.manifest},
		Began:     kernel.Began{SessionID: id, AdapterID: s.manifest.AdapterID, AdapterVersion: s.manifest.AdapterVersion, Clients: []string{s.cfg.ClientID}, Policy: "none"},
		NewID:     newID,
	}
}

// setup describes a launch. The version that the harness reports is not among the
// tested ones, so that capability.degraded occurs.
func (s *world) setup() setup.Launch {
	set := setup.Launch{Manifest: s.manifest, Injected: setup.Injected{Hooks: true}, Versions: setup.Versions{Tested: []string{"1.0.0"}}}
	if s.renewed != nil {
		set.Renews, set.Resumes, set.Interactive = true, true, true
	}
	return set
}

// patience limits every wait for the session. It is reached only if there is a
// bug.
func (s *world) patience() time.Duration { return time.Minute + 10*s.cfg.Timeout }

// A world is the scripted harness of one session, and the records of the
// session.
type world struct {
	*kit
	renewed    *renewed // nil in a session that is not renewed
	mode       string
	socket     string
	subscribed map[lifeloop.Event]bool
	incomplete error           // the reason why the script was not completed
	stopped    <-chan struct{} // closed when the test is to end
	over       sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	step    string
	changed chan struct{} // closed and replaced at each change
	events  map[lifeloop.Event]int
	open    map[string]bool // ids of the calls that the client has not yet answered
	calls   map[string]int  // index in Report.Calls, by event id
	faults  []fault
	refused []lifeloop.Receipt // receipts of answers whose idempotency key was used before
}

// A fault is a failed call of the session.
type fault struct {
	step  string
	event lifeloop.Event
	why   *dispatch.Failure
	rules []broken
}

// called records a call and its answer.
func (s *world) called(e lifeloop.DispatchEnvelope, a dispatch.Answer, failed *dispatch.Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := Call{Mode: s.mode, Step: s.step, Event: e.Request.Event, EventID: e.Request.EventID, DurationMS: a.Duration.Milliseconds()}
	f := fault{step: s.step, event: c.Event, why: failed}
	if failed != nil {
		c.Failure = failed.Why
		if failed.Class == lifeloop.Timeout {
			s.timeouts[s.mode]++
		}
	} else {
		c.Answer, f.rules = asJSON(a.Body), judge(a.Body, e.Request.SchemaVersion)
		for _, b := range f.rules {
			c.Failure = b.found
		}
	}
	if c.Failure != "" {
		s.faults = append(s.faults, f)
	}
	s.calls[c.EventID] = len(s.Calls)
	s.Calls = append(s.Calls, c)
}

// committed updates the records with facts of the session, on the loop's goroutine.
func (s *world) committed(entries []kernel.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		s.apply(e.Fact)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// apply updates the records with one fact. s.mu is held.
func (s *world) apply(fact kernel.Fact) {
	switch f := fact.(type) {
	case kernel.Observed:
		s.events[f.Record.Event]++
		for _, c := range f.Calls {
			s.open[c.Call] = true
		}
	case kernel.Answered:
		delete(s.open, f.Call)
	case kernel.CallOver:
		delete(s.open, f.Call)
	case kernel.RenewalMoved:
		s.renewed.moved(f)
	case kernel.RenewalCalled:
		s.renewed.command = f.Command
	case kernel.ReceiptIssued:
		delete(s.open, f.Call)
		if f.Renewal != "" {
			if f.Renewal == s.renewed.id {
				s.renewed.step(&f.Receipt)
			}
			break
		}
		i, known := s.calls[f.Receipt.EventID]
		if !known { // not called: the event was skipped, no time was left, or earlier calls timed out
			i = len(s.Calls)
			s.Calls = append(s.Calls, Call{Mode: s.mode, Step: s.step, Event: f.Receipt.Event, EventID: f.Receipt.EventID, Failure: "not called"})
		}
		s.Calls[i].Receipt = &f.Receipt
		if c := f.Receipt.FailureClass; c != nil && *c == lifeloop.StateConflict {
			s.refused = append(s.refused, f.Receipt)
		}
	}
}

// await waits until a condition about the records is true.
func (s *world) await(what string, holds func() bool) bool {
	timer := time.NewTimer(s.patience())
	defer timer.Stop()
	for {
		s.mu.Lock()
		ok, changed := holds(), s.changed
		s.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-s.stopped:
			return false
		case <-timer.C:
			s.incomplete = errors.Join(s.incomplete, fmt.Errorf("the test timed out while its session waited for %s", what))
			return false
		}
	}
}

// judge records the violations that the calls of the session show. If a rule was
// already violated in the same mode, only the count of that violation grows.
func (s *world) judge() {
	for _, f := range s.faults {
		for _, b := range f.rules {
			s.violate(s.mode, f.step, f.event, b.rule, nil, "%s", b.found)
		}
		if f.why == nil {
			continue
		}
		r := exitStatus
		switch {
		case f.why.Class == lifeloop.Timeout && s.violated(s.mode, staysAlive):
			r = staysAlive
		case f.why.Class == lifeloop.Timeout:
			r = noAnswer
		case f.why.Class == lifeloop.InvalidRequest:
			r = tooLarge
		case s.mode == Persistent:
			r = endedEarly
		}
		s.violate(s.mode, f.step, f.event, r, nil, "%s", f.why.Why)
	}
	for _, r := range s.refused {
		c := s.Calls[s.calls[r.EventID]]
		var said struct{ Status lifeloop.Status }
		if json.Unmarshal(c.Answer, &said) == nil && said.Status != lifeloop.Failed {
			s.violate(s.mode, c.Step, r.Event, keyReused, nil, "%v", r.Warnings)
		}
	}
}

// ---- the harness

// Prepare prepares a launch.
func (s *world) Prepare(e effect.Launch) (supervisor.Plan, error) {
	return supervisor.Plan{Setup: s.setup(), Key: hookKey, DecodeHook: decodeHook, Answer: func(_, text string) []byte { return []byte(text) },
		Start: func(post func(input.Input), _ func()) (supervisor.Child, error) {
			c := &child{exit: make(chan input.ChildExited, 1), gone: make(chan struct{})}
			close(c.gone)
			play := s.firstLaunch
			switch {
			case s.renewed != nil:
				s.renewed.launches++
				number := s.renewed.launches
				play = func(post func(input.Input)) input.ChildExited { return s.renewalLaunch(post, number) }
			case s.subscribed[lifeloop.SupervisorTick]:
				play = s.shortLaunch
			case e.Number > 1:
				play = s.secondLaunch
			}
			s.over.Go(func() { c.end(play(post)) })
			c.wait = s.over.Wait
			return c, nil
		}}, nil
}

// Release does nothing, because there is no terminal to restore.
func (s *world) Release() {}

// hookKey authenticates the hook calls of the scripted harness. It need not be secret,
// because the script runs in this process and the session is only a test.
const hookKey = "kit"

// decodeHook decodes the body that world.hook sends. Only this package uses its
// format.
func decodeHook(_ string, body []byte) (call telemetry.HookCall, err error) {
	err = json.Unmarshal(body, &call)
	return call, err
}

// A child replaces the harness's process, which does not exist: the harness is a
// script.
type child struct {
	exit chan input.ChildExited
	gone chan struct{}
	wait func()
}

func (c *child) end(e input.ChildExited) {
	select {
	case c.exit <- e:
	default: // the child has already ended
	}
}

func (c *child) PID() int { return os.Getpid() }
func (c *child) Signal(sig syscall.Signal) error {
	c.end(input.ChildExited{Signal: int(sig)})
	return nil
}
func (c *child) Stop(sig syscall.Signal, _ time.Duration) error { return c.Signal(sig) }
func (c *child) KillTree() error                                { return c.Signal(syscall.SIGKILL) }
func (c *child) Wait() input.ChildExited {
	e := <-c.exit
	c.wait()
	return e
}
func (c *child) LastOutput() time.Time          { return time.Time{} } // the scripted harness prints nothing
func (c *child) Continue() error                { return nil }
func (c *child) Hold() error                    { return nil }
func (c *child) Free() error                    { return nil }
func (c *child) Gone() <-chan struct{}          { return c.gone }
func (c *child) Killed() ([]input.Process, int) { return nil, 0 }
