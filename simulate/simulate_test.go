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

// worlds are those that the scenarios are about, and a few that the tests below
// need.
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

// ledger is what a ledger would hold, byte for byte.
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

// TestSameBytes: the same file gives the same facts, as often as it is played.
func TestSameBytes(t *testing.T) {
	for _, text := range worlds(t) {
		first, err := parse(text)
		require.NoError(t, err)
		again, err := parse(text)
		require.NoError(t, err)
		want := first.Run()
		require.Equal(t, ledger(t, want), ledger(t, again.Run()), text)
		require.Equal(t, ledger(t, want), ledger(t, first.Run()), "a world is played twice")
	}
}

// FuzzParse: no text brings the reader down, and what it takes can be played to
// an end.
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

// A launch dies of the signal that the script names, and is told by that name.
func TestWhoDiesOfASignalIsToldByItsName(t *testing.T) {
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
		if name == "SIGINT" { // somebody at the keyboard wanted it so
			require.Equal(t, "it was asked to end", ended.Reason)
			continue
		}
		require.Equal(t, name+" ended it", ended.Reason)
	}
	_, stops := kernel.FatalSignals()["SIGSTOP"]
	require.False(t, stops, "it stops a process, and does not end it")
}
