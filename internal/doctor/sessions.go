package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lifeloop/internal/store"
	"lifeloop/internal/vt"
	"lifeloop/lifeloop"
	"lifeloop/view"
)

// Recorded summarizes the recorded sessions of one adapter.
type Recorded struct {
	Sessions int        `json:"sessions"`
	Live     int        `json:"live"`
	Lost     []string   `json:"lost"` // ids of sessions whose wrapper died
	Degraded []Degraded `json:"degraded"`
	// UnknownRecords counts the records that no decoder knew, by source and
	// type, over all sessions.
	UnknownRecords map[string]map[string]int `json:"unknown_records"`
}

// Degraded is a capability that was weaker at the end of a session than at its
// start.
type Degraded struct {
	Capability string           `json:"capability"`
	Support    lifeloop.Support `json:"support"` // the support at the end of the session Newest
	Sessions   int              `json:"sessions"`
	Newest     string           `json:"newest"` // id of the newest session in which the capability became weaker
	Evidence   string           `json:"evidence"`
}

// recordings collects data from the sessions of one adapter, starting with the
// oldest.
type recordings struct {
	Recorded
	reported    map[string]int // event → number of sessions in which the harness reported it
	withUnknown string         // the newest session with an unknown record
	resume      string         // the arguments of lifeloop-wrap that recover the newest lost session
}

// of returns the recordings of an adapter.
func (e *examiner) of(adapter string) *recordings {
	r := e.recordings[adapter]
	if r == nil {
		r = &recordings{reported: map[string]int{}, Recorded: Recorded{Lost: []string{}, Degraded: []Degraded{}, UnknownRecords: map[string]map[string]int{}}}
		e.recordings[adapter] = r
	}
	return r
}

// recorded reads every session, and reports damaged ledgers.
func (e *examiner) recorded(st store.Store) error {
	e.Machine.Damaged = []string{}
	all, total, err := st.List(func(store.Brief) bool { return true })
	e.Machine.Sessions = total
	e.clients(all)
	e.anchors(all)
	for _, s := range all {
		e.Machine.Bytes += s.Folder.Size()
		r := e.of(s.AdapterID)
		r.Sessions++
		switch {
		case s.Damage != nil: // the session's end is unknown
			e.Machine.Damaged = append(e.Machine.Damaged, s.SessionID)
			e.damaged(s)
		case s.Liveness == store.Live:
			r.Live++
		case s.Liveness == store.Lost:
			r.Lost, r.resume = append(r.Lost, s.SessionID), s.ResumeCommand()
		}
		r.addUnknown(s.SessionID, s.UnknownRecords)
		for event := range s.Claims.Reported {
			r.reported[string(event)]++
		}
		for capability, change := range s.Claims.Changed {
			if change.Before.Stronger(change.Now) {
				r.addDegraded(capability, change, s.SessionID)
			}
		}
	}
	return err
}

func (e *examiner) damaged(s store.Session) {
	if err, ok := errors.AsType[*store.FolderError](s.Damage); ok {
		e.problem("machine", fmt.Sprintf("session %s: %v", s.SessionID, err), "ls -l "+vt.Word(string(s.Folder)))
		return
	}
	e.problem("machine", fmt.Sprintf("the ledger of session %s is damaged and cannot be repaired: %v", s.SessionID, s.Damage),
		"lifeloop-wrap ledger verify "+s.SessionID+" # shows where it is damaged")
}

// ClientCalls counts the outcomes of a client's calls in the newest session that
// called it.
type ClientCalls struct {
	SessionID string `json:"session_id"`
	view.ClientCalls
}

// clients lists every client with its calls in the newest session that called it, and
// reports those clients for which one of these calls failed.
func (e *examiner) clients(sessions []store.Session) {
	all := []ClientCalls{}
	for _, s := range slices.Backward(sessions) { // the newest first
		for _, c := range s.Clients {
			if !slices.ContainsFunc(all, func(one ClientCalls) bool { return one.ClientID == c.ClientID }) {
				all = append(all, ClientCalls{s.SessionID, c})
			}
		}
	}
	for _, c := range all {
		if c.Failed > 0 {
			e.note("machine", fmt.Sprintf("client %s, in the newest session that called it: %s", c.ClientID, c.Text()), "lifeloop-wrap receipts "+c.SessionID)
		}
	}
	e.Machine.Clients = all
}

