package gate

import (
	"crypto/ed25519"
	"fmt"
	"time"

	"lifeloop/evidence/sign"
)

// A Trace is a TraceRecord: a decision bound to its intent and its policy. It has
// only members that old verifiers of the format know: a verifier drops unknown
// members before it checks the signature, and would then reject the trace. Empty
// members are left out, as the signature demands.
type Trace struct {
	SchemaID        string          `json:"schema_id"`
	SchemaVersion   string          `json:"schema_version"`
	CreatedAt       time.Time       `json:"created_at"`  // the intent's created_at, equal for each emission of the trace
	ObservedAt      time.Time       `json:"observed_at"` // time of the emission
	ProducerVersion string          `json:"producer_version"`
	TraceID         string          `json:"trace_id"`
	EventID         string          `json:"event_id"` // identifies this emission of the trace
	ToolName        string          `json:"tool_name"`
	ArgsDigest      string          `json:"args_digest"`
	IntentDigest    string          `json:"intent_digest"`
	PolicyDigest    string          `json:"policy_digest"`
	Verdict         Verdict         `json:"verdict"`
	Violations      []string        `json:"violations,omitempty"`
	DelegationRef   *DelegationRef  `json:"delegation_ref,omitempty"`
	SkillProvenance *Skill          `json:"skill_provenance,omitempty"`
	Signature       *sign.Signature `json:"signature,omitempty"`
}

// A DelegationRef refers to the delegation of an intent. The token was not verified.
type DelegationRef struct {
	DelegationTokenRef string `json:"delegation_token_ref,omitempty"` // the first token reference of the delegation
	RequesterIdentity  string `json:"requester_identity,omitempty"`
	DelegationDepth    int    `json:"delegation_depth,omitempty"` // the number of links in the chain
	ScopeClass         string `json:"scope_class,omitempty"`
	ChainDigest        string `json:"chain_digest,omitempty"` // the digest of the whole delegation in its normal form
}

// ref returns a reference to d, which must have its normal form; nil if d is nil.
func (d *Delegation) ref() *DelegationRef {
	if d == nil {
		return nil
	}
	digest, err := sign.Digest(d)
	if err != nil {
		panic(fmt.Sprintf("gate: the normal form of a delegation has no digest: %v", err)) // impossible, because the intent's digest covers the delegation
	}
	r := DelegationRef{RequesterIdentity: d.RequesterIdentity, DelegationDepth: len(d.Chain), ScopeClass: d.ScopeClass, ChainDigest: digest}
	if len(d.TokenRefs) > 0 {
		r.DelegationTokenRef = d.TokenRefs[0]
	}
	return &r
}

// Trace returns the TraceRecord of the decision d. The parameter in is the intent that d
// is about, and observed is the time at which the record is emitted.
func (d Decision) Trace(in Intent, observed time.Time) Trace {
	observed = observed.UTC()
	return Trace{
		SchemaID: traceSchema, SchemaVersion: schemaVersion,
		CreatedAt: d.Result.CreatedAt, ObservedAt: observed, ProducerVersion: d.Result.ProducerVersion,
		TraceID: d.TraceID, EventID: EventID(d.TraceID, observed),
		ToolName: in.ToolName, ArgsDigest: in.ArgsDigest, IntentDigest: in.IntentDigest, PolicyDigest: d.PolicyDigest,
		Verdict: d.Result.Verdict, Violations: d.Result.Violations, DelegationRef: in.Delegation.ref(), SkillProvenance: in.SkillProvenance,
	}
}

// EventID returns the event_id of a trace.
func EventID(traceID string, observed time.Time) string {
	return sign.Sum([]byte(traceID + ":" + observed.UTC().Format(time.RFC3339Nano)))[:24]
}

// Signed returns t with its signature.
func (t Trace) Signed(key ed25519.PrivateKey) (Trace, error) {
	t.Signature = nil
	digest, err := sign.Digest(t)
	if err != nil {
		return t, err
	}
	s, err := sign.Sign(key, digest)
	t.Signature = &s
	return t, err
}
