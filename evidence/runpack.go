package evidence

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"lifeloop/evidence/sign"
	"lifeloop/session"
)

// The files of a runpack: a zip archive with the acts of a run and their results.
const (
	manifestFile = "manifest.json"
	intentsFile  = "intents.jsonl"
	refsFile     = "refs.json"
	resultsFile  = "results.jsonl"
	runFile      = "run.json"
)

var runpackFiles = []string{intentsFile, refsFile, resultsFile, runFile} // sorted

// Capture modes of a runpack. With Reference, the runpack has only digests of arguments and
// results. With Raw, it also has the arguments and results themselves.
const (
	Reference = "reference"
	Raw       = "raw"
)

// A Header has the members that begin most documents.
type Header struct {
	SchemaID        string    `json:"schema_id"`
	SchemaVersion   string    `json:"schema_version"`
	CreatedAt       time.Time `json:"created_at"`
	ProducerVersion string    `json:"producer_version"`
}

func (h Header) check(schema string) error {
	switch {
	case h.SchemaID != schema || h.SchemaVersion != schemaVersion:
		return fmt.Errorf("schema %q %q; want %q %q", h.SchemaID, h.SchemaVersion, schema, schemaVersion)
	case h.CreatedAt.IsZero():
		return fmt.Errorf("created_at is missing")
	case h.ProducerVersion == "":
		return fmt.Errorf("producer_version is missing")
	}
	return nil
}

// A manifest lists the files of a runpack with their digests. Its digest covers
// the known members, with an empty manifest_digest and without signatures.
type manifest struct {
	Header
	RunID          string           `json:"run_id"`
	CaptureMode    string           `json:"capture_mode"`
	Files          []manifestEntry  `json:"files"`
	ManifestDigest string           `json:"manifest_digest"`
	Signatures     []sign.Signature `json:"signatures,omitempty"`
}

type manifestEntry struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

func (m manifest) digest() (string, error) {
	m.ManifestDigest, m.Signatures = "", nil
	return sign.Digest(m)
}

// A Run is the content of run.json.
type Run struct {
	Header
	RunID    string     `json:"run_id"`
	Env      Env        `json:"env"`
	Timeline []Timeline `json:"timeline"`
}

// Env is the platform of a run.
type Env struct {
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Runtime string `json:"runtime"`
}

// A Timeline is one entry of a run's timeline.
type Timeline struct {
	Event        string          `json:"event"`
	TS           time.Time       `json:"ts"`
	Ref          string          `json:"ref,omitempty"`
	Relationship json.RawMessage `json:"relationship,omitempty"`
}

// An Intent is one line of intents.jsonl.
type Intent struct {
	Header
	RunID      string          `json:"run_id"`
	IntentID   string          `json:"intent_id"`
	ToolName   string          `json:"tool_name"`
	ArgsDigest string          `json:"args_digest"`
	Args       json.RawMessage `json:"args,omitempty"`
}

// A Result is one line of results.jsonl.
type Result struct {
	Header
	RunID        string          `json:"run_id"`
	IntentID     string          `json:"intent_id"`
	Status       string          `json:"status"` // ok or error
	ResultDigest string          `json:"result_digest"`
	Result       json.RawMessage `json:"result,omitempty"`
}

// Refs is the content of refs.json.
type Refs struct {
	Header
	RunID               string `json:"run_id"`
	Receipts            []Ref  `json:"receipts"`
	ContextSetDigest    string `json:"context_set_digest,omitempty"`
	ContextEvidenceMode string `json:"context_evidence_mode,omitempty"`
	ContextRefCount     int    `json:"context_ref_count,omitempty"`
}

// A Ref refers to a source outside the runpack by the digest of that source.
type Ref struct {
	RefID               string          `json:"ref_id"`
	SourceType          string          `json:"source_type"`
	SourceLocator       string          `json:"source_locator"`
	QueryDigest         string          `json:"query_digest"`
	ContentDigest       string          `json:"content_digest"`
	RetrievedAt         time.Time       `json:"retrieved_at"`
	RedactionMode       string          `json:"redaction_mode"`
	Immutability        string          `json:"immutability,omitempty"`
	FreshnessSLASeconds int64           `json:"freshness_sla_seconds,omitempty"`
	SensitivityLabel    string          `json:"sensitivity_label,omitempty"`
	RetrievalParams     json.RawMessage `json:"retrieval_params,omitempty"`
}

