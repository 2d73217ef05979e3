package kernel_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"lifeloop/attempt"
	"lifeloop/gate"
	"lifeloop/kernel"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/lifeloop/lifelooptest"
	"lifeloop/session"
	"lifeloop/telemetry"
)

// TestScenarios runs every file under testdata. The command run begins a new session.
// Each command is one input; the expected text is the whole output. Rewrite with
// go test ./kernel -rewrite, and read the diff.
//
//	run hooks id=S1 clients=(notes,audit) [requires=notes:frame.opening=required[/native]] [manifest=pre_session:unavailable]
//	hook SessionStart slot=pre_session wait=4s [clears] live=S1 cause=startup | prompt=p1 | stop=p1 …   (signals as below)
//	signal transcript in=ID live=… prompt=… working idle needs alive cleared turn=TURN stop=TURN end=TURN outcome=… error=… usage=N id=… window=N:src compacting compacted=half:trigger:before:after gone=ID reason=… tool=ID tool-end=ID limit=SECONDS ago=1s process side=WHAT
//	trouble SOURCE WHAT [read=(a,b)] · unknown SOURCE TYPE=N
//	answer CALL [status=observed] [payload=placement:kind:body[:required] [key=K] [ref=REF] [digest=HEXDIGIT]] [fail=timeout]
//	written HOOK | gone HOOK
//	run … retries=2 max-retries=6 backoff=fixed:1s[:MAX] on=(model,…) fallback=(a,b) [missing=b] takes=a initial=2s inter=5s tool=1s session=1m idle=30s continuation every=3 rule=ID:on:severity:recoverable:REGEXP drift=3 zero-output on-limit=wait loop=3:10s:1m quit=2 grace=0s by-turn success=(0,2) code=75:network
//	output 100 [lines=N] [stream=N] ["text"] · fail model [code=ECONNRESET] [until=30s] · checkpoint T1 · launched [id=S2] · pause [ask] · resume · renew · stop-it
//	run … profile=NAME[:CLIENT] [at=LEVEL] [cut] [no-store] [prints] [renewal=SUPPORT] [scoped=(NAME,…)] [manual] [max=N] [paths=(in_place,relaunch)] [in-place[=SUPPORT]] [by-plugin] [by-hook] [keeps-line] · renew [PROFILE] · answer CALL renew=PROFILE
//	prepared RENEWAL TOKEN [expires=D] [fail=CLASS] · resumes-with RENEWAL TEXT [fail=CLASS] (TEXT may be a size) · typed RENEWAL [undo] [busy] [fail=WHY] · fresh RENEWAL ID · line begun|empty
//	decided ASK yes|no [delay=D] [fail=CLASS] · crash [kept=N] · close [kept=N]
//	wait 2s · exit code=0 signal=9 leftover=1 lost key · drained · abort 15 · stopped 19 · continued · launched · launch-failed 127 · output 100
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
	seen    []effect.Effect
	l0      *l0Judge
	hcp     *hcpJudge
}

// command carries out one command of a scenario.
func (w *world) command(d *datadriven.TestData) string {
	switch d.Cmd {
	case "run":
		w.configure(d)
		if d.HasArg("aborted") { // before the session begins
			w.step(input.AbortAsked{Signal: 15})
		}
		return w.step(input.Start{})
	case "crash": // the wrapper dies with kept=N entries on its ledger, and another wrapper recovers the session
		for _, a := range d.CmdArgs {
			if a.Key == "prints" { // the other wrapper has no terminal, so no relaunch can renew the session
				w.cfg.Renews = false
				continue
			}
			w.entries = w.entries[:w.integer(a.Vals[0])]
		}
		w.k, w.l0, w.hcp = kernel.Replay(w.cfg, ledgered(w.t, w.entries)), &l0Judge{}, &hcpJudge{}
		w.judge(w.entries)
		return w.step(input.Restarted{PID: 99})
	case "close": // the wrapper died with kept=N entries on its ledger, and the session is closed
		for _, a := range d.CmdArgs {
			w.entries = w.entries[:w.integer(a.Vals[0])]
		}
		w.k, w.l0, w.hcp = kernel.Replay(w.cfg, ledgered(w.t, w.entries)), &l0Judge{}, &hcpJudge{}
		w.judge(w.entries)
		return w.step(input.CloseAsked{Reason: strings.TrimSpace(d.Input)})
	case "wait":
		w.now = w.now.Add(w.duration(d.CmdArgs[0].Key))
		return w.step(input.Wake{})
	}
	cause := inputs[d.Cmd]
	require.NotNil(w.t, cause, "unknown command %q", d.Cmd)
	return w.step(cause(w, d))
}

