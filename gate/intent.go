package gate

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"lifeloop/canon"
	"lifeloop/evidence/sign"
	"lifeloop/telemetry/scan"
)

// An Intent is a normalised IntentRequest with its digests.
type Intent struct {
	CreatedAt    time.Time
	ArgsDigest   string
	IntentDigest string
	content
}

// content is the normalised form from which the intent digest is computed. Its members,
// and those of the structs below it, are in the order of canonical JSON, so that the
// encoded form is canonical already.
type content struct {
	ArgProvenance   []Provenance   `json:"arg_provenance,omitempty"`
	Args            map[string]any `json:"args"`
	Context         Context        `json:"context"`
	Delegation      *Delegation    `json:"delegation,omitempty"`
	SkillProvenance *Skill         `json:"skill_provenance,omitempty"`
	Targets         []Target       `json:"targets"`
	ToolName        string         `json:"tool_name"`
}

// A Target is one object that an act touches.
type Target struct {
	Destructive     bool   `json:"destructive,omitempty"`
	DestructiveHint bool   `json:"destructive_hint,omitempty"`
	DiscoveryMethod string `json:"discovery_method,omitempty"`
	EndpointClass   string `json:"endpoint_class,omitempty"`
	EndpointDomain  string `json:"endpoint_domain,omitempty"`
	IdempotentHint  bool   `json:"idempotent_hint,omitempty"`
	Kind            string `json:"kind"`
	OpenWorldHint   bool   `json:"open_world_hint,omitempty"`
	Operation       string `json:"operation,omitempty"`
	ReadOnlyHint    bool   `json:"read_only_hint,omitempty"`
	Sensitivity     string `json:"sensitivity,omitempty"`
	Value           string `json:"value"`
}

// A Provenance says where an argument came from.
type Provenance struct {
	ArgPath         string `json:"arg_path"`
	IntegrityDigest string `json:"integrity_digest,omitempty"`
	Source          string `json:"source"`
	SourceRef       string `json:"source_ref,omitempty"`
}

// A Skill is the package that an act originates from.
type Skill struct {
	Digest         string `json:"digest,omitempty"`
	Publisher      string `json:"publisher"`
	SignatureKeyID string `json:"signature_key_id,omitempty"`
	SkillName      string `json:"skill_name"`
	SkillVersion   string `json:"skill_version,omitempty"`
	Source         string `json:"source"`
}

// A Delegation says on whose behalf an act is requested. An absent time is digested as
// 0001-01-01T00:00:00Z, as in the reference.
type Delegation struct {
	Chain             []Link    `json:"chain,omitempty"`
	ExpiresAt         time.Time `json:"expires_at"`
	IssuedAt          time.Time `json:"issued_at"`
	RequesterIdentity string    `json:"requester_identity"`
	ScopeClass        string    `json:"scope_class,omitempty"`
	TokenRefs         []string  `json:"token_refs,omitempty"`
}

// A Link is one step of a delegation.
type Link struct {
	DelegateIdentity  string    `json:"delegate_identity"`
	DelegatorIdentity string    `json:"delegator_identity"`
	ExpiresAt         time.Time `json:"expires_at"`
	IssuedAt          time.Time `json:"issued_at"`
	ScopeClass        string    `json:"scope_class,omitempty"`
	TokenRef          string    `json:"token_ref,omitempty"`
}

