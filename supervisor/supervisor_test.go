package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/attempt"
	"lifeloop/control"
	"lifeloop/dispatch"
	"lifeloop/kernel"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/kernel/setup"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	"lifeloop/renewal"
	"lifeloop/session"
	"lifeloop/telemetry"
)

// A rig is a supervisor with fake ports, inside a synctest bubble: virtual hours
// take no time, and a leaked goroutine fails the test.
type rig struct {
	t     *testing.T
	began time.Time

	mu    sync.Mutex // guards trace
	trace []string

	ledger      fakeLedger
	launcher    fakeLauncher
	sources     fakeSources // the sources of the first launch
	later       map[int]*fakeSources
	door        fakeDoor
	signals     chan os.Signal
	answers     map[string]func(ctx context.Context, event string) (string, error) // the answers of each client
	options     Options
	noTelemetry bool // the running process is the only sign of a live harness session
	policy      attempt.Policy
	limits      setup.Limits
	committed   func([]kernel.Entry)
	gate        Gate
	renewer     Renewer
	profile     renewal.Rules // the rules of renewals; used if renewer is set
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, began: time.Now(), signals: make(chan os.Signal, 4),
		answers: map[string]func(context.Context, string) (string, error){}}
	r.ledger.rig, r.launcher.rig, r.sources.rig = r, r, r
	r.launcher.child = newChild(r, 1)
	r.door.ready = make(chan struct{})
	return r
}

// note adds a line to the trace, with the time since the start.
func (r *rig) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trace = append(r.trace, fmt.Sprintf("%-5s ", time.Since(r.began))+fmt.Sprintf(format, args...))
}

// lines returns the lines of the trace that begin with one of the words.
func (r *rig) lines(words ...string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, l := range r.trace {
		_, what, _ := strings.Cut(l, " ")
		what = strings.TrimSpace(what)
		if slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(what, w) }) {
			out = append(out, l)
		}
	}
	return out
}

// first returns the index of the first line of the trace that contains words.
func (r *rig) first(words string) int {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.trace, func(l string) bool { return strings.Contains(l, words) })
	require.GreaterOrEqual(r.t, i, 0, "no line contains %q:\n%s", words, strings.Join(r.trace, "\n"))
	return i
}

func (r *rig) run() (kernel.Result, error) { return r.runContext(context.Background()) }

func (r *rig) runContext(ctx context.Context) (kernel.Result, error) {
	native := lifeloop.EventClaim{Support: lifeloop.Native, Modes: []lifeloop.IntegrationMode{lifeloop.NativeHook}}
	limit := int64(8192)
	n := map[string]int{}
	r.limits.AbortGrace = 5 * time.Second
	cfg := kernel.Config{Session: "sess", Ledger: true, Policy: r.policy, Limits: r.limits,
		ClientDrain: 5 * time.Second,
		NewID:       func(p string) string { n[p]++; return fmt.Sprint(p, n[p]) },
		Began:       kernel.Began{SessionID: "sess", AdapterID: "fake", Clients: []string{}},
		Launch: setup.Launch{Injected: setup.Injected{Hooks: true}, HarnessSession: "S1", NoTelemetry: r.noTelemetry, Manifest: lifeloop.Manifest{
			ContractVersion: lifeloop.Version, AdapterID: "fake", AdapterVersion: "0.1.0", DisplayName: "Fake", Role: "worker",
			IntegrationModes: []lifeloop.IntegrationMode{lifeloop.NativeHook}, ContextPressure: lifeloop.Claim{Support: lifeloop.Native}, LifecycleEvents: map[lifeloop.Event]lifeloop.EventClaim{},
			Receipts:         lifeloop.ReceiptClaims{ReceiptLedger: lifeloop.Synthesized},
			TelemetrySources: []lifeloop.TelemetrySource{{Name: "transcript", Kind: "jsonl", Support: lifeloop.Native}},
			Placement: map[lifeloop.Placement]lifeloop.PlacementClaim{
				lifeloop.PreFrameTrailing: {Support: lifeloop.Native, MaxBytes: &limit}}}}}
	for _, e := range lifeloop.Events() {
		cfg.Manifest.LifecycleEvents[e] = native
	}
	clients := map[string]Client{}
	for id, answer := range r.answers {
		if answer != nil {
			clients[id] = fakeClient{r, id, answer}
		}
		c := setup.Client{ID: id, Events: map[lifeloop.Event]bool{}, Timeout: 5 * time.Second}
		for _, e := range lifeloop.Events() {
			c.Events[e] = e != lifeloop.ReceiptEmitted && e != lifeloop.SupervisorTick
		}
		cfg.Clients = append(cfg.Clients, c)
	}
	if r.gate != nil {
		cfg.Gate = "policy"
	}
	if r.renewer != nil {
		claims := lifeloop.RenewalClaims{}
		claims.Reset.Native, claims.Reset.WrapperMediated, claims.Reset.Manual = lifeloop.Native, lifeloop.Unavailable, lifeloop.Unavailable
		claims.Continuation.Observation, claims.Continuation.PayloadDelivery = lifeloop.Native, lifeloop.Native
		cfg.Manifest.Renewal, cfg.Manifest.Placement[lifeloop.PreSession] = &claims, cfg.Manifest.Placement[lifeloop.PreFrameTrailing]
		cfg.Renewals, cfg.Stores, cfg.Interactive = []renewal.Rules{r.profile}, true, true
		cfg.Fresh = setup.Fresh{Clears: true, Means: renewal.ByPlugin, KeepsLine: true}
	}
	r.launcher.setup = cfg.Launch
	return Run(ctx, kernel.New(cfg), Ports{Ledger: &r.ledger, Launcher: &r.launcher, Clients: clients, Door: &r.door, Signals: r.signals, Committed: r.committed, Gate: r.gate, Renewer: r.renewer}, r.options)
}

