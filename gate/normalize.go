package gate

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"lifeloop/evidence/sign"
)

// The values that the reference implementation of Gait accepts.
var (
	targetKinds     = []string{"path", "url", "host", "repo", "bucket", "table", "queue", "topic", "other"}
	endpointClasses = []string{
		"fs.read", "fs.write", "fs.delete", "proc.exec", "net.http", "net.dns", "ui.click", "ui.type",
		"ui.navigate", "other",
	}
	discoveryMethods = []string{"webmcp", "dynamic_mcp", "a2a", "mcp", "static_mcp", "manual", "unknown"}
	argSources       = []string{"user", "tool_output", "external", "system"}
	credentialFrom   = []string{
		"aws_iam_user", "aws_sts", "azure_federated", "command", "env", "gcp_sts", "github_oidc",
		"github_pat", "kubernetes_service_account", "stub", "unknown", "vault_dynamic",
	}
	credentialAccess = []string{"cloud_admin", "inherited", "jit", "standing", "static", "unknown"}
	networkModes     = []string{"disabled", "egress_allowlist", "full"}
	envModes         = []string{"none", "allowlist", "full"}
	isolations       = []string{"none", "workspace", "container"}
	userModes        = []string{"default", "root", "unprivileged"}
)

func words(s string) []string { return strings.Fields(s) }

// normalize converts an intent to the form from which the digest is computed.
// Its steps have the same order as in the reference (see the package comment).
func (in *Intent) normalize() error {
	in.ToolName = lower(in.ToolName)
	if in.ToolName == "" {
		return errors.New("tool_name is empty")
	}
	args, err := trimObject("args", in.Args)
	if err != nil {
		return err
	}
	in.Args = args
	if in.Targets, err = normalTargets(in.Targets, in.ToolName); err != nil {
		return err
	}
	if in.ArgProvenance, err = normalProvenance(in.ArgProvenance); err != nil {
		return err
	}
	return errors.Join(in.SkillProvenance.normalize(), in.Context.normalize(), in.Delegation.normalize())
}