// inputs are the commands that are one input each.
var inputs = map[string]func(*world, *datadriven.TestData) input.Input{
	"signal": func(w *world, d *datadriven.TestData) input.Input {
		return input.SignalsSeen{Signals: w.signals(d.CmdArgs[0].Key, d.CmdArgs[1:])}
	},
	"trouble": func(_ *world, d *datadriven.TestData) input.Input {
		read, _ := d.Arg("read")
		return input.SourceTrouble{Source: d.CmdArgs[0].Key, What: input.Trouble(d.CmdArgs[1].Key), Read: read.Vals}
	},
	"unknown": func(w *world, d *datadriven.TestData) input.Input {
		types := map[string]int{}
		for _, a := range d.CmdArgs[1:] {
			types[a.Key] = w.integer(a.Vals[0])
		}
		return input.UnknownSeen{Source: d.CmdArgs[0].Key, Types: types}
	},
	"hook": (*world).hook,
	"written": func(_ *world, d *datadriven.TestData) input.Input {
		return input.HookClosed{Hook: d.CmdArgs[0].Key, Delivered: true}
	},
	"gone":   func(_ *world, d *datadriven.TestData) input.Input { return input.HookClosed{Hook: d.CmdArgs[0].Key} },
	"answer": (*world).answer,

	"launched": func(w *world, d *datadriven.TestData) input.Input {
		in := input.Launched{PID: 4242}
		w.words(d.CmdArgs, map[string]func(string){"id": func(id string) { // the harness session of a later launch
			setup := w.cfg.Launch
			setup.HarnessSession = id
			for _, e := range w.entries {
				if l, ok := e.Fact.(kernel.Launching); ok && l.Profile < len(w.cfg.Manifests) {
					setup.Manifest = w.cfg.Manifests[l.Profile]
				}
			}
			in.Setup = &setup
		}})
		return in
	},
	"launch-failed": func(w *world, d *datadriven.TestData) input.Input { return input.LaunchFailed{Code: w.number(d)} },
	"output": func(w *world, d *datadriven.TestData) input.Input {
		in := input.OutputSeen{Total: int64(w.number(d))}
		w.words(d.CmdArgs[1:], map[string]func(string){
			"lines":  func(v string) { in.Lines = int64(w.integer(v)) },
			"stream": func(v string) { in.Stream = w.integer(v) },
		})
		if d.Input != "" {
			in.Text = []byte(strings.NewReplacer(`\e`, "\x1b", `\n`, "\n").Replace(d.Input))
		}
		return in
	},
	"fail": func(w *world, d *datadriven.TestData) input.Input {
		in := input.FailureSeen{Cause: attempt.Cause(d.CmdArgs[0].Key), Source: "stream"}
		w.words(d.CmdArgs[1:], map[string]func(string){
			"code":  func(v string) { in.Code = v },
			"until": func(v string) { in.Until = w.now.Add(w.duration(v)) },
		})
		return in
	},
	"checkpoint": func(_ *world, d *datadriven.TestData) input.Input {
		return input.CheckpointSeen{Checkpoint: d.CmdArgs[0].Key}
	},
	"exit": func(w *world, d *datadriven.TestData) input.Input {
		in := input.ChildExited{}
		w.words(d.CmdArgs, map[string]func(string){
			"code":     func(v string) { in.Code = w.integer(v) },
			"signal":   func(v string) { in.Signal = w.integer(v) },
			"leftover": func(v string) { in.Leftover = w.integer(v) },
			"lost":     func(string) { in.Lost = true },
			"key":      func(string) { in.Interrupted = true },
		})
		return in
	},
	"approve": func(w *world, d *datadriven.TestData) input.Input {
		return input.ApprovalGiven{Ask: w.ask(), Intent: d.CmdArgs[0].Key, Approve: true, Reason: strings.TrimSpace(d.Input)}
	},
	"deny": func(w *world, d *datadriven.TestData) input.Input {
		return input.ApprovalGiven{Ask: w.ask(), Intent: d.CmdArgs[0].Key, Reason: strings.TrimSpace(d.Input)}
	},
	"gate": func(w *world, d *datadriven.TestData) input.Input { // gate ASK VERDICT [reasons=(R,…)] [rule=R], or gate ASK fail=CLASS
		in := input.GateDecided{Ask: d.CmdArgs[0].Key}
		for _, a := range d.CmdArgs[1:] {
			switch a.Key {
			case "reasons":
				in.Decision.Reasons = a.Vals
			case "rule":
				in.Decision.Rule = a.Vals[0]
			case "fail":
				in.Failure, in.Why = lifeloop.FailureClass(a.Vals[0]), "the policy cannot evaluate the intent request for this act"
			default:
				in.Decision = input.GateDecision{Tool: "the.tool", Verdict: gate.Verdict(a.Key), Reasons: []string{}, IntentDigest: "0123456789abcdef", PolicyDigest: w.cfg.Gate, TraceID: "t"}
			}
		}
		return in
	},
	"decided": func(w *world, d *datadriven.TestData) input.Input {
		in := input.Decided{Ask: d.CmdArgs[0].Key, Retry: d.CmdArgs[1].Key == "yes"}
		w.words(d.CmdArgs[2:], map[string]func(string){
			"delay": func(v string) { in.DelayMS = new(w.duration(v).Milliseconds()) },
			"fail":  func(v string) { in.Failure, in.Why = lifeloop.FailureClass(v), "said so" },
		})
		return in
	},
	"drained": func(w *world, d *datadriven.TestData) input.Input { // drained [killed=(NAME,…)] [more=N]
		in := input.SourcesDrained{}
		for _, a := range d.CmdArgs {
			switch a.Key {
			case "killed":
				for i, name := range a.Vals {
					in.Killed = append(in.Killed, input.Process{PID: 5001 + i, Name: name})
				}
			case "more":
				in.More = w.integer(a.Vals[0])
			}
		}
		return in
	},
	"clients-ended": func(_ *world, d *datadriven.TestData) input.Input { // clients-ended [killed=(NAME,…)]
		in := input.ClientsEnded{}
		for _, a := range d.CmdArgs {
			for i, name := range a.Vals {
				in.Killed = append(in.Killed, input.Process{PID: 6001 + i, Name: name})
			}
		}
		return in
	},
	"stopped":     func(w *world, d *datadriven.TestData) input.Input { return input.ChildStopped{Signal: w.number(d)} },
	"continued":   func(*world, *datadriven.TestData) input.Input { return input.ChildContinued{} },
	"ledger-lost": func(*world, *datadriven.TestData) input.Input { return input.LedgerLost{} },

	"abort": func(w *world, d *datadriven.TestData) input.Input { return input.AbortAsked{Signal: w.number(d)} },
	"stop-it": func(w *world, d *datadriven.TestData) input.Input {
		return input.AbortAsked{Signal: 15, Ask: w.ask(), Reason: strings.TrimSpace(d.Input)}
	},
	"pause": func(w *world, d *datadriven.TestData) input.Input {
		return input.PauseAsked{Ask: w.ask(), Reason: strings.TrimSpace(d.Input)}
	},
	"resume": func(w *world, d *datadriven.TestData) input.Input {
		return input.ResumeAsked{Ask: w.ask(), Reason: strings.TrimSpace(d.Input)}
	},
	"renew": (*world).renew,
	"typed": (*world).typed,
	"fresh": (*world).fresh, // fresh RENEWAL ID
	"line": func(_ *world, d *datadriven.TestData) input.Input { // line begun|empty
		return input.LineSeen{Begun: d.CmdArgs[0].Key == "begun"}
	},
	"prepared":     (*world).prepared,
	"resumes-with": (*world).continued,
	"frame": func(w *world, d *datadriven.TestData) input.Input { // frame open|close ID [parent=P] [outcome=O]
		in := input.FrameRequested{Ask: w.ask(), Open: d.CmdArgs[0].Key == "open", Frame: d.CmdArgs[1].Key}
		w.words(d.CmdArgs[2:], map[string]func(string){
			"parent":  func(v string) { in.Parent = v },
			"outcome": func(v string) { in.Outcome = v },
		})
		return in
	},
}

