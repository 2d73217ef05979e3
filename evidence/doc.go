// Package evidence writes and verifies Gait evidence: runpacks, packs, session
// journals, chains of checkpoints, and traces. The formats are those of the public
// reference (github.com/Clyra-AI/gait at 1c480c5).
//
// Verification is strict: it also refuses some artifacts that could be misunderstood,
// although the reference accepts them. An example is an archive with an entry that no
// manifest names. With Options.Compat the verdicts are those of the reference.
// Every report lists what it does not prove.
//
// The package reads no file, creates no key and reads no clock. Its input may
// be hostile, so sizes, depths and counts are limited, and no file of an
// archive is written to disk.
//
//	report := evidence.Verify(evidence.Detect(data), data, evidence.Options{PublicKey: key})
//	if !report.OK { … report.Problems … }
package evidence

import (
	"crypto/ed25519"
	"fmt"
)

// A Kind is a kind of artifact: a file of evidence, with its own format.
type Kind string

const (
	RunpackKind Kind = "runpack"
	PackKind    Kind = "pack"
	ChainKind   Kind = "session_chain"
	JournalKind Kind = "session_journal"
	TraceKind   Kind = "trace"
)

// Kinds lists the kinds of artifacts.
func Kinds() []Kind { return []Kind{RunpackKind, PackKind, ChainKind, JournalKind, TraceKind} }

// Anchored reports whether artifacts of the kind contain checkpoints, which anchors name.
func (k Kind) Anchored() bool { return k == ChainKind || k == JournalKind }

// The reference's schema ids and version.
const (
	manifestSchema     = "gait.runpack.manifest"
	runSchema          = "gait.runpack.run"
	intentSchema       = "gait.runpack.intent"
	resultSchema       = "gait.runpack.result"
	refsSchema         = "gait.runpack.refs"
	packManifestSchema = "gait.pack.manifest"
	packRunSchema      = "gait.pack.run"
	packJobSchema      = "gait.pack.job"
	jobStateSchema     = "gait.job.runtime"
	jobEventSchema     = "gait.job.event"
	journalSchema      = "gait.runpack.session_journal"
	eventSchema        = "gait.runpack.session_event"
	checkpointSchema   = "gait.runpack.session_checkpoint"
	chainSchema        = "gait.runpack.session_chain"
	traceSchema        = "gait.gate.trace"
	schemaVersion      = "1.0.0"
)

// Options control a verification.
type Options struct {
	// Compat makes Verify give the verdicts of the reference implementation of Gait.
	Compat bool
	// PublicKey verifies signatures. If PublicKey is nil, signatures are not verified, and
	// the report says so.
	PublicKey ed25519.PublicKey
	// RequireSignature refuses an artifact without a verified signature.
	RequireSignature bool
	// Anchors are digests of checkpoints that were published earlier. If there are any, the
	// artifact must be a chain or a journal, since other kinds contain no checkpoint. At
	// least one anchor must be of the artifact's session, and the artifact must contain the
	// checkpoints of all anchors of its session.
	Anchors []Anchor
	// Beside reads a file that an artifact names, such as a checkpoint's runpack. If Beside
	// is nil, every such file counts as missing. The path is relative and stays below the
	// artifact's folder, except with Compat.
	Beside func(path string) ([]byte, error)
}

// Statuses of the signatures of an artifact.
const (
	SignatureMissing  = "missing"
	SignatureSkipped  = "skipped" // there is a signature, but no key to verify it
	SignatureVerified = "verified"
	SignatureFailed   = "failed"
)

// A Report is the result of a verification.
type Report struct {
	OK   bool `json:"ok"`
	Kind Kind `json:"kind"`
	// Unreadable is set if the file cannot be read as an artifact of the kind, or if the
	// verification needs a public key and none was given.
	Unreadable bool   `json:"unreadable,omitempty"`
	Mode       string `json:"mode"` // strict or compat
	ID         string `json:"id,omitempty"`
	Digest     string `json:"digest,omitempty"` // digest of the manifest, the pack or the last checkpoint; for a trace, of its intent
	LegacyType string `json:"legacy_type,omitempty"`

	Checked          int    `json:"checked"` // number of files, checkpoints or records
	SignatureStatus  string `json:"signature_status"`
	SignaturesValid  int    `json:"signatures_valid"`
	SignaturesTotal  int    `json:"signatures_total"`
	ProofsVerified   int    `json:"proof_records_verified,omitempty"`
	AnchorsConfirmed int    `json:"anchors_confirmed,omitempty"`
	AnchoredUntil    int    `json:"anchored_until,omitempty"` // the newest checkpoint that an anchor confirms

	Problems []Problem `json:"problems"`
	// Notes say what the verification does not prove.
	Notes []string `json:"not_proven"`

	packs map[string]sealedPack // runpacks of checkpoints, by their paths
	reach reach
}

