package supervisor

import (
	"os"
	"regexp"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"lifeloop/kernel/input"
	"lifeloop/profiles"
	"lifeloop/telemetry"
	"lifeloop/watchers"
	"lifeloop/watchers/sse"
)

// Every trouble that a reader can report becomes a trouble of the kernel.
func TestEveryTroubleIsConverted(t *testing.T) {
	words := func(path string) (all []string) {
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`TroubleKind += "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
			all = append(all, m[1])
		}
		require.NotEmpty(t, all)
		return all
	}
	for _, word := range words("../watchers/watchers.go") {
		require.Equal(t, input.Trouble(word), ofFileTrouble(watchers.TroubleKind(word)))
	}
	for _, word := range words("../watchers/sse/sse.go") {
		want := input.Trouble(word)
		if word == "gone" {
			want = input.TroubleDeleted
		}
		require.Equal(t, want, ofStreamTrouble(sse.TroubleKind(word)))
	}
	require.Empty(t, ofFileTrouble("unknown"))
	require.Empty(t, ofStreamTrouble("unknown"))
}

// TestNamesOfReaders checks that a reader returns the names of its sources. They are
// reported if the reader stops.
func TestNamesOfReaders(t *testing.T) {
	exports, err := NewExports("secret", zerolog.Nop())
	require.NoError(t, err)
	defer exports.Close()
	source := func(name string) profiles.Source { return profiles.Source{Name: name, Decoder: telemetry.File} }
	files := &Files{Fixed: []profiles.Source{source("registry"), source("log")}}
	require.Equal(t, []string{"registry", "log"}, files.Names())
	files.Named = source("transcript") // the file that the harness will name
	require.Equal(t, []string{"registry", "log", "transcript", "otlp"}, readNames(Join(files, exports)))
	require.Empty(t, readNames(nameless{}))
}

// nameless is a reader that does not return the names of its sources.
type nameless struct{ Sources }
