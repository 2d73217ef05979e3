package supervisor

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/manifests"
	"lifeloop/profiles"
	"lifeloop/synth"
	"lifeloop/telemetry"
)

// here is the working folder in the recordings.
const here = "/home/dev/project"

// A kept session is one that a harness wrote: its id, and its records in the order of
// writing.
type kept struct {
	id      string
	records [][]byte
}

// recordedSession reads a session from a recording whose records are in the form that the
// profile's decoder reads.
func recordedSession(t *testing.T, name, member, id string) kept {
	t.Helper()
	k := kept{id: cmp.Or(id, strings.TrimSuffix(filepath.Base(name), ".jsonl"))}
	for line := range bytes.Lines(recording(t, name)) {
		var r map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(line, &r))
		if member == "" || string(r[member]) == fmt.Sprintf("%q", id) {
			k.records = append(k.records, bytes.TrimSpace(line))
		}
	}
	require.NotEmpty(t, k.records)
	return k
}

// session is the harness's id of the session.
func (k kept) session(p profiles.Profile) string {
	d := p.Transcript.Decoder()
	for _, r := range k.records {
		for _, sig := range d.Decode(r) {
			if sig.Session != "" {
				return sig.Session
			}
		}
	}
	return k.id
}

// split returns the records up to the second prompt, and the rest.
func (k kept) split(t *testing.T, p profiles.Profile) (first, rest kept) {
	t.Helper()
	d, prompts := p.Transcript.Decoder(), 0
	for i, r := range k.records {
		for _, sig := range d.Decode(r) {
			if sig.Kind == telemetry.Prompt && sig.Agent == "" {
				prompts++
			}
		}
		if prompts == 2 {
			return kept{k.id, k.records[:i]}, kept{k.id, k.records[i:]}
		}
	}
	t.Fatal("the recording has one prompt")
	return k, k
}

// appended returns a function that appends the records to a file of the home.
func appended(path string) func(t *testing.T, home string, k kept) {
	return func(t *testing.T, home string, k kept) {
		write(t, filepath.Join(home, fmt.Sprintf(path, k.id)), string(bytes.Join(k.records, []byte("\n")))+"\n")
	}
}

// newest is the time of the last change of a session, in Unix milliseconds. Each insertion
// increments it, so that the inserted session is the newest.
var newest int64 = 1795300000000

// inOpencode inserts the records into OpenCode's database.
func inOpencode(t *testing.T, home string, k kept) {
	w := writeTo(t, folder(t, home, ".local/share/opencode/opencode.db"))
	w.do(`CREATE TABLE IF NOT EXISTS session (id text PRIMARY KEY, directory text, parent_id text, time_updated integer)`)
	w.do(`CREATE TABLE IF NOT EXISTS event (id text, aggregate_id text, seq integer, type text, data text)`)
	newest++
	w.do(`INSERT INTO session VALUES (?1, ?2, NULL, ?3) ON CONFLICT(id) DO UPDATE SET time_updated = ?3`, k.id, here, newest)
	for _, r := range k.records {
		w.do(`INSERT INTO event SELECT r->>'id', r->>'aggregate_id', r->>'seq', r->>'type', r->'data' FROM (SELECT ?1 AS r)`, string(r))
	}
}

// inOpenclaw inserts the records into OpenClaw's database.
func inOpenclaw(t *testing.T, home string, k kept) {
	path := folder(t, home, ".openclaw/agents/main/agent/openclaw-agent.sqlite")
	_, err := os.Stat(path)
	w := writeTo(t, path)
	if err != nil {
		w.do(string(recording(t, "openclaw/schema.sql")))
	}
	newest++
	w.do(`INSERT INTO session_nodes(session_key, current_session_id, entry_json, updated_at) VALUES (?1, ?1, ?2, ?3)
		ON CONFLICT(session_key) DO UPDATE SET updated_at = ?3`, k.id, `{"contextTokens":200000}`, newest)
	for _, r := range k.records {
		w.do(`INSERT INTO transcript_events(session_id, seq, event_json, created_at)
			SELECT r->>'session_id', r->>'seq', r->'event', r->>'created_at' FROM (SELECT ?1 AS r)`, string(r))
	}
}

