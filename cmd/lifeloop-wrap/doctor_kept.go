//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"lifeloop/kernel"
	"lifeloop/lifeloop"
)

// keptSessions is what the kept sessions of one adapter say of it.
type keptSessions struct {
	Sessions int        `json:"sessions"`
	Live     int        `json:"live"`
	Lost     []string   `json:"lost"` // whose wrapper died
	Degraded []degraded `json:"degraded"`
	// UnknownRecords are those that nobody understood, by source and type, over
	// all of them.
	UnknownRecords map[string]map[string]int `json:"unknown_records"`
}

// degraded is a capability that was weaker at the end of a session than before.
type degraded struct {
	Capability string           `json:"capability"`
	Support    lifeloop.Support `json:"support"` // what was left of it, in the newest
	Sessions   int              `json:"sessions"`
	Newest     string           `json:"newest"` // the session
	Evidence   string           `json:"evidence"`
}

// keptLook gathers that while the sessions are read, the oldest first.
type keptLook struct {
	keptSessions
	told        map[string]int // events, by the sessions in which the harness told them
	withUnknown string         // the newest session with a record that nobody understood
}

// toldIn is in how many sessions the harness told an event of that name.
func (l *keptLook) toldIn(capability string) int {
	if l == nil {
		return 0
	}
	return l.told[capability]
}

// keptIn reads every kept session once, and finds ledgers that are damaged.
func (d *diagnosis) keptIn(st store) (map[string]*keptLook, error) {
	d.Machine.Damaged = []string{}
	names, err := st.names()
	if err != nil {
		return nil, err
	}
	type read struct {
		kept
		told  map[string]bool
		moved map[string][2]lifeloop.Degradation // the first and the last of each capability
	}
	var all []read
	for _, name := range names {
		r := read{told: map[string]bool{}, moved: map[string][2]lifeloop.Degradation{}}
		r.kept = st.readEach(name, func(e kernel.Entry) {
			o, ok := e.Fact.(kernel.Observed)
			if !ok {
				return
			}
			if o.ByHarness() {
				r.told[string(o.Record.Event)] = true
			}
			if g := o.Degradation; g != nil {
				first, before := r.moved[g.Capability]
				if !before {
					first[0] = *g
				}
				r.moved[g.Capability] = [2]lifeloop.Degradation{first[0], *g}
			}
		})
		if r.damage != nil {
			if _, err := os.Stat(r.dir); errors.Is(err, fs.ErrNotExist) {
				continue // pruned while we were looking
			}
			d.Machine.Damaged = append(d.Machine.Damaged, name)
			d.problem("machine", fmt.Sprintf("the ledger of session %s is damaged: %v", name, r.damage),
				"lifeloop-wrap ledger verify "+name+" says where; nothing mends it, and prune removes it")
		}
		all = append(all, r)
	}
	d.Machine.Sessions = len(all)
	slices.SortStableFunc(all, func(a, b read) int { return a.StartedAt.Compare(b.StartedAt) })
	looks := map[string]*keptLook{}
	for _, r := range all {
		l := looks[r.AdapterID]
		if l == nil {
			l = &keptLook{keptSessions: noneKept(), told: map[string]int{}}
			looks[r.AdapterID] = l
		}
		l.Sessions++
		switch {
		case r.damage != nil: // of its end nothing is known
		case r.Liveness == "live":
			l.Live++
		case r.Liveness == "lost":
			l.Lost = append(l.Lost, r.SessionID)
		}
		for event := range r.told {
			l.told[event]++
		}
		l.unknown(r.SessionID, r.UnknownRecords)
		for name, m := range r.moved {
			if m[0].PreviousSupport.Stronger(m[1].CurrentSupport) {
				l.degraded(name, m[1], r.SessionID)
			}
		}
	}
	return looks, nil
}

func noneKept() keptSessions {
	return keptSessions{Lost: []string{}, Degraded: []degraded{}, UnknownRecords: map[string]map[string]int{}}
}

func (l *keptLook) unknown(session string, records map[string]map[string]int) {
	for source, types := range records {
		if l.UnknownRecords[source] == nil {
			l.UnknownRecords[source] = map[string]int{}
		}
		for kind, n := range types {
			l.UnknownRecords[source][kind] += n
			l.withUnknown = session
		}
	}
}

func (l *keptLook) degraded(capability string, last lifeloop.Degradation, session string) {
	i := slices.IndexFunc(l.Degraded, func(d degraded) bool { return d.Capability == capability })
	if i < 0 {
		i = len(l.Degraded)
		l.Degraded = append(l.Degraded, degraded{Capability: capability})
	}
	g := &l.Degraded[i]
	g.Sessions++
	g.Support, g.Newest, g.Evidence = last.CurrentSupport, session, last.Evidence
}

// kept tells what the kept sessions of an adapter say.
func (d *diagnosis) kept(adapter string, l *keptLook) keptSessions {
	if l == nil {
		return noneKept()
	}
	slices.SortFunc(l.Degraded, func(a, b degraded) int { return slices.Compare([]byte(a.Capability), []byte(b.Capability)) })
	if n := len(l.Lost); n > 0 {
		d.problem(adapter, fmt.Sprintf("the wrapper of %s died and could not say how it ended, last %s", counted(n, "session"), l.Lost[n-1]),
			"lifeloop-wrap run --resume "+l.Lost[n-1]+" takes it up; lifeloop-wrap prune removes it")
	}
	if text := unknownText(l.UnknownRecords); text != "" {
		d.note(adapter, "records that this version does not understand: "+text, "lifeloop-wrap status "+l.withUnknown)
	}
	for _, g := range l.Degraded {
		d.note(adapter, fmt.Sprintf("%s was %s at the end of %s: %s", g.Capability, g.Support, counted(g.Sessions, "kept session"), g.Evidence),
			"lifeloop-wrap events "+g.Newest)
	}
	return l.keptSessions
}