func (w *world) hook(d *datadriven.TestData) input.Input {
	w.hooks++
	call := telemetry.HookCall{Event: d.CmdArgs[0].Key, Capacity: 9500}
	wait := 4 * time.Second
	for _, a := range d.CmdArgs[1:] {
		switch a.Key {
		case "slot":
			call.Slot = a.Vals[0]
		case "wait":
			wait = w.duration(a.Vals[0])
		case "capacity":
			call.Capacity = w.integer(a.Vals[0])
		case "use": // the hook asks whether a tool may run
			call.Use = &telemetry.ToolUse{Name: a.Vals[0], Tool: "toolu_1"}
		case "can-ask":
			call.Use.CanAsk = true
		case "clears": // its answer can empty the context
			call.Clears = true
		}
	}
	source := "hook"
	if call.Event == "Statusline" {
		source = "statusline"
	}
	call.Signals = w.signals(source, d.CmdArgs[1:])
	for i := range call.Signals {
		call.Signals[i].Detail = call.Event
		call.Session = call.Signals[i].Session
	}
	return input.HookCalled{Hook: fmt.Sprint("h", w.hooks), Call: call, Deadline: w.now.Add(wait)}
}

// words calls the function of each argument with its value.
func (w *world) words(args []datadriven.CmdArg, set map[string]func(string)) {
	for _, a := range args {
		require.NotNil(w.t, set[a.Key], "unknown word %q", a.Key)
		set[a.Key](value(a))
	}
}