const hookKey = "key"

// decodeHook decodes the hooks of the fake harness. The input of a hook is the turn,
// except for Start. For Tool, the input is also the id of the tool call.
func decodeHook(event string, body []byte) (telemetry.HookCall, error) {
	sig := telemetry.Signal{Source: "hook", Detail: event, Session: "S1", Turn: string(body)}
	call := telemetry.HookCall{Event: event, Capacity: 9500}
	switch event {
	case "Start":
		sig.Kind, sig.Turn, sig.Cause = telemetry.SessionLive, "", "startup"
	case "Prompt":
		sig.Kind, call.Slot = telemetry.Prompt, "pre_frame_trailing"
	case "Context":
		sig.Kind, sig.Session, call.Slot = telemetry.Alive, "", telemetry.SlotSession
	case "Stop":
		sig.Kind, sig.Outcome = telemetry.TurnStop, telemetry.Completed
	case "Tool":
		sig.Kind, sig.Tool = telemetry.ToolStart, string(body)
		call.Use = &telemetry.ToolUse{Name: "Bash", Tool: string(body)}
	default:
		return call, errors.New("not understood")
	}
	call.Signals = []telemetry.Signal{sig}
	return call, nil
}

// A fakeLedger records its appends, and fails one of them by number.
type fakeLedger struct {
	*rig
	refuse int         // the number of the failing append, from 1; 0 for none
	slow   func(n int) // called by each append
	n      int
	broken bool
	closed bool
	facts  []kernel.Fact
	failed []kernel.Fact // the facts of the failed append
}

var errDisk = errors.New("no space left on device")

func (l *fakeLedger) Append(records []ledger.Record, durable bool) ([]ledger.Entry, error) {
	l.n++
	if l.broken || l.closed {
		l.t.Error("an append after the failed one")
	}
	if l.slow != nil {
		l.slow(l.n)
	}
	var kinds []string
	var facts []kernel.Fact
	for _, r := range records {
		f, err := kernel.Decode(r.Kind, r.Body)
		require.NoError(l.t, err)
		word := r.Kind
		if o, ok := f.(kernel.Observed); ok {
			word = string(o.Record.Event)
		}
		kinds, facts = append(kinds, word), append(facts, f)
	}
	mark := ""
	if durable {
		mark = " sync"
	}
	if l.n == l.refuse {
		l.broken, l.failed = true, facts
		l.note("refused%s: %s", mark, strings.Join(kinds, " "))
		return nil, errDisk
	}
	l.facts = append(l.facts, facts...)
	l.note("append%s: %s", mark, strings.Join(kinds, " "))
	return make([]ledger.Entry, len(records)), nil
}

func (l *fakeLedger) Close() error {
	l.closed = true
	l.note("close")
	return nil
}

