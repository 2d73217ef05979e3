package supervisor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/telemetry/codex"
)

// Repeated terminal signals are posted once a second, new ones at once.
func TestRepeatedTerminalSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := codex.OSC()
		var posted []string
		s := &sink{osc: d, post: func(in kernel.Input) {
			for _, sig := range in.(kernel.SignalsSeen).Signals {
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
		say("working", 150) // a second and a half
		say("nonsense", 5)
		require.Equal(t, []string{"session_live", "idle", "working", "idle", "working", "working"}, posted)
	})
}

// Output that is read is posted with its text, even an empty one: without a text
// it would count as not read. Lost output is reported once.
func TestTextIsPosted(t *testing.T) {
	var posted []kernel.Input
	s := &sink{post: func(in kernel.Input) { posted = append(posted, in) }}
	s.Text(nil, 4)
	s.Text([]byte("half a line\n"), 12)
	s.TextLost(100)
	s.TextLost(100)
	require.Equal(t, []kernel.Input{
		kernel.OutputSeen{Total: 4, Text: []byte{}},
		kernel.OutputSeen{Total: 12, Text: []byte("half a line\n")},
		kernel.SourceTrouble{Source: "terminal", What: "overflow"},
	}, posted)
	require.NotNil(t, posted[0].(kernel.OutputSeen).Text)
	require.Equal(t, int64(200), s.lost)
}
