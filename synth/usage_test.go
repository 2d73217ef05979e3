package synth

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry"
)

func TestMeter(t *testing.T) {
	type call struct {
		source, id, request, agent, side string
		input, output                    int64
		session                          string
	}
	for _, c := range []struct {
		name  string
		calls []call
		want  Usage
	}{
		{"each record of one call repeats it", []call{{"transcript", "m1", "r1", "", "", 10, 1, "s"}, {"transcript", "m1", "r1", "", "", 10, 5, "s"}, {"transcript", "m1", "r1", "", "", 10, 3, "s"}},
			Usage{Main: Calls{Calls: 1, Input: 10, Output: 5}}},
		{"a request that was made again is another call", []call{{"transcript", "m1", "r1", "", "", 10, 1, "s"}, {"transcript", "m1", "r2", "", "", 10, 1, "s"}},
			Usage{Main: Calls{Calls: 2, Input: 20, Output: 2}}},
		{"repeats of a call without a name are not detected", []call{{"store", "", "", "", "", 7, 1, "s"}, {"store", "", "", "", "", 7, 1, "s"}},
			Usage{Main: Calls{Calls: 2, Input: 14, Output: 2}}},
		{"chains are kept apart", []call{{"transcript", "m1", "", "", "", 1, 1, "s"}, {"transcript", "m2", "", "a1", "", 2, 1, "s"}, {"transcript", "m3", "", "", "title", 4, 1, "s"}, {"transcript", "m4", "", "a1", "compaction", 8, 1, "s"}},
			Usage{Main: Calls{1, 1, 0, 0, 1, 0}, Agents: Calls{1, 2, 0, 0, 1, 0}, Side: Calls{2, 12, 0, 0, 2, 0}}},
		{"two sources report the same calls under other names", []call{{"otlp", "", "r1", "", "", 10, 1, "s"}, {"otlp", "", "r2", "", "", 10, 1, "s"}, {"transcript", "m1", "r1", "", "", 10, 1, "s"}, {"otlp", "", "r3", "", "title", 3, 1, "s"}},
			Usage{Main: Calls{1, 10, 0, 0, 1, 0}, Side: Calls{1, 3, 0, 0, 1, 0}}},
		{"the best source of each session", []call{{"transcript", "m1", "", "", "", 10, 1, "A"}, {"telemetry", "x1", "", "", "", 10, 1, "A"}, {"telemetry", "x2", "", "", "", 5, 1, "B"}},
			Usage{Main: Calls{2, 15, 0, 0, 2, 0}}},
		{"calls without a session may be those of a named session", []call{{"transcript", "m1", "", "", "", 10, 1, "A"}, {"otlp", "x1", "", "", "", 10, 1, ""}},
			Usage{Main: Calls{1, 10, 0, 0, 1, 0}}},
		{"no source names a session", []call{{"stream", "m1", "", "", "", 10, 1, ""}, {"otlp", "x1", "", "", "", 11, 1, ""}},
			Usage{Main: Calls{1, 10, 0, 0, 1, 0}}},
		{"the size of the context is not a call", []call{{"statusline", "", "", "", "", 0, 0, "s"}}, Usage{}},
	} {
		var m Meter
		for _, x := range c.calls {
			m.See(telemetry.Signal{Kind: telemetry.UsageSeen, Source: x.source, Session: x.session, Agent: x.agent, Side: x.side,
				Usage: &telemetry.Usage{ID: x.id, Request: x.request, Used: 99, Input: x.input, Output: x.output}})
		}
		require.Equal(t, c.want, m.Total(), c.name)
	}
}

// The number of stored calls is limited. Repeats of older calls are ignored,
// even if they report more output.
func TestMeterIsBounded(t *testing.T) {
	var m Meter
	see := func(id int, output int64) bool {
		return m.See(telemetry.Signal{Kind: telemetry.UsageSeen, Source: "transcript", Session: "s",
			Usage: &telemetry.Usage{ID: fmt.Sprint(id), Input: 1, Output: output}})
	}
	const all = 100 * maxCalls
	for id := range all {
		require.True(t, see(id, 1))
	}
	require.False(t, see(all-1, 1), "the newest is known")
	require.True(t, see(all-1, 2), "and has grown")
	require.False(t, see(0, 2), "the oldest was counted")
	require.Equal(t, Calls{Calls: all, Input: all, Output: all + 1}, m.Total().Main)
	require.Len(t, m.books[0].calls, maxCalls)
}