// A runpack holds the decoded files of a runpack, as far as they could be read.
type runpack struct {
	archive
	manifest manifest
	run      Run
	intents  []Intent
	results  []Result
	refs     Refs
}

func isRunID(s string) bool {
	id, ok := strings.CutPrefix(s, "run_")
	return ok && id != "" && !strings.ContainsFunc(id, func(r rune) bool { return !inID(r) })
}

// runpack verifies a runpack and returns what it could read.
func (r *Report) runpack(data []byte, o Options) (p runpack) {
	a, ok := r.open(data, o)
	if !ok {
		return p
	}
	p.archive = a
	doc, present := a.files[manifestFile]
	if !present {
		r.unreadable("no_manifest", manifestFile, "the archive has no manifest of a runpack")
		return p
	}
	unknown, err := decode(doc, &p.manifest, o)
	if err != nil {
		r.unreadable("manifest", manifestFile, "%v", err)
		return p
	}
	m := p.manifest
	r.ID, r.Digest = m.RunID, m.ManifestDigest
	if err := m.check(manifestSchema); err != nil {
		r.unreadable("schema", manifestFile, "%v", err)
		return p
	}
	for _, f := range m.Files {
		r.declared(a, f.Path, f.SHA256)
	}
	for _, name := range runpackFiles {
		if !slices.ContainsFunc(m.Files, func(f manifestEntry) bool { return f.Path == name }) {
			r.problem("missing_file", name, "the manifest does not declare this file")
		}
	}
	if digest, err := m.digest(); err != nil || digest != m.ManifestDigest {
		r.problem("manifest_digest", manifestFile, "manifest_digest is %s, but the digest of the manifest is %s", m.ManifestDigest, digest)
	}
	r.signatures(m.Signatures, doc, o)
	if r.SignatureStatus != SignatureVerified { // a signature covers unknown members too
		r.uncovered(manifestFile, unknown)
	}
	if !o.Compat && len(r.Problems) == 0 {
		r.runpackContents(&p)
	}
	return p
}

// runpackContents makes those checks that the reference implementation of Gait does not
// make.
func (r *Report) runpackContents(p *runpack) {
	m := p.manifest
	for _, name := range p.names {
		if name != manifestFile && !slices.Contains(runpackFiles, name) {
			r.problem("undeclared_file", name, "the file does not belong in a runpack")
		}
	}
	if !slices.IsSortedFunc(m.Files, func(a, b manifestEntry) int { return strings.Compare(a.Path, b.Path) }) || len(m.Files) != len(runpackFiles) {
		r.problem("manifest", manifestFile, `the member "files" must list the four files of a runpack, in the order of their paths`)
	}
	if !isRunID(m.RunID) {
		r.problem("run_id", manifestFile, "run_id is %q; want run_ followed by letters, digits, _ or -", m.RunID)
	}
	if m.CaptureMode != Reference && m.CaptureMode != Raw {
		r.problem("capture_mode", manifestFile, "capture_mode is %q; want %s or %s", m.CaptureMode, Reference, Raw)
	}
	r.inner(runFile, p.files[runFile], &p.run)
	r.inner(refsFile, p.files[refsFile], &p.refs)
	r.identity(runFile, runSchema, m.RunID, p.run.Header, p.run.RunID)
	r.identity(refsFile, refsSchema, m.RunID, p.refs.Header, p.refs.RunID)
	r.runpackLines(p)
	r.receipts(p.refs)
	for _, entry := range p.run.Timeline {
		if s, is := strings.CutPrefix(entry.Ref, stateRef); is && slices.Contains(session.States(), session.State(s)) && session.State(s).Terminal() {
			r.reach.ended = s
		}
	}
}

func (r *Report) inner(at string, doc []byte, into any) {
	if _, err := decodeExact(doc, into); err != nil {
		r.problem("inner_file", at, "%v", err)
	}
}

