package claude

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry/telemetrytest"
)

// A title is reported when the meaning of its mark changes. Its text is never
// reported.
func TestTitles(t *testing.T) {
	resting, turning := `alive from=terminal detail="title mark resting"`, `working from=terminal detail="title mark moving"`
	require.Equal(t, []string{resting, turning, resting, turning},
		telemetrytest.Decoded(t, OSC, "✳ Claude Code", "⠂ Claude Code", "⠐ Claude Code", "⠂ A title", "✳ A title", "✳ Another", "⠐ Another", ""))
	d := OSC()
	for _, title := range []string{"vim", "✳", "⠂", "✳Claude", "⠋ Claude Code", "\x00", strings.Repeat("✳", 4096)} {
		require.Empty(t, d.Decode([]byte(title)), title)
	}
	require.Equal(t, map[string]int{"title": 7}, d.Unknown())
}

// If a registry file has the pid of the process that wrote it, each signal from
// the file has this process.
func TestRegistryNamesItsProcess(t *testing.T) {
	for record, want := range map[string]string{
		`{"sessionId":"s","status":"idle","pid":7,"procStart":"89791"}`:                 `idle from=registry detail=idle session=s process=7/89791`,
		`{"sessionId":"s","status":"idle","pid":7}`:                                     `idle from=registry detail=idle session=s process=7/0`,
		`{"sessionId":"s","status":"idle","procStart":"89791"}`:                         `idle from=registry detail=idle session=s`,
		`{"sessionId":"s","status":"idle","pid":-7,"procStart":"x y"}`:                  `idle from=registry detail=idle session=s`,
		`{"sessionId":"s","kind":"x","entrypoint":"sdk-cli","pid":7,"version":"3.0.0"}`: `alive from=registry session=s version=3.0.0 process=7/0`,
	} {
		require.Equal(t, []string{want}, telemetrytest.Decoded(t, Registry, record))
	}
}

func TestRegistry(t *testing.T) {
	for _, c := range []struct {
		name, record string
		want         []string
	}{
		{"print mode keeps no status", `{"pid":1,"sessionId":"s","entrypoint":"sdk-cli","updatedAt":1795246017263}`,
			[]string{`alive from=registry at=07:26:57.263 session=s process=1/0`}},
		{"a new status is a sign of life", `{"sessionId":"s","status":"dreaming"}`, []string{`alive from=registry session=s`}},
		{"what it waits for is a word or nothing", `{"sessionId":"s","status":"waiting","waitingFor":"Which file shall I delete?"}`,
			[]string{`needs_input from=registry detail=waiting session=s`}},
		{"torn while it was rewritten", `{"pid":1,"sessionId":"s","sta`, []string{}},
		{"not yet written", ``, []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, telemetrytest.Decoded(t, Registry, c.record))
		})
	}
}

func TestInvalidTimes(t *testing.T) {
	for record, want := range map[string]string{
		`{"sessionId":"s","status":"idle","updatedAt":1100000000000000}`: `idle from=registry detail=idle session=s`, // this number is a time in the year 36827
		`{"sessionId":"s","status":"idle","updatedAt":-1}`:               `idle from=registry detail=idle session=s`,
		`{"sessionId":"s","status":"idle","updatedAt":"yesterday"}`:      `idle from=registry detail=idle session=s`,
	} {
		require.Equal(t, []string{want}, telemetrytest.Decoded(t, Registry, record))
	}
	for _, at := range []string{`"yesterday"`, `7`, `"9999-12-31T23:59:59-23:59"`, `""`} {
		got := telemetrytest.Decoded(t, Transcript, strings.Replace(typedA, `"2026-11-21T08:00:00.000Z"`, at, 1))
		require.Equal(t, []string{`prompt from=transcript detail=u1 session=s turn=A`}, got, at)
	}
}
