//go:build e2e && linux

package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/mock"
)

// An account is a story that is played once, wrapped. Its reported usage must then
// equal the records of the model server: the turns with their outcomes, and the
// calls of each chain with all token counts.
type account struct {
	story
	// read returns the PATHs to observe, a list for each session, in the order of
	// their starts.
	read func(w *world) [][]string
	// reported are the kinds of calls outside the main chain that are in the files
	// that read returns. docs/harnesses lists the kinds that are not.
	reported []mock.Kind
	// unread are the reported kinds of calls that the wrapper does not read during
	// the run.
	unread []mock.Kind
	// endless says that the files from read possibly lack the end of a completed turn.
	// Then the turn's frame stays open, or is abandoned when the session is continued.
	endless bool
	// silent says that the wrapper does not read all sessions of this story, so its
	// status does not include all calls.
	silent bool
	// notices is how many turns Claude Code opens itself, since 2.1.330: one for each
	// background agent that has ended.
	notices int
}

// A bill is the sum of several calls, as in `status --json`.
type bill struct {
	Calls int64 `json:"calls"`
	mock.Usage
}

func (b bill) plus(c bill) bill { return bill{b.Calls + c.Calls, b.Usage.Plus(c.Usage)} }

// books are the bill of each chain and the outcome of each turn.
type books struct {
	Main, Agents, Side bill
	Turns              []string
}

func (b books) plus(c books) books {
	return books{b.Main.plus(c.Main), b.Agents.plus(c.Agents), b.Side.plus(c.Side), slices.Concat(b.Turns, c.Turns)}
}

// given returns the books of the model server, from call number since on. Of the calls
// outside the main chain, the books include only those of the given kinds.
func (w *world) given(since int, kinds []mock.Kind) (b books) {
	calls := w.model.Calls()[since:]
	for _, c := range calls {
		if !c.Whole && !(c.Gone && c.Given != (mock.Usage{}) && w.harness.name == claude.name && claude.since("2.1.330")) {
			continue // the call was rejected or cut short, so the harness does not count it
		}
		one := bill{1, c.Given}
		switch {
		case c.Kind == mock.Main:
			b.Main = b.Main.plus(one)
		case !slices.Contains(kinds, c.Kind):
		case c.Kind == mock.Agent:
			b.Agents = b.Agents.plus(one)
		default:
			b.Side = b.Side.plus(one)
		}
	}
	for _, turn := range mock.Turns(calls) {
		b.Turns = append(b.Turns, turn.Outcome)
	}
	return b
}

// A summary is the last line of `observe --usage`, and a part of `status --json`.
type summary struct {
	Usage struct {
		Main   bill `json:"main"`
		Agents bill `json:"agents"`
		Side   bill `json:"side"`
	} `json:"usage"`
	Turns   int                       `json:"turns"`
	Other   int                       `json:"turns_other"`
	Unknown map[string]map[string]int `json:"unknown_records"`

	Session     string `json:"session_id"`
	Transcripts []struct{ Path, File string }
}

func (s summary) books() books {
	return books{Main: s.Usage.Main, Agents: s.Usage.Agents, Side: s.Usage.Side}
}

// observed are the books that `observe --once` reports for one session's files.
func (w *world) observed(paths []string) books {
	w.t.Helper()
	out, err := w.tool(append([]string{"observe", "--adapter", w.harness.name, "--once", "--usage"}, paths...)...)
	require.NoError(w.t, err, out)
	out = strings.TrimSpace(out)
	cut := strings.LastIndex(out, "\n") + 1
	var last summary
	require.NoError(w.t, json.Unmarshal([]byte(out[cut:]), &last), out)
	b := last.books()
	b.Turns = outcomes(lines[event](w.t, out[:cut]))
	if last.Turns+last.Other != len(b.Turns) {
		w.t.Errorf("observe %v: %d and %d turns, but %d frames", paths, last.Turns, last.Other, len(b.Turns))
	}
	if len(last.Unknown) > 0 {
		w.t.Errorf("observe %v: unknown records: %v", paths, last.Unknown)
	}
	return b
}

