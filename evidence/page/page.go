// Package page writes the history of one session as a single HTML file: its turns,
// the size of its context, its receipts, and the result of verifying its evidence.
//
// The file needs no script, no picture and no request. The same ledger gives the same
// bytes. The file shows ids, names, sizes, digests, numbers and times, as the ledger
// does, and no text of the session. What looks like a secret in a text that a user gave,
// such as the reason of a command or a value of --meta, is redacted. The package does not
// verify anything; the caller does.
//
//	p := page.New()
//	for entry := range entries {
//		p.Apply(entry)
//	}
//	html := p.HTML(page.Checked{Entries: n, Head: digest, Report: report})
package page

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lifeloop/evidence"
	"lifeloop/evidence/redact"
	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/view"
)

// maxRows is how many rows of a table are shown, half from its beginning and
// half from its end. A browser would need seconds for more.
const maxRows = 2000

// A Page is computed from the entries of one ledger.
type Page struct {
	status   view.Status
	begun    time.Time
	ended    time.Time
	timeline []row
	turns    []*turn
	byFrame  map[string]*turn
	byEvent  map[string]*turn
	points   []point
	marks    []mark
	receipts []receipt
	window   int64
}

// A row is one line of the timeline.
type row struct {
	Seq  uint64
	At   string // time since the session began
	What string
	Tone string // "", good, warn or bad
}

// A turn is one frame.
type turn struct {
	Number    int
	Frame     string
	Origin    string // what opened the frame: user, or the origin that the event names
	At        string
	Took      string
	Outcome   string
	Tokens    string // size of the context at the end of the frame
	Receipts  int
	Delivered int // number of payloads delivered

	began, ended time.Time
}

// A receipt is one line of the receipts.
type receipt struct {
	At, Client, Event, Status, Failure, Payloads, ID, Tone string
}

// Checked holds the results of the caller's verification of the session.
type Checked struct {
	Entries uint64 // number of the ledger's entries, which are linked by their digests
	Head    string // digest of the last entry of the ledger
	Torn    bool   // the last line of the ledger is unfinished, as after a crash
	Report  evidence.Report
}

// New returns a page of a session without entries.
func New() *Page { return &Page{byFrame: map[string]*turn{}, byEvent: map[string]*turn{}} }

// Apply adds one entry.
func (p *Page) Apply(e kernel.Entry) {
	if p.begun.IsZero() {
		p.begun = e.At
	}
	p.ended = e.At
	p.status.Apply(e)
	switch f := e.Fact.(type) {
	case kernel.Observed:
		p.observed(e, f)
	case kernel.ContextMeasured:
		p.measured(e.At, f)
	case kernel.ReceiptIssued:
		p.receipt(e.At, f)
	case kernel.Launching:
		if f.Cause == "renewal" {
			p.mark(e.At, "renewal")
		}
	}
	if what, tone := words(e.Fact); what != "" {
		p.timeline = append(p.timeline, row{e.Seq, p.after(e.At), what, tone})
	}
}

// after returns a time as the page shows it: the time since the session began.
func (p *Page) after(at time.Time) string {
	d := max(at.Sub(p.begun), 0).Round(time.Millisecond)
	return fmt.Sprintf("%02d:%02d:%06.3f", int(d.Hours()), int(d.Minutes())%60, (d % time.Minute).Seconds())
}

