package manifests

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/lifeloop"
	"lifeloop/telemetry"
)

// "Every claim in a Codex or Claude manifest that depends on extracted code is
// paired with a test that runs the corresponding code path." The path begins
// with bytes of the harness, so each row here gives such bytes to the decoder
// that the adapter uses and looks for the signal from which the event is told.

type source struct {
	adapter string
	decoder string   // a telemetry decoder, or "hook"
	records []string // for a hook: its name, then its input
}

func (s source) signals(t *testing.T) []telemetry.Signal {
	t.Helper()
	if s.decoder == "hook" {
		return hookCall(t, s.adapter, s.records[0], s.records[1]).Signals
	}
	d, err := telemetry.NewDecoder(s.decoder)
	require.NoError(t, err)
	var all []telemetry.Signal
	for _, r := range s.records {
		all = append(all, d.Decode([]byte(r))...)
	}
	return all
}

func hookCall(t *testing.T, adapter, event, stdin string) telemetry.HookCall {
	t.Helper()
	call, err := telemetry.DecodeHook(adapter+"-hook", event, []byte(stdin))
	require.NoError(t, err)
	return call
}

func TestEventClaimsOfV1Adapters(t *testing.T) {
	hook := func(adapter, event, rest string) source {
		return source{adapter, "hook", []string{event, fmt.Sprintf(`{"session_id":"s","hook_event_name":%q%s}`, event, rest)}}
	}
	transcript := func(records ...string) source { return source{"claude", "claude-transcript", records} }
	rollout := func(records ...string) source { return source{"codex", "codex-rollout", records} }
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
		{lifeloop.ContextCompacted, hook("claude", "PostCompact", `,"trigger":"auto"`), telemetry.Compacted},
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

	// These are told by the wrapper from its own process, its timer and its
	// own record; no byte of the harness is behind them.
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
				t.Errorf("%s claims %s %s, but we make it ourselves", id, claim.Support, e)
			case !slices.Contains(ours, e) && !proven[id+" "+string(e)]:
				t.Errorf("%s claims %s %s and no decoder is shown to tell it", id, claim.Support, e)
			}
		}
	}
}

// A placement class is claimed exactly where a hook of the harness fills it,
// and its limit leaves room for what the transport envelope puts around a body.
func TestPlacementClaimsOfV1Adapters(t *testing.T) {
	for _, id := range IDs() {
		if Conformance(id) != V1 {
			continue
		}
		m, _ := Get(id)
		room := map[lifeloop.Placement]int{}
		for _, event := range []string{"SessionStart", "SessionEnd", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "PreCompact", "PostCompact", "PermissionRequest"} {
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
				t.Errorf("%s: %s takes %d bytes, but its hook carries only %d", id, class, *claim.MaxBytes, capacity)
			}
		}
	}
}
