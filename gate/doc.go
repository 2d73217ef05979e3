// Package gate decides whether an act may happen. It normalises an IntentRequest,
// evaluates it by a policy, and returns a GateResult and, if asked, a signed
// TraceRecord. The formats and verdicts are those of the public reference
// (github.com/Clyra-AI/gait at 1c480c5).
//
// The same intent and policy always give the same bytes. The package performs no
// act, asks no user and grants no approval. Only the verdict allow permits an act,
// and a caller must treat any error as a refusal. The package returns an error for
// everything that it cannot evaluate completely: a policy key that it does not
// implement, a script, a wrong digest in the intent, or a member name in the wrong
// case.
//
//	policy, err := gate.DecodePolicy(document)
//	intent, err := gate.ParseIntent(request)
//	decision := policy.Decide(intent, "lifeloop-wrap/0.1.0")
//	if decision.Result.Verdict == gate.Allow { … }
//	trace, err := decision.Trace(intent, now).Signed(key)
package gate

// The reference's schema ids and version.
const (
	intentSchema  = "gait.gate.intent_request"
	resultSchema  = "gait.gate.result"
	traceSchema   = "gait.gate.trace"
	policySchema  = "gait.gate.policy"
	schemaVersion = "1.0.0"
)

// The acts that a wrapper asks about. The tool name of an intent is the act. For a tool
// call, the tool name is not ActTool, but "tool." and the name of the tool.
const (
	ActLaunch = "harness.launch"
	ActRenew  = "harness.renew"
	ActInject = "harness.inject"
	ActTool   = "harness.tool"
)

// A Verdict is the outcome of a decision. Only Allow permits the act.
type Verdict string

const (
	Allow           Verdict = "allow"
	DryRun          Verdict = "dry_run"
	RequireApproval Verdict = "require_approval"
	Block           Verdict = "block"
)

// strictness orders the verdicts from the least strict to the strictest. It is
// 0 if v is not one of them.
func (v Verdict) strictness() int {
	switch v {
	case Allow:
		return 1
	case DryRun:
		return 2
	case RequireApproval:
		return 3
	case Block:
		return 4
	}
	return 0
}

// Valid reports whether v is one of the four verdicts.
func (v Verdict) Valid() bool { return v.strictness() > 0 }

func stricter(a, b Verdict) Verdict {
	if b.strictness() > a.strictness() {
		return b
	}
	return a
}
