package manifests

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/profiles"
	"lifeloop/renewal"
	"lifeloop/renewal/profile"
	"lifeloop/telemetry"
	"lifeloop/telemetry/claude"
	"lifeloop/telemetry/codex"
	"lifeloop/telemetry/gemini"
)

// "Every claim in a Codex or Claude manifest that depends on extracted code is
// paired with a test that runs the corresponding code path." That code path
// begins with bytes from the harness. Each row here passes such bytes to the
// adapter's decoder and checks the signal that causes the event.

type source struct {
	adapter string
	decoder func() telemetry.Decoder // nil if the bytes are those of a hook
	records []string                 // for a hook: its name, then its input
}

func (s source) signals(t *testing.T) []telemetry.Signal {
	t.Helper()
	if s.decoder == nil {
		return hookCall(t, s.adapter, s.records[0], s.records[1]).Signals
	}
	d := s.decoder()
	var all []telemetry.Signal
	for _, r := range s.records {
		all = append(all, d.Decode([]byte(r))...)
	}
	return all
}

func hookCall(t *testing.T, adapter, event, stdin string) telemetry.HookCall {
	t.Helper()
	p, _ := profiles.For(adapter)
	call, err := p.DecodeHook(event, []byte(stdin))
	require.NoError(t, err)
	return call
}

func TestEventClaimsOfV1Adapters(t *testing.T) {
	hook := func(adapter, event, rest string) source {
		return source{adapter, nil, []string{event, fmt.Sprintf(`{"session_id":"s","hook_event_name":%q%s}`, event, rest)}}
	}
	transcript := func(records ...string) source { return source{"claude", claude.Transcript, records} }
	rollout := func(records ...string) source { return source{"codex", codex.Rollout, records} }
	chat := func(records ...string) source { return source{"gemini", gemini.Chat, records} }
	const (
		claudePrompt = `{"type":"user","uuid":"u1","sessionId":"s","promptId":"p1","promptSource":"typed","origin":{"kind":"human"},"timestamp":"2026-01-02T03:04:05Z","message":{"role":"user","content":"hi"}}`
		claudeAnswer = `{"type":"assistant","uuid":"a1","sessionId":"s","timestamp":"2026-01-02T03:04:06Z","requestId":"r1","message":{"id":"m1","role":"assistant","model":"claude-opus-4-6","stop_reason":"end_turn","content":[{"type":"text","text":"hi"}],"usage":{"input_tokens":10,"cache_read_input_tokens":1000,"cache_creation_input_tokens":0,"output_tokens":5}}}`
		codexMeta    = `{"timestamp":"2026-01-02T03:04:04Z","ordinal":0,"type":"session_meta","payload":{"id":"s"}}`
		codexStart   = `{"timestamp":"2026-01-02T03:04:05Z","ordinal":1,"type":"event_msg","payload":{"type":"task_started","turn_id":"t1","model_context_window":258400}}`
		codexTokens  = `{"timestamp":"2026-01-02T03:04:06Z","ordinal":2,"type":"event_msg","payload":{"type":"token_count","info":{"last_token_usage":{"input_tokens":900,"output_tokens":100,"total_tokens":1000},"model_context_window":258400}}}`
		codexDone    = `{"timestamp":"2026-01-02T03:04:07Z","ordinal":3,"type":"event_msg","payload":{"type":"task_complete","turn_id":"t1","last_agent_message":"hi"}}`
	)
	proofs := []struct {
		event lifeloop.Event
		from  source
		kind  telemetry.Kind
	}{
		{lifeloop.SessionStarted, hook("claude", "SessionStart", `,"source":"startup"`), telemetry.SessionLive},
		{lifeloop.FrameOpening, hook("claude", "UserPromptSubmit", `,"prompt_id":"p1"`), telemetry.Prompt},
		{lifeloop.FrameOpened, transcript(claudePrompt), telemetry.Prompt},
		{lifeloop.ContextPressureObserved, transcript(claudePrompt, claudeAnswer), telemetry.UsageSeen},
		{lifeloop.ContextCompacted, hook("claude", "SessionStart", `,"source":"compact"`), telemetry.Compacted},
		{lifeloop.FrameEnding, hook("claude", "Stop", `,"prompt_id":"p1"`), telemetry.TurnStop},
		{lifeloop.FrameEnded, transcript(claudePrompt, claudeAnswer, `{"type":"system","subtype":"turn_duration","uuid":"d1","sessionId":"s","durationMs":5}`), telemetry.TurnEnd},
		{lifeloop.SessionEnding, hook("claude", "SessionEnd", `,"reason":"clear"`), telemetry.SessionGone},

		{lifeloop.SessionStarted, hook("codex", "SessionStart", `,"source":"startup"`), telemetry.SessionLive},
		{lifeloop.FrameOpening, hook("codex", "UserPromptSubmit", `,"turn_id":"t1"`), telemetry.Prompt},
		{lifeloop.FrameOpened, rollout(codexMeta, codexStart), telemetry.Working},
		{lifeloop.ContextPressureObserved, rollout(codexMeta, codexStart, codexTokens, codexDone), telemetry.UsageSeen},
		{lifeloop.ContextCompacted, hook("codex", "PostCompact", `,"turn_id":"t1","trigger":"manual"`), telemetry.Compacted},
		{lifeloop.FrameEnding, hook("codex", "Stop", `,"turn_id":"t1"`), telemetry.TurnStop},
		{lifeloop.FrameEnded, rollout(codexMeta, codexStart, codexDone), telemetry.TurnEnd},
		{lifeloop.SessionEnding, hook("codex", "SessionEnd", `,"reason":"other"`), telemetry.SessionGone},
		{lifeloop.ReceiptGapDetected, rollout(codexMeta, codexDone), telemetry.Gap},

		{lifeloop.SessionStarted, hook("gemini", "SessionStart", `,"source":"startup"`), telemetry.SessionLive},
		{lifeloop.FrameOpening, hook("gemini", "BeforeAgent", ""), telemetry.Prompt},
		{lifeloop.FrameOpened, chat(geminiHead, geminiPrompt), telemetry.Prompt},
		{lifeloop.ContextPressureObserved, chat(geminiHead, geminiPrompt, geminiAnswer), telemetry.UsageSeen},
		{lifeloop.ContextCompacted, chat(geminiHead, `{"$set":{"messages":[{"id":"z","timestamp":"2026-01-02T03:04:07Z","type":"user","content":[{"text":"<state_snapshot>x</state_snapshot>"}]}],"lastUpdated":"2026-01-02T03:04:07Z"}}`), telemetry.Compacted},
		{lifeloop.FrameEnding, hook("gemini", "AfterAgent", ""), telemetry.TurnStop},
		{lifeloop.FrameEnded, chat(geminiHead, geminiPrompt, `{"id":"i","timestamp":"2026-01-02T03:04:07Z","type":"info","content":"Request cancelled."}`), telemetry.TurnEnd},
		{lifeloop.SessionEnding, hook("gemini", "SessionEnd", `,"reason":"exit"`), telemetry.SessionGone},
	}

	proven := map[string]bool{}
	for _, p := range proofs {
		t.Run(p.from.adapter+"/"+string(p.event), func(t *testing.T) {
			signals := p.from.signals(t)
			if !slices.ContainsFunc(signals, func(s telemetry.Signal) bool { return s.Kind == p.kind }) {
				t.Errorf("no %s signal in %+v", p.kind, signals)
			}
		})
		proven[p.from.adapter+" "+string(p.event)] = true
	}

	// The wrapper emits these events by itself, without bytes from the harness.
	ours := []lifeloop.Event{
		lifeloop.SessionStarting, lifeloop.SessionEnded, lifeloop.SupervisorTick,
		lifeloop.CapabilityDegraded, lifeloop.ReceiptEmitted,
	}
	for _, id := range IDs() {
		m, _ := Get(id)
		for e, claim := range m.LifecycleEvents {
			switch {
			case Conformance(id) != V1 || claim.Support == lifeloop.Unavailable:
			case slices.Contains(ours, e) && claim.Support != lifeloop.Synthesized:
				t.Errorf("%s claims %s %s, but the wrapper makes it itself", id, claim.Support, e)
			case !slices.Contains(ours, e) && !proven[id+" "+string(e)]:
				t.Errorf("%s claims %s %s, but no row shows a decoder for it", id, claim.Support, e)
			}
		}
	}
}

