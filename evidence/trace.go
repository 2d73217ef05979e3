package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lifeloop/canon"
	"lifeloop/evidence/sign"
	"lifeloop/gate"
)

// The members of a TraceRecord that the signature covers. The verifier drops all
// other members before it computes the digest. The reference implementation of Gait drops
// them too, because it parses a trace into its own type. For the digest, required members
// are written even if they are empty, and optional members that are empty are left out.
var (
	traceRequired = []string{
		"schema_id", "schema_version", "producer_version", "trace_id", "tool_name", "args_digest",
		"intent_digest", "policy_digest", "verdict",
	}
	traceTimes    = []string{"created_at", "observed_at"} // both members are always written
	traceOptional = []string{
		"event_id", "correlation_id", "agent_id", "agent_identity", "run_id", "workflow_id", "repo",
		"environment", "credential_ref", "credential_source", "credential_access_type",
		"credential_issuer", "credential_subject", "credential_owner", "credential_target_binding",
		"credential_run_binding", "credential_job_binding", "credential_ttl_seconds",
		"broker_credential_ref", "broker_credential_source", "broker_credential_access_type",
		"broker_credential_issuer", "broker_request_digest", "broker_target_binding", "broker_run_binding",
		"broker_job_binding", "approval_ref", "wrkr_inventory_ref", "agent_action_bom_ref", "policy_id",
		"policy_version", "matched_rule_ids", "context_set_digest", "context_evidence_mode",
		"context_ref_count", "context_source", "script", "step_count", "script_hash",
		"composite_risk_class", "step_verdicts", "pre_approved", "pattern_id", "registry_reason",
		"violations", "latency_ms", "approval_token_ref", "delegation_ref", "freeze_window", "sandbox",
		"kill_switch", "mcp_trust", "relationship", "skill_provenance",
	}
)

// traceFacts are the members that are checked.
type traceFacts struct {
	Header
	ObservedAt   time.Time       `json:"observed_at"`
	TraceID      string          `json:"trace_id"`
	EventID      string          `json:"event_id"`
	ToolName     string          `json:"tool_name"`
	ArgsDigest   string          `json:"args_digest"`
	IntentDigest string          `json:"intent_digest"`
	PolicyDigest string          `json:"policy_digest"`
	Verdict      gate.Verdict    `json:"verdict"`
	Signature    *sign.Signature `json:"signature"`
}

