package manifests

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/lifeloop"
	"lifeloop/profiles"
	"lifeloop/telemetry"
	"lifeloop/telemetry/hermes"
	"lifeloop/telemetry/openclaw"
)

// For each event that OpenClaw and Hermes claim, except the wrapper's own events, there
// are bytes that cause the event. The bytes come from the harness, or from our plugin in
// the harness.
func TestEventClaimsOfObservedAdapters(t *testing.T) {
	proven := map[string]bool{}
	for _, p := range observedProofs() {
		t.Run(p.from.adapter+"/"+string(p.event), func(t *testing.T) {
			signals := p.from.signals(t)
			if !slices.ContainsFunc(signals, func(s telemetry.Signal) bool { return s.Kind == p.kind }) {
				t.Errorf("no %s signal in %+v", p.kind, signals)
			}
		})
		proven[p.from.adapter+" "+string(p.event)] = true
	}
	placed := map[string]string{"openclaw pre_session": "session_start", "openclaw pre_frame_trailing": "before_prompt_build"}
	for class, event := range placed {
		call, err := openclaw.Hooks{}.Decode(event, []byte(`{"session_id":"s"}`))
		require.NoError(t, err)
		require.Equal(t, class, "openclaw "+call.Slot)
		require.JSONEq(t, `{"context":"x"}`, string(openclaw.Hooks{}.Answer(event, "x")))
	}
	// The wrapper emits these events by itself, without bytes from the harness.
	ours := []lifeloop.Event{lifeloop.SessionStarting, lifeloop.SessionEnding, lifeloop.SessionEnded, lifeloop.SupervisorTick,
		lifeloop.CapabilityDegraded, lifeloop.ReceiptEmitted}
	for _, id := range []string{"openclaw", "hermes"} {
		m, _ := Get(id)
		for e, claim := range m.LifecycleEvents {
			switch {
			case claim.Support == lifeloop.Unavailable:
			case slices.Contains(ours, e) && claim.Support != lifeloop.Synthesized:
				t.Errorf("%s claims %s %s, but the wrapper makes it itself", id, claim.Support, e)
			case !slices.Contains(ours, e) && !proven[id+" "+string(e)]:
				t.Errorf("%s claims %s %s, but no row shows a decoder for it", id, claim.Support, e)
			}
			// A launch of OpenClaw or Hermes does not read that harness's session store.
			// So the harness's events in a launch come from hooks or not at all, and a
			// launch of Hermes has no hooks.
			if !slices.Contains(ours, e) && e != lifeloop.SessionStarted && claim.Support != lifeloop.Unavailable &&
				(slices.Contains(claim.Modes, lifeloop.LauncherWrapper) || slices.Contains(claim.Modes, lifeloop.NativeHook) != (id == "openclaw")) {
				t.Errorf("%s claims %s in the modes %v", id, e, claim.Modes)
			}
		}
		for class, claim := range m.Placement {
			if claim.Support != lifeloop.Unavailable && placed[id+" "+string(class)] == "" {
				t.Errorf("%s claims %s %s, but the wrapper answers none of its hooks", id, claim.Support, class)
			}
		}
	}
	// Hermes was never run in our tests, so all claims that depend on its output
	// are partial.
	m, _ := Get("hermes")
	for e, claim := range m.LifecycleEvents {
		if !slices.Contains(ours, e) && e != lifeloop.SessionStarted && claim.Support != lifeloop.Unavailable && claim.Support != lifeloop.Partial {
			t.Errorf("hermes claims %s %s", claim.Support, e)
		}
	}
}

// An eventProof is a claimed event with bytes that cause the event.
type eventProof struct {
	event lifeloop.Event
	from  source
	kind  telemetry.Kind
}

