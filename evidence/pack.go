package evidence

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"lifeloop/evidence/sign"
)

// The files of a pack.
const (
	packManifestFile = "pack_manifest.json"
	proofsFile       = "proof_records.jsonl"
	runPayloadFile   = "run_payload.json"
	nestedRunpack    = "source/runpack.zip"
	jobPayloadFile   = "job_payload.json"
	jobStateFile     = "job_state.json"
	jobEventsFile    = "job_events.jsonl"
)

// A packManifest lists the files of a pack. pack_id is its digest with an empty
// pack_id and without signatures.
type packManifest struct {
	Header
	PackID     string           `json:"pack_id"`
	PackType   string           `json:"pack_type"`
	SourceRef  string           `json:"source_ref"`
	Contents   []packEntry      `json:"contents"`
	Signatures []sign.Signature `json:"signatures,omitempty"`
}

type packEntry struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Type   string `json:"type"`
}

func (m packManifest) id() (string, error) {
	m.PackID, m.Signatures = "", nil
	return sign.Digest(m)
}

// entryType returns the type of a file in a pack, by its name.
func entryType(name string) string {
	switch path.Ext(name) {
	case ".json":
		return "json"
	case ".jsonl":
		return "jsonl"
	case ".zip":
		return "zip"
	}
	return "blob"
}

type runPayload struct {
	SchemaID            string    `json:"schema_id"`
	SchemaVersion       string    `json:"schema_version"`
	CreatedAt           time.Time `json:"created_at"`
	RunID               string    `json:"run_id"`
	CaptureMode         string    `json:"capture_mode"`
	ManifestDigest      string    `json:"manifest_digest"`
	IntentsCount        int       `json:"intents_count"`
	ResultsCount        int       `json:"results_count"`
	RefsCount           int       `json:"refs_count"`
	ContextSetDigest    string    `json:"context_set_digest,omitempty"`
	ContextRefCount     int       `json:"context_ref_count,omitempty"`
	ContextEvidenceMode string    `json:"context_evidence_mode,omitempty"`
	ContextPrivacyMode  string    `json:"context_privacy_mode,omitempty"`
}

// jobFacts are the members that a job's payload and its state share.
type jobFacts struct {
	JobID                  string `json:"job_id"`
	Status                 string `json:"status"`
	StopReason             string `json:"stop_reason"`
	StatusReasonCode       string `json:"status_reason_code"`
	EnvironmentFingerprint string `json:"environment_fingerprint"`
	SafetyInvariantVersion string `json:"safety_invariant_version,omitempty"`
	SafetyInvariantHash    string `json:"safety_invariant_hash,omitempty"`
}

type jobPayload struct {
	SchemaID      string    `json:"schema_id"`
	SchemaVersion string    `json:"schema_version"`
	CreatedAt     time.Time `json:"created_at"`
	jobFacts
	CheckpointCount int `json:"checkpoint_count"`
	ApprovalCount   int `json:"approval_count"`
}

type jobState struct {
	Header
	UpdatedAt time.Time `json:"updated_at"`
	jobFacts
	SafetyInvariants []string        `json:"safety_invariants,omitempty"`
	PolicyDigest     string          `json:"policy_digest,omitempty"`
	PolicyRef        string          `json:"policy_ref,omitempty"`
	Identity         string          `json:"identity,omitempty"`
	Revision         int             `json:"revision"`
	Checkpoints      []jobCheckpoint `json:"checkpoints"`
	Approvals        []jobApproval   `json:"approvals,omitempty"`
}

type jobCheckpoint struct {
	CheckpointID   string    `json:"checkpoint_id"`
	CreatedAt      time.Time `json:"created_at"`
	Type           string    `json:"type"`
	Summary        string    `json:"summary"`
	RequiredAction string    `json:"required_action,omitempty"`
	ReasonCode     string    `json:"reason_code"`
	Actor          string    `json:"actor,omitempty"`
}

type jobApproval struct {
	CreatedAt time.Time `json:"created_at"`
	Actor     string    `json:"actor"`
	Reason    string    `json:"reason"`
}

