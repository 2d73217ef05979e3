package supervisor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel/input"
	"lifeloop/telemetry/codex"
)

// Repeated terminal signals are posted once a second, new ones at once.
func TestRepeatedTerminalSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := codex.OSC()
		var posted []string
		s := &sink{osc: d, post: func(in input.Input) {
			for _, sig := range in.(input.SignalsSeen).Signals {
				posted = append(posted, string(sig.Kind))
			}
		}}
		say := func(state string, times int) {
			for range times {
				s.OSC(0, "state="+state+":app=codex")
				time.Sleep(10 * time.Millisecond)
			}
		}
		say("idle", 1)
		say("working", 50)
		say("idle", 1)
		say("working", 150) // repeated for a second and a half
		say("nonsense", 5)
		require.Equal(t, []string{"session_live", "idle", "working", "idle", "working", "working"}, posted)
	})
}

// Output that is read is posted with its text and stream. Lost output is reported
// once. The next output that is posted has the number of the lost lines.
func TestTextIsPosted(t *testing.T) {
	var posted []input.Input
	s := &sink{post: func(in input.Input) { posted = append(posted, in) }}
	s.Text(1, []byte("half a line"), 11)
	s.TextLost(100, 2)
	s.TextLost(100, 1)
	s.Text(0, []byte("\n"), 212)
	s.Text(0, []byte("x"), 213)
	require.Equal(t, []input.Input{
		input.OutputSeen{Total: 11, Stream: 1, Text: []byte("half a line")},
		input.SourceTrouble{Source: "terminal", What: "overflow"},
		input.OutputSeen{Total: 212, Text: []byte("\n"), Skipped: 3},
		input.OutputSeen{Total: 213, Text: []byte("x")},
	}, posted)
	require.Equal(t, int64(200), s.lost)
}
