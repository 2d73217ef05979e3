package kernel_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/session"
	"lifeloop/telemetry"
	"lifeloop/view"
)

// The views are computed from the kernel's facts. So a test that plays a session with
// the type world (scenario_test.go) tests the views too. These tests are in this
// package because that type is.

// An hcpJudge checks what view.HCP emits about one session against HCP L2.
type hcpJudge struct {
	live, read view.HCP       // the view of the facts as the kernel returned them, and as the ledger returns them
	entries    []kernel.Entry // the entries as the ledger returns them
	state      string
	last       uint64
	lines      []string
	ids        map[string]bool
	types      map[string]int
	saved      map[any]bool // the ids of the checkpoints so far
	closed     bool
}

var version4 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// hcpData lists the members in the data of each emitted event. They are those of HCP
// L2 with three exceptions: no view shows the session's token, progress has no
// percent, and the session's metadata is added.
var hcpData = map[string][]string{
	"session_created":    {"state", "risk_level", "metadata"},
	"state_changed":      {"from_state", "to_state", "reason"},
	"progress":           {"stage", "message"},
	"log":                {"level", "message", "details"},
	"warning":            {"code", "message", "details"},
	"error":              {"code", "message", "recoverable"},
	"checkpoint_created": {"checkpoint_id", "description", "resumable", "created_at"},
	"session_closed":     {"final_state", "reason"},
}

// fact checks the events of one fact, live and as the ledger returns it.
func (j *hcpJudge) fact(t require.TestingT, live, read kernel.Entry) {
	messages, again := j.live.Apply(live), j.read.Apply(read)
	require.Equal(t, envelopes(t, messages), envelopes(t, again), "the same live and read back")
	j.entries = append(j.entries, read)
	for _, line := range envelopes(t, messages) {
		_, err := view.ParseHCPEvent([]byte(line))
		require.NoError(t, err, "a consumer accepts %s", line)
		j.lines = append(j.lines, line)
	}
	if j.ids == nil {
		j.ids, j.types, j.saved = map[string]bool{}, map[string]int{}, map[any]bool{}
	}
	for _, m := range messages {
		j.message(t, m, read.At)
	}
}

func (j *hcpJudge) message(t require.TestingT, m view.HCPMessage, at time.Time) {
	require.False(t, j.closed, "an event after session_closed: %+v", m)
	require.Equal(t, []string{"1.0", "sess", "event", at.UTC().Format("2006-01-02T15:04:05.000Z")}, []string{m.Version, m.SessionID, m.Type, m.Timestamp})
	require.Equal(t, j.last+1, m.Payload.Sequence, "dense from 1")
	j.last = m.Payload.Sequence
	require.Regexp(t, version4, m.MessageID)
	require.False(t, j.ids[m.MessageID], "an id of its own")
	j.ids[m.MessageID] = true
	event, data := m.Payload.Type, m.Payload.Data
	j.types[event]++
	require.Equal(t, j.last == 1, event == "session_created", "session_created is the first event, and only that")
	require.Len(t, data, len(hcpData[event]), "%s: %v", event, data)
	for _, name := range hcpData[event] {
		require.Contains(t, data, name, event)
		require.NotNil(t, data[name], "%s: %s", event, name)
	}
	switch event {
	case "session_created":
		require.Equal(t, "RUNNING", data["state"])
		require.Regexp(t, "^R[1-5]$", data["risk_level"])
		j.state = "RUNNING"
	case "state_changed":
		require.Equal(t, j.state, data["from_state"])
		j.state = data["to_state"].(string)
		require.NoError(t, session.Check(session.State(data["from_state"].(string)), session.State(j.state)))
	case "session_closed":
		require.Equal(t, j.state, data["final_state"])
		require.True(t, session.State(j.state).Terminal())
		j.closed = true
	case "checkpoint_created":
		require.False(t, j.saved[data["checkpoint_id"]], "an id of its own")
		j.saved[data["checkpoint_id"]] = true
		require.Equal(t, true, data["resumable"])
	case "error":
		require.Contains(t, []any{"execution_error", "timeout", "safety_violation", "resource_unavailable", "internal_error"}, data["code"])
	case "log":
		require.Contains(t, []any{"info", "warn", "error"}, data["level"])
	}
}

// ended checks what must be true at the end.
func (j *hcpJudge) ended(t require.TestingT, refused bool, reach map[string]int) {
	require.Equal(t, refused, j.last == 0, "only a refused session has no event")
	require.Equal(t, !refused, j.closed, "session_closed is the last event of every other session")
	for event, n := range j.types {
		reach["hcp "+event] += n
	}
}

// readAgain compares the events with those of another reading from the beginning.
func (j *hcpJudge) readAgain(t require.TestingT) {
	var later view.HCP
	var lines []string
	for _, e := range j.entries {
		lines = append(lines, envelopes(t, later.Apply(e))...)
	}
	require.Equal(t, j.lines, lines, "the same each time it is read")
}

