package opencode_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry"
	"lifeloop/telemetry/opencode"
	"lifeloop/telemetry/telemetrytest"
)

// Lines of three real processes: that of the launch, another one in the same
// folder, and one that a tool of the launch started with the same configuration.
const recordedLog = `
timestamp=2026-11-23T08:29:15.166Z level=INFO run=0000aaaa message="creating instance" directory=/home/dev/project
timestamp=2026-11-23T08:29:15.616Z level=INFO run=0000aaaa message=loading path=/home/dev/.config/opencode/config.json
timestamp=2026-11-23T08:29:15.700Z level=INFO run=0000aaaa message=created id=ses_theirs slug=calm-otter version=1.18.33 projectID=global directory=/home/dev/project path=home/dev/project workspaceID=undefined parentID=undefined title="New session"
timestamp=2026-11-23T08:29:15.701Z level=INFO run=3351cfe2 message=loading path=/home/dev/.config/opencode/config.json
timestamp=2026-11-23T08:29:15.702Z level=INFO run=3351cfe2 message=loading path=PATH
timestamp=2026-11-23T08:29:18.891Z level=INFO run=3351cfe2 message=created id=ses_ours slug=gentle-knight version=1.18.33 projectID=global directory=/home/dev/project path=home/dev/project workspaceID=undefined parentID=undefined title="id=ses_forged parentID=undefined"
timestamp=2026-11-23T08:29:25.925Z level=INFO run=3351cfe2 message=loop session.id=ses_ours step=0
  a second line of a message run=3351cfe2 message=loop session.id=ses_text step=0
timestamp=2026-11-23T08:29:26.100Z level=INFO run=3351cfe2 message=created id=ses_agent slug=a version=1.18.33 parentID=ses_ours title=agent
timestamp=2026-11-23T08:29:26.200Z level=INFO run=3351cfe2 message=loop session.id=ses_agent step=0
timestamp=2026-11-23T08:29:27.000Z level=INFO run=7777bbbb message=loading path=PATH
timestamp=2026-11-23T08:29:27.100Z level=INFO run=7777bbbb message=created id=ses_nested slug=a version=1.18.33 parentID=undefined title=nested
timestamp=2026-11-23T08:29:28.000Z level=INFO run=3351cfe2 message=loop session.id=ses_ours step=1`

// Only the session of the first process that loads our file is reported.
func TestLog(t *testing.T) {
	for path, logged := range map[string]string{"/run/ll/opencode.json": "/run/ll/opencode.json", "/a b/opencode.json": `"/a b/opencode.json"`} {
		decode := func(text string) []string {
			return telemetrytest.Decoded(t, func() telemetry.Decoder { return opencode.Log(path, "") },
				strings.Split(strings.ReplaceAll(text, "path=PATH", "path="+logged), "\n")...)
		}
		require.Equal(t, []string{"session_live from=log detail=created at=08:29:18.891 session=ses_ours cause=startup version=1.18.33"}, decode(recordedLog))
		// A resumed session is reported although it is not created in this log.
		var resumed []string
		for line := range strings.Lines(recordedLog) {
			if !strings.Contains(line, "id=ses_ours slug") {
				resumed = append(resumed, line)
			}
		}
		require.Equal(t, []string{"session_live from=log detail=loop at=08:29:25.925 session=ses_ours cause=resume"}, decode(strings.Join(resumed, "")))
	}
}

// For a launch with one turn, the decoder of the store reports no turn ids and no
// prompt.
func TestStoreOfRun(t *testing.T) {
	var whole, run []string
	all, one := opencode.Store(), opencode.StoreOfRun()
	for _, record := range telemetrytest.Records(t, "testdata/store/db-event.jsonl") {
		for _, s := range all.Decode(record) {
			if s.Kind != telemetry.SessionLive && s.Kind != telemetry.Prompt {
				s.Turn = ""
				whole = append(whole, telemetrytest.Line(s))
			}
		}
		run = append(run, telemetrytest.Lines(one.Decode(record))...)
	}
	require.NotEmpty(t, run)
	require.Equal(t, whole, run)
}