// A fakeLauncher starts harnesses: the first one runs play, and each later one the
// next function of again.
type fakeLauncher struct {
	*rig
	child  *fakeChild // the newest harness
	err    error
	play   func(post func(input.Input))
	again  []func(post func(input.Input))
	setup  setup.Launch
	asks   telemetry.Requests
	resets bool                    // the plugin begins fresh sessions
	asking Asking                  // receives the questions of the harness
	silent bool                    // the sources do not show which session got a prompt
	send   func(line []byte) error // receives what is sent to the plugin
	unfit  map[int]error           // the error of Prepare, by launch number
	over   sync.WaitGroup
	settle func()
	// callers decides which hook calls with the right key come from the harness. If it
	// is nil, all of them do.
	callers Callers
}

func (l *fakeLauncher) Prepare(e effect.Launch) (Plan, error) {
	if err := l.unfit[e.Number]; err != nil {
		l.note("unfit %d", e.Number)
		return Plan{}, err
	}
	sources, play := &l.sources, l.play
	if e.Number > 1 {
		l.setup.HarnessSession = fmt.Sprint("S", e.Number)
		l.child, sources, play = newChild(l.rig, e.Number), &fakeSources{rig: l.rig}, l.again[e.Number-2]
		if mine := l.later[e.Number]; mine != nil {
			sources = mine
		}
	}
	var read Sources = sources
	if l.silent {
		read = silentSources{sources}
	}
	return Plan{Setup: l.setup, Sources: read, Key: hookKey, DecodeHook: decodeHook, Requests: l.asks, Asking: l.asking, Resets: l.resets, Callers: l.callers,
		Answer: func(_, text string) []byte { return []byte(text) },
		Start: func(post func(input.Input), settle func()) (Child, error) {
			return l.start(e.Number, play, post, settle)
		},
	}, nil
}

func (l *fakeLauncher) start(n int, play func(func(input.Input)), post func(input.Input), settle func()) (Child, error) {
	if n == 1 {
		l.note("launch")
	} else {
		l.note("launch %d", n)
	}
	l.settle = settle
	if l.err != nil {
		return nil, l.err
	}
	l.over.Go(func() { play(post) })
	return l.child, nil
}

func (l *fakeLauncher) Release() { l.note("release") }

type fakeChild struct {
	*rig
	n      int                              // the number of its launch
	exit   chan input.ChildExited           // receives how the harness ended; only the first value counts
	gone   chan struct{}                    // closed when its tree has ended
	ignore bool                             // the harness ignores signals
	killed []input.Process                  // the processes that Killed returns
	output atomic.Pointer[func() time.Time] // the function that LastOutput calls
}

func newChild(r *rig, n int) *fakeChild {
	gone := make(chan struct{})
	close(gone)
	return &fakeChild{rig: r, n: n, exit: make(chan input.ChildExited, 1), gone: gone}
}

func (c *fakeChild) end(e input.ChildExited) {
	select {
	case c.exit <- e:
	default:
	}
}

func (c *fakeChild) PID() int { return 41 + c.n }
func (c *fakeChild) Signal(sig syscall.Signal) error {
	c.note("signal %d", sig)
	if !c.ignore {
		c.end(input.ChildExited{Signal: int(sig)})
	}
	return nil
}
func (c *fakeChild) Stop(sig syscall.Signal, _ time.Duration) error { return c.Signal(sig) }
func (c *fakeChild) Killed() ([]input.Process, int)                 { return c.killed, 0 }
func (c *fakeChild) KillTree() error {
	c.note("kill")
	c.end(input.ChildExited{Signal: 9})
	return nil
}
func (c *fakeChild) Continue() error { return nil }
func (c *fakeChild) LastOutput() time.Time {
	if at := c.output.Load(); at != nil {
		return (*at)()
	}
	return time.Time{}
}

func (c *fakeChild) outputs(at func() time.Time) { c.output.Store(&at) }
func (c *fakeChild) Wait() input.ChildExited {
	e := <-c.exit
	c.launcher.over.Wait()
	return e
}
func (c *fakeChild) Hold() error {
	c.note("hold")
	return nil
}
func (c *fakeChild) Free() error {
	c.note("free")
	return nil
}
func (c *fakeChild) Gone() <-chan struct{} { return c.gone }

type fakeClient struct {
	*rig
	id     string
	answer func(ctx context.Context, event string) (string, error)
}

func (c fakeClient) Call(ctx context.Context, envelope []byte) (dispatch.Answer, error) {
	e, err := lifeloop.Parse[lifeloop.DispatchEnvelope](envelope)
	require.NoError(c.t, err)
	time.Sleep(10 * time.Millisecond) // wait, so that no other event has the same time
	c.note("call %s %s", c.id, e.Request.Event)
	out, err := c.answer(ctx, string(e.Request.Event))
	return dispatch.Answer{Body: []byte(out)}, err
}

