package kernel_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"lifeloop/attempt"
	"lifeloop/internal/signaltext"
	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/session"
	"lifeloop/telemetry"
)

// TestScenarios runs every file under testdata as one session. Each command is
// one input; the output is the whole turn. Rewrite with
// go test ./kernel -rewrite, and read the diff.
//
//	run hooks id=S1 clients=(notes,audit) [requires=notes:frame.opening=required] [manifest=pre_session:unavailable]
//	hook SessionStart slot=pre_session wait=4s live=S1 cause=startup | prompt=p1 | stop=p1 …   (signals as below)
//	signal transcript in=ID live=… prompt=… working idle needs alive cleared turn=TURN stop=TURN end=TURN outcome=… error=… usage=N id=… window=N:src compacting compacted=half:trigger:before:after gone=ID reason=… tool=ID tool-end=ID limit=SECONDS ago=1s side=WHAT
//	trouble SOURCE WHAT · unknown SOURCE TYPE=N
//	answer CALL [status=observed] [payload=placement:kind:body[:required]] [fail=timeout]
//	written HOOK | gone HOOK
//	run … retries=2 max-retries=6 backoff=fixed:1s[:MAX] on=(model,…) fallback=(a,b) [missing=b] takes=a initial=2s inter=5s tool=1s session=1m idle=30s continuation every=3 rule=ID:on:severity:recoverable:REGEXP drift=3 zero-output on-limit=wait loop=3:10s:1m quit=2 by-turn success=(0,2) code=75:network
//	output 100 ["text"] · fail model [code=ECONNRESET] [until=30s] · checkpoint T1 · launched [id=S2] · pause [ask] · resume · renew · stop-it
//	crash [kept=N]
//	wait 2s · exit code=0 signal=9 leftover=1 · drained · abort 15 · stopped 19 · continued · launched · launch-failed 127 · output 100
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		w := &world{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w.t = t
			return w.command(d)
		})
	})
}

type world struct {
	t       *testing.T
	k       *kernel.Kernel
	cfg     kernel.Config
	now     time.Time
	entries []kernel.Entry
	hooks   int
	asks    int
	seen    []kernel.Effect
	l0      *l0Judge
	hcp     *hcpJudge
}

