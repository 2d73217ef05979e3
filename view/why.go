package view

import (
	"fmt"
	"slices"
	"time"

	"lifeloop/kernel"
	"lifeloop/lifeloop"
)

// A Why is the chain of evidence behind one event. Apply every entry of the
// ledger in order; [Why.Found] reports whether the event was among them.
type Why struct {
	id string

	// Event is the event with its own evidence.
	Event *lifeloop.EventRecord `json:"event"`
	// Session is how its harness session began and how the id became known:
	// each bind, rebind and refusal up to the event.
	Session []Link `json:"session"`
	// Frame is the earlier events of its frame with their sources.
	Frame []Link `json:"frame"`
	// Sources are the files and hooks behind its evidence: how each became
	// known, how far it was read at the event, and its faults.
	Sources []Link `json:"sources"`
	// Activity is the activity at the time, with its sources.
	Activity []Link `json:"activity"`
	// Clients is the dispatch of the event: calls, answers and receipts.
	Clients []Link `json:"told"`

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
	Fact string    `json:"fact"` // its kind, or the event that it holds
	Text string    `json:"says"`
}

// sourceLinks are the faults of one source, and its last read.
type sourceLinks struct {
	troubles []Link
	read     *Link
}

// NewWhy returns a Why for the event with this id.
func NewWhy(eventID string) *Why {
	return &Why{id: eventID, Session: []Link{}, Frame: []Link{}, Sources: []Link{}, Activity: []Link{}, Clients: []Link{},
		calls: map[string]string{}, sessions: map[int][]Link{}, frames: map[string][]Link{}, sources: map[string]sourceLinks{}, behind: map[string]bool{}}
}

// Found reports whether the event was seen.
func (w *Why) Found() bool { return w.Event != nil }

// Apply folds one fact. Before the event it collects what may be its evidence,
// after it the dispatch.
func (w *Why) Apply(e kernel.Entry) {
	if w.Found() {
		w.after(e)
		return
	}
	switch f := e.Fact.(type) {
	case kernel.HarnessSessionOpened:
		text := fmt.Sprintf("harness session %d begins, cause %s", f.Scope, f.Cause)
		if f.ID != "" {
			text += ", id " + f.ID
		}
		w.sessions[f.Scope] = append(w.sessions[f.Scope], link(e, text))
	case kernel.Bound:
		text := "id " + f.ID
		if f.Was != "" {
			text += ", before " + f.Was
		}
		w.sessions[f.Scope] = append(w.sessions[f.Scope], link(e, text+": "+f.Reason))
	case kernel.BindRefused:
		w.sessions[f.Scope] = append(w.sessions[f.Scope], link(e, "id "+f.ID+" refused: "+f.Reason))
	case kernel.SourceNamed:
		w.named = append(w.named, link(e, f.Path+", named by the "+f.By))
	case kernel.SourceRead:
		s := w.sources[f.Source]
		l := link(e, readText(f))
		s.read = &l
		w.sources[f.Source] = s
	case kernel.SourceTroubled:
		s := w.sources[f.Source]
		s.troubles = append(s.troubles, link(e, "source "+f.Source+": "+f.What))
		w.sources[f.Source] = s
	case kernel.ActivityMoved:
		w.activity = []Link{link(e, f.To+", reported by the "+f.Source+": "+f.Detail)}
	case kernel.ActivityConfirmed:
		w.activity = append(w.activity, link(e, f.To+", confirmed by the "+f.Source+": "+f.Detail))
	case kernel.Observed:
		w.observed(e, f)
	}
}

func readText(f kernel.SourceRead) string {
	return fmt.Sprintf("the %s %s was read up to byte %d", f.Source, f.Path, f.Offset)
}

func link(e kernel.Entry, text string) Link {
	kind := kernel.Kind(e.Fact)
	if o, ok := e.Fact.(kernel.Observed); ok {
		kind = string(o.Record.Event)
	}
	return Link{Seq: e.Seq, At: e.At, Fact: kind, Text: text}
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
		delete(w.sources, ev.Source) // once, however often the evidence names it
		w.behind[ev.Source] = true
	}
	slices.SortStableFunc(w.Sources, func(a, b Link) int { return int(int64(a.Seq) - int64(b.Seq)) })
	w.Activity = append(w.Activity, w.activity...)
	for _, c := range f.Calls {
		w.calls[c.Call] = c.Client
	}
}

// after collects the dispatch of the event.
func (w *Why) after(e kernel.Entry) {
	switch f := e.Fact.(type) {
	case kernel.SourceRead:
		// A cursor is recorded after the events of its record.
		if w.behind[f.Source] {
			delete(w.behind, f.Source)
			w.Sources = append(w.Sources, link(e, readText(f)))
		}
	case kernel.Dispatched:
		if client, mine := w.calls[f.Call]; mine {
			w.Clients = append(w.Clients, link(e, client+" was called"))
		}
	case kernel.Answered:
		if client, mine := w.calls[f.Call]; mine {
			text := client + " answered " + string(f.Status)
			if f.Failure != "" {
				text = client + " failed with " + string(f.Failure)
			}
			if len(f.Payloads) > 0 {
				text += fmt.Sprintf(", with %d payloads", len(f.Payloads))
			}
			w.Clients = append(w.Clients, link(e, text))
		}
	case kernel.PayloadSettled:
		if _, mine := w.calls[f.Call]; mine {
			w.Clients = append(w.Clients, link(e, fmt.Sprintf("payload %d: %s in %s", f.Index+1, f.Status, f.Placement)))
		}
	case kernel.ReceiptIssued:
		text := fmt.Sprintf("receipt %s of %s: %s", f.Receipt.ReceiptID, f.Receipt.ClientID, f.Receipt.Status)
		if _, mine := w.calls[f.Call]; f.Replay && mine {
			w.Clients = append(w.Clients, link(e, text+", returned again: the answer repeats that delivery"))
		} else if !f.Replay && f.Receipt.EventID == w.id { // a receipt without a client belongs to no call
			w.Clients = append(w.Clients, link(e, text))
		}
	}
}

// evidenceText names the sources of an event.
func evidenceText(evidence []lifeloop.Evidence) string {
	text := "reported by the wrapper alone"
	for i, ev := range evidence {
		if i == 0 {
			text = "reported by the "
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
