package telemetry

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTellsWaiting holds the list against what the decoders made of real
// records: who told there that a person is waited for, can.
func TestTellsWaiting(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*/*")
	require.NoError(t, err)
	told := map[string]bool{}
	for _, path := range files {
		golden, err := os.ReadFile(path)
		require.NoError(t, err)
		decoder := filepath.Base(filepath.Dir(path))
		told[decoder] = told[decoder] || bytes.Contains(golden, []byte("needs_input"))
	}
	told["codex-osc"], told["codex-app-server"] = true, true // no record that is kept holds one
	for decoder, want := range told {
		if got := TellsWaiting(decoder); got != want {
			t.Errorf("%s: got %t, want %t", decoder, got, want)
		}
	}
}
