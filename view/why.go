package view

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"lifeloop/canon"
	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/renewal"
)

// A Why is the chain of evidence behind one event. Apply the other entries of the
// ledger in order, at least those for which [Why.Needs] returns true.
type Why struct {
	// Event is the event with its own evidence.
	Event *lifeloop.EventRecord `json:"event"`
	// Session lists, up to the event, how the event's harness session began, when its
	// id became known or changed, and which ids were refused.
	Session []Link `json:"session"`
	// Frame lists the earlier events of the event's frame with their sources. If a
	// frame.ended with the frame's id is among them, only the events after the last
	// such frame.ended are listed.
	Frame []Link `json:"frame"`
	// Sources lists every file whose path the harness had reported before the event.
	// For each source of the event's evidence, it also lists the source's faults, and
	// how far the source was read before and after the event.
	Sources []Link `json:"sources"`
	// Activity lists the newest report, before the event, of what the harness was doing
	// (working, idle and so on), and the confirmations of this report by other sources.
	Activity []Link `json:"activity"`
	// Renewal lists the steps of the newest renewal before the event, unless that renewal
	// was already complete (in the state renewal.Delivered). It is empty unless the event
	// is the start or the end of a harness session.
	Renewal []Link `json:"renewal,omitempty"`
	// Clients lists the dispatch of the event: calls, answers and receipts.
	Clients []Link `json:"clients"`

	seq   uint64 // the number of the event's entry
	scope int
	calls map[string]string // id of a call about this event → the client that is called
	// The keys of skipped are the clients that do not get the event. A client is removed
	// when Apply gets its receipt for the skipped events. The value is the id of the call
	// that ends the client's sequence of skipped events (its kernel.SkippedRun), or ""
	// while there is no such call.
	skipped map[string]string
	// read has, for each source of the evidence, the number of the newest SourceRead
	// entry before the event. behind has each of these sources until Apply gets the
	// source's first SourceRead entry that follows the event.
	read   map[string]uint64
	behind map[string]bool

	kinds   map[string]need   // for each kind of fact, when its entry can be evidence
	frame   []byte            // the id of the event's frame, as a line of the ledger contains it
	calling [][]byte          // the ids of the event and of its calls, as a line of the ledger contains them
	reading map[string][]byte // the names of the event's sources, as a line of the ledger contains them
}

// A Link is one fact of the chain.
type Link struct {
	Seq  uint64    `json:"seq"` // the entry's number in the ledger
	At   time.Time `json:"at"`
	Fact string    `json:"fact"` // the fact's kind, or the name of the event in it
	Text string    `json:"says"`
}

// NewWhy returns the evidence of the event in an entry; ok is false if the entry has
// no event.
func NewWhy(e kernel.Entry) (w *Why, ok bool) {
	f, ok := e.Fact.(kernel.Observed)
	r := f.Record
	w = &Why{Event: &r, Session: []Link{}, Frame: []Link{}, Sources: []Link{}, Activity: []Link{}, Clients: []Link{},
		seq: e.Seq, scope: f.Scope, calls: map[string]string{}, skipped: map[string]string{}, read: map[string]uint64{}, behind: map[string]bool{},
		kinds: needs(), calling: [][]byte{quoted(r.EventID)}, reading: map[string][]byte{}}
	if r.FrameContext != nil {
		w.frame = quoted(r.FrameContext.FrameID)
	}
	for _, ev := range r.Evidence {
		w.behind[ev.Source] = true
		w.reading[ev.Source] = quoted(ev.Source)
	}
	for _, c := range f.Calls {
		w.calls[c.Call] = c.Client
		w.calling = append(w.calling, quoted(c.Call))
	}
	for _, client := range f.Skipped {
		w.skipped[client] = ""
		w.Clients = append(w.Clients, link(e, client+" is not called, because too many calls wait for it"))
	}
	return w, ok
}

// quoted returns a string as it is written in the text of a ledger.
func quoted(s string) []byte {
	text, err := canon.Marshal(s)
	if err != nil {
		return nil // does not happen: every string can be encoded
	}
	return text
}

// A need says when an entry of some kind can be evidence.
type need int

const (
	never    need = iota
	before        // every entry before the event
	newest        // only the newest entry before the event
	ofSource      // the newest entry of a source before the event, and the first one after it
	ofFrame       // before the event: an entry that names the event's frame; after the event: the same as ofCalls
	ofCalls       // an entry after the event, if it names the event or one of its calls, or while Why.skipped has a client
)

