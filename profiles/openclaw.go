package profiles

import "lifeloop/telemetry/openclaw"

// openclawProfile is the profile of OpenClaw, as observed with version 2026.9.6. A launch
// gets a plugin of ours (openclaw_launch.go) if the launched process itself runs the
// sessions. The other launches are not changed.
//
// There is one SQLite database per agent,
// agents/AGENT/agent/openclaw-agent.sqlite below ~/.openclaw (OPENCLAW_STATE_DIR;
// ~/.openclaw-NAME with --profile NAME).
func openclawProfile() Profile {
	return Profile{
		Adapter:  "openclaw",
		Programs: []string{"openclaw"},
		Tested:   []string{"2026.9.6"},
		sessions: stored{"OPENCLAW_STATE_DIR", ".openclaw", Place{Pattern: "agents/*/agent/openclaw-agent.sqlite", Sessions: openclawSessions}},
		Hooks:    openclaw.Hooks{},
		// Unordered is set, because a prompt is reported late: only a later row shows
		// to which run the prompt belongs.
		Transcript: Source{Name: "transcript", Decoder: openclaw.Transcript, Form: Rows, Query: openclawTranscript, Unordered: true},
		Kinds: []Source{
			{Name: "runs", Decoder: openclaw.Run, Form: Rows, Query: openclawRuns},
			{Name: "sessions", Decoder: openclaw.Node, Form: Rows, Query: openclawNodes},
			{Name: "plugin", Decoder: openclaw.Plugin},
			{Name: "agent", Decoder: openclaw.Agent, Form: Whole},
		},
		Quit:    sigTERM, // on TERM, OpenClaw's terminal and its gateway exit with 0
		Prepare: prepareOpenclaw,
	}
}

// The rows of transcripts and runs are appended with growing rowids, for all
// sessions together. A rewritten transcript gets new rows, which are read again.
//
// openclawTranscript concatenates its record as text, so that SQLite does not parse an
// event of megabytes. The event_json of a compressed event is NULL.
const (
	openclawTranscript = `SELECT rowid, '{"session_id":' || json_quote(session_id) || ',"seq":' || seq ||
		',"created_at":' || created_at || ',"event":' || coalesce(event_json, 'null') || '}'
		FROM transcript_events WHERE rowid > ?1 ORDER BY rowid`
	openclawRuns = `SELECT rowid, event_json FROM trajectory_runtime_events WHERE rowid > ?1 ORDER BY rowid`
	// A session's row is overwritten. States between two reads are lost. A change
	// in the same millisecond as the row that was read last is lost too.
	openclawNodes = `SELECT updated_at, '{"session_key":' || json_quote(session_key) || ',"current_session_id":' ||
		json_quote(current_session_id) || ',"updated_at":' || updated_at || ',"entry":' || entry_json || '}'
		FROM session_nodes WHERE updated_at > ?1 ORDER BY updated_at`
	// The working directory is in the first row of a transcript.
	openclawSessions = `SELECT n.updated_at, json_object('id', n.current_session_id,
		'dir', (SELECT json_extract(t.event_json, '$.cwd') FROM transcript_events t
			WHERE t.session_id = n.current_session_id AND json_extract(t.event_json, '$.type') = 'session' ORDER BY t.seq LIMIT 1))
		FROM session_nodes n WHERE n.updated_at > ?1 ORDER BY n.updated_at`
)