// identity checks the members that all documents of a run share.
func (r *Report) identity(at, schema, run string, h Header, id string) {
	if err := h.check(schema); err != nil {
		r.problem("schema", at, "%v", err)
	}
	if id != run {
		r.problem("run_id", at, "run_id is %q, but the manifest has %q", id, run)
	}
}

func (r *Report) runpackLines(p *runpack) {
	run, raw := p.manifest.RunID, p.manifest.CaptureMode == Raw
	seen, settled := map[string]bool{}, map[string]bool{} // by intent_id
	lines(p.files[intentsFile], func(n int, line []byte) bool {
		at := fmt.Sprintf("%s:%d", intentsFile, n)
		var in Intent
		r.inner(at, line, &in)
		r.identity(at, intentSchema, run, in.Header, in.RunID)
		if in.IntentID == "" || in.ToolName == "" || seen[in.IntentID] {
			r.problem("inner_file", at, "intent_id and tool_name are required, and intent_id must be unique")
		}
		seen[in.IntentID] = true
		r.captured(at, "args", in.ArgsDigest, in.Args, raw)
		p.intents = append(p.intents, in)
		return len(r.Problems) < 100
	})
	lines(p.files[resultsFile], func(n int, line []byte) bool {
		at := fmt.Sprintf("%s:%d", resultsFile, n)
		var res Result
		r.inner(at, line, &res)
		r.identity(at, resultSchema, run, res.Header, res.RunID)
		if !seen[res.IntentID] {
			r.problem("inner_file", at, "no intent has the intent_id %q", res.IntentID)
		}
		if settled[res.IntentID] {
			r.problem("inner_file", at, "a second result of the intent %q", res.IntentID)
		}
		settled[res.IntentID] = true
		if res.Status != "ok" && res.Status != "error" {
			r.problem("inner_file", at, "status is %q; want ok or error", res.Status)
		}
		r.captured(at, "result", res.ResultDigest, res.Result, raw)
		p.results = append(p.results, res)
		return len(r.Problems) < 100
	})
	switch open := len(seen) - len(settled); {
	case open > 0 && p.manifest.ours():
		r.problem("inner_file", resultsFile, "intents without a result: %d; lifeloop-wrap, which made this runpack, writes a result for each intent", open)
	case open > 0:
		r.note("results: the number of intents without a result is %d", open)
	}
}

// captured checks that digest has the form of a digest, that value has this digest if it
// is present, and that value is absent unless raw is set.
func (r *Report) captured(at, name, digest string, value json.RawMessage, raw bool) {
	switch {
	case !sign.IsDigest(digest):
		r.problem("inner_file", at, "%s_digest is not a digest (64 lower-case hexadecimal digits)", name)
	case len(value) > 0 && !raw:
		r.problem("capture_mode", at, "%s must be absent if capture_mode is reference", name)
	case len(value) > 0:
		if have, err := sign.Digest(value); err != nil || have != digest {
			r.problem("hash_mismatch", at, "%s_digest is not the digest of %s", name, name)
		}
	}
}

func (r *Report) receipts(refs Refs) {
	if refs.Receipts == nil {
		r.problem("inner_file", refsFile, "receipts is missing")
	}
	if refs.ContextRefCount != 0 && refs.ContextRefCount != len(refs.Receipts) {
		r.problem("inner_file", refsFile, "context_ref_count is %d, but there are %d receipts", refs.ContextRefCount, len(refs.Receipts))
	}
	for i, ref := range refs.Receipts {
		at := fmt.Sprintf("%s: receipts[%d]", refsFile, i)
		if ref.RefID == "" || ref.SourceType == "" || ref.SourceLocator == "" || ref.RedactionMode == "" || ref.RetrievedAt.IsZero() {
			r.problem("inner_file", at, "ref_id, source_type, source_locator, redaction_mode and retrieved_at are required")
		}
		if !sign.IsDigest(ref.QueryDigest) || !sign.IsDigest(ref.ContentDigest) {
			r.problem("inner_file", at, "query_digest and content_digest must be digests")
		}
		if i > 0 && refs.Receipts[i-1].RefID >= ref.RefID {
			r.problem("inner_file", at, "receipts are not in the order of ref_id")
		}
	}
}
