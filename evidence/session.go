package evidence

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"lifeloop/evidence/sign"
	"lifeloop/gate"
)

// A Checkpoint seals a range of a session's events: it names the digest of the
// runpack that holds them, and links to the checkpoint before it.
type Checkpoint struct {
	Header
	SessionID            string          `json:"session_id"`
	RunID                string          `json:"run_id"`
	Index                int             `json:"checkpoint_index"`
	SequenceStart        int64           `json:"sequence_start"`
	SequenceEnd          int64           `json:"sequence_end"`
	RunpackPath          string          `json:"runpack_path"`
	ManifestDigest       string          `json:"manifest_digest"`
	PrevCheckpointDigest string          `json:"prev_checkpoint_digest,omitempty"`
	CheckpointDigest     string          `json:"checkpoint_digest"`
	Relationship         json.RawMessage `json:"relationship,omitempty"`
}

// producerName begins the producer_version of documents of this program.
const producerName = "lifeloop-wrap/"

// runpackName is the name that this program gives to the runpack of a checkpoint.
func runpackName(index int) string { return fmt.Sprintf("cp_%04d.zip", index) }

func (c Checkpoint) digest() string {
	return sign.Sum(fmt.Appendf(nil, "%s:%s:%d:%d:%d", c.ManifestDigest, c.PrevCheckpointDigest, c.Index, c.SequenceStart, c.SequenceEnd))
}

// A chain is the checkpoints of a session.
type chain struct {
	Header
	SessionID    string          `json:"session_id"`
	RunID        string          `json:"run_id"`
	Checkpoints  []Checkpoint    `json:"checkpoints"`
	Relationship json.RawMessage `json:"relationship,omitempty"`
}

// A SessionEvent is one act of a session, such as the launch of a harness, with the gate's
// decision about it. Without a policy there is no decision.
type SessionEvent struct {
	Header
	SessionID              string          `json:"session_id"`
	RunID                  string          `json:"run_id"`
	Sequence               int64           `json:"sequence"`
	IntentID               string          `json:"intent_id,omitempty"`
	ToolName               string          `json:"tool_name,omitempty"`
	IntentDigest           string          `json:"intent_digest,omitempty"`
	PolicyDigest           string          `json:"policy_digest,omitempty"`
	PolicyID               string          `json:"policy_id,omitempty"`
	PolicyVersion          string          `json:"policy_version,omitempty"`
	MatchedRuleIDs         []string        `json:"matched_rule_ids,omitempty"`
	TraceID                string          `json:"trace_id,omitempty"`
	TracePath              string          `json:"trace_path,omitempty"`
	Verdict                string          `json:"verdict,omitempty"`
	ReasonCodes            []string        `json:"reason_codes,omitempty"`
	Violations             []string        `json:"violations,omitempty"`
	Relationship           json.RawMessage `json:"relationship,omitempty"`
	SafetyInvariantVersion string          `json:"safety_invariant_version,omitempty"`
	SafetyInvariantHash    string          `json:"safety_invariant_hash,omitempty"`
}

// An Anchor is the digest of a checkpoint. It is published where the session's
// producer cannot change or remove it.
type Anchor struct {
	SessionID string `json:"session_id"`
	Index     int    `json:"checkpoint_index"`
	Digest    string `json:"checkpoint_digest"`
}

// TornAnchor reports whether a text is the beginning of an anchor's line, without its
// end, as a crash leaves it.
func TornAnchor(text []byte) bool {
	const begin = `{"session_id":"`
	return len(text) > 0 && !json.Valid(text) && (strings.HasPrefix(string(text), begin) || strings.HasPrefix(begin, string(text)))
}

// ParseAnchors reads anchors, one JSON object on each line.
func ParseAnchors(doc []byte) (list []Anchor, err error) {
	lines(doc, func(n int, line []byte) bool {
		var a Anchor
		if _, err = decodeExact(line, &a); err == nil && (a.SessionID == "" || a.Index < 1 || !sign.IsDigest(a.Digest)) {
			err = fmt.Errorf("it is not an anchor")
		}
		if err != nil {
			err = fmt.Errorf("line %d: %w", n, err)
			return false
		}
		list = append(list, a)
		return true
	})
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("there is no anchor")
	}
	return list, err
}