// value is the only value of an argument, or nothing.
func value(a datadriven.CmdArg) string {
	if len(a.Vals) == 0 {
		return ""
	}
	return a.Vals[0]
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

func (w *world) integer(text string) int {
	n, err := strconv.Atoi(text)
	require.NoError(w.t, err)
	return n
}

// number is the first argument of a command.
func (w *world) number(d *datadriven.TestData) int { return w.integer(d.CmdArgs[0].Key) }

// signals parses the words of a signal or of a hook; see parseSignals.
func (w *world) signals(source string, args []datadriven.CmdArg) []telemetry.Signal {
	var words []word
	for _, a := range args {
		if slices.Contains([]string{"slot", "wait", "capacity", "use", "can-ask", "clears"}, a.Key) { // these words describe the hook, not a signal
			continue
		}
		words = append(words, word{a.Key, strings.Join(a.Vals, "")})
	}
	signals, err := parseSignals(telemetry.Signal{Source: source, Detail: "r"}, w.now, words)
	require.NoError(w.t, err)
	return signals
}

func (w *world) answer(d *datadriven.TestData) input.Input {
	in := input.Returned{Call: d.CmdArgs[0].Key}
	r := &lifeloop.CallbackResponse{Status: lifeloop.Observed}
	client := "notes"
	for _, e := range w.seen {
		if c, ok := e.(effect.Dispatch); ok && c.Call == in.Call {
			client = c.Client
		}
	}
	last := func() *lifeloop.PayloadEnvelope { return &r.ClientPayloads[len(r.ClientPayloads)-1] }
	w.words(d.CmdArgs[1:], map[string]func(string){
		"fail":   func(v string) { in.Failure, in.Why = lifeloop.FailureClass(v), "said so" },
		"status": func(v string) { r.Status = lifeloop.Status(v) },
		"class": func(v string) {
			c := lifeloop.FailureClass(v)
			r.FailureClass = &c
		},
		"payload": func(v string) {
			r.ClientPayloads = append(r.ClientPayloads, payload(client, len(r.ClientPayloads)+1, strings.Split(v, ":")))
		},
		"renew": func(v string) { in.Renew = v },
		"key":   func(v string) { last().IdempotencyKey = &v },
		"ref":   func(v string) { last().Body, last().BodyRef = nil, &v }, // the reference replaces the body; ByteSize is still the size of the body
		"digest": func(v string) {
			digest := "sha256:" + strings.Repeat(v, 64)
			last().ContentDigest = &digest
		},
		"expires": func(v string) {
			at := w.now.Unix() + int64(w.integer(v))
			last().ExpiresAtEpochS = &at
		},
	})
	if in.Failure == "" {
		in.Response = r
	}
	return in
}

// payload parses placements:kind:body[:required]. If body is a number, it is the
// size of the body.
func payload(client string, n int, p []string) lifeloop.PayloadEnvelope {
	level := lifeloop.Preferred
	if len(p) > 3 {
		level = lifeloop.Requirement(p[3])
	}
	text := p[2]
	if n, err := strconv.Atoi(text); err == nil {
		text = strings.Repeat("x", n)
	}
	body := lifeloop.NewOpaque(text)
	env := lifeloop.PayloadEnvelope{SchemaVersion: 1, PayloadID: fmt.Sprint("pay_", n), ClientID: client, PayloadKind: p[1], Format: "text",
		ContentEncoding: "utf8", Body: &body, ByteSize: int64(len(text)), Redaction: "none", Metadata: map[string]any{}}
	for _, place := range strings.Split(p[0], "+") {
		env.AcceptablePlacements = append(env.AcceptablePlacements, lifeloop.AcceptablePlacement{
			Placement: lifeloop.PayloadPlacement(place), Requirement: level})
	}
	return env
}

func (w *world) step(in input.Input) string {
	w.t.Helper()
	out := w.k.Step(w.now, in)
	for _, f := range out.Facts {
		w.entries = append(w.entries, kernel.Entry{Seq: uint64(len(w.entries) + 1), At: w.now, Fact: f})
	}
	w.seen = append(w.seen, out.Effects...)
	checkLaws(w.t, w.cfg, w.k, w.entries, out)
	checkGuarded(w.t, w.cfg, w.entries, out)
	w.judge(w.entries[len(w.entries)-len(out.Facts):])
	if r, done := w.k.Done(); done && len(out.Facts) > 0 {
		w.l0.ended(w.t, map[string]int{})
		w.l0.readAgain(w.t)
		w.hcp.ended(w.t, r.State == session.Rejected, map[string]int{})
		w.hcp.readAgain(w.t)
	}

	var b strings.Builder
	for _, f := range out.Facts {
		fmt.Fprintln(&b, factLine(f))
	}
	for _, e := range out.Effects {
		fmt.Fprintln(&b, effectLine(e))
	}
	if out.Sync {
		b.WriteString("sync\n")
	}
	if out.SyncAfter && !out.Sync {
		b.WriteString("sync after the effects\n")
	}
	if at, ok := w.k.Deadline(); ok {
		fmt.Fprintf(&b, "wake in %s\n", at.Sub(w.now))
	}
	if r, done := w.k.Done(); done {
		fmt.Fprintf(&b, "done %s exit %d", r.State, r.Code)
		if r.Failure != "" {
			fmt.Fprintf(&b, " %s", r.Failure)
		}
		b.WriteString("\n")
	}
	if b.Len() == 0 {
		return "nothing"
	}
	return b.String()
}

// judge lets the views of L0 and HCP read what was recorded.
func (w *world) judge(entries []kernel.Entry) {
	for _, e := range entries {
		read := e
		read.Fact = decoded(w.t, e.Fact)
		w.l0.fact(w.t, e, read)
		w.hcp.fact(w.t, e, read)
	}
}

// checkLaws checks the laws that hold after every single input of a scenario. The
// random worlds of TestLaws are checked for these and for more.
func checkLaws(t *testing.T, cfg kernel.Config, k *kernel.Kernel, entries []kernel.Entry, out kernel.Output) {
	// Replaying the ledger gives the kernel's hard state.
	checkReplay(t, k, kernel.Replay(cfg, ledgered(t, entries)))
	checkOutput(t, out)
}

// ledgered returns the entries as a ledger returns them, encoded and decoded.
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

// decoded is a fact as the ledger returns it.
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

// checkOutput checks what must be true of every output of the kernel.
func checkOutput(t require.TestingT, out kernel.Output) {
	// No effect without a fact.
	if len(out.Effects) > 0 {
		require.NotEmpty(t, out.Facts, "an effect without a fact")
	}
	// Every document is valid, by its schema and by the rules that a schema cannot express.
	for _, f := range out.Facts {
		switch f := f.(type) {
		case kernel.ReceiptIssued:
			checkDocument(t, "lifecycle_receipt", f.Receipt)
		case kernel.Observed:
			checkDocument(t, lifelooptest.EventRecord, f.Record)
		}
	}
	for _, e := range out.Effects {
		if d, ok := e.(effect.Dispatch); ok {
			doc, err := d.Envelope.Encode()
			require.NoError(t, err)
			require.NoError(t, lifelooptest.Check("dispatch_envelope", doc))
		}
	}
}

func checkDocument(t require.TestingT, kind string, document any) {
	doc, err := json.Marshal(document)
	require.NoError(t, err)
	require.NoError(t, lifelooptest.Check(kind, doc))
}

// factLine returns a fact as one line. For the most frequent facts it is a summary, for
// the others the kind and the whole fact as JSON.
func factLine(f kernel.Fact) string {
	js := func(v any) string { b, _ := json.Marshal(v); return string(b) }
	switch f := f.(type) {
	case kernel.Began:
		return "began " + f.AdapterID
	case kernel.Observed:
		r := f.Record
		line := "emit " + string(r.Event)
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
			line += " →" + c.Client + "(" + c.Call
			if c.Replaces != "" {
				line += " for " + c.Replaces
			}
			line += ")"
		}
		for _, client := range f.Skipped {
			line += " skips " + client
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
		if key := r.IdempotencyKey; key != nil && !strings.HasPrefix(*key, "idem_") {
			line += " key " + *key
		}
		if f.Replay {
			line += " again for " + f.Call
		}
		if s := f.Skipped; s != nil {
			line += fmt.Sprintf(" %d events from %s to %s before %s", s.Events, s.First, s.Last, cmp.Or(f.Before, "the end"))
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
	return kernel.Kind(f) + " " + js(f)
}

// effectLine is one effect on one line.
func effectLine(e effect.Effect) string {
	switch e := e.(type) {
	case effect.Dispatch:
		return fmt.Sprintf("do dispatch %s to %s within %s", e.Call, e.Client, e.Timeout)
	case effect.Suspend:
		return "do hold {}"
	case effect.Continue:
		return "do free {}"
	case effect.Watch:
		if e.Since.IsZero() {
			return fmt.Sprintf("do watch {Path:%s}", e.Path)
		}
		return fmt.Sprintf("do watch {Path:%s} since %s", e.Path, e.Since.Sub(start))
	case effect.Launch:
		line := fmt.Sprintf("do launch {Run:%s Number:%d Profile:%d Resume:%s}", e.Run, e.Number, e.Profile, e.Resume)
		if e.Fresh {
			line += " fresh"
		}
		return line
	case effect.Reply:
		line := fmt.Sprintf("do reply {Ask:%s Failure:%s Why:%s}", e.Ask, e.Failure, e.Why)
		if e.Renewal != "" {
			line += " " + e.Renewal
		}
		return line
	case effect.ContinueRenewal:
		return fmt.Sprintf("do continue %s with %s within %s", e.Renewal, e.Digest, e.Timeout)
	case effect.PrepareRenewal:
		return fmt.Sprintf("do prepare %s by %s to leave %s within %s", e.Renewal, e.Profile, e.Session, e.Timeout)
	case effect.HookAnswer:
		if e.Verdict != nil {
			return fmt.Sprintf("do answer %s %s %s: %s", e.Hook, e.Event, e.Verdict.Decision, e.Verdict.Reason)
		}
		if e.Clear {
			return fmt.Sprintf("do answer %s %s: clear", e.Hook, e.Event)
		}
		return fmt.Sprintf("do answer %s %s %s", e.Hook, e.Event, e.Context.Reveal())
	case effect.AskGate:
		line := fmt.Sprintf("do ask the gate %s about %s", e.Ask, e.Act)
		if e.Use != nil {
			line += " " + e.Use.Name
		}
		if r := e.Renewal; r != nil {
			line += fmt.Sprintf(" %+v", *r)
		}
		if p := e.Payload; p != nil {
			line += fmt.Sprintf(" %+v", *p)
		}
		return line
	}
	return fmt.Sprintf("do %s %+v", strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", e), "effect.")), e)
}
