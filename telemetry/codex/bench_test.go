package codex

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkRollout decodes the recorded rollouts.
func BenchmarkRollout(b *testing.B) {
	files, err := filepath.Glob(filepath.Join("testdata", "rollouts", "*.jsonl"))
	require.NoError(b, err)
	var records [][]byte
	size := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(b, err)
		size += len(data)
		records = append(records, bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))...)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	d := Rollout()
	for b.Loop() {
		for _, r := range records {
			d.Decode(r)
		}
	}
}
