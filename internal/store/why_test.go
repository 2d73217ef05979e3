package store

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/view"
)

// whyReadsEnough checks, for every event, that the few entries that Why decodes
// give the same evidence as the whole ledger. It returns the number of events.
func whyReadsEnough(t *testing.T, f Folder, name string) (events int) {
	t.Helper()
	var entries []kernel.Entry
	for e, err := range f.Facts(0) {
		require.NoError(t, err)
		entries = append(entries, e)
	}
	for _, e := range entries {
		event, ok := view.Event(e.Fact)
		if !ok {
			continue
		}
		events++
		want, _ := view.NewWhy(e)
		for _, other := range entries {
			want.Apply(other)
		}
		got, err := f.Why(event.EventID)
		require.NoError(t, err, name)
		require.Equal(t, printedWhy(t, want), printedWhy(t, got), "%s: %s", name, event.EventID)
	}
	return events
}

func printedWhy(t *testing.T, w *view.Why) string {
	t.Helper()
	text, err := json.MarshalIndent(w, "", "\t")
	require.NoError(t, err)
	return string(text)
}

// TestWhyChecksWhatItUses checks that a changed entry causes an error only if it
// is part of the evidence, and that a name must be the end of exactly one event's
// id.
func TestWhyChecksWhatItUses(t *testing.T) {
	f := Open(t.TempDir()).Folder(first)
	record(t, f, demo(t))
	var id string
	for _, e := range demo(t) {
		if r, ok := view.Event(e.Fact); ok && id == "" {
			id = r.EventID
		}
	}
	segment := filepath.Join(string(f), "ledger-000001.jsonl")
	whole, err := os.ReadFile(segment)
	require.NoError(t, err)
	change := func(kind kernel.Fact) {
		lines := strings.SplitAfter(string(whole), "\n")
		for i, line := range lines {
			if strings.Contains(line, `"kind":"`+kernel.Kind(kind)+`"`) {
				lines[i] = strings.Replace(line, `"at":"20`, `"at":"21`, 1)
			}
		}
		require.NoError(t, os.WriteFile(segment, []byte(strings.Join(lines, "")), 0o600))
	}
	change(kernel.UsageCounted{})
	_, err = f.Why(id)
	require.NoError(t, err)
	change(kernel.ActivityMoved{})
	_, err = f.Why(id)
	require.ErrorContains(t, err, "the line was changed")

	require.NoError(t, os.WriteFile(segment, whole, 0o600))
	var missing *NoEventError
	for name, matches := range map[string]int{"": 0, "evt_unknown": 0, `"`: 0, id[:8]: 0} {
		_, err = f.Why(name)
		require.ErrorAs(t, err, &missing, name)
		require.Equal(t, matches, missing.Matches, name)
	}
}
