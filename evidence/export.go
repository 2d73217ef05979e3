package evidence

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"lifeloop/evidence/sign"
	"lifeloop/gate"
	"lifeloop/kernel"
	"lifeloop/renewal"
	"lifeloop/session"
)

// A checkpoint covers the events since the previous one. It is written at each
// launch of a harness, at each delivery, at the end of the session, and when
// one of these limits is reached.
const (
	sealEvery = 64               // events
	sealAfter = 10 * time.Minute // measured by the times of the ledger's entries
)

// An Export computes evidence from the ledger of one session. It must be given all
// entries in order; the same entries give the same bytes.
//
// The events of its journal are the acts that this program decides on: launches and
// renewals of the harness, deliveries of payloads and, under a policy, the harness's
// tool calls. Without a policy the events have no verdict (DECISIONS G2).
//
//	x := evidence.NewExport()
//	for entry := range entries {
//		x.Apply(entry.Entry, entry.Digest)
//	}
//	files, err := x.Chain(key)
type Export struct {
	began    kernel.Began
	at, last time.Time // the times of the first and the last entry
	head     ledgerHead
	reason   string
	codes    map[string]string // the codes that replace the reasons that a user wrote; the keys are those reasons
	answered bool              // a user gave a reason for an approval or a denial
	ended    bool

	events   []SessionEvent
	outcomes map[string]outcome // the results of acts, by intent id
	waiting  map[string]string  // intent ids of acts, by the key that settle uses for their results
	run      string             // id of a launch that is recorded before its decision; empty after the decision
	asked    map[string]kernel.GateAsked
	seals    []seal
	anchored Checkpoint // the last checkpoint whose anchor NextAnchor returned
	timeline []Timeline
	receipts []Ref
	traces   map[string]gate.Trace // decisions, by the name of the file that Traces returns
	moves    []move
}

// A ledgerHead is the last entry of a prefix of the ledger.
type ledgerHead struct {
	seq    uint64
	digest string
}

// A seal is a checkpoint to be written: it covers the events up to end, and has the
// time and the head of the ledger at that point.
type seal struct {
	end  int64
	at   time.Time
	head ledgerHead
}

// An outcome is the result of an act.
type outcome struct {
	OK     bool   `json:"ok"`
	Status string `json:"status"`
	Code   int    `json:"code"`
	Signal int    `json:"signal"`
}

type move struct {
	at     time.Time
	to     session.State
	reason string
}

// NewExport returns an export that has seen no entry.
func NewExport() *Export {
	return &Export{codes: map[string]string{}, outcomes: map[string]outcome{}, waiting: map[string]string{}, traces: map[string]gate.Trace{}, asked: map[string]kernel.GateAsked{}}
}

// Apply adds one entry of the ledger; digest is that entry's digest.
func (x *Export) Apply(e kernel.Entry, digest string) {
	if x.at.IsZero() {
		x.at = e.At
	}
	if n := len(x.events); x.unsealed() > 0 && e.At.Sub(x.events[n-int(x.unsealed())].CreatedAt) >= sealAfter {
		x.seal(x.last)
	}
	x.last, x.head = e.At, ledgerHead{e.Seq, strings.TrimPrefix(digest, "sha256:")}
	switch f := e.Fact.(type) {
	case kernel.Began:
		x.began = f
	case kernel.GateAsked:
		x.asked[f.Ask] = f
	case kernel.GateAnswered:
		x.judged(e, f)
	case kernel.Launching:
		// Under a policy, the event comes from the gate's decision. This entry only
		// adds the id of the launch.
		if x.guarded() {
			x.launching(f.Run)
			break
		}
		tool := gate.ActLaunch
		if f.Cause == "renewal" {
			tool = gate.ActRenew
		}
		x.act(e, 0, tool, "launch:"+f.Run)
	case kernel.Running:
		x.seal(e.At)
	case kernel.Exited:
		x.settle("launch:"+f.Run, outcome{f.Code == 0 && f.Signal == 0 && !f.Lost && !f.NotStarted, "exited", f.Code, f.Signal})
	case kernel.Placing:
		for i, item := range f.Items {
			// Under a policy, the event comes from the gate's decision.
			if !x.guarded() {
				x.act(e, i, gate.ActInject, payloadKey(item.Call, item.Index))
			}
		}
		x.seal(e.At)
	case kernel.PayloadSettled:
		x.settle(payloadKey(f.Call, f.Index), outcome{OK: f.Status == "delivered", Status: string(f.Status)})
	case kernel.RenewalMoved:
		if f.To.Over() {
			x.settle("renewal:"+f.Renewal, outcome{OK: f.To == renewal.Delivered, Status: string(f.To)})
		}
	case kernel.SessionMoved:
		x.ended, x.reason = f.To.Terminal(), x.reasonCode(f.To, f.Reason)
		x.moves = append(x.moves, move{e.At, f.To, x.reason})
		if x.ended {
			x.seal(e.At)
		}
	case kernel.AbortRequested:
		x.codes[f.Reason] = "abort_requested"
	case kernel.PauseRequested:
		x.codes[f.Reason] = "pause_requested"
	case kernel.ResumeRequested:
		x.codes[f.Reason] = "resume_requested"
	case kernel.ApprovalAnswered:
		x.answered = x.answered || f.Reason != ""
	case kernel.ReceiptIssued:
		x.receipt(e, f)
	case kernel.TranscriptCopied:
		x.transcript(e, f)
	}
	x.happened(e)
	if x.unsealed() >= sealEvery {
		x.seal(e.At)
	}
}