// outcomes are the outcomes of the frames, in the order of their openings. A frame
// without an end is "open".
func outcomes(events []event) (out []string) {
	at := map[string]int{}
	for _, e := range events {
		switch e.Event {
		case "frame.opened":
			at[e.Frame.ID] = len(out)
			out = append(out, "open")
		case "frame.ended":
			outcome, _ := e.Data["outcome"].(string)
			out[at[e.Frame.ID]] = outcome
		}
	}
	return out
}

// playAccounts plays each story.
func playAccounts(t *testing.T, accounts map[string]account) {
	for _, name := range slices.Sorted(maps.Keys(accounts)) {
		a := accounts[name]
		t.Run(name, func(t *testing.T) { alone(t, a.harness, a.play) })
	}
}

func (a account) play(t *testing.T) {
	a.flags = append(a.flags, "--archive")
	w := newWorld(t, a.story)
	before := len(w.model.Calls())
	r := w.start(a.story, true)
	if a.script != nil {
		a.script(r)
	}
	if code := r.leaves(); code != a.exit {
		t.Errorf("exit code %d, want %d", code, a.exit)
	}
	w.await("the end of every call", func() bool {
		return !slices.ContainsFunc(w.model.Calls(), func(c mock.Call) bool { return !c.Over })
	})
	require.NotZero(t, w.given(0, nil).Main.Calls, "the model received no request")

	var got books
	for _, paths := range a.read(w) {
		got = got.plus(w.observed(paths))
	}
	var notices []string
	if claude.since("2.1.330") {
		notices = slices.Repeat([]string{"completed"}, a.notices)
	}
	want := w.given(0, a.reported)
	want.Turns = append(want.Turns, notices...)
	for i, outcome := range got.Turns {
		if a.endless && i < len(want.Turns) && want.Turns[i] == "completed" && (outcome == "open" || outcome == "abandoned") {
			got.Turns[i] = "completed"
		}
	}
	require.Equal(t, want, got, "observe")

	if !a.silent {
		live := slices.DeleteFunc(slices.Clone(a.reported), func(k mock.Kind) bool { return slices.Contains(a.unread, k) })
		want = w.given(before, live)
		want.Turns = append(want.Turns, notices...)
		out, err := w.tool("--json", "status", "last")
		require.NoError(t, err)
		var status summary
		require.NoError(t, json.Unmarshal([]byte(out), &status), out)
		reported := status.books()
		reported.Turns = outcomes(w.recorded().events)
		if status.Turns+status.Other != len(reported.Turns) || status.Other != len(notices) {
			t.Errorf("status: %d and %d turns, but %d frames, %d of them of notices", status.Turns, status.Other, len(reported.Turns), len(notices))
		}
		require.Equal(t, want, reported, "status")
		w.archived(status)
	}
	if t.Failed() {
		t.Log(r.scene())
	}
}

// archived checks that the archived copy of each transcript equals the transcript.
func (w *world) archived(status summary) {
	w.t.Helper()
	if w.harness.name == opencode.name { // OpenCode has a database instead
		require.Empty(w.t, status.Transcripts)
		return
	}
	require.NotEmpty(w.t, status.Transcripts)
	for _, one := range status.Transcripts {
		original, err := os.ReadFile(one.Path)
		require.NoError(w.t, err)
		kept, err := os.ReadFile(filepath.Join(w.path("state"), "sessions", status.Session, one.File))
		require.NoError(w.t, err)
		require.Equal(w.t, string(original), string(kept), one.Path)
	}
}

// inOrder are the files of a pattern in the home, ordered by their first entry.
func inOrder(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(home, pattern))
	require.NoError(t, err)
	begun := func(path string) string {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		return stamps.FindString(string(data))
	}
	slices.SortFunc(files, func(a, b string) int { return strings.Compare(begun(a), begun(b)) })
	return files
}

// each reads every file of a pattern as a session of its own.
func each(pattern string) func(w *world) [][]string {
	return func(w *world) (out [][]string) {
		for _, f := range inOrder(w.t, pattern) {
			out = append(out, []string{f})
		}
		return out
	}
}
