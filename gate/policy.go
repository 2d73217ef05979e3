package gate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lifeloop/evidence/sign"
	"lifeloop/internal/document"
)

// A Policy is a normalised policy. Its fields are exported, and have the Go names of
// the reference, because the policy digest is computed from the JSON of a Policy.
// Use [DecodePolicy] to make one.
type Policy struct {
	SchemaID       string
	SchemaVersion  string
	DefaultVerdict Verdict
	FailClosed     FailClosed
	Rules          []Rule // sorted by priority, then by name

	digest string
}

// FailClosed says for which risk classes an intent is blocked if it lacks information.
type FailClosed struct {
	Enabled        bool     `yaml:"enabled"`
	RiskClasses    []string `yaml:"risk_classes"`
	RequiredFields []string `yaml:"required_fields"`
}

// A Rule is one rule of a policy.
type Rule struct {
	Name        string
	Priority    int
	Effect      Verdict
	Match       Match
	ReasonCodes []string
	Violations  []string
	RateLimit   *RateLimit   `json:",omitempty"`
	Dataflow    *Dataflow    `json:",omitempty"`
	Endpoint    *Endpoint    `json:",omitempty"`
	Sandbox     *SandboxRule `json:",omitempty"`
}

// Match is the condition of a rule. Every list that is not empty must match the
// intent; a list about targets matches if any target does.
type Match struct {
	ToolNames         []string
	RiskClasses       []string
	TargetKinds       []string
	TargetValues      []string
	ProvenanceSources []string
	Identities        []string
	WorkspacePrefixes []string
	EndpointClasses   []string `json:",omitempty"`
	DiscoveryMethods  []string `json:",omitempty"`
	DataClasses       []string `json:",omitempty"`
	DestinationKinds  []string `json:",omitempty"`
	DestinationValues []string `json:",omitempty"`
	DestinationOps    []string `json:",omitempty"`
}

// A RateLimit allows a number of acts in each minute or hour.
type RateLimit struct {
	Requests int    `yaml:"requests"`
	Window   string `yaml:"window"` // minute or hour
	Scope    string `yaml:"scope"`  // tool, identity or tool_identity
}

// A Dataflow restricts where arguments from an untrusted source may go.
type Dataflow struct {
	Enabled               bool     `yaml:"enabled"`
	TaintedSources        []string `yaml:"tainted_sources"`
	DestinationKinds      []string `yaml:"destination_kinds" json:",omitempty"`
	DestinationValues     []string `yaml:"destination_values" json:",omitempty"`
	DestinationOperations []string `yaml:"destination_operations" json:",omitempty"`
	Action                Verdict  `yaml:"action"`
	ReasonCode            string   `yaml:"reason_code"`
	Violation             string   `yaml:"violation"`
}

// An Endpoint restricts paths, domains and network classes.
type Endpoint struct {
	Enabled           bool     `yaml:"enabled"`
	PathAllowlist     []string `yaml:"path_allowlist"`
	PathDenylist      []string `yaml:"path_denylist"`
	DomainAllowlist   []string `yaml:"domain_allowlist"`
	DomainDenylist    []string `yaml:"domain_denylist"`
	EgressClasses     []string `yaml:"egress_classes"`
	Action            Verdict  `yaml:"action"`
	DestructiveAction Verdict  `yaml:"destructive_action"`
	ReasonCode        string   `yaml:"reason_code"`
	Violation         string   `yaml:"violation"`
}

// A SandboxRule is a requirement for an intent's sandbox.
type SandboxRule struct {
	Enabled                     bool     `yaml:"enabled"`
	AllowedNetworkModes         []string `yaml:"allowed_network_modes"`
	AllowedWritablePathPrefixes []string `yaml:"allowed_writable_path_prefixes"` // null when empty, as in the reference
	RequiredReadOnlyRoots       []string `yaml:"required_read_only_roots"`       // the same
	AllowedEnvExposureModes     []string `yaml:"allowed_env_exposure_modes"`
	MaxTimeoutSeconds           int64    `yaml:"max_timeout_seconds"`
	AllowedFilesystemIsolations []string `yaml:"allowed_filesystem_isolations"`
	AllowedUserModes            []string `yaml:"allowed_user_modes"`
}

// policyFile is a policy as it was read, before it is normalised.
type policyFile struct {
	SchemaID       string     `yaml:"schema_id"`
	SchemaVersion  string     `yaml:"schema_version"`
	DefaultVerdict string     `yaml:"default_verdict"`
	DefaultAction  string     `yaml:"default_action"`
	FailClosed     FailClosed `yaml:"fail_closed"`
	Rules          []ruleFile `yaml:"rules"`
}