func lower(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

// uniqueSorted returns the strings of a list, trimmed, without empty ones and
// duplicates, in byte order; nil if none is left.
func uniqueSorted(list []string) []string {
	var out []string
	for _, s := range list {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// oneOf checks a value that may be empty.
func oneOf(name, value string, allowed []string) error {
	if value == "" || slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s is %q; want one of %s", name, value, strings.Join(allowed, ", "))
}

func hexDigest(name, value string) error {
	if value == "" || sign.IsDigest(value) {
		return nil
	}
	return fmt.Errorf("%s is not a SHA-256 digest of 64 hexadecimal digits", name)
}

// trimObject trims all strings and member names and refuses raw secrets. It also
// refuses two names that are equal when trimmed, because the reference implementation
// of Gait keeps only one of them.
func trimObject(at string, object map[string]any) (map[string]any, error) {
	v, fault := trim(object)
	if fault != nil {
		return nil, fmt.Errorf("%s%s: %s", at, fault.path, fault.what)
	}
	return v.(map[string]any), nil
}

// A trimFault describes an invalid value. The path leads from the argument of trim to
// this value. It is built only after a fault, since nearly all values are valid.
type trimFault struct{ path, what string }

func (f *trimFault) below(at string) *trimFault { return &trimFault{at + f.path, f.what} }

func trim(v any) (any, *trimFault) {
	switch v := v.(type) {
	case string:
		return strings.TrimSpace(v), nil
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			var fault *trimFault
			if out[i], fault = trim(item); fault != nil {
				return nil, fault.below(fmt.Sprintf("[%d]", i))
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			key := strings.TrimSpace(name)
			if key == "" {
				return nil, &trimFault{what: "a member has an empty name"}
			}
			if _, twice := out[key]; twice {
				return nil, &trimFault{what: fmt.Sprintf("two member names differ only in the white space around %q", key)}
			}
			if text, is := item.(string); is && namesASecret(key) && isSecret(strings.TrimSpace(text)) {
				return nil, &trimFault{"." + key, "this looks like a secret; send a digest instead, or a reference that begins with ref: or env:"}
			}
			value, fault := trim(item)
			if fault != nil {
				return nil, fault.below("." + key)
			}
			out[key] = value
		}
		return out, nil
	}
	return v, nil
}

var (
	secretNames = []string{
		"token", "secret", "apikey", "api_key", "api-key", "accesskey", "access_key", "access-key",
		"password", "credential",
	}
	// harmless lists endings of names whose values refer to a secret but are not
	// secrets themselves.
	harmless = []string{
		"_ref", "_refs", "_digest", "_digests", "_hash", "_issuer", "_source", "_type", "_ttl",
		"_ttl_seconds", "_id", "_ids", "_name", "_names", "_scope", "_scopes",
	}
	secretStarts = []string{"ghp_", "gho_", "github_pat_", "sk-", "AKIA", "ASIA"}
	references   = []string{"env:", "stub:", "cmd:", "ref:", "sha256:"}
)

// hasPrefix reports whether s begins with one of a list.
func hasPrefix(s string, list []string) bool {
	return slices.ContainsFunc(list, func(p string) bool { return strings.HasPrefix(s, p) })
}

func namesASecret(key string) bool {
	key = strings.ToLower(key)
	return slices.ContainsFunc(secretNames, func(n string) bool { return strings.Contains(key, n) }) &&
		!slices.ContainsFunc(harmless, func(e string) bool { return strings.HasSuffix(key, e) })
}

// isSecret reports whether a value looks like a secret itself.
func isSecret(s string) bool {
	switch {
	case hasPrefix(strings.ToLower(s), references) || sign.IsDigest(strings.ToLower(s)):
		return false
	case hasPrefix(s, secretStarts):
		return true
	}
	return len(s) >= 16 && !strings.ContainsAny(s, " \t\r\n") &&
		strings.ContainsAny(s, "0123456789") && strings.ContainsFunc(s, func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	})
}

func normalTargets(list []Target, tool string) ([]Target, error) {
	out := make([]Target, 0, len(list))
	for i, t := range list {
		if err := t.normalize(tool); err != nil {
			return nil, fmt.Errorf("targets[%d]: %w", i, err)
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b Target) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Value, b.Value), strings.Compare(a.Operation, b.Operation),
			strings.Compare(a.Sensitivity, b.Sensitivity), strings.Compare(a.EndpointClass, b.EndpointClass),
			strings.Compare(a.EndpointDomain, b.EndpointDomain), falseFirst(a.Destructive, b.Destructive),
			strings.Compare(a.DiscoveryMethod, b.DiscoveryMethod), falseFirst(a.ReadOnlyHint, b.ReadOnlyHint),
			falseFirst(a.DestructiveHint, b.DestructiveHint), falseFirst(a.IdempotentHint, b.IdempotentHint),
			falseFirst(a.OpenWorldHint, b.OpenWorldHint))
	})
	return slices.Compact(out), nil
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// underscored returns s with an underscore for each hyphen and space.
func underscored(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "-", "_"), " ", "_")
}