func needs() map[string]need {
	all := map[string]need{}
	for n, facts := range map[need][]kernel.Fact{
		before: {kernel.HarnessSessionOpened{}, kernel.Bound{}, kernel.BindRefused{}, kernel.SourceNamed{}, kernel.SourceTroubled{}, kernel.ActivityConfirmed{},
			kernel.RenewalMoved{}, kernel.RenewalCalled{}, kernel.RenewalTyped{}, kernel.RenewalRerouted{}},
		newest: {kernel.ActivityMoved{}}, ofSource: {kernel.SourceRead{}}, ofFrame: {kernel.Observed{}},
		ofCalls: {kernel.Dispatched{}, kernel.Answered{}, kernel.PayloadSettled{}, kernel.ReceiptIssued{}},
	} {
		for _, f := range facts {
			all[kernel.Kind(f)] = n
		}
	}
	return all
}

// typedText describes one step of a reset in place, which begins a fresh harness session
// in the running harness. The step is the request for this session, or undoes or stops
// the request.
func typedText(f kernel.RenewalTyped) string {
	switch f.Means {
	case renewal.ByPlugin:
		return "request to the plugin: " + f.Keys
	case renewal.ByHook:
		return "answer to the hook at the end of the turn: " + f.Keys
	}
	switch f.Keys {
	case "undo":
		return "the typed command is erased"
	case "stop":
		return "the wrapper stops typing"
	}
	return "the command for a fresh session is typed at the prompt"
}

// Needs reports whether an entry can be evidence, so that the other entries need not
// be decoded. It uses only the entry's number, its kind and the text of its line. If
// Needs returns the same non-empty place for several entries before the event, only the
// newest of these entries is evidence.
func (w *Why) Needs(seq uint64, kind, text []byte) (place string, needed bool) {
	has := func(id []byte) bool { return len(id) > 0 && bytes.Contains(text, id) }
	n := w.kinds[string(kind)]
	switch {
	case seq == w.seq || n == never:
		return "", false
	case n == ofSource:
		for source, name := range w.reading {
			if has(name) && (seq < w.seq || w.behind[source]) {
				return "source " + source, true
			}
		}
		return "", false
	case seq > w.seq:
		return "", (n == ofCalls || n == ofFrame) && (len(w.skipped) > 0 || slices.ContainsFunc(w.calling, has))
	case n == ofFrame:
		return "", has(w.frame)
	case n == newest:
		return "activity", true
	}
	return "", n == before
}

// Apply adds one entry.
func (w *Why) Apply(e kernel.Entry) {
	switch {
	case e.Seq < w.seq:
		w.before(e)
	case e.Seq > w.seq:
		w.after(e)
	}
}