func (r *Report) chain(doc []byte, o Options) {
	var c chain
	unknown, err := decode(doc, &c, o)
	if err != nil {
		r.unreadable("not_a_chain", "", "%v", err)
		return
	}
	r.uncovered("the chain", unknown)
	r.ID = c.SessionID
	if c.SchemaID != chainSchema || c.SchemaVersion != schemaVersion {
		r.unreadable("schema", "", "schema %q %q; want %q %q", c.SchemaID, c.SchemaVersion, chainSchema, schemaVersion)
		return
	}
	if len(c.Checkpoints) == 0 {
		r.problem("no_checkpoints", "", "the chain has no checkpoint")
		return
	}
	if !o.Compat && (c.check(chainSchema) != nil || c.SessionID == "" || c.RunID == "") {
		r.problem("chain", "", "created_at, producer_version, session_id and run_id are required")
	}
	r.relationship("chain", "", c.Header, c.Relationship, o)
	r.links(c.Checkpoints, c.SessionID, c.RunID, o)
	for _, cp := range c.Checkpoints {
		r.sealed(cp, c, nil, false, o)
		r.Checked++
	}
	r.summarize(len(c.Checkpoints), o)
	r.anchors(c.SessionID, c.Checkpoints, o)
}

// links checks the order and the links of checkpoints.
func (r *Report) links(list []Checkpoint, session, run string, o Options) {
	for i, c := range list {
		at := fmt.Sprintf("checkpoint %d", i+1)
		var before Checkpoint
		if i > 0 {
			before = list[i-1]
		}
		r.Digest = c.CheckpointDigest
		if c.Index != i+1 {
			r.problem("missing_checkpoint", at, "checkpoint_index is %d; a checkpoint is missing or out of order", c.Index)
			continue
		}
		if c.digest() != c.CheckpointDigest {
			r.problem("checkpoint_digest", at, "checkpoint_digest is %s, but the digest of the checkpoint is %s", c.CheckpointDigest, c.digest())
		}
		if (i > 0 || !o.Compat) && c.PrevCheckpointDigest != before.CheckpointDigest {
			r.problem("link", at, "prev_checkpoint_digest is not the digest of the previous checkpoint")
		}
		if c.SequenceStart <= before.SequenceEnd || c.SequenceEnd < c.SequenceStart {
			r.problem("sequence", at, "its range of events is empty or begins too early")
		}
		if o.Compat {
			continue
		}
		if c.SequenceStart != before.SequenceEnd+1 {
			r.problem("sequence", at, "it begins with event %d; want %d", c.SequenceStart, before.SequenceEnd+1)
		}
		if err := c.check(checkpointSchema); err != nil {
			r.problem("schema", at, "%v", err)
		}
		if c.SessionID != session || c.RunID != run {
			r.problem("session_id", at, "it belongs to another session or run")
		}
		r.relationship("checkpoint", at, c.Header, c.Relationship, o)
	}
}

// relationship refuses the member relationship in a document of this program, which never
// writes it. In a document of another program the member is only noted, because no digest
// covers it.
func (r *Report) relationship(code, at string, h Header, v json.RawMessage, o Options) {
	switch {
	case o.Compat || len(v) == 0:
	case h.ours():
		r.problem(code, at, "it has the member \"relationship\", but lifeloop-wrap, which produced it, never writes that member")
	case at == "":
		r.uncovered("the chain", []string{"relationship"})
	default:
		r.uncovered(at, []string{"relationship"})
	}
}

// ours reports whether this program made the document.
func (h Header) ours() bool { return strings.HasPrefix(h.ProducerVersion, producerName) }