// A reach says up to which point an artifact describes its session.
type reach struct {
	ended       string // the state in which the session ended; empty if the artifact does not show it
	checkpoints []Checkpoint
}

// A Problem is one reason why the verification failed.
type Problem struct {
	Code string `json:"code"` // a fixed word, for programs
	At   string `json:"at,omitempty"`
	What string `json:"what"`
}

func (p Problem) String() string {
	if p.At == "" {
		return p.What
	}
	return p.At + ": " + p.What
}

// Verify verifies one artifact.
func Verify(kind Kind, data []byte, o Options) Report {
	r := &Report{Kind: kind, Mode: "strict", SignatureStatus: SignatureMissing, Problems: []Problem{}, Notes: []string{}, packs: map[string]sealedPack{}}
	if o.Compat {
		r.Mode = "compat"
	}
	if o.Beside == nil {
		o.Beside = func(path string) ([]byte, error) {
			return nil, fmt.Errorf("%s: there is no such file beside the evidence file", path)
		}
	}
	if len(o.Anchors) > 0 && !kind.Anchored() {
		r.problem("anchor", "", "an anchor names a checkpoint, but a %s has no checkpoint; only the session's chain and journal have checkpoints", kind)
	}
	switch kind {
	case RunpackKind:
		r.runpack(data, o)
	case PackKind:
		r.pack(data, o)
	case ChainKind:
		r.chain(data, o)
	case JournalKind:
		r.journal(data, o)
	case TraceKind:
		r.trace(data, o)
	default:
		r.unreadable("unknown_kind", "", "unknown kind of artifact %q", kind)
	}
	if !o.Compat && len(r.Problems) == 0 {
		r.unsigned(o)
	}
	r.OK = len(r.Problems) == 0
	r.limits(o)
	return *r
}

// unsigned refuses an artifact without a verified signature, if one is required or a
// public key is given. The checks of each kind report more details, but do not find every
// case: a journal without a checkpoint has no signature to check.
func (r *Report) unsigned(o Options) {
	switch {
	case r.SignatureStatus == SignatureFailed:
		r.problem("signature", "", "not every signature is valid")
	case o.RequireSignature && o.PublicKey == nil:
		r.unreadable("no_key", "", "a signature is required, but no public key was given")
	case o.PublicKey != nil && r.SignatureStatus != SignatureVerified:
		r.problem("signature_missing", "", "there is no signature")
	}
}

// maxProblems is the number of problems, and of notes, that a report lists.
const maxProblems = 1000

func (r *Report) problem(code, at, format string, args ...any) {
	if len(r.Problems) >= maxProblems {
		return
	}
	r.Problems = append(r.Problems, Problem{code, at, fmt.Sprintf(format, args...)})
}

func (r *Report) unreadable(code, at, format string, args ...any) {
	r.Unreadable = true
	r.problem(code, at, format, args...)
}

func (r *Report) note(format string, args ...any) {
	if len(r.Notes) >= maxProblems {
		return
	}
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// limits adds notes on what a verification of this kind cannot show.
func (r *Report) limits(o Options) {
	switch {
	case r.Unreadable && r.SignatureStatus == SignatureMissing: // there may be a signature that could not be read
		r.note("origin: no signature was checked; anyone could have made this")
	case r.SignatureStatus == SignatureSkipped:
		r.note("origin: the signature was not checked, since no public key was given; anyone could have made this")
	case r.SignatureStatus == SignatureMissing:
		r.note("origin: there is no signature; anyone could have made this")
	}
	r.truncation()
	if r.Kind == ChainKind {
		r.note("journal: only the chain was verified, and not a journal beside it")
	}
	r.note("vantage: the file shows only what the producer recorded, on a machine that the producer controls")
	r.note("completeness: the file lacks acts that the producer did not observe; even an unchanged file can be incomplete")
}

// truncation adds a note that says how much of its session the artifact describes, or what
// may be missing at the end of the artifact, such as removed checkpoints, although the
// verification detects no problem.
func (r *Report) truncation() {
	n := len(r.reach.checkpoints)
	switch {
	case r.Kind == TraceKind:
		r.note("truncation: a trace holds one decision, and does not show whether there were others")
	case r.Kind.Anchored() && r.AnchoredUntil == 0:
		r.note("truncation: without an anchor, a removal of checkpoints from the end is not noticed, and neither the chain nor the journal shows whether the session ended")
	case r.Kind.Anchored():
		r.note("truncation: the anchors reach checkpoint %d of %d, which ends with event %d; a removal or replacement of later events is not noticed",
			r.AnchoredUntil, n, r.reach.checkpoints[r.AnchoredUntil-1].SequenceEnd)
	case r.reach.ended != "":
		r.note("truncation: the file reaches the end of the session (%s), if the producer left nothing out", r.reach.ended)
	default:
		r.note("truncation: the file does not contain the end of the session: the session was still running, or its end was removed or not read; the file does not show which")
	}
}