// A placement class is claimed exactly if a hook of the harness provides it. The
// claimed size limit is at most the size that the hook's answer allows.
func TestPlacementClaimsOfV1Adapters(t *testing.T) {
	for _, id := range IDs() {
		if Conformance(id) != V1 {
			continue
		}
		m, _ := Get(id)
		room := map[lifeloop.Placement]int{}
		for _, event := range []string{"SessionStart", "SessionEnd", "UserPromptSubmit", "BeforeAgent", "PreToolUse", "PostToolUse", "Stop", "PreCompact", "PostCompact", "PermissionRequest"} {
			call := hookCall(t, id, event, `{"session_id":"s","source":"startup","trigger":"auto","tool_name":"Bash","tool_use_id":"c1"}`)
			if call.Slot != "" {
				room[lifeloop.Placement(call.Slot)] = call.Capacity
			}
		}
		for class, claim := range m.Placement {
			capacity, filled := room[class]
			if claimed := claim.Support != lifeloop.Unavailable; claimed != filled {
				t.Errorf("%s claims %s %s; filled by a hook: %v", id, claim.Support, class, filled)
			}
			if filled && *claim.MaxBytes > int64(capacity) {
				t.Errorf("%s: %s claims %d bytes, but its hook takes only %d", id, class, *claim.MaxBytes, capacity)
			}
		}
	}
}

// claims lists every claim of a manifest by its place. It reads the JSON document,
// so that a new member cannot be missed: every member counts as a claim unless it
// is listed here as a description.
func claims(t *testing.T, id string) map[string]string {
	t.Helper()
	describes := []string{"contract_version", "adapter_id", "adapter_version", "display_name", "role",
		"evidence", "modes", "max_bytes", "name", "kind", "path"}
	out := map[string]string{}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				if slices.Contains(describes, name) {
					continue
				}
				place := at + "." + name
				if name == "support" {
					place = at
				}
				walk(place, member)
			}
		case []any:
			for _, one := range v {
				switch one := one.(type) {
				case map[string]any:
					walk(at+"."+fmt.Sprint(one["name"]), one)
				default:
					out[strings.TrimPrefix(at, ".")+"."+fmt.Sprint(one)] = "listed"
				}
			}
		default:
			if said := fmt.Sprint(v); said != string(lifeloop.Unavailable) && said != "false" {
				out[strings.TrimPrefix(at, ".")] = said
			}
		}
	}
	var doc any
	require.NoError(t, json.Unmarshal(Raw(id), &doc))
	walk("", doc)
	return out
}