const observed = `{"status":"observed"}`

func quick(context.Context, string) (string, error) { return observed, nil }

// asleep returns a client that answers after d, unless its context ends first.
func asleep(d time.Duration) func(context.Context, string) (string, error) {
	return func(ctx context.Context, _ string) (string, error) {
		select {
		case <-time.After(d):
			return observed, nil
		case <-ctx.Done():
			return "", &dispatch.Failure{Class: lifeloop.Timeout, Why: "no answer in time"}
		}
	}
}

// brings returns a client that answers frame.opening with a payload for the
// model.
func brings(text string) func(context.Context, string) (string, error) {
	return func(_ context.Context, event string) (string, error) {
		if event != string(lifeloop.FrameOpening) {
			return observed, nil
		}
		body := lifeloop.NewOpaque(text)
		out, err := lifeloop.CallbackResponse{Status: lifeloop.Observed, ClientPayloads: []lifeloop.PayloadEnvelope{{
			SchemaVersion: 1, PayloadID: "pay_1", ClientID: "notes", PayloadKind: "note", Format: "text", ContentEncoding: "utf8",
			Body: &body, ByteSize: int64(len(text)), Redaction: "none", Metadata: map[string]any{},
			AcceptablePlacements: []lifeloop.AcceptablePlacement{{Placement: lifeloop.PrePromptFrame, Requirement: lifeloop.Preferred}},
		}}}.Encode()
		return string(out), err
	}
}

// fakeSources posts nothing until its context ends. Then it posts the signals in last.
type fakeSources struct {
	*rig
	last []telemetry.Signal
	err  error
	late []telemetry.Signal // signals posted a minute after the context ended
}

func (s *fakeSources) Run(ctx context.Context, post func(input.Input)) error {
	if s.err != nil {
		return s.err
	}
	<-ctx.Done()
	s.note("sources read")
	if len(s.last) > 0 {
		post(input.SignalsSeen{Signals: s.last})
	}
	time.Sleep(5 * time.Millisecond)
	if len(s.late) > 0 {
		time.AfterFunc(time.Minute, func() { post(input.SignalsSeen{Signals: s.late}) })
	}
	return nil
}
func (s *fakeSources) Launched(pid int)               { s.note("sources know pid %d", pid) }
func (s *fakeSources) Watch(path string, _ time.Time) { s.note("watch %s", path) }
func (s *fakeSources) Names() []string                { return []string{"transcript"} }

// fakeDoor is open until ctx ends.
type fakeDoor struct {
	ctx   context.Context
	s     *supervisor
	ready chan struct{}
	calls sync.WaitGroup
}

func (d *fakeDoor) Serve(ctx context.Context, h control.Handler) error {
	d.ctx, d.s = ctx, h.(*supervisor)
	close(d.ready)
	<-ctx.Done()
	d.calls.Wait()
	return nil
}

// fakeCaller is a hook that waits for its answer.
type fakeCaller struct {
	*rig
	event   string
	gone    chan struct{}
	lost    bool // the harness closes the hook just when the answer is sent
	answers int
	out     []byte
	after   time.Duration // how long the hook took
}

func (c *fakeCaller) Answer(out []byte) bool {
	c.answers++
	c.out = out
	c.note("answer %s %q", c.event, out)
	return !c.lost
}
func (c *fakeCaller) Gone() <-chan struct{} { return c.gone }

// hook calls one hook and returns when it is over.
func (r *rig) hook(event, body string, more ...func(*fakeCaller)) *fakeCaller {
	<-r.door.ready
	c := &fakeCaller{rig: r, event: event, gone: make(chan struct{})}
	for _, f := range more {
		f(c)
	}
	r.door.calls.Add(1)
	defer r.door.calls.Done()
	began := time.Now()
	r.door.s.hook(r.door.ctx, control.Hook{Key: hookKey, Event: event, Input: []byte(body)}, c)
	c.after = time.Since(began)
	return c
}

// post sends an input to the loop, as the door does.
func (r *rig) post(in input.Input) {
	<-r.door.ready
	r.door.s.post(in)
}

// receipts returns the receipts on the ledger, each as client, event and
// status.
func (r *rig) receipts() []string {
	var out []string
	for _, f := range r.ledger.facts {
		if f, ok := f.(kernel.ReceiptIssued); ok {
			line := fmt.Sprintf("%s %s %s", f.Receipt.ClientID, f.Receipt.Event, f.Receipt.Status)
			if f.Receipt.FailureClass != nil {
				line += " " + string(*f.Receipt.FailureClass)
			}
			out = append(out, line)
		}
	}
	return out
}