type ruleFile struct {
	Name        string         `yaml:"name"`
	Priority    document.Value `yaml:"priority"` // may be negative
	Effect      string         `yaml:"effect"`
	Action      string         `yaml:"action"`
	Match       matchFile      `yaml:"match"`
	ReasonCodes []string       `yaml:"reason_codes"`
	Violations  []string       `yaml:"violations"`
	RateLimit   RateLimit      `yaml:"rate_limit"`
	Dataflow    Dataflow       `yaml:"dataflow"`
	Endpoint    Endpoint       `yaml:"endpoint"`
	Sandbox     SandboxRule    `yaml:"sandbox"`
}

type matchFile struct {
	ToolName          string   `yaml:"tool_name"`
	ToolNames         []string `yaml:"tool_names"`
	RiskClasses       []string `yaml:"risk_classes"`
	TargetKinds       []string `yaml:"target_kinds"`
	TargetValues      []string `yaml:"target_values"`
	EndpointClass     []string `yaml:"endpoint_class"`
	EndpointClasses   []string `yaml:"endpoint_classes"`
	DiscoveryMethods  []string `yaml:"discovery_method"`
	DataClasses       []string `yaml:"data_classes"`
	DestinationKinds  []string `yaml:"destination_kinds"`
	DestinationValues []string `yaml:"destination_values"`
	DestinationOps    []string `yaml:"destination_operations"`
	ProvenanceSources []string `yaml:"provenance_sources"`
	Identities        []string `yaml:"identities"`
	WorkspacePrefixes []string `yaml:"workspace_prefixes"`
}

// Keys of the format that this program does not implement. Ignoring such a key
// could change the verdict, so it causes an error with a special message.
var (
	laterTop  = []string{"scripts", "mcp_trust", "kill_switch"}
	laterRule = []string{
		"min_approvals", "require_distinct_approvers", "destructive_budget", "freeze_window",
		"require_context_evidence", "required_context_evidence_mode", "max_context_age_seconds",
		"require_broker_credential", "broker_reference", "broker_scopes", "require_declared_agent",
		"allowed_agent_ids", "denied_agent_ids", "required_agent_manifest_digest",
		"allowed_agent_manifest_publishers", "allowed_agent_manifest_sources",
		"required_agent_lifecycle_states", "require_agent_owner", "require_unexpired_agent",
		"block_standing_credentials", "allowed_credential_sources", "allowed_credential_issuers",
		"allowed_credential_access_types", "max_credential_ttl_seconds", "require_jit_credential",
	}
	laterMatch = []string{
		"tool_annotations", "skill_publishers", "skill_sources", "context_tool_names",
		"context_data_classes", "context_endpoint_classes", "context_autonomy_levels",
		"require_delegation", "allowed_delegator_identities", "allowed_delegate_identities",
		"delegation_scopes", "max_delegation_depth",
	}
	laterFailClosed = []string{"required_high_risk_fields"}
)

// DecodePolicy decodes a policy strictly: an unknown key, a value of the wrong
// type and a key that is not supported are errors (DECISIONS G4). An error that belongs
// to a place in the document is a [document.Error].
func DecodePolicy(doc document.Value) (*Policy, error) {
	if err := refuseLater(doc); err != nil {
		return nil, err
	}
	var f policyFile
	if err := document.Decode(doc, &f, "", nil); err != nil {
		return nil, err
	}
	p := &Policy{SchemaID: cmp.Or(f.SchemaID, policySchema), SchemaVersion: cmp.Or(f.SchemaVersion, schemaVersion), Rules: []Rule{}}
	if p.SchemaID != policySchema || p.SchemaVersion != schemaVersion {
		return nil, doc.Errorf("", "schema %s %s; want %s %s", p.SchemaID, p.SchemaVersion, policySchema, schemaVersion)
	}
	var err error
	if p.DefaultVerdict, err = alias("default_verdict", f.DefaultVerdict, "default_action", f.DefaultAction); err != nil {
		return nil, doc.Near("default_verdict").Errorf("", "%v", err)
	}
	p.DefaultVerdict = cmp.Or(p.DefaultVerdict, RequireApproval)
	if p.FailClosed, err = f.FailClosed.normal(); err != nil {
		return nil, doc.Near("fail_closed").Errorf("fail_closed", "%v", err)
	}
	for i, r := range f.Rules {
		rule, err := r.normal()
		if err != nil {
			at := fmt.Sprintf("rules[%d]", i)
			return nil, doc.Near(at).Errorf(at, "%v", err)
		}
		p.Rules = append(p.Rules, rule)
	}
	slices.SortStableFunc(p.Rules, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), strings.Compare(a.Name, b.Name))
	})
	p.digest, err = sign.Digest(p)
	return p, err
}

