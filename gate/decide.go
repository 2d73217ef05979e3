package gate

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
	"time"

	"lifeloop/evidence/sign"
)

// A Result is a GateResult.
type Result struct {
	SchemaID        string    `json:"schema_id"`
	SchemaVersion   string    `json:"schema_version"`
	CreatedAt       time.Time `json:"created_at"` // the intent's created_at, so that the result is deterministic
	ProducerVersion string    `json:"producer_version"`
	Verdict         Verdict   `json:"verdict"`
	ReasonCodes     []string  `json:"reason_codes"` // sorted, without duplicates, never null
	Violations      []string  `json:"violations"`   // sorted, without duplicates, never null
}

// A Decision is a Result, with the rule that decided, the policy's digest, the trace's id
// and the rate limits.
type Decision struct {
	Result       Result
	MatchedRule  string // empty if the default or a fail-closed check decided
	PolicyDigest string
	TraceID      string // identifies intent, policy and verdict
	// RateLimits are those of all matching rules of the priority that decided; [Limiter]
	// applies them if the verdict is allow.
	RateLimits []RateLimit
}

// An outcome is the result of one rule, or of several merged rules.
type outcome struct {
	verdict             Verdict
	reasons, violations []string
}

func (o *outcome) add(v Verdict, reasons, violations []string) {
	o.verdict = stricter(o.verdict, v)
	o.reasons, o.violations = append(o.reasons, reasons...), append(o.violations, violations...)
}

// Decide evaluates an intent. It cannot fail: an intent that was parsed and a
// policy that was decoded always have a verdict. producer is written into the
// result.
func (p *Policy) Decide(in Intent, producer string) Decision {
	d := Decision{PolicyDigest: p.digest}
	o, closed := p.failClosed(in)
	if !closed {
		o = p.rules(in, &d)
	}
	p.conclude(&d, in, o, producer)
	return d
}

// conclude writes the result of an outcome. An approval is never given here, so the
// result of require_approval names the missing approval.
func (p *Policy) conclude(d *Decision, in Intent, o outcome, producer string) {
	if o.verdict == RequireApproval {
		o.add(RequireApproval, []string{"approval_token_missing"}, []string{"approval_not_granted"})
	}
	d.Result = Result{SchemaID: resultSchema, SchemaVersion: schemaVersion, CreatedAt: in.CreatedAt, ProducerVersion: producer,
		Verdict: o.verdict, ReasonCodes: list(o.reasons), Violations: list(o.violations)}
	d.TraceID = TraceID(d.PolicyDigest, in.IntentDigest, o.verdict)
}

// TraceID returns the deterministic id of a decision: 12 bytes in hexadecimal.
func TraceID(policy, intent string, v Verdict) string {
	return sign.Sum([]byte(policy + ":" + intent + ":" + string(v)))[:24]
}

// failClosed blocks an intent of a listed risk class if it lacks information that
// the policy needs.
func (p *Policy) failClosed(in Intent) (o outcome, closed bool) {
	if !p.FailClosed.Enabled || !slices.Contains(p.FailClosed.RiskClasses, in.Context.RiskClass) {
		return o, false
	}
	unknown := slices.ContainsFunc(in.Targets, func(t Target) bool { return t.EndpointClass == "other" })
	missing := map[string]bool{
		"targets":          len(in.Targets) == 0,
		"arg_provenance":   len(in.ArgProvenance) == 0,
		"endpoint_class":   unknown,
		"delegation":       in.Delegation == nil,
		"context_evidence": in.Context.ContextSetDigest == "",
	}
	for _, field := range p.FailClosed.RequiredFields {
		reason := "fail_closed_missing_" + field
		if field == "context_evidence" {
			reason = "context_evidence_missing"
		}
		if missing[field] {
			o.add(Block, []string{reason}, []string{"missing_" + field})
		}
	}
	if unknown { // blocks even if RequiredFields does not name endpoint_class
		o.add(Block, []string{"fail_closed_endpoint_class_unknown"}, []string{"endpoint_class_unknown"})
	}
	return o, o.verdict != ""
}

// rules finds the first priority with a matching rule, and merges all matching
// rules of that priority. The result has their strictest verdict, and the reasons
// of each rule with this verdict.
func (p *Policy) rules(in Intent, d *Decision) (won outcome) {
	priority, found := 0, false
	for i := range p.Rules {
		r := &p.Rules[i]
		if found && r.Priority != priority {
			break
		}
		if !r.Match.matches(in) {
			continue
		}
		priority, found = r.Priority, true
		if r.RateLimit != nil {
			d.RateLimits = append(d.RateLimits, *r.RateLimit)
		}
		switch o := r.outcome(in); {
		case o.verdict.strictness() > won.verdict.strictness():
			won, d.MatchedRule = o, r.Name
		case o.verdict == won.verdict:
			won.add(o.verdict, o.reasons, o.violations)
		}
	}
	if !found {
		return outcome{p.DefaultVerdict, []string{"default_" + string(p.DefaultVerdict)}, nil}
	}
	return won
}

