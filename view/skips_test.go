package view_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/view"
)

// Two events of pressure and three events of a frame are skipped for the client "notes".
// Each of these two series has one receipt, and every view shows the receipt.
func TestSkippedEvents(t *testing.T) {
	var entries []kernel.Entry
	for i, f := range []struct{ kind, body string }{
		{"began", `{}`}, {"session_moved", `{"from":"PENDING","to":"RUNNING"}`},
		{"observed", `{"record":{"event":"context.pressure_observed","event_id":"p1"},"calls":[{"call":"c1","client":"notes"}]}`},
		{"observed", `{"record":{"event":"context.pressure_observed","event_id":"p2"},"calls":[{"call":"c2","client":"notes","replaces":"c1"}]}`},
		{"observed", `{"record":{"event":"context.pressure_observed","event_id":"p3"},"calls":[{"call":"c3","client":"notes","replaces":"c2"}]}`},
		{"observed", `{"record":{"event":"frame.opened","event_id":"f1"},"calls":[],"skipped":["notes"]}`},
		{"observed", `{"record":{"event":"frame.ending","event_id":"f2"},"calls":[],"skipped":["notes"]}`},
		{"observed", `{"record":{"event":"frame.ended","event_id":"f3"},"calls":[],"skipped":["notes"]}`},
		{"receipt_issued", `{"receipt":{"receipt_id":"r1","client_id":"notes","event_id":"p2","status":"skipped"},"skipped":{"events":2,"first_event_id":"p1","last_event_id":"p2"},"before":"c3"}`},
		{"receipt_issued", `{"receipt":{"receipt_id":"r2","client_id":"notes","event_id":"p3","status":"observed"},"call":"c3"}`},
		{"receipt_issued", `{"receipt":{"receipt_id":"r3","client_id":"notes","event_id":"f3","status":"skipped"},"skipped":{"events":3,"first_event_id":"f1","last_event_id":"f3"}}`},
	} {
		fact, err := kernel.Decode(f.kind, []byte(f.body))
		require.NoError(t, err)
		entries = append(entries, kernel.Entry{Seq: uint64(i + 1), Fact: fact})
	}
	why := func(event string) (said []string) {
		at := slices.IndexFunc(entries, func(e kernel.Entry) bool { r, _ := view.Event(e.Fact); return r.EventID == event })
		w, ok := view.NewWhy(entries[at])
		require.True(t, ok)
		for _, e := range entries {
			w.Apply(e)
		}
		for _, l := range w.Clients {
			said = append(said, l.Text)
		}
		return said
	}
	require.Equal(t, []string{"notes gets this newer event instead", "receipt r1 of notes: this event is one of 2 that were skipped"}, why("p1"))
	require.Equal(t, []string{"receipt r2 of notes: observed"}, why("p3"))
	require.Equal(t, []string{"notes is not called, because too many calls wait for it", "receipt r3 of notes: this event is one of 3 that were skipped"}, why("f2"))

	var status view.Status
	var hcp view.HCP
	var last view.HCPMessage
	for _, e := range entries {
		status.Apply(e)
		for _, m := range hcp.Apply(e) {
			last = m
		}
	}
	require.Equal(t, []view.ClientCalls{{ClientID: "notes", Calls: 6}}, status.Clients)
	require.Equal(t, "receipt of notes for : skipped, events: 3", last.Payload.Data["message"])
	record, ok := view.Receipt(entries[len(entries)-1].Fact)
	require.True(t, ok)
	text, err := json.Marshal(record)
	require.NoError(t, err)
	require.Contains(t, string(text), `,"skipped":{"events":3,"first_event_id":"f1","last_event_id":"f3"}}`)
}