// Digest is the policy digest. Comments and the order of keys do not change the digest.
// The order of rules changes it only if two rules have the same priority and name.
func (p *Policy) Digest() string { return p.digest }

func refuseLater(doc document.Value) error {
	check := func(v document.Value, path string, later []string) error {
		for _, m := range v.Members {
			if slices.Contains(later, m.Name) {
				return &document.Error{Path: document.Join(path, m.Name), Line: m.Line, Column: m.Column,
					What: "this key of the policy format is not supported, and ignoring it could change the verdict"}
			}
		}
		return nil
	}
	failClosed, _ := doc.Member("fail_closed")
	if err := errors.Join(check(doc, "", laterTop), check(failClosed, "fail_closed", laterFailClosed)); err != nil {
		return err
	}
	rules, _ := doc.Member("rules")
	for i, r := range rules.Items {
		at := fmt.Sprintf("rules[%d]", i)
		match, _ := r.Member("match")
		if err := check(r, at, laterRule); err != nil {
			return err
		}
		if err := check(match, at+".match", laterMatch); err != nil {
			return err
		}
	}
	return nil
}

// alias returns the value of a key that has two names.
func alias(name, value, other, otherValue string) (Verdict, error) {
	a, b := lower(value), lower(otherValue)
	switch v := Verdict(cmp.Or(a, b)); {
	case a != "" && b != "" && a != b:
		return "", fmt.Errorf("%s and %s are two names of one key, but their values differ", name, other)
	case v != "" && !v.Valid():
		return "", fmt.Errorf("%s (or %s) is %q; want allow, dry_run, require_approval or block", name, other, v)
	default:
		return v, nil
	}
}

// list and listLower return normalised lists. The result is never nil, because nil and
// an empty list have different digests.
func list(in []string) []string { return append([]string{}, uniqueSorted(in)...) }

func listLower(in []string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = strings.ToLower(s)
	}
	return list(out)
}

func (f FailClosed) normal() (FailClosed, error) {
	f.RiskClasses, f.RequiredFields = listLower(f.RiskClasses), listLower(f.RequiredFields)
	if f.Enabled && len(f.RiskClasses) == 0 {
		f.RiskClasses = []string{"critical", "high"}
	}
	for _, field := range f.RequiredFields {
		if err := oneOf("required_fields", field, []string{"targets", "arg_provenance", "endpoint_class", "delegation", "context_evidence"}); err != nil {
			return f, err
		}
	}
	return f, nil
}

func (f ruleFile) normal() (Rule, error) {
	r := Rule{Name: strings.TrimSpace(f.Name), ReasonCodes: list(f.ReasonCodes), Violations: list(f.Violations)}
	if r.Name == "" {
		return r, errors.New("name is required")
	}
	var err error
	if r.Effect, err = alias("effect", f.Effect, "action", f.Action); err != nil {
		return r, err
	}
	if r.Effect == "" {
		return r, errors.New("effect is required")
	}
	if f.Priority.Kind != document.Null {
		if r.Priority, err = strconv.Atoi(f.Priority.Text); err != nil || f.Priority.Kind != document.Number {
			return r, errors.New("priority is not a whole number")
		}
	}
	if r.Match, err = f.Match.normal(); err != nil {
		return r, err
	}
	if r.RateLimit, err = f.RateLimit.normal(); err != nil {
		return r, err
	}
	if r.Dataflow, err = f.Dataflow.normal(); err != nil {
		return r, err
	}
	if r.Endpoint, err = f.Endpoint.normal(); err != nil {
		return r, err
	}
	r.Sandbox, err = f.Sandbox.normal()
	return r, err
}

func (f matchFile) normal() (Match, error) {
	m := Match{
		ToolNames: listLower(append(f.ToolNames, f.ToolName)), RiskClasses: listLower(f.RiskClasses),
		TargetKinds: listLower(f.TargetKinds), TargetValues: list(f.TargetValues),
		ProvenanceSources: listLower(f.ProvenanceSources), Identities: list(f.Identities), WorkspacePrefixes: list(f.WorkspacePrefixes),
		EndpointClasses: listLower(append(f.EndpointClasses, f.EndpointClass...)), DiscoveryMethods: listLower(f.DiscoveryMethods),
		DataClasses: listLower(f.DataClasses), DestinationKinds: listLower(f.DestinationKinds),
		DestinationValues: list(f.DestinationValues), DestinationOps: listLower(f.DestinationOps),
	}
	return m, errors.Join(each("match.endpoint_classes", m.EndpointClasses, endpointClasses),
		each("match.discovery_method", m.DiscoveryMethods, discoveryMethods))
}

