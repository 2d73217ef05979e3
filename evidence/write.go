package evidence

import (
	"archive/zip"
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"lifeloop/canon"
	"lifeloop/evidence/redact"
	"lifeloop/evidence/sign"
	"lifeloop/session"
)

// Names of two of the files that Chain returns; the others are runpacks.
const (
	JournalFile = "journal.jsonl"
	ChainFile   = "journal_chain.json"
)

// epoch returns the time of every entry of an archive, and of a pack's manifest.
func epoch() time.Time { return time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC) }

// writeArchive packs files in the order of their names. The files are not compressed, so
// that the bytes do not depend on the version of a compressor. writeArchive refuses files
// that a verifier would refuse as too large.
func writeArchive(files map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	total := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		size := len(files[name])
		total += size
		switch {
		case size > maxEntry:
			return nil, fmt.Errorf("the session is too long for one archive: %s has %d bytes; the limit is %d", name, size, maxEntry)
		case total > maxTotal:
			return nil, fmt.Errorf("the session is too long for one archive: its files have more than %d bytes", maxTotal)
		}
		if path.Ext(name) == ".json" {
			if err := checkSize(files[name]); err != nil {
				return nil, fmt.Errorf("the session is too long for one archive: %s: %w", name, err)
			}
		}
		if err := addEntry(w, name, zip.Store, files[name]); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// jsonLines writes one canonical record on each line.
func jsonLines[T any](records []T) ([]byte, error) {
	var out []byte
	for _, r := range records {
		line, err := canon.Marshal(r)
		if err != nil {
			return nil, err
		}
		out = append(append(out, line...), '\n')
	}
	return out, nil
}

// A content holds the parts of a runpack.
type content struct {
	run     Run
	intents []Intent
	results []Result
	refs    Refs
	mode    string
}

// writeRunpack writes a runpack, signed if there is a key, and returns its
// manifest's digest.
func writeRunpack(c content, at time.Time, key ed25519.PrivateKey) (data []byte, digest string, err error) {
	files := map[string][]byte{}
	if files[runFile], err = canon.Marshal(c.run); err != nil {
		return nil, "", err
	}
	if files[refsFile], err = canon.Marshal(c.refs); err != nil {
		return nil, "", err
	}
	if files[intentsFile], err = jsonLines(c.intents); err != nil {
		return nil, "", err
	}
	if files[resultsFile], err = jsonLines(c.results); err != nil {
		return nil, "", err
	}
	m := manifest{Header: Header{manifestSchema, schemaVersion, at.UTC(), c.run.ProducerVersion}, RunID: c.run.RunID, CaptureMode: c.mode}
	for _, name := range runpackFiles {
		m.Files = append(m.Files, manifestEntry{name, sign.Sum(files[name])})
	}
	if m.ManifestDigest, err = m.digest(); err != nil {
		return nil, "", err
	}
	if m.Signatures, err = signManifest(m, key); err != nil {
		return nil, "", err
	}
	if files[manifestFile], err = canon.Marshal(m); err != nil {
		return nil, "", err
	}
	data, err = writeArchive(files)
	return data, m.ManifestDigest, err
}

// signManifest signs a manifest that has no signature yet.
func signManifest(unsigned any, key ed25519.PrivateKey) ([]sign.Signature, error) {
	if key == nil {
		return nil, nil
	}
	digest, err := sign.Digest(unsigned)
	if err != nil {
		return nil, err
	}
	s, err := sign.Sign(key, digest)
	return []sign.Signature{s}, err
}

func (x *Export) refs(run string, at time.Time, list []Ref) Refs {
	list = append([]Ref{}, list...)
	slices.SortFunc(list, func(a, b Ref) int { return bytes.Compare([]byte(a.RefID), []byte(b.RefID)) })
	return Refs{Header: x.header(refsSchema, at), RunID: run, Receipts: list}
}

// ledgerRef returns the Ref that binds a runpack to the ledger. The Ref has the digest of
// one entry, which covers all earlier entries.
func (x *Export) ledgerRef(h ledgerHead, at time.Time) (Ref, error) {
	query, err := sign.Digest(map[string]any{"seq": h.seq})
	return Ref{RefID: "ledger", SourceType: ledgerSource, SourceLocator: ledgerLocator(x.began.SessionID),
		QueryDigest: query, ContentDigest: h.digest, RetrievedAt: at.UTC(), RedactionMode: Reference, Immutability: "immutable"}, err
}

// chainRef returns the Ref with the digest of the chain's head: the members outside its
// checkpoints, which the header of the journal has too. No other digest in the format
// covers these members.
func chainRef(c chain, at time.Time) (Ref, error) {
	c.Checkpoints, c.Relationship, c.SchemaID = nil, nil, chainSchema
	digest, err := sign.Digest(c)
	return Ref{RefID: "chain", SourceType: chainSource, SourceLocator: ledgerLocator(c.SessionID),
		QueryDigest: sign.Sum([]byte(c.SessionID)), ContentDigest: digest, RetrievedAt: at.UTC(), RedactionMode: Reference, Immutability: "immutable"}, err
}

// eventsRef returns the Ref with the digest of a checkpoint's events. It is needed because
// the intents and results lack some members of the events, such as matched_rule_ids.
func eventsRef(events []SessionEvent, at time.Time) (Ref, error) {
	text, err := jsonLines(events)
	first, last := events[0], events[len(events)-1]
	query := fmt.Sprintf("%d:%d", first.Sequence, last.Sequence)
	return Ref{RefID: "events", SourceType: eventsSource, SourceLocator: ledgerLocator(first.SessionID),
		QueryDigest: sign.Sum([]byte(query)), ContentDigest: sign.Sum(text), RetrievedAt: at.UTC(), RedactionMode: Reference, Immutability: "immutable"}, err
}

func (x *Export) env() Env {
	// The ledger does not contain the platform, and the same ledger must give the
	// same bytes on every machine.
	return Env{OS: "unknown", Arch: "unknown", Runtime: "lifeloop-wrap"}
}

// Errors of a ledger that is too short: a verifier would refuse evidence made from it.
var (
	ErrNotBegun     = errors.New("the ledger does not contain the beginning of the session")
	ErrNoCheckpoint = errors.New("the session has no checkpoint; the first checkpoint is made when the harness has started")
)

// begun returns ErrNotBegun if there is no session to write evidence of.
func (x *Export) begun() error {
	if x.began.SessionID == "" {
		return ErrNotBegun
	}
	return nil
}

// Chain returns the journal, the chain and a runpack for each checkpoint, by file
// name.
func (x *Export) Chain(key ed25519.PrivateKey) (map[string][]byte, error) {
	if err := x.begun(); err != nil {
		return nil, err
	}
	if len(x.seals) == 0 {
		return nil, ErrNoCheckpoint
	}
	head, previous := x.chainHead(), ""
	files := map[string][]byte{}
	records := []journalRecord{}
	add := func(kind string, v any) error {
		doc, err := canon.Marshal(v)
		r := journalRecord{RecordType: kind}
		switch kind {
		case "header":
			r.Header = doc
		case "event":
			r.Event = doc
		default:
			r.Checkpoint = doc
		}
		records = append(records, r)
		return err
	}
	err := add("header", journalHeader{Header: x.header(journalSchema, x.at), SessionID: head.SessionID, RunID: head.RunID, StartedAt: x.at.UTC(), Events: []json.RawMessage{}})
	if err != nil {
		return nil, err
	}
	from := int64(0)
	for i, s := range x.seals {
		cp, data, err := x.checkpoint(head, previous, i+1, from, s, key)
		if err != nil {
			return nil, err
		}
		for _, e := range x.events[from:s.end] {
			if err := add("event", e); err != nil {
				return nil, err
			}
		}
		if err := add("checkpoint", cp); err != nil {
			return nil, err
		}
		from, previous = s.end, cp.CheckpointDigest
		files[cp.RunpackPath] = data
		head.Checkpoints = append(head.Checkpoints, cp)
	}
	for _, e := range x.events[from:] {
		if err := add("event", e); err != nil {
			return nil, err
		}
	}
	if files[JournalFile], err = jsonLines(records); err != nil {
		return nil, err
	}
	if files[ChainFile], err = canon.Marshal(head); err == nil {
		err = checkSize(files[ChainFile])
	}
	return files, err
}

// chainHead is the chain without its checkpoints.
func (x *Export) chainHead() chain {
	return chain{Header: x.header(chainSchema, x.at), SessionID: x.began.SessionID, RunID: x.runID(), Checkpoints: []Checkpoint{}}
}

// checkpoint seals the events after from. previous is the digest of the checkpoint before
// it, or empty.
func (x *Export) checkpoint(head chain, previous string, index int, from int64, s seal, key ed25519.PrivateKey) (cp Checkpoint, data []byte, err error) {
	cp = Checkpoint{Header: x.header(checkpointSchema, s.at), SessionID: head.SessionID, RunID: head.RunID, Index: index,
		SequenceStart: from + 1, SequenceEnd: s.end, RunpackPath: runpackName(index), PrevCheckpointDigest: previous}
	run := fmt.Sprintf("%s_cp_%04d", head.RunID, index)
	c := content{run: Run{Header: x.header(runSchema, s.at), RunID: run, Env: x.env()}, mode: Reference}
	for _, e := range x.events[from:s.end] {
		c.run.Timeline = append(c.run.Timeline, Timeline{Event: "session_event", TS: e.CreatedAt, Ref: e.TraceID})
	}
	c.run.Timeline = append(c.run.Timeline, Timeline{Event: "session_checkpoint_emitted", TS: s.at.UTC(), Ref: fmt.Sprintf("checkpoint:%d", index)})
	if c.intents, c.results, err = sealEvents(x.events[from:s.end], run, x.producer()); err != nil {
		return cp, nil, err
	}
	ledgerRef, err := x.ledgerRef(s.head, s.at)
	if err != nil {
		return cp, nil, err
	}
	sealed, err := chainRef(head, s.at)
	if err != nil {
		return cp, nil, err
	}
	events, err := eventsRef(x.events[from:s.end], s.at)
	if err != nil {
		return cp, nil, err
	}
	c.refs = x.refs(run, s.at, []Ref{ledgerRef, sealed, events})
	data, cp.ManifestDigest, err = writeRunpack(c, s.at, key)
	cp.CheckpointDigest = cp.digest()
	return cp, data, err
}

// Runpack writes one runpack of the whole session so far: the session's acts with their
// results, its timeline, and Refs to its receipts, its copied transcripts and its ledger.
// If raw is set, the runpack also contains the values of acts and results, not only their
// digests.
func (x *Export) Runpack(key ed25519.PrivateKey, raw bool) ([]byte, error) {
	_, data, _, err := x.runpack(key, raw)
	return data, err
}

func (x *Export) runpack(key ed25519.PrivateKey, raw bool) (c content, data []byte, digest string, err error) {
	if err := x.begun(); err != nil {
		return c, nil, "", err
	}
	run := x.runID()
	c = content{run: Run{Header: x.header(runSchema, x.last), RunID: run, Env: x.env(), Timeline: append([]Timeline{}, x.timeline...)}, mode: Reference}
	var secrets *redact.Redactor
	if raw {
		c.mode, secrets = Raw, redact.New()
	}
	for _, e := range x.events {
		args := map[string]any{"session_id": e.SessionID, "sequence": e.Sequence, "trace_id": e.TraceID, "trace_path": e.TracePath}
		o, known := x.outcomes[e.IntentID]
		if !known {
			o = outcome{Status: "unknown"}
		}
		in := Intent{Header: Header{intentSchema, schemaVersion, e.CreatedAt, e.ProducerVersion}, RunID: run, IntentID: e.IntentID, ToolName: e.ToolName}
		res := Result{Header: Header{resultSchema, schemaVersion, e.CreatedAt, e.ProducerVersion}, RunID: run, IntentID: e.IntentID, Status: "error"}
		if o.OK {
			res.Status = "ok"
		}
		if in.ArgsDigest, in.Args, err = captured(args, secrets); err != nil {
			return c, nil, "", err
		}
		if res.ResultDigest, res.Result, err = captured(o, secrets); err != nil {
			return c, nil, "", err
		}
		c.intents, c.results = append(c.intents, in), append(c.results, res)
	}
	ref, err := x.ledgerRef(x.head, x.last)
	if err != nil {
		return c, nil, "", err
	}
	c.refs = x.refs(run, x.last, append([]Ref{ref}, x.receipts...))
	data, digest, err = writeRunpack(c, x.last, key)
	return c, data, digest, err
}

// captured returns the digest of a value. With a redactor it returns the value too, with
// marks in the place of secrets; the digest is then that of the redacted value, since
// verifiers compare the two.
func captured(v any, raw *redact.Redactor) (digest string, value json.RawMessage, err error) {
	doc, err := canon.Marshal(v)
	if raw != nil && err == nil {
		doc, err = canon.Transform([]byte(raw.Text(string(doc))))
		value = doc
	}
	return sign.Sum(doc), value, err
}

// RunPack wraps the runpack of the session in a pack: an archive with its own manifest.
func (x *Export) RunPack(key ed25519.PrivateKey, raw bool) ([]byte, error) {
	c, data, digest, err := x.runpack(key, raw)
	if err != nil {
		return nil, err
	}
	payload, err := canon.Marshal(runPayload{SchemaID: packRunSchema, SchemaVersion: schemaVersion, CreatedAt: x.last.UTC(), RunID: c.run.RunID, CaptureMode: c.mode,
		ManifestDigest: digest, IntentsCount: len(c.intents), ResultsCount: len(c.results), RefsCount: len(c.refs.Receipts)})
	if err != nil {
		return nil, err
	}
	return x.pack("run", c.run.RunID, map[string][]byte{runPayloadFile: payload, nestedRunpack: data}, key)
}

// reasonCode removes the user's text, which may contain a secret, from the reason of a
// move to a state. A code replaces the whole reason, or the user's text is cut off. Only
// the reasons of moves to the states below can contain a user's text.
func (x *Export) reasonCode(to session.State, reason string) string {
	switch to {
	case session.Paused, session.Running, session.Aborting, session.Aborted:
		if code, ok := x.codes[reason]; ok && reason != "" {
			return code
		}
	case session.Rejected:
		if x.answered {
			reason, _, _ = strings.Cut(reason, "; the user's reason: ") // package kernel writes these words before the user's reason
		}
	}
	return reason
}

// jobMove returns the status and the event of a job for a state of the session.
func jobMove(s session.State) (status PackStatus, event string) {
	switch s {
	case session.Pending:
		return JobRunning, "submitted"
	case session.Running:
		return JobRunning, "started"
	case session.Paused:
		return JobPaused, "paused"
	case session.Aborting:
		return JobRunning, "cancel_requested"
	case session.Aborted:
		return JobCancelled, "cancelled"
	case session.Rejected:
		return JobBlocked, "blocked"
	case session.Completed:
		return JobCompleted, "completed"
	case session.Failed:
		return JobStopped, "stopped"
	}
	return "", ""
}

// JobPack describes the session as a job: its states and checkpoints.
func (x *Export) JobPack(key ed25519.PrivateKey) ([]byte, error) {
	if err := x.begun(); err != nil {
		return nil, err
	}
	id := "job_" + idOf(x.began.SessionID)
	facts := jobFacts{JobID: id, Status: string(JobRunning), StopReason: "none", StatusReasonCode: "submitted", EnvironmentFingerprint: "unknown"}
	events := []jobEvent{}
	for i, m := range x.moves {
		status, event := jobMove(m.to)
		facts.Status, facts.StatusReasonCode = string(status), m.reason
		events = append(events, jobEvent{SchemaID: jobEventSchema, SchemaVersion: schemaVersion, CreatedAt: m.at.UTC(), JobID: id, Revision: i + 1, Type: event, ReasonCode: m.reason})
	}
	if x.ended {
		facts.StopReason = x.reason
	}
	state := jobState{Header: x.header(jobStateSchema, x.at), UpdatedAt: x.last.UTC(), jobFacts: facts, Revision: len(events), Checkpoints: []jobCheckpoint{}}
	for i, s := range x.seals {
		state.Checkpoints = append(state.Checkpoints, jobCheckpoint{CheckpointID: fmt.Sprintf("cp_%04d", i+1), CreatedAt: s.at.UTC(), Type: "progress",
			Summary: fmt.Sprintf("events up to %d are sealed", s.end), ReasonCode: "checkpoint_sealed"})
	}
	payload := jobPayload{SchemaID: packJobSchema, SchemaVersion: schemaVersion, CreatedAt: x.at.UTC(), jobFacts: facts, CheckpointCount: len(state.Checkpoints)}
	files := map[string][]byte{}
	var err error
	if files[jobPayloadFile], err = canon.Marshal(payload); err != nil {
		return nil, err
	}
	if files[jobStateFile], err = canon.Marshal(state); err != nil {
		return nil, err
	}
	if files[jobEventsFile], err = jsonLines(events); err != nil {
		return nil, err
	}
	return x.pack("job", id, files, key)
}

// pack writes a pack: an archive with the given files, a proof record with the digest of
// each file (see proof), and a manifest.
func (x *Export) pack(kind, source string, files map[string][]byte, key ed25519.PrivateKey) ([]byte, error) {
	m := packManifest{Header: x.header(packManifestSchema, epoch()), PackType: kind, SourceRef: source}
	var err error
	if files[proofsFile], err = writeProofs(m, files, key); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		m.Contents = append(m.Contents, packEntry{name, sign.Sum(files[name]), entryType(name)})
	}
	if m.PackID, err = m.id(); err != nil {
		return nil, err
	}
	if m.Signatures, err = signManifest(m, key); err != nil {
		return nil, err
	}
	if files[packManifestFile], err = canon.Marshal(m); err != nil {
		return nil, err
	}
	return writeArchive(files)
}

// NextAnchor returns the anchor of the oldest checkpoint whose anchor it has not returned
// before. The anchor is to be published where the producer cannot change or remove it.
// NextAnchor needs no key, because a checkpoint's digest does not cover signatures. It
// makes only the new checkpoint, so it is fast enough to be called after each Apply.
func (x *Export) NextAnchor() (a Anchor, ok bool, err error) {
	n := x.anchored.Index
	if n >= len(x.seals) {
		return a, false, nil
	}
	from := int64(0)
	if n > 0 {
		from = x.seals[n-1].end
	}
	cp, _, err := x.checkpoint(x.chainHead(), x.anchored.CheckpointDigest, n+1, from, x.seals[n], nil)
	if err != nil {
		return a, false, err
	}
	x.anchored = cp
	return Anchor{SessionID: cp.SessionID, Index: cp.Index, Digest: cp.CheckpointDigest}, true, nil
}