// outcome returns the verdict of a matching rule, made stricter by the rule's
// constraints. A destructive act gets at least require_approval, or dry_run if its
// phase is "plan". This does not apply to an act that only starts processes in a
// sandbox that the rule accepts.
func (r *Rule) outcome(in Intent) outcome {
	o := outcome{r.Effect, slices.Clone(r.ReasonCodes), slices.Clone(r.Violations)}
	if len(o.reasons) == 0 {
		o.reasons = []string{"matched_rule_" + ruleWord(r.Name)}
	}
	if r.Dataflow.violated(in) {
		// In the reference implementation of Gait, this action replaces the rule's
		// effect. In this program, the action can only make the verdict stricter.
		o.add(r.Dataflow.Action, []string{r.Dataflow.ReasonCode}, []string{r.Dataflow.Violation})
	}
	if v, reasons, violations := r.Endpoint.check(in); len(reasons) > 0 {
		o.add(v, reasons, violations)
	}
	contained := false
	if r.Sandbox != nil {
		reasons := r.Sandbox.check(in.Context.Sandbox)
		contained = len(reasons) == 0
		if !contained {
			o.add(Block, reasons, reasons)
		}
	}
	executesOnly := !slices.ContainsFunc(in.Targets, func(t Target) bool { return t.EndpointClass != "proc.exec" })
	switch {
	case !destructive(in) || contained && executesOnly:
	case in.Context.Phase == "plan":
		o.add(DryRun, []string{"plan_phase_non_destructive"}, nil)
	default:
		o.add(RequireApproval, []string{"destructive_apply_requires_approval"}, nil)
	}
	return o
}

func destructive(in Intent) bool {
	return slices.ContainsFunc(in.Targets, func(t Target) bool { return t.Destructive })
}

// ruleWord returns a rule's name in the form that it has in a reason code.
func ruleWord(name string) string {
	quoted, _ := json.Marshal(name) // encoding a string cannot fail
	return strings.ToLower(underscored(string(quoted[1 : len(quoted)-1])))
}

func (m *Match) matches(in Intent) bool {
	anyTarget := func(allowed []string, of func(Target) string) bool {
		return len(allowed) == 0 || slices.ContainsFunc(in.Targets, func(t Target) bool { return slices.Contains(allowed, of(t)) })
	}
	one := func(allowed []string, value string) bool { return len(allowed) == 0 || slices.Contains(allowed, value) }
	kind := func(t Target) string { return t.Kind }
	value := func(t Target) string { return t.Value }
	return one(m.ToolNames, in.ToolName) && one(m.RiskClasses, in.Context.RiskClass) && one(m.Identities, in.Context.Identity) &&
		(len(m.WorkspacePrefixes) == 0 || slices.ContainsFunc(m.WorkspacePrefixes, func(p string) bool { return strings.HasPrefix(in.Context.Workspace, p) })) &&
		anyTarget(m.TargetKinds, kind) && anyTarget(m.TargetValues, value) &&
		anyTarget(m.EndpointClasses, func(t Target) string { return t.EndpointClass }) &&
		anyTarget(m.DiscoveryMethods, func(t Target) string { return t.DiscoveryMethod }) &&
		anyTarget(m.DataClasses, func(t Target) string { return t.Sensitivity }) &&
		anyTarget(m.DestinationKinds, kind) && anyTarget(m.DestinationValues, value) &&
		anyTarget(m.DestinationOps, func(t Target) string { return t.Operation }) &&
		(len(m.ProvenanceSources) == 0 || slices.ContainsFunc(in.ArgProvenance, func(p Provenance) bool { return slices.Contains(m.ProvenanceSources, p.Source) }))
}

// violated reports whether an argument from a tainted source goes to a restricted
// destination. Without a list, the restricted destinations are those outside the
// machine.
func (d *Dataflow) violated(in Intent) bool {
	if d == nil || !slices.ContainsFunc(in.ArgProvenance, func(p Provenance) bool { return slices.Contains(d.TaintedSources, p.Source) }) {
		return false
	}
	kinds := d.DestinationKinds
	if len(kinds)+len(d.DestinationValues)+len(d.DestinationOperations) == 0 {
		kinds = words("host url bucket queue topic")
	}
	within := func(allowed []string, v string) bool { return len(allowed) == 0 || slices.Contains(allowed, v) }
	return slices.ContainsFunc(in.Targets, func(t Target) bool {
		return within(kinds, t.Kind) && within(d.DestinationValues, t.Value) && within(d.DestinationOperations, t.Operation)
	})
}