func (w *world) command(d *datadriven.TestData) string {
	switch d.Cmd {
	case "run":
		w.configure(d)
		if d.HasArg("aborted") { // somebody was quicker
			w.step(kernel.AbortAsked{Signal: 15})
		}
		return w.step(kernel.Start{})
	case "trouble":
		return w.step(kernel.SourceTrouble{Source: d.CmdArgs[0].Key, What: d.CmdArgs[1].Key})
	case "unknown":
		types := map[string]int{}
		for _, a := range d.CmdArgs[1:] {
			types[a.Key], _ = strconv.Atoi(a.Vals[0])
		}
		return w.step(kernel.UnknownSeen{Source: d.CmdArgs[0].Key, Types: types})
	case "launched":
		in := kernel.Launched{PID: 4242}
		for _, a := range d.CmdArgs {
			switch a.Key {
			case "id": // of a launch that is not the first
				setup := w.cfg.Setup
				setup.HarnessSession = a.Vals[0]
				in.Setup = &setup
			default:
				w.t.Fatalf("unknown word %q", a.Key)
			}
		}
		return w.step(in)
	case "crash": // the wrapper dies, and another one takes the session up; of the ledger kept=N entries are left
		for _, a := range d.CmdArgs {
			n, _ := strconv.Atoi(a.Vals[0])
			w.entries = w.entries[:n]
		}
		w.k, w.l0, w.hcp = kernel.Replay(w.cfg, ledgered(w.t, w.entries)), &l0Judge{}, &hcpJudge{}
		w.judge(w.entries)
		return w.step(kernel.Restarted{PID: 99})
	case "launch-failed":
		return w.step(kernel.LaunchFailed{Code: w.number(d, 0)})
	case "output":
		in := kernel.OutputSeen{Total: int64(w.number(d, 0))}
		if d.Input != "" {
			in.Text = []byte(strings.NewReplacer(`\e`, "\x1b", `\n`, "\n").Replace(d.Input))
		}
		return w.step(in)
	case "fail":
		in := kernel.FailureSeen{Cause: attempt.Cause(d.CmdArgs[0].Key), Source: "stream"}
		for _, a := range d.CmdArgs[1:] {
			switch a.Key {
			case "code":
				in.Code = a.Vals[0]
			case "until":
				in.Until = w.now.Add(w.duration(a.Vals[0]))
			default:
				w.t.Fatalf("unknown word %q", a.Key)
			}
		}
		return w.step(in)
	case "checkpoint":
		return w.step(kernel.CheckpointSeen{Checkpoint: d.CmdArgs[0].Key})
	case "pause":
		return w.step(kernel.PauseAsked{Ask: w.ask(), Reason: strings.TrimSpace(d.Input)})
	case "resume":
		return w.step(kernel.ResumeAsked{Ask: w.ask(), Reason: strings.TrimSpace(d.Input)})
	case "renew":
		return w.step(kernel.RenewAsked{Ask: w.ask()})
	case "stop-it":
		return w.step(kernel.AbortAsked{Signal: 15, Ask: w.ask(), Reason: strings.TrimSpace(d.Input)})
	case "signal":
		return w.step(kernel.SignalsSeen{Signals: w.signals(d.CmdArgs[0].Key, d.CmdArgs[1:])})
	case "hook":
		w.hooks++
		call := telemetry.HookCall{Event: d.CmdArgs[0].Key, Capacity: 9500}
		wait := 4 * time.Second
		rest := d.CmdArgs[1:]
		for _, a := range d.CmdArgs[1:] {
			switch a.Key {
			case "slot":
				call.Slot = a.Vals[0]
			case "wait":
				wait, _ = time.ParseDuration(a.Vals[0])
			case "capacity":
				call.Capacity, _ = strconv.Atoi(a.Vals[0])
			}
		}
		call.Signals = w.signals("hook", rest)
		for i := range call.Signals {
			call.Signals[i].Detail = call.Event
			call.Session = call.Signals[i].Session
		}
		return w.step(kernel.HookCalled{Hook: fmt.Sprint("h", w.hooks), Call: call, Deadline: w.now.Add(wait)})
	case "written", "gone":
		return w.step(kernel.HookClosed{Hook: d.CmdArgs[0].Key, Delivered: d.Cmd == "written"})
	case "answer":
		return w.step(w.answer(d))
	case "wait":
		dur, err := time.ParseDuration(d.CmdArgs[0].Key)
		require.NoError(w.t, err)
		w.now = w.now.Add(dur)
		return w.step(kernel.Wake{})
	case "exit":
		in := kernel.ChildExited{}
		for _, a := range d.CmdArgs {
			n, _ := strconv.Atoi(a.Vals[0])
			switch a.Key {
			case "code":
				in.Code = n
			case "signal":
				in.Signal = n
			case "leftover":
				in.Leftover = n
			}
		}
		return w.step(in)
	case "drained":
		return w.step(kernel.SourcesDrained{})
	case "abort":
		return w.step(kernel.AbortAsked{Signal: w.number(d, 0)})
	case "stopped":
		return w.step(kernel.ChildStopped{Signal: w.number(d, 0)})
	case "continued":
		return w.step(kernel.ChildContinued{})
	case "frame": // frame open|close ID [parent=P] [outcome=O]
		in := kernel.FrameRequested{Ask: w.ask(), Open: d.CmdArgs[0].Key == "open", Frame: d.CmdArgs[1].Key}
		for _, a := range d.CmdArgs[2:] {
			switch a.Key {
			case "parent":
				in.Parent = a.Vals[0]
			case "outcome":
				in.Outcome = a.Vals[0]
			default:
				w.t.Fatalf("unknown word %q", a.Key)
			}
		}
		return w.step(in)
	case "ledger-lost":
		return w.step(kernel.LedgerLost{})
	}
	w.t.Fatalf("unknown command %q", d.Cmd)
	return ""
}

func (w *world) ask() string {
	w.asks++
	return fmt.Sprint("a", w.asks)
}

func (w *world) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	require.NoError(w.t, err)
	return d
}

func (w *world) number(d *datadriven.TestData, i int) int {
	n, err := strconv.Atoi(d.CmdArgs[i].Key)
	require.NoError(w.t, err)
	return n
}

