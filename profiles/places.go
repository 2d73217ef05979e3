package profiles

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
)

// A Place is where a harness keeps its sessions: files below a folder, each of
// one session, or databases of many. That a session lies there says nothing of
// who runs it.
type Place struct {
	Source  Source // how such a session is read; its Path is that of what is found
	Dir     string // absolute
	Pattern string // of the files below it, element by element as in filepath.Match
	// Whose reads from the beginning of a file which session it is of, and
	// whether that is of the working folder dir; nil for a database.
	Whose func(head []byte, dir string) (session string, here bool)
	// Sessions is a query for the sessions of a database, of the form of
	// Source.Query: the time of a session's last change in Unix milliseconds, and
	// {"id","dir"}.
	Sessions string
}

// Places says where this adapter's sessions lie for who runs as Host; none
// where nothing is known of it.
func (p Profile) Places(h Host) []Place {
	if p.places == nil {
		return nil
	}
	return p.places(h, p.Transcript)
}

func claudePlaces(h Host, transcript Source) []Place {
	dir := h.home("CLAUDE_CONFIG_DIR", ".claude")
	if dir == "" {
		return nil
	}
	return []Place{{Source: transcript, Dir: filepath.Join(dir, "projects"), Pattern: "*/*.jsonl", Whose: func(head []byte, dir string) (string, bool) {
		var id string
		var here bool
		lines(head, func(line []byte) bool {
			var r struct {
				SessionID string `json:"sessionId"`
				Cwd       string `json:"cwd"`
			}
			if json.Unmarshal(line, &r) != nil || r.SessionID == "" || r.Cwd == "" {
				return true // the first lines are housekeeping
			}
			id, here = r.SessionID, r.Cwd == dir
			return false
		})
		return id, here
	}}}
}

func codexPlaces(h Host, rollout Source) []Place {
	dir := h.home("CODEX_HOME", ".codex")
	if dir == "" {
		return nil
	}
	return []Place{{Source: rollout, Dir: filepath.Join(dir, "sessions"), Pattern: "*/*/*/rollout-*.jsonl", Whose: func(head []byte, dir string) (string, bool) {
		var id string
		var here bool
		lines(head, func(line []byte) bool {
			var r struct {
				Type    string `json:"type"`
				Payload struct {
					ID  string `json:"id"`
					Cwd string `json:"cwd"`
				} `json:"payload"`
			}
			if json.Unmarshal(line, &r) == nil && r.Type == "session_meta" {
				id, here = r.Payload.ID, r.Payload.Cwd == dir
			}
			return false // it is the first line, or it is no rollout
		})
		return id, here
	}}}
}

func geminiPlaces(h Host, chat Source) []Place {
	home := h.home("GEMINI_CLI_HOME", ".")
	if home == "" {
		return nil
	}
	return []Place{{Source: chat, Dir: filepath.Join(home, ".gemini", "tmp"), Pattern: "*/chats/session-*.jsonl", Whose: func(head []byte, dir string) (string, bool) {
		var id string
		var here bool
		lines(head, func(line []byte) bool {
			var r struct {
				SessionID   string `json:"sessionId"`
				ProjectHash string `json:"projectHash"`
				Kind        string `json:"kind"`
			}
			if json.Unmarshal(line, &r) == nil && r.Kind == "main" {
				sum := sha256.Sum256([]byte(dir)) // of the folder's path
				id, here = r.SessionID, r.ProjectHash == hex.EncodeToString(sum[:])
			}
			return false
		})
		return id, here
	}}}
}

func opencodePlaces(h Host, store Source) []Place {
	dir := h.home("XDG_DATA_HOME", filepath.Join(".local", "share"))
	if dir == "" {
		return nil
	}
	return []Place{{Source: store, Dir: filepath.Join(dir, "opencode"), Pattern: "opencode.db", Sessions: `SELECT time_updated,
		json_object('id', id, 'dir', directory) FROM session WHERE time_updated > ?1 AND parent_id IS NULL ORDER BY time_updated`}}
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

func hermesPlaces(h Host, messages Source) []Place {
	dir := h.home("HERMES_HOME", ".hermes")
	if dir == "" {
		return nil
	}
	return []Place{{Source: messages, Dir: dir, Pattern: "state.db", Sessions: `SELECT CAST(1000 * max(started_at,
		coalesce(last_activity_at, 0), coalesce(ended_at, 0)) AS INTEGER) AS n, json_object('id', id, 'dir', cwd)
		FROM sessions WHERE n > ?1 ORDER BY n`}}
}

// lines calls f with each whole line of head until it returns false.
func lines(head []byte, f func(line []byte) bool) {
	for {
		line, rest, whole := bytes.Cut(head, []byte("\n"))
		if !whole || !f(line) {
			return
		}
		head = rest
	}
}