// took returns how long the session has lasted.
func (p *Page) took() string {
	d := p.ended.Sub(p.begun)
	if d < time.Minute {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// observed adds an event of a frame, or the mark of a compaction.
func (p *Page) observed(e kernel.Entry, f kernel.Observed) {
	r := f.Record
	if r.Event == lifeloop.ContextCompacted {
		p.mark(e.At, "compaction")
	}
	if r.FrameContext == nil || !r.Event.Frame() {
		return
	}
	id := r.FrameContext.FrameID
	t := p.byFrame[id]
	if t == nil {
		t = &turn{Number: len(p.turns) + 1, Frame: id, At: p.after(e.At), Origin: "user", Outcome: "open", began: e.At}
		p.byFrame[id] = t
		p.turns = append(p.turns, t)
	}
	p.byEvent[r.EventID] = t
	if origin, ok := r.Data["origin"].(string); ok {
		t.Origin = origin
	}
	if r.Event != lifeloop.FrameEnded {
		return
	}
	t.ended, t.Took = e.At, e.At.Sub(t.began).Round(time.Millisecond).String()
	if outcome, ok := r.Data["outcome"].(string); ok {
		t.Outcome = outcome
	}
	if class, ok := r.Data["failure_class"].(string); ok {
		t.Outcome += ", " + class
	}
}

// receipt adds a receipt, and counts it for its turn.
func (p *Page) receipt(at time.Time, f kernel.ReceiptIssued) {
	r := f.Receipt
	line := receipt{At: p.after(at), Client: r.ClientID, Event: string(r.Event), Status: string(r.Status), ID: r.ReceiptID}
	switch r.Status {
	case lifeloop.Failed:
		line.Tone = "bad"
	case lifeloop.Degraded, lifeloop.Skipped:
		line.Tone = "warn"
	case lifeloop.Delivered:
		line.Tone = "good"
	}
	if r.FailureClass != nil {
		line.Failure = string(*r.FailureClass)
	}
	delivered := 0
	var payloads []string
	for _, one := range r.PayloadReceipts {
		payloads = append(payloads, fmt.Sprintf("%s, %s: %s (%s bytes)", one.PayloadKind, one.Placement, one.Status, grouped(one.ByteSize)))
		if one.Status == lifeloop.Delivered {
			delivered++
		}
	}
	line.Payloads = strings.Join(payloads, "; ")
	switch {
	case f.Replay:
		line.Status += " (again)"
	case p.byEvent[r.EventID] != nil:
		t := p.byEvent[r.EventID]
		t.Receipts++
		t.Delivered += delivered
	}
	p.receipts = append(p.receipts, line)
}

// A table holds the rows of a list that are shown, and how many are left out.
type table[T any] struct {
	Rows, End []T
	Left      int
}

// shown leaves out the middle of a long list.
func shown[T any](list []T) table[T] {
	if len(list) <= maxRows {
		return table[T]{Rows: list}
	}
	half := maxRows / 2
	return table[T]{Rows: list[:half], End: list[len(list)-half:], Left: len(list) - maxRows}
}

// redacted returns a copy of a table in which a mark replaces each probable secret.
func redacted(secrets *redact.Redactor, t table[row]) table[row] {
	for _, rows := range []*[]row{&t.Rows, &t.End} {
		*rows = slices.Clone(*rows)
		for i := range *rows {
			(*rows)[i].What = secrets.Text((*rows)[i].What)
		}
	}
	return t
}

// A member is one line at the top of the page: a name and its value.
type member struct{ Name, Value string }

// model holds what the page shows.
type model struct {
	Title, State, Tone string
	Head               []member
	Timeline           table[row]
	Turns              table[*turn]
	Receipts           table[receipt]
	Chart              *chart
}

func (p *Page) model() model {
	secrets := redact.New()
	for _, t := range p.turns {
		if !t.ended.IsZero() {
			t.Tokens = p.tokensAt(t.ended)
		}
	}
	s := p.status
	m := model{Title: s.SessionID, State: s.State, Chart: p.chart(),
		Timeline: redacted(secrets, shown(p.timeline)), Turns: shown(p.turns), Receipts: shown(p.receipts)}
	switch s.State {
	case "COMPLETED":
		m.Tone = "good"
	case "FAILED", "REJECTED", "ABORTED":
		m.Tone = "bad"
	}
	add := func(name, value string) {
		if value != "" {
			m.Head = append(m.Head, member{name, secrets.Value(name, value)})
		}
	}
	add("state", s.State+" ("+view.ReasonText(s.StateReason)+")")
	program := s.Program + ", adapter " + s.AdapterID
	if s.HarnessVersion != nil {
		program += ", version " + *s.HarnessVersion
	}
	add("harness", program)
	add("folder", s.WorkDir)
	for name, value := range sorted(s.Meta) {
		add("meta "+name, value)
	}
	add("began", p.begun.UTC().Format(time.RFC3339))
	add("took", p.took())
	turns := fmt.Sprint(s.Turns)
	if s.TurnsOther > 0 {
		turns += fmt.Sprintf(", and %d that the harness opened by itself", s.TurnsOther)
	}
	add("turns", turns)
	if s.Usage.Main.Calls > 0 {
		add("model calls", fmt.Sprintf("%d, with %s tokens of input and %s of output", s.Usage.Main.Calls, grouped(s.Usage.Main.Input+s.Usage.Main.CacheRead+s.Usage.Main.CacheWrite), grouped(s.Usage.Main.Output)))
	}
	if r := s.Renewals; r != nil {
		add("renewals", fmt.Sprint(r.Count))
	}
	return m
}