func (e *Endpoint) check(in Intent) (v Verdict, reasons, violations []string) {
	if e == nil {
		return
	}
	for _, t := range in.Targets {
		if t.Kind == "path" && anyPath(e.PathDenylist, t.Value) {
			reasons = append(reasons, "endpoint_path_denied")
		}
		if t.Kind == "path" && len(e.PathAllowlist) > 0 && !inAllowedPath(e.PathAllowlist, t.Value) {
			reasons = append(reasons, "endpoint_path_not_allowlisted")
		}
		domain, net := strings.TrimRight(t.EndpointDomain, "."), t.Kind == "url" || t.Kind == "host" || strings.HasPrefix(t.EndpointClass, "net.")
		if domain != "" && anyDomain(e.DomainDenylist, domain) {
			reasons = append(reasons, "endpoint_domain_denied")
		}
		// A program may find a domain in an address in which this package finds none, so
		// a rule with a list of domains does not accept such an address.
		if domain != "" && len(e.DomainAllowlist) > 0 && !anyDomain(e.DomainAllowlist, domain) || domain == "" && net && len(e.DomainAllowlist)+len(e.DomainDenylist) > 0 {
			reasons = append(reasons, "endpoint_domain_not_allowlisted")
		}
		if strings.HasPrefix(t.EndpointClass, "net.") && len(e.EgressClasses) > 0 && !slices.Contains(e.EgressClasses, t.EndpointClass) {
			reasons = append(reasons, "endpoint_egress_class_not_allowed")
		}
	}
	violations = slices.Clone(reasons)
	v = e.Action
	if e.DestructiveAction != "" && destructive(in) {
		v = stricter(v, e.DestructiveAction)
		reasons, violations = append(reasons, "endpoint_destructive_operation"), append(violations, "destructive_operation")
	}
	if len(reasons) == 0 {
		return "", nil, nil
	}
	return v, append(reasons, e.ReasonCode), append(violations, e.Violation)
}

// anyPath reports whether a path matches one of the patterns: the path itself, a folder
// and everything below it (DIR/**), or a shell pattern. The path is compared as it is
// written and in its shortest form, so that a pattern for x also matches DIR/../x.
func anyPath(patterns []string, value string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return pathMatches(p, value) || pathMatches(p, path.Clean(value)) })
}

func inAllowedPath(patterns []string, value string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return pathMatches(p, path.Clean(value)) })
}

func pathMatches(pattern, value string) bool {
	if folder, below := strings.CutSuffix(pattern, "/**"); below && (value == folder || strings.HasPrefix(value, folder+"/")) {
		return true
	}
	match, err := path.Match(pattern, value)
	return pattern == value || err == nil && match
}

func anyDomain(patterns []string, domain string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		match, err := path.Match(p, domain) // * matches dots, too
		return p == domain || err == nil && match
	})
}

// check returns reasons why a sandbox does not satisfy the rule, or nothing.
func (r *SandboxRule) check(s *Sandbox) (reasons []string) {
	if s == nil {
		return []string{"sandbox_metadata_missing"}
	}
	if s.EvidenceRef == "" || s.EvidenceDigest == "" {
		reasons = append(reasons, "sandbox_evidence_missing")
	}
	for _, c := range []struct {
		name, value string
		allowed     []string
	}{
		{"network_mode", s.NetworkMode, r.AllowedNetworkModes},
		{"env_exposure_mode", s.EnvExposureMode, r.AllowedEnvExposureModes},
		{"filesystem_isolation", s.FilesystemIsolation, r.AllowedFilesystemIsolations},
		{"user_mode", s.UserMode, r.AllowedUserModes},
	} {
		switch {
		case c.value == "":
			reasons = append(reasons, "sandbox_"+c.name+"_missing")
		case len(c.allowed) > 0 && !slices.Contains(c.allowed, c.value):
			reasons = append(reasons, "sandbox_"+c.name+"_disallowed")
		}
	}
	switch {
	case s.TimeoutSeconds <= 0:
		reasons = append(reasons, "sandbox_timeout_missing")
	case r.MaxTimeoutSeconds > 0 && s.TimeoutSeconds > r.MaxTimeoutSeconds:
		reasons = append(reasons, "sandbox_timeout_exceeded")
	}
	within := func(p string) bool {
		return slices.ContainsFunc(r.AllowedWritablePathPrefixes, func(prefix string) bool {
			return p == prefix || prefix == "/" || strings.HasPrefix(p, prefix+"/")
		})
	}
	if len(r.AllowedWritablePathPrefixes) > 0 && slices.ContainsFunc(s.WritablePaths, func(p string) bool { return !within(p) }) {
		reasons = append(reasons, "sandbox_writable_path_disallowed")
	}
	if slices.ContainsFunc(r.RequiredReadOnlyRoots, func(root string) bool { return !slices.Contains(s.ReadOnlyRoots, root) }) {
		reasons = append(reasons, "sandbox_read_only_root_missing")
	}
	return reasons
}