func each(name string, values, allowed []string) error {
	for _, v := range values {
		if err := oneOf(name, v, allowed); err != nil {
			return err
		}
	}
	return nil
}

func (l RateLimit) normal() (*RateLimit, error) {
	l.Window, l.Scope = cmp.Or(lower(l.Window), "minute"), cmp.Or(lower(l.Scope), "tool_identity")
	if err := errors.Join(oneOf("rate_limit.window", l.Window, []string{"minute", "hour"}),
		oneOf("rate_limit.scope", l.Scope, []string{"tool", "identity", "tool_identity"})); err != nil || l.Requests == 0 {
		return nil, err
	}
	return &l, nil
}

// refusal checks the action of a constraint: block or require_approval.
func refusal(name string, v Verdict) error {
	return oneOf(name, string(v), []string{"block", "require_approval"})
}

func (d Dataflow) normal() (*Dataflow, error) {
	d.TaintedSources, d.DestinationKinds = listLower(d.TaintedSources), listLower(d.DestinationKinds)
	d.DestinationValues, d.DestinationOperations = list(d.DestinationValues), listLower(d.DestinationOperations)
	if !d.Enabled && len(d.TaintedSources)+len(d.DestinationKinds)+len(d.DestinationValues)+len(d.DestinationOperations) == 0 {
		return nil, nil
	}
	d.Enabled = true
	if len(d.TaintedSources) == 0 {
		d.TaintedSources = []string{"external", "tool_output"}
	}
	d.Action = cmp.Or(Verdict(lower(string(d.Action))), RequireApproval)
	d.ReasonCode = cmp.Or(strings.TrimSpace(d.ReasonCode), "dataflow_tainted_destination")
	d.Violation = cmp.Or(strings.TrimSpace(d.Violation), "tainted_dataflow")
	return &d, refusal("dataflow.action", d.Action)
}

func (e Endpoint) normal() (*Endpoint, error) {
	e.PathAllowlist, e.PathDenylist = list(e.PathAllowlist), list(e.PathDenylist)
	e.DomainAllowlist, e.DomainDenylist = listLower(e.DomainAllowlist), listLower(e.DomainDenylist)
	e.EgressClasses = listLower(e.EgressClasses)
	e.Action, e.DestructiveAction = Verdict(lower(string(e.Action))), Verdict(lower(string(e.DestructiveAction)))
	if !e.Enabled && len(e.PathAllowlist)+len(e.PathDenylist)+len(e.DomainAllowlist)+len(e.DomainDenylist)+len(e.EgressClasses) == 0 && e.DestructiveAction == "" {
		return nil, nil
	}
	e.Enabled = true
	e.Action = cmp.Or(e.Action, Block)
	e.ReasonCode = cmp.Or(strings.TrimSpace(e.ReasonCode), "endpoint_constraint_violation")
	e.Violation = cmp.Or(strings.TrimSpace(e.Violation), "endpoint_constraint_violation")
	return &e, errors.Join(each("endpoint.egress_classes", e.EgressClasses, []string{"net.http", "net.dns"}),
		refusal("endpoint.action", e.Action), refusal("endpoint.destructive_action", e.DestructiveAction))
}

func (s SandboxRule) normal() (*SandboxRule, error) {
	s.AllowedNetworkModes, s.AllowedEnvExposureModes = listLower(s.AllowedNetworkModes), listLower(s.AllowedEnvExposureModes)
	s.AllowedFilesystemIsolations, s.AllowedUserModes = listLower(s.AllowedFilesystemIsolations), listLower(s.AllowedUserModes)
	s.AllowedWritablePathPrefixes, s.RequiredReadOnlyRoots = cleanPaths(s.AllowedWritablePathPrefixes), cleanPaths(s.RequiredReadOnlyRoots)
	if !s.Enabled && len(s.AllowedNetworkModes)+len(s.AllowedEnvExposureModes)+len(s.AllowedFilesystemIsolations)+len(s.AllowedUserModes)+
		len(s.AllowedWritablePathPrefixes)+len(s.RequiredReadOnlyRoots) == 0 && s.MaxTimeoutSeconds == 0 {
		return nil, nil
	}
	s.Enabled = true
	return &s, errors.Join(each("sandbox.allowed_network_modes", s.AllowedNetworkModes, networkModes),
		each("sandbox.allowed_env_exposure_modes", s.AllowedEnvExposureModes, envModes),
		each("sandbox.allowed_filesystem_isolations", s.AllowedFilesystemIsolations, isolations),
		each("sandbox.allowed_user_modes", s.AllowedUserModes, userModes))
}