func observedProofs() []eventProof {
	const (
		ocSession = `{"session_id":"s","seq":0,"created_at":1000,"event":{"type":"session","id":"s","cwd":"/d"}}`
		ocPrompt  = `{"session_id":"s","seq":1,"created_at":2000,"event":{"type":"message","id":"u","message":{"role":"user","content":"hi","idempotencyKey":"r:user"}}}`
		ocAnswer  = `{"session_id":"s","seq":2,"created_at":3000,"event":{"type":"message","id":"a","message":{"role":"assistant","content":[],"usage":{"input":10,"output":2},"stopReason":"stop","responseId":"c","__openclaw":{"runId":"r"}}}}`
		ocSettled = `{"session_id":"s","seq":3,"created_at":4000,"event":{"type":"custom","id":"x","customType":"openclaw:bootstrap-context:full","data":{"runId":"r"}}}`
		ocCompact = `{"session_id":"s","seq":4,"created_at":5000,"event":{"type":"compaction","id":"k","tokensBefore":12,"tokensAfter":3}}`
		ocNode    = `{"session_key":"k","current_session_id":"s","updated_at":4000,"entry":{"totalTokens":10,"totalTokensFresh":true,"contextTokens":200}}`
		heUser    = `{"table":"messages","id":1,"session_id":"s","role":"user","timestamp":1.5,"session":{"model":"m","api_call_count":1,"input_tokens":10}}`
		heAnswer  = `{"table":"messages","id":2,"session_id":"s","role":"assistant","finish_reason":"stop","timestamp":2.5,"session":{"model":"m","api_call_count":2,"input_tokens":30}}`
		heSummary = `{"table":"messages","id":3,"session_id":"s","role":"user","_compressed_summary":1,"timestamp":3.5,"session":{}}`
		heEnded   = `{"session_id":"s","hook_event_name":"on_session_end","extra":{"turn_id":"t","completed":true,"failed":false,"interrupted":false}}`
	)
	claw := func(decoder func() telemetry.Decoder, records ...string) source {
		return source{"openclaw", decoder, records}
	}
	plugin := func(event, members string) source {
		return source{"openclaw", nil, []string{event, `{"session_id":"s","hook_event_name":"` + event + `",` + members + `}`}}
	}
	rows := func(records ...string) source { return source{"hermes", hermes.Store, records} }
	return []eventProof{
		{lifeloop.SessionStarted, claw(openclaw.Transcript, ocSession), telemetry.SessionLive},
		{lifeloop.FrameOpened, claw(openclaw.Transcript, ocPrompt, ocAnswer), telemetry.Prompt},
		{lifeloop.ContextPressureObserved, claw(openclaw.Transcript, ocPrompt, ocAnswer), telemetry.UsageSeen},
		{lifeloop.ContextPressureObserved, claw(openclaw.Node, ocNode), telemetry.UsageSeen},
		{lifeloop.ContextCompacted, claw(openclaw.Transcript, ocCompact), telemetry.Compacted},
		{lifeloop.FrameEnded, claw(openclaw.Transcript, ocPrompt, ocAnswer, ocSettled), telemetry.TurnEnd},
		{lifeloop.SessionStarted, plugin("session_start", `"source":"startup"`), telemetry.SessionLive},
		{lifeloop.FrameOpening, plugin("before_prompt_build", `"turn_id":"r"`), telemetry.Prompt},
		{lifeloop.FrameOpened, plugin("before_prompt_build", `"turn_id":"r"`), telemetry.Prompt},
		{lifeloop.FrameEnding, plugin("before_agent_finalize", `"turn_id":"r"`), telemetry.TurnStop},
		{lifeloop.FrameEnded, plugin("agent_end", `"turn_id":"r","success":true`), telemetry.TurnEnd},
		{lifeloop.ContextPressureObserved, plugin("agent_end", `"turn_id":"r","messages":[{"role":"assistant","responseId":"c","usage":{"input":10}}]`), telemetry.UsageSeen},
		{lifeloop.ContextCompacted, plugin("after_compaction", `"trigger":"x"`), telemetry.Compacted},

		{lifeloop.SessionStarted, rows(heUser), telemetry.SessionLive},
		{lifeloop.FrameOpened, rows(heUser), telemetry.Prompt},
		{lifeloop.ContextPressureObserved, rows(heUser, heAnswer), telemetry.UsageSeen},
		{lifeloop.ContextCompacted, rows(heUser, heSummary), telemetry.Compacted},
		{lifeloop.FrameEnded, source{"hermes", nil, []string{"on_session_end", heEnded}}, telemetry.TurnEnd},
	}
}

// OpenClaw's renewal is claimed for a launch of a gateway: the plugin reports the session
// that was reset, and a hook at the next prompt delivers the continuation. Other launches
// lack these capabilities. No launch of OpenClaw can be renewed by a new start.
func TestRenewalClaimsOfOpenclaw(t *testing.T) {
	m, _ := Get("openclaw")
	require.Equal(t, lifeloop.Synthesized, m.Renewal.Reset.Native)
	require.Equal(t, lifeloop.Unavailable, m.Renewal.Reset.WrapperMediated)
	require.Equal(t, lifeloop.Synthesized, m.Renewal.Continuation.Observation)
	require.Equal(t, lifeloop.Synthesized, m.Renewal.Continuation.PayloadDelivery)
	seen, err := openclaw.Hooks{}.Decode("session_reset", []byte(`{"session_id":"s","source":"clear"}`))
	require.NoError(t, err)
	require.Equal(t, telemetry.SessionLive, seen.Signals[0].Kind)
	slot, err := openclaw.Hooks{}.Decode("session_context", []byte(`{"session_id":"s"}`))
	require.NoError(t, err)
	require.Equal(t, telemetry.SlotSession, slot.Slot)
	p, _ := profiles.For("openclaw")
	for line, resets := range map[string]bool{"gateway run": true, "agent --local -m hi": false, "agent -m hi": false, "chat": false} {
		argv := append([]string{"openclaw"}, strings.Fields(line)...)
		l, err := p.Prepare(argv, profiles.Host{Dir: "/work", Env: []string{"HOME=/home/dev"}, Hook: []string{"/hook"}, RunDir: "/run", Socket: "/run/s", Key: "/run/k",
			Hooks: profiles.Always, ReadFile: func(string) ([]byte, error) { return []byte("{}"), nil }})
		require.NoError(t, err)
		require.Equal(t, resets, l.Resets, line)
		require.Equal(t, resets, l.Requests != nil, line)
		require.Equal(t, !resets, slices.ContainsFunc(l.Weak, func(w profiles.Weakness) bool { return w.Capability == "renewal.reset.native" }), line)
		_, again := p.Fresh(argv, true)
		require.False(t, again, line)
	}
}