// A run is a session in memory: a kernel with an adapter's manifest, and the
// facts that its inputs caused.
type run struct {
	t     *testing.T
	k     *kernel.Kernel
	now   time.Time
	facts []kernel.Fact
}

func begin(t *testing.T, id string, change func(*kernel.Config)) *run {
	t.Helper()
	m, ok := Get(id)
	require.True(t, ok)
	n := 0
	cfg := kernel.Config{Session: "sess", Launch: setup.Launch{Manifest: m, NoTelemetry: true}, Ledger: true, ClientDrain: time.Second, Limits: setup.Limits{AbortGrace: time.Second},
		NewID: func(prefix string) string { n++; return fmt.Sprint(prefix, n) },
		Began: kernel.Began{SessionID: "sess", AdapterID: id, Program: id}}
	if change != nil {
		change(&cfg)
	}
	r := &run{t: t, k: kernel.New(cfg), now: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)}
	r.step(input.Start{})
	return r
}

func (r *run) step(in input.Input) {
	r.now = r.now.Add(time.Second)
	r.facts = append(r.facts, r.k.Step(r.now, in).Facts...)
}

func (r *run) receipts() (out []lifeloop.Receipt) {
	for _, f := range r.facts {
		if issued, ok := f.(kernel.ReceiptIssued); ok {
			out = append(out, issued.Receipt)
		}
	}
	return out
}

func (r *run) last() lifeloop.Receipt {
	r.t.Helper()
	all := r.receipts()
	require.NotEmpty(r.t, all)
	return all[len(all)-1]
}

// client starts a run with one client of session.starting. outcome gives the
// answer to the first call.
func client(t *testing.T, id string, outcome func(call string) input.Returned) *run {
	r := begin(t, id, func(c *kernel.Config) {
		c.Clients = []setup.Client{{ID: "notes", Events: map[lifeloop.Event]bool{lifeloop.SessionStarting: true}, Timeout: time.Second}}
	})
	for _, f := range r.facts {
		if d, ok := f.(kernel.Dispatched); ok {
			r.step(outcome(d.Call))
			return r
		}
	}
	require.FailNow(t, "no client was called")
	return nil
}

// failures are the failure classes that an adapter may list, each with a function
// that causes the failure.
var failures = map[lifeloop.FailureClass]func(t *testing.T, id string) lifeloop.FailureClass{
	lifeloop.PlacementUnavailable: func(t *testing.T, id string) lifeloop.FailureClass {
		m, _ := Get(id)
		m.Placement = map[lifeloop.Placement]lifeloop.PlacementClaim{lifeloop.ManualOperator: m.Placement[lifeloop.ManualOperator]}
		return negotiate.Placement(m, payload(lifeloop.PrePromptFrame, 10)).Failure
	},
	lifeloop.PayloadTooLarge: func(t *testing.T, id string) lifeloop.FailureClass {
		m, _ := Get(id)
		return negotiate.Placement(m, payload(lifeloop.PrePromptFrame, 8193)).Failure
	},
	lifeloop.PayloadRejected: func(t *testing.T, id string) lifeloop.FailureClass {
		r := client(t, id, func(call string) input.Returned {
			return input.Returned{Call: call, Response: &lifeloop.CallbackResponse{Status: lifeloop.Observed,
				ClientPayloads: []lifeloop.PayloadEnvelope{payload(lifeloop.PrePromptFrame, 10)}}}
		})
		r.step(input.ChildExited{}) // the harness exits without having had a prompt
		r.step(input.SourcesDrained{})
		for _, got := range r.receipts() {
			if got.ClientID == "notes" && got.FailureClass != nil {
				return *got.FailureClass
			}
		}
		return ""
	},
	lifeloop.TransportError: func(t *testing.T, id string) lifeloop.FailureClass {
		return failed(client(t, id, func(call string) input.Returned {
			return input.Returned{Call: call, Failure: lifeloop.TransportError, Why: "exit 1"}
		}))
	},
	lifeloop.Timeout: func(t *testing.T, id string) lifeloop.FailureClass {
		return failed(client(t, id, func(call string) input.Returned {
			return input.Returned{Call: call, Failure: lifeloop.Timeout, Why: "no answer within 1s"}
		}))
	},
}

func failed(r *run) lifeloop.FailureClass {
	got := r.last()
	require.Equal(r.t, lifeloop.Failed, got.Status)
	require.NotNil(r.t, got.FailureClass)
	require.Equal(r.t, got.FailureClass.DefaultRetry(), *got.RetryClass)
	return *got.FailureClass
}

