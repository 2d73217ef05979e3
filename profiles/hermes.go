package profiles

import "lifeloop/telemetry/hermes"

// hermesProfile is the profile of Hermes. It is based on Hermes's source (schema 30 of
// the database) and was never tested with the program. A launch is not changed, because
// Hermes reads hooks only from the user's configuration.
//
// Hermes's database is ~/.hermes/state.db (HERMES_HOME/state.db).
func hermesProfile() Profile {
	return Profile{
		Adapter:    "hermes",
		Programs:   []string{"hermes"},
		sessions:   stored{"HERMES_HOME", ".hermes", Place{Pattern: "state.db", Sessions: hermesStored}},
		Hooks:      hermes.Hooks{},
		Transcript: Source{Name: "messages", Decoder: hermes.Store, Form: Rows, Query: hermesMessages},
		Kinds:      []Source{{Name: "sessions", Decoder: hermes.Store, Form: Rows, Query: hermesSessions}},
		windows:    hermesWindows,
		Prepare: func(argv []string, h Host) (Launch, error) {
			l, err := start(argv, h, nil)
			l.lackSources("hermes", observedOnly, []string{"messages", "sessions", "hooks"})
			return l, err
		},
	}
}

// hermesOwner selects a session's row without its text. The markers in
// model_config show how a child session began.
const hermesOwner = `json_object('source', s.source, 'model', s.model, 'cwd', s.cwd, 'started_at', s.started_at,
	'ended_at', s.ended_at, 'end_reason', s.end_reason, 'parent_session_id', s.parent_session_id,
	'parent_end_reason', p.end_reason, 'parent_ended_at', p.ended_at,
	'delegated', CASE WHEN json_valid(s.model_config) THEN json_extract(s.model_config, '$._delegate_from') IS NOT NULL END,
	'branched', CASE WHEN json_valid(s.model_config) THEN json_extract(s.model_config, '$._branched_from') IS NOT NULL END,
	'reset', CASE WHEN json_valid(s.model_config) THEN json_extract(s.model_config, '$._reset_from') IS NOT NULL END,
	'api_call_count', s.api_call_count, 'input_tokens', s.input_tokens, 'output_tokens', s.output_tokens,
	'cache_read_tokens', s.cache_read_tokens, 'cache_write_tokens', s.cache_write_tokens, 'reasoning_tokens', s.reasoning_tokens)`

// hermesMessages selects messages by their id, which increases. Text and tool
// arguments stay in the database. Later changes of a message's row, such as its
// removal from the context, are not reported.
const hermesMessages = `SELECT m.id, json_object('table', 'messages', 'id', m.id, 'session_id', m.session_id, 'role', m.role,
	'timestamp', m.timestamp, 'finish_reason', m.finish_reason, 'tool_call_id', m.tool_call_id,
	'tool_calls', CASE WHEN json_valid(m.tool_calls) THEN json((SELECT json_group_array(
		CASE c.type WHEN 'object' THEN json_extract(c.value, '$.id') END) FROM json_each(m.tool_calls) c)) END,
	'display_kind', m.display_kind, 'observed', m.observed, '_compressed_summary', m._compressed_summary, 'session', ` + hermesOwner + `)
	FROM messages m LEFT JOIN sessions s ON s.id = m.session_id LEFT JOIN sessions p ON p.id = s.parent_session_id
	WHERE m.id > ?1 ORDER BY m.id`

// hermesSessions selects sessions by the time of their last change, in
// milliseconds. A session's row is overwritten; states between two reads are lost.
const hermesSessions = `SELECT CAST(1000 * max(s.started_at, coalesce(s.last_activity_at, 0), coalesce(s.ended_at, 0)) AS INTEGER) AS n,
	json_object('table', 'sessions', 'session_id', s.id, 'session', ` + hermesOwner + `)
	FROM sessions s LEFT JOIN sessions p ON p.id = s.parent_session_id WHERE n > ?1 ORDER BY n`

const hermesStored = `SELECT CAST(1000 * max(started_at, coalesce(last_activity_at, 0), coalesce(ended_at, 0)) AS INTEGER) AS n,
	json_object('id', id, 'dir', cwd) FROM sessions WHERE n > ?1 ORDER BY n`