type jobEvent struct {
	SchemaID      string          `json:"schema_id"`
	SchemaVersion string          `json:"schema_version"`
	CreatedAt     time.Time       `json:"created_at"`
	JobID         string          `json:"job_id"`
	Revision      int             `json:"revision"`
	Type          string          `json:"type"`
	Actor         string          `json:"actor,omitempty"`
	ReasonCode    string          `json:"reason_code,omitempty"`
	Payload       json.RawMessage `json:"payload,omitempty"`
}

// A PackStatus is the state of a job.
type PackStatus string

const (
	JobRunning        PackStatus = "running"
	JobPaused         PackStatus = "paused"
	JobDecisionNeeded PackStatus = "decision_needed"
	JobBlocked        PackStatus = "blocked"
	JobCompleted      PackStatus = "completed"
	JobCancelled      PackStatus = "cancelled"
	JobStopped        PackStatus = "emergency_stopped"
)

var jobStatuses = []PackStatus{JobRunning, JobPaused, JobDecisionNeeded, JobBlocked, JobCompleted, JobCancelled, JobStopped}

// pack verifies a pack. A runpack, the older form of a pack, is accepted too.
func (r *Report) pack(data []byte, o Options) {
	a, ok := r.open(data, o)
	if !ok {
		return
	}
	doc, present := a.files[packManifestFile]
	if _, legacy := a.files[manifestFile]; !present && legacy {
		r.LegacyType = string(RunpackKind)
		r.runpack(data, o)
		return
	}
	if !present {
		r.unreadable("no_manifest", packManifestFile, "the archive has no manifest of a pack")
		return
	}
	var m packManifest
	if err := decodeClosed(doc, &m, o); err != nil {
		r.problem("manifest", packManifestFile, "%v", err)
		return
	}
	r.ID, r.Digest = m.SourceRef, m.PackID
	if err := m.check(packManifestSchema); err != nil {
		r.problem("schema", packManifestFile, "%v", err)
		return
	}
	if id, err := m.id(); err != nil || id != m.PackID {
		r.problem("pack_id", packManifestFile, "pack_id is %s, but the manifest's digest is %s", m.PackID, id)
	}
	r.packContents(a, m, o)
	r.signatures(m.Signatures, doc, o)
	if len(r.Problems) > 0 {
		return // the pack is refused in any case
	}
	if proofs, present := a.files[proofsFile]; present {
		r.proofs(proofs, a, m, o)
	}
	switch m.PackType {
	case "run":
		r.runPack(a, m, o)
	case "job":
		r.jobPack(a, m, o)
	default:
		r.problem("pack_type", packManifestFile, "packs of the type %q cannot be verified; only run and job can", m.PackType)
	}
}

func (r *Report) packContents(a archive, m packManifest, o Options) {
	declared := map[string]bool{packManifestFile: true}
	for _, e := range m.Contents {
		switch {
		case e.Path == packManifestFile:
			r.problem("manifest", e.Path, "the member \"contents\" must not declare the manifest itself")
		case declared[e.Path]:
			r.problem("manifest", e.Path, "the member \"contents\" declares this file more than once")
		}
		declared[e.Path] = true
		if e.Type != entryType(e.Path) && !o.Compat {
			r.problem("manifest", e.Path, "its type is %q; want %q", e.Type, entryType(e.Path))
		}
		r.declared(a, e.Path, e.SHA256)
	}
	for _, name := range a.names {
		if !declared[name] {
			r.problem("undeclared_file", name, "the manifest does not declare this file")
		}
	}
	if !o.Compat && !slices.IsSortedFunc(m.Contents, func(a, b packEntry) int { return strings.Compare(a.Path, b.Path) }) {
		r.problem("manifest", packManifestFile, "the entries of the member \"contents\" are not in the order of their paths")
	}
}

func (r *Report) payload(a archive, name string, into any, o Options) bool {
	doc, present := a.files[name]
	if !present {
		r.problem("missing_file", name, "the file is missing; a pack of this type needs it")
		return false
	}
	if err := decodeClosed(doc, into, o); err != nil {
		r.problem("payload", name, "%v", err)
		return false
	}
	return true
}

