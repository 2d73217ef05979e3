package view

import (
	"fmt"
	"slices"
	"time"

	"lifeloop/kernel"
	"lifeloop/lifeloop"
)

// A Why is the chain of evidence behind one event. Feed it every entry of the
// ledger, in order; [Why.Found] says whether the event was among them.
type Why struct {
	id string

	// Event is the event itself, its own evidence within it.
	Event *lifeloop.EventRecord `json:"event"`
	// Session is how its harness session came to be, and by what its id is
	// known: each bind, rebind and refusal up to the event.
	Session []Link `json:"session"`
	// Frame is what was told of its frame before it, and by whom.
	Frame []Link `json:"frame"`
	// Sources are the files and hooks behind its evidence: who named them, how
	// far they were read when it was told, and what was wrong with them.
	Sources []Link `json:"sources"`
	// Activity is what the harness seemed to be doing, and by how many witnesses.
	Activity []Link `json:"activity"`
	// Told is what became of it: whom it was told, and what they answered.
	Told []Link `json:"told"`

	scope    int
	calls    map[string]string // of this event: call → client
	behind   map[string]bool   // sources of its evidence whose cursor may follow it
	sessions map[int][]Link
	frames   map[string][]Link
	sources  map[string]sourceLinks
	named    []Link
	activity []Link
}

// A Link is one fact of the chain.
type Link struct {
	Seq  uint64    `json:"seq"` // its number in the ledger
	At   time.Time `json:"at"`
	Fact string    `json:"fact"` // its kind, or the event that it told
	Says string    `json:"says"`
}

// sourceLinks is what is kept of one source: its troubles, and the last read.
type sourceLinks struct {
	troubles []Link
	read     *Link
}

// NewWhy asks for the event of an id.
func NewWhy(eventID string) *Why {
	return &Why{id: eventID, Session: []Link{}, Frame: []Link{}, Sources: []Link{}, Activity: []Link{}, Told: []Link{},
		calls: map[string]string{}, sessions: map[int][]Link{}, frames: map[string][]Link{}, sources: map[string]sourceLinks{}, behind: map[string]bool{}}
}

// Found reports whether the event was seen.
func (w *Why) Found() bool { return w.Event != nil }

// Apply folds one fact. Before the event it keeps what may lead to it, after
// it what became of it.
func (w *Why) Apply(e kernel.Entry) {
	if w.Found() {
		w.after(e)
		return
	}
	switch f := e.Fact.(type) {
	case kernel.HarnessSessionOpened:
		says := fmt.Sprintf("harness session %d begins, cause %s", f.Scope, f.Cause)
		if f.ID != "" {
			says += ", with the id " + f.ID
		}
		w.sessions[f.Scope] = append(w.sessions[f.Scope], link(e, says))
	case kernel.Bound:
		says := "its id is " + f.ID
		if f.Was != "" {
			says += ", no longer " + f.Was
		}
		w.sessions[f.Scope] = append(w.sessions[f.Scope], link(e, says+": "+f.Reason))
	case kernel.BindRefused:
		w.sessions[f.Scope] = append(w.sessions[f.Scope], link(e, "it is not "+f.ID+": "+f.Reason))
	case kernel.SourceNamed:
		w.named = append(w.named, link(e, f.Path+" is read because the harness named it, by "+f.By))
	case kernel.SourceRead:
		s := w.sources[f.Source]
		l := link(e, readText(f))
		s.read = &l
		w.sources[f.Source] = s
	case kernel.SourceTroubled:
		s := w.sources[f.Source]
		s.troubles = append(s.troubles, link(e, "the "+f.Source+" is "+f.What))
		w.sources[f.Source] = s
	case kernel.ActivityMoved:
		w.activity = []Link{link(e, f.To+", told by the "+f.Source+": "+f.Detail)}
	case kernel.ActivityConfirmed:
		w.activity = append(w.activity, link(e, f.To+", told by the "+f.Source+" too: "+f.Detail))
	case kernel.Observed:
		w.observed(e, f)
	}
}