// before collects the evidence in an entry before the event.
func (w *Why) before(e kernel.Entry) {
	session := func(scope int, text string) {
		if scope == w.scope {
			w.Session = append(w.Session, link(e, text))
		}
	}
	switch f := e.Fact.(type) {
	case kernel.HarnessSessionOpened:
		text := fmt.Sprintf("harness session %d begins, cause %s", f.Scope, f.Cause)
		if f.ID != "" {
			text += ", id " + f.ID
		}
		session(f.Scope, text)
	case kernel.Bound:
		text := "id " + f.ID
		if f.Was != "" {
			text += ", previously " + f.Was
		}
		session(f.Scope, text+": "+f.Reason)
	case kernel.BindRefused:
		session(f.Scope, "id "+f.ID+" refused: "+f.Reason)
	case kernel.SourceNamed:
		w.Sources = append(w.Sources, link(e, f.Path+", named by the "+f.By))
	case kernel.SourceRead:
		if w.behind[f.Source] {
			w.Sources = slices.DeleteFunc(w.Sources, func(l Link) bool { return l.Seq == w.read[f.Source] })
			w.Sources = append(w.Sources, link(e, readText(f)))
			w.read[f.Source] = e.Seq
		}
	case kernel.SourceTroubled:
		if w.behind[f.Source] {
			w.Sources = append(w.Sources, link(e, "source "+f.Source+": "+f.What))
		}
	case kernel.ActivityMoved:
		w.Activity = []Link{link(e, f.To+", reported by the "+f.Source+": "+f.Detail)}
	case kernel.RenewalMoved:
		if f.To == renewal.Asked {
			w.Renewal = nil
		}
		if w.Event.Event.Session() {
			w.Renewal = append(w.Renewal, link(e, renewalText(f)))
		}
		if f.To == renewal.Delivered { // the renewal is complete and does not cause later events
			w.Renewal = nil
		}
	case kernel.RenewalCalled:
		if w.Event.Event.Session() {
			w.Renewal = append(w.Renewal, link(e, "the "+f.Command+" command runs"))
		}
	case kernel.RenewalTyped:
		if w.Event.Event.Session() {
			w.Renewal = append(w.Renewal, link(e, typedText(f)))
		}
	case kernel.RenewalRerouted:
		if w.Event.Event.Session() {
			w.Renewal = append(w.Renewal, link(e, "the renewal continues by "+string(f.Path)+": "+f.Why))
		}
	case kernel.ActivityConfirmed:
		w.Activity = append(w.Activity, link(e, f.To+", confirmed by the "+f.Source+": "+f.Detail))
	case kernel.Observed:
		r := f.Record
		switch frame := w.Event.FrameContext; {
		case frame == nil || r.FrameContext == nil || r.FrameContext.FrameID != frame.FrameID:
		case r.Event == lifeloop.FrameEnded:
			w.Frame = []Link{}
		default:
			w.Frame = append(w.Frame, link(e, evidenceText(r.Evidence)))
		}
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

// ends reports whether a client's receipt for a run of skipped events covers the
// event. before is the call that ended the run; it is empty if no call has ended it.
func (w *Why) ends(client, before string) bool {
	ended, skipped := w.skipped[client]
	if skipped = skipped && ended == before; skipped {
		delete(w.skipped, client)
	}
	return skipped
}

// skips collects the calls of a later event that replace a call of the explained
// event. For each client in skipped, it records the call that ends the client's run of
// skipped events.
func (w *Why) skips(e kernel.Entry, f kernel.Observed) {
	for _, c := range f.Calls {
		_, mine := w.calls[c.Replaces]
		before, skipped := w.skipped[c.Client]
		switch {
		case mine:
			w.Clients = append(w.Clients, link(e, c.Client+" gets this newer event instead"))
			w.skipped[c.Client] = c.Call
		case skipped && (before == c.Replaces && before != "" || before == "" && f.Record.Event != lifeloop.ReceiptEmitted):
			w.skipped[c.Client] = c.Call
		}
	}
}

// after collects the evidence in an entry after the event: how the event was
// dispatched, and how far its sources were read.
func (w *Why) after(e kernel.Entry) {
	switch f := e.Fact.(type) {
	case kernel.Observed:
		w.skips(e, f)
	case kernel.SourceRead:
		// The ledger records the events of a source before it records how far the
		// source was read. So the first SourceRead entry after the event covers the
		// bytes that led to the event.
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
				text += fmt.Sprintf(", payloads: %d", len(f.Payloads))
			}
			w.Clients = append(w.Clients, link(e, text))
		}
	case kernel.PayloadSettled:
		if client, mine := w.calls[f.Call]; mine {
			w.Clients = append(w.Clients, link(e, fmt.Sprintf("payload %d of %s, for %s: %s", f.Index+1, client, f.Placement, f.Status)))
		}
	case kernel.ReceiptIssued:
		if s := f.Skipped; s != nil {
			if w.ends(f.Receipt.ClientID, f.Before) {
				text := "skipped"
				if s.Events > 1 {
					text = fmt.Sprintf("this event is one of %d that were skipped", s.Events)
				}
				w.Clients = append(w.Clients, link(e, fmt.Sprintf("receipt %s of %s: %s", f.Receipt.ReceiptID, f.Receipt.ClientID, text)))
			}
			return
		}
		text := fmt.Sprintf("receipt %s of %s: %s", f.Receipt.ReceiptID, f.Receipt.ClientID, f.Receipt.Status)
		if _, mine := w.calls[f.Call]; f.Replay && mine {
			w.Clients = append(w.Clients, link(e, text+", issued again, because the answer has the same payloads as the answer to an earlier call"))
		} else if !f.Replay && f.Receipt.EventID == w.Event.EventID { // a receipt that is issued again has the id of an earlier event
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

// Reasons returns the event's own evidence, in words.
func (w *Why) Reasons() string { return evidenceText(w.Event.Evidence) }