// traceDigest returns the digest that a trace's signature signs, and the names of
// the members that it does not cover.
func traceDigest(members map[string]json.RawMessage) (digest string, uncovered []string, err error) {
	covered := map[string]json.RawMessage{}
	for _, name := range traceRequired {
		covered[name] = json.RawMessage(`""`)
	}
	for _, name := range traceTimes {
		var at time.Time
		if text, present := members[name]; present {
			if err := json.Unmarshal(text, &at); err != nil {
				return "", nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		if covered[name], err = json.Marshal(at); err != nil {
			return "", nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		switch {
		case name == "signature" || slices.Contains(traceTimes, name):
		case slices.Contains(traceRequired, name):
			covered[name] = members[name]
		case !slices.Contains(traceOptional, name):
			uncovered = append(uncovered, name)
		case !isEmptyJSON(members[name]):
			covered[name] = members[name]
		}
	}
	text, err := canon.Marshal(covered)
	return sign.Sum(text), uncovered, err
}

// traceMember returns the known name of a trace's member that differs from name at most
// in case, or "" if there is none.
func traceMember(name string) string {
	for _, names := range [][]string{traceRequired, traceTimes, traceOptional, {"signature"}} {
		if i := slices.IndexFunc(names, func(known string) bool { return strings.EqualFold(known, name) }); i >= 0 {
			return names[i]
		}
	}
	return ""
}

// foldedMembers returns the members of a valid document as the reference implementation
// of Gait decodes them: the letters of a known name may be in another case, and of
// several members with the same name the last one counts.
func foldedMembers(doc []byte) map[string]json.RawMessage {
	members := map[string]json.RawMessage{}
	dec := json.NewDecoder(bytes.NewReader(doc))
	for _, err := dec.Token(); err == nil && dec.More(); {
		var token json.Token
		var v json.RawMessage
		if token, err = dec.Token(); err == nil {
			err = dec.Decode(&v)
		}
		name, _ := token.(string)
		if known := traceMember(name); known != "" {
			name = known
		}
		members[name] = v
	}
	return members
}

// uncovered adds a note with the names of members that no digest or verified signature of
// an artifact covers.
func (r *Report) uncovered(at string, names []string) {
	if at != "" {
		at = " of " + at
	}
	switch len(names) {
	case 0:
	case 1:
		r.note("members: %s%s is not covered by a verified signature", names[0], at)
	default:
		r.note("members: %s%s are not covered by a verified signature", someOf(names), at)
	}
}

// someOf returns a list of at most 20 names, and the number of the names that it omits.
func someOf(names []string) string {
	const most = 20
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func isEmptyJSON(v json.RawMessage) bool {
	return slices.Contains([]string{`""`, "[]", "0", "false", "null"}, string(bytes.TrimSpace(v)))
}

func (r *Report) trace(doc []byte, o Options) {
	var members map[string]json.RawMessage
	var t traceFacts
	err := checkSize(doc)
	var text []byte
	if err == nil {
		text, err = canon.Transform(doc)
	}
	if err == nil && o.Compat {
		members, text = foldedMembers(doc), doc
	} else if err == nil {
		err = json.Unmarshal(text, &members)
	}
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	if err != nil {
		r.unreadable("not_a_trace", "", "%v", err)
		return
	}
	r.ID, r.Digest = t.TraceID, t.IntentDigest
	digest, uncovered, err := traceDigest(members)
	if err != nil {
		r.problem("trace", "", "%v", err)
		return
	}
	r.uncovered("", uncovered)
	if t.Signature != nil {
		r.SignaturesTotal, r.SignatureStatus = 1, SignatureSkipped
	}
	switch {
	case o.PublicKey == nil:
		r.unreadable("no_key", "", "a trace is verified by its signature, but no public key was given")
	case t.Signature == nil:
		r.problem("signature_missing", "", "there is no signature")
	default:
		r.SignatureStatus = SignatureFailed
		if err := t.Signature.Verify(o.PublicKey, digest); err != nil {
			r.problem("signature", "", "%v", err)
			break
		}
		r.SignaturesValid, r.SignatureStatus = 1, SignatureVerified
	}
	r.Checked = 1
	if !o.Compat && len(r.Problems) == 0 {
		r.traceContents(t, members, uncovered)
	}
}

// traceContents makes checks that the reference implementation of Gait does not make.
func (r *Report) traceContents(t traceFacts, members map[string]json.RawMessage, uncovered []string) {
	if err := t.check(traceSchema); err != nil {
		r.problem("schema", "", "%v", err)
	}
	if !t.Verdict.Valid() {
		r.problem("trace", "verdict", "%q is not a verdict", t.Verdict)
	}
	for name, digest := range map[string]string{"args_digest": t.ArgsDigest, "intent_digest": t.IntentDigest, "policy_digest": t.PolicyDigest} {
		if !sign.IsDigest(digest) {
			r.problem("trace", name, "it is not a digest")
		}
	}
	if id := gate.TraceID(t.PolicyDigest, t.IntentDigest, t.Verdict); id != t.TraceID {
		r.problem("trace_id", "trace_id", "trace_id does not match; the id of this intent, policy and verdict is %s", id)
	}
	if _, present := members["observed_at"]; present && t.EventID != "" && t.EventID != gate.EventID(t.TraceID, t.ObservedAt) {
		r.problem("event_id", "event_id", "event_id does not match; the id of this trace and time is %s", gate.EventID(t.TraceID, t.ObservedAt))
	}
	for _, name := range traceTimes {
		at := t.CreatedAt
		if name == "observed_at" {
			at = t.ObservedAt
		}
		if want, err := json.Marshal(at); members[name] != nil && (err != nil || !bytes.Equal(members[name], want)) {
			r.problem("trace", name, "the time must be in RFC 3339 form, with Z for UTC and no zeros at the end of the fraction") // the signature covers the time, not its form
		}
	}
	for _, name := range uncovered {
		if known := traceMember(name); known != "" {
			r.problem("trace", name, "the member must be spelled %s", known)
		}
	}
	unknown, err := decodeExact(members["signature"], &sign.Signature{})
	if err != nil {
		r.problem("signature", "signature", "%v", err)
	}
	r.uncovered("signature", unknown)
}