// TestARunFromStartToEnd shows the order of a run. Each fact is on the ledger before its
// effects. At the end, the terminal is restored, the sources are read to their end, the
// last events are delivered, and the ledger is closed.
func TestARunFromStartToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.answers["notes"] = brings("remember")
		r.launcher.play = func(post func(input.Input)) {
			time.Sleep(time.Second)
			r.hook("Start", "")
			time.Sleep(time.Second)
			if got := string(r.hook("Prompt", "p1").out); !strings.Contains(got, "remember") {
				t.Errorf("the prompt's hook got the answer %q", got)
			}
			time.Sleep(time.Second)
			r.hook("Stop", "p1")
			r.launcher.child.end(input.ChildExited{Code: 7})
		}
		r.sources.last = []telemetry.Signal{{Kind: telemetry.TurnEnd, Source: "transcript", Session: "S1", Turn: "p1"}}
		result, err := r.run()
		require.NoError(t, err)
		require.Equal(t, kernel.Result{State: session.Failed, Code: 7}, result)
		require.Equal(t, strings.TrimSpace(story), strings.Join(r.trace, "\n"))
	})
}

const story = `
0s    append sync: began session_moved session_moved activity_moved harness_session_opened session.starting launching dispatched
0s    launch
0s    sources know pid 42
0s    append: running
10ms  call notes session.starting
10ms  append sync: answered receipt_issued
1s    append sync: session.started hook_heard dispatched
1s    answer Start ""
1.01s call notes session.started
1.01s append sync: answered receipt_issued
2s    append sync: frame.opening activity_moved dispatched
2.01s call notes frame.opening
2.01s append sync: answered placing
2.01s answer Prompt "{\"payloads\":[{\"payload_id\":\"pay_1\",\"payload_kind\":\"note\",\"body\":\"remember\"}]}"
2.01s append sync: hook_heard payload_settled receipt_issued frame.opened dispatched
2.02s call notes frame.opened
2.02s append sync: answered receipt_issued
3.01s append sync: frame.ending hook_heard dispatched
3.01s answer Stop ""
3.01s append sync: exited activity_moved
3.01s release
3.01s sources read
3.01s append sync: frame.ended
3.015s append sync: session.ending session.ended attempt_ended drain_began
3.02s call notes frame.ending
3.02s append sync: answered receipt_issued dispatched
3.03s call notes frame.ended
3.03s append sync: answered receipt_issued dispatched
3.04s call notes session.ending
3.04s append sync: answered receipt_issued dispatched
3.05s call notes session.ended
3.05s append sync: answered receipt_issued session_moved
3.05s close
`

// TestManyInputsAreCommittedTogether delays the ledger for a second. The inputs
// of that second are one append.
func TestManyInputsAreCommittedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.ledger.slow = func(n int) {
			if n == 2 {
				time.Sleep(time.Second)
			}
		}
		r.launcher.play = func(post func(input.Input)) {
			time.Sleep(time.Millisecond)
			for i := range 20 {
				kind := []telemetry.Kind{telemetry.Working, telemetry.Idle}[i%2]
				post(input.SignalsSeen{Signals: []telemetry.Signal{{Kind: kind, Source: "registry", Session: "S1"}}})
			}
			r.launcher.child.end(input.ChildExited{})
		}
		_, err := r.run()
		require.NoError(t, err)
		appends := r.lines("append")
		require.Contains(t, appends[2], strings.Repeat("activity_moved ", 19), "%s", strings.Join(appends, "\n"))
		if !strings.HasPrefix(appends[2], "1s") {
			t.Errorf("committed at the wrong time: %s", appends[2])
		}
	})
}

// Before the wrapper suspends itself, it waits until the stop of the harness is on the
// ledger, for settleTime at most.
func TestAStopIsRecordedBeforeWeStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var wait atomic.Int64
		wait.Store(int64(50 * time.Millisecond))
		r.ledger.slow = func(int) { time.Sleep(time.Duration(wait.Load())) }
		r.launcher.play = func(post func(input.Input)) {
			for i := range 5 {
				post(input.OutputSeen{Total: int64(i)})
			}
			post(input.ChildStopped{Signal: 20})
			r.launcher.settle()
			r.note("stopping")
			post(input.ChildContinued{})
			wait.Store(int64(time.Minute))
			post(input.ChildStopped{Signal: 20})
			r.launcher.settle()
			r.note("stopping after settleTime")
			r.launcher.child.end(input.ChildExited{})
		}
		_, err := r.run()
		require.NoError(t, err)
		moved := 0
		for _, l := range r.trace[:r.first("stopping")] {
			moved += strings.Count(l, "session_moved")
		}
		require.GreaterOrEqual(t, moved, 3, "the ledger has PENDING, RUNNING and PAUSED")
		require.Len(t, r.lines("stopping after settleTime"), 1)
	})
}