func (w *world) configure(d *datadriven.TestData) {
	n := map[string]int{}
	native := lifeloop.EventClaim{Support: lifeloop.Native, Modes: []lifeloop.IntegrationMode{lifeloop.NativeHook}}
	limit := int64(8192)
	place := lifeloop.PlacementClaim{Support: lifeloop.Native, MaxBytes: &limit}
	cfg := kernel.Config{
		Session: "sess", Ledger: true, ClientDrain: 5 * time.Second, AbortGrace: 5 * time.Second,
		NewID: func(p string) string { n[p]++; return fmt.Sprint(p, n[p]) },
		Began: kernel.Began{SessionID: "sess", AdapterID: "fake", Program: "fake", Clients: []string{}},
		Setup: kernel.Setup{Manifest: lifeloop.Manifest{
			AdapterID: "fake", AdapterVersion: "0.1.0",
			LifecycleEvents: map[lifeloop.Event]lifeloop.EventClaim{}, ContextPressure: lifeloop.Claim{Support: lifeloop.Native},
			Receipts: lifeloop.ReceiptClaims{ReceiptLedger: lifeloop.Synthesized},
			Placement: map[lifeloop.Placement]lifeloop.PlacementClaim{
				lifeloop.PreSession: place, lifeloop.PreFrameTrailing: {Support: lifeloop.Partial, MaxBytes: &limit}, lifeloop.ToolResult: place},
		}},
	}
	for _, e := range lifeloop.Events() {
		cfg.Manifest.LifecycleEvents[e] = native
	}
	wants := map[string][]negotiate.Want{}
	var clients, named, only []string
	timeout := 5 * time.Second
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "hooks":
			cfg.Hooks, cfg.Synth.Hooks = true, true
		case "expected":
			cfg.Expected = a.Vals
			for _, name := range a.Vals {
				cfg.Manifest.TelemetrySources = append(cfg.Manifest.TelemetrySources, lifeloop.TelemetrySource{Name: name, Kind: "jsonl", Support: lifeloop.Native})
			}
		case "aborted": // as soon as it is asked to begin
		case "deaf":
			cfg.NoTelemetry = true
		case "tested":
			cfg.Tested, cfg.Manifest.DisplayName = a.Vals, "Fake"
		case "one-hook":
			cfg.OneHook, cfg.Ledger = true, false
		case "observing":
			cfg.Observing, cfg.Ledger = true, false
			cfg.Began.Program = "" // nothing is launched
		case "id":
			cfg.HarnessSession = a.Vals[0]
		case "cause":
			cfg.Cause = a.Vals[0]
		case "clients":
			clients = a.Vals
		case "only":
			only = a.Vals // events that clients subscribe to, instead of the usual ones
		case "named":
			named = a.Vals // events that every client names besides the usual ones
		case "tick":
			cfg.Tick, _ = time.ParseDuration(a.Vals[0])
		case "timeout":
			timeout, _ = time.ParseDuration(a.Vals[0])
		case "queue":
			cfg.MaxQueue, _ = strconv.Atoi(a.Vals[0])
		case "requires":
			client, rest, _ := strings.Cut(a.Vals[0], ":")
			name, level, _ := strings.Cut(rest, "=")
			wants[client] = append(wants[client], negotiate.Want{Capability: name, Level: lifeloop.Requirement(level)})
		case "lacks":
			cfg.Manifest.LifecycleEvents[lifeloop.Event(a.Vals[0])] = lifeloop.EventClaim{Support: lifeloop.Unavailable}
		case "quit":
			cfg.Quit, _ = strconv.Atoi(a.Vals[0])
		case "by-turn":
			cfg.Ends.ByTurn = true
		case "success":
			cfg.Ends.Success = map[int]bool{}
			for _, v := range a.Vals {
				code, _ := strconv.Atoi(v)
				cfg.Ends.Success[code] = true
			}
		case "code":
			code, cause, _ := strings.Cut(a.Vals[0], ":")
			n, _ := strconv.Atoi(code)
			cfg.Ends.Codes = map[int]attempt.Cause{n: attempt.Cause(cause)}
		case "resumes":
			cfg.Resumes = true
		case "converses":
			cfg.Interactive = true
		case "weak":
			cfg.Weak = append(cfg.Weak, kernel.Weakened{Capability: a.Vals[0], Reason: "the user turned it off"})
		default:
			w.policy(&cfg, a)
		}
	}
	for range cfg.Policy.Profiles {
		cfg.Manifests = append(cfg.Manifests, cfg.Manifest)
	}
	for _, id := range clients {
		c := kernel.Client{ID: id, Events: map[lifeloop.Event]bool{}, Timeout: timeout, Wants: wants[id]}
		for _, e := range lifeloop.Events() {
			c.Events[e] = e != lifeloop.ReceiptEmitted && e != lifeloop.SupervisorTick || slices.Contains(named, string(e))
			if only != nil {
				c.Events[e] = slices.Contains(only, string(e))
			}
		}
		cfg.Clients = append(cfg.Clients, c)
	}
	cfg.Wants = wants[""]
	w.cfg, w.k, w.entries, w.seen, w.hooks, w.asks = cfg, kernel.New(cfg), nil, nil, 0, 0
	w.l0, w.hcp = &l0Judge{}, &hcpJudge{}
}