func payload(where lifeloop.PayloadPlacement, size int) lifeloop.PayloadEnvelope {
	body := lifeloop.NewOpaque(strings.Repeat("x", size))
	return lifeloop.PayloadEnvelope{SchemaVersion: 1, PayloadID: "p", ClientID: "notes", PayloadKind: "note", Format: "text",
		ContentEncoding: "utf8", Body: &body, ByteSize: int64(size), Redaction: "none", Metadata: map[string]any{},
		AcceptablePlacements: []lifeloop.AcceptablePlacement{{Placement: where, Requirement: lifeloop.Required}}}
}

// TestFailureModesOfEveryAdapter causes each failure that an adapter lists, and
// checks its class.
func TestFailureModesOfEveryAdapter(t *testing.T) {
	for _, id := range IDs() {
		m, _ := Get(id)
		for _, class := range m.FailureModes {
			t.Run(id+"/"+string(class), func(t *testing.T) {
				fail := failures[class]
				require.NotNil(t, fail, "failures has no entry")
				if got := fail(t, id); got != class {
					t.Errorf("the failure has the class %q", got)
				}
			})
		}
	}
}

// hooked returns a launched session whose first hook was called.
func hooked(t *testing.T, id string) *run {
	r := begin(t, id, func(c *kernel.Config) { c.Hooks, c.NoTelemetry = true, false })
	r.step(input.Launched{PID: 4242})
	r.hook("SessionStart", `{"session_id":"s","hook_event_name":"SessionStart","source":"startup"}`)
	return r
}

// prepares answers the prepare command of the only renewal, and returns the renewal's id.
func (r *run) prepares() string {
	ids := map[string]bool{}
	for _, f := range r.facts {
		if moved, ok := f.(kernel.RenewalMoved); ok {
			ids[moved.Renewal] = true
		}
	}
	require.Len(r.t, ids, 1)
	renewing := slices.Collect(maps.Keys(ids))[0]
	r.step(input.RenewalPrepared{Renewal: renewing, Digest: "sha256:1"})
	return renewing
}

// continues answers the continue command of a renewal.
func (r *run) continues(renewing string) {
	r.step(input.RenewalContinued{Renewal: renewing, Text: lifeloop.NewOpaque("continue"), Digest: "sha256:" + strings.Repeat("0", 64)})
}

// renewals lists the states of the renewal so far.
func (r *run) renewals() (states []renewal.State) {
	for _, f := range r.facts {
		if moved, ok := f.(kernel.RenewalMoved); ok {
			states = append(states, moved.To)
		}
	}
	return states
}

// renewed renews a session by a profile, with the adapter's own hook at the start of
// each harness session, and returns the states of the renewal.
func renewed(t *testing.T, id, name string) []renewal.State {
	t.Helper()
	r := begin(t, id, func(c *kernel.Config) {
		c.Hooks, c.NoTelemetry, c.Renews, c.Stores = true, false, true, true
		c.Renewals = []renewal.Rules{{Profile: name, Client: "notes", Paths: []renewal.Path{renewal.Relaunch}, Cut: true}}
	})
	r.step(input.Launched{PID: 4242})
	r.hook("SessionStart", `{"session_id":"s","hook_event_name":"SessionStart","source":"startup"}`)
	r.step(input.RenewAsked{Ask: "a1"})
	renewing := r.prepares()
	r.step(input.ChildExited{})
	r.step(input.SourcesDrained{})
	r.continues(renewing)
	r.step(input.Launched{PID: 4243})
	r.hook("SessionStart", `{"session_id":"s2","hook_event_name":"SessionStart","source":"startup"}`)
	r.step(input.HookClosed{Hook: "SessionStart", Delivered: true})
	return r.renewals()
}

// inPlace renews a session by typing keys into the harness, with the adapter's own hooks,
// and returns the states of the renewal. ends gives r the input which shows that the old
// session has ended: a call of the old session's hook, or the lock that the harness holds
// for the new session.
func inPlace(t *testing.T, id string, ends func(r *run, renewing string)) []renewal.State {
	t.Helper()
	r := begin(t, id, func(c *kernel.Config) {
		c.Hooks, c.NoTelemetry, c.Clears, c.Stores = true, false, true, true
		c.Renewals = []renewal.Rules{{Profile: "handoff", Client: "notes", Paths: []renewal.Path{renewal.InPlace}}}
	})
	r.step(input.Launched{PID: 4242})
	r.hook("SessionStart", `{"session_id":"s","hook_event_name":"SessionStart","source":"startup"}`)
	r.hook("UserPromptSubmit", `{"session_id":"s","hook_event_name":"UserPromptSubmit","prompt_id":"p1","turn_id":"p1","prompt":"x"}`)
	r.step(input.SignalsSeen{Signals: []telemetry.Signal{{Kind: telemetry.TurnEnd, Source: "transcript", Session: "s", Turn: "p1"}, {Kind: telemetry.Idle, Source: "registry", Session: "s"}}})
	r.step(input.RenewAsked{Ask: "a1"})
	renewing := r.prepares()
	r.continues(renewing)
	r.step(input.KeysTyped{Renewal: renewing})
	ends(r, renewing)
	r.hook("SessionStart", `{"session_id":"s2","hook_event_name":"SessionStart","source":"clear"}`)
	r.step(input.HookClosed{Hook: "SessionStart", Delivered: true})
	return r.renewals()
}