// inHermes inserts one turn for each record. The turns are made up: no recorded session of
// Hermes is used.
func inHermes(t *testing.T, home string, k kept) {
	path := folder(t, home, ".hermes/state.db")
	_, err := os.Stat(path)
	w := writeTo(t, path)
	if err != nil {
		w.do(string(recording(t, "hermes/state.sql")))
		w.do(`DELETE FROM messages`)
		w.do(`DELETE FROM sessions`)
	}
	newest++
	at := float64(newest) / 1000
	w.do(`INSERT INTO sessions (id, source, model, model_config, started_at, cwd, last_activity_at) VALUES (?1, 'cli', 'm1', '{}', ?2, ?3, ?2)
		ON CONFLICT(id) DO UPDATE SET last_activity_at = ?2`, k.id, at, here)
	for range k.records {
		w.do(`INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, 'user', 'q', ?)`, k.id, at)
		w.do(`INSERT INTO messages (session_id, role, content, timestamp, finish_reason) VALUES (?, 'assistant', 'a', ?, 'stop')`, k.id, at)
	}
}

// TestSuccessors: an observer of each harness finds the newest session of a folder. Then
// it follows the one that gets the next prompt there: another one, and then the first
// one again.
func TestSuccessors(t *testing.T) {
	turn := [][]byte{nil}
	for _, c := range []struct {
		adapter     string
		put         func(t *testing.T, home string, k kept)
		first, next func(t *testing.T) kept
		window      map[int64]bool // the context windows in the pressure events
	}{
		{"claude", appended(".claude/projects/p/%s.jsonl"), func(t *testing.T) kept {
			return recordedSession(t, "claude/transcripts/climbing_usage.jsonl", "", "")
		}, func(t *testing.T) kept { return recordedSession(t, "claude/transcripts/clear-2-after.jsonl", "", "") }, map[int64]bool{200000: true}},
		{"codex", appended(".codex/sessions/2026/11/23/rollout-%s.jsonl"), func(t *testing.T) kept {
			return recordedSession(t, "codex/rollouts/manual-compact.tui.jsonl", "", "")
		}, func(t *testing.T) kept { return recordedSession(t, "codex/rollouts/after-clear.tui.jsonl", "", "") }, map[int64]bool{258400: true}},
		{"gemini", appended(".gemini/tmp/project/chats/session-%s.jsonl"), func(t *testing.T) kept {
			return recordedSession(t, "gemini/chats/interactive-error-cancel-compress-auto.jsonl", "", "")
		}, func(t *testing.T) kept {
			return recordedSession(t, "gemini/chats/after-clear-then-resumed.jsonl", "", "")
		}, map[int64]bool{1048576: true}},
		{"opencode", inOpencode, func(t *testing.T) kept {
			return recordedSession(t, "opencode/store/db-event.jsonl", "aggregate_id", "ses_e02ebf0afffeOlSdLY8WwkhVU5")
		}, func(t *testing.T) kept {
			return recordedSession(t, "opencode/store/db-event.jsonl", "aggregate_id", "ses_e02ecb8bbffePthoMw81mLsr1l")
		}, map[int64]bool{}},
		{"openclaw", inOpenclaw, func(t *testing.T) kept {
			return recordedSession(t, "openclaw/transcript_events.jsonl", "session_id", "8b4968fe-eaa7-41e5-9562-b5d93d4bd470")
		}, func(t *testing.T) kept {
			return recordedSession(t, "openclaw/transcript_events.jsonl", "session_id", "19140593-0e6d-4029-86b8-063a3237de78")
		}, map[int64]bool{200000: true}},
		{"hermes", inHermes, func(*testing.T) kept { return kept{"20260102_030400_aaaaaa", turn} },
			func(*testing.T) kept { return kept{"20260102_030500_bbbbbb", turn} }, map[int64]bool{}},
	} {
		t.Run(c.adapter, func(t *testing.T) {
			profile, ok := profiles.For(c.adapter)
			require.True(t, ok)
			home := t.TempDir()
			first, next := c.first(t), c.next(t)
			again := first
			if c.adapter != "hermes" {
				first, again = first.split(t, profile)
			}
			c.put(t, home, first)
			o := observeFolder(t, profile, home)
			c.put(t, home, next)
			o.await(t, next.session(profile))
			c.put(t, home, again)
			o.await(t, first.session(profile))
			o.stop()
			var began []string
			windows := map[int64]bool{}
			for _, e := range o.events {
				switch e.Event {
				case lifeloop.SessionStarted:
					if e.Evidence[0].Source != kernel.FolderSource {
						continue // OpenClaw cleared the session, which keeps its id
					}
					began = append(began, fmt.Sprint(*e.HarnessSessionID, " ", e.Data["cause"]))
				case lifeloop.ContextPressureObserved:
					if tokens, ok := e.Data["window_tokens"].(int64); ok {
						windows[tokens] = true
					}
				}
			}
			require.Equal(t, []string{next.session(profile) + " unknown", first.session(profile) + " resume"}, began)
			require.Equal(t, c.window, windows)
		})
	}
}