// A Context says for whom and where an act is requested. Unknown members of the
// request's context are ignored and not part of the digest, as in the
// reference.
type Context struct {
	AgentActionBOMRef       string         `json:"agent_action_bom_ref,omitempty"`
	AgentID                 string         `json:"agent_id,omitempty"`
	AgentIdentity           *AgentIdentity `json:"agent_identity,omitempty"`
	ApprovalRef             string         `json:"approval_ref,omitempty"`
	AuthContext             map[string]any `json:"auth_context,omitempty"`
	ContextEvidenceMode     string         `json:"context_evidence_mode,omitempty"`
	ContextRefs             []string       `json:"context_refs,omitempty"`
	ContextSetDigest        string         `json:"context_set_digest,omitempty"`
	CredentialAccessType    string         `json:"credential_access_type,omitempty"`
	CredentialIssuer        string         `json:"credential_issuer,omitempty"`
	CredentialJobBinding    string         `json:"credential_job_binding,omitempty"`
	CredentialOwner         string         `json:"credential_owner,omitempty"`
	CredentialRef           string         `json:"credential_ref,omitempty"`
	CredentialRunBinding    string         `json:"credential_run_binding,omitempty"`
	CredentialScopes        []string       `json:"credential_scopes,omitempty"`
	CredentialSource        string         `json:"credential_source,omitempty"`
	CredentialSubject       string         `json:"credential_subject,omitempty"`
	CredentialTargetBinding string         `json:"credential_target_binding,omitempty"`
	CredentialTTLSeconds    int64          `json:"credential_ttl_seconds,omitempty"`
	Environment             string         `json:"environment,omitempty"`
	EnvironmentFingerprint  string         `json:"environment_fingerprint,omitempty"`
	Identity                string         `json:"identity"`
	JobID                   string         `json:"job_id,omitempty"`
	Phase                   string         `json:"phase,omitempty"`
	Repo                    string         `json:"repo,omitempty"`
	RequestID               string         `json:"request_id,omitempty"`
	RiskClass               string         `json:"risk_class"`
	RunID                   string         `json:"run_id,omitempty"`
	Sandbox                 *Sandbox       `json:"sandbox,omitempty"`
	SessionID               string         `json:"session_id,omitempty"`
	WorkflowID              string         `json:"workflow_id,omitempty"`
	Workspace               string         `json:"workspace"`
	InventoryRef            string         `json:"wrkr_inventory_ref,omitempty"`
}

// An AgentIdentity is the request's declaration about the agent. Absent times are
// digested as in a [Delegation].
type AgentIdentity struct {
	ApprovedAt      time.Time `json:"approved_at"`
	ExpiresAt       time.Time `json:"expires_at"`
	IssuedAt        time.Time `json:"issued_at"`
	LifecycleStates []string  `json:"lifecycle_states,omitempty"`
	ManifestDigest  string    `json:"manifest_digest,omitempty"`
	Owner           string    `json:"owner,omitempty"`
	Publisher       string    `json:"publisher,omitempty"`
	Revoked         bool      `json:"revoked,omitempty"`
	Source          string    `json:"source,omitempty"`
}

// A Sandbox describes the isolation in which the act runs, as the producer
// declares it.
type Sandbox struct {
	EnvExposureMode     string   `json:"env_exposure_mode,omitempty"`
	EvidenceDigest      string   `json:"evidence_digest,omitempty"`
	EvidenceRef         string   `json:"evidence_ref,omitempty"`
	FilesystemIsolation string   `json:"filesystem_isolation,omitempty"`
	NetworkMode         string   `json:"network_mode,omitempty"`
	ReadOnlyRoots       []string `json:"read_only_roots,omitempty"`
	TimeoutSeconds      int64    `json:"timeout_seconds,omitempty"`
	UserMode            string   `json:"user_mode,omitempty"`
	WritablePaths       []string `json:"writable_paths,omitempty"`
}

// request is an IntentRequest as it was read, before it is normalised.
type request struct {
	SchemaID        string          `json:"schema_id"`
	SchemaVersion   string          `json:"schema_version"`
	CreatedAt       *time.Time      `json:"created_at"`
	ProducerVersion string          `json:"producer_version"`
	ArgsDigest      string          `json:"args_digest"`
	IntentDigest    string          `json:"intent_digest"`
	ScriptHash      string          `json:"script_hash"`
	Script          json.RawMessage `json:"script"`
	Relationship    json.RawMessage `json:"relationship"` // not digested
	content
}

// ParseIntent reads, checks and normalises an IntentRequest and computes its
// digests. Unknown members are ignored, as in the reference.
func ParseIntent(doc []byte) (Intent, error) {
	canonical, err := canon.Transform(doc)
	if err != nil {
		return Intent{}, fmt.Errorf("the intent is not JSON: %w", err)
	}
	var r request
	if err := json.Unmarshal(canonical, &r); err != nil {
		return Intent{}, fmt.Errorf("the intent is not an IntentRequest: %w", err)
	}
	if err := checkNames(canonical); err != nil {
		return Intent{}, err
	}
	if err := r.checkHeader(); err != nil {
		return Intent{}, err
	}
	in := Intent{CreatedAt: r.CreatedAt.UTC(), content: r.content}
	if err := in.normalize(); err != nil {
		return Intent{}, err
	}
	if in.ArgsDigest, err = sign.Digest(in.Args); err != nil {
		return Intent{}, fmt.Errorf("args: %w", err)
	}
	if in.IntentDigest, err = sign.Digest(in.content); err != nil {
		return Intent{}, fmt.Errorf("the intent: %w", err)
	}
	// The reference implementation of Gait ignores digests in the request. This program
	// refuses a wrong digest, because a wrong digest belongs to another intent.
	if r.ArgsDigest != "" && r.ArgsDigest != in.ArgsDigest {
		return Intent{}, fmt.Errorf("args_digest is not the digest of the normalised args: want %s", in.ArgsDigest)
	}
	if r.IntentDigest != "" && r.IntentDigest != in.IntentDigest {
		return Intent{}, fmt.Errorf("intent_digest is not the digest of the normalised intent: want %s", in.IntentDigest)
	}
	return in, nil
}