// byHook renews a session by the answer of its hook at the end of a turn, and returns the
// states of the renewal. The chat file reports the empty context.
func byHook(t *testing.T, id string) []renewal.State {
	t.Helper()
	p, _ := profiles.For(id)
	r := begin(t, id, func(c *kernel.Config) {
		c.Hooks, c.NoTelemetry, c.Clears, c.Means, c.Stores = true, false, true, renewal.ByHook, true
		c.Renewals = []renewal.Rules{{Profile: "handoff", Client: "notes", Paths: []renewal.Path{renewal.InPlace}}}
	})
	r.step(input.Launched{PID: 4242})
	r.hook("SessionStart", `{"session_id":"s","hook_event_name":"SessionStart","source":"startup"}`)
	r.hook("BeforeAgent", `{"session_id":"s","hook_event_name":"BeforeAgent","prompt":"x"}`)
	r.step(input.RenewAsked{Ask: "a1"})
	r.hook("AfterAgent", `{"session_id":"s","hook_event_name":"AfterAgent","prompt":"x","prompt_response":"y","stop_hook_active":false}`)
	renewing := r.prepares()
	r.continues(renewing)
	require.JSONEq(t, `{"continue":false,"stopReason":"why","hookSpecificOutput":{"hookEventName":"AfterAgent","clearContext":true}}`, string(p.Clear()("AfterAgent", "why")))
	r.step(input.HookClosed{Hook: "AfterAgent", Delivered: true})
	cleared := source{id, gemini.Chat, []string{geminiHead, `{"id":"i1","timestamp":"2026-01-02T03:04:07Z","type":"info","content":"Conversation context has been cleared."}`}}
	r.step(input.SignalsSeen{Signals: cleared.signals(t)})
	r.now = r.now.Add(2 * time.Second)
	r.step(input.Wake{})
	r.hook("BeforeAgent", `{"session_id":"s","hook_event_name":"BeforeAgent","prompt":"z"}`)
	r.step(input.HookClosed{Hook: "BeforeAgent", Delivered: true})
	return r.renewals()
}

// locks reports the lock file of a new Codex thread, a conversation. It checks that the
// lock file begins the new harness session, before the hook of that session is called.
func locks(r *run, renewing string) {
	r.step(input.FreshSeen{Renewal: renewing, ID: "s2", Source: "threads", Detail: "s2.lock"})
	require.True(r.t, slices.ContainsFunc(r.facts, func(f kernel.Fact) bool {
		o, ok := f.(kernel.Observed)
		return ok && o.Record.Event == lifeloop.SessionStarted && o.Scope == 2 && o.Record.Evidence[0].Source == "threads"
	}))
}

func (r *run) hook(event, stdin string) {
	r.t.Helper()
	call := hookCall(r.t, r.last().AdapterID, event, stdin)
	r.step(input.HookCalled{Hook: event, Call: call, Deadline: r.now.Add(5 * time.Second)})
}

// observed returns a session that was launched without the wrapper, after the
// signals of its file were applied.
func observed(t *testing.T, from source) *run {
	r := begin(t, from.adapter, func(c *kernel.Config) { c.Observing, c.NoTelemetry, c.Ledger = true, false, true })
	r.step(input.SignalsSeen{Signals: from.signals(t)})
	return r
}

// The records of a whole turn in a chat file of Gemini CLI.
const (
	geminiHead   = `{"sessionId":"s","projectHash":"h","startTime":"2026-01-02T03:04:04Z","lastUpdated":"2026-01-02T03:04:04Z","kind":"main"}`
	geminiPrompt = `{"id":"u1","timestamp":"2026-01-02T03:04:05Z","type":"user","content":[{"text":"hi"}]}`
	geminiAnswer = `{"id":"m1","timestamp":"2026-01-02T03:04:06Z","type":"gemini","content":"hi","thoughts":[],"tokens":{"input":1000,"output":5,"cached":0,"thoughts":0,"tool":0,"total":1005},"model":"gemini-2.5-pro"}`
)

// used holds the records of a whole turn, from each adapter's main file.
var used = map[string]source{
	"claude": {"claude", claude.Transcript, []string{
		`{"type":"user","uuid":"u1","sessionId":"s","promptId":"p1","promptSource":"typed","origin":{"kind":"human"},"timestamp":"2026-01-02T03:04:05Z","message":{"role":"user","content":"hi"}}`,
		`{"type":"assistant","uuid":"a1","sessionId":"s","timestamp":"2026-01-02T03:04:06Z","requestId":"r1","message":{"id":"m1","role":"assistant","model":"claude-opus-4-6","stop_reason":"end_turn","content":[{"type":"text","text":"hi"}],"usage":{"input_tokens":10,"cache_read_input_tokens":1000,"cache_creation_input_tokens":0,"output_tokens":5}}}`,
		`{"type":"system","subtype":"turn_duration","uuid":"d1","sessionId":"s","durationMs":5}`,
	}},
	"codex": {"codex", codex.Rollout, []string{
		`{"timestamp":"2026-01-02T03:04:04Z","ordinal":0,"type":"session_meta","payload":{"id":"s"}}`,
		`{"timestamp":"2026-01-02T03:04:05Z","ordinal":1,"type":"event_msg","payload":{"type":"task_started","turn_id":"t1","model_context_window":258400}}`,
		`{"timestamp":"2026-01-02T03:04:06Z","ordinal":2,"type":"event_msg","payload":{"type":"token_count","info":{"last_token_usage":{"input_tokens":900,"output_tokens":100,"total_tokens":1000},"model_context_window":258400}}}`,
		`{"timestamp":"2026-01-02T03:04:07Z","ordinal":3,"type":"event_msg","payload":{"type":"task_complete","turn_id":"t1","last_agent_message":"hi"}}`,
	}},
	"gemini": {"gemini", gemini.Chat, []string{geminiHead, geminiPrompt, geminiAnswer}},
}