// TestTurnRuns: while a turn of the followed session runs, a prompt in another session is
// not followed. The signals of one record are in the order in which decoders report them.
func TestTurnRuns(t *testing.T) {
	const prompt, usage, call, result = telemetry.Prompt, telemetry.UsageSeen, telemetry.ToolStart, telemetry.ToolEnd
	const stop, end = telemetry.TurnStop, telemetry.TurnEnd
	for _, c := range []struct {
		name    string
		records [][]telemetry.Kind // signals in each record of the session being followed
		runs    bool
	}{
		{"a prompt", [][]telemetry.Kind{{prompt}}, true},
		{"an answer", [][]telemetry.Kind{{prompt}, {usage}}, false},
		{"an answer with a tool call", [][]telemetry.Kind{{prompt}, {usage, call}}, true},
		{"a tool call before its usage", [][]telemetry.Kind{{prompt}, {call, usage}}, true},
		{"a tool's result", [][]telemetry.Kind{{prompt}, {usage}, {result}}, true},
		{"a tool's result, and the turn was interrupted", [][]telemetry.Kind{{prompt}, {usage, call}, {result, end}}, false},
		{"the end of a turn with the next prompt", [][]telemetry.Kind{{prompt}, {end, prompt}}, true},
		{"a prompt whose turn's end was written before it", [][]telemetry.Kind{{prompt, end}}, false},
		{"a prompt that is reported with its answer and stop", [][]telemetry.Kind{{prompt, usage, stop}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var followed []bool
			s := &Successors{Found: []Found{{Session: "a"}, {Session: "b"}}, Prompted: func(_ string, to bool) { followed = append(followed, to) }}
			s.start(&Files{post: func(input.Input) {}})
			see := func(session string, kinds []telemetry.Kind) {
				var in input.SignalsSeen
				for _, kind := range kinds {
					in.Signals = append(in.Signals, telemetry.Signal{Kind: kind, Session: session})
				}
				s.sees("", in)
			}
			for _, record := range c.records {
				see("a", record)
			}
			see("b", []telemetry.Kind{prompt})
			require.Equal(t, []bool{!c.runs}, followed)
		})
	}
}

// record is a record of a Claude Code session in the folder, with a prompt.
func record(session string, at time.Time, agent bool) string {
	return fmt.Sprintf(`{"cwd":%q,"type":"user","message":{"content":"hello"},"promptId":"p","promptSource":"typed","uuid":"u","timestamp":%q,"sessionId":%q,"isSidechain":%t}`+"\n",
		here, stampOf(at), session, agent)
}

// TestAnOldSession: the files of a folder's oldest sessions are not held open, but a
// resumed one is followed.
func TestAnOldSession(t *testing.T) {
	profile, _ := profiles.For("claude")
	home := t.TempDir()
	path := func(n int) string { return filepath.Join(home, fmt.Sprintf(".claude/projects/p/s%d.jsonl", n)) }
	for n := range maxSuccessors + 2 {
		at := time.Now().Add(-time.Hour - time.Duration(n)*time.Minute)
		write(t, path(n), record(fmt.Sprint("s", n), at, false))
		require.NoError(t, os.Chtimes(path(n), at, at))
	}
	o := observeFolder(t, profile, home)
	write(t, path(maxSuccessors+1), record(fmt.Sprint("s", maxSuccessors+1), time.Now().Add(time.Second), false))
	o.await(t, fmt.Sprint("s", maxSuccessors+1))
	o.stop()
	require.Equal(t, 1, len(slices.DeleteFunc(o.events, func(e lifeloop.EventRecord) bool { return e.Event != lifeloop.FrameOpened })), "its earlier prompt is not a turn")
}

