package codex

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry/telemetrytest"
)

func TestOSC(t *testing.T) {
	const (
		idle = `idle from=terminal detail="osc 7501 idle"`
		live = `session_live from=terminal detail="osc 7501 idle"`
		work = `working from=terminal detail="osc 7501 working"`
		done = `idle from=terminal detail="osc 7501 done"`
	)
	for _, c := range []struct {
		name    string
		records []string
		want    []string
	}{
		{"recorded: a turn with an approval",
			[]string{"state=idle:app=codex", "state=working:app=codex", "state=blocked:app=codex:kind=permission",
				"state=working:app=codex", "state=done:app=codex", "state=idle:app=codex", "state=clear"},
			[]string{live, idle, work, `needs_input from=terminal detail="osc 7501 blocked permission"`, work, done, idle}},
		{"recorded: an interrupt",
			[]string{"state=idle:app=codex", "state=working:app=codex", "state=idle:app=codex", "state=clear"},
			[]string{live, idle, work, idle}},
		{"another program's state is not Codex's",
			[]string{"state=idle:app=other", "state=idle", "", "idle", "state=napping:app=codex"}, []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, telemetrytest.Decoded(t, OSC, c.records...))
		})
	}
}