// A proof is the value of a claim and a function that runs the code behind it.
type proof struct {
	said  string
	holds func(t *testing.T, id string) bool
}

func mode(want lifeloop.IntegrationMode, of func(t *testing.T, id string) *run) proof {
	return proof{"listed", func(t *testing.T, id string) bool { return of(t, id).last().IntegrationMode == want }}
}

// reports returns the proof for a telemetry source: it decodes a record of that
// source.
func reports(said, name string, from source) proof {
	return proof{said, func(t *testing.T, _ string) bool {
		return slices.ContainsFunc(from.signals(t), func(s telemetry.Signal) bool { return s.Source == name })
	}}
}

// seenAs returns the proof that the answer to a hook has text for the model's context.
// The harness decides in which role the model sees the text; we read the role from the
// harness's requests to its model (docs/harnesses).
func seenAs(role lifeloop.SeenAs, event string) proof {
	return proof{string(role), func(t *testing.T, id string) bool {
		p, ok := profiles.For(id)
		return ok && strings.Contains(string(p.Answer(event, "note")), `"additionalContext":"note"`)
	}}
}

// cleared reports whether clearing the context begins a new harness session with a
// new id.
func cleared(t *testing.T, id string) bool {
	r := hooked(t, id)
	r.hook("SessionStart", `{"session_id":"s2","hook_event_name":"SessionStart","source":"clear"}`)
	opened := slices.ContainsFunc(r.facts, func(f kernel.Fact) bool {
		o, ok := f.(kernel.HarnessSessionOpened)
		return ok && o.Scope == 2 && o.ID == "s2"
	})
	return opened && is(r.last().HarnessSessionID, "s2")
}

// relaunched reports whether a new launch observes the new harness session, and
// delivers the continuation into it.
func relaunched(t *testing.T, id string) bool {
	states := renewed(t, id, "handoff")
	return slices.Contains(states, renewal.Resumed) && slices.Contains(states, renewal.Delivered)
}

func is(id *string, want string) bool { return id != nil && *id == want }