func payloadKey(call string, index int) string { return fmt.Sprintf("payload:%s:%d", call, index) }

// act adds one event of the journal.
func (x *Export) act(e kernel.Entry, index int, tool, key string) {
	id := fmt.Sprintf("act_%06d_%02d", e.Seq, index)
	x.waiting[key] = id
	x.events = append(x.events, SessionEvent{
		Header:    x.header(eventSchema, e.At),
		SessionID: x.began.SessionID, RunID: x.runID(), Sequence: int64(len(x.events)) + 1,
		IntentID: id, ToolName: tool,
	})
}

func (x *Export) settle(key string, o outcome) {
	if id, known := x.waiting[key]; known {
		x.outcomes[id] = o
	}
}

func (x *Export) unsealed() int64 {
	if n := len(x.seals); n > 0 {
		return int64(len(x.events)) - x.seals[n-1].end
	}
	return int64(len(x.events))
}

// seal adds a checkpoint if there is an event after the last checkpoint.
func (x *Export) seal(at time.Time) {
	if x.unsealed() > 0 {
		x.seals = append(x.seals, seal{int64(len(x.events)), at, x.head})
	}
}

// stateRef is the prefix of a Timeline.Ref that names a state of the session.
const stateRef = "state:"

// happened adds an entry of the ledger to the timeline, if the timeline shows that kind
// of fact.
func (x *Export) happened(e kernel.Entry) {
	ref := ""
	switch f := e.Fact.(type) {
	case kernel.Began:
		ref = "session:" + f.SessionID
	case kernel.SessionMoved:
		ref = stateRef + string(f.To)
	case kernel.Launching:
		ref = "launch:" + f.Run
	case kernel.Running:
		ref = "launch:" + f.Run
	case kernel.Exited:
		ref = "launch:" + f.Run
	case kernel.HarnessSessionOpened:
		ref = "harness_session:" + f.ID
	case kernel.Bound:
		ref = "harness_session:" + f.ID
	case kernel.Observed:
		ref = "event:" + string(f.Record.Event)
	case kernel.Placing:
		ref = "slot:" + f.Slot
	case kernel.ApprovalAnswered:
		ref = "intent:" + f.Intent
	case kernel.AbortRequested:
	default:
		return
	}
	x.timeline = append(x.timeline, Timeline{Event: kernel.Kind(e.Fact), TS: e.At, Ref: ref})
}

func (x *Export) receipt(e kernel.Entry, f kernel.ReceiptIssued) {
	doc, err := json.Marshal(f.Receipt)
	if err != nil || f.Replay {
		return // a receipt that was issued again is listed once
	}
	content, err := sign.Digest(json.RawMessage(doc))
	if err != nil {
		return
	}
	id := f.Receipt.ReceiptID
	x.receipts = append(x.receipts, Ref{RefID: fmt.Sprintf("receipt_%08d", e.Seq), SourceType: "lifeloop.receipt", SourceLocator: "receipt:" + id,
		QueryDigest: sign.Sum([]byte(id)), ContentDigest: content, RetrievedAt: e.At, RedactionMode: Reference, Immutability: "immutable"})
}

// transcript adds a reference to the copy of a transcript, with the digest of the copy.
// The evidence does not contain the copy, but a user can pass on both. A later copy of
// the same transcript replaces the file, so only the last one is listed.
func (x *Export) transcript(e kernel.Entry, f kernel.TranscriptCopied) {
	if digest, ok := strings.CutPrefix(f.Digest, "sha256:"); ok {
		locator := "transcript:" + f.File
		x.receipts = slices.DeleteFunc(x.receipts, func(r Ref) bool { return r.SourceLocator == locator })
		x.receipts = append(x.receipts, Ref{RefID: fmt.Sprintf("transcript_%08d", e.Seq), SourceType: "harness.transcript", SourceLocator: locator,
			QueryDigest: sign.Sum([]byte(f.File)), ContentDigest: digest, RetrievedAt: e.At, RedactionMode: Reference, Immutability: "immutable"})
	}
}

// producer returns the program's name with the version that wrote the ledger, and not with
// the version that runs, so that every version exports the same bytes.
func (x *Export) producer() string { return producerName + x.began.Version }

// inID reports whether an id may contain r.
func inID(r rune) bool {
	return r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

// idOf returns a session's id with an underscore for each character that an id may
// not contain.
func idOf(id string) string {
	return strings.Map(func(r rune) rune {
		if inID(r) {
			return r
		}
		return '_'
	}, id)
}

func (x *Export) runID() string { return "run_" + idOf(x.began.SessionID) }

func (x *Export) header(schema string, at time.Time) Header {
	return Header{schema, schemaVersion, at.UTC(), x.producer()}
}
