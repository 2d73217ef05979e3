//go:build linux

package harness

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry"
	"lifeloop/telemetry/codex"
)

var update = flag.Bool("update", false, "write the golden lists of recorded terminals anew; read the diff against what the harness really did")

// TestRecordedTerminals feeds recorded output of harnesses, in its original pieces, to
// the scanner of the pump, and the texts that the scanner collects to the decoder. It
// compares the result with golden lists that were reviewed line by line.
func TestRecordedTerminals(t *testing.T) {
	for _, c := range []struct {
		name       string
		newDecoder func() telemetry.Decoder
		pattern    string
		osc        int
	}{
		{"codex-osc", codex.OSC, "codex/testdata/pty/*.raw", 7501},
	} {
		files, err := filepath.Glob(filepath.Join("..", "telemetry", c.pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files, c.pattern)
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".raw")
			t.Run(c.name+"/"+name, func(t *testing.T) {
				raw, err := os.ReadFile(file)
				require.NoError(t, err)
				var b strings.Builder
				d := c.newDecoder()
				scan := &tracker{wanted: []int{c.osc}}
				var sent []byte
				for _, p := range recordedPieces(t, strings.TrimSuffix(file, ".raw")+".timeline.jsonl") {
					sent = append(sent, p.bytes...)
					scan.scan(p.bytes)
					for _, text := range scan.texts {
						for _, s := range d.Decode([]byte(text.text)) {
							fmt.Fprintf(&b, "%.3f %s %s\n", p.at, s.Kind, s.Detail)
						}
					}
					scan.texts = nil
				}
				require.Equal(t, raw, sent, "the pieces are the whole")
				require.Empty(t, d.Unknown())
				fmt.Fprintf(&b, "left behind: %q\n", scan.modes.undo(false))

				golden := filepath.Join("testdata", "terminals", c.name, name+".txt")
				if *update {
					require.NoError(t, os.MkdirAll(filepath.Dir(golden), 0o755))
					require.NoError(t, os.WriteFile(golden, []byte(b.String()), 0o644))
				}
				want, err := os.ReadFile(golden)
				require.NoError(t, err)
				require.Equal(t, string(want), b.String(), golden)

				// The same texts are collected wherever the reads cut the output.
				whole, bytewise := &tracker{wanted: scan.wanted}, &tracker{wanted: scan.wanted}
				whole.scan(raw)
				for i := range raw {
					bytewise.scan(raw[i : i+1])
				}
				require.Equal(t, whole.texts, bytewise.texts)
			})
		}
	}
}

// A piece is what one read of the terminal gave.
type piece struct {
	at    float64
	bytes []byte
}

// recordedPieces reads a recording's time line. The output is stored in it as Latin-1 text:
// each character is one byte of the output.
func recordedPieces(t *testing.T, file string) []piece {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var out []piece
	for line := range strings.Lines(string(data)) {
		var r struct {
			T      float64 `json:"t"`
			Latin1 string  `json:"latin1"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		p := piece{at: r.T}
		for _, c := range r.Latin1 {
			p.bytes = append(p.bytes, byte(c))
		}
		out = append(out, p)
	}
	return out
}