// proofs holds the proofs of all claims except events, failure modes and placements. Of
// the claims of a placement, only seen_as has a proof here. The key is the place of the
// claim, or the adapter and the place.
var proofs = map[string]proof{
	"integration_modes.launcher_wrapper": mode(lifeloop.LauncherWrapper, func(t *testing.T, id string) *run { return begin(t, id, nil) }),
	"integration_modes.native_hook":      mode(lifeloop.NativeHook, hooked),
	"integration_modes.telemetry_only":   mode(lifeloop.TelemetryOnly, func(t *testing.T, id string) *run { return observed(t, used[id]) }),

	"claude placement.pre_session.seen_as":        seenAs(lifeloop.SeenAsUser, "SessionStart"),
	"claude placement.pre_frame_trailing.seen_as": seenAs(lifeloop.SeenAsUser, "UserPromptSubmit"),
	"claude placement.tool_result.seen_as":        seenAs(lifeloop.SeenAsUser, "PostToolUse"),
	"codex placement.pre_session.seen_as":         seenAs(lifeloop.SeenAsDeveloper, "SessionStart"),
	"codex placement.pre_frame_trailing.seen_as":  seenAs(lifeloop.SeenAsDeveloper, "UserPromptSubmit"),
	"codex placement.tool_result.seen_as":         seenAs(lifeloop.SeenAsDeveloper, "PostToolUse"),

	"gemini placement.pre_session.seen_as":        seenAs(lifeloop.SeenAsUser, "SessionStart"),
	"gemini placement.pre_frame_trailing.seen_as": seenAs(lifeloop.SeenAsUser, "BeforeAgent"),

	"context_pressure": {"synthesized", func(t *testing.T, id string) bool {
		return slices.ContainsFunc(observed(t, used[id]).facts, func(f kernel.Fact) bool {
			o, ok := f.(kernel.Observed)
			return ok && o.Record.Event == lifeloop.ContextPressureObserved && o.Record.Data["level"] == "low"
		})
	}},

	"receipts.lifeloop_synthesized": {"true", func(t *testing.T, id string) bool {
		r := begin(t, id, nil)
		for _, receipt := range r.receipts() {
			require.NoError(t, lifeloop.Validate(receipt))
		}
		return len(r.receipts()) > 0
	}},
	"receipts.receipt_ledger": {"synthesized", func(t *testing.T, id string) bool {
		kept, unkept := begin(t, id, nil), begin(t, id, func(c *kernel.Config) { c.Ledger = false })
		kept.step(input.Launched{PID: 4242})
		for i, receipt := range kept.receipts() {
			if receipt.Sequence == nil || *receipt.Sequence != int64(i+1) {
				t.Errorf("receipt %d has the number %v", i+1, receipt.Sequence)
			}
		}
		return len(kept.receipts()) > 1 && unkept.last().Sequence == nil
	}},

	"renewal.reset.wrapper_mediated": {"synthesized", func(t *testing.T, id string) bool {
		p, _ := profiles.For(id)
		fresh, ok := p.Fresh([]string{id, "the prompt"}, true)
		_, again := p.Fresh(map[string][]string{"claude": {"claude", "-p", "the prompt"}, "codex": {"codex", "exec", "the prompt"},
			"gemini": {"gemini", "-p", "the prompt"}}[id], true)
		return ok && !slices.Contains(fresh, "the prompt") && !again && slices.Contains(renewed(t, id, "handoff"), renewal.Delivered) && slices.Contains(renewed(t, id, "another"), renewal.Refused)
	}},

	"claude renewal.reset.native": {"synthesized", func(t *testing.T, id string) bool {
		p, _ := profiles.For(id)
		_, prints := p.Clears([]string{id, "-p", "the prompt"}, true)
		_, piped := p.Clears([]string{id}, false)
		keys, ok := p.Clears([]string{id, "the prompt"}, true)
		ends := func(r *run, _ string) {
			r.hook("SessionEnd", `{"session_id":"s","hook_event_name":"SessionEnd","reason":"clear"}`)
		}
		return ok && keys.Aside != nil && !prints && !piped && slices.Contains(inPlace(t, id, ends), renewal.Delivered)
	}},
	"codex renewal.reset.native": {"synthesized", func(t *testing.T, id string) bool {
		p, _ := profiles.For(id)
		_, prints := p.Clears([]string{id, "exec", "the prompt"}, true)
		_, reviews := p.Clears([]string{id, "review"}, true)
		_, piped := p.Clears([]string{id}, false)
		keys, ok := p.Clears([]string{id, "the prompt"}, true)
		return ok && keys.Aside == nil && !prints && !reviews && !piped && slices.Contains(inPlace(t, id, locks), renewal.Delivered)
	}},

	"gemini renewal.reset.native": {"synthesized", func(t *testing.T, id string) bool {
		p, _ := profiles.For(id)
		clears := func(terminal bool, args ...string) bool {
			l, err := p.Prepare(append([]string{id}, args...), profiles.Host{Dir: "/work", Env: []string{"HOME=/home/dev"}, Hook: []string{"/hook"}, RunDir: "/run", Terminal: terminal, Hooks: profiles.Always})
			return err == nil && l.Clears
		}
		return clears(true) && !clears(true, "-p", "the prompt") && !clears(false) && slices.Contains(byHook(t, id), renewal.Delivered)
	}},

	"session_identity.harness_session_id": {"native", func(t *testing.T, id string) bool { return is(hooked(t, id).last().HarnessSessionID, "s") }},
	"gemini session_identity.harness_session_id": {"partial", func(t *testing.T, id string) bool {
		// Only hooks report a session that /clear begins.
		return is(hooked(t, id).last().HarnessSessionID, "s") && is(observed(t, used[id]).last().HarnessSessionID, "s")
	}},
	"session_identity.harness_run_id":  {"synthesized", func(t *testing.T, id string) bool { return hooked(t, id).last().HarnessRunID != nil }},
	"session_identity.harness_task_id": {"synthesized", func(t *testing.T, id string) bool { return is(hooked(t, id).last().HarnessTaskID, "sess") }},

	// The user resets the harness. The hook at the start of the new harness session
	// reports the reset, and its answer delivers the continuation.
	"renewal.reset.manual":                  {"manual", cleared},
	"renewal.continuation.observation":      {"native", cleared},
	"renewal.continuation.payload_delivery": {"synthesized", func(t *testing.T, id string) bool { return seenAs("", "SessionStart").holds(t, id) && cleared(t, id) }},
	// Gemini CLI drops the hook's answer after /clear, so these proofs launch it again.
	"gemini renewal.continuation.observation":      {"native", relaunched},
	"gemini renewal.continuation.payload_delivery": {"synthesized", relaunched},
	"renewal.profiles": {"listed", func(t *testing.T, id string) bool {
		m, _ := Get(id)
		return !slices.ContainsFunc(m.Renewal.Profiles, func(name string) bool {
			return !slices.ContainsFunc(profile.Builtin(), func(p profile.Profile) bool { return p.Name == name })
		})
	}},

	"approval_surface": {"partial", func(t *testing.T, id string) bool {
		r := hooked(t, id)
		r.hook("UserPromptSubmit", `{"session_id":"s","hook_event_name":"UserPromptSubmit","prompt_id":"p1","turn_id":"p1"}`)
		r.hook("PermissionRequest", `{"session_id":"s","hook_event_name":"PermissionRequest","prompt_id":"p1","turn_id":"p1","tool_name":"Bash"}`)
		p, _ := profiles.For(id)
		if answer := p.Answer("PermissionRequest", "note"); answer != nil {
			t.Errorf("the hook's answer decides for the user: %s", answer)
		}
		return slices.ContainsFunc(r.facts, func(f kernel.Fact) bool {
			moved, ok := f.(kernel.ActivityMoved)
			return ok && moved.To == "needs_input"
		})
	}},

	"claude telemetry_sources.hooks":      reports("native", "hook", source{"claude", nil, []string{"Stop", `{"session_id":"s","hook_event_name":"Stop"}`}}),
	"claude telemetry_sources.transcript": reports("native", "transcript", used["claude"]),
	"claude telemetry_sources.registry":   reports("native", "registry", source{"claude", claude.Registry, []string{`{"pid":1,"sessionId":"s","status":"busy"}`}}),
	"claude telemetry_sources.statusline": reports("partial", "statusline", source{"claude", nil, []string{"Statusline", `{"session_id":"s","context_window":{"context_window_size":200000}}`}}),
	"claude telemetry_sources.terminal":   reports("partial", "terminal", source{"claude", claude.OSC, []string{"⠂ A title"}}),
	"codex telemetry_sources.threads": {"partial", func(t *testing.T, id string) bool {
		p, _ := profiles.For(id)
		launch, err := p.Prepare([]string{id}, profiles.Host{Dir: "/work", Env: []string{"HOME=/home/dev"}, Terminal: true})
		return err == nil && launch.Threads == "/home/dev/.codex/thread-writer-locks" && slices.Contains(inPlace(t, id, locks), renewal.Resumed)
	}},
	"codex telemetry_sources.hooks":      reports("native", "hook", source{"codex", nil, []string{"Stop", `{"session_id":"s","hook_event_name":"Stop","turn_id":"t"}`}}),
	"codex telemetry_sources.rollout":    reports("native", "rollout", used["codex"]),
	"codex telemetry_sources.terminal":   reports("partial", "terminal", source{"codex", codex.OSC, []string{"state=working:app=codex"}}),
	"codex telemetry_sources.exec":       reports("partial", "stream", source{"codex", codex.Exec, []string{`{"type":"thread.started","thread_id":"s"}`}}),
	"codex telemetry_sources.app-server": reports("partial", "stream", source{"codex", codex.AppServer, []string{`{"method":"turn/started","params":{"threadId":"s","turn":{"id":"t"}}}`}}),
	"codex telemetry_sources.notify":     reports("partial", "notify", source{"codex", codex.Notify, []string{`{"type":"agent-turn-complete","thread-id":"s","turn-id":"t","input-messages":["x"]}`}}),
	"codex telemetry_sources.history":    reports("partial", "history", source{"codex", codex.History, []string{`{"session_id":"s","ts":1795246826,"text":"x"}`}}),

	"gemini telemetry_sources.hooks":      reports("partial", "hook", source{"gemini", nil, []string{"AfterAgent", `{"session_id":"s","hook_event_name":"AfterAgent"}`}}),
	"gemini telemetry_sources.transcript": reports("native", "transcript", used["gemini"]),
	"gemini telemetry_sources.telemetry":  reports("partial", "telemetry", source{"gemini", gemini.Telemetry, []string{`{"attributes":{"session.id":"s","event.name":"gemini_cli.user_prompt","prompt_id":"s########0"}}`}}),
	"gemini telemetry_sources.stream":     reports("partial", "stream", source{"gemini", gemini.Stream, []string{`{"type":"init","session_id":"s","model":"gemini-2.5-pro"}`}}),
	"gemini telemetry_sources.log":        reports("partial", "log", source{"gemini", gemini.Logs, []string{`[{"sessionId":"s","messageId":0,"type":"user","message":"hi"}]`}}),
	"gemini telemetry_sources.terminal":   reports("partial", "terminal", source{"gemini", gemini.OSC, []string{"✦  Working… (project)"}}),
}

