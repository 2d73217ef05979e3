package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"lifeloop/kernel"
	"lifeloop/ledger"
	"lifeloop/view"
)

// A NoEventError says that a name matches no event of a session, or more than one.
type NoEventError struct {
	Name    string
	Matches int    // number of ids that end with Name: 0, or more than 1
	One     string // one of the ids that match
}

func (e *NoEventError) Error() string {
	if e.Matches > 1 {
		return fmt.Sprintf("%d event ids end with %s", e.Matches, e.Name)
	}
	return "there is no event " + e.Name
}

// Why returns the evidence of the event whose id is name or, if there is none, of the
// event whose id ends with name. If no id or several ids end with name, the error is a
// *NoEventError.
//
// Why searches the text of the ledger. It decodes and checks only the few entries that
// can be evidence.
func (f Folder) Why(name string) (*view.Why, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	event, err := f.event(name)
	if err != nil {
		return nil, err
	}
	why, _ := view.NewWhy(event)
	newest := map[string]ledger.Line{} // by place (see why.Needs), the newest line before the event
	var before []kernel.Entry
	for line, err := range ledger.Lines(string(f)) {
		if err != nil {
			return nil, err
		}
		place, needed := why.Needs(line.Seq, line.Kind, line.Text)
		if needed && place != "" && line.Seq < event.Seq {
			newest[place] = ledger.Line{Seq: line.Seq, Text: append(newest[place].Text[:0], line.Text...)}
			continue
		}
		if needed {
			e, err := entry(line)
			if err != nil {
				return nil, err
			}
			if e.Seq > event.Seq {
				why.Apply(e)
				continue
			}
			before = append(before, e)
		}
		if line.Seq != event.Seq {
			continue
		}
		for _, line := range newest {
			e, err := entry(line)
			if err != nil {
				return nil, err
			}
			before = append(before, e)
		}
		slices.SortFunc(before, func(a, b kernel.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
		for _, e := range before {
			why.Apply(e)
		}
	}
	return why, nil
}

// event finds the entry of an event by its id or the end of its id.
func (f Folder) event(name string) (found kernel.Entry, err error) {
	missing := &NoEventError{Name: name}
	text, err := json.Marshal(name)
	if err != nil || name == "" {
		return found, missing
	}
	text = text[1:] // without the opening quote, the text also matches the end of a longer id
	observed := kernel.Kind(kernel.Observed{})
	for line, err := range ledger.Lines(string(f)) {
		if err != nil {
			return found, err
		}
		if string(line.Kind) != observed || !bytes.Contains(line.Text, text) {
			continue
		}
		e, err := entry(line)
		if err != nil {
			return found, err
		}
		switch r, _ := view.Event(e.Fact); {
		case r.EventID == name:
			return e, nil
		case strings.HasSuffix(r.EventID, name):
			found, missing.One = e, r.EventID
			missing.Matches++
		}
	}
	if missing.Matches != 1 {
		return found, missing
	}
	return found, nil
}

// entry checks and decodes a line.
func entry(line ledger.Line) (kernel.Entry, error) {
	e, err := line.Entry()
	if err != nil {
		return kernel.Entry{}, err
	}
	fact, err := kernel.Decode(e.Kind, e.Body)
	return kernel.Entry{Seq: e.Seq, At: e.At, Fact: fact}, err
}