// policy reads one word of the policy of attempts.
func (w *world) policy(cfg *kernel.Config, a datadriven.CmdArg) {
	p := &cfg.Policy
	val := ""
	if len(a.Vals) > 0 {
		val = a.Vals[0]
	}
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		require.NoError(w.t, err)
		return n
	}
	if len(p.Profiles) == 0 {
		p.Profiles = []attempt.Profile{{Name: "fake"}}
	}
	switch a.Key {
	case "retries":
		p.Attempts = number(val)
		p.MaxRetries = max(p.MaxRetries, attempt.DefaultMaxRetries(p.Attempts, 1))
		if p.On == nil {
			p.On = attempt.DefaultOn()
		}
		p.Backoff.Kind = attempt.Fixed
	case "max-retries":
		p.MaxRetries = number(val)
	case "backoff":
		parts := strings.Split(val, ":")
		p.Backoff = attempt.Backoff{Kind: attempt.BackoffKind(parts[0]), Base: w.duration(parts[1])}
		if len(parts) > 2 {
			p.Backoff.Max = w.duration(parts[2])
		}
	case "on":
		p.On = map[attempt.Cause]bool{}
		for _, v := range a.Vals {
			p.On[attempt.Cause(v)] = true
		}
	case "fallback":
		for _, v := range a.Vals {
			p.Profiles = append(p.Profiles, attempt.Profile{Name: v})
		}
	case "missing", "takes":
		for i := range p.Profiles {
			if p.Profiles[i].Name == val && a.Key == "missing" {
				p.Profiles[i].Missing = "not found"
			} else if p.Profiles[i].Name == val {
				p.Profiles[i].AcceptsContinuation = true
			}
		}
	case "initial":
		p.Initial = w.duration(val)
	case "inter":
		p.Inter = w.duration(val)
	case "tool":
		p.Tool = w.duration(val)
	case "session":
		p.Session = w.duration(val)
	case "idle":
		p.Idle = w.duration(val)
	case "continuation":
		p.Continuation = true
	case "every":
		p.CheckpointEvery = int64(number(val))
	case "rule":
		parts := strings.SplitN(val, ":", 5)
		p.Rules = append(p.Rules, attempt.Rule{ID: parts[0], On: attempt.RuleOn(parts[1]), Severity: attempt.Severity(parts[2]),
			Recoverable: parts[3] == "true", Pattern: regexp.MustCompile(parts[4])})
	case "drift":
		p.Repeat = number(val)
	case "zero-output":
		p.ZeroOutput = true
	case "on-limit":
		p.OnLimit = attempt.OnLimit(val)
	case "loop":
		parts := strings.Split(val, ":")
		p.Loop = attempt.CrashLoop{Launches: number(parts[0]), Within: w.duration(parts[1]), Quarantine: w.duration(parts[2])}
	default:
		w.t.Fatalf("unknown argument %q", a.Key)
	}
}

// signals parses the words of a signal or of a hook; see package signaltext.
func (w *world) signals(source string, args []datadriven.CmdArg) []telemetry.Signal {
	var words []signaltext.Word
	for _, a := range args {
		if slices.Contains([]string{"slot", "wait", "capacity"}, a.Key) { // of the hook itself
			continue
		}
		words = append(words, signaltext.Word{Key: a.Key, Value: strings.Join(a.Vals, "")})
	}
	signals, err := signaltext.Parse(telemetry.Signal{Source: source, Detail: "r"}, w.now, words)
	require.NoError(w.t, err)
	return signals
}

