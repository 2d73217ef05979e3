package simulate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/document/yaml"
	"lifeloop/kernel"
	"lifeloop/simulate"
)

// worlds returns the texts of all worlds in the scenarios.
func worlds(t testing.TB) (all []string) {
	t.Helper()
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, part := range strings.Split(string(text), "\nworld\n")[1:] {
			world, _, _ := strings.Cut(part, "\n----")
			all = append(all, world)
		}
	}
	require.Greater(t, len(all), 40)
	return all
}

// parse reads a world from YAML or JSON.
func parse(text string) (simulate.World, error) {
	doc, err := yaml.Parse([]byte(text))
	if err != nil {
		return simulate.World{}, err
	}
	return simulate.Parse(doc)
}

// ledger returns the facts of a result as text, each with its time and kind.
func ledger(t testing.TB, r simulate.Result) string {
	t.Helper()
	var b strings.Builder
	for _, e := range r.Entries {
		kind, body, err := kernel.Encode(e.Fact)
		require.NoError(t, err)
		b.WriteString(e.At.String() + " " + kind + " " + string(body) + "\n")
	}
	return b.String()
}

// TestSameBytes checks that a world gives the same facts on every run.
func TestSameBytes(t *testing.T) {
	for _, text := range worlds(t) {
		first, err := parse(text)
		require.NoError(t, err)
		again, err := parse(text)
		require.NoError(t, err)
		want := first.Run()
		require.Equal(t, ledger(t, want), ledger(t, again.Run()), text)
		require.Equal(t, ledger(t, want), ledger(t, first.Run()), "the second run of a world")
	}
}

// FuzzParse checks that Parse never panics, and that the simulation of every
// accepted world ends.
func FuzzParse(f *testing.F) {
	for _, text := range worlds(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w, err := parse(text)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		r := w.Run()
		require.NotEmpty(t, r.Entries)
		require.Equal(t, r.Stuck, !r.State.Terminal())
	})
}

// A launch is killed by the named signal, and the attempt's reason names it.
func TestKilledNamesItsSignal(t *testing.T) {
	for name, number := range kernel.FatalSignals() {
		w, err := parse(`{"plan":{"profiles":[{"name":"a"}]},"launches":{"a":[[{"killed":"` + name + `"}]]}}`)
		require.NoError(t, err, name)
		var ended kernel.AttemptEnded
		for _, e := range w.Run().Entries {
			if f, ok := e.Fact.(kernel.AttemptEnded); ok {
				ended = f
			}
		}
		require.Equal(t, number, ended.Signal, name)
		require.Equal(t, name+" ended the harness", ended.Reason)
	}
	_, stops := kernel.FatalSignals()["SIGSTOP"]
	require.False(t, stops, "SIGSTOP does not end a process")
}