// TestASlowClientDelaysNothing uses a client that takes half a minute during a
// hook call. The hook is answered before the harness times out, and the loop
// continues.
func TestASlowClientDelaysNothing(t *testing.T) {
	for name, client := range map[string]func(context.Context, string) (string, error){
		"it obeys its context": asleep(30 * time.Second),
		"it does not": func(context.Context, string) (string, error) {
			time.Sleep(30 * time.Second)
			return observed, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.answers["slow"] = client
				var released time.Duration
				r.launcher.play = func(post func(input.Input)) {
					for range 3 {
						time.Sleep(6 * time.Second)
						c := r.hook("Prompt", "p1")
						if c.after > 5*time.Second-hookMargin || c.answers != 1 || len(c.out) > 0 {
							t.Errorf("the hook got %d answers, %q, after %s", c.answers, c.out, c.after)
						}
						began := time.Now()
						post(input.OutputSeen{Total: 1})
						if d := time.Since(began); d > 0 {
							t.Errorf("the loop was blocked for %s", d)
						}
					}
					r.launcher.child.end(input.ChildExited{})
					released = time.Since(r.began)
				}
				result, err := r.run()
				require.NoError(t, err)
				require.Equal(t, kernel.Result{State: session.Completed}, result)
				got := r.lines("release")
				require.Len(t, got, 1)
				require.True(t, strings.HasPrefix(got[0], released.String()), "the terminal was restored late: %s, harness gone at %s", got[0], released)
			})
		})
	}
}

// TestSignals checks the signals that end a harness, and their times.
func TestSignals(t *testing.T) {
	for _, tt := range []struct {
		name   string
		ignore bool
		again  time.Duration // the time of a second signal; 0 if there is none
		want   []string
		code   int
	}{
		{"it obeys the first signal", false, 0, []string{"1s    signal 2"}, 130},
		{"it ignores signals", true, 0, []string{"1s    signal 2", "3.5s  signal 15", "6s    kill"}, 137},
		{"a second signal soon after is the same one", true, 1900 * time.Millisecond, []string{"1s    signal 2", "3.5s  signal 15", "6s    kill"}, 137},
		{"a later one skips the wait", true, 2 * time.Second, []string{"1s    signal 2", "3s    kill"}, 137},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.launcher.child.ignore = tt.ignore
				r.launcher.play = func(func(input.Input)) {
					time.Sleep(time.Second)
					r.signals <- syscall.SIGINT
					if tt.again > 0 {
						time.Sleep(tt.again)
						r.signals <- syscall.SIGINT
					}
				}
				result, err := r.run()
				require.NoError(t, err)
				require.Equal(t, kernel.Result{State: session.Aborted, Code: tt.code, Signal: tt.code - 128}, result)
				require.Equal(t, tt.want, r.lines("signal", "kill"))
			})
		})
	}
}

// The end of the context ends the session as SIGTERM does.
func TestAContextThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		r.answers["notes"] = quick
		r.launcher.play = func(func(input.Input)) {}
		result, err := r.runContext(ctx)
		require.NoError(t, err)
		require.Equal(t, kernel.Result{State: session.Aborted, Code: 143, Signal: 15}, result)
		require.Equal(t, []string{"1m0s  signal 15"}, r.lines("signal", "kill"))
		require.Contains(t, r.receipts(), "notes session.ended observed", "clients still drain")
	})
}

type codedError struct{ code int }

func (codedError) Error() string   { return "exec of harness: it cannot be started" }
func (e codedError) ExitCode() int { return e.code }