// sealed checks the runpack of a checkpoint, and that it holds the given events, if they
// are known. If optional is set, the runpack may be absent. But the runpack must exist if
// signatures are verified or required, because it holds the checkpoint's signature.
func (r *Report) sealed(c Checkpoint, head chain, events []SessionEvent, optional bool, o Options) {
	at := fmt.Sprintf("checkpoint %d: %s", c.Index, c.RunpackPath)
	if name := c.RunpackPath; !o.Compat && (name == "" || path.IsAbs(name) || strings.Contains(name, `\`) || path.Clean(name) != name || strings.HasPrefix(name, "..")) {
		r.problem("runpack_path", at, "the runpack's path must be relative, use / as its separator, and have no . or .. elements")
		return
	}
	if want := runpackName(c.Index); !o.Compat && c.RunpackPath != want && c.ours() {
		r.problem("runpack_path", at, "lifeloop-wrap gives the name %s to the runpack of this checkpoint; this runpack has another name", want) // no digest covers the name, so only this check finds a change
		return
	}
	if _, again := r.packs[c.RunpackPath]; again && !o.Compat {
		r.problem("runpack_path", at, "an earlier checkpoint names the same file")
		return
	}
	p, inside, err := r.packAt(c.RunpackPath, o)
	if err != nil {
		if optional && o.PublicKey == nil && !o.RequireSignature {
			r.note("contents: events %d to %d were not compared with their runpack, which cannot be read", c.SequenceStart, c.SequenceEnd)
			return
		}
		r.problem("missing_file", at, "%v", err)
		return
	}
	for _, note := range inside.Notes {
		r.note("%s: %s", at, note)
	}
	r.SignaturesTotal += inside.SignaturesTotal
	if inside.SignaturesValid > 0 {
		r.SignaturesValid++
	}
	if inside.SignatureStatus == SignatureSkipped {
		r.SignatureStatus = SignatureSkipped
	}
	for _, problem := range inside.Problems {
		if o.Compat && !o.RequireSignature && problem.Code == "signature" {
			continue // the reference implementation of Gait ignores this problem
		}
		r.problem(problem.Code, path.Join(at, problem.At), "%s", problem.What)
	}
	if p.manifest.ManifestDigest != c.ManifestDigest {
		r.problem("manifest_digest", at, "its manifest_digest differs from the checkpoint's")
	}
	if !o.Compat && len(inside.Problems) == 0 {
		r.sealedContents(at, c, head, p, events)
	}
}

// A sealedPack is what the verification of a checkpoint's runpack found.
type sealedPack struct {
	manifest manifest
	report   *Report
}

// packAt verifies the runpack with the given name. It verifies each runpack only once,
// because many checkpoints of a hostile chain may name the same large runpack.
func (r *Report) packAt(name string, o Options) (p runpack, inside *Report, err error) {
	if known, again := r.packs[name]; again {
		return runpack{manifest: known.manifest}, known.report, nil
	}
	data, err := o.Beside(name)
	if err != nil {
		return p, nil, err
	}
	inside = &Report{Kind: RunpackKind, SignatureStatus: SignatureMissing}
	p = inside.runpack(data, o)
	r.packs[name] = sealedPack{p.manifest, inside}
	return p, inside, nil
}

// sealedContents makes those checks of a checkpoint's runpack that the reference
// implementation of Gait does not make.
func (r *Report) sealedContents(at string, c Checkpoint, head chain, p runpack, events []SessionEvent) {
	if want := fmt.Sprintf("%s_cp_%04d", c.RunID, c.Index); p.manifest.RunID != want {
		r.problem("run_id", at, "its run_id is %q; want %q", p.manifest.RunID, want)
	}
	if !p.manifest.CreatedAt.Equal(c.CreatedAt) || p.manifest.ProducerVersion != c.ProducerVersion {
		r.problem("checkpoint", at, "created_at or producer_version differs from the checkpoint's")
	}
	if n := c.SequenceEnd - c.SequenceStart + 1; int64(len(p.intents)) != n || int64(len(p.results)) != n {
		r.problem("sequence", at, "it holds %d intents and %d results for %d events", len(p.intents), len(p.results), n)
		return
	}
	r.sealedHead(at, c, head, p, events)
	if events == nil {
		return
	}
	wantIntents, wantResults, err := sealEvents(events, p.manifest.RunID, p.manifest.ProducerVersion)
	if err != nil {
		r.problem("events", at, "%v", err)
		return
	}
	for i, e := range events {
		if !equalJSON(p.intents[i], wantIntents[i]) || !equalJSON(p.results[i], wantResults[i]) {
			r.problem("events", at, "event %d of the journal differs from the event in this runpack", e.Sequence)
		}
	}
}

// sealedHead checks the Refs that an export of this program adds to a checkpoint's runpack.
// Their digests cover members that no other digest of the format covers.
func (r *Report) sealedHead(at string, c Checkpoint, head chain, p runpack, events []SessionEvent) {
	for _, ref := range p.refs.Receipts {
		if slices.Contains([]string{ledgerSource, chainSource, eventsSource}, ref.SourceType) && ref.SourceLocator != ledgerLocator(c.SessionID) {
			r.problem("session_id", at, "its receipt %s belongs to another session", ref.RefID)
		}
		if ref.SourceType == eventsSource && len(events) > 0 {
			if want, err := eventsRef(events, c.CreatedAt); err != nil || want.ContentDigest != ref.ContentDigest {
				r.problem("events", at, "the events of the journal do not have the digest that this runpack contains")
			}
		}
		if ref.SourceType != chainSource {
			continue
		}
		if want, err := chainRef(head, c.CreatedAt); err != nil || want.ContentDigest != ref.ContentDigest {
			r.problem("head", at, "after this checkpoint was made, a member of the journal's header or a member of the chain outside its checkpoints was changed")
		}
		for _, e := range events {
			if e.ProducerVersion != c.ProducerVersion || e.SchemaVersion != schemaVersion {
				r.problem("events", at, "event %d has a producer_version other than the checkpoint's, or a wrong schema_version", e.Sequence)
			}
		}
	}
}

func equalJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// summarize sets the signature status from the signatures of all checkpoints.
func (r *Report) summarize(checkpoints int, o Options) {
	switch {
	case o.PublicKey == nil || r.SignaturesTotal == 0:
	case r.SignaturesValid == checkpoints:
		r.SignatureStatus = SignatureVerified
	default:
		r.SignatureStatus = SignatureFailed
	}
}

// anchors checks that the published digests are in the chain. A file of anchors may hold
// those of several sessions. Anchors of other sessions are ignored, unless two of them
// contradict each other, or there is no anchor of this session.
func (r *Report) anchors(session string, list []Checkpoint, o Options) {
	r.reach.checkpoints = list
	others := 0
	left := fmt.Sprintf("only %d checkpoints are left", len(list))
	if len(list) == 1 {
		left = "only 1 checkpoint is left"
	}
	type place struct {
		session string
		index   int
	}
	published := map[place]string{}
	for _, a := range o.Anchors {
		at := fmt.Sprintf("anchor of checkpoint %d", a.Index)
		first, again := published[place{a.SessionID, a.Index}]
		published[place{a.SessionID, a.Index}] = a.Digest
		switch {
		case again && first != a.Digest:
			r.problem("anchor", at, "two digests of this checkpoint of session %s were published: the session was rewritten", a.SessionID)
		case a.SessionID != session:
			others++
		case a.Index > len(list):
			r.problem("truncated", at, "%s: the newer ones were removed", left)
		case list[a.Index-1].CheckpointDigest != a.Digest:
			r.problem("anchor", at, "the checkpoint has another digest: the chain was rewritten")
		default:
			r.AnchorsConfirmed++
			r.AnchoredUntil = max(r.AnchoredUntil, a.Index)
		}
	}
	switch {
	case others == 0:
	case others == len(o.Anchors):
		r.problem("anchor", "", "no anchor belongs to session %s; the first one is of session %s", session, o.Anchors[0].SessionID)
	case others == 1:
		r.note("anchors: 1 anchor of another session was ignored")
	default:
		r.note("anchors: %d anchors of other sessions were ignored", others)
	}
}

// A journalRecord is one line of a journal, which has the events and checkpoints of a
// session in JSON Lines.
type journalRecord struct {
	RecordType string          `json:"record_type"`
	Header     json.RawMessage `json:"header,omitempty"`
	Event      json.RawMessage `json:"event,omitempty"`
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"`
}

type journalHeader struct {
	Header
	SessionID string            `json:"session_id"`
	RunID     string            `json:"run_id"`
	StartedAt time.Time         `json:"started_at"`
	Events    []json.RawMessage `json:"events"` // always empty: events have their own records
}

// journal is the state of reading a journal.
type journal struct {
	report      *Report
	header      journalHeader
	begun       bool
	events      []SessionEvent
	checkpoints []Checkpoint
	last        int64 // sequence number of the last event
}

const maxJournalLine = 8 << 20

func (r *Report) journal(doc []byte, o Options) {
	j := journal{report: r}
	if !o.Compat && bytes.Contains(doc, []byte("\r")) {
		r.problem("journal", "", "it contains a carriage return; a line must end with a line feed alone")
		return
	}
	lines(doc, func(n int, line []byte) bool {
		r.Checked++
		if err := j.read(n, line, o); err != nil {
			r.problem("journal", fmt.Sprintf("line %d", n), "%v", err)
			return false
		}
		return true
	})
	if !j.begun && len(r.Problems) == 0 {
		r.unreadable("journal", "", "there is no header")
	}
	if len(r.Problems) > 0 {
		return
	}
	r.ID = j.header.SessionID
	r.links(j.checkpoints, j.header.SessionID, j.header.RunID, o)
	r.anchors(j.header.SessionID, j.checkpoints, o)
	if o.Compat {
		return
	}
	head := chain{Header: j.header.Header, SessionID: j.header.SessionID, RunID: j.header.RunID}
	if !j.header.StartedAt.Equal(j.header.CreatedAt) {
		// An export of this program writes the same time to started_at and created_at,
		// but the digest of the head does not cover started_at. If the times differ, one
		// of them was changed. Clearing created_at makes the check of the digest fail.
		head.CreatedAt = time.Time{}
	}
	for _, c := range j.checkpoints {
		first, found := slices.BinarySearchFunc(j.events, c.SequenceStart, func(e SessionEvent, n int64) int { return cmp.Compare(e.Sequence, n) })
		if last := first + int(c.SequenceEnd-c.SequenceStart); found && last >= first && last < len(j.events) {
			r.sealed(c, head, j.events[first:last+1], true, o)
		} else {
			r.compacted(c)
			r.sealed(c, head, nil, true, o)
		}
	}
	sealed := int64(0)
	if n := len(j.checkpoints); n > 0 {
		sealed = j.checkpoints[n-1].SequenceEnd
	}
	if j.last > sealed {
		r.note("events: no checkpoint covers the events at the end (number of events: %d), so a change of them may go unnoticed", j.last-sealed)
	}
	r.summarize(len(j.checkpoints), o)
}

// compacted reports that the events of a checkpoint are not in the journal. The reference
// implementation of Gait removes the events of checkpoints when it compacts a journal; this
// program keeps them.
func (r *Report) compacted(c Checkpoint) {
	if c.ours() {
		r.problem("events", fmt.Sprintf("checkpoint %d", c.Index), "events %d to %d were removed from the journal", c.SequenceStart, c.SequenceEnd)
		return
	}
	r.note("events: the journal has the checkpoint of events %d to %d, but not the events themselves", c.SequenceStart, c.SequenceEnd)
}

// read adds one line, which has the number n.
func (j *journal) read(n int, line []byte, o Options) error {
	if len(line) > maxJournalLine {
		return fmt.Errorf("it is longer than %d bytes", maxJournalLine)
	}
	var rec journalRecord
	if len(line) != len(bytes.TrimSpace(line)) && !o.Compat {
		return errors.New("there is white space around the record")
	}
	unknown, err := decode(line, &rec, o)
	switch {
	case err != nil:
		return err
	case len(unknown) > 0:
		return fmt.Errorf("the record has an unknown member %s", unknown[0])
	case !o.Compat && len(rec.Header)+len(rec.Event)+len(rec.Checkpoint) != len(rec.content()):
		return fmt.Errorf("the record has members that a record of the type %q does not have", rec.RecordType)
	}
	at := fmt.Sprintf("line %d", n)
	if rec.RecordType != "header" && !j.begun {
		return fmt.Errorf("a record of the type %q comes before the header", rec.RecordType)
	}
	switch rec.RecordType {
	case "header":
		return j.begin(at, rec.Header, o)
	case "event":
		return j.event(at, rec.Event, o)
	case "checkpoint":
		var c Checkpoint
		if unknown, err = decode(rec.Checkpoint, &c, o); err != nil {
			return err
		}
		j.report.uncovered(at, unknown)
		if c.SchemaID != checkpointSchema {
			return fmt.Errorf("schema_id is %q, which is not the schema of a checkpoint", c.SchemaID)
		}
		if len(j.events) > 0 && c.SequenceEnd > j.last {
			return fmt.Errorf("the checkpoint ends with event %d, which is not in a line before it", c.SequenceEnd)
		}
		j.last = max(j.last, c.SequenceEnd) // a compacted journal lacks the events that its checkpoints cover
		j.checkpoints = append(j.checkpoints, c)
		return nil
	}
	return fmt.Errorf("unknown record_type %q", rec.RecordType)
}

// content returns the member that belongs to the type of the record.
func (rec journalRecord) content() json.RawMessage {
	switch rec.RecordType {
	case "header":
		return rec.Header
	case "event":
		return rec.Event
	}
	return rec.Checkpoint
}

func (j *journal) begin(at string, doc json.RawMessage, o Options) error {
	if j.begun {
		return fmt.Errorf("a second header")
	}
	unknown, err := decode(doc, &j.header, o)
	if err != nil {
		return err
	}
	if !o.Compat && len(j.header.Events) > 0 {
		return fmt.Errorf("the header contains events; each event must be a record of its own")
	}
	j.report.uncovered(at, unknown)
	j.begun = true
	if j.header.SessionID == "" || j.header.RunID == "" {
		return fmt.Errorf("session_id and run_id are required")
	}
	return j.header.check(journalSchema)
}

func (j *journal) event(at string, doc json.RawMessage, o Options) error {
	var e SessionEvent
	unknown, err := decode(doc, &e, o)
	if err != nil {
		return err
	}
	j.report.uncovered(at, unknown)
	switch {
	case e.SchemaID != eventSchema:
		return fmt.Errorf("schema_id is %q, which is not the schema of an event", e.SchemaID)
	case e.Sequence != j.last+1:
		return fmt.Errorf("sequence is %d; want %d", e.Sequence, j.last+1)
	case !o.Compat && (e.SessionID != j.header.SessionID || e.RunID != j.header.RunID):
		return fmt.Errorf("the event belongs to another session or run")
	case !o.Compat && e.Verdict != "" && !gate.Verdict(e.Verdict).Valid():
		return fmt.Errorf("%q is not a verdict", e.Verdict)
	}
	j.last = e.Sequence
	j.events = append(j.events, e)
	return nil
}

// Source types of the Refs that bind a checkpoint's runpack to the ledger, to the head of
// the chain, and to all members of the checkpoint's events.
const (
	ledgerSource = "lifeloop.ledger"
	chainSource  = "lifeloop.chain"
	eventsSource = "lifeloop.events"
)

func ledgerLocator(session string) string { return "session:" + session }

// sealEvents makes the intents and results of a checkpoint's runpack. It computes their
// ids, digests and statuses as the reference implementation of Gait does.
func sealEvents(events []SessionEvent, run, producer string) (intents []Intent, results []Result, err error) {
	for i, e := range events {
		id := strings.TrimSpace(e.IntentID)
		if id == "" {
			id = fmt.Sprintf("intent_%d", i+1)
		}
		args := map[string]any{"session_id": e.SessionID, "sequence": e.Sequence, "trace_id": e.TraceID, "trace_path": e.TracePath}
		digest := e.IntentDigest
		if digest == "" {
			if digest, err = sign.Digest(args); err != nil {
				return nil, nil, err
			}
		}
		outcome := map[string]any{"verdict": e.Verdict, "reason_codes": e.ReasonCodes, "violations": e.Violations, "trace_id": e.TraceID, "trace_path": e.TracePath}
		resultDigest, err := sign.Digest(outcome)
		if err != nil {
			return nil, nil, err
		}
		status := "ok"
		if v := gate.Verdict(e.Verdict); v == gate.Block || v == gate.RequireApproval {
			status = "error"
		}
		in := Intent{Header{intentSchema, schemaVersion, e.CreatedAt, producer}, run, id, e.ToolName, digest, nil}
		res := Result{Header{resultSchema, schemaVersion, e.CreatedAt, producer}, run, id, status, resultDigest, nil}
		intents, results = append(intents, in), append(results, res)
	}
	return intents, results, nil
}
