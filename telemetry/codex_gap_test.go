package telemetry

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Codex numbers its records without a hole, so a hole is a loss.
func TestCodexOrdinals(t *testing.T) {
	for _, c := range []struct {
		name     string
		ordinals []any
		want     []string
	}{
		{"dense", []any{0, 1, 2, 3}, nil},
		{"from the middle of a resumed file", []any{40, 41, 42}, nil},
		{"one lost", []any{0, 1, 3, 4}, []string{"2-2"}},
		{"several lost, twice", []any{5, 9, 10, 12}, []string{"6-8", "11-11"}},
		{"told again", []any{0, 1, 2, 1, 2, 3}, nil},
		{"a record without a number says nothing of the next", []any{0, nil, 7, 8}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := NewDecoder("codex-rollout")
			require.NoError(t, err)
			var got []string
			for _, n := range c.ordinals {
				record := `{"timestamp":"2026-01-02T03:04:05.000Z","type":"turn_context","payload":{}}`
				if n != nil {
					record = fmt.Sprintf(`{"timestamp":"2026-01-02T03:04:05.000Z","ordinal":%d,"type":"turn_context","payload":{}}`, n)
				}
				for _, s := range d.Decode([]byte(record)) {
					require.Equal(t, Gap, s.Kind)
					got = append(got, fmt.Sprintf("%d-%d", s.Missing[0], s.Missing[1]))
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}