func TestALaunchThatFails(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		code int
	}{
		{"not found", fmt.Errorf("launch: %w", codedError{127}), 127},
		{"not executable", codedError{126}, 126},
		{"without an exit code", errors.New("no pty left"), 125},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.answers["notes"] = quick
				r.launcher.err = tt.err
				result, err := r.run()
				require.NoError(t, err)
				require.Equal(t, kernel.Result{State: session.Failed, Code: tt.code, Failure: lifeloop.AdapterUnavailable, Why: tt.err.Error()}, result)
				require.Equal(t, []string{"notes session.starting observed", "notes session.ending observed", "notes session.ended observed"}, r.receipts())
				require.Len(t, r.lines("release"), 1)
			})
		})
	}
}

// TestClientsThatFail checks the failure class of each failure; the run ends
// normally.
func TestClientsThatFail(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer func(context.Context, string) (string, error)
		want   string
	}{
		{"it panics", func(context.Context, string) (string, error) { panic("oh") }, "internal_error"},
		{"its answer is not JSON", func(context.Context, string) (string, error) { return "hello", nil }, "invalid_request"},
		{"its answer is invalid", func(context.Context, string) (string, error) { return `{"status":"failed"}`, nil }, "invalid_request"},
		{"it cannot be started", func(context.Context, string) (string, error) {
			return "", &dispatch.Failure{Class: lifeloop.TransportError, Why: "not found"}
		}, "transport_error"},
		{"it fails without a class", func(context.Context, string) (string, error) { return "", errors.New("oh") }, "internal_error"},
		{"it sleeps", asleep(time.Hour), "timeout"},
		{"it does not exist", nil, "internal_error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.answers["notes"] = tt.answer
				r.launcher.play = func(func(input.Input)) {
					time.Sleep(8 * time.Second)
					r.launcher.child.end(input.ChildExited{})
				}
				result, err := r.run()
				require.NoError(t, err)
				require.Equal(t, kernel.Result{State: session.Completed}, result, "the exit code is the harness's")
				got := r.receipts()
				require.Len(t, got, 3)
				for _, line := range got {
					require.True(t, strings.HasSuffix(line, " failed "+tt.want), "%s", line)
				}
			})
		})
	}
}

func TestHooks(t *testing.T) {
	lost := func(c *fakeCaller) { c.lost = true }
	leaves := func(c *fakeCaller) { time.AfterFunc(time.Second, func() { close(c.gone) }) }
	for _, tt := range []struct {
		name string
		play func(t *testing.T, r *rig)
		want []string // the receipts of frame.opening
	}{
		{"delivered", func(t *testing.T, r *rig) {
			c := r.hook("Prompt", "p1")
			require.Equal(t, 1, c.answers)
			require.Contains(t, string(c.out), "remember")
		}, []string{"notes frame.opening delivered"}},
		{"it closes at the moment of the answer", func(t *testing.T, r *rig) { r.hook("Prompt", "p1", lost) },
			[]string{"notes frame.opening degraded"}},
		{"it closes before the answer", func(t *testing.T, r *rig) {
			c := r.hook("Prompt", "p1", leaves)
			require.Zero(t, c.answers)
			require.Equal(t, time.Second, c.after)
			time.Sleep(2 * time.Second) // the payload arrives after the hook was closed
		}, []string{"notes frame.opening degraded"}},
		{"it cannot be decoded", func(t *testing.T, r *rig) {
			c := r.hook("Other", "{")
			require.Equal(t, 1, c.answers)
			require.Empty(t, c.out)
		}, nil},
		{"it is a report and waits for no answer", func(t *testing.T, r *rig) {
			<-r.door.ready
			c := &fakeCaller{rig: r, gone: make(chan struct{})}
			r.door.s.hook(r.door.ctx, control.Hook{Key: hookKey, Event: "Start", OneWay: true}, c)
			require.Zero(t, c.answers)
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.answers["notes"] = func(ctx context.Context, event string) (string, error) {
					if tt.name == "it closes before the answer" && event == string(lifeloop.FrameOpening) {
						time.Sleep(2 * time.Second)
					}
					return brings("remember")(ctx, event)
				}
				r.launcher.play = func(func(input.Input)) {
					r.hook("Start", "")
					tt.play(t, r)
					time.Sleep(time.Second)
					r.launcher.child.end(input.ChildExited{})
				}
				_, err := r.run()
				require.NoError(t, err)
				var got []string
				for _, line := range r.receipts() {
					if strings.Contains(line, "frame.opening") {
						got = append(got, line)
					}
				}
				require.Equal(t, tt.want, got)
			})
		})
	}
}