// clone returns an independent copy of the judge, for a session that has the same entries
// so far and then ends in another way. The views of the copy read these entries again.
func (j *hcpJudge) clone() *hcpJudge {
	c := *j
	c.live, c.read = view.HCP{}, view.HCP{}
	for _, e := range c.entries {
		c.live.Apply(e)
		c.read.Apply(e)
	}
	c.ids, c.types, c.saved = maps.Clone(c.ids), maps.Clone(c.types), maps.Clone(c.saved)
	c.entries, c.lines = slices.Clip(c.entries), slices.Clip(c.lines)
	return &c
}

func envelopes(t require.TestingT, messages []view.HCPMessage) (lines []string) {
	for _, m := range messages {
		line, err := json.Marshal(m)
		require.NoError(t, err)
		lines = append(lines, string(line))
	}
	return lines
}

// TestEveryFactHasItsPlaceInHCP: the view handles the zero value of every fact before,
// during and after a session. It shows every event except supervisor.tick and
// receipt.emitted.
func TestEveryFactHasItsPlaceInHCP(t *testing.T) {
	for _, f := range kernel.Registry() {
		var h view.HCP
		h.Apply(kernel.Entry{Fact: f}) // the fact comes before the session began
		h.Apply(kernel.Entry{Fact: kernel.Began{SessionID: "sess"}})
		h.Apply(kernel.Entry{Fact: kernel.SessionMoved{From: session.Pending, To: session.Running}})
		h.Apply(kernel.Entry{Fact: f})
		for _, e := range lifeloop.Events() {
			shown := h.Apply(kernel.Entry{Fact: kernel.Observed{Record: lifeloop.EventRecord{Event: e}}})
			elsewhere := e == lifeloop.SupervisorTick || e == lifeloop.ReceiptEmitted
			require.Equal(t, elsewhere, len(shown) == 0, "%s, in view/hcp.go", e)
		}
		h.Apply(kernel.Entry{Fact: kernel.SessionMoved{From: session.Running, To: session.Failed}})
		require.Empty(t, h.Apply(kernel.Entry{Fact: f}), "%T after the end", f)
	}
}

// TestDialects plays sessions as TestScenarios does, and prints each fact beside
// the events of L0 and HCP that are derived from it. Rewrite with
// go test ./kernel -run Dialects -rewrite.
func TestDialects(t *testing.T) {
	datadriven.Walk(t, "../view/testdata/dialects", func(t *testing.T, path string) {
		w := &world{t: t, now: start}
		var hcp *view.HCP
		var l0 *view.L0
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w.t = t
			if d.Cmd == "run" {
				hcp, l0 = &view.HCP{}, &view.L0{}
				w.entries = nil
			}
			before := len(w.entries)
			if d.Cmd == "run" {
				before = 0
			}
			w.command(d)
			var b strings.Builder
			for _, e := range w.entries[before:] {
				b.WriteString(sideBySide(e.Fact, l0.Apply(e), hcp.Apply(e)))
			}
			if b.Len() == 0 {
				return "nothing"
			}
			return b.String()
		})
	})
}

// sideBySide is one fact, what clients receive of it, and its events in L0 and
// HCP.
func sideBySide(f kernel.Fact, l0 []view.L0Event, hcp []view.HCPMessage) string {
	fact, event := kernel.Kind(f), ""
	if m, ok := f.(kernel.SessionMoved); ok {
		fact = fmt.Sprintf("%s → %s", m.From, m.To)
	}
	if o, ok := view.Event(f); ok {
		event = string(o.Event)
	}
	if r, ok := view.Receipt(f); ok {
		event = fmt.Sprintf("a receipt, %s", r.Status)
	}
	var b strings.Builder
	for i := 0; i == 0 || i < max(len(l0), len(hcp)); i++ {
		left, right := "", ""
		if i < len(l0) {
			left = l0Line(l0[i])
		}
		if i < len(hcp) {
			p := hcp[i].Payload
			right = fmt.Sprintf("%d %s", p.Sequence, p.Type)
			for _, name := range hcpData[p.Type] {
				if name == "details" || name == "metadata" {
					continue
				}
				right += fmt.Sprintf(" · %v", p.Data[name])
			}
		}
		b.WriteString(strings.TrimRight(fmt.Sprintf("%-24s│ %-27s│ %-72s│ %s", fact, event, left, right), " ") + "\n")
		fact, event = "", ""
	}
	return b.String()
}

// l0Line prints an event of L0. It leaves out long fields, flags that are not
// set, and sentences that the HCP event also has.
func l0Line(e view.L0Event) string {
	line := fmt.Sprintf("%d %s", e.Seq, e.Type)
	for _, f := range e.Fields {
		switch v := f.Value.(type) {
		case bool:
			if v {
				line += " " + f.Name
			}
		case int, int64:
			if f.Name != "durationMs" {
				line += fmt.Sprintf(" %s=%v", f.Name, v)
			}
		case string:
			switch f.Name {
			case "error", "reason", "lastError", "callbackId":
				continue
			}
			if v != "" {
				line += " · " + v
			}
		case telemetry.Sized:
			line += fmt.Sprintf(" %s=%d bytes", f.Name, v.Size)
		case []string:
			line += " · " + strings.Join(v, ",")
		}
	}
	return line
}