func readText(f kernel.SourceRead) string {
	return fmt.Sprintf("the %s, %s, was read up to byte %d", f.Source, f.Path, f.Offset)
}

func link(e kernel.Entry, says string) Link {
	kind := e.Fact.Kind()
	if o, ok := e.Fact.(kernel.Observed); ok {
		kind = string(o.Record.Event)
	}
	return Link{Seq: e.Seq, At: e.At, Fact: kind, Says: says}
}

func (w *Why) observed(e kernel.Entry, f kernel.Observed) {
	r := f.Record
	if r.EventID != w.id {
		if r.FrameContext != nil {
			id := r.FrameContext.FrameID
			w.frames[id] = append(w.frames[id], link(e, evidenceText(r.Evidence)))
			if r.Event == lifeloop.FrameEnded {
				delete(w.frames, id)
			}
		}
		return
	}
	w.Event, w.scope = &r, f.Scope
	w.Session = append(w.Session, w.sessions[f.Scope]...)
	if r.FrameContext != nil {
		w.Frame = append(w.Frame, w.frames[r.FrameContext.FrameID]...)
	}
	w.Sources = append(w.Sources, w.named...)
	for _, ev := range r.Evidence {
		s := w.sources[ev.Source]
		w.Sources = append(w.Sources, s.troubles...)
		if s.read != nil {
			w.Sources = append(w.Sources, *s.read)
		}
		delete(w.sources, ev.Source) // told once, however often it is named
		w.behind[ev.Source] = true
	}
	slices.SortStableFunc(w.Sources, func(a, b Link) int { return int(int64(a.Seq) - int64(b.Seq)) })
	w.Activity = append(w.Activity, w.activity...)
	for _, c := range f.Calls {
		w.calls[c.Call] = c.Client
	}
}

// after keeps what became of the event.
func (w *Why) after(e kernel.Entry) {
	switch f := e.Fact.(type) {
	case kernel.SourceRead:
		// A cursor is written behind what its record told.
		if w.behind[f.Source] {
			delete(w.behind, f.Source)
			w.Sources = append(w.Sources, link(e, readText(f)))
		}
	case kernel.Dispatched:
		if client, mine := w.calls[f.Call]; mine {
			w.Told = append(w.Told, link(e, client+" is called"))
		}
	case kernel.Answered:
		if client, mine := w.calls[f.Call]; mine {
			says := client + " answers " + string(f.Status)
			if f.Failure != "" {
				says = client + " fails with " + string(f.Failure)
			}
			if len(f.Payloads) > 0 {
				says += fmt.Sprintf(", with %d payloads", len(f.Payloads))
			}
			w.Told = append(w.Told, link(e, says))
		}
	case kernel.PayloadSettled:
		if _, mine := w.calls[f.Call]; mine {
			w.Told = append(w.Told, link(e, fmt.Sprintf("payload %d is %s in %s", f.Index+1, f.Status, f.Placement)))
		}
	case kernel.ReceiptIssued:
		if f.Receipt.EventID == w.id { // without a client it is of no call
			w.Told = append(w.Told, link(e, fmt.Sprintf("%s has the receipt %s: %s", f.Receipt.ClientID, f.Receipt.ReceiptID, f.Receipt.Status)))
		}
	}
}

// evidenceText says who told of something.
func evidenceText(evidence []lifeloop.Evidence) string {
	text := "told by nobody but us"
	for i, ev := range evidence {
		if i == 0 {
			text = "told by the "
		} else {
			text += " and the "
		}
		text += ev.Source
		if ev.Detail != "" {
			text += ": " + ev.Detail
		}
	}
	return text
}

// Reasons is the event's own evidence, in words.
func (w *Why) Reasons() string { return evidenceText(w.Event.Evidence) }
