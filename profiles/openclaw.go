package profiles

import "lifeloop/telemetry/openclaw"

// openclawProfile is the profile of OpenClaw, as seen on 2026.9.6. A launch is left as
// it is: its sessions are those of its own store, which belong to no process,
// and a plugin would have to be written into the user's configuration.
//
// What it keeps lies in one SQLite database an agent,
// agents/AGENT/agent/openclaw-agent.sqlite below ~/.openclaw (OPENCLAW_STATE_DIR;
// ~/.openclaw-NAME with --profile NAME).
func openclawProfile() Profile {
	p := plain("openclaw", "openclaw")
	p.Tested = []string{"2026.9.6"}
	p.places = openclawPlaces
	// A prompt is told with the row that names its run, and was made before it.
	p.Transcript = Source{Name: "transcript", Decoder: openclaw.Transcript, Form: Rows, Query: openclawTranscript, Unordered: true}
	p.Kinds = []Source{
		{Name: "runs", Decoder: openclaw.Run, Form: Rows, Query: openclawRuns},
		{Name: "sessions", Decoder: openclaw.Node, Form: Rows, Query: openclawNodes},
		{Name: "plugin", Decoder: openclaw.Plugin},
		{Name: "agent", Decoder: openclaw.Agent, Form: Whole},
	}
	p.Quit = sigTERM // its terminal and its gateway exit 0 then
	p.Prepare = func(argv []string, h Host) (Launch, error) {
		return withoutHooks(argv, h, observedOnly, observedCapabilities("transcript", "runs", "sessions", "plugin", "agent")...)
	}
	return p
}

// The rows of a transcript and of its runs are appended, and their rowid grows
// with each, whatever session they are of. What rewrites a transcript takes
// rows away and adds them anew; they are told again then, as new ones.
//
// The event is put in as it stands: a row may be megabytes, and SQLite need not
// parse it for us. A row whose event is compressed has none in this column.
const (
	openclawTranscript = `SELECT rowid, '{"session_id":' || json_quote(session_id) || ',"seq":' || seq ||
		',"created_at":' || created_at || ',"event":' || coalesce(event_json, 'null') || '}'
		FROM transcript_events WHERE rowid > ?1 ORDER BY rowid`
	openclawRuns = `SELECT rowid, event_json FROM trajectory_runtime_events WHERE rowid > ?1 ORDER BY rowid`
	// A session's row is written over. What it said between two readings is lost,
	// and so is a change in the very millisecond of the row told last.
	openclawNodes = `SELECT updated_at, '{"session_key":' || json_quote(session_key) || ',"current_session_id":' ||
		json_quote(current_session_id) || ',"updated_at":' || updated_at || ',"entry":' || entry_json || '}'
		FROM session_nodes WHERE updated_at > ?1 ORDER BY updated_at`
)

// observedOnly is why a launch of a harness that can only be observed tells
// nothing of its turns.
const observedOnly = "the store of its sessions is read by observe alone"

// observedCapabilities are what a launch of such a harness lacks, beside its
// sources.
func observedCapabilities(sources ...string) []string {
	lacks := []string{"session_identity.harness_session_id", "frame.opened", "context.pressure_observed", "context_pressure", "context.compacted", "frame.ended"}
	for _, s := range sources {
		lacks = append(lacks, "telemetry."+s)
	}
	return lacks
}

func openclawPlaces(h Host, transcript Source) []Place {
	dir := h.home("OPENCLAW_STATE_DIR", ".openclaw")
	if dir == "" {
		return nil
	}
	// Where a session is at work stands in the first row of its transcript.
	return []Place{{Source: transcript, Dir: dir, Pattern: "agents/*/agent/openclaw-agent.sqlite", Sessions: `SELECT n.updated_at,
		json_object('id', n.current_session_id, 'dir', (SELECT json_extract(t.event_json, '$.cwd') FROM transcript_events t
			WHERE t.session_id = n.current_session_id AND json_extract(t.event_json, '$.type') = 'session' ORDER BY t.seq LIMIT 1))
		FROM session_nodes n WHERE n.updated_at > ?1 ORDER BY n.updated_at`}}
}
