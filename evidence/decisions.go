package evidence

import (
	"cmp"
	"crypto/ed25519"
	"fmt"

	"lifeloop/canon"
	"lifeloop/gate"
	"lifeloop/kernel"
)

// This file converts the gate's decisions to events of the journal. Under a policy,
// every act that this program decides about has such an event.

func (x *Export) guarded() bool { return x.began.Policy != "" && x.began.Policy != "none" }

// judged adds the event of a decision of the gate.
func (x *Export) judged(e kernel.Entry, f kernel.GateAnswered) {
	q := x.asked[f.Ask]
	delete(x.asked, f.Ask)
	key := "decision:" + f.Ask
	switch f.Act {
	case gate.ActLaunch:
		// x.run is set if the launch was recorded before its decision. Every launch
		// except the first one is recorded before its decision.
		if key = launchNext; x.run != "" {
			key, x.run = "launch:"+x.run, ""
		}
	case gate.ActRenew:
		key = "renewal:" + q.Renewal
	case gate.ActInject:
		key = payloadKey(q.Dispatch, q.Index)
	}
	x.act(e, 0, cmp.Or(f.Tool, f.Act), key)
	ev := &x.events[len(x.events)-1]
	ev.IntentDigest, ev.PolicyDigest, ev.TraceID = f.IntentDigest, f.PolicyDigest, f.TraceID
	ev.Verdict, ev.ReasonCodes, ev.Violations = string(f.Verdict), f.Reasons, f.Violations
	x.trace(e, f)
	if f.Rule != "" {
		ev.MatchedRuleIDs = []string{f.Rule}
	}
	// The verdict is the final result of a tool call, since an Export does not use
	// kernel.ToolReturned. For the delivery of a payload, the verdict is the result only
	// until the ledger has the status of the payload.
	if f.Act == gate.ActTool || f.Act == gate.ActInject {
		x.settle(key, outcome{OK: f.Allowed(), Status: string(f.Verdict)})
	}
}

// trace adds the TraceRecord of a decision. Both times in the record are the time of the
// ledger's entry. A decision without an evaluation has no trace.
func (x *Export) trace(e kernel.Entry, f kernel.GateAnswered) {
	if f.TraceID == "" {
		return
	}
	h := x.header(traceSchema, e.At)
	x.traces[fmt.Sprintf("trace_%06d.json", e.Seq)] = gate.Trace{
		SchemaID: h.SchemaID, SchemaVersion: h.SchemaVersion, CreatedAt: h.CreatedAt, ObservedAt: h.CreatedAt, ProducerVersion: h.ProducerVersion,
		TraceID: f.TraceID, EventID: gate.EventID(f.TraceID, h.CreatedAt), ToolName: f.Tool,
		ArgsDigest: f.ArgsDigest, IntentDigest: f.IntentDigest, PolicyDigest: f.PolicyDigest, Verdict: gate.Verdict(f.Verdict), Violations: f.Violations,
	}
}

// Traces returns a signed TraceRecord for each decision that was evaluated, by file name.
// key must not be nil.
func (x *Export) Traces(key ed25519.PrivateKey) (map[string][]byte, error) {
	if err := x.begun(); err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for name, t := range x.traces {
		signed, err := t.Signed(key)
		if err != nil {
			return nil, err
		}
		if files[name], err = canon.Marshal(signed); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// launchNext is the key of a launch whose decision is recorded before the launch.
const launchNext = "launch:next"

// launching links a launch to the event of its decision; run is the launch's id.
// If the launch is recorded before its decision, launching stores run until the decision.
func (x *Export) launching(run string) {
	if id, decided := x.waiting[launchNext]; decided {
		delete(x.waiting, launchNext)
		x.waiting["launch:"+run] = id
		return
	}
	x.run = run
}