func (r *Report) runPack(a archive, m packManifest, o Options) {
	var p runPayload
	if !r.payload(a, runPayloadFile, &p, o) {
		return
	}
	if p.SchemaID != packRunSchema || p.SchemaVersion != schemaVersion {
		r.problem("schema", runPayloadFile, "schema %q %q is not that of a run's payload", p.SchemaID, p.SchemaVersion)
	}
	if p.RunID != m.SourceRef {
		r.problem("source_ref", runPayloadFile, "run_id is %q, but source_ref is %q", p.RunID, m.SourceRef)
	}
	nested, present := a.files[nestedRunpack]
	if !present {
		r.problem("missing_file", nestedRunpack, "the file is missing; a pack of a run needs it")
	}
	if o.Compat || !present {
		return
	}
	// The reference implementation of Gait does not make the following checks of the
	// runpack. The signatures of the runpack are not verified: the pack's own signature
	// covers all bytes of the runpack.
	inside := &Report{Kind: RunpackKind}
	rp := inside.runpack(nested, Options{})
	for _, problem := range inside.Problems {
		r.problem(problem.Code, path.Join(nestedRunpack, problem.At), "%s", problem.What)
	}
	if len(inside.Problems) > 0 {
		return
	}
	r.reach = inside.reach
	want := p
	want.RunID, want.CaptureMode, want.ManifestDigest = rp.manifest.RunID, rp.manifest.CaptureMode, rp.manifest.ManifestDigest
	want.IntentsCount, want.ResultsCount, want.RefsCount = len(rp.intents), len(rp.results), len(rp.refs.Receipts)
	if p != want {
		r.problem("payload", runPayloadFile, "its run_id, capture_mode, digest or counts differ from those of %s", nestedRunpack)
	}
}

func (r *Report) jobPack(a archive, m packManifest, o Options) {
	var p jobPayload
	var s jobState
	if !r.payload(a, jobPayloadFile, &p, o) || !r.payload(a, jobStateFile, &s, o) {
		return
	}
	if p.SchemaID != packJobSchema || p.SchemaVersion != schemaVersion {
		r.problem("schema", jobPayloadFile, "schema %q %q is not that of a job's payload", p.SchemaID, p.SchemaVersion)
	}
	if err := s.check(jobStateSchema); err != nil {
		r.problem("schema", jobStateFile, "%v", err)
	}
	if p.JobID != m.SourceRef || s.JobID != m.SourceRef {
		r.problem("source_ref", jobPayloadFile, "its job_id or the state's job_id is not the source_ref %q", m.SourceRef)
	}
	if p.CheckpointCount != len(s.Checkpoints) || p.ApprovalCount != len(s.Approvals) {
		r.problem("payload", jobPayloadFile, "it declares %d checkpoints and %d approvals, but the state has %d and %d", p.CheckpointCount, p.ApprovalCount, len(s.Checkpoints), len(s.Approvals))
	}
	if !slices.Contains(jobStatuses, PackStatus(p.Status)) {
		r.problem("payload", jobPayloadFile, "status %q is not a status of a job", p.Status)
	}
	if !o.Compat && p.jobFacts != s.jobFacts {
		r.problem("payload", jobPayloadFile, "its status, reasons, fingerprint or safety invariants differ from those of %s", jobStateFile)
	}
	if slices.Contains([]PackStatus{JobBlocked, JobCompleted, JobCancelled, JobStopped}, PackStatus(s.Status)) {
		r.reach.ended = s.Status
	}
	r.jobEvents(a, m, s, o)
}

func (r *Report) jobEvents(a archive, m packManifest, s jobState, o Options) {
	events, present := a.files[jobEventsFile]
	if !present {
		r.problem("missing_file", jobEventsFile, "the file is missing; a pack of a job needs it")
	}
	revision := 0
	lines(events, func(n int, line []byte) bool {
		at := fmt.Sprintf("%s:%d", jobEventsFile, n)
		var e jobEvent
		if err := decodeClosed(line, &e, o); err != nil {
			r.problem("payload", at, "%v", err)
			return false
		}
		if e.JobID != m.SourceRef {
			r.problem("source_ref", at, "job_id is %q, but source_ref is %q", e.JobID, m.SourceRef)
		}
		if !o.Compat && (e.SchemaID != jobEventSchema || e.SchemaVersion != schemaVersion || e.Revision != revision+1) {
			r.problem("payload", at, "the record is not an event with revision %d", revision+1)
		}
		revision = e.Revision
		return len(r.Problems) < 100
	})
	if !o.Compat && revision != s.Revision {
		r.problem("payload", jobEventsFile, "the last revision is %d, but the state has revision %d", revision, s.Revision)
	}
}