// Sources that cannot be watched are reported, with the capabilities that depend on them,
// and the run continues.
func TestSourcesThatCannotBeWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.sources.err = errors.New("no inotify left")
		r.launcher.play = func(func(input.Input)) {
			time.Sleep(time.Second)
			r.launcher.child.end(input.ChildExited{})
		}
		result, err := r.run()
		require.NoError(t, err)
		require.Equal(t, kernel.Result{State: session.Completed}, result)
		require.Contains(t, r.ledger.facts, kernel.Fact(kernel.SourceTroubled{Source: "watcher", What: "stopped"}))
		var lost []string
		for _, f := range r.ledger.facts {
			if o, ok := f.(kernel.Observed); ok && o.Degradation != nil {
				lost = append(lost, o.Degradation.Capability+" "+string(o.Degradation.CurrentSupport))
			}
		}
		require.Equal(t, []string{"telemetry.transcript unavailable"}, lost)
	})
}

// TestEveryAppendMayFail fails the first append, then the second, and so on to the
// last. Effects whose facts could not be written are not performed, and no caller is
// left waiting. The tests of package ledger check whether the bytes reach the disk.
func TestEveryAppendMayFail(t *testing.T) {
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprintf("keep going %t", keep), func(t *testing.T) {
			n := 0
			for more := true; more; {
				n++
				synctest.Test(t, func(t *testing.T) { more = refuseAppend(t, n, keep) })
			}
			require.Greater(t, n, 15, "a complete run has more appends")
		})
	}
}

// refuseAppend plays one run whose n-th append fails. It reports whether the run made
// that many appends.
func refuseAppend(t *testing.T, n int, keep bool) bool {
	r := newRig(t)
	r.ledger.refuse, r.options.KeepGoing = n, keep
	r.answers["notes"] = brings("remember")
	var exited time.Time // the time at which the harness exited
	r.launcher.play = func(func(input.Input)) {
		time.Sleep(time.Second)
		for _, h := range []string{"Start", "Prompt", "Stop"} {
			c := r.hook(h, "p1")
			if c.answers > 1 || c.after > 4500*time.Millisecond {
				t.Errorf("append %d: hook %s got %d answers after %s", n, h, c.answers, c.after)
			}
			r.do("renew", "") // the method do checks that the command is answered
			time.Sleep(time.Second)
		}
		r.do("pause", "")
		time.Sleep(time.Second)
		r.do("resume", "")
		time.Sleep(time.Second)
		r.launcher.child.end(input.ChildExited{Code: 3})
		exited = time.Now()
	}
	result, err := r.run()
	if !exited.IsZero() {
		require.Less(t, time.Since(exited), time.Second, "append %d: the wrapper does not end", n)
	}
	if !r.ledger.broken {
		require.NoError(t, err)
		return false
	}
	refused := r.first("refused")
	after := strings.Join(r.trace[refused+1:], "\n")
	where := fmt.Sprintf("append %d:\n%s", n, strings.Join(r.trace, "\n"))
	require.NotContains(t, after, "launch", where)
	require.LessOrEqual(t, len(r.lines("call")), count[kernel.Dispatched](r), where)
	require.Equal(t, strings.Contains(strings.Join(r.trace, "\n"), "remember"), count[kernel.Placing](r) > 0, where)
	if holds := r.lines("hold", "free"); len(holds) > 0 {
		require.Contains(t, holds[len(holds)-1], "free", where, "a stopped tree is continued before it is ended")
	}
	require.True(t, r.ledger.closed, where)
	require.NotEmpty(t, r.lines("release"), where)
	if launched := len(r.lines("launch")) > 0; !keep {
		require.ErrorIs(t, err, ErrLedger, where)
		require.ErrorIs(t, err, errDisk, where)
		require.Equal(t, kernel.Result{Code: 125, Failure: lifeloop.InternalError}, result, where)
		if launched && r.childLives() {
			require.Contains(t, after, "signal 15", where)
		}
	} else {
		require.NoError(t, err, where)
		want := 125
		if launched {
			want = 3
		}
		require.Equal(t, want, result.Code, where)
		require.Empty(t, r.lines("signal", "kill"), where)
	}
	return true
}

// count counts the facts of a kind on the ledger.
func count[F kernel.Fact](r *rig) (n int) {
	for _, f := range r.ledger.facts {
		if _, ok := f.(F); ok {
			n++
		}
	}
	return n
}

// childLives reports whether the harness ran when the append failed.
func (r *rig) childLives() bool {
	for _, f := range slices.Concat(r.ledger.facts, r.ledger.failed) {
		if _, gone := f.(kernel.Exited); gone {
			return false
		}
	}
	return true
}