// isAssignment reports whether text begins with NAME=.
func isAssignment(text string) bool {
	name, _, ok := strings.Cut(text, "=")
	for i, c := range []byte(name) {
		letter := c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return ok && name != ""
}

func (t *Target) normalize(tool string) error {
	for _, s := range []*string{&t.Kind, &t.Operation, &t.Sensitivity, &t.EndpointClass, &t.EndpointDomain, &t.DiscoveryMethod} {
		*s = lower(*s)
	}
	t.Value = strings.TrimSpace(t.Value)
	t.DiscoveryMethod = underscored(cmp.Or(t.DiscoveryMethod, "unknown"))
	if t.Kind == "" || t.Value == "" {
		return errors.New("kind and value are required")
	}
	if t.EndpointClass == "" {
		t.EndpointClass = endpointClass(t.Kind, t.Operation, tool)
	}
	if t.EndpointDomain == "" {
		t.EndpointDomain = endpointDomain(t.Kind, t.Value)
	}
	t.Destructive = t.Destructive || t.DestructiveHint || t.EndpointClass == "fs.delete" || t.EndpointClass == "proc.exec" ||
		slices.Contains(deletes, t.Operation) || t.Operation == "exec" || t.Operation == "spawn"
	return errors.Join(oneOf("kind", t.Kind, targetKinds), oneOf("endpoint_class", t.EndpointClass, endpointClasses),
		oneOf("discovery_method", t.DiscoveryMethod, discoveryMethods))
}

var (
	reads    = []string{"read", "get", "list", "open", "cat", "head", "download", "stat"}
	writes   = []string{"write", "append", "put", "create", "update", "save", "copy", "move", "rename"}
	deletes  = []string{"delete", "remove", "rm", "unlink", "rmdir", "drop", "truncate"}
	executes = []string{"exec", "spawn", "run", "shell", "command"}
)

// endpointClass infers the class of a target whose endpoint_class is empty.
func endpointClass(kind, operation, tool string) string {
	name := path.Base(tool)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(name, p) })
	}
	switch {
	case kind == "host" || kind == "url":
		if operation == "dns" || operation == "resolve" || operation == "lookup" {
			return "net.dns"
		}
		return "net.http"
	case kind == "other" && (slices.Contains(executes, operation) || has("exec", "shell", "command", "spawn", "run")):
		return "proc.exec"
	case kind != "path":
		return "other"
	case slices.Contains(reads, operation):
		return "fs.read"
	case slices.Contains(writes, operation):
		return "fs.write"
	case slices.Contains(deletes, operation):
		return "fs.delete"
	case has("read", "list", "fetch", "search"):
		return "fs.read"
	case has("write", "update", "save", "create"):
		return "fs.write"
	case has("delete", "remove", "rm", "drop"):
		return "fs.delete"
	}
	return "other"
}

func endpointDomain(kind, value string) string {
	switch kind {
	case "host":
		host := strings.TrimPrefix(strings.TrimPrefix(value, "http://"), "https://")
		host, _, _ = strings.Cut(host, "/")
		host, _, _ = strings.Cut(host, ":")
		return lower(host)
	case "url":
		if u, err := url.Parse(value); err == nil {
			return lower(u.Hostname())
		}
	}
	return ""
}

func normalProvenance(list []Provenance) ([]Provenance, error) {
	out := make([]Provenance, 0, len(list))
	for i, p := range list {
		p = Provenance{ArgPath: strings.TrimSpace(p.ArgPath), Source: lower(p.Source), SourceRef: strings.TrimSpace(p.SourceRef), IntegrityDigest: lower(p.IntegrityDigest)}
		if p.ArgPath == "" || p.Source == "" {
			return nil, fmt.Errorf("arg_provenance[%d]: arg_path and source are required", i)
		}
		if err := errors.Join(oneOf("source", p.Source, argSources), hexDigest("integrity_digest", p.IntegrityDigest)); err != nil {
			return nil, fmt.Errorf("arg_provenance[%d]: %w", i, err)
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b Provenance) int {
		return cmp.Or(strings.Compare(a.ArgPath, b.ArgPath), strings.Compare(a.Source, b.Source),
			strings.Compare(a.SourceRef, b.SourceRef), strings.Compare(a.IntegrityDigest, b.IntegrityDigest))
	})
	return slices.Compact(out), nil
}

func (s *Skill) normalize() error {
	if s == nil {
		return nil
	}
	*s = Skill{SkillName: strings.TrimSpace(s.SkillName), SkillVersion: strings.TrimSpace(s.SkillVersion), Source: lower(s.Source),
		Publisher: strings.TrimSpace(s.Publisher), Digest: lower(s.Digest), SignatureKeyID: strings.TrimSpace(s.SignatureKeyID)}
	if s.SkillName == "" || s.Source == "" || s.Publisher == "" {
		return errors.New("skill_provenance: skill_name, source and publisher are required")
	}
	return hexDigest("skill_provenance.digest", s.Digest)
}