// TestSubAgentOfAnotherSession: a sub-agent of another session is no sign of life of the
// followed one, and its records are not posted.
func TestSubAgentOfAnotherSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		posted := 0
		var followed []bool
		s := &Successors{Found: []Found{{Session: "a", Source: profiles.Source{Path: "/p/a.jsonl"}}, {Session: "c", Source: profiles.Source{Path: "/p/c.jsonl"}}},
			Place:    profiles.Place{Whose: func([]byte, string) (string, bool) { return "", false }},
			Prompted: func(_ string, to bool) { followed = append(followed, to) }}
		s.paths = map[string]string{"/p/a.jsonl": "a", "/p/b.jsonl": "b", "/p/c.jsonl": "c"}
		s.files, s.followed, s.last = &Files{post: func(input.Input) { posted++ }}, "a", time.Now()
		s.known, s.held, s.passed = map[string]bool{}, map[string][]input.SignalsSeen{}, map[string]bool{}
		prompt := func(session string) input.SignalsSeen {
			return input.SignalsSeen{Signals: []telemetry.Signal{{Kind: telemetry.Prompt, Session: session}}}
		}
		s.sees("/p/a.jsonl", prompt("a"))
		require.Equal(t, 1, posted)
		for range 3 {
			time.Sleep(time.Minute)
			s.sees("/p/c/subagents/agent-1.jsonl", input.SignalsSeen{Signals: []telemetry.Signal{{Kind: telemetry.UsageSeen, Agent: "1", Session: "c"}}})
		}
		require.Equal(t, 1, posted)
		s.sees("/p/b.jsonl", prompt("b"))
		require.Equal(t, []bool{true}, followed)
	})
}

// A folderObserver follows a session of a folder, as `observe` without a PATH does.
type folderObserver struct {
	stop func()

	mu     sync.Mutex
	events []lifeloop.EventRecord
}

func observeFolder(t *testing.T, profile profiles.Profile, home string) *folderObserver {
	t.Helper()
	places := profile.Places(profiles.Host{Env: []string{"HOME=" + home}, Dir: here})
	found, err := Find(places, here)
	require.NoError(t, err)
	require.NotEmpty(t, found)
	manifest, _ := manifests.Get(profile.Adapter)
	ids := 0
	k := kernel.New(kernel.Config{Session: "observed", Observing: true,
		Launch: setup.Launch{Manifest: manifest, HarnessSession: found[0].Session, Synth: synth.Config{Estimates: profile.Estimates}},
		NewID:  func(prefix string) string { ids++; return fmt.Sprint(prefix, ids) }})
	o := &folderObserver{}
	files, err := NewFiles(Files{Fixed: profile.Together(found[0].Source), Named: profile.Transcript, AtEnd: true,
		Sessions: &Successors{Place: places[0], Dir: here, Found: found, Prompted: func(string, bool) {}}})
	require.NoError(t, err)
	files.Launched(0)
	signals, ended := make(chan os.Signal, 1), make(chan error)
	go func() {
		_, err := Observe(t.Context(), k, files, Ports{Signals: signals}, Options{}, each(func(e kernel.Entry) error {
			if seen, ok := e.Fact.(kernel.Observed); ok {
				o.mu.Lock()
				defer o.mu.Unlock()
				o.events = append(o.events, seen.Record)
			}
			return nil
		}))
		ended <- err
	}()
	o.stop = func() {
		signals <- os.Interrupt
		require.NoError(t, <-ended)
	}
	return o
}

// await waits until a session has a frame. Then all records that were written
// with its prompt have been read.
func (o *folderObserver) await(t *testing.T, session string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		o.mu.Lock()
		has := slices.ContainsFunc(o.events, func(e lifeloop.EventRecord) bool {
			return e.Event == lifeloop.FrameOpened && e.HarnessSessionID != nil && *e.HarnessSessionID == session
		})
		o.mu.Unlock()
		if has {
			return
		}
		require.True(t, time.Now().Before(end), "session %s was not followed", session)
	}
}