// anchors reports how many checkpoints of a session's evidence could not be published.
// It looks only at the newest session that published a checkpoint or failed to do so (see
// [store.Published]).
func (e *examiner) anchors(sessions []store.Session) {
	for _, s := range slices.Backward(sessions) {
		switch p := s.Folder.Published(); {
		case p.Failed > 0:
			e.note("machine", fmt.Sprintf("session %s: %s", s.SessionID, p.Text()), "lifeloop-wrap evidence anchor "+s.SessionID+" --follow")
			return
		case p.Last.Index > 0:
			return
		}
	}
}

func (r *recordings) addUnknown(session string, records map[string]map[string]int) {
	for source, types := range records {
		if r.UnknownRecords[source] == nil {
			r.UnknownRecords[source] = map[string]int{}
		}
		for kind, n := range types {
			r.UnknownRecords[source][kind] += n
			r.withUnknown = session
		}
	}
}

func (r *recordings) addDegraded(capability string, last view.Change, session string) {
	i := slices.IndexFunc(r.Degraded, func(d Degraded) bool { return d.Capability == capability })
	if i < 0 {
		i = len(r.Degraded)
		r.Degraded = append(r.Degraded, Degraded{Capability: capability})
	}
	d := &r.Degraded[i]
	d.Sessions++
	d.Support, d.Newest, d.Evidence = last.Now, session, last.Evidence
}

// recordedOf returns the summary of one adapter's recorded sessions, and
// reports problems in them.
func (e *examiner) recordedOf(adapter string) Recorded {
	r := e.of(adapter)
	slices.SortFunc(r.Degraded, func(a, b Degraded) int { return cmp.Compare(a.Capability, b.Capability) })
	if n := len(r.Lost); n > 0 {
		e.problem(adapter, fmt.Sprintf("%s lost: the wrapper died, outcome unknown; the newest is %s", counted(n, "session"), r.Lost[n-1]),
			"lifeloop-wrap "+r.resume)
	}
	if text := UnknownRecords(r.UnknownRecords); text != "" {
		e.note(adapter, "unknown records: "+text, "lifeloop-wrap status "+r.withUnknown)
	}
	e.degraded(adapter, r.Degraded)
	return r.Recorded
}

// degraded reports in one note the capabilities that were weaker at the end of a session
// than at its start. Capabilities with the same reason and the same number of sessions
// are listed together.
func (e *examiner) degraded(adapter string, all []Degraded) {
	var parts []string
	newest := ""
	for i, d := range all {
		same := func(other Degraded) bool { return other.Evidence == d.Evidence && other.Sessions == d.Sessions }
		if slices.ContainsFunc(all[:i], same) {
			continue
		}
		var names []string
		for _, other := range all[i:] {
			if same(other) {
				names = append(names, other.Capability+" became "+string(other.Support))
			}
		}
		parts = append(parts, fmt.Sprintf("in %s, %s: %s", counted(d.Sessions, "recorded session"), strings.Join(names, ", "), d.Evidence))
		newest = d.Newest
	}
	if len(parts) > 0 {
		e.note(adapter, strings.Join(parts, "; "), "lifeloop-wrap events "+newest)
	}
}

// UnknownRecords lists the number of unknown records by source and type.
func UnknownRecords(records map[string]map[string]int) string {
	var parts []string
	for _, source := range slices.Sorted(maps.Keys(records)) {
		for _, kind := range slices.Sorted(maps.Keys(records[source])) {
			parts = append(parts, fmt.Sprintf("%s: %d × %s", source, records[source][kind], kind))
		}
	}
	return strings.Join(parts, ", ")
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