func (r *request) checkHeader() error {
	switch {
	case r.SchemaID != intentSchema:
		return fmt.Errorf("schema_id is %q; want %q", r.SchemaID, intentSchema)
	case r.SchemaVersion != schemaVersion:
		return fmt.Errorf("schema_version is %q; want %q", r.SchemaVersion, schemaVersion)
	case r.CreatedAt == nil:
		return fmt.Errorf("created_at is missing")
	case strings.TrimSpace(r.ProducerVersion) == "":
		return fmt.Errorf("producer_version is missing")
	case r.Args == nil:
		return fmt.Errorf("args is missing; if there are no arguments, write {}")
	case r.Targets == nil:
		return fmt.Errorf("targets is missing; if there are none, write []")
	case len(r.Script) > 0 || r.ScriptHash != "":
		return fmt.Errorf("script: intents with a script are not supported; send one intent for each step")
	}
	return nil
}

// names returns the names of the members of an IntentRequest. The value of a name holds
// the known names inside that member, or inside the items of its list; it is nil if there
// are none, as for args.
func names() members { return memberNames(reflect.TypeFor[request]()) }

type members map[string]members

func memberNames(t reflect.Type) members {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() {
		return nil
	}
	m := members{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			m[name] = memberNames(f.Type)
		}
	}
	return m
}

// checkNames refuses a member whose name differs from a known name only in case:
// encoding/json would accept such a member, and other programs would ignore it. doc
// must be JSON.
func checkNames(doc []byte) error {
	if plainNames(doc, 0) {
		return nil
	}
	var wrong error
	names().value(doc, 0, "", &wrong)
	return wrong
}

// plainNames reports whether all member names of the value at doc[i] are ASCII without
// capitals. Known names have none either, so a name without capitals cannot differ from a
// known name only in case. Most intents pass this quick check. Members of args and
// auth_context may have any name.
func plainNames(doc []byte, i int) bool {
	plain := true
	below := func(i int) int {
		if plain = plainNames(doc, i); !plain {
			return scan.Halt
		}
		return scan.StepOver
	}
	switch doc[i] {
	case '{':
		scan.Walk(doc, i, func(key []byte, i int) int {
			if string(key) == "args" || string(key) == "auth_context" {
				return scan.StepOver
			}
			plain = !slices.ContainsFunc(key, func(b byte) bool { return b >= utf8.RuneSelf || 'A' <= b && b <= 'Z' })
			if !plain {
				return scan.Halt
			}
			return below(i)
		})
	case '[':
		scan.WalkElements(doc, i, below)
	}
	return plain
}

// value checks an object, or a list of objects, that begins at doc[i]. Like a callback of
// scan.Walk, it returns the index after the value, StepOver or Halt.
func (m members) value(doc []byte, i int, path string, wrong *error) int {
	switch {
	case doc[i] == '{':
		return scan.Walk(doc, i, func(key []byte, i int) int { return m.member(doc, i, path, string(key), wrong) })
	case doc[i] == '[' && len(m) > 0:
		return scan.WalkElements(doc, i, func(i int) int { return m.value(doc, i, path, wrong) })
	}
	return scan.StepOver
}

func (m members) member(doc []byte, i int, path, name string, wrong *error) int {
	below, known := m[name]
	switch {
	case known && len(below) == 0:
		return scan.StepOver
	case known:
		return below.value(doc, i, path+name+".", wrong)
	}
	for k := range m {
		if strings.EqualFold(k, name) {
			*wrong = fmt.Errorf("%s%s: the member must be spelled %s", path, name, k)
			return scan.Halt
		}
	}
	return scan.StepOver
}