func (w *world) answer(d *datadriven.TestData) kernel.Input {
	in := kernel.Returned{Call: d.CmdArgs[0].Key}
	r := &lifeloop.CallbackResponse{Status: lifeloop.Observed}
	client := "notes"
	for _, e := range w.seen {
		if c, ok := e.(kernel.Dispatch); ok && c.Call == in.Call {
			client = c.Client
		}
	}
	for _, a := range d.CmdArgs[1:] {
		switch a.Key {
		case "fail":
			in.Failure, in.Why = lifeloop.FailureClass(a.Vals[0]), "said so"
			return in
		case "status":
			r.Status = lifeloop.Status(a.Vals[0])
		case "class":
			c := lifeloop.FailureClass(a.Vals[0])
			r.FailureClass = &c
		case "key":
			r.ClientPayloads[len(r.ClientPayloads)-1].IdempotencyKey = &a.Vals[0]
		case "payload", "expires":
			p := strings.Split(a.Vals[0], ":")
			if a.Key == "expires" {
				at, _ := strconv.ParseInt(a.Vals[0], 10, 64)
				at += w.now.Unix()
				r.ClientPayloads[len(r.ClientPayloads)-1].ExpiresAtEpochS = &at
				continue
			}
			level := lifeloop.Preferred
			if len(p) > 3 {
				level = lifeloop.Requirement(p[3])
			}
			text := p[2]
			if n, err := strconv.Atoi(text); err == nil {
				text = strings.Repeat("x", n)
			}
			body := lifeloop.NewOpaque(text)
			env := lifeloop.PayloadEnvelope{SchemaVersion: 1, PayloadID: fmt.Sprint("pay_", len(r.ClientPayloads)+1),
				ClientID: client, PayloadKind: p[1], Format: "text", ContentEncoding: "utf8", Body: &body,
				ByteSize: int64(len(text)), Redaction: "none", Metadata: map[string]any{}}
			for _, place := range strings.Split(p[0], "+") {
				env.AcceptablePlacements = append(env.AcceptablePlacements, lifeloop.AcceptablePlacement{
					Placement: lifeloop.PayloadPlacement(place), Requirement: level})
			}
			r.ClientPayloads = append(r.ClientPayloads, env)
		default:
			w.t.Fatalf("unknown answer word %q", a.Key)
		}
	}
	in.Response = r
	return in
}

func (w *world) step(in kernel.Input) string {
	w.t.Helper()
	turn := w.k.Step(w.now, in)
	for _, f := range turn.Facts {
		w.entries = append(w.entries, kernel.Entry{Seq: uint64(len(w.entries) + 1), At: w.now, Fact: f})
	}
	w.seen = append(w.seen, turn.Effects...)
	checkLaws(w.t, w.cfg, w.k, w.entries, turn)
	w.judge(w.entries[len(w.entries)-len(turn.Facts):])
	if r, done := w.k.Done(); done && len(turn.Facts) > 0 {
		w.l0.ended(w.t, map[string]int{})
		w.hcp.ended(w.t, r.State == session.Rejected, map[string]int{})
	}

	var b strings.Builder
	for _, f := range turn.Facts {
		fmt.Fprintln(&b, tell(f))
	}
	for _, e := range turn.Effects {
		fmt.Fprintln(&b, effect(e))
	}
	if turn.Sync {
		b.WriteString("sync\n")
	}
	if at, ok := w.k.Deadline(); ok {
		fmt.Fprintf(&b, "wake in %s\n", at.Sub(w.now))
	}
	if r, done := w.k.Done(); done {
		fmt.Fprintf(&b, "done %s exit %d\n", r.State, r.Code)
	}
	if b.Len() == 0 {
		return "nothing"
	}
	return b.String()
}

// judge lets the views read what was recorded.
func (w *world) judge(entries []kernel.Entry) {
	for _, e := range entries {
		read := e
		read.Fact = decoded(w.t, e.Fact)
		w.l0.fact(w.t, e, read)
		w.hcp.fact(w.t, e, read)
	}
}

// checkLaws holds after every single input of a scenario. The random worlds of
// TestLaws are held to more, and to the same.
func checkLaws(t *testing.T, cfg kernel.Config, k *kernel.Kernel, entries []kernel.Entry, turn kernel.Turn) {
	// Replay: folding what the ledger holds gives the kernel's hard state.
	checkReplay(t, k, kernel.Replay(cfg, ledgered(t, entries)))
	checkTurn(t, turn)
}

