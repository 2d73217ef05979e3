package conformance

import (
	"lifeloop/lifeloop"
)

// The ids of the sample documents.
const (
	sampleSession = "87cc7860-87b4-4838-a4f5-caa15e29aea9"
	sampleHarness = "d6fe0fbf-9be0-4822-9eba-14ed88e95a53"
	sampleRun     = "run_5f79ab8e-5463-48d5-92dd-1491bb5f97f4"
	sampleFrame   = "943058ce-461e-4efa-ba26-1a3dd4e359fa"
)

// pressure returns a description of the context, in the form that events contain.
func pressure(level string, used int64) map[string]any {
	return map[string]any{"level": level, "tokens_used": used, "window_tokens": int64(200000), "window_source": "statusline",
		"fraction": float64(used) / 200000, "stale": false}
}

// Sample returns a dispatch envelope of an event, with the members that a session
// sends. It is the same each time.
func Sample(event lifeloop.Event) lifeloop.DispatchEnvelope {
	var (
		session, run, task = sampleHarness, sampleRun, sampleSession
		key                = "idem_" + string(event)
	)
	r := lifeloop.CallbackRequest{
		SchemaVersion: lifeloop.Version, Event: event, EventID: "evt_" + string(event), AdapterID: "example", AdapterVersion: "0.1.0",
		IntegrationMode: lifeloop.NativeHook, InvocationID: "inv_" + string(event), HarnessSessionID: &session, HarnessRunID: &run,
		HarnessTaskID: &task, PayloadRefs: []lifeloop.PayloadRef{}, IdempotencyKey: &key, EventData: sampleData(event),
	}
	switch event {
	case lifeloop.SessionStarting, lifeloop.SessionEnding, lifeloop.SessionEnded, lifeloop.FrameEnded, lifeloop.ContextPressureObserved,
		lifeloop.SupervisorTick, lifeloop.CapabilityDegraded, lifeloop.ReceiptEmitted, lifeloop.ReceiptGapDetected:
		r.IntegrationMode = lifeloop.LauncherWrapper
	}
	if event == lifeloop.SessionStarting {
		r.HarnessRunID = nil // this event precedes the launch
	}
	if event.Frame() || event == lifeloop.ContextPressureObserved {
		r.FrameContext = &lifeloop.FrameContext{FrameID: sampleFrame, FrameClass: lifeloop.TopLevel}
	}
	return lifeloop.DispatchEnvelope{SchemaVersion: lifeloop.Version, Request: r}
}

func sampleData(event lifeloop.Event) map[string]any {
	switch event {
	case lifeloop.SessionStarting, lifeloop.SessionStarted:
		return map[string]any{"cause": "startup"}
	case lifeloop.FrameOpening:
		return map[string]any{"turn": sampleFrame}
	case lifeloop.ContextPressureObserved:
		return pressure("moderate", 120000)
	case lifeloop.ContextCompacted:
		return map[string]any{"trigger": "auto", "tokens_before": int64(160000), "tokens_after": nil}
	case lifeloop.FrameEnding, lifeloop.FrameEnded:
		return map[string]any{"outcome": "completed"}
	case lifeloop.SessionEnding, lifeloop.SessionEnded:
		return map[string]any{"reason": "prompt_input_exit"}
	case lifeloop.SupervisorTick:
		return map[string]any{"activity": "working", "uncertain": false, "context": pressure("moderate", 120000)}
	case lifeloop.CapabilityDegraded:
		return map[string]any{"capability": "context_pressure", "previous_support": "synthesized", "current_support": "unavailable",
			"observed_at_epoch_s": int64(1778100000), "evidence": "the context window is unknown", "retry_class": "retry_after_reread"}
	case lifeloop.ReceiptEmitted:
		return map[string]any{"receipt_id": "lfr_frame.opening", "client_id": "notes", "event": "frame.opening", "status": "delivered"}
	case lifeloop.ReceiptGapDetected:
		return map[string]any{"missing_from": int64(12), "missing_to": int64(14), "source": "rollout"}
	}
	return nil // frame.opened has no data
}

// A document is one event to send to the client.
type document struct {
	step     string
	envelope lifeloop.DispatchEnvelope
	text     []byte
}

// The names of the steps outside of a session.
const (
	stepSample  = "sample"
	stepAgain   = "the same event again"
	stepUnknown = "unknown members"
)

// documents returns the events that the client receives outside of a session:
// one of each kind, one of them a second time, and one with unknown members.
func documents() []document {
	var all []document
	for _, event := range lifeloop.Events() {
		all = append(all, encoded(stepSample, Sample(event)))
	}
	again := encoded(stepAgain, Sample(lifeloop.FrameOpening))
	strange := Sample(lifeloop.FrameOpening)
	strange.Request.EventID, *strange.Request.IdempotencyKey = "evt_unknown_members", "idem_unknown_members"
	strange.Request.EventData["x_lifeloop_test"] = map[string]any{"added": true}
	more := encoded(stepUnknown, strange)
	more.text = withMember(withMember(more.text, `"request":{`), `{`)
	return append(all, again, more)
}

func encoded(step string, e lifeloop.DispatchEnvelope) document {
	text, err := e.Encode()
	if err != nil {
		panic("conformance: a sample cannot be encoded: " + err.Error()) // does not happen: a test encodes all samples
	}
	return document{step, e, text}
}