// TestEveryClaimOfV1Adapters fails for a claim without a proof, for a claim with another
// value than its proof, and for a proof without a claim. The claims that other tests
// check are skipped.
func TestEveryClaimOfV1Adapters(t *testing.T) {
	needed := map[string]bool{}
	for _, id := range IDs() {
		if Conformance(id) != V1 {
			continue
		}
		for claim, said := range claims(t, id) {
			top, rest, _ := strings.Cut(claim, ".")
			if top == "lifecycle_events" || top == "failure_modes" || top == "placement" && !strings.Contains(rest, ".seen_as") {
				continue // other tests check these claims
			}
			if strings.HasPrefix(claim, "renewal.profiles.") {
				claim = "renewal.profiles"
			}
			name := id + " " + claim
			p, ok := proofs[name]
			if !ok {
				name = claim
				p, ok = proofs[name]
			}
			needed[name] = true
			t.Run(id+"/"+claim, func(t *testing.T) {
				require.True(t, ok, "%s claims %q without a proof", id, said)
				require.Equal(t, p.said, said, "the proof is for another value")
				if !p.holds(t, id) {
					t.Errorf("the claim %s does not hold", said)
				}
			})
		}
	}
	for name := range proofs {
		if !needed[name] {
			t.Errorf("the proof of %s has no claim", name)
		}
	}
}