// ledgered is what a ledger that was given the entries gives back.
func ledgered(t require.TestingT, entries []kernel.Entry) iter.Seq[kernel.Entry] {
	return func(yield func(kernel.Entry) bool) {
		for _, e := range entries {
			e.Fact = decoded(t, e.Fact)
			if !yield(e) {
				return
			}
		}
	}
}

// decoded is a fact as the ledger gives it back.
func decoded(t require.TestingT, f kernel.Fact) kernel.Fact {
	kind, body, err := kernel.Encode(f)
	require.NoError(t, err)
	back, err := kernel.Decode(kind, body)
	require.NoError(t, err)
	return back
}

// checkReplay compares the hard state of two kernels.
func checkReplay(t require.TestingT, k, replayed *kernel.Kernel) {
	a, b := kernel.Hard(k), kernel.Hard(replayed)
	if !bytes.Equal(a, b) {
		require.JSONEq(t, string(a), string(b), "the replay law")
	}
}

// checkTurn holds one turn against what the contract asks of any.
func checkTurn(t require.TestingT, turn kernel.Turn) {
	// Account: nothing is done without a fact.
	if len(turn.Effects) > 0 {
		require.NotEmpty(t, turn.Facts, "an effect without a fact")
	}
	// Every receipt is one that the contract allows.
	for _, f := range turn.Facts {
		if r, ok := f.(kernel.ReceiptIssued); ok {
			require.NoError(t, r.Receipt.Validate(), "%+v", r.Receipt)
		}
	}
	// Every envelope that leaves is one that the contract allows.
	for _, e := range turn.Effects {
		if d, ok := e.(kernel.Dispatch); ok {
			require.NoError(t, d.Envelope.Validate())
		}
	}
}

// tell is one fact on one line, with what a reader looks for first.
func tell(f kernel.Fact) string {
	js := func(v any) string { b, _ := json.Marshal(v); return string(b) }
	switch f := f.(type) {
	case kernel.Began:
		return "began " + f.AdapterID
	case kernel.Observed:
		r := f.Record
		line := "told " + string(r.Event)
		if r.HarnessSessionID != nil {
			line += " in " + *r.HarnessSessionID
		}
		if r.FrameContext != nil {
			line += " frame " + r.FrameContext.FrameID
			if p := r.FrameContext.ParentFrameID; p != nil {
				line += " under " + *p
			}
		}
		line += " " + js(r.Data)
		for _, e := range r.Evidence {
			line += " by " + e.Source + ":" + e.Detail
		}
		for _, c := range f.Calls {
			line += " →" + c.Client + "(" + c.Call + ")"
		}
		return line
	case kernel.ReceiptIssued:
		r := f.Receipt
		line := fmt.Sprintf("receipt %s %s %s %s", r.ReceiptID, r.ClientID, r.Event, r.Status)
		if r.Sequence != nil {
			line += fmt.Sprint(" #", *r.Sequence)
		}
		if r.ParentReceiptID != nil {
			line += " after " + *r.ParentReceiptID
		}
		if r.FailureClass != nil {
			line += fmt.Sprintf(" %s/%s", *r.FailureClass, *r.RetryClass)
		}
		for _, p := range r.PayloadReceipts {
			line += fmt.Sprintf(" [%s %s %s]", p.PayloadID, p.Placement, p.Status)
		}
		for _, d := range r.CapabilityDegradations {
			line += fmt.Sprintf(" {%s %s→%s}", d.Capability, d.PreviousSupport, d.CurrentSupport)
		}
		if len(r.TelemetrySummary) > 0 {
			line += " " + js(r.TelemetrySummary)
		}
		if len(r.Warnings) > 0 {
			line += fmt.Sprintf(" %q", r.Warnings)
		}
		return line
	case kernel.SessionMoved:
		return fmt.Sprintf("session %s → %s (%s)", f.From, f.To, f.Reason)
	}
	return f.Kind() + " " + js(f)
}

func effect(e kernel.Effect) string {
	switch e := e.(type) {
	case kernel.Dispatch:
		return fmt.Sprintf("do dispatch %s to %s within %s", e.Call, e.Client, e.Timeout)
	case kernel.Suspend:
		return "do hold {}"
	case kernel.Continue:
		return "do free {}"
	case kernel.HookAnswer:
		return fmt.Sprintf("do answer %s %s %s", e.Hook, e.Event, e.Context.Reveal())
	}
	return fmt.Sprintf("do %s %+v", strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", e), "kernel.")), e)
}