func (c *Context) normalize() error {
	for _, s := range []*string{&c.Identity, &c.Workspace, &c.AgentID, &c.RunID, &c.WorkflowID, &c.Repo, &c.Environment, &c.JobID,
		&c.SessionID, &c.RequestID, &c.CredentialRef, &c.CredentialIssuer, &c.CredentialSubject, &c.CredentialOwner,
		&c.CredentialTargetBinding, &c.CredentialRunBinding, &c.CredentialJobBinding, &c.ApprovalRef, &c.InventoryRef,
		&c.AgentActionBOMRef, &c.EnvironmentFingerprint} {
		*s = strings.TrimSpace(*s)
	}
	for _, s := range []*string{&c.RiskClass, &c.Phase, &c.CredentialSource, &c.CredentialAccessType, &c.ContextEvidenceMode, &c.ContextSetDigest} {
		*s = lower(*s)
	}
	c.Phase = cmp.Or(c.Phase, "apply")
	c.Workspace = strings.ReplaceAll(c.Workspace, `\`, "/")
	c.CredentialScopes, c.ContextRefs = uniqueSorted(c.CredentialScopes), uniqueSorted(c.ContextRefs)
	switch {
	case c.Identity == "":
		return errors.New("context.identity is empty")
	case c.Workspace == "":
		return errors.New("context.workspace is empty")
	case c.RiskClass == "":
		return errors.New("context.risk_class is empty")
	case c.CredentialTTLSeconds < 0:
		return errors.New("context.credential_ttl_seconds is negative")
	}
	if err := errors.Join(oneOf("context.phase", c.Phase, []string{"plan", "apply"}),
		oneOf("context.credential_source", c.CredentialSource, credentialFrom),
		oneOf("context.credential_access_type", c.CredentialAccessType, credentialAccess),
		oneOf("context.context_evidence_mode", c.ContextEvidenceMode, []string{"best_effort", "required"}),
		hexDigest("context.context_set_digest", c.ContextSetDigest), c.AgentIdentity.normalize()); err != nil {
		return err
	}
	if len(c.AuthContext) > 0 {
		auth, err := trimObject("context.auth_context", c.AuthContext)
		if err != nil {
			return err
		}
		c.AuthContext = auth
	}
	err := c.Sandbox.normalize()
	if c.Sandbox != nil && c.Sandbox.empty() {
		c.Sandbox = nil
	}
	return err
}

func (a *AgentIdentity) normalize() error {
	if a == nil {
		return nil
	}
	a.LifecycleStates = uniqueSorted(a.LifecycleStates)
	a.Owner, a.Publisher = strings.TrimSpace(a.Owner), strings.TrimSpace(a.Publisher)
	a.ManifestDigest, a.Source = lower(a.ManifestDigest), lower(a.Source)
	a.IssuedAt, a.ApprovedAt, a.ExpiresAt = a.IssuedAt.UTC(), a.ApprovedAt.UTC(), a.ExpiresAt.UTC()
	if !a.IssuedAt.IsZero() && !a.ApprovedAt.IsZero() && a.ApprovedAt.Before(a.IssuedAt) {
		return errors.New("context.agent_identity: approved_at is before issued_at")
	}
	return errors.Join(hexDigest("context.agent_identity.manifest_digest", a.ManifestDigest),
		ordered("context.agent_identity", "issued_at", a.IssuedAt, a.ExpiresAt), ordered("context.agent_identity", "approved_at", a.ApprovedAt, a.ExpiresAt))
}

// ordered checks that expires is after from, if both times are given. name is the name of
// the member that has the time from.
func ordered(at, name string, from, expires time.Time) error {
	if from.IsZero() || expires.IsZero() || expires.After(from) {
		return nil
	}
	return fmt.Errorf("%s: expires_at must be after %s", at, name)
}

func (s *Sandbox) normalize() error {
	if s == nil {
		return nil
	}
	for _, f := range []*string{&s.NetworkMode, &s.EnvExposureMode, &s.FilesystemIsolation, &s.UserMode, &s.EvidenceDigest} {
		*f = lower(*f)
	}
	s.EvidenceRef = strings.TrimSpace(s.EvidenceRef)
	s.WritablePaths, s.ReadOnlyRoots = cleanPaths(s.WritablePaths), cleanPaths(s.ReadOnlyRoots)
	for _, text := range slices.Concat(s.WritablePaths, s.ReadOnlyRoots, []string{s.EvidenceRef}) {
		if isAssignment(text) {
			return errors.New("context.sandbox contains an assignment (NAME=value); write references and paths only")
		}
	}
	if s.TimeoutSeconds < 0 {
		return errors.New("context.sandbox.timeout_seconds is negative")
	}
	if isSecret(s.EvidenceRef) && !hasPrefix(strings.ToLower(s.EvidenceRef), []string{"receipt:", "proof:", "sandbox:"}) {
		return errors.New("context.sandbox.evidence_ref looks like a secret; use a reference that begins with sandbox: or ref: instead")
	}
	return errors.Join(oneOf("context.sandbox.network_mode", s.NetworkMode, networkModes),
		oneOf("context.sandbox.env_exposure_mode", s.EnvExposureMode, envModes),
		oneOf("context.sandbox.filesystem_isolation", s.FilesystemIsolation, isolations),
		oneOf("context.sandbox.user_mode", s.UserMode, userModes), hexDigest("context.sandbox.evidence_digest", s.EvidenceDigest))
}

func (s *Sandbox) empty() bool {
	return s.NetworkMode+s.EnvExposureMode+s.FilesystemIsolation+s.UserMode+s.EvidenceRef+s.EvidenceDigest == "" &&
		s.TimeoutSeconds == 0 && len(s.WritablePaths) == 0 && len(s.ReadOnlyRoots) == 0
}

func cleanPaths(list []string) []string {
	var out []string
	for _, p := range list {
		if p = path.Clean(strings.TrimSpace(p)); p != "." {
			out = append(out, p)
		}
	}
	return uniqueSorted(out)
}

func (d *Delegation) normalize() error {
	if d == nil {
		return nil
	}
	d.RequesterIdentity, d.ScopeClass = strings.TrimSpace(d.RequesterIdentity), lower(d.ScopeClass)
	d.TokenRefs = uniqueSorted(d.TokenRefs)
	d.IssuedAt, d.ExpiresAt = d.IssuedAt.UTC(), d.ExpiresAt.UTC()
	if d.RequesterIdentity == "" {
		return errors.New("delegation.requester_identity is empty")
	}
	for i := range d.Chain {
		l := &d.Chain[i]
		at := fmt.Sprintf("delegation.chain[%d]", i)
		l.DelegatorIdentity, l.DelegateIdentity = strings.TrimSpace(l.DelegatorIdentity), strings.TrimSpace(l.DelegateIdentity)
		l.ScopeClass, l.TokenRef = lower(l.ScopeClass), strings.TrimSpace(l.TokenRef)
		l.IssuedAt, l.ExpiresAt = l.IssuedAt.UTC(), l.ExpiresAt.UTC()
		switch {
		case l.DelegatorIdentity == "" || l.DelegateIdentity == "":
			return fmt.Errorf("%s: delegator_identity and delegate_identity are required", at)
		case i > 0 && d.Chain[i-1].DelegateIdentity != l.DelegatorIdentity:
			return fmt.Errorf("%s: delegator_identity differs from the previous delegate", at)
		case i == len(d.Chain)-1 && l.DelegateIdentity != d.RequesterIdentity:
			return fmt.Errorf("%s: the last delegate is not requester_identity", at)
		}
		if err := ordered(at, "issued_at", l.IssuedAt, l.ExpiresAt); err != nil {
			return err
		}
	}
	return ordered("delegation", "issued_at", d.IssuedAt, d.ExpiresAt)
}
